"""Multi-label zero-shot learning: tag images with labels that nobody ever annotated."""

from unseen.datasets import TaggedScenes, make_tagged_scenes
from unseen.labels.space import LabelSpace
from unseen.taep import TAEP, Explanation
from unseen.tagger import Tag, ZeroShotTagger

__all__ = [
    "TAEP",
    "Explanation",
    "LabelSpace",
    "Tag",
    "TaggedScenes",
    "ZeroShotTagger",
    "make_tagged_scenes",
]

__version__ = "0.1.0"
