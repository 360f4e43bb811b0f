"""Validation in one place: every message names the argument, what was given and what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse

BoolMatrix = NDArray[np.bool_]
FloatMatrix = NDArray[np.floating[Any]]


class Targets(NamedTuple):
    """The truth as two boolean matrices; ``known`` is None when every entry is known."""

    relevant: BoolMatrix
    known: BoolMatrix | None

    def counted(self, entries: BoolMatrix) -> BoolMatrix:
        """``entries`` without those whose truth is unknown."""
        return entries if self.known is None else entries & self.known

    def n_known(self, axis: int) -> NDArray[np.intp]:
        """Number of known entries along ``axis``."""
        n_images, n_labels = self.relevant.shape
        if self.known is None:
            size, count = (n_labels, n_images) if axis == 0 else (n_images, n_labels)
            return np.full(size, count, dtype=np.intp)
        counts: NDArray[np.intp] = self.known.sum(axis=axis)
        return counts


def check_matrix(values: ArrayLike, name: str) -> NDArray[Any]:
    """``values`` as a non-empty 2-D numeric array; nothing is copied when it already is one."""
    if issparse(values):
        raise ValueError(f"{name}: a sparse matrix was given. Pass {name}.toarray().")
    matrix = np.asarray(values)
    if matrix.ndim != 2:
        raise ValueError(
            f"{name}: expected a matrix (n_images, n_labels), got an array of shape {matrix.shape}. "
            f"Reshape a single image to (1, n_labels)."
        )
    if matrix.size == 0:
        raise ValueError(
            f"{name}: empty, its shape is {matrix.shape}. Pass at least one image and one label."
        )
    if matrix.dtype.kind not in "biuf":
        raise ValueError(f"{name}: expected numbers, got dtype {matrix.dtype}. Convert it to float first.")
    return matrix


def check_targets(values: ArrayLike, name: str = "Y_true", *, need_positive: bool = True) -> Targets:
    """Split a matrix of {0, 1, NaN} into what is relevant and what is known."""
    matrix = check_matrix(values, name)
    relevant = matrix.astype(np.bool_, copy=False) if matrix.dtype == np.bool_ else matrix == 1
    known = None
    if matrix.dtype.kind == "f":
        unknown = np.isnan(matrix)
        known = ~unknown if unknown.any() else None
    _refuse_other_values(matrix, relevant, known, name)
    if need_positive and not relevant.any():
        raise ValueError(
            f"{name}: none of its {matrix.size} entries is positive, so this is undefined. "
            f"Keep only data with at least one positive."
        )
    return Targets(relevant, known)


def _refuse_other_values(
    matrix: NDArray[Any], relevant: BoolMatrix, known: BoolMatrix | None, name: str
) -> None:
    valid = relevant | (matrix == 0)
    if known is not None:
        valid |= ~known
    if not valid.all():
        found = ", ".join(f"{value:g}" for value in np.unique(matrix[~valid])[:3])
        raise ValueError(
            f"{name}: values other than 0, 1 and NaN were given ({found}). "
            f"Write 1 for present, 0 for absent, NaN for unknown."
        )


def check_scores(values: ArrayLike, name: str = "scores") -> FloatMatrix:
    """``values`` as a finite floating-point matrix; float32 stays float32."""
    matrix = check_matrix(values, name)
    scores: FloatMatrix = matrix if matrix.dtype.kind == "f" else matrix.astype(np.float64)
    n_bad = scores.size - np.count_nonzero(np.isfinite(scores))
    if n_bad:
        raise ValueError(f"{name}: {n_bad} entries are NaN or infinite. Give every label a finite score.")
    return scores


def check_predictions(values: ArrayLike, name: str = "Y_pred") -> BoolMatrix:
    """``values`` as a boolean matrix; a prediction is never unknown."""
    relevant, known = check_targets(values, name, need_positive=False)
    if known is not None:
        raise ValueError(
            f"{name}: {np.count_nonzero(~known)} entries are NaN. Only Y_true may be unknown; predict 0 or 1."
        )
    return relevant


def check_same_shape(truth: NDArray[Any], other: NDArray[Any], name: str) -> None:
    """Refuse two matrices that do not speak of the same images and labels."""
    if truth.shape != other.shape:
        raise ValueError(
            f"{name}: its shape {other.shape} differs from the shape {truth.shape} of Y_true. "
            f"Pass one row for each image and one column for each label of Y_true."
        )


def check_count(value: Any, name: str) -> int:
    """``value`` as an integer of at least 1."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{name}: {value!r} was given. Pass an integer of at least 1.")
    return int(value)


def check_number(value: Any, name: str, *, low: float = 0.0, strict: bool = False) -> float:
    """``value`` as a finite number of at least ``low`` (more than ``low`` if strict)."""
    valid = isinstance(value, Real) and not isinstance(value, bool | np.bool_) and np.isfinite(float(value))
    if not valid or float(value) < low or (strict and float(value) == low):
        raise ValueError(
            f"{name}: {value!r} was given. Pass a finite number {'>' if strict else '>='} {low:g}."
        )
    return float(value)


def check_choice(value: Any, name: str, choices: Sequence[str]) -> str:
    """``value`` as one of the given words."""
    if value not in choices:
        raise ValueError(f"{name}: {value!r} was given. Choose one of {', '.join(map(repr, choices))}.")
    return str(value)


class Labels(NamedTuple):
    """Labels as a caller gave them: names, vectors, or both."""

    names: tuple[str, ...] | None
    vectors: NDArray[np.float64] | None

    def __len__(self) -> int:
        """Count the labels, not the two fields."""
        given = self.names if self.names is not None else self.vectors
        return 0 if given is None else len(given)


def check_labels(labels: Any, argument: str) -> Labels:
    """Read labels in any form a caller may hold.

    A mapping of names to vectors, an object with ``names`` and ``vectors`` (a LabelSpace), a data frame whose
    index are the names, a sequence of names, or a matrix with a vector a row.
    """
    names: Any = None
    vectors: Any = None
    if isinstance(labels, str):
        raise ValueError(f"{argument}: the single string {labels!r} was given. Pass a list of names.")
    if isinstance(labels, Mapping):
        names, vectors = list(labels), list(labels.values())
    elif hasattr(labels, "names") and hasattr(labels, "vectors"):
        names, vectors = labels.names, labels.vectors
    elif hasattr(labels, "index") and hasattr(labels, "to_numpy"):
        names, vectors = labels.index, labels.to_numpy()
    elif isinstance(labels, Sequence) and len(labels) > 0 and all(isinstance(name, str) for name in labels):
        names = labels
    else:
        vectors = labels
    checked_names = None if names is None else check_names(names, argument)
    checked_vectors = None if vectors is None else check_vectors(vectors, argument)
    if checked_names is not None and checked_vectors is not None and len(checked_names) != len(checked_vectors):
        raise ValueError(
            f"{argument}: {len(checked_names)} names but {len(checked_vectors)} vectors. Pass one vector a name."
        )
    return Labels(checked_names, checked_vectors)


def check_names(names: Any, argument: str) -> tuple[str, ...]:
    """``names`` as a tuple of unique, non-empty strings."""
    checked = tuple(str(name) for name in names)
    if not all(name.strip() for name in checked):
        raise ValueError(f"{argument}: an empty name was given. Name every label.")
    repeated = [name for name, count in Counter(checked).items() if count > 1]
    if repeated:
        raise ValueError(
            f"{argument}: {len(repeated)} names occur more than once: {shorten(repeated)}. Give each label once."
        )
    return checked


def check_vectors(vectors: Any, argument: str) -> NDArray[np.float64]:
    """``vectors`` as a finite float64 matrix (n_labels, n_dims) with at least one row and one column."""
    try:
        matrix = np.asarray(vectors, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{argument}: cannot be read as a matrix of numbers ({error}). Pass one vector of equal length a label."
        ) from None
    if matrix.ndim != 2 or matrix.size == 0:
        raise ValueError(
            f"{argument}: expected vectors of shape (n_labels, n_dims), got shape {matrix.shape}. "
            f"Pass at least one label, as a row."
        )
    if not np.isfinite(matrix).all():
        bad = np.flatnonzero(~np.isfinite(matrix).all(axis=1))
        raise ValueError(
            f"{argument}: the vectors of rows {shorten(bad)} hold NaN or infinity. Give every label a finite vector."
        )
    return matrix


def check_relations(relations: Any, n_labels: int) -> NDArray[np.float64]:
    """``relations`` as a symmetric, non-negative matrix over the seen and then the unseen labels."""
    R = check_vectors(relations, "relations")
    if R.shape != (n_labels, n_labels):
        raise ValueError(
            f"relations: its shape is {R.shape}. Pass a ({n_labels}, {n_labels}) matrix over the seen labels "
            f"followed by the unseen ones."
        )
    if R.min() < 0.0:
        raise ValueError(
            f"relations: the smallest entry is {R.min():g}. Relations are similarities: pass values >= 0."
        )
    if not np.allclose(R, R.T, rtol=1e-6, atol=1e-12):
        raise ValueError("relations: not symmetric. Pass (R + R.T) / 2 if that is what you mean.")
    return R


def check_known_names(names: Sequence[str], known: Sequence[str], argument: str) -> list[int]:
    """Positions of ``names`` in ``known``; unknown ones are listed with their nearest known names."""
    position = {name: i for i, name in enumerate(known)}
    missing = [name for name in names if name not in position]
    if missing:
        hints = [f"{name!r} (nearest: {', '.join(get_close_matches(name, known, 2)) or 'none'})" for name in missing]
        raise ValueError(
            f"{argument}: {len(missing)} names are unknown to this model: {shorten(hints)}. "
            f"Pass their vectors too, for example as {{name: vector}}."
        )
    return [position[name] for name in names]


def shorten(items: Any, most: int = 5) -> str:
    """Join the first few items for a message."""
    listed = [str(item) for item in items]
    return ", ".join(listed[:most]) + (f", ... ({len(listed)} in all)" if len(listed) > most else "")
