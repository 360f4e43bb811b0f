"""ConSE: zero-shot learning by convex combination of semantic embeddings (Norouzi et al., 2013)."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.utils.validation import check_is_fitted

from unseen.base import Matrix, TrainingProblem
from unseen.baselines._linear import logistic_regression, unit_rows
from unseen.baselines._scored import ScoredTagger
from unseen.validation import check_count, check_number


class ConSE(ScoredTagger):
    r"""Cosine between a label and the convex combination of the labels that an image seems to show.

    With the probabilities p_k(x) of the seen labels and the set T(x) of the ``n_top`` most probable ones::

        f(x) = sum_{k in T(x)} p_k(x) m_k / sum_{k in T(x)} p_k(x),      score(x, c) = cos(f(x), m_c)

    where each p_k is a logistic regression that minimises, over w_k and b_k,
    ``sum over known (i, k) of log(1 + exp(-t_ik (x_i w_k + b_k))) + |w_k|^2 / (2 C)``.

    Multi-label adaptation: Norouzi et al. take the probabilities from a classifier over classes that exclude each
    other; here every seen label has a classifier of its own, and the weights of an image are normalised over its
    best ones. A seen label is scored as any other, by its vector. A label whose known annotations all agree gets a
    constant probability, their rate smoothed by one more entry. With a single seen label every image would lie at
    its vector: there the cosine is multiplied by the probability.

    `explain` splits the cosine over the labels of T(x): label k adds ``p_k <m_k, m_c> / (|sum_j p_j m_j| |m_c|)``.

    Parameters
    ----------
    n_top : int, default=10
        Seen labels in the combination (all of them if there are fewer); ties go to the earlier label.
    C : float, default=1.0
        Inverse strength of the penalty of the classifiers; their losses are summed over the images.
    normalize : bool, default=True
        Scale features and label vectors to unit length.
    center : bool, default=True
        Subtract the mean of the label vectors given to `fit` (before scaling), also from labels asked for later.

    Attributes
    ----------
    weights_ : ndarray of shape (n_features, n_seen)
        Of the classifiers of the seen labels.
    bias_ : ndarray of shape (n_seen,)
        Of the classifiers of the seen labels.
    seen_vectors_ : ndarray of shape (n_seen, n_dims)
        Seen label vectors as they are combined: centred and scaled.
    n_top_ : int
        The n_top of this fit.
    threshold_ : float
        What is subtracted from the cosines: the threshold of best micro-F1 over the known training entries.
    label_names_, label_vectors_, n_seen_
        The labels given to `fit`, the seen ones first.

    Examples
    --------
    >>> from unseen import make_tagged_scenes
    >>> from unseen.baselines.conse import ConSE
    >>> data = make_tagged_scenes(n_train=300, n_test=5)
    >>> model = ConSE(n_top=3).fit(data.X_train, data.Y_train[:, data.seen], data.seen_labels)
    >>> model.decision_function(data.X_test, data.unseen_labels).shape
    (5, 12)
    """

    def __init__(self, n_top: int = 10, C: float = 1.0, *, normalize: bool = True, center: bool = True) -> None:
        self.n_top = n_top
        self.C = C
        self.normalize = normalize
        self.center = center

    def semantic_vectors(self, X: Any) -> Matrix:
        """Where images lie among the label vectors: f(x), centred and scaled as the label vectors are.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_images, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n_images, n_dims)
        """
        check_is_fitted(self)
        return self._combine(self._check_images(X))

    def _learn(self, problem: TrainingProblem) -> None:
        n_top, C = check_count(self.n_top, "n_top"), check_number(self.C, "C", strict=True)
        self.weights_, self.bias_ = logistic_regression(problem.X, problem.T, C, normalize=self.normalize_)
        self.seen_vectors_ = problem.seen
        self.n_top_ = min(n_top, len(problem.seen))

    def _combine(self, X: Any) -> Matrix:
        vectors: Matrix = self._weights(X) @ self.seen_vectors_
        return vectors

    def _weights(self, X: Any) -> Matrix:
        """Share of each seen label in the combination of each image."""
        return top_shares(self._project(X, self.weights_) + self.bias_, self.n_top_)

    def _scores(self, X: Any, M: Matrix) -> Matrix:
        if len(self.seen_vectors_) == 1:  # one label: its vector is every image's, only the probability is left
            confidence: Matrix = self._project(X, self.weights_) + self.bias_
            likeness = unit_rows(self.seen_vectors_) @ unit_rows(M).T
            return np.asarray(expit(confidence) * likeness)
        scores: Matrix = unit_rows(self._combine(X)) @ unit_rows(M).T
        return scores

    def _seen_parts(self, X: Any, M: Matrix) -> Matrix:
        if len(self.seen_vectors_) == 1:
            return self._scores(X, M).ravel()
        parts: Matrix = self._weights(X).ravel() * (self.seen_vectors_ @ unit_rows(M)[0])
        length = np.linalg.norm(self._combine(X))
        return parts / length if length > 0.0 else parts


def top_shares(odds: Matrix, n_top: int) -> Matrix:
    """Probabilities of the ``n_top`` most probable labels of an image, divided by their sum; 0 for all others."""
    # Ranked by the odds: probabilities that round to 1 would tie.
    best = np.argsort(-odds, axis=1, kind="stable")[:, :n_top]
    shares = np.zeros_like(odds)
    np.put_along_axis(shares, best, expit(np.maximum(np.take_along_axis(odds, best, axis=1), -700.0)), axis=1)
    shares /= shares.sum(axis=1, keepdims=True)
    return shares
