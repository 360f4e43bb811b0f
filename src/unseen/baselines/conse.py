"""ConSE: zero-shot learning by convex combination of semantic embeddings (Norouzi et al., 2013)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from unseen.base import TrainingProblem
from unseen.baselines._linear import ScoredTagger, logistic_regression, unit_rows
from unseen.validation import Matrix, check_count, check_number


@dataclass(eq=False, repr=False)
class ConSE(ScoredTagger):
    r"""Cosine between a label and the convex combination of an image's most probable labels.

    With the probabilities p_k(x) of the seen labels and the set T(x) of the ``n_top`` most probable ones::

        f(x) = sum_{k in T(x)} p_k(x) m_k / sum_{k in T(x)} p_k(x),      score(x, c) = cos(f(x), m_c)

    where each p_k is a logistic regression that minimises, over w_k and b_k,
    ``sum over known (i, k) of log(1 + exp(-t_ik (x_i w_k + b_k))) + |w_k|^2 / (2 C)``.

    Differences from the paper: every seen label has its own classifier, where Norouzi et al. use one over
    mutually exclusive classes. A label whose known annotations all agree gets a constant probability. With a
    single seen label every image would lie at its vector: there the cosine is multiplied by the probability.

    Parameters
    ----------
    n_top : int, default=10
        Seen labels in the combination (all of them if there are fewer); ties go to the earlier label.
    C : float, default=1.0
        Inverse strength of the penalty of the classifiers; their losses are summed over the images.
    normalize, center : bool, default=True
        Scale features and label vectors to unit length, the latter after subtracting the mean of those in `fit`.

    Attributes
    ----------
    weights_, bias_ : ndarray of shape (n_features, n_seen) and (n_seen,)
        The classifiers of the seen labels.
    """

    n_top: int = 10
    C: float = 1.0

    def _learn(self, problem: TrainingProblem) -> None:
        self.n_top_, C = check_count(self.n_top, "n_top"), check_number(self.C, "C", strict=True)
        self.weights_, self.bias_ = logistic_regression(problem.X, problem.T, C, normalize=self.normalize_)
        self.seen_vectors_ = problem.seen

    def _scores(self, X: Any, M: Matrix) -> Matrix:
        odds = self._project(X, self.weights_) + self.bias_
        combined = unit_rows(top_shares(odds, self.n_top_) @ self.seen_vectors_)
        scores: Matrix = combined @ unit_rows(M).T
        return scores * expit(odds) if len(self.seen_vectors_) == 1 else scores

    def _seen_parts(self, X: Any, M: Matrix) -> Matrix:
        if len(self.seen_vectors_) == 1:
            return self._scores(X, M).ravel()
        shares = top_shares(self._project(X, self.weights_) + self.bias_, self.n_top_)[0]
        parts: Matrix = shares * (self.seen_vectors_ @ unit_rows(M)[0])
        return parts / (np.linalg.norm(shares @ self.seen_vectors_) or 1.0)


def top_shares(odds: Matrix, n_top: int) -> Matrix:
    """Probabilities of the ``n_top`` most probable labels per image, divided by their sum; 0 for all others."""
    # Ranked by odds: probabilities that round to 1 would tie.
    best = np.argsort(-odds, axis=1, kind="stable")[:, :n_top]
    shares = np.zeros_like(odds)
    np.put_along_axis(shares, best, expit(np.maximum(np.take_along_axis(odds, best, axis=1), -700.0)), axis=1)
    shares /= shares.sum(axis=1, keepdims=True)
    return shares
