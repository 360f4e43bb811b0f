"""Tags are written beside photos or into them, merged with what is there, and taken back exactly."""

import csv
import io
import json
import os
import shutil
import sqlite3
import subprocess
from pathlib import Path

import pytest
from tests.photos.sidecars import SIDECARS
from tests.pipes import needs_pipes, unopened

from unseen.photos import tags
from unseen.photos.exiftool import ExifTool
from unseen.photos.keywords import Keyword, read_keywords
from unseen.photos.tags import Journal, apply, plan_tags, undo, undo_tags, write_table, write_tags, written_words
from unseen.photos.xmp import LISTS, Packet

Image = pytest.importorskip("PIL.Image")
CAT = Keyword("cat", ("animal",))
OURS = {"XMP-dc:Subject": "cat", "XMP-lr:HierarchicalSubject": "animal|cat", "XMP-digiKam:TagsList": "animal/cat"}
ROOT = Path(__file__).parents[2]
needs_exiftool = pytest.mark.skipif(not ExifTool.is_installed(), reason="exiftool is missing")


@pytest.fixture
def journal(tmp_path):
    connection = sqlite3.connect(tmp_path / "journal.db")
    yield Journal(connection)
    connection.close()


@pytest.fixture
def photo(tmp_path):
    path = tmp_path / "photos" / "IMG_1.jpg"
    path.parent.mkdir()
    Image.new("RGB", (8, 6)).save(path)
    return path


def entries(path):
    return Packet(path.read_bytes()).entries


def in_folder(photo):
    return sorted(path.name for path in photo.parent.iterdir())


def exiftool(*arguments):
    return subprocess.run(["exiftool", *map(str, arguments)], check=True, capture_output=True, text=True).stdout


def known_to_exiftool(folder):
    """All that exiftool finds in the sidecars of a folder, by name."""
    found = json.loads(exiftool("-j", "-a", "-G1", "-struct", "-ext", "xmp", folder))
    return {
        Path(one["SourceFile"]).name: {
            tag: (value if isinstance(value, list) else [value]) if tag in OURS else value
            for tag, value in one.items()
            if tag.startswith("XMP-") and "XMPToolkit" not in tag
        }
        for one in found
    }


@needs_exiftool
def test_exiftool_reads_a_hundred_sidecars_as_they_were_meant(tmp_path, journal):
    folder = tmp_path / "photos"
    folder.mkdir()
    for photo, name, content, _ in SIDECARS:
        (folder / photo).touch()
        (folder / name).write_bytes(content)
    for i in range(80):
        (folder / f"{i}.jpg").touch()
    photos = sorted(path for path in folder.iterdir() if path.suffix.lower() != ".xmp")
    before, old = known_to_exiftool(folder), {name: (folder / name).read_bytes() for _, name, _, _ in SIDECARS}
    names = ["Tête & <tail>", "苔"]
    outcomes = list(write_tags([(path, [CAT, *names]) for path in photos], journal))
    assert [outcome.problem for outcome in outcomes] == [None] * 100
    after = known_to_exiftool(folder)
    assert len(after) == 100
    assert before.keys() == old.keys()
    for name, found in after.items():
        was = before.get(name, {})
        for tag, new in OURS.items():
            assert found.pop(tag)[-3:] == [new, *names]
        assert found == {tag: value for tag, value in was.items() if tag not in OURS}
    assert all(set(entries(folder / one.name)["dc:subject"]) >= set(one.subject) for one in SIDECARS)
    assert not [outcome for outcome in undo_tags(journal) if outcome.problem]
    assert known_to_exiftool(folder) == before
    changed = [name for name, content in old.items() if (folder / name).read_bytes() != content]
    # The same bytes but where <a/> had to be opened, or a single value made a list.
    assert sorted(changed) == ["acdsee2.xmp", "darktable2.raf.xmp", "rawtherapee.pef.xmp"]


@pytest.mark.parametrize(
    ("there", "target"),
    [
        ([], "IMG_1.jpg.xmp"),
        (["IMG_1.jpg.xmp", "IMG_1.xmp"], "IMG_1.jpg.xmp"),
        (["IMG_1.xmp"], "IMG_1.xmp"),
        (["IMG_1.jpg.XMP"], "IMG_1.jpg.XMP"),
        (["raw:IMG_1.xmp"], "IMG_1.jpg.xmp"),
    ],
)
def test_an_existing_sidecar_is_used_unless_it_belongs_to_another_photo(photo, there, target):
    for name in there:
        raw = next(one.content for one in SIDECARS if one.name == "lightroom.xmp") if "raw" in name else None
        photo.with_name(name.removeprefix("raw:")).write_bytes(raw or Packet().content)
    change = plan_tags(photo, ["cat"])
    assert Path(change.target).name == target
    apply(change)
    undo(change)
    assert in_folder(photo) == sorted(["IMG_1.jpg", *(name.removeprefix("raw:") for name in there)])


def test_only_what_is_missing_is_added(photo):
    (photo.parent / "IMG_1.jpg.xmp").write_bytes(SIDECARS[0].content)
    assert plan_tags(photo, ["ROME", "holiday"]).added == {}
    change = plan_tags(photo, ["rome", "  wild \n cat "])
    assert change.added == {name: ["wild cat"] for name in LISTS}
    assert change.words == ("wild cat",)
    assert entries(Path(change.target)) == Packet(SIDECARS[0].content).entries


def test_a_new_list_repeats_what_the_photo_carries_elsewhere(photo):
    made = Packet().with_entries(
        {"dc:subject": ["beach"], "lr:hierarchicalSubject": ["Trip|Rome", "darktable|changed"]}
    )
    (photo.parent / "IMG_1.xmp").write_bytes(made)
    change = plan_tags(photo, [CAT])
    apply(change)
    assert entries(Path(change.target)) == {
        "dc:subject": ("beach", "cat"),
        "lr:hierarchicalSubject": ("Trip|Rome", "darktable|changed", "animal|cat"),
        "digiKam:TagsList": ("Trip/Rome", "beach", "animal/cat"),
    }
    undo(change)
    assert Path(change.target).read_bytes() == made


def test_separators_in_names():
    for name, hierarchical, digikam in (
        ("AC|DC", "rock|AC/DC", "rock/AC|DC"),
        ("AC/DC", "rock|AC/DC", "rock/AC\\DC"),
    ):
        keyword = Keyword(name, ("rock",))
        assert [keyword.written(LISTS[name].separator) for name in LISTS] == [name, hierarchical, digikam]
        assert Keyword.read(digikam, "/") == keyword


@pytest.mark.parametrize("bad", ["", " ", "a\x00b", "a\x1bb", "\ud800", ("cat", ("",)), ("cat", "animal")])
def test_tags_that_no_file_can_hold_are_refused(photo, bad):
    with pytest.raises(ValueError, match=r"^tags: "):
        plan_tags(photo, [bad])


def test_undo_leaves_what_others_wrote_meanwhile(photo, journal):
    assert [outcome.problem for outcome in write_tags([(photo, ["dog", CAT])], journal)] == [None]
    sidecar = photo.with_name("IMG_1.jpg.xmp")
    theirs = Packet(sidecar.read_bytes()).without_entries({"dc:subject": ["dog"]})
    theirs = (
        Packet(theirs)
        .with_entries({"dc:subject": ["boat"]})
        .replace(b"about=", b'about="" xmlns:u="u" u:rating="5" v=')
    )
    sidecar.write_bytes(theirs)
    assert [outcome.problem for outcome in undo_tags(journal)] == [None]
    assert entries(sidecar) == {"dc:subject": ("boat",)}
    assert b'u:rating="5"' in sidecar.read_bytes()
    assert list(undo_tags(journal)) == []


def test_runs_are_taken_back_one_by_one(photo, journal):
    for word in ("dog", "cat"):
        list(write_tags([(photo, [word])], journal))
    assert [outcome.change for outcome in write_tags([(photo, ["cat"])], journal)] == [None]
    assert written_words(journal) == {str(photo): {"dog", "cat"}}
    assert read_keywords(photo, without=written_words(journal)[str(photo)]) == ()
    list(undo_tags(journal, last=True))
    assert read_keywords(photo) == ("dog",)
    list(undo_tags(journal, dry_run=True))
    assert written_words(journal) == {str(photo): {"dog"}}
    list(undo_tags(journal))
    assert in_folder(photo) == ["IMG_1.jpg"]


def test_a_sidecar_that_changed_after_the_plan_is_not_overwritten(photo):
    change = plan_tags(photo, ["cat"])
    photo.with_name("IMG_1.jpg.xmp").write_bytes(SIDECARS[0].content)
    with pytest.raises(ValueError, match="changed by another program"):
        apply(change)
    assert photo.with_name("IMG_1.jpg.xmp").read_bytes() == SIDECARS[0].content


@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("theirs", [[], ["cat"], ["boat"]])
def test_an_unfinished_change_is_settled_by_the_file(photo, journal, written, theirs):
    """Killed before or after the file was written, and then another program may have written to it."""
    change, sidecar = plan_tags(photo, [CAT]), photo.with_name("IMG_1.jpg.xmp")
    journal.append([change], journal.new_run())
    if written:
        apply(change)
    if theirs:
        now = Packet(sidecar.read_bytes()) if written else Packet()
        sidecar.write_bytes(now.with_entries({"dc:subject": theirs}))
    list(undo_tags(journal))
    assert journal.records("planned", "undoing", "done") == []
    assert sidecar.exists() == bool(theirs)
    assert not theirs or entries(sidecar) == {"dc:subject": tuple(theirs)}


def test_mode_and_links_stay_and_a_folder_that_cannot_be_written_is_an_error(
    photo, tmp_path, journal, monkeypatch
):
    real, sidecar = tmp_path / "real.xmp", photo.with_name("IMG_1.xmp")
    real.write_bytes(SIDECARS[0].content)
    real.chmod(0o640)
    sidecar.symlink_to(real)
    apply(plan_tags(photo, ["cat"]))
    assert sidecar.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert "cat" in entries(real)["dc:subject"]
    real.unlink()
    other = photo.with_name("other.jpg")
    shutil.copy(photo, other)
    (photo.parent / "other.jpg.xmp").symlink_to("nowhere")

    def refuse(*_):
        raise PermissionError(13, "Permission denied", "photos")

    monkeypatch.setattr(Path, "replace", refuse)
    missing, broken, refused = [
        outcome.problem
        for outcome in write_tags([(photo / "x", ["cat"]), (other, ["cat"]), (photo, ["cat"])], journal)
    ]
    assert missing.startswith("photo: there is no file")
    assert "is a link to a file that does not exist" in broken
    assert "IMG_1.jpg.xmp' cannot be written ([Errno 13] Permission denied" in refused
    assert in_folder(photo) == ["IMG_1.jpg", "IMG_1.xmp", "other.jpg", "other.jpg.xmp"]
    assert journal.records("planned", "done") == []


def test_a_broken_sidecar_stays_and_the_others_are_written(photo, journal):
    photo.with_name("IMG_1.jpg.xmp").write_bytes(b"")
    other = photo.with_name("IMG_2.jpg")
    shutil.copy(photo, other)
    outcomes = {
        Path(one.photo).name: one.problem for one in write_tags([(photo, ["cat"]), (other, ["cat"])], journal)
    }
    assert "IMG_1.jpg.xmp' is not XML" in outcomes["IMG_1.jpg"]
    assert outcomes["IMG_2.jpg"] is None


@needs_pipes
def test_a_sidecar_that_is_a_pipe_is_neither_read_nor_replaced(photo, journal):
    for _ in write_tags([(photo, ["cat"])], journal):
        photo.with_name("IMG_1.jpg.xmp").unlink()
    with unopened(photo.with_name("IMG_1.jpg.xmp")) as pipe:
        outcomes = [*write_tags([(photo, ["cat"])], journal), *undo_tags(journal)]
        assert [str(pipe) in one.problem and "it is not a file" in one.problem for one in outcomes] == [True] * 2
        assert pipe.is_fifo()


def test_keywords_come_from_sidecars_and_photos(photo):
    packet = Packet().with_entries(
        {"dc:subject": ["Boat"], "lr:hierarchicalSubject": ["Trip|Rome", "darktable|format|jpg"]}
    )
    for name in ("a.jpg", "a.png", "a.webp", "a.tif"):
        path = photo.with_name(name)
        Image.new("RGB", (8, 6)).save(
            path, **({"tiffinfo": {700: packet}} if name == "a.tif" else {"xmp": packet})
        )
        if name != "a.png" or b"Boat" in path.read_bytes():  # older versions of Pillow do not write it
            assert read_keywords(path) == ("Trip", "Rome", "Boat"), name
    photo.with_name("a.jpg.xmp").write_bytes(Packet().with_entries({"dc:subject": ["boat", "sea", "jpg"]}))
    assert read_keywords(photo.with_name("a.jpg"), without=["SEA"]) == ("boat", "jpg", "Trip", "Rome")
    photo.write_bytes(b"no photo")
    assert read_keywords(photo) == ()


@needs_exiftool
def test_exiftool_writes_into_photos_and_takes_it_back(photo, journal):
    odd = [
        photo.with_name(name) for name in ("-x=1.jpg", "a\nb $@%f.jpg", os.fsdecode(b"\xff.jpg"), "{ready}.png")
    ]
    for path in odd:
        Image.new("RGB", (8, 6)).save(path, format=path.suffix[1:].replace("jpg", "jpeg"))
    exiftool("-overwrite_original", "-XMP-dc:Subject=Rome", "-IPTC:Keywords=Rome", "-IPTC:City=Roma", photo)
    old = {path: path.read_bytes() for path in (photo, *odd)}
    words = [CAT, "2024", "<=x", "ö" * 40, "Straße"]
    with ExifTool() as tool:
        outcomes = list(write_tags([(path, words) for path in old], journal, tool))
        assert [outcome.problem for outcome in outcomes] == [None] * 5
        names = ["cat", "2024", "<=x", "ö" * 40, "Straße"]
        assert tool.entries(photo)["dc:subject"] == ("Rome", *names)
        assert tool.entries(photo)["digiKam:TagsList"] == ("Rome", "animal/cat", *names[1:])
        assert tool.entries(photo)["IPTC:Keywords"] == ("Rome", *names[:3])  # Latin-1, as it was, and short
        for path in odd:
            assert tool.entries(path)["dc:subject"] == tuple(names)
            assert path.with_name(path.name + "_original").read_bytes() == old[path]
        assert read_keywords(odd[0], embedded=tool.keywords) == read_keywords(odd[0]) != ()
        assert [one.change for one in write_tags([(odd[0], ["cat"])], journal, tool)] == [None]
        assert all("is not installed" in str(one.problem) for one in undo_tags(journal))
        assert [outcome.problem for outcome in undo_tags(journal, tool)] == [None] * 5
        assert tool.entries(photo) == {"dc:subject": ("Rome",), "IPTC:Keywords": ("Rome",)}
    assert all(path.read_bytes() == old[path] for path in odd)
    with ExifTool(backup=False) as tool:
        damaged = photo.with_name("damaged.jpg")
        damaged.write_bytes(b"no photo")
        problems = [one.problem for one in write_tags([(damaged, ["cat"]), (photo / "x", ["cat"])], journal, tool)]
        assert all(problem.startswith("photo: exiftool ") for problem in problems)


def test_without_exiftool_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(OSError, match="libimage-exiftool-perl"):
        ExifTool()


@needs_exiftool
def test_exiftool_imports_the_table(photo, monkeypatch):
    monkeypatch.chdir(photo.parent)
    shutil.copy(photo, "-2.jpg")
    file = io.StringIO()
    write_table([("-2.jpg", [CAT, "dog"]), (photo, ["=1+1", "@x"])], file)
    Path("tags.csv").write_text(file.getvalue(), encoding="utf-8")
    rows = list(csv.reader(file.getvalue().splitlines()))
    assert rows == [
        ["SourceFile", "Subject", "HierarchicalSubject"],
        ["./-2.jpg", "cat, dog", "animal|cat, dog"],
        [str(photo), "'=1+1, @x", "'=1+1, @x"],
    ]
    exiftool("-q", "-csv=tags.csv", "-sep", ", ", ".")
    assert exiftool("-s3", "-Subject", "-HierarchicalSubject", "./-2.jpg") == "cat, dog\nanimal|cat, dog\n"
    with pytest.raises(ValueError, match=r"^tags: 'salt, pepper'"):
        write_table([(photo, ["salt, pepper"])], io.StringIO())
    write_table([(photo, ["salt, pepper"])], file, separator="; ")


def test_the_journal_is_the_same_in_any_connection(tmp_path, photo):
    for level in (None, "DEFERRED"):
        connection = sqlite3.connect(tmp_path / "library.db", isolation_level=level)
        connection.text_factory = os.fsdecode
        list(write_tags([(photo, [f"word {level}"])], Journal(connection)))
        assert not connection.in_transaction
        connection.close()
    with sqlite3.connect(tmp_path / "library.db") as connection:
        assert written_words(Journal(connection)) == {str(photo): {"word None", "word DEFERRED"}}


def test_many_photos_are_written_in_batches(photo, journal, monkeypatch):
    monkeypatch.setattr(tags, "_BATCH", 3)
    photos = [photo.with_name(f"{i}.jpg") for i in range(7)]
    for path in photos:
        shutil.copy(photo, path)
    outcomes = list(write_tags([(path, ["cat"]) for path in [*photos, photos[0]]], journal))
    assert sorted(Path(one.photo).name for one in outcomes if one.change) == [path.name for path in photos]
    assert len(journal.records("done")) == 7
