"""Hit counts: read, repaired, counted from tag sets."""

import gzip
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.data import FOLDER

from unseen.labels.cooccurrence import count_tag_sets, named_counts, read_hit_counts, repair_counts
from unseen.labels.relations import from_hit_counts

LABELS = ["dog", "dining table", "teddy bear"]


def test_counts_survive_the_round_trip_to_csv(tmp_path):
    labels = ["dog", "dining, table", 'a "quoted" one', "null"]
    counts = np.diag([4, 2.5, np.nan, 9e15])
    named_counts(counts, labels).to_csv(tmp_path / "hits.csv")
    again = read_hit_counts(tmp_path / "hits.csv")
    assert list(again.index) == list(again.columns) == labels
    np.testing.assert_array_equal(again, counts)


def test_rows_may_come_in_another_order_and_with_another_delimiter(tmp_path):
    path = tmp_path / "hits.csv"
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


@pytest.mark.parametrize(
    ("counts", "repair", "expected"),
    [
        ([[5, 1], [2, 3]], "symmetrise", [[5, 1.5], [1.5, 3]]),
        ([[5, np.nan], [2, 3]], "symmetrise", [[5, 2], [2, 3]]),
        ([[5, 4], [4, 3]], "clip", [[5, 3], [3, 3]]),
        ([[5, np.nan], [np.nan, 3]], "fill", [[5, 0], [0, 3]]),
        ([[5, 9], [3, 4]], ["clip", "symmetrise"], [[5, 4], [4, 4]]),
    ],
)
def test_nothing_is_repaired_unless_it_is_chosen(counts, repair, expected):
    hits = named_counts(counts, ["a", "b"])
    with pytest.raises(ValueError, match=r"^counts: .*'a', 'b'"):
        from_hit_counts(hits)
    np.testing.assert_array_equal(repair_counts(hits, repair), expected)
    np.testing.assert_array_equal(hits, counts)
    with pytest.raises(ValueError, match=r"^repair: "):
        repair_counts(hits, "mend")


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


@pytest.mark.parametrize(
    "lines",
    [
        ["dog, dining table", "Teddy  Bear"],
        ["dog\tdining_table", "teddy-bear"],
        ["DOG;diningtable", "teddy bear;x"],
        ["dog diningtable", "teddybear teddybear"],
        ['dog,"dining table"', '12" inches, "teddy bear"'],
        ["\uff24\uff2f\uff27, dining table", "teddy bear"],
    ],
)
def test_the_separator_and_the_spelling_are_found_out(lines):
    np.testing.assert_array_equal(count_tag_sets(lines, LABELS), [[1, 1, 0], [1, 1, 0], [0, 0, 1]])


def test_files_are_counted_like_their_lines_zipped_or_not(tmp_path):
    lines = [f"dog, tag{i % 7}{', dining table' * (i % 3 == 0)}\n" for i in range(1000)]
    content = ("\ufeff" + "\n".join(lines)).encode() + b"dog, \xff\xfe\n"
    for name, data in {"a.txt": content, "a.txt.gz": gzip.compress(content)}.items():
        (tmp_path / name).write_bytes(data)
        hits = count_tag_sets(tmp_path / name, LABELS)
        np.testing.assert_array_equal(hits, [[1001, 334, 0], [334, 334, 0], [0, 0, 0]])
    (tmp_path / "cut.txt.gz").write_bytes(gzip.compress(content)[:-20])
    with pytest.raises(ValueError, match=r"^source: "):
        count_tag_sets(tmp_path / "cut.txt.gz", LABELS)
    with pytest.raises(ValueError, match=r"^labels: "):
        count_tag_sets(["dog"], ["dog", "Dog"])


@pytest.mark.parametrize("name", ["coco_train2014_labels", "flickr30k_captions"])
def test_real_counts_are_sound(name):
    path = FOLDER / f"voc20_hitcounts_{name}.csv"
    if not path.is_file():
        pytest.skip(f"no hit counts in {FOLDER}")
    assert from_hit_counts(read_hit_counts(path)).max() == 0.5
