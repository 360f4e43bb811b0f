"""LabelPropagation: the probabilities of the seen labels, propagated over a graph of labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit, softmax

from unseen.base import TrainingProblem
from unseen.baselines._linear import (
    ScoredTagger,
    logistic_regression,
    similarity_shares,
    unit_rows,
    with_known_rows,
)
from unseen.validation import Matrix, check_number


class LabelPropagation(ScoredTagger):
    r"""Probabilities of the seen labels, propagated over a graph of all labels to a fixed point.

    With the probabilities p(x) of the seen labels (0 for the unseen), and transition shares S between labels whose
    rows sum to 1, the scores f(x) of the labels given to `fit` solve::

        f = alpha S f + (1 - alpha) p,      that is      f = (1 - alpha) (I - alpha S)^-1 p

    which minimises, for symmetric relations R with degrees d,
    ``alpha/2 sum_cj R_cj (f_c - f_j)^2 + (1 - alpha) sum_c d_c (f_c - p_c)^2``. Each p_k is a logistic regression
    that minimises ``sum over known (i, k) of log(1 + exp(-t_ik (x_i w_k + b_k))) + |w_k|^2 / (2 C)``.

    Row c of S holds the ``relations`` of label c to the others (0 to itself), divided by their sum. A label
    without relations has ``exp(cos(m_c, m_j) / temperature)`` in their place. A label scored later is attached to
    the graph without altering it: ``f_c = alpha sum_j S_cj f_j`` with such similarities. In Zhou et al. (2003) the
    nodes are images, and S is D^-1/2 R D^-1/2 in place of the random walk D^-1 R.

    `explain`: each seen label adds its probability times its entry in the label's row of ``reach_``.

    Parameters
    ----------
    alpha : float, default=0.5
        Share of a label's score that comes from its neighbours, above 0 and below 1.
    C : float, default=1.0
        Inverse strength of the penalty of the classifiers; their losses are summed over the images.
    temperature : float, default=0.1
        How far similarities of label vectors reach: towards 0 only the nearest label counts.
    normalize, center : bool, default=True
        Scale features and label vectors to unit length, the latter after subtracting the mean of those in `fit`.

    Attributes
    ----------
    weights_, bias_ : ndarray of shape (n_features, n_seen) and (n_seen,)
        The classifiers of the seen labels.
    reach_ : ndarray of shape (n_seen + n_unseen, n_seen)
        ``(1 - alpha) (I - alpha S)^-1``, the columns of the seen labels.
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
            raise ValueError("alpha: 1.0 was given, which ignores the image. Pass a number below 1.")
        self.temperature_ = check_number(self.temperature, "temperature", strict=True)
        C = check_number(self.C, "C", strict=True)
        self.weights_, self.bias_ = logistic_regression(problem.X, problem.T, C, normalize=self.normalize_)
        self.embedded_ = np.vstack([problem.seen, problem.unseen])
        S = transitions(self.embedded_, problem.relations, self.temperature_)
        identity = np.eye(len(S))
        of_seen = (1.0 - self.alpha_) * identity[:, : self.n_seen_]
        self.reach_: Matrix = np.linalg.solve(identity - self.alpha_ * S, of_seen).astype(np.float64)

    def _scores(self, X: Any, M: Matrix) -> Matrix:
        return np.asarray(expit(self._project(X, self.weights_) + self.bias_) @ self._label_reach(M).T)

    def _seen_parts(self, X: Any, M: Matrix) -> Matrix:
        return np.asarray(expit(self._project(X, self.weights_)[0] + self.bias_) * self._label_reach(M)[0])

    def _label_reach(self, M: Matrix) -> Matrix:
        """How much of each seen label's probability reaches the labels M."""
        late = self.alpha_ * similarity_shares(M, self.embedded_, self.temperature_) @ self.reach_
        return with_known_rows(late, M, self.embedded_, self.reach_)


def transitions(M: Matrix, relations: Matrix | None, temperature: float) -> Matrix:
    """Shares S between the labels M; all zeros when there is only one."""
    if len(M) == 1:
        return np.zeros((1, 1))
    own, directions = np.eye(len(M), dtype=bool), unit_rows(M)
    S: Matrix = softmax(np.where(own, -np.inf, directions @ directions.T / temperature), axis=1)
    if relations is not None:
        related = np.where(own, 0.0, relations)
        S = np.where(related.any(axis=1, keepdims=True), related, S)
    return np.asarray(S / S.sum(axis=1, keepdims=True))
