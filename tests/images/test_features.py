"""Features of images: the same whatever happens on the way, and opened as they were written."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("PIL")
from tests.images.pictures import BlockMeans, fill, interrupt, picture

from unseen.files import locked
from unseen.images import features
from unseen.images.backbones import prepare
from unseen.images.features import UnreadableImages, describe_each, extract_features, open_features
from unseen.images.reading import read_image


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(features, "_BLOCK", 10)
    monkeypatch.setattr(features, "_COPIED", 7)


def same(one, other):
    """Whether two sets of features are equal, bit by bit."""
    arrays = (np.array_equal(one.X, other.X), np.array_equal(one.logits, other.logits))
    return (one.paths, one.problems, one.backbone) == (other.paths, other.problems, other.backbone) and all(arrays)


def test_rows_are_what_the_backbone_gives_for_each_image(tmp_path):
    photos = fill(tmp_path / "photos", 25)
    backbone = BlockMeans()
    made = extract_features(photos, tmp_path / "feats", backbone, jobs=3, batch=4)
    assert made.paths == tuple(str(photos / f"{i:04d}.jpg") for i in range(25))
    for row, path in enumerate(made.paths):
        alone = backbone.describe(prepare(read_image(path), backbone.preprocessing)[None])
        assert np.array_equal(made.X[row], alone.features[0])
        assert np.array_equal(made.logits[row], alone.logits[0])
    assert isinstance(made.X, np.memmap)
    assert made.X.dtype == np.float32
    assert (made.class_names, made.backbone["name"], len(made)) == (("light", "dark"), "block-means", 25)
    assert same(made, open_features(tmp_path / "feats"))


def test_a_backbone_without_classes_gives_no_logits(tmp_path):
    made = extract_features(fill(tmp_path / "p", 3), tmp_path / "feats", BlockMeans(classes=None))
    assert made.logits is None
    assert made.class_names is None


@pytest.mark.parametrize("stop_at", [1, 14, 33])
def test_an_interrupted_run_continues_and_ends_the_same(tmp_path, stop_at):
    photos = fill(tmp_path / "photos", 37)
    (photos / "0005.jpg").write_text("not an image")
    output = tmp_path / "feats"
    with pytest.raises(KeyboardInterrupt):
        extract_features(photos, output, BlockMeans(stop_at=stop_at, stop=interrupt), jobs=1)
    with pytest.raises(FileNotFoundError, match=r"^path: "):
        open_features(output)
    rest = BlockMeans()
    assert same(extract_features(photos, output, rest), extract_features(photos, tmp_path / "whole", BlockMeans()))
    assert rest.seen == 36 - (stop_at - 1)  # all that was described was kept


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL there")
@pytest.mark.parametrize("stop_at", [5, 30])
def test_a_killed_run_continues_and_ends_the_same(tmp_path, stop_at):
    photos = fill(tmp_path / "photos", 37)
    program = (
        "import sys; from tests.images.pictures import BlockMeans, kill; from unseen.images import features\n"
        "features._BLOCK = 10\n"
        f"features.extract_features(*sys.argv[1:], BlockMeans(stop_at={stop_at}, stop=kill), jobs=1)"
    )
    root = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"}
    command = [sys.executable, "-c", program, photos, tmp_path / "feats"]
    assert subprocess.run(command, cwd=root, env=environment).returncode == -9
    rest = BlockMeans()
    made = extract_features(photos, tmp_path / "feats", rest)
    assert same(made, extract_features(photos, tmp_path / "whole", BlockMeans()))
    assert rest.seen == {5: 37, 30: 17}[stop_at]  # whole blocks are kept, but for the eight images in work


def test_what_is_finished_can_be_opened_while_a_run_extends_it(tmp_path):
    photos = fill(tmp_path / "photos", 12)
    extract_features(photos, tmp_path / "feats", BlockMeans())
    fill(photos, 12, start=12)
    with pytest.raises(KeyboardInterrupt):
        extract_features(photos, tmp_path / "feats", BlockMeans(stop_at=6, stop=interrupt), jobs=1)
    assert len(open_features(tmp_path / "feats")) == 12
    (tmp_path / "feats" / ".draft").mkdir()  # of a run that was killed while it copied rows
    fill(photos, 3, start=30)  # the plan of the run that continues is another one
    rest = BlockMeans()
    made = extract_features(photos, tmp_path / "feats", rest)
    assert rest.seen == 12 + 3 - 5
    assert same(made, extract_features(photos, tmp_path / "whole", BlockMeans()))


def test_a_finished_folder_is_left_alone(tmp_path):
    photos = fill(tmp_path / "photos", 12)
    (photos / "bad.jpg").write_text("not an image")
    extract_features(photos, tmp_path / "feats", BlockMeans())
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "feats").rglob("*.npy")}
    again = BlockMeans()
    extract_features(photos, tmp_path / "feats", again)
    assert again.seen == 0
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "feats").rglob("*.npy")} == before


def test_only_new_and_changed_images_are_computed(tmp_path):
    photos = fill(tmp_path / "photos", 30)
    extract_features(photos, tmp_path / "feats", BlockMeans())
    fill(photos / "0007b", 11, start=100)  # sorted into the middle of the others
    picture(999).save(photos / "0003.jpg", quality=50)
    (photos / "0020.jpg").unlink()
    (photos / "0021.jpg").write_bytes(b"")
    more = BlockMeans()
    made = extract_features(photos, tmp_path / "feats", more, only=True)
    assert (more.seen, len(made)) == (12, 39)
    assert made.problems == ((str(photos / "0021.jpg"), "the file is empty"),)
    assert same(made, extract_features(photos, tmp_path / "fresh", BlockMeans()))
    picture(21).save(photos / "0021.jpg")
    assert extract_features(photos, tmp_path / "feats", BlockMeans()).problems == ()


def test_a_folder_grows_by_several_runs(tmp_path):
    a, b = fill(tmp_path / "a", 5), fill(tmp_path / "b", 4, start=20)
    extract_features(b, tmp_path / "feats", BlockMeans())
    made = extract_features(a, tmp_path / "feats", BlockMeans())
    assert made.paths == (*map(str, sorted(b.iterdir())), *map(str, sorted(a.iterdir())))
    assert same(made, extract_features([b, a], tmp_path / "whole", BlockMeans()))
    # A part of what is there changes nothing; other images are dropped on request only.
    assert same(made, extract_features(a / "0002.jpg", tmp_path / "feats", BlockMeans()))
    assert extract_features(a / "0002.jpg", tmp_path / "feats", BlockMeans(), only=True).paths == (
        str(a / "0002.jpg"),
    )


def test_a_file_given_by_another_name_has_one_row(tmp_path, monkeypatch):
    fill(tmp_path / "photos", 3)
    monkeypatch.chdir(tmp_path)
    extract_features("photos", "feats", BlockMeans())
    again = BlockMeans()
    made = extract_features(tmp_path / "photos" / "0001.jpg", "feats", again)
    assert again.seen == 0
    assert made.paths == ("photos/0000.jpg", str(tmp_path / "photos" / "0001.jpg"), "photos/0002.jpg")


def test_files_that_cannot_be_read_are_listed_with_a_reason(tmp_path):
    photos = fill(tmp_path / "photos", 4)
    (photos / "0001.jpg").write_bytes((photos / "0001.jpg").read_bytes()[:-300])
    (photos / "list.txt").write_text("0000.jpg\nmissing.jpg\n0001.jpg\n0002.jpg\n")
    made = extract_features(photos / "list.txt", tmp_path / "feats", BlockMeans(), batch=3)
    assert made.problems == (
        (str(photos / "missing.jpg"), "No such file or directory"),
        (str(photos / "0001.jpg"), "the file is cut off"),
    )
    assert [Path(path).name for path in made.paths] == ["0000.jpg", "0002.jpg"]


def test_strict_names_the_files_and_keeps_the_rest(tmp_path):
    photos = fill(tmp_path / "photos", 15)
    (photos / "0004.jpg").write_bytes(b"")
    with pytest.raises(UnreadableImages, match=r"^sources: ") as caught:
        extract_features(photos, tmp_path / "feats", BlockMeans(), strict=True)
    assert caught.value.problems == ((str(photos / "0004.jpg"), "the file is empty"),)
    rest = BlockMeans()
    assert len(extract_features(photos, tmp_path / "feats", rest)) == 14
    assert rest.seen == 0


def test_sources_without_a_readable_image_are_refused_and_bind_the_folder_to_no_backbone(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.jpg").write_bytes(b"")
    with pytest.raises(UnreadableImages, match=r"^sources: "):
        extract_features(tmp_path / "photos", tmp_path / "feats", BlockMeans())
    other = BlockMeans()
    other.fingerprint = "other-1"
    assert len(extract_features(fill(tmp_path / "photos", 1), tmp_path / "feats", other)) == 1


def test_features_of_two_backbones_are_not_mixed(tmp_path):
    photos = fill(tmp_path / "photos", 3)
    made = extract_features(photos, tmp_path / "feats", BlockMeans())
    other = BlockMeans()
    other.fingerprint = "other-1"
    with pytest.raises(ValueError, match=r"^output: "):
        extract_features(photos, tmp_path / "feats", other)
    assert same(made, open_features(tmp_path / "feats"))


@pytest.mark.parametrize("kind", ["a file", "below a file", "a folder of other things", "locked"])
def test_an_output_that_cannot_be_used_is_refused(tmp_path, kind):
    photos = fill(tmp_path / "photos", 2)
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "feats").mkdir()
    output = {
        "a file": tmp_path / "mine",
        "below a file": tmp_path / "mine" / "feats",
        "locked": tmp_path / "feats",
    }
    with locked(tmp_path / "feats" / ".lock"), pytest.raises(OSError, match=r"^output: "):
        extract_features(photos, output.get(kind, photos), BlockMeans())
    assert len(extract_features(photos, tmp_path / "feats", BlockMeans())) == 2


def test_progress_counts_what_was_there_before(tmp_path):
    photos = fill(tmp_path / "photos", 5)
    extract_features(photos, tmp_path / "feats", BlockMeans())
    fill(photos, 2, start=5)
    calls = []
    extract_features(photos, tmp_path / "feats", BlockMeans(), progress=lambda *call: calls.append(call))
    assert calls == [(5, 7), (6, 7), (7, 7)]


def test_no_thread_is_left(tmp_path):
    photos = fill(tmp_path / "photos", 20)
    with pytest.raises(KeyboardInterrupt):
        extract_features(photos, tmp_path / "feats", BlockMeans(stop_at=3, stop=interrupt), jobs=4)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("unseen-features")]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere names of files are text")
def test_names_that_are_not_text_survive(tmp_path):
    name = os.fsdecode(b'caf\xe9, "two\nlines".jpg')
    fill(tmp_path / "photos", 1)
    (tmp_path / "photos" / "0000.jpg").rename(tmp_path / "photos" / name)
    made = extract_features(tmp_path / "photos", tmp_path / "feats", BlockMeans())
    assert made.paths == (str(tmp_path / "photos" / name),)
    again = BlockMeans()
    extract_features(tmp_path / "photos", tmp_path / "feats", again)
    assert again.seen == 0


def test_images_are_described_one_by_one_in_their_order(tmp_path):
    photos = fill(tmp_path / "photos", 3)
    (photos / "0001.jpg").write_bytes(b"")
    paths = [str(path) for path in sorted(photos.iterdir())]
    first, second, third = describe_each(paths, BlockMeans())
    assert [first[0], second[0], third[0]] == paths
    assert first[1].features.shape == third[1].features.shape == (1, 12)
    assert (first[2], second[1:], third[2]) == (None, (None, "the file is empty"), None)


def test_files_made_elsewhere_can_be_opened(tmp_path):
    X = np.arange(6, dtype=np.float16).reshape(3, 2)
    np.savez(
        tmp_path / "a.npz", features=X, image_id=np.array([b"x", b"y", b"z"]), imagenet_logits=np.ones((3, 9))
    )
    opened = open_features(tmp_path / "a.npz")
    assert (opened.X.dtype, opened.paths, opened.has_names) == (np.float32, ("x", "y", "z"), True)
    assert np.array_equal(opened.X, X)
    assert opened.class_names[:1] == ("tench",)
    np.save(tmp_path / "b.npy", X.astype(np.int64))
    opened = open_features(tmp_path / "b.npy")
    assert (opened.X.dtype, opened.paths, opened.has_names) == (np.float32, ("0", "1", "2"), False)
    assert open_features(tmp_path / "b.npy", ids=["p", "q", "r"]).paths == ("p", "q", "r")


@pytest.mark.parametrize(
    "text", ["image_id,f0,f1\n x ,1,-2.5\n", "name;a;b\nx;1;-2.5\n", "ids\t0\t1\nx\t1\t-2.5\n"]
)
def test_a_table_names_the_images_first(tmp_path, text):
    (tmp_path / "a.csv").write_text(text)
    opened = open_features(tmp_path / "a.csv")
    assert (opened.paths, opened.X.tolist()) == (("x",), [[1, -2.5]])


@pytest.mark.parametrize(
    "arrays",
    [
        {"other": np.ones((2, 2))}, {"features": np.ones(3)}, {"features": np.array([[{}]])},
        {"X": np.ones((2, 2)), "ids": np.array(["a"])}, {"X": np.ones((2, 2)), "ids": np.array(["a", "a"])},
        {"X": np.array([[1.0], [np.nan]])}, {"X": np.ones((3, 2)), "logits": np.ones((4, 9))},
    ],
)  # fmt: skip
def test_archives_without_features_are_refused(tmp_path, arrays):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(ValueError, match=r"^path: ") as refused:
        open_features(tmp_path / "a.npz")
    assert "allow_pickle" not in str(refused.value)


@pytest.mark.parametrize(
    "text", ["", "x\ny\n", "x,1,2\ny,3,4\n", "id,f0,f1\nx,1\n", "id,f0\nx,much\n", "id,f0\n", "id,f0\nx,1\nx,2\n"]
)
def test_what_is_not_a_feature_file_is_refused(tmp_path, text):
    for name in ("a.csv", "a.npz", "a.npy"):
        (tmp_path / name).write_text(text)
        with pytest.raises(ValueError, match=r"^path: "):
            open_features(tmp_path / name)
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(FileNotFoundError, match=r"^path: "):
            open_features(path)
