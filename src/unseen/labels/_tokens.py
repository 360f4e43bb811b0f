"""Tokens of texts: the tokenizer of a model, and batches of texts with as many tokens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["encode_by_length", "open_tokenizer"]

_BATCH = 32


def open_tokenizer(tokenizers: Any, path: Path, n_words: int) -> Any:
    """The tokenizer of a model, without padding.

    Parameters
    ----------
    tokenizers : module
    path : pathlib.Path
        The ``tokenizer.json``.
    n_words : int
        Number of tokens that the model knows.

    Returns
    -------
    tokenizers.Tokenizer

    Raises
    ------
    ValueError
        If it cannot be read, or has tokens that the model does not know.
    """
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises Exception itself
        raise ValueError(
            f"path: {str(path)!r} cannot be read ({error}). Pass the tokenizer.json of the model."
        ) from error
    if tokenizer.get_vocab_size() > n_words:
        raise ValueError(
            f"path: {str(path)!r} has {tokenizer.get_vocab_size()} tokens and the model {n_words}. "
            f"Pass the tokenizer.json that belongs to it."
        )
    tokenizer.no_padding()
    return tokenizer


def encode_by_length(
    tokenizer: Any, texts: list[str], run: Callable[[list[Any]], NDArray[Any]], name: str
) -> NDArray[Any]:
    """Vectors of texts, by batches of as many tokens.

    Without padding a text's vector does not depend on its neighbours, up to rounding.

    Parameters
    ----------
    tokenizer : tokenizers.Tokenizer
    texts : list of str
    run : callable
        From the encodings of a batch, all of one length, to their vectors.
    name : str
        The encoder, for messages.

    Returns
    -------
    ndarray of shape (n_texts, n_dims)

    Raises
    ------
    ValueError
        If there is no token in a text.
    """
    encoded = tokenizer.encode_batch(texts)
    groups: dict[int, list[int]] = {}
    for i, tokens in enumerate(encoded):
        if all(tokens.special_tokens_mask):  # what the tokenizer itself puts around every text
            raise ValueError(f"texts: the tokenizer of {name!r} finds no token in {texts[i]!r}. Reword it.")
        groups.setdefault(len(tokens.ids), []).append(i)
    vectors: list[Any] = [None] * len(texts)
    for rows in groups.values():
        for start in range(0, len(rows), _BATCH):
            batch = rows[start : start + _BATCH]
            for i, vector in zip(batch, run([encoded[i] for i in batch]), strict=True):
                vectors[i] = vector
    return np.array(vectors)
