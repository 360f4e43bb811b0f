"""Relations between labels: from the statistics of an auxiliary source to a similarity matrix.

Every function here returns a symmetric, non-negative matrix ``R`` (L x L): the more two labels have in
common, the larger their entry. A row of zeros means that the source knows nothing of that label.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["combine", "from_hit_counts", "from_path_lengths"]

_MAX_SHOWN = 3


def from_path_lengths(paths: ArrayLike) -> NDArray[np.float64]:
    """Relations from the shortest paths of an is-a hierarchy: ``R[i, j] = 1 / (paths[i, j] + 1)``.

    Parameters
    ----------
    paths : array-like of shape (n_labels, n_labels)
        Length of the shortest path between two labels, in edges; ``inf`` where no path joins them. Symmetric,
        with a zero diagonal.

    Returns
    -------
    ndarray of shape (n_labels, n_labels)
        Entries in [0, 1]: 1 on the diagonal and between synonyms (paths of length 0), 0 where no path is.

    Raises
    ------
    ValueError
        If `paths` is not a square symmetric matrix of non-negative numbers with a zero diagonal.

    Examples
    --------
    >>> from_path_lengths([[0, 1], [1, 0]])
    array([[1. , 0.5],
           [0.5, 1. ]])
    """
    lengths = _as_square(paths, "paths")
    _reject(
        lengths,
        np.isnan(lengths) | (lengths < 0),
        "paths",
        "a path length must be a number >= 0",
        "write inf where no path joins two labels",
    )
    lengths = _symmetric(lengths, "paths")
    off_zero = np.diag(np.diag(lengths) != 0)
    _reject(lengths, off_zero, "paths", "a label is at distance 0 from itself", "set the diagonal to 0")
    return 1.0 / (lengths + 1.0)


def from_hit_counts(counts: ArrayLike) -> NDArray[np.float64]:
    """Relations from co-occurrences: ``R[i, j] = HC(i, j) / (HC(i) + HC(j))``.

    Parameters
    ----------
    counts : array-like of shape (n_labels, n_labels)
        ``counts[i, j]`` is ``HC(i, j)``, the number of records that carry both labels; the diagonal holds
        ``HC(i)``, the number of records that carry label i. Symmetric.

    Returns
    -------
    ndarray of shape (n_labels, n_labels)
        Entries in [0, 1/2]. A label with no hits has a row and a column of zeros, diagonal included.

    Raises
    ------
    ValueError
        If `counts` is not a square symmetric matrix of finite non-negative numbers, or if two labels occur
        together more often than one of them occurs.

    Notes
    -----
    This is half the Dice coefficient: the formula is kept as the TAEP paper prints it, without the factor 2.
    It is applied to the diagonal too, where ``HC(i, i) = HC(i)`` gives 1/2, the largest value two labels can
    reach; the matrix is thus exactly half the Dice matrix, and its normalised Laplacian is the same.

    Examples
    --------
    >>> from_hit_counts([[10, 4], [4, 6]])
    array([[0.5 , 0.25],
           [0.25, 0.5 ]])
    """
    hits = _as_square(counts, "counts")
    _reject(
        hits,
        ~np.isfinite(hits) | (hits < 0),
        "counts",
        "a hit count must be a finite number >= 0",
        "write 0 where the source has no record",
    )
    hits = _symmetric(hits, "counts")
    single = np.diag(hits)
    _reject(
        hits,
        hits > np.minimum.outer(single, single),
        "counts",
        "two labels cannot occur together more often than either occurs alone (the diagonal)",
        "count both from the same records, or cap the joint count at the smaller diagonal entry",
    )
    total = np.add.outer(single, single)
    return np.divide(hits, total, out=np.zeros_like(hits), where=total > 0)


def combine(relations: Sequence[ArrayLike], weights: ArrayLike | None = None) -> NDArray[np.float64]:
    """Weighted mean of several relation matrices: ``R = sum_k w_k R_k / sum_k w_k``.

    Parameters
    ----------
    relations : sequence of array-like of shape (n_labels, n_labels)
        Symmetric, finite, non-negative matrices over the same labels in the same order.
    weights : array-like of shape (n_relations,), default=None
        Non-negative weights, not all zero. None weighs all sources alike.

    Returns
    -------
    ndarray of shape (n_labels, n_labels)
        The mean. Sources are averaged as they are: one whose entries are small by construction (hit counts
        stay under 1/2, paths reach 1) counts for less, which `weights` can make up for.

    Raises
    ------
    ValueError
        If `relations` is empty or holds a matrix that is not a relation, if the shapes differ, or if
        `weights` does not fit.

    Examples
    --------
    >>> combine([[[1, 0], [0, 1]], [[1, 1], [1, 1]]], weights=[3, 1])
    array([[1.  , 0.25],
           [0.25, 1.  ]])
    """
    matrices = [_as_relation(relation, f"relations[{k}]") for k, relation in enumerate(relations)]
    if not matrices:
        raise ValueError("relations: an empty sequence was given. Pass at least one relation matrix.")
    shapes = [matrix.shape for matrix in matrices]
    if len(set(shapes)) > 1:
        raise ValueError(
            f"relations: matrices of different shapes were given: {shapes}. "
            "Build all of them over the same labels."
        )
    return np.average(np.stack(matrices), axis=0, weights=_as_weights(weights, len(matrices)))


def _as_relation(relation: ArrayLike, name: str) -> NDArray[np.float64]:
    matrix = _as_square(relation, name)
    _reject(
        matrix,
        ~np.isfinite(matrix) | (matrix < 0),
        name,
        "a relation must be a finite number >= 0",
        "write 0 for labels that have nothing in common",
    )
    return _symmetric(matrix, name)


def _as_weights(weights: ArrayLike | None, n_relations: int) -> NDArray[np.float64]:
    if weights is None:
        return np.ones(n_relations)
    values = np.asarray(weights, dtype=np.float64)
    if values.shape != (n_relations,):
        raise ValueError(
            f"weights: shape {values.shape} was given for {n_relations} relations. "
            "Pass one weight for each relation."
        )
    if not np.isfinite(values).all() or (values < 0).any() or values.sum() == 0:
        raise ValueError(
            f"weights: {values.tolist()} was given. Pass finite weights >= 0, at least one of them positive."
        )
    return values


def _as_square(matrix: ArrayLike, name: str) -> NDArray[np.float64]:
    values = np.array(matrix, dtype=np.float64)
    if values.ndim != 2 or values.shape[0] != values.shape[1] or values.size == 0:
        raise ValueError(
            f"{name}: an array of shape {values.shape} was given. "
            "Pass a square matrix, one row and one column a label."
        )
    return values


def _symmetric(values: NDArray[np.float64], name: str) -> NDArray[np.float64]:
    """Check symmetry up to rounding and return the exactly symmetric matrix."""
    _reject(
        values,
        np.triu(~np.isclose(values, values.T, rtol=1e-9, atol=0)),
        name,
        "the two directions of a pair must agree",
        f"pass a symmetric matrix, for instance ({name} + {name}.T) / 2",
    )
    return 0.5 * (values + values.T)


def _reject(values: NDArray[np.float64], bad: NDArray[np.bool_], name: str, rule: str, advice: str) -> None:
    """Raise a ValueError that shows the first entries marked as bad, if there are any."""
    pairs = np.argwhere(bad)
    if len(pairs) == 0:
        return
    shown = ", ".join(f"[{i}, {j}] = {values[i, j]:g}" for i, j in pairs[:_MAX_SHOWN])
    more = f" and {len(pairs) - _MAX_SHOWN} more" if len(pairs) > _MAX_SHOWN else ""
    raise ValueError(f"{name}: {rule}, but {name} has {shown}{more}. To fix it, {advice}.")
