"""Multi-label zero-shot learning: tag images with labels that were never annotated."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unseen.base import Tag as Tag
    from unseen.base import ZeroShotTagger as ZeroShotTagger
    from unseen.calibration import calibrate as calibrate
    from unseen.datasets.scenes import make_tagged_scenes as make_tagged_scenes
    from unseen.evaluation.search import class_holdout_search as class_holdout_search
    from unseen.explanation import Explanation as Explanation
    from unseen.labels.relations import relate as relate
    from unseen.labels.space import LabelSpace as LabelSpace
    from unseen.photos.library import PhotoLibrary as PhotoLibrary
    from unseen.photos.tagger import PhotoTagger as PhotoTagger
    from unseen.photos.training import train as train
    from unseen.taep import TAEP as TAEP

__version__ = "0.1.0"

# Loaded on first use: the numerical libraries take a second that `unseen --version` should not.
_HOMES = {
    "TAEP": "unseen.taep",
    "PhotoTagger": "unseen.photos.tagger",
    "PhotoLibrary": "unseen.photos.library",
    "train": "unseen.photos.training",
    "LabelSpace": "unseen.labels.space",
    "relate": "unseen.labels.relations",
    "class_holdout_search": "unseen.evaluation.search",
    "calibrate": "unseen.calibration",
    "ZeroShotTagger": "unseen.base",
    "Tag": "unseen.base",
    "Explanation": "unseen.explanation",
    "make_tagged_scenes": "unseen.datasets.scenes",
}
__all__ = [*_HOMES]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'unseen' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
