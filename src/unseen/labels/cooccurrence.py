"""Hit counts: how many photos carry each label, and each pair of labels.

The relations of TAEP-C are ``relations.from_hit_counts(counts)``: ``R[i, j] = HC(i, j) / (HC(i) + HC(j))``.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from unseen.files import guess_delimiter, write_atomically
from unseen.labels._count_problems import CountProblems, find_problems
from unseen.labels.tag_sets import chunks_of_labels, open_lines, sniff_separator, spellings
from unseen.validation import check_choice, check_names, find_names, listed

__all__ = ["CountProblems", "HitCounts", "count_tag_sets", "read_hit_counts"]

REPAIRS = ("symmetrise", "fill", "clip")  # in the order in which they are applied
_WHITESPACE = "whitespace"


@dataclass(frozen=True, eq=False)
class HitCounts:
    """Hit counts of labels and of pairs of labels.

    Attributes
    ----------
    labels : tuple of str
        Names of the rows and columns.
    counts : ndarray of shape (n_labels, n_labels)
        ``counts[i, j]`` is HC(i, j), the diagonal HC(i); NaN where the source has none. `numpy.asarray` of this
        object gives it too, so that ``from_hit_counts(hit_counts)`` works.
    source : str
        Where the counts come from.
    n_records : int or None
        Number of photos that were counted, if known.

    Examples
    --------
    >>> hits = HitCounts(("cat", "dog"), [[3, 1], [2, 9]])
    >>> print(hits.problems())
    1 with two counts that differ (repair='symmetrise' takes their mean): 'cat' and 'dog' (1 and 2)
    >>> hits.repaired("symmetrise").counts
    array([[3. , 1.5],
           [1.5, 9. ]])
    """

    labels: tuple[str, ...]
    counts: NDArray[np.float64]
    source: str = "given"
    n_records: int | None = field(default=None)

    def __init__(
        self, labels: Iterable[str], counts: ArrayLike, source: str = "given", n_records: int | None = None
    ) -> None:
        names = check_names(labels, "labels")
        matrix = np.array(counts, dtype=np.float64)
        if matrix.shape != (len(names), len(names)):
            raise ValueError(
                f"counts: shape {matrix.shape} was given for {len(names)} labels. "
                f"Pass one row and one column a label."
            )
        matrix.flags.writeable = False
        for name, value in (("labels", names), ("counts", matrix), ("source", source), ("n_records", n_records)):
            object.__setattr__(self, name, value)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.counts, dtype=dtype) if copy else np.asarray(self.counts, dtype=dtype)

    def problems(self) -> CountProblems:
        """What is degenerate in these counts, in words; nothing is changed."""
        return find_problems(self.labels, self.counts)

    def repaired(self, repair: str | Iterable[str]) -> HitCounts:
        """Counts with the chosen repairs, applied in the order of the list below.

        Parameters
        ----------
        repair : str or iterable of str
            ``"symmetrise"``: the mean of a pair's two counts, or the one that is known. ``"fill"``: 0 for what is
            not known. ``"clip"``: a pair occurs at most as often as either of its labels.

        Returns
        -------
        HitCounts
        """
        chosen = {repair} if isinstance(repair, str) else set(repair)
        if not chosen <= set(REPAIRS):
            raise ValueError(f"repair: {repair!r} was given. Choose from {listed(REPAIRS)}.")
        counts = self.counts.copy()
        if "symmetrise" in chosen:
            counts = np.where(np.isnan(counts), counts.T, counts)
            counts = 0.5 * (counts + counts.T)
        if "fill" in chosen:
            counts[np.isnan(counts)] = 0.0
        if "clip" in chosen:
            single = np.diag(counts)
            counts = np.where(np.isnan(counts), counts, np.fmin(counts, np.fmin.outer(single, single)))
        done = ", ".join(name for name in REPAIRS if name in chosen)
        return HitCounts(self.labels, counts, f"{self.source}; repaired: {done}", self.n_records)

    def select(self, labels: Iterable[str], *, missing: str = "error") -> HitCounts:
        """Counts of the given labels, in the given order.

        Parameters
        ----------
        labels : iterable of str
        missing : {"error", "unknown"}, default="error"
            What to do with a label that has no row: raise an error, or give it counts of NaN, which `problems`
            reports.

        Returns
        -------
        HitCounts
        """
        names = check_names(labels, "labels")
        rows = {name: row for row, name in enumerate(self.labels)}
        if check_choice(missing, "missing", ("error", "unknown")) == "error":
            find_names(
                names, rows, "labels", f"Choose from the labels of {self.source}, or pass missing='unknown'."
            )
        counts = np.full((len(names), len(names)), np.nan)
        here = [k for k, name in enumerate(names) if name in rows]
        there = [rows[names[k]] for k in here]
        counts[np.ix_(here, here)] = self.counts[np.ix_(there, there)]
        return HitCounts(names, counts, self.source, self.n_records)

    def write(self, path: str | Path) -> None:
        """Write a CSV file that `read_hit_counts` reads, whole or not at all.

        Parameters
        ----------
        path : str or Path
        """
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(["", *self.labels])
        for label, row in zip(self.labels, self.counts, strict=True):
            writer.writerow([label, *(_as_cell(count) for count in row.tolist())])
        write_atomically(Path(path), partial(Path.write_bytes, data=buffer.getvalue().encode()))


def _as_cell(count: float) -> str:
    if np.isnan(count):
        return ""
    return str(int(count)) if count.is_integer() else repr(count)


def read_hit_counts(
    path: str | Path, labels: Iterable[str] | None = None, *, repair: str | Iterable[str] | None = None
) -> HitCounts:
    """Read a square CSV matrix with the labels in its first row and first column.

    Parameters
    ----------
    path : str or Path
        A CSV file, its cells separated by comma, semicolon or tab. An empty cell is a count that is not known.
    labels : iterable of str, default=None
        Which labels to keep, in this order; one that the file lacks gets unknown counts. None keeps them all.
    repair : str or iterable of str, default=None
        Repairs to make, see `HitCounts.repaired`. None leaves the counts as they are: see `HitCounts.problems`.

    Returns
    -------
    HitCounts

    Raises
    ------
    ValueError
        If the file is no such matrix; the message names the line.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"path: there is no file {str(path)!r}. Pass a CSV matrix of hit counts.")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"path: {str(path)!r} is no UTF-8 text ({error}). Pass a CSV matrix of hit counts."
        ) from None
    delimiter = guess_delimiter(text.partition("\n")[0])
    rows = [row for row in csv.reader(io.StringIO(text), delimiter=delimiter) if any(cell.strip() for cell in row)]
    hits = _from_rows(rows, path)
    if labels is not None:
        hits = hits.select(labels, missing="unknown")
    return hits.repaired(repair) if repair is not None else hits


def _from_rows(rows: list[list[str]], path: Path) -> HitCounts:
    where = f"path: {str(path)!r}"
    columns = [cell.strip() for cell in rows[0][1:]] if rows else []
    if not columns:
        raise ValueError(f"{where} has no labels in its first row. Write them after an empty first cell.")
    counts: dict[str, list[float]] = {}
    for number, (name, *cells) in enumerate(rows[1:], start=2):
        if len(cells) != len(columns):
            raise ValueError(
                f"{where}: row {number} ({name!r}) has {len(cells)} counts for {len(columns)} labels. "
                f"Write one a label."
            )
        if name.strip() in counts:
            raise ValueError(f"{where}: row {number} is the second of {name!r}. Write one row a label.")
        counts[name.strip()] = [_as_count(cell, f"{where}: row {number} ({name!r})") for cell in cells]
    names = check_names(columns, f"{where}: first row")
    if set(counts) != set(names):
        odd = sorted(set(counts) ^ set(names))
        raise ValueError(
            f"{where}: {listed(odd)} in the first row or in the first column only. Write the same labels in both."
        )
    return HitCounts(names, [counts[name] for name in names], str(path))


def _as_count(cell: str, where: str) -> float:
    try:
        return float(cell) if cell.strip() else np.nan
    except ValueError:
        raise ValueError(
            f"{where}: {cell!r} is no number. Write a count, or nothing if it is not known."
        ) from None


def count_tag_sets(
    source: str | Path | Iterable[str],
    labels: Iterable[str],
    *,
    separator: str | None = None,
    synonyms: Mapping[str, Sequence[str]] | None = None,
    progress: Callable[[int], object] | None = None,
) -> HitCounts:
    """Count labels and pairs of labels in a corpus of tag sets: a line a photo.

    Parameters
    ----------
    source : str, Path or iterable of str
        A text file (UTF-8; gzip if its name ends in .gz), or the lines themselves. It is read once, as a stream:
        the memory used does not depend on its size. Blank lines are no photos; a repeated tag counts once.
    labels : iterable of str
        Names of labels. Case is ignored, and the words of a name may be joined by spaces, underscores, hyphens or
        nothing in the corpus ("dining table", "diningtable").
    separator : str, default=None
        What stands between tags; ``"whitespace"`` for any white space. None looks at the first 200 lines and takes
        tab, semicolon or comma, whichever most of them contain, or else white space. A tag in double quotes may
        contain the separator.
    synonyms : mapping of label to list of str, default=None
        Other tags that count as a label: ``{"sofa": ["couch", "settee"]}``.
    progress : callable, default=None
        Called now and then with the number of photos read so far, and at the end.

    Returns
    -------
    HitCounts
        Symmetric by construction; `problems` lists labels that never occur.

    Examples
    --------
    >>> count_tag_sets(["dog, sofa", "Dog", "cat, couch"], ["dog", "sofa"], synonyms={"sofa": ["couch"]}).counts
    array([[2., 1.],
           [1., 2.]])
    """
    names = check_names(labels, "labels")
    if separator == "":
        raise ValueError("separator: an empty string was given. Pass ',', 'whitespace', or None to find it out.")
    counts = np.zeros((len(names), len(names)), dtype=np.int64)
    n_records = 0
    with open_lines(source) as lines:
        chosen, lines = sniff_separator(lines) if separator is None else (separator, lines)
        chosen = None if chosen in (_WHITESPACE, " ") else chosen
        rows = spellings(names, synonyms, chosen)
        for chunk in chunks_of_labels(lines, rows, chosen):
            n_records += len(chunk.ends)
            counts += _co_occurrences(chunk.labels, chunk.ends, len(names))
            if progress is not None:
                progress(n_records)
    where = str(source) if isinstance(source, str | Path) else "tag sets"
    return HitCounts(names, counts, f"{where}, tags separated by {chosen or _WHITESPACE!r}", n_records)


def _co_occurrences(labels: list[int], ends: list[int], n_labels: int) -> NDArray[np.int64]:
    shown = sp.csr_array(
        (np.ones(len(labels), dtype=np.int64), labels, [0, *ends]), shape=(len(ends), n_labels), dtype=np.int64
    )
    joint: NDArray[np.int64] = (shown.T @ shown).toarray()
    return joint
