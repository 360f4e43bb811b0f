"""VGG19 through torchvision. A stub stands for torchvision: a network of numpy with the same parts."""

import sys
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.numpy import save_file

from unseen.images.backbones import open_backbone
from unseen.images.imagenet import class_names


class Array(np.ndarray):
    def numpy(self):
        return np.asarray(self)


class Classifier(list):
    """Layers one after another; a slice of them is a classifier too."""

    def __getitem__(self, part):
        return Classifier(super().__getitem__(part))

    def __call__(self, x):
        for layer in self:
            x = layer(x)
        return x


class StubVGG19:
    """fc6 is 'gain' times the mean red, 4096 times; fc7 is half of it; the logits are its first value."""

    def __init__(self, weights):
        assert weights is None

    def load_state_dict(self, state):
        if set(state) != {"gain"}:
            raise RuntimeError("Missing key(s) in state_dict")
        gain = state["gain"]
        relu = lambda x: np.maximum(x, 0)  # noqa: E731
        same = lambda x: x  # noqa: E731 - dropout, which does nothing when a network is used
        fc6 = lambda x: gain * np.repeat(x[:, :1], 4096, axis=1)  # noqa: E731
        self.classifier = Classifier(
            [fc6, relu, same, lambda x: x / 2, relu, same, lambda x: np.repeat(x[:, :1], 1000, axis=1)]
        )

    def eval(self):
        self.features = lambda x: x
        self.avgpool = lambda x: x.mean(axis=(2, 3))


@pytest.fixture
def stub(monkeypatch):
    """Both packages, and what was asked of them."""
    asked = {}
    torch = SimpleNamespace(
        from_numpy=lambda array: array.view(Array),
        flatten=lambda x, _: x,
        inference_mode=nullcontext,
        set_num_threads=lambda n: asked.update(threads=n),
    )

    def get_state_dict(**options):
        asked.update(options)
        return {"gain": np.array([4.0], dtype=np.float32).view(Array)}

    published = SimpleNamespace(IMAGENET1K_V1=SimpleNamespace(get_state_dict=get_state_dict))
    models = SimpleNamespace(vgg19=StubVGG19, VGG19_Weights=published)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torchvision", SimpleNamespace(models=models))
    monkeypatch.setitem(sys.modules, "torchvision.models", models)
    return asked


def test_features_are_fc7_and_logits_follow_from_them(stub):
    backbone = open_backbone("vgg19", n_threads=2)
    features, logits = backbone.describe(np.full((2, 3, 224, 224), 3, dtype=np.float32))
    np.testing.assert_array_equal(features, np.full((2, 4096), 6))
    np.testing.assert_array_equal(logits, np.full((2, 1000), 6))
    assert backbone.n_features == 4096
    assert backbone.class_names == class_names()
    assert stub["threads"] == 2
    # What torchvision downloads is a pickle: it is checked, and only tensors may come out of it.
    assert stub["weights_only"] is stub["check_hash"] is True


def test_a_file_of_weights_is_read_without_any_download(stub, tmp_path):
    path = tmp_path / "vgg.safetensors"
    save_file({"gain": np.array([8.0], dtype=np.float32)}, path)
    backbone = open_backbone(path)
    assert backbone.describe(np.ones((1, 3, 224, 224), dtype=np.float32)).features[0, 0] == 4
    assert "check_hash" not in stub
    assert backbone.fingerprint != open_backbone("vgg19").fingerprint
    save_file({"gain": np.array([4.0], dtype=np.float32)}, path)
    assert open_backbone(path).fingerprint == open_backbone("vgg19").fingerprint


def test_wrong_files_are_named(stub, tmp_path):
    path = tmp_path / "vgg.safetensors"
    with pytest.raises(FileNotFoundError, match=r"weights: there is no file .*vgg\.safetensors"):
        open_backbone(path)
    path.write_bytes(b"no weights")
    with pytest.raises(ValueError, match=r"weights: .*vgg\.safetensors' cannot be read"):
        open_backbone(path)
    save_file({"other": np.ones(1, dtype=np.float32)}, path)
    with pytest.raises(ValueError, match=r"weights: .*vgg\.safetensors' does not fit VGG19"):
        open_backbone(path)


@pytest.mark.parametrize("module", ["torch", "torchvision.models"])
def test_a_missing_package_is_named(stub, monkeypatch, module):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"VGG19 needs the package '{module}'.*pip install \"unseen\[torch\]\""):
        open_backbone("vgg19")
