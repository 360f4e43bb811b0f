"""RankingTagger: a method that only ranks the labels of an image gets a threshold that depends on the image."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unseen.base import Matrix, TrainingProblem
from unseen.baselines._linear import Ridge, known_images
from unseen.baselines._scored import ScoredTagger
from unseen.solvers.rows import row_scale

MARGIN = 1.0  # distance of the threshold from the labels of an image that has labels on one side only
PENALTY = 1e-3  # of the regression, relative to the sum of the squared lengths of the images


class RankingTagger(ScoredTagger):
    """Base of the methods that learn from (positive, negative) label pairs: ``_learn`` and ``_scores`` are theirs.

    Pairs say nothing of the level of an image's scores. So the threshold ``F(x, 0) = x w0 + b`` is learned
    afterwards, as Elisseeff & Weston (2001) do: ridge regression, on the training images, of the midpoint between
    the lowest score of a positive label and the highest of a negative one. It moves all labels of an image
    alike and leaves their ranking as it is.
    """

    threshold_weights_: Matrix

    @abstractmethod
    def _learn(self, problem: TrainingProblem) -> None: ...

    def _fit(self, problem: TrainingProblem) -> None:
        X, T = known_images(problem.X, problem.T)
        self._learn(problem._replace(X=X, T=T))
        targets = threshold_targets(self._scores(X, problem.seen), T)
        ridge = relative_ridge(X, PENALTY, "X", normalize=self.normalize_)
        moved = (targets - targets.mean())[:, None]
        self.threshold_weights_ = ridge.regress(X, moved, normalize=self.normalize_)[:, 0]
        self.threshold_ = float(np.mean(targets - self._project(X, self.threshold_weights_[:, None])[:, 0]))

    def _margin_scores(self, X: Any, M: Matrix) -> Matrix:
        return self._scores(X, M) - self._thresholds(X)[:, None]

    def _thresholds(self, X: Any) -> Matrix:
        thresholds: Matrix = self._project(X, self.threshold_weights_[:, None])[:, 0] + self.threshold_
        return thresholds


def relative_ridge(X: Any, penalty: float, name: str, *, normalize: bool) -> Ridge:
    """Ridge system whose penalty is relative to the sum of the squared lengths of the images."""
    squares = np.square(row_scale(X, normalize) / row_scale(X, True)).sum()
    return Ridge(X, penalty * float(squares), name, normalize=normalize)


def threshold_targets(scores: Matrix, T: NDArray[np.int8]) -> Matrix:
    """Midpoint between the positive and the negative labels of each image, or `MARGIN` beside its only side."""
    lowest = np.where(T > 0, scores, np.inf).min(axis=1)
    highest = np.where(T < 0, scores, -np.inf).max(axis=1)
    lowest, highest = (
        np.where(np.isinf(lowest), highest + 2.0 * MARGIN, lowest),
        np.where(np.isinf(highest), lowest - 2.0 * MARGIN, highest),
    )
    targets: Matrix = 0.5 * (lowest + highest)
    return targets
