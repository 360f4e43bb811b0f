"""The base class by itself: a small method of its own, and what TAEP does with its parameters."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.exceptions import DataConversionWarning

from unseen import TAEP, TaggedScenes, ZeroShotTagger, make_tagged_scenes
from unseen.base import Matrix, Tag, TrainingProblem


class Ridge(ZeroShotTagger):
    """Least squares from images to the sum of their labels' vectors: all that a method must implement."""

    def __init__(self, normalize: bool = True, center: bool = True) -> None:
        self.normalize = normalize
        self.center = center

    def _fit(self, problem: TrainingProblem) -> None:
        self.problem_ = problem
        X = problem.X.toarray() if sp.issparse(problem.X) else problem.X
        targets = (problem.T == 1) @ problem.seen
        self.weights_ = np.linalg.solve(X.T @ X + np.eye(X.shape[1]), X.T @ targets)

    def _margin_scores(self, X: Any, M: Matrix) -> Matrix:
        return np.asarray(X @ self.weights_ @ M.T)


@pytest.fixture(scope="module")
def data() -> TaggedScenes:
    return make_tagged_scenes(100, 20, n_features=16)


@pytest.fixture(scope="module")
def model(data: TaggedScenes) -> TAEP:
    return TAEP(tol=1e-2).fit(data.X_train, data.Y_train[:, data.seen], data.seen_labels, data.unseen_labels)


def test_the_base_class_is_abstract() -> None:
    with pytest.raises(TypeError, match="abstract"):
        ZeroShotTagger()  # type: ignore[abstract]


class TestSubclass:
    def test_two_methods_make_a_tagger(self, data: TaggedScenes, tmp_path: Any) -> None:
        model = Ridge().fit(data.X_train, data.Y_train[:, data.seen], data.seen_labels, data.unseen_labels)
        assert model.decision_function(data.X_test, "all").shape == (20, 24)
        np.testing.assert_array_equal(model.threshold(data.X_test), np.zeros(20))
        assert [len(tags) for tags in model.tag(data.X_test, "unseen", top=2)] == [2] * 20
        del model.problem_
        model.save(tmp_path / "ridge")
        loaded = ZeroShotTagger.load(tmp_path / "ridge")
        assert type(loaded) is Ridge
        np.testing.assert_array_equal(
            loaded.decision_function(data.X_test, "all"), model.decision_function(data.X_test, "all")
        )

    def test_the_problem_it_gets_is_normalised_and_centred(self, data: TaggedScenes) -> None:
        Y = np.where(np.eye(100, 12, dtype=bool), np.nan, data.Y_train[:, data.seen])
        problem = Ridge().fit(data.X_train, Y, data.seen_labels, data.unseen_labels).problem_
        np.testing.assert_array_equal(problem.T, np.where(np.isnan(Y), 0, np.where(Y == 1, 1, -1)))
        centred = data.labels.centered().normalized()
        np.testing.assert_allclose(problem.seen, centred.select(data.seen_labels.names).vectors)
        np.testing.assert_allclose(problem.unseen, centred.select(data.unseen_labels.names).vectors)
        assert problem.relations is None

    def test_or_left_as_it_is(self, data: TaggedScenes) -> None:
        model = Ridge(normalize=False, center=False)
        problem = model.fit(data.X_train, data.Y_train[:, data.seen], data.seen_labels).problem_
        np.testing.assert_array_equal(problem.seen, data.seen_labels.vectors)
        assert problem.unseen.shape == (0, 50)

    def test_without_vectors_every_label_is_a_dimension_of_its_own(self, data: TaggedScenes) -> None:
        problem = Ridge().fit(data.X_train, data.Y_train).problem_
        np.testing.assert_array_equal(problem.seen, np.eye(24))

    def test_memory_mapped_images_are_not_copied(self, data: TaggedScenes, tmp_path: Any) -> None:
        np.save(tmp_path / "X.npy", data.X_train)
        X = np.load(tmp_path / "X.npy", mmap_mode="r")
        assert np.shares_memory(Ridge().fit(X, data.Y_train).problem_.X, X)


class TestClasses:
    """A vector Y: a classifier in the sense of scikit-learn."""

    def test_each_class_is_a_label(self, data: TaggedScenes) -> None:
        scenes = np.array(data.scene_names)[data.scenes_train]
        model = TAEP(beta=0.1, tol=1e-2).fit(data.X_train, scenes)
        assert model.label_names_ == tuple(sorted(data.scene_names))
        assert model.decision_function(data.X_test).shape == (20, 7)
        predicted = model.predict(data.X_train)
        assert set(predicted) <= set(data.scene_names)
        assert (predicted == scenes).mean() > 0.6
        np.testing.assert_array_equal(predicted, [tags[0].name for tags in model.tag(data.X_train, top=1)])

    def test_two_classes_are_one_label_named_after_the_second(self, data: TaggedScenes) -> None:
        y = np.where(data.Y_train[:, data.names.index("dog")] == 1, "with dog", "other")
        model = TAEP(beta=0.1, tol=1e-2).fit(data.X_train, y)
        assert model.label_names_ == ("with dog",)
        scores = model.decision_function(data.X_test)
        assert scores.shape == (20,)
        np.testing.assert_array_equal(model.predict(data.X_test) == "with dog", scores > 0)
        np.testing.assert_array_equal(model.decision_function(data.X_test, "all")[:, 0], scores)
        np.testing.assert_array_equal(model.predict(data.X_test, "all")[:, 0], scores > 0)

    def test_a_column_of_classes_is_read_as_a_vector_with_a_warning(self, data: TaggedScenes) -> None:
        column = pd.DataFrame({"scene": np.array(data.scene_names)[data.scenes_train]})
        with pytest.warns(DataConversionWarning):
            model = TAEP(tol=1e-2).fit(data.X_train, column)
        assert model.label_names_ == tuple(sorted(data.scene_names))

    def test_a_column_of_zeros_and_ones_is_a_single_label(self, data: TaggedScenes) -> None:
        model = TAEP(tol=1e-2).fit(data.X_train, data.Y_train[:, :1])
        assert model.label_names_ == ("label 0",)
        assert model.predict(data.X_test).shape == (20, 1)


class TestNames:
    def test_columns_name_the_labels(self, data: TaggedScenes) -> None:
        Y = pd.DataFrame(data.Y_train, columns=list(data.names))
        assert TAEP(tol=1e-2).fit(data.X_train, Y).label_names_ == data.names
        vectors = data.vectors.copy()
        assert TAEP(tol=1e-2).fit(data.X_train, Y, vectors).label_names_ == data.names

    def test_numbered_axes_name_nothing(self, data: TaggedScenes) -> None:
        Y = pd.DataFrame(data.Y_train[:, data.seen])
        seen, unseen = (pd.DataFrame(data.vectors[part]) for part in (data.seen, data.unseen))
        model = TAEP(tol=1e-2).fit(data.X_train, Y, seen, unseen)
        assert model.label_names_ == tuple(f"label {i}" for i in range(24))

    def test_some_names_and_some_numbers_are_refused(self, data: TaggedScenes) -> None:
        Y = pd.DataFrame(data.Y_train, columns=[3, *data.names[1:]])
        with pytest.raises(ValueError, match=r"Y: the name of label 0 is 3\. Pass non-empty strings"):
            TAEP().fit(data.X_train, Y)

    def test_a_label_may_be_called_like_one_of_the_words(self, data: TaggedScenes) -> None:
        names = ["all", "seen", *data.names[2:]]
        model = TAEP(tol=1e-2).fit(data.X_train, pd.DataFrame(data.Y_train, columns=names))
        whole = model.decision_function(data.X_test, "all")
        np.testing.assert_allclose(model.decision_function(data.X_test, ["all"]), whole[:, :1])
        assert "all" not in {tag.name for tag in model.similar_labels("all", top=99)}

    def test_a_single_label_comes_in_every_form(self, model: TAEP, data: TaggedScenes) -> None:
        vector = data.vectors[data.names.index("cat")]
        expected = model.similar_labels("cat")
        assert isinstance(expected[0], Tag)
        frame = pd.DataFrame([vector], index=["cat"])
        for form in ({"cat": vector}, data.labels.select(["cat"]), frame):
            assert model.similar_labels(form) == expected
        for form in (vector, vector.tolist(), vector[None]):
            assert [tag.name for tag in model.similar_labels(form)][:2] == ["cat", expected[0].name]


def test_scores_are_affinities_above_the_threshold(model: TAEP, data: TaggedScenes) -> None:
    """F(x, c) is linear in the label: opposite labels have opposite F, whatever the threshold."""
    centre = model.label_center_
    there, back = centre + np.arange(50.0), centre - np.arange(50.0)
    F = model.decision_function(data.X_test, [there, back]) + model.threshold(data.X_test)[:, None]
    np.testing.assert_allclose(F[:, 0], -F[:, 1], atol=1e-6)
    assert np.abs(F).max() > 1e-3


def test_a_fit_on_feature_names_wants_them_back(data: TaggedScenes) -> None:
    X = pd.DataFrame(data.X_train).rename(columns="feature {}".format)
    model = TAEP(tol=1e-2).fit(X, data.Y_train)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(X[X.columns[::-1]])


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"rank": 51}, r"^rank: 51 is more than the 50 dimensions of the label vectors\. Pass at most 50"),
        ({"rank": 0}, r"^rank: 0 was given\. Pass an integer of at least 1"),
        ({"rank": 2.5}, r"^rank: 2\.5 was given\. Pass an integer"),
        ({"beta": 0.0}, r"^beta: 0\.0 was given\. Pass a finite number > 0"),
        ({"beta": -1}, r"^beta: -1 was given\. Pass a finite number > 0"),
        ({"beta": np.nan}, r"^beta: nan was given\. Pass a finite number > 0"),
        ({"beta": "ten"}, r"^beta: 'ten' was given"),
        ({"gamma": -0.1}, r"^gamma: -0\.1 was given\. Pass a finite number >= 0"),
        ({"lam": np.inf}, r"^lam: inf was given\. Pass a finite number >= 0"),
        ({"tol": 0}, r"^tol: 0 was given\. Pass a finite number > 0"),
        ({"max_iter": 0}, r"^max_iter: 0 was given\. Pass an integer of at least 1"),
        ({"solver": "newton"}, r"^solver: 'newton' was given\. Choose one of 'convex', 'rounded', 'alternating'"),
        ({"scaling": None}, r"^scaling: None was given\. Choose one of 'scale-free', 'paper'"),
    ],
    ids=str,
)
def test_parameters_are_checked(data: TaggedScenes, params: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TAEP(**params).fit(data.X_train, data.Y_train[:, data.seen], data.seen_labels, data.unseen_labels)


def test_one_seen_label_cannot_be_centred_on_itself(data: TaggedScenes) -> None:
    one = {"cat": data.vectors[0]}
    with pytest.raises(ValueError, match=r"^seen: nothing is left of the vector of 'cat'.*Pass center=False"):
        TAEP().fit(data.X_train, data.Y_train[:, :1], one)
    assert TAEP(center=False, tol=1e-2).fit(data.X_train, data.Y_train[:, :1], one).label_names_ == ("cat",)


def test_rows_of_another_order_are_refused():
    data = make_tagged_scenes(40, 5)
    index = [f"image {i}" for i in range(40)]
    X = pd.DataFrame(data.X_train, index=index).rename(columns=str)
    Y = pd.DataFrame(data.Y_train[:, data.seen], index=index)
    with pytest.raises(ValueError, match=r"Y: its rows are those of X in another order.* Pass Y.loc\[X.index\]"):
        TAEP().fit(X, Y[::-1], data.vectors[data.seen])
    plain = TAEP(tol=0.1).fit(X, Y, data.vectors[data.seen])
    other = TAEP(tol=0.1).fit(X, Y.reset_index(drop=True), data.vectors[data.seen])
    np.testing.assert_array_equal(plain.decision_function(X), other.decision_function(X))
