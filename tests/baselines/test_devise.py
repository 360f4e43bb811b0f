"""DeViSE: one map, a convex ranking objective; and the pieces that it shares with LatEm."""

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.data import needs_voc, voc2007

from unseen import make_tagged_scenes
from unseen.baselines._ranking_kernels import pair_loss
from unseen.baselines._sgd import descend, objective, ranking_problem
from unseen.baselines._threshold import threshold_targets
from unseen.baselines.devise import DeViSE


@pytest.fixture(scope="module")
def data():
    return make_tagged_scenes(120, 30, n_features=12, n_dims=16, random_state=1)


def fit(data: Any, **parameters: Any) -> DeViSE:
    return DeViSE(**parameters).fit(data.X_train, data.Y_train[:, data.seen], data.seen_labels)


def targets(data: Any) -> np.ndarray:
    return (2 * data.Y_train[:, data.seen] - 1).astype(np.int8)


rows = st.lists(
    st.tuples(st.sampled_from([-1, 0, 1]), st.integers(-30, 30).map(lambda s: s / 8)), min_size=1, max_size=7
)


class TestPairLoss:
    @given(rows)
    def test_it_is_the_mean_or_the_largest_hinge_over_the_pairs(self, row):
        t, s = np.array([t for t, _ in row], dtype=np.int8), np.array([s for _, s in row])
        hinges = [max(0.0, 1 - s[p] + s[n]) for p in np.flatnonzero(t > 0) for n in np.flatnonzero(t < 0)] or [0.0]
        slope = np.empty(len(s))
        assert pair_loss(t, s, False, slope) == pytest.approx(np.mean(hinges))
        assert pair_loss(t, s, True, slope) == pytest.approx(np.max(hinges))

    @pytest.mark.parametrize("worst", [False, True])
    def test_its_slope_agrees_with_finite_differences(self, worst):
        rng = np.random.default_rng(0)
        for _ in range(20):
            t, s = rng.integers(-1, 2, 8).astype(np.int8), rng.standard_normal(8)
            slope, ignored = np.empty(8), np.empty(8)
            pair_loss(t, s, worst, slope)
            steps = 1e-6 * np.eye(8)
            numeric = [pair_loss(t, s + h, worst, ignored) - pair_loss(t, s - h, worst, ignored) for h in steps]
            np.testing.assert_allclose(slope, np.array(numeric) / 2e-6, atol=1e-6)
            assert not slope[t == 0].any()


class TestOptimum:
    @pytest.mark.parametrize("pairs", ["all", "worst"])
    def test_the_descent_comes_near_the_optimum_of_a_solver(self, data, pairs):
        model = fit(data, pairs=pairs, alpha=0.01, max_iter=200, center=False)
        X = data.X_train.astype(np.float64)
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        M = data.seen_labels.vectors / np.linalg.norm(data.seen_labels.vectors, axis=1, keepdims=True)
        W = cp.Variable((12, 16))
        losses = []
        paired = [t for t in targets(data) if t.min() < 0 < t.max()]
        for x, t in zip(X, targets(data), strict=True):
            positive, negative = np.flatnonzero(t > 0), np.flatnonzero(t < 0)
            if len(positive) and len(negative):
                gaps = np.array([M[p] - M[n] for p in positive for n in negative])
                hinges = cp.pos(1 - gaps @ (x @ W))
                losses.append(cp.sum(hinges) / len(gaps) if pairs == "all" else cp.max(hinges))
        best = cp.Problem(cp.Minimize(cp.sum(cp.hstack(losses)) / len(paired) + 0.005 * cp.sum_squares(W)))
        best.solve(solver=cp.CLARABEL)
        assert best.value * (1 - 1e-6) <= model.objective_ <= 1.005 * best.value

    def test_the_objective_falls(self, data):
        trace = fit(data, max_iter=30).objective_trace_
        assert len(trace) == 30
        assert trace[-1] < trace[4] < trace[0]

    def test_the_objective_is_that_of_the_scores(self, data):
        model = fit(data, alpha=0.1)
        scores, T = model._scores(data.X_train, model._embed(data.seen_labels.vectors, "seen")), targets(data)
        slope = np.empty(T.shape[1])
        paired = (T > 0).any(axis=1) & (T < 0).any(axis=1)
        losses = [pair_loss(t, s, False, slope) for t, s in zip(T[paired], scores[paired], strict=True)]
        assert model.objective_ == pytest.approx(np.mean(losses) + 0.05 * np.sum(model.visual_maps_**2), rel=1e-5)

    def test_a_start_beyond_the_largest_useful_step_is_cut(self, data):
        for storage in (np.asarray, sp.csr_array):
            model = DeViSE(alpha=50.0, learning_rate=1e6)
            model.fit(storage(data.X_train), data.Y_train[:, data.seen], data.seen_labels)
            assert model.objective_ <= 1.01

    @needs_voc
    def test_real_images_are_tagged_with_unseen_labels(self):
        from unseen.evaluation.protocol import evaluate

        train, zero_shot, _, seen, unseen = voc2007()
        model = DeViSE().fit(train.X, train.Y, seen, unseen)
        assert evaluate(model.decision_function(zero_shot.X, "unseen"), zero_shot).miap > 0.6


class TestInvariances:
    def test_units_are_immaterial(self, data):
        scores = fit(data, normalize=False, center=False)._scores(data.X_test, data.unseen_labels.vectors)
        Y, M = data.Y_train[:, data.seen], data.seen_labels.vectors
        model = DeViSE(normalize=False, center=False).fit(1024 * data.X_train, Y, M / 8)
        again = model._scores(1024 * data.X_test, data.unseen_labels.vectors / 8)
        np.testing.assert_allclose(again, scores, atol=1e-4 * scores.std())

    def test_dense_and_sparse_descents_are_one(self, data):
        T = targets(data)
        found = []
        for X in (data.X_train.astype(np.float64), sp.csr_array(data.X_train.astype(np.float64))):
            problem = ranking_problem(X, T, data.seen_labels.vectors, alpha=0.5, worst=False, normalize=True)
            run = descend(problem, np.random.default_rng(0), n_maps=3, prune=False, learning_rate=1.0, max_iter=9)
            found.append(run.maps)
        np.testing.assert_allclose(found[0], found[1], rtol=1e-9, atol=1e-12)

    def test_another_seed_finds_the_same_optimum(self, data):
        scores = [
            fit(data, alpha=0.01, max_iter=300, random_state=seed).decision_function(data.X_test)
            for seed in (0, 1)
        ]
        assert np.abs(scores[0] - scores[1]).max() > 0
        np.testing.assert_allclose(scores[0], scores[1], atol=0.05 * scores[0].std())

    def test_blank_labels_teach_nothing(self, data):
        """A column of which nothing is known leaves the scores of the others as they were."""
        Y = data.Y_train[:, data.seen].astype(float)
        kept = np.arange(Y.shape[1]) != 4
        hidden = np.where(kept, Y, np.nan)
        one = DeViSE(alpha=0.01, max_iter=300, center=False).fit(data.X_train, hidden, data.seen_labels.vectors)
        two = DeViSE(alpha=0.01, max_iter=300, center=False)
        two.fit(data.X_train, Y[:, kept], data.seen_labels.vectors[kept])
        expected = two.decision_function(data.X_test, data.unseen_labels)
        scores = one.decision_function(data.X_test, data.unseen_labels)
        np.testing.assert_allclose(scores, expected, atol=0.05 * expected.std())


class TestDegenerate:
    def test_a_label_that_all_images_show_or_lack_is_no_obstacle(self, data):
        Y = data.Y_train[:, data.seen].copy()
        Y[:, 0], Y[:, 1] = 1, 0
        scores = DeViSE().fit(data.X_train, Y, data.seen_labels).decision_function(data.X_test)
        assert np.isfinite(scores).all()
        assert (scores[:, 0] > scores[:, 1]).all()

    def test_without_pairs_there_is_only_the_threshold(self, data):
        y = data.Y_train[:, data.seen][:, :1]
        model = DeViSE(center=False).fit(data.X_train, y, data.seen_labels.vectors[:1])
        assert not model.visual_maps_.any()
        assert np.mean(model.predict(data.X_train) == y) > 0.7

    def test_images_without_features_are_scored(self, data):
        X = np.vstack([np.zeros((3, 12)), data.X_train[3:]])
        for normalize in (True, False):
            model = DeViSE(normalize=normalize).fit(X, data.Y_train[:, data.seen], data.seen_labels)
            assert np.isfinite(model.decision_function(X)).all()

    def test_one_image_is_enough_to_fit(self, data):
        model = DeViSE().fit(data.X_train[:1], [[1, 0] + [np.nan] * 10], data.seen_labels)
        scores = model.decision_function(data.X_train[:1])[0]
        assert scores[0] > 0 > scores[1]


class TestThreshold:
    def test_it_lies_between_the_labels_or_beside_the_only_ones(self):
        scores = np.array([[3.0, 1.0, 9.0], [3.0, 1.0, 9.0], [3.0, 1.0, 9.0]])
        T = np.array([[1, -1, 0], [1, 1, 0], [-1, -1, 0]], dtype=np.int8)
        np.testing.assert_allclose(threshold_targets(scores, T), [2.0, 0.0, 4.0])

    @settings(max_examples=10)
    @given(st.integers(0, 100))
    def test_the_ranking_of_an_image_is_that_of_the_scores(self, seed):
        data = make_tagged_scenes(40, 5, n_features=6, n_dims=14, random_state=seed)
        model = fit(data, max_iter=3)
        M = model._embed(data.unseen_labels.vectors, "labels")
        margins = model.decision_function(data.X_test, data.unseen_labels)
        np.testing.assert_allclose(margins + model.threshold(data.X_test)[:, None], model._scores(data.X_test, M))

    def test_training_images_are_tagged_well_above_chance(self, data):
        Y = data.Y_train[:, data.seen]
        predicted = fit(data).predict(data.X_train)
        f1 = 2 * np.sum(predicted * Y) / (predicted.sum() + Y.sum())
        assert f1 > 1.3 * 2 * Y.mean() / (1 + Y.mean())


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"alpha": -1.0}, r"^alpha: -1\.0 was given\. Pass a finite number >= 0"),
        ({"learning_rate": 0}, r"^learning_rate: 0 was given\. Pass a finite number > 0"),
        ({"max_iter": 0}, r"^max_iter: 0 was given\. Pass an integer of at least 1"),
        ({"pairs": "some"}, r"^pairs: 'some' was given\. Choose one of 'all', 'worst'"),
        ({"random_state": "x"}, r"^random_state: 'x' was given"),
    ],
    ids=repr,
)
def test_parameters_are_checked(data, parameters, message):
    with pytest.raises(ValueError, match=message):
        fit(data, **parameters)


def test_each_epoch_can_be_watched(data, capsys):
    fit(data, max_iter=2, verbose=1)
    assert capsys.readouterr().out.startswith("epoch 1: objective ")


def test_the_objective_of_no_map_is_the_margin(data):
    problem = ranking_problem(
        data.X_train, targets(data), data.seen_labels.vectors, alpha=1.0, worst=False, normalize=True
    )
    value, shares = objective(problem, np.zeros((12, problem.C.shape[1]), np.float32))
    assert value == pytest.approx(1.0)
    assert shares.tolist() == [1.0]


def test_a_label_unlike_every_seen_one_is_explained_by_the_threshold_alone(data):
    model = fit(data, center=False)
    apart = np.linalg.svd(data.seen_labels.vectors)[2][-1]  # orthogonal to the 12 seen labels in 16 dimensions
    why = model.explain(data.X_test[0], apart)
    assert [part.value for part in why.parts] == pytest.approx([0.0] * 12, abs=1e-9)
    assert why.score == pytest.approx(why.offset, abs=1e-9)
