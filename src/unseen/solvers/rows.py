"""The rows of X as the solvers read them: dense, CSR or memory-mapped, scaled on the fly, by several threads.

Importing this module does not import numba, since scoring only needs `row_scale`.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from unseen.validation import Matrix

Floats = NDArray[np.floating[Any]]
Result = TypeVar("Result")

SAFE = 1e20  # squared lengths below this, and above its inverse, are exact in both dtypes
CHUNK = 4096  # rows read at a time: bounds the memory that a memory-mapped X takes
GATHERED = 1024  # of which a sparse product makes a copy in double precision


def read_chunks(X: Any, start: int = 0, stop: int | None = None, size: int = CHUNK) -> Iterator[tuple[slice, Any]]:
    """Yield consecutive chunks of rows and their positions; pages of a memory map are released after use."""
    stop = X.shape[0] if stop is None else stop
    for first in range(start, stop, size):
        rows = slice(first, min(first + size, stop))
        yield rows, X[rows] if sp.issparse(X) else np.asarray(X[rows])
        advise(X, rows, "MADV_DONTNEED")


def advise(X: Any, rows: slice, advice: str) -> None:
    """Advise the system on the pages of some rows of a memory map; does nothing for other arrays."""
    mapped, code = getattr(X, "_mmap", None), getattr(mmap, advice, None)
    if mapped is None or code is None or X.mode == "c":  # private changes of mode "c" would be lost
        return
    offset = X.__array_interface__["data"][0] - np.frombuffer(mapped, np.uint8).__array_interface__["data"][0]
    first, last = (offset + row * X.strides[0] for row in (rows.start, rows.stop))
    first -= first % mmap.PAGESIZE
    mapped.madvise(code, first, min(last, len(mapped)) - first)


def is_mapped_matrix(X: Any) -> bool:
    """Whether X is a memory map that the solvers can use directly."""
    if not isinstance(X, np.memmap) or X.mode == "c" or X.ndim != 2 or len(X) == 0:
        return False
    return X.dtype in (np.float32, np.float64) and X.flags.c_contiguous


def row_scale(X: Any, normalize: bool) -> Matrix:
    """Return ``1 / |x_i|`` for each row (1 for a row of zeros), or ones without ``normalize``."""
    scale = np.ones(X.shape[0])
    most = 1e30 if X.dtype == np.float32 else 1e300
    for rows, part in read_chunks(X) if normalize else ():
        if not sp.issparse(part):
            squares = np.einsum("ij,ij->i", part, part)
            if np.all((squares > 1.0 / SAFE) & (squares < SAFE)):  # as for almost every X
                scale[rows] = 1.0 / np.sqrt(squares)
                continue
        peak = abs(part).max(axis=1)
        peak = np.asarray(peak.toarray() if sp.issparse(part) else peak, dtype=np.float64).ravel()
        outside = (peak > most) | ((peak < 1.0 / most) & (peak > 0.0))
        if outside.any():
            i = int(np.flatnonzero(outside)[0])
            found = f"the largest entry of row {rows.start + i} is {peak[i]:g}"
            raise ValueError(f"X: {found}: rows of {X.dtype} cannot be normalised. Rescale X.")
        peak[peak == 0.0] = 1.0
        # Squares are taken relative to the largest entry of the row, so that none overflows or vanishes.
        if sp.issparse(part):
            relative = sp.diags_array(1.0 / peak) @ part.astype(np.float64)
            squares = np.asarray(relative.power(2).sum(axis=1)).ravel()
        else:
            relative = part / peak[:, None]
            squares = np.einsum("ij,ij->i", relative, relative)
        scale[rows] = 1.0 / np.where(squares > 0.0, peak * np.sqrt(squares), 1.0)
    return scale


class Rows:
    """Rows ``scale[i] * X[i]`` of a C-contiguous array, of a memory map of one, or of a CSR matrix.

    A pass over a memory map takes random chunks, and visits the rows inside each in random order.
    """

    def __init__(self, X: Any, scale: Matrix, n_threads: int = 1) -> None:
        self.is_sparse = sp.issparse(X)
        self.X: Any = X if self.is_sparse else np.asarray(X)  # the kernels do not support np.memmap
        self.scale = scale if self.is_sparse else scale.astype(X.dtype)
        self.n_threads = n_threads
        self.shape: tuple[int, int] = X.shape
        self.dtype: np.dtype[Any] = X.dtype
        self._source = X

    @cached_property
    def squared_norms(self) -> Matrix:
        """Squared lengths of the scaled rows of a dense X."""
        from unseen.solvers.sweep_kernels import squared_lengths

        parts = read_chunks(self._source)
        return np.concatenate([squared_lengths(part, self.scale[rows]) for rows, part in parts])

    @property
    def n_entries(self) -> int:
        """Stored entries of X."""
        return int(self.X.nnz if self.is_sparse else self.X.size)

    def in_double(self) -> Rows:
        """The same rows, by a copy of X in float64."""
        return Rows(self.X.astype(np.float64), self.scale.astype(np.float64), self.n_threads)

    def visits(self, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
        """Yield all rows once, in random order, in one or several runs."""
        if not isinstance(self._source, np.memmap):
            yield rng.permutation(self.shape[0])
            return
        edges = np.arange(int(rng.integers(CHUNK)) - CHUNK, self.shape[0], CHUNK).clip(0)
        for start in rng.permutation(edges):
            later = edges[edges > start]
            rows = slice(int(start), int(later[0]) if len(later) else self.shape[0])
            advise(self._source, rows, "MADV_WILLNEED")
            yield rows.start + rng.permutation(rows.stop - rows.start)
            advise(self._source, rows, "MADV_DONTNEED")

    def project(self, V: Floats, start: int = 0, stop: int | None = None) -> Iterator[tuple[slice, Floats]]:
        """Yield ``X[chunk] V`` chunk by chunk."""
        for rows, part in read_chunks(self._source, start, stop):
            yield rows, (part @ V) * self.scale[rows, None]

    def gather(self, weights: Matrix | sp.csr_array) -> Matrix:
        """Return ``X' weights`` in float64 (products with dense weights in the dtype of X)."""

        def gathered(start: int, stop: int) -> Matrix:
            total = np.zeros((weights.shape[1], self.shape[1]))
            for rows, part in read_chunks(self._source, start, stop, GATHERED):
                own: Any = sp.diags_array(self.scale[rows]) @ weights[rows]
                product = (own if sp.issparse(own) or self.is_sparse else own.astype(self.dtype)).T @ part
                total += product.toarray() if sp.issparse(product) else product
            return total

        return np.asarray(sum(self.map_runs(gathered))).T

    def take(self, rows: NDArray[np.intp]) -> Matrix:
        """Return some rows, scaled, dense and in float64."""
        chosen = self.X[rows].toarray() if self.is_sparse else self.X[rows]
        return np.asarray(chosen * self.scale[rows, None], dtype=np.float64)

    def map_runs(self, function: Callable[[int, int], Result]) -> list[Result]:
        """Results of ``function(start, stop)`` for contiguous runs of rows, one per thread."""
        edges = [round(k * self.shape[0] / self.n_threads) for k in range(self.n_threads + 1)]
        return run_in_threads(lambda k: function(edges[k], edges[k + 1]), self.n_threads)


def run_in_threads(
    function: Callable[[int], Result], n_threads: int, abort: Callable[[], None] = lambda: None
) -> list[Result]:
    """Run ``function(k)`` for each k at the same time, the first in the calling thread.

    The functions may wait for each other. ``abort`` ends that waiting, when one of them or a start has failed.
    """

    def run(k: int) -> Result:
        try:
            return function(k)
        except BaseException:
            abort()
            raise

    if n_threads == 1:
        return [function(0)]
    with ThreadPoolExecutor(n_threads - 1) as pool:
        try:
            others = [pool.submit(run, k) for k in range(1, n_threads)]
            first = function(0)
        except BaseException:
            abort()
            raise
        return [first, *(other.result() for other in others)]
