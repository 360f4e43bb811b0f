"""The evaluation protocol: which labels are seen, and which images count.

1. Split the labels: `alternating_split` (the paper's), `random_split`, `named_split`, or a published one by its
   name, `class_split`.
2. Choose hyper-parameters on the seen labels: `unseen.evaluation.search.class_holdout_search`.
3. Fit on the `training_view`, test on the `zero_shot_view` and the `generalized_view`, `evaluate` the scores.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from unseen.datasets.voc import VOC_CLASSES
from unseen.evaluation import metrics
from unseen.labels.names import label_key
from unseen.validation import check_count, check_matrix, check_names, check_targets, find_names, listed


def _read_splits() -> dict[tuple[str, str], tuple[str, ...]]:
    text = files("unseen.evaluation").joinpath("class_splits.csv").read_text(encoding="utf-8")
    return {
        (row["split"], row["side"]): tuple(row["labels"].split(", ")) for row in csv.DictReader(text.splitlines())
    }


# By name: seen labels, or the number of them if they are all the others; unseen labels.
_LABELS = _read_splits()
CLASS_SPLITS: Final[dict[str, tuple[tuple[str, ...] | int, tuple[str, ...]]]] = {
    "voc_alternating": (VOC_CLASSES[0::2], VOC_CLASSES[1::2]),
    "coco48/17": (_LABELS["coco48/17", "seen"], _LABELS["coco48/17", "unseen"]),
    "coco65/15": (65, _LABELS["coco65/15", "unseen"]),
    "nuswide925/81": (925, _LABELS["nuswide925/81", "unseen"]),
}


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
    """The part of a data set that one phase of an experiment may use."""

    X: Any
    Y: NDArray[Any]
    labels: NDArray[np.intp]  # columns of the full label matrix
    names: tuple[str, ...]
    images: NDArray[np.intp]  # and its rows


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


def class_split(classes: str, names: Sequence[str]) -> ClassSplit:
    """Published split of the labels of a data set, by its name.

    Labels are found by `unseen.labels.names.label_key`: "aeroplane" is "airplane". Those that a split does not
    mention are on neither side, or all seen.

    Parameters
    ----------
    classes : {"voc_alternating", "coco48/17", "coco65/15", "nuswide925/81"}
        The paper's split of PASCAL VOC; those of COCO by Bansal et al. (2018) and by Rahman et al. (2018); or
        NUS-WIDE's 81 concepts as unseen labels of its 925 other tags.
    names : sequence of str
        All labels of the data set.
    """
    names = check_names(names, "names")
    if classes not in CLASS_SPLITS:
        raise ValueError(f"classes: {classes!r} is not a known split. Pass one of {', '.join(CLASS_SPLITS)}.")
    places = {label_key(name): name for name in reversed(names)} | {name: name for name in names}
    seen, unseen = CLASS_SPLITS[classes]
    wanted = unseen if isinstance(seen, int) else seen + unseen
    found = {name: places.get(name, places.get(label_key(name))) for name in wanted}
    missing = [name for name, own in found.items() if own is None]
    if missing:
        lacking = f"{len(missing)} of the {len(wanted)} labels of {classes!r}: {listed(missing)}"
        raise ValueError(f"classes: the data lack {lacking}. Known splits: {', '.join(CLASS_SPLITS)}.")
    if isinstance(seen, int) and len(names) != seen + len(unseen):
        rest = f"{len(names) - len(unseen)} labels beside the {len(unseen)} unseen ones"
        raise ValueError(f"classes: {classes!r} has {seen} seen labels, and the data {rest}.")
    sides = (None if isinstance(side, int) else [str(found[name]) for name in side] for side in (seen, unseen))
    return named_split(names, *sides)


def name_of_split(split: ClassSplit) -> str | None:
    """Name of a published split; None for any other."""
    for name in CLASS_SPLITS:
        with suppress(ValueError):  # other labels
            if class_split(name, split.names) == _split(split.seen, split.unseen, split.names):
                return name
    return None


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
    X = X.tocsr() if hasattr(X, "tocsr") else np.asanyarray(X)
    if X.shape[:1] != (len(matrix),):
        raise ValueError(f"X: its shape is {X.shape}. Pass {len(matrix)} rows, one per row of Y.")
    X = X if len(images) == len(matrix) else X[images]  # a full memory map stays on disk
    return View(X, matrix[np.ix_(images, labels)], labels, names, images)
