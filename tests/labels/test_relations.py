"""Relations: the two formulas, the counts they come from, and relations by the names of their sources."""

import gzip
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unseen.labels.cooccurrence import count_tag_sets, named_counts, read_hit_counts
from unseen.labels.relations import from_hit_counts, from_path_lengths, relate
from unseen.labels.wordnet import path_lengths

LABELS = ("dog", "cat", "car")
TAGS = ["dog", "dining table", "teddy bear"]


def test_the_formulas_by_hand():
    paths = [[0, 1, np.inf], [1 + 1e-14, 0, 3], [np.inf, 3, 0]]
    np.testing.assert_allclose(from_path_lengths(paths), [[1, 1 / 2, 0], [1 / 2, 1, 1 / 4], [0, 1 / 4, 1]])
    hits = from_hit_counts([[10, 4, 0], [4, 6, 3], [0, 3, 3]])
    np.testing.assert_allclose(hits, [[1 / 2, 1 / 4, 0], [1 / 4, 1 / 2, 1 / 3], [0, 1 / 3, 1 / 2]])


def test_bad_paths_and_counts_are_named():
    nan, inf = np.nan, np.inf
    paths = (
        [[0, 1], [2, 0]],
        [[0, -1], [-1, 0]],
        [[0, nan], [nan, 0]],
        [[0, inf], [2, 0]],
        [[0, 1], [1, 2]],
        [[0, 1]],
    )
    for bad in paths:
        with pytest.raises(ValueError, match=r"^paths: "):
            from_path_lengths(bad)
    for bad in ([[5, 1], [2, 5]], [[5, 4], [4, 3]], [[-5, 0], [0, 3]], [[inf, 1], [1, 3]], np.empty((0, 0))):
        with pytest.raises(ValueError, match=r"^counts: "):
            from_hit_counts(bad)


@pytest.fixture
def counts(tmp_path):
    path = tmp_path / "a=2.csv"  # not a weight
    path.write_text(",car,cat,dog\ncar,50,1,4\ncat,1,20,6\ndog,4,6,30\n")
    return path


def test_sources_are_averaged_with_their_weights(counts):
    hierarchy = from_path_lengths(path_lengths(LABELS).lengths)
    hits = from_hit_counts([[30, 6, 4], [6, 20, 1], [4, 1, 50]])
    half = 0.5 * hierarchy + 0.5 * hits
    expected = {"wordnet": hierarchy, f"{counts}": hits, f"wordnet {counts}": half, f"wordnet=3 {counts}=3": half}
    for sources, matrix in expected.items():
        found = relate(LABELS, sources.split())
        np.testing.assert_allclose(found.matrix, matrix)
        assert (found.names, len(found.sources)) == (LABELS, len(sources.split()))


def test_tag_sets_are_counted_and_labels_without_hits_reported(tmp_path):
    (tmp_path / "tags.txt").write_text("dog, cat\ncat\n")
    found = relate(LABELS, tmp_path / "tags.txt")
    np.testing.assert_array_equal(found.matrix, from_hit_counts([[1, 1, 0], [1, 2, 0], [0, 0, 0]]))
    assert "car" in found.sources[0]
    with pytest.raises(ValueError, match=r"^sources: "):
        relate(["sofa", "chair"], tmp_path / "tags.txt")


def test_tag_sets_are_read_without_taking_all_memory(tmp_path, monkeypatch):
    (tmp_path / "tags.txt.gz").write_bytes(gzip.compress(b"dog, cat\n" * 100_000))
    assert count_tag_sets(tmp_path / "tags.txt.gz", ["dog", "cat"]).loc["dog", "cat"] == 100_000
    monkeypatch.setattr("unseen.files._LITTLE", 1000)
    with pytest.raises(ValueError, match=r"^source: .*unpacks to more than"):
        count_tag_sets(tmp_path / "tags.txt.gz", ["dog", "cat"])
    monkeypatch.setattr("unseen.labels.cooccurrence.MOST_LINE", 10)  # bytes in which the separator is looked for
    lines = ["dog cat", "dog cat", "dog,cat"]
    assert count_tag_sets(lines, ["dog", "cat"]).loc["dog", "cat"] == 2


def test_bad_sources_are_named(counts):
    for sources in ([], None, "nowhere.csv", "wordnet=heavy", "wordnet=-1", ["wordnet=0"]):
        with pytest.raises(ValueError, match=r"^sources: "):
            relate(LABELS, sources)
    with pytest.raises(ValueError, match=r"^sources: .*'sofa'"):
        relate(("dog", "sofa"), counts)


def test_counts_are_read_by_name_whatever_the_order_and_the_delimiter(tmp_path):
    path, labels = tmp_path / "hits.csv", ["dog", "dining, table", 'a "quoted" one', "null"]
    counts = np.diag([4, 2.5, np.nan, 9e15])
    named_counts(counts, labels).to_csv(path)
    np.testing.assert_array_equal(read_hit_counts(path, labels), counts)
    path.write_bytes("\ufeff;dog;cat\r\ncat;1;5\r\ndog;7;1\r\n\r\n".encode())
    np.testing.assert_array_equal(read_hit_counts(path), [[7, 1], [1, 5]])
    np.testing.assert_array_equal(read_hit_counts(path, ["zebra", "cat"]), [[np.nan, np.nan], [np.nan, 5]])


@pytest.mark.parametrize(
    "content",
    [b"", b",dog,cat\ndog,1,2,3\ncat,1,2,3\n", b",dog,cat\ndog,1,two\ncat,1,2\n", b",dog,cat\ndog,1,2\ndog,1,2\n",
     b",dog,cat\ndog,1,2\n", b",dog,dog\ndog,1,2\n", b"\xff\xfe\x00"],
)  # fmt: skip
def test_files_that_are_not_tables_of_counts_are_named(tmp_path, content):
    (tmp_path / "hits.csv").write_bytes(content)
    with pytest.raises(ValueError, match=r"^path: .*hits\.csv"):
        read_hit_counts(tmp_path / "hits.csv")


def test_inconsistent_counts_are_named():
    for counts in ([[5, np.nan], [2, 3]], [[5, 4], [4, 3]], [[5, np.nan], [np.nan, 3]]):
        with pytest.raises(ValueError, match=r"^counts: .*'a', 'b'"):
            from_hit_counts(named_counts(counts, ["a", "b"]))


@settings(max_examples=60)
@given(
    st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=6), max_size=30),
    st.sampled_from([", ", ",", "\t", ";", " ", "  ", "||"]),
)
def test_counts_equal_a_plain_loop(sets, joint):
    labels = ["a", "c", "h"]
    expected = np.zeros((3, 3))
    for tags in sets:
        for (i, first), (j, second) in itertools.product(enumerate(labels), repeat=2):
            expected[i, j] += first in tags and second in tags
    lines = (joint.join(tags).upper() + "\n" for tags in sets)
    hits = count_tag_sets(lines, labels, separator=joint.strip(" ") or "whitespace")
    np.testing.assert_array_equal(hits, expected)
    relations = from_hit_counts(hits)
    np.testing.assert_array_equal(relations, relations.T)
    np.testing.assert_array_equal(np.diag(relations), np.where(np.diag(expected) > 0, 0.5, 0))


@pytest.mark.parametrize(
    "lines",
    [["dog, dining table", "Teddy  Bear"], ["dog\tdining_table", "teddy-bear"], ["DOG;diningtable", "teddy bear"],
     ["dog diningtable", "teddybear teddybear"], ['dog,"dining table"', '12" inches, "teddy bear"'],
     ["\uff24\uff2f\uff27, dining table", "teddy bear"]],
)  # fmt: skip
def test_the_separator_and_the_spelling_are_found_out(lines):
    np.testing.assert_array_equal(count_tag_sets(lines, TAGS), [[1, 1, 0], [1, 1, 0], [0, 0, 1]])


def test_files_are_counted_like_their_lines_zipped_or_not(tmp_path):
    lines = [f"dog, tag{i % 7}{', dining table' * (i % 3 == 0)}\n" for i in range(1000)]
    content = ("\ufeff" + "\n".join(lines)).encode() + b"dog, \xff\xfe\n"
    for name, data in {"a.txt": content, "a.txt.gz": gzip.compress(content)}.items():
        (tmp_path / name).write_bytes(data)
        hits = count_tag_sets(tmp_path / name, TAGS)
        np.testing.assert_array_equal(hits, [[1001, 334, 0], [334, 334, 0], [0, 0, 0]])
    (tmp_path / "cut.txt.gz").write_bytes(gzip.compress(content)[:-20])
    with pytest.raises(ValueError, match=r"^source: "):
        count_tag_sets(tmp_path / "cut.txt.gz", TAGS)
    with pytest.raises(ValueError, match=r"^labels: "):
        count_tag_sets(["dog"], ["dog", "Dog"])
