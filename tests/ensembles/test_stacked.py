from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from unseen import TAEP, make_tagged_scenes
from unseen.ensembles import stacked
from unseen.ensembles import Consensus, Stacked
from unseen.ensembles._calibration import LEAST_SLOPE, LogOdds, fit_log_odds, groups, typical_intercept


@pytest.fixture(scope="module")
def data():
    scenes = make_tagged_scenes(300, 40, n_features=40, n_dims=16, random_state=0)
    return replace(scenes, X_train=scenes.X_train.astype(float), X_test=scenes.X_test.astype(float))


@pytest.fixture(scope="module", name="Y")
def annotations(data):
    return data.Y_train[:, data.seen]


@pytest.fixture(scope="module")
def model(data, Y):
    return Stacked(tol=1e-4).fit(data.X_train, Y, data.seen_labels, data.unseen_labels)


def roots(X):
    return np.sign(X) * np.sqrt(np.abs(X))


@pytest.fixture(scope="module")
def taep(data, Y):
    model = TAEP(beta=1.0, gamma=0.0, lam=0.0, tol=1e-4)
    return model.fit(roots(data.X_train), Y, data.seen_labels, data.unseen_labels)


class TestScores:
    def test_seen_labels_are_ranked_as_by_taep(self, data, model, taep):
        slope, intercept = model.seen_odds_
        expected = slope * taep.decision_function(roots(data.X_test), "seen") + intercept
        assert slope > 0
        np.testing.assert_allclose(
            model.decision_function(data.X_test, "seen"), expected, atol=0.02 * expected.std()
        )

    def test_unseen_labels_are_ranked_as_by_consensus(self, data, Y, model):
        consensus = Consensus().fit(data.X_train, Y, data.seen_labels, data.unseen_labels)
        own = consensus.decision_function(data.X_test, "unseen")
        found = model.decision_function(data.X_test, "unseen")
        moved = found - model.unseen_odds_[0] * own
        np.testing.assert_allclose(moved - moved[:, :1], 0.0, atol=1e-9)

    def test_the_surer_a_seen_label_the_lower_all_others(self, data, model, taep):
        assert model.unseen_odds_[1] < 0
        unseen = model._embed(data.unseen_labels.vectors, "labels")
        own = model.unseen_part_.decision_function(model._powered(data.X_test), unseen)
        moved = (model.decision_function(data.X_test, "unseen") - model.unseen_odds_[0] * own)[:, 0]
        surest = taep.decision_function(roots(data.X_test), "seen").max(axis=1)
        assert np.corrcoef(moved, surest)[0, 1] < -0.999

    def test_a_seen_label_is_known_by_its_vector_up_to_rounding(self, data, model):
        vectors = data.seen_labels.vectors
        shaken = vectors * (1.0 + 1e-7 * np.random.default_rng(0).normal(size=vectors.shape))
        np.testing.assert_array_equal(
            model.decision_function(data.X_test, shaken), model.decision_function(data.X_test, "seen")
        )

    def test_the_parts_are_what_they_say(self, model):
        assert isinstance(model.seen_part_, TAEP)
        assert isinstance(model.unseen_part_, Consensus)
        assert model.seen_part_.relative_gap_ <= 1e-4


class TestCalibration:
    def test_held_out_probabilities_are_about_right(self):
        big = make_tagged_scenes(1500, 1500, random_state=2)
        model = Stacked().fit(big.X_train, big.Y_train[:, big.seen], big.seen_labels, big.unseen_labels)
        for word, columns in (("seen", big.seen), ("unseen", big.unseen)):
            probability = expit(model.decision_function(big.X_test, word)).mean()
            assert probability == pytest.approx(big.Y_test[:, columns].mean(), abs=0.06)

    def test_without_vectors_it_is_taep(self, data, Y):
        model = Stacked(power=1.0, tol=1e-4).fit(data.X_train, Y)
        taep = TAEP(beta=1.0, gamma=0.0, lam=0.0, tol=1e-4).fit(data.X_train, Y)
        np.testing.assert_allclose(
            model.decision_function(data.X_test), taep.decision_function(data.X_test), atol=1e-9
        )

    def test_a_single_seen_label_leaves_the_neutral_scale(self, data, Y):
        seen = data.seen_labels.vectors[:1]
        model = Stacked(center=False).fit(data.X_train, Y[:, :1], seen, data.unseen_labels.vectors)
        assert model.seen_odds_.tolist() == [1.0, 0.0]
        assert model.unseen_odds_.tolist() == [1.0, 0.0, -model.unseen_part_.threshold_]

    def test_labels_without_images_do_no_harm(self, data, Y):
        Y = Y.astype(float)
        Y[:, 0], Y[:, 1] = 0.0, np.nan
        model = Stacked().fit(data.X_train, Y, data.seen_labels, data.unseen_labels)
        assert np.isfinite(model.decision_function(data.X_test, "all")).all()

    def test_few_images_suffice(self, data, Y):
        rows = np.flatnonzero(Y.any(axis=1))[:4]
        model = Stacked().fit(data.X_train[rows], Y[rows], data.seen_labels, data.unseen_labels)
        assert np.isfinite(model.decision_function(data.X_test, "all")).all()

    def test_what_is_scored_was_not_fitted(self, data, Y, monkeypatch):
        T, M = np.where(Y == 1, 1, -1).astype(np.int8), data.seen_labels.vectors
        for most, sizes in ((2000, {60}), (20, {20})):
            monkeypatch.setattr(stacked, "MOST_SCORED", most)
            found = list(stacked._folds(data.X_train, T, M, 5, normalize=True))
            assert len(found) == 5
            assert sum((~trained).sum() for trained, _, _ in found) == 12
            assert {len(scored) for _, _, scored in found} == sizes
            for trained, fitted, scored in found:
                assert not set(fitted) & set(scored)
                only_held_out = ~Y[fitted][:, trained].any(axis=1) & Y[fitted].any(axis=1)
                assert not only_held_out.any()

    @pytest.mark.parametrize("n_splits", [1, 0, 2.5, "two"])
    def test_the_number_of_groups_is_checked(self, data, Y, n_splits):
        with pytest.raises(
            ValueError, match=rf"^n_splits: {n_splits!r} was given\. Pass an integer of at least 2"
        ):
            Stacked(n_splits=n_splits).fit(data.X_train, Y, data.seen_labels)


@pytest.fixture(scope="module")
def entries():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(4000, 2)) * [0.5, 3.0]
    targets = np.where(rng.random(4000) < expit(features @ [2.0, -0.4] - 1.0), 1, -1).astype(np.int8)
    return features, targets


class TestLogOdds:
    def test_it_is_logistic_regression(self, entries):
        features, targets = entries
        odds = fit_log_odds(list(features.T), targets)
        expected = LogisticRegression(C=1.0, tol=1e-10, max_iter=1000).fit(features, targets)
        np.testing.assert_allclose(odds.coefficients, expected.coef_[0], atol=1e-4)
        assert odds.intercept == pytest.approx(expected.intercept_[0], abs=1e-4)

    def test_unknown_entries_are_left_out(self, entries):
        features, targets = entries
        blank = np.where(np.arange(4000) % 3 == 0, 0, targets).astype(np.int8)
        kept = blank != 0
        some, whole = fit_log_odds(list(features.T), blank), fit_log_odds(list(features[kept].T), targets[kept])
        np.testing.assert_allclose(some.coefficients, whole.coefficients, atol=1e-9)

    def test_a_score_that_misleads_keeps_its_order_and_novelty_never_speaks_for_a_label(self, entries):
        features, targets = entries
        odds = fit_log_odds([-features[:, 0], -features[:, 1]], targets)
        assert odds.coefficients[0] == pytest.approx(LEAST_SLOPE)
        assert odds.coefficients[1] == 0.0

    @pytest.mark.parametrize("kind", [-1, 0, 1])
    def test_entries_of_one_kind_teach_nothing(self, kind):
        assert fit_log_odds([np.arange(3.0)], np.full(3, kind, dtype=np.int8)) is None

    def test_the_typical_intercept_is_not_that_of_the_most_frequent_label(self):
        rng = np.random.default_rng(0)
        intercepts = np.array([-3.0, -2.5, -2.0, 3.0, -2.2])
        labels = np.repeat(np.arange(5), 20000)
        score = rng.normal(size=labels.size)
        targets = np.where(rng.random(labels.size) < expit(score + intercepts[labels]), 1, -1).astype(np.int8)
        found = typical_intercept(LogOdds(np.ones(1), 9.0), [score], targets, labels)
        assert found == pytest.approx(-2.2, abs=0.1)

    def test_labels_never_shown_and_scores_that_never_vary_have_finite_intercepts(self):
        targets, labels = np.array([-1, -1, -1, 1], dtype=np.int8), np.array([0, 0, 1, 1])
        for score in (np.array([0.0, 1.0, 2.0, 3.0]), np.zeros(4)):
            assert np.isfinite(typical_intercept(LogOdds(np.ones(1), 0.0), [score], targets, labels))


def test_groups_separate_neighbours_and_follow_the_items():
    values = np.array([0.3, 0.1, 0.9, 0.5, 0.7])
    group = groups(np.argsort(values), 2)
    assert group.tolist() == [1, 0, 0, 0, 1]
    order = np.array([4, 2, 0, 1, 3])
    np.testing.assert_array_equal(groups(np.argsort(values[order]), 2), group[order])
