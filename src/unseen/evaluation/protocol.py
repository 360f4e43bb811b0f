"""The evaluation protocol: who is seen, which images count, and how hyper-parameters may be chosen.

1. Split the classes: `alternating_split` (the paper's), `random_split`, `named_split`.
2. Fit on the `training_view`; test on the `zero_shot_view` or the `generalized_view`; `evaluate` the scores.
3. Choose hyper-parameters by `class_holdout`, which is given the seen labels only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unseen.evaluation import metrics
from unseen.evaluation._holdout import HoldoutFold, HoldoutProblem, class_holdout, holdout_problem
from unseen.evaluation._rows import check_rows, take_rows
from unseen.evaluation._splits import ClassSplit, alternating_split, named_split, random_split
from unseen.validation import check_matrix, check_targets

__all__ = [
    "ClassSplit",
    "HoldoutFold",
    "HoldoutProblem",
    "View",
    "alternating_split",
    "class_holdout",
    "evaluate",
    "generalized_view",
    "holdout_problem",
    "named_split",
    "random_split",
    "training_view",
    "zero_shot_view",
]


@dataclass(frozen=True, eq=False)
class View:
    """The part of a data set that one phase of an experiment may look at.

    Parameters
    ----------
    X : array, memory map or CSR matrix of shape (n_view_images, n_features)
        Features of the view's images.
    Y : ndarray of shape (n_view_images, n_view_labels)
        Truth in the dtype given; NaN stays NaN.
    labels : ndarray of shape (n_view_labels,)
        Column of the full label matrix that each column of ``Y`` comes from.
    names : tuple of str
        Names of the view's labels.
    images : ndarray of shape (n_view_images,)
        Row of the full data that each row comes from, rising.
    """

    X: Any
    Y: NDArray[Any]
    labels: NDArray[np.intp]
    names: tuple[str, ...]
    images: NDArray[np.intp]


def training_view(X: Any, Y: ArrayLike, split: ClassSplit) -> View:
    """Images i with some :math:`y_{ic} = 1`, c seen; the seen columns only.

    Parameters
    ----------
    X : array, memory map or sparse matrix of shape (n_images, n_features)
        Features; only the rows of the view are read.
    Y : array-like of shape (n_images, n_labels)
        All labels: 1 present, 0 absent, NaN unknown (kept).
    split : ClassSplit
        Of the columns of ``Y``.

    Returns
    -------
    View
        Columns in the order of ``split.seen``.
    """
    return _view(X, Y, split, split.seen, "seen")


def zero_shot_view(X: Any, Y: ArrayLike, split: ClassSplit) -> View:
    """Images i with some :math:`y_{ic} = 1`, c unseen; the unseen columns only.

    Parameters
    ----------
    X : array, memory map or sparse matrix of shape (n_images, n_features)
        Features; only the rows of the view are read.
    Y : array-like of shape (n_images, n_labels)
        All labels: 1 present, 0 absent, NaN unknown (kept).
    split : ClassSplit
        Of the columns of ``Y``.

    Returns
    -------
    View
        Columns in the order of ``split.unseen``.
    """
    return _view(X, Y, split, split.unseen, "unseen")


def generalized_view(X: Any, Y: ArrayLike, split: ClassSplit) -> View:
    """All images; the seen columns first, then the unseen ones.

    So the first ``len(split.seen)`` columns of the view are the seen labels, whatever their place in ``Y``.

    Parameters
    ----------
    X : array, memory map or sparse matrix of shape (n_images, n_features)
        Features; not copied.
    Y : array-like of shape (n_images, n_labels)
        All labels: 1 present, 0 absent, NaN unknown (kept).
    split : ClassSplit
        Of the columns of ``Y``.

    Returns
    -------
    View
        Columns in the order ``split.seen + split.unseen``.
    """
    return _view(X, Y, split, split.seen + split.unseen, None)


def evaluate(scores: ArrayLike, view: View, k: int = 3) -> metrics.Summary:
    """The `metrics.summary` of scores for a view: MiAP, and micro-F1, macro-F1 and Hamming loss at top k.

    Parameters
    ----------
    scores : array-like of shape (n_view_images, n_view_labels)
        Rows and columns in the order of the view.
    view : View
        A `zero_shot_view`, a `generalized_view`, or any other.
    k : int, default=3
        Labels predicted for each image.

    Returns
    -------
    metrics.Summary
    """
    return metrics.summary(view.Y, scores, k)


def _view(X: Any, Y: ArrayLike, split: ClassSplit, columns: tuple[int, ...], need: str | None) -> View:
    """``columns`` of the images that have a positive there; of all images if ``need`` is None."""
    matrix = check_matrix(Y, "Y")
    if matrix.shape[1] != len(split.names):
        raise ValueError(
            f"Y: {matrix.shape[1]} columns for a split of {len(split.names)} labels. Pass one column a label."
        )
    X = check_rows(X, len(matrix))
    labels = np.array(columns, dtype=np.intp)
    relevant = check_targets(matrix, "Y", need_positive=False).relevant
    images = np.arange(len(matrix))
    if need is not None:
        images = np.flatnonzero(relevant[:, labels].any(axis=1))
    if images.size == 0:
        raise ValueError(
            f"Y: none of its {len(matrix)} images has a positive among the {len(labels)} {need} labels. "
            f"Pass annotated images or another split."
        )
    return View(
        X=take_rows(X, images),
        Y=matrix[np.ix_(images, labels)],
        labels=labels,
        names=tuple(split.names[column] for column in columns),
        images=images,
    )
