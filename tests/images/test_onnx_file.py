"""Any ONNX graph of pictures is a backbone, with a TOML file or arguments that say how to feed it."""

import sys

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("PIL")
from PIL import Image
from tests.images.graphs import mean_colour, save_graph

from unseen.images.backbones import Preprocessing, open_backbone, open_onnx, prepare
from unseen.images.imagenet import class_names

SETTINGS = """
size = 8
mean = [0, 0, 0]
std = [1, 1, 1]
value_range = 1
features = "colour"
logits = "warmth"
class_names = "classes.txt"
"""
PICTURES = [Image.new("RGB", (12, 9), colour) for colour in ("red", "blue", "lime")]


def write(tmp_path, settings=SETTINGS, **graph):
    (tmp_path / "model.toml").write_text(settings)
    (tmp_path / "classes.txt").write_text("warm\ncold\n")
    return mean_colour(tmp_path / "model.onnx", **graph)


def batch_of(backbone):
    return np.stack([prepare(picture, backbone.preprocessing) for picture in PICTURES])


def test_a_toml_file_beside_the_graph_says_it_all(tmp_path):
    path = write(tmp_path)
    backbone = open_backbone(str(path))
    assert backbone.name == str(path)
    assert backbone.n_features == 3
    assert backbone.class_names == ("warm", "cold")
    assert backbone.preprocessing == Preprocessing(8, value_range=1.0)
    features, logits = backbone.describe(batch_of(backbone))
    np.testing.assert_allclose(features, [[1, 0, 0], [0, 0, 1], [0, 1, 0]], atol=1e-6)
    np.testing.assert_allclose(logits, [[1, 0], [0, 1], [0, 0]], atol=1e-6)


def test_a_relative_path_is_kept_as_one_that_holds_everywhere(tmp_path, monkeypatch):
    write(tmp_path)
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    name = open_backbone("../model.onnx").name
    monkeypatch.chdir("/")
    assert open_backbone(name).name == name == str(tmp_path / "model.onnx")


@pytest.mark.parametrize("n", [1, 2, 5])
def test_graphs_of_a_fixed_number_of_pictures_take_any_number(tmp_path, n):
    path = write(tmp_path, shape=(n, 3, 8, 8), n_out=n)
    backbone = open_backbone(path)
    features, logits = backbone.describe(batch_of(backbone))
    np.testing.assert_allclose(features, [[1, 0, 0], [0, 0, 1], [0, 1, 0]], atol=1e-6)
    assert logits.shape == (3, 2)
    assert backbone.describe(np.zeros((0, 3, 8, 8), dtype=np.float32)).features.shape == (0, 3)


def test_channels_may_come_last(tmp_path):
    path = write(tmp_path, SETTINGS + 'layout = "NHWC"', shape=("n", 8, 8, 3))
    backbone = open_backbone(path)
    np.testing.assert_allclose(backbone.describe(batch_of(backbone)).features[0], [1, 0, 0], atol=1e-6)


def test_the_size_is_read_off_the_graph(tmp_path):
    settings = SETTINGS.replace("size = 8", "")
    assert open_backbone(write(tmp_path, settings, shape=("n", 3, 6, 6))).preprocessing.size == 6
    with pytest.raises(ValueError, match=r"model\.toml.*size: 'model\.onnx' takes pictures of any size"):
        open_backbone(write(tmp_path, settings))


def test_arguments_take_the_place_of_the_toml_file(tmp_path):
    path = mean_colour(tmp_path / "model.onnx")
    how = Preprocessing(4, value_range=1.0)
    with pytest.raises(ValueError, match=r"features: .*has the outputs 'colour', 'warmth'"):
        open_backbone(path, preprocessing=how)
    backbone = open_onnx(path, preprocessing=how, features="warmth")
    assert backbone.describe(batch_of(backbone)).logits is None
    assert backbone.n_features == 2
    (tmp_path / "model.toml").write_text(SETTINGS.replace('class_names = "classes.txt"', ""))
    assert open_backbone(path, preprocessing=how).preprocessing == how


def test_the_fingerprint_tells_weights_outputs_and_preprocessing_apart(tmp_path):
    path = write(tmp_path)
    first = open_backbone(path).fingerprint
    assert open_backbone(path, n_threads=1).fingerprint == first
    assert open_onnx(path, features="warmth").fingerprint != first
    assert open_backbone(path, preprocessing=Preprocessing(8)).fingerprint != first
    write(tmp_path, shape=("n", 3, 8, 8))
    assert open_backbone(path).fingerprint != first


def test_weights_in_a_file_of_their_own_count_too(tmp_path):
    onnx = pytest.importorskip("onnx")
    path = write(tmp_path)
    model = onnx.load(path)
    prints = []
    for factor in (1.0, 2.0):
        table = onnx.numpy_helper.from_array(np.full((3, 2), factor, dtype=np.float32), "table")
        model.graph.initializer[0].CopyFrom(table)
        (tmp_path / "weights.bin").unlink(missing_ok=True)
        onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
        backbone = open_backbone(path)
        np.testing.assert_allclose(backbone.describe(batch_of(backbone)).logits[0], factor)
        prints.append(backbone.fingerprint)
    assert prints[0] != prints[1]


def test_imagenet_classes_need_no_file(tmp_path):
    nodes = [("GlobalAveragePool", ["x"], ["map"], {}), ("Conv", ["map", "table"], ["logits"], {})]
    outputs = [("map", "float", ["n", 3, 1, 1]), ("logits", "float", ["n", 1000, 1, 1])]
    table = np.ones((1000, 3, 1, 1), dtype=np.float32)
    save_graph(tmp_path / "model.onnx", nodes, [("x", "float", ["n", 3, 8, 8])], outputs, {"table": table})
    settings = SETTINGS.replace("classes.txt", "imagenet").replace("colour", "map").replace("warmth", "logits")
    (tmp_path / "model.toml").write_text(settings)
    backbone = open_backbone(tmp_path / "model.onnx")
    assert backbone.class_names == class_names()
    # Maps of one pixel count as vectors.
    assert [values.shape for values in backbone.describe(batch_of(backbone))] == [(3, 3), (3, 1000)]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (SETTINGS + "colour = 1\nsise = 3", r"unknown keys in .*model\.toml': 'colour', 'sise'\. Known: size"),
        (SETTINGS.replace("mean = [0, 0, 0]", ""), r"model\.toml' lacks mean\. "),
        (SETTINGS.replace("size = 8", "size = 'big'"), r"model\.toml': size: 'big' was given"),
        (SETTINGS.replace('"warmth"', "3"), r"logits in .*model\.toml' is 3"),
        (SETTINGS.replace('"warmth"', '"heat"'), "no output 'heat', only 'colour', 'warmth'"),
        (SETTINGS.replace("size = 8", "size = "), r"model\.toml' is not a TOML file"),
        (SETTINGS + 'layout = "NHWC"', "layout: the input 'pixels' .* is not NHWC with 3 colours"),
        (SETTINGS.replace('logits = "warmth"', ""), "class_names: 2 names were given for the 0 logits"),
    ],
)
def test_a_wrong_toml_file_is_named(tmp_path, settings, message):
    path = write(tmp_path, settings, shape=("n", 3, "h", 8))
    with pytest.raises(ValueError, match=message):
        open_backbone(path)


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        ({"shape": ("n", 3, 6, 6)}, "size: .* takes pictures of 6 x 6 pixels, but 8 was given"),
        ({"shape": ("n", 3, 6, 8)}, "takes pictures of 6 x 8 pixels. Pass a graph that takes squares"),
        ({"shape": ("n", 1, 8, 8)}, "is not NCHW with 3 colours"),
        ({"shape": ("n", 3, 8, 8), "kind": "double"}, r"has shape .* and type tensor\(double\)"),
    ],
)
def test_a_graph_that_does_not_fit_is_named(tmp_path, graph, message):
    path = write(tmp_path, **graph)
    with pytest.raises(ValueError, match=message):
        open_backbone(path)


def test_graphs_of_another_kind_are_refused(tmp_path):
    (tmp_path / "model.toml").write_text(SETTINGS.replace('class_names = "classes.txt"', ""))
    path, square = tmp_path / "model.onnx", ["n", 3, 8, 8]
    same = [("Identity", ["x"], ["colour"], {}), ("Identity", ["x"], ["warmth"], {})]
    outputs = [("colour", "float", square), ("warmth", "float", square)]
    save_graph(path, same, [("x", "float", square)], outputs)
    with pytest.raises(ValueError, match=r"output 'colour' .* has shape \(1, 3, 8, 8\)"):
        open_backbone(path)
    flat = [("colour", "float", ["n", 3]), ("warmth", "float", ["n", 3])]
    save_graph(path, same, [("x", "float", ["n", 3])], flat)
    with pytest.raises(ValueError, match="batch of four dimensions"):
        open_backbone(path)
    save_graph(path, same, [("x", "float", square), ("y", "float", square)], outputs)
    with pytest.raises(ValueError, match="has the inputs 'x', 'y'"):
        open_backbone(path)


def test_missing_and_damaged_files_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file .*model\.onnx"):
        open_backbone(tmp_path / "model.onnx")
    path = mean_colour(tmp_path / "model.onnx")
    with pytest.raises(FileNotFoundError, match=r"there is no .*model\.toml"):
        open_backbone(path)
    write(tmp_path)
    (tmp_path / "classes.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"class_names: there is no file .*classes\.txt"):
        open_backbone(path)
    (tmp_path / "classes.txt").write_text("warm\nwarm\n")
    with pytest.raises(ValueError, match=r"class_names .*'warm' given more than once"):
        open_backbone(path)
    (tmp_path / "classes.txt").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(ValueError, match=r"classes\.txt' is not UTF-8"):
        open_backbone(path)
    path.write_bytes(b"no graph")
    with pytest.raises(ValueError, match=r"model\.onnx' cannot be opened as an ONNX graph"):
        open_backbone(path)


def test_a_batch_that_does_not_fit_is_named(tmp_path):
    backbone = open_backbone(write(tmp_path))
    with pytest.raises(ValueError, match=r"batch: expected .* \(n, 3, 8, 8\), got \(1, 3, 9, 8\)"):
        backbone.describe(np.zeros((1, 3, 9, 8), dtype=np.float32))
    with pytest.raises(ValueError, match="batch: its type is float64"):
        backbone.describe(np.zeros((1, 3, 8, 8)))
    with pytest.raises(ValueError, match=r"batch: expected .* got list"):
        backbone.describe([[1.0]])
    with pytest.raises(ValueError, match="gives NaN or infinite values"):
        backbone.describe(np.full((1, 3, 8, 8), np.nan, dtype=np.float32))
    with pytest.raises(ValueError, match="n_threads: 0 was given"):
        open_backbone(backbone.name, n_threads=0)


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    path = write(tmp_path)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ImportError, match=r'onnxruntime.*Run: pip install "unseen\[images\]"'):
        open_backbone(path)


def test_there_is_no_backbone_of_another_name():
    with pytest.raises(ValueError, match=r"none called 'resnet50'\. Choose one of 'efficientnet-lite0'"):
        open_backbone("resnet50")
