"""What `BackboneKnowledge.explain` gives."""

from __future__ import annotations

from dataclasses import dataclass

from unseen.base import Tag


@dataclass(frozen=True)
class BackboneExplanation:
    """Which classes of the backbone speak for a label on an image.

    Attributes
    ----------
    label : str
        What was explained.
    score : float
        Margin score: ``log(sum of the evidence) - log(expected) + alike - threshold_``; the sum is 1e-12 if no
        class speaks for the label.
    classes : tuple of Tag
        Evidence of each class that has any, the most first: its mean share ``p_k(x) b_kc`` over the temperatures,
        of the geometric mean of their sums.
    shares : tuple of Tag
        The same, divided by its sum: they sum to one (to zero if no class speaks for the label).
    expected : float
        Evidence for the label to be expected of any image: the geometric mean of ``sum_k background_k b_kc``.
    alike : float
        What the evidence of images that look alike adds to the score, or takes from it.
    """

    label: str
    score: float
    classes: tuple[Tag, ...]
    shares: tuple[Tag, ...]
    expected: float
    alike: float
