"""LabelSpace: the names of labels and the vectors that stand for them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unseen.validation import check_names, check_vectors, find_names, which_vectors

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
    _rows: dict[str, int]

    def __init__(self, names: Iterable[str], vectors: ArrayLike) -> None:
        checked = check_names(names, "names")
        copied = check_vectors(vectors, "vectors", checked).copy()
        copied.flags.writeable = False
        object.__setattr__(self, "names", checked)
        object.__setattr__(self, "vectors", copied)
        object.__setattr__(self, "_rows", {name: i for i, name in enumerate(checked)})

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self._rows

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
        return self._find([name], "name")[0]

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
        chosen = check_names(names, "names")
        return LabelSpace(chosen, self.vectors[self._find(chosen, "names")])

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
                    f"{n_dims}. Take both from the same source."
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
        reference = self.vectors if on is None else check_vectors(on, "on")
        n_dims = self.vectors.shape[1]
        if reference.shape[1] != n_dims:
            raise ValueError(
                f"on: vectors of {reference.shape[1]} dimensions were given, these have {n_dims}. "
                f"Take both from the same source."
            )
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
        zero = largest[:, 0] == 0
        if zero.any():
            raise ValueError(
                f"vectors: {which_vectors(zero, self.names)} cannot be normalised, being zero. "
                f"Give it a vector or leave the label out."
            )
        scaled = self.vectors / largest
        return LabelSpace(self.names, scaled / np.linalg.norm(scaled, axis=1, keepdims=True))

    def _find(self, names: Iterable[str], argument: str) -> list[int]:
        return find_names(names, self._rows, argument, "Pass names of this space (see its `names`).")
