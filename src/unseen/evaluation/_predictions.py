"""Turning scores into 0/1 predictions, and the metrics of such predictions.

Unknown entries (NaN in ``Y_true``) are counted nowhere: not as hits, not as predictions, not as positives.
A prediction does not know what is unknown, so a top-k prediction is taken over *all* labels; those of its k
choices whose truth is unknown are simply not counted. A ratio whose denominator is 0 is 0, as with
``zero_division=0`` in scikit-learn.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unseen.validation import (
    BoolMatrix,
    FloatMatrix,
    check_count,
    check_predictions,
    check_same_shape,
    check_scores,
    check_targets,
)


class PrecisionRecallF1(NamedTuple):
    """Overall (all entries pooled) and per-class (mean over labels) precision, recall and F1."""

    overall_precision: float
    overall_recall: float
    overall_f1: float
    class_precision: float
    class_recall: float
    class_f1: float


class _Counts(NamedTuple):
    """Known entries of each label that has any: hits, predicted, truly positive."""

    hits: NDArray[np.intp]
    predicted: NDArray[np.intp]
    positive: NDArray[np.intp]

    def pooled(self) -> tuple[int, int, int]:
        return int(self.hits.sum()), int(self.predicted.sum()), int(self.positive.sum())


def top_k(scores: ArrayLike, k: int) -> BoolMatrix:
    """Predict the k best-scored labels of every image.

    Exactly ``min(k, n_labels)`` labels are predicted for each image. Ties at the k-th score go to the earlier
    column, so the prediction is deterministic, and constant scores predict the first k columns.

    Parameters
    ----------
    scores : array-like of shape (n_images, n_labels)
        Finite; higher means more likely present.
    k : int
        Labels to predict for each image, at least 1.

    Returns
    -------
    ndarray of bool of shape (n_images, n_labels)

    Examples
    --------
    >>> top_k([[0.5, 0.9, 0.5]], k=2)
    array([[ True,  True, False]])
    """
    values = check_scores(scores)
    k = check_count(k, "k")
    n_images, n_labels = values.shape
    if k >= n_labels:
        return np.ones((n_images, n_labels), dtype=np.bool_)
    cut = np.partition(values, n_labels - k, axis=1)[:, n_labels - k, None]
    chosen: BoolMatrix = values >= cut
    crowded = np.flatnonzero(chosen.sum(axis=1) > k)
    if crowded.size:
        chosen[crowded] = _earlier_first(values[crowded], cut[crowded], k)
    return chosen


def above_threshold(scores: ArrayLike, threshold: ArrayLike = 0.0) -> BoolMatrix:
    """Predict label c for image i when ``scores[i, c] > threshold[i]``, strictly.

    Parameters
    ----------
    scores : array-like of shape (n_images, n_labels)
        Finite; higher means more likely present.
    threshold : float or array-like of shape (n_images,), default=0.0
        One threshold for all, or one for each image. The default fits margin scores, whose zero is the
        image's own threshold.

    Returns
    -------
    ndarray of bool of shape (n_images, n_labels)

    Examples
    --------
    >>> above_threshold([[0.5, -0.9, 0.0], [1.0, 2.0, 3.0]], [0.0, 1.5])
    array([[ True, False, False],
           [False,  True,  True]])
    """
    values = check_scores(scores)
    limits = np.asarray(threshold, dtype=np.float64)
    if limits.shape not in {(), (len(values),)}:
        raise ValueError(
            f"threshold: its shape is {limits.shape}. Pass one number, or {len(values)}, one an image."
        )
    if np.isnan(limits).any():
        raise ValueError("threshold: NaN was given. Pass a number; infinity predicts no label.")
    exceeded: BoolMatrix = values > limits.reshape(-1, 1)
    return exceeded


def micro_f1(Y_true: ArrayLike, Y_pred: ArrayLike) -> float:
    r"""Micro-F1, :math:`2 \sum_c TP_c / \sum_c (\hat P_c + P_c)`, all entries pooled.

    TP are the hits, :math:`\hat P` the predicted and P the true positives of label c, over known entries.

    Parameters
    ----------
    Y_true : array-like of shape (n_images, n_labels)
        1 present, 0 absent, NaN unknown (not counted).
    Y_pred : array-like of shape (n_images, n_labels)
        0/1 or boolean, as made by `top_k` or `above_threshold`.

    Returns
    -------
    float
        In [0, 1].

    Examples
    --------
    >>> micro_f1([[1, 0, 1]], [[1, 1, 0]])
    0.5
    """
    return _f1(*_count(Y_true, Y_pred).pooled())


def macro_f1(Y_true: ArrayLike, Y_pred: ArrayLike) -> float:
    r"""Macro-F1, :math:`\frac{1}{L} \sum_c 2 TP_c / (\hat P_c + P_c)`, the mean of the labels' F1.

    A label with neither positives nor predictions has F1 = 0 and stays in the mean (scikit-learn's
    ``zero_division=0``); a label with no known entry at all is left out of it.

    Parameters
    ----------
    Y_true : array-like of shape (n_images, n_labels)
        1 present, 0 absent, NaN unknown (not counted).
    Y_pred : array-like of shape (n_images, n_labels)
        0/1 or boolean.

    Returns
    -------
    float
        In [0, 1].
    """
    hits, predicted, positive = _count(Y_true, Y_pred)
    return float(_ratio(2 * hits, predicted + positive).mean())


def hamming_loss(Y_true: ArrayLike, Y_pred: ArrayLike) -> float:
    r"""Hamming loss, :math:`|\{(i, c) : \hat y_{ic} \ne y_{ic}\}| / |\{(i, c)\}|`, over the known entries.

    Of a top-k prediction of L labels with a positives an image it is a function of the micro-F1:
    Hamming * L = (k + a) (1 - F1). It alone among these metrics does not need a positive.

    Parameters
    ----------
    Y_true : array-like of shape (n_images, n_labels)
        1 present, 0 absent, NaN unknown (not counted).
    Y_pred : array-like of shape (n_images, n_labels)
        0/1 or boolean.

    Returns
    -------
    float
        In [0, 1]; 0 is best.
    """
    targets = check_targets(Y_true, need_positive=False)
    predicted = check_predictions(Y_pred)
    check_same_shape(targets.relevant, predicted, "Y_pred")
    n_known = int(targets.n_known(axis=0).sum())
    if n_known == 0:
        raise ValueError("Y_true: every entry is NaN, so nothing can be counted. Pass some known entries.")
    return int(targets.counted(targets.relevant != predicted).sum()) / n_known


def precision_at_k(Y_true: ArrayLike, scores: ArrayLike, k: int) -> float:
    r"""Precision at k, :math:`\sum_c TP_c / \sum_c \hat P_c` of the `top_k` prediction, all images pooled.

    Without unknown entries this is also the mean over images of hits / k.

    Parameters
    ----------
    Y_true : array-like of shape (n_images, n_labels)
        1 present, 0 absent, NaN unknown (not counted).
    scores : array-like of shape (n_images, n_labels)
        Finite; higher means more likely present.
    k : int
        Labels predicted for each image, over all labels, known or not.

    Returns
    -------
    float
        In [0, 1].
    """
    hits, predicted, _ = _count(Y_true, top_k(scores, k), "scores").pooled()
    return _divide(hits, predicted)


def recall_at_k(Y_true: ArrayLike, scores: ArrayLike, k: int) -> float:
    r"""Recall at k, :math:`\sum_c TP_c / \sum_c P_c` of the `top_k` prediction, all images pooled.

    Pooled means that every positive weighs the same, not every image.

    Parameters
    ----------
    Y_true : array-like of shape (n_images, n_labels)
        1 present, 0 absent, NaN unknown (not counted).
    scores : array-like of shape (n_images, n_labels)
        Finite; higher means more likely present.
    k : int
        Labels predicted for each image, over all labels, known or not.

    Returns
    -------
    float
        In [0, 1].
    """
    hits, _, positive = _count(Y_true, top_k(scores, k), "scores").pooled()
    return _divide(hits, positive)


def f1_at_k(Y_true: ArrayLike, scores: ArrayLike, k: int) -> float:
    r"""F1 at k, :math:`2 \sum_c TP_c / \sum_c (\hat P_c + P_c)` of the `top_k` prediction, all images pooled.

    It is the `micro_f1` of that prediction, and the harmonic mean of `precision_at_k` and `recall_at_k`.

    Parameters
    ----------
    Y_true : array-like of shape (n_images, n_labels)
        1 present, 0 absent, NaN unknown (not counted).
    scores : array-like of shape (n_images, n_labels)
        Finite; higher means more likely present.
    k : int
        Labels predicted for each image, over all labels, known or not.

    Returns
    -------
    float
        In [0, 1].
    """
    return _f1(*_count(Y_true, top_k(scores, k), "scores").pooled())


def precision_recall_f1(Y_true: ArrayLike, Y_pred: ArrayLike) -> PrecisionRecallF1:
    r"""Overall OP, OR, OF1 and per-class CP, CR, CF1 of a 0/1 prediction.

    .. math::
        OP = \frac{\sum_c TP_c}{\sum_c \hat P_c}, \quad OR = \frac{\sum_c TP_c}{\sum_c P_c}, \quad
        CP = \frac{1}{L} \sum_c \frac{TP_c}{\hat P_c}, \quad CR = \frac{1}{L} \sum_c \frac{TP_c}{P_c}

    and OF1, CF1 the harmonic means of the two. So OF1 is `micro_f1`, while CF1, the F1 of the mean precision
    and the mean recall as in the multi-label literature, is not `macro_f1`, the mean of the labels' F1.
    A label without predictions has precision 0, one without positives has recall 0; a label with no known
    entry is left out of both means.

    Parameters
    ----------
    Y_true : array-like of shape (n_images, n_labels)
        1 present, 0 absent, NaN unknown (not counted).
    Y_pred : array-like of shape (n_images, n_labels)
        0/1 or boolean.

    Returns
    -------
    PrecisionRecallF1
        Named tuple of six floats in [0, 1].
    """
    counts = _count(Y_true, Y_pred)
    hits, predicted, positive = counts.pooled()
    class_precision = float(_ratio(counts.hits, counts.predicted).mean())
    class_recall = float(_ratio(counts.hits, counts.positive).mean())
    return PrecisionRecallF1(
        overall_precision=_divide(hits, predicted),
        overall_recall=_divide(hits, positive),
        overall_f1=_f1(hits, predicted, positive),
        class_precision=class_precision,
        class_recall=class_recall,
        class_f1=_divide(2 * class_precision * class_recall, class_precision + class_recall),
    )


def _earlier_first(values: FloatMatrix, cut: FloatMatrix, k: int) -> BoolMatrix:
    """Resolve ties at the k-th score: all labels above it, then the tied ones from the left."""
    above, tied = values > cut, values == cut
    places_left = k - above.sum(axis=1, keepdims=True)
    chosen: BoolMatrix = above | (tied & (np.cumsum(tied, axis=1) <= places_left))
    return chosen


def _count(Y_true: ArrayLike, Y_pred: ArrayLike, name: str = "Y_pred") -> _Counts:
    targets, predicted = check_targets(Y_true), check_predictions(Y_pred, name)
    check_same_shape(targets.relevant, predicted, name)
    judged = targets.n_known(axis=0) > 0
    counted = targets.counted(predicted)
    hits = np.count_nonzero(targets.relevant & counted, axis=0)
    return _Counts(
        hits=hits[judged],
        predicted=np.count_nonzero(counted, axis=0)[judged],
        positive=np.count_nonzero(targets.relevant, axis=0)[judged],
    )


def _ratio(part: NDArray[Any], whole: NDArray[Any]) -> NDArray[np.float64]:
    ratio: NDArray[np.float64] = np.divide(part, whole, out=np.zeros(part.shape), where=whole > 0)
    return ratio


def _divide(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _f1(hits: int, predicted: int, positive: int) -> float:
    return _divide(2 * hits, predicted + positive)
