"""Probabilities: what a calibration promises, on simulated scenes."""

import sys
import warnings
from collections import Counter
from copy import copy
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.ensemble
from scipy.special import expit, logit
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_info, threadpool_limits

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
    assert [part.dtype for part in trees] == [np.int16, np.float32, np.int8, np.int8, np.float32]
    np.testing.assert_array_equal(trees.left < 0, trees.right < 0)
    compiled = "unseen.solvers.trees"
    monkeypatch.delitem(sys.modules, compiled, raising=False)
    for few in (600, 599):  # walked, and compiled
        monkeypatch.setattr(calibration, "FEW_ENTRIES", few)
        np.testing.assert_allclose(offset + calibration.sum_of_trees(q, trees), expected, atol=1e-5)
        assert (compiled in sys.modules) == (few == 599)
    monkeypatch.setattr(sys.modules[compiled], "sum_of_many", lambda *given: [7.0])
    assert calibration.sum_of_trees(q[:1], trees) == [7.0]  # compiled code that is loaded is used


@pytest.mark.parametrize(("shown", "rate", "without"), [((0,), 1 / 80, 0.5 / 81), (range(99), 79 / 80, 80.5 / 81)])
def test_a_fit_without_one_kind_of_entries_is_its_smoothed_rate(shown, rate, without):
    q, labels = np.random.default_rng(0).normal(size=(100, 4)).astype(np.float32), np.arange(100) // 10
    _, offset = calibration._boost(q, np.isin(np.arange(100), shown), labels, 10, 0)
    assert offset == pytest.approx((4 * logit(rate) + logit(without)) / 5)  # one fit leaves out the only entry


@pytest.mark.parametrize(("n_entries", "most", "fewest"), [(60, 1000, 1), (600, 300, 3), (12_000, 12_000, 100)])
def test_a_leaf_has_a_hundredth_of_the_entries_and_at_most_a_hundred(monkeypatch, n_entries, most, fewest):
    fits, threads = [], set()

    class Recorded(HistGradientBoostingClassifier):
        def fit(self, X, y):
            fits.append((self.min_samples_leaf, len(X)))
            threads.update(library["num_threads"] for library in threadpool_info())
            return super().fit(X, y)

    monkeypatch.setattr(sklearn.ensemble, "HistGradientBoostingClassifier", Recorded)
    monkeypatch.setattr(calibration, "MOST_ENTRIES", most)
    q = np.random.default_rng(0).normal(size=(n_entries, 4)).astype(np.float32)
    with threadpool_limits(2):
        calibration._boost(q, q[:, 0] > 0, np.arange(n_entries) % 10, 5, 0)
    assert threads == {1}
    assert {leaf for leaf, _ in fits} == {fewest}
    assert sum(n for _, n in fits) == 4 * min(n_entries, most)  # each entry is left out of one of five fits


def test_few_labels_are_refused(data):
    Y = data.Y_train[:, data.seen[:5]]
    labels = data.seen_labels.select(data.seen_labels.names[:5])
    model = ConSE().fit(data.X_train, Y, labels)
    with pytest.raises(ValueError, match=r"^Y: 5 labels"):
        calibrate(model, data.X_train, Y, data.labels, **FEW)
    with pytest.raises(ValueError, match=r"^n_splits: "):
        calibrate(model, data.X_train, Y, data.labels, n_splits=1)
    for name, value in (("n_repeats", 0), ("n_reference", 0), ("n_trees", 4)):
        with pytest.raises(ValueError, match=f"^{name}: "):
            calibrate(model, data.X_train, Y, data.labels, **{name: value})


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
    """A fitted tagger that is easily computed by hand: score <x, c>, and one clue."""

    def __init__(self, vectors):
        self.label_vectors_, self.n_seen_ = vectors, len(vectors)
        self.label_names_ = tuple(f"label {i}" for i in range(len(vectors)))
        self.trained_on = []

    def fit(self):
        raise NotImplementedError

    def _check_images(self, X):
        return X

    def _embed(self, vectors, argument):
        assert argument in ("labels", "vocabulary")
        return vectors

    def _seen_vectors(self):
        return self.label_vectors_

    def _margin_scores(self, X, M):
        return X @ M.T

    def _clues(self, X, M):
        return [-np.abs(X @ M[:, ::-1].T)]

    def _trained_on(self, X, T, labels):
        self.trained_on.append((X, T, labels))
        return Linear(self.label_vectors_[labels])


def plane(*degrees):
    return np.column_stack([np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))])


def test_quantities_are_those_of_their_definitions(monkeypatch):
    monkeypatch.setattr(calibration, "N_COMPETITORS", 4)
    rng, tagger, M = np.random.default_rng(0), Linear(plane(0, 50, 100, 200)), plane(0, 20, 75, 130)
    words = np.vstack([plane(2, 18, 40, 70, 90, 120, 190, 300), 3.0 * plane(75)])
    X, R = 2.0 * rng.normal(size=(6, 2)), 2.0 * rng.normal(size=(5, 2))
    rows, labels = np.array([0, 5, 1, 1, 2, 3, 4, 0]), np.array([3, 0, 1, 0, 2, 3, 1, 1])

    def cosine(a, b):
        return a @ b / np.linalg.norm(a) / np.linalg.norm(b)

    def clue(x, c):
        return -abs(x @ c[::-1])

    def expected(x, c):
        s, reference, best = x @ c, R @ c, sorted(words, key=lambda w: -(x @ w))[:4]
        yield from (s, (s - reference.mean()) / reference.std(), np.mean(reference < s))
        yield from (clue(x, c), clue(x, c) - np.quantile([clue(r, c) for r in R], 0.9))
        close = [max(cosine(w, c), 0) if cosine(w, c) < 0.95 else 0 for w in best]
        of_words = list(zip(best, close, strict=True))
        yield max(x @ w if t > 0.5 else s - 8 for w, t in of_words) - s
        yield max(x @ w + 2 * np.log(t + 1e-3) for w, t in of_words) - s
        higher = [cosine(w, c) for w in best if x @ w > s and cosine(w, c) < 0.95]
        yield from (np.log1p(len(higher)), np.log1p(sum(t <= 0.3 for t in higher)))

    prepared = calibration.Prepared(tagger, M, R, words, None)
    found = prepared.quantities(X, X @ M.T, rows, labels)
    by_hand = [list(expected(X[i], M[c])) for i, c in zip(rows, labels, strict=True)]
    np.testing.assert_allclose(found, by_hand, rtol=1e-4, atol=1e-6)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(prepared.is_seen, [True, False, False, False])
    still = calibration.Prepared(tagger, M, 0 * R, words, None).quantities(X, X @ M.T, rows, labels)
    np.testing.assert_allclose(still[:, 1], 1e9 * found[:, 0], rtol=1e-5)  # one score on all reference images


def test_cosines_on_the_limits_are_the_same_word_or_a_far_one(monkeypatch):
    for name, limit in (("SAME", 1.0), ("NEAR", 0.0), ("FAR", 0.0)):
        monkeypatch.setattr(calibration, name, limit)
    M = np.eye(1, 2)
    prepared = calibration.Prepared(Linear(M), M, np.ones((3, 2)), np.eye(2), None)  # cosines 1 and 0
    assert prepared.is_other.tolist() == prepared.is_far.tolist() == [[False, True]]
    assert not prepared.is_near.any()


def annotated(rng, n_images=60, n_labels=9):
    """Annotations 1, -1, 0 (unknown); of image 0 nothing, of image 1 one label; no positive of the last label."""
    T = rng.choice([1, -1, 0], size=(n_images, n_labels), p=[0.3, 0.5, 0.2])
    T[:, -1], T[:2] = -(T[:, -1] != 0).astype(int), 0
    T[1, 3] = 1
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
        assert {*fitted} == {*np.flatnonzero(T[:, kept].any(axis=1))} - {*scored}
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
    assert not list(
        calibration._folds(np.ones((2, 4)), np.ones(4, bool), 2, 1, np.random.default_rng(0))
    )  # one image
    two = np.array([[1, 1, -1, -1]] * 4)
    assert len(list(calibration._folds(two, np.ones(4, bool), 2, 5, np.random.default_rng(0)))) > 0


class Warns(Linear):
    def _trained_on(self, X, T, labels):
        warnings.warn("not converged", ConvergenceWarning, stacklevel=1)
        warnings.warn("something else", UserWarning, stacklevel=1)
        return super()._trained_on(X, T, labels)


def test_entries_are_the_known_ones_and_have_quantities_above_the_floor():
    rng, vectors, words = np.random.default_rng(0), plane(*range(0, 360, 40)), plane(10, 80, 200)
    X, T, tagger, made = rng.normal(size=(900, 2)), annotated(rng, 900), Warns(vectors), calibration.Calibration()
    made.vocabulary_, made.vocabulary_scales_ = calibration.quantised(words, axis=1)
    fold = calibration._Fold(np.array([0, 2, 3, 5]), np.array([1, 4]), np.arange(100), np.arange(100, 900))
    with pytest.warns(UserWarning, match="something else") as seen:
        found = calibration._held_out(tagger, X, T, fold, made, 10)
    assert [warning.category for warning in seen] == [UserWarning]
    (trained,) = tagger.trained_on
    assert all(map(np.array_equal, trained, (X[:100], T[:100], fold.kept)))
    reference = X[np.linspace(0, 99, 10).round().astype(int)]
    for labels, entries in zip((fold.held, fold.kept), found, strict=True):
        scores, t = X[100:] @ vectors[labels].T, T[100:, labels]
        known = t != 0
        np.testing.assert_allclose(entries.scores, scores[known])
        np.testing.assert_array_equal(entries.is_shown, t[known] == 1)
        np.testing.assert_array_equal(entries.labels, np.broadcast_to(labels, t.shape)[known])
        assert entries.floor == pytest.approx(np.quantile(scores[known], 0.85))
        likely = scores[known] >= entries.floor
        np.testing.assert_allclose(entries.quantities[:, 0], scores[known][likely], rtol=1e-5)
        below = [np.mean(reference @ vectors[c] < x @ vectors[c]) for x, c in
                 zip(X[100 + np.nonzero(known)[0][likely]], entries.labels[likely], strict=True)]  # fmt: skip
        np.testing.assert_allclose(entries.quantities[:, 2], below, rtol=1e-5)


def test_low_scores_get_the_log_odds_of_a_logistic_regression_that_does_not_fall():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=300)
    for shown in (rng.random(300) < expit(2 * scores - 1), scores == scores.max(), scores > scores.min()):
        model = LogisticRegression().fit(scores[:, None], shown)
        u, v = calibration._log_odds(scores, shown, 0.5)
        assert (u, v) == pytest.approx((model.coef_.item(), model.intercept_.item()))
    for part in (np.zeros(3, bool), np.ones(3, bool), np.array([True, False, False])):  # the last one falls
        u, v = calibration._log_odds(np.array([1.0, 2.0, 3.0]), part, 0.25)
        assert (u, expit(v)) == (0, pytest.approx((part.sum() + 0.25) / 4))
    u, v = calibration._log_odds(np.zeros(3), np.array([True, False, False]), 0.25)  # neither rises nor falls
    assert (u, expit(v)) == (0, pytest.approx(1.25 / 4))


def test_a_group_is_learned_below_its_mean_floor_and_above_the_floor_of_each_part(monkeypatch):
    monkeypatch.setattr(calibration, "_boost", lambda *arguments: (arguments, 7.0))
    scores, shown = np.array([-2.0, -1.0, 0.5, 2.0]), np.array([False, False, True, True])
    labels, q = np.array([3, 4, 5, 6]), np.arange(10, dtype=np.float32)[:, None]
    parts = [
        calibration._Entries(0.0, scores, shown, labels, q[:2]),
        calibration._Entries(1.0, scores, ~shown, labels, q[5:6]),
    ]
    boosted, offset, floor, below = calibration._learn(parts, 20, 3)
    assert (offset, floor) == (7.0, 0.5)
    assert below == calibration._log_odds(np.array([-2.0, -1.0] * 2), np.array([False] * 2 + [True] * 2), 0.5)
    for found, expected in zip(boosted, (q[[0, 1, 5]], [True, True, False], [5, 6, 6], 20, 3), strict=True):
        np.testing.assert_array_equal(found, expected)


SMALL = {"n_splits": 3, "n_repeats": 2, "n_reference": 20, "n_trees": 10}


def on_a_plane(n_images=200):
    """Images, annotations, vectors of nine labels, and words, in two dimensions."""
    rng, vectors = np.random.default_rng(0), plane(*range(0, 360, 40))
    X = rng.normal(size=(n_images, 2))
    Y = (X @ vectors.T + 0.5 * rng.normal(size=(n_images, 9)) > 0.5).astype(float)
    return X, Y, vectors, plane(10, 80, 200, 290)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_reference_images_are_dense_doubles(make):
    X = np.eye(3, 2, dtype=np.float32)
    found = calibration._dense(make(X))
    np.testing.assert_array_equal(found, X)
    assert (type(found), found.dtype) == (np.ndarray, np.float64)


def test_rarer_labels_have_smaller_odds():
    X, Y, vectors, words = on_a_plane()
    tagger, M, odds = Linear(vectors), np.vstack([vectors[:2], plane(13)]), []
    for prior in (1.0, 0.25):
        p = calibrate(tagger, X, Y, words, prior=prior, **SMALL).calibration_.prepare(tagger, M)(X)[1]
        odds.append(p / (1.0 - p))
    np.testing.assert_allclose(odds[1] / odds[0], np.broadcast_to([1.0, 1.0, 0.25], (200, 3)), rtol=1e-6)
    with pytest.raises(ValueError, match=r"^prior: "):
        calibrate(tagger, X, Y, words, prior=0.0)


def test_the_defaults_are_three_repeats_of_five_folds():
    calls, (X, Y, vectors, words) = [], on_a_plane(300)
    made = calibrate(Linear(vectors), X, Y, words, progress=lambda *n: calls.append(n)).calibration_
    assert (calls[-1], len(made.reference_), made.left_.shape) == ((15, 15), 256, (2, 200, 15))


def test_what_calibrate_learns_and_stores():
    calls, options, (X, Y, vectors, words) = [], SMALL, on_a_plane()
    tagger = calibrate(Linear(vectors), X, Y, words, progress=lambda *n: calls.append(n), **options)
    assert calls == [(i, 6) for i in range(1, 7)]
    made = tagger.calibration_
    assert made.left_.shape == made.values_.shape == (2, 10, 15)
    reference = made.reference_ * made.reference_scales_
    rows = [np.abs(X - row).max(axis=1).argmin() for row in reference]
    assert (len(rows), rows) == (20, sorted(set(rows)))
    np.testing.assert_allclose(reference, X[rows], atol=0.02)
    np.testing.assert_allclose(made.vocabulary_ * made.vocabulary_scales_[:, None], words, atol=0.01)

    M, group = np.vstack([vectors[:2], plane(13)]), np.array([1, 1, 0])
    made.floors_[0] = (X @ M.T)[0, 2]  # which is not below the floor
    prepared = made.prepare(tagger, M)
    np.testing.assert_allclose(prepared.reference, np.sort(reference @ M.T, axis=0), rtol=1e-5)
    scores, p = prepared(X)
    np.testing.assert_allclose(scores, X @ M.T)
    for i, c in np.ndindex(40, 3):
        u, v = made.below_[group[c]]
        log_odds = u * scores[i, c] + v
        if scores[i, c] >= made.floors_[group[c]]:
            q = prepared.quantities(X, scores, np.array([i]), np.array([c]))
            trees = calibration.Trees(*(getattr(made, f"{name}_")[group[c]] for name in calibration.Trees._fields))
            log_odds = made.offsets_[group[c]] + calibration.sum_of_trees(q, trees)[0]
        assert p[i, c] == pytest.approx(expit(log_odds))

    again = calibrate(Linear(vectors), X, Y, words, prior=1.0, random_state=0, **options).calibration_
    other = calibrate(Linear(vectors), X, Y, words, random_state=1, **options).calibration_
    assert np.array_equal(again.values_, made.values_)
    assert np.array_equal(again.offsets_, made.offsets_)
    assert not np.array_equal(other.values_, made.values_)
    with pytest.raises(ValueError, match=r"^n_repeats: "):
        calibrate(Linear(vectors), X, Y, words, n_repeats=0)
    for constant in (Y * (np.arange(9) < 7), np.maximum(Y, np.arange(9) >= 7)):  # two labels
        with pytest.raises(ValueError, match=r"^Y: 7 labels .* at least 8"):
            calibrate(Linear(vectors), X, constant, words)
    assert calibrate(Linear(vectors), X, Y * (np.arange(9) < 8), words, **options | {"n_splits": 2})


@pytest.fixture
def restored():
    made = calibration.Calibration()
    made.left_, made.right_ = (np.array([[[-1, 2, -1]]] * 2, np.int8) for _ in range(2))
    made.features_, made.thresholds_, made.values_ = (np.zeros((2, 1, 3), kind) for kind in ("i2", "f4", "f4"))
    made.offsets_, made.floors_, made.below_ = np.zeros(2), np.zeros(2), np.zeros((2, 2))
    made._check_restored()
    return made


@pytest.mark.parametrize(("name", "value"), [("left_", 0), ("left_", 1), ("right_", 0), ("right_", 3)])
def test_trees_that_do_not_end_are_refused(restored, name, value):
    tree = getattr(restored, name)
    setattr(restored, name, np.where(tree == 2, np.int8(value), tree))
    with pytest.raises(ValueError, match=r"^the trees .* do not end$"):
        restored._check_restored()


@pytest.mark.parametrize("name", ["features_", "thresholds_", "left_", "right_", "values_", "offsets_", "below_"])
def test_parts_of_other_shapes_and_kinds_are_refused(restored, name):
    whole = getattr(restored, name)
    for other in (whole[..., :1], whole[:1], whole[None], whole.astype("?")):
        setattr(restored, name, other)
        with pytest.raises(ValueError, match=r"^(the parts of the|the) calibration |unpack"):
            restored._check_restored()


def test_trees_ask_only_for_quantities_that_there_are(stacked, data):
    made, X, first = copy(stacked.calibration_), with_classes(data)[1][:3], np.zeros(1, dtype=int)
    features, offsets = made.features_, made.offsets_
    M = stacked._embed(data.unseen_labels.vectors[:2], "labels")
    width = made.prepare(stacked, M).quantities(X, stacked._margin_scores(X, M), first, first).shape[1]
    for group, place in product((0, 1), (0, width - 1, width, -1)):
        made.features_ = features.copy()
        made.features_[group, -1, -1] = place
        if 0 <= place < width:
            made.check_for(stacked, X)
        else:
            with pytest.raises(ValueError, match=r"^the trees of the calibration ask for quantities that there"):
                made.check_for(stacked, X)
    made.features_ = features
    for group in (0, 1):
        made.offsets_ = np.where(np.arange(2) == group, np.nan, offsets)
        with pytest.raises(ValueError, match=r"^the calibration is not finite$"):
            made.check_for(stacked, X)
