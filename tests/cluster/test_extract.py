"""Features made by the workers of a cluster are those that one machine makes."""

import numpy as np
import pytest

pytest.importorskip("PIL")
pytest.importorskip("onnxruntime")
from tests.images.graphs import mean_colour
from tests.images.pictures import fill

from unseen.cluster.extract import extract_on_cluster
from unseen.images.features import extract_features


def test_workers_make_the_features_of_one_machine_and_do_nothing_twice(client, tmp_path, monkeypatch):
    monkeypatch.chdir(fill(tmp_path / "photos", 11))
    settings = 'size = 8\nmean = [0, 0, 0]\nstd = [1, 1, 1]\nvalue_range = 1\nfeatures = "colour"\n'
    mean_colour(tmp_path / "photos/network.onnx").with_suffix(".toml").write_text(settings)
    for name in ("0005.jpg", "0008.jpg", "0009.jpg", "0010.jpg"):  # the last three are all of the third part
        (tmp_path / "photos" / name).write_text("not a picture")
    made = extract_on_cluster(".", "parts", "network.onnx", part_size=4)
    files = sorted(tmp_path.glob("photos/parts/*/*/features.npy"))
    before = [path.stat().st_mtime_ns for path in files]
    assert len(before) >= 2
    again = extract_on_cluster(".", "parts", "network.onnx", part_size=4)
    assert [path.stat().st_mtime_ns for path in files] == before
    alone = extract_features(tmp_path / "photos", tmp_path / "alone", "network.onnx")
    assert made.paths == again.paths == alone.paths
    assert made.X.chunks[0] == (4, 3)
    assert np.array_equal(made.X.compute(), alone.X)
    assert [problem.path for problem in made.problems] == [problem.path for problem in alone.problems]
    with pytest.raises(ValueError, match=r"^sources: "):
        extract_on_cluster(["0009.jpg", "0010.jpg"], "none", "network.onnx", part_size=1)
