"""Metrics of a ranking: what matters is the order of the scores, never their size.

One tie rule serves all of them, and it needs no order of columns or rows: **tied items are reached together,
at the worst rank of their group**. Equal scores are one threshold, so nothing is won by giving every item the
same score. Unknown entries (NaN in ``Y_true``) are removed from the ranking.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unseen.validation import (
    BoolMatrix,
    FloatMatrix,
    Targets,
    check_same_shape,
    check_scores,
    check_targets,
)

# Sorting needs some 50 bytes of workspace an entry: about 50 MB at a time, whatever the size of the data.
_BLOCK_ENTRIES = 1 << 20


class _Steps(NamedTuple):
    """The tie groups of every ranking that contain a positive, best first."""

    ranking: NDArray[np.intp]  # which row the group belongs to
    rank: NDArray[np.intp]  # items ranked at or above the group's end
    hits: NDArray[np.intp]  # positives among them
    gained: NDArray[np.intp]  # positives of the group itself


def mean_image_average_precision(Y_true: ArrayLike, scores: ArrayLike) -> float:
    r"""MiAP, the mean over images of the average precision of the image's label ranking.

    .. math::
        \frac{1}{|I|} \sum_{i \in I} \frac{1}{|P_i|} \sum_{c \in P_i}
        \frac{|\{p \in P_i : s_{ip} \ge s_{ic}\}|}{|\{l \in K_i : s_{il} \ge s_{ic}\}|}

    where :math:`K_i` are the labels known for image i, :math:`P_i` the positive ones among them, and I the
    images with at least one positive. The :math:`\ge` is the tie rule: tied labels all get the worst rank of
    their group. It equals ``sklearn.metrics.label_ranking_average_precision_score`` on the images I; images
    without a positive, which scikit-learn counts as 1, are left out here.

    Parameters
    ----------
    Y_true : array-like of shape (n_images, n_labels)
        1 present, 0 absent, NaN unknown; an unknown label is removed from its image's ranking.
    scores : array-like of shape (n_images, n_labels)
        Finite; higher means more likely present.

    Returns
    -------
    float
        In (0, 1]; 1 when every image ranks its positives first.

    Examples
    --------
    >>> mean_image_average_precision([[1, 0, 1]], [[3.0, 2.0, 1.0]])  # (1/1 + 2/3) / 2
    0.8333333333333333
    """
    targets, scores = _check(Y_true, scores)
    positives = np.count_nonzero(targets.relevant, axis=1)
    images = np.flatnonzero(positives)
    total = 0.0
    for block in _blocks(images, targets.relevant.shape[1]):
        total += float(_average_precisions(*_rankings_of_images(targets, scores, block)).sum())
    return total / images.size


@overload
def mean_average_precision(
    Y_true: ArrayLike, scores: ArrayLike, *, return_per_label: Literal[False] = False
) -> float: ...


@overload
def mean_average_precision(
    Y_true: ArrayLike, scores: ArrayLike, *, return_per_label: Literal[True]
) -> tuple[float, NDArray[np.float64]]: ...


def mean_average_precision(
    Y_true: ArrayLike, scores: ArrayLike, *, return_per_label: bool = False
) -> float | tuple[float, NDArray[np.float64]]:
    r"""mAP, the mean over labels of the average precision of the label's image ranking.

    .. math::
        \frac{1}{|C|} \sum_{c \in C} \sum_t (R_{ct} - R_{c,t-1}) P_{ct}

    where :math:`P_{ct}, R_{ct}` are the precision and recall of label c at its t-th highest *distinct* score,
    over the images for which c is known: tied images are one threshold, no interpolation, exactly
    ``sklearn.metrics.average_precision_score``. C are the labels with at least one known positive; the others
    have no average precision and are left out of the mean.

    Parameters
    ----------
    Y_true : array-like of shape (n_images, n_labels)
        1 present, 0 absent, NaN unknown; an unknown image is removed from that label's ranking.
    scores : array-like of shape (n_images, n_labels)
        Finite; higher means more likely present.
    return_per_label : bool, default=False
        Also return the average precision of every label.

    Returns
    -------
    mean : float
        In (0, 1].
    per_label : ndarray of shape (n_labels,)
        Only if ``return_per_label``; NaN for the labels that were left out.

    Examples
    --------
    >>> mean_average_precision([[1], [0], [1]], [[3.0], [2.0], [1.0]])
    0.8333333333333333
    """
    targets, scores = _check(Y_true, scores)
    labels = np.flatnonzero(targets.relevant.any(axis=0))
    per_label = np.full(targets.relevant.shape[1], np.nan)
    for block in _blocks(labels, targets.relevant.shape[0]):
        per_label[block] = _average_precisions(*_rankings_of_labels(targets, scores, block))
    mean = float(per_label[labels].mean())
    return (mean, per_label) if return_per_label else mean


def ranking_loss(Y_true: ArrayLike, scores: ArrayLike) -> float:
    r"""Ranking loss, the mean over images of the share of label pairs in the wrong order.

    .. math::
        \frac{1}{|I|} \sum_{i \in I} \frac{|\{(p, q) \in P_i \times N_i : s_{ip} \le s_{iq}\}|}{|P_i| |N_i|}

    where :math:`P_i, N_i` are the known positives and known negatives of image i, and I the images that have
    both. A tied pair is a wrong pair (scikit-learn's rule, and the rule of the other rankings here), so
    constant scores cost 1. It equals ``sklearn.metrics.label_ranking_loss`` on the images I; the others,
    which scikit-learn counts as 0, are left out.

    Parameters
    ----------
    Y_true : array-like of shape (n_images, n_labels)
        1 present, 0 absent, NaN unknown; an unknown label is in no pair.
    scores : array-like of shape (n_images, n_labels)
        Finite; higher means more likely present.

    Returns
    -------
    float
        In [0, 1]; 0 is best.

    Examples
    --------
    >>> ranking_loss([[1, 0, 0]], [[2.0, 3.0, 1.0]])
    0.5
    """
    targets, scores = _check(Y_true, scores)
    positives = np.count_nonzero(targets.relevant, axis=1)
    pairs = positives * (targets.n_known(axis=1) - positives)
    images = np.flatnonzero(pairs)
    if images.size == 0:
        raise ValueError(
            "Y_true: no image has both a known positive and a known negative, so no pair can be ranked. "
            "Pass images that have both."
        )
    total = 0.0
    for block in _blocks(images, targets.relevant.shape[1]):
        total += float((_wrong_pairs(*_rankings_of_images(targets, scores, block)) / pairs[block]).sum())
    return total / images.size


def _check(Y_true: ArrayLike, scores: ArrayLike) -> tuple[Targets, FloatMatrix]:
    targets, finite = check_targets(Y_true), check_scores(scores)
    check_same_shape(targets.relevant, finite, "scores")
    return targets, finite


def _blocks(indices: NDArray[np.intp], width: int) -> Iterator[NDArray[np.intp]]:
    size = max(1, _BLOCK_ENTRIES // width)
    for start in range(0, indices.size, size):
        yield indices[start : start + size]


def _rankings_of_images(
    targets: Targets, scores: FloatMatrix, images: NDArray[np.intp]
) -> tuple[BoolMatrix, FloatMatrix]:
    known = None if targets.known is None else targets.known[images]
    return targets.relevant[images], _costs(scores[images], known)


def _rankings_of_labels(
    targets: Targets, scores: FloatMatrix, labels: NDArray[np.intp]
) -> tuple[BoolMatrix, FloatMatrix]:
    known = None if targets.known is None else targets.known[:, labels].T
    # The sort runs along rows: an explicit copy, since a transposed view is several times slower to sort.
    columns = np.ascontiguousarray(scores[:, labels].T)
    return np.ascontiguousarray(targets.relevant[:, labels].T), _costs(columns, known)


def _costs(scores: FloatMatrix, known: BoolMatrix | None) -> FloatMatrix:
    """Negated scores, to sort best first; an unknown goes behind everything, where it alters no rank."""
    costs = np.negative(scores)
    if known is not None:
        costs[~known] = np.inf
    return costs


def _steps(relevant: BoolMatrix, costs: FloatMatrix) -> _Steps:
    width = costs.shape[1]
    order = np.argsort(costs, axis=1)
    ordered = np.take_along_axis(costs, order, axis=1)
    ends_group = np.ones(costs.shape, dtype=np.bool_)
    np.not_equal(ordered[:, 1:], ordered[:, :-1], out=ends_group[:, :-1])
    # One running count over all rankings: a ranking's last item always ends a group, so differences between
    # consecutive ends never mix two rankings.
    running = np.cumsum(np.take_along_axis(relevant, order, axis=1), dtype=np.intp)
    ends = np.flatnonzero(ends_group)
    gained = np.diff(running[ends], prepend=0)
    useful = gained > 0
    ends, gained = ends[useful], gained[useful]
    ranking, position = np.divmod(ends, width)
    before = np.concatenate([[0], running[width - 1 : -1 : width]])
    return _Steps(ranking, position + 1, running[ends] - before[ranking], gained)


def _average_precisions(relevant: BoolMatrix, costs: FloatMatrix) -> NDArray[np.float64]:
    """Average precision of each row, every row having a positive."""
    steps = _steps(relevant, costs)
    precision = steps.hits / steps.rank
    total = np.bincount(steps.ranking, steps.gained * precision, minlength=len(relevant))
    means: NDArray[np.float64] = total / relevant.sum(axis=1)
    return means


def _wrong_pairs(relevant: BoolMatrix, costs: FloatMatrix) -> NDArray[np.float64]:
    """Number of (positive, negative) pairs of each row with the negative at or above the positive."""
    steps = _steps(relevant, costs)
    total = np.bincount(steps.ranking, steps.gained * (steps.rank - steps.hits), minlength=len(relevant))
    return total.astype(np.float64, copy=False)
