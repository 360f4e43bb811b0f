"""Finished parts of an experiment on disk: a JSON file each, named after all that its content depends on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unseen import __version__
from unseen.files import write_atomically

# What a result is computed by: a change in any of these makes old results void, whatever the version says.
_EVALUATION = ("_cell", "_data", "_holdout", "_predictions", "_ranking", "_rows", "metrics", "protocol", "search")
_CODE = (
    "taep.py",
    "tagger.py",
    "validation.py",
    "solvers",
    "rivals",
    *(f"evaluation/{x}.py" for x in _EVALUATION),
)


def fingerprint(*parts: Any) -> str:
    """Hash of arrays (shape, type and content) and of plain values."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            array = np.ascontiguousarray(part)
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            digest.update(array.data)
        else:
            digest.update(json.dumps(part, sort_keys=True, default=_plain).encode())
        digest.update(b"\0")
    return digest.hexdigest()


@cache
def code_fingerprint() -> str:
    """Hash of the version of unseen and of the source text that makes the results."""
    package, sources = files("unseen"), list[Traversable]()
    for name in _CODE:
        entry = package.joinpath(name)
        sources += entry.iterdir() if entry.is_dir() else [entry]
    texts = [source.read_bytes() for source in sorted(sources, key=str) if source.name.endswith(".py")]
    return fingerprint(__version__, [hashlib.sha256(text).hexdigest() for text in texts])


class CellStore:
    """A folder of finished parts.

    Parameters
    ----------
    folder : Path or None
        Made when the first part is written. None keeps nothing.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def load(self, key: str, read: Callable[[dict[str, Any]], Any]) -> Any:
        """The part of that key, or None if there is none that is whole: it is then to be computed again."""
        if self._folder is None:
            return None
        try:
            entry = json.loads((self._folder / f"{key}.json").read_text("utf-8"))
            if entry["key"] != key or entry["checksum"] != fingerprint(entry["content"]):
                return None
            return read(entry["content"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def save(self, key: str, content: dict[str, Any]) -> None:
        """Write a part, whole or not at all."""
        if self._folder is None:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        entry = {"key": key, "checksum": fingerprint(content), "content": content}
        text = json.dumps(entry, sort_keys=True, indent=1, default=_plain)
        write_atomically(self._folder / f"{key}.json", lambda part: part.write_text(text, encoding="utf-8"))


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return _array(value)
    raise TypeError(f"{type(value).__name__} cannot be kept")


def _array(value: NDArray[Any]) -> list[Any]:
    rows: list[Any] = value.tolist()
    return rows
