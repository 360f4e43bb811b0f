"""Prompts: a label inside a phrase, which tells a text encoder how the word is meant."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from numpy.typing import NDArray

from unseen.labels.encoders import TextEncoder

__all__ = ["PromptedEncoder", "SourceAndPrompt", "check_prompt", "prompted", "split_prompt"]

# At least two letters before the colon: "C:" begins a path.
_WITH_PROMPT = re.compile(r"(?P<source>.{2,}?):(?P<prompt>.*\{\}.*)", re.DOTALL)


class SourceAndPrompt(NamedTuple):
    """A source of vectors, and the prompt that its texts are put into; None if they are given as they are."""

    source: str
    prompt: str | None


def split_prompt(source: str) -> SourceAndPrompt:
    """Take ``"use:a picture of a {}"`` apart.

    Parameters
    ----------
    source : str
        A source of vectors, perhaps with a colon and a prompt after it; a prompt has a ``{}`` for the text.

    Returns
    -------
    SourceAndPrompt
    """
    found = _WITH_PROMPT.fullmatch(source)
    if found is None:
        return SourceAndPrompt(source, None)
    return SourceAndPrompt(found["source"], check_prompt(found["prompt"].strip()))


def check_prompt(prompt: Any) -> str:
    """Refuse what is no text with one place for a label.

    Parameters
    ----------
    prompt : object
        What was given.

    Returns
    -------
    str
    """
    if not isinstance(prompt, str) or prompt.count("{}") != 1:
        raise ValueError(f'prompt: {prompt!r} was given. Pass a text with one {{}}, such as "a photo of a {{}}".')
    return prompt


class PromptedEncoder:
    """A text encoder that puts every text into a prompt.

    Words alone have several meanings, "train" and "crane"; "a picture of a train" has fewer. Sources of label
    vectors can be given so as one text: ``"use:a picture of a {}"``.

    Parameters
    ----------
    encoder : TextEncoder
        What makes the vectors.
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

    def __init__(self, encoder: TextEncoder, prompt: str) -> None:
        self._encoder = encoder
        self._prompt = check_prompt(prompt)
        self.name = f"{encoder.name}:{prompt}"

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
        return self._encoder.encode(prompted(texts, self._prompt))


def prompted(texts: Sequence[str], prompt: str) -> Sequence[str]:
    """Texts inside a prompt; what is no list of texts is left as it is, for an encoder to say what is wrong.

    Parameters
    ----------
    texts : sequence of str
        Words or phrases.
    prompt : str
        What each is put into, in the place of ``{}``.

    Returns
    -------
    sequence of str
    """
    if isinstance(texts, str) or not all(isinstance(text, str) and text.strip() for text in texts):
        return texts
    return [prompt.replace("{}", text) for text in texts]
