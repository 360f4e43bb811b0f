"""Backbones: the packaged network, any ONNX graph with its settings, VGG19 through torchvision."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("PIL")
from PIL import Image
from tests.data import FOLDER
from tests.images.graphs import mean_colour, save_graph

from unseen.images.backbones import open_backbone
from unseen.images.features import open_features
from unseen.images.imagenet import class_names
from unseen.images.preprocessing import Preprocessing, prepare
from unseen.images.reading import read_image

SAMPLE = FOLDER / "VOCdevkit-sample" / "VOC2007" / "JPEGImages"
REFERENCE = FOLDER / "voc2007_efficientnet_lite0.npz"
SETTINGS = """size = 8\nmean = [0, 0, 0]\nstd = [1, 1, 1]\nvalue_range = 1
features = "colour"\nlogits = "warmth"\nclass_names = ["warm", "cold"]\n"""
COLOURS = [Image.new("RGB", (12, 9), colour) for colour in ("red", "blue", "lime")]


def write(tmp_path, settings=SETTINGS, **graph):
    (tmp_path / "model.toml").write_text(settings)
    return mean_colour(tmp_path / "model.onnx", **graph)


def batch_of(backbone, images=COLOURS):
    return np.stack([prepare(image, backbone.preprocessing) for image in images])


def test_the_packaged_network_has_1280_features_and_the_classes_of_imagenet():
    backbone = open_backbone()
    assert (backbone.name, backbone.n_features) == ("efficientnet-lite0", 1280)
    assert backbone.class_names == class_names()
    assert backbone.preprocessing == Preprocessing(224, mean=(127, 127, 127), std=(128, 128, 128))
    features, logits = backbone.describe(batch_of(backbone))
    assert (features.shape, logits.shape) == ((3, 1280), (3, 1000))
    assert features.dtype == logits.dtype == np.float32
    assert features.min() >= 0
    assert features.max() <= 6  # the mean of what ReLU6 lets through
    # The packaged model was fitted on features of this very network.
    assert backbone.fingerprint == "353cf1dcfdaf613e32eacdd32260ba0901a9efc23108cd6d04129d8726d9c85c"


def test_an_image_is_described_alike_alone_in_company_and_from_threads():
    one, batch = open_backbone(n_threads=1), batch_of(open_backbone())
    with ThreadPoolExecutor(3) as pool:
        alone = np.concatenate([described.features for described in pool.map(one.describe, np.split(batch, 3))])
    np.testing.assert_allclose(open_backbone().describe(batch).features, alone, atol=1e-4)


@pytest.mark.skipif(not (SAMPLE.is_dir() and REFERENCE.is_file()), reason=f"no images of VOC2007 in {FOLDER}")
def test_features_of_voc2007_are_those_of_the_reference():
    backbone = open_backbone()
    files = sorted(SAMPLE.glob("*.jpg"))[:40]
    described = backbone.describe(batch_of(backbone, map(read_image, files)))
    reference = open_features(REFERENCE)
    rows = [reference.paths.index(file.stem) for file in files]
    for ours, theirs in zip(described, (reference.X[rows], reference.logits[rows]), strict=True):
        cosines = (ours * theirs).sum(1) / np.linalg.norm(ours, axis=1) / np.linalg.norm(theirs, axis=1)
        assert cosines.min() > 0.99999


def test_settings_beside_the_graph_say_it_all(tmp_path, monkeypatch):
    path = write(tmp_path)
    monkeypatch.chdir(tmp_path)
    backbone = open_backbone("../" + tmp_path.name + "/model.onnx")  # the name holds in every folder
    assert (backbone.name, backbone.n_features, backbone.class_names) == (str(path), 3, ("warm", "cold"))
    assert backbone.preprocessing == Preprocessing(8, value_range=1.0)
    features, logits = backbone.describe(batch_of(backbone))
    np.testing.assert_allclose(features, [[1, 0, 0], [0, 0, 1], [0, 1, 0]], atol=1e-6)
    np.testing.assert_allclose(logits, [[1, 0], [0, 1], [0, 0]], atol=1e-6)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_graphs_of_a_fixed_number_of_images_take_any_number(tmp_path, n):
    backbone = open_backbone(write(tmp_path, shape=(n, 3, 8, 8), n_out=n))
    features, logits = backbone.describe(batch_of(backbone))
    np.testing.assert_allclose(features, [[1, 0, 0], [0, 0, 1], [0, 1, 0]], atol=1e-6)
    assert logits.shape == (3, 2)
    assert backbone.describe(np.zeros((0, 3, 8, 8), dtype=np.float32)).features.shape == (0, 3)
    with pytest.raises(ValueError, match=r"^batch: "):
        backbone.describe(np.full((1, 3, 8, 8), np.nan, dtype=np.float32))


def test_channels_may_come_last_and_the_size_be_read_off_the_graph(tmp_path):
    settings = SETTINGS.replace("size = 8", "")
    backbone = open_backbone(write(tmp_path, settings + 'layout = "NHWC"', shape=("n", 6, 6, 3)))
    assert backbone.preprocessing.size == 6
    np.testing.assert_allclose(backbone.describe(batch_of(backbone)).features[0], [1, 0, 0], atol=1e-6)
    with pytest.raises(ValueError, match="size: None"):
        open_backbone(write(tmp_path, settings))


def test_the_fingerprint_tells_weights_outputs_and_preprocessing_apart(tmp_path):
    onnx = pytest.importorskip("onnx")
    without_logits = SETTINGS.replace('logits = "warmth"\n', "").partition("class")[0]
    prints = [open_backbone(write(tmp_path, settings)).fingerprint
              for settings in (SETTINGS, SETTINGS.replace("= 8", "= 6"), without_logits, SETTINGS)]  # fmt: skip
    path = write(tmp_path)
    model = onnx.load(path)
    for factor in (1.0, 2.0):  # in a file of their own
        table = onnx.numpy_helper.from_array(np.full((3, 2), factor, dtype=np.float32), "table")
        model.graph.initializer[0].CopyFrom(table)
        (tmp_path / "weights.bin").unlink(missing_ok=True)
        onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
        prints.append(open_backbone(path).fingerprint)
    assert len(set(prints)) == len(prints) - 1 == 5


def test_maps_of_one_pixel_count_as_vectors_and_imagenet_names_its_classes(tmp_path):
    nodes = [("GlobalAveragePool", ["x"], ["colour"], {}), ("Conv", ["colour", "table"], ["warmth"], {})]
    outputs = [("colour", "float", ["n", 3, 1, 1]), ("warmth", "float", ["n", 1000, 1, 1])]
    table = {"table": np.ones((1000, 3, 1, 1), dtype=np.float32)}
    save_graph(tmp_path / "model.onnx", nodes, [("x", "float", ["n", 3, 8, 8])], outputs, table)
    (tmp_path / "model.toml").write_text(SETTINGS.replace('["warm", "cold"]', '"imagenet"'))
    backbone = open_backbone(tmp_path / "model.onnx")
    assert backbone.class_names == class_names()
    assert [values.shape for values in backbone.describe(batch_of(backbone))] == [(3, 3), (3, 1000)]


@pytest.mark.parametrize(
    ("settings", "graph", "argument"),
    [
        (SETTINGS + "sise = 3", {}, "backbone"), (SETTINGS.replace("mean = [0, 0, 0]", ""), {}, "backbone"),
        (SETTINGS.replace("= 8", "= 'big'"), {}, "size"), (SETTINGS.replace("= 8", "= "), {}, "backbone"),
        (SETTINGS.replace("warmth", "heat"), {}, "features, logits"),
        (SETTINGS.replace('features = "colour"', ""), {}, "features, logits"),
        (SETTINGS.replace('"cold"', '"cold", "hot"'), {}, "class_names"),
        (SETTINGS.replace("cold", "warm"), {}, "class_names"),
        (SETTINGS + 'layout = "NHWC"', {"shape": ("n", 3, 8, 8)}, "backbone"),
        (SETTINGS, {"shape": ("n", 3, 6, 6)}, "backbone"), (SETTINGS, {"kind": "double"}, "backbone"),
    ],
)  # fmt: skip
def test_settings_that_do_not_fit_the_graph_are_named(tmp_path, settings, graph, argument):
    with pytest.raises(ValueError, match=rf"^{argument}: "):
        open_backbone(write(tmp_path, settings, **graph))


def test_outputs_of_other_shapes_are_refused(tmp_path):
    square = ["n", 3, 8, 8]
    nodes = [("Identity", ["x"], [name], {}) for name in ("colour", "warmth")]
    path = save_graph(tmp_path / "model.onnx", nodes, [("x", "float", square)],
                      [(name, "float", square) for name in ("colour", "warmth")])  # fmt: skip
    path.with_suffix(".toml").write_text(SETTINGS)
    with pytest.raises(ValueError, match=r"^backbone: .*'colour'"):
        open_backbone(path)


def test_missing_and_damaged_files_names_and_packages_are_named(tmp_path, monkeypatch):
    path = tmp_path / "model.onnx"
    for _ in range(2):  # first without the graph, then without its settings
        with pytest.raises(FileNotFoundError, match=r"^backbone: "):
            open_backbone(path)
        path.write_bytes(b"not a graph")
    path.with_suffix(".toml").write_text(SETTINGS)
    for name in (path, "resnet50"):
        with pytest.raises(ValueError, match=r"^backbone: "):
            open_backbone(name)
    with pytest.raises(ValueError, match=r"^n_threads: "):
        open_backbone(path, n_threads=0)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ImportError, match=r"^onnxruntime: .*unseen\[images\]"):
        open_backbone(path)


def test_opening_a_backbone_loads_no_library_of_training():
    program = (
        "import sys; from unseen.images.backbones import open_backbone; open_backbone()\n"
        "print(*({'numba', 'onnx', 'pandas', 'sklearn', 'torch'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


class Classifier:
    """Of a stub of torchvision's network: fc7, after five of its layers, is six times the mean red."""

    def __getitem__(self, layers):
        return (
            self.fc7 if layers == slice(None, 5) else lambda x: SimpleNamespace(numpy=lambda: x.numpy()[:, :1000])
        )

    def fc7(self, x):
        return SimpleNamespace(numpy=lambda: 6 * np.repeat(x[:, :1], 4096, axis=1))


def test_vgg19_gives_fc7_and_the_logits_that_follow_from_it(monkeypatch):
    asked = {}
    network = SimpleNamespace(
        features=np.abs, avgpool=lambda x: x.mean((2, 3)), classifier=Classifier(), eval=list
    )
    network.load_state_dict = asked.update
    weights = SimpleNamespace(url="vgg19-1234.pth", get_state_dict=lambda **options: options)
    models = SimpleNamespace(vgg19=lambda weights: network, VGG19_Weights=SimpleNamespace(IMAGENET1K_V1=weights))
    torch = SimpleNamespace(from_numpy=np.asarray, flatten=lambda x, _: x, inference_mode=nullcontext,
                            set_num_threads=lambda n: asked.update(threads=n))  # fmt: skip
    for name, module in (("torch", torch), ("torchvision", models), ("torchvision.models", models)):
        monkeypatch.setitem(sys.modules, name, module)
    backbone = open_backbone("vgg19", n_threads=2)
    features, logits = backbone.describe(np.ones((2, 3, 224, 224), dtype=np.float32))
    np.testing.assert_array_equal(features, np.full((2, 4096), 6))
    np.testing.assert_array_equal(logits, np.full((2, 1000), 6))
    # What torchvision downloads is a pickle: it is checked, and only tensors may come out of it.
    assert asked == {"threads": 2, "progress": True, "check_hash": True, "weights_only": True}
    monkeypatch.setitem(sys.modules, "torchvision.models", None)
    with pytest.raises(ImportError, match=r"^torchvision: .*unseen\[torch\]"):
        open_backbone("vgg19")
