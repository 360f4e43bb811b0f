"""Backbones that run on ONNX Runtime, on the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unseen.images._backbone import Backbone, Described
from unseen.images._packages import needed
from unseen.images.preprocessing import Preprocessing
from unseen.validation import check_count, listed

__all__ = ["OnnxBackbone", "describe_input", "open_session"]


class _Input(NamedTuple):
    """What a graph says of its input; None stands for a size that is left open."""

    name: str
    dtype: type[np.floating[Any]]
    n_images: int | None
    side: int | None


class OnnxBackbone(Backbone):
    """A backbone as an ONNX graph.

    Parameters
    ----------
    session : onnxruntime.InferenceSession
        The opened graph, see `open_session`.
    name : str
    preprocessing : Preprocessing
    fingerprint : str
    features : str, optional
        Output that holds the features. It may be left out if there is one output only.
    logits : str, optional
        Output that holds the logits; None: there are none.
    class_names : tuple of str, optional
        Names of the columns of the logits.
    """

    def __init__(
        self,
        session: Any,
        name: str,
        preprocessing: Preprocessing,
        fingerprint: str,
        *,
        features: str | None = None,
        logits: str | None = None,
        class_names: tuple[str, ...] | None = None,
    ) -> None:
        self.name = name
        self.preprocessing = preprocessing
        self.fingerprint = fingerprint
        self.class_names = class_names
        self._session = session
        self._input = describe_input(session, name, preprocessing.layout)
        self._outputs = _choose_outputs(session, name, features, logits)
        if self._input.side not in (None, preprocessing.size):
            raise ValueError(
                f"size: {name!r} takes pictures of {self._input.side} x {self._input.side} pixels, but "
                f"{preprocessing.size} was given. Set size to {self._input.side}."
            )
        # One picture tells how long the outputs really are; what graphs declare may be left open.
        trial = self._run(self._blank(1))
        self.n_features = trial.features.shape[1]
        _check_classes(trial.logits, class_names, name)

    def _blank(self, n: int) -> NDArray[np.float32]:
        return np.zeros((n, 3, self.preprocessing.size, self.preprocessing.size), dtype=np.float32)

    def _run(self, batch: NDArray[np.float32]) -> Described:
        if not len(batch):
            features, logits = self._run(self._blank(1))
            return Described(features[:0], None if logits is None else logits[:0])
        step = self._input.n_images or len(batch)
        parts = [self._run_part(batch[start : start + step]) for start in range(0, len(batch), step)]
        joined = [np.concatenate(outputs) for outputs in zip(*parts, strict=True)]
        return Described(joined[0], joined[1] if len(joined) == 2 else None)

    def _run_part(self, batch: NDArray[np.float32]) -> list[NDArray[np.float32]]:
        n = len(batch)
        if self._input.n_images is not None and n < self._input.n_images:
            batch = np.concatenate([batch, self._blank(self._input.n_images - n)])
        if self.preprocessing.layout == "NHWC":
            batch = batch.transpose(0, 2, 3, 1)
        feed = {self._input.name: np.ascontiguousarray(batch, dtype=self._input.dtype)}
        try:
            outputs = self._session.run(self._outputs, feed)
        except Exception as error:  # the runtime's errors share no base class
            raise ValueError(
                f"backbone: {self.name!r} cannot run on an input of shape {batch.shape} ({error}). "
                f"Check the size and the layout of its preprocessing."
            ) from error
        pairs = zip(outputs, self._outputs, strict=True)
        return [self._as_rows(values, output, len(batch))[:n] for values, output in pairs]

    def _as_rows(self, values: NDArray[Any], output: str, n: int) -> NDArray[np.float32]:
        """One vector a picture; maps of 1 x 1 pixels count as vectors."""
        if values.ndim == 4 and values.shape[2:] == (1, 1):
            values = values[:, :, 0, 0]
        if values.ndim != 2 or len(values) != n or values.dtype.kind != "f":
            raise ValueError(
                f"backbone: the output {output!r} of {self.name!r} has shape {values.shape} and type "
                f"{values.dtype} for {n} pictures. Choose an output of one vector a picture, after pooling."
            )
        return values.astype(np.float32, copy=False)


def open_session(content: bytes | Path, name: str, n_threads: int | None) -> Any:
    """Session of ONNX Runtime on the CPU."""
    runtime = needed("onnxruntime", "images", repr(name))
    options = runtime.SessionOptions()
    options.log_severity_level = 4  # its errors are raised, which is enough
    if n_threads is not None:
        options.intra_op_num_threads = check_count(n_threads, "n_threads")
    source = content if isinstance(content, bytes) else str(content)
    try:
        return runtime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the runtime's errors share no base class
        raise ValueError(
            f"backbone: {name!r} cannot be opened as an ONNX graph ({error}). Pass an .onnx file."
        ) from error


def describe_input(session: Any, name: str, layout: str) -> _Input:
    """Name, type and sizes of the input of a graph that takes pictures."""
    inputs = session.get_inputs()
    if len(inputs) != 1:
        raise ValueError(
            f"backbone: {name!r} has the inputs {listed([item.name for item in inputs])}. "
            f"Pass a graph whose only input is a batch of pictures."
        )
    (item,) = inputs
    dtypes: dict[str, type[np.floating[Any]]] = {"tensor(float)": np.float32, "tensor(float16)": np.float16}
    if item.type not in dtypes or len(item.shape) != 4:
        raise ValueError(
            f"backbone: the input {item.name!r} of {name!r} has shape {item.shape} and type {item.type}. "
            f"Pass a graph that takes a float batch of four dimensions: pictures, colours, rows and columns."
        )
    sizes = [n if isinstance(n, int) and n > 0 else None for n in item.shape]
    n_images, colours, height, width = sizes if layout == "NCHW" else [sizes[i] for i in (0, 3, 1, 2)]
    if colours not in (3, None):
        raise ValueError(
            f"layout: the input {item.name!r} of {name!r} has shape {item.shape}, which is not {layout} with 3 "
            f"colours. Set layout to the model's own order, NCHW or NHWC."
        )
    if height is not None and width is not None and height != width:
        raise ValueError(
            f"backbone: {name!r} takes pictures of {height} x {width} pixels. Pass a graph that takes squares."
        )
    return _Input(item.name, dtypes[item.type], n_images, height or width)


def _choose_outputs(session: Any, name: str, features: str | None, logits: str | None) -> list[str]:
    known = [str(item.name) for item in session.get_outputs()]
    if features is None and len(known) > 1:
        raise ValueError(f"features: {name!r} has the outputs {listed(known)}. Say which one holds the features.")
    chosen = [known[0] if features is None else features, *([] if logits is None else [logits])]
    for wanted in chosen:
        if wanted not in known:
            raise ValueError(
                f"features, logits: {name!r} has no output {wanted!r}, only {listed(known)}. Choose among them."
            )
    return chosen


def _check_classes(logits: NDArray[np.float32] | None, class_names: tuple[str, ...] | None, name: str) -> None:
    n_classes = 0 if logits is None else logits.shape[1]
    if class_names is not None and len(class_names) != n_classes:
        raise ValueError(
            f"class_names: {len(class_names)} names were given for the {n_classes} logits of {name!r}. "
            f"Give one name for each logit, or none."
        )
