"""LabelSpace: a container of names and vectors, and what can be made of it."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.labels.test_encoders import Letters

from unseen.labels.space import LabelSpace

NAMES = ["cat", "dog", "car"]
VECTORS = np.array([[1.0, 0.5], [1.0, 0.25], [0.0, 4.0]])

matrices = arrays(np.float64, (4, 3), elements=st.floats(-1e6, 1e6))


@pytest.fixture
def space():
    return LabelSpace(NAMES, VECTORS)


def test_a_space_is_a_container_of_names(space):
    assert (len(space), space.names, space.index("car")) == (3, ("cat", "dog", "car"), 2)
    assert "dog" in space
    assert "sofa" not in space
    assert repr(space) == "LabelSpace(3 labels of 2 dimensions: 'cat', 'dog', 'car')"
    assert (space.source, space.resolved) == (None, ())


@pytest.mark.parametrize("clone", [copy.copy, copy.deepcopy, lambda space: pickle.loads(pickle.dumps(space))])
def test_neither_a_space_nor_its_copies_can_be_changed(clone):
    vectors = VECTORS.copy()
    space = clone(LabelSpace(np.array(NAMES), vectors))
    vectors[:] = 0
    np.testing.assert_array_equal(space.vectors, VECTORS)
    assert [type(name) for name in space.names] == [str] * 3
    with pytest.raises(ValueError, match="read-only"):
        space.vectors[0, 0] = 7
    with pytest.raises(AttributeError):
        space.names = ("a", "b", "c")


def test_select_follows_the_order_asked_for(space):
    chosen = space.select(["car", "cat"])
    assert chosen.names == ("car", "cat")
    np.testing.assert_array_equal(chosen.vectors, VECTORS[[2, 0]])
    with pytest.raises(ValueError, match=r"^names: .*'catt' .*'cat'"):
        space.select(["catt", "dog", "xyz"])
    with pytest.raises(ValueError, match=r"^name: .*'dogs' .*'dog'"):
        space.index("dogs")


def test_selecting_the_parts_and_adding_them_gives_the_whole(space):
    for whole in (
        space.select(["cat"]) + space.select(["dog", "car"]),
        space.select(["cat"]).concat(space.select(["dog"]), space.select(["car"])),
    ):
        assert whole.names == space.names
        np.testing.assert_array_equal(whole.vectors, space.vectors)
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


def test_centring_subtracts_a_mean(space):
    np.testing.assert_allclose(space.centered().vectors.mean(axis=0), 0, atol=1e-15)
    np.testing.assert_array_equal(space.centered(on=[[1, 0], [3, 2]]).vectors, VECTORS - [2, 1])
    for on in ([1.0, 2.0], [[1.0]], np.empty((0, 2)), [[np.nan, 1.0]]):
        with pytest.raises(ValueError, match=r"^on: "):
            space.centered(on=on)


@given(matrices, st.sampled_from([1e-200, 1.0, 1e200]))
def test_normalised_vectors_have_unit_length_and_the_same_direction(vectors, scale):
    vectors[:, 0] = np.abs(vectors[:, 0]) + 1
    unit = LabelSpace(list("abcd"), scale * vectors).normalized().vectors
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1)
    np.testing.assert_allclose(unit * np.linalg.norm(vectors, axis=1, keepdims=True), vectors, atol=1e-8)


@pytest.mark.parametrize(
    ("names", "vectors", "argument"),
    [
        ("cat", [[1.0]], "names"),
        (["cat", "cat"], VECTORS[:2], "names"),
        (NAMES, VECTORS[:2], "vectors"),
        (NAMES, [[1.0], [2.0, 3.0], [4.0]], "vectors"),
        (NAMES, VECTORS * [[1], [np.nan], [1]], "vectors"),
        (NAMES, VECTORS * [[1], [0], [1]], "vectors"),  # zero cannot be normalised
    ],
)
def test_bad_spaces_are_named(names, vectors, argument):
    with pytest.raises(ValueError, match=rf"^{argument}: "):
        LabelSpace(names, vectors).normalized()


def test_where_vectors_come_from_is_not_forgotten():
    own = Letters()
    looked_up = LabelSpace(["dog", "cat"], own)
    for derived in (
        looked_up.centered(),
        looked_up.normalized(),
        copy.deepcopy(looked_up),
        looked_up.select(["dog"]) + looked_up.select(["cat"]),
    ):
        assert (derived.source, derived.resolved) == ("letters", looked_up.resolved)
    mixed = looked_up + LabelSpace(["car"], [[1.0, 2.0]])
    assert (mixed.source, mixed.resolved) == (None, ())
