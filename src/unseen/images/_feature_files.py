"""The files of a folder of features: finished ones that anything can read, and the parts they are made from."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save_file

from unseen.files import write_atomically

__all__ = [
    "FEATURES", "IMAGES", "LOGITS", "METADATA", "PARTS", "PROBLEMS", "Entry", "Part", "Problem", "read_images",
    "read_part_header", "read_part_rows", "read_problems", "write_array_header", "write_images", "write_part",
    "write_problems",
]  # fmt: skip

FEATURES, LOGITS, IMAGES, PROBLEMS, METADATA = (
    "features.npy", "logits.npy", "images.csv", "problems.csv", "backbone.json",
)  # fmt: skip
PARTS = "parts"
_HEADER = "unseen-features"
# Names of files are bytes on most systems: those that are no UTF-8 survive a round trip.
_TEXT: dict[str, Any] = {"encoding": "utf-8", "errors": "surrogateescape", "newline": ""}


class Entry(NamedTuple):
    """One image: its path, its size in pixels, and what tells whether the file has changed since."""

    path: str
    width: int
    height: int
    bytes: int
    modified: int  # nanoseconds


class Problem(NamedTuple):
    """One file that could not be read."""

    path: str
    reason: str


class Part(NamedTuple):
    """What became of some of the images."""

    images: list[Entry]
    problems: list[Problem]
    features: NDArray[np.float32]
    logits: NDArray[np.float32] | None


def write_part(path: Path, part: Part) -> None:
    """Write a part, whole or not at all."""
    arrays = {"features": np.ascontiguousarray(part.features)}
    if part.logits is not None:
        arrays["logits"] = np.ascontiguousarray(part.logits)
    header = {_HEADER: json.dumps({"images": part.images, "problems": part.problems})}
    write_atomically(path, lambda temporary: save_file(arrays, temporary, metadata=header))


def read_part_header(path: Path) -> tuple[list[Entry], list[Problem]] | None:
    """Images and problems of a part; None if the file is damaged."""
    try:
        with safe_open(path, framework="numpy") as file:
            header = json.loads(file.metadata()[_HEADER])
        return [Entry(*item) for item in header["images"]], [Problem(*item) for item in header["problems"]]
    except (SafetensorError, LookupError, TypeError, ValueError):
        return None


def read_part_rows(path: Path) -> dict[str, NDArray[np.float32]]:
    """Arrays of a part, by the name of the finished file that they go to."""
    return {f"{name}.npy": rows for name, rows in load_file(path).items()}


def write_array_header(file: BinaryIO, shape: tuple[int, int]) -> None:
    """Begin a .npy file whose rows are then appended: no more than a block is ever in memory."""
    header = {"descr": "<f4", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)


def write_images(path: Path, images: Iterable[Entry]) -> None:
    """Write the table of images."""
    _write_table(path, Entry._fields, images)


def read_images(path: Path) -> list[Entry]:
    """Read the table of images."""
    return [Entry(row[0], *map(int, row[1:])) for row in _read_table(path, Entry._fields)]


def write_problems(path: Path, problems: Iterable[Problem]) -> None:
    """Write the table of files that could not be read."""
    _write_table(path, Problem._fields, problems)


def read_problems(path: Path) -> list[Problem]:
    """Read the table of files that could not be read; without the file there are none."""
    return [Problem(*row) for row in _read_table(path, Problem._fields)] if path.exists() else []


def _write_table(path: Path, fields: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> None:
    with path.open("w", **_TEXT) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(fields)
        writer.writerows(rows)


def _read_table(path: Path, fields: tuple[str, ...]) -> list[list[str]]:
    with path.open(**_TEXT) as file:
        header, *rows = csv.reader(file)
    if tuple(header) != fields or any(len(row) != len(fields) for row in rows):
        raise ValueError(f"{str(path)!r} is damaged: its columns should be {', '.join(fields)}.")
    return rows
