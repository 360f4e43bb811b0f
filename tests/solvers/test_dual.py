"""For a fixed projection: the optimum of an independent solver, and a gap that is a true bound of the error."""

import numpy as np
import pytest
import scipy.sparse as sp
from tests.solvers.problems import optimum_at_fixed_kernel, random_problem

from unseen.solvers.dual import SparseDuals, kernel_factor, primal_and_dual, row_problems, solve_dual
from unseen.solvers.images import as_images


def solve(problem, P, *, tol, images=None, seed=0, max_epochs=20_000):
    images = images or problem.images
    duals = SparseDuals(*problem.T.shape)
    rng = np.random.default_rng(seed)
    K = problem.label_kernel(P)
    return solve_dual(images, problem.T, K, problem.beta, duals, rng, tol=tol, max_epochs=max_epochs), duals


@pytest.mark.parametrize("seed", range(50))
def test_optimum_equals_an_independent_solver(seed):
    rng = np.random.default_rng(1000 + seed)
    n_seen, n_dims = int(rng.integers(1, 9)), int(rng.integers(1, 6))
    n, d = int(rng.integers(5, 61)), int(rng.integers(1, 12))
    problem = random_problem(seed, n=n, d=d, n_seen=n_seen, n_dims=n_dims)
    P = np.eye(n_dims)
    solution, _ = solve(problem, P, tol=5e-7)
    optimum = optimum_at_fixed_kernel(problem, P)
    assert solution.primal == pytest.approx(optimum, rel=1e-6)
    # The gap bounds the true error on both sides (1e-7: the accuracy of the reference).
    assert solution.dual <= optimum * (1 + 1e-7)
    assert solution.primal - optimum <= solution.gap + 1e-7 * optimum
    assert solution.gap <= 5e-7 * solution.primal


@pytest.mark.parametrize("stop_at", [0, 1, 2, 5])
def test_the_gap_is_a_bound_wherever_the_solver_stops(stop_at):
    problem = random_problem(7, n=50, n_seen=6, learnable=True)
    P = np.eye(4)
    solution, _ = solve(problem, P, tol=1e-12, max_epochs=stop_at)
    optimum = optimum_at_fixed_kernel(problem, P)
    assert solution.dual <= optimum * (1 + 1e-7) <= solution.primal * (1 + 2e-7)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("storage", ["dense", "csr", "memmap"])
def test_storage_and_dtype_reach_the_same_optimum(dtype, storage, tmp_path):
    problem = random_problem(3, n=60, d=8, n_seen=7, beta=2.0)
    X = problem.images.X.astype(dtype)
    if storage == "csr":
        X = sp.csr_array(X)
    elif storage == "memmap":
        path = tmp_path / "X.npy"
        np.save(path, X)
        X = np.load(path, mmap_mode="r")
    tol = 1e-4 if dtype == np.float32 else 1e-8
    reference, _ = solve(problem, np.eye(4), tol=1e-8)
    solution, _ = solve(problem, np.eye(4), tol=tol, images=as_images(X, normalize=False))
    assert solution.gap <= tol * solution.primal
    assert solution.primal == pytest.approx(reference.primal, rel=tol)


def test_the_dual_never_falls_from_check_to_check():
    problem = random_problem(11, n=60, d=10, n_seen=8, beta=0.2)
    duals, rng = SparseDuals(*problem.T.shape), np.random.default_rng(0)
    K = problem.label_kernel(np.eye(4))
    values = [
        solve_dual(problem.images, problem.T, K, problem.beta, duals, rng, tol=1e-12, max_epochs=1).dual
        for _ in range(30)
    ]
    assert np.all(np.diff(values) >= -1e-9 * np.abs(values[:-1]))


def test_duals_stay_feasible_and_grow_their_slots_when_needed():
    # One pixel-like feature and a heavy regulariser free of caps: many labels of a row become active.
    rng = np.random.default_rng(0)
    n, n_labels = 12, 30
    X = np.abs(rng.standard_normal((n, 3)))
    T = np.where(np.arange(n_labels) < 15, 1, -1).astype(np.int8)[None].repeat(n, axis=0)
    K = np.eye(n_labels)
    duals = SparseDuals(n, n_labels)
    first_slots = duals.index.shape[1]
    solution = solve_dual(as_images(X, normalize=False), T, K, 0.05, duals, rng, tol=1e-6, max_epochs=5000)
    assert solution.gap <= 1e-6 * solution.primal
    assert duals.index.shape[1] > first_slots
    psi = duals.tocsr().toarray()
    assert np.all(psi * T >= 0)
    assert np.abs(psi[:, :15]).sum(axis=1).max() <= 1 + 1e-12
    assert np.abs(psi[:, 15:]).sum(axis=1).max() <= 1 + 1e-12


def test_warm_start_from_the_solution_costs_no_epoch():
    problem = random_problem(5, n=40)
    solution, duals = solve(problem, np.eye(4), tol=1e-6)
    again = solve_dual(
        problem.images, problem.T, problem.label_kernel(np.eye(4)), problem.beta, duals, np.random.default_rng(1),
        tol=1e-6,
    )  # fmt: skip
    assert solution.n_epochs > 0
    assert again.n_epochs == 0


def test_same_seed_same_bits():
    problem = random_problem(9, n=60, d=20, n_seen=8)
    first, duals_a = solve(problem, np.eye(4), tol=1e-5, seed=4)
    second, duals_b = solve(problem, np.eye(4), tol=1e-5, seed=4)
    assert first == second
    assert np.array_equal(duals_a.tocsr().toarray(), duals_b.tocsr().toarray())


def test_primal_and_dual_match_their_definitions():
    problem = random_problem(2, n=30)
    _, duals = solve(problem, np.eye(4), tol=1e-2)
    K = problem.label_kernel(np.eye(4))
    problems = row_problems(problem.images, problem.T, K, problem.beta)
    A, X, psi = problems.A, problem.images.X, duals.tocsr().toarray()
    primal, dual, V = primal_and_dual(problem.images, problems, duals)
    scores = X @ X.T @ psi @ K / problem.beta
    np.testing.assert_allclose(X @ V @ A.T, scores, atol=1e-9)
    energy = np.trace(psi.T @ X @ X.T @ psi @ K) / (2 * problem.beta)
    positive = np.where(problem.T > 0, 1 - scores, 0).max(axis=1).clip(0)
    negative = np.where(problem.T < 0, 1 + scores, 0).max(axis=1).clip(0)
    assert primal == pytest.approx(positive.sum() + negative.sum() + energy)
    assert dual == pytest.approx((psi * problem.T).sum() - energy)


@pytest.mark.parametrize(("n_labels", "n_dims"), [(1, 1), (6, 3), (5, 9), (60, 4)])
def test_the_factor_of_a_label_kernel_is_as_wide_as_its_rank(n_labels, n_dims):
    C = np.random.default_rng(0).standard_normal((n_labels, n_dims))
    C[0] *= 1e7  # a long vector hides no other
    A = kernel_factor(C @ C.T + 1.0)
    assert A.shape == (n_labels, min(n_labels, n_dims + 1))
    np.testing.assert_allclose(A @ A.T, C @ C.T + 1.0, rtol=1e-6, atol=1e-8)
