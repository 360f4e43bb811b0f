"""Metrics of multi-label scores and predictions.

``Y_true`` has one row per image and one column per label: 1 present, 0 absent, NaN unknown. ``scores`` has the
same shape and is finite; higher means more likely present. All values are fractions in [0, 1].

- **Unknown entries** are left out of rankings and counts. Predictions cannot know which these are, so such an
  entry may use up one of the k places of a top-k prediction.
- **Ties** in a ranking are reached together, at the worst rank of their group, so equal scores gain nothing.
- A ratio with denominator 0 is 0.

These are scikit-learn's definitions; its functions take neither unknown entries nor a single label.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unseen.validation import BoolMatrix, FloatMatrix, check_count, check_predictions, check_scores, check_targets

_BLOCK_ENTRIES = 1 << 20  # matrix entries sorted at a time, with some 50 bytes of workspace each


class Summary(NamedTuple):
    """The figures of the tables: of rankings, of the top k labels (k = 3 unless said otherwise), of the top 5."""

    miap: float
    map: float
    micro_f1: float
    macro_f1: float
    hamming: float
    f1_at_5: float


class Reliability(NamedTuple):
    """Entries grouped by their probability: how many, the mean probability, the share that is present."""

    n_entries: NDArray[np.intp]
    mean_p: NDArray[np.float64]  # NaN without entries
    observed: NDArray[np.float64]


def summary(Y_true: ArrayLike, scores: ArrayLike, k: int = 3) -> Summary:
    """MiAP and mAP of the scores, micro-F1, macro-F1 and Hamming loss of the top k, and micro-F1 of the top 5.

    Examples
    --------
    >>> summary([[1, 0, 0, 0]], [[4.0, 3.0, 2.0, 1.0]], k=1)
    Summary(miap=1.0, map=1.0, micro_f1=1.0, macro_f1=0.25, hamming=0.0, f1_at_5=0.4)
    """
    rankings = mean_image_average_precision(Y_true, scores), mean_average_precision(Y_true, scores)
    predicted = top_k(scores, k)
    return Summary(
        *rankings,
        micro_f1(Y_true, predicted),
        macro_f1(Y_true, predicted),
        hamming_loss(Y_true, predicted),
        micro_f1(Y_true, top_k(scores, 5)),
    )


def mean_image_average_precision(Y_true: ArrayLike, scores: ArrayLike) -> float:
    r"""MiAP, the mean over images of the average precision of the image's label ranking.

    .. math::
        \frac{1}{|I|} \sum_{i \in I} \frac{1}{|P_i|} \sum_{c \in P_i}
        \frac{|\lbrace p \in P_i : s_{ip} \ge s_{ic} \rbrace|}{|\lbrace l \in K_i : s_{il} \ge s_{ic} \rbrace|}

    where :math:`K_i` are the labels known for image i, :math:`P_i` the positive ones, and I the images with a
    positive (``sklearn.metrics.label_ranking_average_precision_score`` counts the others as 1).
    """
    return float(np.nanmean(_average_precisions(*_check(Y_true, scores))))


def label_average_precision(Y_true: ArrayLike, scores: ArrayLike) -> NDArray[np.float64]:
    r"""Average precision of each label's image ranking, :math:`\sum_t (R_t - R_{t-1}) P_t`.

    :math:`P_t, R_t` are precision and recall at the t-th highest distinct score, as in
    ``sklearn.metrics.average_precision_score``; NaN for a label without a known positive.
    """
    # Sorting runs along rows: a transposed view would be several times slower than a copy.
    return _average_precisions(*(np.ascontiguousarray(part.T) for part in _check(Y_true, scores)))


def mean_average_precision(Y_true: ArrayLike, scores: ArrayLike) -> float:
    """mAP, the mean of `label_average_precision` over the labels that have a known positive."""
    return float(np.nanmean(label_average_precision(Y_true, scores)))


def top_k(scores: ArrayLike, k: int) -> BoolMatrix:
    """Predict the k best-scored labels of every image; ties at the k-th score go to the earlier column."""
    values = check_scores(scores)
    chosen = np.zeros(values.shape, dtype=np.bool_)
    np.put_along_axis(chosen, np.argsort(-values, axis=1, kind="stable")[:, : check_count(k, "k")], True, axis=1)
    return chosen


def micro_f1(Y_true: ArrayLike, Y_pred: ArrayLike) -> float:
    r"""Micro-F1, :math:`2 \sum_c TP_c / \sum_c (\hat P_c + P_c)`, with all entries pooled."""
    return precision_recall_f1(Y_true, Y_pred)[2]


def macro_f1(Y_true: ArrayLike, Y_pred: ArrayLike) -> float:
    r"""Macro-F1, :math:`\frac{1}{L} \sum_c 2 TP_c / (\hat P_c + P_c)`, the mean of the labels' F1.

    A label with neither positives nor predictions counts as 0; one with no known entry is left out.
    """
    hits, predicted, positive, _ = _counts(Y_true, Y_pred)
    return float(_ratio(2 * hits, predicted + positive).mean())


def hamming_loss(Y_true: ArrayLike, Y_pred: ArrayLike) -> float:
    r"""Hamming loss, the share of known entries that are predicted wrongly."""
    hits, predicted, positive, n_known = _counts(Y_true, Y_pred, need_positive=False).sum(axis=1)
    return float(_ratio(predicted + positive - 2 * hits, n_known))


def precision_recall_f1(Y_true: ArrayLike, Y_pred: ArrayLike) -> tuple[float, float, float]:
    r"""Precision, recall and F1 of a 0/1 prediction, with all entries pooled."""
    hits, predicted, positive, _ = _counts(Y_true, Y_pred).sum(axis=1)
    return (
        float(_ratio(hits, predicted)),
        float(_ratio(hits, positive)),
        float(_ratio(2 * hits, predicted + positive)),
    )


def reliability(Y_true: ArrayLike, P: ArrayLike, n_groups: int = 10) -> Reliability:
    """Group the known entries by probability, in ``n_groups`` steps of equal width, and compare with the truth.

    Examples
    --------
    >>> reliability([[1, 0, 0]], [[0.9, 0.6, 0.1]], n_groups=2).observed.tolist()
    [0.0, 0.5]
    """
    relevant, known = check_targets(Y_true, need_positive=False)
    p = check_scores(P, "P", relevant.shape)
    if p.size and not 0.0 <= p.min() <= p.max() <= 1.0:
        raise ValueError(f"P: values from {p.min():g} to {p.max():g}. Pass probabilities, between 0 and 1.")
    if known is not None:
        relevant, p = relevant[known], p[known]
    n_groups = check_count(n_groups, "n_groups")
    group = np.minimum((n_groups * p.ravel()).astype(np.intp), n_groups - 1)
    counts = np.bincount(group, minlength=n_groups)
    sums = (np.bincount(group, values.ravel(), n_groups) for values in (p, relevant))
    return Reliability(counts, *(_ratio(total, counts, otherwise=np.nan) for total in sums))


def _check(Y_true: ArrayLike, scores: ArrayLike) -> tuple[BoolMatrix, FloatMatrix, BoolMatrix]:
    relevant, known = check_targets(Y_true)
    values = check_scores(scores, shape=relevant.shape)
    return relevant, values, np.ones_like(relevant) if known is None else known


def _average_precisions(relevant: Any, values: Any, known: Any) -> NDArray[np.float64]:
    """Return the average precision of each row; NaN for a row without a positive."""
    from scipy.stats import rankdata

    found, n_rows = [], max(1, _BLOCK_ENTRIES // relevant.shape[1])
    for rows in (slice(start, start + n_rows) for start in range(0, len(relevant), n_rows)):
        costs, positive = np.where(known[rows], -values[rows], np.inf), relevant[rows]
        ranks, hits = (rankdata(part, "max", axis=1) for part in (costs, np.where(positive, costs, np.inf)))
        sums = np.sum(hits / ranks, axis=1, where=positive)
        found.append(_ratio(sums, positive.sum(axis=1), otherwise=np.nan))
    return np.concatenate(found)


def _counts(Y_true: ArrayLike, Y_pred: ArrayLike, need_positive: bool = True) -> NDArray[np.intp]:
    """Return rows of hits, predicted, positive and known entries, one column per label with a known entry."""
    relevant, known = check_targets(Y_true, need_positive=need_positive)
    predicted = check_predictions(Y_pred, shape=relevant.shape)
    known = np.ones_like(relevant) if known is None else known
    counts = np.stack([part.sum(axis=0) for part in (relevant & predicted, predicted & known, relevant, known)])
    return counts[:, counts[3] > 0]


def _ratio(part: Any, whole: Any, otherwise: float = 0.0) -> NDArray[np.float64]:
    whole = np.asarray(whole)
    return np.asarray(np.divide(part, whole, out=np.full(whole.shape, otherwise), where=whole != 0))
