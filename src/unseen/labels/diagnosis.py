"""Before any training: which unseen labels have seen labels to learn from, and which are orphans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from unseen.labels.space import LabelSpace
from unseen.validation import Matrix, check_count

__all__ = ["FEW", "Diagnosis", "LabelDiagnosis", "comparable", "diagnose"]

FEW = 8


class LabelDiagnosis(NamedTuple):
    """An unseen label, its nearest seen labels with their cosines, and whether none is nearer than chance."""

    name: str
    neighbours: tuple[tuple[str, float], ...]
    orphan: bool


class Diagnosis(NamedTuple):
    """Diagnosis of every unseen label, best supported first.

    `chance` is the similarity that the nearest of as many *unrelated* labels would reach, in the median case; it
    is rough if there are few labels.
    """

    labels: tuple[LabelDiagnosis, ...]
    chance: float
    is_rough: bool = False

    @property
    def orphans(self) -> tuple[str, ...]:
        """Names of the labels that no seen label supports."""
        return tuple(label.name for label in self.labels if label.orphan)


def comparable(labels: LabelSpace, *, center: bool = True) -> Matrix:
    """Vectors of unit length, centred on their mean unless there are so `FEW` that this would separate any two."""
    return (labels.centered() if center and len(labels) >= FEW else labels).normalized().vectors


def diagnose(
    seen: LabelSpace | Sequence[str],
    unseen: LabelSpace | Sequence[str],
    *,
    vectors: Any = "use",
    center: bool = True,
    top: int = 3,
) -> Diagnosis:
    """Nearest seen labels of each unseen one: ``max_c cos(m_u, m_c)`` against what chance would reach.

    A zero-shot score is a sum over the seen labels, weighted by how close they are to the requested label. Chance:
    cosines of different labels have mean ``mu`` and standard deviation ``sigma``; the largest of n independent
    normal draws has the median ``mu + sigma * Phi^-1(2^(-1/n))``.

    Parameters
    ----------
    seen, unseen : LabelSpace or sequence of str
        Labels with vectors from one source, or their names.
    vectors : str, path or TextEncoder, default="use"
        Where names are looked up: see `LabelSpace`.
    center : bool, default=True
        Subtract the mean of all the vectors first, as `TAEP` does by default; see `comparable`.
    top : int, default=3
        Neighbours to list.
    """
    check_count(top, "top")
    seen, unseen = (x if isinstance(x, LabelSpace) else LabelSpace(x, vectors) for x in (seen, unseen))
    unit = comparable(seen + unseen, center=center)
    n_seen = len(seen)
    cosines = unit @ unit.T
    pairs = cosines[np.triu_indices(len(cosines), 1)]
    chance = max(float(pairs.mean() + pairs.std() * ndtri(0.5 ** (1.0 / n_seen))), 0.0)
    labels = []
    for name, row in zip(unseen.names, cosines[n_seen:, :n_seen], strict=True):
        neighbours = tuple((seen.names[c], float(row[c])) for c in np.argsort(-row, kind="stable")[:top])
        labels.append(LabelDiagnosis(name, neighbours, neighbours[0][1] <= chance))
    labels.sort(key=lambda label: -label.neighbours[0][1])
    return Diagnosis(tuple(labels), chance, len(unit) < FEW)
