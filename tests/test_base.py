"""The base class by itself: a small method of its own, and TAEP."""

import tracemalloc
from collections import namedtuple

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score
from tests.contract.estimators import LeastSquares, Recording

from unseen import TAEP, Tag, ZeroShotTagger, make_tagged_scenes
from unseen.base import seen_places
from unseen.evaluation.metrics import mean_image_average_precision


@pytest.fixture(scope="module")
def data():
    return make_tagged_scenes(100, 20, n_features=16)


@pytest.fixture(scope="module", name="Y")
def annotations(data):
    return data.Y_train[:, data.seen]


@pytest.fixture(scope="module")
def model(data, Y):
    return TAEP(tol=1e-2).fit(data.X_train, Y, data.seen_labels, data.unseen_labels)


class TestSubclass:
    def test_two_methods_make_a_tagger(self, data, Y, tmp_path):
        with pytest.raises(TypeError, match="abstract"):
            ZeroShotTagger()
        model = LeastSquares().fit(data.X_train, Y, data.seen_labels, data.unseen_labels)
        np.testing.assert_array_equal(model.threshold(data.X_test), np.zeros(20))
        assert [len(tags) for tags in model.tag(data.X_test, "unseen", top=2)] == [2] * 20
        model.save(tmp_path / "model")
        loaded = ZeroShotTagger.load(tmp_path / "model")
        assert type(loaded) is LeastSquares
        assert loaded.tag(data.X_test) == model.tag(data.X_test)

    def test_the_problem_it_gets_is_normalised_and_centred(self, data, Y):
        Y = np.where(np.eye(100, 12, dtype=bool), np.nan, Y)
        problem = Recording().fit(data.X_train, Y, data.seen_labels, data.unseen_labels).last_problem
        np.testing.assert_array_equal(problem.T, np.where(np.isnan(Y), 0, np.where(Y == 1, 1, -1)))
        centred = data.labels.centered().normalized()
        np.testing.assert_allclose(problem.seen, centred.select(data.seen_labels.names).vectors)
        np.testing.assert_allclose(problem.unseen, centred.select(data.unseen_labels.names).vectors)
        plain = Recording(normalize=False, center=False).fit(data.X_train, Y, data.seen_labels).last_problem
        np.testing.assert_array_equal(plain.seen, data.seen_labels.vectors)
        assert plain.unseen.shape == (0, 50)

    def test_memory_mapped_images_are_not_copied(self, data, tmp_path):
        np.save(tmp_path / "X.npy", data.X_train)
        X = np.load(tmp_path / "X.npy", mmap_mode="r")
        problem = Recording().fit(X, data.Y_train).last_problem
        assert np.shares_memory(problem.X, X)
        np.testing.assert_array_equal(problem.seen, np.eye(24))  # without vectors


class TestAnnotations:
    def test_their_form_is_immaterial(self, model, data, Y):
        names = list(data.seen_labels.names)
        tags = [[names[c] for c in np.flatnonzero(row)] for row in Y]
        series = pd.Series([set(row) for row in tags])
        forms = [Y.astype(bool), Y.astype(np.float32), Y.tolist(), sp.csr_array(Y), pd.DataFrame(Y, columns=names)]
        for form in (*forms, tags, series):
            again = clone(model).fit(data.X_train, form, data.seen_labels, data.unseen_labels)
            assert again.tag(data.X_test) == model.tag(data.X_test)

    def test_tags_without_vectors_are_sorted_labels(self, data):
        model = Recording().fit(data.X_train, [["dog", "sofa"], [], ["cat"], ["dog", "cat"]] * 25)
        assert model.label_names_ == ("cat", "dog", "sofa")
        assert model.last_problem.T[:4].tolist() == [[-1, 1, 1], [-1, -1, -1], [1, -1, -1], [1, 1, -1]]

    def test_each_class_of_a_vector_is_a_label(self, data):
        scenes = np.array(data.scene_names)[data.scenes_train]
        model = TAEP(beta=0.1, tol=1e-2).fit(data.X_train, scenes)
        assert model.label_names_ == tuple(sorted(data.scene_names))
        assert model.decision_function(data.X_test).shape == (20, 7)
        predicted = model.predict(data.X_train)
        np.testing.assert_array_equal(predicted, [tags[0].name for tags in model.tag(data.X_train, top=1)])
        assert model.score(data.X_train, scenes) == accuracy_score(scenes, predicted) > 0.6

    def test_two_classes_are_one_label_named_after_the_second(self, data):
        y = np.where(data.Y_train[:, data.names.index("dog")] == 1, "with dog", "other")
        model = TAEP(beta=0.1, tol=1e-2).fit(data.X_train, y)
        assert model.label_names_ == ("with dog",)
        scores = model.decision_function(data.X_test)
        assert scores.shape == (20,)
        np.testing.assert_array_equal(model.predict(data.X_test) == "with dog", scores > 0)
        np.testing.assert_array_equal(model.predict(data.X_test, "all")[:, 0], scores > 0)
        column = TAEP(tol=1e-2).fit(data.X_train, data.Y_train[:, :1])  # not a vector of classes
        assert column.label_names_ == ("label 0",)
        assert column.predict(data.X_test).shape == (20, 1)

    def test_rows_of_another_order_are_refused(self, data, Y):
        index = [f"image {i}" for i in range(100)]
        X = pd.DataFrame(data.X_train, index=index).rename(columns=str)
        Y = pd.DataFrame(Y, index=index)
        with pytest.raises(ValueError, match=r"^Y: .*Y.loc\[X.index\]"):
            LeastSquares().fit(X, Y[::-1])
        LeastSquares().fit(X, Y.reset_index(drop=True))


class TestLabels:
    def test_columns_name_the_labels_and_numbers_do_not(self, data, Y):
        named = pd.DataFrame(data.Y_train, columns=list(data.names))
        assert LeastSquares().fit(data.X_train, named).label_names_ == data.names
        assert LeastSquares().fit(data.X_train, named, data.vectors).label_names_ == data.names
        seen, unseen = (pd.DataFrame(data.vectors[part]) for part in (data.seen, data.unseen))
        model = LeastSquares().fit(data.X_train, pd.DataFrame(Y), seen, unseen)
        assert model.label_names_ == tuple(f"label {i}" for i in range(24))
        with pytest.raises(ValueError, match=r"^Y: .*3"):
            LeastSquares().fit(data.X_train, named.rename(columns={data.names[0]: 3}))

    def test_they_come_in_many_forms(self, model, data):
        late = data.unseen_labels
        expected = model.decision_function(data.X_test, "unseen")
        names, frame = list(late.names), pd.DataFrame(late.vectors, index=list(late.names))
        vectors = [late, late.vectors.tolist(), dict(zip(late.names, late.vectors, strict=True)), frame]
        for form in (*vectors, names, tuple(names), np.array(names), pd.Index(names), pd.Series(names)):
            np.testing.assert_array_equal(model.decision_function(data.X_test, form), expected)
        similar = model.similar_labels("cat")
        assert isinstance(similar[0], Tag)
        vector = data.vectors[data.names.index("cat")]
        assert (
            model.similar_labels({"cat": vector}) == model.similar_labels(data.labels.select(["cat"])) == similar
        )
        for form in (vector.tolist(), vector[None]):
            assert [tag.name for tag in model.similar_labels(form)][:2] == ["cat", similar[0].name]
        assert {tag.name for tag in model.similar_labels("cat", top=99)} == set(data.names) - {"cat"}

    def test_top_predicts_the_best(self, model, data):
        scores = model.decision_function(data.X_test, "unseen")
        predicted = model.predict(data.X_test, "unseen", top=np.int64(3))
        np.testing.assert_array_equal(predicted, scores >= np.sort(scores, axis=1)[:, [-3]])
        assert model.predict(data.X_test, "unseen", top=99).all()
        assert len(model.tag(data.X_test[:1], "unseen", top=99)[0]) == 12
        with pytest.raises(ValueError, match=r"^labels: "):
            LeastSquares().fit(data.X_train, data.Y_train).predict(data.X_test, "unseen")  # there are none

    def test_a_seen_label_is_one_whose_vector_differs_by_rounding_alone(self):
        seen = np.array([[100.0, 0.0], [1.0, 1.0]])
        M = np.array([[1.0, 1.0], [1.0 + 9e-6, 1.0], [1.0 + 2e-5, 1.0], [100.0, 9e-4], [-100.0, 0.0]])
        assert seen_places(M, seen).tolist() == [1, 1, -1, 0, -1]

    def test_looking_for_many_labels_takes_little_memory(self):
        M = np.random.default_rng(0).normal(size=(4000, 10))
        tracemalloc.start()
        places = seen_places(M, M[::-1])
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        np.testing.assert_array_equal(places, np.arange(4000)[::-1])
        assert peak < 40e6  # all distances at once are 128 MB

    def test_relations_with_names_may_have_any_order(self, data, Y):
        R = data.relations("hierarchy")
        names = data.seen_labels.names + data.unseen_labels.names
        order = np.random.default_rng(0).permutation(24)
        mixed, mixed_names = R[np.ix_(order, order)], [names[i] for i in order]
        Relations = namedtuple("Relations", ["names", "matrix"])
        for form in (Relations(mixed_names, mixed), pd.DataFrame(mixed, index=mixed_names, columns=mixed_names)):
            model = Recording().fit(data.X_train, Y, data.seen_labels, data.unseen_labels, form)
            np.testing.assert_allclose(model.last_problem.relations, R)
        other = Relations(["unicorn" if name == "bicycle" else name for name in mixed_names], mixed)
        with pytest.raises(ValueError, match=r"^relations: .*'bicycle'"):
            LeastSquares().fit(data.X_train, Y, data.seen_labels, data.unseen_labels, other)


class TestScore:
    def test_it_is_the_miap_of_the_seen_labels(self, model, data):
        truth = data.Y_test[:, data.seen].astype(float)
        tags = [[model.label_names_[c] for c in np.flatnonzero(row)] for row in truth]
        assert model.score(data.X_test, tags) == model.score(data.X_test, truth)
        truth[::3, :4] = np.nan
        expected = mean_image_average_precision(truth, model.decision_function(data.X_test))
        assert model.score(data.X_test, truth) == pytest.approx(expected, abs=1e-12)
        for other in (data.Y_test, pd.DataFrame(truth, columns=model.label_names_[11::-1])):
            with pytest.raises(ValueError, match=r"^Y: "):
                model.score(data.X_test, other)

    def test_tied_labels_take_the_worst_rank(self, data, Y):
        model = LeastSquares().fit(data.X_train, Y)
        model.weights_[:] = 0.0
        assert model.score(data.X_train[:1], [[1, 0, 1] + [0] * 9]) == pytest.approx(2 / 12)


class TestFailures:
    @pytest.mark.parametrize("warm_start", [False, True])
    def test_a_fit_that_fails_leaves_the_earlier_one(self, data, Y, monkeypatch, warm_start):
        model = TAEP(tol=1e-2, warm_start=warm_start)
        with pytest.raises(ValueError, match=r"^Y: "):
            model.fit(data.X_train, 2 * Y)
        with pytest.raises(NotFittedError):
            model.predict(data.X_test)
        model.fit(data.X_train, Y, data.seen_labels, data.unseen_labels)
        before, state = model.decision_function(data.X_test, "all"), set(vars(model))
        for X, bad in ((data.X_train[:, :3], Y), (data.X_train, data.Y_train + 1), (data.X_train[:9], Y)):
            with pytest.raises(ValueError, match=r"^Y: |^seen: "):
                model.fit(X, bad, data.vectors[:3])

        def interrupt(*_):
            raise KeyboardInterrupt

        monkeypatch.setattr(TAEP, "_store", interrupt)
        for given in ((data.X_train[:50, :9], Y[:50]), (data.X_train, Y[:, ::-1], data.vectors[data.seen])):
            with pytest.raises(KeyboardInterrupt):
                model.fit(*given)
        assert set(vars(model)) == state
        np.testing.assert_array_equal(model.decision_function(data.X_test, "all"), before)
