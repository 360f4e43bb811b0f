import json

import numpy as np
import pytest

from unseen.datasets.coco import read_coco
from unseen.datasets.sources import read_annotations


def instance(image, category, crowd=0):
    outline = {"counts": [1, 2], "size": [4, 4]} if crowd else [[1.0, 2.0, 3.0, 4.0]]
    return {"id": 7, "image_id": image, "category_id": category, "iscrowd": crowd, "segmentation": outline}


CONTENT = {
    "info": {"year": 2017},
    "images": [{"id": 9, "file_name": "9.jpg"}, {"id": 5, "file_name": "5.jpg"}, {"id": 6, "file_name": "6.jpg"}],
    "categories": [{"id": 1, "name": "person"}, {"id": 18, "name": "dog"}, {"id": 3, "name": "car"}],
    "annotations": [instance(5, 18), instance(5, 18), instance(5, 1, crowd=1), instance(9, 3), instance(9, 3, 1)],
}


@pytest.fixture
def write(tmp_path):
    def write_content(content):
        path = tmp_path / "instances.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return write_content


def test_images_and_categories_keep_the_order_of_the_file(write):
    annotations = read_coco(write(CONTENT))
    assert annotations.images == ("9.jpg", "5.jpg", "6.jpg")
    assert annotations.labels == ("person", "dog", "car")
    assert annotations.split is None


@pytest.mark.parametrize(("crowd", "person"), [("present", 1), ("absent", 0), ("unknown", np.nan)])
def test_a_crowd_counts_as_told_unless_there_is_a_single_object_too(write, crowd, person):
    annotations = read_coco(write(CONTENT), crowd=crowd)
    np.testing.assert_array_equal(annotations.Y, [[0, 0, 1], [person, 1, 0], [0, 0, 0]])


def test_an_image_without_any_object_is_kept_and_so_is_an_empty_list(write):
    annotations = read_annotations(write(CONTENT | {"annotations": []}))
    assert annotations.Y.tolist() == [[0, 0, 0]] * 3


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (CONTENT | {"annotations": [{"id": 1, "image_id": 5, "caption": "A dog."}]}, "holds captions"),
        (CONTENT | {"categories": [{"id": 1, "name": "person", "keypoints": ["nose"]}]}, "key points"),
        (CONTENT | {"annotations": [{"image_id": 5, "segments_info": []}]}, "panoptic"),
        ({key: CONTENT[key] for key in ("images", "categories")}, "without annotations"),
        (CONTENT | {"images": []}, "names no images"),
        ({"images": [{"id": 1, "file_name": "a"}], "annotations": [{"image_id": 1, "caption": ""}]}, "captions"),
        ({}, "is no COCO file"),
        ([1, 2], "is no COCO file"),
        (3, "is no COCO file"),
        ({"images": 1, "annotations": 2, "categories": 3}, "is no COCO file"),
        (CONTENT | {"images": [1]}, "is no COCO file"),
        ('{"images": [', "cannot be read as JSON"),
        ("[" * 100_000, "cannot be read as JSON"),
        (CONTENT | {"annotations": [instance(5, 99)]}, "annotation 0 names no image or category.*category_id 99"),
        (CONTENT | {"annotations": [instance([5], 1)]}, "annotation 0 names no image"),
        (CONTENT | {"annotations": [{}]}, "image_id None"),
        (CONTENT | {"images": [{"id": 1, "file_name": ""}]}, "entry 0 of images has file_name ''"),
        (CONTENT | {"categories": [{"id": 1}]}, "entry 0 of categories has name None"),
        (
            CONTENT | {"categories": [{"id": 1, "name": "a"}, {"id": 1, "name": "b"}]},
            "entry 1 of categories .* id 1",
        ),
        (
            CONTENT | {"categories": [{"id": 1, "name": "a"}, {"id": 2, "name": "a"}], "annotations": []},
            "'a' given more than once",
        ),
    ],
)
def test_other_files_are_refused_and_named(write, content, message):
    with pytest.raises(ValueError, match=message):
        read_coco(write(content))


def test_a_missing_file_and_a_wrong_option(write, tmp_path):
    with pytest.raises(FileNotFoundError, match="instances_val2017"):
        read_coco(tmp_path / "none.json")
    with pytest.raises(ValueError, match="crowd: 'often'"):
        read_coco(write(CONTENT), crowd="often")
