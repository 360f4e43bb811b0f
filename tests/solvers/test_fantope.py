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


def random_bundle(rng, n_points, null):
    B = random_symmetric(rng, 4)
    points = [fantope.Point(float(rng.standard_normal()), rng.standard_normal((5, 3))) for _ in range(n_points)]
    bundle = fantope.Bundle(B, 2, null)
    for point in points:
        bundle.add(point)
        bundle.mix = np.full(len(bundle.mix), 1.0 / len(bundle.mix))
    return bundle, points, B


@pytest.mark.parametrize("weight", [1e-2, 0.1, 10.0])  # a small one leaves it all to the planes
@pytest.mark.parametrize("seed", range(5))
def test_a_proximal_step_is_a_saddle_point_for_an_independent_solver(seed, weight):
    rng, null = np.random.default_rng(seed), seed % 2
    bundle, points, B = random_bundle(rng, int(rng.integers(2, 8)), null)
    centre = np.diag([1.0, 1.0, 0.0, 0.0])
    P, value = bundle.proximal_step(centre, weight)
    assert (bundle.mix.min() >= 0.0, bundle.mix.sum()) == (True, pytest.approx(1.0))
    height, S = bundle.plane()
    assert value == pytest.approx(height - np.vdot(S, P))
    # P is best for the mixture ...
    Q = cp.Variable((4, 4), symmetric=True)
    limits = [Q >> 0, np.eye(4) - Q >> 0, cp.trace(Q) <= 2, cp.trace(Q) >= 2 - null]
    cost = height - cp.trace(S @ Q) + 0.5 * weight * cp.sum_squares(Q - centre)
    proximal = 0.5 * weight * np.vdot(P - centre, P - centre)
    best = cp.Problem(cp.Minimize(cost), limits).solve(solver=cp.CLARABEL)
    assert value + proximal == pytest.approx(best, rel=1e-3, abs=1e-3)
    # ... and the mixture is best for P.
    mix = cp.Variable(len(points), nonneg=True)
    root = np.zeros((5, 5))
    root[:4, :4], root[4, 4] = (np.linalg.eigh(P)[1] * np.sqrt(np.linalg.eigvalsh(P).clip(0))).T, 1.0
    R = sum(mix[i] * (root @ point.R) for i, point in enumerate(points))
    model = mix @ np.array([point.gain for point in points]) - 0.5 * cp.sum_squares(R) + np.vdot(B, P)
    highest = cp.Problem(cp.Maximize(model), [cp.sum(mix) == 1]).solve(solver=cp.CLARABEL)
    assert value == pytest.approx(highest, rel=1e-3, abs=1e-3 + 1e-2 * proximal)


def test_the_plane_of_a_mixture_lies_above_the_mixture_of_the_planes():
    rng = np.random.default_rng(0)
    bundle, points, B = random_bundle(rng, 4, 0)
    height, S = bundle.plane()
    for _ in range(20):
        P = fantope.project(random_symmetric(rng, 4), 2, 0)
        values = [own - np.vdot(slope, P) for own, slope in (point.plane(B) for point in points)]
        assert height - np.vdot(S, P) >= np.mean(values) - 1e-12


def test_points_without_weight_are_dropped_and_merging_keeps_the_mixture(monkeypatch):
    monkeypatch.setattr(fantope, "MAX_POINTS", 3)
    rng = np.random.default_rng(1)
    bundle, points, _ = random_bundle(rng, 3, 0)
    bundle.mix = np.array([0.2, 0.0, 0.8])
    bundle.add(points[1])
    np.testing.assert_allclose(bundle.mix, [0.2, 0.8, 0.0])
    bundle.mix = np.array([0.2, 0.5, 0.3])
    height, S = bundle.plane()
    bundle.add(points[0])  # the two lightest become one
    np.testing.assert_allclose(bundle.mix, [0.5, 0.5, 0.0])
    np.testing.assert_allclose(bundle.plane()[0], height)
    np.testing.assert_allclose(bundle.plane()[1], S)
