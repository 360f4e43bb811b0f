"""For a fixed projection: the optimum of an independent solver, and a gap that is a true bound of the error."""

import numpy as np
import pytest
import scipy.sparse as sp
from tests.solvers.problems import as_images, assert_feasible, optimum_at_fixed_kernel, random_problem, solve_at

from unseen.solvers import dual as dual_module
from unseen.solvers.dual import Ascent, SparseDuals, kernel_factor, primal_and_dual, solve_dual

I4 = np.eye(4)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_optimum_equals_an_independent_solver(seed, weighted):
    rng = np.random.default_rng(1000 + seed)
    n_seen, n_dims = int(rng.integers(1, 9)), int(rng.integers(1, 6))
    n, d = int(rng.integers(5, 61)), int(rng.integers(1, 12))
    problem, images = random_problem(seed, n=n, d=d, n_seen=n_seen, n_dims=n_dims, weighted=weighted)
    solution, duals = solve_at(problem, images, np.eye(n_dims), tol=5e-7)
    optimum = optimum_at_fixed_kernel(problem, images, np.eye(n_dims))
    assert solution.primal == pytest.approx(optimum, rel=1e-6)
    # The gap bounds the true error on both sides (1e-7: the accuracy of the reference).
    assert solution.dual <= optimum * (1 + 1e-7)
    assert solution.primal - optimum <= solution.gap + 1e-7 * optimum
    assert solution.gap <= 5e-7 * solution.primal
    assert_feasible(duals.tocsr().toarray(), images)


def test_a_weight_of_two_is_an_image_twice_and_a_weight_of_zero_none():
    problem, images = random_problem(8, n=60, d=8, n_seen=30, beta=2.0)  # enough labels for the Newton steps
    weights = np.random.default_rng(0).integers(0, 4, 60)
    weighted, _ = solve_at(problem, as_images(images.rows.X, images.T, weights), I4, tol=1e-7)
    repeated = as_images(np.repeat(images.rows.X, weights, axis=0), np.repeat(images.T, weights, axis=0))
    expected, _ = solve_at(problem, repeated, I4, tol=1e-7)
    assert weighted.primal == pytest.approx(expected.primal, rel=2e-7)
    assert as_images(images.rows.X, images.T, weights).least_scale == pytest.approx(repeated.least_scale)


@pytest.mark.parametrize("stop_at", [0, 1, 2, 5])
def test_the_gap_is_a_bound_wherever_the_solver_stops(stop_at):
    problem, images = random_problem(7, n=50, n_seen=6, learnable=True)
    solution, _ = solve_at(problem, images, I4, tol=1e-12, max_epochs=stop_at)
    optimum = optimum_at_fixed_kernel(problem, images, I4)
    assert solution.dual <= optimum * (1 + 1e-7) <= solution.primal * (1 + 2e-7)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("storage", ["dense", "csr", "memmap"])
def test_storage_and_dtype_reach_the_same_optimum(dtype, storage, tmp_path):
    problem, images = random_problem(3, n=60, d=8, n_seen=7, beta=2.0, weighted=True)
    X = images.rows.X.astype(dtype)
    if storage == "csr":
        X = sp.csr_array(X)
    elif storage == "memmap":
        np.save(tmp_path / "X.npy", X)
        X = np.load(tmp_path / "X.npy", mmap_mode="r")
    tol = 1e-4 if dtype == np.float32 else 1e-8
    reference, _ = solve_at(problem, images, I4, tol=1e-8)
    solution, _ = solve_at(problem, as_images(X, images.T, images.weights), I4, tol=tol)
    assert solution.gap <= tol * solution.primal
    assert solution.primal == pytest.approx(reference.primal, rel=tol)


def test_the_dual_never_falls_from_pass_to_pass():
    problem, images = random_problem(11, n=60, d=10, n_seen=8, beta=0.2)
    duals = SparseDuals(*images.T.shape)
    values = [solve_at(problem, images, I4, tol=1e-12, duals=duals, max_epochs=1)[0].dual for _ in range(30)]
    assert np.all(np.diff(values) >= -1e-9 * np.abs(values[:-1]))


def test_a_start_at_the_solution_costs_no_epoch():
    problem, images = random_problem(5, n=40)
    solution, duals = solve_at(problem, images, I4, tol=1e-6)
    assert solution.n_epochs > 0
    assert solve_at(problem, images, I4, tol=1e-6, duals=duals)[0].n_epochs == 0


def test_primal_and_dual_match_their_definitions():
    problem, images = random_problem(2, n=30, weighted=True)
    _, duals = solve_at(problem, images, I4, tol=1e-2)
    K, X, T, psi = problem.label_kernel(I4), images.rows.X, images.T, duals.tocsr().toarray()
    problems = images.row_problems(kernel_factor(K), K, problem.beta)
    primal, dual, V = primal_and_dual(images.rows, problems, duals)
    scores = X @ X.T @ psi @ K / problem.beta
    np.testing.assert_allclose(X @ V @ problems.A.T, scores, atol=1e-9)
    energy = np.trace(psi.T @ X @ X.T @ psi @ K) / (2 * problem.beta)
    positive = np.where(T > 0, 1 - scores, 0).max(axis=1).clip(0)
    negative = np.where(T < 0, 1 + scores, 0).max(axis=1).clip(0)
    assert primal == pytest.approx(images.weights @ (positive + negative) + energy)
    assert dual == pytest.approx((psi * T).sum() - energy)


@pytest.mark.parametrize(("n_labels", "n_dims"), [(1, 1), (6, 3), (5, 9), (60, 4)])
def test_the_factor_of_a_label_kernel_is_as_wide_as_its_rank(n_labels, n_dims):
    C = np.random.default_rng(0).standard_normal((n_labels, n_dims))
    C[0] *= 1e7  # a long vector hides no other
    A = kernel_factor(C @ C.T + 1.0)
    assert A.shape == (n_labels, min(n_labels, n_dims + 1))
    np.testing.assert_allclose(A @ A.T, C @ C.T + 1.0, rtol=1e-6, atol=1e-8)


def solve_in_threads(n_threads, n_labels=5):
    rng = np.random.default_rng(0)
    X = np.maximum(rng.standard_normal((3000, 30)), 0.0)
    scores = X @ rng.standard_normal((30, n_labels)) + rng.standard_normal((3000, n_labels))
    images = as_images(X, np.where(scores > 1.5, 1, -1).astype(np.int8), normalize=True, n_threads=n_threads)
    duals, K = SparseDuals(*images.T.shape), 0.5 * np.eye(n_labels) + 1.0
    return solve_dual(images, K, 5.0, duals, np.random.default_rng(0), tol=1e-5), duals.tocsr().toarray()


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_threads_reach_the_certified_optimum_of_one_and_repeat_their_bits(n_threads):
    (one, _), (several, psi), (again, psi_again) = map(solve_in_threads, (1, n_threads, n_threads))
    assert several.gap <= 1e-5 * several.primal
    assert several.primal == pytest.approx(one.primal, rel=2e-5)
    assert several == again
    assert np.array_equal(psi, psi_again)


def test_threads_that_spoil_each_others_steps_leave_the_next_passes_to_one(monkeypatch):
    # Equal images: what two threads add is the same direction, and both steps together overshoot.
    rng = np.random.default_rng(0)
    X = np.ones((3000, 5)) + 1e-3 * rng.standard_normal((3000, 5))
    T = np.where(rng.random((3000, 6)) < 0.3, 1, -1).astype(np.int8)
    images, K, duals = as_images(X, T, normalize=True, n_threads=2), np.eye(6) + 1.0, SparseDuals(*T.shape)
    problems = images.row_problems(kernel_factor(K), K, 0.5)
    used, run = [], dual_module.run_in_threads
    monkeypatch.setattr(dual_module, "run_in_threads", lambda f, n, abort: used.append(n) or run(f, n, abort))
    ascent = Ascent(images.rows, problems, duals)
    _, _, V = primal_and_dual(images.rows, problems, duals)
    for _ in range(20):
        ascent.visit_all(V, rng, 1e-9)
        primal, dual, true_V = primal_and_dual(images.rows, problems, duals)
        np.testing.assert_allclose(V, true_V, atol=1e-9)
    assert set(used) == {1, 2}
    assert primal - dual < 0.05 * primal


def test_rows_that_need_more_slots_get_them(monkeypatch):
    (roomy, psi), _ = solve_in_threads(2, 12), monkeypatch.setattr(dual_module, "FIRST_SLOTS", 1)
    cramped, _ = solve_in_threads(2, 12)
    assert np.count_nonzero(psi, axis=1).max() > 2
    assert cramped.primal == pytest.approx(roomy.primal, rel=2e-5)
