"""From a file or a folder to annotations, whatever its format."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from os import PathLike
from pathlib import Path
from typing import Any

from unseen.datasets.annotations import Annotations
from unseen.datasets.coco import read_coco
from unseen.datasets.nuswide import is_nuswide, read_nuswide
from unseen.datasets.table import read_table
from unseen.datasets.voc import find_voc, read_voc

__all__ = ["read_annotations"]


def read_annotations(source: str | PathLike[str], split: str | None = None, **options: Any) -> Annotations:
    """Read annotations: a folder of PASCAL VOC or NUS-WIDE, a COCO file, or a table.

    Parameters
    ----------
    source : str or path
        A VOC devkit, a folder of NUS-WIDE, a JSON file like ``instances_val2017.json``, a CSV or TSV.
    split : str, optional
        Part to read, such as ``trainval``, ``train`` or ``test``; without it, all images.
    **options
        Those of the reader: `read_voc`, `read_nuswide`, `read_coco` or `read_table`.

    Returns
    -------
    Annotations

    Raises
    ------
    ValueError
        If the format is not known, or an option belongs to another format.
    """
    path = Path(source).expanduser()
    if not path.exists():
        raise FileNotFoundError(
            f"source: there is no file or folder {str(source)!r}. Pass a VOC devkit, a folder of NUS-WIDE, a COCO "
            f"file or a CSV."
        )
    reader, what = _reader(path, options.get("year"))
    known = [name for name in list(signature(reader).parameters)[1:] if name != "split"]
    for name in options:
        if name not in known:
            raise ValueError(
                f"{name}: no option of {what}, which {str(source)!r} is. Its options: split, {', '.join(known)}."
            )
    if reader is read_voc:
        return reader(path, split=split or "all", **options)
    annotations = reader(path, **options)
    return annotations if split is None else annotations.select(split=split)


def _reader(path: Path, year: int | None) -> tuple[Callable[..., Annotations], str]:
    if path.is_dir():
        if find_voc(path, year) is not None:
            return read_voc, "a VOC devkit"
        if is_nuswide(path):
            return read_nuswide, "a folder of NUS-WIDE"
        raise ValueError(
            f"source: the folder {str(path)!r} is neither a VOC devkit (ImageSets/Main) nor NUS-WIDE (ImageList, "
            f"Groundtruth). Pass the folder that holds these, a COCO file or a CSV."
        )
    with path.open("rb") as file:
        is_json = file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[")
    return (read_coco, "a COCO file") if is_json or path.suffix.lower() == ".json" else (read_table, "a table")
