"""The max-margin problem for a fixed label projection: maximise the dual over Psi, with the duality gap.

Primal ``P(V) = sum_i loss_i(x_i V A') + beta/2 |V|^2``; dual ``D(Psi) = <Psi, T> - beta/2 |V(Psi)|^2`` with
``V(Psi) = X' Psi A / beta``; ``A A' = K`` is the label kernel. ``P - D`` bounds the error of both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

from unseen.solvers.duals import SparseDuals
from unseen.solvers.images import Images
from unseen.solvers.passes import Ascent
from unseen.solvers.polish import MAX_FREE, polish
from unseen.solvers.row import FEW_LABELS
from unseen.solvers.sweep import RowProblems

__all__ = ["DualSolution", "SparseDuals", "kernel_factor", "least_scale", "primal_and_dual", "solve_dual"]

FIRST_POLISH = 200  # epochs before the first Newton finish; the next ones after twice as many each
FIRST_ROW_TOL = 1e-2  # to which rows are solved in the first pass; later to a tenth of their mean share of the gap
CHECK_EVERY = 10  # epochs between true gaps while the running estimate is still above the tolerance


@dataclass(frozen=True)
class DualSolution:
    """Certified answer of `solve_dual`: ``dual <= optimum <= primal``."""

    primal: float
    dual: float
    n_epochs: int
    trace: tuple[tuple[float, float], ...]

    @property
    def gap(self) -> float:
        """Upper bound of the error of ``primal`` (and of ``dual``)."""
        return max(self.primal - self.dual, 0.0)


def least_scale(T: NDArray[np.int8]) -> float:
    """A hundredth of the loss of a model that says nothing: one for each side of each image that is not empty.

    Gaps are relative to the objective, but never to less than this: where the data are separable and beta is small
    the objective tends to zero, and a relative gap would ask for ever more digits of nothing.
    """
    return 0.01 * float(np.count_nonzero((T > 0).any(axis=1)) + np.count_nonzero((T < 0).any(axis=1)))


def kernel_factor(K: NDArray[np.float64]) -> NDArray[np.float64]:
    """Thinnest ``A`` with ``A A' = K``: a sweep costs in proportion to its width.

    A Cholesky factor with pivots, which stops at the rank of K: with thousands of labels that is far below their
    number. K is scaled to a diagonal of ones first, so that a label with a long vector does not hide the others.
    """
    lengths = np.sqrt(np.maximum(K.diagonal(), np.finfo(float).tiny))
    factor, order, rank, _ = scipy.linalg.lapack.dpstrf(K / np.outer(lengths, lengths), lower=1, tol=1e-12)
    A = np.empty((len(K), max(rank, 1)))
    A[order - 1] = np.tril(factor)[:, : A.shape[1]]
    return A * lengths[:, None]


def row_problems(images: Images, T: NDArray[np.int8], K: NDArray[np.float64], beta: float) -> RowProblems:
    """What the row problems share, for a label kernel."""
    return factored_problems(images, T, kernel_factor(K), K, beta)


def factored_problems(
    images: Images, T: NDArray[np.int8], A: NDArray[np.float64], K: NDArray[np.float64], beta: float
) -> RowProblems:
    """What the row problems share, for a label kernel ``K = A A'``."""
    newton = True if len(K) > FEW_LABELS else None
    return RowProblems(T, A, np.ascontiguousarray(A.T, dtype=images.dtype), K, beta, newton)


def primal_and_dual(
    images: Images, problems: RowProblems, duals: SparseDuals
) -> tuple[float, float, NDArray[Any]]:
    """Both objectives at ``V(Psi)``, and that V in the dtype of the images."""
    psi = duals.tocsr()
    V = images.gather(psi @ problems.A) / problems.beta
    regulariser = 0.5 * problems.beta * float(np.vdot(V, V))
    rounded = np.ascontiguousarray(V, dtype=images.dtype)
    loss = images.loss(rounded, problems)
    return loss + regulariser, float(np.abs(psi.data).sum()) - regulariser, rounded


def solve_dual(
    images: Images,
    T: NDArray[np.int8],
    K: NDArray[np.float64],
    beta: float,
    duals: SparseDuals,
    rng: np.random.Generator,
    *,
    tol: float = 1e-3,
    max_epochs: int = 1000,
) -> DualSolution:
    """Maximise the dual for one label kernel by block-coordinate ascent, from the given duals (in place).

    Stops when the true duality gap is at most ``tol`` times the primal (or `least_scale`, if larger), or after
    ``max_epochs`` passes. Each pass visits the images in a fresh random order.
    """
    problems = row_problems(images, T, K, beta)
    ascent = Ascent(images, problems, duals)
    floor = least_scale(T)
    primal, dual, V = primal_and_dual(images, problems, duals)
    trace = [(primal, dual)]
    row_tol = FIRST_ROW_TOL
    epoch, next_polish = 0, FIRST_POLISH
    while primal - dual > tol * max(primal, floor) and epoch < max_epochs:
        estimate = ascent.visit_all(V, rng, row_tol)
        epoch += 1
        row_tol = min(row_tol, max(0.1 * estimate / images.n_rows, 1e-12))
        if estimate <= tol * max(primal, floor) or epoch % CHECK_EVERY == 0 or epoch == max_epochs:
            if epoch >= next_polish:
                next_polish *= 2
                _polish(images, T, K, beta, duals)
            primal, dual, V = primal_and_dual(images, problems, duals)
            trace.append((primal, dual))
    return DualSolution(primal, dual, epoch, tuple(trace))


def _polish(images: Images, T: NDArray[np.int8], K: NDArray[np.float64], beta: float, duals: SparseDuals) -> None:
    if 0 < duals.count.sum() <= MAX_FREE:
        psi = duals.tocsr().toarray()
        polish(images, T, K, beta, psi)
        duals.replace(sp.csr_array(psi))
