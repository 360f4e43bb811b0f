"""One fast setting of every estimator that must keep the contract; a new method is added in one line."""

from typing import Any

import numpy as np

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
    Stacked(BackboneKnowledge(CLASSES, sharpness=2.0), 4, n_splits=3, tol=1e-7),
    Cosine(),
    Adapted(ESZSL(gamma=100.0)),
]


class LeastSquares(ZeroShotTagger):
    """From images to the sum of their labels' vectors: all that a method must implement."""

    def __init__(self, normalize: bool = True, center: bool = True) -> None:
        self.normalize = normalize
        self.center = center

    def _fit(self, problem: TrainingProblem) -> None:
        self.last_problem = problem
        gram = problem.X.T @ problem.X + np.eye(problem.X.shape[1])
        self.weights_ = np.linalg.solve(gram, problem.X.T @ ((problem.T == 1) @ problem.seen))

    def _margin_scores(self, X: Any, M: Matrix) -> Matrix:
        return np.asarray(X @ self.weights_ @ M.T)
