"""word2vec's binary format: a line with two counts, then for each word its bytes, a space and its float32."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

import numpy as np

from unseen.labels.readers._block import ROWS, Block, check_finite, fail
from unseen.labels.readers._text import Header

_READ = 1 << 22
_LONGEST_WORD = 4096


def read_binary(stream: IO[bytes], file: str, header: Header) -> Iterator[Block]:
    """Blocks of a word2vec binary table, as float32.

    The original program writes a newline after each vector and some others do not: both are read.
    """
    stream.readline()
    n_words, dim = header
    buffer = bytearray()
    words: list[bytes] = []
    vectors: list[bytes] = []
    for n_read in range(n_words):
        word, vector = _next(stream, buffer, 4 * dim, file, n_read, n_words)
        words.append(word)
        vectors.append(vector)
        if len(words) == ROWS or n_read == n_words - 1:
            matrix = np.frombuffer(b"".join(vectors), dtype="<f4").reshape(len(words), dim)
            places = range(n_read + 2 - len(words), n_read + 2)
            yield check_finite(Block(words, matrix), file, places, "word")
            words, vectors = [], []
    if n_words == 0:
        fail(file, "it holds no vectors", "Pass a table of word vectors.")
    if bytes(buffer).strip(b"\n") or stream.read(_READ).strip(b"\n"):
        fail(
            file,
            f"its first line promises {n_words} words, but more follows",
            "Fetch the file again, or correct its first line.",
        )


def _next(
    stream: IO[bytes], buffer: bytearray, n_bytes: int, file: str, n_read: int, n_words: int
) -> tuple[bytes, bytes]:
    """Take one word and its vector from the buffer, filling it as needed."""
    while True:
        space = buffer.find(b" ")
        if space >= 0 and len(buffer) >= space + 1 + n_bytes:
            break
        if space < 0 and len(buffer) > _LONGEST_WORD:
            fail(file, f"no word was found after word {n_read}", "Pass a file in word2vec's binary format.")
        more = stream.read(_READ)
        if not more:
            fail(
                file,
                f"it ends in word {n_read + 1} of the {n_words} that its first line promises",
                "The file was cut short: fetch it again.",
            )
        buffer += more
    end = space + 1 + n_bytes
    word, vector = bytes(buffer[:space]).lstrip(b"\n"), bytes(buffer[space + 1 : end])
    del buffer[:end]
    if not word:
        fail(file, f"word {n_read + 1} is empty", "Pass a file in word2vec's binary format.")
    return word, vector
