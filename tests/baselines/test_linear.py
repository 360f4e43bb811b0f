"""What the baselines share: thresholds, ridge and logistic regression, scaled images, and checks of parameters."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from tests.methods_data import exact_scenes, fitted, unit

from unseen.baselines import COSTA, DMP, ESZSL, ConSE, Cosine, DeViSE, Fast0Tag, LabelPropagation, LatEm
from unseen.baselines import _linear as linear
from unseen.solvers import rows


@pytest.fixture(scope="module")
def data():
    return exact_scenes()


@pytest.fixture(scope="module", name="T")
def targets(data):
    return 2 * data.Y_train[:, data.seen].astype(np.int8) - 1


class TestLogisticRegression:
    @pytest.mark.parametrize("n_images", [150, 30], ids=["more images than features", "fewer"])
    @pytest.mark.parametrize("C", [0.1, 100.0])
    def test_it_agrees_with_an_independent_solver(self, data, T, n_images, C):
        X, T = unit(data.X_train[:n_images]), T[:n_images]
        weights, bias = linear.logistic_regression(X, T, C, normalize=False)
        for label in np.flatnonzero(np.abs(T.sum(axis=0)) < n_images):
            other = LogisticRegression(C=C, solver="newton-cg", tol=1e-10, max_iter=1000).fit(X, T[:, label])
            np.testing.assert_allclose(weights[:, label], other.coef_[0], atol=2e-4 * np.sqrt(C))
            np.testing.assert_allclose(bias[label], other.intercept_[0], atol=2e-4 * np.sqrt(C))

    @pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_hardly_any_penalty_is_no_obstacle(self, data, T, storage, dtype):
        X = np.pad(data.X_train[:30].astype(dtype), ((0, 0), (0, 40)))  # X'X is singular
        weights, bias = linear.logistic_regression(storage(X), T[:30], 1e30, normalize=True)
        assert np.isfinite(weights).all()
        assert (((X @ weights + bias) > 0) == (T[:30] > 0))[:, np.ptp(T[:30], axis=0) > 0].all()

    @pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
    @pytest.mark.parametrize(("dtype", "powers"), [(np.float32, [-80, 80]), (np.float64, [-600, 600])])
    def test_the_scale_of_normalised_images_is_immaterial(self, data, T, storage, dtype, powers):
        X = data.X_train.astype(dtype)
        expected = linear.logistic_regression(storage(X), T, 1.0, normalize=True)[0]
        for power in powers:
            found = linear.logistic_regression(storage(np.ldexp(X, power)), T, 1.0, normalize=True)[0]
            np.testing.assert_allclose(found, expected, atol=1e-3)

    def test_an_unknown_entry_is_left_out(self, data, T):
        known = np.arange(len(T)) % 3 > 0
        hidden = np.where(known[:, None], T, 0)
        hidden[:, 1:] = T[:, 1:]
        weights, bias = linear.logistic_regression(data.X_train, hidden, 1.0, normalize=True)
        alone = linear.logistic_regression(data.X_train[known], T[known, :1], 1.0, normalize=True)
        np.testing.assert_allclose(weights[:, 0], alone[0][:, 0], atol=1e-4)
        np.testing.assert_allclose(bias[0], alone[1][0], atol=1e-4)

    def test_labels_that_never_vary_get_their_smoothed_rate(self, data, T):
        T = T.copy()
        T[:, 0], T[:, 1], T[:, 2] = 1, -1, 0
        weights, bias = linear.logistic_regression(data.X_train, T, 1.0, normalize=True)
        rate = (np.count_nonzero(T == 1) + 0.5) / (np.count_nonzero(T) + 1.0)
        assert not weights[:, :3].any()
        np.testing.assert_allclose(1 / (1 + np.exp(-bias[:3])), [(150 + rate) / 151, rate / 151, rate])


def test_the_threshold_has_the_best_micro_f1_over_the_known_entries():
    rng = np.random.default_rng(0)
    scores, T = rng.normal(size=(40, 5)).round(1), rng.integers(-1, 2, size=(40, 5)).astype(np.int8)

    def micro_f1(threshold):
        predicted = (scores > threshold)[T != 0]
        return 2 * (predicted & (T == 1)[T != 0]).sum() / (predicted.sum() + (T == 1).sum())

    threshold = linear.best_threshold(scores, T)
    assert micro_f1(threshold) == max(map(micro_f1, [*scores.ravel(), scores.min() - 1]))


def test_rows_of_any_size_become_unit_rows():
    M = np.array([[3.0, -4.0], [0.0, 0.0], [3e200, 4e200], [3e-200, 4e-200]])
    np.testing.assert_allclose(linear.unit_rows(M), [[0.6, -0.8], [0.0, 0.0], [0.6, 0.8], [0.6, 0.8]])


@pytest.mark.parametrize("normalize", [False, True])
def test_products_are_those_of_the_scaled_images(data, monkeypatch, normalize):
    monkeypatch.setattr(rows, "CHUNK", 64)
    X = unit(data.X_train) if normalize else data.X_train
    weights = np.random.default_rng(0).normal(size=(150, 3))
    for storage in (np.asarray, sp.csr_array):
        given = storage(data.X_train)
        np.testing.assert_allclose(linear.gather(given, weights, normalize=normalize), X.T @ weights)
        np.testing.assert_allclose(linear.project(given, X.T[:, :3], normalize=normalize), X @ X.T[:, :3])


@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize("n_images", [30, 150])  # fewer than features, and more
def test_the_ridge_solver_solves_its_system(data, n_images, relative):
    X, B = unit(data.X_train[:n_images]), np.random.default_rng(0).normal(size=(40, 2))
    W = linear.ridge_solver(data.X_train[:n_images], 0.01, "alpha", normalize=True, relative=relative)(B)
    penalty = 0.01 * (len(X) if relative else 1.0)
    np.testing.assert_allclose((X.T @ X + penalty * np.eye(40)) @ W, B, atol=1e-9)


def test_a_penalty_lost_in_rounding_is_refused():
    with pytest.raises(ValueError, match=r"^gamma: "):
        ESZSL(gamma=1e-9, normalize=False).fit(np.full((8, 2), 1e9), np.eye(8)[:, :3])


@pytest.mark.parametrize("method", [COSTA, DMP, ESZSL, ConSE, DeViSE, Fast0Tag, LabelPropagation, LatEm])
def test_columns_that_never_vary_leave_finite_scores(data, method):
    Y = data.Y_train[:, data.seen].astype(float)
    Y[:, 0], Y[:, 1], Y[:, 2] = 1.0, 0.0, np.nan
    scores = fitted(method(), data, Y=Y).decision_function(data.X_test, "all")
    assert np.isfinite(scores).all()
    assert scores[:, 12:].std() > 0


REFUSED = {
    ConSE: {"n_top": 0, "C": 0.0},
    COSTA: {"C": -1, "temperature": 0},
    LabelPropagation: {"alpha": 1.0, "temperature": 0},
    DMP: {"alpha": 0},
    ESZSL: {"gamma": 0.0, "lam": np.nan},
    LatEm: {"n_maps": "many", "pairs": "some"},
    DeViSE: {"alpha": -1.0, "learning_rate": 0, "max_iter": 0},
    Fast0Tag: {"alpha": 0, "ridge": -1.0},
    Cosine: {"normalize": "yes"},
}


@pytest.mark.parametrize("method", REFUSED)
def test_parameters_are_checked(data, method):
    for name, value in REFUSED[method].items():
        with pytest.raises(ValueError, match=rf"^{name}: "):
            fitted(method(**{name: value}), data)
