"""Tiny ONNX graphs that stand for backbones, and a tokenizer to go with them."""

from pathlib import Path

import numpy as np
import pytest

WORDS = {"[UNK]": 0, "red": 1, "green": 2, "blue": 3, "a": 4, "photo": 5}
COLOURS = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0], [0, 0, 0]], dtype=np.float32)


def save_graph(path: Path, nodes, inputs, outputs, constants=()):
    onnx = pytest.importorskip("onnx")
    kinds = {kind: getattr(onnx.TensorProto, kind.upper()) for kind in ("float", "double", "int32", "int64")}
    info = onnx.helper.make_tensor_value_info
    infos = [[info(name, kinds[kind], shape) for name, kind, shape in side] for side in (inputs, outputs)]
    made = [onnx.helper.make_node(kind, reads, writes, **settings) for kind, reads, writes, settings in nodes]
    tables = [onnx.numpy_helper.from_array(values, name) for name, values in dict(constants).items()]
    graph = onnx.helper.make_graph(made, "tiny", *infos, tables)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=7), path)
    return path


def mean_colour(path: Path, shape=("n", 3, "h", "w"), kind="float", *, n_out="n"):
    """A graph whose features are the mean of each channel, and whose two logits are warm and cold."""
    axes = [1, 2] if shape[-1] == 3 else [2, 3]
    nodes = [
        ("ReduceMean", ["pixels"], ["colour"], {"axes": axes, "keepdims": 0}),
        ("MatMul", ["colour", "table"], ["warmth"], {}),
    ]
    table = np.array([[1, 0], [0, 0], [0, 1]], dtype=np.float64 if kind == "double" else np.float32)
    outputs = [("colour", kind, [n_out, 3]), ("warmth", kind, [n_out, 2])]
    return save_graph(path, nodes, [("pixels", kind, list(shape))], outputs, {"table": table})


def word_table(path: Path):
    """A text encoder: the sum of its words' vectors."""
    nodes = [
        ("Gather", ["table", "input_ids"], ["tokens"], {}),
        ("ReduceSum", ["tokens", "axis"], ["text_embeds"], {"keepdims": 0}),
    ]
    ids, vectors = ("input_ids", "int64", ["n", "t"]), ("text_embeds", "float", ["n", 3])
    return save_graph(path, nodes, [ids], [vectors], {"table": COLOURS, "axis": np.array([1])})


def word_tokenizer(path: Path, words=WORDS, *, special=()):
    """A tokenizer with one token per word, between two special ones if these are given."""
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    if special:
        tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
            f"{special[0]} $A {special[1]}", special_tokens=[(name, words[name]) for name in special]
        )
    tokenizer.save(str(path))
