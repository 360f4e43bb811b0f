"""`unseen data`, as a person types it."""

import pytest
from typer.testing import CliRunner

from unseen.cli import app
from unseen.datasets import read_annotations
from unseen.datasets.voc import VOC_CLASSES


def run(*arguments, code=0):
    done = CliRunner().invoke(app, ["data", *map(str, arguments)])
    assert done.exit_code == code, done.output
    return done


def cells(output):
    return {line.split()[0]: line.split()[1:] for line in output.splitlines() if line.strip()}


@pytest.fixture
def table(tmp_path):
    (tmp_path / "labels.csv").write_text("path,split,dog,cat\na.jpg,train,1,0\nb.jpg,train,1,\nc.jpg,test,0,1\n")
    return tmp_path / "labels.csv"


def test_show_counts_images_labels_and_unknowns(table):
    out = run("show", table).stdout
    assert "3 images, 2 labels" in out
    assert "2 train, 1 test" in out
    assert cells(out)["dog"] == ["2", "66.7", "0"]
    assert cells(out)["cat"] == ["1", "50.0", "1"]  # of the two images where it is known
    assert cells(run("show", table, "--split", "test").stdout)["dog"] == ["0", "0.0", "0"]


def test_show_keeps_the_most_frequent_labels_of_many(table):
    out = run("show", table, "--most", 1, "--ignore", "split").stdout
    assert "dog" in cells(out)
    assert "cat" not in cells(out)
    assert {"dog", "cat"} <= cells(run("show", table, "--most", 0).stdout).keys()


def test_annotations_are_converted_to_a_table_that_is_read_back(tmp_path):
    lists = tmp_path / "VOCdevkit" / "VOC2007" / "ImageSets" / "Main"
    lists.mkdir(parents=True)
    for name in VOC_CLASSES:
        value = {"dog": 1, "cat": 0}.get(name, -1)
        (lists / f"{name}_trainval.txt").write_text(f"000001 {value}\n000002 -1\n")
    output = tmp_path / "new" / "out.csv"
    run("show", tmp_path / "VOCdevkit", "-o", output, "--difficult", "unknown")
    annotations = read_annotations(output)
    assert annotations.labels == VOC_CLASSES
    assert annotations.counts()[2].sum() == 1
    run("show", output, "-o", tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_bytes() == output.read_bytes()


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", "nothing-here"],
        ["show", "TABLE", "--split", "val"],
        ["show", "TABLE", "--year", "2007"],
        ["show", "TABLE", "-o", "FOLDER"],
        ["get", "imagenet"],
        ["get", "voc2007", "-o", "TABLE"],
    ],
)
def test_mistakes_are_one_line_with_exit_code_2(table, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    names = {"TABLE": table, "FOLDER": tmp_path}
    done = run(*(names.get(word, word) for word in arguments), code=2)
    assert done.stderr.startswith(f"unseen data {arguments[0]}: ")
    assert done.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["labels.csv"]


def test_get_shows_its_stages_and_what_to_do_next(tmp_path, monkeypatch):
    def get_data_set(name, into, report):
        report(f"downloading {name}")(1, None)
        report("unpacking")(2, 2)
        return into / "VOCdevkit" / "VOC2007"

    monkeypatch.setattr("unseen.datasets.download.get_data_set", get_data_set)
    assert "voc2007" in cells(run("list").stdout)
    out = run("get", "voc2007", "-o", tmp_path).stdout
    assert "... downloading voc2007\n... unpacking\n" in out
    assert f"unseen data show {tmp_path / 'VOCdevkit' / 'VOC2007'}" in out
