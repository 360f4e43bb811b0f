"""Bilinear maps learned by ranking: LatEm-M (Xian et al., 2016) and DeViSE (Frome et al., 2013)."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
from threadpoolctl import threadpool_limits

from unseen.base import TrainingProblem
from unseen.baselines._linear import parts_in_span
from unseen.baselines._ranking import RankingTagger, descend, ranking_problem
from unseen.validation import Matrix, check_choice, check_count, check_generator, check_number


@dataclass(eq=False, repr=False)
class _Maps(RankingTagger):
    """Maps that descend: a subclass has the number of maps and the weight of their squares."""

    _: KW_ONLY
    pairs: Literal["all", "worst"] = "all"
    learning_rate: float = 3.0
    max_iter: int = 10
    random_state: Any = 0

    def _learn(self, problem: TrainingProblem) -> None:
        settings: dict[str, Any] = {
            "n_maps": check_count(self.n_maps, "n_maps"),
            "alpha": check_number(self.alpha, "alpha"),
            "worst": check_choice(self.pairs, "pairs", ("all", "worst")) == "worst",
            "learning_rate": check_number(self.learning_rate, "learning_rate", strict=True),
            "max_iter": check_count(self.max_iter, "max_iter"),
        }
        rng = check_generator(self.random_state)
        with threadpool_limits(limits=1):  # the products of a step are too small to parallelise
            task = ranking_problem(problem, normalize=self.normalize_)
            self.visual_maps_, self.objective_trace_ = descend(task, rng, **settings)
        self.label_basis_ = task.basis
        self.objective_, self.n_iter_ = float(self.objective_trace_[-1]), len(self.objective_trace_)

    def _scores(self, X: Any, M: Matrix) -> Matrix:
        by_map = [self._project(X, W) @ (M @ self.label_basis_).T for W in self.visual_maps_]
        return np.asarray(np.max(by_map, axis=0))

    def _seen_parts(self, X: Any, M: Matrix) -> Matrix:
        by_map = np.vstack([self._project(X, W) for W in self.visual_maps_])
        winner = int(np.argmax(by_map @ (self.label_basis_.T @ M[0])))
        return parts_in_span(self.label_basis_ @ by_map[winner], self._seen_vectors(), M[0])


@dataclass(eq=False, repr=False)
class LatEm(_Maps):
    r"""Several bilinear maps between images and labels; each image and label is scored by the map it suits best.

    Minimises over the maps W_1 .. W_K, with the scores ``F(i, c) = max_k x_i W_k m_c``::

        mean over images i of  mean over p in Y_i, n not in Y_i of [1 - F(i, p) + F(i, n)]_+
            +  alpha/2 sum_k |W_k|^2

    by stochastic subgradient descent; it is not convex when K > 1. The margin score is ``F(x, c)`` minus a
    threshold ``x w0 + b`` of the image: a ridge regression of the midpoint between the scores of the positive and
    of the negative labels of the training images.

    Differences from the paper: every positive label is ranked above every negative one (LatEm-M), where Xian et
    al. rank the one true class; a step takes 16 images and all their pairs, falls linearly to 0, and alpha
    regularises; features are not standardised.

    Parameters
    ----------
    n_maps : int, default=2
        K. More maps fit the seen labels more closely, but may transfer less when there are few.
    alpha : float, default=1e-3
        Weight of the squared maps, with images and labels in units of their median lengths.
    pairs : {"all", "worst"}, default="all"
        Mean over all pairs of an image, or only its worst pair.
    learning_rate : float, default=3.0
        First step; never more than ``1 / (2 alpha)``.
    max_iter : int, default=10
        Epochs, passes over the images.
    normalize, center : bool, default=True
        Scale features and label vectors to unit length, the latter after subtracting the mean of those in `fit`.
    random_state : int, RandomState or None, default=0
        First maps and order of the images. The same seed gives the same bits.

    Attributes
    ----------
    visual_maps_, label_basis_ : ndarray of shape (n_maps, n_features, rank) and (n_dims, rank)
        ``W_k = visual_maps_[k] @ label_basis_.T``, with an orthonormal basis of the span of the seen labels.
    objective_trace_ : ndarray of shape (max_iter,)
        Objective on the training images after each epoch; ``objective_`` is the last one.
    threshold_weights_, threshold_ : ndarray of shape (n_features,), float
        w0 and b.
    """

    n_maps: int = 2
    alpha: float = 1e-3


@dataclass(eq=False, repr=False)
class DeViSE(_Maps):
    r"""`LatEm` with a single map: convex, a linear map from images into the space of the label vectors.

    Minimises over W, with the scores ``F(i, c) = x_i W m_c``::

        mean over images i of  mean over p in Y_i, n not in Y_i of [1 - F(i, p) + F(i, n)]_+
            +  alpha/2 |W|^2

    Differences from the paper: every positive label is ranked above every negative one, where Frome et al. rank
    the one label of an image above labels drawn at random; the features are given, where they fine-tune a network;
    the margin is 1 and alpha regularises, where they have a margin of 0.1 and labels of unit length.

    Parameters
    ----------
    alpha, pairs, learning_rate, max_iter, normalize, center, random_state
        As in `LatEm`, and so are the attributes: ``W = visual_maps_[0] @ label_basis_.T``.
    """

    alpha: float = 1e-3
    n_maps = 1  # not a parameter
