"""One fast setting of every estimator that must keep the contract; a new method is added in one line."""

from typing import Any

import numpy as np
from sklearn.preprocessing import normalize

from unseen import TAEP
from unseen.base import Matrix, TrainingProblem, ZeroShotTagger
from unseen.baselines import COSTA, DMP, ESZSL, ConSE, Cosine, DeViSE, Fast0Tag, LabelPropagation, LatEm
from unseen.ensembles import Adapted, BackboneKnowledge, Combination, Stacked

ESTIMATORS: list[ZeroShotTagger] = [
    TAEP(beta=1.0, tol=1e-5),
    ConSE(),
    LatEm(n_maps=3),
    DMP(),
    Fast0Tag(),
    ESZSL(),
    DeViSE(),
    COSTA(),
    LabelPropagation(),
    Stacked(n_splits=3, tol=1e-5),
]
CLASSES = np.random.default_rng(3).normal(size=(12, 16))  # the last 12 features as scores of 12 classes
WITH_VECTORS: list[ZeroShotTagger] = [
    BackboneKnowledge(np.random.default_rng(3).normal(size=(16, 16)), sharpness=2.0),
    Combination(ESZSL(), BackboneKnowledge(CLASSES, sharpness=2.0), 4),
    Stacked(BackboneKnowledge(CLASSES, sharpness=2.0), 4, n_splits=2, tol=1e-7),
    Cosine(),
    Adapted(ESZSL(gamma=100.0)),
]


class LeastSquares(ZeroShotTagger):
    """Ridge regression to the sum of an image's label vectors: all that a method must implement."""

    def __init__(self, normalize: bool = True, center: bool = True) -> None:
        self.normalize = normalize
        self.center = center

    def _fit(self, problem: TrainingProblem) -> None:
        X = normalize(problem.X) if self.normalize_ else problem.X
        self.weights_ = np.linalg.solve(X.T @ X + np.eye(X.shape[1]), X.T @ (problem.T @ problem.seen))

    def _margin_scores(self, X: Any, M: Matrix) -> Matrix:
        return np.asarray((normalize(X) if self.normalize_ else X) @ (self.weights_ @ M.T))


class Recording(LeastSquares):
    """Keeps the problem that it was given."""

    def _fit(self, problem: TrainingProblem) -> None:
        super()._fit(problem)
        self.last_problem = problem
