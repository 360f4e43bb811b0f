"""Multi-label zero-shot learning: tag images with labels that nobody ever annotated."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unseen.base import Tag, ZeroShotTagger
    from unseen.datasets.scenes import TaggedScenes, make_tagged_scenes
    from unseen.explanation import Explanation
    from unseen.labels.space import LabelSpace
    from unseen.photos.tagger import PhotoTagger
    from unseen.taep import TAEP

__version__ = "0.1.0"

__all__ = [
    "TAEP",
    "Explanation",
    "LabelSpace",
    "PhotoTagger",
    "Tag",
    "TaggedScenes",
    "ZeroShotTagger",
    "make_tagged_scenes",
]

# Loaded on first use: the numerical libraries take a second that `unseen --version` should not.
_HOME = {
    "TAEP": "unseen.taep",
    "Explanation": "unseen.explanation",
    "LabelSpace": "unseen.labels.space",
    "PhotoTagger": "unseen.photos.tagger",
    "Tag": "unseen.base",
    "TaggedScenes": "unseen.datasets.scenes",
    "ZeroShotTagger": "unseen.base",
    "make_tagged_scenes": "unseen.datasets.scenes",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'unseen' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
