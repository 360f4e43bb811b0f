"""Adapted: what stays as base has it, what is learned on top, and when nothing is."""

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from unseen import ZeroShotTagger, make_tagged_scenes
from unseen.baselines import ESZSL, ConSE
from unseen.calibration import calibrate
from unseen.ensembles import Adapted
from unseen.ensembles.adapted import count_sure, least_within_error


@pytest.fixture(scope="module")
def data():
    return make_tagged_scenes(1200, 300, random_state=3)


@pytest.fixture(scope="module")
def base(data):
    X, Y = data.X_train[:300], data.Y_train[:300, data.seen]
    model = ConSE().fit(X, Y, data.seen_labels)
    return calibrate(model, X, Y, data.labels, n_splits=3, n_repeats=1, n_trees=30, n_reference=40)


@pytest.fixture(scope="module")
def own(data):
    """Labels of the user: one that base has, two that it has not."""
    return data.labels.select([data.seen_labels.names[2], *data.unseen_labels.names[:2]])


def annotations(data, own, rows):
    return data.Y_train[rows][:, [data.labels.index(name) for name in own.names]].astype(float)


@pytest.fixture(scope="module")
def model(data, base, own):
    rows = slice(300, 800)
    return Adapted(base).fit(data.X_train[rows], annotations(data, own, rows), own)


def test_labels_are_those_of_the_user_and_of_base_each_once(model, base, own, data):
    others = [name for name in base.label_names_ if name not in own.names]
    assert model.label_names_ == (*own.names, *others)
    assert (model.n_own_, model.n_seen_, model.n_images_) == (3, 14, 500)
    unseen = data.unseen_labels.select(data.unseen_labels.names[2:])
    again = Adapted(base).fit(data.X_train[:9], annotations(data, own, slice(9)), own, unseen)
    assert again.label_names_ == (*own.names, *others, *unseen.names)
    assert again.decision_function(data.X_test, "unseen").shape == (300, 10)


def test_other_words_keep_scores_and_probabilities_bit_for_bit(model, base, data, own):
    scores, p = (getattr(model, ask)(data.X_test, data.labels) for ask in ("decision_function", "predict_proba"))
    before, p_before = (
        getattr(base, ask)(data.X_test, data.labels) for ask in ("decision_function", "predict_proba")
    )
    is_own = np.isin(data.labels.names, own.names)
    np.testing.assert_array_equal(scores[:, ~is_own], before[:, ~is_own])
    np.testing.assert_array_equal(p[:, ~is_own], p_before[:, ~is_own])
    assert model.strength_ > 0
    assert (np.abs(scores - before)[:, is_own].max(axis=0) > 1).all()
    np.testing.assert_allclose(logit(p[:, is_own]) - logit(p_before[:, is_own]), (scores - before)[:, is_own])
    label, among = own.vectors[1], data.labels
    assert model.similar_labels(label, among) == base.similar_labels(label, among)


@pytest.mark.parametrize("n_known", [0, 1])
def test_without_photos_to_hold_out_it_is_base(base, data, own, n_known):
    Y = annotations(data, own, slice(5))
    Y[n_known:] = np.nan
    model = Adapted(base).fit(data.X_train[:5], Y, own)
    assert (model.strength_, model.n_images_) == (0.0, n_known)
    np.testing.assert_array_equal(
        model.predict_proba(data.X_test, data.labels), base.predict_proba(data.X_test, data.labels)
    )
    assert not model.sure_.any()


def test_annotations_that_base_could_have_made_teach_nothing(base, data, own):
    X, rng = data.X_train[300:500], np.random.default_rng(0)
    p = base.predict_proba(X, own)
    models = [Adapted(base).fit(X, (rng.random(p.shape) < p).astype(float), own) for _ in range(6)]
    assert sum(model.strength_ == 0.0 for model in models) >= 4


def test_the_corrections_are_optimal(model, base, data, own):
    rows = slice(300, 800)
    reference = base.calibration_.reference_ * base.calibration_.reference_scales_
    X = np.vstack([data.X_train[rows], reference]).astype(float)
    p = base.predict_proba(X, own)
    Y = np.vstack([annotations(data, own, rows), p[500:]])
    Z = np.hstack([X / np.linalg.norm(X, axis=1, keepdims=True), np.ones((540, 1))])
    W = model.corrections_.astype(float)
    gradient = Z.T @ (expit(logit(p) + Z @ W) - Y) + W / model.strength_
    assert np.abs(gradient).max() < 3e-2
    assert np.abs(Z.T @ (p - Y)).max() > 10


def test_many_photos_become_a_classifier_of_their_own(data, own):
    rng = np.random.default_rng(0)
    wrong = ESZSL().fit(data.X_train[:300], rng.permutation(data.Y_train[:300, data.seen]), data.seen_labels)
    Y, Y_test = (
        annotations(data, own, slice(None)),
        data.Y_test[:, [data.labels.index(name) for name in own.names]],
    )
    unit = [X / np.linalg.norm(X, axis=1, keepdims=True) for X in (data.X_train, data.X_test)]
    model = Adapted(wrong).fit(data.X_train, Y, own)
    alone = [LogisticRegression(C=30.0).fit(unit[0], y).predict(unit[1]) for y in Y.T]
    reached, possible = (
        np.mean(found == Y_test) for found in (model.predict(data.X_test, own), np.stack(alone, 1))
    )
    assert reached > possible - 0.01
    assert reached > np.mean(wrong.predict(data.X_test, own) == Y_test) + 0.05


def test_photos_that_all_show_a_label_do_not_make_it_common(base, data, own):
    Y = annotations(data, own, slice(300, 800))
    shown = np.flatnonzero(Y[:, 1] == 1)[:40]
    X, label = data.X_train[300:800][shown], own.select(own.names[1:2])
    others = data.X_test[data.Y_test[:, data.labels.index(own.names[1])] == 0]
    model = Adapted(base).fit(X, Y[shown, 1:2], label)

    class FromPhotosAlone(Adapted):
        def _anchors(self, own, M):
            return own.select(slice(0))

    alone = FromPhotosAlone(base).fit(X, Y[shown, 1:2], label)
    means = [tagger.predict_proba(others, label).mean() for tagger in (base, model, alone)]
    assert means[1] < means[0] + 0.15 < means[2]


def test_what_is_not_shown_can_be_all_that_is_known(base, data, own):
    Y = np.where(annotations(data, own, slice(300, 360)) == 1, np.nan, 0.0)
    model = Adapted(base).fit(data.X_train[300:360], Y, own)
    p, before = (tagger.predict_proba(data.X_test, own) for tagger in (model, base))
    assert np.isfinite(p).all()
    assert (p <= before + 1e-9).mean() > 0.9


def test_the_users_photos_are_a_part_of_the_explanation(model, base, data, own):
    x = data.X_test[:1]
    for name in own.names:
        why, before = model.explain(x, name), base.explain(x, data.labels.select([name]))
        (part,) = (part for part in why.parts if part.name == f"your photos of {name}")
        assert part.kind == "label"
        assert part.value == pytest.approx(why.score - before.score)
        assert why.offset == pytest.approx(before.offset)
    assert model.explain(x, base.label_names_[0]).parts == base.explain(x, base.label_names_[0]).parts


def test_base_is_stored_once_and_never_fitted_again(model, base, tmp_path, data):
    base.save(tmp_path / "base")
    model.save(tmp_path / "model")
    assert (tmp_path / "model").stat().st_size < (tmp_path / "base").stat().st_size + 20_000
    loaded = ZeroShotTagger.load(tmp_path / "model")
    np.testing.assert_allclose(loaded.predict_proba(data.X_test), model.predict_proba(data.X_test), atol=1e-6)
    np.testing.assert_array_equal(loaded.sure_, model.sure_)
    assert clone(model).base is base
    with pytest.raises(ValueError, match=r"^base: None"):
        loaded.fit(data.X_train, data.Y_train, data.labels)


def test_a_model_on_top_of_another_keeps_its_labels(model, data):
    label = data.labels.select([data.unseen_labels.names[5]])
    again = Adapted(model).fit(data.X_train[800:], annotations(data, label, slice(800, None)), label)
    assert again.label_names_ == (*label.names, *model.label_names_)
    np.testing.assert_array_equal(
        again.predict_proba(data.X_test, "seen")[:, 1:], model.predict_proba(data.X_test)
    )


def test_sure_tags_are_counted_on_held_out_images(model, base, data, own):
    Y, p = annotations(data, own, slice(300, 800)), base.predict_proba(data.X_train[300:800], own)
    sure = p >= 0.8
    np.testing.assert_array_equal(model.sure_[0], [(sure & (Y == 1)).sum(0), sure.sum(0), (Y == 1).sum(0)])
    right, marked, _ = model.sure_[1].sum(axis=1)
    assert right / marked > 0.8
    Y, log_odds = np.array([[1.0, 0.0], [1.0, np.nan]]), np.array([[1.4, 1.4], [1.3, 9.0]])
    assert count_sure(Y, log_odds).tolist() == [[1, 0], [1, 1], [2, 0]]


def test_the_least_strength_within_a_standard_error_is_chosen():
    best, noise = np.ones(100), np.tile([-1.0, 1.0], 50)
    assert least_within_error(np.stack([best + 0.05 + noise, best])) == 0  # standard error 0.1
    assert least_within_error(np.stack([best + 0.2 + noise, best])) == 1
    assert least_within_error(np.stack([best + 0.2, best + 0.1, best, best - 0.3])) == 3
    assert least_within_error(np.stack([best, best, best])) == 0


def test_bad_input_is_refused(base, data, own):
    X, Y = data.X_train[:20], annotations(data, own, slice(20))
    vectors = dict(zip(own.names, own.vectors, strict=True))
    cases = [
        (Adapted(), {}, "base: None"),
        (Adapted(base, n_features=999), {}, "n_features: 999"),
        (Adapted(base, n_splits=1), {}, "n_splits: 1"),
        (Adapted(base), {"X": X[:, :9]}, "X: 9 columns"),
        (Adapted(base), {"seen": None}, "seen: no label vectors"),
        (Adapted(base), {"seen": own.vectors[:, :9]}, "seen and unseen: 9 dim"),
        (Adapted(base), {"seen": vectors | {own.names[0]: -own.vectors[0]}}, f"seen.*{own.names[0]}"),
    ]
    for model, changed, message in cases:
        with pytest.raises(ValueError, match=f"^{message}"):
            model.fit(**{"X": X, "Y": Y, "seen": own} | changed)
