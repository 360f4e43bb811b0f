"""Taggers made of taggers: what a part has learned is kept by the whole, under a prefix, and goes to its file."""

from __future__ import annotations

from typing import Any, TypeVar

from unseen.base import ZeroShotTagger

Part = TypeVar("Part", bound=ZeroShotTagger)


def keep(whole: Any, prefix: str, part: ZeroShotTagger) -> None:
    """Store what ``part`` has learned as attributes ``<prefix>__<name>_`` of ``whole``."""
    # A refit must not leave behind what another part had learned.
    for name in [name for name in vars(whole) if name.startswith(f"{prefix}__")]:
        delattr(whole, name)
    for name, value in vars(part).items():
        if name.endswith("_"):
            setattr(whole, f"{prefix}__{name}", value)


def recall(whole: Any, prefix: str, part: Part) -> Part:
    """Give ``part``, as yet unfitted, what `keep` stored."""
    start = f"{prefix}__"
    for name, value in vars(whole).items():
        if name.startswith(start):
            setattr(part, name.removeprefix(start), value)
    return part
