"""The files of `unseen reproduce`: found by their names, joined by image, and refused in words that help."""

from __future__ import annotations

import numpy as np
import pytest

from unseen.datasets.annotations import Annotations
from unseen.datasets.voc import VOC_CLASSES
from unseen.experiment import reproduce as room
from unseen.experiment.reproduce_data import _read_annotations, _read_features, _training_images

LABELS = ("cat", "dog")


def annotated(images, split=None):
    Y = np.zeros((len(images), 2))
    Y[:, 0] = 1
    return Annotations(tuple(images), LABELS, Y, None if split is None else tuple(split))


def rows_of(path, images):
    """First feature of each image, and the notes."""
    notes = []
    _, X, _ = _read_features(path, "my", annotated(images), notes)
    return X[:, 0].tolist(), notes


def test_images_are_joined_by_what_the_file_calls_them_even_if_these_are_numbers(tmp_path):
    X = np.array([[10.0], [11.0], [12.0]], dtype=np.float32)
    np.savez(tmp_path / "f.npz", features=X, image_id=np.arange(3))
    assert rows_of(tmp_path / "f.npz", ["2", "0", "1"]) == ([12.0, 10.0, 11.0], [])
    with pytest.raises(ValueError, match=r"--features: .*3 of 3 annotated images have no features: '000000'"):
        rows_of(tmp_path / "f.npz", ["000000", "000001", "000002"])


def test_images_of_other_folders_are_other_images(tmp_path):
    X = np.array([[10.0], [11.0]], dtype=np.float32)
    np.savez(tmp_path / "f.npz", features=X, image_id=np.array(["/data/cats/1.jpg", "/data/cats/2.jpg"]))
    assert rows_of(tmp_path / "f.npz", ["cats/2.jpg", "1"])[0] == [11.0, 10.0]
    with pytest.raises(ValueError, match=r"2 of 2 .*'dogs/2.jpg', 'dogs/1.jpg'.* like '/data/cats/1.jpg'"):
        rows_of(tmp_path / "f.npz", ["dogs/2.jpg", "dogs/1.jpg"])


def test_a_file_that_names_no_images_is_taken_in_order_and_that_is_told(tmp_path):
    np.save(tmp_path / "f.npy", np.array([[10.0], [11.0], [12.0]]))
    found, notes = rows_of(tmp_path / "f.npy", ["x", "y", "z"])
    assert found == [10.0, 11.0, 12.0]
    assert notes == ["f.npy names no images: its rows are taken in the order of the annotations."]
    found, notes = rows_of(tmp_path / "f.npy", ["2", "0", "1"])
    assert found == [12.0, 10.0, 11.0]
    assert notes == ["f.npy names no images: its rows are taken by their numbers, from 0."]
    with pytest.raises(
        ValueError, match=r"names no images, and has 3 rows for 2 of them. Pass a file with 'image_id'"
    ):
        rows_of(tmp_path / "f.npy", ["1", "2"])  # from 0 or from 1?


def test_features_may_be_a_table(tmp_path):
    (tmp_path / "f.csv").write_text("image_id;f0;f1\nb.jpg;1;2.5\na.jpg;3;-1e-2\n")
    assert rows_of(tmp_path / "f.csv", ["a.jpg", "b.jpg"]) == ([3.0, 1.0], [])


def write(folder, name, **arrays):
    folder.mkdir(exist_ok=True)
    np.savez(folder / name, **arrays)


def test_files_beside_a_csv_are_found_by_its_name(tmp_path):
    write(tmp_path, "my_net.npz", features=np.ones((2, 2)), image_id=np.array(["a", "b"]))
    write(tmp_path, "my_words.npz", vectors=np.ones((2, 2)))  # no features, and passed over
    (tmp_path / "my_hitcounts.csv").write_text("")
    for name in ("my.csv", "my_labels.csv"):
        (tmp_path / name).write_text("")
        found = room.find_sources(None, tmp_path / name)
        assert (found.name, found.labels.name) == ("my", name)
        assert [path.name for path in found.features] == ["my_net.npz"]
        assert found.hit_counts == tmp_path / "my_hitcounts.csv"
    assert room.find_sources("other", tmp_path / "my.csv", features=[tmp_path / "f.npz"]).name == "other"


def test_a_folder_may_be_a_devkit(tmp_path):
    (tmp_path / "VOC2007" / "ImageSets" / "Main").mkdir(parents=True)
    found = room.find_sources("voc2007", tmp_path, features=[tmp_path / "f"])
    assert found.labels == tmp_path
    with pytest.raises(
        FileNotFoundError, match=r"has no 'voc2012_labels.csv'. Pass the annotations with --labels"
    ):
        room.find_sources("voc2012", tmp_path, features=[tmp_path / "f"])


def test_what_is_not_there_is_named(tmp_path):
    (tmp_path / "my.csv").write_text("")
    with pytest.raises(FileNotFoundError, match=r"has no 'my_BACKBONE.npz' .* Pass features with --features"):
        room.find_sources(None, tmp_path / "my.csv")
    with pytest.raises(ValueError, match=r"NAME: '.*my.csv' is a file. Write an option before each"):
        room.find_sources(str(tmp_path / "my.csv"), tmp_path)


@pytest.mark.parametrize(
    ("split", "expected", "told"),
    [
        (("train", "test", "test"), [True, False, False], False),
        ((" Train", "TEST ", "val"), [True, False, True], True),  # as there is a test
        (("trainval", "test", "val"), [True, False, True], True),
        (("train", "val", "val"), [True, False, False], False),
    ],
)
def test_val_is_for_training_where_there_is_a_test(split, expected, told):
    notes = []
    assert _training_images(annotated(["a", "b", "c"], split), 0, notes).tolist() == expected
    assert notes == (["Images of the split val are for training, as there is a split test."] if told else [])


@pytest.mark.parametrize(
    ("split", "message"),
    [
        (("train", "train"), "all images are for training. Write train and test"),
        (("test", "val"), None),
        (("test", "test"), "all images are for testing"),
        (("train", "later"), "the split of some images is 'later'"),
    ],
)
def test_both_sides_have_images(split, message):
    if message is None:
        assert _training_images(annotated(["a", "b"], split), 0, []).tolist() == [False, True]
        return
    with pytest.raises(ValueError, match=f"--labels: {message}"):
        _training_images(annotated(["a", "b"], split), 0, [])


def test_voc2012_is_tested_on_its_validation_images(tmp_path):
    lists = tmp_path / "VOCdevkit" / "VOC2012" / "ImageSets" / "Main"
    lists.mkdir(parents=True)
    for part, images in {"train": ["2008_1", "2008_2"], "val": ["2008_3"]}.items():
        for i, name in enumerate(VOC_CLASSES):
            lines = [f"{image} {1 if i == k else -1}" for k, image in enumerate(images)]
            (lists / f"{name}_{part}.txt").write_text("\n".join(lines) + "\n")
    sources = room.find_sources("voc2012", tmp_path, features=[tmp_path / "x.npz"], labels=tmp_path / "VOCdevkit")
    annotations = _read_annotations(sources)
    assert annotations.split == ("train", "train", "val")
    assert annotations.Y.sum() == 3
    assert _training_images(annotations, 0, []).tolist() == [True, True, False]
