"""Learning to rank: LatEm, DeViSE and Fast0Tag, against independent solvers."""

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from tests.methods_data import exact_scenes, fitted, parts_of, raw_scores, unit

from unseen.baselines import DeViSE, Fast0Tag, LatEm, _ranking
from unseen.baselines._ranking import map_losses, pair_losses, principal_directions, rank_labels, threshold_targets


@pytest.fixture(scope="module")
def data():
    return exact_scenes(120, 30, n_features=12, random_state=1)


def pairs_of(t):
    return [(p, n) for p in np.flatnonzero(t > 0) for n in np.flatnonzero(t < 0)]


def targets(data):
    return (2 * data.Y_train[:, data.seen] - 1).astype(np.int8)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("method", [LatEm(), DeViSE(), Fast0Tag()], ids=lambda method: type(method).__name__)
def test_the_scale_of_normalised_images_is_immaterial(data, method):
    expected = fitted(clone(method), data).decision_function(data.X_test, "all")
    for scale in (1e200, 1e-200):
        found = fitted(clone(method), data, X=data.X_train * scale).decision_function(data.X_test * scale, "all")
        np.testing.assert_allclose(found, expected, atol=1e-6)


class TestLosses:
    @given(st.lists(st.tuples(st.sampled_from([-1, 0, 1]), st.integers(-30, 30)), max_size=6))
    def test_an_image_costs_the_mean_or_the_largest_hinge_over_its_pairs(self, entries):
        t, s = np.array([(1, 2), (-1, 3), *entries]).T
        t, s = t.astype(np.int8), s / 8
        hinges = [max(0.0, 1 - s[p] + s[n]) for p, n in pairs_of(t)]
        assert pair_losses(s[None], t[None], worst=False)[0] == pytest.approx(np.mean(hinges))
        assert pair_losses(s[None], t[None], worst=True)[0] == pytest.approx(np.max(hinges))

    @pytest.mark.parametrize("worst", [False, True])
    def test_the_slope_in_the_projections_agrees_with_finite_differences(self, worst):
        rng = np.random.default_rng(0)
        C, T = rng.standard_normal((6, 3)), np.tile(np.array([1, 1, -1, -1, 0, -1], dtype=np.int8), (10, 1))
        Z = rng.standard_normal((10, 12))  # of four maps
        _, slopes = map_losses(Z, C, T, worst=worst)
        for j, h in enumerate(1e-6 * np.eye(12)):
            more, less = (map_losses(Z + sign * h, C, T, worst=worst)[0] for sign in (1, -1))
            np.testing.assert_allclose(slopes[:, j], (more - less) / 2e-6, atol=1e-6)

    def test_the_threshold_lies_between_the_labels_or_beside_the_only_ones(self):
        T = np.array([[1, -1, 0], [1, 1, 0], [-1, -1, 0]], dtype=np.int8)
        np.testing.assert_allclose(threshold_targets(np.tile([3.0, 1.0, 9.0], (3, 1)), T), [2.0, 0.0, 4.0])


class TestDeViSE:
    @pytest.mark.parametrize("pairs", ["all", "worst"])
    def test_the_descent_comes_near_the_optimum_of_a_solver(self, data, pairs):
        model = fitted(DeViSE(pairs=pairs, alpha=0.01, max_iter=200, center=False), data)
        M, W, losses = unit(data.seen_labels.vectors), cp.Variable((12, 16)), []
        for x, t in zip(unit(data.X_train), targets(data), strict=True):
            if pairs_of(t):
                hinges = cp.pos(1 - np.array([M[p] - M[n] for p, n in pairs_of(t)]) @ (x @ W))
                losses.append(cp.sum(hinges) / hinges.size if pairs == "all" else cp.max(hinges))
        best = cp.Problem(cp.Minimize(cp.sum(cp.hstack(losses)) / len(losses) + 0.005 * cp.sum_squares(W)))
        best.solve(solver=cp.CLARABEL)
        assert best.value * (1 - 1e-6) <= model.objective_ <= 1.005 * best.value

    @pytest.mark.parametrize("method", [DeViSE, Fast0Tag])
    def test_units_are_immaterial(self, data, method):
        model = fitted(method(normalize=False, center=False), data)
        scaled = {"seen": data.seen_labels.vectors / 8, "unseen": data.unseen_labels.vectors / 8}
        again = fitted(method(normalize=False, center=False), data, X=1024 * data.X_train, **scaled)
        expected = model.decision_function(data.X_test, "all")
        np.testing.assert_allclose(
            again.decision_function(1024 * data.X_test, "all"), expected, atol=1e-4 * expected.std()
        )

    @pytest.mark.parametrize("model", [DeViSE(alpha=0.01, max_iter=300, center=False), Fast0Tag(center=False)])
    def test_a_label_of_which_nothing_is_known_changes_nothing(self, data, model):
        Y, known = data.Y_train[:, data.seen].astype(float), np.arange(12) != 4
        scores = [
            fitted(model, data, Y=annotations, seen=vectors).decision_function(data.X_test, "unseen")
            for annotations, vectors in (
                (np.where(known, Y, np.nan), data.seen_labels.vectors),
                (Y[:, known], data.seen_labels.vectors[known]),
            )
        ]
        np.testing.assert_allclose(*scores, atol=0.05 * scores[1].std())

    def test_a_step_beyond_the_largest_useful_one_is_cut(self, data):
        assert fitted(DeViSE(alpha=50.0, learning_rate=1e6), data).objective_ <= 1.01

    @pytest.mark.parametrize("model", [DeViSE(center=False), Fast0Tag(center=False)])
    def test_without_pairs_there_is_only_the_threshold(self, data, model):
        y = data.Y_train[:, data.seen][:, :1]
        model = model.fit(data.X_train, y, data.seen_labels.vectors[:1])
        assert not raw_scores(model, data.X_test).any()
        assert np.mean(model.predict(data.X_train) == y) > 0.7

    def test_images_without_features_and_single_images_are_enough(self, data):
        X = np.vstack([np.zeros((3, 12)), data.X_train[3:]])
        assert np.isfinite(fitted(DeViSE(normalize=False), data, X=X).decision_function(X)).all()
        model = DeViSE().fit(data.X_train[:1], [[1, 0] + [np.nan] * 10], data.seen_labels)
        scores = model.decision_function(data.X_train[:1])[0]
        assert scores[0] > 0 > scores[1]


class TestLatEm:
    @pytest.mark.parametrize("pairs", ["all", "worst"])
    def test_with_one_map_it_is_devise_bit_for_bit(self, data, pairs):
        one, devise = fitted(LatEm(1, pairs=pairs), data), fitted(DeViSE(pairs=pairs), data)
        np.testing.assert_array_equal(one.decision_function(data.X_test), devise.decision_function(data.X_test))
        np.testing.assert_array_equal(one.objective_trace_, devise.objective_trace_)

    def test_a_score_is_that_of_the_best_map_and_so_are_its_parts(self, data):
        model = fitted(LatEm(3), data)
        M = unit(model.label_vectors_ - model.label_center_)
        by_map = np.array([unit(data.X_test) @ W @ model.label_basis_.T @ M.T for W in model.visual_maps_])
        assert len(set(by_map.argmax(axis=0).ravel())) > 1  # more than one map wins somewhere
        np.testing.assert_allclose(raw_scores(model, data.X_test), by_map.max(axis=0), atol=1e-9)
        for i, c in [(0, 0), (0, 5), (7, 3)]:
            parts = parts_of(model, data.X_test[i], model.label_names_[c])
            assert parts.sum() == pytest.approx(by_map[:, i, c].max())

    def test_more_maps_fit_what_one_cannot(self):
        """Two kinds of image that show a label for opposite reasons: no bilinear map ranks both."""
        rng = np.random.default_rng(0)
        x = rng.choice([-1.0, 1.0], (400, 1)) * rng.uniform(0.5, 1.5, (400, 1))
        side = rng.choice([-1.0, 1.0], (400, 1))
        Y = np.hstack([x * side > 0, x * side < 0]).astype(int)
        one, many = (LatEm(k, alpha=1e-4, max_iter=60).fit(np.hstack([x, side]), Y) for k in (1, 4))
        assert one.objective_ > 0.7
        assert many.objective_ < 0.2
        assert many.objective_trace_[-1] < many.objective_trace_[4] < many.objective_trace_[0]


def solver_direction(M, t, alpha):
    w = cp.Variable(M.shape[1])
    gaps = np.array([M[p] - M[n] for p, n in pairs_of(t)])
    loss = cp.sum(cp.pos(1 - gaps @ w)) / len(gaps)
    problem = cp.Problem(cp.Minimize(loss + alpha / 2 * cp.sum_squares(w)))
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-13, tol_gap_rel=1e-13, tol_feas=1e-11)
    return w.value


class TestPrincipalDirections:
    @pytest.mark.parametrize("alpha", [0.01, 1.0])
    @pytest.mark.parametrize("n_dims", [2, 12])
    def test_they_are_those_of_a_solver(self, alpha, n_dims):
        rng = np.random.default_rng(n_dims)
        M = rng.standard_normal((7, n_dims))
        M[6] = M[5]  # two labels that cannot be told apart
        T = rng.choice([-1, 0, 1], (6, 7), p=[0.5, 0.2, 0.3]).astype(np.int8)
        T[:, :2] = 1, -1
        directions, gap = principal_directions(M, T, alpha=alpha, tol=1e-10)
        assert gap <= 1e-10
        for t, w in zip(T, directions, strict=True):
            np.testing.assert_allclose(w, solver_direction(M, t, alpha), rtol=0, atol=1e-4 * np.linalg.norm(w))

    def test_the_compiled_solver_is_the_python_one(self):
        rng = np.random.default_rng(0)
        M, t, b = rng.standard_normal((5, 3)), np.array([1, 1, -1, 0, -1], dtype=np.int8), np.zeros(5)
        gap = rank_labels(M @ M.T, t, 0.1, 1e-8, 1000, b)
        directions, same_gap = principal_directions(M, t[None], alpha=0.1, tol=1e-8)
        assert gap == pytest.approx(same_gap, abs=1e-12)
        np.testing.assert_allclose(b @ M, directions[0], atol=1e-9)

    def test_a_gap_that_stays_open_is_announced(self, monkeypatch):
        monkeypatch.setattr(_ranking, "MAX_PASSES", 1)
        M = np.random.default_rng(0).standard_normal((6, 3))
        with pytest.warns(ConvergenceWarning, match="alpha or tol"):
            principal_directions(M, np.array([[1, 1, 1, -1, -1, -1]], dtype=np.int8), alpha=1e-3, tol=1e-12)


class TestFast0Tag:
    @pytest.mark.parametrize("n_train", [120, 9], ids=["more images than features", "fewer"])
    @pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
    def test_the_map_is_a_ridge_regression_of_the_directions(self, data, n_train, storage):
        Y, T = data.Y_train[:n_train, data.seen], targets(data)[:n_train]
        model = Fast0Tag(alpha=0.5, ridge=0.03, center=False)
        model.fit(storage(data.X_train[:n_train]), Y, data.seen_labels)
        paired = Y.max(axis=1) > 0
        directions, _ = principal_directions(unit(data.seen_labels.vectors), T[paired], alpha=0.5, tol=1e-10)
        X, penalty = unit(data.X_train[:n_train][paired]), np.sqrt(0.03 * paired.sum()) * np.eye(12)
        expected = np.linalg.lstsq(np.vstack([X, penalty]), np.vstack([directions, np.zeros((12, 16))]))[0]
        found = model.visual_map_ @ model.label_basis_.T
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4 * np.abs(expected).max())
        assert model.direction_gap_ <= 1e-8
