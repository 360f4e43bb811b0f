"""Annotations in the layouts of their makers: PASCAL VOC, COCO instances, NUS-WIDE."""

import json
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from unseen.datasets.annotations import Annotations
from unseen.files import DAMAGE, reason
from unseen.validation import Matrix, check_choice, listed

VOC_CLASSES = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow",
    "diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip
_VOC_VALUES = {"1": 1.0, "-1": 0.0, "0": np.nan}  # 0: only objects marked difficult
_CROWD = {"present": 1.0, "absent": 0.0, "unknown": np.nan}
_COCO_KEYS = [
    "images",
    "annotations",
    "categories",
    "id",
    "name",
    "file_name",
    "image_id",
    "category_id",
    "iscrowd",
]
_NUSWIDE_FOLDERS = frozenset({"alllabels", "conceptslist", "groundtruth", "imagelist", "nus-wide", "nus_wid_tags"})


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
            columns.append([_VOC_VALUES[value] for image, value in lines])
            if [image for image, _ in lines] != images or not images:
                raise ValueError
        except (ValueError, KeyError):
            wanted = "an image, as in the lists of the other classes, and 1, -1 or 0 per line"
            raise ValueError(f"devkit: {str(path)!r} does not have {wanted}. Unpack the archive again.") from None
    return images, np.array(columns).T


def read_coco(
    path: str | PathLike[str], crowd: Literal["present", "absent", "unknown"] = "present"
) -> Annotations:
    """Labels of COCO images: those with at least one annotated instance. Images without any are kept.

    Parameters
    ----------
    path : str or path
        A file such as ``instances_val2017.json``.
    crowd : {"present", "absent", "unknown"}, default="present"
        How to read a label that an image shows only as a crowd (``iscrowd``).
    """
    check_choice(crowd, "crowd", tuple(_CROWD))
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"path: there is no file {str(path)!r}. Pass a file like instances_val2017.json.")
    try:
        with path.open(encoding="utf-8-sig") as file:
            # Fractions occur only in outlines and boxes; leaving them as text halves the reading time.
            content = json.load(file, object_hook=_without_outlines, parse_float=str)
        return _to_annotations(content, _CROWD[crowd])
    except DAMAGE as error:
        advice = "Pass a file like instances_val2017.json, not captions or panoptic segments"
        what = f"{type(error).__name__}: {reason(error)}"
        raise ValueError(f"path: {str(path)!r} has no COCO instances ({what}). {advice}.") from None


def _without_outlines(entry: dict[str, Any]) -> dict[str, Any]:
    """The fields of an object that are needed; outlines and boxes take most of the file."""
    return {key: value for key, value in entry.items() if key in _COCO_KEYS}


def _to_annotations(content: Any, crowd: float) -> Annotations:
    images, labels = content["images"], content["categories"]
    rows, columns = ({entry["id"]: i for i, entry in enumerate(part)} for part in (images, labels))
    if (len(rows), len(columns)) != (len(images), len(labels)):
        raise ValueError("two images or categories with the same id")
    Y = np.zeros((len(images), len(labels)), dtype=np.float32)
    # Single objects come last: they override a crowd of the same category.
    for entry in sorted(content["annotations"], key=lambda entry: not entry.get("iscrowd", 0)):
        value = crowd if entry.get("iscrowd", 0) else 1.0
        Y[rows[entry["image_id"]], columns[entry["category_id"]]] = value
    return Annotations([image["file_name"] for image in images], [one["name"] for one in labels], Y)


def read_nuswide(
    folder: str | PathLike[str], labels: Literal["concepts81", "tags1k", "both"] = "concepts81"
) -> Annotations:
    """Labels of NUS-WIDE images.

    Neither capital letters in file names nor the folder that a file is in matter. The `split`, ``train`` or
    ``test``, is known if ``TrainImagelist.txt`` and ``TestImagelist.txt`` exist.

    Parameters
    ----------
    folder : str or path
        Folder of the unpacked archives.
    labels : {"concepts81", "tags1k", "both"}, default="concepts81"
        The 81 manually verified concepts; the 1,000 most frequent tags of Flickr users; or both, as in the
        literature on zero-shot tagging: the tags that are not concepts (seen), then the 81 concepts (unseen).
    """
    check_choice(labels, "labels", ("concepts81", "tags1k", "both"))
    files = _index(Path(folder))

    def find(name: str) -> Path:
        if name.lower() not in files:
            advice = "Unpack the archives ImageList, Groundtruth, ConceptsList and NUS_WID_Tags into one folder"
            raise FileNotFoundError(f"folder: {str(folder)!r} lacks {name!r} of NUS-WIDE. {advice}.")
        return files[name.lower()]

    images = _names(find("Imagelist.txt"))
    concepts = _names(find("Concepts81.txt")) if labels != "tags1k" else []
    names, columns = [], []
    if labels != "concepts81":
        tags = _names(find("TagList1k.txt"))
        others = [i for i, tag in enumerate(tags) if tag not in concepts]
        names += [tags[i] for i in others]
        columns.append(_read_bits(find("AllTags1k.txt"), len(images), len(tags))[:, others])
    columns += [_read_bits(find(f"Labels_{concept}.txt"), len(images), 1) for concept in concepts]
    return Annotations(tuple(images), (*names, *concepts), np.hstack(columns), _nuswide_split(files, images))


def is_nuswide(folder: str | PathLike[str]) -> bool:
    """Whether a folder holds lists of images and labels of NUS-WIDE."""
    names = _index(Path(folder))
    return "imagelist.txt" in names and any(name.startswith(("labels_", "taglist1k")) for name in names)


def _index(folder: Path) -> dict[str, Path]:
    """Files by lower-case name; image folders, which are large, are skipped."""
    files: dict[str, Path] = {}
    for entry in sorted(folder.iterdir()):
        if entry.name.lower() in _NUSWIDE_FOLDERS and entry.is_dir():
            files = _index(entry) | files
        elif entry.suffix.lower() in (".txt", ".dat"):
            files[entry.name.lower()] = entry
    return files


def _names(path: Path) -> list[str]:
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        lines = []
    names = [line.strip().replace("\\", "/") for line in lines if line.strip()]
    if not names:
        raise ValueError(f"folder: {str(path)!r} is empty or not UTF-8 text. Unpack the archive again.")
    return names


def _nuswide_split(files: dict[str, Path], images: list[str]) -> tuple[str, ...] | None:
    lists = {part: files.get(f"{part}imagelist.txt") for part in ("train", "test")}
    if None in lists.values():
        return None
    of_image = {name: part for part, path in lists.items() if path for name in _names(path)}
    missing = [name for name in images if name not in of_image]
    if missing:
        raise ValueError(f"folder: TrainImagelist.txt and TestImagelist.txt both lack {listed(missing)}.")
    return tuple(of_image[name] for name in images)


def _read_bits(path: Path, n_rows: int, n_columns: int) -> NDArray[np.int8]:
    """Read a text matrix of 0 and 1: 270 million entries in seconds, unlike general parsers."""
    codes = np.fromfile(path, dtype=np.uint8)
    bits = (codes[codes > ord(" ")] - ord("0")).view(np.int8)
    if bits.size != n_rows * n_columns or bits.min() < 0 or bits.max() > 1:
        wanted = f"{n_columns} x 0 or 1 for each of {n_rows} images"
        raise ValueError(f"folder: {str(path)!r} does not contain {wanted}. Unpack the archive again.")
    return bits.reshape(n_rows, n_columns)
