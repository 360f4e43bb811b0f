"""For a fixed projection: the optimum of an independent solver, and a gap that is a true bound of the error."""

import numpy as np
import pytest
import scipy.sparse as sp
from tests.solvers.problems import as_images, assert_feasible, optimum_at, random_problem, solve_at

from unseen.solvers import dual
from unseen.solvers.dual import LabelKernel, SparseDuals, kernel_factor, solve_dual

I4 = np.eye(4)


@pytest.mark.parametrize("is_mean", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_optimum_equals_an_independent_solver(seed, weighted, is_mean):
    rng = np.random.default_rng(1000 + seed)
    n_seen, n_dims = int(rng.integers(1, 9)), int(rng.integers(1, 6))
    n, d = int(rng.integers(5, 61)), int(rng.integers(1, 12))
    sizes = {"n": n, "d": d, "n_seen": n_seen, "n_dims": n_dims}
    problem, images = random_problem(seed, **sizes, weighted=weighted, is_mean=is_mean)
    solution, duals = solve_at(problem, images, np.eye(n_dims), tol=5e-7)
    optimum = optimum_at(problem, images, np.eye(n_dims))
    assert solution.primal == pytest.approx(optimum, rel=1e-6)
    assert solution.gap <= 5e-7 * solution.primal
    assert_feasible(duals.tocsr().toarray(), images)
    # The gap bounds the error wherever the solver stops (1e-7: the accuracy of the reference).
    for stop_at in (0, 1, 5):
        early, _ = solve_at(problem, images, np.eye(n_dims), tol=1e-12, max_epochs=stop_at)
        assert early.dual <= optimum * (1 + 1e-7) <= early.primal * (1 + 2e-7)


def test_a_weight_of_two_is_an_image_twice_and_a_weight_of_zero_none():
    problem, images = random_problem(8, n=60, d=8, n_seen=30, beta=2.0)  # enough labels for the Newton steps
    weights = np.random.default_rng(0).integers(0, 4, 60)
    weighted = as_images(images.rows.X, images.T, weights)
    repeated = as_images(np.repeat(images.rows.X, weights, axis=0), np.repeat(images.T, weights, axis=0))
    (one, _), (other, _) = (solve_at(problem, some, I4, tol=1e-7) for some in (weighted, repeated))
    assert one.primal == pytest.approx(other.primal, rel=2e-7)
    assert weighted.least_scale == pytest.approx(repeated.least_scale)
    assert weighted.annotated_weight == repeated.annotated_weight


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("storage", ["dense", "csr", "memmap"])
def test_storage_and_dtype_reach_the_same_optimum(dtype, storage, tmp_path):
    problem, images = random_problem(3, n=60, d=8, n_seen=7, beta=2.0, weighted=True)
    X = images.rows.X.astype(dtype)
    np.save(tmp_path / "X.npy", X)
    X = {"dense": X, "csr": sp.csr_array(X), "memmap": np.load(tmp_path / "X.npy", mmap_mode="r")}[storage]
    tol = 1e-4 if dtype == np.float32 else 1e-8
    reference, _ = solve_at(problem, images, I4, tol=1e-8)
    solution, _ = solve_at(problem, as_images(X, images.T, images.weights), I4, tol=tol)
    assert solution.gap <= tol * solution.primal
    assert solution.primal == pytest.approx(reference.primal, rel=tol)


def test_the_dual_never_falls_and_a_start_at_the_solution_costs_no_pass():
    problem, images = random_problem(11, n=60, d=10, n_seen=8, beta=5.0)
    duals = SparseDuals(*images.T.shape)
    values = [solve_at(problem, images, I4, tol=1e-12, duals=duals, max_epochs=1)[0].dual for _ in range(30)]
    assert np.all(np.diff(values) >= -1e-9 * np.abs(values[:-1]))
    assert solve_at(problem, images, I4, tol=1e-4, duals=duals)[0].n_epochs > 0
    assert solve_at(problem, images, I4, tol=1e-4, duals=duals)[0].n_epochs == 0


@pytest.mark.parametrize(("n_labels", "n_dims"), [(1, 1), (6, 3), (5, 9), (60, 4)])
def test_the_factor_of_a_label_kernel_is_as_wide_as_its_rank(n_labels, n_dims):
    C = np.random.default_rng(0).standard_normal((n_labels, n_dims))
    C[0] *= 1e7  # a long vector hides no other
    A = kernel_factor(C @ C.T + 1.0)
    assert A.shape == (n_labels, min(n_labels, n_dims + 1))
    np.testing.assert_allclose(A @ A.T, C @ C.T + 1.0, rtol=1e-6, atol=1e-8)


def solve_in_threads(n_threads, is_alike):
    """Certified solution and duals; of alike images two threads take the same step, and together overshoot."""
    rng = np.random.default_rng(0)
    X = np.maximum(rng.standard_normal((3000, 30)), 0.0)
    scores = X @ rng.standard_normal((30, 12)) + rng.standard_normal((3000, 12))
    X = 1.0 + 1e-3 * X if is_alike else X
    images = as_images(X, np.where(scores > 1.5, 1, -1).astype(np.int8), normalize=True, n_threads=n_threads)
    duals, kernel = SparseDuals(3000, 12), LabelKernel(kernel_factor(0.5 * np.eye(12) + 1.0))
    return solve_dual(images, kernel, 5.0, duals, rng, tol=1e-3, max_epochs=300), duals.tocsr().toarray()


@pytest.mark.parametrize("is_alike", [False, True])
def test_threads_and_few_slots_reach_the_certified_optimum_and_repeat_their_bits(monkeypatch, is_alike):
    one, psi = solve_in_threads(1, is_alike)
    assert np.count_nonzero(psi, axis=1).max() > 2
    monkeypatch.setattr(dual, "FIRST_SLOTS", 1)
    for n_threads in (1, 2, 3):
        (several, psi), (again, psi_again) = (solve_in_threads(n_threads, is_alike) for _ in range(2))
        assert several.gap <= 1e-3 * several.primal
        assert several.primal == pytest.approx(one.primal, rel=2e-3)
        assert several == again
        assert np.array_equal(psi, psi_again)
