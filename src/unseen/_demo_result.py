"""What the demonstration found: plain records, from which `unseen._demo_page` makes tables and a page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from unseen.base import Tag
from unseen.datasets.scenes import TaggedScenes
from unseen.demo_photos import TaggedPhotos
from unseen.evaluation.metrics import Summary
from unseen.explanation import Explanation

CHANCE: Final = "chance"
CEILING: Final = "ceiling: all labels annotated"


@dataclass(frozen=True)
class Choice:
    """Hyper-parameters that class-holdout chose for a method; ``score`` is their MiAP on held-out seen labels."""

    name: str
    params: dict[str, Any]
    score: float
    n_settings: int


@dataclass(frozen=True)
class Method:
    """A row of the results: test metrics in the zero-shot and in the generalized setting.

    ``fair`` says that the method was given nothing but annotations of seen labels, and tuned on them.
    """

    name: str
    zero_shot: Summary
    generalized: Summary
    fair: bool


@dataclass(frozen=True)
class Certificate:
    """How near a fit is to the best there is: no projection has an objective below ``lower_bound``."""

    name: str
    objective: float
    lower_bound: float
    iterations: int
    epochs: int
    seconds: float

    @property
    def gap(self) -> float:
        """Certified relative gap: the share of the objective that a better projection might save."""
        return (self.objective - self.lower_bound) / self.objective


@dataclass(frozen=True)
class Support:
    """A training image that speaks for a tag: its row, scene, annotated labels and contribution to the score."""

    image: int
    scene: str
    labels: tuple[str, ...]
    contribution: float


@dataclass(frozen=True)
class Example:
    """A test image, its tags, and why it got the best of the unseen ones."""

    image: int
    scene: str
    labels: tuple[str, ...]
    tags: tuple[Tag, ...]
    explanation: Explanation
    support: tuple[Support, ...]


@dataclass(frozen=True, eq=False)
class DemoResult:
    """All that the demonstration found.

    The headline is the method with the best held-out score. Its fit gives the examples and the map, and the
    paper's alternation solves the same problem with the same parameters.
    """

    report: Path
    seed: int
    quick: bool
    data: TaggedScenes
    n_images: tuple[int, int, int]
    choices: tuple[Choice, ...]
    headline: str
    alternation: str
    methods: tuple[Method, ...]
    certificates: tuple[Certificate, ...]
    traces: Mapping[str, NDArray[np.float64]]
    label_vectors: tuple[NDArray[np.float64], NDArray[np.float64]]
    examples: tuple[Example, ...]
    photos: TaggedPhotos
    seconds: float
