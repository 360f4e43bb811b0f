"""H and A are the sums that the paper prints; degenerate label sets are defined."""

import numpy as np
import pytest

from unseen.solvers import fantope
from unseen.solvers.regulariser import projection_regulariser, relation_laplacian, transfer_term


@pytest.mark.parametrize(("n_seen", "n_unseen"), [(3, 4), (1, 2), (5, 1), (4, 0)])
def test_transfer_term_is_the_printed_sum(n_seen, n_unseen):
    rng = np.random.default_rng(0)
    M, U = rng.standard_normal((n_seen + n_unseen, 6)), np.linalg.qr(rng.standard_normal((6, 2)))[0]
    G = M @ U @ U.T @ M.T
    near, among = G[:n_seen, n_seen:], G[n_seen:, n_seen:]
    printed = -0.5 * near.mean() if n_unseen else 0.0
    if n_unseen > 1:
        printed += (among.sum() - np.trace(among)) / (2 * n_unseen * (n_unseen - 1))
    assert np.trace(U.T @ transfer_term(M, n_seen) @ U) == pytest.approx(printed)


def test_transfer_term_by_sums_is_that_of_the_matrix_of_pairs():
    C, Q = np.random.default_rng(3).standard_normal((9, 4)), np.zeros((9, 9))
    Q[:5, 5:] = Q[5:, :5] = -0.5 / (5 * 4)
    Q[5:, 5:] = (1.0 - np.eye(4)) / (4 * 3)
    np.testing.assert_allclose(transfer_term(C, 5), 0.5 * C.T @ Q @ C, atol=1e-14)


def test_laplacian_is_positive_semidefinite_and_ignores_unrelated_labels():
    R = np.random.default_rng(1).uniform(size=(6, 6))
    R = R + R.T
    R[2], R[:, 2] = 0.0, 0.0
    L = relation_laplacian(R)
    assert not L[2].any()
    assert np.all(np.abs(np.linalg.eigvalsh(L) - 1.0) <= 1 + 1e-12)
    np.testing.assert_allclose(L @ np.sqrt(R.sum(axis=1)), 0.0, atol=1e-12)  # constant after normalisation: free


def test_scale_free_terms_range_within_their_weight_for_every_image_and_the_papers_are_as_printed():
    C = np.random.default_rng(2).standard_normal((8, 5))
    for gamma, lam in ((0.3, 0.0), (0.0, 0.7)):
        B = projection_regulariser(C, 5, np.ones((8, 8)), gamma=gamma, lam=lam, rank=2, null=3, n_images=100)
        assert max(fantope.support(B, 2, 3), fantope.support(-B, 2, 3)) == pytest.approx(100 * (gamma + lam))
    B = projection_regulariser(C, 5, None, gamma=2.0, lam=5.0, rank=2, null=0, n_images=None)
    np.testing.assert_allclose(B, 2.0 * transfer_term(C, 5))
