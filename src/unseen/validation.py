"""Validation in one place: every message names the argument, what was given and what to do."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse

Matrix = NDArray[np.float64]
Targets = NDArray[np.int8]  # 1 = shows the label, -1 = does not, 0 = unknown
BoolMatrix = NDArray[np.bool_]
FloatMatrix = NDArray[np.floating[Any]]
Truth = tuple[BoolMatrix, BoolMatrix | None]  # which entries are positive, and which are known if not all

MOST_LISTED = 5  # items shown in a message
LEAST, MOST = 1e-100, 1e100  # sizes of numbers whose squares stay in range
ENTRIES = 1e-50, 1e50  # and sizes of data, which is multiplied several times


def listed(items: Sequence[Any]) -> str:
    """Show the first few items in a message."""
    more = f" and {len(items) - MOST_LISTED} more" if len(items) > MOST_LISTED else ""
    shown = (item if len(str(item)) <= 150 else f"{str(item)[:150]}..." for item in items[:MOST_LISTED])
    return ", ".join(map(repr, shown)) + more


def counted(number: int, noun: str) -> str:
    """Write how many there are: ``1 image``, ``2,000 images``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def check_count(value: Any, name: str, *, low: int = 1) -> int:
    """``value`` as an integer of at least ``low``."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Integral) or value < low:
        raise ValueError(f"{name}: {value!r} was given. Pass an integer of at least {low}.")
    return int(value)


def check_number(value: Any, name: str, *, low: float = 0.0, high: float = np.inf, strict: bool = False) -> float:
    """``value`` as a finite number in [low, high], or in (low, high] if strict, of a size that can be squared."""
    try:
        number = float(value) if isinstance(value, Real) and not isinstance(value, bool | np.bool_) else np.nan
    except OverflowError:
        value = number = np.inf  # an integer of hundreds of digits
    if not (np.isfinite(number) and low <= number <= high) or (strict and number == low):
        wanted = f"{'>' if strict else '>='} {low:g}" + (f" and <= {high:g}" if np.isfinite(high) else "")
        raise ValueError(f"{name}: {value!r} was given. Pass a finite number {wanted}.")
    if number and not LEAST <= abs(number) <= MOST:
        zero = "0, or " if low <= 0.0 and not strict else ""
        raise ValueError(f"{name}: {value!r} was given. Pass {zero}a number of a size from {LEAST:g} to {MOST:g}.")
    return number


def check_choice(value: Any, name: str, choices: Sequence[str]) -> str:
    """``value`` as one of the given words."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name}: {value!r} was given. Choose one of {listed(choices)}.")
    return value


def check_flag(value: Any, name: str) -> bool:
    """``value`` as True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name}: {value!r} was given. Pass True or False.")
    return bool(value)


def check_generator(random_state: Any) -> np.random.Generator:
    """A generator for whatever scikit-learn accepts as ``random_state``."""
    from sklearn.utils import check_random_state

    return np.random.default_rng(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def refuse_other_numbers(values: Any, name: str) -> None:
    """Raise a ValueError for masked entries, complex numbers, dates and spans, which NumPy would convert."""
    parts = values if isinstance(values, list | tuple) else [values]
    if any(map(_is_masked, parts)):
        raise ValueError(f"{name}: some entries are masked. Pass numbers in their place.")
    dtypes = values.dtypes if hasattr(values, "columns") else [getattr(values, "dtype", None)]
    kinds = {getattr(dtype, "kind", "O") for dtype in dtypes}
    if "c" in kinds:
        raise ValueError(f"{name}: Complex data not supported. Pass real numbers.")
    if kinds & {"M", "m"}:
        raise ValueError(f"{name}: dates or time spans were given. Pass numbers.")


def refuse_huge_entries(X: Any) -> None:
    """Raise a ValueError if squares of the entries of the images X, which are not normalised, may overflow."""
    entries, most = X.data if issparse(X) else X, 1e15 if X.dtype == np.float32 else ENTRIES[1]
    if entries.size and max(entries.max(), -entries.min()) > most:
        raise ValueError(f"X: some entries of {X.dtype} are larger than {most:g}. Rescale X.")


def unmasked(Y: Any) -> Any:
    """``Y``, in which masked numbers become NaN: unknown."""
    return np.where(Y.mask, np.nan, Y.data) if _is_masked(Y) and Y.dtype.kind in "biuf" else Y


def _is_masked(values: Any) -> bool:
    return np.ma.isMaskedArray(values) and bool(np.ma.is_masked(values))


def check_matrix(values: ArrayLike, name: str, shape: tuple[int, ...] | None = None) -> NDArray[Any]:
    """``values`` as a non-empty 2-D numeric array (of this shape), not copied if it already is one."""
    if issparse(values):
        raise ValueError(f"{name}: a sparse matrix was given. Pass {name}.toarray().")
    refuse_other_numbers(values, name)
    matrix = np.asarray(values)
    if matrix.ndim != 2 or matrix.size == 0:
        raise ValueError(f"{name}: its shape is {matrix.shape}. Pass one row per image and one column per label.")
    if matrix.dtype.kind not in "biuf":
        raise ValueError(f"{name}: its dtype is {matrix.dtype}. Pass numbers.")
    if shape not in (None, matrix.shape):
        raise ValueError(f"{name}: its shape is {matrix.shape}. Pass the shape {shape} of Y_true.")
    return matrix


def check_targets(values: ArrayLike, name: str = "Y_true", *, need_positive: bool = True) -> Truth:
    """Split a matrix of {0, 1, NaN} into masks of the positive and of the known entries."""
    matrix = check_matrix(unmasked(values), name)
    relevant: BoolMatrix = matrix == 1
    known: BoolMatrix = matrix == matrix
    valid = relevant | (matrix == 0) | ~known
    if not valid.all():
        found = ", ".join(f"{value:g}" for value in np.unique(matrix[~valid])[:3])
        raise ValueError(f"{name}: values {found} were given. Write 1 for present, 0 for absent, NaN for unknown.")
    if need_positive and not relevant.any():
        raise ValueError(f"{name}: none of its {matrix.size} entries is positive. Pass data with at least one.")
    return relevant, None if known.all() else known


def check_scores(values: ArrayLike, name: str = "scores", shape: tuple[int, ...] | None = None) -> FloatMatrix:
    """``values`` as a finite floating-point matrix; float32 stays float32."""
    matrix = check_matrix(values, name, shape)
    scores: FloatMatrix = matrix if matrix.dtype.kind == "f" else matrix.astype(np.float64)
    if not np.isfinite(scores).all():
        raise ValueError(f"{name}: some entries are NaN or infinite. Give every label a finite score.")
    return scores


def check_predictions(values: ArrayLike, name: str = "Y_pred", shape: tuple[int, ...] | None = None) -> BoolMatrix:
    """``values`` as a boolean matrix; a prediction is never unknown."""
    relevant, known = check_targets(check_matrix(values, name, shape), name, need_positive=False)
    if known is not None:
        raise ValueError(f"{name}: {np.count_nonzero(~known)} entries are NaN. Predict 0 or 1.")
    return relevant


class Annotations(NamedTuple):
    """Annotations of the training images: targets, names of the labels, classes of a vector Y."""

    T: Targets
    names: tuple[str, ...] | None
    classes: NDArray[Any] | None


def check_annotations(
    Y: Any, n_images: int, names: tuple[str, ...] | None = None, *, need_positive: bool = True
) -> Annotations:
    """Read annotations: a matrix of {0, 1, NaN}, lists of tags (see `tag_matrix`), or a vector of classes."""
    if Y is None:
        raise ValueError("Y: fit requires y to be passed, but the target y is None. Pass one row per image.")
    columns = axis_names(Y.columns, "Y") if hasattr(Y, "columns") else None
    if are_tag_lists(Y):
        Y, columns = tag_matrix(Y, names)
    Y = unmasked(Y)
    refuse_other_numbers(Y, "Y")
    try:
        matrix = as_matrix(Y)
    except ValueError as error:
        raise ValueError(f"Y: not a matrix ({error}). Pass rows of equal length.") from None
    refuse_other_numbers(matrix, "Y")
    if matrix.shape[:1] != (n_images,):
        raise ValueError(f"Y: inconsistent with X, {matrix.shape} for {n_images} images. Pass one row per image.")
    if matrix.ndim == 1 or (matrix.shape[1:] == (1,) and not _is_indicator(matrix)):
        return _annotations_of_classes(matrix)
    return Annotations(as_targets(matrix, need_positive=need_positive), columns, None)


def as_targets(Y: ArrayLike, *, need_positive: bool = True) -> Targets:
    """A matrix of {0, 1, NaN} as targets 1, -1 and 0."""
    relevant, known = check_targets(Y, "Y", need_positive=need_positive)
    T = np.where(np.ascontiguousarray(relevant), np.int8(1), np.int8(-1))
    if known is not None:
        T[~known] = 0
    return T


def refuse_other_order(X: Any, Y: Any) -> None:
    """Raise a ValueError if X and Y are data frames of the same rows in another order."""
    if not (hasattr(X, "loc") and hasattr(Y, "loc")) or len(X) != len(Y) or X.index.equals(Y.index):
        return
    if X.index.is_unique and X.index.sort_values().equals(Y.index.sort_values()):
        raise ValueError("Y: by index, its rows are in a different order from those of X. Pass Y.loc[X.index].")


def are_tag_lists(Y: Any) -> bool:
    """Whether Y holds one collection of strings per image: a list of lists, or an array or series of lists."""
    if not isinstance(Y, list | tuple) and (getattr(Y, "dtype", np.dtype(int)).kind != "O" or Y.ndim != 1):
        return False
    if not all(isinstance(row, list | tuple | set | frozenset) for row in Y):
        return False
    return any(map(len, Y)) and all(isinstance(tag, str) for row in Y for tag in row)


def tag_matrix(lists: Any, names: tuple[str, ...] | None = None) -> tuple[NDArray[np.int8], tuple[str, ...]]:
    """Lists of tags as a matrix of {0, 1} and its column names: ``names``, or the sorted distinct tags."""
    rows = [[tag.strip() for tag in row] for row in lists]
    distinct = sorted({tag for row in rows for tag in row})
    names = check_names(distinct, "Y") if names is None else names
    places = {name: column for column, name in enumerate(names)}
    find_names(distinct, places, "Y", "Pass their vectors in seen too, or leave these tags out.")
    Y = np.zeros((len(rows), len(names)), dtype=np.int8)
    for i, row in enumerate(rows):
        Y[i, [places[tag] for tag in row]] = 1
    return Y, names


def as_matrix(Y: Any) -> NDArray[Any]:
    """``Y`` as an array; the missing values of pandas' own types become NaN."""
    if issparse(Y):
        return np.asarray(Y.toarray())
    array = np.asarray(Y)
    numbers = hasattr(Y, "columns") and all(getattr(dtype, "kind", "O") in "biuf" for dtype in Y.dtypes)
    if array.dtype == object and numbers:
        return np.asarray(Y.to_numpy(dtype=np.float64, na_value=np.nan))
    return array


def _annotations_of_classes(y: NDArray[Any]) -> Annotations:
    """One label per class, or a single label for the second of two classes."""
    # scikit-learn takes half a second to import, and opening a backbone does not need it.
    from sklearn.utils import assert_all_finite, column_or_1d
    from sklearn.utils.multiclass import check_classification_targets

    y = column_or_1d(y, warn=True)
    assert_all_finite(y, input_name="Y")
    check_classification_targets(y)
    classes = np.unique(y)
    if len(classes) < 2:
        raise ValueError(f"Y: a vector with only one class ({classes[0]!r}) was given. Pass at least two classes.")
    positive = classes[1:] if len(classes) == 2 else classes
    T = np.where(y[:, None] == positive, np.int8(1), np.int8(-1))
    return Annotations(T, tuple(map(str, positive)), classes)


def _is_indicator(matrix: NDArray[Any]) -> bool:
    return matrix.dtype.kind in "biuf" and bool(np.all((matrix == 0) | (matrix == 1) | (matrix != matrix)))


class Labels(NamedTuple):
    """Label vectors, one per row, with their names if they have any."""

    names: tuple[str, ...] | None
    vectors: Matrix


def check_labels(labels: Any, argument: str, known: Labels | None = None) -> Labels:
    """Read labels: {name: vector}, a LabelSpace, a data frame or matrix of rows, or names of ``known`` labels."""
    names: tuple[str, ...] | None
    vectors: Any
    if isinstance(labels, Mapping):
        names, vectors = check_names(labels, argument), list(labels.values())
    elif hasattr(labels, "index") and hasattr(labels, "columns"):
        names, vectors = axis_names(labels.index, argument), labels
    elif hasattr(labels, "names") and hasattr(labels, "vectors"):
        names, vectors = check_names(labels.names, argument), labels.vectors
    elif _are_names(labels):
        names = check_names(labels, argument)
        if known is None:
            raise ValueError(f"{argument}: names without vectors were given. Pass {{name: vector}}.")
        rows = {name: i for i, name in enumerate(known.names or ())}
        advice = "Pass names given to fit, or {name: vector}."
        vectors = known.vectors[find_names(names, rows, argument, advice)]
    else:
        names, vectors = None, labels
    checked = check_vectors(vectors, argument, names)
    largest, (low, high) = np.maximum(checked.max(axis=1), -checked.min(axis=1)), ENTRIES
    extreme = (largest > high) | ((largest < low) & (largest > 0.0))
    if extreme.any():
        found = f"the largest entry of {which_vectors(extreme, names)} is {largest[extreme][0]:g}"
        raise ValueError(f"{argument}: {found}. Scale it to between {low:g} and {high:g}.")
    return Labels(names, checked)


def _are_names(labels: Any) -> bool:
    if not isinstance(labels, Collection) or isinstance(labels, Set) or getattr(labels, "ndim", 1) != 1:
        return False
    return len(labels) > 0 and all(isinstance(name, str) for name in labels)


def axis_names(axis: Any, argument: str) -> tuple[str, ...] | None:
    """Names on an axis of a data frame; None if none of them is a string, as in a numbered one."""
    return check_names(axis, argument) if any(isinstance(name, str) for name in axis) else None


def check_names(names: Iterable[Any], argument: str, *, unique: bool = True) -> tuple[str, ...]:
    """``names`` as a tuple of at least one non-empty string, each only once if they are to be unique."""
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise ValueError(f"{argument}: {names!r} was given. Pass a list of names, such as ['dog', 'cat'].")
    given = tuple(names)
    if not given:
        raise ValueError(f"{argument}: no label was given. Pass at least one.")
    for i, name in enumerate(given):
        if not isinstance(name, str) or not name.strip():
            raise ValueError(f"{argument}: the name of label {i} is {name!r}. Pass non-empty strings.")
    # str() turns numpy's strings into plain ones, which print and serialise as expected.
    checked = tuple(str(name).strip() for name in given)
    repeated = [name for name, count in Counter(checked).items() if count > 1]
    if repeated and unique:
        raise ValueError(f"{argument}: {listed(repeated)} given more than once. Give every label its own name.")
    return checked


def check_vectors(vectors: Any, argument: str, names: tuple[str, ...] | None = None) -> Matrix:
    """``vectors`` as a finite float64 matrix with one row per label (per name if names are given)."""
    matrix = _as_floats(vectors, argument, "Pass vectors of equal length.")
    if matrix.ndim != 2 or matrix.size == 0:
        raise ValueError(f"{argument}: its shape is {matrix.shape}. Pass one vector per label, as a row.")
    if names is not None and len(matrix) != len(names):
        raise ValueError(f"{argument}: {len(matrix)} vectors for {len(names)} names. Pass one vector per name.")
    broken = ~np.isfinite(matrix).all(axis=1)
    if broken.any():
        raise ValueError(f"{argument}: NaN or infinity in {which_vectors(broken, names)}. Pass finite vectors.")
    return matrix


def _as_floats(values: Any, argument: str, advice: str) -> Matrix:
    refuse_other_numbers(values, argument)
    try:
        given = np.asarray(values)
        is_number = given.dtype.kind not in "cMm"
        # Always in C order: the bits of a product depend on it.
        floats = np.asarray(given, dtype=np.float64 if is_number else None, order="C")
    except (TypeError, ValueError) as error:
        raise ValueError(f"{argument}: not a matrix of numbers ({error}). {advice}") from None
    refuse_other_numbers(floats, argument)
    return floats


def which_vectors(marked: Any, names: tuple[str, ...] | None) -> str:
    """Describe which rows of a matrix of label vectors are marked, by name if they have names."""
    rows = np.flatnonzero(marked).tolist()
    return f"the vector of {listed([names[i] for i in rows])}" if names else f"vector {listed(rows)}"


def find_names(names: Iterable[Any], rows: Mapping[str, int], argument: str, advice: str) -> list[int]:
    """Rows of the named labels; unknown names are listed with the nearest known ones."""
    names = list(names)
    unknown = [name for name in names if name not in rows]
    if unknown:
        hints = [
            f"{name!r} (nearest: {listed(near)})" if (near := get_close_matches(str(name), rows)) else repr(name)
            for name in unknown[:MOST_LISTED]
        ]
        more = f"; and {len(unknown) - MOST_LISTED} more" if len(unknown) > MOST_LISTED else ""
        hints[0] = f"{counted(len(unknown), 'unknown label')}: {hints[0]}"
        raise ValueError(f"{argument}: {'; '.join(hints)}{more}. {advice}")
    return [rows[name] for name in names]


def check_relations(relations: Any, names: tuple[str, ...]) -> Matrix:
    """``relations`` as a symmetric, non-negative matrix over the labels, found by name if they carry names."""
    rows = columns = getattr(relations, "names", None)
    if hasattr(relations, "columns"):
        rows, columns = (axis_names(axis, "relations") for axis in (relations.index, relations.columns))
    relations = getattr(relations, "matrix", relations)
    relations = relations.toarray() if issparse(relations) else relations
    R = _as_floats(relations, "relations", "Pass a square matrix.")
    if rows is not None and columns is not None:
        advice = "Name the labels of relations as those of fit, or pass the matrix alone."
        places = ({name: i for i, name in enumerate(axis)} for axis in (rows, columns))
        R = R[np.ix_(*(find_names(names, place, "relations", advice) for place in places))]
    if R.shape != (len(names), len(names)):
        raise ValueError(f"relations: its shape is {R.shape}. Pass one row for each of the {len(names)} labels.")
    if not np.isfinite(R).all():
        raise ValueError("relations: some entries are NaN or infinite. Write 0 for labels with nothing in common.")
    if R.min() < 0.0:
        raise ValueError(f"relations: the smallest entry is {R.min():g}. Pass similarities, which are >= 0.")
    if R.max() > MOST:
        raise ValueError(f"relations: the largest entry is {R.max():g}. Pass R / R.max(): entries up to {MOST:g}.")
    if not np.allclose(R, R.T, rtol=1e-6, atol=1e-12):
        raise ValueError("relations: not symmetric. Pass (R + R.T) / 2 if that is intended.")
    return 0.5 * (R + R.T)
