"""Pairs of an image and a text encoder that share one space, such as CLIP and SigLIP."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from unseen.images.backbones import Backbone, OnnxBackbone, read_settings
from unseen.labels.encoders import OnnxEncoder, PromptedEncoder, TextEncoder

__all__ = ["Pair", "open_pair"]


class Pair(NamedTuple):
    """Two encoders of one space: features of images and vectors of labels can be compared by their cosine."""

    image: Backbone
    text: TextEncoder  # for the vectors of a `LabelSpace`, then for example `unseen.baselines.Cosine`


def open_pair(path: str | Path, *, n_threads: int | None = None) -> Pair:
    """Open an image and a text encoder that share one space.

    Parameters
    ----------
    path : str or pathlib.Path
        The image encoder, an .onnx file. Its settings (see `unseen.images.backbones.OnnxBackbone`) have a table
        ``[text]`` with ``model``, the .onnx file of the text encoder; optionally ``prompt``, such as
        "a photo of a {}", and ``tokenizer``, ``output``, ``max_tokens`` and ``pad_token`` of
        `unseen.labels.encoders.OnnxEncoder`. Files are relative to the folder of the image encoder.
    n_threads : int, optional
        Threads of the image encoder; None for one per core.
    """
    path = Path(path).expanduser()
    image = OnnxBackbone(path, n_threads=n_threads)
    try:
        settings: dict[str, Any] = {"max_tokens": 77} | read_settings(path)["text"]
        files = {key: path.parent / settings.pop(key) for key in ("model", "tokenizer") if key in settings}
        prompt = settings.pop("prompt", "{}")
        text = PromptedEncoder(OnnxEncoder(files["model"], files.get("tokenizer"), **settings), prompt)
    except (KeyError, TypeError) as error:
        raise ValueError(f"text: wrong or missing in the settings of {str(path)!r} ({error}).") from None
    n_dims = text.encode(["a"]).shape[1]
    if n_dims != image.n_features:
        raise ValueError(
            f"text: {text.name!r} gives {n_dims} dimensions, the image encoder {str(path)!r} {image.n_features}. "
            f"Name two encoders, and outputs of them, that belong together."
        )
    return Pair(image, text)
