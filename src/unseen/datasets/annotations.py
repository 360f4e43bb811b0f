"""Which image shows which label: the common format that every data set is read into."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from unseen.files import csv_cell, write_atomically
from unseen.validation import check_choice, check_names, find_names, listed

Images = Sequence[str | PathLike[str]]
Form = Literal["auto", "lists", "pairs", "columns"]  # of a table

# Reserved column names of a table; the second kind applies only if there is no other column of labels.
SPLIT_COLUMNS = frozenset({"split", "subsplit"})
NAME_COLUMNS: dict[str, Form] = {"labels": "lists", "tags": "lists", "label": "pairs", "tag": "pairs"}


MOST_ENTRIES = 2**33  # of Y: 8 GB; 9 million images of Open Images with 600 labels have 5.4e9
_BLOCK = 2**22  # entries that are looked at together


class Annotations:
    """Y[i, c] = 1 if image i shows label c, 0 if it does not, NaN if that is unknown.

    ``images`` are paths or identifiers, ``split`` is the part of the data set that each belongs to (or None). Y is
    int8, or float32 if some entries are unknown; read-only and dense.
    """

    def __init__(self, images: Images, labels: Sequence[str], Y: Any, split: Sequence[str] | None = None) -> None:
        self.images = tuple(map(_text, images))
        self.labels = check_names(labels, "labels")
        self.split = None if split is None else tuple(map(str, split))
        if not self.images or not all(self.images):
            raise ValueError("images: empty, or one has no name. Pass one path or id per image.")
        repeated = [name for name, count in Counter(self.images).items() if count > 1]
        if repeated:
            raise ValueError(f"images: {listed(repeated)} given more than once. Pass one row per image.")
        if self.split is not None and len(self.split) != len(self.images):
            raise ValueError(f"split: {len(self.split)} were given for {len(self.images)} images.")
        Y, shape = np.asarray(Y), (len(self.images), len(self.labels))
        if Y.shape != shape or Y.dtype.kind not in "biuf":
            raise ValueError(f"Y: its shape is {Y.shape} and its type {Y.dtype}. Pass numbers of shape {shape}.")
        unknown = False
        for part in _blocks(Y):
            unknown |= bool((part != part).any())
            wrong = part[(part != 0) & (part != 1) & (part == part)]
            if wrong.size:
                raise ValueError(f"Y: {wrong[0]} was given. Write 1 for present, 0 for absent, NaN for unknown.")
        self.Y: NDArray[Any] = Y.astype(np.float32 if unknown else np.int8, copy=False).view()
        self.Y.flags.writeable = False

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        parts = "" if self.split is None else f", split: {', '.join(dict.fromkeys(self.split))}"
        return f"Annotations({len(self.images)} images, {len(self.labels)} labels{parts})"

    def select(
        self, images: Images | None = None, labels: Iterable[str] | None = None, split: str | None = None
    ) -> "Annotations":
        """Part of the annotations: images (found as by `rows_for`) and labels in the given order, one split."""
        rows = np.arange(len(self.images)) if images is None else self.rows_for(images)
        if split is not None:
            rows = rows[[self.split is not None and self.split[i] == split for i in rows]]
            if not len(rows):
                known = listed(sorted(set(self.split or ()))) or "none: the images are not split"
                raise ValueError(f"split: no image is in {split!r}. Parts: {known}.")
        names, Y = self.labels, self.Y[rows]
        if labels is not None:
            names = check_names(labels, "labels")
            places = {name: i for i, name in enumerate(self.labels)}
            Y = Y[:, find_names(names, places, "labels", "Choose among the labels of the data.")]
        part = None if self.split is None else tuple(self.split[i] for i in rows)
        return Annotations(tuple(self.images[i] for i in rows), names, Y, part)

    def rows_for(self, paths: Images, missing: Literal["error", "mark"] = "error") -> NDArray[np.int64]:
        """Row of each given image, so that ``Y[rows_for(paths)]`` belongs to features of these paths.

        A path matches the image with exactly this name; else the only image for which one path ends with the
        other, folder by folder (``/data/cats/1.jpg`` and ``cats/1.jpg``); else the same without file
        suffixes (``JPEGs/000005.jpg`` and ``000005``). If several paths match an image, the earliest rule decides.
        An ambiguous path is an error; so is a path without a match, or, with ``missing="mark"``, it gets row -1.
        """
        check_choice(missing, "missing", ("error", "mark"))
        if isinstance(paths, str | PathLike):
            raise ValueError(f"paths: the single path {fspath(paths)!r} was given. Pass a list.")
        given = [_text(path) for path in paths]
        rows = match_rows(given, self.images)
        unknown = [given[i] for i in np.flatnonzero(rows < 0)]
        if unknown and missing == "error":
            advice = f"Name them as the annotations do, such as {self.images[0]!r}, or pass missing='mark'"
            raise ValueError(f"paths: {len(unknown)} images have no annotations: {listed(unknown)}. {advice}.")
        return rows

    def counts(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Number of images per label where it is present, absent and unknown."""
        present, unknown = np.zeros((2, len(self.labels)), dtype=np.int64)
        for part in _blocks(self.Y):
            present += np.count_nonzero(part == 1, axis=0)
            unknown += np.count_nonzero(part != part, axis=0)
        return present, len(self.images) - present - unknown, unknown

    def to_csv(self, path: str | PathLike[str]) -> None:
        """Write a table for `read_table`: path, split if there is one, and 1, 0 or an empty cell per label."""
        import pandas as pd

        taken = [name for name in self.labels if name.lower() in SPLIT_COLUMNS]
        if taken or (len(self.labels) == 1 and self.labels[0].lower() in NAME_COLUMNS):
            raise ValueError(f"labels: {(taken or self.labels)[0]!r} means something else in a table. Rename it.")
        table = pd.DataFrame(self.Y, columns=[csv_cell(name) for name in self.labels]).astype("Int8")
        if self.split is not None:
            table.insert(0, "split", [csv_cell(part) for part in self.split])
        table.insert(0, "path", [csv_cell(name) for name in self.images], allow_duplicates=True)
        write_atomically(Path(path), lambda file: table.to_csv(file, index=False, lineterminator="\n"))


def absent(n_images: int, n_labels: int, dtype: type = np.int8) -> NDArray[Any]:
    """Y without any label; a ValueError, and no attempt, if it would have too many entries."""
    with suppress(MemoryError):
        if n_images * n_labels <= MOST_ENTRIES:
            return np.zeros((n_images, n_labels), dtype=dtype)
    size = f"{n_images:,} images and {n_labels:,} labels make {n_images * n_labels:,} entries"
    raise ValueError(f"Y: {size}, too many for the memory, or more than {MOST_ENTRIES:,}. Leave out rare labels.")


def _blocks(Y: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Rows of a matrix, of a few MB at a time."""
    step = max(1, _BLOCK // Y.shape[1])
    return (Y[start : start + step] for start in range(0, len(Y), step))


def match_rows(paths: Sequence[str], images: Sequence[str]) -> NDArray[np.int64]:
    """Row of ``images`` for each path, -1 for none, by the rules of `Annotations.rows_for`; with slashes only."""
    exact = {name: row for row, name in enumerate(images)}
    by_stem: dict[str, list[int]] = defaultdict(list)
    for row, name in enumerate(images):
        by_stem[_stem_parts(name)[-1]].append(row)
    fitting: dict[int, list[tuple[int, str]]] = defaultdict(list)  # paths per row, with the rule they match by
    for path in dict.fromkeys(paths):
        same_stem = by_stem.get(_stem_parts(path)[-1], [])
        row, rule = (exact[path], 0) if path in exact else _match(path, images, same_stem)
        fitting[row].append((rule, path))
    found: dict[str, int] = {}
    for row in fitting.keys() - {-1}:
        earliest, path = min(fitting[row])
        found[path] = row
        equal = [other for rule, other in fitting[row] if rule == earliest]
        if len(equal) > 1:
            raise ValueError(f"paths: {listed(equal)} all match the image {images[row]!r}. Pass one of them.")
    return np.array([found.get(path, -1) for path in paths], dtype=np.int64)


def _match(path: str, images: Sequence[str], rows: list[int]) -> tuple[int, int]:
    """Row of the image that a path matches, among those with the same stem, and the rule that matched."""
    for rule, parts in enumerate((_parts, _stem_parts), start=1):
        one = parts(path)
        others = {row: parts(images[row]) for row in rows}
        fitting = [row for row, other in others.items() if one[-len(other) :] == other[-len(one) :]]
        if len(fitting) > 1:
            names = listed([images[row] for row in fitting])
            raise ValueError(f"paths: {path!r} may be {names}. Pass the path as in the annotations.")
        if fitting:
            return fitting[0], rule
    return -1, 0


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".", "..")] or [path]


def _stem_parts(path: str) -> list[str]:
    """The same without the file suffix: two to four letters or digits, starting with a letter."""
    *folders, name = _parts(path)
    return [*folders, re.sub(r"(?<=.)\.[A-Za-z][A-Za-z0-9]{1,3}$", "", name)]


def _text(path: str | PathLike[str]) -> str:
    return str(fspath(path)).replace("\\", "/")
