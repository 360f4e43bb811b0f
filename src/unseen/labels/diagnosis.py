"""Before any training: which unseen labels have seen labels to learn from, and which are orphans."""

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from unseen.labels.space import LabelSpace
from unseen.validation import Matrix

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


def comparable(labels: LabelSpace) -> Matrix:
    """Vectors of unit length, centred on their mean unless there are so `FEW` that this would separate any two."""
    return (labels.centered() if len(labels) >= FEW else labels).normalized().vectors


def diagnose(seen: LabelSpace, unseen: LabelSpace) -> Diagnosis:
    """Three nearest seen labels of each unseen one: ``max_c cos(m_u, m_c)`` against what chance would reach.

    Chance: cosines of different labels have mean ``mu`` and standard deviation ``sigma``; the largest of n
    independent normal draws has the median ``mu + sigma * Phi^-1(2^(-1/n))``.
    """
    unit, n_seen = comparable(seen + unseen), len(seen)
    cosines = unit @ unit.T
    pairs = cosines[np.triu_indices(len(cosines), 1)]
    chance = max(float(pairs.mean() + pairs.std() * ndtri(0.5 ** (1.0 / n_seen))), 0.0)
    labels = []
    for name, row in zip(unseen.names, cosines[n_seen:, :n_seen], strict=True):
        neighbours = tuple((seen.names[c], float(row[c])) for c in np.argsort(-row, kind="stable")[:3])
        labels.append(LabelDiagnosis(name, neighbours, neighbours[0][1] <= chance))
    labels.sort(key=lambda label: -label.neighbours[0][1])
    return Diagnosis(tuple(labels), chance, len(unit) < FEW)
