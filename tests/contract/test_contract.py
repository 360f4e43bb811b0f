"""What every method promises, whatever it learns."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from unseen import ZeroShotTagger

Fit = Callable[..., ZeroShotTagger]


@pytest.fixture
def fit(estimator, data, Y) -> Fit:
    """Fit a clone on the data, with some of it replaced."""

    def run(**changed: Any) -> ZeroShotTagger:
        given = {"X": data.X_train, "Y": Y, "seen": data.seen_labels, "unseen": data.unseen_labels} | changed
        return clone(estimator).fit(**given)

    return run


def needs_vectors(estimator: ZeroShotTagger) -> bool:
    return type(estimator).__name__ in ("BackboneKnowledge", "Combination", "Cosine")


def assert_within_solver_tolerance(scores: np.ndarray, expected: np.ndarray) -> None:
    """Two fits of one problem, each to a certified relative gap of 1e-5."""
    np.testing.assert_allclose(scores, expected, rtol=0, atol=0.005 * expected.std())


class TestScores:
    def test_a_score_does_not_depend_on_the_other_images_and_labels(self, model, data):
        rng, X = np.random.default_rng(0), data.X_test.astype(np.float64)
        images, labels = rng.permutation(len(X)), rng.permutation(len(model.label_names_))
        whole, thresholds = model.decision_function(X, "all"), model.threshold(X)
        permuted = model.decision_function(X[images], [model.label_names_[i] for i in labels])
        np.testing.assert_allclose(permuted, whole[np.ix_(images, labels)], rtol=0, atol=1e-12)
        np.testing.assert_allclose(model.threshold(X[images]), thresholds[images], rtol=0, atol=1e-12)
        for position in (0, 7, 20):
            alone = model.decision_function(X[3:4], [model.label_names_[position]])
            np.testing.assert_allclose(alone, whole[3:4, [position]], rtol=0, atol=1e-12)

    def test_labels_are_known_by_their_vectors(self, fit, data):
        model, late = fit(unseen=None), data.unseen_labels
        scores = model.decision_function(data.X_test, late)
        assert scores.shape == (30, 12)
        assert (scores.std(axis=0) > 0).all()
        # An encoder gives the same vector only up to rounding: a seen label is still a seen one.
        rounded = data.seen_labels.vectors * (1 + 1e-7)
        np.testing.assert_allclose(
            model.decision_function(data.X_test, rounded), model.decision_function(data.X_test), rtol=0, atol=1e-4
        )


class TestFit:
    def test_the_order_of_images_and_labels_is_immaterial(self, model, fit, data, Y):
        rng = np.random.default_rng(0)
        images, labels = rng.permutation(len(Y)), rng.permutation(Y.shape[1])
        seen = data.seen_labels.select([data.seen_labels.names[i] for i in labels])
        permuted = fit(X=data.X_train[images], Y=Y[np.ix_(images, labels)], seen=seen)
        assert_within_solver_tolerance(
            permuted.decision_function(data.X_test, list(model.label_names_)),
            model.decision_function(data.X_test, "all"),
        )

    def test_the_length_of_a_feature_vector_is_immaterial_when_normalised(self, model, fit, data):
        if not model.normalize:
            pytest.skip("normalize=False")
        expected = model.decision_function(data.X_test, "all")
        powers = 2.0 ** np.random.default_rng(0).integers(-3, 4, size=(150, 1)).astype(np.float32)
        stretched = fit(X=data.X_train * powers[:120])
        np.testing.assert_array_equal(stretched.decision_function(data.X_test * powers[120:], "all"), expected)

    def test_storage_is_immaterial(self, model, fit, data, tmp_path):
        expected = model.decision_function(data.X_test, "all")
        np.save(tmp_path / "X.npy", data.X_train)
        rows = sp.coo_array(data.X_train)
        halves = sp.coo_array((np.tile(rows.data / 2, 2), [np.tile(axis, 2) for axis in rows.coords]), rows.shape)
        repeated = halves.tocsr()  # entries given twice mean their sum
        forms = [data.X_train.astype(np.float64), sp.csr_matrix(data.X_train), repeated]
        for X in (np.load(tmp_path / "X.npy", mmap_mode="r"), np.asfortranarray(data.X_train)):
            np.testing.assert_array_equal(fit(X=X).decision_function(data.X_test, "all"), expected)
        for X in forms:
            assert_within_solver_tolerance(fit(X=X).decision_function(data.X_test, "all"), expected)
        for X in (sp.csr_array(data.X_test), data.X_test.astype(np.float64)):
            assert_within_solver_tolerance(model.decision_function(X, "all"), expected)

    def test_the_same_data_give_the_same_bits_and_stay_as_they_were(self, model, fit, data, Y):
        X, annotations, vectors = data.X_train.copy(), Y.astype(np.float64), data.seen_labels.vectors.copy()
        for array in (X, annotations, vectors):
            array.flags.writeable = False
        again = fit(X=X, Y=annotations, seen=vectors)
        np.testing.assert_array_equal(
            again.decision_function(data.X_test, "all"), model.decision_function(data.X_test, "all")
        )
        np.testing.assert_array_equal(again.threshold(data.X_test), model.threshold(data.X_test))


class TestUnknownEntries:
    def test_unknown_entries_do_not_matter_and_are_not_absent(self, estimator, fit, data, Y):
        hidden = np.random.default_rng(0).random(Y.shape) < 0.3
        hidden[:, 0] &= Y[:, 0] == 0
        scores = fit(Y=np.where(hidden, np.nan, Y)).decision_function(data.X_test, "all")
        absent = fit(Y=np.where(hidden, 0, Y)).decision_function(data.X_test, "all")
        if type(estimator).__name__ in ("Cosine", "BackboneKnowledge"):  # they learn a threshold alone
            scores, absent = scores - scores[0, 0], absent - absent[0, 0]
            np.testing.assert_allclose(scores, absent, atol=1e-6)
        else:
            assert np.abs(scores - absent).max() > 0.01 * absent.std()

    def test_an_image_of_which_nothing_is_known_is_as_good_as_left_out(self, estimator, fit, data, Y):
        if needs_vectors(estimator):
            pytest.skip("learns from images without annotations too")
        kept = np.arange(len(Y)) % 2 == 0
        blank = fit(Y=np.where(kept[:, None], Y, np.nan))
        left_out = fit(X=data.X_train[kept], Y=Y[kept])
        assert_within_solver_tolerance(
            blank.decision_function(data.X_test, "all"), left_out.decision_function(data.X_test, "all")
        )


class TestPredictions:
    def test_tags_and_predictions_follow_the_scores_and_similarity_is_symmetric(self, model, data):
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
        nearest = model.similar_labels(data.labels.vectors[data.labels.index(first)], top=1)
        assert nearest == [(first, pytest.approx(1.0))]


class TestExplanations:
    def test_the_parts_and_the_offset_sum_to_the_score(self, model, data):
        if type(model).__name__ == "Cosine":
            with pytest.raises(ValueError, match=r"^explain: .*Cosine"):
                model.explain(data.X_test[0], "cat")
            return
        if needs_vectors(model):
            pytest.skip("has an explanation of its own")
        asked = (np.asarray, data.unseen_labels.names[2]), (sp.csr_array, data.seen_labels.names[3])
        for storage, name in asked:
            X = storage(data.X_test)
            scores, thresholds = model.decision_function(X, [name])[:, 0], model.threshold(X)
            why = model.explain(X[7:8], name)
            values = [part.value for part in why.parts]
            assert (why.label, why.score) == (name, pytest.approx(scores[7], abs=1e-6))
            assert sum(values) + why.offset == pytest.approx(why.score, abs=1e-9)
            assert [abs(value) for value in values] == sorted(map(abs, values), reverse=True)
            if not needs_vectors(model):  # these have an offset of their own
                slack = 1e-6 * max(1.0, np.abs(values).sum())
                assert why.offset == pytest.approx(-thresholds[7], abs=slack)
                assert {part.name for part in why.parts} == set(data.seen_labels.names)

    def test_a_label_absent_at_fit_time_is_explained(self, model, fit, data, Y):
        if type(model).__name__ == "Cosine" or needs_vectors(model):
            pytest.skip("no seen labels in its parts")
        vectors = data.seen_labels.vectors.copy()
        vectors[1], vectors[2] = vectors[0], 0.5 * (vectors[3] + vectors[4])  # dependent labels
        fitted = fit(Y=np.where(Y[:, ::-1] == 1, np.nan, Y), seen=vectors, unseen=None)
        for label in (data.unseen_labels.vectors[0], vectors[2]):
            why = fitted.explain(data.X_test[5], label)
            assert why.score == pytest.approx(fitted.decision_function(data.X_test[5:6], [label])[0, 0], abs=1e-6)
            assert why.offset == pytest.approx(-fitted.threshold(data.X_test[5:6])[0], abs=1e-5)


FORMS: dict[str, Callable[[Any, np.ndarray], dict[str, Any]]] = {
    "named labels": lambda data, Y: {"Y": Y, "seen": data.seen_labels, "unseen": data.unseen_labels,
                                     "relations": data.relations("hierarchy")},
    "no vectors": lambda data, Y: {"Y": np.where(Y[:, ::-1] == 1, np.nan, Y)},
    "classes": lambda data, Y: {"Y": np.array(data.scene_names, dtype=object)[data.scenes_train]},
}  # fmt: skip


class TestFiles:
    def test_a_loaded_model_is_the_saved_one_bit_for_bit(self, estimator, data, Y, tmp_path):
        for form in ["named labels"] if needs_vectors(estimator) else FORMS:
            model = clone(estimator).fit(X=data.X_train, **FORMS[form](data, Y))
            model.save(tmp_path / "first")
            loaded = ZeroShotTagger.load(tmp_path / "first")
            assert type(loaded) is type(model)
            assert set(vars(loaded)) == set(vars(model))
            assert loaded.label_names_ == model.label_names_
            assert loaded.classes_.dtype == model.classes_.dtype
            X = data.X_test
            np.testing.assert_array_equal(loaded.decision_function(X, "all"), model.decision_function(X, "all"))
            np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
            np.testing.assert_array_equal(loaded.threshold(X), model.threshold(X))
            if type(model).__name__ != "Cosine":
                assert loaded.explain(X[0], model.label_names_[0]) == model.explain(X[0], model.label_names_[0])
            loaded.save(tmp_path / "second")
            assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()
