"""Numbers with their nouns, for messages."""

from __future__ import annotations

__all__ = ["counted"]


def counted(number: int, noun: str) -> str:
    """Write how many there are: ``1 image``, ``2,000 images``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
