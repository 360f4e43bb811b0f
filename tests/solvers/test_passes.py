"""Threads, files and blocks change the path to the optimum, never the optimum or its certificate."""

import numpy as np
import pytest
from tests.solvers.problems import optimum_at_fixed_kernel, random_problem

from unseen.solvers.dual import SparseDuals, primal_and_dual, row_problems, solve_dual
from unseen.solvers.images import MappedImages, as_images
from unseen.solvers.passes import Ascent
from unseen.solvers.team import Team


def solve(problem, team, *, tol=1e-6, seed=0):
    duals = SparseDuals(*problem.T.shape)
    images = as_images(problem.images.X, normalize=False, team=team)
    K = problem.label_kernel(np.eye(4))
    solution = solve_dual(
        images, problem.T, K, problem.beta, duals, np.random.default_rng(seed), tol=tol, max_epochs=5000
    )
    return solution, duals.tocsr().toarray()


@pytest.mark.parametrize("n_threads", [2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_threads_reach_the_optimum_of_an_independent_solver(n_threads, seed):
    problem = random_problem(seed, n=200, d=12, n_seen=6)
    with Team(n_threads) as team:
        solution, _ = solve(problem, team)
    optimum = optimum_at_fixed_kernel(problem, np.eye(4))
    assert solution.gap <= 1e-6 * solution.primal
    assert solution.primal == pytest.approx(optimum, rel=2e-6)


def test_the_same_seed_and_threads_give_the_same_bits():
    problem = random_problem(9, n=400, d=20, n_seen=8, beta=1.0)
    with Team(2) as team:
        (first, psi), (second, psi_again) = solve(problem, team), solve(problem, team)
    assert first == second
    assert np.array_equal(psi, psi_again)


def test_rounds_of_threads_never_lower_the_dual_even_when_all_images_are_alike():
    # Equal images: what two threads add is the same direction, and both steps together overshoot.
    rng = np.random.default_rng(0)
    X = np.ones((300, 5)) + 1e-3 * rng.standard_normal((300, 5))
    T = np.where(rng.random((300, 6)) < 0.3, 1, -1).astype(np.int8)
    with Team(2) as team:
        images = as_images(X, normalize=True, team=team)
        problems = row_problems(images, T, np.eye(6) + 1.0, 0.5)
        duals = SparseDuals(*T.shape)
        ascent = Ascent(images, problems, duals)
        values = []
        for _ in range(10):
            _, dual, V = primal_and_dual(images, problems, duals)
            values.append(dual)
            ascent.visit_all(V, rng, 1e-9)
            np.testing.assert_allclose(V, primal_and_dual(images, problems, duals)[2], atol=1e-9)
    assert np.all(np.diff(values) >= -1e-9 * np.abs(values[:-1]))
    assert values[-1] > values[0]


@pytest.mark.parametrize("n_rows", [1, 4096, 9000])
def test_a_pass_over_a_file_visits_every_image_once_in_another_order_each_time(tmp_path, n_rows):
    np.save(tmp_path / "X.npy", np.random.default_rng(0).standard_normal((n_rows, 3)).astype(np.float32))
    images = as_images(np.load(tmp_path / "X.npy", mmap_mode="r"), normalize=True, in_memory=False)
    assert isinstance(images, MappedImages)
    rng = np.random.default_rng(0)
    first, second = (np.concatenate(list(images.visits(rng))) for _ in range(2))
    assert np.array_equal(np.sort(first), np.arange(n_rows))
    assert np.array_equal(np.sort(second), np.arange(n_rows))
    assert n_rows == 1 or not np.array_equal(first, second)


def test_a_file_gives_the_products_of_the_array(tmp_path):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((5000, 7)).astype(np.float32)
    np.save(tmp_path / "X.npy", X)
    mapped = as_images(np.load(tmp_path / "X.npy", mmap_mode="r"), normalize=True, in_memory=False)
    array = as_images(X, normalize=True)
    weights = rng.standard_normal((5000, 2))
    assert np.array_equal(mapped.gather(weights), array.gather(weights))
    assert np.array_equal(mapped.squared_norms, array.squared_norms)
