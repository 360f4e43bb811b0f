"""The seen-unseen curve against its definition: subtract the handicap, take the top k, measure recalls."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unseen.evaluation import metrics


def random_problem(seed, *, n_images=12, n_labels=7, unknown=0.1):
    rng = np.random.default_rng(seed)
    Y = (rng.random((n_images, n_labels)) < 0.4).astype(float)
    Y[rng.random(Y.shape) < unknown] = np.nan
    Y[0] = 1
    return Y, rng.standard_normal(Y.shape)


def recalls(Y, scores, seen, k, handicap):
    handicapped = scores.copy()
    handicapped[:, seen] -= handicap
    hits = metrics.top_k(handicapped, k) & (Y == 1)
    unseen = np.setdiff1d(np.arange(Y.shape[1]), seen)
    return tuple(hits[:, side].sum() / (Y[:, side] == 1).sum() for side in (seen, unseen))


def handicaps_between(breaks):
    """One handicap inside each interval of the curve."""
    inner = (breaks[1:-1] + breaks[2:]) / 2
    return np.concatenate([[breaks[1] - 1], inner, [breaks[-1] + 1]])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("n_seen", "k"), [(3, 1), (3, 3), (2, 4), (5, 4), (1, 7), (3, 99)])
def test_every_point_is_the_recall_at_its_handicap(seed, n_seen, k):
    Y, scores = random_problem(seed)
    seen = np.random.default_rng(seed).permutation(Y.shape[1])[:n_seen]
    curve = metrics.seen_unseen_curve(Y, scores, seen, k)
    if k >= Y.shape[1]:
        assert curve.handicap.tolist() == [-np.inf]
        handicaps = np.array([0.0])
    else:
        handicaps = handicaps_between(curve.handicap)
    expected = [recalls(Y, scores, seen, k, handicap) for handicap in handicaps]
    np.testing.assert_allclose(np.column_stack([curve.seen_recall, curve.unseen_recall]), expected)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("k", [1, 2, 4])
def test_auc_is_the_area_of_a_sweep(seed, k):
    Y, scores = random_problem(seed)
    scores = np.round(20 * scores)  # swaps are at integers, so half-integers visit every point of the curve
    reach = np.ptp(scores) + 0.5
    points = np.array([recalls(Y, scores, [0, 2, 5], k, at) for at in np.arange(-reach, reach + 1)])
    swept = points[0].prod() + np.sum(np.diff(points[:, 1]) * (points[1:, 0] + points[:-1, 0]) / 2)
    assert metrics.seen_unseen_auc(Y, scores, [0, 2, 5], k) == pytest.approx(swept)


def test_auc_of_hand_computed_examples():
    Y = [[1, 0, 1, 0]]
    # k = 1: the seen label 0 (score 5) is swapped for the unseen label 2, a straight line (1, 0) to (0, 1).
    assert metrics.seen_unseen_auc(Y, [[5.0, 1.0, 4.0, 2.0]], [0, 1], k=1) == pytest.approx(0.5)
    # k = 2 predicts {0, 1}, then {0, 2}, then {2, 3}: (1, 0), (1, 1), (0, 1).
    assert metrics.seen_unseen_auc(Y, [[5.0, 1.0, 4.0, 2.0]], [0, 1], k=2) == pytest.approx(1.0)
    # The wrong label of each side comes first: {1, 0}, {1, 3}, {3, 2}: (1, 0), (0, 0), (0, 1).
    assert metrics.seen_unseen_auc(Y, [[1.0, 5.0, 2.0, 4.0]], [0, 1], k=2) == 0.0


@given(seed=st.integers(0, 10_000), k=st.integers(1, 8), n_seen=st.integers(1, 6), shift=st.integers(-50, 50))
def test_curve_is_monotone_and_area_symmetric_and_blind_to_a_shift(seed, k, n_seen, shift):
    Y, scores = random_problem(seed)
    scores = np.round(scores * 4)
    seen = np.arange(Y.shape[1]) < n_seen
    curve = metrics.seen_unseen_curve(Y, scores, seen, k)
    assert np.all(np.diff(curve.handicap) > 0)
    assert np.all(np.diff(curve.seen_recall) <= 0)
    assert np.all(np.diff(curve.unseen_recall) >= 0)
    area = metrics.seen_unseen_auc(Y, scores, seen, k)
    assert 0 <= area <= 1 + 1e-12
    assert metrics.seen_unseen_auc(Y, scores, ~seen, k) == pytest.approx(area)
    assert metrics.seen_unseen_auc(Y, scores + shift * seen, seen, k) == pytest.approx(area)


def test_indices_and_mask_name_the_same_labels():
    Y, scores = random_problem(0)
    mask = np.isin(np.arange(Y.shape[1]), [1, 4])
    assert metrics.seen_unseen_auc(Y, scores, [4, 1]) == metrics.seen_unseen_auc(Y, scores, mask)


@pytest.mark.parametrize(
    ("seen", "message"),
    [
        ([0, 7], "Pass column indices between 0 and 6"),
        ([-1], "Pass column indices"),
        ([0.5], "dtype float64"),
        ([True, False], "a boolean mask of length 7"),
        (range(7), "leaves no unseen label"),
        (np.zeros(7, dtype=bool), "leaves no seen label"),
    ],
)
def test_bad_seen_columns_are_refused(seen, message):
    with pytest.raises(ValueError, match=f"seen: .*{message}"):
        metrics.seen_unseen_auc(*random_problem(0), seen)


def test_a_side_without_positives_is_refused():
    with pytest.raises(ValueError, match="Y_true: no unseen label has a positive"):
        metrics.seen_unseen_auc([[1, 0]], [[1.0, 2.0]], [0])


def test_harmonic_mean():
    assert metrics.harmonic_mean(0.5, 1.0) == pytest.approx(2 / 3)
    assert metrics.harmonic_mean(0.0, 0.0) == 0.0
    with pytest.raises(ValueError, match=r"b: -0\.1 was given"):
        metrics.harmonic_mean(0.5, -0.1)
