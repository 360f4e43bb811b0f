"""COCO instances: the objects that an image shows, from its annotated boxes."""

import json
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np

from unseen.datasets.annotations import Annotations, absent
from unseen.files import DAMAGE, reason
from unseen.validation import check_choice

_CROWD = {"present": 1.0, "absent": 0.0, "unknown": np.nan}
_KEYS = ["images", "annotations", "categories", "id", "name", "file_name", "image_id", "category_id", "iscrowd"]


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
    return {key: value for key, value in entry.items() if key in _KEYS}


def _to_annotations(content: Any, crowd: float) -> Annotations:
    images, labels = content["images"], content["categories"]
    rows, columns = ({entry["id"]: i for i, entry in enumerate(part)} for part in (images, labels))
    if (len(rows), len(columns)) != (len(images), len(labels)):
        raise ValueError("two images or categories with the same id")
    Y = absent(len(images), len(labels), np.int8 if crowd == crowd else np.float32)
    # Single objects come last: they override a crowd of the same category.
    for entry in sorted(content["annotations"], key=lambda entry: not entry.get("iscrowd", 0)):
        value = crowd if entry.get("iscrowd", 0) else 1.0
        Y[rows[entry["image_id"]], columns[entry["category_id"]]] = value
    return Annotations([image["file_name"] for image in images], [one["name"] for one in labels], Y)
