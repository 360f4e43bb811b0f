"""The Fantope: nearest points, extreme points and proximal steps, also with directions outside the span."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unseen.solvers import fantope


def random_symmetric(rng, k, scale=1.0):
    S = rng.standard_normal((k, k)) * scale
    return S + S.T


cases = st.tuples(st.integers(0, 2**31), st.integers(1, 8), st.integers(0, 4), st.floats(-2, 2)).flatmap(
    lambda c: st.tuples(st.just(c), st.integers(1, c[1] + c[2]))
)


@settings(max_examples=80)
@given(cases)
def test_the_nearest_point_is_feasible_and_top_eigenvectors_attain_the_support(case):
    (seed, k, null, log_scale), rank = case
    S = random_symmetric(np.random.default_rng(seed), k, 10.0**log_scale)
    P = fantope.project(S, rank, null)
    eigenvalues = np.linalg.eigvalsh(P)
    assert eigenvalues.min() >= -1e-9
    assert eigenvalues.max() <= 1 + 1e-9
    # The null directions hold what is left of the trace, at most one each.
    assert -1e-8 <= rank - np.trace(P) <= null + 1e-8
    # P is nearest to S iff <S - P, Q - P> <= 0 for every Q of the set; its maximum is a support value.
    assert fantope.support(S - P, rank, null) - np.vdot(S - P, P) <= 1e-7 * max(1.0, np.abs(S).max())
    np.testing.assert_allclose(fantope.project(P, rank, null), P, atol=1e-9)
    U = fantope.top_eigenvectors(S, rank, null)
    np.testing.assert_allclose(U.T @ U, np.eye(U.shape[1]), atol=1e-10)
    assert np.trace(U.T @ S @ U) == pytest.approx(fantope.support(S, rank, null), rel=1e-9, abs=1e-9)


def test_null_directions_spare_the_negative_eigenvalues():
    S = np.diag([3.0, -1.0, -2.0])
    for rank, n_chosen, value in ((2, 1, 3.0), (3, 2, 2.0)):
        assert fantope.top_eigenvectors(S, rank, null=1).shape[1] == n_chosen
        assert fantope.support(S, rank, null=1) == value


def best_value(centre, weight, planes, rank, null):
    k = len(centre)
    P = cp.Variable((k, k), symmetric=True)
    highest = cp.max(cp.hstack([height - cp.trace(S @ P) for height, S in planes]))
    limits = [P >> 0, np.eye(k) - P >> 0, cp.trace(P) <= rank, cp.trace(P) >= rank - null]
    cost = highest + 0.5 * weight * cp.sum_squares(P - centre)
    return cp.Problem(cp.Minimize(cost), limits).solve(solver=cp.CLARABEL)


@pytest.mark.parametrize("weight", [1e-3, 0.1, 10.0])  # a small one leaves it all to the planes
@pytest.mark.parametrize("seed", range(5))
def test_a_proximal_step_equals_an_independent_solver(seed, weight):
    rng = np.random.default_rng(seed)
    k, n_planes, rank, null = 4, int(rng.integers(2, 8)), 2, seed % 2
    planes = [(float(rng.standard_normal()), random_symmetric(rng, k)) for _ in range(n_planes)]
    U = np.linalg.qr(rng.standard_normal((k, rank)))[0]
    centre, mix = U @ U.T, np.eye(n_planes)[0]
    P, model = fantope.proximal_step(centre, weight, planes, mix, rank, null)
    assert model == pytest.approx(max(height - np.vdot(S, P) for height, S in planes))
    value = model + 0.5 * weight * np.vdot(P - centre, P - centre)
    assert value == pytest.approx(best_value(centre, weight, planes, rank, null), rel=1e-3, abs=1e-3)
    assert mix.min() >= 0.0
    assert mix.sum() == pytest.approx(1.0)


def test_planes_of_no_weight_are_dropped_and_their_number_is_bounded():
    planes, mix = fantope.add_plane([(1.0, 0), (2.0, 0), (3.0, 0)], np.array([0.25, 0.0, 0.75]), (4.0, 0))
    assert [height for height, _ in planes] == [1.0, 3.0, 4.0]
    np.testing.assert_allclose(mix, [0.25, 0.75, 0.0])
    for _ in range(2 * fantope.MAX_PLANES):
        planes, mix = fantope.add_plane(planes, np.full(len(planes), 1.0 / len(planes)), (0.0, 0))
    assert len(planes) == fantope.MAX_PLANES + 1
