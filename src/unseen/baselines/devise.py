"""DeViSE: one bilinear map learned with a hinge ranking loss (Frome et al., 2013)."""

from __future__ import annotations

from typing import Any, Literal

from unseen.baselines.latem import LatEm


class DeViSE(LatEm):
    r"""A linear map from images into the space of the label vectors, learned by ranking.

    Minimises over W, with the scores ``F(i, c) = x_i W m_c``::

        mean over images i of  mean over p in Y_i, n not in Y_i of [1 - F(i, p) + F(i, n)]_+
            +  alpha/2 |W|^2

    by stochastic subgradient descent. It is convex, and the same as `LatEm` with a single map, which also
    describes the threshold and the parts of `explain`.

    Differences from the paper: every positive label is ranked above every negative one, where Frome et al. rank
    the one label of an image above labels drawn at random; the features are given, where they fine-tune a network;
    the margin is 1 and alpha regularises, where they have a margin of 0.1 and labels of unit length.

    Parameters
    ----------
    alpha : float, default=1e-3
        Weight of the squared map, with images and labels in units of their median lengths.
    pairs : {"all", "worst"}, default="all"
        Mean over all pairs of an image, or only its worst pair.
    learning_rate : float, default=3.0
        First step; it falls linearly to 0 and is never more than ``1 / (2 alpha)``.
    max_iter : int, default=10
        Epochs, passes over the images.
    normalize, center : bool, default=True
        Scale features and label vectors to unit length, the latter after subtracting the mean of those in `fit`.
    random_state : int, RandomState or None, default=0
        First map and order of the images. The same seed gives the same bits.

    Attributes
    ----------
    visual_maps_, label_basis_, objective_trace_, objective_, threshold_weights_, threshold_
        As in `LatEm`: ``W = visual_maps_[0] @ label_basis_.T``.
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
    ) -> None:
        super().__init__(
            n_maps=1,
            alpha=alpha,
            pairs=pairs,
            learning_rate=learning_rate,
            max_iter=max_iter,
            normalize=normalize,
            center=center,
            random_state=random_state,
        )
