"""The Fantope: nearest point, extreme points and support, also with directions outside the span."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unseen.solvers import fantope


def random_symmetric(seed, k, scale=1.0):
    S = np.random.default_rng(seed).standard_normal((k, k)) * scale
    return S + S.T


cases = st.tuples(st.integers(0, 2**31), st.integers(1, 8), st.integers(0, 4), st.floats(-2, 2)).flatmap(
    lambda c: st.tuples(st.just(c), st.integers(1, c[1] + c[2]))
)


@settings(max_examples=80)
@given(cases)
def test_projection_is_feasible_and_satisfies_the_variational_inequality(case):
    (seed, k, null, log_scale), rank = case
    S = random_symmetric(seed, k, 10.0**log_scale)
    P = fantope.project(S, rank, null)
    eigenvalues = np.linalg.eigvalsh(P)
    assert eigenvalues.min() >= -1e-9
    assert eigenvalues.max() <= 1 + 1e-9
    # The null directions hold what is left of the trace, at most one each.
    assert -1e-8 <= rank - np.trace(P) <= null + 1e-8
    # P is nearest to S iff <S - P, Q - P> <= 0 for every Q of the set; its maximum is a support value.
    assert fantope.support(S - P, rank, null) - np.vdot(S - P, P) <= 1e-7 * max(1.0, np.abs(S).max())


@settings(max_examples=60)
@given(cases)
def test_top_eigenvectors_attain_the_support(case):
    (seed, k, null, log_scale), rank = case
    S = random_symmetric(seed, k, 10.0**log_scale)
    U = fantope.top_eigenvectors(S, rank, null)
    np.testing.assert_allclose(U.T @ U, np.eye(U.shape[1]), atol=1e-10)
    assert np.trace(U.T @ S @ U) == pytest.approx(fantope.support(S, rank, null), rel=1e-9, abs=1e-9)


def test_null_directions_spare_the_negative_eigenvalues():
    S = np.diag([3.0, -1.0, -2.0])
    assert fantope.top_eigenvectors(S, 2, null=1).shape[1] == 1
    assert fantope.top_eigenvectors(S, 3, null=1).shape[1] == 2
    assert fantope.support(S, 2, null=1) == 3.0
    assert fantope.support(S, 3, null=1) == 2.0


def test_a_point_of_the_set_is_its_own_projection():
    Q, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((5, 5)))
    P = (Q * np.array([1.0, 0.9, 0.6, 0.5, 0.0])) @ Q.T
    np.testing.assert_allclose(fantope.project(P, 3, 0), P, atol=1e-12)
    np.testing.assert_allclose(fantope.project(P, 4, 2), P, atol=1e-12)  # one unit of trace lies outside the span
