"""Classifiers of the seen labels, and what passes from them to other labels: COSTA and LabelPropagation."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, softmax

from unseen.base import TrainingProblem, seen_places
from unseen.baselines._linear import ScoredTagger, logistic_regression, unit_rows
from unseen.validation import Matrix, check_number


class _FromClassifiers(ScoredTagger):
    """Scores that are sums over the seen labels: what their classifiers say, times a weight in each label."""

    C: float
    temperature: float

    def _learn(self, problem: TrainingProblem) -> None:
        C = check_number(self.C, "C", strict=True)
        self.temperature_ = check_number(self.temperature, "temperature", strict=True)
        self._learn_weights(problem)
        self.weights_, self.bias_ = logistic_regression(problem.X, problem.T, C, normalize=self.normalize_)
        self.embedded_ = np.vstack([problem.seen, problem.unseen])

    @abstractmethod
    def _learn_weights(self, problem: TrainingProblem) -> None: ...

    @abstractmethod
    def _label_weights(self, M: Matrix) -> Matrix: ...

    def _evidence(self, X: Any) -> Matrix:
        return np.asarray(self._project(X, self.weights_) + self.bias_)

    def _scores(self, X: Any, M: Matrix) -> Matrix:
        return self._evidence(X) @ self._label_weights(M).T

    def _seen_parts(self, X: Any, M: Matrix) -> Matrix:
        return np.asarray(self._evidence(X)[0] * self._label_weights(M)[0])


@dataclass(eq=False, repr=False)
class COSTA(_FromClassifiers):
    r"""The classifier of a label as a weighted sum of the classifiers of the seen labels.

    Each seen label k has a linear classifier, w_k and b_k, that minimises
    ``sum over known (i, k) of log(1 + exp(-t_ik (x_i w_k + b_k))) + |w_k|^2 / (2 C)``. A label c is scored by::

        score(x, c) = sum_k a_ck (x w_k + b_k),      a_ck >= 0,  sum_k a_ck = 1

    The weights a_c of a label are, by the first rule that applies:

    1. seen label: its own classifier alone;
    2. label given to `fit` whose ``relations`` with the seen labels are not all zero: these, divided by their sum;
    3. any other label: ``exp(cos(m_c, m_k) / temperature)``, divided by their sum.

    Differences from the paper: Mensink et al. take the weights from co-occurrences under several metrics, or learn
    them. The classifiers are logistic regressions, and rule 3 is an addition.

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

    C: float = 1.0
    temperature: float = 0.1

    def _learn_weights(self, problem: TrainingProblem) -> None:
        n_seen = len(problem.seen)
        shares = similarity_shares(np.vstack([problem.seen, problem.unseen]), problem.seen, self.temperature_)
        if problem.relations is not None:
            related = problem.relations[:, :n_seen]
            shares = np.where(related.any(axis=1, keepdims=True), related, shares)
        shares[:n_seen] = np.eye(n_seen)
        self.shares_ = np.asarray(shares / shares.sum(axis=1, keepdims=True))

    def _label_weights(self, M: Matrix) -> Matrix:
        shares = similarity_shares(M, self.embedded_[: self.n_seen_], self.temperature_)
        return with_known_rows(shares, M, self.embedded_, self.shares_)


@dataclass(eq=False, repr=False)
class LabelPropagation(_FromClassifiers):
    r"""Probabilities of the seen labels, propagated over a graph of all labels to a fixed point.

    With the probabilities p(x) of the seen labels (0 for the unseen), and transition shares S between labels whose
    rows sum to 1, the scores f(x) of the labels given to `fit` solve::

        f = alpha S f + (1 - alpha) p,      that is      f = (1 - alpha) (I - alpha S)^-1 p

    which minimises, for symmetric relations R with degrees d,
    ``alpha/2 sum_cj R_cj (f_c - f_j)^2 + (1 - alpha) sum_c d_c (f_c - p_c)^2``. Each p_k is a logistic regression,
    the classifier of `COSTA`.

    Row c of S holds the ``relations`` of label c to the others (0 to itself), divided by their sum. A label
    without relations has ``exp(cos(m_c, m_j) / temperature)`` in their place. A label scored later is attached to
    the graph without altering it: ``f_c = alpha sum_j S_cj f_j`` with such similarities. In Zhou et al. (2003) the
    nodes are images, and S is D^-1/2 R D^-1/2 in place of the random walk D^-1 R.

    Parameters
    ----------
    alpha : float, default=0.5
        Share of a label's score that comes from its neighbours, above 0 and below 1.
    C, temperature, normalize, center
        As in `COSTA`; the temperature is that of similarities between all labels.

    Attributes
    ----------
    weights_, bias_
        As in `COSTA`.
    reach_ : ndarray of shape (n_seen + n_unseen, n_seen)
        ``(1 - alpha) (I - alpha S)^-1``, the columns of the seen labels.
    """

    alpha: float = 0.5
    C: float = 1.0
    temperature: float = 0.1

    def _learn_weights(self, problem: TrainingProblem) -> None:
        self.alpha_ = check_number(self.alpha, "alpha", high=1.0, strict=True)
        if self.alpha_ == 1.0:
            raise ValueError("alpha: 1.0 was given, which ignores the image. Pass a number below 1.")
        S = transitions(np.vstack([problem.seen, problem.unseen]), problem.relations, self.temperature_)
        identity = np.eye(len(S))
        of_seen = (1.0 - self.alpha_) * identity[:, : self.n_seen_]
        self.reach_: Matrix = np.linalg.solve(identity - self.alpha_ * S, of_seen).astype(np.float64)

    def _evidence(self, X: Any) -> Matrix:
        return np.asarray(expit(super()._evidence(X)))

    def _label_weights(self, M: Matrix) -> Matrix:
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


def similarity_shares(M: Matrix, N: Matrix, temperature: float) -> Matrix:
    """``exp(cos(m, n) / temperature)`` for each row m of M and n of N, divided by the sum of the row."""
    return np.asarray(softmax(unit_rows(M) @ unit_rows(N).T / temperature, axis=1))


def with_known_rows(rows: Matrix, M: Matrix, known: Matrix, known_rows: Matrix) -> Matrix:
    """``rows`` (one per label M), replaced for labels among ``known`` by the rows they have there."""
    places = seen_places(M, known)
    return np.where((places >= 0)[:, None], known_rows[places], rows)
