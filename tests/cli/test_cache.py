"""`unseen cache`: shows what is there, and clears nothing else."""

import pytest
from typer.testing import CliRunner

from unseen.cli import app
from unseen.files import locked


def run(*arguments, code=0, typed=None):
    done = CliRunner().invoke(app, ["cache", *arguments], input=typed)
    assert done.exit_code == code, done.output
    return done.output


@pytest.fixture(name="cache")
def cache_with_files(tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    monkeypatch.setenv("UNSEEN_CACHE", str(cache))
    for name in (
        "downloads/glove.6B.zip",
        "label-vectors/a.npz",
        "label-vectors/.0a.part",
        "hub/openai--clip.txt",
    ):
        (cache / name).parent.mkdir(parents=True, exist_ok=True)
        (cache / name).write_bytes(bytes(1500))
    return cache


def left(cache):
    return {str(path.relative_to(cache)) for path in cache.rglob("*") if path.is_symlink() or not path.is_dir()}


def test_show_counts_files_and_bytes_by_kind(cache):
    lines = {line.split()[0]: line.split() for line in run("show").splitlines() if line.strip()}
    assert lines["label-vectors"][-3:] == ["2", "3.0", "kB"]
    assert lines["flickr"][-3:] == ["0", "0", "bytes"]
    assert str(cache) in run("show").replace("\n", "")
    assert "6.0 kB in all" in run("show")


def test_clear_asks_first(cache):
    before = left(cache)
    assert "Remove 4 files (6.0 kB)" in run("clear", typed="n\n")
    run("clear", code=1)  # nobody answers
    assert left(cache) == before
    run("clear", typed="y\n")
    assert not list(cache.iterdir())
    assert "Removed 0 files" in run("clear")  # nothing to ask


def test_clear_removes_locks_that_nobody_holds(cache):
    for name in (".0a.lock", ".0b.lock"):
        (cache / "label-vectors" / name).touch()
    with locked(cache / "label-vectors" / ".0b.lock"):
        run("clear", "--yes")
        assert left(cache) == {"label-vectors/.0b.lock"}
    run("clear", "--yes")
    assert not list(cache.iterdir())


def test_clear_takes_kinds(cache):
    run("clear", "label-vectors", "--yes")
    assert left(cache) == {"downloads/glove.6B.zip", "hub/openai--clip.txt"}
    assert "kinds: 'photos'" in run("clear", "photos", code=2)


def test_nothing_else_is_touched(cache, tmp_path):
    (tmp_path / "mine").mkdir()
    for path in (cache / "notes.txt", cache / "downloads" / "mine.zip", tmp_path / "mine" / "a.npz"):
        path.write_text("mine")
    (cache / "word-vectors").symlink_to(tmp_path / "mine")
    (cache / "label-vectors" / "link.npz").symlink_to(tmp_path / "mine" / "a.npz")
    run("clear", "--yes")
    assert left(cache) == {"notes.txt", "downloads/mine.zip", "word-vectors", "label-vectors/link.npz"}
    assert (tmp_path / "mine" / "a.npz").read_text() == "mine"
