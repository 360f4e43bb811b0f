"""Data sets: annotations in the usual formats, downloads, simulated scenes."""

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
from unseen.files import expanded


def read_annotations(source: str | PathLike[str], split: str | None = None, **options: Any) -> Annotations:
    """Read annotations: a folder of PASCAL VOC or NUS-WIDE, a COCO file, or a table.

    Parameters
    ----------
    source : str or path
        A VOC devkit, a folder of NUS-WIDE, a JSON file like ``instances_val2017.json``, a CSV or TSV.
    split : str, optional
        Part to read, such as ``trainval``, ``train`` or ``test``; by default all images.
    **options
        Options of the reader: `read_voc`, `read_nuswide`, `read_coco` or `read_table`.
    """
    path = expanded(source)
    reader = _reader(path, options.get("year"))
    known = [name for name in list(signature(reader).parameters)[1:] if name != "split"]
    for name in options:
        if name not in known:
            raise ValueError(f"{name}: not an option of {str(source)!r}. Its options: {', '.join(known)}.")
    if reader is read_voc:
        return reader(path, split=split or "all", **options)
    annotations = reader(path, **options)
    return annotations if split is None else annotations.select(split=split)


def _reader(path: Path, year: int | None) -> Callable[..., Annotations]:
    if path.is_file():
        with path.open("rb") as file:
            is_json = file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[")
        return read_coco if is_json else read_table
    if path.is_dir():
        if find_voc(path, year) is not None:
            return read_voc
        if is_nuswide(path):
            return read_nuswide
    known = "a CSV, TSV or COCO file, a VOC devkit (with ImageSets/Main) or a folder of NUS-WIDE (with ImageList)"
    raise FileNotFoundError(f"source: {str(path)!r} is not {known}.")
