"""The max-margin problem for a fixed label projection: maximise the dual over Psi, with the duality gap.

Primal ``P(V) = sum_i loss_i(x_i V A') + beta/2 |V|^2``; dual ``D(Psi) = <Psi, T> - beta/2 |V(Psi)|^2`` with
``V(Psi) = X' Psi A / beta``; ``A A' = K`` is the label kernel. ``P - D`` bounds the error of both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from unseen.solvers.images import Images
from unseen.solvers.polish import MAX_FREE, polish
from unseen.solvers.sweep import total_loss

FIRST_SLOTS = 8
MAX_PAIR_STEPS = 50  # a row is left after so many steps and finished at its next visit
FIRST_POLISH = 200  # epochs before the first Newton finish; the next ones after twice as many each
CHECK_EVERY = 10  # epochs between true gaps while the running estimate is still above the tolerance


class SparseDuals:
    """The rows of Psi, of which few entries are non-zero: ``count[i]`` pairs (label, value) for image ``i``."""

    def __init__(self, n_images: int, n_labels: int) -> None:
        slots = min(FIRST_SLOTS, n_labels)
        self.n_labels = n_labels
        self.index = np.zeros((n_images, slots), dtype=np.int32)
        self.value = np.zeros((n_images, slots))
        self.count = np.zeros(n_images, dtype=np.int32)

    def make_room(self) -> None:
        """Double the number of slots."""
        n_images, slots = self.index.shape
        more = min(2 * slots, self.n_labels) - slots
        self.index = np.hstack([self.index, np.zeros((n_images, more), dtype=np.int32)])
        self.value = np.hstack([self.value, np.zeros((n_images, more))])

    def replace(self, psi: sp.csr_array) -> None:
        """Take over the non-zeros of a CSR matrix."""
        counts = np.diff(psi.indptr)
        while counts.max(initial=0) > self.index.shape[1]:
            self.make_room()
        self.count[:] = counts
        held = np.arange(self.index.shape[1]) < self.count[:, None]
        self.index[held], self.value[held] = psi.indices, psi.data

    def tocsr(self) -> sp.csr_array:
        """Psi as a CSR matrix of shape (n_images, n_labels)."""
        held = np.arange(self.index.shape[1]) < self.count[:, None]
        indptr = np.concatenate([[0], np.cumsum(self.count, dtype=np.int64)])
        shape = (len(self.count), self.n_labels)
        return sp.csr_array((self.value[held], self.index[held], indptr), shape=shape)


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
    """Thinnest ``A`` with ``A A' = K``: a sweep costs in proportion to its width."""
    eigenvalues, vectors = np.linalg.eigh(K)
    kept = eigenvalues > 1e-12 * max(eigenvalues[-1], 0.0)
    return np.ascontiguousarray(vectors[:, kept] * np.sqrt(eigenvalues[kept]))


def primal_and_dual(
    images: Images, T: NDArray[np.int8], A: NDArray[np.float64], beta: float, duals: SparseDuals
) -> tuple[float, float, NDArray[Any]]:
    """Both objectives at ``V(Psi)``, and that V in the dtype of the images."""
    psi = duals.tocsr()
    V = images.gather(psi @ A) / beta
    regulariser = 0.5 * beta * float(np.vdot(V, V))
    rounded = np.ascontiguousarray(V, dtype=images.dtype)
    loss = sum(total_loss(Z, A, T[rows]) for rows, Z in images.project(rounded))
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
    A = kernel_factor(K)
    floor = least_scale(T)
    primal, dual, V = primal_and_dual(images, T, A, beta, duals)
    trace = [(primal, dual)]
    row_tol = 1e-3
    epoch, next_polish = 0, FIRST_POLISH
    while primal - dual > tol * max(primal, floor) and epoch < max_epochs:
        order = rng.permutation(images.n_rows)
        visited, estimate = 0, 0.0
        while visited < images.n_rows:
            rest = (T, A, K, beta, duals.index, duals.value, duals.count, row_tol, MAX_PAIR_STEPS)
            visited, gap_of_visited = images.sweep(V, order, visited, *rest)
            estimate += gap_of_visited
            if visited < images.n_rows:
                duals.make_room()
        epoch += 1
        row_tol = min(row_tol, max(0.1 * estimate / images.n_rows, 1e-12))
        if estimate <= tol * max(primal, floor) or epoch % CHECK_EVERY == 0 or epoch == max_epochs:
            if epoch >= next_polish:
                next_polish *= 2
                _polish(images, T, K, beta, duals)
            primal, dual, V = primal_and_dual(images, T, A, beta, duals)
            trace.append((primal, dual))
    return DualSolution(primal, dual, epoch, tuple(trace))


def _polish(images: Images, T: NDArray[np.int8], K: NDArray[np.float64], beta: float, duals: SparseDuals) -> None:
    if 0 < duals.count.sum() <= MAX_FREE:
        psi = duals.tocsr().toarray()
        polish(images, T, K, beta, psi)
        duals.replace(sp.csr_array(psi))
