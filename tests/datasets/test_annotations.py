import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unseen.datasets.annotations import Annotations
from unseen.datasets.table import read_table

Y = np.array([[1, 0], [0, 1], [1, 1]])


def make(
    images=("a/1.jpg", "a/2.jpg", "b/3.jpg"), labels=("dog", "cat"), matrix=Y, split=("train", "test", "test")
):
    return Annotations(images, labels, matrix, split)


def test_the_type_of_y_tells_whether_all_is_known():
    assert make().Y.dtype == np.int8
    assert make(matrix=Y.astype(bool)).Y.dtype == np.int8
    assert make(matrix=Y.astype(float)).Y.dtype == np.int8
    partly = Y.astype(float)
    partly[0, 1] = np.nan
    annotations = make(matrix=partly)
    assert annotations.Y.dtype == np.float32
    assert annotations.select(split="test").Y.dtype == np.int8  # the unknown entry is gone


def test_y_cannot_be_changed_and_the_array_given_still_can():
    matrix = Y.astype(np.int8)
    annotations = make(matrix=matrix)
    with pytest.raises(ValueError, match="read-only"):
        annotations.Y[0, 0] = 0
    matrix[0, 0] = 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"images": ("x", "x", "y")}, "images: 'x' given more than once"),
        ({"images": ("x", "", "y")}, "images: none, or one without a name"),
        ({"images": (), "matrix": np.zeros((0, 2)), "split": None}, "images: none"),
        ({"labels": ("dog", "dog")}, "labels: 'dog' given more than once"),
        ({"labels": ("dog", " ")}, "labels: the name of label 1"),
        ({"split": ("train",)}, "split: 1 were given for 3 images"),
        ({"matrix": Y.T}, r"Y: its shape is \(2, 3\)"),
        ({"matrix": Y.astype(str)}, "Y: its shape"),
        ({"matrix": 2 * Y}, "Y: 2 was given"),
        ({"matrix": 0.5 * Y}, "Y: 0.5 was given"),
        ({"matrix": Y - 1}, "Y: -1 was given"),
    ],
)
def test_what_does_not_fit_together_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        make(**changes)


def test_select_keeps_rows_columns_and_parts_together():
    chosen = make().select(images=["b/3.jpg", "a/1.jpg"], labels=["cat"])
    assert chosen.images == ("b/3.jpg", "a/1.jpg")
    assert chosen.labels == ("cat",)
    assert chosen.split == ("test", "train")
    assert chosen.Y.tolist() == [[1], [0]]
    assert make().select(split=["train", "test"]).images == make().images
    assert make().select(split="test", images=["a/2.jpg", "a/1.jpg"]).images == ("a/2.jpg",)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"labels": ["dgo"]}, r"labels: 1 unknown label: 'dgo' \(nearest: 'dog'\)"),
        ({"split": "val"}, "split: 'val' was given. Choose of 'train', 'test'"),
        ({"split": "test", "images": ["a/1.jpg"]}, "split: none of the images is in 'test'"),
        ({"images": ["c.jpg"]}, "1 of 1 images have no annotations: 'c.jpg'.*like 'a/1.jpg'"),
        ({"images": "a/1.jpg"}, "the single path 'a/1.jpg'"),
    ],
)
def test_what_cannot_be_selected_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        make().select(**arguments)
    with pytest.raises(ValueError, match="not split"):
        make(split=None).select(split="test")


def test_feature_rows_find_their_annotations_by_path_or_by_file_name(tmp_path):
    ids = make(images=("000001", "000002", "2008.03"))
    assert ids.rows_for(["JPEGImages/000002.jpg", tmp_path / "000001.PNG", "2008.03"]).tolist() == [1, 0, 2]
    paths = make()
    assert paths.rows_for(["a\\2.jpg", "3", "/else/a/1.png", "3"]).tolist() == [1, 2, 0, 2]
    assert paths.rows_for(["4.jpg", "3"], missing="mark").tolist() == [-1, 2]


def test_an_exact_path_wins_over_a_file_name():
    annotations = make(images=("1.jpg", "b/1.jpg", "c/1.jpg"))
    assert annotations.rows_for(["b/1.jpg", "1.jpg"]).tolist() == [1, 0]
    assert make(images=("a/1.jpg", "b/1.jpg", "b/2.jpg")).rows_for(["/data/b/1.jpg"]).tolist() == [1]


def test_folders_that_contradict_each_other_do_not_fit():
    annotations = make(images=("cats/1.jpg", "./dogs/2.jpg", "../mice/3.jpg"))
    paths = ["pm/dogs/1.jpg", "wildcats/1.jpg", "cats/1/1.jpg", "pm/dogs/2.jpg", "/data/mice/3.jpg", "1.png"]
    assert annotations.rows_for(paths, missing="mark").tolist() == [-1, -1, -1, 1, 2, 0]
    with pytest.raises(ValueError, match=r"1 of 1 images have no annotations: 'pm/dogs/1.jpg'.*like 'cats/1.jpg'"):
        annotations.rows_for(["pm/dogs/1.jpg"])


@pytest.mark.parametrize(
    ("annotated", "paths"),
    [
        ("a/IMG_1.jpg", ["a/IMG_1.jpg", "b/IMG_1.jpg"]),
        ("a/IMG_1.jpg", ["/p/a/IMG_1.jpg", "/p/b/IMG_1.jpg"]),
        ("IMG_1.jpg", ["IMG_1.jpg", "b/IMG_1.jpg"]),
        ("IMG_1.jpg", ["b/IMG_1.jpg", "b/IMG_1.png"]),
    ],
)
def test_a_file_that_fits_better_takes_the_annotations(annotated, paths):
    annotations = make(images=(annotated, "2.jpg", "3.jpg"))
    assert annotations.rows_for(paths, missing="mark").tolist() == [0, -1]
    assert annotations.rows_for(paths[::-1], missing="mark").tolist() == [-1, 0]


def test_a_suffix_tells_images_of_the_same_name_apart():
    annotations = make(images=("a/1.jpg", "a/1.png", "b/2.jpg"))
    assert annotations.rows_for(["/data/a/1.png", "1.jpg"]).tolist() == [1, 0]


def test_no_row_is_guessed():
    annotations = make(images=("a/1.jpg", "b/1.jpg", "2"))
    with pytest.raises(ValueError, match=r"'1.jpg' may be 'a/1.jpg', 'b/1.jpg'"):
        annotations.rows_for(["1.jpg"])
    with pytest.raises(ValueError, match=r"'x/2.jpg' and 'y/2.jpg' both fit the same"):
        annotations.rows_for(["x/2.jpg", "y/2.jpg"])
    # 'v1.5' is a name with a dot, not a file with a suffix
    with pytest.raises(ValueError, match="no annotations"):
        make(images=("v1.5", "v1.6", "v1.7")).rows_for(["v1"])


@given(st.permutations(range(6)))
def test_rows_follow_any_order_of_the_paths(order):
    images = tuple(f"folder/{i}.jpg" for i in range(6))
    annotations = Annotations(images, ("a",), np.zeros((6, 1)))
    assert annotations.rows_for([f"/copy/folder/{i}.png" for i in order]).tolist() == list(order)


def test_counts_add_up_to_the_number_of_images():
    matrix = np.array([[1, 0], [np.nan, 0], [1, 1]])
    counts = make(matrix=matrix).counts()
    assert [column.tolist() for column in counts] == [[2, 1], [0, 2], [1, 0]]
    assert (sum(counts) == 3).all()


NAMES = st.lists(
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).map(str.strip).filter(bool),
    min_size=1, max_size=4, unique=True,
)  # fmt: skip


@given(NAMES, NAMES, st.data())
def test_a_table_gives_back_what_was_written(tmp_path_factory, images, labels, data):
    images = list(dict.fromkeys(name.replace("\\", "/") for name in images))
    # Names that mean something in a table are refused, which has a test of its own.
    labels = [name for name in labels if name.lower() not in ("split", "subsplit")] or ["dog"]
    if len(labels) == 1 and labels[0].lower() in ("label", "labels", "tag", "tags"):
        labels = ["dog"]
    cells = st.sampled_from([0.0, 1.0, np.nan])
    matrix = [[data.draw(cells) for _ in labels] for _ in images]
    split = data.draw(st.none() | st.just(["test"] * len(images)))
    written = Annotations(tuple(images), tuple(labels), matrix, split)
    path = tmp_path_factory.mktemp("table") / "labels.csv"
    written.to_csv(path)
    read = read_table(path)
    assert (read.images, read.labels, read.split) == (written.images, written.labels, written.split)
    assert read.Y.dtype == written.Y.dtype
    np.testing.assert_array_equal(read.Y, written.Y)


def test_a_label_may_be_called_like_the_column_of_images(tmp_path):
    make(labels=("path", "tag")).to_csv(tmp_path / "t.csv")
    assert read_table(tmp_path / "t.csv").labels == ("path", "tag")


def test_a_label_that_a_table_would_misread_is_refused(tmp_path):
    with pytest.raises(ValueError, match="'Split' means something else in a table"):
        make(labels=("dog", "Split")).to_csv(tmp_path / "t.csv")
    with pytest.raises(ValueError, match="'tags' means something else"):
        make(labels=("tags",), matrix=Y[:, :1]).to_csv(tmp_path / "t.csv")
    assert list(tmp_path.iterdir()) == []
