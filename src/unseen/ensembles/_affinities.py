"""How much each class of a backbone speaks for a label, by the texts of its names."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from unseen.baselines._linear import unit_rows
from unseen.validation import check_flag

Matrix = NDArray[np.float64]
CHUNK = 256  # labels at once: the names of all classes, one below the other, are a tall matrix


def check_membership(membership: Any, n_classes: int, n_kinds: int) -> sp.csr_array:
    """Which classes (rows) each kind (a column) covers, as a sparse matrix of True."""
    if membership is None:
        raise ValueError("membership: None was given with kinds. Pass which classes each kind covers.")
    try:
        matrix = sp.csr_array(membership if sp.issparse(membership) else np.atleast_2d(np.asarray(membership)))
        matrix = sp.csr_array(matrix.astype(np.float64))
    except (TypeError, ValueError) as error:
        raise ValueError(f"membership: cannot be read as a matrix ({error}). Pass zeros and ones.") from error
    if matrix.shape != (n_classes, n_kinds):
        raise ValueError(
            f"membership: its shape is {matrix.shape}, but there are {n_classes} classes and {n_kinds} kinds. "
            f"Pass a row a class and a column a kind."
        )
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return sp.csr_array((np.ones(matrix.nnz, dtype=bool), matrix.indices, matrix.indptr), shape=matrix.shape)


def specificity(membership: sp.csr_array) -> Matrix:
    """``1 - log(classes of a kind) / log(all classes)``: 1 for a kind of one class, 0 for a kind of all."""
    n_classes = membership.shape[0]
    covered = np.bincount(membership.indices, minlength=membership.shape[1])
    shares: Matrix = 1.0 - np.log(np.maximum(covered, 1)) / np.log(max(n_classes, 2))
    return shares


def affinities(classes: Matrix, kinds: Matrix, membership: sp.csr_array, labels: Matrix, power: float) -> Matrix:
    """Largest ``specificity max(0, cos)^power`` among the names of a class: a row a class, a column a label.

    All vectors are centred; a name whose vector is zeros says nothing.
    """
    own: Matrix = np.maximum(directions(classes) @ directions(labels).T, 0.0) ** power
    if not membership.nnz:
        return own
    inherited = np.maximum(directions(kinds) @ directions(labels).T, 0.0) ** power
    inherited *= specificity(membership)[:, None]
    rows = np.flatnonzero(np.diff(membership.indptr))
    for start in range(0, own.shape[1], CHUNK):
        columns = slice(start, start + CHUNK)
        largest = np.maximum.reduceat(inherited[membership.indices, columns], membership.indptr[rows], axis=0)
        own[rows, columns] = np.maximum(own[rows, columns], largest)
    return own


def centred(vectors: Matrix, center: Matrix) -> Matrix:
    """Vectors minus the centre; a vector of zeros, which stands for none, stays."""
    return np.where(vectors.any(axis=1, keepdims=True), vectors - center, 0.0)


def directions(M: Matrix) -> Matrix:
    """Rows of unit length, whatever their size; a row of zeros stays."""
    largest = np.abs(M).max(axis=1, keepdims=True, initial=0.0)
    return unit_rows(M / np.where(largest > 0.0, largest, 1.0))


def center_of(class_vectors: Matrix, center: Any) -> Matrix:
    """Mean of the class vectors that are not zeros; zeros if nothing is to be centred."""
    has_vector = class_vectors.any(axis=1)
    if not has_vector.any():
        raise ValueError("class_vectors: all of them are zeros. Pass the text vectors of the class names.")
    is_centred = check_flag(center, "center")
    return class_vectors[has_vector].mean(axis=0) if is_centred else np.zeros(class_vectors.shape[1])
