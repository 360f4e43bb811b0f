"""Threads that meet see what the others wrote before."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numba import njit

from unseen.solvers.barrier import make_barrier, meet


@njit(nogil=True)
def _count_stale(barrier, n_threads, thread, written, rounds):
    stale = 0
    for i in range(rounds):
        written[thread] = i
        meet(barrier, n_threads)
        for k in range(n_threads):
            stale += written[k] != i
        meet(barrier, n_threads)
    return stale


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_every_thread_sees_what_the_others_wrote_before_they_met(n_threads):
    barrier, written = make_barrier(), np.zeros(n_threads, dtype=np.int64)
    with ThreadPoolExecutor(n_threads) as pool:
        runs = [pool.submit(_count_stale, barrier, n_threads, k, written, 500) for k in range(n_threads)]
        assert [run.result() for run in runs] == [0] * n_threads
