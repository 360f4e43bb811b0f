"""The evaluation protocol: which labels are seen, and which images count.

1. Split the labels: `alternating_split` (the paper's), `random_split` or `named_split`.
2. Choose hyper-parameters on the seen labels: `unseen.evaluation.search.class_holdout_search`.
3. Fit on the `training_view`, test on the `zero_shot_view` and the `generalized_view`, `evaluate` the scores.

``X`` are features, in memory, memory-mapped or sparse; ``Y`` has one row per image and one column per label: 1
present, 0 absent, NaN unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from unseen.evaluation import metrics
from unseen.validation import check_count, check_matrix, check_names, check_targets, find_names, listed


@dataclass(frozen=True)
class ClassSplit:
    """Seen and unseen columns of a label matrix, and the names of *all* columns; some may be on neither side."""

    seen: tuple[int, ...]
    unseen: tuple[int, ...]
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        check_names(self.names, "names")
        for side, columns in (("seen", self.seen), ("unseen", self.unseen)):
            if not columns:
                raise ValueError(f"{side}: no label is {side}. Put at least one label on each side.")
            if len(set(columns)) < len(columns) or not set(columns) <= set(range(len(self.names))):
                raise ValueError(f"{side}: {columns}. Pass distinct columns from 0 to {len(self.names) - 1}.")
        both = sorted(set(self.seen) & set(self.unseen))
        if both:
            raise ValueError(f"unseen: {listed([self.names[i] for i in both])} also seen. Put labels on one side.")

    @property
    def seen_names(self) -> tuple[str, ...]:
        """Names of the seen labels, in the order of ``seen``."""
        return tuple(self.names[column] for column in self.seen)

    @property
    def unseen_names(self) -> tuple[str, ...]:
        """Names of the unseen labels, in the order of ``unseen``."""
        return tuple(self.names[column] for column in self.unseen)


@dataclass(frozen=True, eq=False)
class View:
    """The part of a data set that one phase of an experiment may use.

    ``labels`` and ``images`` are the columns and rows of the full label matrix that those of ``Y`` come from.
    """

    X: Any
    Y: NDArray[Any]
    labels: NDArray[np.intp]
    names: tuple[str, ...]
    images: NDArray[np.intp]


def alternating_split(names: Sequence[str]) -> ClassSplit:
    """Split of the paper: in alphabetical order, ignoring case, positions 0, 2, 4... are seen.

    Examples
    --------
    >>> alternating_split(["dog", "bird", "cat"]).seen_names
    ('dog', 'bird')
    """
    names = check_names(names, "names")
    order = sorted(range(len(names)), key=lambda column: (names[column].casefold(), names[column]))
    return _split(order[0::2], order[1::2], names)


def random_split(names: Sequence[str], n_seen: int | None = None, random_state: Any = None) -> ClassSplit:
    """Split with ``n_seen`` labels drawn at random as the seen ones; None for half of them, rounded up."""
    names = check_names(names, "names")
    n_seen = (len(names) + 1) // 2 if n_seen is None else check_count(n_seen, "n_seen")
    order = check_random_state(random_state).permutation(len(names)).tolist()
    return _split(order[:n_seen], order[n_seen:], names)


def named_split(
    names: Sequence[str], seen: Sequence[str] | None, unseen: Sequence[str] | None = None
) -> ClassSplit:
    """Split with one or both sides given by name; a side that is None gets the remaining labels.

    Examples
    --------
    >>> named_split(["dog", "bird", "cat"], seen=["cat"]).unseen
    (0, 1)
    """
    names = check_names(names, "names")
    places = {name: column for column, name in enumerate(names)}
    sides = [
        None if side is None else find_names(check_names(side, argument), places, argument, "Pass column names.")
        for side, argument in ((seen, "seen"), (unseen, "unseen"))
    ]
    if sides == [None, None]:
        raise ValueError("seen: neither seen nor unseen labels were given. Name the labels of at least one side.")
    rest = set(range(len(names))) - set(sides[0] or ()) - set(sides[1] or ())
    return _split(rest if sides[0] is None else sides[0], rest if sides[1] is None else sides[1], names)


def training_view(X: Any, Y: ArrayLike, split: ClassSplit) -> View:
    """Images with a seen label, and the seen columns."""
    return _view(X, Y, split, split.seen)


def zero_shot_view(X: Any, Y: ArrayLike, split: ClassSplit) -> View:
    """Images with an unseen label, and the unseen columns."""
    return _view(X, Y, split, split.unseen)


def generalized_view(X: Any, Y: ArrayLike, split: ClassSplit) -> View:
    """All images, and the seen columns followed by the unseen ones."""
    return _view(X, Y, split, split.seen + split.unseen, all_images=True)


def evaluate(scores: ArrayLike, view: View, k: int = 3) -> metrics.Summary:
    """`metrics.summary` of scores for a view."""
    return metrics.summary(view.Y, scores, k)


def _split(seen: Iterable[int], unseen: Iterable[int], names: tuple[str, ...]) -> ClassSplit:
    return ClassSplit(tuple(sorted(seen)), tuple(sorted(unseen)), names)


def _view(X: Any, Y: ArrayLike, split: ClassSplit, columns: tuple[int, ...], all_images: bool = False) -> View:
    matrix, labels = check_matrix(Y, "Y"), np.array(columns, dtype=np.intp)
    relevant = check_targets(matrix, "Y", need_positive=False)[0]
    if matrix.shape[1] != len(split.names):
        raise ValueError(f"Y: {matrix.shape[1]} columns. Pass one for each of the {len(split.names)} labels.")
    images = np.flatnonzero(relevant[:, labels].any(axis=1) | all_images)
    names = tuple(split.names[column] for column in columns)
    if images.size == 0:
        raise ValueError(f"Y: no image has one of the labels {listed(names)}. Pass other images or another split.")
    X = X.tocsr() if hasattr(X, "tocsr") else X if isinstance(X, np.ndarray) else np.asarray(X)
    if X.shape[:1] != (len(matrix),):
        raise ValueError(f"X: its shape is {X.shape}. Pass {len(matrix)} rows, one per row of Y.")
    X = X if len(images) == len(matrix) else X[images]  # a full memory map stays on disk
    return View(X, matrix[np.ix_(images, labels)], labels, names, images)
