"""The row problem is solved exactly: same optimum as an independent QP solver, always feasible, never worse."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unseen.solvers.row_kernels import newton_row, row_loss, solve_row


def random_row(rng, n_labels, width, h):
    A = np.column_stack([rng.standard_normal((n_labels, width)), -np.ones(n_labels)])
    t = rng.choice(np.array([-1, 0, 1], dtype=np.int8), size=n_labels, p=[0.55, 0.1, 0.35])
    v = np.zeros(n_labels)
    for side in (1, -1):
        members = np.flatnonzero(t == side)
        if len(members):
            v[members] = side * rng.dirichlet(np.ones(len(members))) * rng.uniform(0, 1)
    return A @ A.T, h, t, 2.0 * rng.standard_normal(n_labels), v


def objective(K, h, t, s, old, v):
    """The row problem of the module's docstring, up to a constant."""
    return 0.5 * h * v @ K @ v + (s - h * K @ old - t) @ v


def reference(K, h, t, s, old):
    u = cp.Variable(len(t), nonneg=True)
    v = cp.multiply(t.astype(float), u)
    factor = np.linalg.cholesky(K + 1e-12 * np.eye(len(t)))
    limits = [cp.sum(u[np.flatnonzero(t == side)]) <= 1 for side in (1, -1) if (t == side).any()]
    cost = 0.5 * h * cp.sum_squares(factor.T @ v) + (s - h * K @ old - t) @ v
    accuracy = {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}
    return cp.Problem(cp.Minimize(cost), limits).solve(solver=cp.CLARABEL, **accuracy)


def assert_improved(K, h, t, s, old, v, scores):
    """``v`` is feasible and no worse than ``old``, and ``scores`` are its own."""
    assert np.all(v * t >= 0.0)
    assert not v[t == 0].any()
    assert max(v[t > 0].sum(), -v[t < 0].sum()) <= 1.0 + 1e-12
    before, after = objective(K, h, t, s, old, old), objective(K, h, t, s, old, v)
    assert after <= before + 1e-9 * max(abs(before), 1.0)
    np.testing.assert_allclose(scores, s + h * K @ (v - old), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("newton", [True, None])
@pytest.mark.parametrize("seed", range(20))
def test_equals_an_independent_qp_solver(seed, newton):
    rng = np.random.default_rng(seed)
    # A small h lets the caps bind; a large one keeps the optimum inside them.
    row = random_row(rng, int(rng.integers(1, 12)), int(rng.integers(1, 6)), float(10.0 ** rng.uniform(-2, 2)))
    K, h, t, s, old = row
    v, scores = old.copy(), s.copy()
    solve_row(K, h, t, scores, v, 1e-12, 100_000, newton)
    assert objective(*row, v) == pytest.approx(reference(*row), rel=1e-6, abs=1e-6)
    assert_improved(*row, v, scores)


@pytest.mark.parametrize("n_labels", [10, 81, 200])
@pytest.mark.parametrize("n_dims", [5, 300])
@pytest.mark.parametrize("h", [0.1, 30.0])
def test_with_newton_steps_a_row_is_exact_to_nine_digits_whether_the_cap_binds_or_not(n_labels, n_dims, h):
    rng = np.random.default_rng(n_labels + n_dims)
    C = rng.standard_normal((n_labels, n_dims))
    C /= np.linalg.norm(C, axis=1, keepdims=True)
    t = np.where(np.arange(n_labels) < 3, 1, -1).astype(np.int8)
    row = C @ C.T + 1.0, h, t, 0.3 * rng.standard_normal(n_labels), np.zeros(n_labels)
    v, scores = np.zeros(n_labels), row[3].copy()
    assert solve_row(row[0], h, t, scores, v, 1e-10, 1_000_000, True) < 1_000_000
    best = reference(*row)
    assert objective(*row, v) <= best + 1e-9 * max(1.0, abs(best))
    assert_improved(*row, v, scores)


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**31),
    n_labels=st.integers(1, 20),
    steps=st.integers(0, 5),
    log_h=st.floats(-3, 3),
    newton=st.sampled_from([True, None]),
)
def test_every_step_is_feasible_and_improves(seed, n_labels, steps, log_h, newton):
    K, h, t, s, old = random_row(np.random.default_rng(seed), n_labels, 3, 10.0**log_h)
    v, scores = old.copy(), s.copy()
    solve_row(K, h, t, scores, v, 1e-9, steps, newton)
    assert_improved(K, h, t, s, old, v, scores)
    used = np.array([v[v > 0].sum(), -v[v < 0].sum()])
    newton_row(K, h, t, scores, v, used)
    assert_improved(K, h, t, s, old, v, scores)
    np.testing.assert_allclose(used, [v[v > 0].sum(), -v[v < 0].sum()], atol=1e-9)


@pytest.mark.parametrize("newton", [True, None])
def test_an_image_of_zeros_puts_its_whole_weight_on_each_side(newton):
    K, t = np.ones((3, 3)), np.array([1, -1, -1], dtype=np.int8)
    v, s = np.zeros(3), np.zeros(3)
    solve_row(K, 0.0, t, s, v, 1e-9, 100, newton)
    assert v[0] == 1.0
    assert v[1] + v[2] == -1.0


def test_loss_takes_the_worst_label_of_each_side():
    s = np.array([0.2, -0.5, 0.4, -3.0])
    assert row_loss(np.array([1, 1, -1, -1], dtype=np.int8), s) == pytest.approx(1.5 + 1.4)
    assert row_loss(np.array([1, 1, 0, -1], dtype=np.int8), s) == pytest.approx(1.5)  # unknown: no side
    assert row_loss(np.zeros(4, dtype=np.int8), s) == 0.0
