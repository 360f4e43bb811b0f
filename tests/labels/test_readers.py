import gzip
import io
import pickle
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from safetensors.numpy import save_file

from unseen.labels.readers import read_vectors

# Words as they occur: letters of any script, digits and signs, but nothing that separates fields or lines.
letters = st.characters(exclude_categories=["Cs", "Cc", "Zs", "Zl", "Zp"])
words_lists = st.lists(st.text(letters, min_size=1, max_size=8), min_size=1, max_size=6)
float32 = st.floats(width=32, allow_nan=False, allow_infinity=False)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], np.ndarray]:
    words = draw(words_lists)
    return words, draw(arrays(np.float32, (len(words), draw(st.integers(1, 4))), elements=float32))


def read(path: Path, **choice: object) -> tuple[list[str], np.ndarray]:
    blocks = list(read_vectors(path, **choice))  # type: ignore[arg-type]
    words = [word.decode() for block in blocks for word in block.words]
    return words, np.concatenate([block.vectors for block in blocks])


def read_bytes(content: bytes, **choice: object) -> tuple[list[str], np.ndarray]:
    # By content and not by suffix: the name says nothing.
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "table"
        path.write_bytes(content)
        return read(path, **choice)


def text(words: list[str], vectors: np.ndarray, *, header: bool = False, end: str = "\n") -> bytes:
    lines = [f"{len(words)} {vectors.shape[1]}{end}"] if header else []
    lines += [
        " ".join([word, *(repr(float(x)) for x in row)]) + end for word, row in zip(words, vectors, strict=True)
    ]
    return "".join(lines).encode()


def binary(words: list[str], vectors: np.ndarray, *, newline: bool = True) -> bytes:
    parts = [f"{len(words)} {vectors.shape[1]}\n".encode()]
    for word, row in zip(words, vectors, strict=True):
        parts += [word.encode(), b" ", row.astype("<f4").tobytes(), b"\n" * newline]
    return b"".join(parts)


def npz(words: list[str], vectors: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, words=np.array(words), vectors=vectors)
    return buffer.getvalue()


def zipped(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name.replace("_", "."), content)
    return buffer.getvalue()


WRITERS: dict[str, Callable[[list[str], np.ndarray], bytes]] = {
    "fasttext": lambda words, vectors: text(words, vectors, header=True, end=" \n"),
    "word2vec text": lambda words, vectors: text(words, vectors, header=True),
    "word2vec binary": binary,
    "word2vec binary without newlines": lambda words, vectors: binary(words, vectors, newline=False),
    "npz": npz,
    "gzip": lambda words, vectors: gzip.compress(text(words, vectors, header=True)),
    "zip": lambda words, vectors: zipped(only_vec=text(words, vectors, header=True)),
}


@pytest.mark.parametrize("kind", WRITERS)
@given(table=tables())
def test_what_is_written_is_read_to_the_bit(kind: str, table: tuple[list[str], np.ndarray]) -> None:
    words, vectors = read_bytes(WRITERS[kind](*table))
    assert words == table[0]
    assert vectors.dtype == np.float32
    assert vectors.tobytes() == table[1].tobytes()


def test_float32_whose_bytes_are_letters_is_binary_all_the_same() -> None:
    vectors = np.frombuffer(b"y\nRZ", dtype=np.float32).reshape(1, 1)
    words, found = read_bytes(binary(["0"], vectors, newline=False))
    assert words == ["0"]
    assert found.tobytes() == vectors.tobytes()


@given(table=tables(), end=st.sampled_from(["\n", "\r\n", " \n"]))
def test_glove_text_is_read_to_the_bit(table: tuple[list[str], np.ndarray], end: str) -> None:
    words = [f"w{word}" for word in table[0]]
    found, vectors = read_bytes(text(words, table[1], end=end))
    assert found == words
    assert vectors.tobytes() == table[1].tobytes()


@given(words=words_lists, vectors=arrays(np.float64, (6, 3), elements=st.floats(-1e9, 1e9)))
def test_csv_keeps_double_precision(words: list[str], vectors: np.ndarray) -> None:
    rows = vectors[: len(words)]
    quoted = ['"' + word.replace('"', '""') + '"' for word in words]
    lines = [",".join([word, *(repr(float(x)) for x in row)]) for word, row in zip(quoted, rows, strict=True)]
    found, read_rows = read_bytes("\r\n".join(lines).encode())
    assert found == words
    assert read_rows.tobytes() == rows.tobytes()


@pytest.mark.parametrize("first", ["word,x,y", ",0,1", "label,1,2"])
def test_the_names_of_columns_are_passed_over(first: str) -> None:
    words, vectors = read_bytes(f"{first}\ndog,0.5,1\n\ncat,2, 3\n".encode())
    assert words == ["dog", "cat"]
    np.testing.assert_array_equal(vectors, [[0.5, 1], [2, 3]])


@given(table=tables())
def test_safetensors_keep_words_and_bits(table: tuple[list[str], np.ndarray]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "table"
        blob = np.frombuffer("\n".join(table[0]).encode(), dtype=np.uint8)
        save_file({"words": blob, "vectors": np.ascontiguousarray(table[1])}, path)
        words, vectors = read(path)
    assert words == table[0]
    assert vectors.tobytes() == table[1].tobytes()


def test_odd_words_of_published_tables_are_words() -> None:
    content = (
        ", 1 2\n. . . 3 4\nat name@domain.com 5 6\n\u0085 7 8\n\u00a0\u00a0 9 10\n0.5 11 12\nétoile\t13\t14\n\n"
    )
    words, vectors = read_bytes(content.encode())
    assert words == [",", ". . .", "at name@domain.com", "\u0085", "\u00a0\u00a0", "0.5", "étoile"]
    np.testing.assert_array_equal(vectors, np.arange(1, 15).reshape(7, 2))


def test_words_that_are_no_utf8_are_kept_as_bytes(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(b"\xff\xfe 1 2\ndog 3 4\n")
    assert next(read_vectors(tmp_path / "t")).words == [b"\xff\xfe", b"dog"]


def test_more_than_one_block(tmp_path: Path) -> None:
    words, vectors = [f"w{i}" for i in range(10_000)], np.arange(20_000, dtype=np.float32).reshape(-1, 2)
    for content in (
        text(words, vectors),
        binary(words, vectors),
        npz(words, vectors),
        gzip.compress(text(words, vectors)),
        zipped(a_txt=text(words, vectors)),
    ):
        (tmp_path / "t").write_bytes(content)
        seen: list[tuple[int, int | None]] = []
        blocks = list(read_vectors(tmp_path / "t", progress=lambda *at, seen=seen: seen.append(at)))
        assert len(blocks) > 1
        np.testing.assert_array_equal(np.concatenate([block.vectors for block in blocks]), vectors)
        assert seen == sorted(seen)
        assert seen[-1][0] == seen[-1][1]


def test_a_member_is_chosen_by_name_or_dimension(tmp_path: Path) -> None:
    archive = tmp_path / "glove.6B.zip"
    members = {f"glove_6B_{dim}d_txt": text(["dog"], np.ones((1, dim), np.float32)) for dim in (5, 50, 300)}
    archive.write_bytes(zipped(**members))
    assert read(archive, dim=50)[1].shape == (1, 50)
    assert read(archive, dim=5)[1].shape == (1, 5)
    assert read(archive, member="glove.6B.300d.txt")[1].shape == (1, 300)
    for choice in ({}, {"dim": 100}, {"member": "nothing"}):
        with pytest.raises(ValueError, match=r"the archive holds 'glove.6B.5d.txt', .*Name one of them"):
            read(archive, **choice)


def object_npz() -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, words=np.array(["dog"], dtype=object), vectors=np.ones((1, 2)))
    return buffer.getvalue()


def arrays_npz(**content: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **content)  # type: ignore[arg-type]
    return buffer.getvalue()


TWO = np.ones((2, 3), dtype=np.float32)
GOOD = zipped(a_txt=text([f"w{i}" for i in range(2000)], np.random.default_rng(0).normal(size=(2000, 3))))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"dog 1 2\ncat 3\n", r"line 2: a word and 2 numbers were expected, but 'cat' is followed by 1 numbers"),
        (b"dog 1 2\ncat 3 4 5\n", r"line 2: .*'cat' is followed by 3 numbers"),
        (b"dog 1 2\ncat 3 x\n", r"line 2: 'x' in the vector of 'cat' is no number"),
        (b"dog 1 2\n\ncat nan 2\n", r"the vector of 'cat' \(line 3\) holds NaN"),
        (b"dog 1 2\ncat 1e99 2\n", r"the vector of 'cat' \(line 2\) holds NaN or infinity"),
        (b"dog 1 2\ncat 1_0 2\n", r"line 2: .*numbers|line 2: '1_0'"),
        (b"just some prose\nwithout numbers\n", r"line 1: a word followed by numbers was expected"),
        (b"3 2\ndog 1 2\ncat 1 2\n", "promises 3 words, but 2 follow"),
        (b"1 2\ndog 1 2\ncat 1 2\n", "promises 1 words, but 2 follow"),
        (binary(["dog", "cat"], TWO)[:-5], "it ends in word 2 of the 2"),
        (binary(["dog", "cat"], TWO) + b"more", "more follows"),
        (binary(["dog", "cat"], TWO * np.float32(np.inf)), r"'dog' \(word 1\) holds NaN or infinity"),
        (b"dog,1,2\ncat,3\n", "line 2: a word and 2 numbers were expected, found 2 fields"),
        (b"dog,1,x\ncat,3,4\n", "line 1: a word"),
        (b"dog,1,2\ncat,nan,2\n", r"'cat' \(line 2\) holds NaN"),
        (GOOD[:-30], "the archive is damaged or cut short"),
        (GOOD[:2000] + GOOD[2100:], "the archive is damaged or cut short"),
        (gzip.compress(b"dog 1 2\n" * 99, mtime=0)[:-9], "the archive is damaged or cut short"),
        (npz(["dog", "cat"], TWO)[:-40], "damaged or cut short|cannot be read"),
        (npz(["dog"], TWO), "holds 1 words and 2 vectors"),
        (npz(["dog", ""], TWO), "word 2 is empty"),
        (npz(["dog", "cat"], TWO * np.float32(np.nan)), r"'dog' \(word 1\) holds NaN"),
        (object_npz(), "cannot be read .*words must not be objects"),
        (arrays_npz(words=np.array(["dog"])), r"no array 'vectors' \(its arrays: 'words'\)"),
        (arrays_npz(words=np.array([1, 2]), vectors=TWO), "its words have shape"),
        (arrays_npz(words=np.array(["a", "b"]), vectors=np.arange(4)), "its vectors have shape"),
        (pickle.dumps({"dog": [1, 2]}), "this is a pickle"),
        (b"\xba\x16\x4f\x2f\x0c\0\0\0", "this is a fastText model.*the .vec file"),
        (b"\x93NUMPY\x01\0", "an .npy array has no words"),
        (b"PAR1\0\0\0\0", "the format is unknown"),
    ],
)
def test_malformed_files_are_refused_by_name(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "vectors.dat").write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        read(tmp_path / "vectors.dat")
    assert str(caught.value).startswith("vectors: ")
    assert "vectors.dat" in str(caught.value)


def test_a_cut_safetensors_file_is_refused(tmp_path: Path) -> None:
    save_file({"words": np.frombuffer(b"dog", dtype=np.uint8), "vectors": np.ones((1, 9))}, tmp_path / "t")
    (tmp_path / "t").write_bytes((tmp_path / "t").read_bytes()[:-8])
    with pytest.raises(ValueError, match=r"t': it cannot be read"):
        read(tmp_path / "t")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no file .*nowhere"):
        read(tmp_path / "nowhere")
