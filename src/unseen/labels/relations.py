"""Relations between labels, from WordNet's hierarchy or from how often labels occur together.

A relation matrix ``R`` (L x L) is symmetric and non-negative: the more two labels have in common, the larger their
entry. A row of zeros means that the source knows nothing about that label.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unseen.labels.cooccurrence import count_tag_sets, flickr_hit_counts, read_hit_counts
from unseen.labels.wordnet import path_lengths
from unseen.validation import Matrix, check_names, listed


class Relations(NamedTuple):
    """Relations between named labels, and their sources; `fit` puts them in the order of its labels."""

    names: tuple[str, ...]
    matrix: Matrix
    sources: tuple[str, ...] = ()


def relate(
    names: Sequence[str], sources: str | Path | Sequence[str | Path], *, senses: Mapping[str, str] | None = None
) -> Relations:
    """Build the relations between labels from one or more sources, ``R = sum_k w_k R_k / sum_k w_k``.

    Parameters
    ----------
    names : sequence of str
    sources : str, Path or a sequence of them
        "wordnet" (``1 / (path + 1)``), a CSV matrix of hit counts, a text file of tag sets (one photo's tags per
        line), or "flickr" for live counts with the key of FLICKR_API_KEY (all ``HC(i, j) / (HC(i) + HC(j))``). A
        weight may follow: "wordnet=2". Hit counts give entries of at most 1/2, paths of at most 1.
    senses : mapping of str to str, optional
        WordNet senses of some labels: see `unseen.labels.wordnet.path_lengths`.

    Examples
    --------
    >>> relate(["dog", "cat", "car"], "wordnet").matrix.round(2)
    array([[1.  , 0.2 , 0.08],
           [0.2 , 1.  , 0.06],
           [0.08, 0.06, 1.  ]])
    """
    names = check_names(names, "names")
    given = [sources] if isinstance(sources, str | Path) else list(sources or ())
    parts = [(*_from_source(names, bare, senses), weight) for bare, weight in map(_split_weight, map(str, given))]
    total = sum(weight for _, _, weight in parts)
    if not total > 0.0 or min(weight for _, _, weight in parts) < 0.0:
        raise ValueError(f"sources: {given!r} was given. Pass at least one, with weights >= 0 that are not all 0.")
    matrix = np.sum([weight * part for part, _, weight in parts], axis=0) / total
    return Relations(names, matrix, tuple(text for _, text, _ in parts))


def from_path_lengths(paths: ArrayLike) -> Matrix:
    """Relations from the shortest paths of an is-a hierarchy: ``R[i, j] = 1 / (paths[i, j] + 1)``.

    `paths` are numbers of edges, ``inf`` where no path joins two labels; symmetric, with a zero diagonal.
    """
    lengths = _symmetric(paths, "paths")
    _refuse(np.isnan(lengths) | (lengths < 0), paths, "paths", "a path is a number >= 0, or inf if there is none")
    _refuse(np.diag(np.diag(lengths) != 0), paths, "paths", "a label is at distance 0 from itself")
    return 1.0 / (lengths + 1.0)


def from_hit_counts(counts: ArrayLike) -> Matrix:
    """Relations from co-occurrences: ``R[i, j] = HC(i, j) / (HC(i) + HC(j))``.

    `counts` hold ``HC(i, j)``, the number of records that carry both labels, and ``HC(i)`` on the diagonal. ``R``
    is in [0, 1/2], half the Dice coefficient, as the TAEP paper prints it.
    """
    hits = _symmetric(counts, "counts")
    _refuse(~np.isfinite(hits) | (hits < 0), counts, "counts", "a count is a finite number >= 0")
    single = np.diag(hits)
    too_many = hits > np.minimum.outer(single, single)
    _refuse(too_many, counts, "counts", "a pair occurs at most as often as either label (the diagonal)")
    total = np.add.outer(single, single)
    return np.divide(hits, total, out=np.zeros_like(hits), where=total > 0)


def _split_weight(source: str) -> tuple[str, float]:
    bare, found, weight = source.rpartition("=")
    if not found or Path(source).exists():
        return source, 1.0
    try:
        return bare, float(weight)
    except ValueError:
        raise ValueError(f"sources: {source!r}: {weight!r} is not a weight. Write 'wordnet=2'.") from None


def _from_source(names: tuple[str, ...], source: str, senses: Mapping[str, str] | None) -> tuple[Matrix, str]:
    path = Path(source)
    if source.lower() == "wordnet":
        paths = path_lengths(names, senses)
        return from_path_lengths(paths.lengths), paths.source
    if source.lower() == "flickr":
        counts = flickr_hit_counts(names)
    elif path.is_file():
        counts = read_hit_counts(path, names) if path.suffix.lower() == ".csv" else count_tag_sets(path, names)
    else:
        raise ValueError(f"sources: {source!r} is neither wordnet, flickr nor a file of hit counts or tag sets.")
    never = [name for name, count in zip(names, np.diag(counts), strict=True) if count == 0]
    if len(never) == len(names):
        raise ValueError(f"sources: no label occurs in {source!r}. Pass a file of tags, one photo per line.")
    try:
        matrix = from_hit_counts(counts)
    except ValueError as error:
        raise ValueError(f"sources: {source!r}: {error} Correct them.") from None
    return matrix, f"{source} (no hits: {listed(never)})" if never else source


def _symmetric(matrix: Any, name: str) -> Matrix:
    """A square matrix, symmetric up to rounding, as an exactly symmetric one."""
    values = np.array(matrix, dtype=np.float64)
    if values.ndim != 2 or values.shape[0] != values.shape[1] or values.size == 0:
        raise ValueError(f"{name}: an array of shape {values.shape} was given. Pass one row and column per label.")
    apart = ~np.isclose(values, values.T, rtol=1e-9, atol=0, equal_nan=True)
    _refuse(np.triu(apart), matrix, name, "both directions of a pair have the same value")
    return 0.5 * (values + values.T)


def _refuse(bad: NDArray[np.bool_], matrix: Any, name: str, rule: str) -> None:
    pairs, values = np.argwhere(bad), np.asarray(matrix)
    if len(pairs):
        labels = list(getattr(matrix, "columns", range(len(values))))
        shown = ", ".join(f"[{labels[i]!r}, {labels[j]!r}] is {values[i, j]:g}" for i, j in pairs[:3])
        raise ValueError(f"{name}: {rule}, but {shown} ({len(pairs)} such entries).")
