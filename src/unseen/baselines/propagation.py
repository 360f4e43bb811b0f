"""LabelPropagation: what is believed of the seen labels flows over a graph of labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit

from unseen.base import Matrix, TrainingProblem, seen_places
from unseen.baselines._linear import logistic_regression, similarity_shares
from unseen.baselines._scored import ScoredTagger
from unseen.validation import check_number


class LabelPropagation(ScoredTagger):
    r"""Probabilities of the seen labels, propagated over a graph of all labels to a fixed point.

    With the probabilities p(x) of the seen labels (0 for the unseen), and transition shares S between labels whose
    rows sum to 1, the scores f(x) of the labels given to `fit` solve::

        f = alpha S f + (1 - alpha) p,      that is      f = (1 - alpha) (I - alpha S)^-1 p

    which minimises, for symmetric relations R with degrees d,
    ``alpha/2 sum_cj R_cj (f_c - f_j)^2 + (1 - alpha) sum_c d_c (f_c - p_c)^2``. Each p_k is a logistic regression
    that minimises ``sum over known (i, k) of log(1 + exp(-t_ik (x_i w_k + b_k))) + |w_k|^2 / (2 C)``.

    The graph is fixed at `fit`: row c of S holds the ``relations`` of label c to the others (0 to itself), divided
    by their sum. A label without relations, and every label when none are given, has the similarities
    ``exp(cos(m_c, m_j) / temperature)`` in their place. A label that comes later attaches to the graph
    without altering it: ``f_c = alpha sum_j S_cj f_j`` with such similarities, the equation that an unseen label
    of the graph obeys too. So its score depends on no other label that is asked for. A label is recognised as one
    of the graph by its vector (by the first of several that share a vector).

    Multi-label adaptation: in Zhou et al. (2003) the nodes are images and the classes exclude each other. Here the
    nodes are labels, the image's own probabilities are what is propagated, and S is the random walk D^-1 R in
    place of D^-1/2 R D^-1/2, so that a late label needs no relations of the same scale.

    `explain` gives each seen label its part of the score: its probability times what of it arrives at the label.

    Parameters
    ----------
    alpha : float, default=0.5
        Share of a label's score that comes from its neighbours, above 0 and below 1.
    C : float, default=1.0
        Inverse strength of the penalty of the classifiers; their losses are summed over the images.
    temperature : float, default=0.1
        How far similarities of label vectors reach: towards 0 only the nearest label counts.
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
    reach_ : ndarray of shape (n_seen + n_unseen, n_seen)
        ``(1 - alpha) (I - alpha S)^-1``, the columns of the seen labels.
    embedded_ : ndarray of shape (n_seen + n_unseen, n_dims)
        Vectors of the labels of the graph, centred and scaled.
    alpha_, temperature_ : float
        Parameters of this fit.
    threshold_ : float
        What is subtracted from the scores: the threshold of best micro-F1 over the known training entries.
    label_names_, label_vectors_, n_seen_
        The labels given to `fit`, the seen ones first.

    Examples
    --------
    >>> from unseen import make_tagged_scenes
    >>> from unseen.baselines.propagation import LabelPropagation
    >>> data = make_tagged_scenes(n_train=300, n_test=5)
    >>> Y = data.Y_train[:, data.seen]
    >>> model = LabelPropagation().fit(data.X_train, Y, data.seen_labels, data.unseen_labels)
    >>> model.decision_function(data.X_test, "unseen").shape
    (5, 12)
    """

    def __init__(
        self,
        alpha: float = 0.5,
        C: float = 1.0,
        temperature: float = 0.1,
        *,
        normalize: bool = True,
        center: bool = True,
    ) -> None:
        self.alpha = alpha
        self.C = C
        self.temperature = temperature
        self.normalize = normalize
        self.center = center

    def _learn(self, problem: TrainingProblem) -> None:
        self.alpha_ = check_number(self.alpha, "alpha", high=1.0, strict=True)
        if self.alpha_ == 1.0:
            raise ValueError("alpha: 1.0 was given, which forgets the image. Pass a number below 1.")
        self.temperature_ = check_number(self.temperature, "temperature", strict=True)
        C = check_number(self.C, "C", strict=True)
        self.weights_, self.bias_ = logistic_regression(problem.X, problem.T, C, normalize=self.normalize_)
        self.embedded_ = np.vstack([problem.seen, problem.unseen])
        S = self._transitions(problem.relations)
        identity = np.eye(len(S))
        self.reach_ = np.linalg.solve(
            identity - self.alpha_ * S, (1.0 - self.alpha_) * identity[:, : self.n_seen_]
        )

    def _transitions(self, relations: Matrix | None) -> Matrix:
        """S of the labels given to fit; all zeros when there is only one."""
        n_labels = len(self.embedded_)
        S = np.zeros((n_labels, n_labels))
        if n_labels > 1:
            for c, vector in enumerate(self.embedded_):
                others = np.arange(n_labels) != c
                S[c, others] = similarity_shares(vector[None], self.embedded_[others], self.temperature_)[0]
        if relations is not None:
            related = np.where(np.eye(n_labels, dtype=bool), 0.0, relations)
            kept = related.any(axis=1)
            S[kept] = related[kept] / related[kept].sum(axis=1, keepdims=True)
        return S

    def _label_reach(self, M: Matrix) -> Matrix:
        """How much of each seen label's probability arrives at the labels M."""
        reach: Matrix = self.alpha_ * similarity_shares(M, self.embedded_, self.temperature_) @ self.reach_
        places = seen_places(M, self.embedded_)
        reach[places >= 0] = self.reach_[places[places >= 0]]
        return reach

    def _scores(self, X: Any, M: Matrix) -> Matrix:
        scores: Matrix = self._probabilities(X) @ self._label_reach(M).T
        return scores

    def _seen_parts(self, X: Any, M: Matrix) -> Matrix:
        parts: Matrix = self._probabilities(X)[0] * self._label_reach(M)[0]
        return parts

    def _probabilities(self, X: Any) -> Matrix:
        return np.asarray(expit(self._project(X, self.weights_) + self.bias_))
