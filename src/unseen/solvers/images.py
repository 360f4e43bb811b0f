"""The images as a solver sees them: rows of a dense (possibly memory-mapped) or CSR matrix, scaled on the fly."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray

from unseen.solvers.barrier import give_up
from unseen.solvers.mapped import CHUNK as CHUNK
from unseen.solvers.mapped import advise, chunks
from unseen.solvers.sweep import DualArrays, RowProblems, share_work, sweep_csr, sweep_dense, total_loss
from unseen.solvers.team import SOLO, Team

Floats = NDArray[np.floating[Any]]
Rows = NDArray[np.int64]

SMALLEST_BLOCK, LARGEST_BLOCK = 24, 64  # rows of one block of a dense sweep: as many as V has columns, within
LEAST_ROUNDS = 30  # several threads visit rows only if a pass has so many blocks for each


class Images(Protocol):
    """What the solvers need of the images; row ``i`` is ``scale[i] * X[i]``."""

    n_rows: int
    n_features: int
    dtype: np.dtype[Any]
    team: Team

    def visits(self, rng: np.random.Generator) -> Iterator[Rows]:
        """Yield all rows once, in an order that is drawn afresh, in one or several runs."""

    def gather(self, weights: Floats | sp.csr_array) -> NDArray[np.float64]:
        """Return ``X' weights`` in float64."""

    def loss(self, V: Floats, problems: RowProblems) -> float:
        """Return the sum of the losses at the margin scores ``X V A'``."""

    def take(self, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return some rows, scaled, dense and in float64."""

    def threads_for(self, V: Floats) -> int:
        """How many threads may visit rows at the same time."""

    def sweep(
        self,
        V: Floats,
        problems: RowProblems,
        duals: DualArrays,
        order: Rows,
        start: int,
        tol: float,
        max_steps: int,
        n_threads: int,
    ) -> tuple[int, bool, float, float]:
        """Run the row solver over some rows, see `unseen.solvers.sweep`."""


def _block(V: Floats) -> int:
    return min(max(SMALLEST_BLOCK, int(V.shape[1])), LARGEST_BLOCK)


def _runs(n_rows: int, n_runs: int) -> list[tuple[int, int]]:
    """Cut the rows into contiguous runs, one a thread."""
    return list(pairwise(round(k * n_rows / n_runs) for k in range(n_runs + 1)))


def row_scale(X: Any, normalize: bool, *, in_memory: bool = True, team: Team = SOLO) -> NDArray[np.float64]:
    """Return ``1 / |x_i|`` for each row (1 for a row of zeros), or ones when nothing is to be normalised."""
    n_rows = X.shape[0]
    scale = np.ones(n_rows)
    if not normalize:
        return scale

    def fill(run: tuple[int, int]) -> None:
        for rows in chunks(*run):
            # Squares are taken relative to the largest entry of the row, so that none overflows or vanishes.
            peak, squared = _sparse_lengths(X[rows]) if sp.issparse(X) else _dense_lengths(np.asarray(X[rows]))
            _check_range(peak, X.dtype, rows.start)
            scale[rows] = 1.0 / np.where(peak > 0.0, peak * np.sqrt(squared), 1.0)
            if not in_memory:
                advise(X, rows, "MADV_DONTNEED")

    team.map(fill, _runs(n_rows, team.size))
    return scale


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nnan", "nsz"})
def _dense_lengths(X):  # type: ignore[no-untyped-def]
    """Largest absolute entry of each row, and the squared length relative to it."""
    peak, squared = np.zeros(X.shape[0]), np.zeros(X.shape[0])
    for i in range(X.shape[0]):
        largest = abs(X[i, 0])
        for j in range(X.shape[1]):
            largest = max(largest, abs(X[i, j]))
        peak[i] = largest
        if largest > 0.0:
            total, inverse = 0.0, 1.0 / peak[i]
            for j in range(X.shape[1]):
                total += (X[i, j] * inverse) ** 2
            squared[i] = total
    return peak, squared


def _sparse_lengths(X: sp.csr_array) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    peak = abs(X).max(axis=1).toarray().ravel().astype(np.float64)
    relative = sp.diags_array(1.0 / np.where(peak > 0.0, peak, 1.0)) @ X.astype(np.float64)
    return peak, np.asarray(relative.multiply(relative).sum(axis=1)).ravel()


def _check_range(peak: NDArray[np.float64], dtype: np.dtype[Any], start: int) -> None:
    """Refuse rows so large or so small that products in their own dtype would overflow or vanish."""
    most = 1e30 if dtype == np.float32 else 1e300
    outside = (peak > most) | ((peak < 1.0 / most) & (peak > 0.0))
    if outside.any():
        i = int(np.flatnonzero(outside)[0])
        raise ValueError(
            f"X: the largest entry of row {start + i} is {peak[i]:g}, out of the range in which {dtype} rows "
            f"can be normalised. Rescale X."
        )


class DenseImages:
    """Rows of a C-contiguous float32 or float64 array."""

    def __init__(self, X: Floats, scale: NDArray[np.float64], team: Team = SOLO) -> None:
        self.X = np.asarray(X)  # a memmap becomes a plain view of the same pages
        self.scale = scale.astype(self.X.dtype)
        self.team = team
        self.n_rows, self.n_features = self.X.shape
        self.dtype = self.X.dtype
        self._squared_norms: NDArray[np.float64] | None = None

    @property
    def squared_norms(self) -> NDArray[np.float64]:
        """Squared lengths of the scaled rows."""
        if self._squared_norms is None:
            norms = np.empty(self.n_rows)

            def fill(run: tuple[int, int]) -> None:
                for rows in chunks(*run):
                    norms[rows] = _squared_lengths(self.X[rows], self.scale[rows])
                    self._release(rows)

            self.team.map(fill, _runs(self.n_rows, self.team.size))
            self._squared_norms = norms  # only when complete: several threads may ask at once
        return self._squared_norms

    def _release(self, rows: slice) -> None:
        """Say that a chunk has been read."""

    def visits(self, rng: np.random.Generator) -> Iterator[Rows]:
        """Yield all rows once, in a random order."""
        yield rng.permutation(self.n_rows)

    def project(self, V: Floats) -> Iterator[tuple[slice, Floats]]:
        """Yield ``X[chunk] V`` chunk by chunk."""
        for rows in chunks(0, self.n_rows):
            yield rows, self._project_chunk(rows, V)

    def _project_chunk(self, rows: slice, V: Floats) -> Floats:
        product: Floats = (self.X[rows] @ V) * self.scale[rows, None]
        self._release(rows)
        return product

    def loss(self, V: Floats, problems: RowProblems) -> float:
        """Return the sum of the losses at the margin scores ``X V A'``."""

        def loss_of(run: tuple[int, int]) -> float:
            parts = ((self._project_chunk(rows, V), problems.T[rows]) for rows in chunks(*run))
            return sum(float(total_loss(Z @ problems.At, T)) for Z, T in parts)

        return sum(self.team.map(loss_of, _runs(self.n_rows, self.team.size)))

    def gather(self, weights: Floats | sp.csr_array) -> NDArray[np.float64]:
        """Return ``X' weights`` in float64 (products in the dtype of X, sums of chunks in float64)."""

        def gathered(run: tuple[int, int]) -> NDArray[np.float64]:
            total = np.zeros((weights.shape[1], self.n_features))
            for rows in chunks(*run):
                part: Any = weights[rows]
                if sp.issparse(part):
                    _gather_sparse(self.X[rows], self.scale[rows], part.indptr, part.indices, part.data, total)
                else:
                    total += (part * self.scale[rows, None]).astype(self.dtype).T @ self.X[rows]
                self._release(rows)
            return total

        return sum(self.team.map(gathered, _runs(self.n_rows, self.team.size))).T  # type: ignore[union-attr]

    def take(self, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return some rows, scaled, dense and in float64."""
        return np.asarray(self.X[rows] * self.scale[rows, None], dtype=np.float64)

    def threads_for(self, V: Floats) -> int:
        """Return the size of the team, or one where so many blocks at once were no small part of the images."""
        return self.team.size if self.n_rows >= LEAST_ROUNDS * self.team.size * _block(V) else 1

    def sweep(
        self,
        V: Floats,
        problems: RowProblems,
        duals: DualArrays,
        order: Rows,
        start: int,
        tol: float,
        max_steps: int,
        n_threads: int,
    ) -> tuple[int, bool, float, float]:
        """Run the row solver over some rows, see `unseen.solvers.sweep`."""
        shared, block = share_work(n_threads, V), _block(V)
        scale, norms = self.scale, self.squared_norms

        def run(k: int) -> tuple[int, bool, float, float]:
            return sweep_dense(  # type: ignore[no-any-return]
                k, shared, block, self.X, scale, norms, problems, duals, order, start, V, tol, max_steps
            )

        def stop() -> None:
            give_up(shared.barrier)

        stopped, crowded, gaps, gains = zip(*self.team.each(run, n_threads, stop), strict=True)
        return stopped[0], crowded[0], sum(gaps), sum(gains)


class MappedImages(DenseImages):
    """Rows of a memory-mapped array of which only the chunk at work stays in memory.

    Random rows of a file that is larger than memory would each cost a read of the disk, so a pass takes random
    chunks, reads each from front to back, and shuffles the rows inside it. The chunks begin elsewhere every time.
    """

    def __init__(self, X: np.memmap[Any, Any], scale: NDArray[np.float64], team: Team = SOLO) -> None:
        super().__init__(X, scale, team)
        self._mapped = X

    def _release(self, rows: slice) -> None:
        advise(self._mapped, rows, "MADV_DONTNEED")

    def visits(self, rng: np.random.Generator) -> Iterator[Rows]:
        """Yield the rows of one random chunk after another, shuffled."""
        edges = np.arange(int(rng.integers(CHUNK)) - CHUNK, self.n_rows, CHUNK).clip(0)
        for start in rng.permutation(edges):
            later = edges[edges > start]
            rows = slice(int(start), int(later[0]) if len(later) else self.n_rows)
            advise(self._mapped, rows, "MADV_WILLNEED")
            yield rows.start + rng.permutation(rows.stop - rows.start)
            self._release(rows)


@njit(cache=True, nogil=True)
def _gather_sparse(X, scale, indptr, indices, data, total):  # type: ignore[no-untyped-def]
    """Add ``weights' X`` for CSR weights: a row of X enters the rows of a few labels."""
    for i in range(X.shape[0]):
        for e in range(indptr[i], indptr[i + 1]):
            weight = data[e] * scale[i]
            label = indices[e]
            for j in range(X.shape[1]):
                total[label, j] += weight * X[i, j]


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _squared_lengths(X, scale):  # type: ignore[no-untyped-def]
    """Squared lengths of the scaled rows."""
    squared = np.empty(X.shape[0])
    for i in range(X.shape[0]):
        total = 0.0
        for j in range(X.shape[1]):
            total += np.float64(X[i, j] * scale[i]) ** 2
        squared[i] = total
    return squared


class SparseImages:
    """Rows of a CSR matrix."""

    def __init__(self, X: sp.csr_array, scale: NDArray[np.float64], team: Team = SOLO) -> None:
        self.X = sp.csr_array(X)
        self.scale = scale
        self.team = team
        self.n_rows, self.n_features = self.X.shape
        self.dtype = self.X.dtype

    def visits(self, rng: np.random.Generator) -> Iterator[Rows]:
        """Yield all rows once, in a random order."""
        yield rng.permutation(self.n_rows)

    def project(self, V: Floats) -> Iterator[tuple[slice, Floats]]:
        """Yield ``X[chunk] V`` chunk by chunk."""
        for rows in chunks(0, self.n_rows):
            yield rows, (self.X[rows] @ V) * self.scale[rows, None]

    def loss(self, V: Floats, problems: RowProblems) -> float:
        """Return the sum of the losses at the margin scores ``X V A'``."""
        return float(sum(total_loss(Z @ problems.A.T, problems.T[rows]) for rows, Z in self.project(V)))

    def gather(self, weights: Floats | sp.csr_array) -> NDArray[np.float64]:
        """Return ``X' weights`` in float64."""
        scaled = sp.diags_array(self.scale) @ weights
        product = self.X.T @ scaled
        return np.asarray(product.toarray() if sp.issparse(product) else product, dtype=np.float64)

    def take(self, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return some rows, scaled, dense and in float64."""
        return np.asarray(self.X[rows].toarray() * self.scale[rows, None], dtype=np.float64)

    def threads_for(self, V: Floats) -> int:
        """Return one: a sparse row is little work, its changes of V are scattered."""
        return 1

    def sweep(
        self,
        V: Floats,
        problems: RowProblems,
        duals: DualArrays,
        order: Rows,
        start: int,
        tol: float,
        max_steps: int,
        n_threads: int,
    ) -> tuple[int, bool, float, float]:
        """Run the row solver over some rows, see `unseen.solvers.sweep`."""
        X = self.X
        return sweep_csr(  # type: ignore[no-any-return]
            X.data, X.indices, X.indptr, self.scale, problems, duals, order, start, V, tol, max_steps
        )


def as_images(X: Any, *, normalize: bool, team: Team = SOLO, in_memory: bool = True) -> Images:
    """Wrap a validated matrix for the solvers; ``in_memory=False`` leaves a memory-mapped one in its file."""
    scale = row_scale(X, normalize, in_memory=in_memory, team=team)
    if sp.issparse(X):
        return SparseImages(X, scale, team)
    return DenseImages(X, scale, team) if in_memory else MappedImages(X, scale, team)
