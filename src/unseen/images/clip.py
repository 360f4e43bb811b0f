"""Pairs of an image and a text encoder that share one space, such as CLIP and SigLIP."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from unseen.images._backbone import Backbone
from unseen.images._onnx_file import open_onnx, read_settings
from unseen.images.preprocessing import Preprocessing
from unseen.labels.encoders import OnnxEncoder, PromptedEncoder, TextEncoder
from unseen.validation import listed

__all__ = ["Pair", "open_pair"]

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
        As for `OnnxEncoder`; texts are cut at 77 tokens by default.
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
    encoder: TextEncoder = OnnxEncoder(model, words, **({"max_tokens": 77} | settings))
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
