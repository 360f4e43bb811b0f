"""LabelSpace: the names of labels and the vectors that stand for them."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["LabelSpace"]


@dataclass(frozen=True, init=False, eq=False, repr=False)
class LabelSpace:
    """Labels with a name and a vector each; immutable, every method returns a new space.

    Parameters
    ----------
    names : iterable of str
        Unique, non-empty names; kept as a tuple.
    vectors : array-like of shape (n_labels, n_dims)
        One finite vector a name, in the same order; copied to a read-only float64 array.

    Examples
    --------
    >>> space = LabelSpace(["cat", "dog", "car"], [[1.0, 0.1], [1.0, 0.2], [0.0, 3.0]])
    >>> len(space), "dog" in space, space.index("car")
    (3, True, 2)
    >>> space.select(["car", "cat"]).names
    ('car', 'cat')
    """

    names: tuple[str, ...]
    vectors: NDArray[np.float64]
    _positions: dict[str, int]

    def __init__(self, names: Iterable[str], vectors: ArrayLike) -> None:
        checked = _check_names(names)
        object.__setattr__(self, "names", checked)
        object.__setattr__(self, "vectors", _check_vectors(vectors, checked))
        object.__setattr__(self, "_positions", {name: i for i, name in enumerate(checked)})

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self._positions

    def __add__(self, other: LabelSpace) -> LabelSpace:
        if not isinstance(other, LabelSpace):
            return NotImplemented
        return self.concat(other)

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self.names[:3])) + (", ..." if len(self) > 3 else "")
        return f"LabelSpace({len(self)} labels of {self.vectors.shape[1]} dimensions: {shown})"

    def __reduce__(self) -> tuple[type[LabelSpace], tuple[tuple[str, ...], NDArray[np.float64]]]:
        # Through the constructor, so that copies and pickles are checked and read-only too.
        return type(self), (self.names, self.vectors)

    def index(self, name: str) -> int:
        """Position of a label.

        Parameters
        ----------
        name : str
            A label of this space.

        Returns
        -------
        int
            Its row in `vectors`.

        Raises
        ------
        ValueError
            If the label is unknown; the message lists the nearest known names.
        """
        return self._indices([name], "name")[0]

    def select(self, names: Iterable[str]) -> LabelSpace:
        """Sub-space of the given labels, in the given order.

        Parameters
        ----------
        names : iterable of str
            Labels of this space, each at most once.

        Returns
        -------
        LabelSpace

        Raises
        ------
        ValueError
            If a label is unknown (the message lists the nearest known names), repeated, or if none is given.
        """
        chosen = _check_names(names)
        return LabelSpace(chosen, self.vectors[self._indices(chosen, "names")])

    def concat(self, *others: LabelSpace) -> LabelSpace:
        """Labels of this space followed by those of others; ``a + b`` is ``a.concat(b)``.

        Parameters
        ----------
        *others : LabelSpace
            Spaces of the same dimension with no label in common.

        Returns
        -------
        LabelSpace

        Raises
        ------
        ValueError
            If the dimensions differ or a name occurs twice.
        """
        n_dims = self.vectors.shape[1]
        for other in others:
            if other.vectors.shape[1] != n_dims:
                raise ValueError(
                    f"others: label vectors of {other.vectors.shape[1]} dimensions were given, these have "
                    f"{n_dims}. Take both from the same vectors."
                )
        spaces = (self, *others)
        return LabelSpace(
            [name for space in spaces for name in space.names], np.vstack([space.vectors for space in spaces])
        )

    def centered(self, on: ArrayLike | None = None) -> LabelSpace:
        """Space whose vectors have had a mean subtracted.

        Parameters
        ----------
        on : array-like of shape (n_vectors, n_dims), default=None
            Vectors whose mean is subtracted, say a whole vocabulary's or ``seen.vectors``. None: those of
            this space.

        Returns
        -------
        LabelSpace

        Raises
        ------
        ValueError
            If `on` is not a finite matrix of the same dimension with at least one row.
        """
        reference = self.vectors if on is None else np.asarray(on, dtype=np.float64)
        n_dims = self.vectors.shape[1]
        if reference.ndim != 2 or reference.shape[1] != n_dims or len(reference) == 0:
            raise ValueError(
                f"on: an array of shape {reference.shape} was given. "
                f"Pass vectors as rows, of shape (n_vectors, {n_dims})."
            )
        if not np.isfinite(reference).all():
            raise ValueError("on: the vectors hold NaN or infinite values. Remove them before centring.")
        return LabelSpace(self.names, self.vectors - reference.mean(axis=0))

    def normalized(self) -> LabelSpace:
        """Space whose vectors have unit Euclidean length.

        Returns
        -------
        LabelSpace

        Raises
        ------
        ValueError
            If a vector is zero: it has no direction.
        """
        # Scaling by the largest entry first keeps the squares of tiny or huge vectors in range.
        largest = np.abs(self.vectors).max(axis=1, keepdims=True)
        zero = [name for name, size in zip(self.names, largest[:, 0], strict=True) if size == 0]
        if zero:
            raise ValueError(
                f"vectors: the vector of {_listed(zero)} is zero and cannot be normalised. "
                "Give it a vector or leave the label out."
            )
        scaled = self.vectors / largest
        return LabelSpace(self.names, scaled / np.linalg.norm(scaled, axis=1, keepdims=True))

    def _indices(self, names: Iterable[str], argument: str) -> list[int]:
        names = list(names)
        unknown = [name for name in names if name not in self._positions]
        if unknown:
            raise ValueError(
                f"{argument}: {len(unknown)} unknown {'label' if len(unknown) == 1 else 'labels'}: "
                f"{'; '.join(map(self._suggestion, unknown))}. Pass names of this space (see its `names`)."
            )
        return [self._positions[name] for name in names]

    def _suggestion(self, unknown: object) -> str:
        near = difflib.get_close_matches(str(unknown), self.names)
        return f"{unknown!r} (nearest: {_listed(near)})" if near else f"{unknown!r}"


def _check_names(names: Iterable[str]) -> tuple[str, ...]:
    if isinstance(names, str):
        raise ValueError(f"names: the single string {names!r} was given. Pass a list of names, [{names!r}].")
    checked = tuple(names)
    if not checked:
        raise ValueError("names: no label was given. Pass at least one name.")
    for i, name in enumerate(checked):
        if not isinstance(name, str) or not name.strip():
            raise ValueError(f"names: entry {i} is {name!r}. Pass non-empty strings.")
    # str() turns numpy's strings into plain ones, which print and serialise as expected.
    checked = tuple(map(str, checked))
    repeated = [name for name, count in Counter(checked).items() if count > 1]
    if repeated:
        raise ValueError(
            f"names: {_listed(repeated)} given more than once. Give every label a name of its own."
        )
    return checked


def _check_vectors(vectors: ArrayLike, names: tuple[str, ...]) -> NDArray[np.float64]:
    checked = np.array(vectors, dtype=np.float64)
    if checked.ndim != 2 or len(checked) != len(names) or checked.shape[1] == 0:
        raise ValueError(
            f"vectors: an array of shape {checked.shape} was given for {len(names)} names. "
            "Pass one row for each name, of shape (n_labels, n_dims)."
        )
    broken = [name for name, row in zip(names, checked, strict=True) if not np.isfinite(row).all()]
    if broken:
        raise ValueError(
            f"vectors: NaN or infinite values in the vector of {_listed(broken)}. Pass finite vectors only."
        )
    checked.flags.writeable = False
    return checked


def _listed(names: list[str], at_most: int = 5) -> str:
    more = f" and {len(names) - at_most} more" if len(names) > at_most else ""
    return ", ".join(map(repr, names[:at_most])) + more
