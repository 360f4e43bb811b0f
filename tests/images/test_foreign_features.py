"""Features made elsewhere: NumPy's files and tables."""

import numpy as np
import pytest

from unseen.images._foreign_features import holds_features
from unseen.images.features import open_features


def test_files_made_elsewhere_can_be_opened(tmp_path):
    X = np.arange(6, dtype=np.float16).reshape(3, 2)
    np.savez(
        tmp_path / "a.npz", features=X, image_id=np.array(["x", "y", "z"]), imagenet_logits=np.ones((3, 1000))
    )
    opened = open_features(tmp_path / "a.npz")
    assert opened.X.dtype == np.float32
    assert np.array_equal(opened.X, X)
    assert opened.rows(["z", "x.jpg"]).tolist() == [2, 0]
    assert opened.class_names[:1] == ("tench",)
    np.save(tmp_path / "b.npy", X.astype(np.float32))
    assert open_features(tmp_path / "b.npy").paths == ("0", "1", "2")
    assert open_features(tmp_path / "b.npy", ids=["p", "q", "r"]).rows(["r"]).tolist() == [2]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"other": np.ones((2, 2))}, "has no array 'features' or 'X', only 'other'"),
        ({"features": np.ones(3)}, r"has shape \(3,\)"),
        ({"features": np.ones((2, 2)), "ids": np.array(["a"])}, "ids: 1 for the 2 images"),
        ({"features": np.ones((2, 2)), "ids": np.array(["a", "a"])}, "'a' more than once"),
        ({"features": np.array([[{}]])}, "cannot be read as features"),
    ],
)
def test_files_that_hold_no_features_are_refused(tmp_path, arrays, message):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        open_features(tmp_path / "a.npz")


def test_what_is_no_feature_file_is_refused(tmp_path):
    for name in ("a.npz", "a.npy", "a.txt"):
        (tmp_path / name).write_text("hello, this is no array")
        with pytest.raises(ValueError, match="cannot be read as features") as refused:
            open_features(tmp_path / name)
        assert "allow_pickle" not in str(refused.value)
    with pytest.raises(FileNotFoundError, match="there are no features"):
        open_features(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="is no folder of features"):
        open_features(tmp_path)


def test_a_file_says_whether_it_names_its_images(tmp_path):
    np.savez(tmp_path / "named.npz", features=np.ones((2, 2)), image_id=np.arange(2))
    np.savez(tmp_path / "bare.npz", X=np.ones((2, 2)))
    assert open_features(tmp_path / "named.npz").has_names
    assert not open_features(tmp_path / "bare.npz").has_names
    assert open_features(tmp_path / "bare.npz", ids=["a", "b"]).has_names


def test_whole_numbers_are_features(tmp_path):
    np.save(tmp_path / "a.npy", np.array([[1, 2], [3, 4]], dtype=np.int64))
    X = open_features(tmp_path / "a.npy").X
    assert X.dtype == np.float32
    assert X.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_table_names_the_images_first(tmp_path, separator):
    lines = [["image_id", "f0", "f1"], [" x.jpg ", "1", "-2.5"], ["y.jpg", "3e-2", "0"]]
    (tmp_path / "a.csv").write_text("\n".join(separator.join(line) for line in lines))
    opened = open_features(tmp_path / "a.csv")
    assert opened.paths == ("x.jpg", "y.jpg")
    np.testing.assert_array_equal(opened.X, np.array([[1, -2.5], [3e-2, 0]], dtype=np.float32))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: no names of columns. Begin with a line such as image_id,f0"),
        ("x\ny\n", "line 1: no names of columns"),
        ("x,1,2\ny,3,4\n", "line 1: no names of columns"),
        ("id,f0,f1\nx,1\n", "line 2: 2 cells for 3 columns"),
        ("id,f0,f1\nx,1,2\ny,1,much\n", "line 3: 'f1' is 'much'. Write a number"),
        ("id,f0,f1\n", r"has shape \(0, 2\)"),
        ("id,f0\nx,1\nx,2\n", "'x' more than once"),
    ],
)
def test_a_table_that_is_none_is_refused(tmp_path, text, message):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        open_features(tmp_path / "a.csv")


def test_whether_an_archive_holds_features_is_told_without_reading_them(tmp_path):
    np.savez(tmp_path / "a.npz", features=np.ones((2, 2)))
    np.savez(tmp_path / "b.npz", vectors=np.ones((2, 2)))
    (tmp_path / "c.npz").write_text("damaged: who opens it is to hear of it")
    assert [holds_features(tmp_path / f"{name}.npz") for name in "abc"] == [True, False, True]


def test_logits_are_of_the_same_images(tmp_path):
    np.savez(tmp_path / "a.npz", features=np.ones((3, 2)), imagenet_logits=np.ones((4, 1000)))
    with pytest.raises(ValueError, match=r"features of 3 images and logits of 4. Save both of the same images"):
        open_features(tmp_path / "a.npz")


def test_ids_are_text_whatever_their_type(tmp_path):
    for names, expected in (
        (np.array([b"p1", b"p2"]), ("p1", "p2")),
        (np.array([1.0, 2.0]), ("1", "2")),
        (np.array([1.5, 2.0]), ("1.5", "2")),
        (np.array([7, 8], dtype=np.uint16), ("7", "8")),
    ):
        np.savez(tmp_path / "a.npz", features=np.ones((2, 2)), image_id=names)
        assert open_features(tmp_path / "a.npz").paths == expected


def test_rows_that_are_no_numbers_are_named(tmp_path):
    X = np.ones((4, 2))
    X[2, 1] = np.nan
    np.savez(tmp_path / "a.npz", features=X)
    with pytest.raises(ValueError, match=r"'features' in .* is NaN or infinite in 1 row, first in row 2 from 0"):
        open_features(tmp_path / "a.npz")


def test_a_table_as_pandas_writes_it_may_have_numbers_for_names(tmp_path):
    (tmp_path / "a.csv").write_text("image_id,0,1\nx,5,6\n")
    assert open_features(tmp_path / "a.csv").X.tolist() == [[5, 6]]
