"""Rankings and 0/1 metrics against scikit-learn, brute force and hand-computed examples."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn import metrics as sk

from unseen.evaluation import _ranking, metrics

RANKINGS = [metrics.mean_image_average_precision, metrics.mean_average_precision, metrics.ranking_loss]
PREDICTION_METRICS = [metrics.micro_f1, metrics.macro_f1, metrics.hamming_loss]
AT_K = [metrics.precision_at_k, metrics.recall_at_k, metrics.f1_at_k]


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
        assert metrics.mean_image_average_precision([[1, 0, 0, 0]], [[2.0, 2.0, 2.0, 1.0]]) == pytest.approx(1 / 3)
        assert metrics.mean_average_precision([[1], [0], [0], [0]], [[2], [2], [2], [1]]) == pytest.approx(1 / 3)
        assert metrics.ranking_loss([[1, 0, 0, 0]], [[2.0, 2.0, 2.0, 1.0]]) == pytest.approx(2 / 3)

    @pytest.mark.parametrize("seed", range(3))
    @pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
    def test_equal_to_scikit_learn_with_ties(self, seed, dtype):
        Y, scores = random_problem(seed)
        scores = scores.astype(dtype)
        miap = sk.label_ranking_average_precision_score(Y, scores)
        assert metrics.mean_image_average_precision(Y, scores) == pytest.approx(miap)
        assert metrics.ranking_loss(Y, scores) == pytest.approx(sk.label_ranking_loss(Y, scores))
        mean, per_label = metrics.mean_average_precision(Y, scores, return_per_label=True)
        expected = sk.average_precision_score(Y, scores, average=None)
        np.testing.assert_allclose(per_label, expected, rtol=1e-12)
        assert mean == pytest.approx(expected.mean())

    @pytest.mark.parametrize("seed", range(3))
    def test_equal_to_brute_force_with_unknowns(self, seed):
        Y, scores = random_problem(seed, unknown=0.4)
        miap = np.mean([brute_average_precision(y, s) for y, s in zip(Y, scores, strict=True)])
        mean_ap = np.mean([brute_average_precision(y, s) for y, s in zip(Y.T, scores.T, strict=True)])
        loss = np.mean([brute_ranking_loss(y, s) for y, s in zip(Y, scores, strict=True)])
        assert metrics.mean_image_average_precision(Y, scores) == pytest.approx(miap)
        assert metrics.mean_average_precision(Y, scores) == pytest.approx(mean_ap)
        assert metrics.ranking_loss(Y, scores) == pytest.approx(loss)

    @pytest.mark.parametrize("metric", RANKINGS)
    def test_blocks_do_not_change_the_value(self, metric, monkeypatch):
        Y, scores = random_problem(0, unknown=0.2)
        whole = metric(Y, scores)
        monkeypatch.setattr(_ranking, "_BLOCK_ENTRIES", 25)
        assert metric(Y, scores) == pytest.approx(whole)

    def test_labels_without_a_known_positive_are_left_out_of_map(self):
        Y = np.array([[1, 0, np.nan], [0, 0, np.nan]])
        mean, per_label = metrics.mean_average_precision(Y, [[2.0, 1, 1], [1.0, 2, 1]], return_per_label=True)
        assert mean == 1.0
        np.testing.assert_array_equal(per_label, [1.0, np.nan, np.nan])

    def test_images_with_only_one_kind_of_label_are_left_out_of_the_ranking_loss(self):
        Y, scores = [[1, 0], [1, 1], [0, 0], [1, np.nan]], [[2.0, 1.0], [1.0, 2.0], [1.0, 2.0], [1.0, 2.0]]
        assert metrics.ranking_loss(Y, scores) == 0.0
        with pytest.raises(ValueError, match="Y_true: no image has both"):
            metrics.ranking_loss(Y[1:], scores[1:])

    @pytest.mark.parametrize("metric", RANKINGS)
    @given(problem=problems(), data=st.data())
    @settings(max_examples=40)
    def test_invariant_to_permutation_and_to_monotone_transformation(self, metric, problem, data):
        Y, scores = problem
        rows = data.draw(st.permutations(range(Y.shape[0])))
        columns = data.draw(st.permutations(range(Y.shape[1])))
        value = metric(Y, scores)
        assert 0 <= value <= 1
        assert metric(Y[rows][:, columns], scores[rows][:, columns]) == pytest.approx(value)
        assert metric(Y, np.exp(scores) - 7) == pytest.approx(value)

    @pytest.mark.parametrize("metric", RANKINGS)
    @given(problem=problems())
    @settings(max_examples=40)
    def test_the_score_of_an_unknown_entry_does_not_matter(self, metric, problem):
        Y, scores = problem
        assert metric(Y, np.where(np.isnan(Y), 100.0, scores)) == pytest.approx(metric(Y, scores))


class TestPredictions:
    @given(problem=problems(), k=st.integers(1, 8))
    def test_top_k_is_the_head_of_a_stable_sort(self, problem, k):
        _, scores = problem
        expected = np.zeros(scores.shape, dtype=bool)
        np.put_along_axis(expected, np.argsort(-scores, axis=1, kind="stable")[:, :k], True, axis=1)
        np.testing.assert_array_equal(metrics.top_k(scores, k), expected)

    def test_threshold_is_strict_and_may_differ_between_images(self):
        scores = np.array([[0.0, 1.0], [0.0, 1.0]])
        np.testing.assert_array_equal(metrics.above_threshold(scores), [[False, True], [False, True]])
        np.testing.assert_array_equal(metrics.above_threshold(scores, [-1, 1]), [[True, True], [False, False]])

    @pytest.mark.parametrize("threshold", [[0.0, 0.0, 0.0], [[0.0], [0.0]], np.nan])
    def test_threshold_of_a_wrong_shape_or_nan_is_refused(self, threshold):
        with pytest.raises(ValueError, match="threshold: "):
            metrics.above_threshold([[0.0, 1.0], [0.0, 1.0]], threshold)


class TestPredictionMetrics:
    @pytest.mark.parametrize("seed", range(3))
    @pytest.mark.parametrize("k", [1, 3, 9])
    def test_equal_to_scikit_learn(self, seed, k):
        Y, scores = random_problem(seed)
        predicted = metrics.top_k(scores, k)
        assert metrics.micro_f1(Y, predicted) == pytest.approx(sk.f1_score(Y, predicted, average="micro"))
        assert metrics.macro_f1(Y, predicted) == pytest.approx(sk.f1_score(Y, predicted, average="macro"))
        assert metrics.hamming_loss(Y, predicted) == pytest.approx(sk.hamming_loss(Y, predicted))
        assert metrics.precision_at_k(Y, scores, k) == pytest.approx(
            sk.precision_score(Y, predicted, average="micro")
        )
        assert metrics.recall_at_k(Y, scores, k) == pytest.approx(sk.recall_score(Y, predicted, average="micro"))
        assert metrics.f1_at_k(Y, scores, k) == pytest.approx(sk.f1_score(Y, predicted, average="micro"))

    def test_six_figures_of_a_hand_computed_example(self):
        Y = [[1, 0, 0], [1, 1, 0]]
        predicted = [[1, 1, 0], [0, 1, 0]]
        # Label 0: hit 1 of 1 predicted, of 2 true; label 1: 1 of 2, of 1; label 2: nothing.
        six = metrics.precision_recall_f1(Y, predicted)
        assert six[:3] == pytest.approx((2 / 3, 2 / 3, 2 / 3))
        assert six[3:] == pytest.approx((1.5 / 3, 1.5 / 3, 1.5 / 3))
        assert metrics.macro_f1(Y, predicted) == pytest.approx((2 / 3 + 2 / 3 + 0) / 3)

    def test_predicting_nothing_is_worth_zero(self):
        assert metrics.precision_recall_f1([[1, 0]], [[0, 0]]) == (0, 0, 0, 0, 0, 0)

    def test_unknown_entries_are_counted_nowhere(self):
        Y = [[1, np.nan, 0, np.nan], [0, 1, np.nan, np.nan]]
        scores = [[4.0, 3.0, 2.0, 1.0], [4.0, 3.0, 2.0, 1.0]]
        # Top 2 predicts columns 0 and 1; three of these entries are known, two of them are hits.
        predicted = metrics.top_k(scores, 2)
        assert metrics.precision_at_k(Y, scores, 2) == pytest.approx(2 / 3)
        assert metrics.recall_at_k(Y, scores, 2) == 1.0
        assert metrics.hamming_loss(Y, predicted) == pytest.approx(1 / 4)
        # F1 of labels 0, 1, 2 is 2/3, 1, 0; label 3 is unknown everywhere and left out.
        assert metrics.macro_f1(Y, predicted) == pytest.approx((2 / 3 + 1) / 3)

    @pytest.mark.parametrize("metric", PREDICTION_METRICS)
    @given(problem=problems(), k=st.integers(1, 4))
    @settings(max_examples=40)
    def test_a_prediction_for_an_unknown_entry_does_not_matter(self, metric, problem, k):
        Y, scores = problem
        predicted = metrics.top_k(scores, k)
        value = metric(Y, predicted)
        assert 0 <= value <= 1
        assert metric(Y, predicted ^ np.isnan(Y)) == value

    @given(problem=problems(unknown=False), k=st.integers(1, 6))
    def test_hamming_and_micro_f1_of_a_top_k_prediction_determine_each_other(self, problem, k):
        Y, scores = problem
        n_labels = Y.shape[1]
        predicted = metrics.top_k(scores, k)
        labels_per_image = Y.sum(axis=1).mean()
        left = metrics.hamming_loss(Y, predicted) * n_labels
        right = (min(k, n_labels) + labels_per_image) * (1 - metrics.micro_f1(Y, predicted))
        assert left == pytest.approx(right)

    @given(problem=problems(), k=st.integers(1, 6))
    def test_f1_is_the_harmonic_mean_of_precision_and_recall(self, problem, k):
        precision, recall, f1 = (metric(*problem, k) for metric in AT_K)
        assert f1 == pytest.approx(metrics.harmonic_mean(precision, recall))

    def test_hamming_loss_needs_no_positive(self):
        assert metrics.hamming_loss([[0, 0]], [[1, 0]]) == 0.5

    def test_summary_holds_the_four_figures_of_the_tables(self):
        Y, scores = random_problem(0)
        predicted = metrics.top_k(scores, 2)
        assert metrics.summary(Y, scores, k=2)._asdict() == {
            "miap": metrics.mean_image_average_precision(Y, scores),
            "micro_f1": metrics.micro_f1(Y, predicted),
            "macro_f1": metrics.macro_f1(Y, predicted),
            "hamming": metrics.hamming_loss(Y, predicted),
        }


class TestValidation:
    GOOD_Y = ((1.0, 0.0), (0.0, 1.0))
    GOOD_SCORES = ((0.1, 0.2), (0.3, 0.4))

    @pytest.mark.parametrize("metric", [*RANKINGS, metrics.summary])
    @pytest.mark.parametrize(
        ("Y", "scores", "message"),
        [
            (GOOD_Y, ((0.1, np.nan), (0.3, 0.4)), "scores: 1 entries are NaN or infinite"),
            (GOOD_Y, ((0.1, np.inf), (-np.inf, 0.4)), "scores: 2 entries are NaN or infinite"),
            (GOOD_Y, ((0.1,), (0.3,)), r"scores: its shape \(2, 1\) differs from the shape \(2, 2\)"),
            (GOOD_Y, (("a", "b"), ("c", "d")), "scores: expected numbers"),
            (((1, -1), (-1, 1)), GOOD_SCORES, r"Y_true: values other than 0, 1 and NaN were given \(-1\)"),
            (((1, 0.5), (np.nan, 1)), GOOD_SCORES, r"Y_true: values other than .* \(0.5\)"),
            (((0, 0), (0, np.nan)), GOOD_SCORES, "Y_true: none of its 4 entries is positive"),
            ((1, 0), (0.1, 0.2), r"Y_true: expected a matrix .* shape \(2,\)"),
            (np.empty((0, 2)), np.empty((0, 2)), r"Y_true: empty, its shape is \(0, 2\)"),
        ],
    )
    def test_bad_rankings_are_refused_by_name(self, metric, Y, scores, message):
        with pytest.raises(ValueError, match=message):
            metric(Y, scores)

    @pytest.mark.parametrize("metric", [*PREDICTION_METRICS, metrics.precision_recall_f1])
    @pytest.mark.parametrize(
        ("predicted", "message"),
        [
            (((1, np.nan), (0, 1)), "Y_pred: 1 entries are NaN"),
            (((1, 2), (0, 1)), r"Y_pred: values other than 0, 1 and NaN were given \(2\)"),
            (((1, 0),), r"Y_pred: its shape \(1, 2\) differs"),
        ],
    )
    def test_bad_predictions_are_refused_by_name(self, metric, predicted, message):
        with pytest.raises(ValueError, match=message):
            metric(self.GOOD_Y, predicted)

    @pytest.mark.parametrize("k", [0, -1, 2.0, True, None])
    def test_k_must_be_a_positive_integer(self, k):
        with pytest.raises(ValueError, match=f"k: {k} was given"):
            metrics.top_k(self.GOOD_SCORES, k)

    def test_hamming_loss_of_nothing_known_is_refused(self):
        with pytest.raises(ValueError, match="Y_true: every entry is NaN"):
            metrics.hamming_loss([[np.nan]], [[0]])
