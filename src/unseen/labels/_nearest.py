"""The words of a vocabulary nearest to one that it does not hold."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

COMMON = 100_000  # only the first words of a table are looked through: rare ones are mostly misspellings
_LONGEST = 40


def nearest_of(words: list[str], known: list[str], n_words: int = 3) -> list[list[str]]:
    """Those of the ``known`` words that are nearest to each of ``words``, the more common first among equals.

    An edit is a letter added, left out, changed, or swapped with its neighbour. Words further than a third of
    the letters are not near. ``known`` goes from common to rare, as a table of vectors does.
    """
    lengths = np.fromiter(map(len, known), dtype=np.int64, count=len(known))
    return [_nearest(word.lower(), known, lengths, n_words) for word in words]


def _nearest(word: str, known: list[str], lengths: NDArray[np.int64], n_words: int) -> list[str]:
    if len(word) > _LONGEST:
        return []
    most = max(1, len(word) // 3)
    rows = np.flatnonzero(np.abs(lengths - len(word)) <= most)
    if len(rows) == 0:
        return []
    candidates = np.array([known[row] for row in rows])
    distances = edit_distances(word, candidates)
    order = np.lexsort((rows, distances))[:n_words]
    return [str(candidates[i]) for i in order if distances[i] <= most]


def edit_distances(word: str, candidates: NDArray[np.str_]) -> NDArray[np.int16]:
    """Edit distance of a word to many others: the usual recurrence, all candidates in step."""
    n, width = len(candidates), max(1, candidates.dtype.itemsize // 4)
    letters = np.ascontiguousarray(candidates).view(np.uint32).reshape(n, width).T
    lengths = np.char.str_len(candidates)
    before: NDArray[np.int16] | None = None
    previous = np.repeat(np.arange(width + 1, dtype=np.int16)[:, None], n, axis=1)
    for i, letter in enumerate(word):
        current = np.empty_like(previous)
        current[0] = i + 1
        for j in range(width):
            changed = previous[j] + (letters[j] != ord(letter))
            current[j + 1] = np.minimum(np.minimum(previous[j + 1], current[j]) + 1, changed)
            if before is not None and j > 0:
                swapped = (letters[j] == ord(word[i - 1])) & (letters[j - 1] == ord(letter))
                current[j + 1] = np.where(swapped, np.minimum(current[j + 1], before[j - 1] + 1), current[j + 1])
        before, previous = previous, current
    distances: NDArray[np.int16] = previous[lengths, np.arange(n)]
    return distances
