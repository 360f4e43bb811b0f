"""The max-margin problem for a fixed label projection: maximise the dual over Psi, with the duality gap.

Primal ``P(V) = sum_i w_i loss_i(x_i V A') + beta/2 |V|^2``; dual ``D(Psi) = <Psi, T> - beta/2 |V(Psi)|^2`` with
``V(Psi) = X' Psi A / beta``; ``A A' = K`` is the label kernel and ``w`` are the weights of the images. The entries
of Psi have the signs of their targets, and the absolute values on each side of row i sum to at most ``w_i``. With
the mean over the labels of a side as its loss, in place of the maximum, each is at most ``w_i / (their number)``.
``P - D`` bounds the error of both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

from unseen.solvers import one_thread
from unseen.solvers.interior import solve_on_working_set
from unseen.solvers.row_kernels import FEW_LABELS
from unseen.solvers.rows import Floats, Rows, run_in_threads
from unseen.solvers.sweep_kernels import RowProblems, SharedWork, abort, sweep_csr, sweep_dense, total_loss
from unseen.validation import Matrix

FIRST_SLOTS = 16
FEW_COLUMNS = 64  # labels: up to this many, X'Psi is computed once for each Psi, and everything else from it
MAX_EPOCHS = 1000
FIRST_FINISH = 10  # epochs before a second-order finish is considered
FEW_FREE = 1000  # duals, whose systems are factored by one thread
MAX_FREE = 1500  # duals of a finish: beyond this, a dense system costs more than the passes it saves
ROW_COST = 3e4  # flops that take as long as a visit of a row, without its products
FINISH_COST = 0.3  # flops of a finish by the cube of its duals
MAX_ROUNDS = 10  # of a finish: each adds the duals that its last solution violates
FIRST_ROW_TOL = 1e-2  # row tolerance in the first pass; later a tenth of the mean share of the gap
CHECK_EVERY = 10  # epochs between exact gaps while the running estimate is above the tolerance
STALLED = 100  # epochs without progress that end a solve
PROGRESS = 1e-3  # rise of the dual, as a share of the gap, that counts: early on, the primal may rise with it
MOST_DOUBLED = 20_000_000  # entries of a float32 X that may be copied to float64 when rounding stops progress
MAX_PAIR_STEPS = 50  # a row is left after this many steps and finished at its next visit
SMALLEST_BLOCK, LARGEST_BLOCK = 24, 64  # rows of one block of a dense sweep: as many as V has columns, within
MOST_DENSE = 2000  # labels: up to this many, their kernel is formed
LEAST_ROUNDS = 30  # several threads are used only if a pass has this many blocks for each


class LabelKernel:
    """Label kernel ``K = A A'``, stored as A. Only A is sent to other machines."""

    def __init__(self, A: Matrix) -> None:
        self.A = np.require(A, requirements=["C", "W"])

    @classmethod
    def thin(cls, A: Matrix) -> LabelKernel:
        """The kernel ``A A'``, with up to `MOST_DENSE` labels by the thinnest factor that it has."""
        return cls(A if len(A) > MOST_DENSE else kernel_factor(A @ A.T))

    @cached_property
    def K(self) -> Matrix:  # noqa: N802
        """The kernel itself."""
        return np.asarray(self.A @ self.A.T)

    def __reduce__(self) -> tuple[type[LabelKernel], tuple[Matrix]]:
        return LabelKernel, (self.A,)


class TrainingImages:
    """Images, their targets T in {-1, 0, +1} (0 = unknown), and the weights of their losses (None = ones).

    A side of an image costs the largest loss of its labels, or their mean if ``is_mean``.
    """

    def __init__(
        self, rows: Rows, T: NDArray[np.int8], weights: Matrix | None = None, *, is_mean: bool = False
    ) -> None:
        self.rows, self.T, self.is_mean = rows, T, is_mean
        self.weights = np.ones(len(T)) if weights is None else np.array(weights, dtype=np.float64)
        sides = np.column_stack([(T > 0).any(axis=1), (T < 0).any(axis=1)])
        self.annotated_weight = float(self.weights @ sides.any(axis=1))
        # A hundredth of the loss at scores of zero. Gaps are relative to the objective, but never to less than
        # this: on separable data with a small beta the objective tends to zero.
        self.least_scale = 0.01 * float(self.weights @ sides.sum(axis=1))

    @property
    def is_refinable(self) -> bool:
        """Whether a copy in double precision is possible and small."""
        return self.rows.dtype == np.float32 and self.rows.n_entries <= MOST_DOUBLED

    def in_double(self) -> TrainingImages:
        """The same images in double precision."""
        return TrainingImages(self.rows.in_double(), self.T, self.weights, is_mean=self.is_mean)

    def row_problems(self, kernel: LabelKernel, beta: float) -> RowProblems:
        """Data shared by the row problems."""
        A, is_large = kernel.A, len(kernel.A) > MOST_DENSE
        At = np.ascontiguousarray(A.T, dtype=self.rows.dtype)
        is_factor = is_large if len(A) > FEW_LABELS else None
        return RowProblems(self.T, self.weights, A, At, A if is_large else kernel.K, beta, is_factor, self.is_mean)

    def caps(self, images: NDArray[Any], labels: NDArray[Any]) -> Matrix:
        """Caps of single entries of Psi, or of their sides."""
        if not self.is_mean:
            return np.asarray(self.weights[images])
        sizes = np.column_stack([(self.T > 0).sum(axis=1), (self.T < 0).sum(axis=1)]).clip(1)
        return np.asarray(self.weights[images] / sizes[images, (self.T[images, labels] < 0).astype(np.intp)])

    def within_caps(self, psi: sp.csr_array) -> sp.csr_array:
        """Psi without entries of the wrong sign, each side of a row scaled (or each entry cut) to its cap."""
        rows = np.repeat(np.arange(psi.shape[0]), np.diff(psi.indptr))
        signs, caps = self.T[rows, psi.indices], self.caps(rows, psi.indices)
        sizes = np.maximum(psi.data * signs, 0.0)
        if self.is_mean:
            sizes = np.minimum(sizes, caps)
        for side in () if self.is_mean else (1, -1):
            on_side = signs == side
            sums = np.bincount(rows[on_side], sizes[on_side], psi.shape[0])[rows[on_side]]
            sizes[on_side] *= caps[on_side] / np.maximum(sums, np.maximum(caps[on_side], np.finfo(float).tiny))
        result = sp.csr_array((sizes * signs, psi.indices, psi.indptr), shape=psi.shape)
        result.eliminate_zeros()
        return result


class SparseDuals:
    """The rows of Psi, with few non-zero entries: ``count[i]`` pairs (label, value) for image ``i``.

    ``gathered`` is ``X'Psi`` if it is known; who changes Psi sets it to None.
    """

    def __init__(self, n_images: int, n_labels: int) -> None:
        slots = min(FIRST_SLOTS, n_labels)
        self.n_labels = n_labels
        self.index = np.zeros((n_images, slots), dtype=np.int32)
        self.value = np.zeros((n_images, slots))
        self.count = np.zeros(n_images, dtype=np.int32)
        self.gathered: Matrix | None = None

    def double_slots(self) -> None:
        """Double the number of pairs that an image can have."""
        more = ((0, 0), (0, min(self.index.shape[1], self.n_labels - self.index.shape[1])))
        self.index, self.value = np.pad(self.index, more), np.pad(self.value, more)

    def _filled(self) -> NDArray[np.bool_]:
        return np.asarray(np.arange(self.index.shape[1]) < self.count[:, None])

    def total(self) -> float:
        """Sum of the absolute values, ``<Psi, T>``."""
        return float(np.abs(self.value[self._filled()]).sum())

    def replace(self, psi: sp.csr_array) -> None:
        """Copy the non-zeros of a CSR matrix."""
        counts = np.diff(psi.indptr)
        while counts.max(initial=0) > self.index.shape[1]:
            self.double_slots()
        self.count[:], self.gathered = counts, None
        filled = self._filled()
        self.index[filled], self.value[filled] = psi.indices, psi.data

    def tocsr(self) -> sp.csr_array:
        """Psi as a CSR matrix of shape (n_images, n_labels)."""
        filled = self._filled()
        indptr = np.concatenate([[0], np.cumsum(self.count, dtype=np.int64)])
        return sp.csr_array((self.value[filled], self.index[filled], indptr), (len(self.count), self.n_labels))


@dataclass(frozen=True)
class DualSolution:
    """Certified answer of `solve_dual`: ``dual <= optimum <= primal``."""

    primal: float
    dual: float
    n_epochs: int
    trace: tuple[tuple[float, float], ...]
    is_stalled: bool = False  # further epochs would not have lowered the gap by much

    @property
    def gap(self) -> float:
        """Upper bound of the error of ``primal`` (and of ``dual``)."""
        return max(self.primal - self.dual, 0.0)


class DualProblem(ABC):
    """Psi of the training images, on this machine or on others."""

    least_scale: float  # see `TrainingImages`

    @abstractmethod
    def solve(self, kernel: LabelKernel, tol: float, max_epochs: int = MAX_EPOCHS) -> DualSolution:
        """Maximise the dual for the label kernel from the current Psi, to a relative gap of ``tol``."""

    @abstractmethod
    def moments(self, C: Matrix | None = None) -> tuple[float, Matrix]:
        """``<Psi, T>``, and ``Psi'X`` of shape (n_labels, n_features), or ``C'Psi'X``."""

    @abstractmethod
    def tocsr(self) -> sp.csr_array:
        """Psi as a CSR matrix of shape (n_images, n_labels)."""

    @abstractmethod
    def snapshot(self) -> Callable[[], None]:
        """Return a function that brings the present Psi back."""

    @abstractmethod
    def replace(self, psi: sp.csr_array) -> None:
        """Start from the feasible part of this Psi, which may come from other targets or weights."""

    def shorten(self, length: float) -> None:
        """Multiply Psi by a number of at most 1."""
        self.replace(self.tocsr() * length)


class LocalDual(DualProblem):
    """All images on this machine; Psi starts at zero."""

    def __init__(self, images: TrainingImages, beta: float, rng: np.random.Generator) -> None:
        self.least_scale = images.least_scale
        self._images, self._beta, self._rng = images, beta, rng
        self._duals = SparseDuals(*images.T.shape)

    def solve(self, kernel: LabelKernel, tol: float, max_epochs: int = MAX_EPOCHS) -> DualSolution:  # noqa: D102
        rest = (self._beta, self._duals, self._rng)
        solution = solve_dual(self._images, kernel, *rest, tol=tol, max_epochs=max_epochs)
        if not (solution.is_stalled and self._images.is_refinable):
            return solution
        # Likely, with a small beta for the scale of X: margin scores are small differences of large numbers.
        self._images, self._duals.gathered = self._images.in_double(), None
        exact = solve_dual(self._images, kernel, *rest, tol=tol, max_epochs=max_epochs)
        return replace(exact, n_epochs=solution.n_epochs + exact.n_epochs, trace=solution.trace + exact.trace)

    def moments(self, C: Matrix | None = None) -> tuple[float, Matrix]:  # noqa: D102
        return self._duals.total(), gather(self._images.rows, self._duals, C).T

    def tocsr(self) -> sp.csr_array:  # noqa: D102
        return self._duals.tocsr()

    def snapshot(self) -> Callable[[], None]:  # noqa: D102
        return partial(setattr, self, "_duals", deepcopy(self._duals))

    def replace(self, psi: sp.csr_array) -> None:  # noqa: D102
        self._duals.replace(self._images.within_caps(psi))

    def shorten(self, length: float) -> None:  # noqa: D102
        self._duals.value *= length
        if self._duals.gathered is not None:
            self._duals.gathered *= length


def solve_dual(
    images: TrainingImages, kernel: LabelKernel, beta: float, duals: SparseDuals, rng: np.random.Generator, *,
    tol: float = 1e-3, max_epochs: int = MAX_EPOCHS,
) -> DualSolution:  # fmt: skip
    """Maximise the dual for one label kernel by block-coordinate ascent, from the given duals (in place).

    Stops when the true duality gap is at most ``tol * max(primal, least_scale)``, after ``max_epochs`` passes, or
    when for `STALLED` passes neither the gap fell by a tenth nor the dual rose.
    """
    problems = images.row_problems(kernel, beta)
    ascent = Ascent(images.rows, problems, duals)
    total_weight = images.weights.sum()
    primal, dual, V = primal_and_dual(images.rows, problems, duals)
    trace = [(primal, dual)]
    row_tol = FIRST_ROW_TOL
    pass_cost = len(images.T) * (4.0 * V.size + ROW_COST)
    epoch, next_finish = 0, FIRST_FINISH
    least_gap, best_dual, last_progress, is_stalled = primal - dual, dual, 0, False
    while primal - dual > tol * max(primal, images.least_scale) and epoch < max_epochs and not is_stalled:
        estimate = ascent.visit_all(V, rng, row_tol)
        epoch += 1
        row_tol = min(row_tol, max(0.1 * estimate / total_weight, 1e-12))
        is_close = estimate <= tol * max(primal, images.least_scale)
        if is_close or epoch % CHECK_EVERY == 0 or epoch == max_epochs:
            primal, dual, V = primal_and_dual(images.rows, problems, duals)
            gap, allowed = primal - dual, tol * max(primal, images.least_scale)
            n_free = int(duals.count.sum())
            is_due = epoch >= next_finish and n_free <= MAX_FREE and epoch * pass_cost >= FINISH_COST * n_free**3
            if gap > allowed and is_due:
                epoch += finish(images, problems, duals, 0.5 * allowed)
                primal, dual, V = primal_and_dual(images.rows, problems, duals)
                next_finish = 2 * epoch
            trace.append((primal, dual))
            if primal - dual < 0.9 * least_gap or dual - best_dual > PROGRESS * (primal - dual):
                least_gap, best_dual, last_progress = min(primal - dual, least_gap), max(dual, best_dual), epoch
            is_stalled = epoch - last_progress >= STALLED
    return DualSolution(primal, dual, epoch, tuple(trace), is_stalled)


def finish(images: TrainingImages, problems: RowProblems, duals: SparseDuals, tol: float) -> int:
    """Solve for the duals that matter by a second-order method; return how often the images were read.

    The working set begins with the non-zero duals, and grows by what the solution for it violates.
    """
    T, A, i = images.T, problems.A, np.arange(len(images.T))
    chosen = np.zeros(T.shape, dtype=np.bool_)
    best, best_dual, slack = duals.tocsr(), -np.inf, 0.1 * tol / images.weights.sum()
    for n_reads in range(MAX_ROUNDS):
        primal, dual, V = primal_and_dual(images.rows, problems, duals)
        if dual < best_dual:
            duals.replace(best)
            return n_reads
        best, best_dual = duals.tocsr(), dual
        n_before = chosen.sum()
        chosen[best.nonzero()] = True
        losses = 1.0 - T * np.vstack([Z @ problems.At for _, Z in images.rows.project(V)])
        for side in (1, -1):
            on_side = np.where(side == T, losses, 0.0)
            worst = on_side.argmax(axis=1)
            known = np.where(chosen, on_side, 0.0).max(axis=1)
            violated = (on_side[i, worst] > known + slack) & (images.weights > 0.0)
            chosen[i[violated], worst[violated]] = True
        if images.is_mean:
            chosen |= (losses > slack) & (T != 0) & (images.weights > 0.0)[:, None]
        if primal - dual <= tol or chosen.sum() == n_before or chosen.sum() > MAX_FREE:
            return n_reads + 1
        image, label = chosen.nonzero()
        X, targets = images.rows.take(image), T[image, label].astype(float)
        H = (X @ X.T / problems.beta) * (A[label] @ A[label].T) * np.outer(targets, targets)
        sides = np.arange(len(image)) if images.is_mean else 2 * image + (targets < 0)
        _, first, side_of = np.unique(sides, return_index=True, return_inverse=True)
        with one_thread() if len(H) < FEW_FREE else nullcontext():
            u = solve_on_working_set(H, side_of, images.caps(image[first], label[first]), 0.5 * tol)
        psi = sp.csr_array((u * targets, (image, label)), shape=T.shape)
        psi.eliminate_zeros()
        duals.replace(psi)
    return MAX_ROUNDS


def kernel_factor(K: Matrix) -> Matrix:
    """Thinnest ``A`` with ``A A' = K``, a Cholesky factor with pivots: a sweep costs in proportion to its width.

    K is scaled to a diagonal of ones first, so that a label with a long vector does not hide the others.
    """
    lengths = np.sqrt(np.maximum(K.diagonal(), np.finfo(float).tiny))
    factor, order, rank, _ = scipy.linalg.lapack.dpstrf(K / np.outer(lengths, lengths), lower=1, tol=1e-12)
    A = np.empty((len(K), max(rank, 1)))
    A[order - 1] = np.tril(factor)[:, : A.shape[1]]
    return A * lengths[:, None]


def gather(rows: Rows, duals: SparseDuals, C: Matrix | None = None) -> Matrix:
    """``X'Psi``, or ``X'Psi C``."""
    if duals.n_labels > FEW_COLUMNS:
        return rows.gather(duals.tocsr() if C is None else duals.tocsr() @ C)
    if duals.gathered is None:
        duals.gathered = rows.gather(duals.tocsr().toarray())
    return duals.gathered if C is None else duals.gathered @ C


def primal_and_dual(rows: Rows, problems: RowProblems, duals: SparseDuals) -> tuple[float, float, Floats]:
    """Both objectives at ``V(Psi)``, and that V in the dtype of the images."""
    V = gather(rows, duals, problems.A) / problems.beta
    regulariser = 0.5 * problems.beta * float(np.vdot(V, V))
    rounded = np.ascontiguousarray(V, dtype=rows.dtype)
    return loss(rows, problems, rounded) + regulariser, duals.total() - regulariser, rounded


def loss(rows: Rows, problems: RowProblems, V: Floats) -> float:
    """Weighted sum of the losses at the margin scores ``X V A'``."""

    def loss_of(start: int, stop: int) -> float:
        return sum(
            float(total_loss(Z @ problems.At, problems.T[chunk], problems.weights[chunk], problems.is_mean))
            for chunk, Z in rows.project(V, start, stop)
        )

    return sum(rows.map_runs(loss_of))


class Ascent:
    """Passes of block-coordinate ascent on the duals, and on the corresponding ``V = X' Psi A / beta``.

    Each of several threads ascends over its own block of rows, then all changes of V are added. Where more than
    half of what they gain alone is lost together, the next passes are left to one thread.
    """

    def __init__(self, rows: Rows, problems: RowProblems, duals: SparseDuals) -> None:
        self.rows, self.problems, self.duals = rows, problems, duals
        self._block = min(max(SMALLEST_BLOCK, problems.A.shape[1]), LARGEST_BLOCK)
        # Sparse rows are cheap, and blocks must be a small part of the images.
        is_parallel = not rows.is_sparse and rows.shape[0] >= LEAST_ROUNDS * rows.n_threads * self._block
        self._n_threads = rows.n_threads if is_parallel else 1
        self._alone = 0  # passes left to one thread
        self._next_alone = 1

    def visit_all(self, V: Floats, rng: np.random.Generator, tol: float) -> float:
        """Visit every row once; return the sum of the gaps that the rows had when they were visited."""
        n_threads = 1 if self._alone else self._n_threads
        self._alone = max(self._alone - 1, 0)
        before = self._dual(V) if n_threads > 1 else 0.0
        self.duals.gathered = None
        estimate = gained = 0.0
        for order in self.rows.visits(rng):
            start = 0
            while start < len(order):
                start, lacks_slots, gap, gain = self._sweep(V, order, start, tol, n_threads)
                estimate, gained = estimate + gap, gained + gain
                if lacks_slots:
                    self.duals.double_slots()
        if n_threads > 1 and self._dual(V) - before < 0.5 * gained:
            self._alone, self._next_alone = self._next_alone, 2 * self._next_alone
        return estimate

    def _dual(self, V: Floats) -> float:
        return self.duals.total() - 0.5 * self.problems.beta * float(np.vdot(V, V))

    def _sweep(
        self, V: Floats, order: NDArray[np.int64], start: int, tol: float, n_threads: int
    ) -> tuple[int, bool, float, float]:
        """Visit some rows from ``start`` on; for the result see `unseen.solvers.sweep_kernels`."""
        rows, X = self.rows, self.rows.X
        duals = (self.duals.index, self.duals.value, self.duals.count)
        rest = (self.problems, duals, order, start, V, tol, MAX_PAIR_STEPS)
        if rows.is_sparse:
            return sweep_csr(X.data, X.indices, X.indptr, rows.scale, *rest)  # type: ignore[no-any-return]
        V_changes, flags = np.empty((n_threads, *V.shape), V.dtype), np.zeros((2, n_threads), np.bool_)
        shared = SharedWork(np.zeros(24, np.int64), V_changes, flags[0], flags[1])
        sweep = partial(sweep_dense, shared, self._block, X, rows.scale, rows.squared_norms, *rest)
        results = run_in_threads(sweep, n_threads, lambda: abort(shared.barrier))
        stopped, lacks_slots, gaps, gains = zip(*results, strict=True)
        return stopped[0], lacks_slots[0], sum(gaps), sum(gains)
