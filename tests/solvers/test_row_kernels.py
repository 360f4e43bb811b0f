"""The row problem is solved exactly: same optimum as an independent QP solver, always feasible, never worse."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unseen.solvers.dual import kernel_factor
from unseen.solvers.row_kernels import newton_row, row_loss, solve_row


def random_row(seed, n_labels, width, h):
    rng = np.random.default_rng(seed)
    C = rng.standard_normal((n_labels, width))
    C /= np.linalg.norm(C, axis=1, keepdims=True)
    t = rng.choice(np.array([-1, 0, 1], dtype=np.int8), size=n_labels, p=[0.55, 0.1, 0.35])
    v = np.zeros(n_labels)
    for side in (1, -1):
        members = np.flatnonzero(t == side)
        if len(members):
            v[members] = side * rng.dirichlet(np.ones(len(members))) * rng.uniform(0, 1)
    return C @ C.T + 1.0, h, t, rng.standard_normal(n_labels), v


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


@pytest.mark.parametrize("h", [0.01, 0.3, 30.0])  # a small one lets the caps bind, a large one keeps inside them
@pytest.mark.parametrize("width", [3, 300])
@pytest.mark.parametrize(
    ("n_labels", "is_factor"), [(1, None), (11, None), (5, False), (81, False), (200, False), (81, True)]
)
def test_equals_an_independent_qp_solver(n_labels, is_factor, width, h):
    row = random_row(n_labels + width, n_labels, width, h)
    v, scores = row[4].copy(), row[3].copy()
    kernel = kernel_factor(row[0]) if is_factor else row[0]
    solve_row(kernel, *row[1:3], scores, v, 1e-11, 1_000_000, is_factor)
    assert objective(*row, v) == pytest.approx(reference(*row), rel=1e-8, abs=1e-8)
    assert_improved(*row, v, scores)


@settings(max_examples=60)
@given(
    st.integers(0, 2**31), st.integers(1, 20), st.integers(0, 5), st.floats(-3, 3), st.sampled_from([False, None])
)
def test_every_step_is_feasible_and_improves(seed, n_labels, steps, log_h, is_factor):
    row = random_row(seed, n_labels, 3, 10.0**log_h)
    v, scores = row[4].copy(), row[3].copy()
    solve_row(*row[:3], scores, v, 1e-9, steps, is_factor)
    assert_improved(*row, v, scores)
    used = np.array([v[v > 0].sum(), -v[v < 0].sum()])
    newton_row(*row[:3], scores, v, used)
    assert_improved(*row, v, scores)
    np.testing.assert_allclose(used, [v[v > 0].sum(), -v[v < 0].sum()], atol=1e-9)


def test_an_image_of_zeros_puts_its_weight_on_each_side_and_loss_takes_the_worst_label_of_each():
    v, s = np.zeros(3), np.zeros(3)
    solve_row(np.ones((3, 3)), 0.0, np.array([1, -1, -1], dtype=np.int8), s, v, 1e-9, 100, None)
    assert (v[0], v[1] + v[2]) == (1.0, -1.0)
    targets = np.array([[1, 1, -1, -1], [1, 1, 0, -1], [0, 0, 0, 0]], dtype=np.int8)  # 0 = unknown: no side
    assert [row_loss(t, np.array([0.2, -0.5, 0.4, -3.0]), False) for t in targets] == pytest.approx(
        [1.5 + 1.4, 1.5, 0.0]
    )
