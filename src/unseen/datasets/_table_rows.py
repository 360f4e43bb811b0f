"""Rows of a table in a text file, with their lines, so that what is wrong can be told in terms of the file."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from unseen.files import guess_delimiter

__all__ = ["Row", "table_rows", "wrong"]

Row = tuple[int, list[str]]  # with its line in the file


@contextmanager
def table_rows(path: Path) -> Iterator[Iterator[Row]]:
    """Rows that are not blank, with their lines; what goes wrong on the way is told in terms of the file."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            first = file.readline()
            delimiter = guess_delimiter(first)
            file.seek(0)
            reader = csv.reader(file, delimiter=delimiter, strict=True)
            yield ((reader.line_num, row) for row in reader if any(cell.strip() for cell in row))
    except UnicodeDecodeError:
        raise _not_utf8(path) from None
    except csv.Error as error:
        raise ValueError(
            f"path: {str(path)!r}, line {reader.line_num}: {error}. Mend its quotation marks."
        ) from None


def _not_utf8(path: Path) -> ValueError:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                byte = line[error.start]
                return wrong(path, number, f"byte 0x{byte:02x} is no UTF-8", "Save the file in UTF-8.")
    return ValueError(f"path: {str(path)!r} is not in UTF-8. Save the file in UTF-8.")


def wrong(path: Path, line: int, what: str, advice: str) -> ValueError:
    """The error for a line of a file."""
    return ValueError(f"path: {str(path)!r}, line {line}: {what}. {advice}")
