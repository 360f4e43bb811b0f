"""Model files: safetensors with a JSON header. Nothing in a file is ever executed."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as serialize

from unseen.files import write_atomically

HEADER = "unseen-model"  # the one entry of the metadata, so that equal models are equal files
VERSION = 1
# Imported before a class is looked up, so that a base class finds them all.
MODULES_OF_TAGGERS = ("unseen.taep", "unseen.baselines", "unseen.ensembles")

Model = TypeVar("Model")
Tensors = dict[str, NDArray[Any]]


def save(model: Any, path: str | Path) -> None:
    """Write parameters and learned state (every attribute that ends in ``_``) to one file, atomically.

    A parameter that is no plain value, such as a random generator, is left at None, with a warning.
    """
    path = Path(path)
    tensors: Tensors = {}
    state = {
        name: _describe(name, value, tensors) for name, value in sorted(vars(model).items()) if _is_learned(name)
    }
    header = {
        "version": VERSION,
        "class": type(model).__name__,
        "params": _plain_parameters(model.get_params()),
        "state": state,
    }
    content = serialize(tensors, metadata={HEADER: json.dumps(header)})
    write_atomically(path, lambda temporary: temporary.write_bytes(content))


def load(path: str | Path, expected: type[Model]) -> Model:
    """Read a model file; its class must be ``expected`` or a subclass of it that is already imported."""
    path = Path(path)
    header = _read_header(path)
    cls = _find_class(header, expected, path)
    with _reading(path), safe_open(path, framework="numpy") as file:
        model = cls(**header["params"])
        for name, entry in header["state"].items():
            if not _is_learned(name):
                raise ValueError(f"{name!r} is no learned attribute")
            setattr(model, name, _restore(name, entry, file.get_tensor))
    return model


def add_notes(path: str | Path, notes: dict[str, Any]) -> None:
    """Add what JSON can hold to a model file: `load` passes over it, `read_notes` returns it."""
    path = Path(path)
    header = _read_header(path)
    with _reading(path), safe_open(path, framework="numpy") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
    content = serialize(tensors, metadata={HEADER: json.dumps(header | {"notes": notes})})
    write_atomically(path, lambda temporary: temporary.write_bytes(content))


def read_notes(path: str | Path) -> dict[str, Any]:
    """Notes that were saved beside a model; empty if there are none."""
    path = Path(path)
    header = _read_header(path)
    notes = header.get("notes", {}) if isinstance(header, dict) else {}
    if not isinstance(notes, dict):
        raise ValueError(f"path: {str(path)!r} is a damaged model file. Pass one of unseen fit, or of save.")
    return notes


def _read_header(path: Path) -> Any:
    if not path.is_file():
        raise FileNotFoundError(f"path: there is no model file {str(path)!r}. Pass one of unseen fit, or of save.")
    with path.open("rb"):  # safetensors calls a file without permission a missing one
        pass
    with _reading(path), safe_open(path, framework="numpy") as file:
        return json.loads((file.metadata() or {}).get(HEADER, "null"))


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except (SafetensorError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ValueError(
            f"path: {str(path)!r} is no model file of unseen, or a damaged one "
            f"({type(error).__name__}: {error}). Pass one of unseen fit, or of save."
        ) from error


def _find_class(header: Any, expected: type[Model], path: Path) -> type[Model]:
    """Class that the header names, among those known to this process: a file can bring in nothing new."""
    if not isinstance(header, dict):
        raise ValueError(
            f"path: {str(path)!r} is a safetensors file, but no model. Pass one of unseen fit, or of save."
        )
    if header.get("version") != VERSION:
        raise ValueError(
            f"path: {str(path)!r} has model format {header.get('version')}, this version reads {VERSION}. "
            f"Install the version of unseen that wrote it, or fit the model again."
        )
    for module in MODULES_OF_TAGGERS:
        import_module(module)
    name = header.get("class")
    waiting = [expected]
    while waiting:
        cls = waiting.pop()
        if cls.__name__ == name:
            return cls
        waiting.extend(cls.__subclasses__())
    raise ValueError(
        f"path: {str(path)!r} holds a {name!r}, which is no {expected.__name__} that this program "
        f"has imported. Load it with its own class."
    )


def _is_learned(name: str) -> bool:
    return name.endswith("_") and not name.startswith("_")


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


def _plain_parameters(params: dict[str, Any]) -> dict[str, Any]:
    plain = {}
    for name, value in params.items():
        item = value.item() if isinstance(value, np.generic) else value
        plain[name] = item if _is_plain(item) else None
        if not _is_plain(item):
            warnings.warn(
                f"{name}: a {type(item).__name__} cannot be saved; the loaded model will have None.",
                stacklevel=4,  # where the model's own save was called
            )
    return plain


def _describe(name: str, value: Any, tensors: Tensors) -> dict[str, Any]:
    """JSON entry of an attribute; arrays of numbers go to ``tensors``."""
    if isinstance(value, np.generic):
        value = value.item()
    if _is_plain(value):
        return {"json": value}
    if sp.issparse(value):
        csr = sp.csr_array(value)
        tensors |= {f"{name}.data": csr.data, f"{name}.indices": csr.indices, f"{name}.indptr": csr.indptr}
        return {"csr": list(csr.shape)}
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        tensors[name] = np.ascontiguousarray(value)
        return {"tensor": name}
    items = value.tolist() if isinstance(value, np.ndarray) else value
    if isinstance(items, list | tuple) and all(map(_is_plain, items)):
        kind = {"U": "strings", "O": "objects"}[value.dtype.kind] if isinstance(value, np.ndarray) else "tuple"
        return {kind: list(items)}
    raise TypeError(f"{name}: a {type(value).__name__} cannot be saved.")


def _restore(name: str, entry: dict[str, Any], tensor: Callable[[str], NDArray[Any]]) -> Any:
    (kind, value), *_ = entry.items()
    if kind == "json":
        return value
    if kind == "csr":
        parts = (tensor(f"{name}.data"), tensor(f"{name}.indices"), tensor(f"{name}.indptr"))
        csr = sp.csr_array(parts, shape=tuple(value))
        csr.check_format(full_check=True)
        return csr
    if kind == "tensor":
        return tensor(value)
    if kind == "tuple":
        return tuple(value)
    return np.array(value, dtype={"strings": str, "objects": object}[kind])
