import numpy as np
import pytest

from unseen.datasets.nuswide import read_nuswide
from unseen.datasets.sources import read_annotations

IMAGES = ("actor/1.jpg", "zoo/2.jpg", "zoo/3.jpg")
TRAIN = np.array([True, False, True])
CONCEPTS = {"bear": [1, 0, 0], "sky": [0, 1, 1]}
TAGS = {
    "nature": [0, 1, 1],
    "sky": [1, 0, 0],
    "blue": [1, 1, 0],
}  # a tag may disagree with the concept of its name


def lines(values):
    return "".join(f"{value}\n" for value in values)


def matrix(values, separator):
    return "".join(separator.join(map(str, row)) + separator + "\n" for row in values)


def make(root, *, whole=True, parts=True):
    """Write the files of the original archives; back-slashes and line ends as on Windows."""
    windows = [name.replace("/", "\\") for name in IMAGES]
    tags = np.array(list(TAGS.values())).T
    files = {"ConceptsList/Concepts81.txt": lines(CONCEPTS), "NUS_WID_Tags/TagList1k.txt": lines(TAGS)}
    if whole:
        files["ImageList/Imagelist.txt"] = lines(windows).replace("\n", "\r\n")
        files["NUS_WID_Tags/AllTags1k.txt"] = matrix(tags, "\t")
        for name, column in CONCEPTS.items():
            files[f"Groundtruth/AllLabels/Labels_{name}.txt"] = lines(column)
    for part, rows in (("Train", TRAIN), ("Test", ~TRAIN)) if parts else ():
        files[f"ImageList/{part}Imagelist.txt"] = lines(np.array(windows)[rows])
        files[f"NUS_WID_Tags/{part}_Tags1k.dat"] = matrix(tags[rows], "\t")
        for name, column in CONCEPTS.items():
            files[f"Groundtruth/TrainTestLabels/Labels_{name}_{part}.txt"] = lines(np.array(column)[rows])
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content.encode())
    return root


def table(annotations):
    return {
        (image, label): int(cell)
        for image, row in zip(annotations.images, annotations.Y, strict=True)
        for label, cell in zip(annotations.labels, row, strict=True)
    }


def test_concepts_of_all_images(tmp_path):
    annotations = read_nuswide(make(tmp_path))
    assert annotations.images == IMAGES
    assert annotations.labels == ("bear", "sky")
    assert annotations.split == ("train", "test", "train")
    assert annotations.Y.T.tolist() == list(CONCEPTS.values())


def test_both_are_the_tags_that_are_no_concepts_and_then_the_concepts(tmp_path):
    make(tmp_path)
    assert read_nuswide(tmp_path, "tags1k").Y.T.tolist() == list(TAGS.values())
    both = read_annotations(tmp_path, labels="both")
    assert both.labels == ("nature", "blue", "bear", "sky")
    assert both.Y.T.tolist() == [TAGS["nature"], TAGS["blue"], CONCEPTS["bear"], CONCEPTS["sky"]]


@pytest.mark.parametrize("labels", ["concepts81", "tags1k", "both"])
def test_the_lists_of_the_two_parts_say_the_same(tmp_path, labels):
    whole = read_nuswide(make(tmp_path / "whole"), labels)
    parts = read_nuswide(make(tmp_path / "parts", whole=False), labels)
    assert parts.images == (IMAGES[0], IMAGES[2], IMAGES[1])  # train, then test
    assert parts.split == ("train", "train", "test")
    assert table(parts) == table(whole)


def test_without_lists_of_parts_nothing_is_split(tmp_path):
    assert read_nuswide(make(tmp_path, parts=False)).split is None


def test_names_of_files_may_differ_in_capitals_and_folders(tmp_path):
    make(tmp_path)
    (tmp_path / "ImageList" / "Imagelist.txt").rename(tmp_path / "ImageList.TXT")
    (tmp_path / "ConceptsList" / "Concepts81.txt").unlink()  # the names of the files will do
    assert read_nuswide(tmp_path).labels == ("bear", "sky")
    assert read_annotations(tmp_path, "test").images == ("zoo/2.jpg",)


def test_a_file_larger_than_a_block_is_read_whole(tmp_path, monkeypatch):
    monkeypatch.setattr("unseen.datasets.nuswide._BLOCK", 3)
    assert read_nuswide(make(tmp_path), "tags1k").Y.T.tolist() == list(TAGS.values())


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("Groundtruth/AllLabels/Labels_sky.txt", "0\n-1130179\n1\n", "line 2: '-1130179' is neither 0 nor 1"),
        ("Groundtruth/AllLabels/Labels_sky.txt", "0\n1\n", "fewer rows than the 3 images"),
        ("Groundtruth/AllLabels/Labels_sky.txt", "0\n1\n1\n0\n", "more rows than the 3 images"),
        ("Groundtruth/AllLabels/Labels_sky.txt", "0\n\n1\n", "line 2: 0 numbers, not 1"),
        ("Groundtruth/AllLabels/Labels_sky.txt", "0\n01\n1\n", "line 2: '01' is neither"),
        ("Groundtruth/AllLabels/Labels_sky.txt", "", "fewer rows"),
        ("NUS_WID_Tags/AllTags1k.txt", "0 1 1\n0 1\n0 1 0\n", "line 2: 2 numbers, not 3"),
        ("NUS_WID_Tags/TagList1k.txt", "", "is empty"),
        ("NUS_WID_Tags/TagList1k.txt", b"caf\xe9\n", "no text in UTF-8"),
        ("ImageList/TestImagelist.txt", "other\\1.jpg\n", "'zoo/2.jpg' are neither in TrainImagelist.txt"),
    ],
)
def test_a_damaged_file_is_named(tmp_path, file, content, message):
    make(tmp_path)
    (tmp_path / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=message):
        read_nuswide(tmp_path, "both")


def test_what_is_missing_is_named(tmp_path):
    make(tmp_path, parts=False)
    (tmp_path / "NUS_WID_Tags" / "AllTags1k.txt").unlink()
    assert read_nuswide(tmp_path).labels == ("bear", "sky")  # needs no tags
    with pytest.raises(FileNotFoundError, match=r"lacks 'AllTags1k.txt'"):
        read_nuswide(tmp_path, "both")
    (tmp_path / "Groundtruth" / "AllLabels" / "Labels_sky.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"lacks 'Labels_sky.txt'"):
        read_nuswide(tmp_path)
    with pytest.raises(ValueError, match="labels: 'all'"):
        read_nuswide(tmp_path, "all")
