"""What every method promises, whatever it learns."""

from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from unseen import LabelSpace, TaggedScenes, ZeroShotTagger

Fit = Callable[..., ZeroShotTagger]


@pytest.fixture
def fit(estimator: ZeroShotTagger, data: TaggedScenes, Y: np.ndarray) -> Fit:
    """Fit a clone on the data, with some of it replaced."""

    def run(**changed: Any) -> ZeroShotTagger:
        given = {"X": data.X_train, "Y": Y, "seen": data.seen_labels, "unseen": data.unseen_labels} | changed
        return clone(estimator).fit(**given)

    return run


def assert_within_solver_tolerance(scores: np.ndarray, expected: np.ndarray) -> None:
    """Two fits of one problem, each to a certified relative gap of 1e-5."""
    np.testing.assert_allclose(scores, expected, rtol=0, atol=0.005 * expected.std())


class TestScores:
    def test_a_label_is_scored_alike_whichever_others_are_asked_for(self, model, data):
        whole = model.decision_function(data.X_test, "all")
        for position, name in enumerate(model.label_names_):
            alone = model.decision_function(data.X_test, [name])
            np.testing.assert_allclose(alone[:, 0], whole[:, position], rtol=0, atol=1e-12)

    def test_permuting_the_labels_asked_for_permutes_the_scores(self, model, data):
        order = np.random.default_rng(0).permutation(len(model.label_names_))
        permuted = model.decision_function(data.X_test, [model.label_names_[i] for i in order])
        expected = model.decision_function(data.X_test, "all")[:, order]
        np.testing.assert_allclose(permuted, expected, rtol=0, atol=1e-12)

    def test_an_image_is_scored_alike_whichever_others_are_beside_it(self, model, data):
        order = np.random.default_rng(0).permutation(len(data.X_test))
        X = data.X_test.astype(np.float64)
        scores, thresholds = model.decision_function(X, "all"), model.threshold(X)
        np.testing.assert_allclose(model.decision_function(X[order], "all"), scores[order], rtol=0, atol=1e-12)
        np.testing.assert_allclose(model.decision_function(X[3:4], "all"), scores[3:4], rtol=0, atol=1e-12)
        np.testing.assert_allclose(model.threshold(X[order]), thresholds[order], rtol=0, atol=1e-12)

    def test_the_words_stand_for_the_labels_given_to_fit(self, model, data):
        seen, unseen = data.seen_labels.names, data.unseen_labels.names
        assert model.label_names_ == seen + unseen
        for word, names in {"seen": seen, "unseen": unseen, "all": seen + unseen}.items():
            np.testing.assert_allclose(
                model.decision_function(data.X_test, word),
                model.decision_function(data.X_test, list(names)),
                rtol=0,
                atol=1e-12,
            )
        np.testing.assert_array_equal(
            model.decision_function(data.X_test), model.decision_function(data.X_test, "seen")
        )

    def test_labels_absent_at_fit_time_can_be_scored_in_every_form(self, fit, data):
        model = fit(unseen=data.unseen_labels.select(data.unseen_labels.names[:6]))
        late = data.unseen_labels.select(data.unseen_labels.names[6:])
        assert not set(late.names) & set(model.label_names_)
        expected = model.decision_function(data.X_test, late.vectors)
        assert expected.shape == (30, 6)
        assert expected.std() > 0
        forms = {
            "list": late.vectors.tolist(),
            "mapping": dict(zip(late.names, late.vectors, strict=True)),
            "data frame": pd.DataFrame(late.vectors, index=list(late.names)),
            "label space": late,
        }
        for name, form in forms.items():
            np.testing.assert_array_equal(model.decision_function(data.X_test, form), expected, err_msg=name)
            if name != "list":
                assert {tag.name for tag in model.tag(data.X_test[:1], form, top=6)[0]} == set(late.names)

    def test_names_may_come_in_any_sequence(self, model, data):
        names = list(data.unseen_labels.names)
        expected = model.decision_function(data.X_test, names)
        for form in (tuple(names), np.array(names), pd.Index(names), pd.Series(names)):
            np.testing.assert_array_equal(model.decision_function(data.X_test, form), expected)

    def test_thresholds_are_one_finite_number_an_image(self, model, data):
        thresholds = model.threshold(data.X_test)
        assert thresholds.shape == (30,)
        assert np.isfinite(thresholds).all()


class TestFit:
    def test_permuting_training_images_changes_nothing_beyond_the_tolerance(self, model, fit, data, Y):
        order = np.random.default_rng(0).permutation(len(Y))
        permuted = fit(X=data.X_train[order], Y=Y[order])
        assert_within_solver_tolerance(
            permuted.decision_function(data.X_test, "all"), model.decision_function(data.X_test, "all")
        )

    def test_permuting_seen_labels_changes_nothing_beyond_the_tolerance(self, model, fit, data, Y):
        order = np.random.default_rng(0).permutation(Y.shape[1])
        names = [data.seen_labels.names[i] for i in order]
        permuted = fit(Y=Y[:, order], seen=data.seen_labels.select(names))
        assert_within_solver_tolerance(
            permuted.decision_function(data.X_test, list(model.label_names_)),
            model.decision_function(data.X_test, "all"),
        )

    def test_the_length_of_a_feature_vector_is_immaterial_when_normalised(self, model, fit, data):
        if not model.normalize:
            pytest.skip("normalize=False")
        rng = np.random.default_rng(0)
        expected = model.decision_function(data.X_test, "all")
        powers = 2.0 ** rng.integers(-3, 4, size=(150, 1)).astype(np.float32)  # scaling without rounding
        stretched = fit(X=data.X_train * powers[:120])
        np.testing.assert_array_equal(stretched.decision_function(data.X_test * powers[120:], "all"), expected)
        factors = rng.uniform(0.1, 10.0, size=(30, 1)).astype(np.float32)
        np.testing.assert_allclose(
            model.decision_function(data.X_test * factors, "all"), expected, rtol=0, atol=1e-5
        )

    @pytest.mark.parametrize("storage", ["float64", "csr", "csr of float64", "memmap", "fortran", "list"])
    def test_storage_is_immaterial(self, model, fit, data, storage, tmp_path):
        def store(X: np.ndarray) -> Any:
            if storage == "memmap":
                np.save(tmp_path / f"{len(X)}.npy", X)
                return np.load(tmp_path / f"{len(X)}.npy", mmap_mode="r")
            convert = {
                "float64": lambda X: X.astype(np.float64),
                "csr": sp.csr_array,
                "csr of float64": lambda X: sp.csr_matrix(X.astype(np.float64)),
                "fortran": np.asfortranarray,
                "list": np.ndarray.tolist,
            }
            return convert[storage](X)

        stored = fit(X=store(data.X_train))
        expected = model.decision_function(data.X_test, "all")
        assert_within_solver_tolerance(stored.decision_function(store(data.X_test), "all"), expected)
        assert_within_solver_tolerance(stored.decision_function(data.X_test, "all"), expected)
        if storage in ("memmap", "fortran"):
            np.testing.assert_array_equal(stored.decision_function(store(data.X_test), "all"), expected)

    def test_a_csr_matrix_with_repeated_entries_means_their_sum(self, model, fit, data):
        X = sp.coo_array(data.X_train)
        rows, columns = X.coords
        order = np.argsort(np.concatenate([rows, rows]), kind="stable")
        twice = sp.csr_array(
            (
                np.concatenate([X.data, X.data])[order] / 2,
                np.concatenate([columns, columns])[order],
                2 * sp.csr_array(X).indptr,
            ),
            shape=X.shape,
        )
        before = twice.data.copy()
        assert_within_solver_tolerance(
            fit(X=twice).decision_function(data.X_test, "all"), model.decision_function(data.X_test, "all")
        )
        np.testing.assert_array_equal(twice.data, before)

    def test_the_form_of_the_annotations_is_immaterial(self, model, fit, data, Y):
        expected = model.decision_function(data.X_test, "all")
        frame = pd.DataFrame(Y, columns=list(data.seen_labels.names))
        for form in (Y.astype(bool), Y.astype(np.float32), Y.tolist(), sp.csr_array(Y), frame):
            np.testing.assert_array_equal(fit(Y=form).decision_function(data.X_test, "all"), expected)

    def test_the_form_of_the_labels_is_immaterial(self, model, fit, data):
        expected = model.decision_function(data.X_test, "all")
        seen, unseen = data.seen_labels, data.unseen_labels
        forms: list[Callable[[LabelSpace], Any]] = [
            lambda space: space.vectors,
            lambda space: dict(zip(space.names, space.vectors, strict=True)),
            lambda space: pd.DataFrame(space.vectors, index=list(space.names)),
            lambda space: pd.DataFrame(space.vectors),
        ]
        for form in forms:
            again = fit(seen=form(seen), unseen=form(unseen))
            np.testing.assert_array_equal(again.decision_function(data.X_test, "all"), expected)

    def test_the_same_seed_gives_the_same_bits(self, model, fit, data):
        again = fit()
        np.testing.assert_array_equal(
            again.decision_function(data.X_test, "all"), model.decision_function(data.X_test, "all")
        )
        np.testing.assert_array_equal(again.threshold(data.X_test), model.threshold(data.X_test))

    def test_the_data_are_left_as_they_were(self, fit, data, Y):
        X, annotations, vectors = data.X_train.copy(), Y.astype(np.float64), data.seen_labels.vectors.copy()
        for array in (X, annotations, vectors):
            array.flags.writeable = False
        fit(X=X, Y=annotations, seen=vectors, unseen=None).decision_function(X, vectors)

    def test_clones_carry_the_parameters_and_nothing_learned(self, model, estimator):
        twin = clone(model)
        assert twin.get_params() == estimator.get_params()
        assert not any(name.endswith("_") for name in vars(twin))
        for name, value in estimator.get_params().items():
            assert twin.set_params(**{name: value}) is twin
        with pytest.raises(ValueError, match="nonsense"):
            twin.set_params(nonsense=1)


class TestUnknownEntries:
    @pytest.fixture
    def hidden(self, Y):
        hidden = np.random.default_rng(0).random(Y.shape) < 0.3
        hidden[:, 0] &= Y[:, 0] == 0
        return hidden

    def test_what_is_hidden_does_not_matter(self, fit, data, Y, hidden):
        one_truth, other_truth = Y.astype(float), np.where(hidden, 1.0 - Y, Y)
        one_truth[hidden] = other_truth[hidden] = np.nan
        scores = fit(Y=one_truth).decision_function(data.X_test, "all")
        np.testing.assert_array_equal(scores, fit(Y=other_truth).decision_function(data.X_test, "all"))

    def test_unknown_is_not_absent(self, fit, data, Y, hidden):
        unknown = fit(Y=np.where(hidden, np.nan, Y)).decision_function(data.X_test, "all")
        absent = fit(Y=np.where(hidden, 0, Y)).decision_function(data.X_test, "all")
        assert np.abs(unknown - absent).max() > 0.1 * absent.std()

    def test_an_image_of_which_nothing_is_known_is_as_good_as_left_out(self, fit, data, Y):
        kept = np.arange(len(Y)) % 2 == 0
        blank = fit(Y=np.where(kept[:, None], Y, np.nan))
        left_out = fit(X=data.X_train[kept], Y=Y[kept])
        assert_within_solver_tolerance(
            blank.decision_function(data.X_test, "all"), left_out.decision_function(data.X_test, "all")
        )


class TestPredictions:
    def test_a_label_is_predicted_above_the_threshold(self, model, data):
        for labels in ("seen", "unseen", data.labels):
            predicted = model.predict(data.X_test, labels)
            np.testing.assert_array_equal(predicted, model.decision_function(data.X_test, labels) > 0)

    @pytest.mark.parametrize("top", [1, 3, 12, np.int64(2)])
    def test_top_predicts_the_best_so_many(self, model, data, top):
        predicted = model.predict(data.X_test, "unseen", top=top)
        scores = model.decision_function(data.X_test, "unseen")
        assert set(np.unique(predicted)) <= {0, 1}
        np.testing.assert_array_equal(predicted.sum(axis=1), top)
        worst = np.where(predicted == 1, scores, np.inf).min(axis=1)
        best_left = np.where(predicted == 0, scores, -np.inf).max(axis=1)
        assert (worst >= best_left).all()

    def test_top_beyond_the_number_of_labels_predicts_them_all(self, model, data):
        assert model.predict(data.X_test, "unseen", top=99).all()
        assert len(model.tag(data.X_test[:1], "unseen", top=99)[0]) == 12

    def test_tags_are_names_and_scores_the_best_first(self, model, data):
        scores = model.decision_function(data.X_test, "all")
        tagged = model.tag(data.X_test, top=4)
        assert len(tagged) == len(data.X_test)
        for tags, row in zip(tagged, scores, strict=True):
            of_name = dict(zip(model.label_names_, row, strict=True))
            assert [tag.score for tag in tags] == sorted(row, reverse=True)[:4]
            assert all(of_name[tag.name] == tag.score for tag in tags)

    def test_similar_labels_are_sorted_and_leave_the_label_out(self, model):
        for name in model.label_names_[::5]:
            similar = model.similar_labels(name, top=99)
            assert {tag.name for tag in similar} == set(model.label_names_) - {name}
            cosines = [tag.score for tag in similar]
            assert cosines == sorted(cosines, reverse=True)
            assert max(map(abs, cosines)) <= 1 + 1e-12
        assert len(model.similar_labels(name, "unseen", top=3)) == 3

    def test_similarity_is_symmetric_and_a_vector_does_as_well_as_its_name(self, model, data):
        first, second = model.label_names_[0], model.label_names_[-1]
        there = {tag.name: tag.score for tag in model.similar_labels(first, top=99)}[second]
        back = {tag.name: tag.score for tag in model.similar_labels(second, top=99)}[first]
        assert there == pytest.approx(back, abs=1e-12)
        nearest = model.similar_labels(data.labels.vectors[data.labels.index(first)], top=1)
        assert nearest[0].name == first
        assert nearest[0].score == pytest.approx(1.0)


def explains(model: Any) -> bool:
    return type(model)._seen_parts is not ZeroShotTagger._seen_parts


def with_training(model: Any, X: Any) -> dict[str, Any]:
    """What `explain` takes beside the image and the label."""
    return {"X_train": X} if "X_train" in signature(model.explain).parameters else {}


class TestExplanations:
    @pytest.fixture(autouse=True)
    def skip_the_others(self, estimator):
        if not explains(estimator):
            pytest.skip("explains nothing")

    @pytest.mark.parametrize("storage", [np.asarray, sp.csr_array, lambda X: X.astype(np.float64)])
    def test_the_parts_and_the_offset_sum_to_the_score(self, model, data, storage):
        X = storage(data.X_test)
        for name in (data.unseen_labels.names[2], data.seen_labels.names[3]):
            scores, thresholds = model.decision_function(X, [name])[:, 0], model.threshold(X)
            for i in (0, 7):
                by_labels = model.explain(X[i : i + 1], name)
                by_images = model.explain(X[i : i + 1], name, **with_training(model, storage(data.X_train)))
                for why in (by_labels, by_images):
                    parts = [part.value for part in why.parts]
                    assert why.label == name
                    assert why.score == pytest.approx(scores[i], abs=1e-6)
                    assert sum(parts) + why.offset == pytest.approx(scores[i], abs=1e-6)
                    # Training features are float32, so it is the parts that are exact to 1e-6.
                    slack = 1e-6 * max(1.0, np.abs(parts).sum())
                    assert why.offset == pytest.approx(-thresholds[i], abs=slack)

    def test_every_seen_label_has_its_part_the_largest_first(self, model, data):
        why = model.explain(data.X_test[0], data.unseen_labels.names[2])
        assert {part.name for part in why.parts} == set(data.seen_labels.names)
        sizes = [abs(part.value) for part in why.parts]
        assert sizes == sorted(sizes, reverse=True)
        assert sizes[0] > 0

    def test_labels_absent_at_fit_time_and_labels_without_vectors_are_explained(self, fit, data, Y):
        late = data.unseen_labels.vectors[-1]
        model = fit(unseen=None)
        why = model.explain(data.X_test[3], late)
        assert why.score == pytest.approx(model.decision_function(data.X_test[3:4], [late])[0, 0], abs=1e-6)
        assert sum(part.value for part in why.parts) + why.offset == pytest.approx(why.score, abs=1e-5)
        model = fit(seen=None, unseen=None)
        why = model.explain(data.X_test[3], model.label_names_[1])
        assert sum(part.value for part in why.parts) + why.offset == pytest.approx(why.score, abs=1e-5)

    def test_unknown_entries_and_dependent_labels_leave_the_sum_exact(self, fit, data, Y):
        vectors = data.seen_labels.vectors.copy()
        vectors[1], vectors[2] = vectors[0], 0.5 * (vectors[3] + vectors[4])
        model = fit(Y=np.where(Y[:, ::-1] == 1, np.nan, Y), seen=vectors, unseen=data.unseen_labels.vectors)
        for label in (data.unseen_labels.vectors[0], vectors[1], vectors[2]):
            why = model.explain(data.X_test[5], label)
            score = model.decision_function(data.X_test[5:6], [label])[0, 0]
            assert sum(part.value for part in why.parts) + why.offset == pytest.approx(score, abs=1e-5)

    def test_a_vector_is_explained_as_its_name_is(self, model, data):
        name = data.unseen_labels.names[2]
        vector = data.labels.vectors[data.labels.index(name)]
        by_name, by_vector = model.explain(data.X_test[0], name), model.explain(data.X_test[0], vector)
        assert by_name.score == by_vector.score
        assert by_name.parts == by_vector.parts


FORMS: dict[str, Callable[[TaggedScenes, np.ndarray], dict[str, Any]]] = {
    "named labels": lambda data, Y: {"Y": Y, "seen": data.seen_labels, "unseen": data.unseen_labels},
    "bare vectors": lambda data, Y: {"Y": Y, "seen": data.seen_labels.vectors},
    "relations": lambda data, Y: {
        "Y": Y,
        "seen": data.seen_labels,
        "unseen": data.unseen_labels,
        "relations": data.relations("hierarchy"),
    },
    "no vectors": lambda data, Y: {"Y": Y},
    "unknown entries": lambda data, Y: {"Y": np.where(Y[:, ::-1] == 1, np.nan, Y)},
    "classes": lambda data, Y: {"Y": np.array(data.scene_names)[data.scenes_train]},
    "classes as objects": lambda data, Y: {"Y": np.array(data.scene_names, dtype=object)[data.scenes_train]},
    "two classes": lambda data, Y: {"Y": data.scenes_train % 2},
    "data frames": lambda data, Y: {
        "X": pd.DataFrame(data.X_train).rename(columns="feature {}".format),
        "Y": pd.DataFrame(Y, columns=list(data.seen_labels.names)),
        "seen": pd.DataFrame(data.seen_labels.vectors, index=list(data.seen_labels.names)),
    },
}


class TestFiles:
    @pytest.mark.parametrize("form", FORMS)
    def test_a_loaded_model_is_the_saved_one_bit_for_bit(self, estimator, data, Y, form, tmp_path):
        given = {"X": data.X_train} | FORMS[form](data, Y)
        model = clone(estimator).fit(**given)
        model.save(tmp_path / "model.safetensors")
        loaded = ZeroShotTagger.load(tmp_path / "model.safetensors")
        assert type(loaded) is type(model)
        assert loaded.get_params() == model.get_params()
        assert loaded.label_names_ == model.label_names_
        assert loaded.classes_.dtype == model.classes_.dtype
        X = given["X"][:30]
        np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
        np.testing.assert_array_equal(loaded.decision_function(X, "all"), model.decision_function(X, "all"))
        np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
        np.testing.assert_array_equal(loaded.threshold(X), model.threshold(X))
        assert loaded.tag(X) == model.tag(X)
        assert set(vars(loaded)) == set(vars(model))

    def test_saving_twice_writes_the_same_bytes(self, model, tmp_path):
        model.save(tmp_path / "first")
        type(model).load(tmp_path / "first").save(tmp_path / "second")
        assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()
        assert sorted(Path(tmp_path).iterdir()) == [tmp_path / "first", tmp_path / "second"]

    def test_explanations_survive(self, model, data, tmp_path):
        if not explains(model):
            pytest.skip("explains nothing")
        model.save(tmp_path / "model")
        loaded = type(model).load(tmp_path / "model")
        name = data.unseen_labels.names[0]
        asked = with_training(model, data.X_train)
        assert loaded.explain(data.X_test[0], name, **asked) == model.explain(data.X_test[0], name, **asked)
