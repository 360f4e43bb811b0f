"""BilinearRanker: bilinear maps learned from label pairs, the common part of LatEm and DeViSE."""

from __future__ import annotations

from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from unseen.base import Matrix, TrainingProblem
from unseen.baselines._sgd import descend, ranking_problem
from unseen.baselines._threshold import RankingTagger
from unseen.explanation import parts_in_span
from unseen.validation import check_choice, check_count, check_generator, check_number


class BilinearRanker(RankingTagger):
    """Base with the score ``max_k x W_k m_c``; a subclass calls ``_descend`` from ``_learn``."""

    alpha: float
    pairs: str
    learning_rate: float
    max_iter: int
    random_state: Any
    verbose: int

    def _descend(self, problem: TrainingProblem, n_maps: int, *, prune: bool = False) -> None:
        """Learn the maps by stochastic subgradient descent."""
        alpha = check_number(self.alpha, "alpha")
        worst = check_choice(self.pairs, "pairs", ("all", "worst")) == "worst"
        learning_rate = check_number(self.learning_rate, "learning_rate", strict=True)
        max_iter = check_count(self.max_iter, "max_iter")
        rng = check_generator(self.random_state)
        X, T, seen = problem.X, problem.T, problem.seen
        with threadpool_limits(limits=1):  # the products of a step are too small to share
            task = ranking_problem(X, T, seen, alpha=alpha, worst=worst, normalize=self.normalize_)
            fit = descend(
                task, rng, n_maps=n_maps, prune=prune, learning_rate=learning_rate, max_iter=max_iter,
                verbose=self.verbose,
            )  # fmt: skip
        self.visual_maps_, self.label_basis_ = fit.maps, task.basis
        self.map_shares_ = fit.shares
        self.objective_trace_ = fit.trace
        self.objective_ = float(fit.trace[-1])
        self.n_iter_ = max_iter

    def _scores(self, X: Any, M: Matrix) -> Matrix:
        projected, coordinates = self._project_by_maps(X), M @ self.label_basis_
        scores: Matrix = projected[:, 0] @ coordinates.T
        for k in range(1, projected.shape[1]):
            np.maximum(scores, projected[:, k] @ coordinates.T, out=scores)
        return scores

    def _seen_parts(self, X: Any, M: Matrix) -> Matrix:
        by_map = self._project_by_maps(X)[0]
        winner = int(np.argmax(by_map @ (self.label_basis_.T @ M[0])))
        return parts_in_span(self.label_basis_ @ by_map[winner], self._seen_vectors(), M[0])

    def _project_by_maps(self, X: Any) -> Matrix:
        """Coordinates of each image in the span of the seen labels, by each map: (n_images, n_maps, rank)."""
        n_maps, n_features, rank = self.visual_maps_.shape
        side_by_side = self.visual_maps_.transpose(1, 0, 2).reshape(n_features, n_maps * rank)
        return self._project(X, side_by_side).reshape(-1, n_maps, rank)
