"""One pass of block-coordinate ascent over the images, by one thread or by several.

Several threads ascend at once, each over rows and on a copy of V of its own, for a short round; then their changes
of V are added. What two threads gain together is what each gains alone less ``beta <change of V, change of V>``.
Where that takes more than half away, the round is kept for the first thread only and its other rows are visited
again: the dual never falls, and the rounds become shorter. So the outcome depends on the seed and the number of
threads, not on their speed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unseen.solvers.duals import SparseDuals
from unseen.solvers.images import Images, Rows
from unseen.solvers.sweep import RowProblems

MAX_PAIR_STEPS = 50  # a row is left after so many steps and finished at its next visit
SHORTEST_ROUND, LONGEST_ROUND = 32, 1024  # rows a thread
ROUNDS = 50  # at least so many in a pass: threads that do not hear of each other for long ascend the same slope


class Ascent:
    """Block-coordinate ascent on the duals, and on ``V = X' Psi A / beta`` that belongs to them."""

    def __init__(self, images: Images, problems: RowProblems, duals: SparseDuals) -> None:
        self.images, self.problems, self.duals = images, problems, duals
        self._round = SHORTEST_ROUND
        self._longest = min(max(images.n_rows // (ROUNDS * images.team.size), SHORTEST_ROUND), LONGEST_ROUND)
        self._copies: list[NDArray[Any]] = []

    def visit_all(self, V: NDArray[Any], rng: np.random.Generator, tol: float) -> float:
        """Visit every row once; return the sum of the gaps that the rows had when they were visited."""
        estimate = 0.0
        for order in self.images.visits(rng):
            if self.images.team.size == 1:
                estimate += self._visit(V, order, tol)
                continue
            start = 0
            while start < len(order):
                stop = start + self._round * self.images.team.size
                estimate += self._visit_together(V, order[start:stop], tol)
                start = stop
        return estimate

    def _visit(self, V: NDArray[Any], order: Rows, tol: float, start: int = 0) -> float:
        """Visit rows one after another."""
        estimate = 0.0
        while start < len(order):
            start, gap, _ = self._sweep(V, order, start, tol)
            estimate += gap
            if start < len(order):
                self.duals.make_room()
        return estimate

    def _sweep(self, V: NDArray[Any], order: Rows, start: int, tol: float) -> tuple[int, float, float]:
        return self.images.sweep(V, self.problems, self.duals.arrays, order, start, tol, MAX_PAIR_STEPS)

    def _visit_together(self, V: NDArray[Any], rows: Rows, tol: float) -> float:
        """One round: every thread visits its share of the rows, then the changes are added, if they agree."""
        shares = np.array_split(rows, self.images.team.size)
        if not self._copies or self._copies[0].shape != V.shape:
            self._copies = [np.empty_like(V) for _ in shares]
        before = self.duals.copy_rows(rows)

        def ascend(k: int) -> tuple[int, float, float, float]:
            change = self._copies[k]
            np.copyto(change, V)
            visited, gap, gain = self._sweep(change, shares[k], 0, tol)
            change -= V
            return visited, gap, gain, float(np.vdot(change, change))

        visited, gaps, gains, energies = zip(*self.images.team.map(ascend, range(len(shares))), strict=True)
        total = self._copies[0]
        first_change = total.copy()
        for change in self._copies[1:]:
            total += change
        overlap = 0.5 * self.problems.beta * (float(np.vdot(total, total)) - sum(energies))
        if overlap > 0.5 * sum(gains):
            self._round = max(self._round // 2, SHORTEST_ROUND)
            V += first_change
            self.duals.restore_rows(rows, before, keep=len(shares[0]))
            again = [(shares[0], visited[0]), *((share, 0) for share in shares[1:])]
            return float(gaps[0] + sum(self._visit(V, share, tol, start) for share, start in again))
        if overlap < 0.1 * sum(gains):
            self._round = min(2 * self._round, self._longest)
        V += total
        unfinished = [(share, done) for share, done in zip(shares, visited, strict=True) if done < len(share)]
        if unfinished:
            self.duals.make_room()
        return float(sum(gaps) + sum(self._visit(V, share, tol, done) for share, done in unfinished))
