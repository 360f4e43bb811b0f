"""ScoredTagger: a method that ranks labels by a score gets a threshold calibrated on its training images."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unseen.base import Matrix, TrainingProblem, ZeroShotTagger
from unseen.baselines._linear import known_images, project


class ScoredTagger(ZeroShotTagger):
    """Base of the rivals: a subclass implements ``_learn(problem)`` and ``_scores(X, M)``.

    The margin score is the score minus one threshold, the same for every image and label: the one with the best
    micro-F1 over the known entries of the training images and seen labels. Images of which nothing is known are
    left out before anything is learned.
    """

    threshold_: float

    @abstractmethod
    def _learn(self, problem: TrainingProblem) -> None: ...

    @abstractmethod
    def _scores(self, X: Any, M: Matrix) -> Matrix: ...

    def _fit(self, problem: TrainingProblem) -> None:
        X, T = known_images(problem.X, problem.T)
        kept = problem._replace(X=X, T=T)
        self._learn(kept)
        self.threshold_ = best_threshold(self._scores(X, kept.seen), T)

    def _margin_scores(self, X: Any, M: Matrix) -> Matrix:
        return self._scores(X, M) - self.threshold_

    def _thresholds(self, X: Any) -> Matrix:
        return np.full(X.shape[0], self.threshold_)

    def _project(self, X: Any, weights: Matrix) -> Matrix:
        """``X weights`` with the rows of X scaled as in training."""
        return project(X, weights, normalize=self.normalize_)


def best_threshold(scores: Matrix, T: NDArray[np.int8]) -> float:
    """Threshold with the best micro-F1 over the entries whose truth is known.

    It lies halfway between two neighbouring scores (below the lowest if everything is to be predicted); of
    several best ones the highest is taken.
    """
    known = T != 0
    order = np.argsort(-scores[known], kind="stable")
    ranked, relevant = scores[known][order], (T[known] == 1)[order]
    hits = np.cumsum(relevant)
    f1 = 2.0 * hits / (np.arange(1, len(hits) + 1) + hits[-1])
    ends = np.append(ranked[:-1] > ranked[1:], True)  # equal scores are predicted together or not at all
    last = int(np.argmax(np.where(ends, f1, -1.0)))
    below = ranked[last + 1] if last + 1 < len(ranked) else ranked[last] - 1.0
    return float(0.5 * (ranked[last] + below))
