"""Threads that share out the chunks of a loop; the results do not depend on which thread is faster."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self, TypeVar

Part = TypeVar("Part")
Result = TypeVar("Result")


class Team:
    """``size`` threads (none for a size of one); a context manager that ends them.

    They gain time in work that releases the interpreter's lock: matrix products and the kernels of
    `unseen.solvers.sweep`.
    """

    def __init__(self, size: int = 1) -> None:
        self.size = size
        self._pool = ThreadPoolExecutor(size) if size > 1 else None

    def map(self, function: Callable[[Part], Result], parts: Iterable[Part]) -> list[Result]:
        """Return the results in the order of the parts."""
        return list(map(function, parts) if self._pool is None else self._pool.map(function, parts))

    def each(self, function: Callable[[int], Result], n_members: int) -> list[Result]:
        """Run ``function(k)`` for the first members at the same time: they may wait for each other."""
        if self._pool is None or n_members == 1:
            return [function(0)]
        others = [self._pool.submit(function, k) for k in range(1, n_members)]
        return [function(0), *(other.result() for other in others)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: Any) -> None:
        if self._pool is not None:
            self._pool.shutdown()


SOLO = Team()
