from dataclasses import replace

import numpy as np
import pytest

from unseen import make_tagged_scenes
from unseen.baselines.propagation import LabelPropagation


@pytest.fixture(scope="module")
def data():
    # float64 throughout: the length of a float32 row is exact to 1e-8 only
    scenes = make_tagged_scenes(150, 20, n_features=40, n_dims=16, random_state=0)
    return replace(scenes, X_train=scenes.X_train.astype(float), X_test=scenes.X_test.astype(float))


@pytest.fixture
def fit(data):
    def run(relations=None, unseen=data.unseen_labels, **parameters):
        model = LabelPropagation(**parameters)
        return model.fit(data.X_train, data.Y_train[:, data.seen], data.seen_labels, unseen, relations=relations)

    return run


def beliefs(model, X):
    """Probabilities of the seen labels, zeros for the unseen."""
    X = X / np.linalg.norm(X, axis=1, keepdims=True)
    seen = 1.0 / (1.0 + np.exp(-(X @ model.weights_ + model.bias_)))
    return np.column_stack([seen, np.zeros((len(X), len(model.label_names_) - model.n_seen_))])


def raw_scores(model, X, labels="all"):
    return model.decision_function(X, labels) + model.threshold_


@pytest.mark.parametrize("alpha", [0.1, 0.5, 0.95])
def test_the_closed_form_is_where_the_iteration_ends(data, fit, alpha):
    R = data.relations("hierarchy")
    model = fit(R, alpha=alpha)
    np.fill_diagonal(R, 0.0)
    S = R / R.sum(axis=1, keepdims=True)
    p = beliefs(model, data.X_test)
    f = p
    for _ in range(800):
        f = alpha * f @ S.T + (1.0 - alpha) * p
    np.testing.assert_allclose(raw_scores(model, data.X_test), f, atol=1e-8)


def test_the_scores_minimise_the_stated_objective(data, fit):
    R, alpha = data.relations("hierarchy"), 0.7
    model = fit(R, alpha=alpha)
    np.fill_diagonal(R, 0.0)
    degrees = R.sum(axis=1)
    f, p = raw_scores(model, data.X_test), beliefs(model, data.X_test)
    gradient = alpha * (f * degrees - f @ R) + (1.0 - alpha) * degrees * (f - p)
    np.testing.assert_allclose(gradient, 0.0, atol=1e-8)


def test_the_scale_and_the_diagonal_of_the_relations_are_immaterial(data, fit):
    R = data.relations("hierarchy")
    expected = raw_scores(fit(R), data.X_test)
    np.testing.assert_allclose(raw_scores(fit(5.0 * R), data.X_test), expected, atol=1e-10)
    np.testing.assert_allclose(raw_scores(fit(R + 3.0 * np.eye(24)), data.X_test), expected, atol=1e-10)


def test_a_small_alpha_leaves_the_probabilities(data, fit):
    model = fit(alpha=1e-6)
    np.testing.assert_allclose(raw_scores(model, data.X_test), beliefs(model, data.X_test), atol=1e-5)


def test_a_late_label_obeys_the_equation_of_the_unseen_ones(data, fit):
    model = fit(alpha=0.4, temperature=0.2, unseen=data.unseen_labels.select(data.unseen_labels.names[:11]))
    late = data.unseen_labels.vectors[11:]
    f = raw_scores(model, data.X_test)
    M = np.vstack([late, model.label_vectors_]) - model.label_center_
    M /= np.linalg.norm(M, axis=1, keepdims=True)
    shares = np.exp(M[:1] @ M[1:].T / 0.2)
    expected = 0.4 * f @ (shares / shares.sum()).T
    np.testing.assert_allclose(raw_scores(model, data.X_test, late), expected, atol=1e-10)


def test_an_isolated_label_is_attached_by_its_vector(data, fit):
    R = data.relations("hierarchy")
    R[20], R[:, 20] = 0.0, 0.0
    model = fit(R)
    assert raw_scores(model, data.X_test)[:, 20].std() > 0
    by_vectors = fit()._transitions(None)
    np.testing.assert_allclose(model._transitions(R)[20], by_vectors[20])


def test_a_single_label_has_no_neighbours(data):
    model = LabelPropagation(center=False, alpha=0.25)
    model.fit(data.X_train, data.Y_train[:, data.seen][:, :1], data.seen_labels.vectors[:1])
    expected = 0.75 * beliefs(model, data.X_test)
    np.testing.assert_allclose(raw_scores(model, data.X_test), expected, atol=1e-10)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("alpha", 0.0, r"Pass a finite number > 0 and <= 1"),
        ("alpha", 1.0, r"Pass a number below 1"),
        ("alpha", 1.5, r"Pass a finite number > 0 and <= 1"),
        ("C", -1, r"Pass a finite number > 0"),
        ("temperature", 0, r"Pass a finite number > 0"),
    ],
)
def test_parameters_are_checked(fit, name, value, message):
    with pytest.raises(ValueError, match=rf"^{name}: .*{message}"):
        fit(**{name: value})


def test_columns_that_never_vary_leave_finite_scores(data):
    Y = data.Y_train[:, data.seen].astype(float)
    Y[:, 0], Y[:, 1], Y[:, 2] = 1.0, 0.0, np.nan
    model = LabelPropagation().fit(data.X_train, Y, data.seen_labels, data.unseen_labels)
    scores = model.decision_function(data.X_test, "all")
    assert np.isfinite(scores).all()
    assert scores[:, 12:].std() > 0


def test_a_score_is_explained_by_what_arrives_from_each_seen_label(data, fit):
    model = fit(data.relations("hierarchy"))
    why = model.explain(data.X_test[0], model.label_names_[15])
    p = beliefs(model, data.X_test[:1])[0, :12]
    parts = {part.name: part.value for part in why.parts}
    assert [parts[name] for name in model.label_names_[:12]] == pytest.approx(list(p * model.reach_[15]))
    assert min(parts.values()) >= 0.0
