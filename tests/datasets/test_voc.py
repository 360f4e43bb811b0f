import shutil

import numpy as np
import pytest
from tests.data import FOLDER

from unseen.datasets.sources import read_annotations
from unseen.datasets.table import read_table
from unseen.datasets.voc import VOC_CLASSES, read_voc

SAMPLE = FOLDER / "VOCdevkit-sample"
needs_sample = pytest.mark.skipif(not SAMPLE.is_dir(), reason=f"no VOC sample in {FOLDER} (set UNSEEN_DATA)")

# Image i shows class i; class 0 is only difficult in image 1.
IMAGES = {"train": ["000001"], "val": ["000002"], "trainval": ["000001", "000002"], "test": ["000003"]}


def value(image, position):
    if (image, position) == ("000001", 0):
        return " 0"
    return " 1" if int(image) == position else "-1"


def make_devkit(root, year=2007, splits=("train", "val", "trainval", "test")):
    lists = root / f"VOC{year}" / "ImageSets" / "Main"
    lists.mkdir(parents=True)
    for split in splits:
        for position, name in enumerate(VOC_CLASSES):
            lines = [f"{image} {value(image, position)}\n" for image in IMAGES[split]]
            (lists / f"{name}_{split}.txt").write_text("".join(lines))
    return lists


def test_the_classes_are_the_twenty_in_alphabetical_order():
    assert len(VOC_CLASSES) == 20
    assert list(VOC_CLASSES) == sorted(VOC_CLASSES)


@pytest.mark.parametrize("inside", ["", "VOCdevkit", "VOCdevkit/VOC2007"])
def test_a_devkit_is_found_from_its_folder_or_the_one_above(tmp_path, inside):
    make_devkit(tmp_path / "VOCdevkit")
    annotations = read_voc(tmp_path / inside)
    assert annotations.images == ("000001", "000002")
    assert annotations.labels == VOC_CLASSES
    assert annotations.Y[:, :3].tolist() == [[0, 1, 0], [0, 0, 1]]
    assert annotations.split == ("trainval", "trainval")


def test_each_split_and_all_of_them(tmp_path):
    make_devkit(tmp_path)
    assert {split: read_voc(tmp_path, split=split).images for split in IMAGES} == {
        split: tuple(images) for split, images in IMAGES.items()
    }
    everything = read_annotations(tmp_path)
    assert everything.images == ("000001", "000002", "000003")
    assert everything.split == ("trainval", "trainval", "test")
    assert read_annotations(tmp_path, "val").images == ("000002",)


def test_difficult_objects_are_absent_or_unknown(tmp_path):
    make_devkit(tmp_path)
    assert read_voc(tmp_path).Y[0, 0] == 0
    unknown = read_voc(tmp_path, difficult="unknown").Y
    assert np.argwhere(np.isnan(unknown)).tolist() == [[0, 0]]


def test_the_test_images_of_2012_have_no_public_annotations(tmp_path):
    make_devkit(tmp_path, 2012, ("train", "val", "trainval"))
    assert read_voc(tmp_path, 2012, "all").images == ("000001", "000002")
    with pytest.raises(FileNotFoundError, match="VOC2012's test images were never published"):
        read_voc(tmp_path, 2012, "test")


def test_two_years_in_one_folder_need_a_choice(tmp_path):
    make_devkit(tmp_path)
    make_devkit(tmp_path, 2012)
    with pytest.raises(ValueError, match=r"year: .* holds VOC2007 and VOC2012"):
        read_voc(tmp_path)
    assert read_voc(tmp_path, year=2012).images == ("000001", "000002")
    assert read_annotations(tmp_path, year=2007).images == ("000001", "000002", "000003")


def test_what_is_missing_is_said(tmp_path):
    lists = make_devkit(tmp_path, splits=("trainval",))
    with pytest.raises(FileNotFoundError, match=r"aeroplane_test.txt' does not exist.*unseen data get voc2007"):
        read_voc(tmp_path, split="test")
    (lists / "dog_trainval.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"dog_trainval.txt' does not exist \(1 of 20"):
        read_voc(tmp_path)
    with pytest.raises(FileNotFoundError, match="no folder VOC2012 with ImageSets/Main"):
        read_voc(tmp_path / "VOC2007", year=2012)
    with pytest.raises(FileNotFoundError, match="unseen data get voc2007"):
        read_voc(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("000001 1\n000002 2\n", "line 2: '000002 2'"),
        ("000001\n", "line 1: '000001'"),
        ("000001 1\n000001 1\n", "line 2: '000001 1'"),
        ("000001 1\n", "do not name the same images.*'000002'"),
        ("", "is empty"),
        (b"\xff\xfe0", "is no text"),
    ],
)
def test_a_damaged_list_is_named(tmp_path, content, message):
    lists = make_devkit(tmp_path)
    (lists / "sheep_trainval.txt").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=f"sheep_trainval.txt.*{message}"):
        read_voc(tmp_path)


@pytest.mark.parametrize("options", [{"year": 2010}, {"split": "dev"}, {"difficult": "present"}])
def test_options_are_checked(tmp_path, options):
    make_devkit(tmp_path)
    with pytest.raises(ValueError, match=next(iter(options))):
        read_voc(tmp_path, **options)


@needs_sample
def test_the_real_lists_agree_with_the_published_tables(tmp_path):
    shutil.copytree(SAMPLE / "VOC2007" / "ImageSets", tmp_path / "VOC2007" / "ImageSets")
    for difficult, name, options in (
        ("absent", "voc2007_labels.csv", {}),
        ("unknown", "voc2007_labels_tristate.csv", {"tristate": "unknown"}),
    ):
        sample = read_voc(tmp_path, 2007, "all", difficult=difficult)
        table = read_table(FOLDER / name, **options)
        assert table.labels == VOC_CLASSES
        assert len(sample.images) == 200
        same = table.select(images=[f"JPEGImages/{image}.jpg" for image in sample.images])
        assert same.split == sample.split
        np.testing.assert_array_equal(same.Y, sample.Y)
