"""From the names of labels to vectors, whatever the source: a table of words or an encoder of phrases."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unseen.files import Progress
from unseen.labels.encoders import ENCODERS, TextEncoder, open_encoder
from unseen.labels.names import MISSING, Resolution, as_phrase, name_vectors, resolve_names
from unseen.labels.prompts import PromptedEncoder, split_prompt
from unseen.labels.vectors import WordVectors, open_vectors, vector_sources
from unseen.validation import check_choice

__all__ = ["DEFAULT_SOURCE", "PHRASE", "LabelVectors", "Source", "look_up", "open_source"]

DEFAULT_SOURCE = "glove"
PHRASE = "phrase"  # the rule of a resolution by a text encoder

Source = str | PathLike[str] | WordVectors | TextEncoder

_TABLES = frozenset({".txt", ".vec", ".bin", ".zip", ".gz", ".npz", ".safetensors", ".csv", ".tsv"})


class LabelVectors(NamedTuple):
    """Labels that have a vector, and where it comes from."""

    resolved: tuple[Resolution, ...]
    vectors: NDArray[np.float64]
    source: str


def open_source(source: Source | None = None, *, progress: Progress | None = None) -> WordVectors | TextEncoder:
    """Open a source of label vectors.

    Parameters
    ----------
    source : str, pathlib.Path, WordVectors, TextEncoder or None, default=None
        - None: the same as ``"glove"``.
        - ``"glove"``, ``"glove-6b-300d"``, ..., or a file of word vectors: see `open_vectors`.
        - ``"use"``, ``"minilm"``, an .onnx file, a directory with one, or the name of a sentence-transformers
          model: see `open_encoder`. With a prompt after a colon, such as ``"use:a picture of a {}"``, every name
          is put into it first.
        - An open table or encoder, which is returned as it is.
    progress : callable, optional
        Called as ``progress(done, total)``, in bytes, while a table is downloaded or converted on first use.

    Returns
    -------
    WordVectors or TextEncoder

    Raises
    ------
    ImportError
        If a package is missing; the message says which one to install.
    FileNotFoundError
        If there is no such file.
    """
    if source is None:
        source = DEFAULT_SOURCE
    if isinstance(source, WordVectors | TextEncoder):
        return source
    if isinstance(source, str) and source in ENCODERS:
        return open_encoder(source)
    if isinstance(source, str) and (parts := split_prompt(source)).prompt is not None:
        return _with_prompt(parts.source, parts.prompt)
    source = source if isinstance(source, str) else Path(fspath(source))
    path = Path(source).expanduser()
    if path.suffix == ".onnx" or path.is_dir():
        return open_encoder(source)
    archive = Path(str(source).rpartition(":")[0])
    if source in vector_sources() or path.is_file() or path.suffix in _TABLES or archive.is_file():
        return open_vectors(source, progress=progress)
    try:
        return open_encoder(str(source))
    except ImportError as error:
        known = ", ".join((*vector_sources(), *ENCODERS))
        raise ImportError(
            f"vectors: {str(source)!r} is neither a file nor a known source ({known}). "
            f"If it is a sentence-transformers model, run: pip install sentence-transformers"
        ) from error


def _with_prompt(source: str, prompt: str) -> TextEncoder:
    # Known tables are refused before they are downloaded or converted.
    is_table = source in vector_sources() or Path(source).suffix in _TABLES
    opened = None if is_table else open_source(source)
    if opened is None or isinstance(opened, WordVectors):
        raise ValueError(
            f"vectors: {source!r} is a table of words, and the prompt {prompt!r} makes phrases of them. Pass "
            f"{source!r} alone, or a text encoder, such as 'use:{prompt}'."
        )
    return PromptedEncoder(opened, prompt)


def look_up(names: Sequence[str], source: Source | None = None, *, missing: str = "error") -> LabelVectors:
    """Vectors for names of labels, with a record of what was used for each.

    Parameters
    ----------
    names : sequence of str
        Names of labels.
    source : str, pathlib.Path, WordVectors, TextEncoder or None, default=None
        See `open_source`.
    missing : {"error", "mean", "skip"}, default="error"
        What to do with names that a table of words does not know: see `resolve_names`. Encoders know all.

    Returns
    -------
    LabelVectors
    """
    check_choice(missing, "missing", MISSING)
    opened = open_source(source)
    if isinstance(opened, WordVectors):
        resolved = tuple(resolve_names(names, opened, missing=missing))
        return LabelVectors(resolved, name_vectors(resolved, opened), opened.source)
    phrases = [as_phrase(name) for name in names]
    vectors = np.asarray(opened.encode(phrases), dtype=np.float64)
    used = tuple(Resolution(name, (phrase,), PHRASE) for name, phrase in zip(names, phrases, strict=True))
    return LabelVectors(used, vectors, opened.name)
