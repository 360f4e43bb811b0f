"""Metrics of multi-label scores and predictions; a metric knows nothing of models.

Every function takes the truth first: ``Y_true`` of shape (n_images, n_labels) with 1 present, 0 absent and
NaN unknown. Rankings are made without unknown entries and counts pass over them; a prediction of the top k does
not know what is unknown, so such an entry may use up one of its k places. All values are fractions in [0, 1].

- Rankings: `mean_image_average_precision`, `mean_average_precision`, `ranking_loss`.
- Predictions from scores: `top_k`, `above_threshold`.
- Metrics of predictions: `micro_f1`, `macro_f1`, `hamming_loss`, `precision_recall_f1`, and of the top k
  `precision_at_k`, `recall_at_k`, `f1_at_k`.
- Generalized zero-shot learning: `harmonic_mean`, `seen_unseen_curve`, `seen_unseen_auc`.
- The four figures of the paper's tables: `summary`.
"""

from __future__ import annotations

from typing import NamedTuple

from numpy.typing import ArrayLike

from unseen.evaluation._predictions import (
    PrecisionRecallF1,
    above_threshold,
    f1_at_k,
    hamming_loss,
    macro_f1,
    micro_f1,
    precision_at_k,
    precision_recall_f1,
    recall_at_k,
    top_k,
)
from unseen.evaluation._ranking import mean_average_precision, mean_image_average_precision, ranking_loss
from unseen.evaluation._seen_unseen import (
    SeenUnseenCurve,
    harmonic_mean,
    seen_unseen_auc,
    seen_unseen_curve,
)

__all__ = [
    "PrecisionRecallF1",
    "SeenUnseenCurve",
    "Summary",
    "above_threshold",
    "f1_at_k",
    "hamming_loss",
    "harmonic_mean",
    "macro_f1",
    "mean_average_precision",
    "mean_image_average_precision",
    "micro_f1",
    "precision_at_k",
    "precision_recall_f1",
    "ranking_loss",
    "recall_at_k",
    "seen_unseen_auc",
    "seen_unseen_curve",
    "summary",
    "top_k",
]


class Summary(NamedTuple):
    """The four figures of the paper's tables, as fractions; ``_asdict()`` makes a table row."""

    miap: float
    micro_f1: float
    macro_f1: float
    hamming: float


def summary(Y_true: ArrayLike, scores: ArrayLike, k: int = 3) -> Summary:
    """MiAP of the scores, and micro-F1, macro-F1 and Hamming loss of their top-k prediction.

    Parameters
    ----------
    Y_true : array-like of shape (n_images, n_labels)
        1 present, 0 absent, NaN unknown.
    scores : array-like of shape (n_images, n_labels)
        Finite; higher means more likely present.
    k : int, default=3
        Labels predicted for each image; the paper's tables follow from 3.

    Returns
    -------
    Summary
        Named tuple ``(miap, micro_f1, macro_f1, hamming)``. MiAP is over the images with a positive, the
        others over all images.

    Examples
    --------
    >>> summary([[1, 0, 0, 0]], [[4.0, 3.0, 2.0, 1.0]], k=1)
    Summary(miap=1.0, micro_f1=1.0, macro_f1=0.25, hamming=0.0)
    """
    miap = mean_image_average_precision(Y_true, scores)
    predicted = top_k(scores, k)
    return Summary(
        miap=miap,
        micro_f1=micro_f1(Y_true, predicted),
        macro_f1=macro_f1(Y_true, predicted),
        hamming=hamming_loss(Y_true, predicted),
    )
