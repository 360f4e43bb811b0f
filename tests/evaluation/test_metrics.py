"""Metrics against scikit-learn, brute force and hand-computed examples."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk

from unseen.evaluation import metrics

RANKINGS = [metrics.mean_image_average_precision, metrics.mean_average_precision]
OF_PREDICTIONS = [metrics.micro_f1, metrics.macro_f1, metrics.hamming_loss]
GOOD = ((1.0, 0.0), (0.0, 1.0))
seeds = st.integers(0, 10_000)


def random_problem(seed, *, n_images=40, n_labels=9, unknown=0.0):
    """Truth and heavily tied scores; every image and label has a positive and a negative."""
    rng, images = np.random.default_rng(seed), np.arange(n_images)
    Y = (rng.random((n_images, n_labels)) < 0.3).astype(float)
    Y[rng.random(Y.shape) < unknown] = np.nan
    Y[images, images % n_labels], Y[images, (images + 1) % n_labels] = 1, 0
    return Y, rng.integers(0, 6, Y.shape).astype(float)


def average_precision(y, s):
    """Mean over positives of the precision at that positive's score, over the known entries."""
    y, s = y[~np.isnan(y)], s[~np.isnan(y)]
    return np.mean([np.sum(y[s >= cut]) / np.sum(s >= cut) for cut in s[y == 1]])


def test_tied_labels_get_the_worst_rank_of_their_group():
    Y, scores = np.array([[1, 0, 0, 0]]), np.array([[2, 2, 2, 1]])
    assert (RANKINGS[0](Y, scores), RANKINGS[1](Y.T, scores.T)) == pytest.approx((1 / 3, 1 / 3))


def test_rankings_equal_scikit_learn_with_ties():
    Y, scores = random_problem(0)
    scores, precisions = scores.astype(np.float32), sk.average_precision_score(Y, scores, average=None)
    expected = (sk.label_ranking_average_precision_score(Y, scores), precisions.mean())
    assert [metric(Y, scores) for metric in RANKINGS] == pytest.approx(expected)
    np.testing.assert_allclose(metrics.label_average_precision(Y, scores), precisions, rtol=1e-12)


@pytest.mark.parametrize("block", [25, 1 << 20])
def test_rankings_equal_brute_force_with_unknown_entries_whatever_the_block(block, monkeypatch):
    monkeypatch.setattr(metrics, "_BLOCK_ENTRIES", block)
    Y, scores = random_problem(1, unknown=0.4)
    miap, mean_ap = (np.mean(list(map(average_precision, *by))) for by in ((Y, scores), (Y.T, scores.T)))
    assert [metric(Y, scores) for metric in RANKINGS] == pytest.approx([miap, mean_ap])


def test_labels_and_images_that_cannot_be_ranked_are_left_out():
    # (1/1 + 2/3) / 2 of the first image; the second has no positive.
    assert RANKINGS[0]([[1, 0, 1], [0, 0, 0]], [[3.0, 2.0, 1.0]] * 2) == pytest.approx(5 / 6)
    per_label = metrics.label_average_precision([[1, 0, np.nan], [0, 0, np.nan]], [[2.0, 1, 1], [1.0, 2, 1]])
    np.testing.assert_array_equal(per_label, [1.0, np.nan, np.nan])


@pytest.mark.parametrize("metric", RANKINGS)
@given(seed=seeds)
@settings(max_examples=20)
def test_only_the_order_of_the_known_scores_matters(metric, seed):
    Y, scores = random_problem(seed, n_images=6, n_labels=5, unknown=0.3)
    rng, value = np.random.default_rng(seed), metric(Y, scores)
    order = np.ix_(rng.permutation(6), rng.permutation(5))
    assert metric(Y[order], scores[order]) == pytest.approx(value)
    assert metric(Y, np.where(np.isnan(Y), 100.0, np.exp(scores) - 7)) == pytest.approx(value)


@given(seed=seeds, k=st.integers(1, 8))
def test_top_k_takes_the_best_labels_and_of_tied_ones_the_first(seed, k):
    _, scores = random_problem(seed, n_images=6, n_labels=5)
    for row, chosen in zip(scores, metrics.top_k(scores, k), strict=True):
        by_score = sorted(range(5), key=lambda column: (-row[column], column))
        assert np.flatnonzero(chosen).tolist() == sorted(by_score[:k])


@pytest.mark.parametrize("k", [1, 3, 9])
def test_predictions_are_judged_as_by_scikit_learn(k):
    Y, scores = random_problem(0)
    predicted = metrics.top_k(scores, k)
    micro, macro = (sk.f1_score(Y, predicted, average=average) for average in ("micro", "macro"))
    expected = micro, macro, sk.hamming_loss(Y, predicted)
    assert [metric(Y, predicted) for metric in OF_PREDICTIONS] == pytest.approx(expected)
    rankings, top_5 = (metric(Y, scores) for metric in RANKINGS[:2]), metrics.top_k(scores, 5)
    of_predictions = (metric(Y, predicted) for metric in OF_PREDICTIONS)
    assert metrics.summary(Y, scores, k) == (*rankings, *of_predictions, metrics.micro_f1(Y, top_5))
    assert metrics.summary(Y, scores) == metrics.summary(Y, scores, 3)
    expected = *(f(Y, predicted, average="micro") for f in (sk.precision_score, sk.recall_score)), micro
    assert metrics.precision_recall_f1(Y, predicted) == pytest.approx(expected)


@given(seed=seeds, k=st.integers(1, 9), n_labels=st.integers(2, 9))
def test_micro_f1_and_hamming_loss_of_a_top_k_prediction_determine_each_other(seed, k, n_labels):
    """Hamming * L = (k + a)(1 - F1), with a positives per image on average; not so for another k."""
    k = min(k, n_labels)
    Y, scores = random_problem(seed, n_images=12, n_labels=n_labels)
    found = metrics.summary(Y, scores, k)
    for wrong in (0, 1):
        implied = (k + wrong + Y.sum(axis=1).mean()) * (1 - found.micro_f1)
        assert (found.hamming * n_labels == pytest.approx(implied)) == (not wrong or found.micro_f1 == 1)


def test_six_figures_of_a_hand_computed_example():
    Y, predicted = [[1, 0, 0], [1, 1, 0]], [[1, 1, 0], [0, 1, 0]]
    # Label 0: hit 1 of 1 predicted, of 2 true; label 1: 1 of 2, of 1; label 2: nothing.
    assert metrics.precision_recall_f1(Y, predicted) == pytest.approx((2 / 3,) * 3)
    assert metrics.macro_f1(Y, predicted) == pytest.approx((2 / 3 + 2 / 3 + 0) / 3)
    assert metrics.precision_recall_f1([[1, 0]], [[0, 0]]) == (0, 0, 0)
    assert metrics.hamming_loss([[0, 0]], [[1, 0]]) == 0.5  # it needs no positive


def test_unknown_entries_are_counted_nowhere():
    Y = np.array([[1, np.nan, 0, np.nan], [0, 1, np.nan, np.nan]])
    # Top 2 predicts columns 0 and 1; three of these entries are known, two of them are hits.
    predicted = metrics.top_k([[4.0, 3.0, 2.0, 1.0]] * 2, 2)
    for prediction in (predicted, predicted ^ np.isnan(Y)):
        assert metrics.precision_recall_f1(Y, prediction)[:2] == pytest.approx((2 / 3, 1.0))
        assert metrics.hamming_loss(Y, prediction) == pytest.approx(1 / 4)
        # F1 of labels 0, 1, 2 is 2/3, 1, 0; label 3 is unknown everywhere and left out.
        assert metrics.macro_f1(Y, prediction) == pytest.approx((2 / 3 + 1) / 3)


@pytest.mark.parametrize(
    ("argument", "call"),
    [
        ("scores", lambda: metrics.mean_image_average_precision(GOOD, ((0.1, np.nan), (0.3, 0.4)))),
        ("scores", lambda: metrics.mean_average_precision(GOOD, ((0.1,), (0.3,)))),
        ("Y_true", lambda: metrics.mean_average_precision(((1, -1), (-1, 1)), GOOD)),
        ("Y_true", lambda: metrics.summary(((0, 0), (0, np.nan)), GOOD)),
        ("Y_true", lambda: metrics.summary((1, 0), (0.1, 0.2))),
        ("Y_true", lambda: metrics.micro_f1(((0, 0), (0, np.nan)), GOOD)),
        ("Y_pred", lambda: metrics.micro_f1(GOOD, ((1, np.nan), (0, 1)))),
        ("Y_pred", lambda: metrics.macro_f1(GOOD, ((1, 2), (0, 1)))),
        ("Y_pred", lambda: metrics.hamming_loss(GOOD, ((1, 0),))),
        ("P", lambda: metrics.reliability(GOOD, ((1.5, 0.0), (0.0, 1.0)))),
        ("P", lambda: metrics.reliability(GOOD, ((np.nan, 0.0), (0.0, 1.0)))),
        ("P", lambda: metrics.reliability(GOOD, ((0.5, 0.5),))),
        ("n_groups", lambda: metrics.reliability(GOOD, GOOD, 0)),
        ("k", lambda: metrics.top_k(GOOD, 0)),
        ("k", lambda: metrics.top_k(GOOD, 2.0)),
    ],
)
def test_bad_arguments_are_refused_by_name(argument, call):
    with pytest.raises(ValueError, match=f"^{argument}: "):
        call()


def test_reliability_of_a_hand_computed_example():
    Y = [[1, 0, 1, np.nan], [0, 1, np.nan, 1]]
    P = [[0.95, 0.05, 1.0, 0.5], [0.91, 0.3, 0.5, 0.02]]
    found = metrics.reliability(Y, P)
    assert found.n_entries.tolist() == [2, 0, 0, 1, 0, 0, 0, 0, 0, 3]
    np.testing.assert_allclose(found.mean_p[[0, 3, 9]], [0.035, 0.3, (0.95 + 1.0 + 0.91) / 3])
    np.testing.assert_allclose(found.observed[[0, 3, 9]], [0.5, 1.0, 2 / 3])
    assert np.isnan(found.mean_p[1:3]).all()
    assert np.isnan(found.observed[4:9]).all()
    assert metrics.reliability(Y, P, n_groups=1).observed.tolist() == pytest.approx([4 / 6])


def test_reliability_needs_no_positive_and_lists_groups_without_entries():
    found = metrics.reliability([[0, 0, 0]], [[0.0, 0.0, 0.5]], n_groups=3)
    assert found.n_entries.tolist() == [2, 1, 0]
    np.testing.assert_array_equal(found.observed, [0.0, 0.0, np.nan])
    assert metrics.reliability([[0, 0]], [[0.0, 0.0]], n_groups=1).mean_p.tolist() == [0.0]
