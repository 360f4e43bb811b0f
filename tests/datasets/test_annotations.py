"""Annotations hold together, are selected by name, and survive a table; images are matched without guessing."""

import csv
import json
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unseen.datasets import annotations
from unseen.datasets.annotations import Annotations
from unseen.datasets.coco import read_coco
from unseen.datasets.table import read_table

Y = np.array([[1, 0], [0, 1], [1, 1]])


def make(
    images=("a/1.jpg", "a/2.jpg", "b/3.jpg"), labels=("dog", "cat"), matrix=Y, split=("train", "test", "test")
):
    return Annotations(images, labels, matrix, split)


def test_y_is_read_only_and_its_type_tells_whether_everything_is_known():
    assert {make(matrix=Y.astype(dtype)).Y.dtype for dtype in (int, bool, float)} == {np.dtype(np.int8)}
    annotations = make(matrix=[[1, np.nan], [0, 1], [1, 1]])
    assert (annotations.Y.dtype, annotations.select(split="test").Y.dtype) == (np.float32, np.int8)
    with pytest.raises(ValueError, match="read-only"):
        annotations.Y[0, 0] = 0


@pytest.mark.parametrize(
    ("argument", "changes"),
    [
        ("images", {"images": ("x", "x", "y")}), ("images", {"images": ("x", "")}), ("images", {"images": ()}),
        ("labels", {"labels": ("dog", "dog")}), ("labels", {"labels": ("dog", " ")}), ("split", {"split": ("a",)}),
        ("Y", {"matrix": Y.T}), ("Y", {"matrix": Y.astype(str)}), ("Y", {"matrix": 2 * Y}),
        ("Y", {"matrix": Y - 0.5}), ("Y", {"matrix": np.where(Y, np.inf, np.nan)}),
    ],
)  # fmt: skip
def test_what_does_not_fit_together_is_refused(argument, changes):
    with pytest.raises(ValueError, match=f"^{argument}: "):
        make(**changes)


def test_select_keeps_rows_columns_and_parts_together():
    chosen = make().select(images=["b/3.jpg", "a/1.jpg"], labels=["cat"])
    assert (chosen.images, chosen.labels, chosen.split) == (("b/3.jpg", "a/1.jpg"), ("cat",), ("test", "train"))
    assert chosen.Y.tolist() == [[1], [0]]
    assert make().select(split="test", images=["a/2.jpg", "a/1.jpg"]).images == ("a/2.jpg",)
    assert repr(chosen) == "Annotations(2 images, 1 labels, split: test, train)"


@pytest.mark.parametrize(
    ("argument", "arguments"),
    [
        ("labels", {"labels": ["dgo"]}), ("split", {"split": "val"}), ("paths", {"images": ["c.jpg"]}),
        ("split", {"split": "test", "images": ["a/1.jpg"]}), ("paths", {"images": "a/1.jpg"}),
    ],
)  # fmt: skip
def test_what_cannot_be_selected_is_named(argument, arguments):
    with pytest.raises(ValueError, match=f"^{argument}: "):
        make().select(**arguments)
    with pytest.raises(ValueError, match=r"^split: "):
        make(split=None).select(split="test")


@pytest.mark.parametrize(
    ("images", "paths", "rows"),
    [
        (["000001", "000002", "2008.03"], ["JPEGImages/000002.jpg", "/x/000001.PNG", "2008.03"], [1, 0, 2]),
        (["a/1.jpg", "a/2.jpg", "b/3.jpg"], ["a\\2.jpg", "3", "/else/a/1.png", "3"], [1, 2, 0, 2]),
        (["1.jpg", "b/1.jpg", "c/1.jpg"], ["b/1.jpg", "1.jpg"], [1, 0]),  # the exact path first
        (["a/1.jpg", "b/1.jpg"], ["/data/b/1.jpg"], [1]),
        (["a/1.jpg", "a/1.png"], ["/data/a/1.png", "1.jpg"], [1, 0]),  # a suffix tells them apart
        (["./dogs/2.jpg", "../mice/3.jpg"], ["pm/dogs/2.jpg", "/data/mice/3.jpg"], [0, 1]),
        # Folders that contradict each other do not fit.
        (["cats/1.jpg"], ["pm/dogs/1.jpg", "wildcats/1.jpg", "cats/1/1.jpg", "1.png"], [-1, -1, -1, 0]),
        # If several files fit one image, it belongs to the one that fits best.
        (["a/1.jpg"], ["a/1.jpg", "b/1.jpg"], [0, -1]),
        (["1.jpg"], ["b/1.jpg", "1.jpg"], [-1, 0]),
        (["1.jpg"], ["b/1.png", "b/1.jpg", "b/1.jpg"], [-1, 0, 0]),
        (["v1.5"], ["v1", "v1.jpg"], [-1, -1]),  # a name with a dot is not a file with a suffix
    ],
)
def test_images_are_found_by_path_or_by_file_name(images, paths, rows):
    annotations = Annotations(images, ["dog"], np.zeros((len(images), 1)))
    assert annotations.rows_for(paths, missing="mark").tolist() == rows


@pytest.mark.parametrize(
    ("images", "paths"), [(["a/1.jpg", "b/1.jpg"], ["1.jpg"]), (["2"], ["x/2.jpg", "y/2.jpg"]), (["2"], ["3"])]
)
def test_no_row_is_guessed(images, paths):
    with pytest.raises(ValueError, match=r"^paths: "):
        Annotations(images, ["dog"], np.zeros((len(images), 1))).rows_for(paths)


def test_counts_add_up_to_the_number_of_images():
    counts = make(matrix=[[1, 0], [np.nan, 0], [1, 1]]).counts()
    assert [column.tolist() for column in counts] == [[2, 1], [0, 2], [1, 0]]


NAME = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).map(str.strip).filter(bool)
NAMES = st.lists(NAME, min_size=1, max_size=4, unique=True)


@given(NAMES, NAMES, st.data())
def test_a_table_gives_back_what_was_written(tmp_path_factory, images, labels, data):
    images = list(dict.fromkeys(name.replace("\\", "/") for name in images))
    labels = [name for name in labels if name.lower() not in ("split", "subsplit")] or ["dog"]
    if len(labels) == 1 and labels[0].lower() in ("label", "labels", "tag", "tags"):
        labels = ["dog"]
    cells = st.sampled_from([0.0, 1.0, np.nan])
    matrix = [[data.draw(cells) for _ in labels] for _ in images]
    split = data.draw(st.none() | st.just(["test"] * len(images)))
    written = Annotations(images, labels, matrix, split)
    path = tmp_path_factory.mktemp("table") / "labels.csv"
    written.to_csv(path)
    with path.open(newline="", encoding="utf-8") as file:
        assert not any(cell.startswith(tuple("=+-@")) for row in csv.reader(file) for cell in row)
    read = read_table(path)
    assert (read.images, read.labels, read.split) == (written.images, written.labels, written.split)
    assert read.Y.dtype == written.Y.dtype
    np.testing.assert_array_equal(read.Y, written.Y)


def test_a_label_that_a_table_would_misread_is_refused(tmp_path):
    for labels, matrix in ((("dog", "Split"), Y), (("tags",), Y[:, :1])):
        with pytest.raises(ValueError, match=r"^labels: "):
            make(labels=labels, matrix=matrix).to_csv(tmp_path / "t.csv")
    make(labels=("path", "tag")).to_csv(tmp_path / "t.csv")
    assert read_table(tmp_path / "t.csv").labels == ("path", "tag")


def test_many_images_with_many_labels_take_a_byte_each_or_are_refused(tmp_path, monkeypatch):
    path, n = tmp_path / "t.csv", 2000
    path.write_text("path,label\n" + "".join(f"{i}.jpg,c{i}\n" for i in range(n)))
    read_table(path)  # imports pandas
    monkeypatch.setattr(annotations, "_BLOCK", 2**16)
    tracemalloc.start()
    read = read_table(path)
    present, _, unknown = read.counts()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (read.Y.dtype, present.sum(), unknown.sum()) == (np.int8, n, 0)
    assert most < 2 * n * n
    coco = tmp_path / "t.json"
    images = [{"id": i, "file_name": f"{i}.jpg"} for i in range(9)]
    categories = [{"id": i, "name": f"c{i}"} for i in range(5)]
    coco.write_text(json.dumps({"images": images, "categories": categories, "annotations": []}))
    assert read_coco(coco).Y.dtype == np.int8
    monkeypatch.setattr(annotations, "MOST_ENTRIES", 40)
    for read, file, size in (
        (read_coco, coco, "9 images and 5 labels"),
        (read_table, path, "2,000 images and 2,000"),
    ):
        with pytest.raises(ValueError, match=rf"^(path|Y): .*{size}.* too many"):
            read(file)
