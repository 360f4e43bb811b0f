"""Which image shows which label: the one form that every data set is read into."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unseen.datasets._matching import match_rows, namesake
from unseen.files import write_atomically
from unseen.validation import check_choice, check_names, find_names, listed

__all__ = ["LIST_COLUMNS", "NO_LABELS", "PAIR_COLUMNS", "Annotations", "LabelCounts"]

# Columns of a table that have a meaning of their own.
NO_LABELS = frozenset({"split", "subsplit"})
LIST_COLUMNS = frozenset({"labels", "tags"})
PAIR_COLUMNS = frozenset({"label", "tag"})

Images = Sequence[str | PathLike[str]]


class LabelCounts(NamedTuple):
    """Number of images, for each label, that show it, that do not, and of which it is not known."""

    present: NDArray[np.int64]
    absent: NDArray[np.int64]
    unknown: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Annotations:
    """Y[i, c] = 1 if image i shows label c, 0 if it does not, NaN if nobody knows.

    Attributes
    ----------
    images : tuple of str
        A path or an identifier an image, each once.
    labels : tuple of str
        The labels, each once.
    Y : ndarray of shape (n_images, n_labels)
        int8, or float32 if some entries are unknown; read-only. It is dense, since that is what estimators take:
        the largest data set read here, NUS-WIDE with 269,648 images and 1,006 labels, takes 271 MB.
    split : tuple of str, optional
        The part of the data set each image belongs to, such as ``trainval`` or ``test``.
    """

    images: tuple[str, ...]
    labels: tuple[str, ...]
    Y: NDArray[Any]
    split: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        images = tuple(map(_text, self.images))
        repeated = [name for name, count in Counter(images).items() if count > 1]
        if repeated:
            raise ValueError(f"images: {listed(repeated)} given more than once. Give every image one row.")
        if not images or not all(images):
            raise ValueError("images: none, or one without a name, was given. Pass a path or an id an image.")
        labels = check_names(self.labels, "labels")
        split = None if self.split is None else tuple(map(str, self.split))
        if split is not None and len(split) != len(images):
            raise ValueError(f"split: {len(split)} were given for {len(images)} images. Pass one an image.")
        # A frozen dataclass offers no other way to keep the checked values.
        object.__setattr__(self, "images", images)
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "split", split)
        object.__setattr__(self, "Y", _checked(self.Y, (len(images), len(labels))))

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        parts = "" if self.split is None else f", split: {', '.join(dict.fromkeys(self.split))}"
        return f"Annotations({len(self.images)} images, {len(self.labels)} labels{parts})"

    def select(
        self,
        images: Images | None = None,
        labels: Iterable[str] | None = None,
        split: str | Iterable[str] | None = None,
    ) -> Annotations:
        """Part of the annotations.

        Parameters
        ----------
        images : sequence of str or path, optional
            Images to keep, in this order, found as `rows_for` finds them. They keep the name they have here.
        labels : iterable of str, optional
            Labels to keep, in this order.
        split : str or iterable of str, optional
            Keep only images of these parts.

        Returns
        -------
        Annotations
        """
        rows = np.arange(len(self.images)) if images is None else self.rows_for(images)
        if split is not None:
            rows = rows[self._in_split(split)[rows]]
            if not len(rows):
                raise ValueError(f"split: none of the images is in {split!r}. Choose another part.")
        columns: slice | list[int] = slice(None)
        names = self.labels
        if labels is not None:
            names = check_names(labels, "labels")
            places = {name: i for i, name in enumerate(self.labels)}
            columns = find_names(names, places, "labels", "Choose among the labels of the data.")
        parts = None if self.split is None else tuple(self.split[i] for i in rows)
        return Annotations(tuple(self.images[i] for i in rows), names, self.Y[rows][:, columns], parts)

    def _in_split(self, wanted: str | Iterable[str]) -> NDArray[np.bool_]:
        if self.split is None:
            raise ValueError(f"split: {wanted!r} was asked for, but these images are not split. Leave it out.")
        parts = {wanted} if isinstance(wanted, str) else set(wanted)
        known = list(dict.fromkeys(self.split))
        if not parts <= set(known):
            raise ValueError(f"split: {listed(sorted(parts - set(known)))} was given. Choose of {listed(known)}.")
        return np.array([part in parts for part in self.split])

    def rows_for(self, paths: Images, missing: Literal["error", "mark"] = "error") -> NDArray[np.int64]:
        """Row of each given image, so that ``Y[rows_for(paths)]`` belongs to features of these paths.

        A path belongs to the image with exactly this name; else to the one image of which one path ends with the
        other, folder by folder (``/data/cats/1.jpg`` and ``cats/1.jpg``); else the same without the suffixes of
        images (``JPEGs/000005.jpg`` and ``000005``). Folders that contradict each other do not fit (``dogs/1.jpg``
        and ``cats/1.jpg``). If an image fits one path better than others, by this order, it is that path's.
        Nothing is guessed beyond that. Backslashes count as slashes.

        Parameters
        ----------
        paths : sequence of str or path
            The images, in the order of the rows wanted.
        missing : {"error", "mark"}, default="error"
            What to do about images without annotations: raise an error, or give them the row -1.

        Returns
        -------
        ndarray of shape (n_paths,), int64

        Raises
        ------
        ValueError
            If an image is not found, if it fits several, or if two different paths fit the same image equally.
        """
        check_choice(missing, "missing", ("error", "mark"))
        if isinstance(paths, str | PathLike):
            raise ValueError(f"paths: the single path {fspath(paths)!r} was given. Pass a list.")
        given = [_text(path) for path in paths]
        rows = match_rows(given, self.images)
        unknown = [given[i] for i in np.flatnonzero(rows < 0)]
        if unknown and missing == "error":
            like = namesake(unknown[0], self.images) or self.images[0]
            raise ValueError(
                f"paths: {len(unknown)} of {len(given)} images have no annotations: {listed(unknown)}. "
                f"The annotations name images like {like!r}; folders must agree as far as both are given. "
                f"Pass missing='mark' to get -1 for them."
            )
        return rows

    def counts(self) -> LabelCounts:
        """Number of images that show each label, that do not, and of which it is not known.

        Returns
        -------
        LabelCounts
            Three arrays in the order of `labels`.
        """
        present = np.zeros(len(self.labels), dtype=np.int64)
        unknown = np.zeros_like(present)
        for start in range(0, len(self.images), 8192):  # temporaries stay small next to Y
            block = self.Y[start : start + 8192]
            present += np.count_nonzero(block == 1, axis=0)
            unknown += np.count_nonzero(block != block, axis=0)
        return LabelCounts(present, len(self.images) - present - unknown, unknown)

    def to_csv(self, path: str | PathLike[str]) -> None:
        """Write a table with a row an image and a column a label, which `read_table` reads.

        Columns are ``path``, ``split`` if there is one, and the labels: 1, 0, or empty for unknown.

        Parameters
        ----------
        path : str or path
            File to write; its folder is made.
        """
        taken = [name for name in self.labels if name.lower() in NO_LABELS]
        if len(self.labels) == 1 and self.labels[0].lower() in LIST_COLUMNS | PAIR_COLUMNS:
            taken = [self.labels[0]]
        if taken:
            raise ValueError(f"labels: {listed(taken)} means something else in a table. Rename the label.")
        write_atomically(Path(path), self._write)

    def _write(self, path: Path) -> None:
        cells = {0: "0", 1: "1"}
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["path", *([] if self.split is None else ["split"]), *self.labels])
            for i, image in enumerate(self.images):
                part = () if self.split is None else (self.split[i],)
                writer.writerow([image, *part, *(cells.get(value, "") for value in self.Y[i].tolist())])


def _checked(values: Any, shape: tuple[int, int]) -> NDArray[Any]:
    """Y as a read-only matrix, int8 if all is known and float32 if not."""
    Y = np.asarray(values)
    if Y.shape != shape or Y.dtype.kind not in "biuf":
        raise ValueError(
            f"Y: its shape is {Y.shape} and its type {Y.dtype}. "
            f"Pass numbers, {shape[0]} images x {shape[1]} labels."
        )
    if Y.dtype.kind == "f":
        unknown = np.isnan(Y)
        wrong = Y[~(unknown | (Y == 0) | (Y == 1))]
        dtype: Any = np.float32 if unknown.any() else np.int8
    else:
        # Two passes without temporaries: Y may be large.
        wrong = Y[(Y < 0) | (Y > 1)] if Y.dtype.kind != "b" and (Y.min() < 0 or Y.max() > 1) else Y[:0]
        dtype = np.int8
    if wrong.size:
        raise ValueError(f"Y: {wrong.flat[0]} was given. Write 1 for present, 0 for absent, NaN for unknown.")
    kept = Y.astype(dtype, copy=False).view()
    kept.flags.writeable = False
    return kept


def _text(path: str | PathLike[str]) -> str:
    return str(fspath(path)).replace("\\", "/")
