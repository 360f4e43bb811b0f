"""Before any training: which unseen labels have seen labels to learn from, and which are orphans."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from unseen.labels.space import LabelSpace
from unseen.validation import check_count

__all__ = ["FEW", "Diagnosis", "LabelDiagnosis", "comparable", "diagnose"]

FEW = 8


@dataclass(frozen=True)
class LabelDiagnosis:
    """What an unseen label can learn from.

    Attributes
    ----------
    name : str
        The unseen label.
    neighbours : tuple of (str, float)
        Its nearest seen labels with their cosine similarity, the nearest first.
    orphan : bool
        Whether the nearest is no nearer than chance would have it.
    """

    name: str
    neighbours: tuple[tuple[str, float], ...]
    orphan: bool


@dataclass(frozen=True)
class Diagnosis:
    """Diagnosis of every unseen label, the best supported first.

    Attributes
    ----------
    labels : tuple of LabelDiagnosis
        One an unseen label.
    chance : float
        Similarity that the nearest of as many *unrelated* labels would reach, in the median case.
    is_rough : bool
        Whether there are too few labels to tell that well.
    """

    labels: tuple[LabelDiagnosis, ...]
    chance: float
    is_rough: bool = False

    @property
    def orphans(self) -> tuple[str, ...]:
        """Names of the labels that no seen label supports."""
        return tuple(label.name for label in self.labels if label.orphan)


def comparable(labels: LabelSpace, *, center: bool = True) -> NDArray[np.float64]:
    """Vectors of unit length, centred on their mean unless there are so `FEW` that this would part any two.

    Parameters
    ----------
    labels : LabelSpace
        Labels with vectors from one source.
    center : bool, default=True
        Whether to centre at all.

    Returns
    -------
    ndarray of shape (n_labels, n_dims)
    """
    return (labels.centered() if center and len(labels) >= FEW else labels).normalized().vectors


def diagnose(seen: LabelSpace, unseen: LabelSpace, *, center: bool = True, top: int = 3) -> Diagnosis:
    """Nearest seen labels of each unseen one: ``max_c cos(m_u, m_c)`` against what chance would reach.

    A zero-shot score is a sum over the seen labels, weighted by how close they are to the label asked for. A label
    whose nearest seen label is no closer than the nearest of ``n_seen`` unrelated ones has nothing to learn from.

    Parameters
    ----------
    seen, unseen : LabelSpace
        Labels with vectors from one source.
    center : bool, default=True
        Subtract the mean of all the vectors first, as `TAEP` does by default; see `comparable`.
    top : int, default=3
        Neighbours to list.

    Returns
    -------
    Diagnosis

    Notes
    -----
    Chance: cosines of different labels have mean ``mu`` and standard deviation ``sigma``; the largest of n
    independent normal draws has the median ``mu + sigma * Phi^-1(2^(-1/n))``.
    """
    check_count(top, "top")
    vectors = comparable(seen + unseen, center=center)
    n_seen = len(seen)
    cosines = vectors @ vectors.T
    chance = _chance_level(cosines, n_seen)
    labels = []
    for i in range(n_seen, len(vectors)):
        order = np.argsort(-cosines[i, :n_seen], kind="stable")[:top]
        neighbours = tuple((seen.names[c], float(cosines[i, c])) for c in order)
        labels.append(LabelDiagnosis(unseen.names[i - n_seen], neighbours, neighbours[0][1] <= max(chance, 0.0)))
    labels.sort(key=lambda label: -label.neighbours[0][1])
    return Diagnosis(tuple(labels), max(chance, 0.0), len(vectors) < FEW)


def _chance_level(cosines: NDArray[np.float64], n_seen: int) -> float:
    pairs = cosines[np.triu_indices(len(cosines), 1)]
    return float(pairs.mean() + pairs.std() * norm.ppf(0.5 ** (1.0 / n_seen)))
