"""The Newton finish reaches the optimum where no cap helps, also with many and with dependent labels."""

import cvxpy as cp
import numpy as np
import pytest
from tests.solvers.test_row import objective, random_row

from unseen.solvers.row import make_scratch, solve_row
from unseen.solvers.row_newton import newton_row


def free_row(seed, n_labels, n_dims, h):
    rng = np.random.default_rng(seed)
    C = rng.standard_normal((n_labels, n_dims))
    C /= np.linalg.norm(C, axis=1, keepdims=True)
    t = np.where(np.arange(n_labels) < 3, 1, -1).astype(np.int8)
    return C @ C.T + 1.0, h, t, 0.3 * rng.standard_normal(n_labels)


def optimum(K, h, t, s):
    u = cp.Variable(len(t), nonneg=True)
    factor = np.linalg.cholesky(K + 1e-12 * np.eye(len(t)))
    cost = 0.5 * h * cp.sum_squares(factor.T @ cp.multiply(t, u)) + (t * s - 1.0) @ u
    problem = cp.Problem(cp.Minimize(cost), [cp.sum(u[t > 0]) <= 1, cp.sum(u[t < 0]) <= 1])
    return problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)


@pytest.mark.parametrize("n_labels", [10, 81, 200])
@pytest.mark.parametrize("n_dims", [5, 60, 300])
@pytest.mark.parametrize("h", [0.1, 30.0])
def test_the_row_is_exact_to_nine_digits_whether_the_cap_binds_or_not(n_labels, n_dims, h):
    K, h, t, s = free_row(n_labels + n_dims, n_labels, n_dims, h)
    v, scores = np.zeros(n_labels), s.copy()
    steps = solve_row(K, h, t, scores, v, 1e-10, 1_000_000, make_scratch(len(K)), True)
    assert steps < 1_000_000
    best = optimum(K, h, t, s)
    assert objective(K, h, t, s, np.zeros(n_labels), v) <= best + 1e-9 * max(1.0, abs(best))
    assert v[t > 0].sum() <= 1 + 1e-12
    assert -v[t < 0].sum() <= 1 + 1e-12
    assert np.all(v * t >= 0)


@pytest.mark.parametrize("seed", range(40))
def test_a_newton_step_is_feasible_never_worse_and_keeps_the_scores_true(seed):
    rng = np.random.default_rng(seed)
    K, h, t, s, old = random_row(
        rng, int(rng.integers(2, 15)), int(rng.integers(1, 6)), 10.0 ** rng.uniform(-2, 2)
    )
    v, scores = old.copy(), s.copy()
    used = np.array([v[v > 0].sum(), -v[v < 0].sum()])
    newton_row(K, h, t, scores, v, used)
    before, after = objective(K, h, t, s, old, old), objective(K, h, t, s, old, v)
    assert after <= before + 1e-9 * max(1.0, abs(before))
    assert np.all(v * t >= 0)
    np.testing.assert_allclose(used, [v[v > 0].sum(), -v[v < 0].sum()], atol=1e-9)
    assert used.max() <= 1.0 + 1e-12
    np.testing.assert_allclose(scores, s + h * K @ (v - old), rtol=1e-8, atol=1e-8)
