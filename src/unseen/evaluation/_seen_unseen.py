"""The trade between seen and unseen labels in generalized zero-shot learning."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unseen.evaluation._predictions import top_k
from unseen.validation import (
    BoolMatrix,
    FloatMatrix,
    check_count,
    check_same_shape,
    check_scores,
    check_targets,
)


class SeenUnseenCurve(NamedTuple):
    """Recall of the seen and of the unseen labels as the handicap of the seen labels grows.

    ``seen_recall[j], unseen_recall[j]`` hold for handicaps in the open interval
    ``(handicap[j], handicap[j + 1])``; ``handicap[0]`` is minus infinity.
    """

    handicap: NDArray[np.float64]
    seen_recall: NDArray[np.float64]
    unseen_recall: NDArray[np.float64]


class _Best(NamedTuple):
    """The k best labels of one side, best first; a side with fewer labels is filled with -inf and no hit."""

    scores: NDArray[np.float64]
    hits: BoolMatrix


def harmonic_mean(a: float, b: float) -> float:
    """Harmonic mean, 2ab / (a + b), of a seen and an unseen metric; 0 when both are 0.

    Parameters
    ----------
    a, b : float
        Non-negative.

    Returns
    -------
    float

    Examples
    --------
    >>> harmonic_mean(0.5, 1.0)
    0.6666666666666666
    """
    for name, value in (("a", a), ("b", b)):
        if not value >= 0:
            raise ValueError(f"{name}: {value} was given. Pass a metric of at least 0.")
    return float(2 * a * b / (a + b)) if a + b else 0.0


def seen_unseen_curve(Y_true: ArrayLike, scores: ArrayLike, seen: ArrayLike, k: int = 3) -> SeenUnseenCurve:
    r"""Seen-unseen curve: :math:`(R_{seen}(\gamma), R_{unseen}(\gamma))` for every handicap :math:`\gamma`.

    Calibrated stacking [1]_ predicts from :math:`s_{ic} - \gamma [c \in seen]`. The prediction is the top
    k of all labels together, and R is the share of the known positives of one side (pooled over images) that
    are predicted. Raising the handicap trades seen recall, which never rises, for unseen recall, which never
    falls.

    The curve is exact, not a grid: as the handicap grows, image i swaps its t-th best seen label for its
    (k+1-t)-th best unseen label at :math:`\gamma = s^{seen}_{(t)} - s^{unseen}_{(k+1-t)}`, and these at most
    k swaps an image are all that ever happens. Ties within a side go to the earlier column, as in `top_k`.

    Parameters
    ----------
    Y_true : array-like of shape (n_images, n_labels)
        1 present, 0 absent, NaN unknown: such a label may be predicted but is not counted.
    scores : array-like of shape (n_images, n_labels)
        Finite; higher means more likely present.
    seen : array-like of int or of bool
        The seen columns, as indices or as a mask of length n_labels; the others are unseen.
    k : int, default=3
        Labels predicted for each image.

    Returns
    -------
    SeenUnseenCurve
        One point for each interval of handicaps between two distinct swaps, in rising order.

    References
    ----------
    .. [1] W.-L. Chao, S. Changpinyo, B. Gong, F. Sha. An empirical study and analysis of generalized
       zero-shot learning for object recognition in the wild. ECCV 2016.
    """
    targets, values = check_targets(Y_true), check_scores(scores)
    check_same_shape(targets.relevant, values, "scores")
    is_seen = _seen_mask(seen, values.shape[1])
    k = min(check_count(k, "k"), values.shape[1])
    n_seen_positives, n_unseen_positives = _positives_of_both_sides(targets.relevant, is_seen)

    best_seen = _best(values[:, is_seen], targets.relevant[:, is_seen], k)
    best_unseen = _best(values[:, ~is_seen], targets.relevant[:, ~is_seen], k)
    swaps = (best_seen.scores - best_unseen.scores[:, ::-1]).ravel()
    gained = best_unseen.hits[:, ::-1].ravel()
    lost = best_seen.hits.ravel()

    # A label that its side lacks meets -inf: the swap at -inf is always made, the one at +inf never is.
    always, swappable = np.isneginf(swaps), np.isfinite(swaps)
    handicap, group = np.unique(swaps[swappable], return_inverse=True)
    seen_lost = np.bincount(group, lost[swappable], minlength=handicap.size)
    unseen_gained = np.bincount(group, gained[swappable], minlength=handicap.size)
    seen_hits = np.count_nonzero(lost) - np.cumsum(np.concatenate([[0.0], seen_lost]))
    unseen_hits = np.count_nonzero(gained[always]) + np.cumsum(np.concatenate([[0.0], unseen_gained]))
    return SeenUnseenCurve(
        handicap=np.concatenate([[-np.inf], handicap]),
        seen_recall=seen_hits / n_seen_positives,
        unseen_recall=unseen_hits / n_unseen_positives,
    )


def seen_unseen_auc(Y_true: ArrayLike, scores: ArrayLike, seen: ArrayLike, k: int = 3) -> float:
    r"""AUSUC, :math:`\int_0^{\max R_{unseen}} R_{seen} \, d R_{unseen}` along the `seen_unseen_curve`.

    Points of the curve are joined by straight lines. Where k exceeds the number of seen labels, some unseen
    labels are predicted at any handicap and the curve starts at :math:`R_{unseen} > 0`; it is continued to 0
    at its first height, so the area is that of everything the curve dominates, and exchanging the roles of
    seen and unseen leaves it as it is.

    Parameters
    ----------
    Y_true : array-like of shape (n_images, n_labels)
        1 present, 0 absent, NaN unknown.
    scores : array-like of shape (n_images, n_labels)
        Finite; higher means more likely present.
    seen : array-like of int or of bool
        The seen columns, as indices or as a mask of length n_labels; the others are unseen.
    k : int, default=3
        Labels predicted for each image.

    Returns
    -------
    float
        In [0, 1].
    """
    _, seen_recall, unseen_recall = seen_unseen_curve(Y_true, scores, seen, k)
    start = float(unseen_recall[0] * seen_recall[0])
    heights = (seen_recall[1:] + seen_recall[:-1]) / 2
    return start + float(np.diff(unseen_recall) @ heights)


def _seen_mask(seen: ArrayLike, n_labels: int) -> BoolMatrix:
    columns = np.asarray(seen)
    mask = np.zeros(n_labels, dtype=np.bool_)
    if columns.dtype == np.bool_ and columns.shape == (n_labels,):
        mask |= columns
    elif columns.dtype.kind in "iu" and columns.ndim == 1 and np.all((columns >= 0) & (columns < n_labels)):
        mask[columns] = True
    else:
        raise ValueError(
            f"seen: an array of dtype {columns.dtype} and shape {columns.shape} was given. Pass column "
            f"indices between 0 and {n_labels - 1}, or a boolean mask of length {n_labels}."
        )
    if mask.all() or not mask.any():
        side = "unseen" if mask.all() else "seen"
        raise ValueError(f"seen: it leaves no {side} label among the {n_labels}. Pass some columns, not all.")
    return mask


def _positives_of_both_sides(relevant: BoolMatrix, is_seen: BoolMatrix) -> tuple[int, int]:
    n_seen, n_unseen = (int(np.count_nonzero(relevant[:, side])) for side in (is_seen, ~is_seen))
    if n_seen == 0 or n_unseen == 0:
        side = "unseen" if n_seen else "seen"
        raise ValueError(f"Y_true: no {side} label has a positive, so its recall is undefined. Add such images.")
    return n_seen, n_unseen


def _best(scores: FloatMatrix, relevant: BoolMatrix, k: int) -> _Best:
    n_images, n_labels = scores.shape
    size = min(k, n_labels)
    chosen = np.nonzero(top_k(scores, size))[1].reshape(n_images, size)
    by_score = np.argsort(-np.take_along_axis(scores, chosen, axis=1), axis=1, kind="stable")
    order = np.take_along_axis(chosen, by_score, axis=1)
    best = _Best(np.full((n_images, k), -np.inf), np.zeros((n_images, k), dtype=np.bool_))
    best.scores[:, :size] = np.take_along_axis(scores, order, axis=1)
    best.hits[:, :size] = np.take_along_axis(relevant, order, axis=1)
    return best
