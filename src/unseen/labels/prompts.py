"""Prompts: a label inside a phrase, which tells a text encoder how the word is meant."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

from unseen.labels.encoders import ENCODERS, TextEncoder, as_texts, open_encoder

__all__ = ["PromptedEncoder", "SourceAndPrompt", "split_prompt", "with_absolute_path"]

# What begins like an encoder has a prompt after its colon. Else a prompt has a place for the text, and two letters
# or more stand before the colon: "C:" begins a path.
_OF_ENCODER = re.compile(rf"(?P<source>{'|'.join(ENCODERS)})\s*:(?P<prompt>.*)", re.DOTALL)
_WITH_PROMPT = re.compile(r"(?P<source>.{2,}?)\s*:(?P<prompt>.*\{\}.*)", re.DOTALL)


class SourceAndPrompt(NamedTuple):
    """A source of vectors, and the prompt that its texts are put into; None if they are given as they are."""

    source: str
    prompt: str | None


def split_prompt(source: str) -> SourceAndPrompt:
    """Take ``"use:a picture of a {}"`` apart.

    Parameters
    ----------
    source : str
        A source of vectors, perhaps with a colon and a prompt after it; a prompt has a ``{}`` for the text. In the
        path of a file that exists a colon is a colon.

    Returns
    -------
    SourceAndPrompt
    """
    found = _OF_ENCODER.fullmatch(source) or _WITH_PROMPT.fullmatch(source)
    if found is None or _is_file(source):
        return SourceAndPrompt(source, None)
    prompt = found["prompt"].strip()
    if prompt.count("{}") != 1:
        raise ValueError(
            f"vectors: the prompt {prompt!r} of {source!r} must have one {{}}, the place of the label. Pass for "
            f"example '{found['source']}:a photo of a {{}}'."
        )
    return SourceAndPrompt(found["source"], prompt)


def with_absolute_path(source: str) -> str:
    """The source with its path from the root, if it is a file, so that it is found from other folders.

    Parameters
    ----------
    source : str
        A source of vectors, with a prompt or without.

    Returns
    -------
    str
    """
    path, prompt = split_prompt(source)
    if not _is_file(path):
        return source
    absolute = str(Path(path).absolute())
    return absolute if prompt is None else f"{absolute}:{prompt}"


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # too long for a path, or no path at all
        return False


class PromptedEncoder:
    """A text encoder that puts every text into a prompt.

    Words alone have several meanings, "train" and "crane"; "a picture of a train" has fewer. Sources of label
    vectors can be given so as one text: ``"use:a picture of a {}"``.

    Parameters
    ----------
    encoder : TextEncoder, str or pathlib.Path
        What makes the vectors: see `unseen.labels.encoders.open_encoder`.
    prompt : str
        What each text is put into, in the place of ``{}``.

    Examples
    --------
    >>> import numpy as np
    >>> from unseen.labels.prompts import PromptedEncoder
    >>> class Lengths:
    ...     name = "lengths"
    ...     def encode(self, texts):
    ...         return np.array([[len(text)] for text in texts])
    >>> PromptedEncoder(Lengths(), "a {}").encode(["cat", "horse"])
    array([[5],
           [7]])
    """

    def __init__(self, encoder: TextEncoder | str | Path, prompt: str) -> None:
        if not isinstance(prompt, str) or prompt.count("{}") != 1:
            raise ValueError(
                f'prompt: {prompt!r} was given. Pass a text with one {{}}, such as "a photo of a {{}}".'
            )
        self._prompt = prompt
        self._encoder = open_encoder(encoder)
        self.name = f"{self._encoder.name}:{prompt}"

    def __repr__(self) -> str:
        return f"PromptedEncoder({self._encoder!r}, {self._prompt!r})"

    def encode(self, texts: Sequence[str]) -> NDArray[Any]:
        """Vectors of texts.

        Parameters
        ----------
        texts : sequence of str
            Words or phrases, without the prompt.

        Returns
        -------
        ndarray of shape (n_texts, n_dims)
        """
        return self._encoder.encode([self._prompt.replace("{}", text) for text in as_texts(texts)])
