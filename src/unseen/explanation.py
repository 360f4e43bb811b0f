"""Explanations: why an image got its score for a label, as an exact sum."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Self


class Part(NamedTuple):
    """Contribution of one seen label, backbone class or training image to a score."""

    kind: Literal["label", "class", "image"]
    name: str  # of an image: its row in the training features, or its path
    value: float


@dataclass(frozen=True)
class Explanation:
    """Why an image got its score for a label: ``score = offset + sum of the parts' values``.

    Attributes
    ----------
    label : str
        The label explained.
    score : float
        Margin score, as in `ZeroShotTagger.decision_function`.
    offset : float
        The remainder of the score; minus the threshold of the image when the parts are seen labels or
        training images.
    parts : tuple of Part
        Contributions, largest in absolute value first.
    """

    label: str
    score: float
    offset: float
    parts: tuple[Part, ...]

    @classmethod
    def of(cls, label: str, score: float, parts: Iterable[Part]) -> Self:
        """Explanation with these parts, sorted; the offset is the rest of the score."""
        ordered = tuple(sorted(parts, key=lambda part: -abs(part.value)))
        return cls(label, score, score - sum(part.value for part in ordered), ordered)
