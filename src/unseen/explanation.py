"""Explanations: why an image got its score for a label, as an exact sum."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Self


class Part(NamedTuple):
    """What one seen label, one class of a backbone or one training image adds to a score."""

    kind: Literal["label", "class", "image"]
    name: str  # of an image: its row in the training features, or its path
    value: float


@dataclass(frozen=True)
class Explanation:
    """Why an image got its score for a label: ``score = offset + sum of the parts' values``.

    Attributes
    ----------
    label : str
        What was explained.
    score : float
        Margin score, as in `ZeroShotTagger.decision_function`.
    offset : float
        What does not depend on the parts; minus the threshold of the image where the parts are seen labels or
        training images.
    parts : tuple of Part
        Contributions, the largest in absolute value first.
    """

    label: str
    score: float
    offset: float
    parts: tuple[Part, ...]

    @classmethod
    def of(cls, label: str, score: float, parts: Iterable[Part]) -> Self:
        """Explanation by these parts, which are sorted; the offset is what they leave of the score."""
        ordered = tuple(sorted(parts, key=lambda part: -abs(part.value)))
        return cls(label, score, score - sum(part.value for part in ordered), ordered)
