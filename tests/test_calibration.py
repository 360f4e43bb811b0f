"""Probabilities: what a calibration promises, on simulated scenes."""

from collections import Counter

import numpy as np
import pytest
from scipy.special import expit
from sklearn.base import BaseEstimator, clone
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


class Linear(BaseEstimator):
    """A fitted tagger that is easily computed by hand: score <x, c>, and one clue of either kind."""

    def __init__(self, vectors):
        self.label_vectors_, self.n_seen_ = vectors, len(vectors)
        self.label_names_ = tuple(f"label {i}" for i in range(len(vectors)))
        self.trained_on = []

    def fit(self):
        raise NotImplementedError

    def _check_images(self, X):
        return X

    def _embed(self, vectors, argument):
        return vectors

    def _seen_vectors(self):
        return self.label_vectors_

    def _margin_scores(self, X, M):
        return X @ M.T

    def _clues(self, X, M):
        return [-np.abs(X @ M[:, ::-1].T)], [3.0 * M[:, 0]]

    def _trained_on(self, X, T, labels):
        self.trained_on.append((X, T, labels))
        model = Linear(self.label_vectors_[labels])
        model.label_vectors_ = model.label_vectors_ * 2.0
        return model


def plane(*degrees):
    return np.column_stack([np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))])


def test_quantities_are_those_of_their_definitions(monkeypatch):
    monkeypatch.setattr(calibration, "N_COMPETITORS", 4)
    monkeypatch.setattr(calibration, "HIGHEST", 0.5)
    rng, tagger, M, words = np.random.default_rng(0), Linear(plane(0, 50, 100, 200)), plane(0, 20, 75, 130), []
    words = np.vstack([plane(2, 18, 40, 70, 90, 120, 190, 300), 3.0 * plane(75)])
    X, R = 2.0 * rng.normal(size=(6, 2)), 2.0 * rng.normal(size=(5, 2))
    prepared = calibration.Prepared(tagger, M, R, words, None)
    found = prepared.quantities(X, X @ M.T, np.array([3, 0, 1]))

    def clue(x, c):
        return -abs(x @ c[::-1])

    def cosine(a, b):
        return a @ b / np.linalg.norm(a) / np.linalg.norm(b)

    def competition(own, best, near, score):
        return max(score(w) if near(w) else own - 8 for w in best) - own

    def expected(x, c):
        s, reference = x @ c, np.sort(R @ c)
        best = sorted(words, key=lambda w: -(x @ w))[:4]
        similar = {tuple(w): cosine(w, c) for w in words}
        is_near = [lambda w, t=t: t < similar[tuple(w)] < 0.95 for t in (0.3, 0.5)]
        to_seen = [0.0 if cosine(c, k) > 0.999999 else cosine(c, k) for k in tagger.label_vectors_]
        p_seen = [expit(x @ k) for k in tagger.label_vectors_]
        yield from (s, (s - reference.mean()) / reference.std(), np.mean(reference < s))
        yield from (clue(x, c), clue(x, c) - np.quantile([clue(r, c) for r in R], 0.9))
        for near in is_near:
            yield competition(s, best, near, lambda w: x @ w)
            yield competition(clue(x, c), best, near, lambda w: clue(x, w))
        close = {w: 1e-3 if t >= 0.95 else max(t, 0.0) + 1e-3 for w, t in similar.items()}
        yield max(x @ w + 2 * np.log(close[tuple(w)]) for w in best) - s
        higher = [w for w in best if x @ w > s and similar[tuple(w)] < 0.95]
        yield from (np.log1p(len(higher)), np.log1p(sum(not is_near[0](w) for w in higher)))
        yield max(p * max(t, 0) ** 2 for p, t in zip(p_seen, to_seen, strict=True))
        yield from (p_seen[int(np.argmax(to_seen))], sum(p_seen))
        yield from (reference.mean(), reference[-2:].mean(), np.log(expit(reference).mean() + 1e-9))
        yield from (sorted(to_seen)[-1], sorted(to_seen)[-3], sum(map(is_near[1], words)), 3 * c[0])

    np.testing.assert_allclose(
        found, [[list(expected(x, M[c])) for c in (3, 0, 1)] for x in X], rtol=1e-4, atol=1e-6
    )
    np.testing.assert_array_equal(prepared.is_seen, [True, False, False, False])
    none = calibration.Prepared(tagger, M, 0.0 * R, words, None).quantities(X, X @ M.T, np.arange(4))
    np.testing.assert_allclose(none[..., 1], 1e9 * (X @ M.T), rtol=1e-5)  # a label with one score everywhere


def annotated(rng, n_images=60, n_labels=9):
    """Annotations 1, -1 and 0 (unknown); the last label has no positive, the first image nothing known."""
    T = rng.choice([1, -1, 0], size=(n_images, n_labels), p=[0.3, 0.5, 0.2])
    T[:, -1], T[0] = -(T[:, -1] != 0).astype(int), 0
    return T


def test_each_useful_label_and_each_image_is_held_out_once_per_repeat():
    T = annotated(np.random.default_rng(0))
    folds = list(calibration._folds(T, (T == 1).any(axis=0), 3, 2, np.random.default_rng(1)))
    assert Counter(np.concatenate([fold.held for fold in folds])) == dict.fromkeys(range(8), 2)
    assert Counter(np.concatenate([fold.scored for fold in folds])) == dict.fromkeys(range(60), 2)
    assert {len(fold.held) for fold in folds} == {2, 3}
    assert [*folds[0].held] != [*folds[3].held]
    for kept, held, fitted, scored in folds:
        assert sorted([*kept, *held]) == list(range(8))
        assert sorted({*fitted, 0}) == sorted({*range(60)} - {*scored} | {0})  # image 0 says nothing
        assert 0 not in fitted
        assert all(np.array_equal(part, np.sort(part)) for part in (fitted, scored))


def test_folds_of_many_images_are_thinned_and_useless_ones_left_out(monkeypatch):
    monkeypatch.setattr(calibration, "MOST_FITTED", 7)
    monkeypatch.setattr(calibration, "MOST_SCORED", 5)
    T = annotated(np.random.default_rng(0))
    for kept, _, fitted, scored in calibration._folds(T, np.ones(9, bool), 3, 2, np.random.default_rng(1)):
        assert (len(fitted), len(scored)) == (len({*fitted}), len({*scored})) == (7, 5)
        assert (T[np.ix_(fitted, kept)] == 1).any(axis=0).all()
        assert (T[np.ix_(fitted, kept)] != 0).any(axis=1).all()
    rare = np.where(np.eye(4) == 1, 1, -1)
    assert not list(calibration._folds(rare[:, :2], np.ones(2, bool), 2, 1, np.random.default_rng(0)))  # one label
    assert not list(calibration._folds(rare[:2], np.ones(4, bool), 2, 1, np.random.default_rng(0)))  # one image


def test_entries_are_the_annotated_ones_and_a_tenth_of_the_hopeless_at_ten_times_the_weight():
    rng, vectors, words = np.random.default_rng(0), 6.0 * plane(*range(0, 360, 40)), plane(10, 80, 200)
    X, T, tagger, made = rng.normal(size=(900, 2)), annotated(rng, 900), Linear(vectors), calibration.Calibration()
    made.vocabulary_, made.vocabulary_scales_ = calibration.quantised(words, axis=1)
    fold = calibration._Fold(np.array([0, 2, 3, 5]), np.array([1, 4]), np.arange(0, 100), np.arange(100, 900))
    found = calibration._held_out(tagger, X, T, fold, made, 10, np.random.default_rng(0))
    (trained,) = tagger.trained_on
    assert all(map(np.array_equal, trained, (X[:100], T[:100], fold.kept)))
    reference = X[calibration.even_steps(fold.fitted, 10)]
    for labels, entries in zip((fold.held, fold.kept), found, strict=True):
        scores, t = X[100:] @ vectors[labels].T, T[100:, labels]
        hopeless = (t == -1) & (scores < scores.max(axis=1, keepdims=True) - 7) & (scores < 0)
        assert (entries.weights == 1).sum() == (~hopeless & (t != 0)).sum()
        assert (entries.weights == 10).sum() == pytest.approx(0.1 * hopeless.sum(), rel=0.5)
        assert set(entries.weights) == {1, 10}
        assert entries.is_shown.sum() == (t == 1).sum()
        for k, label in enumerate(labels):
            own = entries.labels == label
            assert entries.is_shown[own].sum() == (t[:, k] == 1).sum()
            np.testing.assert_allclose(
                np.sort(entries.quantities[own & entries.is_shown, 0]), np.sort(scores[t[:, k] == 1, k]), rtol=1e-5
            )
            highest = np.unique(entries.quantities[own][:, -4 - 2])  # mean of the best reference scores
            assert highest == pytest.approx((reference @ vectors[label]).max(), rel=1e-5)


def test_what_calibrate_learns_and_stores(monkeypatch):
    rng, calls, vectors = np.random.default_rng(0), [], plane(*range(0, 360, 40))
    X, words = rng.normal(size=(60, 2)), plane(10, 80, 200, 290)
    Y = (X @ vectors.T > 0.3).astype(float)
    options = {"n_splits": 3, "n_repeats": 2, "n_reference": 20, "n_trees": 10}
    tagger = calibrate(Linear(vectors), X, Y, words, progress=lambda *n: calls.append(n), **options)
    assert calls == [(i, 6) for i in range(1, 7)]
    made = tagger.calibration_
    assert made.left_.shape == made.values_.shape == (2, 10, 15)
    assert made.offsets_.shape == (2,)
    reference = made.reference_ * made.reference_scales_
    rows = [np.abs(X - row).max(axis=1).argmin() for row in reference]
    assert (len(rows), rows) == (20, sorted(set(rows)))
    np.testing.assert_allclose(reference, X[rows], atol=0.02)
    np.testing.assert_allclose(made.vocabulary_ * made.vocabulary_scales_[:, None], words, atol=0.01)
    scores, p = made.prepare(tagger, np.vstack([vectors[:2], plane(13)]))(X)
    np.testing.assert_allclose(scores[:, :2], X @ vectors[:2].T)
    assert p[:, 0] == pytest.approx(Y[:, 0], abs=0.9)
    again = calibrate(Linear(vectors), X, Y, words, **options).calibration_
    other = calibrate(Linear(vectors), X, Y, words, random_state=1, **options).calibration_
    assert np.array_equal(again.values_, made.values_)
    assert not np.array_equal(other.values_, made.values_)
    with pytest.raises(ValueError, match=r"^n_repeats: "):
        calibrate(Linear(vectors), X, Y, words, n_repeats=0)


@pytest.mark.parametrize("broken", [{"left_": 1}, {"right_": 0}, {"right_": 3}, {"values_": None}])
def test_trees_that_do_not_end_are_refused(broken):
    made = calibration.Calibration()
    made.left_, made.right_ = np.array([[[-1, 2, -1]]], np.int8), np.array([[[-1, 2, -1]]], np.int8)
    made.values_ = np.zeros((1, 1, 3))
    made._check_restored()
    for name, value in broken.items():
        tree = getattr(made, name)
        setattr(made, name, tree[..., :2] if value is None else np.where(tree == 2, value, tree))
    with pytest.raises(ValueError, match="do not end"):
        made._check_restored()
