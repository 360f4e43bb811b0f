"""What a file of a photo tagger says beside the tagger, and what need not be in it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["check_notes", "damaged", "digest"]

_NOTES = (
    "backbone", "fingerprint", "vectors", "inputs", "training", "training_rows", "training_images", "made_again",
)  # fmt: skip


def check_notes(notes: dict[str, Any], path: Path) -> None:
    """Refuse notes of another version, or damaged ones, before anything is made of them."""
    missing = [name for name in _NOTES if name not in notes]
    if missing:
        raise ValueError(damaged(path, f"{missing[0]!r} is missing"))
    texts = [notes[name] for name in ("backbone", "fingerprint", "vectors")]
    choices = all(name is None or isinstance(name, str) for name in (notes["training"], notes["training_images"]))
    rows, again = notes["training_rows"], notes["made_again"]
    if not (
        all(isinstance(text, str) for text in texts)
        and choices
        and isinstance(notes["inputs"], list)
        and {*map(str, notes["inputs"])} <= {"features", "logits"}
        and (rows is None or (isinstance(rows, list) and all(isinstance(row, int) and row >= 0 for row in rows)))
        and isinstance(again, dict)
        and all(name.endswith("_") and isinstance(kind, str) for name, kind in again.items())
    ):
        raise ValueError(damaged(path, "what it says of photos makes no sense"))


def damaged(path: Path, reason: object) -> str:
    return (
        f"model: {str(path)!r} was written by another version of unseen, or is damaged ({reason}). Fit it "
        f"again, or install that version."
    )


def digest(paths: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(paths).encode("utf-8", "surrogateescape")).hexdigest()
