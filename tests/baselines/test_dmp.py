from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

from unseen import make_tagged_scenes
from unseen.baselines._subsets import best_subset
from unseen.baselines.dmp import DMP


@pytest.fixture(scope="module")
def data():
    # float64 throughout: the length of a float32 row is exact to 1e-8 only
    scenes = make_tagged_scenes(150, 20, n_features=40, n_dims=16, random_state=0)
    return replace(scenes, X_train=scenes.X_train.astype(float), X_test=scenes.X_test.astype(float))


@pytest.fixture(scope="module")
def model(data):
    return DMP().fit(data.X_train, data.Y_train[:, data.seen], data.seen_labels, data.unseen_labels)


def unit(M):
    return M / np.linalg.norm(M, axis=-1, keepdims=True)


def brute_force(a, K, max_size):
    """Value of the best of all subsets, and every subset's value."""
    values = {}
    for size in range(1, max_size + 1):
        for subset in map(list, combinations(range(len(a)), size)):
            square = K[np.ix_(subset, subset)].sum()
            if square > 1e-12 * size:
                values[tuple(subset)] = a[subset].sum() / np.sqrt(square)
    return max(values.values()), values


@settings(max_examples=150)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_labels=st.integers(1, 10),
    n_dims=st.integers(1, 12),
    max_size=st.integers(1, 10),
    shift=st.sampled_from([-1.0, 0.0, 1.0]),
    is_unit=st.booleans(),
)
def test_the_search_equals_brute_force(seed, n_labels, n_dims, max_size, shift, is_unit):
    rng = np.random.default_rng(seed)
    M, v = rng.normal(size=(n_labels, n_dims)) + shift, rng.normal(size=n_dims)
    M = unit(M) if is_unit else M
    a, K = M @ v, M @ M.T
    subset, value = best_subset(a, K, max_size)
    expected, values = brute_force(a, K, min(max_size, n_labels))
    assert value == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert values[tuple(subset)] == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_ten_labels_of_a_model_equal_brute_force_over_the_power_set(model, data):
    names = list(data.unseen_labels.names[:10])
    found = model.predict_subset(data.X_test, names, max_size=10)
    M = unit(data.unseen_labels.vectors[:10] - model.label_center_)
    for v, row in zip(model.semantic_vectors(data.X_test), found, strict=True):
        expected, values = brute_force(M @ v, M @ M.T, 10)
        assert len(values) == 1023
        assert values[tuple(np.flatnonzero(row))] == pytest.approx(expected, rel=1e-9)
    assert len(set(found.sum(axis=1))) > 1


@pytest.mark.parametrize(("n_labels", "size"), [(81, 3), (1000, 2)])
def test_a_planted_subset_is_found_among_many_labels(n_labels, size):
    rng = np.random.default_rng(0)
    M = unit(rng.normal(size=(n_labels, 100)))
    for _ in range(3):
        planted = np.sort(rng.choice(n_labels, size, replace=False))
        subset, value = best_subset(M @ M[planted].mean(axis=0), M @ M.T, 3)
        np.testing.assert_array_equal(subset, planted)
        assert value == pytest.approx(np.linalg.norm(M[planted].mean(axis=0)))


def test_triples_of_eighty_one_labels_equal_enumeration():
    rng = np.random.default_rng(1)
    M, v = unit(rng.normal(size=(81, 20)) + 0.5), rng.normal(size=20)
    a, K = M @ v, M @ M.T
    i, j, k = np.array(list(combinations(range(81), 3))).T
    triples = (a[i] + a[j] + a[k]) / np.sqrt(3 + 2 * (K[i, j] + K[i, k] + K[j, k]))
    smaller, _ = brute_force(a, K, 2)
    assert best_subset(a, K, 3)[1] == pytest.approx(max(triples.max(), smaller), rel=1e-9)


def test_vectors_that_cancel_out_are_no_subset():
    M = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])
    subset, value = best_subset(M @ [0.0, 1.0], M @ M.T, 3)
    assert set(subset) == {2} or set(subset) == {0, 1, 2}
    assert value == pytest.approx(1.0)
    subset, value = best_subset(M[:2] @ [1.0, 0.0], M[:2] @ M[:2].T, 2)
    assert (list(subset), value) == ([0], 1.0)


def test_subsets_of_one_label_are_the_best_scored_label(model, data):
    found = model.predict_subset(data.X_test, "all", max_size=1)
    np.testing.assert_array_equal(found, model.predict(data.X_test, "all", top=1))


@pytest.mark.parametrize("n_images", [150, 25], ids=["more images than features", "fewer"])
def test_the_regression_is_a_ridge_regression_of_the_mean_label_vectors(data, n_images):
    X, Y = data.X_train[:n_images], data.Y_train[:n_images, data.seen]
    model = DMP(alpha=0.3).fit(X, Y, data.seen_labels)
    M = unit(data.seen_labels.vectors - model.label_center_)
    targets = Y @ M / np.maximum(Y.sum(axis=1, keepdims=True), 1)
    ridge = Ridge(alpha=0.3, fit_intercept=False).fit(unit(X), targets - targets.mean(axis=0))
    expected = ridge.predict(unit(data.X_test)) + targets.mean(axis=0)
    np.testing.assert_allclose(model.semantic_vectors(data.X_test), expected, atol=1e-8)


def test_an_unknown_label_takes_part_with_its_frequency(data):
    Y = data.Y_train[:, data.seen].astype(float)
    Y[::3, 2] = np.nan
    model = DMP().fit(data.X_train, Y, data.seen_labels)
    M = unit(data.seen_labels.vectors - model.label_center_)
    shares = np.where(np.isnan(Y), np.nanmean(Y, axis=0), Y)
    counts = shares.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.mean_, (shares @ M / np.where(counts > 0, counts, 1.0)).mean(axis=0))


def test_arguments_are_checked(model, data):
    with pytest.raises(ValueError, match=r"^alpha: 0 was given\. Pass a finite number > 0"):
        DMP(alpha=0).fit(data.X_train, data.Y_train[:, data.seen], data.seen_labels)
    with pytest.raises(ValueError, match=r"^max_size: 0 was given\. Pass an integer of at least 1"):
        model.predict_subset(data.X_test, max_size=0)
    with pytest.raises(ValueError, match=r"^labels: 1 unknown label"):
        model.predict_subset(data.X_test, ["unicorn"])


def test_columns_that_never_vary_leave_finite_scores(data):
    Y = data.Y_train[:, data.seen].astype(float)
    Y[:, 0], Y[:, 1], Y[:, 2] = 1.0, 0.0, np.nan
    model = DMP().fit(data.X_train, Y, data.seen_labels, data.unseen_labels)
    scores = model.decision_function(data.X_test, "all")
    assert np.isfinite(scores).all()
    assert scores[:, 12:].std() > 0


def test_a_score_is_explained_by_the_predicted_shares_of_the_seen_labels(data, model):
    T = data.Y_train[:, data.seen]
    shares = T / np.maximum(T.sum(axis=1, keepdims=True), 1)
    regression = Ridge(alpha=1.0, fit_intercept=False).fit(unit(data.X_train), shares - shares.mean(axis=0))
    predicted = regression.predict(unit(data.X_test[:1]))[0] + shares.mean(axis=0)
    Ms, m = (
        unit(vectors - model.label_center_) for vectors in (data.seen_labels.vectors, data.unseen_labels.vectors)
    )
    why = model.explain(data.X_test[0], data.unseen_labels.names[3])
    parts = {part.name: part.value for part in why.parts}
    expected = predicted * (Ms @ m[3])
    np.testing.assert_allclose([parts[name] for name in data.seen_labels.names], expected, atol=1e-8)
