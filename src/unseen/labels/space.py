"""LabelSpace: the names of labels and the vectors that stand for them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from os import PathLike

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unseen.labels.encoders import TextEncoder
from unseen.labels.names import Resolution
from unseen.labels.sources import PHRASE, look_up
from unseen.labels.vectors import WordVectors, open_vectors
from unseen.validation import check_choice, check_names, check_vectors, find_names, listed, which_vectors

__all__ = ["LabelSpace"]


@dataclass(frozen=True, init=False, eq=False, repr=False)
class LabelSpace:
    """Labels with a name and a vector each; immutable, every method returns a new space.

    Parameters
    ----------
    names : iterable of str
        Unique, non-empty names; kept as a tuple.
    vectors : array-like of shape (n_labels, n_dims), str, path, WordVectors, TextEncoder or None, default=None
        One finite vector a name, in the same order; copied to a read-only float64 array. Or a source to look the
        names up in: ``"glove"`` (also None), ``"use"`` for phrases in many languages, ``"minilm"`` for
        phrases in English, ``"use:a picture of a {}"`` with a prompt, a file of word vectors, ...; see
        `unseen.labels.sources.open_source`.
    missing : {"error", "mean", "skip"}, default="error"
        What to do with names that a table of words does not know; see `unseen.labels.names.resolve_names`.

    Attributes
    ----------
    names : tuple of str
        The names of the labels.
    vectors : ndarray of shape (n_labels, n_dims)
        Their vectors, as the source has them: see `centered` and `normalized`.
    source : str or None
        Where the vectors were looked up; None if they were given.
    resolved : tuple of Resolution
        What was looked up for each name, and by which rule; empty if the vectors were given.

    Examples
    --------
    Looked up: ``LabelSpace(["dog", "dining table"])``, ``LabelSpace(["perro", "birthday cake"], "use")``.

    >>> space = LabelSpace(["cat", "dog", "car"], [[1.0, 0.1], [1.0, 0.2], [0.0, 3.0]])
    >>> len(space), "dog" in space, space.index("car")
    (3, True, 2)
    >>> space.select(["car", "cat"]).names
    ('car', 'cat')
    """

    names: tuple[str, ...]
    vectors: NDArray[np.float64]
    source: str | None
    resolved: tuple[Resolution, ...]
    _rows: dict[str, int]

    def __init__(
        self,
        names: Iterable[str],
        vectors: ArrayLike | str | PathLike[str] | WordVectors | TextEncoder | None = None,
        *,
        missing: str = "error",
    ) -> None:
        checked = check_names(names, "names")
        source: str | None = None
        resolved: tuple[Resolution, ...] = ()
        if vectors is None or isinstance(vectors, str | PathLike | WordVectors | TextEncoder):
            resolved, vectors, source = look_up(checked, vectors, missing=missing)
            checked = tuple(resolution.name for resolution in resolved)
        copied = check_vectors(vectors, "vectors", checked).copy()
        copied.flags.writeable = False
        self._set(names=checked, vectors=copied, source=source, resolved=resolved)
        self._set(_rows={name: i for i, name in enumerate(checked)})

    def _set(self, **fields: object) -> None:
        for field, value in fields.items():
            object.__setattr__(self, field, value)

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

    def __reduce__(self) -> tuple[object, ...]:
        # Through the constructor, so that copies and pickles are checked and read-only too.
        return _restore, (self.names, self.vectors, self.source, self.resolved)

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
        rows = self._find(chosen, "names")
        resolved = tuple(self.resolved[row] for row in rows) if self.resolved else ()
        return _restore(chosen, self.vectors[rows], self.source, resolved)

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
        names = [name for space in spaces for name in space.names]
        shared = {space.source for space in spaces} == {self.source} and self.source is not None
        return _restore(
            names,
            np.vstack([space.vectors for space in spaces]),
            self.source if shared else None,
            tuple(resolution for space in spaces for resolution in space.resolved) if shared else (),
        )

    def beside(self, *others: LabelSpace) -> LabelSpace:
        """The same labels with the vectors of several sources, one beside the other.

        Each source counts by the length of its vectors: with ``a.centered().normalized()`` for every source the
        cosine of two labels is the mean of what the sources say.

        Parameters
        ----------
        *others : LabelSpace
            Spaces of the same labels, in any order.

        Returns
        -------
        LabelSpace
            With the names in the order of this space, and no record of the sources.

        Raises
        ------
        ValueError
            If a space lacks a label or has one too many.

        Examples
        --------
        >>> words = LabelSpace(["cat", "car"], [[1.0, 0.0], [0.0, 1.0]])
        >>> phrases = LabelSpace(["car", "cat"], [[5.0], [6.0]])
        >>> words.beside(phrases).vectors
        array([[1., 0., 6.],
               [0., 1., 5.]])
        """
        for other in others:
            lacking = [name for name in self.names if name not in other]
            added = [name for name in other.names if name not in self]
            if lacking or added:
                problem = f"lacks {listed(lacking)}" if lacking else f"has {listed(added)} too many"
                raise ValueError(f"others: a space {problem}. Pass spaces of the same labels (see `select`).")
        vectors = [self.vectors, *(other.select(self.names).vectors for other in others)]
        return LabelSpace(self.names, np.hstack(vectors))

    def centered(self, on: ArrayLike | str | None = None) -> LabelSpace:
        """Space whose vectors have had a mean subtracted.

        Word vectors share a large common part, which makes all labels look alike. What it is taken to be
        changes results a lot; none of these is best for all data.

        Parameters
        ----------
        on : array-like of shape (n_vectors, n_dims), "vocabulary" or None, default=None
            Vectors whose mean is subtracted, say ``seen.vectors``. "vocabulary": those of all words of the
            table that the labels were looked up in (read once, then kept in the cache). None: those of this
            space.

        Returns
        -------
        LabelSpace

        Raises
        ------
        ValueError
            If `on` is not a finite matrix of the same dimension with at least one row, or if it is
            "vocabulary" and the vectors do not come from a table of words.
        """
        if isinstance(on, str):
            reference = self._vocabulary_mean(on)
        else:
            reference = self.vectors if on is None else check_vectors(on, "on")
        n_dims = self.vectors.shape[1]
        if reference.shape[1] != n_dims:
            raise ValueError(
                f"on: vectors of {reference.shape[1]} dimensions were given, these have {n_dims}. "
                f"Take both from the same source."
            )
        return _restore(self.names, self.vectors - reference.mean(axis=0), self.source, self.resolved)

    def _vocabulary_mean(self, on: str) -> NDArray[np.float64]:
        check_choice(on, "on", ["vocabulary"])
        if self.source is None or any(resolution.rule == PHRASE for resolution in self.resolved):
            origin = "were given" if self.source is None else f"come from the text encoder {self.source!r}"
            raise ValueError(
                f"on: 'vocabulary' needs a table of words, but these vectors {origin}. "
                f"Pass the vectors whose mean is to be subtracted."
            )
        return open_vectors(self.source).mean()[None]

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
        unit = scaled / np.linalg.norm(scaled, axis=1, keepdims=True)
        return _restore(self.names, unit, self.source, self.resolved)

    def _find(self, names: Iterable[str], argument: str) -> list[int]:
        return find_names(names, self._rows, argument, "Pass names of this space (see its `names`).")


def _restore(
    names: Iterable[str], vectors: NDArray[np.float64], source: str | None, resolved: tuple[Resolution, ...]
) -> LabelSpace:
    """Space of vectors that are known, with a record of where they came from."""
    space = LabelSpace(names, vectors)
    space._set(source=source, resolved=resolved)
    return space
