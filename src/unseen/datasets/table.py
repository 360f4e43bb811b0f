"""Annotations in a plain table, CSV or TSV, in the three usual forms."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from unseen.datasets.annotations import NAME_COLUMNS, SPLIT_COLUMNS, Annotations, Form, absent
from unseen.files import DAMAGE, csv_text, guess_delimiter, reason
from unseen.validation import check_choice, check_names, listed

if TYPE_CHECKING:
    from pandas import DataFrame, Series

_IMAGE_COLUMNS = ("path", "image", "image_id", "image_path", "file", "file_name", "filename", "id")
_SEPARATORS = (";", "|", ",")
_UNKNOWN = {"": np.nan, "?": np.nan, "nan": np.nan}
_CELLS = {"1": 1, "1.0": 1, "true": 1, "0": 0, "0.0": 0, "false": 0, **_UNKNOWN}


def read_table(
    path: str | PathLike[str],
    form: Form = "auto",
    separator: str | None = None,
    tristate: Literal["absent", "unknown"] | None = None,
    ignore: Sequence[str] = (),
) -> Annotations:
    r"""Read annotations from a table in UTF-8, separated by commas, tabs or semicolons.

    Its first line names the columns, the first of which holds the images: ``path``, ``image`` or the like. A
    column ``split`` gives the part an image belongs to. The rest decides the form:

    ========== ============================ ==========================================================
    form       columns                      a row
    ========== ============================ ==========================================================
    lists      ``labels`` or ``tags``       an image and its labels, separated by ``;``, ``|`` or ``,``
    pairs      ``label`` or ``tag``         an image and one of its labels; an empty label adds only the image
    columns    one per label                1 present, 0 absent; empty, ``?`` or ``nan`` unknown
    ========== ============================ ==========================================================

    In the first two forms a label that is not named is absent, and labels are in the order of their first mention.

    Parameters
    ----------
    path : str or path
    form : {"auto", "lists", "pairs", "columns"}, default="auto"
        "auto" goes by the names of the columns.
    separator : str, optional
        Label separator in the cells of the form "lists"; by default whichever of ``;``, ``|`` and ``,`` is used.
    tristate : {"absent", "unknown"}, optional
        Read the form "columns" as 1 present, -1 absent, and 0 as given here: in PASCAL VOC, 0 marks images that
        show a label only in difficult objects.
    ignore : sequence of str
        Columns to ignore.
    """
    check_choice(form, "form", ("auto", "lists", "pairs", "columns"))
    if tristate is not None:
        check_choice(tristate, "tristate", ("absent", "unknown"))
    path = Path(path)
    table, names = _read_text(path)
    split = next((i for i, name in enumerate(names) if i and name.lower() == "split"), None)
    columns = _label_columns(path, names, ignore)
    labels = [names[i] for i in columns]
    if form == "auto":
        form = NAME_COLUMNS.get(labels[0].lower(), "columns") if len(labels) == 1 else "columns"
    for option, value, wanted in (("tristate", tristate, "columns"), ("separator", separator, "lists")):
        if value is not None and form != wanted:
            raise ValueError(f"{option}: {str(path)!r} has the form {form!r}, not {wanted!r}. Leave it out.")
    images = table if form != "pairs" else table.drop_duplicates([*{0, split or 0}])
    repeated = images[0][images[0].duplicated()].tolist()
    if repeated:
        advice = "Give it one split." if form == "pairs" else "Write one row per image."
        raise _wrong(path, f"the image {repeated[0]!r} occurs twice. {advice}")
    if form == "columns":
        Y: NDArray[Any] = _read_cells(path, table[0], labels, table.to_numpy()[:, columns], tristate)
    elif len(labels) == 1:
        labels, Y = _read_mentions(path, table[0], table[columns[0]], form, separator)
    else:
        raise _wrong(path, f"the form {form!r} has one column of labels, not {listed(labels)}. Use ignore.")
    return Annotations(tuple(images[0]), tuple(labels), Y, None if split is None else tuple(images[split]))


def _wrong(path: Path, what: str) -> ValueError:
    short = what if len(what) < 500 else f"{what[:250]} ... {what[-200:]}"  # a cell may be very long
    return ValueError(f"path: {str(path)!r}: {short}")


def _read_text(path: Path) -> tuple[DataFrame, list[str]]:
    """Cells as text in numbered columns, without blank rows, and the names of the columns."""
    import pandas as pd

    if not path.is_file():
        raise FileNotFoundError(f"path: there is no file {str(path)!r}. Pass a table in CSV or TSV.")
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            header = next((line for line in file if line.strip()), "")
            file.seek(0)
            lines = csv.reader(file, delimiter=guess_delimiter(header), strict=True)
            rows = [row for line in lines if any(row := [cell.strip() for cell in line])]
        n_cells = len(rows[0]) if rows else 0
        if longer := next((row for row in rows if len(row) > n_cells), None):
            raise ValueError(f"the row {longer[0][:60]!r} has {len(longer)} cells, and the first row {n_cells}")
    except (*DAMAGE, csv.Error) as error:
        why = reason(error)
        raise _wrong(path, f"not a table in UTF-8 ({why}). Quote cells that contain its separator.") from None
    short = next((row for row in rows if len(row) < n_cells), None)
    if short or len(rows) < 2:
        what = f"the row {short[0]!r} has too few cells" if short else "there are no rows"
        raise _wrong(path, f"{what}. Write the names of the columns and one row per image.")
    names = list(map(csv_text, rows.pop(0)))
    for row in rows:
        row[0] = csv_text(row[0])
    return pd.DataFrame(np.array(rows, dtype=object), dtype=object), names


def _label_columns(path: Path, names: list[str], ignore: Sequence[str]) -> list[int]:
    if names[0].lower() not in _IMAGE_COLUMNS:
        raise _wrong(
            path, f"the first column is called {names[0][:60]!r}. Call it one of {', '.join(_IMAGE_COLUMNS)}."
        )
    # The first column is identified by position, so that a label may share its name: 'path' is a NUS-WIDE tag.
    others = check_names(names[1:], f"path: {str(path)!r}: columns") if names[1:] else ()
    unknown = [name for name in ignore if name not in others]
    if unknown:
        raise _wrong(path, f"there is no column {listed(unknown)} to ignore. It has {listed(others)}.")
    passed_over = {*ignore, *(name for name in others if name.lower() in SPLIT_COLUMNS)}
    columns = [i for i, name in enumerate(others, start=1) if name not in passed_over]
    if not columns:
        raise _wrong(path, "there is no column of labels. Add a column 'labels', or one per label.")
    return columns


def _read_cells(
    path: Path, images: Series[str], labels: list[str], cells: NDArray[Any], tristate: str | None
) -> NDArray[np.float32]:
    import pandas as pd

    codes = _CELLS
    if tristate is not None:
        codes = {"1": 1, "-1": 0, "0": np.nan if tristate == "unknown" else 0, **_UNKNOWN}
    found, texts = pd.factorize(cells.ravel())
    values = np.array([codes.get(text.lower(), -1) for text in texts], dtype=np.float32)  # -1: not to be read
    Y: NDArray[np.float32] = values[found].reshape(cells.shape)
    wrong = np.argwhere(Y == -1)
    if len(wrong):
        row, column = wrong[0]
        what = f"column {labels[column]!r} of image {images[row]!r} holds {cells[row, column]!r}"
        advice = "Write 1, 0, or nothing for unknown; in a table of 1, 0 and -1, pass tristate to define 0"
        raise _wrong(path, f"{what}. {advice}; names of labels go into one column 'labels'.")
    return Y


def _read_mentions(
    path: Path, images: Series[str], cells: Series[str], form: str, separator: str | None
) -> tuple[list[str], NDArray[np.int8]]:
    """Labels and Y of the forms that list only the labels present."""
    import pandas as pd

    if set(cells) <= {"0", "1", ""}:
        raise _wrong(path, "its column of labels is empty. Pass form='columns' if it is a label of 0 and 1.")
    if form == "lists":
        used = [mark for mark in _SEPARATORS if cells.str.contains(mark, regex=False).any()]
        if separator is None and len(used) > 1:
            raise _wrong(path, f"labels are separated by {listed(used)}. Pass one as separator.")
        cells = cells.str.split(separator or (used or [";"])[0], regex=False).explode().str.strip()
    named = cells[cells != ""]
    rows, columns = pd.Index(images.unique()), pd.Index(named.unique())
    Y = absent(len(rows), len(columns))
    Y[rows.get_indexer(images[named.index]), columns.get_indexer(named)] = 1
    return columns.tolist(), Y
