"""PASCAL VOC 2007 and 2012, as the official archives unpack."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from unseen.datasets.annotations import Annotations
from unseen.validation import check_choice, listed

__all__ = ["VOC_CLASSES", "find_voc", "read_voc"]

VOC_CLASSES = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow",
    "diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip
_SPLITS = ("train", "val", "trainval", "test", "all")
_YEARS = (2007, 2012)
_VALUES = {"1": 1.0, "-1": 0.0, "0": np.nan}  # 0: only objects marked difficult


def read_voc(
    devkit: str | PathLike[str],
    year: int | None = None,
    split: Literal["train", "val", "trainval", "test", "all"] = "trainval",
    difficult: Literal["absent", "unknown"] = "absent",
) -> Annotations:
    """Labels of PASCAL VOC images, from ``ImageSets/Main/<class>_<split>.txt``.

    Parameters
    ----------
    devkit : str or path
        The folder ``VOCdevkit``, the one that holds it, or ``VOCdevkit/VOC2007``.
    year : {2007, 2012}, optional
        May be left out if the folder holds one year only.
    split : {"train", "val", "trainval", "test", "all"}, default="trainval"
        Images to read; "all" is trainval, and test if it is there. VOC2012 has no public test annotations.
    difficult : {"absent", "unknown"}, default="absent"
        What a label counts as if all its objects in an image are marked difficult. "absent" is what the
        literature on tagging does; the challenge itself leaves them out, as "unknown" does.

    Returns
    -------
    Annotations
        `images` are the identifiers, such as ``000005`` for ``JPEGImages/000005.jpg``.
    """
    check_choice(split, "split", _SPLITS)
    check_choice(difficult, "difficult", ("absent", "unknown"))
    if year is not None and year not in _YEARS:
        raise ValueError(f"year: {year!r} was given. Choose 2007 or 2012.")
    root = find_voc(devkit, year)
    if root is None:
        raise FileNotFoundError(
            f"devkit: no folder VOC{year or '2007 or VOC2012'} with ImageSets/Main in {str(devkit)!r}. "
            f"Pass the folder VOCdevkit; `unseen data get voc{year or 2007}` downloads it."
        )
    lists = root / "ImageSets" / "Main"
    splits: list[str] = [split]
    if split == "all":
        splits = ["trainval", *(["test"] if _class_file(lists, VOC_CLASSES[0], "test").is_file() else [])]
    parts = [_read_split(lists, part) for part in splits]
    Y = np.vstack([matrix for _, matrix in parts])
    if difficult == "absent":
        Y = np.nan_to_num(Y, nan=0.0).astype(np.int8)
    images = tuple(image for names, _ in parts for image in names)
    of_image = tuple(part for part, (names, _) in zip(splits, parts, strict=True) for _ in names)
    return Annotations(images, VOC_CLASSES, Y, of_image)


def find_voc(devkit: str | PathLike[str], year: int | None = None) -> Path | None:
    """Folder of one year in a VOC devkit.

    Parameters
    ----------
    devkit : str or path
        The devkit, the folder that holds it, or the folder of a year itself.
    year : int, optional
        The year; may be left out if there is one only.

    Returns
    -------
    pathlib.Path or None
        None if this is no devkit, or it lacks the year.

    Raises
    ------
    ValueError
        If the folder holds several years and none was named.
    """
    folder = Path(devkit)
    if _has_lists(folder):
        named = [one for one in _YEARS if folder.resolve().name == f"VOC{one}"]
        return None if year is not None and named not in ([], [year]) else folder
    for parent in (folder, folder / "VOCdevkit"):
        found = [one for one in _YEARS if year in (None, one) and _has_lists(parent / f"VOC{one}")]
        if len(found) > 1:
            raise ValueError(f"year: {str(folder)!r} holds VOC2007 and VOC2012. Pass year=2007 or year=2012.")
        if found:
            return parent / f"VOC{found[0]}"
    return None


def _has_lists(folder: Path) -> bool:
    return (folder / "ImageSets" / "Main").is_dir()


def _class_file(lists: Path, name: str, split: str) -> Path:
    return lists / f"{name}_{split}.txt"


def _read_split(lists: Path, split: str) -> tuple[list[str], NDArray[np.float32]]:
    missing = [name for name in VOC_CLASSES if not _class_file(lists, name, split).is_file()]
    if missing:
        raise FileNotFoundError(_what_is_missing(lists, split, missing))
    columns = [_read_class(_class_file(lists, name, split)) for name in VOC_CLASSES]
    images = list(columns[0])
    for name, column in zip(VOC_CLASSES, columns, strict=True):
        if column.keys() != columns[0].keys():
            odd = sorted(column.keys() ^ columns[0].keys())
            raise ValueError(
                f"devkit: {str(_class_file(lists, name, split))!r} and the list of {VOC_CLASSES[0]!r} do not name "
                f"the same images ({listed(odd)}). Unpack the official archive again."
            )
    Y = np.array([[column[image] for column in columns] for image in images], dtype=np.float32)
    return images, Y


def _what_is_missing(lists: Path, split: str, missing: list[str]) -> str:
    if split == "test" and lists.parents[1].name == "VOC2012":
        return (
            "split: 'test' was asked for, but the annotations of VOC2012's test images were never published. "
            "Choose 'train' and 'val'."
        )
    where = f"split: {str(_class_file(lists, missing[0], split))!r} does not exist"
    advice = "The test images are an archive of their own: `unseen data get voc2007` brings both."
    return f"{where} ({len(missing)} of 20 lists missing). " + (
        advice if split == "test" else "Unpack the official archive again."
    )


def _read_class(path: Path) -> dict[str, float]:
    """Value of each image in one list."""
    values: dict[str, float] = {}
    try:
        lines = path.read_text("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"devkit: {str(path)!r} is no text ({error}). Unpack the official archive again."
        ) from None
    for number, line in enumerate(lines, start=1):
        cells = line.split()
        if not cells:
            continue
        if len(cells) != 2 or cells[1] not in _VALUES or cells[0] in values:
            raise ValueError(
                f"devkit: {str(path)!r}, line {number}: {line.strip()!r}. Each line names an image, once, and 1, "
                f"-1 or 0 (difficult)."
            )
        values[cells[0]] = _VALUES[cells[1]]
    if not values:
        raise ValueError(f"devkit: {str(path)!r} is empty. Unpack the official archive again.")
    return values
