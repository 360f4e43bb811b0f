"""Explanations: why an image got its score for a label, as an exact sum."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

import numpy as np

# Share of the evidence from which a better label explains another. An annotated one has most of its evidence from
# a part of its own: on held-out labels, words above a third were right far less often than their p.
OVERLAP, ANNOTATED_OVERLAP = 1 / 2, 1 / 3
MAIN, MOST_NAMED = 0.25, 2  # parts that a sentence names: their size next to the largest, and how many of a kind
_OWN = "your photos of "  # how `unseen.ensembles.Adapted` names what it learned


Kind = Literal["label", "class", "image"]


class Part(NamedTuple):
    """Contribution of one seen label, backbone class or training image to a score."""

    kind: Kind
    name: str  # of an image: its row in the training features, or its path
    value: float


@dataclass(frozen=True)
class Explanation:
    """Why an image got its score for a label: ``score = offset + sum of the parts' values``.

    The offset is minus the threshold of the image if the parts are seen labels or training images.
    """

    label: str
    score: float  # as in `ZeroShotTagger.decision_function`
    offset: float
    parts: tuple[Part, ...]  # largest in absolute value first
    p: float | None = None  # probability that the image shows the label, if the model is calibrated

    @classmethod
    def of(cls, label: str, score: float, parts: Iterable[Part], p: float | None = None) -> Self:
        """Explanation with these parts, sorted; the offset is the rest of the score."""
        ordered = tuple(sorted(parts, key=lambda part: -abs(part.value)))
        return cls(label, score, score - sum(part.value for part in ordered), ordered, p)

    @property
    def sentence(self) -> str:
        """The main parts in favour of the label, as a sentence."""
        found = [part for part in self.parts if part.value > 0.0]
        found = [part for part in found if part.value >= MAIN * found[0].value]
        said = [part.name for part in found if part.name.startswith(_OWN)]
        for kind, what in (("class", "the backbone's"), ("label", "the annotated"), ("image", "the training")):
            names = [part.name for part in found if part.kind == kind and not part.name.startswith(_OWN)]
            if kind == "label" and self.label in names:  # "red" for "red"
                said.append("its own annotated images")
                names.remove(self.label)
            if names:
                plural = kind + ("es" if kind == "class" else "s") if names[1:] else kind
                said.append(f"{what} {plural} {' and '.join(map(repr, names[:MOST_NAMED]))}")
        most = f"Most evidence for {self.label!r} is from {', and from '.join(said)}."
        return most if said else f"There is no evidence for {self.label!r}."


def evidence_shares(values: Any) -> Any:
    """Positive parts of labels (rows), as shares of their sum."""
    positive = np.maximum(values, 0.0)
    total = positive.sum(axis=1, keepdims=True)
    return positive / np.where(total > 0.0, total, 1.0)


def settle(values: Any, is_annotated: Sequence[bool], are_kinds: Callable[[int, int], bool]) -> list[int]:
    """Labels of an image that are left once better ones have explained the evidence for the others.

    A label is explained by a better one if they share at least half of their evidence (a third, if the better one
    is annotated), ``sum_k min(q_k, r_k)`` of the shares q and r of their positive parts, and neither is a kind of
    the other: then the model cannot tell the two apart on this image. Annotated labels are never left out.
    ``values`` are exact parts of the scores, one row per label, the best first.
    """
    shares, kept = evidence_shares(values), list[int]()
    shared = np.minimum(shares[:, None], shares).sum(axis=2)
    limits = np.where(is_annotated, ANNOTATED_OVERLAP, OVERLAP)
    for c in range(len(shares)):
        rivals = [k for k in kept if shared[c, k] >= limits[k]]
        if is_annotated[c] or all(are_kinds(k, c) for k in rivals):
            kept.append(c)
    return kept
