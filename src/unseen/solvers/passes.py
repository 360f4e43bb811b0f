"""One pass of block-coordinate ascent over the images, by one thread or by several.

Each of several threads ascends over a block of rows of its own, then all changes of V are added. What the threads
gain together is what each gains alone less ``beta <change of V, change of V>``: little while the blocks are a
small part of the images. Where more than half is lost, the next passes are left to one thread. So the outcome
depends on the seed and the number of threads, not on their speed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unseen.solvers.duals import SparseDuals
from unseen.solvers.images import Images, Rows
from unseen.solvers.sweep import RowProblems

MAX_PAIR_STEPS = 50  # a row is left after so many steps and finished at its next visit


class Ascent:
    """Block-coordinate ascent on the duals, and on ``V = X' Psi A / beta`` that belongs to them."""

    def __init__(self, images: Images, problems: RowProblems, duals: SparseDuals) -> None:
        self.images, self.problems, self.duals = images, problems, duals
        self._alone = 0  # passes that are left to one thread
        self._next_alone = 1

    def visit_all(self, V: NDArray[Any], rng: np.random.Generator, tol: float) -> float:
        """Visit every row once; return the sum of the gaps that the rows had when they were visited."""
        n_threads = 1 if self._alone else self.images.threads_for(V)
        self._alone = max(self._alone - 1, 0)
        before = self._dual(V) if n_threads > 1 else 0.0
        estimate = gained = 0.0
        for order in self.images.visits(rng):
            gap, gain = self._visit(V, order, tol, n_threads)
            estimate, gained = estimate + gap, gained + gain
        if n_threads > 1 and self._dual(V) - before < 0.5 * gained:
            self._alone, self._next_alone = self._next_alone, 2 * self._next_alone
        return estimate

    def _dual(self, V: NDArray[Any]) -> float:
        return self.duals.total() - 0.5 * self.problems.beta * float(np.vdot(V, V))

    def _visit(self, V: NDArray[Any], order: Rows, tol: float, n_threads: int) -> tuple[float, float]:
        start, estimate, gained = 0, 0.0, 0.0
        while start < len(order):
            start, is_crowded, gap, gain = self.images.sweep(
                V, self.problems, self.duals.arrays, order, start, tol, MAX_PAIR_STEPS, n_threads
            )
            estimate, gained = estimate + gap, gained + gain
            if is_crowded:
                self.duals.make_room()
        return estimate, gained
