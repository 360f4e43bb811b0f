from dataclasses import replace

import numpy as np
import pytest

from unseen import make_tagged_scenes
from unseen.ensembles import LabelMeanTransfer
from unseen.evaluation.metrics import mean_image_average_precision


@pytest.fixture(scope="module")
def data():
    # float64 throughout: the length of a float32 row is exact to 1e-8 only
    scenes = make_tagged_scenes(150, 60, n_features=40, n_dims=16, random_state=0)
    return replace(scenes, X_train=scenes.X_train.astype(float), X_test=scenes.X_test.astype(float))


@pytest.fixture(scope="module", name="Y")
def annotations(data):
    return data.Y_train[:, data.seen].astype(float)


@pytest.fixture(scope="module")
def model(data, Y):
    return LabelMeanTransfer().fit(data.X_train, Y, data.seen_labels, data.unseen_labels)


def raw_scores(model, X, labels):
    return model.decision_function(X, labels) + model.threshold_


def unit(M):
    return M / np.linalg.norm(M, axis=1, keepdims=True)


def test_scores_are_the_formula(data, Y, model):
    X, X_test = unit(data.X_train), unit(data.X_test)
    M = unit(model.label_vectors_ - model.label_vectors_.mean(axis=0))
    shown = np.array([X[y == 1].mean(axis=0) for y in Y.T])
    evidence = X @ (shown - X.mean(axis=0)).T
    z = (X_test @ (shown - X.mean(axis=0)).T - evidence.mean(axis=0)) / evidence.std(axis=0)
    z_train = (evidence - evidence.mean(axis=0)) / evidence.std(axis=0)
    likeness = M[:12] @ M[12:].T
    expected = z @ likeness / (z_train @ likeness).std(axis=0)
    np.testing.assert_allclose(raw_scores(model, data.X_test, "unseen"), expected, atol=1e-9)


def test_every_label_has_mean_zero_and_variance_one_on_the_training_images(data, model):
    late = np.random.default_rng(0).normal(size=(5, 16))
    for labels in ("all", late):
        scores = raw_scores(model, data.X_train, labels)
        np.testing.assert_allclose(scores.mean(axis=0), 0.0, atol=1e-9)
        np.testing.assert_allclose(scores.std(axis=0), 1.0, atol=1e-9)


def test_the_unit_of_the_features_and_the_length_of_the_vectors_are_immaterial_without_scaling(data, Y):
    def scores(factor, length):
        model = LabelMeanTransfer(normalize=False, center=False)
        model.fit(factor * data.X_train, Y, length * data.seen_labels.vectors)
        return raw_scores(model, factor * data.X_test, 3.0 * length * data.unseen_labels.vectors)

    np.testing.assert_allclose(scores(1e3, 1e-5), scores(1.0, 1.0), atol=1e-9)


def test_without_vectors_a_label_has_the_evidence_for_itself(data, Y):
    model = LabelMeanTransfer().fit(data.X_train, Y)
    z = model._evidence(data.X_test)
    np.testing.assert_allclose(raw_scores(model, data.X_test, "seen"), z, atol=1e-9)


def test_labels_that_never_vary_say_nothing(data, Y):
    Y = Y.copy()
    Y[:, 0], Y[:, 1], Y[:, 2] = 1.0, 0.0, np.nan
    Y[:4, 2] = 1.0
    model = LabelMeanTransfer().fit(data.X_train, Y, data.seen_labels, data.unseen_labels)
    assert np.isfinite(model.decision_function(data.X_test, "all")).all()
    assert not model.weights_[:, :3].any()
    assert model.weights_[:, 3:].any(axis=0).all()
    why = model.explain(data.X_test[0], data.unseen_labels.names[0])
    assert {part.name for part in why.parts if part.value == 0.0} == set(data.seen_labels.names[:3])


def test_images_that_are_all_the_same_leave_every_score_at_zero(data, Y):
    X = np.repeat(data.X_train[:1], len(Y), axis=0)
    model = LabelMeanTransfer().fit(X, Y, data.seen_labels, data.unseen_labels)
    np.testing.assert_array_equal(raw_scores(model, data.X_test, "all"), 0.0)


def test_a_label_like_no_seen_one_scores_zero():
    X = np.random.default_rng(0).normal(size=(20, 3))
    model = LabelMeanTransfer(center=False).fit(X, (X[:, :2] > 0).astype(int), np.eye(3)[:2])
    np.testing.assert_array_equal(raw_scores(model, X, np.eye(3)[2:]), 0.0)


def test_unknown_entries_leave_the_means_to_the_known_ones(data, Y):
    hidden = np.random.default_rng(0).random(Y.shape) < 0.3
    model = LabelMeanTransfer().fit(data.X_train, np.where(hidden, np.nan, Y), data.seen_labels)
    X, k = unit(data.X_train), 5
    known = ~hidden[:, k]
    direction = X[known & (Y[:, k] == 1)].mean(axis=0) - X[known].mean(axis=0)
    cosine = direction @ model.weights_[:, k] / np.linalg.norm(direction) / np.linalg.norm(model.weights_[:, k])
    assert cosine == pytest.approx(1.0, abs=1e-12)


def test_a_part_is_evidence_times_likeness(data, model):
    why = model.explain(data.X_test[3], data.unseen_labels.names[1])
    parts = {part.name: part.value for part in why.parts}
    M = unit(model.label_vectors_ - model.label_center_)
    z, likeness = model._evidence(data.X_test[3:4])[0], M[:12] @ M[13]
    shares = np.array([parts[name] for name in data.seen_labels.names]) / (z * likeness)
    np.testing.assert_allclose(shares, shares[0])


def test_unseen_labels_are_found_far_better_than_by_chance():
    data = make_tagged_scenes(800, 300, random_state=3)
    model = LabelMeanTransfer().fit(data.X_train, data.Y_train[:, data.seen], data.seen_labels, data.unseen_labels)
    truth = data.Y_test[:, data.unseen]
    kept = truth.any(axis=1)
    scores = model.decision_function(data.X_test[kept], "unseen")
    chance = np.random.default_rng(0).random(scores.shape)
    found, by_chance = (mean_image_average_precision(truth[kept], s) for s in (scores, chance))
    assert found > by_chance + 0.15
