"""`unseen features`, as a person types it."""

import numpy as np
import pytest
from tests.photos.world import paint, world
from typer.testing import CliRunner

from unseen.cli import app
from unseen.images.features import open_features


@pytest.fixture
def photos(tmp_path):
    (tmp_path / "photos").mkdir()
    for i in range(6):
        paint(tmp_path / "photos" / f"{i}.jpg", ["red"], i)
    return tmp_path / "photos"


def run(*arguments, code=0):
    backbone = ["--backbone", str(world() / "eye.onnx")]
    done = CliRunner().invoke(app, ["features", *map(str, arguments), *backbone])
    assert done.exit_code == code, done.output
    return done


def test_images_go_in_and_features_come_out(photos, tmp_path):
    done = run(photos, "-o", tmp_path / "feats", "--jobs", 2, "--batch", 4)
    assert f"{tmp_path / 'feats'}: 3 features of 6 images" in done.stdout
    made = open_features(tmp_path / "feats")
    assert len(made) == 6
    run(photos / "3.jpg", "-o", tmp_path / "feats")
    np.testing.assert_array_equal(open_features(tmp_path / "feats").X, made.X)
    assert "of 1 image," in run(photos / "3.jpg", "-o", tmp_path / "feats", "--only").stdout


def test_broken_files_are_shown_and_left_out(photos, tmp_path):
    for i in range(25):
        (photos / f"empty {i:02d}.jpg").write_bytes(b"")
    out = run(photos, "-o", tmp_path / "feats").stdout
    assert "3 features of 6 images" in out
    assert "25 files could not be read:" in out
    assert f"  {photos / 'empty 19.jpg'}: the file is empty\n  and 5 more\n" in out


def test_strict_fails_and_names_the_files(photos, tmp_path):
    (photos / "2.jpg").write_bytes(b"")
    done = run(photos, "-o", tmp_path / "feats", "--strict", code=2)
    assert str(photos / "2.jpg") in done.stderr
    assert "5 images" in run(photos, "-o", tmp_path / "feats").stdout


@pytest.mark.parametrize("case", ["empty folder", "nothing there", "output is a file", "output has other files"])
def test_mistakes_are_one_line_with_exit_code_2(photos, tmp_path, case):
    (tmp_path / "empty folder").mkdir()
    (tmp_path / "mine").write_text("mine")
    output = {"output is a file": tmp_path / "mine", "output has other files": photos}
    source = photos if case in output else tmp_path / case
    before = sorted(tmp_path.rglob("*"))
    done = run(source, "-o", output.get(case, tmp_path / "feats"), code=2)
    assert done.stderr.startswith("unseen features: ")
    assert done.stderr.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before
