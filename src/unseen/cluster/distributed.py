"""The dual over images that are on the workers of a Dask cluster: rounds of CoCoA+, with the true duality gap.

Every part of the images stays on a worker, with its duals. In a round each part ascends on its own
(`unseen.cluster.partitions.ascend`), the changes of V are added in a tree, and the sum makes the next V. All of
this are tasks, and the client sees numbers only: when a worker is lost, Dask makes again what it held, from the
tasks that made it. So that this never means more than some rounds, the client copies the duals now
and then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from unseen.cluster import partitions
from unseen.cluster.partitions import LabelKernel, Report
from unseen.solvers.dual import DualSolution, kernel_factor
from unseen.solvers.dual_problem import Moments
from unseen.solvers.projection import ProjectionProblem

Matrix = NDArray[np.float64]
Future = Any  # of distributed, an extra

CHECK_EVERY = 5  # rounds between true gaps while the running estimate is still above the tolerance
KEEP_EVERY = 20  # rounds between copies of the duals on the client: what a lost worker may cost
MAX_ROUNDS = 1000
FAN_IN = 8  # terms that one task adds


@dataclass(frozen=True)
class Parts:
    """The training images on the workers: a `unseen.cluster.partitions.Partition` a future."""

    client: Any
    futures: list[Future]
    homes: list[str | None]  # the worker of each part
    sizes: list[int]  # images of each part
    n_features: int
    n_seen: int
    dtype: np.dtype[Any]
    n_annotated: int  # images of which anything is known
    least_scale: float

    @property
    def shape(self) -> tuple[int, int]:
        """Number of images and of features."""
        return sum(self.sizes), self.n_features


@dataclass(frozen=True)
class DistributedProblem(ProjectionProblem):
    """The images on the workers of a cluster."""

    parts: Parts

    def start_duals(self, rng: np.random.Generator) -> DistributedDual:
        """The duals at zero."""
        return DistributedDual(self.parts, self.beta, int(rng.integers(2**32)))


class _Pace:
    """The momentum of one round after another, from none; to begin anew, make another."""

    def __init__(self) -> None:
        self._weight = 1.0

    def momentum(self) -> float:
        """For the next round."""
        earlier, self._weight = self._weight, 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * self._weight**2))
        return float((earlier - 1.0) / self._weight)


class DistributedDual:
    """Psi, each part of it beside its part of the images."""

    def __init__(self, parts: Parts, beta: float, seed: int) -> None:
        self.least_scale = parts.least_scale
        self.n_rounds = 0
        self._parts, self._beta, self._seed = parts, beta, seed
        self.replace(sp.csr_array((parts.shape[0], parts.n_seen)))

    def solve(self, K: Matrix, tol: float) -> DualSolution:
        """Maximise the dual for the label kernel K from the present Psi, to a gap of ``tol``."""
        kernel = self._submit(LabelKernel, kernel_factor(K))
        primal, dual, common = self._primal_and_dual(kernel)
        trace = [(primal, dual)]
        pace = _Pace()
        row_tol, n_rounds, doubt = 1e-3, 0, 1.0
        while primal - dual > tol * max(primal, self.least_scale) and n_rounds < MAX_ROUNDS:
            common, report = self._round(kernel, common, pace.momentum(), row_tol)
            n_rounds += 1
            if report.step < 1.0:
                pace = _Pace()
            row_tol = min(row_tol, max(0.1 * report.estimate / self._parts.shape[0], 1e-12))
            if doubt * report.estimate <= tol * max(primal, self.least_scale) or n_rounds % CHECK_EVERY == 0:
                if self.n_rounds - self._kept_at >= KEEP_EVERY:
                    self._begin_at(self._copies())
                primal, dual, common = self._primal_and_dual(kernel)
                trace.append((primal, dual))
                doubt = max((primal - dual) / report.estimate, 1.0) if report.estimate > 0.0 else 1.0
        return DualSolution(primal, dual, n_rounds, tuple(trace))

    def moments(self) -> Moments:
        """Return the moments of the present Psi."""
        gains = self._each(partitions.total, self._rounds, common=(self._step,))
        shares = self._each(partitions.moments, self._parts.futures, self._rounds, common=(self._step,))
        sums = self._submit(partitions.add_all, self._narrowed(partitions.add_all, shares))
        gained, total = self._parts.client.gather((gains, sums))
        return Moments(float(sum(gained)), total)

    def tocsr(self) -> sp.csr_array:
        """Psi as a CSR matrix of shape (n_images, n_seen)."""
        return sp.csr_array(sp.vstack([psi for psi, _ in self._copies()], format="csr"))

    def replace(self, psi: sp.csr_array) -> None:
        """Begin at this Psi, or at what is feasible of it: it may be that of other targets."""
        edges = np.cumsum([0, *self._parts.sizes])
        rows = [psi[start:stop] for start, stop in pairwise(edges)]
        self._begin(self._each(partitions.started, self._parts.futures, rows))

    def _copies(self) -> list[tuple[sp.csr_array, sp.csr_array]]:
        copies = self._each(partitions.kept, self._rounds, common=(self._step,))
        return list(self._parts.client.gather(copies))

    def _begin_at(self, copies: list[tuple[sp.csr_array, sp.csr_array]]) -> None:
        """Go on from copies that the client has: the cluster may forget how they came about."""
        self._begin(self._each(partitions.restored, *zip(*copies, strict=True)))

    def _begin(self, rounds: list[Future]) -> None:
        self._rounds = rounds
        self._step = 1.0
        self._kept_at = self.n_rounds

    def _round(self, kernel: Future, common: Future, momentum: float, row_tol: float) -> tuple[Future, Report]:
        """Let every part ascend from the common V; return the next one, and what was reported of the round."""
        self.n_rounds += 1
        seeds = [[self._seed, self.n_rounds, k] for k in range(len(self._rounds))]
        sigma = float(len(self._rounds))
        shared = (self._step, common, kernel, self._beta, sigma, momentum, row_tol)
        self._rounds = self._each(partitions.ascend, self._parts.futures, self._rounds, seeds, common=shared)
        moves = self._narrowed(partitions.add_moves, self._each(partitions.move_of, self._rounds))
        advanced = self._submit(partitions.advance, common, moves, self._beta)
        report: Report = self._submit(partitions.report_of, advanced).result()
        self._step = report.step
        return advanced, report

    def _primal_and_dual(self, kernel: Future) -> tuple[float, float, Future]:
        """Both objectives at ``V(Psi)``, which is computed from the duals, and that V."""
        images = self._parts.futures
        shares = self._each(partitions.gathered, images, self._rounds, common=(self._step, kernel))
        shares = self._narrowed(partitions.add_all, shares)
        weights = self._submit(partitions.weights, shares, self._beta, self._parts.dtype)
        common = self._submit(itemgetter(0), weights)
        losses = self._each(partitions.loss, images, common=(common, kernel, self._beta))
        gains = self._each(partitions.total, self._rounds, common=(self._step,))
        energy = self._submit(itemgetter(1), weights)
        lost, gained, regulariser = self._parts.client.gather((losses, gains, energy))
        return float(sum(lost)) + regulariser, float(sum(gained)) - regulariser, common

    def _submit(self, function: Callable[..., Any], *arguments: Any, home: str | None = None) -> Future:
        """A task, for a certain worker unless that is lost."""
        where = {} if home is None else {"workers": home, "allow_other_workers": True}
        return self._parts.client.submit(function, *arguments, pure=False, **where)

    def _each(
        self, function: Callable[..., Any], *by_part: Sequence[Any], common: tuple[Any, ...] = ()
    ) -> list[Future]:
        """A task for each part, of what belongs to it and of what is common to all."""
        return [
            self._submit(function, *own, *common, home=home)
            for home, *own in zip(self._parts.homes, *by_part, strict=True)
        ]

    def _narrowed(self, add: Callable[[list[Any]], Any], terms: list[Future]) -> list[Future]:
        """Add in a tree until few terms are left; its shape, and so the bits, depend on their number only."""
        while len(terms) > FAN_IN:
            terms = [self._submit(add, terms[i : i + FAN_IN]) for i in range(0, len(terms), FAN_IN)]
        return terms
