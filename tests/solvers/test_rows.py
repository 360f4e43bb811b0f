"""Rows of X in memory, in a file, and sparse; threads that wait for each other."""

import subprocess
import sys
from contextlib import nullcontext

import numpy as np
import pytest
import scipy.sparse as sp
from numba import njit

from unseen.solvers.rows import Rows, is_mapped_matrix, row_scale, run_in_threads
from unseen.solvers.sweep_kernels import abort, meet


def test_scoring_needs_no_numba():
    code = "import unseen.solvers.rows, sys; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("store", [np.asarray, sp.csr_array])
def test_lengths_neither_overflow_nor_vanish(store):
    X = np.array([[3.0, -4.0], [3e200, -4e200], [0.0, 0.0], [3e-200, 4e-200]])
    np.testing.assert_allclose(row_scale(store(X), True) * np.array([5, 5e200, 1, 5e-200]), 1.0)
    assert np.all(row_scale(store(X), False) == 1.0)
    with pytest.raises(ValueError, match=r"^X: "):
        row_scale(store(np.array([[1.0, 0.0], [1e31, 0.0]], np.float32)), True)


def in_file(path, X):
    np.save(path, X)
    return np.load(path, mmap_mode="r")


@pytest.mark.parametrize("n_rows", [1, 4096, 9000])
def test_a_pass_over_a_file_visits_every_image_once_in_another_order_each_time(tmp_path, n_rows):
    rows, rng = Rows(in_file(tmp_path / "X.npy", np.ones((n_rows, 3))), np.ones(n_rows)), np.random.default_rng(0)
    passes = [np.concatenate(list(rows.visits(rng))) for _ in range(2)]
    assert np.array_equal(np.sort(passes, axis=1), [np.arange(n_rows)] * 2)
    assert n_rows == 1 or not np.array_equal(*passes)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_products_do_not_depend_on_the_storage(tmp_path, n_threads):
    rng = np.random.default_rng(1)
    X, weights, V = (rng.standard_normal(shape) for shape in ((5000, 7), (5000, 2), (7, 2)))
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    mapped = in_file(tmp_path / "X.npy", X)
    assert [is_mapped_matrix(x) for x in (mapped, mapped[0], X)] == [True, False, False]
    for rows in (Rows(x, row_scale(x, True), n_threads) for x in (X, mapped, sp.csr_array(X))):
        for given in (weights, sp.csr_array(weights)):
            np.testing.assert_allclose(rows.gather(given), unit.T @ weights, rtol=1e-9)
        np.testing.assert_allclose(np.vstack([Z for _, Z in rows.project(V)]), unit @ V)
        np.testing.assert_allclose(rows.take(np.array([4, 2])), unit[[4, 2]])
        assert rows.is_sparse or rows.squared_norms == pytest.approx(1.0)


@njit(nogil=True)
def _count_stale(barrier, n_threads, written, thread):
    stale = 0
    for i in range(500):
        written[thread] = i
        meet(barrier, n_threads)
        stale += np.sum(written != i)
        meet(barrier, n_threads)
    return stale


@pytest.mark.parametrize("n_threads", [1, 2, 5])
@pytest.mark.parametrize("failing", [None, 0, 1])
def test_threads_see_what_the_others_wrote_and_do_not_wait_for_one_that_failed(n_threads, failing):
    barrier, written = np.zeros(24, np.int64), np.zeros(n_threads, np.int64)

    def count_stale(k):
        return 1 // (k != failing) and _count_stale(barrier, n_threads, written, k)

    with nullcontext() if failing is None or failing >= n_threads else pytest.raises(ZeroDivisionError):
        assert not any(run_in_threads(count_stale, n_threads, lambda: abort(barrier)))
