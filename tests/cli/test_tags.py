"""`unseen tags`, `review` and `fit -L`: tags out of a library, and answers into it."""

import csv
import json
import shutil
import sqlite3
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

import unseen
from unseen.cli import app
from unseen.cli.tags import show, undo, write
from unseen.files import locked
from unseen.photos.exiftool import ExifTool
from unseen.photos.keywords import Keyword
from unseen.photos.library import PhotoLibrary
from unseen.photos.tags import Journal
from unseen.photos.training import annotated_photos

Image = pytest.importorskip("PIL.Image")
PHOTOS = Path(unseen.__file__).parent / "images" / "data" / "photos"


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


def run(*arguments, code=0, **options):
    done = CliRunner().invoke(app, [str(argument) for argument in arguments], **options)
    assert done.exit_code == code, done.output
    return done


@pytest.fixture
def library(tmp_path, monkeypatch):
    """Index the packaged photos: an astronaut, a cat, coffee and a rocket."""
    pytest.importorskip("onnxruntime")
    monkeypatch.setenv("UNSEEN_LIBRARY", str(tmp_path / "library"))
    (tmp_path / "photos").mkdir()
    for path in PHOTOS.glob("*.jpg"):
        shutil.copy(path, tmp_path / "photos")
    run("index", tmp_path / "photos")
    return PhotoLibrary.open()


@pytest.fixture
def vocabulary(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("animal > cat: kitten\ncoffee: espresso\n")
    return path


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_tags_of_a_library_reach_exiftool_and_are_taken_back(library, vocabulary, tmp_path):
    photos, before = tmp_path / "photos", files(tmp_path / "photos")
    planned = run("tags", "write", "-w", vocabulary, "--min-p", 0.5, "--dry-run").stdout
    assert "cat.jpg.xmp: + cat\n" in planned
    assert run("tag", "-L", library.path, "-w", vocabulary, "--min-p", 0.5, "--xmp", "--dry-run").stdout == planned
    assert files(photos) == before
    run("tags", "write", "-w", vocabulary, "--min-p", 0.5)
    assert files(photos).keys() - before.keys() == {"cat.jpg.xmp", "coffee.jpg.xmp"}
    if ExifTool.is_installed():
        command = ["exiftool", "-j", "-Subject", "-HierarchicalSubject", "-TagsList", photos / "cat.jpg.xmp"]
        (found,) = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        assert (found["Subject"], found["HierarchicalSubject"]) == ("cat", "animal|cat")
        assert found["TagsList"] == "animal/cat"
    assert "coffee.jpg.xmp" in run("tags", "show").stdout
    run("tag", "-L", library.path, photos / "rocket.jpg", "--min-p", 0.5, "--xmp")
    assert "1 photo would" in run("tags", "undo", "--last", "--dry-run").stdout
    run("tags", "undo", "--last")
    assert "rocket.jpg.xmp" not in files(photos)
    run("tags", "undo", "-L", library.path)
    assert files(photos) == before


def test_a_table_has_the_tags_for_exiftool(library, vocabulary, tmp_path):
    run("tags", "write", "-w", vocabulary, "--min-p", 0.5, "--csv", tmp_path / "t.csv")
    rows = list(csv.DictReader((tmp_path / "t.csv").read_text().splitlines()))
    assert [Path(row["SourceFile"]).name for row in rows] == ["cat.jpg", "coffee.jpg"]
    assert rows[0]["HierarchicalSubject"] == "animal|cat"


def test_a_second_writer_is_refused_and_readers_are_not(library):
    with locked(library.path / ".lock"):
        assert "another process is writing" in run("tags", "write", code=2).stderr
        assert "another process is writing" in run("tags", "undo", code=2).stderr
        run("tags", "write", "--dry-run")
        run("tags", "show")


def test_a_library_is_tagged_without_its_photos(library, tmp_path):
    (tmp_path / "photos").rename(tmp_path / "away")
    out = run("tag", "-L", library.path, "-o", tmp_path / "page.html").stdout
    assert "cat.jpg\n  sure   cat " in out
    assert (tmp_path / "page.html").read_text().count("data:image/jpeg;base64,") == 4
    out = run("tag", "-L", library.path, tmp_path / "photos" / "cat.jpg", "-w", "cat", "--json").stdout
    assert Path(json.loads(out)["path"]).name == "cat.jpg"


def test_answers_are_kept_at_once_and_used(library):
    asked = run("review", input="y\nu\nn\ny\nq\n").stdout
    assert "1 tag accepted, 1 rejected." in asked
    rejected, accepted = sorted(library.corrections(), key=lambda answer: answer.verdict)
    assert (rejected.verdict, accepted.verdict) == (False, True)
    again = run("review", input="").stdout
    assert int(again.split()[0]) <= int(asked.split()[0]) - 2
    tags = {Path(path).stem: {tag.name: tag.p for tag in tags} for path, tags, *_ in library.tags(top=None)}
    stems = {photo.digest: Path(photo.path).stem for photo in library.photos()}
    assert tags[stems[accepted.digest]][accepted.word] == 1.0
    assert tags[stems[rejected.digest]][rejected.word] == 0.0
    assert [(hit.photo.digest, hit.p) for hit in library.search(accepted.word, top=1)] == [(accepted.digest, 1.0)]
    last = library.search(rejected.word, top=4)[-1]
    assert (last.photo.digest, last.p) == (rejected.digest, 0.0)
    assert library.search(rejected.word, min_p=0.01, top=4)[-1].photo.digest != rejected.digest
    both = library.search(accepted.word, none_of=[rejected.word], top=1)
    assert both[0].photo.digest == accepted.digest
    (path,) = (photo.path for photo in library.photos() if photo.digest == accepted.digest)
    library.correct(path, accepted.word.upper(), None)
    assert [answer.word for answer in library.corrections()] == [rejected.word]
    with pytest.raises(ValueError, match=r"^photo: "):
        library.correct(library.path.parent / "photos", "cup", True)


@pytest.mark.skipif(not ExifTool.is_installed(), reason="exiftool is missing")
def test_answers_stay_when_exiftool_writes_into_photos(library, vocabulary, tmp_path):
    photos = tmp_path / "photos"
    before = files(photos)
    library.correct(photos / "cat.jpg", "tiger", False)
    run("tags", "write", "-w", vocabulary, "--min-p", 0.5, "--embed")
    assert b"animal|cat" in (photos / "cat.jpg").read_bytes()
    assert (photos / "cat.jpg_original").read_bytes() == before["cat.jpg"]
    assert "2 changed" in run("index").stdout
    out = run("tag", "-L", library.path, photos / "cat.jpg", "-w", "tiger", "--all", "--json").stdout
    assert json.loads(out)["tags"][0]["p"] == 0.0
    Image.open(photos / "rocket.jpg").save(photos / "cat.jpg")
    assert "1 changed" in run("index").stdout
    out = run("tag", "-L", library.path, photos / "cat.jpg", "-w", "tiger", "--all", "--json").stdout
    assert json.loads(out)["tags"][0]["p"] > 0.0


def test_a_library_learns_from_answers_and_keywords(library, tmp_path):
    photos, model = tmp_path / "photos", tmp_path / "m.safetensors"
    assert "nothing to learn" in run("fit", "-L", library.path, "-o", model, code=2).stderr
    for path in list(photos.iterdir()):
        for i in range(5):
            Image.open(path).rotate(4 * i + 2).save(photos / f"{path.stem}-{i}.jpg")
    run("index")
    for photo in library.photos():
        library.correct(photo, "my mug", "coffee" in photo.path)
    out = run("fit", "-L", library.path, "-o", model).stdout
    assert "Learned 1 label from 24 images" in out
    assert "On held-out photos your labels have made the sure tags better." in out
    with library.journal() as journal:
        write([(photo.path, ["rocket"]) for photo in library.photos()], journal)
    write([(photos / f"cat-{i}.jpg", ["Felix"]) for i in range(3)], Journal(sqlite3.connect(":memory:")))
    features, annotations = annotated_photos(library, keywords=True)
    assert annotations.labels == ("Felix", "my mug")  # not the rockets, which unseen has written
    felix, mug = annotations.Y.T
    shown = {Path(path).stem for path, value in zip(features.paths, felix, strict=True) if value == 1}
    assert shown == {"cat-0", "cat-1", "cat-2"}
    assert not (felix == 0).any()
    assert (mug == 1).sum() == 6
    write([(photos / f"rocket-{i}.jpg", ["Tower"]) for i in range(2)], Journal(sqlite3.connect(":memory:")))
    out = run("fit", "-L", library.path, "--keywords", "--complete", "-o", model).stdout
    assert "Learned 3 labels from 24 images" in out
    _, annotations = annotated_photos(library, keywords=True, complete=True)
    felix, _, tower = annotations.Y.T
    assert ((felix == 0).sum(), (tower == 0).sum()) == (2, 3)


@pytest.mark.parametrize(
    "typed",
    [
        "tags write -L nowhere",
        "tags write --csv t.csv --embed",
        "review -L nowhere",
        "fit -o m.safetensors",
        "fit feats -a a.csv -o m.safetensors --keywords",
        "tag --xmp photo.jpg",
        "tag",
    ],
)
def test_mistakes_end_with_exit_code_2(tmp_path, monkeypatch, typed):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UNSEEN_LIBRARY", str(tmp_path / "none"))
    said = run(*typed.split(), code=2).stderr
    assert said.startswith("unseen ")
    assert said.count("\n") == 1
