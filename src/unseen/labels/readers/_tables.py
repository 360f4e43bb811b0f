"""Tables of arrays: .npz and .safetensors files with an array of words and one of vectors."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from unseen.labels.readers._block import ROWS, Block, check_finite, fail

_WORDS = ("words", "names", "labels", "vocab", "vocabulary")
_VECTORS = ("vectors", "embeddings", "embedding", "weight")

Arrays = Mapping[str, Callable[[], NDArray[Any]]]


def read_npz(path: Path) -> Iterator[Block]:
    """Blocks of an .npz table; ``words`` are strings or UTF-8 bytes, ``vectors`` keep their precision."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: (lambda name=name: file[name]) for name in file.files}
            words, vectors = _words_and_vectors(arrays, path)
    except (zipfile.BadZipFile, EOFError, OSError, KeyError, ValueError) as error:
        if str(error).startswith("vectors: "):
            raise
        fail(
            str(path),
            f"it cannot be read ({error})",
            "Write it again with numpy.savez(file, words=..., vectors=...); words must not be objects.",
        )
    yield from _blocks(words, vectors, path)


def read_safetensors(path: Path) -> Iterator[Block]:
    """Blocks of a .safetensors table.

    Safetensors holds no strings: ``words`` is a uint8 array, the UTF-8 words joined by newlines.
    """
    try:
        with safe_open(path, framework="numpy") as file:
            arrays = {name: (lambda name=name: file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118
            words, vectors = _words_and_vectors(arrays, path)
    except (SafetensorError, OSError, TypeError) as error:
        fail(
            str(path), f"it cannot be read ({error})", "The file was probably cut short: write or fetch it again."
        )
    yield from _blocks(words, vectors, path)


def _words_and_vectors(arrays: Arrays, path: Path) -> tuple[list[bytes], NDArray[Any]]:
    words = _as_words(_pick(arrays, _WORDS, path)(), path)
    vectors = _pick(arrays, _VECTORS, path)()
    if vectors.ndim != 2 or vectors.dtype.kind != "f" or 0 in vectors.shape:
        fail(
            str(path),
            f"its vectors have shape {vectors.shape} and type {vectors.dtype}",
            "Store floating-point numbers with a row a word.",
        )
    if len(words) != len(vectors):
        fail(str(path), f"it holds {len(words)} words and {len(vectors)} vectors", "Store one vector a word.")
    return words, vectors


def _pick(arrays: Arrays, names: tuple[str, ...], path: Path) -> Callable[[], NDArray[Any]]:
    known = [name for name in names if name in arrays]
    if not known:
        found = ", ".join(map(repr, sorted(arrays))) or "none"
        fail(str(path), f"it has no array {names[0]!r} (its arrays: {found})", "Store 'words' and 'vectors'.")
    return arrays[known[0]]


def _as_words(array: NDArray[Any], path: Path) -> list[bytes]:
    if array.ndim == 1 and array.dtype.kind == "U":
        words = [word.encode("utf-8") for word in array.tolist()]
    elif array.ndim == 1 and array.dtype.kind == "S":
        words = array.tolist()
    elif array.ndim == 1 and array.dtype == np.uint8:
        words = array.tobytes().split(b"\n")
    else:
        fail(
            str(path),
            f"its words have shape {array.shape} and type {array.dtype}",
            "Store a vector of strings, of UTF-8 bytes, or of uint8 with the words joined by newlines.",
        )
    for i, word in enumerate(words):
        if not word:
            fail(str(path), f"word {i + 1} is empty", "Name it or leave it out.")
    return words


def _blocks(words: list[bytes], vectors: NDArray[Any], path: Path) -> Iterator[Block]:
    for start in range(0, len(words), ROWS):
        block = Block(words[start : start + ROWS], vectors[start : start + ROWS])
        yield check_finite(block, str(path), range(start + 1, start + 1 + ROWS), "word")
