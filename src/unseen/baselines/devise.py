"""DeViSE: one bilinear map learned with a hinge ranking loss (Frome et al., 2013)."""

from __future__ import annotations

from typing import Any, Literal

from unseen.base import TrainingProblem
from unseen.baselines._ranker import BilinearRanker


class DeViSE(BilinearRanker):
    r"""A linear map from images into the space of the label vectors, learned by ranking.

    Minimises over W, with the scores ``F(i, c) = x_i W m_c``::

        mean over images i of  mean over p in Y_i, n not in Y_i of [1 - F(i, p) + F(i, n)]_+
            +  alpha/2 |W|^2

    by stochastic subgradient descent. It is convex, and the same as `LatEm` with a single map.

    Multi-label adaptation: Frome et al. rank the one label of an image above others; here every positive label is
    ranked above every negative one, or, with ``pairs="worst"``, the lowest positive above the highest negative.
    Labels unknown on an image are in no pair. What also differs: all pairs count, where they draw wrong labels in
    random order and stop at the first that violates the margin; the features are given, where they fine-tune their
    network; the margin is 1 and alpha regularises, where they have a margin of 0.1 and labels of unit length.

    The margin score is ``F(x, c)`` minus the threshold ``F(x, 0) = x w0 + b`` of the image, a ridge regression of
    the midpoint between the scores of the positive and of the negative labels of the training images.

    `explain`: x W lies in the span of the seen labels, ``x W = sum_k e_k(x) m_k``; label k adds
    ``e_k(x) <m_k, m_c>`` to F(x, c), the evidence for it times its likeness to the label.

    Parameters
    ----------
    alpha : float, default=1e-3
        Weight of the squared map. Images and labels count as of median length 1 here, whatever their units.
    pairs : {"all", "worst"}, default="all"
        Mean over all pairs of an image, or only its worst pair.
    learning_rate : float, default=3.0
        First step; it falls linearly to 0 and is never more than ``1 / (2 alpha)``.
    max_iter : int, default=10
        Epochs, passes over the images.
    normalize : bool, default=True
        Scale features and label vectors to unit length.
    center : bool, default=True
        Subtract the mean of the label vectors given to `fit` (before scaling), also from labels asked for later.
    random_state : int, RandomState or None, default=0
        First map and order of the images. The same seed gives the same bits.
    verbose : int, default=0
        1 prints a line an epoch.

    Attributes
    ----------
    visual_maps_ : ndarray of shape (1, n_features, rank)
        ``W = visual_maps_[0] @ label_basis_.T``.
    label_basis_ : ndarray of shape (n_dims, rank)
        Orthonormal basis of the span of the seen labels, which holds the map.
    map_shares_ : ndarray of shape (1,)
        Always 1: the share of the positive training labels that the map scores.
    objective_trace_ : ndarray of shape (n_iter,)
        Objective on the training images after each epoch.
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
    >>> from unseen.baselines import DeViSE
    >>> data = make_tagged_scenes(n_train=300, n_test=5)
    >>> model = DeViSE().fit(data.X_train, data.Y_train[:, data.seen], data.seen_labels)
    >>> model.decision_function(data.X_test, data.unseen_labels).shape
    (5, 12)
    """

    def __init__(
        self,
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
        self.alpha = alpha
        self.pairs = pairs
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.normalize = normalize
        self.center = center
        self.random_state = random_state
        self.verbose = verbose

    def _learn(self, problem: TrainingProblem) -> None:
        self._descend(problem, 1)
