"""COSTA: co-occurrence statistics for zero-shot classification (Mensink, Gavves & Snoek, 2014)."""

from __future__ import annotations

from typing import Any

import numpy as np

from unseen.base import Matrix, TrainingProblem, seen_places
from unseen.baselines._linear import logistic_regression, similarity_shares
from unseen.baselines._scored import ScoredTagger
from unseen.validation import check_number


class COSTA(ScoredTagger):
    r"""The classifier of a label as a weighted sum of the classifiers of the seen labels.

    Each seen label k has a linear classifier, w_k and b_k, that minimises
    ``sum over known (i, k) of log(1 + exp(-t_ik (x_i w_k + b_k))) + |w_k|^2 / (2 C)``. A label c is scored by::

        score(x, c) = sum_k a_ck (x w_k + b_k),      a_ck >= 0,  sum_k a_ck = 1

    The weights a_c of a label are, by the first rule that applies:

    1. seen label: its own classifier alone;
    2. label given to `fit` whose ``relations`` with the seen labels are not all zero: these, divided by their sum;
    3. any other label: ``exp(cos(m_c, m_k) / temperature)``, divided by their sum.

    A label is recognised as one given to `fit` by its vector (by the first of several that share a vector).

    Multi-label adaptation: none is needed, Mensink et al. work on multi-labelled photos. They take the weights
    from co-occurrences (of annotations, or hit counts of web searches) under several metrics, or learn them by a
    regression; here they are whatever ``relations`` holds, divided by their sum so that labels with many relations
    do not stand above all others. The classifiers here are logistic regressions, and rule 3 for labels without
    counts is an addition.

    `explain` gives each seen label its part ``a_ck (x w_k + b_k)`` of the score.

    Parameters
    ----------
    C : float, default=1.0
        Inverse strength of the penalty of the classifiers; their losses are summed over the images.
    temperature : float, default=0.1
        How far the weights from label vectors spread: towards 0 only the nearest seen label counts.
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
    shares_ : ndarray of shape (n_seen + n_unseen, n_seen)
        The weights a of the labels given to `fit`.
    embedded_ : ndarray of shape (n_seen + n_unseen, n_dims)
        Their vectors, centred and scaled.
    temperature_ : float
        The temperature of this fit.
    threshold_ : float
        What is subtracted from the scores: the threshold of best micro-F1 over the known training entries.
    label_names_, label_vectors_, n_seen_
        The labels given to `fit`, the seen ones first.

    Examples
    --------
    >>> from unseen import make_tagged_scenes
    >>> from unseen.baselines.costa import COSTA
    >>> data = make_tagged_scenes(n_train=300, n_test=5)
    >>> model = COSTA().fit(data.X_train, data.Y_train[:, data.seen], data.seen_labels)
    >>> model.decision_function(data.X_test, data.unseen_labels).shape
    (5, 12)
    """

    def __init__(
        self, C: float = 1.0, temperature: float = 0.1, *, normalize: bool = True, center: bool = True
    ) -> None:
        self.C = C
        self.temperature = temperature
        self.normalize = normalize
        self.center = center

    def _learn(self, problem: TrainingProblem) -> None:
        C = check_number(self.C, "C", strict=True)
        self.temperature_ = check_number(self.temperature, "temperature", strict=True)
        self.weights_, self.bias_ = logistic_regression(problem.X, problem.T, C, normalize=self.normalize_)
        self.embedded_ = np.vstack([problem.seen, problem.unseen])
        self.shares_ = label_shares(problem, self.temperature_)

    def _label_shares(self, M: Matrix) -> Matrix:
        shares = similarity_shares(M, self.embedded_[: self.n_seen_], self.temperature_)
        places = seen_places(M, self.embedded_)
        shares[places >= 0] = self.shares_[places[places >= 0]]
        return shares

    def _scores(self, X: Any, M: Matrix) -> Matrix:
        scores: Matrix = self._odds(X) @ self._label_shares(M).T
        return scores

    def _seen_parts(self, X: Any, M: Matrix) -> Matrix:
        parts: Matrix = self._odds(X)[0] * self._label_shares(M)[0]
        return parts

    def _odds(self, X: Any) -> Matrix:
        odds: Matrix = self._project(X, self.weights_) + self.bias_
        return odds


def label_shares(problem: TrainingProblem, temperature: float) -> Matrix:
    """Weights of the seen labels in each label given to `fit`: its own, its relations, or by its vector."""
    n_seen = len(problem.seen)
    shares = similarity_shares(np.vstack([problem.seen, problem.unseen]), problem.seen, temperature)
    if problem.relations is not None:
        related = problem.relations[:, :n_seen]
        shares = np.where(related.any(axis=1, keepdims=True), related, shares)
    shares[:n_seen] = np.eye(n_seen)
    weights: Matrix = shares / shares.sum(axis=1, keepdims=True)
    return weights
