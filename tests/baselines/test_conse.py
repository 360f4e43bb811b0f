from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

from unseen import make_tagged_scenes
from unseen.baselines._linear import logistic_regression
from unseen.baselines.conse import ConSE


@pytest.fixture(scope="module")
def data():
    # float64 throughout: the length of a float32 row is exact to 1e-8 only
    scenes = make_tagged_scenes(150, 20, n_features=40, n_dims=16, random_state=0)
    return replace(scenes, X_train=scenes.X_train.astype(float), X_test=scenes.X_test.astype(float))


@pytest.fixture(scope="module", name="Y")
def annotations(data):
    return data.Y_train[:, data.seen]


def unit(M):
    return M / np.linalg.norm(M, axis=-1, keepdims=True)


@pytest.mark.parametrize("n_images", [150, 30], ids=["more images than features", "fewer"])
@pytest.mark.parametrize("C", [0.1, 100.0])
def test_the_classifiers_are_those_of_an_independent_solver(data, Y, n_images, C):
    X, T = unit(data.X_train[:n_images]), 2 * Y[:n_images].astype(np.int8) - 1
    weights, bias = logistic_regression(X, T, C, normalize=False)
    for label in np.flatnonzero(np.abs(T.sum(axis=0)) < n_images):
        other = LogisticRegression(C=C, solver="newton-cg", tol=1e-10, max_iter=1000).fit(X, T[:, label])
        np.testing.assert_allclose(weights[:, label], other.coef_[0], atol=2e-4 * np.sqrt(C))
        np.testing.assert_allclose(bias[label], other.intercept_[0], atol=2e-4 * np.sqrt(C))


def test_an_unknown_entry_is_as_good_as_left_out(data, Y):
    X, T = unit(data.X_train), 2 * Y.astype(np.int8) - 1
    T[::3, 0] = 0
    weights, bias = logistic_regression(X, T, 1.0, normalize=False)
    kept = T[:, 0] != 0
    alone = logistic_regression(X[kept], T[kept, :1], 1.0, normalize=False)
    np.testing.assert_allclose(weights[:, 0], alone.weights[:, 0], atol=1e-4)
    np.testing.assert_allclose(bias[0], alone.bias[0], atol=1e-4)


def test_labels_that_never_vary_get_their_smoothed_rate(data, Y):
    T = 2 * Y.astype(np.int8) - 1
    T[:, 0], T[:, 1], T[:, 2] = 1, -1, 0
    weights, bias = logistic_regression(data.X_train, T, 1.0, normalize=True)
    rate = (np.count_nonzero(T == 1) + 0.5) / (np.count_nonzero(T) + 1.0)
    assert not weights[:, :3].any()
    expected = [(150 + rate) / 151, rate / 151, rate]
    np.testing.assert_allclose(1.0 / (1.0 + np.exp(-bias[:3])), expected)
    assert np.isfinite(weights).all()


def test_with_one_label_the_image_lies_at_the_vector_of_the_most_probable_one(data, Y):
    model = ConSE(n_top=1).fit(data.X_train, Y, data.seen_labels, data.unseen_labels)
    most_probable = (unit(data.X_test) @ model.weights_ + model.bias_).argmax(axis=1)
    assert len(set(most_probable)) > 3
    seen = unit(data.seen_labels.vectors - model.label_center_)
    np.testing.assert_allclose(model.semantic_vectors(data.X_test), seen[most_probable], atol=1e-12)
    similar = model.decision_function(data.X_test, "all") + model.threshold_
    labels = unit(model.label_vectors_ - model.label_center_)
    np.testing.assert_allclose(similar, seen[most_probable] @ labels.T, atol=1e-12)


@pytest.mark.parametrize("n_top", [2, 5, 12, 99])
def test_the_combination_is_convex_and_made_of_the_best(data, Y, n_top):
    model = ConSE(n_top=n_top, C=3.0).fit(data.X_train, Y, data.seen_labels)
    seen = unit(data.seen_labels.vectors - model.label_center_)
    odds = unit(data.X_test) @ model.weights_ + model.bias_
    for row, found in zip(odds, model.semantic_vectors(data.X_test), strict=True):
        best = sorted(range(12), key=lambda k: -row[k])[:n_top]
        shares = 1.0 / (1.0 + np.exp(-row[best]))
        np.testing.assert_allclose(found, shares @ seen[best] / shares.sum(), atol=1e-10)


def test_a_single_seen_label_is_told_by_its_probability(data, Y):
    label = {"one": data.seen_labels.vectors[0]}
    model = ConSE(center=False).fit(data.X_train, Y[:, :1], label)
    odds = unit(data.X_test) @ model.weights_ + model.bias_
    scores = model.decision_function(data.X_test) + model.threshold_
    np.testing.assert_allclose(scores, 1.0 / (1.0 + np.exp(-odds)), atol=1e-10)


@pytest.mark.parametrize(
    ("name", "value", "advice"),
    [("n_top", 0, "an integer of at least 1"), ("n_top", 2.5, "an integer"), ("C", 0.0, "a finite number > 0")],
)
def test_parameters_are_checked(data, Y, name, value, advice):
    with pytest.raises(ValueError, match=rf"^{name}: {value!r} was given\. Pass {advice}"):
        ConSE(**{name: value}).fit(data.X_train, Y, data.seen_labels)


def test_columns_that_never_vary_leave_finite_scores(data):
    Y = data.Y_train[:, data.seen].astype(float)
    Y[:, 0], Y[:, 1], Y[:, 2] = 1.0, 0.0, np.nan
    model = ConSE().fit(data.X_train, Y, data.seen_labels, data.unseen_labels)
    scores = model.decision_function(data.X_test, "all")
    assert np.isfinite(scores).all()
    assert scores[:, 12:].std() > 0


def test_only_the_labels_of_the_combination_explain_a_score(data, Y):
    model = ConSE(n_top=3).fit(data.X_train, Y, data.seen_labels, data.unseen_labels)
    name = data.unseen_labels.names[0]
    parts = {part.name: part.value for part in model.explain(data.X_test[0], name).parts}
    odds = unit(data.X_test[0]) @ model.weights_ + model.bias_
    best = np.argsort(-odds)[:3]
    assert {name for name, part in parts.items() if part != 0.0} == {data.seen_labels.names[k] for k in best}
    p = 1.0 / (1.0 + np.exp(-odds[best]))
    m = data.unseen_labels.vectors[0] - model.label_center_
    expected = p * (model.seen_vectors_[best] @ unit(m)) / np.linalg.norm(p @ model.seen_vectors_[best])
    np.testing.assert_allclose([parts[data.seen_labels.names[k]] for k in best], expected, atol=1e-12)


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_float32_features_give_the_classifiers_of_float64(data, Y, storage):
    T = 2 * Y.astype(np.int8) - 1
    exact = logistic_regression(data.X_train, T, 1.0, normalize=True)
    single = logistic_regression(storage(data.X_train.astype(np.float32)), T, 1.0, normalize=True)
    np.testing.assert_allclose(single.weights, exact.weights, atol=2e-3)
    np.testing.assert_allclose(single.bias, exact.bias, atol=2e-3)
