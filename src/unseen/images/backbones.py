"""Backbones: frozen networks that turn pictures into features, opened by name or by file."""

from __future__ import annotations

from pathlib import Path

from unseen.images import _efficientnet
from unseen.images._backbone import Backbone, Described, fingerprint_of
from unseen.images._onnx_backbone import OnnxBackbone, open_session
from unseen.images._onnx_file import open_onnx
from unseen.images._vgg import VGG19
from unseen.images.imagenet import class_names
from unseen.images.preprocessing import Preprocessing, prepare
from unseen.validation import listed

__all__ = ["NAMES", "Backbone", "Described", "Preprocessing", "open_backbone", "open_onnx", "prepare"]

NAMES = (*_efficientnet.VARIANTS, "vgg19")


def open_backbone(
    name: str | Path = "efficientnet-lite0",
    *,
    n_threads: int | None = None,
    preprocessing: Preprocessing | None = None,
) -> Backbone:
    """Open a backbone.

    Parameters
    ----------
    name : str or pathlib.Path, default="efficientnet-lite0"
        - ``"efficientnet-lite0"``, ``"efficientnet-lite1"`` or ``"efficientnet-lite2"``: 1280 features and the
          logits of ImageNet's 1,000 classes, on ONNX Runtime.
        - ``"vgg19"``: 4096 features (fc7) and the same logits, through torchvision.
        - A ``.safetensors`` file: VGG19 with these weights.
        - An ``.onnx`` file, with a ``.toml`` file of the same name beside it; see `open_onnx`.
    n_threads : int, optional
        Threads that share the work of one call; None: one a core. A backbone may be called from several threads
        at a time: with many small batches, ``n_threads=1`` and a thread a core is the fastest.
    preprocessing : Preprocessing, optional
        How pictures are prepared, in place of the backbone's own way.

    Returns
    -------
    Backbone

    Raises
    ------
    ImportError
        If a package is missing; the message says what to install.
    FileNotFoundError
        If there is no such file.
    ValueError
        If there is no backbone of that name, or a file cannot be used.

    Examples
    --------
    >>> import numpy as np
    >>> from PIL import Image
    >>> from unseen.images.backbones import open_backbone, prepare
    >>> backbone = open_backbone()
    >>> batch = np.stack([prepare(Image.new("RGB", (640, 480)), backbone.preprocessing)])
    >>> features, logits = backbone.describe(batch)
    >>> features.shape, logits.shape
    ((1, 1280), (1, 1000))
    """
    if name in _efficientnet.VARIANTS:
        return _open_efficientnet(str(name), n_threads, preprocessing)
    if name == "vgg19":
        return VGG19(n_threads=n_threads, preprocessing=preprocessing)
    path = Path(name).expanduser()
    if path.suffix == ".onnx":
        return open_onnx(path, n_threads=n_threads, preprocessing=preprocessing)
    if path.suffix == ".safetensors":
        return VGG19(path, n_threads=n_threads, preprocessing=preprocessing)
    raise ValueError(
        f"backbone: there is none called {str(name)!r}. Choose one of {listed(NAMES)}, "
        f"or pass an .onnx or .safetensors file."
    )


def _open_efficientnet(name: str, n_threads: int | None, preprocessing: Preprocessing | None) -> OnnxBackbone:
    how = preprocessing or _efficientnet.preprocessing_of(name)
    graph = _efficientnet.cached_graph(name)
    return OnnxBackbone(
        open_session(graph.content, name, n_threads),
        name,
        how,
        fingerprint_of(graph.digest, how, "efficientnet-lite", _efficientnet.VERSION),
        features="features",
        logits="logits",
        class_names=class_names(),
    )
