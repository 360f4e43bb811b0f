"""Tables are read in each of their forms; nothing in them is guessed."""

import numpy as np
import pytest

from unseen.datasets import read_annotations
from unseen.datasets.table import read_table


@pytest.fixture
def write(tmp_path):
    def write_content(content):
        (tmp_path / "labels.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
        return tmp_path / "labels.csv"

    return write_content


@pytest.mark.parametrize(
    "content",
    [
        "path,labels\na.jpg,dog;hot dog\nb.jpg,\nc.jpg,cat\n",
        "path,labels\na.jpg, dog | hot dog |\nb.jpg,\nc.jpg,cat\n",
        'path,labels\na.jpg,"dog, hot dog, dog"\nb.jpg,""\nc.jpg,cat\n',
        "image\ttags\na.jpg\tdog,hot dog\nb.jpg\t\nc.jpg\tcat\n",
        "Filename;tags\na.jpg;dog|hot dog\nb.jpg;\nc.jpg;cat\n",
        "path,label\na.jpg,dog\nb.jpg,\na.jpg,hot dog\nc.jpg,cat\na.jpg,dog\n",
        "id,dog,hot dog,cat\na.jpg,1,1,0\nb.jpg,0,0,0\nc.jpg,0,0,1\n,,,\n",
        "id,dog,hot dog,cat\na.jpg, 1,1.0,0\nb.jpg,0.0,0,False\nc.jpg,0,0 ,TRUE\n",
        "\ufeffpath,labels\r\na.jpg,dog;hot dog\r\n\r\nb.jpg,\r\nc.jpg,cat",
    ],
)
def test_the_same_annotations_in_every_form(write, content):
    annotations = read_annotations(write(content))
    assert (annotations.images, annotations.labels) == (("a.jpg", "b.jpg", "c.jpg"), ("dog", "hot dog", "cat"))
    assert annotations.Y.tolist() == [[1, 1, 0], [0, 0, 0], [0, 0, 1]]
    assert annotations.split is None


def test_an_empty_cell_of_a_column_is_unknown(write):
    annotations = read_table(write("path,dog,cat\na,1,\nb,?,1\nc,0,NaN\nd,0, \n"))
    np.testing.assert_array_equal(annotations.Y, [[1, np.nan], [np.nan, 1], [0, np.nan], [0, np.nan]])


def test_three_states_are_read_only_when_asked_for(write):
    path = write("path,dog,cat\na,1,0\nb,-1,1\n")
    assert read_table(path, tristate="absent").Y.tolist() == [[1, 0], [0, 1]]
    np.testing.assert_array_equal(read_table(path, tristate="unknown").Y, [[1, np.nan], [0, 1]])
    with pytest.raises(ValueError, match=r"^path: .*tristate"):
        read_table(path)


def test_a_split_column_is_not_a_label_wherever_it_is(write):
    annotations = read_table(write("path,dog,subsplit,Split\na,1,val,trainval\nb,0,,test\n"))
    assert (annotations.labels, annotations.split) == (("dog",), ("trainval", "test"))
    assert read_table(write("path,split,label\na,train,dog\na,train,cat\n")).split == ("train",)
    assert read_annotations(write("path,labels,split\na,dog,x\nb,cat,y\n"), "y").images == ("b",)


def test_the_form_and_the_separator_can_be_told(write):
    assert read_table(write("path,label\na,0\nb,1\n"), form="columns").Y.tolist() == [[0], [1]]
    assert read_table(write('path,labels\na,"big, dog; cat"\n'), separator=";").labels == ("big, dog", "cat")
    assert read_table(write("path,by,keywords\na,me,c;b\n"), form="lists", ignore=["by"]).labels == ("c", "b")


@pytest.mark.parametrize(
    "content",
    [
        "", "\n\n", "path,labels\n", "path,labels\na,\n", "path\na\n", "path,split\na,b\n",
        "a.jpg,dog\nb.jpg,cat\n", "path,,dog\na,1,1\n", "path,dog,dog\na,1,1\n", "path,dog\na,1\n\nb,2\n",
        "path,keywords\na,dog;cat\n", "path,labels,by\na,dog;cat,me\n", "path,dog\na,1,0\n", "path,dog,cat\na,1\n",
        "path,labels\na,dog,cat\n", "path,dog\na,1\nb,1\na,0\n", "path,labels\na,dog\na,cat\n",
        "path,label\na,0\nb,1\n", "path,label,split\na,dog,x\na,cat,y\n", "path,labels\na,dog;cat\nb,dog|cat\n",
        'path,labels\na,"dog\nb,cat\n', b"path,labels\na,dog\nb,caf\xe9\n", "path,dog".encode("utf-16"),
    ],
)  # fmt: skip
def test_a_bad_table_is_refused(write, content):
    with pytest.raises(ValueError, match=r"^path: .*labels\.csv"):
        read_table(write(content))


@pytest.mark.parametrize(
    ("argument", "options"),
    [
        ("form", {"form": "long"}), ("path", {"form": "lists"}), ("path", {"ignore": ["by"]}),
        ("tristate", {"tristate": "present"}), ("tristate", {"tristate": "absent"}),  # an option of another form
        ("separator", {"separator": ";", "form": "columns"}), ("crowd", {"crowd": "absent"}),
        ("split", {"split": "test"}),
    ],
)  # fmt: skip
def test_wrong_options_are_named(write, argument, options):
    columns = "dog,cat\na,1,0" if "form" in options else "labels\na,dog"
    with pytest.raises(ValueError, match=f"^{argument}: "):
        read_annotations(write(f"path,{columns}\n"), **options)


def test_what_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"^path: "):
        read_table(tmp_path / "none.csv")
    for source in (tmp_path, tmp_path / "none"):
        with pytest.raises(FileNotFoundError, match=r"^source: "):
            read_annotations(source)
