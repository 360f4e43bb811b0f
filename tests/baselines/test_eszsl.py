from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from unseen import make_tagged_scenes
from unseen.baselines.eszsl import ESZSL, _conjugate_gradients


@pytest.fixture(scope="module")
def data():
    # float64 throughout: the length of a float32 row is exact to 1e-8 only
    scenes = make_tagged_scenes(150, 10, n_features=40, n_dims=16, random_state=0)
    return replace(scenes, X_train=scenes.X_train.astype(float), X_test=scenes.X_test.astype(float))


def inputs(data, model):
    """X and Ms as the model sees them, and T."""
    X = data.X_train
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    Ms = data.seen_labels.vectors - model.label_center_
    return X, Ms / np.linalg.norm(Ms, axis=1, keepdims=True), 2.0 * data.Y_train[:, data.seen] - 1.0


@pytest.mark.parametrize("n_images", [150, 25], ids=["more images than features", "fewer"])
def test_the_normal_equations_hold(data, n_images):
    model = ESZSL(gamma=0.3, lam=2.0)
    model.fit(data.X_train[:n_images], data.Y_train[:n_images, data.seen], data.seen_labels)
    X, Ms, T = inputs(data, model)
    X, T = X[:n_images], T[:n_images]
    left = (X.T @ X + 0.3 * np.eye(40)) @ model.weights_ @ (Ms.T @ Ms + 2.0 * np.eye(16))
    np.testing.assert_allclose(left, X.T @ T @ Ms, atol=1e-8)
    assert model.n_iter_ == 0


@pytest.mark.parametrize("n_images", [150, 25], ids=["more images than features", "fewer"])
def test_unknown_entries_are_left_out_of_the_loss_exactly(data, n_images):
    Y = data.Y_train[:n_images, data.seen].astype(float)
    known = np.random.default_rng(0).random(Y.shape) < 0.6
    model = ESZSL(gamma=0.3, lam=2.0, tol=1e-10)
    model.fit(data.X_train[:n_images], np.where(known, Y, np.nan), data.seen_labels)
    X, Ms, T = inputs(data, model)
    X, T, W = X[:n_images], T[:n_images], model.weights_
    gradient = X.T @ (known * (X @ W @ Ms.T - T)) @ Ms + 0.3 * W @ Ms.T @ Ms + 2.0 * X.T @ X @ W + 0.6 * W
    np.testing.assert_allclose(gradient, 0.0, atol=1e-7)
    assert model.n_iter_ > 0


def test_a_label_in_the_span_of_the_seen_ones_is_scored_by_the_same_combination(data):
    model = ESZSL(normalize=False, center=False)
    model.fit(data.X_train, data.Y_train[:, data.seen], data.seen_labels)
    vectors = data.seen_labels.vectors
    raw = model.decision_function(data.X_test, "seen") + model.threshold_
    both = model.decision_function(data.X_test, [vectors[0] - 2 * vectors[5]])[:, 0] + model.threshold_
    np.testing.assert_allclose(both, raw[:, 0] - 2 * raw[:, 5], atol=1e-9)


@pytest.mark.parametrize("name", ["gamma", "lam", "tol"])
@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, "much", True])
def test_weights_must_be_positive(data, name, value):
    with pytest.raises(ValueError, match=rf"^{name}: .* Pass a finite number > 0"):
        ESZSL(**{name: value}).fit(data.X_train, data.Y_train[:, data.seen], data.seen_labels)


def test_a_penalty_lost_in_rounding_is_refused():
    X = np.column_stack([np.full(8, 1e9), np.full(8, 1e9)])
    with pytest.raises(ValueError, match=r"^gamma: 1e-09 is lost in rounding .* Pass a larger one"):
        ESZSL(gamma=1e-9, normalize=False).fit(X, np.eye(8)[:, :3])


def test_steps_that_end_before_the_tolerance_warn():
    diagonal, target = np.array([[1.0], [2.0], [3.0]]), np.ones((3, 1))
    with pytest.warns(ConvergenceWarning, match=r"ESZSL stopped after 2 steps .* raise gamma, lam or tol"):
        _conjugate_gradients(lambda C: diagonal * C, np.copy, target, 0 * target, 1e-12, max_iter=2)
    found, n_steps = _conjugate_gradients(lambda C: diagonal * C, np.copy, target, 0 * target, 1e-12)
    np.testing.assert_allclose(found, 1.0 / diagonal)
    assert n_steps == 3


def test_columns_that_never_vary_leave_finite_scores(data):
    Y = data.Y_train[:, data.seen].astype(float)
    Y[:, 0], Y[:, 1], Y[:, 2] = 1.0, 0.0, np.nan
    model = ESZSL().fit(data.X_train, Y, data.seen_labels, data.unseen_labels)
    scores = model.decision_function(data.X_test, "all")
    assert np.isfinite(scores).all()
    assert scores[:, 12:].std() > 0


def test_a_score_is_explained_by_the_closed_form(data):
    gamma, lam = 0.3, 2.0
    model = ESZSL(gamma, lam).fit(data.X_train, data.Y_train[:, data.seen], data.seen_labels, data.unseen_labels)
    X, Ms, T = inputs(data, model)
    assert np.linalg.matrix_rank(Ms) == len(Ms)  # else the evidence would not be unique
    x = data.X_test[0] / np.linalg.norm(data.X_test[0])
    evidence = (
        x @ np.linalg.solve(X.T @ X + gamma * np.eye(40), X.T @ T) @ np.linalg.inv(Ms @ Ms.T + lam * np.eye(12))
    )
    why = model.explain(data.X_test[0], data.unseen_labels.vectors[0])
    m = data.unseen_labels.vectors[0] - model.label_center_
    expected = evidence * (Ms @ m) / np.linalg.norm(m)
    parts = {part.name: part.value for part in why.parts}
    np.testing.assert_allclose([parts[name] for name in data.seen_labels.names], expected, atol=1e-8)
