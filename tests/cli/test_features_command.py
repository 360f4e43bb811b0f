"""`unseen features`: what a person types, and what comes back."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("PIL")
from tests.images.pictures import BlockMeans, fill, interrupt

from unseen.cli import app
from unseen.images import _extraction, backbones
from unseen.images.features import open_features
from unseen.images.finding import Found, find_images


@pytest.fixture(autouse=True)
def backbone(monkeypatch):
    monkeypatch.setattr(backbones, "open_backbone", lambda name, **options: BlockMeans())


@pytest.fixture
def photos(tmp_path):
    return fill(tmp_path / "photos", 6)


def run(*arguments):
    return CliRunner().invoke(app, ["features", *map(str, arguments)])


def test_images_go_in_and_features_come_out(photos, tmp_path):
    done = run(photos, "-o", tmp_path / "feats", "--jobs", 2, "--batch", 4)
    assert done.exit_code == 0, done.output
    assert "6 images described by block-means" in done.stdout
    assert "12 features of 6 images" in done.stdout
    assert len(open_features(tmp_path / "feats")) == 6
    again = run(photos, "-o", tmp_path / "feats")
    assert again.exit_code == 0
    assert "Nothing to do" in again.stdout


def test_broken_files_are_shown_and_left_out(photos, tmp_path):
    (photos / "0002.jpg").write_bytes(b"")
    (photos / "notes.jpg").write_text("milk, eggs")
    done = run(photos, "-o", tmp_path / "feats")
    assert done.exit_code == 0
    assert "5 images described" in done.stdout
    assert "2 files could not be read and were left out:" in done.stdout
    assert "0002.jpg: the file is empty" in done.stdout
    assert "notes.jpg: it is text, no image" in done.stdout
    table = (tmp_path / "feats" / "problems.csv").read_text().splitlines()
    assert table[0] == "path,reason"
    assert table[2] == f'{photos / "notes.jpg"},"it is text, no image"'


def test_strict_fails_and_names_the_files(photos, tmp_path):
    (photos / "0002.jpg").write_bytes(b"")
    done = run(photos, "-o", tmp_path / "feats", "--strict")
    assert done.exit_code == 2
    assert done.stderr.splitlines() == [
        "unseen features: --strict: 1 file cannot be read; the features of the others were kept.",
        f"  {photos / '0002.jpg'}: the file is empty",
    ]
    assert run(photos, "-o", tmp_path / "feats").exit_code == 0


def refuse_all(tmp_path, photos):
    empty = tmp_path / "empty"
    empty.mkdir()
    (tmp_path / "mine").write_text("mine")
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "a.jpg").write_bytes(b"")
    return {
        "an empty folder": ([empty, "-o", tmp_path / "feats"], "there is no image in"),
        "nothing there": ([tmp_path / "nowhere", "-o", tmp_path / "feats"], "there is no file or folder"),
        "only broken files": ([broken, "-o", tmp_path / "feats"], "none of 1 file can be read"),
        "an output that is a file": ([photos, "-o", tmp_path / "mine"], "is a file. Pass the name of a folder"),
        "an output below a file": ([photos, "-o", tmp_path / "mine" / "feats"], "cannot be written"),
        "an output with other files": ([photos, "-o", photos], "holds other files"),
    }


@pytest.mark.parametrize(
    "case",
    [
        "an empty folder", "nothing there", "only broken files", "an output that is a file",
        "an output below a file", "an output with other files",
    ],
)  # fmt: skip
def test_bad_input_is_one_line_and_exit_code_two(photos, tmp_path, case):
    arguments, message = refuse_all(tmp_path, photos)[case]
    before = sorted(tmp_path.rglob("*"))
    done = run(*arguments)
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stderr.startswith("unseen features: ")
    assert done.stderr.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_folder_that_may_not_be_written_is_one_line(photos, tmp_path):
    tmp_path.chmod(0o500)
    try:
        done = run(photos, "-o", tmp_path / "feats")
    finally:
        tmp_path.chmod(0o700)
    assert done.exit_code == 2
    assert "cannot be written" in done.stderr


def test_missing_pillow_is_one_line(photos, tmp_path, monkeypatch):
    from unseen.images import reading

    reading._pillow.cache_clear()
    monkeypatch.setitem(sys.modules, "PIL", None)
    done = run(photos, "-o", tmp_path / "feats")
    assert done.exit_code == 2
    assert done.stderr == (
        'unseen features: Reading images needs Pillow. Install the extra: pip install "unseen[images]"\n'
    )
    assert not (tmp_path / "feats").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="signals differ there")
def test_an_interruption_is_one_line_and_keeps_what_is_finished(photos, tmp_path):
    program = """
import os, signal, sys, threading
from tests.images.pictures import BlockMeans
from unseen.cli import app
from unseen.images import _extraction, backbones
_extraction._PART_SIZE = 1
add, kept = _extraction.FeatureStore.add, threading.Event()
_extraction.FeatureStore.add = lambda store, part: (add(store, part), kept.set())
signal.signal(signal.SIGINT, signal.default_int_handler)
pressed = []
def stop():
    kept.wait()
    if not pressed:
        pressed.append(os.kill(os.getpid(), signal.SIGINT))
backbones.open_backbone = lambda name, **options: BlockMeans(stop_at=4, stop=stop)
app(["features", sys.argv[1], "-o", sys.argv[2], "--jobs", "1"])
"""
    root = Path(__file__).resolve().parents[1]
    done = subprocess.run(
        [sys.executable, "-c", program, photos, tmp_path / "feats"],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 130
    assert done.stderr == "unseen features: interrupted, what is finished was kept; run it again to go on.\n"
    assert run(photos, "-o", tmp_path / "feats").exit_code == 0
    assert len(open_features(tmp_path / "feats")) == 6


def test_an_interruption_before_anything_is_finished_says_so(photos, tmp_path, monkeypatch):
    monkeypatch.setattr(backbones, "open_backbone", lambda name, **options: BlockMeans(stop_at=1, stop=interrupt))
    done = run(photos, "-o", tmp_path / "feats", "--jobs", 1)
    assert done.exit_code == 130
    assert done.stderr == "unseen features: interrupted, nothing was written.\n"
    assert not (tmp_path / "feats").exists()


def test_one_image_does_not_throw_the_others_away(photos, tmp_path):
    run(photos, "-o", tmp_path / "feats")
    done = run(photos / "0003.jpg", "-o", tmp_path / "feats")
    assert "Nothing to do: all features are there.\n" in done.stdout
    assert "12 features of 6 images." in done.stdout
    (photos / "0001.jpg").unlink()
    done = run(photos / "0003.jpg", "-o", tmp_path / "feats")
    assert "1 image dropped from the folder: the file is gone." in done.stdout
    assert "12 features of 5 images." in done.stdout
    done = run(photos / "0003.jpg", "-o", tmp_path / "feats", "--only")
    assert "12 features of 1 image." in done.stdout


def test_what_was_described_is_counted_whatever_else_could_not_be_read(photos, tmp_path, monkeypatch):
    found = find_images([photos])
    locked = [(str(photos / name), "the folder cannot be read") for name in "abcdefg"]
    monkeypatch.setattr(_extraction, "find_images", lambda sources: Found(found.paths, locked))
    done = run(photos, "-o", tmp_path / "feats")
    assert "6 images described by block-means" in done.stdout
    assert "7 files could not be read and were left out:" in done.stdout


@pytest.mark.parametrize(
    "command", [("features", "-o", "feats"), ("data", "show"), ("data", "convert", "-o", "t.csv")]
)
def test_paths_that_may_not_be_read_are_refused_by_the_command_in_one_line(tmp_path, monkeypatch, command):
    (tmp_path / "locked").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "access", lambda *arguments, **options: False)  # even for root
    done = CliRunner().invoke(app, [*command, "locked"])
    assert done.exit_code == 2
    assert done.stderr.startswith(f"unseen {command[0]}")
    assert done.stderr.count("\n") == 1


def launch(*arguments, redirection="", **options):
    """Run the command in a process of its own."""
    program = (
        "import sys; from tests.images.pictures import BlockMeans; from unseen.images import backbones\n"
        "backbones.open_backbone = lambda name, **options: BlockMeans()\n"
        "from unseen.cli import app; app(sys.argv[1:])"
    )
    root = Path(__file__).resolve().parents[1]
    environment = {**os.environ, "PYTHONPATH": str(root), **options}
    command = [sys.executable, "-c", program, *map(str, arguments)]
    if redirection:
        command = ["sh", "-c", f'"$@" {redirection}', "sh", *command]
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)


def test_names_that_the_terminal_cannot_show_are_no_error(tmp_path):
    photos = fill(tmp_path / "ü", 2)
    (photos / "0001.jpg").write_bytes(b"")
    done = launch("features", photos, "-o", tmp_path / "ö", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 image described" in done.stdout
    assert "\\xfc/0001.jpg: the file is empty" in done.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="needs a Unix shell")
def test_a_command_may_write_to_a_closed_output():
    program = (
        "import sys; from unseen.cli import app\n"
        "app.command('write')(lambda: sys.stdout.write('a line'))\n"
        "app(['write'])"
    )
    command = ["sh", "-c", '"$@" >&-', "sh", sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_the_system_refuses_is_said_without_its_number(photos, tmp_path, monkeypatch):
    def refuse(sources):
        raise PermissionError(13, "Permission denied", str(photos))

    monkeypatch.setattr(_extraction, "find_images", refuse)
    done = run(photos, "-o", tmp_path / "feats")
    assert done.exit_code == 2
    assert done.stderr == (
        f"unseen features: {str(photos)!r}: Permission denied. Check the path and its permissions.\n"
    )


@pytest.mark.skipif(sys.platform == "win32", reason="needs a Unix shell")
def test_features_are_computed_though_nobody_listens(photos, tmp_path):
    done = launch("features", photos, "-o", tmp_path / "feats", redirection=">&-")
    assert (done.returncode, done.stderr) == (0, "")
    assert len(open_features(tmp_path / "feats")) == 6
