"""COCO instances: which objects a picture shows, from the boxes drawn on it."""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np

from unseen.datasets.annotations import Annotations
from unseen.validation import check_choice

__all__ = ["read_coco"]

_CROWD = {"present": 1.0, "absent": 0.0, "unknown": np.nan}
_PARTS = ("images", "annotations", "categories")
_KEPT = frozenset({*_PARTS, "id", "name", "file_name", "image_id", "category_id", "iscrowd"})
_TELLING = frozenset({"caption", "keypoints", "segments_info"})  # what other kinds of COCO files hold


def read_coco(
    path: str | PathLike[str], crowd: Literal["present", "absent", "unknown"] = "present"
) -> Annotations:
    """Labels of COCO images: those with at least one annotated instance.

    Parameters
    ----------
    path : str or path
        A file such as ``instances_val2017.json``.
    crowd : {"present", "absent", "unknown"}, default="present"
        What a label counts as in an image that shows it only as a crowd (``iscrowd``): a group of objects that
        were not told apart. They are there to be seen, hence the default.

    Returns
    -------
    Annotations
        `images` are the file names, in the order of the file, also those without any instance; `labels` are the
        categories in the order of the file.
    """
    check_choice(crowd, "crowd", tuple(_CROWD))
    parts = _load(Path(path))
    images = _column(path, parts, "images", "file_name")
    labels = _column(path, parts, "categories", "name")
    rows = _positions(path, parts, "images")
    columns = _positions(path, parts, "categories")
    entries = np.empty((len(parts["annotations"]), 3), dtype=np.int64)
    for i, entry in enumerate(parts["annotations"]):
        try:
            entries[i] = rows[entry["image_id"]], columns[entry["category_id"]], bool(entry.get("iscrowd", 0))
        except (KeyError, TypeError):
            raise ValueError(
                f"path: in {str(path)!r}, annotation {i} names no image or category of the file "
                f"(image_id {entry.get('image_id')!r}, category_id {entry.get('category_id')!r}). "
                f"Get the file again."
            ) from None
    in_crowd = entries[:, 2] == 1
    single, group = entries[~in_crowd], entries[in_crowd]
    Y = np.zeros((len(images), len(labels)), dtype=np.float32 if crowd == "unknown" else np.int8)
    Y[group[:, 0], group[:, 1]] = _CROWD[crowd]
    Y[single[:, 0], single[:, 1]] = 1
    return Annotations(tuple(images), tuple(labels), Y)


def _load(path: Path) -> dict[str, list[dict[str, Any]]]:
    def keep(entry: dict[str, Any]) -> dict[str, Any]:
        # Outlines are most of the file: dropped while it is read, they never pile up.
        kept = {key: value for key, value in entry.items() if key in _KEPT}
        kept.update((key, True) for key in _TELLING & entry.keys())
        return kept

    if not path.is_file():
        raise FileNotFoundError(f"path: there is no file {str(path)!r}. Pass a file like instances_val2017.json.")
    try:
        with path.open(encoding="utf-8-sig") as file:
            # Fractions occur in outlines and boxes only; left as text, they are read twice as fast.
            content = json.load(file, object_hook=keep, parse_float=str)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"path: {str(path)!r} cannot be read as JSON ({error}). Get the file again.") from None
    _refuse_others(path, content)
    return {part: content[part] for part in _PARTS}


def _refuse_others(path: Path, content: Any) -> None:
    """Say what a file is, if it is no list of instances."""
    parts = content if isinstance(content, dict) else {}
    kinds = {key for part in _PARTS for entry in _entries(parts.get(part))[:1] for key in entry}
    what = ""
    if "caption" in kinds:
        what = "holds captions, not objects"
    elif "keypoints" in kinds:
        what = "holds key points of persons and no other objects"
    elif "segments_info" in kinds:
        what = "holds panoptic segments"
    elif "images" in parts and "categories" in parts and "annotations" not in parts:
        what = "lists images without annotations, as COCO publishes its test images"
    elif any(not isinstance(parts.get(part), list) or _entries(parts[part]) != parts[part] for part in _PARTS):
        what = f"is no COCO file: it lacks lists of {', '.join(_PARTS)}"
    elif not parts["images"] or not parts["categories"]:
        what = "names no images or no categories"
    if what:
        raise ValueError(f"path: {str(path)!r} {what}. Pass a file like instances_val2017.json.")


def _entries(part: Any) -> list[dict[str, Any]]:
    return [entry for entry in part if isinstance(entry, dict)] if isinstance(part, list) else []


def _column(path: str | PathLike[str], parts: dict[str, list[dict[str, Any]]], part: str, key: str) -> list[str]:
    names = [entry.get(key) for entry in parts[part]]
    for i, name in enumerate(names):
        if not isinstance(name, str) or not name:
            raise ValueError(
                f"path: in {str(path)!r}, entry {i} of {part} has {key} {name!r}. Get the file again."
            )
    return [str(name) for name in names]


def _positions(path: str | PathLike[str], parts: dict[str, list[dict[str, Any]]], part: str) -> dict[Any, int]:
    """Row or column of each id."""
    positions: dict[Any, int] = {}
    for i, entry in enumerate(parts[part]):
        number = entry.get("id")
        if not isinstance(number, int | str) or number in positions:
            raise ValueError(
                f"path: in {str(path)!r}, entry {i} of {part} has the id {number!r}, missing or given before. "
                f"Get the file again."
            )
        positions[number] = i
    return positions
