"""Splits and views, on a small matrix and on the real labels of VOC2007."""

import csv

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from tests.data import FOLDER

from unseen.datasets.voc import VOC_CLASSES
from unseen.evaluation import metrics, protocol
from unseen.evaluation.protocol import (
    CLASS_SPLITS,
    ClassSplit,
    alternating_split,
    class_split,
    generalized_view,
    name_of_split,
    training_view,
    zero_shot_view,
)

NAMES = ("dog", "bird", "cat", "apple", "Bus")
NAN = np.nan
Y = np.array([[1, 0, 0, 0, 0], [0, 1, 0, 1, 0], [0, 0, 0, 0, 0], [NAN, 0, 1, 0, 1], [0, 0, NAN, 1, NAN]])
X = np.arange(10.0).reshape(5, 2)
SPLIT = ClassSplit(seen=(0, 3), unseen=(4, 1), names=NAMES)


def test_alternating_follows_the_alphabet_but_indexes_the_columns_as_given():
    split = alternating_split(NAMES)
    assert split.seen_names == ("dog", "apple", "Bus")  # alphabetical: apple, bird, Bus, cat, dog
    assert (split.seen, split.unseen) == ((0, 3, 4), (1, 2))


def coco_labels():
    (seen, unseen), (_, others) = CLASS_SPLITS["coco48/17"], CLASS_SPLITS["coco65/15"]
    rest = ("traffic light", "fire hydrant", "stop sign", "sports ball", "baseball bat", "baseball glove",
            "tennis racket", "wine glass", "potted plant", "dining table", "cell phone", "teddy bear")  # fmt: skip
    return sorted({*seen, *unseen, *others, *rest})


def test_published_splits_have_the_labels_of_their_papers():
    sizes = {key: len(labels) for key, labels in protocol._read_splits().items()}
    coco = {("coco48/17", "seen"): 48, ("coco48/17", "unseen"): 17, ("coco65/15", "unseen"): 15}
    assert sizes == coco | {("nuswide925/81", "unseen"): 81}
    names = coco_labels()
    assert len(names) == 80
    for name, n_seen, n_unseen in (("coco48/17", 48, 17), ("coco65/15", 65, 15)):
        split = class_split(name, names)
        assert (len(split.seen), len(split.unseen)) == (n_seen, n_unseen)
        assert name_of_split(split) == name
    assert "toaster" in class_split("coco48/17", names).seen_names
    assert "toaster" in class_split("coco65/15", names).unseen_names
    assert class_split("voc_alternating", VOC_CLASSES) == alternating_split(VOC_CLASSES)
    tags = [f"tag {i}" for i in range(925)]
    split = class_split("nuswide925/81", [*CLASS_SPLITS["nuswide925/81"][1], *tags])
    assert split.seen_names == tuple(tags)
    assert name_of_split(alternating_split(names)) is None


def test_labels_of_a_published_split_are_found_in_other_spellings():
    names = ["Aeroplane" if name == "airplane" else name for name in coco_labels()]
    assert "Aeroplane" in class_split("coco48/17", names).unseen_names
    voc = ["airplane", *VOC_CLASSES[1:]]
    assert class_split("voc_alternating", voc).seen_names == ("airplane", *VOC_CLASSES[2::2])
    assert class_split("voc_alternating", ["airplane", *VOC_CLASSES]).seen_names == VOC_CLASSES[0::2]
    others = [name for name in coco_labels() if name != "cat"]
    assert {"Cat", "CAT"} & {*class_split("coco48/17", ["Cat", "CAT", *others]).unseen_names} == {"Cat"}


def test_what_a_published_split_lacks_is_named():
    with pytest.raises(
        ValueError, match=r"lack 1 of the 65 .*: 'toaster'\. Known splits: voc_alternating, coco48/17"
    ):
        class_split("coco48/17", [name for name in coco_labels() if name != "toaster"])
    with pytest.raises(ValueError, match=r"voc_alternating, coco48/17"):
        class_split("coco 48/17", NAMES)
    with pytest.raises(ValueError, match=r"has 65 seen labels, and the data 66 labels beside the 15 unseen ones"):
        class_split("coco65/15", [*coco_labels(), "unicorn"])


@given(n_labels=st.integers(2, 20), seed=st.integers(0, 99))
def test_random_split_is_a_partition_and_repeats_under_its_seed(n_labels, seed):
    names = [f"label {i}" for i in range(n_labels)]
    split = protocol.random_split(names, random_state=seed)
    assert sorted(split.seen + split.unseen) == list(range(n_labels))
    assert len(split.seen) == (n_labels + 1) // 2
    assert split == protocol.random_split(names, random_state=seed)


def test_named_split_gives_the_rest_to_the_side_that_is_not_named():
    assert protocol.named_split(NAMES, ["cat", "dog"]).unseen_names == ("bird", "apple", "Bus")
    assert protocol.named_split(NAMES, None, ["cat", "dog"]).seen_names == ("bird", "apple", "Bus")
    assert protocol.named_split(NAMES, ["cat", "dog"], ["apple"]) == ClassSplit((0, 2), (3,), NAMES)


@pytest.mark.parametrize(
    ("message", "make"),
    [
        ("seen: .* Name the labels", lambda: protocol.named_split(NAMES, None)),
        ("seen: .* Pass column names", lambda: protocol.named_split(NAMES, ["aple"])),
        ("unseen: 'cat' also", lambda: protocol.named_split(NAMES, ["dog", "cat"], ["cat"])),
        ("unseen:", lambda: protocol.named_split(NAMES, NAMES)),
        ("names:", lambda: alternating_split(["a", "b", "a"])),
        ("unseen:", lambda: protocol.random_split(NAMES, 5)),
        ("n_seen:", lambda: protocol.random_split(NAMES, 0)),
        ("classes:", lambda: class_split("coco48/17", NAMES)),
        ("names:", lambda: protocol.random_split(["a", "b", "a"])),
        ("names:", lambda: protocol.named_split(["a", "b", "a"], ["b"])),
        ("names:", lambda: class_split("coco48/17", ["a", "b", "a"])),
        ("names:", lambda: ClassSplit((0,), (1,), ("a", "b", "a"))),
        ("unseen:", lambda: protocol.named_split(NAMES, ["dog"], ["cat", "cat"])),
        ("seen:", lambda: ClassSplit((0, 0), (1,), NAMES)),
        ("seen: .* from 0 to 4", lambda: ClassSplit((0, 9), (1,), NAMES)),
        ("unseen:", lambda: ClassSplit((0,), (5,), NAMES)),
        ("unseen: 'dog' also", lambda: ClassSplit((0, 1, 2, 3, 4), (0,), NAMES)),
        ("Y:", lambda: training_view(X, Y[:, 0], SPLIT)),
        ("Y: 4 columns", lambda: training_view(X, Y[:, :4], SPLIT)),
        ("X:", lambda: training_view(X[:4], Y, SPLIT)),
        ("Y:", lambda: zero_shot_view(X[2:3], Y[2:3], SPLIT)),
        ("Y:", lambda: zero_shot_view(X, Y + 1, SPLIT)),
    ],
)
def test_bad_splits_and_views_are_refused_by_name(message, make):
    with pytest.raises(ValueError, match=f"^{message}"):
        make()


@pytest.mark.parametrize(
    ("view", "images", "labels"),
    [
        (training_view, [0, 1, 4], [0, 3]),  # images with a seen positive
        (zero_shot_view, [1, 3], [4, 1]),  # images with an unseen positive
        (generalized_view, [0, 1, 2, 3, 4], [0, 3, 4, 1]),
    ],
)
@pytest.mark.parametrize("make", [np.array, sparse.csr_array, sparse.coo_array, np.ndarray.tolist])
def test_a_view_has_the_images_and_labels_of_its_phase(view, images, labels, make):
    made = view(make(X), Y, SPLIT)
    assert (made.images.tolist(), made.labels.tolist()) == (images, labels)
    assert made.names == tuple(NAMES[label] for label in labels)
    np.testing.assert_array_equal(made.X.toarray() if sparse.issparse(made.X) else made.X, X[images])
    np.testing.assert_array_equal(made.Y, Y[np.ix_(images, labels)])


def test_all_images_are_not_copied_and_evaluate_is_the_summary_of_a_view():
    view, scores = generalized_view(X, Y, SPLIT), np.arange(20.0).reshape(5, 4)
    assert view.X is X
    assert protocol.evaluate(scores, view, k=2) == metrics.summary(view.Y, scores, 2)
    assert protocol.evaluate(scores, view) == metrics.summary(view.Y, scores, 3)
    assert generalized_view(X, 0 * Y, SPLIT).X is X  # it needs no positive


@pytest.mark.skipif(not (FOLDER / "voc2007_labels.csv").exists(), reason="the shared VOC2007 labels are absent")
def test_alternating_split_of_voc2007_gives_the_images_behind_the_papers_figures():
    with (FOLDER / "voc2007_labels.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    labels = np.array([row[-20:] for row in rows if row[1] == "test"], dtype=np.int8)
    views = (make(labels, labels, alternating_split(header[-20:])) for make in (zero_shot_view, generalized_view))
    per_image = [(*view.Y.shape, round(view.Y.sum(axis=1).mean(), 4)) for view in views]
    assert per_image == [(2210, 10, 1.0633), (4952, 20, 1.4162)]
