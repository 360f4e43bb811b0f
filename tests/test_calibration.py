"""Probabilities: what a calibration promises, on simulated scenes."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier

from unseen import TAEP, calibration, make_tagged_scenes
from unseen.base import ZeroShotTagger
from unseen.baselines import ConSE
from unseen.calibration import calibrate
from unseen.ensembles import BackboneKnowledge, Combination, Stacked

FEW = {"n_splits": 3, "n_repeats": 1, "n_trees": 300, "n_reference": 40}
N_CLASSES = 12


@pytest.fixture(scope="module")
def data():
    return make_tagged_scenes(300, 200, random_state=3)


def with_classes(data):
    """Features with the logits of a backbone that knows some unseen labels."""
    classes = data.Y_train[:, data.unseen][:, :N_CLASSES], data.Y_test[:, data.unseen][:, :N_CLASSES]
    rng = np.random.default_rng(0)
    return [np.hstack([X, 4.0 * Y + rng.normal(size=Y.shape)]) for X, Y in
            zip((data.X_train, data.X_test), classes, strict=True)]  # fmt: skip


def calibrated(tagger, data, X=None, **options):
    X, Y = data.X_train if X is None else X, data.Y_train[:, data.seen]
    return calibrate(tagger.fit(X, Y, data.seen_labels), X, Y, data.labels, **FEW | options)


@pytest.fixture(scope="module")
def stacked(data):
    knowledge = BackboneKnowledge(data.unseen_labels.select(data.unseen_labels.names[:N_CLASSES]), sharpness=2.0)
    return calibrated(Stacked(knowledge, data.X_train.shape[1], n_splits=2), data, with_classes(data)[0])


@pytest.mark.parametrize("tagger", [TAEP(tol=1e-2), ConSE(), Stacked(n_splits=2)], ids=lambda t: type(t).__name__)
def test_every_tagger_can_be_calibrated(tagger, data):
    model = calibrated(clone(tagger), data)
    p = model.predict_proba(data.X_test, data.labels)
    assert p.shape == (200, 24)
    assert p.min() > 0
    assert p.max() < 1
    tags = model.tag(data.X_test[:1], data.labels, top=24)[0]
    assert [tag.p for tag in tags] == sorted((tag.p for tag in tags), reverse=True)
    np.testing.assert_allclose(sorted(tag.p for tag in tags), np.sort(p[0]), rtol=1e-5)


def test_likely_tags_are_right_and_unlikely_ones_wrong(stacked, data):
    X = with_classes(data)[1]
    for labels, columns in (("seen", data.seen), (data.unseen_labels, data.unseen)):
        p, shown = stacked.predict_proba(X, labels), data.Y_test[:, columns] == 1
        order = np.argsort(-p, axis=None)
        for entries in (order[:100], order[-1000:]):
            assert shown.ravel()[entries].mean() == pytest.approx(p.ravel()[entries].mean(), abs=0.15)
        assert p.ravel()[order[:100]].mean() > 2 * p.mean()


def test_a_probability_does_not_depend_on_the_other_labels(stacked, data):
    X, names = with_classes(data)[1][:5], data.labels.names
    everything = stacked.predict_proba(X, data.labels)
    for c in (0, 7, 23):
        alone = stacked.predict_proba(X, data.labels.select([names[c]]))
        np.testing.assert_allclose(alone[:, 0], everything[:, c], rtol=1e-12)
    one_by_one = [stacked.predict_proba(X[[i]], data.labels)[0] for i in range(5)]
    np.testing.assert_allclose(one_by_one, everything, rtol=1e-9)


def test_a_file_keeps_the_probabilities_and_a_new_fit_drops_them(stacked, data, tmp_path):
    X = with_classes(data)
    stacked.save(tmp_path / "model.safetensors")
    loaded = ZeroShotTagger.load(tmp_path / "model.safetensors")
    expected = stacked.predict_proba(X[1], data.labels)
    np.testing.assert_allclose(loaded.predict_proba(X[1], data.labels), expected, atol=1e-6)
    loaded.set_params(evidence=stacked.evidence).fit(X[0], data.Y_train[:, data.seen], data.seen_labels)
    assert not hasattr(loaded, "predict_proba")
    assert loaded.tag(X[1][:1], top=1)[0][0].p is None


def test_a_model_without_calibration_says_so(data):
    model = TAEP(tol=1e-1).fit(data.X_train, data.Y_train[:, data.seen], data.seen_labels)
    with pytest.raises(AttributeError) as error:
        model.predict_proba(data.X_test)
    assert "not calibrated" in str(error.value.__cause__)


def test_the_trees_are_those_of_scikit_learn(monkeypatch):
    rng = np.random.default_rng(0)
    q = rng.normal(size=(600, 5)).astype(np.float32)
    shown = q[:, 0] + 0.5 * q[:, 1] ** 2 + rng.normal(size=600) > 1
    labels = rng.integers(0, 9, 600)
    monkeypatch.setattr(calibration, "N_FITS", 3)
    trees, offset = calibration._boost(q, shown, labels, 75, 0)
    draws = np.random.default_rng(0)
    order = draws.permutation(600)
    group = (draws.permutation(9) % 3)[labels[order]]
    expected = np.zeros(600)
    for k in range(3):
        rows = order[group != k]
        model = HistGradientBoostingClassifier(
            max_iter=25, max_leaf_nodes=8, learning_rate=0.1, l2_regularization=10.0, max_features=0.3,
            min_samples_leaf=6, early_stopping=False, random_state=k, monotonic_cst=[1, 1, 1, 0, 0],
        )  # fmt: skip
        expected += model.fit(q[rows], shown[rows]).decision_function(q) / 3
    for few in (600, 599):  # walked, and compiled
        monkeypatch.setattr(calibration, "FEW_ENTRIES", few)
        np.testing.assert_allclose(offset + calibration.sum_of_trees(q, trees), expected, atol=1e-5)


def test_rarer_labels_have_smaller_odds(stacked, data):
    X = with_classes(data)
    rare = calibrated(clone(stacked), data, X[0], prior=0.25)
    odds = [p / (1.0 - p) for p in (model.predict_proba(X[1], data.labels) for model in (stacked, rare))]
    expected = np.where(np.isin(np.arange(24), data.unseen), 0.25, 1.0)
    np.testing.assert_allclose(odds[1] / odds[0], np.broadcast_to(expected, (200, 24)), rtol=1e-6)
    with pytest.raises(ValueError, match=r"^prior: "):
        calibrated(clone(stacked), data, X[0], prior=0.0)


def test_few_labels_are_refused(data):
    Y = data.Y_train[:, data.seen[:5]]
    labels = data.seen_labels.select(data.seen_labels.names[:5])
    model = ConSE().fit(data.X_train, Y, labels)
    with pytest.raises(ValueError, match=r"^Y: 5 labels"):
        calibrate(model, data.X_train, Y, data.labels, **FEW)
    with pytest.raises(ValueError, match=r"^n_splits: "):
        calibrate(model, data.X_train, Y, data.labels, n_splits=1)


def test_combinations_pass_on_the_clues_of_both(data):
    X = with_classes(data)
    knowledge = BackboneKnowledge(data.unseen_labels.select(data.unseen_labels.names[:N_CLASSES]), sharpness=2.0)
    model = Combination(TAEP(tol=1e-1), knowledge, data.X_train.shape[1])
    model.fit(X[0], data.Y_train[:, data.seen], data.seen_labels)
    M = model._embed(data.unseen_labels.vectors, "labels")
    clues = model._clues(X[1], M)
    assert [clue.shape for clue in clues] == [(200, 12)]
    assert np.argmax(clues[-1][:, 0]) in np.flatnonzero(data.Y_test[:, data.unseen[0]] == 1)
