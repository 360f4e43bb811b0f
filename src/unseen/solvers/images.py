"""The images as a solver sees them: rows of a dense (possibly memory-mapped) or CSR matrix, scaled on the fly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from unseen.solvers.sweep import sweep_csr, sweep_dense

Floats = NDArray[np.floating[Any]]

CHUNK = 4096  # rows handled at a time in whole-matrix products: bounds the memory of a memory-mapped X
BLOCK = 16  # rows of one block of a dense sweep: its Gram matrix costs BLOCK / (4 width) of the two products


class Images(Protocol):
    """What the solvers need of the images; row ``i`` is ``scale[i] * X[i]``."""

    n_rows: int
    n_features: int
    dtype: np.dtype[Any]

    def project(self, V: Floats) -> Iterator[tuple[slice, Floats]]:
        """Yield ``X[chunk] V`` chunk by chunk."""

    def gather(self, weights: Floats | sp.csr_array) -> NDArray[np.float64]:
        """Return ``X' weights`` in float64."""

    def take(self, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return some rows, scaled, dense and in float64."""

    def sweep(self, V: Floats, order: NDArray[np.int64], start: int, *rest: Any) -> tuple[int, float]:
        """Run one pass of the row solver, see `unseen.solvers.sweep`."""


def row_scale(X: Any, normalize: bool) -> NDArray[np.float64]:
    """Return ``1 / |x_i|`` for each row (1 for a row of zeros), or ones when nothing is to be normalised."""
    n_rows = X.shape[0]
    scale = np.ones(n_rows)
    if not normalize:
        return scale
    for start in range(0, n_rows, CHUNK):
        chunk = X[start : start + CHUNK]
        # Squares are taken relative to the largest entry of the row, so that none overflows or vanishes.
        peak = abs(chunk).max(axis=1)
        peak = (peak.toarray() if sp.issparse(peak) else peak).ravel()
        _check_range(peak, start)
        peak[peak == 0.0] = 1.0
        if sp.issparse(chunk):
            relative = sp.diags_array(1.0 / peak) @ chunk
            squared = np.asarray(relative.multiply(relative).sum(axis=1), dtype=np.float64).ravel()
        else:
            relative = chunk / peak[:, None]
            squared = np.einsum("ij,ij->i", relative, relative, dtype=np.float64)
        scale[start : start + CHUNK] = 1.0 / peak / np.sqrt(np.where(squared > 0.0, squared, 1.0))
    return scale


def _check_range(peak: Floats, start: int) -> None:
    """Refuse rows so large or so small that products in their own dtype would overflow or vanish."""
    most = 1e30 if peak.dtype == np.float32 else 1e300
    outside = (peak > most) | ((peak < 1.0 / most) & (peak > 0.0))
    if outside.any():
        i = int(np.flatnonzero(outside)[0])
        raise ValueError(
            f"X: the largest entry of row {start + i} is {peak[i]:g}, out of the range in which {peak.dtype} rows "
            f"can be normalised. Rescale X."
        )


class DenseImages:
    """Rows of a C-contiguous float32 or float64 array."""

    def __init__(self, X: Floats, scale: NDArray[np.float64]) -> None:
        self.X = np.asarray(X)  # a memmap becomes a plain view of the same pages
        self.scale = scale.astype(self.X.dtype)
        self.n_rows, self.n_features = self.X.shape
        self.dtype = self.X.dtype

    def _chunks(self) -> Iterator[tuple[slice, Floats]]:
        for start in range(0, self.n_rows, CHUNK):
            rows = slice(start, min(start + CHUNK, self.n_rows))
            yield rows, self.X[rows]

    def project(self, V: Floats) -> Iterator[tuple[slice, Floats]]:
        """Yield ``X[chunk] V`` chunk by chunk."""
        for rows, chunk in self._chunks():
            yield rows, (chunk @ V) * self.scale[rows, None]

    def gather(self, weights: Floats | sp.csr_array) -> NDArray[np.float64]:
        """Return ``X' weights`` in float64 (products in the dtype of X, sums of chunks in float64)."""
        total = np.zeros((self.n_features, weights.shape[1]))
        for rows, chunk in self._chunks():
            part: Any = weights[rows]
            if sp.issparse(part):
                part = part.multiply(self.scale[rows, None]).tocsr().astype(self.dtype)
                total += (part.T.tocsr() @ chunk).T
            else:
                total += chunk.T @ (part * self.scale[rows, None]).astype(self.dtype)
        return total

    def take(self, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return some rows, scaled, dense and in float64."""
        return np.asarray(self.X[rows] * self.scale[rows, None], dtype=np.float64)

    def sweep(self, V: Floats, order: NDArray[np.int64], start: int, *rest: Any) -> tuple[int, float]:
        """Run one pass of the row solver, see `unseen.solvers.sweep`."""
        T, A, K, beta, index, value, count, tol, max_steps = rest
        return sweep_dense(  # type: ignore[no-any-return]
            self.X, self.scale, T, A, K, beta, order, start, index, value, count, V, BLOCK, tol, max_steps
        )


class SparseImages:
    """Rows of a CSR matrix."""

    def __init__(self, X: sp.csr_array, scale: NDArray[np.float64]) -> None:
        self.X = sp.csr_array(X)
        self.scale = scale
        self.n_rows, self.n_features = self.X.shape
        self.dtype = self.X.dtype

    def project(self, V: Floats) -> Iterator[tuple[slice, Floats]]:
        """Yield ``X[chunk] V`` chunk by chunk."""
        for start in range(0, self.n_rows, CHUNK):
            rows = slice(start, min(start + CHUNK, self.n_rows))
            yield rows, (self.X[rows] @ V) * self.scale[rows, None]

    def gather(self, weights: Floats | sp.csr_array) -> NDArray[np.float64]:
        """Return ``X' weights`` in float64."""
        scaled = sp.diags_array(self.scale) @ weights
        product = self.X.T @ scaled
        return np.asarray(product.toarray() if sp.issparse(product) else product, dtype=np.float64)

    def take(self, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return some rows, scaled, dense and in float64."""
        return np.asarray(self.X[rows].toarray() * self.scale[rows, None], dtype=np.float64)

    def sweep(self, V: Floats, order: NDArray[np.int64], start: int, *rest: Any) -> tuple[int, float]:
        """Run one pass of the row solver, see `unseen.solvers.sweep`."""
        T, A, K, beta, index, value, count, tol, max_steps = rest
        X = self.X
        return sweep_csr(  # type: ignore[no-any-return]
            X.data, X.indices, X.indptr, self.scale, T, A, K, beta, order, start, index, value, count, V, tol,
            max_steps,
        )  # fmt: skip


def as_images(X: Any, *, normalize: bool) -> Images:
    """Wrap a validated matrix for the solvers."""
    scale = row_scale(X, normalize)
    return SparseImages(X, scale) if sp.issparse(X) else DenseImages(X, scale)
