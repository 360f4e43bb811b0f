"""LabelSpace: the names of labels and their vectors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from os import PathLike

import numpy as np
from numpy.typing import ArrayLike

from unseen.labels.encoders import TextEncoder
from unseen.labels.names import Resolution
from unseen.labels.vectors import look_up
from unseen.validation import Matrix, check_names, check_vectors, find_names, listed, which_vectors


@dataclass(frozen=True, init=False, eq=False, repr=False)
class LabelSpace:
    """Labels with a name and a vector each; immutable, every method returns a new space.

    Parameters
    ----------
    names : iterable of str
        Unique, non-empty names; kept as a tuple.
    vectors : array-like of shape (n_labels, n_dims), str, path or TextEncoder, default="use"
        One finite vector per name, in the same order; copied to a read-only float64 array. Or a source to look the
        names up in, such as ``"use"`` or ``"glove"``; see `unseen.labels.vectors.look_up`.
    missing : {"error", "mean", "skip"}, default="error"
        What to do with names that are not in a table of words; see `unseen.labels.vectors.look_up`.

    Attributes
    ----------
    source : str or None
        Where the vectors were looked up; None if they were given.
    resolved : tuple of Resolution
        What was looked up for each name, and by which rule; empty if the vectors were given.

    Examples
    --------
    >>> space = LabelSpace(["cat", "dog", "car"], [[1.0, 0.1], [1.0, 0.2], [0.0, 3.0]])
    >>> len(space), "dog" in space, space.index("car")
    (3, True, 2)
    >>> space.select(["car", "cat"]).names
    ('car', 'cat')
    """

    names: tuple[str, ...]
    vectors: Matrix
    source: str | None
    resolved: tuple[Resolution, ...]
    _rows: dict[str, int]

    def __init__(
        self,
        names: Iterable[str],
        vectors: ArrayLike | str | PathLike[str] | TextEncoder = "use",
        missing: str = "error",
    ) -> None:
        checked = check_names(names, "names")
        source: str | None = None
        resolved: tuple[Resolution, ...] = ()
        if isinstance(vectors, str | PathLike | TextEncoder):
            resolved, vectors, source = look_up(checked, vectors, missing=missing)
            checked = tuple(resolution.name for resolution in resolved)
        copied = check_vectors(vectors, "vectors", checked).copy()
        copied.flags.writeable = False
        rows = {name: i for i, name in enumerate(checked)}
        self._set(names=checked, vectors=copied, source=source, resolved=resolved, _rows=rows)

    def _set(self, **fields: object) -> None:
        for field, value in fields.items():
            object.__setattr__(self, field, value)

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self._rows

    def __add__(self, other: LabelSpace) -> LabelSpace:
        """Labels of this space followed by those of another."""
        if not isinstance(other, LabelSpace):
            return NotImplemented
        given, own = other.vectors.shape[1], self.vectors.shape[1]
        if given != own:
            raise ValueError(f"other: vectors of {given} dimensions were given, these have {own}.")
        names, vectors = self.names + other.names, np.vstack([self.vectors, other.vectors])
        if self.source is None or self.source != other.source:
            return LabelSpace(names, vectors)
        return _restore(names, vectors, self.source, self.resolved + other.resolved)

    def __repr__(self) -> str:
        return f"LabelSpace({len(self)} labels of {self.vectors.shape[1]} dimensions: {listed(self.names)})"

    def __reduce__(self) -> tuple[object, ...]:
        # Through the constructor, so that copies and pickles are also checked and read-only.
        return _restore, (self.names, self.vectors, self.source, self.resolved)

    def index(self, name: str) -> int:
        """Row of a label in `vectors`."""
        return self._find([name], "name")[0]

    def select(self, names: Iterable[str]) -> LabelSpace:
        """Space of the given labels, each at most once, in the given order."""
        chosen = check_names(names, "names")
        rows = self._find(chosen, "names")
        resolved = tuple(self.resolved[row] for row in rows) if self.resolved else ()
        return _restore(chosen, self.vectors[rows], self.source, resolved)

    def centered(self) -> LabelSpace:
        """Space with the mean of its vectors subtracted: word vectors share a large common part."""
        return _restore(self.names, self.vectors - self.vectors.mean(axis=0), self.source, self.resolved)

    def normalized(self) -> LabelSpace:
        """Space whose vectors have unit Euclidean length; a zero vector is an error."""
        # Scaling by the largest entry first keeps the squares of tiny or huge vectors in range.
        largest = np.abs(self.vectors).max(axis=1, keepdims=True)
        zero = largest[:, 0] == 0
        if zero.any():
            which = which_vectors(zero, self.names)
            raise ValueError(f"vectors: {which} is zero and cannot be normalised. Leave the label out.")
        scaled = self.vectors / largest
        unit = scaled / np.linalg.norm(scaled, axis=1, keepdims=True)
        return _restore(self.names, unit, self.source, self.resolved)

    def _find(self, names: Iterable[str], argument: str) -> list[int]:
        return find_names(names, self._rows, argument, "Pass names of this space (see its `names`).")


def _restore(
    names: Iterable[str], vectors: Matrix, source: str | None, resolved: tuple[Resolution, ...]
) -> LabelSpace:
    """Space of known vectors, with a record of their origin."""
    space = LabelSpace(names, vectors)
    space._set(source=source, resolved=resolved)
    return space
