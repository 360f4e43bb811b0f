"""Pages and tables: jinja2 templates, and the table model that pages, Markdown and the terminal share."""

import re
from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from typing import Any, Literal, NamedTuple


class Mark(NamedTuple):
    """Text with emphasis: strong, muted (the whole row, if in its first cell), or in a coloured pill."""

    text: str
    tone: Literal["text", "strong", "muted", "pill", "good", "accent"] = "text"


Cell = str | Mark | tuple[Mark, ...]


class Table(NamedTuple):
    """A table of formatted cells, one per column: ``table(*t)`` in a template, `print_table` on a terminal."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""


def marks(cell: Cell) -> tuple[Mark, ...]:
    """Return the marks of a cell; a string is one mark of plain text."""
    return (Mark(cell),) if isinstance(cell, str) else (cell,) if isinstance(cell, Mark) else cell


def numeric_columns(rows: Sequence[Sequence[Cell]]) -> list[bool]:
    """Return for each column whether all cells are numbers, dashes or empty: such columns are aligned right."""
    number = r"[+-]?\d[\d,]*(\.\d+)?(e[+-]?\d+)?( ?%| s| ± \d+(\.\d+)?| \([+-]\d+(\.\d+)?\))?|-|"
    texts = [[" ".join(mark.text for mark in marks(cell)) for cell in row] for row in rows]
    return [all(re.fullmatch(number, text) for text in column) for column in zip(*texts, strict=True)]


def data_uri(content: bytes, media_type: str = "image/jpeg") -> str:
    """Return a picture as a data URI for an ``<img>``, so that the page needs no other file."""
    return f"data:{media_type};base64,{b64encode(content).decode('ascii')}"


def render(name: str, **context: Any) -> str:
    """Render a template of this package such as ``"demo.html.j2"``; all but ``*.md.j2`` is escaped."""
    return str(_environment().get_template(name).render(context))


@cache
def _environment() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

    environment = Environment(
        loader=PackageLoader("unseen"), undefined=StrictUndefined,
        autoescape=select_autoescape((), disabled_extensions=("md.j2",), default=True),
    )  # fmt: skip
    environment.trim_blocks = environment.lstrip_blocks = environment.keep_trailing_newline = True
    environment.filters |= {"marks": marks, "numeric_columns": numeric_columns}
    return environment
