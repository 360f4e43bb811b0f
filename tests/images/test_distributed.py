"""Features made by the workers of a cluster are those that one machine makes."""

import numpy as np
import pytest

pytest.importorskip("PIL")
pytest.importorskip("distributed")
pytest.importorskip("onnxruntime")
from tests.images.graphs import mean_colour
from tests.images.pictures import fill
from tests.solvers.clusters import processes

from unseen.images.distributed import extract_on_cluster
from unseen.images.features import extract_features

SETTINGS = 'size = 8\nmean = [0, 0, 0]\nstd = [1, 1, 1]\nvalue_range = 1\nfeatures = "colour"\n'


def test_workers_make_the_features_of_one_machine_and_do_nothing_twice(tmp_path):
    photos = fill(tmp_path / "photos", 11)
    (photos / "0005.jpg").write_text("no picture")
    network = mean_colour(tmp_path / "network.onnx")
    network.with_suffix(".toml").write_text(SETTINGS)
    with processes():
        made = extract_on_cluster(photos, tmp_path / "parts", network, part_size=4)
        values = made.X.compute()
        before = [(folder / "features.npy").stat().st_mtime_ns for folder in made.folders]
        again = extract_on_cluster(photos, tmp_path / "parts", network, part_size=4)
        assert [(folder / "features.npy").stat().st_mtime_ns for folder in again.folders] == before
    alone = extract_features(photos, tmp_path / "alone", network)
    assert made.paths == again.paths == alone.paths
    assert made.X.chunks[0] == (4, 3, 3)
    assert np.array_equal(values, alone.X)
    assert [problem.path for problem in made.problems] == [str(photos / "0005.jpg")]
