"""`unseen tags`: what is printed, and what a failure costs."""

import sqlite3

import pytest

from unseen.cli.tags import show, undo, write
from unseen.photos.exiftool import ExifTool
from unseen.photos.keywords import Keyword
from unseen.photos.tags import Journal

Image = pytest.importorskip("PIL.Image")


@pytest.fixture
def pairs(tmp_path):
    photos = [tmp_path / name for name in ("a\x1b[31m.jpg", "b.jpg")]
    for path in photos:
        Image.new("RGB", (8, 6)).save(path)
    return [(path, ["dog", Keyword("cat", ("animal",))]) for path in photos]


@pytest.fixture
def journal(tmp_path):
    connection = sqlite3.connect(tmp_path / "library.db")
    yield Journal(connection)
    connection.close()


def sidecars(pairs):
    return [path.with_name(path.name + ".xmp").is_file() for path, _ in pairs]


def test_a_dry_run_lists_changes_and_makes_none(pairs, journal, capsys):
    assert write(pairs, journal, dry_run=True) == 0
    first, second, total = capsys.readouterr().out.splitlines()
    assert first.endswith(r"a\x1b[31m.jpg.xmp: + dog, cat")
    assert second.endswith("b.jpg.xmp: + dog, cat")
    assert total == "4 tags of 2 photos would be written."
    assert sidecars(pairs) == [False, False]
    show(journal)
    assert capsys.readouterr().out == "No tags were written, or all were taken back.\n"


def test_tags_are_written_shown_and_taken_back(pairs, journal, tmp_path, capsys):
    write(pairs[:1], journal)
    assert write([*pairs, (tmp_path / "gone\x1b.jpg", ["dog"])], journal) == 1
    said = capsys.readouterr()
    assert said.out.splitlines()[-1] == "2 tags of 1 photo were written; 1 photo had them already."
    assert said.err == f"unseen tags write: photo: there is no file '{tmp_path}/gone\\x1b.jpg'.\n"
    assert sidecars(pairs) == [True, True]
    show(journal)
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if "dog, cat" in line]
    assert ["b.jpg.xmp" in row for row in rows] == [True, False]
    assert undo(journal, last=True, dry_run=True) == 0
    assert "2 tags of 1 photo would be taken back." in capsys.readouterr().out
    undo(journal)
    assert "4 tags of 2 photos were taken back." in capsys.readouterr().out
    assert sidecars(pairs) == [False, False]


@pytest.mark.skipif(not ExifTool.is_installed(), reason="exiftool is missing")
def test_tags_in_photos_are_taken_back_by_exiftool(pairs, journal, monkeypatch, capsys):
    before = [path.read_bytes() for path, _ in pairs]
    assert write(pairs, journal, embed=True, backup=False) == 0
    assert [b"animal|cat" in path.read_bytes() for path, _ in pairs] == [True, True]
    with monkeypatch.context() as patch:
        patch.setattr(ExifTool, "is_installed", staticmethod(lambda: False))
        assert undo(journal) == 2
    assert capsys.readouterr().err.count("is not installed now") == 2
    assert undo(journal) == 0
    assert [path.read_bytes() for path, _ in pairs] == before
