"""Fast0Tag: principal directions by ranking SVMs, and their two mappings."""

import sys
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from tests.data import needs_voc, voc2007

from unseen import ZeroShotTagger, make_tagged_scenes
from unseen.baselines import _ranking_svm
from unseen.baselines._ranking_svm import principal_directions
from unseen.baselines.fast0tag import Fast0Tag


@pytest.fixture(scope="module")
def data():
    return make_tagged_scenes(120, 30, n_features=12, n_dims=16, random_state=1)


def fit(data: Any, **parameters: Any) -> Fast0Tag:
    return Fast0Tag(**parameters).fit(data.X_train, data.Y_train[:, data.seen], data.seen_labels)


def solver_direction(M: np.ndarray, t: np.ndarray, alpha: float) -> np.ndarray:
    w = cp.Variable(M.shape[1])
    gaps = np.array([M[p] - M[n] for p in np.flatnonzero(t > 0) for n in np.flatnonzero(t < 0)])
    loss = cp.sum(cp.pos(1 - gaps @ w)) / len(gaps)
    cp.Problem(cp.Minimize(loss + alpha / 2 * cp.sum_squares(w))).solve(
        solver=cp.CLARABEL, tol_gap_abs=1e-13, tol_gap_rel=1e-13, tol_feas=1e-11
    )
    return w.value


class TestPrincipalDirections:
    @pytest.mark.parametrize("alpha", [0.01, 0.1, 1.0, 10.0])
    @pytest.mark.parametrize("n_dims", [2, 5, 12])
    def test_they_are_those_of_a_solver(self, alpha, n_dims):
        rng = np.random.default_rng(n_dims)
        M = rng.standard_normal((7, n_dims))
        T = rng.choice([-1, 0, 1], (6, 7), p=[0.5, 0.2, 0.3]).astype(np.int8)
        T[:, :2] = 1, -1
        directions, gap = principal_directions(M, T, alpha=alpha, tol=1e-10)
        assert gap <= 1e-10
        for t, w in zip(T, directions, strict=True):
            np.testing.assert_allclose(w, solver_direction(M, t, alpha), rtol=0, atol=1e-4 * np.linalg.norm(w))

    def test_labels_come_before_all_others_where_that_is_possible(self):
        rng = np.random.default_rng(0)
        M, T = rng.standard_normal((6, 10)), rng.choice([-1, 1], (20, 6)).astype(np.int8)
        directions, _ = principal_directions(M, T, alpha=1e-4, tol=1e-8)
        for t, w in zip(T, directions, strict=True):
            scores = M @ w
            if t.min() < t.max():
                assert scores[t > 0].min() > scores[t < 0].max() + 0.99

    def test_without_pairs_there_is_no_direction(self):
        T = np.array([[1, 1, 0], [-1, 0, -1], [0, 0, 0]], dtype=np.int8)
        directions, gap = principal_directions(np.eye(3), T, alpha=1.0, tol=1e-8)
        assert not directions.any()
        assert gap == 0.0

    def test_labels_with_one_vector_cannot_be_told_apart(self):
        M = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        directions, gap = principal_directions(M, np.array([[1, -1, -1]], dtype=np.int8), alpha=0.1, tol=1e-9)
        assert gap <= 1e-9
        np.testing.assert_allclose(directions[0], solver_direction(M, np.array([1, -1, -1]), 0.1), atol=1e-4)

    def test_a_gap_that_stays_open_is_announced(self, monkeypatch):
        monkeypatch.setattr(_ranking_svm, "MAX_PASSES", 1)
        M = np.random.default_rng(0).standard_normal((6, 3))
        with pytest.warns(ConvergenceWarning, match=r"relative gap of .* > tol=1e-12: raise alpha or tol"):
            principal_directions(M, np.array([[1, 1, 1, -1, -1, -1]], dtype=np.int8), alpha=1e-3, tol=1e-12)


class TestLinear:
    @pytest.mark.parametrize("n_train", [120, 9], ids=["more images than features", "fewer"])
    @pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
    def test_the_closed_form_is_that_of_a_solver(self, data, n_train, storage):
        X, Y = data.X_train[:n_train].astype(np.float64), data.Y_train[:n_train, data.seen]
        model = Fast0Tag(alpha=0.5, ridge=0.03, center=False).fit(storage(X), Y, data.seen_labels)
        M = data.seen_labels.vectors / np.linalg.norm(data.seen_labels.vectors, axis=1, keepdims=True)
        directions, _ = principal_directions(M, (2 * Y - 1).astype(np.int8), alpha=0.5, tol=1e-10)
        paired = (Y.max(axis=1) > 0) & (Y.min(axis=1) < 1)
        X = X[paired] / np.linalg.norm(X[paired], axis=1, keepdims=True)
        penalty = np.sqrt(0.03 * len(X)) * np.eye(12)
        expected = np.linalg.lstsq(
            np.vstack([X, penalty]), np.vstack([directions[paired], np.zeros((12, 16))]), rcond=None
        )[0]
        found = model.visual_map_ @ model.label_basis_.T
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4 * np.abs(expected).max())
        assert model.direction_gap_ <= model.tol

    def test_units_are_immaterial(self, data):
        scores = fit(data, normalize=False, center=False).decision_function(
            data.X_test, data.unseen_labels.vectors
        )
        model = Fast0Tag(normalize=False, center=False)
        model.fit(1024 * data.X_train, data.Y_train[:, data.seen], data.seen_labels.vectors / 8)
        again = model.decision_function(1024 * data.X_test, data.unseen_labels.vectors / 8)
        np.testing.assert_allclose(again, scores, atol=1e-4 * scores.std())

    def test_a_blank_label_teaches_nothing(self, data):
        Y = data.Y_train[:, data.seen].astype(float)
        kept = np.arange(Y.shape[1]) != 4
        one = Fast0Tag(center=False).fit(data.X_train, np.where(kept, Y, np.nan), data.seen_labels)
        two = Fast0Tag(center=False).fit(data.X_train, Y[:, kept], data.seen_labels.vectors[kept])
        expected = two.decision_function(data.X_test, data.unseen_labels)
        scores = one.decision_function(data.X_test, data.unseen_labels)
        np.testing.assert_allclose(scores, expected, atol=1e-3 * expected.std())

    def test_a_label_that_all_images_show_or_lack_is_no_obstacle(self, data):
        Y = data.Y_train[:, data.seen].copy()
        Y[:, 0], Y[:, 1] = 1, 0
        scores = Fast0Tag().fit(data.X_train, Y, data.seen_labels).decision_function(data.X_test)
        assert (scores[:, 0] > scores[:, 1]).all()

    def test_without_pairs_there_is_only_the_threshold(self, data):
        y = data.Y_train[:, data.seen][:, :1]
        model = Fast0Tag().fit(data.X_train, y)
        assert not model.visual_map_.any()
        assert np.mean(model.predict(data.X_train) == y) > 0.7

    @needs_voc
    def test_real_images_are_tagged_with_unseen_labels(self):
        from unseen.evaluation.protocol import evaluate

        train, zero_shot, _, seen, unseen = voc2007()
        model = Fast0Tag().fit(train.X, train.Y, seen, unseen)
        assert evaluate(model.decision_function(zero_shot.X, "unseen"), zero_shot).miap > 0.52


class TestNetwork:
    @pytest.fixture(autouse=True)
    def torch(self):
        return pytest.importorskip("torch", reason='needs pip install "unseen[torch]"')

    def test_the_loss_is_the_mean_over_the_pairs(self, torch):
        from unseen.baselines._network import ranknet_loss

        rng = np.random.default_rng(0)
        S, T = rng.standard_normal((5, 6)), rng.integers(-1, 2, (5, 6)).astype(np.int8)
        T[:, :2] = 1, -1
        T[0] = 1  # an image without a pair costs nothing
        images = [
            np.mean([np.log1p(np.exp(s[n] - s[p])) for p in np.flatnonzero(t > 0) for n in np.flatnonzero(t < 0)])
            for s, t in zip(S[1:], T[1:], strict=True)
        ]
        loss = ranknet_loss(torch, torch.tensor(S), torch.tensor(T))
        assert float(loss) == pytest.approx(np.sum(images) / 5)

    def test_it_ranks_the_training_labels(self, data):
        model = fit(data, mapping="network", dropout=0.0, n_epochs=100, learning_rate=3e-3)
        assert model.loss_trace_[-1] < 0.5 * model.loss_trace_[0]
        Y, scores = data.Y_train[:, data.seen], model.decision_function(data.X_train)
        best = scores.argmax(axis=1)
        shown = Y.any(axis=1)
        assert Y[np.arange(len(Y)), best][shown].mean() > 0.8

    def test_units_are_immaterial(self, data):
        given = {"mapping": "network", "n_epochs": 3, "normalize": False, "center": False}
        scores = fit(data, **given).decision_function(data.X_test, data.unseen_labels.vectors)
        model = Fast0Tag(**given).fit(
            1024 * data.X_train, data.Y_train[:, data.seen], data.seen_labels.vectors / 8
        )
        again = model.decision_function(1024 * data.X_test, data.unseen_labels.vectors / 8)
        np.testing.assert_allclose(again, scores, atol=1e-3 * scores.std())

    def test_a_fit_leaves_the_generator_of_others_alone(self, data, torch):
        torch.manual_seed(0)
        expected = torch.rand(3)
        torch.manual_seed(0)
        fit(data, mapping="network", n_epochs=1)
        assert torch.equal(torch.rand(3), expected)

    def test_a_saved_network_needs_no_torch(self, data, tmp_path, monkeypatch):
        model = fit(data, mapping="network", n_epochs=2)
        model.save(tmp_path / "model")
        monkeypatch.setitem(sys.modules, "torch", None)
        loaded = ZeroShotTagger.load(tmp_path / "model")
        np.testing.assert_array_equal(
            loaded.decision_function(data.X_test, data.unseen_labels),
            model.decision_function(data.X_test, data.unseen_labels),
        )

    def test_refitting_with_the_other_mapping_leaves_nothing_behind(self, data):
        model = fit(data, mapping="network", n_epochs=1)
        expected = fit(data).decision_function(data.X_test)
        model.set_params(mapping="linear").fit(data.X_train, data.Y_train[:, data.seen], data.seen_labels)
        assert not hasattr(model, "first_weights_")
        np.testing.assert_array_equal(model.decision_function(data.X_test), expected)

    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"n_hidden": 0}, r"^n_hidden: 0 was given\. Pass an integer of at least 1"),
            ({"dropout": 1.0}, r"^dropout: 1\.0 was given\. Pass a finite number >= 0 and <= 0\.95"),
            ({"weight_decay": -1}, r"^weight_decay: -1 was given"),
            ({"learning_rate": 0.0}, r"^learning_rate: 0\.0 was given\. Pass a finite number > 0"),
            ({"n_epochs": 0.5}, r"^n_epochs: 0\.5 was given\. Pass an integer of at least 1"),
            ({"random_state": "x"}, r"^random_state: 'x' was given"),
        ],
        ids=repr,
    )
    def test_parameters_are_checked(self, data, parameters, message):
        with pytest.raises(ValueError, match=message):
            fit(data, mapping="network", **parameters)


def test_without_torch_the_network_says_what_to_install(data, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r'^mapping: "network" needs PyTorch.*pip install "unseen\[torch\]"'):
        fit(data, mapping="network")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"mapping": "quadratic"}, r"^mapping: 'quadratic' was given\. Choose one of 'linear', 'network'"),
        ({"alpha": 0}, r"^alpha: 0 was given\. Pass a finite number > 0"),
        ({"ridge": -1.0}, r"^ridge: -1\.0 was given\. Pass a finite number > 0"),
        ({"tol": 0.0}, r"^tol: 0\.0 was given\. Pass a finite number > 0"),
    ],
    ids=repr,
)
def test_parameters_are_checked(data, parameters, message):
    with pytest.raises(ValueError, match=message):
        fit(data, **parameters)
