"""Memory-mapped matrices that stay in their file: read chunk by chunk, each given back to the system."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

CHUNK = 4096  # rows handled at a time in whole-matrix products: bounds the memory of a memory-mapped X


def chunks(start: int, stop: int) -> Iterator[slice]:
    """Yield consecutive slices of at most `CHUNK` rows."""
    for first in range(start, stop, CHUNK):
        yield slice(first, min(first + CHUNK, stop))


def advise(X: np.memmap[Any, Any], rows: slice, advice: str) -> None:
    """Tell the system what happens to the pages of some rows, where it can be told; no data are lost by that."""
    mapped, code = getattr(X, "_mmap", None), getattr(mmap, advice, None)
    if mapped is None or code is None:
        return
    offset = X.__array_interface__["data"][0] - np.frombuffer(mapped, np.uint8).__array_interface__["data"][0]
    first, last = (offset + row * X.strides[0] for row in (rows.start, rows.stop))
    first -= first % mmap.PAGESIZE
    mapped.madvise(code, first, min(last, len(mapped)) - first)


def is_mapped_matrix(X: Any) -> bool:
    """Whether X can be used in its file as it is."""
    return (
        isinstance(X, np.memmap)
        and X.mode != "c"  # private changes of a copy-on-write map would be lost with its pages
        and X.ndim == 2
        and X.dtype in (np.float32, np.float64)
        and X.flags.c_contiguous
        and len(X) > 0
    )


def check_mapped(estimator: Any, X: np.memmap[Any, Any], *, reset: bool) -> np.memmap[Any, Any]:
    """Validate X as scikit-learn does, a chunk at a time."""
    for rows in chunks(0, len(X)):
        validate_data(estimator, X[rows], reset=reset and rows.start == 0, dtype=[np.float64, np.float32])
        advise(X, rows, "MADV_DONTNEED")
    return X
