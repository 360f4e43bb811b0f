"""A real image-text pair, shaped like CLIP but tiny, in both layouts of the hub: it knows red, green and blue."""

import json
from pathlib import Path

import numpy as np
from tests.images.graphs import save_graph, word_tokenizer

from unseen.labels.names import everyday_labels

END = "<end>"  # has the highest number, and pads, as in CLIP
OPENCLIP = {
    "config.json": {"embed_dim": 8, "text_cfg": {"context_length": 9}},
    "visual/preprocess_cfg.json": {
        "size": [8, 8], "mean": [0, 0, 0], "std": [1, 1, 1], "interpolation": "bicubic", "resize_mode": "shortest",
    },
    "textual/tokenizer_config.json": {"pad_token": END},
}  # fmt: skip
TRANSFORMERS = {
    "config.json": {"model_type": "clip", "projection_dim": 8, "text_config": {"max_position_embeddings": 9}},
    "preprocessor_config.json": {
        "size": {"shortest_edge": 8}, "do_center_crop": True, "crop_size": {"height": 8, "width": 8},
        "resample": 3, "image_mean": [0, 0, 0], "image_std": [1, 1, 1], "rescale_factor": 1 / 255,
    },
    "tokenizer_config.json": {"pad_token": {"content": END}},
}  # fmt: skip
CARD = "---\nlicense: apache-2.0\nbase_model: someone/original\n---\n# A tiny model\n"


def write_pair(folder: Path, contents=OPENCLIP, card=CARD) -> Path:
    """Write a pair with the given configuration; its layout follows from the names of the files."""
    if "visual/preprocess_cfg.json" in contents:
        image, text, own = "visual/model.onnx", "textual/model.onnx", "textual/"
        names, shape, kind = ("image", "text", "embedding", "embedding"), (1, 9), "int32"
    else:
        image, text, own = "onnx/vision_model.onnx", "onnx/text_model.onnx", ""
        names, shape, kind = ("pixel_values", "input_ids", "image_embeds", "text_embeds"), ("n", "t"), "int64"
    for name in (image, text, *contents):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_text(json.dumps(content))
    (folder / "README.md").write_text(card)
    words = ["[UNK]", "red", "green", "blue", "a", "photo", "of"]
    everyday = {word for name in everyday_labels() for word in name.split()}
    words += [*sorted(everyday - set(words)), "<start>", END]
    numbers = {word: i for i, word in enumerate(words)}
    word_tokenizer(folder / f"{own}tokenizer.json", numbers, special=("<start>", END))
    write_image_encoder(folder / image, names[0], names[2], shape[0])
    write_text_encoder(folder / text, names[1], names[3], shape, kind, numbers)
    return folder


def write_image_encoder(path, pixels, output, batch):
    """Patches, their mean, a projection, unit length."""
    patches = np.zeros((3, 3, 4, 4), dtype=np.float32)
    patches[range(3), range(3)] = 1 / 16
    nodes = [
        ("Conv", [pixels, "patches"], ["grid"], {"strides": [4, 4]}),
        ("GlobalAveragePool", ["grid"], ["pooled"], {}),
        ("Flatten", ["pooled"], ["flat"], {}),
        ("MatMul", ["flat", "projection"], ["projected"], {}),
        ("LpNormalization", ["projected"], [output], {"axis": 1}),
    ]
    constants = {"patches": patches, "projection": np.eye(3, 8, dtype=np.float32)}
    save_graph(path, nodes, [(pixels, "float", [batch, 3, 8, 8])], [(output, "float", [batch, 8])], constants)


def write_text_encoder(path, ids, output, shape, kind, numbers):
    """Token vectors, summed up to the first end token, unit length; everyday words are far from the colours."""
    table = np.random.default_rng(0).normal(size=(len(numbers), 8)).astype(np.float32)
    table[:, :3], table[1:4] = 0, np.eye(3, 8)
    table[[numbers[word] for word in ("[UNK]", "a", "photo", "of", "<start>", END)]] = 0.01
    nodes = [
        ("Gather", ["table", ids], ["tokens"], {}),
        ("CumSum", ["tokens", "second"], ["sums"], {}),
        ("ArgMax", [ids], ["end"], {"axis": 1}),
        ("Unsqueeze", ["end", "third"], ["place"], {}),
        ("Expand", ["place", "shape"], ["places"], {}),
        ("GatherElements", ["sums", "places"], ["picked"], {"axis": 1}),
        ("Squeeze", ["picked", "second"], ["vector"], {}),
        ("LpNormalization", ["vector"], [output], {"axis": 1}),
    ]
    constants = {"table": table, "second": np.array([1]), "third": np.array([2]), "shape": np.array([1, 1, 8])}
    save_graph(path, nodes, [(ids, kind, list(shape))], [(output, "float", [shape[0], 8])], constants)
