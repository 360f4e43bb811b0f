"""Annotations in a plain table, CSV or TSV, in the three forms that people keep them in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unseen.datasets._table_rows import Row, table_rows, wrong
from unseen.datasets.annotations import LIST_COLUMNS, NO_LABELS, PAIR_COLUMNS, Annotations
from unseen.validation import check_choice, listed

__all__ = ["read_table"]

Form = Literal["auto", "lists", "pairs", "columns"]

_IMAGE_COLUMNS = ("path", "image", "image_id", "image_path", "file", "file_name", "filename", "id")
_SEPARATORS = (";", "|", ",")
_UNKNOWN = 2  # stands for NaN until the matrix is whole, so that it takes a byte a cell
_CELLS = {
    "0": 0, "0.0": 0, "False": 0, "false": 0, "1": 1, "1.0": 1, "True": 1, "true": 1,
    "": _UNKNOWN, "?": _UNKNOWN, "nan": _UNKNOWN, "NaN": _UNKNOWN,
}  # fmt: skip
_TRISTATE = {"1": 1, "-1": 0, "": _UNKNOWN, "?": _UNKNOWN}


class _Header(NamedTuple):
    """Where the columns of a table are."""

    names: list[str]
    split: int | None
    labels: list[int]


def read_table(
    path: str | PathLike[str],
    form: Form = "auto",
    separator: str | None = None,
    tristate: Literal["absent", "unknown"] | None = None,
    ignore: Sequence[str] = (),
) -> Annotations:
    r"""Read annotations from a table in UTF-8, separated by commas, tabs or semicolons.

    Its first line names the columns, the first of which holds the images and is called ``path``, ``image``,
    ``image_id``, ``file_name`` or the like. A column ``split`` says which part an image belongs to; a column
    ``subsplit`` is passed over. The rest decides the form:

    ========== ============================ ==========================================================
    form       columns                      a row
    ========== ============================ ==========================================================
    lists      ``labels`` or ``tags``       an image and its labels, separated by ``;``, ``|`` or ``,``
    pairs      ``label`` or ``tag``         an image and one of its labels; an empty label adds the image only
    columns    one a label                  1 present, 0 absent; empty, ``?`` or ``nan`` unknown
    ========== ============================ ==========================================================

    In the first two forms a label that is not named is absent, and labels are in the order of their first mention.

    Parameters
    ----------
    path : str or path
        The file.
    form : {"auto", "lists", "pairs", "columns"}, default="auto"
        The form, if the names of the columns do not tell.
    separator : str, optional
        What separates labels in a cell of the form "lists"; found out if it is left out.
    tristate : {"absent", "unknown"}, optional
        Read the form "columns" as -1 absent, 1 present, and 0 as told: the way of PASCAL VOC, where 0 marks images
        that show a label only in difficult objects.
    ignore : sequence of str, optional
        Columns to pass over.

    Returns
    -------
    Annotations

    Raises
    ------
    ValueError
        Naming the file, the line, the column and the value that cannot be read.
    """
    check_choice(form, "form", ("auto", "lists", "pairs", "columns"))
    if tristate is not None:
        check_choice(tristate, "tristate", ("absent", "unknown"))
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"path: there is no file {str(path)!r}. Pass a table in CSV or TSV.")
    with table_rows(path) as rows:
        header = _read_header(path, rows, ignore)
        found = _form(header) if form == "auto" else form
        if tristate is not None and found != "columns":
            raise ValueError(
                f"tristate: {str(path)!r} has no column a label, but the form {found!r}. Leave it out."
            )
        if separator is not None and found != "lists":
            raise ValueError(
                f"separator: {str(path)!r} has no lists of labels, but the form {found!r}. Leave it out."
            )
        if found == "columns":
            return _read_columns(path, header, rows, tristate)
        if len(header.labels) != 1:
            names = [header.names[i] for i in header.labels]
            raise wrong(path, 1, f"the columns {listed(names)}, where the form {found!r} has one", "Use ignore.")
        return _read_mentions(path, header, rows, found, separator)


def _read_header(path: Path, rows: Iterator[Row], ignore: Sequence[str]) -> _Header:
    line, cells = next(rows, (1, []))
    names = [cell.strip() for cell in cells]
    if not names:
        raise ValueError(f"path: {str(path)!r} is empty. Pass a table with a first line such as path,labels.")
    if names[0].lower() not in _IMAGE_COLUMNS:
        advice = f"Begin with a line of column names, the first of them one of {', '.join(_IMAGE_COLUMNS)}."
        raise wrong(path, line, f"the first column is called {names[0]!r}", advice)
    unnamed = [i + 1 for i, name in enumerate(names) if not name]
    if unnamed:
        raise wrong(path, line, f"column {unnamed[0]} has no name", "Name every column.")
    # The first column is known by its place, so that a label may have its name: 'path' is a tag of NUS-WIDE.
    repeated = [name for name, count in Counter(names[1:]).items() if count > 1]
    if repeated:
        raise wrong(path, line, f"{listed(repeated)} names more than one column", "Give each a name of its own.")
    unknown = [name for name in ignore if name not in names[1:]]
    if unknown:
        raise wrong(path, line, f"there is no column {listed(unknown)} to ignore", "Name columns of the file.")
    small = [name.lower() for name in names]
    labels = [i for i in range(1, len(names)) if small[i] not in NO_LABELS and names[i] not in ignore]
    if not labels:
        raise wrong(path, line, "there is no column of labels", "Add a column 'labels', or one a label.")
    return _Header(names, small.index("split") if "split" in small else None, labels)


def _form(header: _Header) -> Form:
    """The form that the names of the columns tell."""
    names = [header.names[i].lower() for i in header.labels]
    if len(names) == 1 and names[0] in LIST_COLUMNS:
        return "lists"
    return "pairs" if len(names) == 1 and names[0] in PAIR_COLUMNS else "columns"


def _image(path: Path, header: _Header, line: int, row: list[str]) -> str:
    if len(row) != len(header.names):
        advice = "Put cells that hold the separator into quotation marks."
        raise wrong(path, line, f"{len(row)} cells for {len(header.names)} columns", advice)
    image = row[0].strip()
    if not image:
        raise wrong(path, line, f"the column {header.names[0]!r} is empty", "Name the image.")
    return image


def _need_rows(path: Path, lines: dict[str, int]) -> None:
    if not lines:
        raise ValueError(f"path: {str(path)!r} has column names and no rows. Add a row an image.")


def _read_columns(path: Path, header: _Header, rows: Iterator[Row], tristate: str | None) -> Annotations:
    codes = dict(_CELLS)
    if tristate is not None:
        codes = {**_TRISTATE, "0": _UNKNOWN if tristate == "unknown" else 0}
    lines: dict[str, int] = {}
    splits: list[str] = []
    cells = bytearray()
    for line, row in rows:
        image = _image(path, header, line, row)
        if lines.setdefault(image, line) != line:
            raise wrong(path, line, f"{image!r} is already in line {lines[image]}", "Keep one row an image.")
        try:
            cells += bytes([codes[row[i]] for i in header.labels])
        except KeyError:
            cells += bytes([_code(path, line, header.names[i], row[i].strip(), codes) for i in header.labels])
        if header.split is not None:
            splits.append(row[header.split].strip())
    _need_rows(path, lines)
    Y: NDArray[np.generic] = np.frombuffer(cells, dtype=np.int8).reshape(len(lines), -1)
    if (Y == _UNKNOWN).any():
        Y = np.where(Y == _UNKNOWN, np.float32(np.nan), Y.astype(np.float32))
    names = tuple(header.names[i] for i in header.labels)
    return Annotations(tuple(lines), names, Y, tuple(splits) if header.split is not None else None)


def _code(path: Path, line: int, column: str, cell: str, codes: dict[str, int]) -> int:
    if cell in codes:
        return codes[cell]
    advice = "Write 1, 0, or nothing for unknown. Names of labels go into one column called 'labels'"
    advice += ", beside which there is only 'split': pass ignore for others."
    if cell == "-1":
        advice = (
            "Say what 0 means in a table of 1, 0 and -1: pass tristate='absent' or 'unknown', or make a plain "
        )
        advice += "table of it with unseen data convert --tristate absent."
    elif "-1" in codes:
        advice = "Write 1, -1 or 0, since tristate is set."
    raise wrong(path, line, f"column {column!r} holds {cell!r}", advice)


def _read_mentions(
    path: Path, header: _Header, rows: Iterator[Row], form: Form, separator: str | None
) -> Annotations:
    """Read the forms that name only what is present."""
    (column,) = header.labels
    lines: dict[str, int] = {}
    splits: dict[str, str] = {}
    cells: list[tuple[str, int, str]] = []
    for line, row in rows:
        image = _image(path, header, line, row)
        if lines.setdefault(image, line) != line and form == "lists":
            raise wrong(path, line, f"{image!r} is already in line {lines[image]}", "Keep one row an image.")
        part = row[header.split].strip() if header.split is not None else ""
        if splits.setdefault(image, part) != part:
            was = f"{image!r} is in split {part!r}, but in {splits[image]!r} in line {lines[image]}"
            raise wrong(path, line, was, "Give an image one split.")
        cells.append((image, line, row[column].strip()))
    _need_rows(path, lines)
    _refuse_numbers(path, header.names[column], [cell for *_, cell in cells], form)
    if form == "lists":
        separator = separator or _separator(path, cells)
        cells = [(image, line, part.strip()) for image, line, cell in cells for part in cell.split(separator)]
    labels = {label: i for i, label in enumerate(dict.fromkeys(cell for *_, cell in cells if cell))}
    if not labels:
        raise ValueError(f"path: {str(path)!r} names no label in its column {header.names[column]!r}. Add some.")
    places = {image: i for i, image in enumerate(lines)}
    Y = np.zeros((len(lines), len(labels)), dtype=np.int8)
    for image, _, label in cells:
        if label:
            Y[places[image], labels[label]] = 1
    return Annotations(
        tuple(lines), tuple(labels), Y, tuple(splits.values()) if header.split is not None else None
    )


def _refuse_numbers(path: Path, column: str, cells: list[str], form: Form) -> None:
    """A column of nothing but 0 and 1 is a label, whatever its name says."""
    if {"0", "1"} >= set(cells) - {""} and any(cells):
        raise ValueError(
            f"path: the column {column!r} of {str(path)!r} holds nothing but 0 and 1, where the form {form!r} has "
            f"the names of labels. Pass form='columns' if {column!r} is a label."
        )


def _separator(path: Path, cells: list[tuple[str, int, str]]) -> str:
    """The one separator in use; two of them leave open which of them belongs to a name."""
    used = {mark: line for mark in _SEPARATORS for _, line, cell in reversed(cells) if mark in cell}
    if len(used) > 1:
        (one, at), (other, there) = sorted(used.items(), key=lambda item: item[1])[:2]
        what = f"labels are separated by {other!r}, but by {one!r} in line {at}"
        raise wrong(path, there, what, "Pass separator to say which it is.")
    return next(iter(used), _SEPARATORS[0])
