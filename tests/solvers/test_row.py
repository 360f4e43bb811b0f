"""The row problem is solved exactly: same optimum as an independent QP solver, always feasible, never worse."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unseen.solvers.row import make_scratch, row_loss, solve_row


def random_row(rng, n_labels, width, h):
    A = np.column_stack([rng.standard_normal((n_labels, width)), -np.ones(n_labels)])
    K = A @ A.T
    t = rng.choice(np.array([-1, 0, 1], dtype=np.int8), size=n_labels, p=[0.55, 0.1, 0.35])
    v = np.zeros(n_labels)
    for side in (1, -1):
        members = np.flatnonzero(t == side)
        if len(members):
            v[members] = side * rng.dirichlet(np.ones(len(members))) * rng.uniform(0, 1)
    s = 2.0 * rng.standard_normal(n_labels)
    return K, h, t, s, v


def objective(K, h, t, s, old, v):
    """The row problem of the module's docstring, up to a constant."""
    return 0.5 * h * v @ K @ v + (s - h * K @ old - t) @ v


def reference(K, h, t, s, old):
    v = cp.Variable(len(t))
    u = cp.multiply(t.astype(float), v)
    factor = np.linalg.cholesky(K + 1e-12 * np.eye(len(t)))
    limits = [u >= 0, v[t == 0] == 0] if (t == 0).any() else [u >= 0]
    for side in (1, -1):
        if (t == side).any():
            limits.append(cp.sum(u[np.flatnonzero(t == side)]) <= 1)
    cost = 0.5 * h * cp.sum_squares(factor.T @ v) + (s - h * K @ old - t) @ v
    return cp.Problem(cp.Minimize(cost), limits).solve(solver=cp.CLARABEL)


@pytest.mark.parametrize("newton", [True, None])
@pytest.mark.parametrize("seed", range(30))
def test_equals_an_independent_qp_solver(seed, newton):
    rng = np.random.default_rng(seed)
    n_labels = int(rng.integers(1, 12))
    # A small h lets the caps bind; a large one keeps the optimum inside them.
    K, h, t, s, old = random_row(rng, n_labels, int(rng.integers(1, 6)), float(10.0 ** rng.uniform(-2, 2)))
    v, scores = old.copy(), s.copy()
    solve_row(K, h, t, scores, v, 1e-12, 100_000, make_scratch(len(K)), newton)
    best = reference(K, h, t, s, old)
    assert objective(K, h, t, s, old, v) == pytest.approx(best, rel=1e-6, abs=1e-6)
    np.testing.assert_allclose(scores, s + h * K @ (v - old), rtol=1e-9, atol=1e-9)


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
    solve_row(K, h, t, scores, v, 1e-9, steps, make_scratch(len(K)), newton)
    assert np.all(v * t >= 0.0)
    assert np.all(v[t == 0] == 0.0)
    assert v[t > 0].sum() <= 1.0 + 1e-12
    assert -v[t < 0].sum() <= 1.0 + 1e-12
    before, after = objective(K, h, t, s, old, old), objective(K, h, t, s, old, v)
    assert after <= before + 1e-9 * max(abs(before), 1.0)


@pytest.mark.parametrize("newton", [True, None])
def test_an_image_of_zeros_puts_its_whole_weight_on_each_side(newton):
    K, t = np.ones((3, 3)), np.array([1, -1, -1], dtype=np.int8)
    v, s = np.zeros(3), np.zeros(3)
    solve_row(K, 0.0, t, s, v, 1e-9, 100, make_scratch(len(K)), newton)
    assert v[0] == 1.0
    assert v[1] + v[2] == -1.0


def test_loss_takes_the_worst_label_of_each_side():
    s = np.array([0.2, -0.5, 0.4, -3.0])
    assert row_loss(np.array([1, 1, -1, -1], dtype=np.int8), s) == pytest.approx(1.5 + 1.4)
    assert row_loss(np.array([1, 1, 0, -1], dtype=np.int8), s) == pytest.approx(1.5)  # unknown: no side
    assert row_loss(np.zeros(4, dtype=np.int8), s) == 0.0
