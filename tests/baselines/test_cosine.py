"""Cosine keeps the contract too, on images and labels of one space."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.contract import test_contract as contract
from tests.contract.test_contract import (  # noqa: F401
    TestFiles,
    TestFit,
    TestPredictions,
    TestScores,
    fit,
)

from unseen import make_tagged_scenes
from unseen.baselines.cosine import Cosine

ESTIMATORS = [Cosine(), Cosine(center=True, center_images=True), Cosine(normalize=False, center_images=True)]


@pytest.fixture(scope="module")
def data():
    return make_tagged_scenes(120, 30, n_features=16, n_dims=16, random_state=1)


@pytest.fixture(scope="module", name="Y")
def annotations(data):
    return data.Y_train[:, data.seen]


@pytest.fixture(scope="module", params=ESTIMATORS, ids=str)
def estimator(request):
    return request.param


@pytest.fixture(scope="module")
def model(estimator, data, Y):
    return clone(estimator).fit(data.X_train, Y, data.seen_labels, data.unseen_labels)


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_accepts_the_estimator(estimator, check):
    check(estimator)


class TestUnknownEntries(contract.TestUnknownEntries):
    test_unknown_is_not_absent = None  # annotations move nothing but the threshold

    def test_the_threshold_is_that_of_the_known_entries(self):
        X, labels = np.eye(4)[[0, 1, 2, 3]], np.eye(4)[:2]
        X[:, 2] += [0.0, 0.0, 1.0, 2.0]
        Y = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [0.0, 0.0]])
        known = Cosine().fit(X, Y, labels)
        assert known.threshold_ == pytest.approx(0.5)
        X[2] = [0.8, 0.0, 0.6, 0.0]
        assert Cosine().fit(X, Y, labels).threshold_ == pytest.approx(0.9)
        Y[2, 0] = np.nan
        assert Cosine().fit(X, Y, labels).threshold_ == pytest.approx(0.5)


def unit(M):
    return M / np.linalg.norm(M, axis=-1, keepdims=True)


def test_the_score_is_the_cosine(data, Y):
    X = data.X_test.astype(float)
    model = Cosine().fit(data.X_train, Y, data.seen_labels)
    scores = model.decision_function(X, data.unseen_labels) + model.threshold_
    np.testing.assert_allclose(scores, unit(X) @ unit(data.unseen_labels.vectors).T, atol=1e-12)


def test_centring_moves_both_sides(data, Y):
    X, X_test = data.X_train.astype(float), data.X_test.astype(float)
    model = Cosine(center=True, center_images=True).fit(X, Y, data.seen_labels)
    images = unit(unit(X_test) - unit(X).mean(axis=0))
    labels = unit(data.unseen_labels.vectors - data.seen_labels.vectors.mean(axis=0))
    scores = model.decision_function(X_test, data.unseen_labels) + model.threshold_
    np.testing.assert_allclose(scores, images @ labels.T, atol=1e-12)


def test_without_vectors_a_label_is_where_its_images_are(data, Y):
    X = unit(data.X_train.astype(float))
    model = Cosine().fit(X, Y)
    directions = unit(np.array([X[shown == 1].mean(axis=0) for shown in Y.T]) - X.mean(axis=0))
    np.testing.assert_allclose(model.decision_function(X) + model.threshold_, X @ directions.T, atol=1e-10)


def test_a_label_that_no_image_shows_has_no_direction(data, Y):
    silent = np.where(np.arange(12) == 3, 0, Y)
    model = Cosine().fit(data.X_train, silent)
    np.testing.assert_array_equal(model.decision_function(data.X_test)[:, 3] + model.threshold_, 0.0)


def test_spaces_of_different_dimensions_are_refused(data, Y):
    with pytest.raises(
        ValueError, match=r"^seen: vectors of 9 dimensions, but the images have 16 features\. Take"
    ):
        Cosine().fit(data.X_train, Y, data.seen_labels.vectors[:, :9])


def test_the_threshold_has_the_best_micro_f1_on_the_training_images(data, Y):
    model = Cosine().fit(data.X_train, Y, data.seen_labels)
    scores = model.decision_function(data.X_train)

    def micro_f1(threshold):
        predicted = scores > threshold
        return 2 * (predicted & (Y == 1)).sum() / (predicted.sum() + Y.sum())

    assert micro_f1(0.0) >= max(map(micro_f1, scores.ravel())) - 1e-12
    np.testing.assert_allclose(model.threshold(data.X_test), model.threshold_)
