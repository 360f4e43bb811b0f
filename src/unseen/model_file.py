"""Model files: safetensors with a JSON header. Nothing in a file is ever executed.

The header describes a model as its class, its parameters and its learned state; a parameter or learned attribute
that is a tagger itself is described in the same way, its tensors under a prefix.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as serialize

from unseen.files import write_atomically

HEADER = "unseen-model"  # the only entry of the metadata, so that equal models are equal files
VERSION = 1
# Where a class may come from that is not imported yet, the lightest module first.
MODULES_OF_TAGGERS = ("unseen.taep", "unseen.ensembles", "unseen.baselines")

_ADVICE = "Pass a file that unseen fit or save wrote."

Model = TypeVar("Model")
Tensors = dict[str, NDArray[Any]]


def save(model: Any, path: str | Path, notes: dict[str, Any] | None = None) -> None:
    """Write parameters and learned state (every attribute that ends in ``_``) to one file, atomically.

    Parameters
    ----------
    model : ZeroShotTagger
        Fitted. A parameter that is neither a plain value nor a tagger, such as a random generator, is saved as
        None, with a warning.
    path : str or Path
        An existing file is replaced.
    notes : dict, optional
        Anything that JSON can hold: `load` ignores it, `read_notes` returns it.
    """
    tensors: Tensors = {}
    unsaved: dict[str, str] = {}
    header = {"version": VERSION, **_describe_model(model, "", tensors, unsaved)}
    if notes is not None:
        header["notes"] = notes
    for name, kind in unsaved.items():
        # The level is where the model's own save was called.
        warnings.warn(f"{name}: a {kind} cannot be saved; the loaded model will have None.", stacklevel=3)
    content = serialize(tensors, metadata={HEADER: json.dumps(header)})
    write_atomically(Path(path), lambda temporary: temporary.write_bytes(content))


def load(path: str | Path, expected_class: type[Model]) -> Model:
    """Read a model file.

    Parameters
    ----------
    path : str or Path
        A file that `save` wrote.
    expected_class : type
        The class of the model, or a base class of it.

    Returns
    -------
    ZeroShotTagger
        Of the class that was saved, which must be known to this program: a file cannot bring in code.
    """
    path = Path(path)
    header = _read_header(path)
    if header.get("version") != VERSION:
        found = f"{str(path)!r} has model format {header.get('version')}, this version reads {VERSION}"
        raise ValueError(f"path: {found}. Fit the model again, or install the version of unseen that wrote it.")
    cls = _find_class(header.get("class"), expected_class)
    if cls is None:
        found = f"{str(path)!r} holds a {header.get('class')!r}, not a known {expected_class.__name__}"
        raise ValueError(f"path: {found}. Load it with its own class, and import that first.")
    with _reading(path), safe_open(path, framework="numpy") as file:
        model: Model = _Reader(file.get_tensor, cls).model(header, cls, "")
    return model


def read_notes(path: str | Path) -> dict[str, Any]:
    """Notes that were saved with a model; empty if there are none.

    Parameters
    ----------
    path : str or Path
        A file that `save` wrote.

    Returns
    -------
    dict
    """
    notes = _read_header(Path(path)).get("notes", {})
    if not isinstance(notes, dict):
        raise ValueError(f"path: {str(path)!r} is damaged. {_ADVICE}")
    return notes


def _read_header(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise FileNotFoundError(f"path: there is no model file {str(path)!r}. {_ADVICE}")
    with path.open("rb"):  # safetensors calls a file without permission a missing one
        pass
    with _reading(path), safe_open(path, framework="numpy") as file:
        header = json.loads((file.metadata() or {}).get(HEADER, "null"))
    if not isinstance(header, dict):
        raise ValueError(f"path: {str(path)!r} is a safetensors file, but not a model. {_ADVICE}")
    return header


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except (SafetensorError, AttributeError, LookupError, TypeError, ValueError) as error:
        found = f"{str(path)!r} is not a model file of unseen, or is damaged ({type(error).__name__}: {error})"
        raise ValueError(f"path: {found}. {_ADVICE}") from error


def _find_class(name: Any, expected: type) -> Any:
    """Class of this name among ``expected`` and its subclasses, as far as this program knows them; or None."""
    for module in (None, *MODULES_OF_TAGGERS):
        if module is not None:
            import_module(module)
        waiting = [expected]
        while waiting:
            cls = waiting.pop()
            if cls.__name__ == name:
                return cls
            waiting.extend(cls.__subclasses__())
    return None


def _is_tagger(value: Any) -> bool:
    return hasattr(value, "_saved_params") and not isinstance(value, type)


def _is_learned(name: str) -> bool:
    return name.endswith("_") and not name.startswith("_")


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


def _describe_model(model: Any, prefix: str, tensors: Tensors, unsaved: dict[str, str]) -> dict[str, Any]:
    """JSON description of a model; arrays of numbers go to ``tensors``, parameters left out to ``unsaved``."""
    params: dict[str, Any] = {}
    for name, given in model._saved_params().items():
        value = _plain(given)
        if _is_tagger(value):
            params[name] = _describe_model(value, f"{prefix}{name}.", tensors, unsaved)
        else:
            params[name] = value if _is_plain(value) else None
            if not _is_plain(value):
                unsaved[prefix + name] = type(value).__name__
    learned = sorted((name, value) for name, value in vars(model).items() if _is_learned(name))
    state = {name: _describe(prefix + name, value, tensors, unsaved) for name, value in learned}
    return {"class": type(model).__name__, "params": params, "state": state}


def _describe(name: str, value: Any, tensors: Tensors, unsaved: dict[str, str]) -> dict[str, Any]:
    """JSON entry of a learned attribute."""
    value = _plain(value)
    if _is_plain(value):
        return {"json": value}
    if _is_tagger(value):
        return {"model": _describe_model(value, f"{name}.", tensors, unsaved)}
    if sp.issparse(value):
        csr = sp.csr_array(value)
        tensors |= {f"{name}.data": csr.data, f"{name}.indices": csr.indices, f"{name}.indptr": csr.indptr}
        return {"csr": list(csr.shape)}
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        tensors[name] = np.ascontiguousarray(_halved(value))
        return {"tensor": name}
    items = value.tolist() if isinstance(value, np.ndarray) else value
    if isinstance(items, list | tuple) and all(map(_is_plain, items)):
        kind = {"U": "strings", "O": "objects"}[value.dtype.kind] if isinstance(value, np.ndarray) else "tuple"
        return {kind: list(items)}
    raise TypeError(f"{name}: a {type(value).__name__} cannot be saved.")


def _halved(array: NDArray[Any]) -> NDArray[Any]:
    """A float32 array in half precision if that loses nothing."""
    if array.dtype != np.float32:
        return array
    with np.errstate(over="ignore"):
        half = array.astype(np.float16)
    return half if np.array_equal(half, array) else array


class _Reader(NamedTuple):
    """Models from descriptions: ``tensor`` reads an array by name, ``cls`` is the class of the whole model."""

    tensor: Callable[[str], Any]
    cls: Any

    def model(self, description: dict[str, Any], cls: Any, prefix: str) -> Any:
        params = {
            name: self.part(value, f"{prefix}{name}.") if isinstance(value, dict) else value
            for name, value in description["params"].items()
        }
        model = cls(**params)
        for name, entry in description["state"].items():
            if not _is_learned(name):
                raise ValueError(f"{name!r} is not a learned attribute")
            (kind, value), *_ = entry.items()
            setattr(model, name, self.value(prefix + name, kind, value))
        return model

    def part(self, description: dict[str, Any], prefix: str) -> Any:
        # A part may be any tagger: their common base is the last class to have this method.
        base = [cls for cls in self.cls.__mro__ if hasattr(cls, "_saved_params")][-1]
        cls = _find_class(description["class"], base)
        if cls is None:
            raise ValueError(f"{prefix[:-1]} is a {description['class']!r}, which this program has not imported")
        return self.model(description, cls, prefix)

    def value(self, name: str, kind: str, value: Any) -> Any:
        if kind == "model":
            return self.part(value, f"{name}.")
        if kind == "csr":
            parts = tuple(self.tensor(f"{name}.{part}") for part in ("data", "indices", "indptr"))
            csr = sp.csr_array(parts, shape=tuple(value))
            csr.check_format(full_check=True)
            return csr
        if kind == "tensor":
            array = self.tensor(value)
            return array.astype(np.float32) if array.dtype == np.float16 else array  # half precision is slow
        if kind in ("strings", "objects"):
            return np.array(value, dtype=str if kind == "strings" else object)
        return {"json": lambda item: item, "tuple": tuple}[kind](value)
