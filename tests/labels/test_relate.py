"""Relations by the name of their source."""

import numpy as np
import pytest

from unseen.labels.relate import relate
from unseen.labels.relations import combine, from_hit_counts, from_path_lengths
from unseen.labels.wordnet import path_lengths

LABELS = ("dog", "cat", "car")


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


def test_wordnet_needs_nothing_installed():
    found = relate(LABELS, "wordnet")
    np.testing.assert_array_equal(found.matrix, from_path_lengths(path_lengths(LABELS)))
    assert len(found.sources) == 1


def test_counts_are_read_in_the_order_of_the_labels(counts):
    expected = from_hit_counts([[30, 6, 4], [6, 20, 1], [4, 1, 50]])
    np.testing.assert_array_equal(relate(LABELS, counts).matrix, expected)


def test_tag_sets_are_counted(tags):
    np.testing.assert_array_equal(relate(LABELS, tags).matrix, from_hit_counts([[3, 1, 2], [1, 2, 0], [2, 0, 2]]))


def test_sources_are_averaged_with_their_weights(counts):
    alone = [relate(LABELS, source).matrix for source in ("wordnet", counts)]
    np.testing.assert_allclose(relate(LABELS, ["wordnet=3", f"{counts}=1"]).matrix, combine(alone, [3, 1]))
    np.testing.assert_allclose(relate(LABELS, ["wordnet", str(counts)]).matrix, combine(alone))


def test_a_file_name_with_an_equals_sign_is_no_weight(counts):
    odd = counts.rename(counts.with_name("a=2.csv"))
    assert relate(LABELS, odd).matrix.shape == (3, 3)


def test_a_label_without_hits_is_reported(tmp_path):
    path = tmp_path / "tags.txt"
    path.write_text("dog, cat\n")
    found = relate(LABELS, path)
    assert "car" in found.sources[0]
    assert not found.matrix[2].any()


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ([], "sources: none was given"),
        ("nowhere.csv", "sources: 'nowhere.csv' is neither 'wordnet', 'flickr' nor a file"),
        ("wordnet=heavy", "'heavy' is no weight"),
        ("wordnet=-1", "weights: "),
    ],
)
def test_bad_sources_are_named(sources, message):
    with pytest.raises(ValueError, match=message):
        relate(LABELS, sources)


def test_flickr_without_a_key_says_what_to_do(monkeypatch):
    monkeypatch.delenv("FLICKR_API_KEY", raising=False)
    with pytest.raises(ValueError, match="FLICKR_API_KEY"):
        relate(LABELS, "flickr")


def test_labels_unknown_to_a_table_of_counts_are_named(counts):
    with pytest.raises(ValueError, match="sofa"):
        relate(("dog", "sofa"), counts)
