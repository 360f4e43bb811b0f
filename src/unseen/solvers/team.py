"""Threads that share out the chunks of a loop; the results do not depend on which thread is faster."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import Thread
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

    def each(self, function: Callable[[int], Result], n_members: int, give_up: Callable[[], None]) -> list[Result]:
        """Run ``function(k)`` for so many members at the same time: they may wait for each other.

        ``give_up`` must end that waiting: it is called when one of them, or the start of a thread, has failed. The
        caller is the first member. Threads of their own, since a pool may have fewer than its size.
        """
        results: dict[int, Result] = {}
        failures: list[BaseException] = []

        def work(k: int) -> None:
            try:
                results[k] = function(k)
            except BaseException as failure:
                failures.append(failure)
                give_up()

        threads = [Thread(target=work, args=(k,)) for k in range(1, n_members)]
        started = []
        try:
            for thread in threads:
                thread.start()
                started.append(thread)
            work(0)
        except BaseException:
            give_up()
            raise
        finally:
            for thread in started:
                thread.join()
        if failures:
            raise failures[0]
        return [results[k] for k in range(n_members)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: Any) -> None:
        if self._pool is not None:
            self._pool.shutdown()


SOLO = Team()
