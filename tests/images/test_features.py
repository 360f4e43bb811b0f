"""Features of images: the same whatever happens on the way, and opened as they were written."""

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("PIL")
from tests.images.pictures import BlockMeans, fill, interrupt, picture
from tests.pipes import needs_pipes, unopened

from unseen.files import locked
from unseen.images import features
from unseen.images.features import UnreadableImages, describe_each, extract_features, open_features
from unseen.images.preprocessing import prepare
from unseen.images.reading import read_image

PHOTOS = Path("photos")


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.setattr(features, "_BLOCK", 10)
    monkeypatch.chdir(tmp_path)


def run(sources, output="feats", **options):
    """Features, and how many images were described to make them."""
    backbone = BlockMeans()
    return extract_features(sources, output, backbone, **options), backbone.seen


def stop(at):
    with pytest.raises(KeyboardInterrupt):
        extract_features(PHOTOS, "feats", BlockMeans(stop_at=at, stop=interrupt), jobs=1)


def assert_as_if_made_at_once(made, sources=PHOTOS):
    """Equal, bit by bit, to features that were made in one run."""
    whole, _ = run(sources, "whole")
    assert (made.paths, made.problems, made.backbone) == (whole.paths, whole.problems, whole.backbone)
    assert np.array_equal(made.X, whole.X)
    assert np.array_equal(made.logits, whole.logits)


def test_rows_are_what_the_backbone_gives_for_each_image():
    fill(PHOTOS, 25)
    made, _ = run(PHOTOS, jobs=3, batch=4)
    assert made.paths == tuple(f"photos/{i:04d}.jpg" for i in range(25))
    for row, path in enumerate(made.paths):
        x, logits = BlockMeans().describe(prepare(read_image(path), BlockMeans.preprocessing)[None])
        assert np.array_equal([*made.X[row], *made.logits[row]], [*x[0], *logits[0]])
    assert isinstance(made.X, np.memmap)
    assert (made.X.dtype, made.class_names, made.backbone["name"]) == (
        np.float32,
        ("light", "dark"),
        "block-means",
    )
    without_classes = extract_features(PHOTOS, "bare", BlockMeans(classes=None))
    assert without_classes.class_names is without_classes.logits is None
    assert np.array_equal(without_classes.X, made.X)


@pytest.mark.parametrize("at", [1, 14, 33])
def test_an_interrupted_run_continues_and_ends_the_same(at):
    fill(PHOTOS, 37)
    (PHOTOS / "0005.jpg").write_text("not an image")
    stop(at)
    assert not [thread for thread in threading.enumerate() if "unseen" in thread.name]
    with pytest.raises(FileNotFoundError, match=r"^path: "):
        open_features("feats")
    made, seen = run(PHOTOS)
    assert_as_if_made_at_once(made)
    assert seen == 36 - (at - 1)  # all that was described was kept


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL there")
@pytest.mark.parametrize(
    ("at", "rest"), [(5, 37), (30, 17)]
)  # whole blocks are kept, but for eight images in work
def test_a_killed_run_continues_and_ends_the_same(at, rest):
    fill(PHOTOS, 37)
    program = (
        "from tests.images.pictures import BlockMeans, kill; from unseen.images import features\n"
        "features._BLOCK = 10\n"
        f"features.extract_features('photos', 'feats', BlockMeans(stop_at={at}, stop=kill), jobs=1)"
    )
    root = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"}
    assert subprocess.run([sys.executable, "-c", program], env=environment).returncode == -9
    made, seen = run(PHOTOS)
    assert_as_if_made_at_once(made)
    assert seen == rest


def test_what_is_finished_can_be_opened_while_a_run_extends_it():
    run(fill(PHOTOS, 12))
    fill(PHOTOS, 12, start=12)
    stop(6)
    assert len(open_features("feats")) == 12
    Path("feats/.draft").mkdir()  # of a run that was killed while it copied rows
    fill(PHOTOS, 3, start=30)  # the run that continues has more to do
    made, seen = run(PHOTOS)
    assert_as_if_made_at_once(made)
    assert seen == 12 + 3 - 5


@pytest.mark.parametrize("first", ["index.json", "done.npy", "features.npy"])
def test_half_of_an_old_version_is_not_in_the_way(first, monkeypatch):
    run(fill(PHOTOS, 12))
    fill(PHOTOS, 3, start=30)

    def die(place, **_):  # killed after the first file
        (Path(place) / first).unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(features.shutil, "rmtree", lambda place, **how: None if how else die(place))
        with pytest.raises(KeyboardInterrupt):
            run(PHOTOS)
    assert len(open_features("feats")) == 15
    made, seen = run(PHOTOS)
    assert_as_if_made_at_once(made)
    assert seen == 0
    assert [path.name for path in Path("feats").iterdir()] == ["000002"]


def test_a_full_disk_is_named_and_finished_rows_are_kept(monkeypatch):
    fill(PHOTOS, 25)
    write, calls = features._write_rows, []

    def fill_up(path, *rows):
        calls.append(path)
        if len(calls) > 4:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, *rows)

    with monkeypatch.context() as patched:
        patched.setattr(features, "_write_rows", fill_up)
        with pytest.raises(
            OSError, match=r"^output: 'feats' cannot be written .* Free some space, then run it again"
        ):
            run(PHOTOS)
    made, seen = run(PHOTOS)
    assert seen == 15
    assert_as_if_made_at_once(made)


def test_only_new_and_changed_images_are_computed():
    run(fill(PHOTOS, 30))
    fill(PHOTOS / "0007b", 11, start=100)  # sorted into the middle of the others
    picture(999).save(PHOTOS / "0003.jpg", quality=50)
    (PHOTOS / "0020.jpg").unlink()
    (PHOTOS / "0021.jpg").write_bytes(b"")
    calls = []
    made, seen = run(PHOTOS, only=True, progress=lambda *call: calls.append(call))
    assert (seen, len(made), made.problems) == (12, 39, (("photos/0021.jpg", "the file is empty"),))
    assert calls == [(done, 40) for done in range(27, 41)]  # what was there before counts
    assert_as_if_made_at_once(made)
    picture(21).save(PHOTOS / "0021.jpg")
    assert run(PHOTOS)[0].problems == ()


def test_a_folder_grows_by_several_runs(tmp_path):
    a, b = fill(Path("a"), 5), fill(Path("b"), 4, start=20)
    run(b)
    made, _ = run(a)
    assert_as_if_made_at_once(made, [b, a])
    # A part of what is there changes nothing, by whatever name; other images are dropped on request only.
    made, seen = run(tmp_path / "a" / "0000.jpg")
    assert (made.paths[:5], len(made), seen) == (
        (*map(str, sorted(b.iterdir())), str(tmp_path / "a/0000.jpg")),
        9,
        0,
    )
    assert run(a / "0002.jpg", only=True)[0].paths == ("a/0002.jpg",)


def test_files_that_cannot_be_read_are_listed_with_a_reason():
    fill(PHOTOS, 4)
    (PHOTOS / "0001.jpg").write_bytes((PHOTOS / "0001.jpg").read_bytes()[:-300])
    Path("list.txt").write_text("photos/0000.jpg\nmissing.jpg\nphotos/0001.jpg\nphotos/0002.jpg\n")
    problems = (("missing.jpg", "No such file or directory"), ("photos/0001.jpg", "the file is truncated"))
    with pytest.raises(UnreadableImages, match=r"^sources: ") as caught:
        run("list.txt", batch=3, strict=True)
    assert caught.value.problems == problems
    made, seen = run("list.txt")
    assert (made.problems, made.paths) == (problems, ("photos/0000.jpg", "photos/0002.jpg"))
    assert seen == 0  # what the strict run described was kept
    before = [path.stat() for path in sorted(Path("feats").rglob("*"))]
    assert run("list.txt")[1] == 0
    assert [path.stat() for path in sorted(Path("feats").rglob("*"))] == before  # a finished folder is left alone


def test_features_of_two_backbones_are_not_mixed():
    other = BlockMeans()
    other.fingerprint = "other-1"
    Path("bad.jpg").write_bytes(b"")
    with pytest.raises(UnreadableImages, match=r"^sources: "):  # so that the folder belongs to no backbone yet
        extract_features("bad.jpg", "feats", other)
    made, _ = run(fill(PHOTOS, 3))
    with pytest.raises(ValueError, match=r"^output: "):
        extract_features(PHOTOS, "feats", other)
    assert np.array_equal(made.X, open_features("feats").X)


@pytest.mark.parametrize("output", ["a file", "a file/below", "photos", "feats"])
def test_an_output_that_cannot_be_used_is_refused(output):
    fill(PHOTOS, 2)
    Path("a file").write_text("mine")
    Path("feats").mkdir()
    with locked(Path("feats/.lock")), pytest.raises(OSError, match=r"^output: "):
        run(PHOTOS, output)
    assert len(run(PHOTOS)[0]) == 2


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere names of files are text")
def test_names_that_are_not_text_survive():
    name = PHOTOS / os.fsdecode(b'caf\xe9, "two\nlines".jpg')
    (fill(PHOTOS, 1) / "0000.jpg").rename(name)
    assert run(PHOTOS)[0].paths == (str(name),)
    assert run(PHOTOS)[1] == 0


def test_images_are_described_one_by_one_in_their_order():
    paths = [str(path) for path in sorted(fill(PHOTOS, 2).iterdir())]
    Path(paths[1]).write_bytes(b"")
    (first, described, no_problem), second = describe_each(paths, BlockMeans())
    assert (first, described.features.shape, no_problem) == (paths[0], (1, 12), None)
    assert second == (paths[1], None, "the file is empty")


def test_files_made_elsewhere_can_be_opened():
    X = np.arange(6, dtype=np.float16).reshape(3, 2)
    np.savez("a.npz", features=X, image_id=np.array([b"x", b"y", b"z"]), imagenet_logits=np.ones((3, 9)))
    opened = open_features("a.npz")
    assert (opened.X.dtype, opened.paths, opened.has_names) == (np.float32, ("x", "y", "z"), True)
    assert np.array_equal(opened.X, X)
    assert opened.class_names[:1] == ("tench",)
    np.save("b.npy", X.astype(np.int64))
    opened = open_features("b.npy")
    assert (opened.X.dtype, opened.paths, opened.has_names) == (np.float32, ("0", "1", "2"), False)
    for text in ("image_id,f0,f1\n x ,1,-2.5\n", "name;a;b\nx;1;-2.5\n", "ids\t0\t1\nx\t1\t-2.5\n"):
        Path("a.csv").write_text(text)
        assert (open_features("a.csv").paths, open_features("a.csv").X.tolist()) == (("x",), [[1, -2.5]])


@pytest.mark.parametrize(
    "arrays",
    [
        {"other": np.ones((2, 2))}, {"features": np.ones(3)}, {"features": np.array([[{}]])},
        {"X": np.ones((2, 2)), "ids": np.array(["a"])}, {"X": np.ones((2, 2)), "ids": np.array(["a", "a"])},
        {"X": np.array([[1.0], [np.nan]])}, {"X": np.ones((3, 2)), "logits": np.ones((4, 9))},
    ],
)  # fmt: skip
def test_archives_without_features_are_refused(arrays):
    np.savez("a.npz", **arrays)
    with pytest.raises(ValueError, match=r"^path: (?!.*allow_pickle)"):
        open_features("a.npz")


@pytest.mark.parametrize("text", ["", "x\ny\n", "x,1,2\ny,3,4\n", "id,f0,f1\nx,1\n", "id,f0\nx,much\n", "id,f0\n"])
def test_what_is_not_a_feature_file_is_refused(text):
    for name in ("a.csv", "a.npz", "a.npy"):
        Path(name).write_text(text)
        with pytest.raises(ValueError, match=r"^path: "):
            open_features(name)
    for path in (".", "nowhere"):
        with pytest.raises(FileNotFoundError, match=r"^path: "):
            open_features(path)


@pytest.mark.parametrize(
    ("name", "change", "found"),
    [
        ("index.json", lambda text: text.replace(b'"format": 1', b'"format": 2'), "format 2, .* reads 1"),
        ("index.json", lambda text: text[:90], "Unterminated|Expecting"),
        ("index.json", lambda text: b"[]", "'list' object"),
        ("index.json", lambda text: text.replace(b"fingerprint", b"print"), "do not fit together"),
        ("index.json", lambda text: text.replace(b'jpg", ', b'jpg", -0.5'), "do not fit together"),
        ("done.npy", lambda data: data[:100], "EOF"),
        ("features.npy", lambda data: b"", "No data left"),
        ("features.npy", lambda data: data.replace(b"(5, 12)", b"(3, 20)"), "do not fit together"),
        ("features.npy", None, "do not fit together"),
    ],
)  # fmt: skip
def test_a_damaged_or_newer_folder_is_refused(name, change, found):
    run(fill(PHOTOS, 5))
    file = Path("feats/000001", name)
    if change is None:
        file.unlink()
    else:
        file.write_bytes(change(file.read_bytes()))
    content = {path: path.read_bytes() for path in Path("feats").rglob("*.*")}
    with pytest.raises(ValueError, match=rf"^path: 'feats' cannot be read as features \(.*({found})"):
        open_features("feats")
    with pytest.raises(ValueError, match=rf"^output: .*({found}).*\)\. Delete it, and make them again"):
        run(PHOTOS)
    assert content == {path: path.read_bytes() for path in Path("feats").rglob("*.*")}


@needs_pipes
@pytest.mark.parametrize("name", ["a.npz", "a.npy", "a.csv", "a.safetensors", "a", "a.txt"])
def test_what_may_have_no_end_is_not_read(name):
    with unopened(name), pytest.raises(ValueError, match=r"^(path|sources): .*it is not a file\)\. Pass a"):
        run(name) if name == "a.txt" else open_features(name)
    Path(name).unlink()
    Path(name).symlink_to("/dev/null")
    with pytest.raises(ValueError, match=r"^(path|sources): .*it is not a file\)\. Pass a"):
        run(name) if name == "a.txt" else open_features(name)


def test_a_small_archive_does_not_unpack_to_gigabytes(monkeypatch):
    X = np.zeros((300, 1000))
    np.savez_compressed("packed.npz", features=X)
    np.savez("plain.npz", features=X)
    assert len(open_features("packed.npz")) == 300
    monkeypatch.setattr("unseen.files._LITTLE", 1000)
    assert len(open_features("plain.npz")) == 300
    with pytest.raises(ValueError, match=r"^path: 'packed.npz' .* unpacks to 2,400,.* more than 200 times"):
        open_features("packed.npz")


def test_versions_have_numbers():
    run(fill(PHOTOS, 5))
    Path("feats/000001").rename("feats/abc")
    for act, name in ((open_features, "path"), (lambda folder: run(PHOTOS, folder), "output")):
        with pytest.raises(ValueError, match=rf"^{name}: 'feats' cannot be read as features \(its folder 'abc'"):
            act("feats")


@needs_pipes
@pytest.mark.parametrize("name", ["features.npy", "logits.npy", "done.npy", "index.json"])
def test_a_pipe_in_a_folder_of_features_is_not_read(name):
    run(fill(PHOTOS, 5))
    file = Path("feats/000001", name)
    file.unlink()
    with unopened(file), pytest.raises(ValueError, match=r"^path: 'feats' cannot be .* \(it is not a file\)"):
        open_features("feats")


def test_folders_without_a_format_number_are_of_the_first_format():
    made, _ = run(fill(PHOTOS, 5))
    index = Path("feats/000001/index.json")
    index.write_text(index.read_text().replace('"format": 1, ', ""))
    again, seen = run(PHOTOS)
    assert (again.paths, again.backbone, seen) == (made.paths, made.backbone, 0)
