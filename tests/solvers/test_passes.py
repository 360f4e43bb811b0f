"""Threads, files and blocks change the path to the optimum, never the optimum or its certificate."""

import numpy as np
import pytest

from unseen.solvers.dual import SparseDuals, primal_and_dual, row_problems, solve_dual
from unseen.solvers.images import MappedImages, as_images
from unseen.solvers.passes import Ascent
from unseen.solvers.team import Team


def solve(X, T, n_threads, *, tol=1e-6):
    duals = SparseDuals(*T.shape)
    with Team(n_threads) as team:
        images = as_images(X, normalize=True, team=team)
        assert images.threads_for(np.zeros((X.shape[1], 5))) == n_threads
        K, rng = 0.5 * np.eye(T.shape[1]) + 1.0, np.random.default_rng(0)
        solution = solve_dual(images, T, K, 5.0, duals, rng, tol=tol, max_epochs=5000)
    return solution, duals.tocsr().toarray()


def some_images(n=3000, d=30, n_labels=5):
    rng = np.random.default_rng(0)
    X = np.maximum(rng.standard_normal((n, d)), 0.0)
    scores = X @ rng.standard_normal((d, n_labels)) + rng.standard_normal((n, n_labels))
    return X, np.where(scores > 1.5, 1, -1).astype(np.int8)


@pytest.mark.parametrize("n_threads", [2, 3])
def test_threads_reach_the_certified_optimum_of_one(n_threads):
    X, T = some_images()
    (one, _), (several, _) = solve(X, T, 1), solve(X, T, n_threads)
    assert max(one.gap, several.gap) <= 1e-6 * one.primal
    assert several.primal == pytest.approx(one.primal, rel=2e-6)


def test_the_same_seed_and_threads_give_the_same_bits():
    X, T = some_images()
    (first, psi), (second, psi_again) = solve(X, T, 2), solve(X, T, 2)
    assert first == second
    assert np.array_equal(psi, psi_again)


def test_threads_that_spoil_each_others_steps_leave_the_next_passes_to_one(monkeypatch):
    # Equal images: what two threads add is the same direction, and both steps together overshoot.
    rng = np.random.default_rng(0)
    X = np.ones((3000, 5)) + 1e-3 * rng.standard_normal((3000, 5))
    T = np.where(rng.random((3000, 6)) < 0.3, 1, -1).astype(np.int8)
    with Team(2) as team:
        images = as_images(X, normalize=True, team=team)
        problems = row_problems(images, T, np.eye(6) + 1.0, 0.5)
        duals = SparseDuals(*T.shape)
        used = []
        sweep = images.sweep
        monkeypatch.setattr(images, "sweep", lambda *args: used.append(args[-1]) or sweep(*args))
        ascent = Ascent(images, problems, duals)
        _, _, V = primal_and_dual(images, problems, duals)
        for _ in range(20):
            ascent.visit_all(V, rng, 1e-9)
            primal, dual, true_V = primal_and_dual(images, problems, duals)
            np.testing.assert_allclose(V, true_V, atol=1e-9)
    assert set(used) == {1, 2}
    assert primal - dual < 0.05 * primal


def test_rows_that_need_more_room_get_it(monkeypatch):
    X, T = some_images(n_labels=12)
    (roomy, psi), _ = solve(X, T, 2), monkeypatch.setattr("unseen.solvers.duals.FIRST_SLOTS", 1)
    cramped, _ = solve(X, T, 2)
    assert np.count_nonzero(psi, axis=1).max() > 2
    assert cramped.primal == pytest.approx(roomy.primal, rel=2e-6)


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
