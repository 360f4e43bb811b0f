"""What a worker does with its part of the images: the tasks of `unseen.cluster.distributed`, as pure functions.

CoCoA+ splits the dual by rows. From a common V every part k ascends on its own rows the model

    ``<dPsi, T> - beta <V, dV_k> - sigma beta/2 |dV_k|^2``,   ``dV_k = X_k' dPsi_k A / beta``,

which is the common dual but for the products of different parts, for which ``sigma`` stands. It is the same row
problem with ``beta / sigma`` in place of beta, so the same ascent solves it: its V moves by ``sigma dV_k``. With
``sigma`` the number of parts the sum of all moves never overshoots, but where parts pull in opposite directions it
creeps. So a part goes on along the way it took since the round before (Nesterov's momentum), as far as the caps
allow. Nothing here changes its arguments, so Dask may run a task twice.
"""

from __future__ import annotations

from copy import deepcopy
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from unseen.solvers.dual import factored_problems
from unseen.solvers.duals import SparseDuals, within_caps
from unseen.solvers.images import Floats, Images
from unseen.solvers.passes import Ascent
from unseen.solvers.sweep import RowProblems

Matrix = NDArray[np.float64]


class Partition(NamedTuple):
    """Some of the images and their targets."""

    images: Images
    T: NDArray[np.int8]


class LabelKernel:
    """``K = A A'``. Only A travels; K, which may be far larger, is made once by each worker."""

    def __init__(self, A: Matrix) -> None:
        self.A = writeable(A)

    @cached_property
    def K(self) -> Matrix:  # noqa: N802
        """The kernel itself."""
        K: Matrix = self.A @ self.A.T
        return K

    def __reduce__(self) -> tuple[type[LabelKernel], tuple[Matrix]]:
        return LabelKernel, (self.A,)


class Move(NamedTuple):
    """What a part tells the others after a round: d x width numbers, and two.

    ``linear = <dPsi, T> - beta <V, dV>`` is the first-order gain of the dual, ``estimate`` the sum of the gaps of
    the rows when they were visited.
    """

    change: Floats
    linear: float
    estimate: float


class Round(NamedTuple):
    """Outcome of a round, of which only ``move`` leaves the worker. ``found`` is ``after`` without momentum."""

    before: SparseDuals
    after: SparseDuals
    found: SparseDuals
    move: Move | None


class Report(NamedTuple):
    """What the client hears of a round: the step that was taken, and an estimate of the gap."""

    step: float
    estimate: float


class Advanced(NamedTuple):
    """What all parts begin the next round with, and what the client hears."""

    V: Floats
    report: Report


def ascend(
    part: Partition,
    last: Round,
    seed: list[int],
    step: float,
    common: Advanced,
    kernel: LabelKernel,
    beta: float,
    sigma: float,
    momentum: float,
    row_tol: float,
) -> Round:
    """Visit the rows of one part once, from a common V, and go on with momentum."""
    V, before = common.V, settled(last, step)
    found, local = deepcopy(before), V.copy()
    ascent = Ascent(part.images, _row_problems(part, kernel, beta / sigma), found)
    estimate = ascent.visit_all(local, np.random.default_rng(seed), row_tol)
    if momentum == 0.0:
        after, change = found, (local - V) / V.dtype.type(sigma)
    else:
        psi = found.tocsr()
        further = within_caps(sp.csr_array(psi + momentum * (psi - last.found.tocsr())), part.T)
        after = as_duals(further)
        change = _share(part, further - before.tocsr(), kernel, beta).astype(V.dtype)
    linear = after.total() - before.total() - beta * _product(V, change)
    return Round(before, after, found, Move(change, linear, estimate))


def move_of(outcome: Round) -> Move | None:
    """The only part of a round that leaves the worker."""
    return outcome.move


def report_of(advanced: Advanced) -> Report:
    """The only part of the sum that leaves the cluster."""
    return advanced.report


def add_moves(moves: list[Move]) -> Move:
    """Sum of the moves of several parts."""
    changes, linear, estimates = zip(*moves, strict=True)
    return Move(add_all(list(changes)), float(sum(linear)), float(sum(estimates)))


def advance(common: Advanced, moves: list[Move], beta: float) -> Advanced:
    """Take the best step along the summed moves, at most the whole of them: longer ones may leave the caps.

    The dual along them is a parabola, so it never falls.
    """
    move = add_moves(moves)
    squared = _product(move.change, move.change)
    step = float(np.clip(move.linear / (beta * squared), 0.0, 1.0)) if squared > 0.0 else 1.0
    return Advanced(common.V + common.V.dtype.type(step) * move.change, Report(step, move.estimate))


def settled(outcome: Round, step: float) -> SparseDuals:
    """The duals of a part after the step that was taken."""
    if step == 1.0:
        return outcome.after
    return as_duals(sp.csr_array((1.0 - step) * outcome.before.tocsr() + step * outcome.after.tocsr()))


def total(outcome: Round, step: float) -> float:
    """``<Psi, T>``: every entry has the sign of its target."""
    return settled(outcome, step).total()


def gathered(part: Partition, outcome: Round, step: float, kernel: LabelKernel) -> Matrix:
    """The part's share of ``X' Psi A``."""
    return _share(part, settled(outcome, step).tocsr(), kernel)


def _share(part: Partition, psi: sp.csr_array, kernel: LabelKernel, beta: float = 1.0) -> Matrix:
    """``X' Psi A / beta``, in C order wherever it goes: the bits of a sum depend on the order of its terms."""
    return np.ascontiguousarray(part.images.gather(psi @ kernel.A)) / beta


def weights(shares: list[Matrix], beta: float, dtype: np.dtype[Any]) -> tuple[Advanced, float]:
    """``V(Psi)`` in the dtype of the images, and ``beta/2 |V|^2``."""
    V = add_all(shares) / beta
    begun = Advanced(np.ascontiguousarray(V, dtype=dtype), Report(1.0, np.inf))
    return begun, 0.5 * beta * float(np.vdot(V, V))


def loss(part: Partition, common: Advanced, kernel: LabelKernel, beta: float) -> float:
    """The part's share of the losses at V."""
    return part.images.loss(common.V, _row_problems(part, kernel, beta))


def moments(part: Partition, outcome: Round, step: float) -> Matrix:
    """The part's share of ``Psi' X``."""
    return np.ascontiguousarray(part.images.gather(settled(outcome, step).tocsr()).T)


def kept(outcome: Round, step: float) -> tuple[sp.csr_array, sp.csr_array]:
    """The duals, and what the last round had found: all that the next one needs."""
    return settled(outcome, step).tocsr(), outcome.found.tocsr()


def started(part: Partition, psi: sp.csr_array) -> Round:
    """What is feasible of a Psi, which may be that of other targets, as the outcome of a round."""
    feasible = within_caps(psi, part.T)
    return restored(feasible, feasible)


def restored(psi: sp.csr_array, found: sp.csr_array) -> Round:
    """What `kept` returned, as the outcome of a round."""
    duals = as_duals(psi)
    return Round(duals, duals, as_duals(found), None)


def as_duals(psi: sp.csr_array) -> SparseDuals:
    """Duals with the non-zeros of a CSR matrix."""
    duals = SparseDuals(*psi.shape)
    duals.replace(psi)
    return duals


def add_all(terms: list[Any]) -> Any:
    """Sum of arrays, in their order."""
    result = terms[0].copy()
    for term in terms[1:]:
        result += term
    return result


def writeable(array: NDArray[Any]) -> NDArray[Any]:
    """The array, or a copy if it cannot be written, as after a transfer: kernels would be compiled anew for it."""
    return array if array.flags.writeable else array.copy()


def _row_problems(part: Partition, kernel: LabelKernel, beta: float) -> RowProblems:
    return factored_problems(part.images, part.T, kernel.A, kernel.K, beta)


def _product(a: Floats, b: Floats) -> float:
    """``<a, b>`` in double precision: single would lose the small differences that steps are made from."""
    return float(np.einsum("ij,ij->", a, b, dtype=np.float64))
