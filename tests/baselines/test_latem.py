"""LatEm: the best of several maps."""

from typing import Any

import numpy as np
import pytest
from tests.data import needs_voc, voc2007

from unseen import make_tagged_scenes
from unseen.baselines._ranking_kernels import _image_slope, best_maps, pair_loss
from unseen.baselines._sgd import FEWEST_WINS
from unseen.baselines.devise import DeViSE
from unseen.baselines.latem import LatEm


@pytest.fixture(scope="module")
def data():
    return make_tagged_scenes(150, 30, n_features=12, n_dims=16, random_state=1)


def fit(data: Any, *parameters: Any, **named: Any) -> LatEm:
    return LatEm(*parameters, **named).fit(data.X_train, data.Y_train[:, data.seen], data.seen_labels)


@pytest.mark.parametrize("pairs", ["all", "worst"])
@pytest.mark.parametrize("seed", [0, 5])
def test_with_one_map_it_is_devise_bit_for_bit(data, pairs, seed):
    devise = DeViSE(pairs=pairs, random_state=seed)
    devise.fit(data.X_train, data.Y_train[:, data.seen], data.seen_labels)
    latem = fit(data, 1, pairs=pairs, random_state=seed)
    np.testing.assert_array_equal(latem.decision_function(data.X_test), devise.decision_function(data.X_test))
    np.testing.assert_array_equal(latem.objective_trace_, devise.objective_trace_)


def test_the_slope_in_the_projections_agrees_with_finite_differences():
    rng = np.random.default_rng(0)
    n_labels, rank, n_maps = 6, 3, 4
    for _ in range(10):
        C, z = rng.standard_normal((n_labels, rank)), rng.standard_normal(n_maps * rank)
        t = np.array([1, 1, -1, -1, 0, -1], dtype=np.int8)
        s, slope, best = np.empty(n_labels), np.empty(n_labels), np.empty(n_labels, np.int64)

        def loss(z, C=C, t=t, s=s, slope=slope, best=best):
            best_maps(z, C, s, best)
            return pair_loss(t, s, False, slope)

        change = np.empty(n_maps * rank)
        _image_slope(z, C, t, False, s, best, slope, change)
        numeric = [(loss(z + h) - loss(z - h)) / 2e-6 for h in 1e-6 * np.eye(n_maps * rank)]
        np.testing.assert_allclose(change, numeric, atol=1e-6)


def test_a_score_is_the_best_of_the_maps(data):
    model = fit(data, 3)
    X = data.X_test / np.linalg.norm(data.X_test, axis=1, keepdims=True)
    M = model._embed(data.unseen_labels.vectors, "labels")
    maps = model.visual_maps_ @ model.label_basis_.T
    assert maps.shape == (3, 12, 16)
    expected = np.max([X @ W @ M.T for W in maps], axis=0) - model.threshold(data.X_test)[:, None]
    np.testing.assert_allclose(model.decision_function(data.X_test, data.unseen_labels), expected, atol=1e-6)


def test_more_maps_fit_what_one_cannot():
    """Two kinds of image that show a label for opposite reasons: no bilinear map ranks both."""
    rng = np.random.default_rng(0)
    x = rng.choice([-1.0, 1.0], (400, 1)) * rng.uniform(0.5, 1.5, (400, 1))
    side = rng.choice([-1.0, 1.0], (400, 1))
    X = np.hstack([x, side])
    Y = np.hstack([x * side > 0, x * side < 0]).astype(int)
    one, many = (LatEm(k, alpha=1e-4, max_iter=60).fit(X, Y) for k in (1, 4))
    assert one.objective_ > 0.7
    assert many.objective_ < 0.2


def test_the_objective_falls(data):
    trace = fit(data, 4).objective_trace_
    assert trace[-1] < trace[4] < trace[0]


def test_pruning_keeps_the_maps_that_are_used(data):
    model = fit(data, "auto")
    n_maps = len(model.visual_maps_)
    assert 1 <= n_maps < 16
    assert model.map_shares_.shape == (n_maps,)
    assert model.map_shares_.sum() == pytest.approx(1.0)
    assert fit(data, 3).map_shares_.shape == (3,)
    assert 0 < FEWEST_WINS < 1 / 16


def test_pruning_needs_no_five_epochs(data):
    for max_iter in (1, 2, 3):
        assert np.isfinite(fit(data, "auto", max_iter=max_iter).decision_function(data.X_test)).all()


def test_another_seed_gives_another_model(data):
    first, second = (fit(data, 3, random_state=seed).decision_function(data.X_test) for seed in (0, 1))
    assert np.abs(first - second).max() > 0


def test_without_pairs_there_are_no_maps_to_speak_of(data):
    for n_maps in (3, "auto"):
        model = LatEm(n_maps).fit(data.X_train, data.Y_train[:, :1])
        assert not model.visual_maps_.any()
        assert len(model.map_shares_) == len(model.visual_maps_)


def test_a_label_of_which_nothing_is_known_is_no_obstacle(data):
    Y = data.Y_train[:, data.seen].astype(float)
    Y[:, 3] = np.nan
    model = LatEm(3).fit(data.X_train, Y, data.seen_labels, data.unseen_labels)
    assert np.isfinite(model.decision_function(data.X_test, "all")).all()


@pytest.mark.parametrize("n_maps", [0, -1, 1.5, "many", True, None])
def test_the_number_of_maps_is_checked(data, n_maps):
    with pytest.raises(ValueError, match=rf"^n_maps: {n_maps!r} was given\. Pass an integer of at least 1"):
        fit(data, n_maps)


@needs_voc
def test_real_images_are_tagged_with_unseen_labels():
    from unseen.evaluation.protocol import evaluate

    train, zero_shot, _, seen, unseen = voc2007()
    model = LatEm().fit(train.X, train.Y, seen, unseen)
    assert evaluate(model.decision_function(zero_shot.X, "unseen"), zero_shot).miap > 0.5


def test_the_map_that_wins_for_a_label_explains_it(data):
    model = fit(data, 3)
    X = data.X_test / np.linalg.norm(data.X_test, axis=1, keepdims=True)
    m = data.seen_labels.vectors - model.label_center_
    m /= np.linalg.norm(m, axis=1, keepdims=True)
    by_map = np.einsum("id,kdr,cr->kic", X, model.visual_maps_, m @ model.label_basis_)
    assert len(set(by_map.argmax(axis=0).ravel())) > 1  # more than one map wins somewhere
    for i, c in [(0, 0), (0, 5), (7, 3)]:
        why = model.explain(data.X_test[i], data.seen_labels.names[c])
        assert sum(part.value for part in why.parts) == pytest.approx(by_map[:, i, c].max(), abs=1e-6)
