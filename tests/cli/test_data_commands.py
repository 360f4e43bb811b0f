"""`unseen data`: what a person types, and what comes back."""

import json

import pytest
from typer.testing import CliRunner

from unseen.cli import app
from unseen.datasets.table import read_table
from unseen.datasets.voc import VOC_CLASSES
from unseen.files import DownloadError

TABLE = "path,split,dog,cat\na.jpg,train,1,0\nb.jpg,train,1,\nc.jpg,test,0,1\n"


def run(*arguments):
    return CliRunner().invoke(app, ["data", *map(str, arguments)])


def cells(output):
    return {line.split()[0]: line.split()[1:] for line in output.splitlines() if line.strip()}


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text(TABLE)
    return path


@pytest.fixture
def devkit(tmp_path):
    lists = tmp_path / "VOCdevkit" / "VOC2007" / "ImageSets" / "Main"
    lists.mkdir(parents=True)
    for name in VOC_CLASSES:
        value = {"dog": 1, "cat": 0}.get(name, -1)
        (lists / f"{name}_trainval.txt").write_text(f"000001 {value}\n000002 -1\n")
    return tmp_path / "VOCdevkit"


def test_list_names_what_can_be_downloaded():
    done = run("list")
    assert done.exit_code == 0
    assert {"voc2007", "voc2012"} <= cells(done.stdout).keys()


def test_show_counts_images_labels_and_unknowns(table):
    done = run("show", table)
    assert done.exit_code == 0, done.stderr
    assert "3 images, 2 labels" in done.stdout
    assert "2 train, 1 test" in done.stdout
    rows = cells(done.stdout)
    assert rows["dog"] == ["2", "66.7", "0"]
    assert rows["cat"] == ["1", "50.0", "1"]  # of the two images where it is known
    assert cells(run("show", table, "--split", "test").stdout)["dog"] == ["0", "0.0"]


def test_show_keeps_the_most_frequent_labels_of_many(table):
    done = run("show", table, "--most", 1)
    assert "dog" in cells(done.stdout)
    assert "cat" not in cells(done.stdout)
    assert "1 rarer label: --most 0" in done.stdout
    assert {"dog", "cat"} <= cells(run("show", table, "--most", 0).stdout).keys()


def test_convert_writes_a_table_that_is_read_back(devkit, tmp_path):
    output = tmp_path / "new" / "out.csv"
    done = run("convert", devkit, "-o", output, "--difficult", "unknown")
    assert done.exit_code == 0, done.stderr
    assert "2 images, 20 labels" in done.stdout
    annotations = read_table(output)
    assert annotations.labels == VOC_CLASSES
    assert annotations.counts()[2].sum() == 1
    assert run("convert", output, "-o", tmp_path / "again.csv").exit_code == 0
    assert (tmp_path / "again.csv").read_bytes() == output.read_bytes()


def test_every_format_has_its_options(tmp_path):
    content = {
        "images": [{"id": 1, "file_name": "a.jpg"}],
        "categories": [{"id": 1, "name": "dog"}],
        "annotations": [{"image_id": 1, "category_id": 1, "iscrowd": 1}],
    }
    coco = tmp_path / "instances.json"
    coco.write_text(json.dumps(content))
    assert cells(run("show", coco).stdout)["dog"] == ["1", "100.0"]
    assert cells(run("show", coco, "--crowd", "unknown").stdout)["dog"] == ["0", "-", "1"]
    table = tmp_path / "table.csv"
    table.write_text('path,keywords,by\na.jpg,"dog, big / cat",me\n')
    done = run("show", table, "--form", "lists", "--separator", "/", "--ignore", "by")
    assert "1 image, 2 labels" in done.stdout
    assert "dog, big" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "nothing-here"], "unseen data show: source: "),
        (["show", "TABLE", "--split", "val"], "unseen data show: split: "),
        (["show", "TABLE", "--year", "2007"], "unseen data show: year: "),
        (["convert", "TABLE", "-o", "FOLDER"], "--output: "),
        (["convert", "nothing-here", "-o", "out.csv"], "unseen data convert: source: "),
        (["get", "imagenet"], "unseen data get: name: 'imagenet' was given. Choose one of 'voc2007', 'voc2012'"),
        (["get", "voc2007", "--into", "TABLE"], "unseen data get: into: "),
    ],
)
def test_errors_are_one_line_and_exit_code_2(table, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    names = {"TABLE": table, "FOLDER": tmp_path}
    done = run(*(names.get(word, word) for word in arguments))
    assert done.exit_code == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["labels.csv"]


def test_get_shows_its_stages_and_what_to_do_next(tmp_path, monkeypatch):
    def get_data_set(name, into, report):
        report(f"downloading {name}")(1, None)
        report("unpacking")(2, 2)
        return into / "VOCdevkit" / "VOC2007"

    monkeypatch.setattr("unseen.datasets.download.get_data_set", get_data_set)
    done = run("get", "voc2007", "--into", tmp_path)
    assert done.exit_code == 0
    assert "... downloading voc2007\n... unpacking\n" in done.stdout
    assert f"unseen data show {tmp_path / 'VOCdevkit' / 'VOC2007'}" in done.stdout


def test_get_without_a_network_says_so_in_one_line(tmp_path, monkeypatch):
    def download(url, path, **_):
        raise DownloadError(f"url: {url} cannot be downloaded (the host cannot be reached). Put it at {path}.")

    monkeypatch.setattr("unseen.datasets.download.download", download)
    done = run("get", "voc2012", "--into", tmp_path)
    assert done.exit_code == 2
    assert "VOCtrainval_11-May-2012.tar cannot be downloaded" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
