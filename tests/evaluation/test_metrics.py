"""Metrics against scikit-learn, brute force and hand-computed examples."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn import metrics as sk

from unseen.evaluation import metrics

RANKINGS = [metrics.mean_image_average_precision, metrics.mean_average_precision, metrics.ranking_loss]
OF_PREDICTIONS = [metrics.micro_f1, metrics.macro_f1, metrics.hamming_loss]
GOOD = ((1.0, 0.0), (0.0, 1.0))


def random_problem(seed, *, n_images=40, n_labels=9, unknown=0.0, levels=6):
    """Truth and heavily tied scores; every image and label has a positive and a negative."""
    rng = np.random.default_rng(seed)
    Y = (rng.random((n_images, n_labels)) < 0.3).astype(float)
    Y[rng.random(Y.shape) < unknown] = np.nan
    scores = rng.integers(0, levels, Y.shape).astype(float)
    Y[np.arange(n_images), np.arange(n_images) % n_labels] = 1
    Y[np.arange(n_images), (np.arange(n_images) + 1) % n_labels] = 0
    return Y, scores


@st.composite
def problems(draw, unknown=True):
    """A truth over {0, 1, NaN} with a positive and a negative in one image, and scores with many ties."""
    shape = draw(st.tuples(st.integers(1, 6), st.integers(2, 6)))
    values = [0.0, 1.0, np.nan] if unknown else [0.0, 1.0]
    Y = draw(hnp.arrays(float, shape, elements=st.sampled_from(values)))
    Y[0, :2] = [1, 0]
    return Y, draw(hnp.arrays(float, shape, elements=st.integers(-3, 3).map(float)))


def brute_average_precision(y, s):
    """Mean over positives of the precision at that positive's score, over the known entries."""
    y, s = y[~np.isnan(y)], s[~np.isnan(y)]
    return np.mean([np.sum(y[s >= cut]) / np.sum(s >= cut) for cut in s[y == 1]])


def brute_ranking_loss(y, s):
    pairs = [(p, q) for p in np.flatnonzero(y == 1) for q in np.flatnonzero(y == 0)]
    return np.mean([s[p] <= s[q] for p, q in pairs])


class TestRankings:
    def test_miap_of_a_hand_computed_example(self):
        Y = [[1, 0, 1], [0, 1, 0], [0, 0, 0]]
        scores = [[3.0, 2.0, 1.0], [1.0, 2.0, 3.0], [1.0, 2.0, 3.0]]
        # Image 0: (1/1 + 2/3) / 2, image 1: 1/2, image 2 has no positive and is left out.
        assert metrics.mean_image_average_precision(Y, scores) == pytest.approx((5 / 6 + 1 / 2) / 2)

    def test_tied_labels_get_the_worst_rank_of_their_group(self):
        assert metrics.mean_image_average_precision([[1, 0, 0, 0]], [[2, 2, 2, 1]]) == pytest.approx(1 / 3)
        assert metrics.mean_average_precision([[1], [0], [0], [0]], [[2], [2], [2], [1]]) == pytest.approx(1 / 3)
        assert metrics.ranking_loss([[1, 0, 0, 0]], [[2, 2, 2, 1]]) == pytest.approx(2 / 3)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
    def test_equal_to_scikit_learn_with_ties(self, dtype):
        Y, scores = random_problem(0)
        scores = scores.astype(dtype)
        miap = sk.label_ranking_average_precision_score(Y, scores)
        assert metrics.mean_image_average_precision(Y, scores) == pytest.approx(miap)
        assert metrics.ranking_loss(Y, scores) == pytest.approx(sk.label_ranking_loss(Y, scores))
        expected = sk.average_precision_score(Y, scores, average=None)
        np.testing.assert_allclose(metrics.label_average_precision(Y, scores), expected, rtol=1e-12)
        assert metrics.mean_average_precision(Y, scores) == pytest.approx(expected.mean())

    @pytest.mark.parametrize("block", [25, 1 << 20])
    def test_equal_to_brute_force_with_unknowns_whatever_the_block(self, block, monkeypatch):
        monkeypatch.setattr(metrics, "_BLOCK_ENTRIES", block)
        Y, scores = random_problem(1, unknown=0.4)
        miap = np.mean([brute_average_precision(y, s) for y, s in zip(Y, scores, strict=True)])
        mean_ap = np.mean([brute_average_precision(y, s) for y, s in zip(Y.T, scores.T, strict=True)])
        loss = np.mean([brute_ranking_loss(y, s) for y, s in zip(Y, scores, strict=True)])
        assert [metric(Y, scores) for metric in RANKINGS] == pytest.approx([miap, mean_ap, loss])

    def test_labels_without_a_known_positive_are_left_out_of_map(self):
        Y, scores = [[1, 0, np.nan], [0, 0, np.nan]], [[2.0, 1, 1], [1.0, 2, 1]]
        np.testing.assert_array_equal(metrics.label_average_precision(Y, scores), [1.0, np.nan, np.nan])
        assert metrics.mean_average_precision(Y, scores) == 1.0

    def test_images_with_only_one_kind_of_label_are_left_out_of_the_ranking_loss(self):
        Y, scores = np.array([[1, 0], [1, 1], [0, 0], [1, np.nan]]), np.array([[1.0, 2.0]] * 4)
        assert metrics.ranking_loss(Y, scores) == 1.0
        with pytest.raises(ValueError, match=r"^Y_true: "):
            metrics.ranking_loss(Y[1:], scores[1:])

    @pytest.mark.parametrize("metric", RANKINGS)
    @given(problem=problems(), data=st.data())
    @settings(max_examples=30)
    def test_only_the_order_of_the_known_scores_matters(self, metric, problem, data):
        Y, scores = problem
        rows = data.draw(st.permutations(range(Y.shape[0])))
        columns = data.draw(st.permutations(range(Y.shape[1])))
        value = metric(Y, scores)
        assert 0 <= value <= 1
        assert metric(Y[rows][:, columns], scores[rows][:, columns]) == pytest.approx(value)
        assert metric(Y, np.where(np.isnan(Y), 100.0, np.exp(scores) - 7)) == pytest.approx(value)


class TestPredictions:
    @given(problem=problems(), k=st.integers(1, 8))
    def test_top_k_takes_the_best_labels_and_of_tied_ones_the_first(self, problem, k):
        _, scores = problem
        for row, chosen in zip(scores, metrics.top_k(scores, k), strict=True):
            by_score = sorted(range(len(row)), key=lambda column: (-row[column], column))
            assert np.flatnonzero(chosen).tolist() == sorted(by_score[:k])

    @pytest.mark.parametrize("k", [1, 3, 9])
    def test_equal_to_scikit_learn(self, k):
        Y, scores = random_problem(0)
        predicted = metrics.top_k(scores, k)
        assert metrics.micro_f1(Y, predicted) == pytest.approx(sk.f1_score(Y, predicted, average="micro"))
        assert metrics.macro_f1(Y, predicted) == pytest.approx(sk.f1_score(Y, predicted, average="macro"))
        assert metrics.hamming_loss(Y, predicted) == pytest.approx(sk.hamming_loss(Y, predicted))
        six = metrics.precision_recall_f1(Y, predicted)
        assert six.overall_precision == pytest.approx(sk.precision_score(Y, predicted, average="micro"))
        assert six.overall_recall == pytest.approx(sk.recall_score(Y, predicted, average="micro"))

    def test_six_figures_of_a_hand_computed_example(self):
        Y, predicted = [[1, 0, 0], [1, 1, 0]], [[1, 1, 0], [0, 1, 0]]
        # Label 0: hit 1 of 1 predicted, of 2 true; label 1: 1 of 2, of 1; label 2: nothing.
        assert metrics.precision_recall_f1(Y, predicted) == pytest.approx((2 / 3,) * 3 + (1.5 / 3,) * 3)
        assert metrics.macro_f1(Y, predicted) == pytest.approx((2 / 3 + 2 / 3 + 0) / 3)
        assert metrics.precision_recall_f1([[1, 0]], [[0, 0]]) == (0, 0, 0, 0, 0, 0)

    def test_unknown_entries_are_counted_nowhere(self):
        Y = [[1, np.nan, 0, np.nan], [0, 1, np.nan, np.nan]]
        # Top 2 predicts columns 0 and 1; three of these entries are known, two of them are hits.
        predicted = metrics.top_k([[4.0, 3.0, 2.0, 1.0]] * 2, 2)
        assert metrics.precision_recall_f1(Y, predicted)[:2] == pytest.approx((2 / 3, 1.0))
        assert metrics.hamming_loss(Y, predicted) == pytest.approx(1 / 4)
        # F1 of labels 0, 1, 2 is 2/3, 1, 0; label 3 is unknown everywhere and left out.
        assert metrics.macro_f1(Y, predicted) == pytest.approx((2 / 3 + 1) / 3)

    @pytest.mark.parametrize("metric", OF_PREDICTIONS)
    @given(problem=problems(), k=st.integers(1, 4))
    @settings(max_examples=30)
    def test_a_prediction_for_an_unknown_entry_does_not_matter(self, metric, problem, k):
        Y, scores = problem
        predicted = metrics.top_k(scores, k)
        assert 0 <= metric(Y, predicted) <= 1
        assert metric(Y, predicted ^ np.isnan(Y)) == metric(Y, predicted)

    @given(problem=problems(unknown=False), k=st.integers(1, 6))
    def test_hamming_and_micro_f1_of_a_top_k_prediction_determine_each_other(self, problem, k):
        Y, scores = problem
        n_labels, predicted = Y.shape[1], metrics.top_k(scores, k)
        right = (min(k, n_labels) + Y.sum(axis=1).mean()) * (1 - metrics.micro_f1(Y, predicted))
        assert metrics.hamming_loss(Y, predicted) * n_labels == pytest.approx(right)

    def test_hamming_loss_needs_no_positive(self):
        assert metrics.hamming_loss([[0, 0]], [[1, 0]]) == 0.5

    def test_summary_holds_the_four_figures_of_the_tables(self):
        Y, scores = random_problem(0)
        expected = (metric(Y, metrics.top_k(scores, 2)) for metric in OF_PREDICTIONS)
        assert metrics.summary(Y, scores, k=2) == (metrics.mean_image_average_precision(Y, scores), *expected)


class TestSeenUnseen:
    """The curve against its definition: subtract the handicap, take the top k, measure recalls."""

    @staticmethod
    def problem(seed):
        rng = np.random.default_rng(seed)
        Y = (rng.random((12, 7)) < 0.4).astype(float)
        Y[rng.random(Y.shape) < 0.1] = np.nan
        Y[0] = 1
        return Y, np.round(20 * rng.standard_normal(Y.shape))

    @staticmethod
    def recalls(Y, scores, seen, k, handicap):
        hits = metrics.top_k(scores - handicap * seen, k) & (Y == 1)
        return [hits[:, side].sum() / (Y[:, side] == 1).sum() for side in (seen, ~seen)]

    @pytest.mark.parametrize(("n_seen", "k"), [(3, 1), (3, 3), (2, 4), (5, 4), (1, 7), (3, 99)])
    def test_every_point_is_the_recall_at_its_handicap(self, n_seen, k):
        Y, scores = self.problem(k)
        seen = np.arange(7) < n_seen
        curve = metrics.seen_unseen_curve(Y, scores, seen, k)
        # Scores are integers, so half-integers lie inside the intervals of the curve.
        handicaps = [0.0] if k >= 7 else np.nan_to_num(curve.handicap, neginf=-1000.0) + 0.5
        expected = [self.recalls(Y, scores, seen, k, handicap) for handicap in handicaps]
        np.testing.assert_allclose(np.column_stack(curve[1:]), expected)

    def test_auc_of_hand_computed_examples(self):
        Y = [[1, 0, 1, 0]]
        # k = 1: the seen label 0 (score 5) is swapped for the unseen label 2, a straight line (1, 0) to (0, 1).
        assert metrics.seen_unseen_auc(Y, [[5.0, 1.0, 4.0, 2.0]], [0, 1], k=1) == pytest.approx(0.5)
        # k = 2 predicts {0, 1}, then {0, 2}, then {2, 3}: (1, 0), (1, 1), (0, 1).
        assert metrics.seen_unseen_auc(Y, [[5.0, 1.0, 4.0, 2.0]], [0, 1], k=2) == pytest.approx(1.0)
        # The wrong label of each side comes first: {1, 0}, {1, 3}, {3, 2}: (1, 0), (0, 0), (0, 1).
        assert metrics.seen_unseen_auc(Y, [[1.0, 5.0, 2.0, 4.0]], [0, 1], k=2) == 0.0

    @given(seed=st.integers(0, 10_000), k=st.integers(1, 8), n_seen=st.integers(1, 6), shift=st.integers(-50, 50))
    def test_curve_is_monotone_and_area_symmetric_and_blind_to_a_shift(self, seed, k, n_seen, shift):
        Y, scores = self.problem(seed)
        seen = np.arange(7) < n_seen
        curve, area = (f(Y, scores, seen, k) for f in (metrics.seen_unseen_curve, metrics.seen_unseen_auc))
        assert all(
            np.all(np.diff(part) >= 0) for part in (curve.handicap, -curve.seen_recall, curve.unseen_recall)
        )
        assert 0 <= area <= 1 + 1e-12
        assert metrics.seen_unseen_auc(Y, scores, ~seen, k) == pytest.approx(area)
        assert metrics.seen_unseen_auc(Y, scores + shift * seen, np.flatnonzero(seen), k) == pytest.approx(area)

    def test_a_side_without_labels_or_positives_is_refused(self):
        for Y, seen in ([[1, 0]], [0]), ([[1, 1]], [0, 1]):
            with pytest.raises(ValueError, match=r"^seen: "):
                metrics.seen_unseen_auc(Y, [[1.0, 2.0]], seen)

    def test_harmonic_mean(self):
        assert metrics.harmonic_mean(0.5, 1.0) == pytest.approx(2 / 3)
        assert metrics.harmonic_mean(0.0, 0.0) == 0.0


@pytest.mark.parametrize("metric", [*RANKINGS, metrics.summary])
@pytest.mark.parametrize(
    ("Y", "scores", "argument"),
    [
        (GOOD, ((0.1, np.nan), (0.3, 0.4)), "scores"),
        (GOOD, ((0.1, np.inf), (-np.inf, 0.4)), "scores"),
        (GOOD, ((0.1,), (0.3,)), "scores"),
        (((1, -1), (-1, 1)), GOOD, "Y_true"),
        (((0, 0), (0, np.nan)), GOOD, "Y_true"),
        ((1, 0), (0.1, 0.2), "Y_true"),
        (np.empty((0, 2)), np.empty((0, 2)), "Y_true"),
    ],
)
def test_bad_rankings_are_refused_by_name(metric, Y, scores, argument):
    with pytest.raises(ValueError, match=f"^{argument}: "):
        metric(Y, scores)


@pytest.mark.parametrize("predicted", [((1, np.nan), (0, 1)), ((1, 2), (0, 1)), ((1, 0),)])
def test_bad_predictions_are_refused_by_name(predicted):
    for metric in (*OF_PREDICTIONS, metrics.precision_recall_f1):
        with pytest.raises(ValueError, match=r"^Y_pred: "):
            metric(GOOD, predicted)


@pytest.mark.parametrize("k", [0, 2.0, True, None])
def test_k_must_be_a_positive_integer(k):
    with pytest.raises(ValueError, match=r"^k: "):
        metrics.top_k(GOOD, k)
