"""LatEm-M: latent embeddings (Xian et al., 2016) with a multi-label ranking objective."""

from __future__ import annotations

from typing import Any, Literal

from unseen.base import TrainingProblem
from unseen.baselines._ranker import BilinearRanker
from unseen.validation import check_count

MOST_MAPS = 16  # maps to begin with when their number is learned


class LatEm(BilinearRanker):
    r"""Several bilinear maps between images and labels; each image and label is scored by the map it suits best.

    Minimises over the maps W_1 .. W_K, with the scores ``F(i, c) = max_k x_i W_k m_c``::

        mean over images i of  mean over p in Y_i, n not in Y_i of [1 - F(i, p) + F(i, n)]_+
            +  alpha/2 sum_k |W_k|^2

    by stochastic subgradient descent; it is not convex when K > 1.

    Multi-label adaptation (LatEm-M): Xian et al. rank the one true class of an image above the others; here, as in
    the comparison of the TAEP paper, the ranking objective is multi-label: every positive label above every
    negative one. Labels unknown on an image are in no pair, and images without a pair teach the maps nothing. What
    also differs: a step takes 16 images and all their pairs instead of one image and one randomly drawn class; the
    step falls linearly to 0 and alpha regularises, where they have a constant step and no penalty; features are
    used as they are, or scaled to unit length, where they standardise them.

    The margin score is ``F(x, c)`` minus the threshold ``F(x, 0) = x w0 + b`` of the image, a ridge regression of
    the midpoint between the scores of the positive and of the negative labels of the training images.

    `explain`: with the map that wins for the image and the label, x W lies in the span of the seen labels,
    ``x W = sum_k e_k(x) m_k``; label k adds ``e_k(x) <m_k, m_c>`` to F(x, c).

    Parameters
    ----------
    n_maps : int or "auto", default=2
        K. "auto" prunes, an idea of the paper: it starts with 16 maps, and after each fifth of the epochs drops
        those that score fewer than 5% of the positive labels (the numbers are of this library). More maps fit the
        seen labels closer, and may transfer less when these are few; the paper tries 2 to 10 on held-out classes,
        as `unseen.evaluation.search.class_holdout_search` does.
    alpha : float, default=1e-3
        Weight of the squared maps. Images and labels count as of median length 1 here, whatever their units.
    pairs : {"all", "worst"}, default="all"
        Mean over all pairs of an image, or only its worst pair.
    learning_rate : float, default=3.0
        First step; never more than ``1 / (2 alpha)``.
    max_iter : int, default=10
        Epochs, passes over the images.
    normalize : bool, default=True
        Scale features and label vectors to unit length.
    center : bool, default=True
        Subtract the mean of the label vectors given to `fit` (before scaling), also from labels asked for later.
    random_state : int, RandomState or None, default=0
        First maps and order of the images. The same seed gives the same bits.
    verbose : int, default=0
        1 prints a line an epoch.

    Attributes
    ----------
    visual_maps_ : ndarray of shape (n_maps, n_features, rank)
        ``W_k = visual_maps_[k] @ label_basis_.T``.
    label_basis_ : ndarray of shape (n_dims, rank)
        Orthonormal basis of the span of the seen labels, which holds the maps.
    map_shares_ : ndarray of shape (n_maps,)
        Share of the positive training labels that each map scores.
    objective_trace_ : ndarray of shape (n_iter,)
        Objective on the training images after each epoch; with "auto" before the pruning, if there is one.
    objective_ : float
        The last of them.
    n_iter_ : int
        Epochs.
    threshold_weights_, threshold_ : ndarray of shape (n_features,), float
        w0 and b.
    label_names_, label_vectors_, n_seen_
        The labels given to `fit`, the seen ones first.

    Examples
    --------
    >>> from unseen import make_tagged_scenes
    >>> from unseen.baselines import LatEm
    >>> data = make_tagged_scenes(n_train=300, n_test=5)
    >>> model = LatEm(n_maps=3).fit(data.X_train, data.Y_train[:, data.seen], data.seen_labels)
    >>> bool(model.objective_trace_[-1] < model.objective_trace_[0])
    True
    >>> model.decision_function(data.X_test, data.unseen_labels).shape
    (5, 12)
    """

    def __init__(
        self,
        n_maps: int | Literal["auto"] = 2,
        alpha: float = 1e-3,
        *,
        pairs: Literal["all", "worst"] = "all",
        learning_rate: float = 3.0,
        max_iter: int = 10,
        normalize: bool = True,
        center: bool = True,
        random_state: Any = 0,
        verbose: int = 0,
    ) -> None:
        self.n_maps = n_maps
        self.alpha = alpha
        self.pairs = pairs
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.normalize = normalize
        self.center = center
        self.random_state = random_state
        self.verbose = verbose

    def _learn(self, problem: TrainingProblem) -> None:
        if isinstance(self.n_maps, str) and self.n_maps != "auto":
            raise ValueError(f'n_maps: {self.n_maps!r} was given. Pass an integer of at least 1, or "auto".')
        prune = self.n_maps == "auto"
        self._descend(problem, MOST_MAPS if prune else check_count(self.n_maps, "n_maps"), prune=prune)
