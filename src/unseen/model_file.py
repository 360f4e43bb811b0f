"""Model files: safetensors with a JSON header. Nothing in a file is ever executed.

The header describes a model by its class, its parameters and its learned state (every attribute that ends in
``_``). A parameter or attribute that is itself a tagger is described in the same way, its tensors under a prefix.

A digest of the header and the tensors shows damage: it is checked when a file is read. As anyone can compute it,
numbers must be finite besides, and a model must score an image before it is returned. A mark made with a secret of
the user tells models that were saved on this machine from those of others, see `is_own`.
"""

import hashlib
import hmac
import json
import os
import secrets
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as serialize

from unseen.files import reason, write_atomically

HEADER = "unseen-model"  # the only entry of the metadata, so that equal models are equal files
VERSION = 3
DEEPEST = 8  # models inside each other
LARGEST = 1e100  # number: squares of larger ones overflow
MARK = 64  # letters of a mark, without its checksum
# Modules that may define a class not yet imported, lightest first.
MODULES_OF_TAGGERS = ("unseen.taep", "unseen.calibration", "unseen.ensembles", "unseen.baselines")
ADVICE = "Pass a file that unseen fit or save wrote."

Model = TypeVar("Model")


def save(model: Any, path: str | Path, notes: dict[str, Any] | None = None) -> None:
    """Write a fitted model to one file, atomically; ``notes`` are anything that JSON can hold, for `read_notes`.

    A parameter that is neither a plain value nor a tagger, such as a random generator, is saved as None, with a
    warning.
    """
    writer = _Writer({}, {})
    header = {"version": VERSION, **writer.model(model, "")} | ({} if notes is None else {"notes": notes})
    for name, kind in writer.unsaved.items():
        # The stack level points to the call of the model's own save.
        warnings.warn(f"{name}: a {kind} cannot be saved; the loaded model will have None.", stacklevel=3)
    header["digest"] = _digest(header, writer.tensors)
    if notes is not None and (key := _secret(create=True)) is not None:
        header["mark"] = _sealed(hmac.new(key, header["digest"].encode(), "sha256").hexdigest())
    content = serialize(writer.tensors, metadata={HEADER: json.dumps(header)})
    write_atomically(Path(path), lambda temporary: temporary.write_bytes(content))


def load(path: str | Path, expected_class: type[Model], *, is_trusted: bool = False) -> Model:
    """Read a model that `save` wrote, of this class or a subclass. A file has no code: its class must be known.

    One that is trusted, as it is part of the package or `is_own`, need not score an image first.
    """
    path = Path(path)
    header = read_header(path)
    if header.get("version") != VERSION:
        found = f"{str(path)!r} has model format {_short(header.get('version'))}, this version reads {VERSION}"
        raise ValueError(f"path: {found}. Fit the model again, or install the version of unseen that wrote it.")
    cls = _find_class(header.get("class"), expected_class)
    if cls is None:
        found = f"{str(path)!r} holds a {_short(header.get('class'))}, not a known {expected_class.__name__}"
        raise ValueError(f"path: {found}. Load it with its own class, and import that first.")
    with _reading(path), safe_open(path, framework="numpy") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
        if header["digest"] != _digest(header, tensors):
            raise ValueError("its content does not match its digest")
        mark = header.get("mark")
        if isinstance(mark, str) and len(mark) > MARK and mark != _sealed(mark[:MARK]):
            raise ValueError("its mark is damaged")
        for name, tensor in tensors.items():
            if tensor.dtype.kind == "f" and not float(np.abs(tensor).max(initial=0.0)) <= LARGEST:
                raise ValueError(f"{name} has numbers that are not finite, or too large")
        reader = _Reader(tensors.__getitem__, is_trusted)
        return reader.checked(reader.model(header, cls, ""))  # type: ignore[no-any-return]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 50 else f"{text[:50]}..."


def is_own(path: str | Path) -> bool:
    """Whether this user saved a model on this machine: only then may its notes name local files to open."""
    header, key = read_header(path), _secret()
    given, digest = header.get("mark"), header.get("digest")
    if key is None or not isinstance(given, str) or not isinstance(digest, str):
        return False
    own = hmac.new(key, digest.encode("utf-8", "replace"), "sha256").hexdigest()
    return hmac.compare_digest(own.encode(), given[:MARK].encode("utf-8", "replace"))


def _sealed(mark: str) -> str:
    """A mark with a checksum, as it is not part of the digest."""
    return mark + hashlib.sha256(mark.encode("utf-8", "replace")).hexdigest()[:8]


def _secret(*, create: bool = False) -> bytes | None:
    """Random bytes that this user alone can read; None if there are none and none can be written."""
    from platformdirs import user_data_path

    def write(part: Path) -> None:
        made = path.read_bytes() if path.is_file() else b""  # by another process, just now
        part.unlink(missing_ok=True)
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(made or secrets.token_bytes(32))

    path = Path(os.environ.get("UNSEEN_KEY") or user_data_path("unseen", appauthor=False) / "key")
    try:
        if create and not (path.is_file() and path.stat().st_size):
            write_atomically(path, write)
        return path.read_bytes() or None
    except OSError:
        return None


def _digest(header: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> str:
    """SHA-256 of a header, without its digest and mark, and of all tensors."""
    described = {name: value for name, value in header.items() if name not in ("digest", "mark")}
    found = hashlib.sha256(json.dumps(described, sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        found.update(f"{name} {tensor.dtype.str} {tensor.shape}".encode())
        found.update(np.ascontiguousarray(tensor).tobytes())
    return found.hexdigest()


def read_notes(path: str | Path) -> dict[str, Any]:
    """Notes that were saved with a model; empty if there are none."""
    notes = read_header(path).get("notes", {})
    if not isinstance(notes, dict):
        raise ValueError(f"path: {str(path)!r} is damaged. {ADVICE}")
    return notes


def read_header(path: str | Path) -> dict[str, Any]:
    """What a model file says of itself, unchecked."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"path: there is no model file {str(path)!r}. {ADVICE}")
    with path.open("rb"):  # safetensors reports an unreadable file as missing
        pass
    with _reading(path), safe_open(path, framework="numpy") as file:
        header = json.loads((file.metadata() or {}).get(HEADER, "null"))
    if not isinstance(header, dict):
        raise ValueError(f"path: {str(path)!r} is a safetensors file, but not a model. {ADVICE}")
    return header


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except (SafetensorError, ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError,
            ValueError) as error:  # fmt: skip
        found = (
            f"{str(path)!r} is not a model file of unseen, or is damaged ({type(error).__name__}: {reason(error)})"
        )
        raise ValueError(f"path: {found}. {ADVICE}") from error


def _find_class(name: Any, expected: type) -> Any:
    for module in ("unseen", *MODULES_OF_TAGGERS):
        import_module(module)
        waiting = [expected]
        while waiting:
            cls = waiting.pop()
            if cls.__name__ == name:
                return cls
            waiting.extend(cls.__subclasses__())
    return None


def _is_learned(name: str) -> bool:
    return name.endswith("_") and not name.startswith("_")


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


class Stored:
    """Base class of what a model file holds: its parameters, and every attribute that ends in ``_``."""

    def _saved_params(self) -> dict[str, Any]:
        return {}


class _Writer(NamedTuple):
    """Descriptions of models; arrays go to ``tensors``, parameters that cannot be saved to ``unsaved``."""

    tensors: dict[str, NDArray[Any]]
    unsaved: dict[str, str]

    def model(self, model: Any, prefix: str) -> dict[str, Any]:
        params = {name: self.param(prefix + name, value) for name, value in model._saved_params().items()}
        learned = sorted((name, value) for name, value in vars(model).items() if _is_learned(name))
        state = {name: self.attribute(prefix + name, value) for name, value in learned}
        return {"class": type(model).__name__, "params": params, "state": state}

    def param(self, name: str, value: Any) -> Any:
        value = value.item() if isinstance(value, np.generic) else value
        if isinstance(value, Stored):
            return self.model(value, f"{name}.")
        if not _is_plain(value):
            self.unsaved[name] = type(value).__name__
        return value if _is_plain(value) else None

    def attribute(self, name: str, value: Any) -> dict[str, Any]:
        value = value.item() if isinstance(value, np.generic) else value
        if _is_plain(value):
            return {"json": value}
        if isinstance(value, Stored):
            return {"model": self.model(value, f"{name}.")}
        if sp.issparse(value):
            csr = sp.csr_array(value)
            self.tensors.update({f"{name}.{part}": getattr(csr, part) for part in ("data", "indices", "indptr")})
            return {"csr": list(csr.shape)}
        if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
            self.tensors[name] = np.ascontiguousarray(_halved(value))
            return {"tensor": name}
        items = value.tolist() if isinstance(value, np.ndarray) else value
        if isinstance(items, list | tuple) and all(map(_is_plain, items)):
            kinds = {"U": "strings", "O": "objects"}
            return {kinds[value.dtype.kind] if isinstance(value, np.ndarray) else "tuple": list(items)}
        raise TypeError(f"{name}: a {type(value).__name__} cannot be saved.")


def _halved(array: NDArray[Any]) -> NDArray[Any]:
    with np.errstate(over="ignore"):
        half = array.astype(np.float16) if array.dtype == np.float32 else array
    return half if np.array_equal(half, array) else array


class _Reader(NamedTuple):
    """Models from descriptions; ``tensor`` reads an array by name. Those that are not trusted are checked."""

    tensor: Callable[[str], Any]
    is_trusted: bool

    def checked(self, model: Any) -> Any:
        if not self.is_trusted and hasattr(model, "_check_restored"):
            model._check_restored()
        return model

    def model(self, description: dict[str, Any], cls: Any, prefix: str) -> Any:
        if prefix.count(".") > DEEPEST:
            raise ValueError(f"more than {DEEPEST} models are inside each other")
        params = {
            name: self.part(value, f"{prefix}{name}.") if isinstance(value, dict) else self.number(name, value)
            for name, value in description["params"].items()
        }
        for name, known in signature(cls).parameters.items():
            if isinstance(known.default, bool) and not isinstance(params.get(name, known.default), bool):
                raise ValueError(f"the parameter {name} is not true or false")
        model = cls(**params)
        for name, entry in description["state"].items():
            if not _is_learned(name):
                raise ValueError(f"{name!r} is not a learned attribute")
            (kind, value), *_ = entry.items()
            setattr(model, name, self.attribute(prefix + name, kind, value))
        return model

    def part(self, description: dict[str, Any], prefix: str) -> Any:
        cls = _find_class(description["class"], Stored)
        if cls is None:
            raise ValueError(f"{prefix[:-1]} is a {description['class']!r}, which this program has not imported")
        return self.model(description, cls, prefix)

    def attribute(self, name: str, kind: str, value: Any) -> Any:
        if kind == "model":
            return self.checked(self.part(value, f"{name}."))
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
        items = {"json": [value], "tuple": value}[kind]
        plain = tuple(self.number(name, item) for item in items)
        return plain if kind == "tuple" else plain[0]

    def number(self, name: str, value: Any) -> Any:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and not self.is_trusted and not (value == 0 or 1.0 / LARGEST <= abs(value) <= LARGEST):
            raise ValueError(f"{name} is {_short(value)}")
        return value
