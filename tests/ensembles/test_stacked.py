"""Stacked: classifiers, TAEP and evidence on one scale, learned from labels and images held out in turn."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from tests.methods_data import exact_scenes, fitted, unit

from unseen import TAEP, make_tagged_scenes
from unseen.base import TrainingProblem
from unseen.ensembles import BackboneKnowledge, Stacked, stacked
from unseen.ensembles.stacked import LEAST_SLOPE, deal, fit_log_odds, folds_of

N_CLASSES = 30
CLASSES = {f"class {k}": row for k, row in enumerate(np.random.default_rng(3).normal(size=(N_CLASSES, 16)))}


@pytest.fixture(scope="module")
def data():
    return exact_scenes(300, 40)


@pytest.fixture(scope="module")
def model(data):
    return fitted(Stacked(tol=1e-5), data)


class TestScores:
    def test_seen_labels_are_scored_by_logistic_regression(self, data, model):
        slope, _, intercept = model.seen_odds_
        found = model.decision_function(data.X_test, "seen")
        for k in range(3):
            own = LogisticRegression(C=3.0, tol=1e-10, max_iter=5000)
            own.fit(unit(data.X_train), data.Y_train[:, data.seen][:, k])
            expected = slope * own.decision_function(unit(data.X_test)) + intercept
            np.testing.assert_allclose(found[:, k], expected, atol=1e-4)
        assert slope > 0

    def test_unseen_labels_are_scored_by_taep_less_half_of_its_mean(self, data, model):
        taep = fitted(TAEP(tol=1e-5), data)
        slope, _, intercept = model.unseen_odds_
        mean = taep.decision_function(data.X_train, "unseen").mean(axis=0)
        expected = slope * (taep.decision_function(data.X_test, "unseen") - 0.5 * mean) + intercept
        found = model.decision_function(data.X_test, "unseen")
        np.testing.assert_allclose(found, expected, atol=0.01 * found.std())
        assert model.transfer_.relative_gap_ <= 1e-5
        why = model.explain(data.X_test[3], model.label_names_[-1])
        assert why.score == pytest.approx(found[3, -1])
        assert why.score == pytest.approx(why.offset + sum(part.value for part in why.parts))

    @pytest.mark.parametrize("kind", ["seen", "unseen"])
    def test_evidence_is_added_and_explained(self, kind):
        data = make_tagged_scenes(300, 20, n_features=24 + N_CLASSES, n_dims=16, random_state=1)
        model = fitted(Stacked(BackboneKnowledge(CLASSES, sharpness=2.0), 24), data)
        own, odds = model.evidence_, {"seen": model.seen_odds_, "unseen": model.unseen_odds_}[kind]
        name = {"seen": model.label_names_[0], "unseen": model.label_names_[-1]}[kind]
        why = model.explain(data.X_test[0], name)
        assert why.score == pytest.approx(why.offset + sum(part.value for part in why.parts))
        vector = model.label_vectors_[[model.label_names_.index(name)]]
        told = own.explain(data.X_test[0, 24:], vector[0])
        from_classes = sum(part.value for part in why.parts if part.kind == "class")
        assert from_classes == pytest.approx(odds[1] * sum(part.value for part in told.parts), abs=1e-9)
        if kind == "unseen":  # where there is evidence, nothing is subtracted
            s = model.transfer_.decision_function(data.X_test[:1, :24], vector)[0, 0]
            e = own.decision_function(data.X_test[:1, 24:], vector)[0, 0]
            assert why.score == pytest.approx(odds @ [s, e, 1.0])
        alone = {part.name for part in why.parts if part.kind == "label" and part.value}
        assert alone == ({name} if kind == "seen" else set(model.label_names_[: model.n_seen_]))

    def test_evidence_and_its_columns_are_checked(self, data):
        with pytest.raises(ValueError, match=r"^evidence: "):
            fitted(Stacked("knowledge", 3), data)
        for n_features in (None, data.X_train.shape[1]):
            with pytest.raises(ValueError, match=r"^n_features: "):
                fitted(Stacked(BackboneKnowledge(CLASSES), n_features), data)


class TestCalibration:
    def test_held_out_probabilities_are_about_right(self):
        big = make_tagged_scenes(800, 1500, random_state=2)
        model = fitted(Stacked(n_splits=3), big)
        for word, columns in (("seen", big.seen), ("unseen", big.unseen)):
            probability = expit(model.decision_function(big.X_test, word)).mean()
            assert probability == pytest.approx(big.Y_test[:, columns].mean(), abs=0.02)

    def test_a_label_with_many_images_does_not_decide_alone(self, data, monkeypatch):
        given = []
        monkeypatch.setattr(stacked, "fit_log_odds", lambda *entries: given.append(entries))
        fitted(Stacked(n_splits=2), data)
        shown = data.Y_train[:, data.seen].sum(axis=0)
        expected = {1.0 / np.sqrt(1.0 + n): shown[shown == n].sum() for n in shown}
        _, (_, targets, weights) = given  # each label is held out once, on half of the images
        assert set(weights) == set(expected)
        for weight, n_positive in expected.items():
            assert (targets[weights == weight] > 0).sum() <= n_positive

    @pytest.mark.parametrize("n_labels", [1, 12])
    def test_without_vectors_or_with_one_label_the_scale_is_neutral(self, data, n_labels):
        with pytest.raises(ValueError, match=r"^n_splits: "):
            fitted(Stacked(n_splits=1), data)
        Y, seen = data.Y_train[:, data.seen][:, :n_labels], data.seen_labels.vectors[:n_labels]
        model = Stacked().fit(data.X_train, Y, *([seen] if n_labels == 1 else []))
        assert model.seen_odds_.tolist() == model.unseen_odds_.tolist() == [1.0, 0.0, 0.0]

    def test_labels_without_images_and_few_images_do_no_harm(self, data):
        Y = data.Y_train[:, data.seen].astype(float)
        rows = np.flatnonzero(Y.any(axis=1))[:4]
        Y[:, 0], Y[:, 1] = 0.0, np.nan
        for kept in (slice(None), rows):
            model = fitted(Stacked(), data, X=data.X_train[kept], Y=Y[kept])
            assert np.isfinite(model.decision_function(data.X_test, "all")).all()

    @pytest.mark.parametrize(("most", "size"), [((10_000, 2000), 60), ((10_000, 20), 20), ((100, 20), 20)])
    def test_what_is_scored_was_not_fitted(self, data, monkeypatch, most, size):
        monkeypatch.setattr(stacked, "MOST_FITTED", most[0])
        monkeypatch.setattr(stacked, "MOST_SCORED", most[1])
        Y = data.Y_train[:, data.seen]
        T = np.where(Y == 1, 1, -1).astype(np.int8)
        problem = TrainingProblem(data.X_train, T, data.seen_labels.vectors, np.empty((0, 16)), None)
        found = list(folds_of(problem, 5))
        assert len(found) == 5
        assert sum((~trained).sum() for trained, _, _ in found) == 12
        for trained, rows, scored in found:
            assert len(scored) == size
            assert len(rows) <= most[0]
            assert not set(rows) & set(scored)
            assert not (~Y[rows][:, trained].any(axis=1) & Y[rows].any(axis=1)).any()


class TestLogOdds:
    @pytest.fixture(scope="class", name="entries")
    @classmethod
    def drawn_entries(cls):
        rng = np.random.default_rng(0)
        features = rng.normal(size=(4000, 2)) * [0.5, 3.0]
        return features, np.where(rng.random(4000) < expit(features @ [2.0, 0.4] - 1.0), 1.0, -1.0)

    def test_it_is_logistic_regression_over_the_known_entries(self, entries):
        features, targets = entries
        known, weights = np.arange(4000) % 3 > 0, np.where(targets > 0, 6.0, 2.0)
        odds = fit_log_odds(features, np.where(known, targets, 0.0), weights)
        expected = LogisticRegression(C=1.0, tol=1e-10, max_iter=1000)
        expected.fit(features[known], targets[known], weights[known] / weights[known].mean())
        np.testing.assert_allclose(odds, [*expected.coef_[0], expected.intercept_[0]], atol=1e-4)

    def test_a_score_that_misleads_keeps_its_order_and_evidence_that_misleads_is_left_out(self, entries):
        features, targets = entries
        odds = fit_log_odds(-features, targets, np.ones(4000))
        assert odds[:2] == pytest.approx([LEAST_SLOPE, 0.0])

    def test_entries_of_one_kind_teach_nothing(self):
        for kind in (-1.0, 0.0, 1.0):
            assert fit_log_odds(np.arange(3.0)[:, None], np.full(3, kind), np.ones(3)) is None

    def test_neighbours_are_dealt_to_different_groups(self):
        assert deal(np.argsort([0.3, 0.1, 0.9, 0.5, 0.7]), 2).tolist() == [1, 0, 0, 0, 1]
