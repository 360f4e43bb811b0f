"""Relations by the name of their source: WordNet, a table of hit counts, a file of tag sets, or several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unseen.labels.cooccurrence import HitCounts, count_tag_sets, read_hit_counts
from unseen.labels.flickr import flickr_hit_counts
from unseen.labels.relations import combine, from_hit_counts, from_path_lengths
from unseen.labels.wordnet import path_lengths

__all__ = ["PRESETS", "Relations", "relate"]

# The variants of TAEP, by the kind of relations that they are given.
PRESETS: Final[dict[str, str | None]] = {"TAEP": None, "TAEP-H": "hierarchy", "TAEP-C": "hit counts"}


class Relations(NamedTuple):
    """A relation matrix over labels, and where it comes from.

    Attributes
    ----------
    matrix : ndarray of shape (n_labels, n_labels)
        Symmetric, non-negative.
    sources : tuple of str
        Each source in words, problems of its counts included.
    """

    matrix: NDArray[np.float64]
    sources: tuple[str, ...]


def relate(
    labels: Sequence[str],
    sources: str | Path | Sequence[str | Path],
    *,
    senses: Mapping[str, str] | None = None,
) -> Relations:
    """Build the relations between labels from one or more sources, ``R = sum_k w_k R_k / sum_k w_k``.

    Parameters
    ----------
    labels : sequence of str
        The labels, for `TAEP.fit` the seen ones followed by the unseen ones.
    sources : str, Path or a sequence of them
        "wordnet" (``1 / (path + 1)``), a CSV matrix of hit counts, or a text file of tag sets, one photo's tags a
        line, or "flickr" for live counts with the key of FLICKR_API_KEY (all ``HC(i, j) / (HC(i) + HC(j))``). A
        weight may follow: "wordnet=2".
    senses : mapping of str to str, optional
        WordNet senses of some labels, such as ``{"plant": "plant.n.02"}``; see `path_lengths` for the others.

    Returns
    -------
    Relations

    Examples
    --------
    >>> relate(["dog", "cat", "car"], "wordnet").matrix.round(2)
    array([[1.  , 0.2 , 0.08],
           [0.2 , 1.  , 0.06],
           [0.08, 0.06, 1.  ]])
    """
    given = [sources] if isinstance(sources, str | Path) else list(sources)
    if not given:
        raise ValueError("sources: none was given. Pass 'wordnet' or a file of counts.")
    names, weights = zip(*(_split_weight(str(source)) for source in given), strict=True)
    parts = [_one_source(labels, name, senses) for name in names]
    matrix = combine([part.matrix for part in parts], weights)
    return Relations(matrix, tuple(text for part in parts for text in part.sources))


def _split_weight(source: str) -> tuple[str, float]:
    name, found, weight = source.rpartition("=")
    if not found or Path(source).exists():
        return source, 1.0
    try:
        return name, float(weight)
    except ValueError:
        raise ValueError(f"sources: {source!r}: {weight!r} is no weight. Write for example 'wordnet=2'.") from None


def _one_source(labels: Sequence[str], source: str, senses: Mapping[str, str] | None) -> Relations:
    if source.lower() == "wordnet":
        paths = path_lengths(labels, senses or None)
        return Relations(from_path_lengths(paths), (paths.source,))
    counts = flickr_hit_counts(labels) if source.lower() == "flickr" else _read_counts(labels, Path(source))
    problems = counts.problems()
    in_words = "; ".join(str(problems).splitlines())
    if problems.unknown or problems.impossible or problems.asymmetric or problems.excessive:
        raise ValueError(
            f"sources: the counts of {source!r} give no relations: {in_words}. Mend the file, or choose how with "
            f"unseen.labels.cooccurrence.read_hit_counts(path, labels, repair=...)."
        )
    if len(problems.no_hits) == len(labels):
        raise ValueError(
            f"sources: none of the labels occurs in {source!r}. Is it a file of tags, one photo a line?"
        )
    return Relations(from_hit_counts(counts), (f"{source} ({in_words})" if problems else source,))


def _read_counts(labels: Sequence[str], path: Path) -> HitCounts:
    if not path.is_file():
        raise ValueError(
            f"sources: {str(path)!r} is neither 'wordnet', 'flickr' nor a file. Pass a CSV matrix of hit counts "
            f"or a text file of tag sets."
        )
    return read_hit_counts(path, labels) if path.suffix.lower() == ".csv" else count_tag_sets(path, labels)
