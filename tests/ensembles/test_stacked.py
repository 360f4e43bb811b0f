"""Stacked: two methods on one scale, learned from labels and images that are held out in turn."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from tests.methods_data import exact_scenes, fitted

from unseen import TAEP, make_tagged_scenes
from unseen.base import TrainingProblem
from unseen.ensembles import Consensus, Stacked, stacked
from unseen.ensembles.stacked import LEAST_SLOPE, deal, fit_log_odds, folds_of, typical_intercept


@pytest.fixture(scope="module")
def data():
    return exact_scenes(300, 40)


@pytest.fixture(scope="module")
def model(data):
    return fitted(Stacked(tol=1e-4), data)


@pytest.fixture(scope="module")
def taep_scores(data):
    def roots(X):
        return np.sign(X) * np.sqrt(np.abs(X))

    model = fitted(TAEP(beta=1.0, gamma=0.0, lam=0.0, tol=1e-4), data, X=roots(data.X_train))
    return model.decision_function(roots(data.X_test), "seen")


class TestScores:
    def test_seen_labels_are_ranked_as_by_taep(self, data, model, taep_scores):
        slope, intercept = model.seen_odds_
        found = model.decision_function(data.X_test, "seen")
        np.testing.assert_allclose(found, slope * taep_scores + intercept, atol=0.02 * found.std())
        assert slope > 0
        assert model.seen_part_.relative_gap_ <= 1e-4

    def test_unseen_labels_are_ranked_as_by_consensus_and_lowered_by_the_surest_seen_one(
        self, data, model, taep_scores
    ):
        own = fitted(Consensus(), data).decision_function(data.X_test, "unseen")
        moved = model.decision_function(data.X_test, "unseen") - model.unseen_odds_[0] * own
        np.testing.assert_allclose(moved - moved[:, :1], 0.0, atol=1e-9)
        assert model.unseen_odds_[1] < 0
        assert np.corrcoef(moved[:, 0], taep_scores.max(axis=1))[0, 1] < -0.999


class TestCalibration:
    def test_held_out_probabilities_are_about_right(self):
        big = make_tagged_scenes(1500, 1500, random_state=2)
        model = fitted(Stacked(), big)
        for word, columns in (("seen", big.seen), ("unseen", big.unseen)):
            probability = expit(model.decision_function(big.X_test, word)).mean()
            assert probability == pytest.approx(big.Y_test[:, columns].mean(), abs=0.06)

    def test_without_vectors_it_is_taep(self, data):
        Y = data.Y_train[:, data.seen]
        model = Stacked(power=1.0, tol=1e-4).fit(data.X_train, Y)
        taep = TAEP(beta=1.0, gamma=0.0, lam=0.0, tol=1e-4).fit(data.X_train, Y)
        np.testing.assert_allclose(
            model.decision_function(data.X_test), taep.decision_function(data.X_test), atol=1e-9
        )

    def test_a_single_seen_label_leaves_the_neutral_scale(self, data):
        with pytest.raises(ValueError, match=r"^n_splits: "):
            fitted(Stacked(n_splits=1), data)
        seen, unseen = data.seen_labels.vectors[:1], data.unseen_labels.vectors
        model = Stacked(center=False).fit(data.X_train, data.Y_train[:, data.seen][:, :1], seen, unseen)
        assert model.seen_odds_.tolist() == [1.0, 0.0]
        assert model.unseen_odds_.tolist() == [1.0, 0.0, -model.unseen_part_.threshold_]

    def test_labels_without_images_and_few_images_do_no_harm(self, data):
        Y = data.Y_train[:, data.seen].astype(float)
        rows = np.flatnonzero(Y.any(axis=1))[:4]
        Y[:, 0], Y[:, 1] = 0.0, np.nan
        for kept in (slice(None), rows):
            model = fitted(Stacked(), data, X=data.X_train[kept], Y=Y[kept])
            assert np.isfinite(model.decision_function(data.X_test, "all")).all()

    @pytest.mark.parametrize(("most", "size"), [(2000, 60), (20, 20)])
    def test_what_is_scored_was_not_fitted(self, data, monkeypatch, most, size):
        monkeypatch.setattr(stacked, "MOST_SCORED", most)
        Y = data.Y_train[:, data.seen]
        T = np.where(Y == 1, 1, -1).astype(np.int8)
        problem = TrainingProblem(data.X_train, T, data.seen_labels.vectors, np.empty((0, 16)), None)
        found = list(folds_of(problem, 5, normalize=True))
        assert len(found) == 5
        assert sum((~trained).sum() for trained, _, _ in found) == 12
        for trained, rows, scored in found:
            assert len(scored) == size
            assert not set(rows) & set(scored)
            assert not (~Y[rows][:, trained].any(axis=1) & Y[rows].any(axis=1)).any()


class TestLogOdds:
    @pytest.fixture(scope="class", name="entries")
    @classmethod
    def drawn_entries(cls):
        rng = np.random.default_rng(0)
        features = rng.normal(size=(4000, 2)) * [0.5, 3.0]
        return features, np.where(rng.random(4000) < expit(features @ [2.0, -0.4] - 1.0), 1.0, -1.0)

    def test_it_is_logistic_regression_over_the_known_entries(self, entries):
        features, targets = entries
        known = np.arange(4000) % 3 > 0
        odds = fit_log_odds(features, np.where(known, targets, 0.0))
        expected = LogisticRegression(C=1.0, tol=1e-10, max_iter=1000).fit(features[known], targets[known])
        np.testing.assert_allclose(odds, [*expected.coef_[0], expected.intercept_[0]], atol=1e-4)

    def test_a_score_that_misleads_keeps_its_order_and_the_maximum_never_helps(self, entries):
        features, targets = entries
        odds = fit_log_odds(-features, targets)
        assert odds[:2] == pytest.approx([LEAST_SLOPE, 0.0])

    def test_entries_of_one_kind_teach_nothing(self):
        assert all(fit_log_odds(np.arange(3.0)[:, None], np.full(3, kind)) is None for kind in (-1.0, 0.0, 1.0))

    def test_the_typical_intercept_is_not_that_of_the_most_frequent_label(self):
        rng = np.random.default_rng(0)
        labels = np.repeat(np.arange(5), 20000)
        scores = rng.normal(size=labels.size)
        rates = expit(scores + np.array([-3.0, -2.5, -2.0, 3.0, -2.2])[labels])
        found = typical_intercept(scores, np.where(rng.random(labels.size) < rates, 1, -1), labels)
        assert found == pytest.approx(-2.2, abs=0.1)
        for flat in (np.array([0.0, 1.0, 2.0, 3.0]), np.zeros(4)):
            assert np.isfinite(typical_intercept(flat, np.array([-1, -1, -1, 1]), np.array([0, 0, 1, 1])))

    def test_neighbours_are_dealt_to_different_groups(self):
        assert deal(np.argsort([0.3, 0.1, 0.9, 0.5, 0.7]), 2).tolist() == [1, 0, 0, 0, 1]
