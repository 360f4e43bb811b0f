"""PASCAL VOC 2007 and 2012, in the layout of the official archives."""

from os import PathLike
from pathlib import Path
from typing import Literal

import numpy as np

from unseen.datasets.annotations import Annotations
from unseen.validation import Matrix, check_choice, listed

VOC_CLASSES = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow",
    "diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip
_VALUES = {"1": 1.0, "-1": 0.0, "0": np.nan}  # 0: only objects marked difficult


def read_voc(
    devkit: str | PathLike[str],
    year: int | None = None,
    split: Literal["train", "val", "trainval", "test", "all"] = "trainval",
    difficult: Literal["absent", "unknown"] = "absent",
) -> Annotations:
    """Labels of PASCAL VOC images, from ``ImageSets/Main/<class>_<split>.txt``; 000005 is ``000005.jpg``.

    Parameters
    ----------
    devkit : str or path
        The folder ``VOCdevkit``, its parent, or ``VOCdevkit/VOC2007``.
    year : {2007, 2012}, optional
        Needed only if the folder holds both years.
    split : {"train", "val", "trainval", "test", "all"}, default="trainval"
        Images to read; "all" is trainval, plus test if present. VOC2012 has no public test annotations.
    difficult : {"absent", "unknown"}, default="absent"
        How to read a label if all its objects in an image are marked difficult: absent, as in the literature
        on tagging, or unknown, as in the challenge itself.
    """
    check_choice(split, "split", ("train", "val", "trainval", "test", "all"))
    check_choice(difficult, "difficult", ("absent", "unknown"))
    root = find_voc(devkit, year)
    if root is None:
        missing = f"no VOC{year or '2007 or VOC2012'} with ImageSets/Main in {str(devkit)!r}"
        raise FileNotFoundError(f"devkit: {missing}. `unseen data get voc{year or 2007}` downloads it.")
    lists = root / "ImageSets" / "Main"
    has_test = (lists / f"{VOC_CLASSES[0]}_test.txt").is_file()
    splits = [split] if split != "all" else ["trainval", "test"] if has_test else ["trainval"]
    parts = {part: _read_split(lists, part) for part in splits}
    images = [image for names, _ in parts.values() for image in names]
    of_image = [part for part, (names, _) in parts.items() for _ in names]
    Y = np.vstack([matrix for _, matrix in parts.values()])
    Y = np.nan_to_num(Y) if difficult == "absent" else Y
    return Annotations(tuple(images), VOC_CLASSES, Y, tuple(of_image))


def find_voc(devkit: str | PathLike[str], year: int | None = None) -> Path | None:
    """Folder of a year, given this folder, the devkit or its parent; None if there is none."""
    folder = Path(devkit)
    if (folder / "ImageSets" / "Main").is_dir():
        named = folder.resolve().name
        return None if year is not None and named.startswith("VOC") and named != f"VOC{year}" else folder
    for parent in (folder, folder / "VOCdevkit"):
        found = sorted(lists.parents[1] for lists in parent.glob(f"VOC{year or '*'}/ImageSets/Main"))
        if len(found) > 1:
            raise ValueError(f"year: {str(folder)!r} holds {listed([one.name for one in found])}. Pass one year.")
        if found:
            return found[0]
    return None


def _read_split(lists: Path, split: str) -> tuple[list[str], Matrix]:
    images: list[str] = []
    columns = []
    for name in VOC_CLASSES:
        path = lists / f"{name}_{split}.txt"
        if not path.is_file():
            raise FileNotFoundError(f"split: there is no {str(path)!r}. The test lists of VOC2012 are not public.")
        lines = [line.split() for line in path.read_text("utf-8", "replace").splitlines() if line.strip()]
        images = images or [line[0] for line in lines]
        try:
            columns.append([_VALUES[value] for image, value in lines])
            if [image for image, _ in lines] != images or not images:
                raise ValueError
        except (ValueError, KeyError):
            wanted = "an image, as in the lists of the other classes, and 1, -1 or 0 per line"
            raise ValueError(f"devkit: {str(path)!r} does not have {wanted}. Unpack the archive again.") from None
    return images, np.array(columns).T
