"""Model files: safetensors with a JSON header. Nothing in a file is ever executed."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

FORMAT = "unseen-model"
VERSION = 1

Model = TypeVar("Model")


def save(model: Any, path: str | Path) -> None:
    """Write parameters and learned state (every attribute that ends in ``_``) to one file, atomically."""
    path = Path(path)
    tensors: dict[str, np.ndarray[Any, Any]] = {}
    state: dict[str, Any] = {}
    for name, value in sorted(vars(model).items()):
        if name.endswith("_") or name == "_single_label":
            state[name] = _describe(name, value, tensors)
    header = {
        "format": FORMAT,
        "version": str(VERSION),
        "class": type(model).__name__,
        "params": json.dumps({k: v if _is_plain(v) else None for k, v in model.get_params().items()}),
        "state": json.dumps(state),
    }
    write_atomically(path, lambda temporary: save_file(tensors, temporary, metadata=header))


def load(path: str | Path, expected: type[Model]) -> Model:
    """Read a model file; the class must be ``expected`` or one of its subclasses."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"path: there is no model file {str(path)!r}.")
    try:
        with safe_open(path, framework="numpy") as file:
            header = file.metadata() or {}
            _check_header(header, path)
            cls = _find_class(header["class"], expected, path)
            params, state = json.loads(header["params"]), json.loads(header["state"])
            model = cls(**params)
            for name, entry in state.items():
                setattr(model, name, _restore(name, entry, file.get_tensor))
    except (SafetensorError, json.JSONDecodeError, KeyError, TypeError) as error:
        raise ValueError(
            f"path: {str(path)!r} is not a readable unseen model file ({type(error).__name__}: {error})."
        ) from error
    return model


def write_atomically(path: Path, write: Any) -> None:
    """Call ``write`` with a temporary name beside ``path`` and rename on success: whole file or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    os.close(handle)
    try:
        write(temporary)
        umask = os.umask(0)
        os.umask(umask)
        Path(temporary).chmod(0o666 & ~umask)  # mkstemp makes files private
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _check_header(header: dict[str, str], path: Path) -> None:
    if header.get("format") != FORMAT:
        raise ValueError(f"path: {str(path)!r} is a safetensors file, but not a model of unseen.")
    if header.get("version") != str(VERSION):
        raise ValueError(
            f"path: {str(path)!r} has model format {header.get('version')}, this version reads {VERSION}. "
            f"Install the version of unseen that wrote it, or fit the model again."
        )


def _find_class(name: str, expected: type[Model], path: Path) -> type[Model]:
    waiting = [expected]
    while waiting:
        cls = waiting.pop()
        if cls.__name__ == name:
            return cls
        waiting.extend(cls.__subclasses__())
    raise ValueError(f"path: {str(path)!r} holds a {name}, which is no {expected.__name__}. Use {name}.load.")


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


def _describe(name: str, value: Any, tensors: dict[str, np.ndarray[Any, Any]]) -> Any:
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
    if isinstance(value, np.ndarray):
        return {"strings": [str(item) for item in value.ravel()], "object": value.dtype.kind == "O"}
    if isinstance(value, tuple | list) and all(_is_plain(item) for item in value):
        return {"tuple": list(value)}
    raise TypeError(f"{name}: a {type(value).__name__} cannot be saved.")


def _restore(name: str, entry: dict[str, Any], tensor: Any) -> Any:
    if "json" in entry:
        return entry["json"]
    if "csr" in entry:
        parts = (tensor(f"{name}.data"), tensor(f"{name}.indices"), tensor(f"{name}.indptr"))
        return sp.csr_array(parts, shape=tuple(entry["csr"]))
    if "tensor" in entry:
        return tensor(entry["tensor"])
    if "strings" in entry:
        return np.array(entry["strings"], dtype=object if entry["object"] else None)
    return tuple(entry["tuple"])
