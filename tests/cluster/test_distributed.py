"""Parts of the images on other machines change the path to the optimum, never the optimum or its certificate."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from tests.cluster.clusters import dying_once, parts_at_once, processes
from tests.solvers.problems import optimum_at_fixed_kernel, random_problem

from unseen.cluster import distributed, partitions
from unseen.cluster.distributed import DistributedDual, Parts
from unseen.cluster.fit import make_part
from unseen.solvers.dual import least_scale, solve_dual
from unseen.solvers.duals import SparseDuals


@pytest.fixture(scope="module")
def client():
    with processes() as client:
        yield client


def on_cluster(client, problem, n_parts=2):
    X, T = problem.images.X, problem.T
    edges = np.linspace(0, len(X), n_parts + 1).astype(int)
    homes = list(client.nthreads())
    futures = [
        client.submit(make_part, [X[a:b]], [T[a:b]], False, int(a), False, X.dtype, pure=False, workers=home,
                      allow_other_workers=True)
        for (a, b), home in zip(pairwise(edges), homes, strict=True)
    ]  # fmt: skip
    return Parts(
        client, futures, homes, np.diff(edges).tolist(), X.shape[1], T.shape[1], X.dtype, len(X), least_scale(T)
    )


@pytest.mark.parametrize("n_parts", [1, 2, 5])
@pytest.mark.parametrize("seed", range(3))
def test_parts_reach_the_optimum_of_an_independent_solver(n_parts, seed):
    problem = random_problem(seed, n=120, d=8, n_seen=6, beta=10.0)
    dual = DistributedDual(parts_at_once(problem.images.X, problem.T, n_parts), problem.beta, seed)
    solution = dual.solve(problem.label_kernel(np.eye(4)), tol=1e-5)
    assert solution.gap <= 1e-5 * solution.primal
    assert solution.primal == pytest.approx(optimum_at_fixed_kernel(problem, np.eye(4)), rel=2e-5)


@pytest.mark.parametrize("alike", [False, True])
def test_the_dual_never_falls_and_psi_stays_feasible(alike, monkeypatch):
    # Equal images: what the parts add is the same direction.
    rng = np.random.default_rng(0)
    X = np.ones((90, 5)) + 1e-3 * rng.standard_normal((90, 5)) if alike else rng.standard_normal((90, 5))
    T = rng.choice(np.array([-1, 0, 1], dtype=np.int8), size=(90, 6), p=[0.6, 0.1, 0.3])
    monkeypatch.setattr(distributed, "CHECK_EVERY", 1)
    dual = DistributedDual(parts_at_once(X, T, 3, normalize=True), 0.5, 0)
    solution = dual.solve(np.eye(6) + 1.0, tol=1e-4)
    values = np.array([value for _, value in solution.trace])
    assert len(values) > 5
    assert np.all(np.diff(values) >= -1e-9 * values[-1])
    psi = dual.tocsr().toarray()
    assert np.all(psi * T >= 0)
    assert not psi[T == 0].any()
    assert np.where(T > 0, psi, 0).sum(axis=1).max() <= 1 + 1e-9
    assert np.where(T < 0, -psi, 0).sum(axis=1).max() <= 1 + 1e-9


def test_a_model_of_one_part_is_the_common_dual_and_bounds_it_for_several():
    """CoCoA+: what all parts gain together is at least what their models promise."""
    problem = random_problem(4, n=90, d=6, n_seen=5, beta=2.0)
    kernel = partitions.LabelKernel(np.linalg.cholesky(problem.label_kernel(np.eye(4)) + 1e-12 * np.eye(5)))
    V = np.zeros((6, 5))
    for n_parts in (1, 3):
        parts = parts_at_once(problem.images.X, problem.T, n_parts)
        promised = gained = 0.0
        total = np.zeros_like(V)
        for k, future in enumerate(parts.futures):
            zero = partitions.restored(*[SparseDuals(parts.sizes[k], 5).tocsr()] * 2)
            begun = partitions.Advanced(V, partitions.Report(1.0, np.inf))
            outcome = partitions.ascend(
                future.value, zero, [0, k], 1.0, begun, kernel, 2.0, float(n_parts), 0.0, 1e-9
            )
            move = outcome.move
            np.testing.assert_allclose(
                move.change, future.value.images.gather(outcome.after.tocsr() @ kernel.A) / 2.0, atol=1e-10
            )
            promised += move.linear - n_parts * np.vdot(move.change, move.change)  # beta / 2 = 1
            gained += move.linear
            total += move.change
        gained -= np.vdot(total, total)
        assert promised > 0
        assert gained >= promised - 1e-9 * abs(promised)
        assert n_parts > 1 or gained == pytest.approx(promised)


def test_copies_of_the_duals_do_not_change_the_answer(monkeypatch):
    problem = random_problem(9, n=100, d=20, n_seen=8, beta=1.0)
    K = problem.label_kernel(np.eye(4))
    parts = parts_at_once(problem.images.X, problem.T, 3)
    answers = []
    for every in (5, 1000):
        monkeypatch.setattr(distributed, "KEEP_EVERY", every)
        dual = DistributedDual(parts, problem.beta, 0)
        answers.append((dual.solve(K, 1e-4), dual.tocsr().toarray()))
    assert answers[0][0] == answers[1][0]
    assert np.array_equal(answers[0][1], answers[1][1])


def test_a_start_is_taken_over_and_moments_are_those_of_psi():
    problem = random_problem(3, n=100, d=7, n_seen=6, beta=1.0)
    duals = SparseDuals(*problem.T.shape)
    K, rng = problem.label_kernel(np.eye(4)), np.random.default_rng(0)
    solve_dual(problem.images, problem.T, K, problem.beta, duals, rng, tol=1e-6)
    dual = DistributedDual(parts_at_once(problem.images.X, problem.T, 3), problem.beta, 0)
    dual.replace(duals.tocsr())
    psi = dual.tocsr()
    np.testing.assert_allclose(psi.toarray(), duals.tocsr().toarray(), rtol=1e-12)  # sums of one are rounded
    assert dual.solve(K, 1e-5).n_epochs == 0
    moments = dual.moments()
    np.testing.assert_allclose(moments.sums, psi.T @ problem.images.X, atol=1e-10)
    assert moments.gain == pytest.approx((psi.toarray() * problem.T).sum())


def test_a_start_of_other_targets_is_made_feasible():
    problem = random_problem(3, n=100, d=7, n_seen=6, beta=1.0)
    rng = np.random.default_rng(0)
    T = np.where(rng.random(problem.T.shape) < 0.1, 0, problem.T).astype(np.int8)
    dual = DistributedDual(parts_at_once(problem.images.X, T, 3), problem.beta, 0)
    dual.replace(sp.csr_array(2.0 * rng.standard_normal(T.shape)))
    psi = dual.tocsr().toarray()
    assert psi.any()
    assert np.all(psi * T >= 0)
    assert not psi[T == 0].any()
    for side in (1, -1):
        assert np.abs(np.where(side == T, psi, 0)).sum(axis=1).max() == pytest.approx(1.0)


def test_a_round_moves_one_v_a_worker_and_neither_images_nor_duals(client):
    problem = random_problem(1, n=4000, d=50, n_seen=6, beta=300.0)
    parts = on_cluster(client, problem)
    dual = DistributedDual(parts, problem.beta, 0)
    client.gather([client.submit(len, part) for part in parts.futures])
    client.run(_forget_transfers)
    dual.solve(problem.label_kernel(np.eye(4)), 1e-4)
    logs = list(client.run(_transfers).values())
    assert dual.n_rounds > 3
    assert any(logs)
    one_v = 50 * 5 * 8  # d x (r + 1) numbers
    for log in logs:
        for key, size in log:
            assert key.startswith(
                ("move_of", "advance", "gathered", "weights", "operator.itemgetter", "LabelKernel")
            )
            assert size <= one_v + 1000
        n_moves = sum(key.startswith(("move_of", "advance")) for key, _ in log)
        assert n_moves <= dual.n_rounds + 1


def _forget_transfers(dask_worker):
    dask_worker.transfer_incoming_log.clear()


def _transfers(dask_worker):
    return [(key, size) for entry in dask_worker.transfer_incoming_log for key, size in entry["keys"].items()]


def test_a_worker_killed_within_a_round_is_made_up_for(client, tmp_path, monkeypatch):
    problem = random_problem(2, n=300, d=20, n_seen=6, beta=60.0)
    K = problem.label_kernel(np.eye(4))
    undisturbed = DistributedDual(on_cluster(client, problem), problem.beta, 7)
    expected = undisturbed.solve(K, 1e-4)
    monkeypatch.setattr(partitions, "ascend", dying_once(tmp_path / "killed", in_round=4))
    before = set(client.nthreads())
    dual = DistributedDual(on_cluster(client, problem), problem.beta, 7)
    solution = dual.solve(K, 1e-4)
    assert (tmp_path / "killed").exists()
    client.wait_for_workers(2)
    assert set(client.nthreads()) != before
    assert solution.gap <= 1e-4 * solution.primal
    assert solution.primal >= expected.dual
    assert expected.primal >= solution.dual
    assert dual.tocsr().shape == problem.T.shape
