"""Shared by the commands: progress, tables, pages, and one-line errors."""

from __future__ import annotations

import io
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.text import Text

from unseen.files import advice, expanded, write_atomically
from unseen.templates import Mark, Table, marks, numeric_columns

if TYPE_CHECKING:
    from rich.progress import Progress

# Control characters, and those that end lines or change the direction of text.
_CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
_CONTROL |= {code: f"\\u{code:04x}" for code in (*range(0x2028, 0x202F), *range(0x2066, 0x206A))}
_STYLES = {"strong": "bold cyan", "muted": "italic dim", "pill": "dim", "good": "green", "accent": "dark_orange3"}


def make_output_safe() -> None:
    """Make sure that standard output exists and accepts any text, so that printing never ends a command."""
    if sys.stdout is None:  # closed, as by ``>&-``
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 (open until the end)
    elif isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def open_console() -> Console:
    """Return a console for standard output; lines stay whole where no terminal limits their width."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=max(console.width, 110))


def printable(text: str) -> str:
    """Return text with its control characters and undecodable bytes escaped."""
    return text.translate(_CONTROL).encode("utf-8", "backslashreplace").decode()


def json_line(content: object) -> str:
    """Return JSON in one line, readable but without raw control characters."""
    text = json.dumps(content, ensure_ascii=False)
    return (
        text.translate({code: f"\\u{code:04x}" for code in _CONTROL}).encode("utf-8", "backslashreplace").decode()
    )


def say(text: str, style: str | None = None, console: Console | None = None) -> None:
    """Print one line verbatim, without markup; a terminal wraps it."""
    (console or open_console()).print(printable(text), style=style, markup=False, soft_wrap=True)


@contextmanager
def one_line_errors(command: str, interrupted: str = "nothing was written") -> Iterator[None]:
    """Turn an interruption (exit code 130), a user's mistake (2) or a warning into one line on standard error."""

    def note(message: Warning | str, *_: object, **__: object) -> None:
        typer.echo(f"unseen {command}: note: {printable(_one_line(message))}", err=True)

    try:
        with warnings.catch_warnings():
            warnings.showwarning = note
            yield
    except KeyboardInterrupt:
        typer.echo(f"unseen {command}: interrupted; {interrupted}.", err=True)
        raise typer.Exit(130) from None
    except (OSError, ImportError, ValueError) as error:
        if isinstance(error, BrokenPipeError):
            raise
        typer.echo(f"unseen {command}: {printable(_one_line(error))}", err=True)
        raise typer.Exit(2) from None


def _one_line(message: Exception | str) -> str:
    """Return a message in one line: ``'photos': Permission denied`` instead of ``[Errno 13] ...``."""
    if isinstance(message, OSError) and message.errno is not None and message.strerror:
        if message.filename:
            todo = advice(message, "Check the path and its permissions.")
            return f"{os.fspath(message.filename)!r}: {message.strerror}. {todo}"
        todo = advice(message, "Check where it leads.")
        return f"standard output, or a temporary file: {message.strerror}. {todo}"
    return " ".join(str(message).split())


def check_output(output: Path | None) -> None:
    """Raise an OSError unless a file can be written there; missing folders on the way are fine."""
    if output is None:
        return
    path = expanded(output).absolute()
    if path.is_dir():
        raise OSError(f"--output: {str(output)!r} is a directory. Pass the name of a file.")
    folder = next(parent for parent in path.parents if parent.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise OSError(f"--output: {str(output)!r} cannot be written: check {str(folder)!r}, or pass another file.")


def write_page(output: Path, template: str, **context: object) -> None:
    """Render a template to a file, atomically, and print its path to standard error."""
    from unseen.templates import render

    page = render(template, **context)
    write_atomically(output, lambda part: part.write_text(page, encoding="utf-8", newline="\n"))
    typer.echo(f"Page: {printable(str(output))}", err=True)


class Reporter:
    """Progress of a command: one bar per stage on a terminal, lines of text elsewhere."""

    def __init__(self, console: Console, bars: Progress | None) -> None:
        self._console, self._bars = console, bars
        self._reported = self._started = time.monotonic()

    def stage(self, title: str) -> Callable[..., None]:
        """Begin a stage, and return its ``step(done, total, detail="")``."""
        self.finish()
        self._started = time.monotonic()
        if self._bars is None:
            say(f"... {title}", console=self._console)
        else:
            self._bars.add_task(printable(title).replace("[", r"\["), total=None, detail="")
        return self.step

    def step(self, done: int, total: int | None, detail: str = "") -> None:
        """Show how much of the stage is done, per second and in all; the detail is any text."""
        seconds = time.monotonic() - self._started
        if self._bars is not None:
            rate = f"{done / seconds:,.1f}/s" if done and seconds > 1.0 else ""
            shown = " ".join(filter(None, (rate, detail)))
            self._bars.update(self._bars.task_ids[-1], completed=done, total=total, detail=shown)
        elif time.monotonic() - self._reported >= 10.0:  # seconds
            self._reported = time.monotonic()
            left = f", {(total - done) * seconds / done:,.0f} s left" if done and total else ""
            parts = f"    {done:,}" + (f" of {total:,}" if total else ""), f"{done / seconds:,.1f}/s{left}", detail
            say(", ".join(filter(None, parts)), console=self._console)

    def finish(self) -> None:
        """Complete the bar of the last stage."""
        if self._bars is not None and self._bars.tasks:
            task = self._bars.tasks[-1]
            self._bars.update(task.id, completed=task.total or 1, total=task.total or 1)


@contextmanager
def show_progress(console: Console | None = None) -> Iterator[Reporter]:
    """Yield a reporter of stages and steps."""
    console = console or open_console()
    if not console.is_terminal:
        return (yield Reporter(console, None))
    from rich import progress as rich

    columns = (
        rich.TextColumn("{task.description}"), rich.BarColumn(24), rich.MofNCompleteColumn(),
        rich.TextColumn("{task.fields[detail]}"), rich.TimeElapsedColumn(), "left", rich.TimeRemainingColumn(),
    )  # fmt: skip
    with rich.Progress(*columns, console=console) as bars:
        reporter = Reporter(console, bars)
        yield reporter
        reporter.finish()


def print_table(table: Table, console: Console | None = None) -> None:
    """Print a table as on its page; without colours, strong cells get a star and muted rows brackets."""
    from rich import box
    from rich.table import Table as Grid

    console = console or open_console()
    narrow = console.width < 100  # headings then wrap
    grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1 if narrow else 2, 0, 0), show_edge=False)
    numeric = numeric_columns(table.rows) or [False] * len(table.columns)
    for name, right in zip(map(printable, table.columns), numeric, strict=True):
        heading = Text("\n".join(name.split()) if right and narrow else name, style="dim")
        grid.add_column(heading, justify="right" if right else "left", no_wrap=right)
    plain = {} if console.color_system is not None else {"strong": "*{}", "muted": "({})"}

    def text(mark: Mark) -> Text:
        return Text(plain.get(mark.tone, "{}").format(printable(mark.text)), style=_STYLES.get(mark.tone, ""))

    for row in table.rows:
        cells = (Text(" ").join(map(text, marks(cell))) for cell in row)
        grid.add_row(*cells, style=_STYLES["muted"] if marks(row[0])[0].tone == "muted" else "")
    console.print(Text(printable(table.title), style="bold"), grid, sep="\n")
    console.print(Text(f"{printable(table.note)}\n" if table.note else "", style="dim"))
