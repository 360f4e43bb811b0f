"""LabelSpace: a container of names and vectors, and what can be made of it; the diagnosis of labels."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.data import FOLDER
from tests.labels.test_encoders import Letters

from unseen.baselines import Cosine
from unseen.baselines.cosine import SYNONYM
from unseen.labels.diagnosis import comparable, diagnose
from unseen.labels.space import LabelSpace

NAMES = ["cat", "dog", "car"]
VECTORS = np.array([[1.0, 0.5], [1.0, 0.25], [0.0, 4.0]])
CLIP_TEXTS = FOLDER / "compact" / "clip_vitb32_text.npz"
SAME = [("couch", "sofa"), ("tv", "television"), ("car", "vehicle"), ("dog", "puppy"), ("cup", "mug")]
OTHER = [("dog", "cat"), ("train", "bus"), ("pizza", "pie"), ("couch", "armchair"), ("mouse", "rat")]

matrices = arrays(np.float64, (4, 3), elements=st.floats(-1e6, 1e6))


@pytest.fixture
def space():
    return LabelSpace(NAMES, VECTORS)


def test_a_space_is_a_container_of_names(space):
    assert (len(space), space.names, space.index("car")) == (3, ("cat", "dog", "car"), 2)
    assert ["dog" in space, "sofa" in space] == [True, False]
    assert "'cat', 'dog', 'car'" in repr(space)


def test_neither_a_space_nor_its_copies_can_be_changed():
    vectors = VECTORS.copy()
    space = pickle.loads(pickle.dumps(copy.deepcopy(LabelSpace(np.array(NAMES), vectors))))
    vectors[:] = 0
    np.testing.assert_array_equal(space.vectors, VECTORS)
    assert [type(name) for name in space.names] == [str] * 3
    with pytest.raises(ValueError, match="read-only"):
        space.vectors[0, 0] = 7
    with pytest.raises(AttributeError):
        space.names = ("a", "b", "c")


def test_selecting_the_parts_and_adding_them_gives_the_whole(space):
    whole = space.select(["dog"]) + space.select(["car"]) + space.select(["cat"])
    assert whole.names == ("dog", "car", "cat")
    np.testing.assert_array_equal(whole.vectors, VECTORS[[1, 2, 0]])
    with pytest.raises(ValueError, match=r"^names: .*'catt' .*'cat'"):
        space.select(["catt", "dog", "xyz"])
    with pytest.raises(ValueError, match=r"^names: "):
        space + space
    with pytest.raises(ValueError, match=r"^other: "):
        space + LabelSpace(["sofa"], [[1.0]])


def test_centring_subtracts_a_mean_and_a_zero_vector_cannot_be_normalised(space):
    with pytest.raises(ValueError, match=r"^vectors: .*'dog'"):
        LabelSpace(NAMES, VECTORS * [[1], [0], [1]]).normalized()
    np.testing.assert_allclose(space.centered().vectors.mean(axis=0), 0, atol=1e-15)


@given(matrices, st.sampled_from([1e-200, 1.0, 1e200]))
def test_normalised_vectors_have_unit_length_and_the_same_direction(vectors, scale):
    vectors[:, 0] = np.abs(vectors[:, 0]) + 1
    unit = LabelSpace(list("abcd"), scale * vectors).normalized().vectors
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1)
    np.testing.assert_allclose(unit * np.linalg.norm(vectors, axis=1, keepdims=True), vectors, atol=1e-8)


def test_where_vectors_come_from_is_not_forgotten():
    looked_up = LabelSpace(["dog", "cat"], Letters())
    parts = looked_up.select(["dog"]) + looked_up.select(["cat"])
    for derived in (looked_up.centered(), looked_up.normalized(), copy.deepcopy(looked_up), parts):
        assert (derived.source, derived.resolved) == ("letters", looked_up.resolved)
    mixed = looked_up + LabelSpace(["car"], [[1.0, 2.0]])
    assert (mixed.source, mixed.resolved) == (None, ())


def test_neighbours_are_the_nearest_by_cosine_best_supported_label_first():
    seen = LabelSpace(list("abc"), [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    unseen = LabelSpace(list("pq"), [[0.2, 1.0, 0.5], [5.0, 0.1, 0.0]])
    found = diagnose(seen, unseen)
    assert [label.name for label in found.labels] == ["q", "p"]
    assert [name for name, _ in found.labels[1].neighbours] == ["b", "c", "a"]
    assert found.labels[1].neighbours[0][1] == pytest.approx(1.0 / np.sqrt(1.29))


def test_unrelated_vectors_are_orphans_about_half_of_the_time_and_copies_never():
    rng = np.random.default_rng(0)
    orphans = copies = 0
    for _ in range(40):
        seen = LabelSpace([f"s{i}" for i in range(20)], rng.standard_normal((20, 40)))
        near = seen.vectors[:5] + 0.1 * rng.standard_normal((5, 40))
        unseen = LabelSpace([f"u{i}" for i in range(10)], np.vstack([near, rng.standard_normal((5, 40))]))
        found = diagnose(seen, unseen).orphans
        copies += sum(f"u{i}" in found for i in range(5))
        orphans += sum(f"u{i}" in found for i in range(5, 10))
    assert copies == 0
    assert orphans > 0.35 * 200  # chance is exceeded by half of them, less where the copies stretch the spread


def test_few_labels_are_compared_as_they_are_and_said_to_be_few():
    """Centring two labels makes them opposites, whatever they mean."""
    found = diagnose(LabelSpace(["aaa", "bbb"], Letters()), LabelSpace(["aa"], Letters()))
    assert found.is_rough
    assert found.labels[0].neighbours[0][0] == "aaa"
    assert found.labels[0].neighbours[0][1] > 0.9


@pytest.fixture(scope="module")
def clip_texts():
    sets = ("coco", "objects365", "openimages", "lvis")
    with np.load(CLIP_TEXTS) as file:
        names = [str(name).lower() for one in sets for name in file[f"{one}_names"]]
        vectors = np.vstack([file[f"{one}_vectors"] for one in sets]).astype(float)
    first = {name: i for i, name in reversed(list(enumerate(names)))}
    return LabelSpace(list(first), vectors[list(first.values())])


@pytest.mark.skipif(not CLIP_TEXTS.is_file(), reason=f"no CLIP vectors in {FOLDER} (set UNSEEN_DATA)")
class TestTextsOfCLIP:
    """The text half of CLIP ViT-B/32, whose vectors have a large common part: cosines of 0.55 to 0.9."""

    def test_neighbours_mean_the_same_and_no_word_is_near_to_all(self, clip_texts):
        model = Cosine.without_annotations(clip_texts)
        pairs = {"couch": "sofa", "tv": "television", "cat": "kitten", "dog": "puppy", "airplane": "aircraft"}
        for name, neighbour in pairs.items():
            assert neighbour in [tag.name for tag in model.similar_labels(name, top=2)]
        occurrences = {}
        for is_centred, unit in {True: comparable(clip_texts), False: clip_texts.normalized().vectors}.items():
            nearest = np.argsort(-(unit @ unit.T), axis=1)[:, 1:11]
            occurrences[is_centred] = np.bincount(nearest.ravel()).max()
        assert occurrences[True] < 50 < 150 < occurrences[False]  # 10 on average; what is common makes hubs

    def test_synonyms_are_no_alternatives_and_siblings_are(self, clip_texts):
        unit = comparable(clip_texts)
        cosine = {
            pair: unit[clip_texts.index(pair[0])] @ unit[clip_texts.index(pair[1])] for pair in (*SAME, *OTHER)
        }
        assert min(cosine[pair] for pair in SAME) > SYNONYM > max(cosine[pair] for pair in OTHER)

    def test_the_diagnosis_finds_support_and_orphans(self, clip_texts):
        seen, unseen = ["dog", "car", "chair", "pizza", "boat"], ["cat", "bus", "couch", "sandwich", "umbrella"]
        found = diagnose(clip_texts.select(seen), clip_texts.select(unseen))
        assert found.orphans == ("umbrella",)
        nearest = {label.name: label.neighbours[0][0] for label in found.labels}
        assert (nearest["cat"], nearest["bus"], nearest["sandwich"]) == ("dog", "car", "pizza")
