"""What every method promises, whatever it learns."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from unseen import ZeroShotTagger

from .estimators import WITH_VECTORS

THRESHOLD_ALONE = ("Cosine", "BackboneKnowledge")  # is all that they learn from annotations


@pytest.fixture
def fit(estimator, data, Y):
    """Fit a clone on the data, with some of it replaced."""

    def run(**changed):
        given = {"X": data.X_train, "Y": Y, "seen": data.seen_labels, "unseen": data.unseen_labels} | changed
        return clone(estimator).fit(**given)

    return run


@pytest.fixture
def is_plain(estimator):
    """Whether it does without label vectors, and its scores are sums over the seen labels."""
    return estimator not in WITH_VECTORS


def assert_within_solver_tolerance(scores, expected):
    """Two fits of one problem, each to a certified relative gap of 1e-5."""
    np.testing.assert_allclose(scores, expected, rtol=0, atol=0.005 * expected.std())


def test_a_score_does_not_depend_on_the_other_images_and_labels(model, data):
    rng, X = np.random.default_rng(0), data.X_test.astype(np.float64)
    images, labels = rng.permutation(len(X)), rng.permutation(len(model.label_names_))
    whole, thresholds = model.decision_function(X, "all"), model.threshold(X)
    permuted = model.decision_function(X[images], [model.label_names_[i] for i in labels])
    np.testing.assert_allclose(permuted, whole[np.ix_(images, labels)], rtol=0, atol=1e-12)
    np.testing.assert_allclose(model.threshold(X[images]), thresholds[images], rtol=0, atol=1e-12)
    for position in (0, 7, 20):
        alone = model.decision_function(X[3:4], [model.label_names_[position]])
        np.testing.assert_allclose(alone, whole[3:4, [position]], rtol=0, atol=1e-12)


def test_labels_are_known_by_their_vectors(fit, data):
    model = fit(unseen=None)
    scores = model.decision_function(data.X_test, data.unseen_labels)
    assert scores.shape == (30, 12)
    assert (scores.std(axis=0) > 0).all()
    # An encoder gives the same vector only up to rounding: a seen label is still a seen one.
    rounded = model.decision_function(data.X_test, data.seen_labels.vectors * (1 + 1e-7))
    np.testing.assert_allclose(rounded, model.decision_function(data.X_test), rtol=0, atol=1e-4)


def test_tags_and_predictions_follow_the_scores_and_similarity_is_symmetric(model, data):
    scores = model.decision_function(data.X_test, "all")
    np.testing.assert_array_equal(model.predict(data.X_test, "all"), scores > 0)
    for tags, row in zip(model.tag(data.X_test, top=4), scores, strict=True):
        of_name = dict(zip(model.label_names_, row, strict=True))
        assert [tag.score for tag in tags] == sorted(row, reverse=True)[:4]
        assert all(of_name[tag.name] == tag.score for tag in tags)
    first, second = model.label_names_[0], model.label_names_[-1]
    there = {tag.name: tag.score for tag in model.similar_labels(first, top=99)}[second]
    back = {tag.name: tag.score for tag in model.similar_labels(second, top=99)}[first]
    assert there == pytest.approx(back, abs=1e-12)
    vector = data.labels.vectors[data.labels.index(first)]
    assert model.similar_labels(vector, top=1) == [(first, pytest.approx(1.0), None)]


def test_the_order_of_images_and_labels_is_immaterial(model, fit, data, Y):
    rng = np.random.default_rng(0)
    images, labels = rng.permutation(len(Y)), rng.permutation(Y.shape[1])
    seen = data.seen_labels.select([data.seen_labels.names[i] for i in labels])
    permuted = fit(X=data.X_train[images], Y=Y[np.ix_(images, labels)], seen=seen)
    scores = permuted.decision_function(data.X_test, list(model.label_names_))
    assert_within_solver_tolerance(scores, model.decision_function(data.X_test, "all"))


def test_storage_and_the_length_of_normalised_rows_are_immaterial(model, fit, data, tmp_path):
    expected = model.decision_function(data.X_test, "all")
    np.save(tmp_path / "X.npy", data.X_train)
    for X in (np.load(tmp_path / "X.npy", mmap_mode="r"), np.asfortranarray(data.X_train)):
        np.testing.assert_array_equal(fit(X=X).decision_function(data.X_test, "all"), expected)
    rows = sp.coo_array(data.X_train)
    halves = sp.coo_array((np.tile(rows.data / 2, 2), [np.tile(axis, 2) for axis in rows.coords]), rows.shape)
    repeated = halves.tocsr()  # entries given twice mean their sum
    for X in (data.X_train.astype(np.float64), sp.csr_matrix(data.X_train), repeated):
        assert_within_solver_tolerance(fit(X=X).decision_function(data.X_test, "all"), expected)
    for X in (sp.csr_array(data.X_test), data.X_test.astype(np.float64)):
        assert_within_solver_tolerance(model.decision_function(X, "all"), expected)
    if model.normalize:
        powers = 2.0 ** np.random.default_rng(0).integers(-3, 4, size=(150, 1)).astype(np.float32)
        stretched = fit(X=data.X_train * powers[:120])
        np.testing.assert_array_equal(stretched.decision_function(data.X_test * powers[120:], "all"), expected)


def test_the_same_data_give_the_same_bits_and_stay_as_they_were(model, fit, data, Y):
    X, annotations, vectors = data.X_train.copy(), Y.astype(np.float64), data.seen_labels.vectors.copy()
    for array in (X, annotations, vectors):
        array.flags.writeable = False
    again = fit(X=X, Y=annotations, seen=vectors)
    for method in ("threshold", "decision_function"):
        np.testing.assert_array_equal(getattr(again, method)(data.X_test), getattr(model, method)(data.X_test))


def test_unknown_entries_are_not_absent(estimator, fit, data, Y):
    hidden = np.random.default_rng(0).random(Y.shape) < 0.3
    scores = fit(Y=np.where(hidden, np.nan, Y)).decision_function(data.X_test, "all")
    absent = fit(Y=np.where(hidden, 0, Y)).decision_function(data.X_test, "all")
    if type(estimator).__name__ in THRESHOLD_ALONE:
        np.testing.assert_allclose(scores - scores[0, 0], absent - absent[0, 0], atol=1e-6)
    else:
        assert np.abs(scores - absent).max() > 0.01 * absent.std()


def test_an_image_without_a_known_entry_is_as_good_as_left_out(fit, data, Y, is_plain):
    if not is_plain:
        pytest.skip("learns from images without annotations too")
    kept = np.arange(len(Y)) % 2 == 0
    blank, left_out = fit(Y=np.where(kept[:, None], Y, np.nan)), fit(X=data.X_train[kept], Y=Y[kept])
    assert_within_solver_tolerance(
        blank.decision_function(data.X_test, "all"), left_out.decision_function(data.X_test, "all")
    )


def test_the_parts_and_the_offset_of_an_explanation_sum_to_the_score(model, data, is_plain):
    if type(model).__name__ == "Cosine":
        with pytest.raises(ValueError, match=r"^explain: .*Cosine"):
            model.explain(data.X_test[0], "cat")
        return
    for storage, name in ((np.asarray, data.unseen_labels.names[2]), (sp.csr_array, data.seen_labels.names[3])):
        X = storage(data.X_test)
        scores, thresholds = model.decision_function(X, [name])[:, 0], model.threshold(X)
        why = model.explain(X[7:8], name)
        values = [part.value for part in why.parts]
        assert (why.label, why.score) == (name, pytest.approx(scores[7], abs=1e-6))
        assert sum(values) + why.offset == pytest.approx(why.score, abs=1e-9)
        assert [abs(value) for value in values] == sorted(map(abs, values), reverse=True)
        if is_plain:  # the others have classes among their parts, and an offset of their own
            assert why.offset == pytest.approx(-thresholds[7], abs=1e-6 * max(1.0, np.abs(values).sum()))
            assert {part.name for part in why.parts} == set(data.seen_labels.names)


def test_a_label_absent_at_fit_time_is_explained(fit, data, Y, is_plain):
    if not is_plain:
        pytest.skip("no sum over seen labels")
    vectors = data.seen_labels.vectors.copy()
    vectors[1], vectors[2] = vectors[0], 0.5 * (vectors[3] + vectors[4])  # dependent labels
    fitted = fit(Y=np.where(Y[:, ::-1] == 1, np.nan, Y), seen=vectors, unseen=None)
    for label in (data.unseen_labels.vectors[0], vectors[2]):
        why = fitted.explain(data.X_test[5], label)
        assert why.score == pytest.approx(fitted.decision_function(data.X_test[5:6], [label])[0, 0], abs=1e-6)
        assert why.offset == pytest.approx(-fitted.threshold(data.X_test[5:6])[0], abs=1e-5)


def test_a_loaded_model_is_the_saved_one_bit_for_bit(fit, data, Y, is_plain, tmp_path):
    models = [fit(relations=data.relations("hierarchy"))]
    if is_plain:
        classes = np.array(data.scene_names, dtype=object)[data.scenes_train]
        models += [fit(Y=annotations, seen=None, unseen=None) for annotations in (Y, classes)]
    for model in models:
        model.save(tmp_path / "first")
        loaded = ZeroShotTagger.load(tmp_path / "first")
        assert (type(loaded), set(vars(loaded))) == (type(model), set(vars(model)))
        assert loaded.classes_.dtype == model.classes_.dtype
        for method in ("decision_function", "predict", "threshold"):
            np.testing.assert_array_equal(
                getattr(loaded, method)(data.X_test), getattr(model, method)(data.X_test)
            )
        assert loaded.tag(data.X_test) == model.tag(data.X_test)
        loaded.save(tmp_path / "second")
        assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()
