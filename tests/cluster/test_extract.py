"""Features made by the workers of a cluster are those that one machine makes."""

import os

import numpy as np
import pytest

pytest.importorskip("PIL")
pytest.importorskip("distributed")
pytest.importorskip("onnxruntime")
from tests.images.graphs import mean_colour
from tests.images.pictures import fill

from unseen.cluster.extract import extract_on_cluster
from unseen.images.features import extract_features

SETTINGS = 'size = 8\nmean = [0, 0, 0]\nstd = [1, 1, 1]\nvalue_range = 1\nfeatures = "colour"\n'


@pytest.fixture
def network(tmp_path):
    path = mean_colour(tmp_path / "network.onnx")
    path.with_suffix(".toml").write_text(SETTINGS)
    return path


def test_workers_make_the_features_of_one_machine_and_do_nothing_twice(client, network, tmp_path):
    photos = fill(tmp_path / "photos", 11)
    (photos / "0005.jpg").write_text("no picture")
    made = extract_on_cluster(photos, tmp_path / "parts", network, part_size=4)
    values = made.X.compute()
    before = [file.stat().st_mtime_ns for folder in made.folders for file in folder.glob("*/features.npy")]
    again = extract_on_cluster(photos, tmp_path / "parts", network, part_size=4)
    assert [
        file.stat().st_mtime_ns for folder in again.folders for file in folder.glob("*/features.npy")
    ] == before
    alone = extract_features(photos, tmp_path / "alone", network)
    assert made.paths == again.paths == alone.paths
    assert made.X.chunks[0] == (4, 3, 3)
    assert np.array_equal(values, alone.X)
    assert [problem.path for problem in made.problems] == [str(photos / "0005.jpg")]


def test_files_that_cannot_be_read_are_problems_of_their_own_as_on_one_machine(client, network, tmp_path):
    photos = fill(tmp_path / "photos", 5)
    for name in ("0002.jpg", "0003.jpg"):  # all of the second part
        (photos / name).write_text("no picture")
    (photos / "sub").mkdir()
    (photos / "notes.txt").write_text("0000.jpg")
    names = ["0000.jpg", "0001.jpg", "0002.jpg", "0003.jpg", "gone.jpg", "0004.jpg", "sub", "notes.txt"]
    (photos / "all.csv").write_text("\n".join(["path", *names]))
    made = extract_on_cluster(photos / "all.csv", tmp_path / "parts", network, part_size=2)
    alone = extract_features(photos / "all.csv", tmp_path / "alone", network)
    assert made.paths == alone.paths
    assert [folder.name for folder in made.folders] == ["00000", "00002"]
    assert np.array_equal(made.X.compute(), alone.X)
    assert [problem.path for problem in made.problems] == [problem.path for problem in alone.problems]
    assert made.problems[:4] == alone.problems[:4]
    with pytest.raises(ValueError, match=r"^sources: none of 2 files can be read, for example '.*0003.jpg'"):
        extract_on_cluster([photos / "0002.jpg", photos / "0003.jpg"], tmp_path / "none", network, part_size=1)


def test_relative_paths_mean_the_current_folder_of_the_client(client, network, tmp_path, monkeypatch):
    fill(tmp_path / "photos", 3)
    monkeypatch.chdir(tmp_path)
    assert set(client.run(os.getcwd).values()) != {str(tmp_path)}  # or this test would prove nothing
    made = extract_on_cluster("photos", "parts", network.name)
    assert made.paths == tuple(str(tmp_path / "photos" / f"000{i}.jpg") for i in range(3))
    assert made.X.compute().shape == (3, 3)
    with pytest.raises(ValueError, match="there is none called 'resnet'"):
        extract_on_cluster("photos", "others", "resnet")
