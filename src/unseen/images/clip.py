"""Pairs of an image and a text encoder that share one space, such as CLIP and SigLIP."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unseen.images._backbone import Backbone
from unseen.images._onnx_file import open_onnx, read_settings
from unseen.images.preprocessing import Preprocessing
from unseen.labels.encoders import OnnxEncoder, TextEncoder
from unseen.labels.prompts import PromptedEncoder
from unseen.validation import check_count, listed

__all__ = ["Pair", "PairedTextEncoder", "open_pair"]

USUAL_OUTPUTS: tuple[str, ...] = ("text_embeds", "sentence_embedding", "pooler_output")
TEXT_KEYS = ("model", "tokenizer", "output", "prompt", "max_tokens", "pad_token")


class Pair(NamedTuple):
    """Two encoders of one space: features of pictures and vectors of labels can be compared by their cosine.

    Attributes
    ----------
    image : Backbone
    text : TextEncoder
        For the vectors of a `LabelSpace`, then for example `unseen.baselines.Cosine`.
    """

    image: Backbone
    text: TextEncoder


class PairedTextEncoder(OnnxEncoder):
    """The text half of a pair: one of its outputs, and padding for graphs of a fixed length.

    Parameters
    ----------
    path : str or pathlib.Path
        The .onnx file; its inputs are ``input_ids`` and at most ``attention_mask`` and ``token_type_ids``.
    tokenizer : str or pathlib.Path, optional
        The ``tokenizer.json``; by default beside the graph or one directory up.
    output : str, optional
        Output that holds the vectors. By default the only one, or ``text_embeds``, ``sentence_embedding`` or
        ``pooler_output``, whichever comes first in this list.
    max_tokens : int, default=77
        Longer texts are cut.
    pad_token : str, optional
        Pad every text with this token, to ``max_tokens`` or to the fixed length of the graph's input. Needed by
        graphs of a fixed length and by models that were trained so, such as SigLIP.
    """

    def __init__(
        self,
        path: str | Path,
        tokenizer: str | Path | None = None,
        *,
        output: str | None = None,
        max_tokens: int = 77,
        pad_token: str | None = None,
    ) -> None:
        self._wanted_output = output
        super().__init__(path, tokenizer, max_tokens=check_count(max_tokens, "max_tokens"))
        ids = next(item for item in self._session.get_inputs() if item.name == "input_ids")
        n_texts, length = (n if isinstance(n, int) and n > 0 else None for n in ids.shape)
        self._one_by_one = n_texts == 1
        if length is not None or pad_token is not None:
            self._pad(length or max_tokens, pad_token)

    def _choose_output(self) -> str:
        super()._choose_output()  # checks the inputs
        known = [str(item.name) for item in self._session.get_outputs()]
        if self._wanted_output is not None:
            found = [name for name in known if name == self._wanted_output]
        else:
            found = known if len(known) == 1 else [name for name in USUAL_OUTPUTS if name in known]
        if not found:
            raise ValueError(
                f"output: {self._wanted_output!r} was given, and {self.name!r} has the outputs {listed(known)}. "
                f"Choose the one that holds a vector for each text."
            )
        return found[0]

    def _pad(self, length: int, token: str | None) -> None:
        number = None if token is None else self._tokenizer.token_to_id(token)
        if number is None:
            raise ValueError(
                f"pad_token: {token!r} was given, no token of {self.name!r}, and texts must be filled up "
                f"to {length} tokens. Pass the model's own, for example '<|endoftext|>'."
            )
        self._tokenizer.enable_truncation(length)
        self._tokenizer.enable_padding(length=length, pad_id=number, pad_token=token)

    def _run(self, tokens: list[Any]) -> NDArray[Any]:
        if not self._one_by_one:
            return super()._run(tokens)
        return np.concatenate([super(PairedTextEncoder, self)._run([item]) for item in tokens])


def open_pair(
    image: str | Path,
    text: str | Path | None = None,
    tokenizer: str | Path | None = None,
    *,
    features: str | None = None,
    output: str | None = None,
    prompt: str | None = None,
    max_tokens: int | None = None,
    pad_token: str | None = None,
    preprocessing: Preprocessing | None = None,
    n_threads: int | None = None,
) -> Pair:
    """Open an image and a text encoder that share one space.

    What is not given is read from the TOML file beside the image encoder (``image.toml`` for ``image.onnx``):
    the keys of any ONNX backbone, and a table ``[text]`` with ``model``, ``tokenizer``, ``output``, ``prompt``,
    ``max_tokens`` and ``pad_token``.

    Parameters
    ----------
    image : str or pathlib.Path
        The image encoder, an .onnx file.
    text : str or pathlib.Path, optional
        The text encoder, an .onnx file.
    tokenizer : str or pathlib.Path, optional
        Its ``tokenizer.json``; by default beside the text encoder or one directory up.
    features : str, optional
        Output of the image encoder that holds the vectors of pictures.
    output, max_tokens, pad_token : optional
        As for `PairedTextEncoder`.
    prompt : str, optional
        What each text is put into, for example ``"a photo of a {}"``; by default it is given as it is.
    preprocessing : Preprocessing, optional
        How pictures are prepared.
    n_threads : int, optional
        Threads of the image encoder; None: one a core.

    Returns
    -------
    Pair

    Raises
    ------
    FileNotFoundError
        If a file is missing.
    ValueError
        If a file cannot be read or the two encoders do not share a space.
    ImportError
        If a package is missing; the message says what to install.
    """
    image = Path(image).expanduser()
    backbone = open_onnx(image, n_threads=n_threads, preprocessing=preprocessing, features=features)
    given = {"output": output, "prompt": prompt, "max_tokens": max_tokens, "pad_token": pad_token}
    settings = _text_settings(image) | {key: value for key, value in given.items() if value is not None}
    files = {key: image.parent / settings.pop(key) for key in ("model", "tokenizer") if key in settings}
    model = files.get("model") if text is None else Path(text).expanduser()
    if model is None:
        raise ValueError("text: no text encoder was given. Pass its .onnx file, or name it in [text] of the TOML.")
    # A tokenizer that the TOML names belongs to the model that the TOML names.
    words = tokenizer if tokenizer is not None or text is not None else files.get("tokenizer")
    around = settings.pop("prompt", None)
    encoder: TextEncoder = PairedTextEncoder(model, words, **settings)
    if around is not None:
        encoder = PromptedEncoder(encoder, around)
    n_dims = encoder.encode(["a"]).shape[1]
    if n_dims != backbone.n_features:
        raise ValueError(
            f"text: {str(model)!r} gives {n_dims} dimensions, the image encoder {str(image)!r} "
            f"{backbone.n_features}. Pass two encoders, and outputs of them, that belong together."
        )
    return Pair(backbone, encoder)


def _text_settings(image: Path) -> dict[str, Any]:
    settings = read_settings(image, needed=False).get("text", {})
    file = str(image.with_suffix(".toml"))
    if not isinstance(settings, dict):
        raise ValueError(f"text: in {file!r} it is {settings!r}. Write a table, [text], with a key model.")
    unknown = [key for key in settings if key not in TEXT_KEYS]
    if unknown:
        raise ValueError(f"text: unknown keys in {file!r}: {listed(unknown)}. Known: {', '.join(TEXT_KEYS)}.")
    for key, value in settings.items():
        if key != "max_tokens" and not (isinstance(value, str) and value):
            raise ValueError(f"text: {key} in {file!r} is {value!r}. Write a text in quotes.")
    return dict(settings)
