"""Relations: the two formulas, and relations by the names of their sources."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from unseen.labels.relations import from_hit_counts, from_path_lengths, relate
from unseen.labels.wordnet import path_lengths

LABELS = ("dog", "cat", "car")

tag_sets = st.tuples(st.integers(1, 30), st.integers(1, 6)).flatmap(
    lambda shape: arrays(np.int64, shape, elements=st.integers(0, 1))
)


def test_paths_become_reciprocals_and_no_path_becomes_zero():
    paths = [[0, 1, np.inf], [1, 0, 3], [np.inf, 3, 0]]
    np.testing.assert_allclose(from_path_lengths(paths), [[1, 1 / 2, 0], [1 / 2, 1, 1 / 4], [0, 1 / 4, 1]])


def test_hit_counts_are_half_the_dice_coefficient():
    relations = from_hit_counts([[10, 4, 0], [4, 6, 3], [0, 3, 3]])
    np.testing.assert_allclose(relations, [[1 / 2, 1 / 4, 0], [1 / 4, 1 / 2, 1 / 3], [0, 1 / 3, 1 / 2]])


def test_a_label_without_hits_is_related_to_nothing():
    np.testing.assert_array_equal(from_hit_counts([[0, 0], [0, 7]]), [[0, 0], [0, 0.5]])
    np.testing.assert_array_equal(from_hit_counts([[0, 0], [0, 0]]), np.zeros((2, 2)))


@given(tag_sets, st.integers(2, 1000))
def test_counts_of_any_tag_sets_give_a_relation_of_at_most_one_half_whatever_their_number(tags, factor):
    counts = tags.T @ tags
    relations = from_hit_counts(counts)
    np.testing.assert_array_equal(relations, relations.T)
    assert relations.min() >= 0
    assert relations.max() <= 0.5
    np.testing.assert_array_equal(np.diag(relations) == 0.5, tags.any(axis=0))
    np.testing.assert_allclose(from_hit_counts(factor * counts), relations)


def test_asymmetry_of_rounding_size_is_evened_out_in_a_copy():
    paths = np.array([[0.0, 1.0], [1.0 + 1e-14, 0.0]])
    relations = from_path_lengths(paths)
    assert relations[0, 1] == relations[1, 0]
    assert paths[0, 1] == 1.0


@pytest.mark.parametrize(
    "paths",
    [[[0, 1], [2, 0]], [[0, -1], [-1, 0]], [[0, np.nan], [np.nan, 0]], [[0, np.inf], [2, 0]], [[0, 1], [1, 2]],
     [0, 1], [[0, 1]], np.empty((0, 0))],
)  # fmt: skip
def test_bad_paths_are_named(paths):
    with pytest.raises(ValueError, match=r"^paths: "):
        from_path_lengths(paths)


@pytest.mark.parametrize(
    "counts",
    [[[5, 1], [2, 5]], [[5, 4], [4, 3]], [[0, 1], [1, 3]], [[-5, 0], [0, 3]], [[5, np.nan], [np.nan, 3]],
     [[np.inf, 1], [1, 3]]],
)  # fmt: skip
def test_bad_counts_are_named(counts):
    with pytest.raises(ValueError, match=r"^counts: "):
        from_hit_counts(counts)


@pytest.fixture
def counts(tmp_path):
    path = tmp_path / "counts.csv"
    path.write_text(",car,cat,dog\ncar,50,1,4\ncat,1,20,6\ndog,4,6,30\n")
    return path


@pytest.fixture
def tags(tmp_path):
    path = tmp_path / "tags.txt"
    path.write_text("dog, cat\ncat\ncar, dog\ncar, dog\n")
    return path


def test_wordnet_needs_nothing_installed_for_labels_of_voc_and_coco():
    found = relate(LABELS, "wordnet")
    assert (found.names, len(found.sources)) == (LABELS, 1)
    np.testing.assert_array_equal(found.matrix, from_path_lengths(path_lengths(LABELS)))


def test_counts_are_read_in_the_order_of_the_labels_and_tag_sets_counted(counts, tags):
    expected = from_hit_counts([[30, 6, 4], [6, 20, 1], [4, 1, 50]])
    np.testing.assert_array_equal(relate(LABELS, counts).matrix, expected)
    np.testing.assert_array_equal(relate(LABELS, tags).matrix, from_hit_counts([[3, 1, 2], [1, 2, 0], [2, 0, 2]]))


def test_sources_are_averaged_with_their_weights(counts):
    hierarchy, hits = (relate(LABELS, source).matrix for source in ("wordnet", counts))
    np.testing.assert_allclose(relate(LABELS, ["wordnet=3", f"{counts}=1"]).matrix, 0.75 * hierarchy + 0.25 * hits)
    np.testing.assert_allclose(relate(LABELS, ["wordnet", str(counts)]).matrix, 0.5 * hierarchy + 0.5 * hits)
    np.testing.assert_allclose(relate(LABELS, ["wordnet=0", counts]).matrix, hits)


def test_a_file_name_with_an_equals_sign_is_not_a_weight(counts):
    odd = counts.rename(counts.with_name("a=2.csv"))
    assert relate(LABELS, odd).matrix.shape == (3, 3)


def test_a_label_without_hits_is_reported(tmp_path):
    (tmp_path / "tags.txt").write_text("dog, cat\n")
    found = relate(LABELS, tmp_path / "tags.txt")
    assert "car" in found.sources[0]
    assert not found.matrix[2].any()
    with pytest.raises(ValueError, match=r"^sources: "):
        relate(["sofa", "chair"], tmp_path / "tags.txt")


@pytest.mark.parametrize("sources", [[], "nowhere.csv", "wordnet=heavy", "wordnet=-1", ["wordnet=0"]])
def test_bad_sources_are_named(sources):
    with pytest.raises(ValueError, match=r"^sources: "):
        relate(LABELS, sources)


def test_labels_unknown_to_a_table_of_counts_are_named(counts):
    with pytest.raises(ValueError, match=r"^sources: .*'sofa'"):
        relate(("dog", "sofa"), counts)
