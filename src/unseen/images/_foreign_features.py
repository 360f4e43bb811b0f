"""Features made elsewhere: matrices in NumPy's files or in a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from unseen.datasets._table_rows import table_rows, wrong
from unseen.validation import counted, listed

__all__ = ["ForeignFeatures", "holds_features", "read_foreign", "reason"]

_FEATURE_KEYS = ("features", "X")
_LOGIT_KEYS = ("logits", "imagenet_logits")
_ID_KEYS = ("paths", "path", "image_id", "image_ids", "ids", "id")
_TABLES = (".csv", ".tsv")


class ForeignFeatures(NamedTuple):
    """What such a file holds; no ids if it does not say which images these are."""

    ids: tuple[str, ...] | None
    X: NDArray[Any]
    logits: NDArray[Any] | None
    of_imagenet: bool


def read_foreign(path: Path, ids: Sequence[str] | None) -> ForeignFeatures:
    """Read an .npz, .npy, .csv or .tsv file; ids that are given take the place of its own."""
    arrays = _read_table(path) if path.suffix.lower() in _TABLES else _load(path)
    X = _matrix(arrays, _FEATURE_KEYS, path)
    if X is None:
        raise ValueError(
            f"path: {str(path)!r} has no array 'features' or 'X', only {listed(list(arrays)) or 'nothing'}."
        )
    names = ids if ids is not None else next((arrays[key] for key in _ID_KEYS if key in arrays), None)
    logits = _matrix(arrays, _LOGIT_KEYS, path)
    if logits is not None and len(logits) != len(X):
        raise ValueError(
            f"path: {str(path)!r} has features of {counted(len(X), 'image')} and logits of {len(logits):,}. Save "
            f"both of the same images, in the same order."
        )
    checked = None if names is None else _check_ids(names, len(X), path)
    return ForeignFeatures(checked, X, logits, "imagenet_logits" in arrays)


def holds_features(path: Path) -> bool:
    """Whether an .npz file has features; true of a damaged one, so that who reads it hears of the damage."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            return not set(_FEATURE_KEYS).isdisjoint(archive.files)
    except (ValueError, OSError, EOFError, TypeError, AttributeError, BadZipFile):
        return True


def _read_table(path: Path) -> dict[str, NDArray[Any]]:
    with table_rows(path) as rows:
        line, columns = next(rows, (1, []))
        is_named = columns[:1] and columns[0].strip().lower() in _ID_KEYS
        if len(columns) < 2 or not (is_named or any(_number(cell) is None for cell in columns[1:])):
            raise wrong(path, line, "no names of columns", "Begin with a line such as image_id,f0,f1,f2.")
        names, values = [], []
        for line, row in rows:
            if len(row) != len(columns):
                raise wrong(path, line, f"{len(row)} cells for {len(columns)} columns", "Write all of them.")
            numbers = [_number(cell) for cell in row[1:]]
            if None in numbers:
                place = 1 + numbers.index(None)
                raise wrong(path, line, f"{columns[place]!r} is {row[place]!r}", "Write a number.")
            names.append(row[0].strip())
            values.append(np.array(numbers, dtype=np.float32))
    X = np.array(values, dtype=np.float32).reshape(len(values), len(columns) - 1)
    return {"features": X, "ids": np.array(names)}


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def _load(path: Path) -> dict[str, NDArray[Any]]:
    """Arrays of a file by name; those of a zip archive are loaded, a single one is memory-mapped."""
    try:
        content = np.load(path, mmap_mode="r", allow_pickle=False)
        if isinstance(content, np.ndarray):
            return {"features": content}
        with content as archive:
            wanted = {*_FEATURE_KEYS, *_LOGIT_KEYS, *_ID_KEYS}
            return {name: archive[name] if name in wanted else np.empty(0) for name in archive.files}
    except (ValueError, OSError, EOFError, TypeError, AttributeError, BadZipFile) as error:
        raise ValueError(
            f"path: {str(path)!r} cannot be read as features ({reason(error)}). Pass a folder that unseen "
            f"features made, or a .npz, .npy or .csv file, without pickled objects."
        ) from error


def reason(error: Exception) -> str:
    """Say what is wrong with a file; not NumPy's advice to load pickled objects, which are programs."""
    return "it is no NumPy file, or holds pickled objects" if "pickle" in str(error) else str(error)


def _matrix(arrays: dict[str, NDArray[Any]], keys: Sequence[str], path: Path) -> NDArray[Any] | None:
    key = next((key for key in keys if key in arrays), None)
    if key is None:
        return None
    values = arrays[key]
    if values.ndim != 2 or not values.size or values.dtype.kind not in "fiu":
        raise ValueError(
            f"path: {key!r} in {str(path)!r} has shape {values.shape} and type {values.dtype}. "
            f"It should be a matrix of real numbers, one row an image."
        )
    if not isinstance(values, np.memmap):  # which is left on disk
        bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
        if bad.size:
            raise ValueError(
                f"path: {key!r} in {str(path)!r} is NaN or infinite in {counted(bad.size, 'row')}, first in row "
                f"{bad[0]} from 0. Make these again, or leave them out."
            )
    return values if values.dtype.kind == "f" and values.dtype.itemsize >= 4 else values.astype(np.float32)


def _as_text(name: Any) -> str:
    if isinstance(name, bytes):
        return name.decode("utf-8", "surrogateescape")
    return str(int(name)) if isinstance(name, float) and name.is_integer() else str(name)


def _check_ids(names: Any, n_images: int, path: Path) -> tuple[str, ...]:
    ids = tuple(_as_text(name) for name in np.asarray(names).ravel().tolist())
    if len(ids) != n_images:
        raise ValueError(
            f"ids: {len(ids):,} for the {counted(n_images, 'image')} of {str(path)!r}. Pass one an image."
        )
    if len(set(ids)) != n_images:
        repeated = [name for name, count in Counter(ids).items() if count > 1]
        raise ValueError(f"ids: {listed(repeated)} more than once in {str(path)!r}. Give every image its own.")
    return ids
