"""`unseen features`: what a person types, and what comes back."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("PIL")
from tests.images.pictures import BlockMeans, fill

from unseen.cli import app
from unseen.images import backbones, features
from unseen.images.features import open_features


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
        "only broken files": ([broken, "-o", tmp_path / "feats"], "1 file cannot be read"),
        "an output that is a file": ([photos, "-o", tmp_path / "mine"], "is a file"),
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
    left = [path for path in sorted(tmp_path.rglob("*")) if tmp_path / "feats" not in (path, *path.parents)]
    assert left == before


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_folder_that_may_not_be_written_is_one_line(photos, tmp_path):
    tmp_path.chmod(0o500)
    try:
        done = run(photos, "-o", tmp_path / "feats")
    finally:
        tmp_path.chmod(0o700)
    assert done.exit_code == 2
    assert "cannot be written" in done.stderr


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

    monkeypatch.setattr(features, "find_images", refuse)
    done = run(photos, "-o", tmp_path / "feats")
    assert done.exit_code == 2
    assert done.stderr == (
        f"unseen features: {str(photos)!r}: Permission denied. Check the path and its permissions.\n"
    )
