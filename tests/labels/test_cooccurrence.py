import gzip
import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unseen.labels.cooccurrence import HitCounts, count_tag_sets, read_hit_counts
from unseen.labels.relations import from_hit_counts

SHARED = Path("/work/shared/data")
LABELS = ["dog", "dining table", "teddy bear"]


def test_counts_survive_the_round_trip_to_csv(tmp_path: Path) -> None:
    hits = HitCounts(
        ["dog", "dining, table", 'a "quoted" one'], [[4, 1, 0.5], [1, 2, np.nan], [0.5, np.nan, 9e15]]
    )
    hits.write(tmp_path / "new" / "hits.csv")
    again = read_hit_counts(tmp_path / "new" / "hits.csv")
    assert again.labels == hits.labels
    np.testing.assert_array_equal(again.counts, hits.counts)
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["hits.csv"]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "hits.csv"
    HitCounts(["dog"], [[4]]).write(path)
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="no space left"):
        HitCounts(["dog"], [[5]]).write(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_rows_may_come_in_another_order_and_with_another_delimiter(tmp_path: Path) -> None:
    path = tmp_path / "hits.csv"
    path.write_bytes("\ufeff;dog;cat\r\ncat;1;5\r\ndog;7;1\r\n\r\n".encode())
    hits = read_hit_counts(path)
    assert hits.labels == ("dog", "cat")
    np.testing.assert_array_equal(hits.counts, [[7, 1], [1, 5]])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no labels in its first row"),
        (",dog,cat\ndog,1,2\ncat,1\n", r"row 3 \('cat'\) has 1 counts for 2 labels"),
        (",dog,cat\ndog,1,two\ncat,1,2\n", r"row 2 \('dog'\): 'two' is no number"),
        (",dog,cat\ndog,1,2\ndog,1,2\n", "row 3 is the second of 'dog'"),
        (",dog,cat\ndog,1,2\n", "'cat' in the first row or in the first column only"),
        (",dog,dog\ndog,1,2\n", "'dog' given more than once"),
    ],
)
def test_malformed_files_are_named_with_the_row(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "hits.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as error:
        read_hit_counts(path)
    assert str(path) in str(error.value)


def test_files_that_are_no_text_or_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"path: there is no file .*hits.csv"):
        read_hit_counts(tmp_path / "hits.csv")
    (tmp_path / "hits.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="no UTF-8"):
        read_hit_counts(tmp_path / "hits.csv")


def test_degenerate_counts_are_reported_in_words() -> None:
    hits = HitCounts(
        ["a", "b", "c", "d", "e"],
        [
            [5, 7, 1, np.nan, 0],
            [7, 9, 2, np.nan, 0],
            [3, 2, 4, np.nan, -1],
            [np.nan, np.nan, np.nan, np.nan, np.nan],
            [0, np.nan, -1, np.nan, 0],
        ],
    )
    problems = hits.problems()
    assert problems
    assert problems.unknown == ("'d'", "'e' and 'b'")
    assert problems.no_hits == ("'e'",)
    assert problems.asymmetric == ("'a' and 'c' (1 and 3)",)
    assert problems.excessive == ("'a' and 'b' (7 and 5)",)
    assert problems.impossible == ("'c' and 'e' (-1)", "'e' and 'c' (-1)")
    assert "1 more frequent together than one of them alone (repair='clip'" in str(problems)
    assert len(str(problems).splitlines()) == 5


def test_sound_counts_have_no_problem() -> None:
    problems = HitCounts(["a", "b"], [[5, 2], [2, 3]]).problems()
    assert not problems
    assert str(problems) == "no problem"


@pytest.mark.parametrize(
    ("counts", "repair"),
    [
        ([[5, 1], [2, 3]], "symmetrise"),
        ([[5, 4], [4, 3]], "clip"),
        ([[5, np.nan], [np.nan, 3]], "fill"),
        ([[5, np.nan], [2, 3]], "symmetrise"),
    ],
)
def test_nothing_is_repaired_unless_it_is_chosen(counts: list[list[float]], repair: str) -> None:
    hits = HitCounts(["a", "b"], counts)
    with pytest.raises(ValueError, match="counts: "):
        from_hit_counts(hits)
    from_hit_counts(hits.repaired(repair))
    np.testing.assert_array_equal(hits.counts, counts)


def test_repairs_do_what_they_say() -> None:
    hits = HitCounts(["a", "b", "c"], [[5, 9, np.nan], [3, 8, np.nan], [1, np.nan, 2]])
    repaired = hits.repaired(["clip", "symmetrise", "fill"])
    np.testing.assert_array_equal(repaired.counts, [[5, 5, 1], [5, 8, 0], [1, 0, 2]])
    assert "repaired: symmetrise, fill, clip" in repaired.source
    assert not repaired.problems()
    with pytest.raises(ValueError, match=r"repair: 'mend' was given. Choose from 'symmetrise'"):
        hits.repaired("mend")


def test_labels_that_a_file_lacks_are_unknown_and_reported(tmp_path: Path) -> None:
    HitCounts(["dog", "cat"], [[4, 1], [1, 3]]).write(tmp_path / "hits.csv")
    hits = read_hit_counts(tmp_path / "hits.csv", ["zebra", "cat"])
    assert hits.problems().unknown == ("'zebra'",)
    np.testing.assert_array_equal(hits.repaired("fill").counts, [[0, 0], [0, 3]])
    np.testing.assert_array_equal(
        read_hit_counts(tmp_path / "hits.csv", ["zebra", "cat"], repair="fill").counts, [[0, 0], [0, 3]]
    )
    with pytest.raises(ValueError, match=r"1 unknown label: 'catt' \(nearest: 'cat'\)"):
        hits.select(["catt"])


tag_sets = st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=6), max_size=30)


@settings(max_examples=60)
@given(tag_sets, st.sampled_from([", ", ",", "\t", ";", " ", "  "]))
def test_counts_equal_a_plain_loop(sets: list[list[str]], joint: str) -> None:
    labels = ["a", "c", "h"]
    expected = np.zeros((3, 3))
    for tags in sets:
        for (i, first), (j, second) in itertools.product(enumerate(labels), repeat=2):
            expected[i, j] += first in tags and second in tags
    separator = joint.strip(" ") or "whitespace"
    hits = count_tag_sets((joint.join(tags).upper() + "\n" for tags in sets), labels, separator=separator)
    np.testing.assert_array_equal(hits.counts, expected)
    assert hits.n_records == sum(bool(joint.join(tags).strip()) for tags in sets)
    assert from_hit_counts(hits).max() <= 0.5


@pytest.mark.parametrize(
    ("lines", "separator"),
    [
        (["dog, dining table", "Teddy  Bear"], ","),
        (["dog\tdining_table", "teddy-bear"], "\t"),
        (["DOG;diningtable", "teddy bear;x"], ";"),
        (["dog diningtable", "teddybear teddybear"], "whitespace"),
        (['dog "dining table"', 'x  "Teddy Bear"'], "whitespace"),
        (['dog,"dining table"', '"teddy bear", "a, b"'], ","),
    ],
)
def test_the_separator_and_the_spelling_are_found_out(lines: list[str], separator: str) -> None:
    hits = count_tag_sets(lines, LABELS)
    np.testing.assert_array_equal(hits.counts, [[1, 1, 0], [1, 1, 0], [0, 0, 1]])
    assert repr(separator) in hits.source


def test_a_stray_quote_hides_no_tag() -> None:
    hits = count_tag_sets(['12" pizza, dog', 'dog, "', '"dog, cat', '"a" b, dog'], ["dog"], separator=",")
    assert hits.counts[0, 0] == 4


def test_a_longer_separator_is_taken_as_it_is() -> None:
    assert count_tag_sets(["dog || cat", 'cat||"dog'], ["cat"], separator="||").counts[0, 0] == 2


def test_unicode_is_folded() -> None:
    hits = count_tag_sets(["STRASSE, cafe\u0301", "\uff24\uff2f\uff27"], ["straße", "café", "dog"], separator=",")
    np.testing.assert_array_equal(np.diag(hits.counts), [1, 1, 1])


def test_synonyms_count_once() -> None:
    hits = count_tag_sets(["sofa, couch", "settee, dog"], ["sofa", "dog"], synonyms={"sofa": ["couch", "Settee"]})
    np.testing.assert_array_equal(hits.counts, [[2, 1], [1, 1]])


@pytest.mark.parametrize(
    ("labels", "arguments", "message"),
    [
        (["dog", "Dog"], {}, "labels: 'Dog' stands for two labels, 'dog' and 'Dog'"),
        (["dog", "cat"], {"synonyms": {"dog": ["cat"]}}, "synonyms: 'cat' stands for two labels, 'cat' and 'dog'"),
        (["dog"], {"synonyms": {"dgo": ["hound"]}}, "synonyms: 1 unknown label: 'dgo'"),
        (["dog"], {"synonyms": {"dog": "hound"}}, r"synonyms\['dog'\]: the single string 'hound' was given"),
        (["a,b"], {"separator": ","}, "labels: 'a,b' contains the separator ','"),
        (["dog"], {"separator": ""}, "separator: an empty string"),
    ],
)
def test_bad_arguments_are_named(labels: list[str], arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        count_tag_sets(["dog"], labels, **arguments)


def test_files_are_counted_like_their_lines_zipped_or_not(tmp_path: Path) -> None:
    lines = [f"dog, tag{i % 7}{', dining table' * (i % 3 == 0)}\n" for i in range(1000)]
    content = ("\ufeff" + "\n".join(lines)).encode() + b"dog, \xff\xfe\n"
    (tmp_path / "tags.txt").write_bytes(content)
    with gzip.open(tmp_path / "tags.txt.gz", "wb") as file:
        file.write(content)
    for name in ("tags.txt", "tags.txt.gz"):
        hits = count_tag_sets(tmp_path / name, LABELS)
        assert hits.n_records == 1001
        np.testing.assert_array_equal(hits.counts, [[1001, 334, 0], [334, 334, 0], [0, 0, 0]])
        assert hits.problems().no_hits == ("'teddy bear'",)


def test_a_truncated_gzip_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "tags.txt.gz"
    path.write_bytes(gzip.compress(b"dog, cat\n" * 10_000)[:-20])
    with pytest.raises(ValueError, match=r"no whole gzip file .*nothing was counted"):
        count_tag_sets(path, LABELS)
    with pytest.raises(FileNotFoundError, match="there is no file"):
        count_tag_sets(tmp_path / "none.txt", LABELS)


def test_a_stream_is_read_in_chunks_and_progress_is_told() -> None:
    told: list[int] = []
    held = 0
    most = 0

    def lines() -> "itertools.chain[str]":
        nonlocal held, most
        for i in range(120_000):
            held = i - (told[-1] if told else 0)
            most = max(most, held)
            yield "dog,cat"

    hits = count_tag_sets(lines(), ["dog", "cat"], progress=told.append)
    assert told == [50_000, 100_000, 120_000]
    assert most <= 50_000  # a chunk is counted before more is read
    np.testing.assert_array_equal(hits.counts, np.full((2, 2), 120_000))


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data are not here")
@pytest.mark.parametrize("name", ["coco_train2014_labels", "flickr30k_captions"])
def test_real_counts_are_sound(name: str) -> None:
    hits = read_hit_counts(SHARED / f"voc20_hitcounts_{name}.csv")
    assert len(hits.labels) == 20
    assert not hits.problems()
    assert from_hit_counts(hits).max() == 0.5
