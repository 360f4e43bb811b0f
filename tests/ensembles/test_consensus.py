"""Consensus and LabelMeanTransfer, step by step as their docstrings say."""

import numpy as np
import pytest
from scipy.special import expit
from tests.methods_data import exact_scenes, fitted, parts_of, raw_scores, unit

from unseen import make_tagged_scenes
from unseen.baselines import ConSE
from unseen.ensembles import Consensus, LabelMeanTransfer, consensus
from unseen.evaluation.metrics import mean_image_average_precision


@pytest.fixture(scope="module")
def data():
    return exact_scenes(200, 60)


@pytest.fixture(scope="module", name="R")
def relations():
    counts = np.random.default_rng(1).random((24, 24))
    return counts + counts.T


def roots(X):
    return np.sign(X) * np.sqrt(np.abs(X))


def standardised(scores, known):
    return (scores - known.mean(axis=0)) / known.std(axis=0), (known - known.mean(axis=0)) / known.std(axis=0)


class TestLabelMeanTransfer:
    def test_scores_are_the_formula(self, data):
        hidden = np.random.default_rng(0).random((200, 12)) < 0.3
        model = fitted(LabelMeanTransfer(), data, Y=np.where(hidden, np.nan, data.Y_train[:, data.seen]))
        X, X_test, Y = unit(data.X_train), unit(data.X_test), data.Y_train[:, data.seen]
        M = unit(model.label_vectors_ - model.label_center_)
        known = [X[~hidden[:, k]] for k in range(12)]
        shown = [X[(Y[:, k] == 1) & ~hidden[:, k]] for k in range(12)]
        differences = np.array([s.mean(axis=0) - k.mean(axis=0) for s, k in zip(shown, known, strict=True)])
        z, z_train = standardised(X_test @ differences.T, X @ differences.T)
        expected = z @ M[:12] @ M.T / (z_train @ M[:12] @ M.T).std(axis=0)
        np.testing.assert_allclose(raw_scores(model, data.X_test), expected, atol=1e-9)
        parts = parts_of(model, data.X_test[3], model.label_names_[13])
        ratio = parts / (z[3] * (M[:12] @ M[13]))
        np.testing.assert_allclose(ratio, ratio[0])

    def test_labels_that_never_vary_have_no_evidence(self, data):
        Y = data.Y_train[:, data.seen].astype(float)
        Y[:, 0], Y[:, 1], Y[4:, 2], Y[:4, 2] = 1.0, 0.0, np.nan, 1.0
        model = fitted(LabelMeanTransfer(), data, Y=Y)
        assert not model.weights_[:, :3].any()
        assert np.isfinite(model.decision_function(data.X_test, "all")).all()

    @pytest.mark.parametrize("model", [LabelMeanTransfer(), Consensus(neighborhood=0.8)])
    def test_images_that_are_all_the_same_leave_every_score_at_zero(self, data, model):
        fitted(model, data, X=np.repeat(data.X_train[:1], 200, axis=0))
        np.testing.assert_allclose(raw_scores(model, data.X_test), 0.0, atol=1e-9)


class TestScores:
    @pytest.mark.parametrize("steps", [0, 1, 3])
    def test_it_is_the_sum_of_three_estimates_over_neighbours_minus_the_crowding(self, data, R, steps):
        model = fitted(Consensus(steps=steps, neighborhood=0.8), data, R)
        assert model.steps_ == steps
        X, X_test, Y = roots(data.X_train), roots(data.X_test), data.Y_train[:, data.seen]
        means, conse = (fitted(other, data, X=X) for other in (LabelMeanTransfer(), ConSE(n_top=12)))
        estimates = [[m.decision_function(images, "unseen") for images in (X_test, X)] for m in (means, conse)]
        shares = R[12:, :12] / R[12:, :12].sum(axis=1, keepdims=True)
        estimates.append([(unit(images) @ means.weights_ + means.bias_) @ shares.T for images in (X_test, X)])
        total, known = (sum(part) for part in zip(*[standardised(*pair) for pair in estimates], strict=True))
        n_neighbors = int(0.8 * np.median(Y.sum(axis=0)))
        coordinates, kept = (unit(unit(images) - unit(X).mean(axis=0)) for images in (X_test, X))
        among = kept @ kept.T - 9.0 * np.eye(200)
        alike, among = (np.argsort(-cosines)[:, :n_neighbors] for cosines in (coordinates @ kept.T, among))
        for _ in range(steps):
            total, known = known[alike].mean(axis=1), known[among].mean(axis=1)
        total, known = standardised(total, known)
        expected = total - 0.7 * np.log(np.exp(known / 0.7).mean(axis=0))
        np.testing.assert_allclose(raw_scores(model, data.X_test, "unseen"), expected, atol=1e-5)

    def test_with_few_images_an_image_is_scored_by_itself(self):
        data = make_tagged_scenes(40, 20, random_state=1)
        plain, few = fitted(Consensus(steps=0), data), fitted(Consensus(), data)
        assert few.steps_ == 0
        np.testing.assert_array_equal(*(raw_scores(model, data.X_test) for model in (plain, few)))
        shown = np.flatnonzero(data.Y_train[:, data.seen].any(axis=1))[:1]
        alone = fitted(Consensus(), data, X=data.X_train[shown], Y=data.Y_train[np.ix_(shown, data.seen)])
        assert np.isfinite(alone.decision_function(data.X_test, "all")).all()

    def test_neighbours_are_at_most_a_quarter_of_the_images_that_are_kept(self, data, monkeypatch):
        assert fitted(Consensus(neighborhood=1e3), data).sample_neighbors_.shape == (200, 50)
        monkeypatch.setattr(consensus, "MOST_SAMPLED", 100)
        assert fitted(Consensus(neighborhood=1e3), data).sample_neighbors_.shape == (100, 25)

    def test_labels_are_scored_in_blocks(self, data, monkeypatch):
        model = fitted(Consensus(neighborhood=0.8), data)
        expected = raw_scores(model, data.X_test)
        monkeypatch.setattr(consensus, "LABELS_AT_ONCE", 5)
        np.testing.assert_allclose(raw_scores(model, data.X_test), expected, atol=1e-12)

    @pytest.mark.parametrize("model", [Consensus(), LabelMeanTransfer()])
    def test_unseen_labels_are_found_far_better_than_by_chance(self, model):
        data = make_tagged_scenes(800, 300, random_state=3)
        truth = data.Y_test[:, data.unseen]
        shown = truth.any(axis=1)
        scores = fitted(model, data).decision_function(data.X_test[shown], "unseen")
        chance = np.random.default_rng(0).random(scores.shape)
        found, by_chance = (mean_image_average_precision(truth[shown], s) for s in (scores, chance))
        assert found > by_chance + 0.15


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_all_but_what_is_constant_for_a_label_is_split_by_the_seen_labels(data, R, steps):
    model = fitted(Consensus(steps=steps, neighborhood=0.8), data, R)
    M = unit(model.label_vectors_ - model.label_center_)
    similarities, shares = M[:12] @ M[14], R[14, :12] / R[14, :12].sum()

    def estimates(z, odds):
        p = expit(odds)
        combination = p * similarities / np.linalg.norm(p @ M[:12], axis=1, keepdims=True)
        return z * similarities, combination, z * shares

    kept = estimates(model.sample_evidence_.astype(float), model.sample_odds_.astype(float))
    spreads = [part.sum(axis=1).std() for part in kept]
    before = after = sum(part / spread for part, spread in zip(kept, spreads, strict=True))
    for _ in range(steps):
        before, after = after, after[model.sample_neighbors_].mean(axis=1)
    X = unit(roots(data.X_test[:5]))
    if steps:
        cosines = unit(X @ model.directions_ - model.middle_) @ model.sample_coordinates_.T
        expected = before[np.argsort(-cosines)[:, : model.sample_neighbors_.shape[1]]].mean(axis=1)
    else:
        own = estimates(X @ model.mean_weights_ + model.mean_bias_, X @ model.odds_weights_ + model.odds_bias_)
        expected = sum(part / spread for part, spread in zip(own, spreads, strict=True))
    for image, parts in zip(data.X_test, expected / after.sum(axis=1).std(), strict=False):
        rest = parts_of(model, image, model.label_names_[14]) - parts
        np.testing.assert_allclose(rest, rest[0], atol=1e-4)


@pytest.mark.parametrize(
    "parameter", [{"steps": -1}, {"neighborhood": 0.0}, {"temperature": np.nan}, {"power": "x"}]
)
def test_parameters_are_checked(data, parameter):
    with pytest.raises(ValueError, match=rf"^{next(iter(parameter))}: "):
        fitted(Consensus(**parameter), data)
