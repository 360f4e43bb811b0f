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
    paths = [[0, 1, np.inf], [1 + 1e-14, 0, 3], [np.inf, 3, 0]]
    relations = from_path_lengths(paths)
    np.testing.assert_allclose(relations, [[1, 1 / 2, 0], [1 / 2, 1, 1 / 4], [0, 1 / 4, 1]])
    np.testing.assert_array_equal(relations, relations.T)


def test_hit_counts_are_half_the_dice_coefficient():
    relations = from_hit_counts([[10, 4, 0], [4, 6, 3], [0, 3, 3]])
    np.testing.assert_allclose(relations, [[1 / 2, 1 / 4, 0], [1 / 4, 1 / 2, 1 / 3], [0, 1 / 3, 1 / 2]])


@given(tag_sets, st.integers(2, 1000))
def test_any_tag_sets_give_at_most_one_half_and_nothing_for_a_label_without_hits(tags, factor):
    counts = tags.T @ tags
    relations = from_hit_counts(counts)
    np.testing.assert_array_equal(relations, relations.T)
    assert relations.min() >= 0
    assert relations.max() <= 0.5
    np.testing.assert_array_equal(np.diag(relations), np.where(tags.any(axis=0), 0.5, 0))
    np.testing.assert_allclose(from_hit_counts(factor * counts), relations)


@pytest.mark.parametrize(
    "paths",
    [[[0, 1], [2, 0]], [[0, -1], [-1, 0]], [[0, np.nan], [np.nan, 0]], [[0, np.inf], [2, 0]], [[0, 1], [1, 2]],
     [0, 1], [[0, 1]], np.empty((0, 0))],
)  # fmt: skip
def test_bad_paths_are_named(paths):
    with pytest.raises(ValueError, match=r"^paths: "):
        from_path_lengths(paths)


@pytest.mark.parametrize("counts", [[[5, 1], [2, 5]], [[5, 4], [4, 3]], [[-5, 0], [0, 3]], [[np.inf, 1], [1, 3]]])
def test_bad_counts_are_named(counts):
    with pytest.raises(ValueError, match=r"^counts: "):
        from_hit_counts(counts)


@pytest.fixture
def counts(tmp_path):
    path = tmp_path / "a=2.csv"  # not a weight
    path.write_text(",car,cat,dog\ncar,50,1,4\ncat,1,20,6\ndog,4,6,30\n")
    return path


def test_sources_are_averaged_with_their_weights(counts):
    hierarchy = from_path_lengths(path_lengths(LABELS).lengths)
    hits = from_hit_counts([[30, 6, 4], [6, 20, 1], [4, 1, 50]])
    for sources, expected in {
        "wordnet": hierarchy,
        str(counts): hits,
        f"wordnet=3 {counts}=1": 0.75 * hierarchy + 0.25 * hits,
        f"wordnet {counts}": 0.5 * hierarchy + 0.5 * hits,
        f"wordnet=0 {counts}": hits,
    }.items():
        found = relate(LABELS, sources.split())
        np.testing.assert_allclose(found.matrix, expected)
        assert (found.names, len(found.sources)) == (LABELS, len(sources.split()))


def test_tag_sets_are_counted_and_labels_without_hits_reported(tmp_path):
    (tmp_path / "tags.txt").write_text("dog, cat\ncat\n")
    found = relate(LABELS, tmp_path / "tags.txt")
    np.testing.assert_array_equal(found.matrix, from_hit_counts([[1, 1, 0], [1, 2, 0], [0, 0, 0]]))
    assert "car" in found.sources[0]
    with pytest.raises(ValueError, match=r"^sources: "):
        relate(["sofa", "chair"], tmp_path / "tags.txt")


@pytest.mark.parametrize("sources", [[], "nowhere.csv", "wordnet=heavy", "wordnet=-1", ["wordnet=0"]])
def test_bad_sources_are_named(sources, counts):
    with pytest.raises(ValueError, match=r"^sources: "):
        relate(LABELS, sources)
    with pytest.raises(ValueError, match=r"^sources: .*'sofa'"):
        relate(("dog", "sofa"), counts)
