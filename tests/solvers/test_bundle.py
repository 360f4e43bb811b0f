"""The proximal step of the bundle: the best compromise between planes, against an independent solver."""

import cvxpy as cp
import numpy as np
import pytest

from unseen.solvers.bundle import MAX_PLANES, add_plane, nearest_compromise


def random_planes(rng, n_planes, k):
    slopes = rng.standard_normal((n_planes, k, k))
    return [(float(height), S + S.T) for height, S in zip(rng.standard_normal(n_planes), slopes, strict=True)]


def best_value(centre, weight, planes, rank, null):
    k = len(centre)
    P = cp.Variable((k, k), symmetric=True)
    highest = cp.max(cp.hstack([height - cp.trace(S @ P) for height, S in planes]))
    limits = [P >> 0, np.eye(k) - P >> 0, cp.trace(P) <= rank, cp.trace(P) >= rank - null]
    cost = highest + 0.5 * weight * cp.sum_squares(P - centre)
    return cp.Problem(cp.Minimize(cost), limits).solve(solver=cp.CLARABEL)


@pytest.mark.parametrize("weight", [1e-3, 1e-1, 1.0, 10.0])  # a small one leaves it all to the planes
@pytest.mark.parametrize("seed", range(5))
def test_the_compromise_is_the_best_one(seed, weight):
    rng = np.random.default_rng(seed)
    k, n_planes, rank, null = 4, int(rng.integers(2, 8)), 2, seed % 2
    planes = random_planes(rng, n_planes, k)
    U = np.linalg.qr(rng.standard_normal((k, rank)))[0]
    centre, mix = U @ U.T, np.eye(n_planes)[0]
    P, model = nearest_compromise(centre, weight, planes, mix, rank, null)
    assert model == pytest.approx(max(height - np.vdot(S, P) for height, S in planes))
    value = model + 0.5 * weight * np.vdot(P - centre, P - centre)
    assert value == pytest.approx(best_value(centre, weight, planes, rank, null), rel=1e-3, abs=1e-3)
    assert mix.min() >= 0.0
    assert mix.sum() == pytest.approx(1.0)


def test_planes_without_a_part_are_forgotten_and_the_new_one_begins_with_none():
    planes = random_planes(np.random.default_rng(0), 3, 2)
    new = (1.0, np.eye(2))
    kept, mix = add_plane(planes, np.array([0.25, 0.0, 0.75]), new)
    assert [plane[0] for plane in kept] == [planes[0][0], planes[2][0], 1.0]
    np.testing.assert_allclose(mix, [0.25, 0.75, 0.0])


def test_the_number_of_planes_is_bounded():
    planes, mix = random_planes(np.random.default_rng(0), 1, 2), np.ones(1)
    for _ in range(2 * MAX_PLANES):
        planes, mix = add_plane(planes, mix, (0.0, np.eye(2)))
        mix = np.full(len(planes), 1.0 / len(planes))
    assert len(planes) == MAX_PLANES + 1
