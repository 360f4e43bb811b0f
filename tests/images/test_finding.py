"""Which images do sources name?"""

import os
import sys

import pytest

from unseen.images.finding import find_images


def touch(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")


def names(found, folder):
    return [os.path.relpath(path, folder) for path in found.paths]


def test_a_folder_gives_its_images_in_order(tmp_path):
    touch(tmp_path, "b/2.JPG", "b/1.png", "a.jpeg", "notes.txt", ".hidden.jpg", ".git/x.jpg", "b/c/d.webp", "z")
    assert names(find_images(tmp_path), tmp_path) == ["a.jpeg", "b/1.png", "b/2.JPG", "b/c/d.webp"]


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_links_to_files_count_and_links_to_folders_do_not(tmp_path):
    touch(tmp_path, "a/1.jpg", "elsewhere/2.jpg")
    (tmp_path / "a" / "loop").symlink_to(tmp_path / "a")
    (tmp_path / "a" / "3.jpg").symlink_to(tmp_path / "elsewhere" / "2.jpg")
    assert names(find_images(tmp_path / "a"), tmp_path / "a") == ["1.jpg", "3.jpg"]


def test_lists_are_relative_to_their_folder_and_then_to_the_current_one(tmp_path, monkeypatch):
    touch(tmp_path, "data/1.jpg", "here/2.jpg")
    (tmp_path / "data" / "list.txt").write_text("\ufeff# mine\n1.jpg\n\n2.jpg\nmissing.jpg\n1.jpg\n", "utf-8")
    monkeypatch.chdir(tmp_path / "here")
    found = find_images("../data/list.txt").paths
    assert found == ["../data/1.jpg", "2.jpg", "../data/missing.jpg"]


def test_a_table_gives_its_column_path_in_its_order(tmp_path):
    (tmp_path / "t.csv").write_text('label,path\nx,"b, c.jpg"\ny,a.jpg\nz,\n')
    assert names(find_images(tmp_path / "t.csv"), tmp_path) == ["b, c.jpg", "a.jpg"]


def test_sources_are_joined_and_repetitions_count_once(tmp_path):
    touch(tmp_path, "a/1.jpg", "b/2.jpg", "odd name")
    found = find_images([tmp_path / "b" / "2.jpg", tmp_path / "a", tmp_path / "b", tmp_path / "odd name"])
    assert names(found, tmp_path) == ["b/2.jpg", "a/1.jpg", "odd name"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_folder_without_permission_is_a_problem_and_not_the_end(tmp_path):
    touch(tmp_path, "a/1.jpg", "b/2.jpg")
    (tmp_path / "b").chmod(0)
    try:
        found = find_images(tmp_path)
    finally:
        (tmp_path / "b").chmod(0o755)
    assert names(found, tmp_path) == ["a/1.jpg"]
    assert found.problems == [
        (str(tmp_path / "b"), "the folder cannot be read (you have no permission to read it)")
    ]


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        (None, None, "there is no image in"),
        ("t.csv", b"name\na.jpg\n", "has no column 'path', only 'name'"),
        ("t.csv", b"", "has no column 'path', only no text"),
        ("t.txt", b"\xff\xfe\x00", "is no text in UTF-8"),
        ("t.txt", b"# nothing\n", "there is no image in"),
    ],
)
def test_sources_without_images_are_refused(tmp_path, file, content, message):
    if file:
        (tmp_path / file).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        find_images(tmp_path / file if file else tmp_path)


def test_a_source_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="no file or folder"):
        find_images([tmp_path / "nowhere"])


def test_a_file_under_two_spellings_counts_once(tmp_path, monkeypatch):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.jpg").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    assert find_images(["photos", tmp_path / "photos", "photos/../photos/a.jpg"]).paths == ["photos/a.jpg"]


@pytest.mark.parametrize("text", ["image;x\n a.jpg ;1\n", "x,path\n1,a.jpg\n", "file_name\na.jpg\n\n"])
def test_lists_may_be_tables_like_those_of_annotations(tmp_path, text):
    (tmp_path / "l.csv").write_text(text)
    assert find_images(tmp_path / "l.csv").paths == [str(tmp_path / "a.jpg")]
