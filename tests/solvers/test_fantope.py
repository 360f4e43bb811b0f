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


@settings(max_examples=80)
@given(st.integers(0, 2**31), st.integers(1, 8), st.integers(0, 4), st.floats(-2, 2), st.floats(0, 1))
def test_the_nearest_point_is_feasible_and_top_eigenvectors_attain_the_support(seed, k, null, log_scale, share):
    rank = 1 + round(share * (k + null - 1))
    S = random_symmetric(np.random.default_rng(seed), k, 10.0**log_scale)
    P = fantope.project(S, rank, null)
    assert np.all(np.abs(np.linalg.eigvalsh(P) - 0.5) <= 0.5 + 1e-9)
    # The null directions hold what is left of the trace, at most one each.
    assert -1e-8 <= rank - np.trace(P) <= null + 1e-8
    # P is nearest to S iff <S - P, Q - P> <= 0 for every Q of the set; its maximum is a support value.
    assert fantope.support(S - P, rank, null) - np.vdot(S - P, P) <= 1e-7 * max(1.0, np.abs(S).max())
    U = fantope.top_eigenvectors(S, rank, null)
    np.testing.assert_allclose(U.T @ U, np.eye(U.shape[1]), atol=1e-10)
    assert np.trace(U.T @ S @ U) == pytest.approx(fantope.support(S, rank, null), rel=1e-9, abs=1e-9)


def test_null_directions_spare_the_negative_eigenvalues():
    assert [fantope.support(np.diag([3.0, -1.0, -2.0]), rank, null=1) for rank in (2, 3)] == [3.0, 2.0]


@pytest.mark.parametrize("weight", [1e-3, 0.1, 10.0])  # a small one leaves it all to the planes
@pytest.mark.parametrize("seed", range(5))
def test_a_proximal_step_equals_an_independent_solver(seed, weight):
    rng = np.random.default_rng(seed)
    n_planes, null = int(rng.integers(2, 8)), seed % 2
    planes = [(float(rng.standard_normal()), random_symmetric(rng, 4)) for _ in range(n_planes)]
    centre, mix = np.diag([1.0, 1.0, 0.0, 0.0]), np.eye(n_planes)[0]
    P, model = fantope.proximal_step(centre, weight, planes, mix, 2, null)
    assert model == pytest.approx(max(height - np.vdot(S, P) for height, S in planes))
    assert (mix.min() >= 0.0, mix.sum()) == (True, pytest.approx(1.0))
    Q = cp.Variable((4, 4), symmetric=True)
    highest = cp.max(cp.hstack([height - cp.trace(S @ Q) for height, S in planes]))
    limits = [Q >> 0, np.eye(4) - Q >> 0, cp.trace(Q) <= 2, cp.trace(Q) >= 2 - null]
    best = cp.Problem(cp.Minimize(highest + 0.5 * weight * cp.sum_squares(Q - centre)), limits)
    value = model + 0.5 * weight * np.vdot(P - centre, P - centre)
    assert value == pytest.approx(best.solve(solver=cp.CLARABEL), rel=1e-3, abs=1e-3)


def test_planes_of_no_weight_are_dropped_and_their_number_is_bounded():
    planes, mix = fantope.add_plane([(1.0, 0), (2.0, 0), (3.0, 0)], np.array([0.25, 0.0, 0.75]), (4.0, 0))
    assert [height for height, _ in planes] == [1.0, 3.0, 4.0]
    np.testing.assert_allclose(mix, [0.25, 0.75, 0.0])
    for _ in range(2 * fantope.MAX_PLANES):
        planes, mix = fantope.add_plane(planes, np.full(len(planes), 1.0 / len(planes)), (0.0, 0))
    assert len(planes) == fantope.MAX_PLANES + 1
