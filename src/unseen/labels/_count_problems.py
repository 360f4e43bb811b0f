"""What can be degenerate in a matrix of hit counts, in words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unseen.validation import MOST_LISTED

_WORDS = {
    "unknown": "without a count (repair='fill' makes it 0)",
    "impossible": "negative or infinite (correct the source)",
    "no_hits": "without any hit, hence related to nothing",
    "asymmetric": "with two counts that differ (repair='symmetrise' takes their mean)",
    "excessive": "more frequent together than one of them alone (repair='clip' takes the smaller count)",
}


@dataclass(frozen=True)
class CountProblems:
    """What is degenerate in a matrix of hit counts; false if nothing is, and `str` lists it.

    Attributes
    ----------
    unknown : tuple of str
        Labels or pairs that have no count. ``repair="fill"`` makes it 0.
    impossible : tuple of str
        Counts that are negative or infinite. Nothing repairs them.
    no_hits : tuple of str
        Labels that never occur: they are related to nothing. There is nothing to repair.
    asymmetric : tuple of str
        Pairs whose two counts differ. ``repair="symmetrise"`` takes the mean.
    excessive : tuple of str
        Pairs that occur together more often than one of them occurs. ``repair="clip"`` takes the smaller single
        count.
    """

    unknown: tuple[str, ...] = ()
    impossible: tuple[str, ...] = ()
    no_hits: tuple[str, ...] = ()
    asymmetric: tuple[str, ...] = ()
    excessive: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return any(getattr(self, kind) for kind in _WORDS)

    def __str__(self) -> str:
        lines = [
            f"{len(found)} {what}: {_shown(found)}"
            for kind, what in _WORDS.items()
            if (found := getattr(self, kind))
        ]
        return "\n".join(lines) or "no problem"


def find_problems(labels: tuple[str, ...], counts: NDArray[np.float64]) -> CountProblems:
    """Look for degenerate counts; nothing is changed."""
    known = ~np.isnan(counts)
    blank = np.asarray(~(known | known.T).any(axis=1))  # a label of which nothing at all is known
    single = np.diag(counts)
    larger, smaller = np.fmax(counts, counts.T), np.minimum.outer(single, single)
    apart = known & known.T & ~np.isclose(counts, counts.T, rtol=1e-9, atol=0.0)
    return CountProblems(
        unknown=(*_name(labels, np.diag(blank)), *_name(labels, ~known & ~blank & ~blank[:, np.newaxis])),
        impossible=_name(labels, known & ((counts < 0) | np.isinf(counts)), counts),
        no_hits=_name(labels, np.diag(single == 0)),
        asymmetric=_name(labels, np.triu(apart), counts, counts.T),
        excessive=_name(labels, np.triu(larger > smaller, 1), larger, smaller),  # false where one is NaN
    )


def _name(labels: tuple[str, ...], marked: NDArray[np.bool_], *values: NDArray[np.float64]) -> tuple[str, ...]:
    said = []
    for i, j in np.argwhere(marked):
        name = repr(labels[i]) if i == j else f"{labels[i]!r} and {labels[j]!r}"
        shown = " and ".join(f"{value[i, j]:g}" for value in values)
        said.append(f"{name} ({shown})" if shown else name)
    return tuple(said)


def _shown(items: tuple[str, ...]) -> str:
    more = f" and {len(items) - MOST_LISTED} more" if len(items) > MOST_LISTED else ""
    return ", ".join(items[:MOST_LISTED]) + more
