"""The finish: the optimum of an independent solver, also where the free duals are not unique; few passes."""

import cvxpy as cp
import numpy as np
import pytest
from tests.solvers.problems import assert_feasible, random_problem, solve_at

from unseen import TAEP
from unseen.solvers import dual
from unseen.solvers.interior import solve_on_working_set


@pytest.mark.parametrize("scale", [0.01, 1.0, 1000.0])  # a small one lets the caps bind
@pytest.mark.parametrize("seed", range(4))
def test_equals_an_independent_solver_on_degenerate_problems(seed, scale):
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((30, 5))
    Z[10:15] = Z[5:10]  # the same dual twice, on two sides
    Z[20] = 0.0
    H, side = scale * Z @ Z.T, np.sort(rng.integers(8, size=30))
    side, caps = np.unique(side, return_inverse=True)[1], rng.uniform(0.1, 2.0, 8)[: len(np.unique(side))]
    u = solve_on_working_set(H, side, caps, 1e-7)
    assert u.min() >= 0.0
    assert np.all(np.bincount(side, u) <= caps * (1 + 1e-12))
    x = cp.Variable(30, nonneg=True)
    limits = [cp.sum(x[np.flatnonzero(side == k)]) <= cap for k, cap in enumerate(caps)]
    best = cp.Problem(cp.Maximize(cp.sum(x) - 0.5 * scale * cp.sum_squares(Z.T @ x)), limits)
    assert u.sum() - 0.5 * u @ H @ u == pytest.approx(best.solve(solver=cp.CLARABEL), rel=1e-6, abs=1e-6)


def small_problem(seed):
    rng = np.random.default_rng(seed)
    X, M = rng.standard_normal((11, 7)), rng.standard_normal((9, 6))
    Y = (rng.random((11, 5)) < 0.4).astype(float)
    Y[0, 0] = 1.0
    return X, Y, M[:5], M[5:]


@pytest.mark.parametrize(("rank", "most"), [(1, 800), (3, 400), (None, 150)])
def test_a_small_beta_needs_few_passes(rank, most):
    for seed in range(3):
        model = TAEP(rank=rank, beta=4e-4, tol=1e-5).fit(*small_problem(seed))
        assert model.relative_gap_ <= 1e-5
        assert model.n_epochs_ <= most  # passes are the same on every machine up to rounding


def test_one_projection_takes_a_few_passes_and_violated_duals_are_added(monkeypatch):
    problem, images = random_problem(3, n=60, d=6, n_seen=8, beta=1e-3, weighted=True)
    solution, duals = solve_at(problem, images, np.eye(4), tol=1e-8)
    assert solution.gap <= 1e-8 * max(solution.primal, images.least_scale)
    assert solution.n_epochs <= 100
    assert_feasible(duals.tocsr().toarray(), images)
    monkeypatch.setattr(dual, "MAX_FREE", 0)
    slow, _ = solve_at(problem, images, np.eye(4), tol=1e-8, max_epochs=1000)
    assert slow.n_epochs == 1000
    assert slow.dual <= solution.primal
