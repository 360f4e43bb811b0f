"""Reports: headings, text, tables and figures in one HTML file that opens from disk, with nothing to load."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from unseen.evaluation import plots
from unseen.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Card", "Cell", "Mark", "Picture", "Report", "Table", "is_number"]

_NUMBER = re.compile(r"[+-]?\d[\d,]*(\.\d+)?(e[+-]?\d+)?( ?%| s| ± \d+(\.\d+)?)?|-|", re.IGNORECASE)


@dataclass(frozen=True)
class Mark:
    """A word set apart, such as a verdict: ``tone`` says how it is to be taken."""

    text: str
    tone: Literal["good", "accent", "plain"] = "plain"


Cell = str | tuple[Mark, ...]


@dataclass(frozen=True)
class Table:
    """A table of ready-made cells, for the page and for the terminal alike.

    Attributes
    ----------
    caption : str
        What the table shows.
    columns : tuple of str
        Headings; the first column names the rows.
    rows : tuple of tuple of Cell
        Text, or marks; one cell a column.
    note : str
        Printed below, in small type.
    strong, muted : frozenset of (int, int), frozenset of int
        Cells (row, column) to stress, and rows to hold back.
    strong_means, muted_means : str
        Why they are; printed below.
    """

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    strong: frozenset[tuple[int, int]] = frozenset()
    muted: frozenset[int] = frozenset()
    strong_means: str = ""
    muted_means: str = ""

    def __post_init__(self) -> None:
        for i, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise ValueError(
                    f"rows: row {i} has {len(row)} cells for {len(self.columns)} columns. Pass one cell a column."
                )

    def is_numeric(self, column: int) -> bool:
        """Whether every cell of a column is a number, so that it is set flush right."""
        return bool(self.rows) and all(is_number(row[column]) for row in self.rows)


@dataclass(frozen=True)
class Card:
    """A boxed part of a page: a heading, some text, a table and a figure, as far as they are given."""

    title: str
    text: str = ""
    table: Table | None = None
    figure: Figure | None = None
    caption: str = ""
    description: str = ""


@dataclass(frozen=True)
class Picture:
    """A photo with its tags.

    Attributes
    ----------
    jpeg : bytes
        The picture, a JPEG file of the size in which it is shown.
    title : str
        Printed below it.
    tags : tuple of (str, str, bool)
        Name, score, and whether the tag is predicted: the others are held back.
    text : str
        A sentence below the tags.
    """

    jpeg: bytes
    title: str
    tags: tuple[tuple[str, str, bool], ...]
    text: str = ""


class Report:
    """A page that grows from top to bottom; every method returns the report itself.

    All text is escaped: names from a data set cannot become markup.

    Parameters
    ----------
    title : str
        Heading of the page and title of the window.
    subtitle : str
        One sentence below it.

    Examples
    --------
    >>> report = Report("Results", "All of them").section("First", "What was measured.")
    >>> page = report.table(Table("Scores", ("method", "MiAP"), (("chance", "21.0"),))).html()
    >>> "<h2" in page, "21.0" in page
    (True, True)
    """

    def __init__(self, title: str, subtitle: str = "") -> None:
        self.title = title
        self.subtitle = subtitle
        self._body: list[str] = []
        self._n_sections = 0
        self._n_figures = 0

    def section(self, title: str, intro: str = "") -> Self:
        """Begin a section; an introduction is one paragraph."""
        if self._n_sections:
            self._body.append("</section>")
        self._n_sections += 1
        name = f"section-{self._n_sections}"
        self._body.append(f'<section aria-labelledby="{name}">\n<h2 id="{name}">{escape(title)}</h2>')
        return self.text(intro) if intro else self

    def text(self, text: str) -> Self:
        """Add a paragraph."""
        return self._add(f"<p>{escape(text)}</p>")

    def note(self, text: str) -> Self:
        """Add a paragraph that must not be overlooked."""
        return self._add(f'<p class="note" role="note">{escape(text)}</p>')

    def code(self, text: str) -> Self:
        """Add commands or a program, as typed."""
        return self._add(f"<pre><code>{escape(text)}</code></pre>")

    def facts(self, facts: Sequence[tuple[str, str]]) -> Self:
        """Add figures to remember: pairs (value, what it is)."""
        items = "".join(
            f"<div><dt>{escape(meaning)}</dt><dd>{escape(value)}</dd></div>" for value, meaning in facts
        )
        return self._add(f'<dl class="facts">{items}</dl>')

    def table(self, table: Table) -> Self:
        """Add a table."""
        return self._add(_table(table))

    def figure(self, figure: Figure, caption: str, description: str = "") -> Self:
        """Add a figure as inline SVG.

        Parameters
        ----------
        figure : matplotlib.figure.Figure
            Drawn on a light ground: it keeps it in dark mode.
        caption : str
            Printed below.
        description : str
            What is to be seen, for those who cannot see it; the caption if empty.
        """
        return self._add(self._figure(figure, caption, description))

    def cards(self, cards: Sequence[Card]) -> Self:
        """Add boxed parts below each other."""
        return self._add("".join(self._card(card) for card in cards))

    def gallery(self, pictures: Sequence[Picture]) -> Self:
        """Add photos with their tags beside each other; the photos are part of the page."""
        return self._add(f'<div class="gallery">{"".join(map(_picture, pictures))}</div>')

    def html(self) -> str:
        """The page.

        Returns
        -------
        str
            A complete HTML document without scripts or outside resources.
        """
        subtitle = f'<p class="subtitle">{escape(self.subtitle)}</p>' if self.subtitle else ""
        body = "\n".join(self._body) + ("\n</section>" if self._n_sections else "")
        return (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<meta name="color-scheme" content="light dark">\n<meta name="generator" content="unseen">\n'
            f"<title>{escape(self.title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
            f"<header>\n<h1>{escape(self.title)}</h1>\n{subtitle}\n</header>\n{body}\n</main>\n</body>\n</html>\n"
        )

    def save(self, path: str | Path) -> Path:
        """Write the page, whole or not at all.

        Parameters
        ----------
        path : str or Path
            Where to; an existing file is replaced.

        Returns
        -------
        Path
            The same path.
        """
        path, page = Path(path), self.html()
        write_atomically(path, lambda part: Path(part).write_text(page, encoding="utf-8", newline="\n"))
        return path

    def _add(self, block: str) -> Self:
        self._body.append(block)
        return self

    def _figure(self, figure: Figure, caption: str, description: str) -> str:
        self._n_figures += 1
        width = figure.get_figwidth() * 96.0
        svg = plots.to_svg(figure, description=description or caption, prefix=f"figure-{self._n_figures}-")
        # A wide figure on a phone is scrolled sideways before its lettering becomes too small to read.
        box = f'<div class="sheet" style="--natural:{width:.0f}px">{svg}</div>'
        return f"<figure>{box}<figcaption>{escape(caption)}</figcaption></figure>"

    def _card(self, card: Card) -> str:
        text = f"<p>{escape(card.text)}</p>" if card.text else ""
        table = _table(card.table) if card.table else ""
        figure = self._figure(card.figure, card.caption, card.description) if card.figure else ""
        return (
            f'<article class="card"><h3>{escape(card.title)}</h3>{text}'
            f'<div class="pair">{table}{figure}</div></article>'
        )


def _picture(picture: Picture) -> str:
    data = b64encode(picture.jpeg).decode("ascii")
    rows = "".join(
        f"<li{_class('' if predicted else 'muted')}><span>{escape(name)}</span><span>{escape(score)}</span></li>"
        for name, score, predicted in picture.tags
    )
    text = f'<p class="small">{escape(picture.text)}</p>' if picture.text else ""
    return (
        f'<article class="picture"><img alt="{escape(picture.title)}" src="data:image/jpeg;base64,{data}">'
        f"<h3>{escape(picture.title)}</h3><ul>{rows}</ul>{text}</article>"
    )


def is_number(cell: Cell) -> bool:
    """Whether a cell is a number, perhaps with a unit, or a dash or nothing in its place."""
    return isinstance(cell, str) and _NUMBER.fullmatch(cell) is not None


def _table(table: Table) -> str:
    numeric = [table.is_numeric(column) for column in range(len(table.columns))]
    head = "".join(
        f'<th scope="col"{_class("number" * right)}>{escape(name)}</th>'
        for name, right in zip(table.columns, numeric, strict=True)
    )
    rows = "".join(_row(table, i, numeric) for i in range(len(table.rows)))
    legend = [("Bold", table.strong_means), ("Italic", table.muted_means)]
    notes = [table.note, *(f"{look}: {meaning}." for look, meaning in legend if meaning)]
    note = f'<p class="small">{escape(" ".join(filter(None, notes)))}</p>' if any(notes) else ""
    return (
        f'<div class="table"><p class="caption" aria-hidden="true">{escape(table.caption)}</p>'
        f'<div class="scroll"><table aria-label="{escape(table.caption)}">'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>{note}</div>"
    )


def _row(table: Table, i: int, numeric: Sequence[bool]) -> str:
    cells = []
    for j, (cell, right) in enumerate(zip(table.rows[i], numeric, strict=True)):
        content = escape(cell) if isinstance(cell, str) else " ".join(map(_mark, cell))
        if (i, j) in table.strong:
            content = f"<strong>{content}</strong>"
        tag = 'th scope="row"' if j == 0 else "td"
        cells.append(f"<{tag}{_class('number' * right)}>{content}</{tag[:2]}>")
    return f"<tr{_class('muted' * (i in table.muted))}>{''.join(cells)}</tr>"


def _mark(mark: Mark) -> str:
    return f'<span class="mark {mark.tone}">{escape(mark.text)}</span>'


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""


_STYLE = """
:root {
  color-scheme: light dark;
  --ground: #fbfbf9; --paper: #ffffff; --ink: #1c2024; --soft: #5b646e; --line: #dfe3e6;
  --blue: #00609a; --good: #00694d; --accent: #a84300; --wash: #eef4f8; --warn: #fff6e0; --warn-line: #e0b44a;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #14171a; --paper: #1c2125; --ink: #e8ebed; --soft: #a3adb6; --line: #343b42;
    --blue: #7cc0ee; --good: #5fd3ab; --accent: #ffa869; --wash: #1d2a34; --warn: #2e2714; --warn-line: #a8842c;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0; background: var(--ground); color: var(--ink);
  font: 16px/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif;
}
main { max-width: 60rem; margin: 0 auto; padding: 3rem 1.5rem 4rem; }
header { border-bottom: 3px solid var(--blue); padding-bottom: 1.25rem; margin-bottom: 1.5rem; }
h1 { font-size: clamp(1.6rem, 5vw, 2.4rem); line-height: 1.15; letter-spacing: -0.02em; margin: 0;
  text-wrap: balance; }
h2 { font-size: 1.4rem; line-height: 1.25; letter-spacing: -0.01em; margin: 0 0 0.5rem; }
h3 { font-size: 1.05rem; line-height: 1.35; margin: 0 0 0.25rem; }
p { margin: 0.5rem 0; max-width: 46rem; }
.subtitle { color: var(--soft); font-size: 1.1rem; margin: 0.6rem 0 0; max-width: none; }
section { margin-top: 3rem; }
.note {
  background: var(--warn); border-left: 4px solid var(--warn-line); border-radius: 4px;
  padding: 0.75rem 1rem; max-width: none;
}
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr)); gap: 1rem; margin: 1.5rem 0; }
.facts div {
  display: flex; flex-direction: column-reverse; justify-content: flex-end; background: var(--wash);
  border-radius: 8px; padding: 0.9rem 1.1rem;
}
.facts dd { margin: 0; font-size: 1.9rem; font-weight: 650; line-height: 1.2; color: var(--blue);
  font-variant-numeric: tabular-nums; }
.facts dt { color: var(--soft); font-size: 0.9rem; line-height: 1.4; }
.table { margin: 1.25rem 0; min-width: 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 0.94rem; font-variant-numeric: tabular-nums; }
.caption { font-weight: 650; margin: 0 0 0.25rem; }
th, td { text-align: left; padding: 0.42rem 0.9rem 0.42rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; }
th:last-child, td:last-child { padding-right: 0.25rem; }
thead th { color: var(--soft); font-weight: 550; font-size: 0.86rem; border-bottom: 2px solid var(--line);
  vertical-align: bottom; }
tbody th { font-weight: 500; }
.number { text-align: right; white-space: nowrap; }
.muted th, .muted td { color: var(--soft); font-style: italic; font-weight: 400; }
strong { color: var(--blue); font-weight: 700; }
.small, figcaption { color: var(--soft); font-size: 0.88rem; line-height: 1.5; }
.mark { display: inline-block; border: 1px solid currentColor; border-radius: 99px; padding: 0 0.5em;
  font-size: 0.78rem; line-height: 1.45; white-space: nowrap; color: var(--soft); }
.mark.good { color: var(--good); }
.mark.accent { color: var(--accent); }
figure { margin: 1.25rem 0; min-width: 0; }
.sheet { background: #ffffff; border: 1px solid var(--line); border-radius: 8px; padding: 0.75rem;
  overflow-x: auto; }
.sheet svg { display: block; width: 100%; height: auto; max-width: var(--natural);
  min-width: calc(var(--natural) * 0.62); margin: 0 auto; }
figcaption { margin-top: 0.5rem; max-width: 46rem; }
.card { background: var(--paper); border: 1px solid var(--line); border-radius: 10px; padding: 1.1rem 1.25rem;
  margin: 1.25rem 0; }
.pair { display: grid; grid-template-columns: minmax(0, 2fr) minmax(0, 3fr); gap: 1.5rem; align-items: start; }
.pair > * { margin: 0.5rem 0 0; }
.gallery { display: grid; grid-template-columns: repeat(auto-fill, minmax(13rem, 1fr)); gap: 1.25rem;
  margin: 1.25rem 0; }
.picture { background: var(--paper); border: 1px solid var(--line); border-radius: 10px; overflow: hidden;
  break-inside: avoid; }
.picture img { display: block; width: 100%; aspect-ratio: 4 / 3; object-fit: cover; }
.picture h3, .picture ul, .picture p { margin: 0.6rem 0.9rem; overflow-wrap: anywhere; }
.picture ul { list-style: none; padding: 0; font-size: 0.94rem; font-variant-numeric: tabular-nums; }
.picture li { display: flex; justify-content: space-between; gap: 1rem; font-weight: 600; }
.picture li span:last-child { white-space: nowrap; }
.picture li.muted { color: var(--soft); font-weight: 400; }
pre { background: var(--wash); border-radius: 8px; padding: 0.9rem 1.1rem; overflow-x: auto; font-size: 0.9rem; }
@media (max-width: 44rem) {
  main { padding: 1.5rem 1rem 3rem; }
  section { margin-top: 2.25rem; }
  .pair { grid-template-columns: minmax(0, 1fr); gap: 0.5rem; }
  .card { padding: 0.9rem 0.9rem; }
  th, td { padding-right: 0.6rem; }
}
@media print { body { background: #ffffff; } .card, figure, .table { break-inside: avoid; } }
"""
