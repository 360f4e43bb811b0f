"""COSTA: co-occurrence statistics for zero-shot classification (Mensink, Gavves & Snoek, 2014)."""

from __future__ import annotations

from typing import Any

import numpy as np

from unseen.base import TrainingProblem
from unseen.baselines._linear import ScoredTagger, logistic_regression, similarity_shares, with_known_rows
from unseen.validation import Matrix, check_number


class COSTA(ScoredTagger):
    r"""The classifier of a label as a weighted sum of the classifiers of the seen labels.

    Each seen label k has a linear classifier, w_k and b_k, that minimises
    ``sum over known (i, k) of log(1 + exp(-t_ik (x_i w_k + b_k))) + |w_k|^2 / (2 C)``. A label c is scored by::

        score(x, c) = sum_k a_ck (x w_k + b_k),      a_ck >= 0,  sum_k a_ck = 1

    The weights a_c of a label are, by the first rule that applies:

    1. seen label: its own classifier alone;
    2. label given to `fit` whose ``relations`` with the seen labels are not all zero: these, divided by their sum;
    3. any other label: ``exp(cos(m_c, m_k) / temperature)``, divided by their sum.

    Labels given to `fit` are recognised by their vectors.

    Differences from the paper: Mensink et al. take the weights from co-occurrences under several metrics, or learn
    them; here they are ``relations``, divided by their sum so that labels with many relations do not rank above
    all others. The classifiers are logistic regressions, and rule 3 is an addition.

    `explain`: seen label k adds ``a_ck (x w_k + b_k)``.

    Parameters
    ----------
    C : float, default=1.0
        Inverse strength of the penalty of the classifiers; their losses are summed over the images.
    temperature : float, default=0.1
        How far the weights from label vectors spread: towards 0 only the nearest seen label counts.
    normalize, center : bool, default=True
        Scale features and label vectors to unit length, the latter after subtracting the mean of those in `fit`.

    Attributes
    ----------
    weights_, bias_ : ndarray of shape (n_features, n_seen) and (n_seen,)
        The classifiers of the seen labels.
    shares_ : ndarray of shape (n_seen + n_unseen, n_seen)
        The weights a of the labels given to `fit`.
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

    def _scores(self, X: Any, M: Matrix) -> Matrix:
        return (self._project(X, self.weights_) + self.bias_) @ self._label_shares(M).T

    def _seen_parts(self, X: Any, M: Matrix) -> Matrix:
        return np.asarray((self._project(X, self.weights_)[0] + self.bias_) * self._label_shares(M)[0])

    def _label_shares(self, M: Matrix) -> Matrix:
        shares = similarity_shares(M, self.embedded_[: self.n_seen_], self.temperature_)
        return with_known_rows(shares, M, self.embedded_, self.shares_)


def label_shares(problem: TrainingProblem, temperature: float) -> Matrix:
    """Weights of the seen labels in each label given to `fit`: its own, its relations, or by its vector."""
    n_seen = len(problem.seen)
    shares = similarity_shares(np.vstack([problem.seen, problem.unseen]), problem.seen, temperature)
    if problem.relations is not None:
        related = problem.relations[:, :n_seen]
        shares = np.where(related.any(axis=1, keepdims=True), related, shares)
    shares[:n_seen] = np.eye(n_seen)
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))
