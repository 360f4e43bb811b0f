"""PASCAL VOC, COCO and NUS-WIDE are read as they are published, and damaged files are refused."""

import json
import shutil

import numpy as np
import pytest
from tests.data import FOLDER

from unseen.datasets import read_annotations
from unseen.datasets.coco import read_coco
from unseen.datasets.nuswide import read_nuswide
from unseen.datasets.table import read_table
from unseen.datasets.voc import VOC_CLASSES, read_voc

SAMPLE = FOLDER / "VOCdevkit-sample"
needs_sample = pytest.mark.skipif(not SAMPLE.is_dir(), reason=f"no VOC sample in {FOLDER} (set UNSEEN_DATA)")

# Image i shows class i; class 0 is only difficult in image 1.
SPLITS = {"train": ["000001"], "val": ["000002"], "trainval": ["000001", "000002"], "test": ["000003"]}


def make_devkit(root, year=2007, splits=tuple(SPLITS)):
    lists = root / f"VOC{year}" / "ImageSets" / "Main"
    lists.mkdir(parents=True)
    for split in splits:
        for position, name in enumerate(VOC_CLASSES):
            values = {image: "1" if int(image) == position else "-1" for image in SPLITS[split]}
            values |= {"000001": "0"} if position == 0 and "000001" in values else {}
            (lists / f"{name}_{split}.txt").write_text("".join(f"{a}  {b}\n" for a, b in values.items()))
    return lists


@pytest.mark.parametrize("inside", ["", "VOCdevkit", "VOCdevkit/VOC2007"])
def test_a_devkit_is_found_from_its_folder_or_the_one_above(tmp_path, inside):
    make_devkit(tmp_path / "VOCdevkit")
    annotations = read_voc(tmp_path / inside)
    assert annotations.images == ("000001", "000002")
    assert annotations.labels == VOC_CLASSES == tuple(sorted(VOC_CLASSES))
    assert annotations.Y[:, :3].tolist() == [[0, 1, 0], [0, 0, 1]]
    unknown = read_voc(tmp_path / inside, difficult="unknown").Y
    assert np.argwhere(np.isnan(unknown)).tolist() == [[0, 0]]


def test_each_split_of_voc_and_each_year(tmp_path):
    make_devkit(tmp_path)
    for split, images in SPLITS.items():
        assert read_annotations(tmp_path, split).images == tuple(images)
    assert read_annotations(tmp_path).images == ("000001", "000002", "000003")
    assert read_annotations(tmp_path).split == ("trainval", "trainval", "test")
    make_devkit(tmp_path, 2012, ("trainval",))
    with pytest.raises(ValueError, match=r"^year: "):
        read_voc(tmp_path)
    assert read_annotations(tmp_path, year=2012).images == ("000001", "000002")


def test_what_is_missing_of_voc_is_named(tmp_path):
    make_devkit(tmp_path, splits=("trainval",))
    with pytest.raises(FileNotFoundError, match=r"^split: .*aeroplane_test\.txt"):
        read_voc(tmp_path, split="test")
    for folder, year in ((tmp_path / "VOC2007", 2012), (tmp_path / "nowhere", None)):
        with pytest.raises(FileNotFoundError, match=r"^devkit: .*unseen data get voc20"):
            read_voc(folder, year)
    for argument in ("split", "difficult"):
        with pytest.raises(ValueError, match=f"^{argument}: "):
            read_voc(tmp_path, **{argument: "present"})


@pytest.mark.parametrize(
    "content", [b"000001 1\n000002 2\n", b"000001\n", b"000001 1\n000001 1\n", b"000001 1\n", b"", b"\xff\xfe0"]
)
@pytest.mark.parametrize("name", [VOC_CLASSES[0], "sheep"])
def test_a_damaged_list_of_voc_is_refused(tmp_path, content, name):
    (make_devkit(tmp_path) / f"{name}_trainval.txt").write_bytes(content)
    with pytest.raises(ValueError, match=r"^(devkit|images): "):
        read_voc(tmp_path)


@needs_sample
@pytest.mark.parametrize(("difficult", "name"), [("absent", "labels"), ("unknown", "labels_tristate")])
def test_the_real_lists_agree_with_the_published_tables(tmp_path, difficult, name):
    shutil.copytree(SAMPLE / "VOC2007" / "ImageSets", tmp_path / "VOC2007" / "ImageSets")
    sample = read_voc(tmp_path, 2007, "all", difficult=difficult)
    table = read_table(FOLDER / f"voc2007_{name}.csv", tristate=None if name == "labels" else difficult)
    assert table.Y.shape == (9963, 20)
    same = table.select(images=[f"JPEGImages/{image}.jpg" for image in sample.images])
    assert (len(sample), same.labels, same.split) == (200, VOC_CLASSES, sample.split)
    np.testing.assert_array_equal(same.Y, sample.Y)


def instance(image, category, crowd=0):
    return {"id": 7, "image_id": image, "category_id": category, "iscrowd": crowd, "segmentation": [[1.0, 2.5]]}


COCO = {
    "images": [{"id": 9, "file_name": "9.jpg"}, {"id": 5, "file_name": "5.jpg"}, {"id": 6, "file_name": "6.jpg"}],
    "categories": [{"id": 1, "name": "person"}, {"id": 18, "name": "dog"}, {"id": 3, "name": "car"}],
    "annotations": [instance(5, 18), instance(5, 18), instance(5, 1, crowd=1), instance(9, 3), instance(9, 3, 1)],
}


@pytest.mark.parametrize(("crowd", "person"), [("present", 1), ("absent", 0), ("unknown", np.nan)])
def test_a_crowd_counts_as_told_unless_there_is_a_single_object_too(tmp_path, crowd, person):
    (tmp_path / "instances").write_text(json.dumps(COCO))
    annotations = read_annotations(tmp_path / "instances", crowd=crowd)
    assert (annotations.images, annotations.labels) == (("9.jpg", "5.jpg", "6.jpg"), ("person", "dog", "car"))
    np.testing.assert_array_equal(annotations.Y, [[0, 0, 1], [person, 1, 0], [0, 0, 0]])


@pytest.mark.parametrize(
    "content",
    [
        {"images": COCO["images"], "annotations": [{"id": 1, "image_id": 5, "caption": "A dog."}]},
        COCO | {"annotations": [{"image_id": 5, "segments_info": []}]},
        {"images": COCO["images"], "categories": COCO["categories"]},
        {"images": 1, "annotations": 2, "categories": 3},
        3, [1, 2], {}, '{"images": [', "[" * 100_000,
        COCO | {"images": [1]},
        COCO | {"images": [{"id": 1, "file_name": 5}], "annotations": []},
        COCO | {"annotations": [1]}, COCO | {"annotations": [instance(5, 99)]},
        COCO | {"annotations": [instance([5], 1)]},
        COCO | {"categories": 2 * [{"id": 1, "name": "a"}], "annotations": []},
        COCO | {"categories": [{"id": 1, "name": ""}], "annotations": []},
        COCO | {"images": [], "annotations": []},
    ],
)  # fmt: skip
def test_other_files_than_coco_instances_are_refused(tmp_path, content):
    (tmp_path / "instances").write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(ValueError, match=r"^path: "):
        read_coco(tmp_path / "instances")
    with pytest.raises(FileNotFoundError, match=r"^path: "):
        read_coco(tmp_path / "none.json")


IMAGES = ("actor/1.jpg", "zoo/2.jpg", "zoo/3.jpg")
CONCEPTS = {"bear": [1, 0, 0], "sky": [0, 1, 1]}
TAGS = {"nature": [0, 1, 1], "sky": [1, 0, 0], "blue": [1, 1, 0]}  # a tag may disagree with its concept


@pytest.fixture
def nuswide(tmp_path):
    """The files of the original archives; backslashes and line ends as on Windows."""
    windows = [name.replace("/", "\\") for name in IMAGES]
    files = {
        "ConceptsList/Concepts81.txt": CONCEPTS, "ImageList/Imagelist.txt": windows,
        "ImageList/TrainImagelist.txt": windows[::2], "ImageList/TestImagelist.txt": windows[1:2],
        "NUS_WID_Tags/TagList1k.txt": TAGS,
        "NUS_WID_Tags/AllTags1k.txt": ["0\t1\t1\t", "1\t0\t1\t", "1\t0\t0\t"],
        **{f"Groundtruth/AllLabels/Labels_{name}.txt": column for name, column in CONCEPTS.items()},
    }  # fmt: skip
    for name, lines in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes("".join(f"{line}\r\n" for line in lines).encode())
    return tmp_path


def test_concepts_and_tags_of_nuswide(nuswide):
    concepts = read_annotations(nuswide)
    assert (concepts.images, concepts.labels) == (IMAGES, ("bear", "sky"))
    assert concepts.split == ("train", "test", "train")
    assert concepts.Y.T.tolist() == list(CONCEPTS.values())
    assert read_nuswide(nuswide, "tags1k").Y.T.tolist() == list(TAGS.values())
    both = read_annotations(nuswide, "test", labels="both")
    assert both.labels == ("nature", "blue", "bear", "sky")  # tags that are not concepts, then the concepts
    assert both.Y.tolist() == [[1, 1, 0, 1]]


def test_files_of_nuswide_may_differ_in_capitals_and_folders_or_be_missing(nuswide):
    (nuswide / "ImageList" / "Imagelist.txt").rename(nuswide / "ImageList.TXT")
    for name in ("ImageList/TestImagelist.txt", "NUS_WID_Tags/AllTags1k.txt"):
        (nuswide / name).unlink()
    assert read_annotations(nuswide).images == IMAGES
    assert read_annotations(nuswide).split is None
    with pytest.raises(FileNotFoundError, match=r"^folder: .*AllTags1k\.txt"):
        read_nuswide(nuswide, "both")
    with pytest.raises(ValueError, match=r"^labels: "):
        read_nuswide(nuswide, "all")


@pytest.mark.parametrize(
    ("file", "content"),
    [
        *(("Groundtruth/AllLabels/Labels_sky.txt", content) for content in (b"0\n-1130179\n1\n", b"0\n1\n", b"")),
        *(("NUS_WID_Tags/AllTags1k.txt", content) for content in (b"0 1 1\n0 1\n0 1 0\n", b"0 1 1 0 2 0 1 1 1")),
        *(("NUS_WID_Tags/TagList1k.txt", content) for content in (b"", b"caf\xe9\n")),
        ("ImageList/TestImagelist.txt", b"other\\1.jpg\n"),
    ],
)
def test_a_damaged_file_of_nuswide_is_named(nuswide, file, content):
    (nuswide / file).write_bytes(content)
    with pytest.raises(ValueError, match=f"^folder: .*{file.rpartition('/')[2]}"):
        read_nuswide(nuswide, "both")
