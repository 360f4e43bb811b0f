from dataclasses import replace

import numpy as np
import pytest

from unseen import make_tagged_scenes
from unseen.baselines.costa import COSTA


@pytest.fixture(scope="module")
def data():
    # float64 throughout: the length of a float32 row is exact to 1e-8 only
    scenes = make_tagged_scenes(150, 20, n_features=40, n_dims=16, random_state=0)
    return replace(scenes, X_train=scenes.X_train.astype(float), X_test=scenes.X_test.astype(float))


@pytest.fixture
def fit(data):
    def run(relations=None, **parameters):
        model = COSTA(**parameters)
        return model.fit(
            data.X_train, data.Y_train[:, data.seen], data.seen_labels, data.unseen_labels, relations=relations
        )

    return run


def raw_scores(model, X, labels):
    return model.decision_function(X, labels) + model.threshold_


def test_a_label_is_the_weighted_sum_of_the_seen_classifiers(data, fit):
    R = data.relations("hierarchy")
    model = fit(R)
    seen, unseen = (raw_scores(model, data.X_test, word) for word in ("seen", "unseen"))
    shares = R[12:, :12] / R[12:, :12].sum(axis=1, keepdims=True)
    np.testing.assert_allclose(unseen, seen @ shares.T, atol=1e-10)


def test_a_label_related_to_one_seen_label_has_its_classifier(data, fit):
    R = np.zeros((24, 24))
    R[15, 4] = R[4, 15] = 0.2
    scores = raw_scores(fit(R), data.X_test, "all")
    np.testing.assert_allclose(scores[:, 15], scores[:, 4], atol=1e-10)


def test_the_scale_of_the_relations_is_immaterial(data, fit):
    R = data.relations("hierarchy")
    scores = fit(8.0 * R).decision_function(data.X_test, "all")
    np.testing.assert_allclose(scores, fit(R).decision_function(data.X_test, "all"), atol=1e-10)


def test_a_label_without_relations_takes_its_weights_from_the_vectors(data, fit):
    R = data.relations("hierarchy")
    R[20], R[:, 20] = 0.0, 0.0
    model, by_vectors = fit(R), fit()
    np.testing.assert_allclose(model.shares_[20], by_vectors.shares_[20])
    assert np.abs(model.shares_[21] - by_vectors.shares_[21]).max() > 1e-3


def test_weights_from_vectors_are_a_softmax_of_cosines(data, fit):
    model = fit(temperature=0.5)
    M = model.label_vectors_ - model.label_center_
    M /= np.linalg.norm(M, axis=1, keepdims=True)
    weights = np.exp(M[12:] @ M[:12].T / 0.5)
    np.testing.assert_allclose(model.shares_[12:], weights / weights.sum(axis=1, keepdims=True))


def test_at_a_low_temperature_a_label_has_the_classifier_of_its_nearest_seen_one(data, fit):
    model = fit(temperature=1e-6)
    nearest = [model.similar_labels(name, "seen", top=1)[0].name for name in data.unseen_labels.names]
    expected = model.decision_function(data.X_test, "seen")[:, [model.label_names_.index(n) for n in nearest]]
    np.testing.assert_allclose(model.decision_function(data.X_test, "unseen"), expected, atol=1e-8)


def test_a_label_given_late_is_scored_as_if_given_at_fit_without_relations(data, fit):
    model = fit(center=False)
    early = model.decision_function(data.X_test, "unseen")
    late = COSTA(center=False).fit(data.X_train, data.Y_train[:, data.seen], data.seen_labels)
    np.testing.assert_allclose(late.decision_function(data.X_test, data.unseen_labels), early, atol=1e-10)


@pytest.mark.parametrize("name", ["C", "temperature"])
def test_parameters_are_checked(fit, name):
    with pytest.raises(ValueError, match=rf"^{name}: 0 was given\. Pass a finite number > 0"):
        fit(**{name: 0})


def test_columns_that_never_vary_leave_finite_scores(data):
    Y = data.Y_train[:, data.seen].astype(float)
    Y[:, 0], Y[:, 1], Y[:, 2] = 1.0, 0.0, np.nan
    model = COSTA().fit(data.X_train, Y, data.seen_labels, data.unseen_labels)
    scores = model.decision_function(data.X_test, "all")
    assert np.isfinite(scores).all()
    assert scores[:, 12:].std() > 0


def test_a_seen_label_is_explained_by_its_own_classifier_alone(data, fit):
    why = fit().explain(data.X_test[0], data.seen_labels.names[4])
    assert why.parts[0].name == data.seen_labels.names[4]
    assert all(part.value == 0.0 for part in why.parts[1:])


def test_a_label_is_explained_by_the_classifiers_it_is_made_of(data, fit):
    R = np.zeros((24, 24))
    R[15, [4, 7]] = R[[4, 7], 15] = 0.3, 0.1
    model = fit(R)
    own = raw_scores(model, data.X_test[:1], "seen")[0]
    why = model.explain(data.X_test[0], model.label_names_[15])
    parts = {part.name: part.value for part in why.parts if part.value != 0.0}
    expected = {model.label_names_[4]: 0.75 * own[4], model.label_names_[7]: 0.25 * own[7]}
    assert parts == pytest.approx(expected)
