"""Which labels are seen and which are unseen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from sklearn.utils import check_random_state

from unseen.validation import check_count, check_names, find_names, listed

RandomState: TypeAlias = int | np.random.RandomState | None


@dataclass(frozen=True)
class ClassSplit:
    """Columns of a label matrix, split into seen and unseen: two disjoint, non-empty sets.

    The constructors `alternating_split`, `random_split` and `named_split` list the columns of each side in
    rising order. A column on neither side is left out of every view.

    Parameters
    ----------
    seen, unseen : tuple of int
        Column indices.
    names : tuple of str
        Names of *all* columns, in the order of the matrix.
    """

    seen: tuple[int, ...]
    unseen: tuple[int, ...]
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        check_names(self.names, "names")
        for side, columns in (("seen", self.seen), ("unseen", self.unseen)):
            _check_side(side, columns, len(self.names))
        both = sorted(set(self.seen) & set(self.unseen))
        if both:
            raise ValueError(
                f"unseen: {listed([self.names[column] for column in both])} is also seen. "
                f"Put each label on one side only."
            )

    @property
    def seen_names(self) -> tuple[str, ...]:
        """Names of the seen labels, in the order of ``seen``."""
        return tuple(self.names[column] for column in self.seen)

    @property
    def unseen_names(self) -> tuple[str, ...]:
        """Names of the unseen labels, in the order of ``unseen``."""
        return tuple(self.names[column] for column in self.unseen)


def alternating_split(names: Sequence[str]) -> ClassSplit:
    """Split of the paper: in alphabetical order, positions 0, 2, 4... are seen and 1, 3, 5... unseen.

    Alphabetical order ignores case. It decides only who is seen: the indices of the split refer to the
    columns as given, in whatever order they are.

    Parameters
    ----------
    names : sequence of str
        Names of the columns of the label matrix.

    Returns
    -------
    ClassSplit

    Examples
    --------
    >>> alternating_split(["dog", "bird", "cat"]).seen_names
    ('dog', 'bird')
    """
    names = check_names(names, "names")
    order = sorted(range(len(names)), key=lambda column: (names[column].casefold(), names[column]))
    return _split(order[0::2], order[1::2], names)


def random_split(names: Sequence[str], n_seen: int | None = None, random_state: RandomState = None) -> ClassSplit:
    """Split with ``n_seen`` labels drawn uniformly without replacement as the seen ones.

    Parameters
    ----------
    names : sequence of str
        Names of the columns of the label matrix.
    n_seen : int, default=None
        Number of seen labels; None for half of them, rounded up.
    random_state : int, RandomState instance or None, default=None
        Pass an int for the same split every time.

    Returns
    -------
    ClassSplit
    """
    names = check_names(names, "names")
    n_seen = (len(names) + 1) // 2 if n_seen is None else check_count(n_seen, "n_seen")
    if n_seen >= len(names):
        raise ValueError(
            f"n_seen: {n_seen} of {len(names)} labels leave none unseen. Pass at most {len(names) - 1}."
        )
    order = check_random_state(random_state).permutation(len(names)).tolist()
    return _split(order[:n_seen], order[n_seen:], names)


def named_split(
    names: Sequence[str], seen: Sequence[str] | None, unseen: Sequence[str] | None = None
) -> ClassSplit:
    """Split with the seen labels given by name, or the unseen ones; those not given are the rest.

    Parameters
    ----------
    names : sequence of str
        Names of the columns of the label matrix.
    seen : sequence of str or None
        Names of the seen labels; their order does not matter. None for all the others.
    unseen : sequence of str, default=None
        Names of the unseen labels; None for all the others. Labels named on neither side are left out.

    Returns
    -------
    ClassSplit

    Examples
    --------
    >>> named_split(["dog", "bird", "cat"], seen=["cat"]).unseen
    (0, 1)
    >>> named_split(["dog", "bird", "cat"], None, unseen=["cat"]).seen
    (0, 1)
    """
    names = check_names(names, "names")
    if seen is None and unseen is None:
        raise ValueError("seen: neither seen nor unseen labels were given. Name those of one side at least.")
    seen_columns = None if seen is None else _columns_of(seen, names, "seen")
    unseen_columns = None if unseen is None else _columns_of(unseen, names, "unseen")
    if seen_columns is None:
        seen_columns = sorted(set(range(len(names))) - set(unseen_columns or ()))
    if unseen_columns is None:
        unseen_columns = sorted(set(range(len(names))) - set(seen_columns))
    return _split(seen_columns, unseen_columns, names)


def _split(seen: Iterable[int], unseen: Iterable[int], names: tuple[str, ...]) -> ClassSplit:
    return ClassSplit(tuple(sorted(seen)), tuple(sorted(unseen)), names)


def _columns_of(wanted: Sequence[str], names: tuple[str, ...], argument: str) -> list[int]:
    position = {name: column for column, name in enumerate(names)}
    return find_names(check_names(wanted, argument), position, argument, "Pass names of the label matrix.")


def _check_side(side: str, columns: tuple[int, ...], n_labels: int) -> None:
    if not columns:
        raise ValueError(f"{side}: no label is {side}. Put at least one label on each side.")
    if len(set(columns)) != len(columns):
        raise ValueError(f"{side}: the columns {columns} contain a duplicate. Name every column once.")
    if min(columns) < 0 or max(columns) >= n_labels:
        raise ValueError(f"{side}: the columns {columns} are not all between 0 and {n_labels - 1}.")
