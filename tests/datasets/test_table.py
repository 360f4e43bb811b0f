import numpy as np
import pytest
from tests.data import FOLDER

from unseen.datasets.annotations import Annotations
from unseen.datasets.sources import read_annotations
from unseen.datasets.table import read_table

needs_tables = pytest.mark.skipif(
    not (FOLDER / "voc2007_labels.csv").is_file(), reason=f"no VOC2007 labels in {FOLDER} (set UNSEEN_DATA)"
)
SAME = {"a.jpg": {"dog", "hot dog"}, "b.jpg": set(), "c.jpg": {"cat"}}


@pytest.fixture
def write(tmp_path):
    def write_content(content, name="labels.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_content


def shown(annotations):
    rows = zip(annotations.images, annotations.Y, strict=True)
    return {
        image: {name for name, cell in zip(annotations.labels, row, strict=True) if cell == 1}
        for image, row in rows
    }


@pytest.mark.parametrize(
    "content",
    [
        "path,labels\na.jpg,dog;hot dog\nb.jpg,\nc.jpg,cat\n",
        "path,labels\na.jpg, dog | hot dog |\nb.jpg,\nc.jpg,cat\n",
        'path,labels\na.jpg,"dog, hot dog, dog"\nb.jpg,""\nc.jpg,cat\n',
        "image\ttags\na.jpg\tdog,hot dog\nb.jpg\t\nc.jpg\tcat\n",
        "Filename;tags\na.jpg;dog|hot dog\nb.jpg;\nc.jpg;cat\n",
        "path,label\na.jpg,dog\nc.jpg,cat\na.jpg,hot dog\nb.jpg,\na.jpg,dog\n",
        "id,dog,hot dog,cat\na.jpg,1,1,0\nb.jpg,0,0,0\nc.jpg,0,0,1\n",
        "id,dog,hot dog,cat\na.jpg, 1,1.0,0\nb.jpg,0.0,0,False\nc.jpg,0,0 ,True\n",
        "\ufeffpath,labels\r\na.jpg,dog;hot dog\r\n\r\nb.jpg,\r\nc.jpg,cat",
    ],
)
def test_the_same_annotations_in_every_form(write, content):
    annotations = read_table(write(content))
    assert shown(annotations) == SAME
    assert annotations.Y.dtype == np.int8
    assert annotations.split is None


def test_labels_are_in_the_order_of_their_first_mention_or_column(write):
    assert read_table(write("path,labels\na,z;b\nc,a\n")).labels == ("z", "b", "a")
    assert read_table(write("path,z,b\na,0,1\n")).labels == ("z", "b")


@pytest.mark.parametrize("unknown", ["", "?", "nan", " "])
def test_an_empty_cell_of_a_column_is_unknown(write, unknown):
    annotations = read_table(write(f"path,dog,cat\na,1,{unknown}\nb,0,1\n"))
    np.testing.assert_array_equal(annotations.Y, [[1, np.nan], [0, 1]])
    assert annotations.Y.dtype == np.float32


def test_three_states_are_read_only_when_asked_for(write):
    path = write("path,dog,cat\na,1,0\nb,-1,1\n")
    assert read_table(path, tristate="absent").Y.tolist() == [[1, 0], [0, 1]]
    np.testing.assert_array_equal(read_table(path, tristate="unknown").Y, [[1, np.nan], [0, 1]])
    with pytest.raises(ValueError, match=r"line 3: column 'dog' holds '-1'. .*tristate='absent' or 'unknown'"):
        read_table(path)
    with pytest.raises(ValueError, match="tristate"):
        read_table(path, tristate="present")


def test_a_split_column_is_no_label_wherever_it_is(write):
    annotations = read_table(write("path,dog,subsplit,split\na,1,val,trainval\nb,0,,test\n"))
    assert annotations.labels == ("dog",)
    assert annotations.split == ("trainval", "test")
    assert read_table(write("path,split,label\na,train,dog\na,train,cat\n")).split == ("train",)
    assert read_annotations(write("path,labels,split\na,dog,x\nb,cat,y\n"), "y").images == ("b",)


def test_the_form_and_the_separator_can_be_told(write):
    path = write("path,label\na,0\nb,1\n")
    with pytest.raises(ValueError, match=r"column 'label' .* nothing but 0 and 1.*form='columns'"):
        read_table(path)
    assert read_table(path, form="columns").Y.tolist() == [[0], [1]]
    path = write('path,labels\na,"dog, brown; cat"\n')
    with pytest.raises(ValueError, match="Pass separator"):
        read_table(path)
    assert read_table(path, separator=";").labels == ("dog, brown", "cat")
    assert read_table(write("path,keywords\na,dog;cat\n"), form="lists").labels == ("dog", "cat")
    assert read_table(write("path,keywords,by\na,dog;cat,me\n"), form="lists", ignore=["by"]).labels == (
        "dog",
        "cat",
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        ("path,labels\n", "no rows"),
        ("path,dog\n", "no rows"),
        ("path,labels\na,\n", "names no label"),
        ("path\na\n", "line 1: there is no column of labels"),
        ("path,split\na,b\n", "line 1: there is no column of labels"),
        ("a.jpg,dog\nb.jpg,cat\n", "line 1: the first column is called 'a.jpg'.*path, image"),
        ("path,,dog\na,1,1\n", "line 1: column 2 has no name"),
        ("path,dog,dog\na,1,1\n", "line 1: 'dog' names more than one column"),
        ("path,dog\na,1\n\nb,2\n", "line 4: column 'dog' holds '2'"),
        ("path,keywords\na,dog;cat\n", "line 2: column 'keywords' holds 'dog;cat'.*'labels'"),
        ("path,labels,by\na,dog;cat,me\n", "line 2: column 'labels' holds 'dog;cat'.*pass ignore"),
        ("path,dog\na,1,0\n", "line 2: 3 cells for 2 columns"),
        ("path,labels\na,dog,cat\n", "line 2: 3 cells for 2 columns. Put cells"),
        ("path,dog\n,1\n", "line 2: the column 'path' is empty"),
        ("path,dog\na,1\nb,1\na,0\n", "line 4: 'a' is already in line 2"),
        ("path,labels\na,dog\na,cat\n", "line 3: 'a' is already in line 2"),
        ("path,label,split\na,dog,x\na,cat,y\n", "line 3: 'a' is in split 'y', but in 'x' in line 2"),
        ("path,labels\na,dog;cat\nb,dog|cat\n", r"line 3: labels are separated by '\|', but by ';' in line 2"),
        ('path,labels\na,"dog\nb,cat\n', "quotation marks"),
        (b"path,labels\na,dog\nb,caf\xe9\n", "line 3: byte 0xe9 is no UTF-8"),
        ("path,labels\na,dog\n".encode("utf-16"), "line 1: byte 0xff is no UTF-8"),
    ],
)
def test_a_bad_table_is_told_with_its_place(write, content, message):
    with pytest.raises(ValueError, match=message) as caught:
        read_table(write(content))
    assert "labels.csv" in str(caught.value)


def test_wrong_options_are_named(write, tmp_path):
    path = write("path,labels\na,dog\n")
    with pytest.raises(ValueError, match="form: 'long'"):
        read_table(path, form="long")
    with pytest.raises(ValueError, match="no column 'by' to ignore"):
        read_table(path, ignore=["by"])
    with pytest.raises(ValueError, match="the columns 'dog', 'cat', where the form 'pairs' has one"):
        read_table(write("path,dog,cat\na,1,1\n"), form="pairs")
    with pytest.raises(FileNotFoundError, match="no file"):
        read_table(tmp_path / "none.csv")


def test_the_format_is_found_out_and_options_of_others_are_refused(write, tmp_path):
    path = write("path,labels\na,dog\n")
    with pytest.raises(ValueError, match=r"crowd: no option of a table.*form, separator, tristate, ignore"):
        read_annotations(path, crowd="absent")
    with pytest.raises(ValueError, match="not split"):
        read_annotations(path, "test")
    with pytest.raises(ValueError, match=r"neither a VOC devkit .* nor NUS-WIDE"):
        read_annotations(tmp_path)
    with pytest.raises(FileNotFoundError, match="no file or folder"):
        read_annotations(tmp_path / "none")
    content = (
        '{"images": [{"id": 1, "file_name": "a"}], "categories": [{"id": 1, "name": "dog"}], "annotations": []}'
    )
    assert read_annotations(write(content, "no-suffix")).labels == ("dog",)


@needs_tables
def test_the_published_tables_of_voc2007_agree():
    plain = read_table(FOLDER / "voc2007_labels.csv")
    assert plain.Y.shape == (9963, 20)
    assert plain.split.count("trainval") == 5011
    three = FOLDER / "voc2007_labels_tristate.csv"
    np.testing.assert_array_equal(read_table(three, tristate="absent").Y, plain.Y)
    counts = read_table(three, tristate="unknown").counts()
    assert counts.unknown.sum() > 0
    np.testing.assert_array_equal(counts.present, plain.counts().present)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("path,labels\na.jpg,dog\n", {"tristate": "absent"}, "tristate: .* the form 'lists'. Leave it out"),
        ("path,label\na.jpg,dog\n", {"tristate": "absent"}, "tristate: .* the form 'pairs'"),
        ("path,dog\na.jpg,1\n", {"separator": "|"}, "separator: .* the form 'columns'. Leave it out"),
    ],
)
def test_options_of_another_form_are_refused(tmp_path, text, options, message):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_table(tmp_path / "a.csv", **options)


def test_labels_with_semicolons_are_read_as_they_were_written(tmp_path):
    written = Annotations(("x.jpg", "y.jpg"), ("a;b;c", "d;e"), np.array([[1, 0], [0, 1]]))
    written.to_csv(tmp_path / "a.csv")
    assert read_table(tmp_path / "a.csv", form="columns").labels == ("a;b;c", "d;e")
