"""Any ONNX file as a backbone, with a small TOML file beside it that says how pictures are prepared."""

from __future__ import annotations

import hashlib
import os
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from unseen.images import imagenet
from unseen.images._backbone import fingerprint_of
from unseen.images._onnx_backbone import OnnxBackbone, describe_input, open_session
from unseen.images._packages import needed
from unseen.images.preprocessing import Preprocessing
from unseen.validation import check_names, listed

__all__ = ["open_onnx", "read_settings"]

PREPARING = tuple(field.name for field in fields(Preprocessing))
NEEDED = ("mean", "std", "value_range")  # a guess would give wrong features without a word
TEXTS = ("features", "logits", "class_names")
KNOWN = (*PREPARING, *TEXTS, "text")


def open_onnx(
    path: str | Path,
    *,
    n_threads: int | None = None,
    preprocessing: Preprocessing | None = None,
    features: str | None = None,
    logits: str | None = None,
    class_names: tuple[str, ...] | None = None,
) -> OnnxBackbone:
    """Open an ONNX file as a backbone.

    What is not given is read from the TOML file of the same name beside it (``model.toml`` for ``model.onnx``).

    Parameters
    ----------
    path : str or pathlib.Path
        The .onnx file.
    n_threads : int, optional
        Threads that share the work of one call; None: one a core. Take 1 if several threads call the backbone.
    preprocessing : Preprocessing, optional
        How pictures are prepared, in place of what the TOML file says.
    features : str, optional
        Output that holds the features. It may be left out if there is one output only.
    logits : str, optional
        Output that holds the scores of classes, if any.
    class_names : tuple of str, optional
        Names of the columns of the logits.

    Returns
    -------
    OnnxBackbone

    Raises
    ------
    FileNotFoundError
        If there is no such file, or neither a TOML file nor ``preprocessing``.
    ValueError
        If a file cannot be read, or contradicts the graph.
    ImportError
        If a package is missing; the message says which extra to install.
    """
    path = Path(path).expanduser()
    if not path.is_file():
        raise FileNotFoundError(f"backbone: there is no file {str(path)!r}. Pass an .onnx file.")
    settings = read_settings(path, needed=preprocessing is None)
    name = os.path.abspath(path)  # noqa: PTH100 (models keep the name; links stay links, unlike with resolve)
    session = open_session(path, name, n_threads)
    how = preprocessing or _preprocessing_of(settings, session, path)
    features = features or settings.get("features")
    logits = logits or settings.get("logits")
    if class_names is None and "class_names" in settings:
        class_names = _read_class_names(settings["class_names"], path)
    return OnnxBackbone(
        session,
        name,
        how,
        fingerprint_of(_digest(path), how, features, logits),
        features=features,
        logits=logits,
        class_names=class_names,
    )


def read_settings(path: Path, *, needed: bool) -> dict[str, Any]:
    """Settings in the TOML file that belongs to an .onnx file; unknown keys and wrong types are errors."""
    file = path.with_suffix(".toml")
    if not file.is_file():
        if needed:
            raise FileNotFoundError(
                f"backbone: there is no {str(file)!r} that says how pictures are prepared for {path.name!r}. "
                f"Write one with at least {', '.join(NEEDED)}, or pass preprocessing."
            )
        return {}
    try:
        settings = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"backbone: {str(file)!r} is not a TOML file ({error}). Correct it.") from error
    unknown = [key for key in settings if key not in KNOWN]
    if unknown:
        raise ValueError(f"backbone: unknown keys in {str(file)!r}: {listed(unknown)}. Known: {', '.join(KNOWN)}.")
    for key in TEXTS:
        if key in settings and (not isinstance(settings[key], str) or not settings[key]):
            raise ValueError(f"backbone: {key} in {str(file)!r} is {settings[key]!r}. Write a text in quotes.")
    return settings


def _preprocessing_of(settings: dict[str, Any], session: Any, path: Path) -> Preprocessing:
    file = str(path.with_suffix(".toml"))
    missing = [key for key in NEEDED if key not in settings]
    if missing:
        raise ValueError(
            f"backbone: {file!r} lacks {', '.join(missing)}. Many models want mean = [0.485, 0.456, 0.406], "
            f"std = [0.229, 0.224, 0.225], value_range = 1; look up what yours was trained with."
        )
    given = {key: settings[key] for key in PREPARING if key in settings}
    try:
        if "size" not in given:
            # Checks the layout before it is used to find the side.
            layout = Preprocessing(**given).layout
            given["size"] = describe_input(session, str(path), layout).side
            if given["size"] is None:
                raise ValueError(f"size: {path.name!r} takes pictures of any size. Choose one, such as 224.")
        return Preprocessing(**given)
    except ValueError as error:
        raise ValueError(f"backbone: in {file!r}: {error}") from error


def _read_class_names(source: str, path: Path) -> tuple[str, ...]:
    if source == "imagenet":
        return imagenet.class_names()
    file = path.parent / source
    if not file.is_file():
        raise FileNotFoundError(
            f'class_names: there is no file {str(file)!r}. Name a file with one class a line, or "imagenet".'
        )
    try:
        return check_names(file.read_text(encoding="utf-8").splitlines(), f"class_names ({str(file)!r})")
    except UnicodeDecodeError as error:
        raise ValueError(f"class_names: {str(file)!r} is not UTF-8 text ({error}). Save it as UTF-8.") from error


def _digest(path: Path) -> str:
    """SHA-256 of the graph and of the files that hold its weights, if they lie outside of it."""
    total = hashlib.sha256()
    onnx = needed("onnx", "images", f"the fingerprint of {path.name!r}")
    model = onnx.load(str(path), load_external_data=False)
    outside = {
        entry.value
        for tensor in _tensors(model.graph)
        if tensor.data_location == onnx.TensorProto.EXTERNAL
        for entry in tensor.external_data
        if entry.key == "location"
    }
    for file in (path, *(path.parent / name for name in sorted(outside))):
        with file.open("rb") as stream:
            total.update(hashlib.file_digest(stream, "sha256").digest())
    return total.hexdigest()


def _tensors(graph: Any) -> Iterator[Any]:
    """All constants of a graph, those inside its branches and loops too."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            if attribute.HasField("g"):
                yield from _tensors(attribute.g)
            for inner in attribute.graphs:
                yield from _tensors(inner)
