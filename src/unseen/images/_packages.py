"""Packages of the extras: imported when they are needed, named when they are missing."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["needed"]


def needed(module: str, extra: str, what: str) -> Any:
    """The module; without it an ImportError that says what to install."""
    try:
        return import_module(module)
    except (
        ImportError,
        RuntimeError,
    ) as error:  # torchvision raises the latter when it is not made for this torch
        raise ImportError(
            f"backbone: {what} needs the package {module!r}, which cannot be imported ({error}). "
            f'Run: pip install "unseen[{extra}]"'
        ) from error
