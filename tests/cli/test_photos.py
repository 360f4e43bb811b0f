"""`unseen tag`, `explain`, `fit` and `evaluate`, as a person types them."""

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest
from tests.photos.world import paint, world
from typer.testing import CliRunner

from unseen import PhotoTagger
from unseen.cli import app


def run(*arguments, code=0):
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == code, done.output
    return done


def tag(*arguments, code=0):
    return run("tag", *arguments, "--model", world() / "model.safetensors", code=code)


def fit(output, *more, code=0):
    return run(
        "fit", world() / "feats", "--annotations", world() / "labels.csv", "--vectors", world() / "vectors.csv",
        "-o", output, "--beta", 1, *more, code=code,
    )  # fmt: skip


def test_tags_are_printed_best_first_with_a_mark_above_the_threshold():
    path, *tags, _ = tag(world() / "photos" / "000.jpg", "--words", "cold, crimson, red").stdout.splitlines()
    assert path.endswith("000.jpg")
    scores = [float(line.split()[-1]) for line in tags]
    assert scores == sorted(scores, reverse=True)
    assert [line.split()[0] == "*" for line in tags] == [score > 0 for score in scores] != [True] * 3


def test_json_has_every_word_of_all_options():
    found = json.loads(tag(world() / "photos" / "000.jpg", "-w", "red, cold", "-w", "green", "--json").stdout)
    assert {one["name"] for one in found["tags"]} == {"red", "cold", "green"}
    assert [one["predicted"] for one in found["tags"]] == [one["score"] > 0 for one in found["tags"]]


def test_near_duplicates_are_merged_with_a_note():
    done = tag(world() / "photos" / "000.jpg", "-w", "Red, red, blue", "--json")
    assert [one["name"] for one in json.loads(done.stdout)["tags"]] == ["Red", "blue"]
    assert re.fullmatch(r"unseen tag: note: words: 'red'.*\n", done.stderr)


def test_a_folder_gives_one_row_per_tag():
    rows = list(csv.DictReader(tag(world() / "photos", "-w", "red, blue", "--csv").stdout.splitlines()))
    assert len(rows) == 120
    first = {Path(row["path"]).name: row["name"] for row in rows if row["rank"] == "1"}
    assert (first["000.jpg"], first["002.jpg"]) == ("red", "blue")


def test_a_page_holds_the_photos_and_tells_them_apart(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        paint(tmp_path / name / "1.jpg", ["red"])
    done = tag(tmp_path / "a", tmp_path / "b", "-w", "red, green", "-o", tmp_path / "p.html")
    text = (tmp_path / "p.html").read_text()
    assert text.count("data:image/jpeg;base64,") == 2
    assert all(name in text for name in (str(tmp_path / "a"), str(tmp_path / "b"), "2 photos"))
    assert done.stderr == f"Page: {tmp_path / 'p.html'}\n"


def test_a_broken_photo_is_named_the_others_are_tagged_and_the_exit_code_is_2(tmp_path):
    paint(tmp_path / "a.jpg", ["red"])
    (tmp_path / "b\n.jpg").write_bytes(b"")
    done = tag(tmp_path, "-w", "red", code=2)
    assert "a.jpg" in done.stdout
    assert done.stderr.startswith(f"unseen tag: {tmp_path}/b\\x0a.jpg cannot be read: ")
    assert done.stderr.count("\n") == 1
    lines = tag(tmp_path, "-w", "red", "--json", code=2).stdout.splitlines()
    assert [json.loads(line).keys() for line in lines] == [{"path", "tags"}, {"path", "problem"}]


def test_an_explanation_lists_parts_that_sum_to_the_score(tmp_path):
    photo, model = world() / "photos" / "000.jpg", world() / "model.safetensors"
    for by, kind in (("labels", " label "), ("images", " image ")):
        out = run("explain", photo, "-w", "crimson", "-m", model, "--by", by, "-o", tmp_path / "p.html").stdout
        *parts, score = map(float, re.findall(r" ([+-]\d\.\d{3})$", out, flags=re.MULTILINE))
        assert sum(parts) == pytest.approx(score, abs=0.01)
        assert kind in out
        assert " class " in out
    assert "<svg" in (tmp_path / "p.html").read_text()
    done = run("explain", photo, "-w", "Crimson, crimson; Crimson", "-m", model)
    assert "'crimson' is the same label as 'Crimson'" in done.stderr
    assert done.stdout.count("\noffset") == 1


def test_fit_tells_what_it_learned_and_what_to_do_next(tmp_path):
    out = fit(tmp_path / "m.safetensors", "--unseen", "yellow", "--search", "--gamma", 0.1).stdout
    assert "Learned 3 labels from 42 images; certified gap" in out
    assert "18 images without annotations" in out
    assert "Chosen on held-out labels: beta = " in out
    assert f"unseen tag PHOTOS --model {tmp_path / 'm.safetensors'}" in out
    assert "From scratch: there is no packaged model for" in out
    assert "From scratch" not in fit(tmp_path / "m.safetensors", "--from-scratch").stdout
    assert PhotoTagger.load(tmp_path / "m.safetensors").tagger.label_names_[-1] == "blue"


def test_fit_starts_from_the_packaged_model_and_tells_before_and_after(tmp_path, monkeypatch):
    packaged = PhotoTagger.load(world() / "model.safetensors")
    load = PhotoTagger.load
    monkeypatch.setattr(PhotoTagger, "load", lambda path=None: packaged if path is None else load(path))
    model = tmp_path / "m.safetensors"
    arguments = ("fit", world() / "feats", "-a", world() / "labels.csv", "-o", model)
    out = run(*arguments).stdout
    assert "Learned 3 labels from 42 images, on top of the packaged model." in out
    assert "Strength: " in out
    rows = {line.split()[0]: line for line in out.splitlines() if " → " in line}
    assert {"all", "red", "green", "blue", "Before"} == rows.keys()
    assert "\nOn held-out photos " in out
    assert PhotoTagger.load(model).tagger.base_.label_names_ == packaged.tagger.label_names_
    assert "certified gap" in run(*arguments, "--from-scratch", "--vectors", world() / "vectors.csv").stdout
    assert run(*arguments, "--beta", 1, code=2).stderr.startswith("unseen fit: beta: ")


def test_a_model_is_used_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(world())
    run("fit", "feats", "-a", "labels.csv", "--vectors", "vectors.csv", "-o", tmp_path / "m.safetensors")
    monkeypatch.chdir(tmp_path)
    photo = world() / "photos" / "000.jpg"
    assert " image " in run("explain", photo, "-w", "crimson", "-m", "m.safetensors", "--by", "images").stdout


def test_evaluate_prints_each_setting_and_label(tmp_path):
    arguments = ("evaluate", world() / "feats", "-a", world() / "labels.csv", "-m", world() / "model.safetensors")
    out = run(*arguments, "-o", tmp_path / "p.html").stdout
    rows = {line.split()[0]: line.split() for line in out.splitlines() if line.strip()}
    assert rows["18"] == ["18", "images"]
    assert float(rows["generalized"][2]) > 80.0
    assert (rows["red"][1], rows["blue"][1]) == ("seen", "unseen")
    assert "too optimistic" not in out
    assert "too optimistic" in run(*arguments, "--split", "all").stdout
    assert rows["generalized"][2] in (tmp_path / "p.html").read_text()


@pytest.mark.parametrize(
    "typed",
    [
        "tag PHOTO -w missing.txt",
        "tag PHOTO -w qwrtz -m MODEL",
        "tag PHOTO -w red -m MODEL --json --csv",
        "tag PHOTO -m random.jpg",
        "tag PHOTO -m missing.safetensors",
        "tag nowhere -w red -m MODEL",
        "tag PHOTO -w red -m MODEL -o .",
        "explain random.jpg -w red -m MODEL",
        "explain PHOTO -w red -m MODEL --by magic",
        "fit FEATS -a LABELS --vectors VECTORS -o m.safetensors --gamma 1",
        "fit FEATS -a LABELS --vectors VECTORS -o m.safetensors --beta -1",
        "fit nowhere -a LABELS -o m.safetensors",
        "evaluate FEATS -a nowhere.csv -m MODEL",
    ],
)
def test_mistakes_are_one_line_with_exit_code_2(tmp_path, monkeypatch, typed):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "random.jpg").write_bytes(np.random.default_rng(0).bytes(5000))
    names = {"PHOTO": "photos/000.jpg", "MODEL": "model.safetensors", "FEATS": "feats", "LABELS": "labels.csv",
             "VECTORS": "vectors.csv"}  # fmt: skip
    done = run(*(world() / names[word] if word in names else word for word in typed.split()), code=2)
    assert done.stderr.startswith(f"unseen {typed.split()[0]}: ")
    assert done.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["random.jpg"]
