"""Threads that meet see what the others wrote before."""

from concurrent.futures import ThreadPoolExecutor
from threading import Thread

import numpy as np
import pytest
from numba import njit

from unseen.solvers.barrier import give_up, make_barrier, meet
from unseen.solvers.team import Team


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


@njit(nogil=True)
def wait_compiled(barrier):
    return meet(barrier, 3)


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_every_thread_sees_what_the_others_wrote_before_they_met(n_threads):
    barrier, written = make_barrier(), np.zeros(n_threads, dtype=np.int64)
    with ThreadPoolExecutor(n_threads) as pool:
        runs = [pool.submit(_count_stale, barrier, n_threads, k, written, 500) for k in range(n_threads)]
        assert [run.result() for run in runs] == [0] * n_threads


def test_a_member_that_fails_does_not_leave_the_others_waiting():
    barrier = make_barrier()

    def member(k):
        if k == 1:
            raise MemoryError("no room")
        return wait_compiled(barrier)

    with Team(3) as team, pytest.raises(MemoryError, match="no room"):
        team.each(member, 3, lambda: give_up(barrier))


def test_a_thread_that_cannot_start_does_not_leave_the_others_waiting(monkeypatch):
    barrier, starts = make_barrier(), []

    def start(thread, start=Thread.start):
        starts.append(thread)
        if len(starts) == 2:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(Thread, "start", start)
    with Team(3) as team, pytest.raises(RuntimeError, match="new thread"):
        team.each(lambda k: wait_compiled(barrier), 3, lambda: give_up(barrier))
