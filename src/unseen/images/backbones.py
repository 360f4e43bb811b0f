"""Backbones: frozen networks that turn images into features, opened by name or by file."""

import hashlib
import json
import os
import re
import tomllib
from abc import ABC, abstractmethod
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unseen.files import expanded
from unseen.hub import PAIRS, find_pair, import_extra
from unseen.images import imagenet
from unseen.images.preprocessing import Preprocessing
from unseen.labels.encoders import with_absolute_path
from unseen.validation import check_count, check_names, listed

DEFAULT = "efficientnet-lite0"
NAMES = (DEFAULT, "vgg19", *PAIRS)
_USUAL_OUTPUTS = ("image_embeds", "pooler_output", "embedding")  # of image-text models
_PREPARING = tuple(field.name for field in fields(Preprocessing))
_NEEDED = ("mean", "std", "value_range")  # no default: a wrong guess would go unnoticed


class Described(NamedTuple):
    """Features (n, n_features) of n images, and the logits (n, n_classes) of the backbone's classes, if any."""

    features: NDArray[np.float32]
    logits: NDArray[np.float32] | None


class Backbone(ABC):
    """A frozen network that turns images into features; several threads may share one."""

    name: str  # as `open_backbone` takes it
    preprocessing: Preprocessing  # with which `prepare` makes a batch
    n_features: int
    class_names: tuple[str, ...] | None  # of the columns of the logits, if there are any
    fingerprint: str  # SHA-256 of weights and preprocessing: features of different ones must not be mixed

    def describe(self, batch: NDArray[np.float32]) -> Described:
        """Features of n >= 0 images, stacked as `prepare` returns them: shape (n, 3, size, size), float32."""
        described = self._run(batch)
        if not all(values is None or np.isfinite(values).all() for values in described):
            raise ValueError(f"batch: {self.name!r} gives NaN or infinite values. Check its preprocessing.")
        return described

    @abstractmethod
    def _run(self, batch: NDArray[np.float32]) -> Described:
        """Features and logits of a batch."""


def open_backbone(name: str | Path = DEFAULT, *, n_threads: int | None = None) -> Backbone:
    """Open a backbone.

    Parameters
    ----------
    name : str or pathlib.Path, default="efficientnet-lite0"
        - ``"efficientnet-lite0"``, in the package: 1280 features, and logits of ImageNet's 1,000 classes.
        - ``"vgg19"``: 4096 features (fc7) and the same logits, through torchvision.
        - An ``.onnx`` file with its settings beside it; see `OnnxBackbone`.
        - The image half of an image-text pair: a name of `unseen.hub.PAIRS` such as ``"siglip2"``, a model of the
          Hugging Face hub (downloaded on first use) or a folder, in one of the layouts of `unseen.hub`.
    n_threads : int, optional
        Threads that share the work of one call; None for one per core.
    """
    if n_threads is not None:
        check_count(n_threads, "n_threads")
    if name == DEFAULT:
        return OnnxBackbone(imagenet.DATA / f"{DEFAULT}.onnx", name=DEFAULT, n_threads=n_threads)
    if name == "vgg19":
        return VGG19(n_threads)
    if Path(name).suffix == ".onnx":
        return OnnxBackbone(name, n_threads=n_threads)
    if pair := find_pair(name):
        full_name = with_absolute_path(str(name))
        return OnnxBackbone(pair.image, name=full_name, n_threads=n_threads, settings=pair.image_settings)
    others = "or pass an .onnx file, or the folder or hub id of an image-text pair"
    raise ValueError(f"backbone: {str(name)!r} is unknown. Choose one of {', '.join(NAMES)}, {others}.")


class OnnxBackbone(Backbone):
    """An ONNX graph whose input is a batch of square images, on ONNX Runtime and the CPU.

    A TOML file of the same name beside it (``model.toml`` for ``model.onnx``) holds ``mean``, ``std`` and
    ``value_range``; optionally the other parameters of `Preprocessing`, ``features`` and ``logits`` (names of
    outputs; ``features`` may be omitted if there is one output only, or one of a usual name) and ``class_names``
    (a list, a text file with one name per line, or "imagenet"). ``settings`` replace this file.
    """

    def __init__(
        self, path: str | Path, *, name: str | None = None, n_threads: int | None = None, settings: Any = None
    ) -> None:
        path = expanded(path)
        settings = _read_settings(path) if settings is None else settings
        self.name = name or os.path.abspath(path)  # noqa: PTH100 (links stay links, unlike with resolve)
        runtime = import_extra("onnxruntime", "images")
        options = runtime.SessionOptions()
        options.log_severity_level = 4  # errors are raised, so they need not be logged
        options.intra_op_num_threads = n_threads or 0
        try:
            self._session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # the runtime's errors share no base class
            raise ValueError(f"backbone: {str(path)!r} is not an ONNX graph ({error}).") from error
        graph = self._session.get_inputs()[0]
        self._input, self._dtype = graph.name, np.float16 if "float16" in graph.type else np.float32
        self._n_images, *sizes = (n if isinstance(n, int) and n > 0 else None for n in graph.shape)
        side = sizes[1] if len(sizes) > 1 else None  # in either layout
        given = {"size": side} | {key: settings[key] for key in _PREPARING if key in settings}
        self.preprocessing = Preprocessing(**given)
        self._outputs = self._choose_outputs(settings.get("features"), settings.get("logits"))
        self.fingerprint = _fingerprint(_digests(path), self.preprocessing, self._outputs)
        # One image shows whether the graph is usable, and the length of its outputs.
        features, logits = self._run(self._blank(1))
        self.n_features = features.shape[1]
        names = settings.get("class_names")
        if isinstance(names, str) and names != "imagenet":
            names = (path.parent / names).read_text(encoding="utf-8").splitlines()
        names = imagenet.class_names() if names == "imagenet" else names and check_names(names, "class_names")
        n_classes = 0 if logits is None else logits.shape[1]
        if names is not None and len(names) != n_classes:
            raise ValueError(f"class_names: {len(names)} for {n_classes} logits of {self.name!r}. Pass one each.")
        self.class_names = names

    def _choose_outputs(self, features: str | None, logits: str | None) -> list[str]:
        known = [str(item.name) for item in self._session.get_outputs()]
        usual = [name for name in _USUAL_OUTPUTS if name in known]
        chosen = [features or (known if len(known) == 1 else [*usual, ""])[0], *([logits] if logits else [])]
        if not set(chosen) <= set(known):
            raise ValueError(f"features, logits: {listed(chosen)} was given. Choose from {listed(known)}.")
        return chosen

    def _blank(self, n: int) -> NDArray[np.float32]:
        return np.zeros((n, 3, self.preprocessing.size, self.preprocessing.size), dtype=np.float32)

    def _run(self, batch: NDArray[np.float32]) -> Described:
        # A graph with a fixed batch size is called as often as needed, the last time padded.
        n = len(batch)
        step = self._n_images or max(n, 1)
        missing = -n % step if n else step
        padded = np.concatenate([batch, self._blank(missing)]) if missing else batch
        parts = [self._call(padded[start : start + step]) for start in range(0, len(padded), step)]
        features, *logits = (np.concatenate(part)[:n] for part in zip(*parts, strict=True))
        return Described(features, logits[0] if logits else None)

    def _call(self, batch: NDArray[np.float32]) -> list[NDArray[np.float32]]:
        ordered = batch.transpose(0, 2, 3, 1) if self.preprocessing.layout == "NHWC" else batch
        feed = {self._input: np.ascontiguousarray(ordered, dtype=self._dtype)}
        try:
            outputs = self._session.run(self._outputs, feed)
        except Exception as error:  # the runtime's errors share no base class
            advice = f"({error}). Check the size and the layout of its preprocessing"
            raise ValueError(f"backbone: {self.name!r} cannot run on {ordered.shape} {advice}.") from error
        # A one-pixel map is a vector.
        rows = [values[:, :, 0, 0] if values.shape[2:] == (1, 1) else values for values in outputs]
        for name, values in zip(self._outputs, rows, strict=True):
            if values.ndim != 2 or len(values) != len(batch) or values.dtype.kind != "f":
                found = f"the output {name!r} of {self.name!r} has shape {values.shape} and type {values.dtype}"
                raise ValueError(f"backbone: {found}. Choose one with a vector per image.")
        return [values.astype(np.float32, copy=False) for values in rows]


class VGG19(Backbone):
    """VGG19 (Simonyan and Zisserman 2014) of torchvision: fc7 after its ReLU, 4096 features, as in the TAEP paper.

    torchvision downloads the weights once (548 MB). The number of threads is a setting of the whole process.
    """

    n_features = 4096

    def __init__(self, n_threads: int | None = None) -> None:
        self._torch = import_extra("torch", "torch")
        models = import_extra("torchvision.models", "torch")
        if n_threads is not None:
            self._torch.set_num_threads(n_threads)
        self.name, self.class_names = "vgg19", imagenet.class_names()
        self.preprocessing = Preprocessing(
            interpolation="bilinear", mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225), value_range=1.0
        )
        weights = models.VGG19_Weights.IMAGENET1K_V1
        self._model = models.vgg19(weights=None)
        # The download is a pickle: it is verified, and only tensors are loaded from it.
        self._model.load_state_dict(weights.get_state_dict(progress=True, check_hash=True, weights_only=True))
        self._model.eval()
        self.fingerprint = _fingerprint([weights.url], self.preprocessing, ["fc7"])  # the URL has their digest

    def _run(self, batch: NDArray[np.float32]) -> Described:
        with self._torch.inference_mode():
            x = self._torch.from_numpy(np.ascontiguousarray(batch))
            x = self._torch.flatten(self._model.avgpool(self._model.features(x)), 1)
            features = self._model.classifier[:5](x)
            logits = self._model.classifier[5:](features)
        return Described(features.numpy(), logits.numpy())


def _read_settings(path: Path) -> dict[str, Any]:
    """Settings in the TOML file that belongs to an .onnx file; unknown keys and wrong types are errors."""
    file = path.with_suffix(".toml")
    for needed in (path, file):
        if not needed.is_file():
            raise FileNotFoundError(f"backbone: there is no {str(needed)!r}. Pass an .onnx and a .toml file.")
    try:
        settings = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"backbone: {str(file)!r} is not a TOML file ({error}). Correct it.") from error
    known = (*_PREPARING, "features", "logits", "class_names")
    problems = [f"{key} is missing" for key in _NEEDED if key not in settings]
    problems += [f"{key!r} is unknown" for key in settings if key not in known]
    if problems:
        raise ValueError(
            f"backbone: {', '.join(problems)} in {str(file)!r}. Known: {', '.join(known)}. Many models use "
            f"mean = [0.485, 0.456, 0.406], std = [0.229, 0.224, 0.225], value_range = 1; look up yours."
        )
    return settings


def _digests(path: Path) -> list[str]:
    """SHA-256 of a graph and of any external weight files beside it."""
    content = path.read_bytes()
    # In the protocol buffer such a file is an entry of a tensor, {key: "location", value: NAME}.
    entries = re.finditer(rb"\x0a\x08location\x12([\x01-\x7f])", content)
    names = {content[entry.end() : entry.end() + entry[1][0]].decode(errors="replace") for entry in entries}
    beside = [path.parent / name for name in sorted(names)]
    return [hashlib.sha256(file.read_bytes()).hexdigest() for file in (path, *beside) if file.is_file()]


def _fingerprint(weights: list[str], how: Preprocessing, outputs: list[str]) -> str:
    """SHA-256 that is the same on every machine for the same weights, preprocessing and outputs."""
    return hashlib.sha256(json.dumps([weights, asdict(how), outputs], sort_keys=True).encode()).hexdigest()
