"""Methods that score a label by classifiers or regressions of the seen labels, against their formulas."""

from itertools import combinations

import numpy as np
import pytest
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge
from tests.methods_data import exact_scenes, fitted, parts_of, raw_scores, unit

from unseen.baselines import COSTA, DMP, ESZSL, ConSE, Cosine, LabelPropagation, dmp, eszsl


@pytest.fixture(scope="module")
def data():
    return exact_scenes()


def embedded(model):
    return unit(model.label_vectors_ - model.label_center_)


def odds_of(model, X):
    return unit(X) @ model.weights_ + model.bias_


class TestConSE:
    @pytest.mark.parametrize("n_top", [1, 5, 99])
    def test_the_score_is_the_cosine_to_a_convex_combination_of_the_best_labels(self, data, n_top):
        model = fitted(ConSE(n_top=n_top, C=3.0), data)
        M = embedded(model)
        for x, scores in zip(data.X_test, raw_scores(model, data.X_test), strict=True):
            odds = odds_of(model, x[None])[0]
            best = sorted(range(12), key=lambda k: -odds[k])[:n_top]
            np.testing.assert_allclose(scores, unit(expit(odds[best]) @ M[best]) @ M.T, atol=1e-10)

    def test_only_the_labels_of_the_combination_explain_a_score(self, data):
        model = fitted(ConSE(n_top=3), data)
        M, odds = embedded(model), odds_of(model, data.X_test[:1])[0]
        best = np.argsort(-odds)[:3]
        expected = np.zeros(12)
        expected[best] = expit(odds[best]) * (M[best] @ M[14]) / np.linalg.norm(expit(odds[best]) @ M[best])
        np.testing.assert_allclose(parts_of(model, data.X_test[0], model.label_names_[14]), expected, atol=1e-12)

    def test_a_single_seen_label_is_scored_by_its_probability(self, data):
        model = ConSE(center=False).fit(data.X_train, data.Y_train[:, :1], data.seen_labels.vectors[:1])
        np.testing.assert_allclose(raw_scores(model, data.X_test), expit(odds_of(model, data.X_test)), atol=1e-10)


class TestCOSTA:
    def test_a_label_is_the_weighted_sum_of_the_seen_classifiers(self, data):
        R = data.relations("hierarchy")
        R[20], R[:, 20] = 0.0, 0.0  # a label without relations takes its weights from its vector
        model = fitted(COSTA(temperature=0.5), data, 8.0 * R)
        M, seen = embedded(model), odds_of(model, data.X_test)
        shares = R[12:, :12].copy()
        shares[8] = np.exp(M[20] @ M[:12].T / 0.5)
        shares /= shares.sum(axis=1, keepdims=True)
        scores = raw_scores(model, data.X_test)
        np.testing.assert_allclose(scores[:, :12], seen, atol=1e-10)
        np.testing.assert_allclose(scores[:, 12:], seen @ shares.T, atol=1e-10)
        np.testing.assert_allclose(
            parts_of(model, data.X_test[0], model.label_names_[15]), seen[0] * shares[3], atol=1e-10
        )

    def test_a_label_is_recognised_up_to_the_rounding_of_an_encoder(self, data):
        model = fitted(COSTA(), data, data.relations("hierarchy"))
        shaken = model.label_vectors_ * (1.0 + 1e-7 * np.random.default_rng(0).normal(size=(24, 16)))
        np.testing.assert_allclose(
            model.decision_function(data.X_test, shaken), model.decision_function(data.X_test, "all"), atol=1e-9
        )


class TestLabelPropagation:
    @pytest.mark.parametrize("alpha", [0.1, 0.95])
    def test_the_closed_form_is_where_the_iteration_ends(self, data, alpha):
        R = data.relations("hierarchy")
        model = fitted(LabelPropagation(alpha=alpha), data, 5.0 * R + 3.0 * np.eye(24))
        np.fill_diagonal(R, 0.0)
        S = R / R.sum(axis=1, keepdims=True)
        f = p = np.hstack([expit(odds_of(model, data.X_test)), np.zeros((20, 12))])
        for _ in range(800):
            f = alpha * f @ S.T + (1.0 - alpha) * p
        np.testing.assert_allclose(raw_scores(model, data.X_test), f, atol=1e-8)
        parts = parts_of(model, data.X_test[0], model.label_names_[15])
        assert parts.sum() == pytest.approx(f[0, 15])
        assert min(parts) >= 0.0

    def test_a_late_label_obeys_the_equation_of_the_unseen_ones(self, data):
        names = data.unseen_labels.names
        model = fitted(LabelPropagation(0.4, temperature=0.2), data, unseen=data.unseen_labels.select(names[:11]))
        late = data.unseen_labels.vectors[11:]
        shares = np.exp(unit(late - model.label_center_) @ embedded(model).T / 0.2)
        expected = 0.4 * raw_scores(model, data.X_test) @ (shares / shares.sum()).T
        np.testing.assert_allclose(raw_scores(model, data.X_test, late), expected, atol=1e-10)

    def test_an_isolated_label_has_similarities_in_place_of_relations(self, data):
        R = data.relations("hierarchy")
        R[20], R[:, 20] = 0.0, 0.0
        model, f = fitted(LabelPropagation(), data, R), None
        M, f = embedded(model), raw_scores(model, data.X_test)
        shares = np.where(np.arange(24) == 20, 0.0, np.exp(M[20] @ M.T / 0.1))
        np.testing.assert_allclose(f[:, 20], 0.5 * f @ shares / shares.sum(), atol=1e-10)

    def test_a_single_label_has_no_neighbours(self, data):
        model = LabelPropagation(0.25, center=False)
        model.fit(data.X_train, data.Y_train[:, :1], data.seen_labels.vectors[:1])
        np.testing.assert_allclose(raw_scores(model, data.X_test), 0.75 * expit(odds_of(model, data.X_test)))


class TestDMP:
    @pytest.mark.parametrize("n_images", [150, 25], ids=["more images than features", "fewer"])
    def test_an_image_lies_where_a_ridge_regression_of_mean_label_vectors_puts_it(self, data, n_images):
        Y = data.Y_train[:n_images, data.seen].astype(float)
        Y[::3, 2] = np.nan  # takes part with the frequency of the label
        model = fitted(DMP(alpha=0.3), data, X=data.X_train[:n_images], Y=Y)
        M, shares = embedded(model), np.where(np.isnan(Y), np.nanmean(Y, axis=0), Y)
        shares = shares / np.where(shares.sum(axis=1) > 0, shares.sum(axis=1), 1.0)[:, None]
        ridge = Ridge(alpha=0.3, fit_intercept=False).fit(
            unit(data.X_train[:n_images]), shares - shares.mean(axis=0)
        )
        predicted = ridge.predict(unit(data.X_test)) + shares.mean(axis=0)
        np.testing.assert_allclose(raw_scores(model, data.X_test), predicted @ M[:12] @ M.T, atol=1e-8)
        parts = parts_of(model, data.X_test[0], model.label_names_[15])
        np.testing.assert_allclose(parts, predicted[0] * (M[:12] @ M[15]), atol=1e-8)

    def test_the_best_subset_is_that_of_the_power_set(self, data):
        model = fitted(DMP(), data)
        found = model.predict_subset(data.X_test, list(data.unseen_labels.names[:8]), max_size=8)
        M = embedded(model)[12:20]
        subsets = [list(s) for size in range(1, 9) for s in combinations(range(8), size)]
        for x, row in zip(data.X_test, found, strict=True):
            v = unit(x) @ model.weights_ + model.mean_
            best = max(subsets, key=lambda subset: v @ unit(M[subset].mean(axis=0)))
            assert np.flatnonzero(row).tolist() == best
        assert len(set(found.sum(axis=1))) > 1

    def test_vectors_that_cancel_out_are_not_a_subset(self, data):
        model = DMP(center=False).fit(data.X_train, data.Y_train[:, :2], [[1.0, 0.0], [0.0, 1.0]])
        assert (model.predict_subset(data.X_test, [[1.0, 0.0], [-1.0, 0.0]]).sum(axis=1) == 1).all()

    def test_too_many_subsets_are_refused(self, data, monkeypatch):
        model = fitted(DMP(), data)
        monkeypatch.setattr(dmp, "MOST_SUBSETS", 77)
        assert model.predict_subset(data.X_test, max_size=1).shape == (20, 12)
        for size in (0, 2):
            with pytest.raises(ValueError, match=r"^max_size: "):
                model.predict_subset(data.X_test, max_size=size)


class TestESZSL:
    @pytest.mark.parametrize("n_images", [150, 25], ids=["more images than features", "fewer"])
    @pytest.mark.parametrize("known_share", [1.0, 0.6])
    def test_the_gradient_over_the_known_entries_is_zero(self, data, n_images, known_share):
        T = 2.0 * data.Y_train[:n_images, data.seen] - 1.0
        known = np.random.default_rng(0).random(T.shape) < known_share
        X, Y = data.X_train[:n_images], np.where(known, T > 0, np.nan)
        model = fitted(ESZSL(gamma=0.3, lam=2.0), data, X=X, Y=Y)
        X, Ms, W = unit(X), embedded(model)[:12], model.weights_
        gradient = X.T @ (known * (X @ W @ Ms.T - T)) @ Ms + 0.3 * W @ Ms.T @ Ms + 2.0 * X.T @ X @ W + 0.6 * W
        np.testing.assert_allclose(gradient, 0.0, atol=1e-7)
        assert (model.n_iter_ == 0) == (known_share == 1.0)

    def test_steps_that_end_before_the_tolerance_warn(self, data, monkeypatch):
        monkeypatch.setattr(eszsl, "MAX_ITER", 2)
        with pytest.warns(ConvergenceWarning, match="lam"):
            fitted(ESZSL(), data, Y=np.where(data.Y_train[:, data.seen] == 1, 1, np.nan))

    def test_a_score_is_explained_by_the_closed_form(self, data):
        model = fitted(ESZSL(gamma=0.3, lam=2.0), data)
        X, M, T = unit(data.X_train), embedded(model), 2.0 * data.Y_train[:, data.seen] - 1.0
        evidence = np.linalg.solve(X.T @ X + 0.3 * np.eye(40), X.T @ T) @ np.linalg.inv(
            M[:12] @ M[:12].T + 2 * np.eye(12)
        )
        parts = parts_of(model, data.X_test[0], model.label_names_[12])
        np.testing.assert_allclose(parts, unit(data.X_test[0]) @ evidence * (M[:12] @ M[12]), atol=1e-8)


class TestCosine:
    @pytest.mark.parametrize("center", [False, True])
    def test_the_score_is_the_cosine(self, center):
        same_space = exact_scenes(n_features=16)
        model = fitted(Cosine(center=center), same_space)
        expected = unit(same_space.X_test) @ embedded(model).T
        np.testing.assert_allclose(raw_scores(model, same_space.X_test), expected, atol=1e-12)

    def test_spaces_of_different_dimensions_are_refused(self, data):
        with pytest.raises(ValueError, match=r"^seen: "):
            fitted(Cosine(), data)

    def test_without_annotations_a_label_has_its_share_of_the_evidence(self, tmp_path):
        words = {"cat": [1.0, 0.1, 0.0], "car": [0.0, 1.0, 0.1], "tree": [0.1, 0.0, 1.0]}
        kitten, sky = [1.0, 0.12, 0.0], [-1.0, 0.5, 0.5]
        X = np.array([[2.0, 0.4, 0.2], [0.1, 0.1, 0.1], [0.0, 1.0, 1.0]])
        model = Cosine.without_annotations(words, scale=10.0)
        cosines = unit(X) @ unit(np.array([*words.values(), kitten, sky])).T
        e = np.exp(10 * cosines)
        rivals = [[1, 2], [0, 2], [0, 1], [1, 2], [0, 1, 2]]  # all but the word and its synonyms
        expected = np.column_stack([e[:, c] / (e[:, c] + e[:, rivals[c]].sum(axis=1)) for c in range(5)])
        asked = words | {"kitten": kitten, "sky": sky}
        np.testing.assert_allclose(model.predict_proba(X, asked), expected, rtol=1e-6)
        np.testing.assert_allclose(
            model.predict_proba(X, {"sky": sky})[:, 0], expected[:, 4]
        )  # alone as in company
        np.testing.assert_array_equal(model.predict(X, asked), expected > 0.5)
        model.save(tmp_path / "m.safetensors")
        loaded = Cosine.load(tmp_path / "m.safetensors")
        np.testing.assert_allclose(loaded.predict_proba(X, "all"), expected[:, :3])
        own = Cosine.without_annotations(words, scale=10.0, bias=-8.0).predict_proba(X, "all")
        np.testing.assert_allclose(own, 1 / (1 + np.exp(8 - 10 * cosines[:, :3])))

    def test_probabilities_are_finite_for_any_scale_and_refused_after_a_fit(self):
        same_space = exact_scenes(n_features=16)
        labels = same_space.seen_labels
        model = Cosine.without_annotations(labels, scale=1e6)
        p = model.predict_proba(same_space.X_test, "all")
        assert p.min() >= 0
        assert p.max() <= 1
        assert not hasattr(fitted(Cosine(), same_space), "predict_proba")
        for arguments in ({"scale": 0.0}, {"bias": float("nan")}):
            with pytest.raises(ValueError, match=rf"^{next(iter(arguments))}: "):
                Cosine.without_annotations(labels, **arguments)
        with pytest.raises(ValueError, match=r"^labels: "):
            model.predict(same_space.X_test)  # there are no seen labels
