"""Which annotated image a path belongs to: nothing is guessed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unseen.images.finding import IMAGE_SUFFIXES
from unseen.validation import listed

__all__ = ["find_rows", "match_rows", "namesake"]

_IMAGE_SUFFIXES = frozenset(suffix.removeprefix(".") for suffix in IMAGE_SUFFIXES) | {"npy"}


class _Match(NamedTuple):
    """Row that a path fits, and how well: the less, the better."""

    row: int
    fit: int


_EXACT, _SAME_FILE, _SAME_STEM = range(3)
_NO_MATCH = _Match(-1, _SAME_STEM)


def match_rows(paths: Sequence[str], images: Sequence[str]) -> NDArray[np.int64]:
    """Row of ``images`` for each path, -1 for none, by the rules of `Annotations.rows_for`; with slashes only."""
    exact = {name: row for row, name in enumerate(images)}
    by_stem = _by_stem(images)
    return _best_rows(
        paths,
        [
            _Match(exact[path], _EXACT) if path in exact else _match(path, images, by_stem.get(_stem(path), []))
            for path in paths
        ],
    )


def find_rows(paths: Sequence[str], images: Sequence[str]) -> NDArray[np.intp]:
    """Row of ``images`` for each path by itself, by the same rules; -1 for none, or if several fit."""
    exact = {name: row for row, name in enumerate(images)}
    by_stem = _by_stem(images)

    def find(path: str) -> int:
        if path in exact:
            return exact[path]
        try:
            return _match(path, images, by_stem.get(_stem(path), [])).row
        except ValueError:
            return -1

    return np.array([find(path) for path in paths], dtype=np.intp)


def namesake(path: str, images: Sequence[str]) -> str | None:
    """First image with the same file name without suffix, whatever its folders."""
    return next((name for name in images if _stem(name) == _stem(path)), None)


def _by_stem(images: Sequence[str]) -> dict[str, list[int]]:
    rows: dict[str, list[int]] = defaultdict(list)
    for row, name in enumerate(images):
        rows[_stem(name)].append(row)
    return rows


def _match(path: str, images: Sequence[str], rows: list[int]) -> _Match:
    """Find the image that a path belongs to, among the rows with the same stem."""
    for fit, parts in ((_SAME_FILE, _parts), (_SAME_STEM, _parts_of_stem)):
        wanted = parts(path)
        fitting = [row for row in rows if _one_ends_with_other(wanted, parts(images[row]))]
        if len(fitting) > 1:
            raise ValueError(
                f"paths: {path!r} may be {listed([images[row] for row in fitting])}. "
                f"Pass the path as the annotations write it."
            )
        if fitting:
            return _Match(fitting[0], fit)
    return _NO_MATCH


def _best_rows(paths: Sequence[str], found: list[_Match]) -> NDArray[np.int64]:
    """Rows, each for the path it fits best; two files cannot both be one image, the same file twice may."""
    best: dict[int, int] = {}
    for row, fit in found:
        best[row] = min(fit, best.get(row, fit))
    rows = np.array([row if fit == best[row] else -1 for row, fit in found], dtype=np.int64)
    first: dict[int, str] = {}
    for path, row in zip(paths, rows.tolist(), strict=True):
        if row >= 0 and first.setdefault(row, path) != path:
            raise ValueError(
                f"paths: {first[row]!r} and {path!r} both fit the same annotated image. Pass one of them, or "
                f"annotate images by their paths."
            )
    return rows


def _stem(path: str) -> str:
    """File name without folder and image suffix; other dots belong to the name."""
    name = path.rpartition("/")[2]
    stem, dot, suffix = name.rpartition(".")
    return stem if dot and stem and suffix.lower() in _IMAGE_SUFFIXES else name


def _parts(path: str) -> list[str]:
    """Folders and file name, without what only says where one stands."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    while len(parts) > 1 and parts[0] == "..":
        del parts[0]
    return parts


def _parts_of_stem(path: str) -> list[str]:
    return [*_parts(path)[:-1], _stem(path)]


def _one_ends_with_other(one: list[str], other: list[str]) -> bool:
    length = min(len(one), len(other))
    return length > 0 and one[-length:] == other[-length:]
