"""What commands share on a terminal: progress, tables, errors in one line."""

from __future__ import annotations

import io
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table as Grid
from rich.text import Text

if TYPE_CHECKING:
    from unseen.templates.report import Cell, Table

_SECONDS_BETWEEN_LINES = 10.0
_TONES = {"good": "green", "accent": "dark_orange3", "plain": "dim"}


def check_output(output: Path) -> None:
    """Raise an OSError unless a file can be written there; nothing is left behind.

    Parameters
    ----------
    output : Path
        A file, existing or not; folders on the way may be missing.
    """
    path = output.expanduser().absolute()
    if path.is_dir():
        raise OSError(f"--output: {str(output)!r} is a directory. Pass the name of a file.")
    folder = next(parent for parent in path.parents if parent.exists())
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".unseen-"):
            pass
    except OSError as error:
        raise OSError(
            f"--output: {str(output)!r} cannot be written ({error.strerror or error}: {str(folder)!r}). "
            f"Pass a file in a directory you may write to."
        ) from error


class _Lines:
    """Progress for a log file or a pipe: a line a stage and, if things are counted, one every ten seconds."""

    def __init__(self, console: Console, unit: str | None = None) -> None:
        self._console, self._unit = console, unit
        self._first: tuple[float, int] | None = None
        self._shown = 0.0

    def stage(self, title: str) -> None:
        self._console.print(f"... {title}", markup=False)
        self._first = None

    def step(self, done: int, total: int) -> None:
        if self._unit is None:
            return
        now = time.monotonic()
        if self._first is None:
            self._first, self._shown = (now, done), now
        elif now - self._shown >= _SECONDS_BETWEEN_LINES:
            speed = (done - self._first[1]) / (now - self._first[0])
            pace = _pace(speed, total - done, self._unit)
            self._console.print(f"    {done:,} of {total:,} {self._unit}, {pace}", markup=False)
            self._shown = now


class _PaceColumn(ProgressColumn):
    """How many of how many, how fast, and how long it will still take."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self._unit = unit

    def render(self, task: Task) -> Text:
        if task.total is None:
            return Text("")
        counts = f"{int(task.completed):,} of {int(task.total):,} {self._unit}"
        pace = _pace(task.speed, int(task.remaining or 0), self._unit) if task.speed else ""
        return Text(f"{counts}, {pace}" if pace else counts, style="dim")


def _pace(speed: float, remaining: int, unit: str) -> str:
    """Say how fast it goes and how long it will still take."""
    if speed <= 0.0 or not remaining:
        return f"{speed:.{0 if speed >= 10 else 1}f} {unit}/s"
    minutes, seconds = divmod(round(remaining / speed), 60)
    hours, minutes = divmod(minutes, 60)
    left = f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
    return f"{speed:.{0 if speed >= 10 else 1}f} {unit}/s, {left} left"


class _Bars:
    """Progress for a terminal: a bar a stage."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task: TaskID | None = None

    def stage(self, title: str) -> None:
        self.finish()
        self._task = self._progress.add_task(escape(title), total=None)

    def step(self, done: int, total: int) -> None:
        assert self._task is not None
        self._progress.update(self._task, completed=done, total=total)

    def finish(self) -> None:
        if self._task is None:
            return
        total = self._progress.tasks[self._progress.task_ids.index(self._task)].total
        self._progress.update(self._task, completed=total or 1, total=total or 1)


def make_output_safe() -> None:
    """Let standard output take any text, and exist: nothing that is printed ends a command."""
    if sys.stdout is None:  # closed, as by ``>&-``
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 (open until the end)
    elif isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def open_console() -> Console:
    """Return a console for standard output."""
    console = Console(highlight=False)
    # Without a terminal there is no width to fit into: lines stay whole.
    return console if console.is_terminal else Console(highlight=False, width=max(console.width, 110))


@contextmanager
def show_progress(console: Console, unit: str | None = None) -> Iterator[_Lines | _Bars]:
    """Yield a reporter of stages and steps: bars on a terminal, lines elsewhere.

    Parameters
    ----------
    console : Console
        Where to.
    unit : str, optional
        What the steps count, such as "images": then their number, speed and the time left are shown as well.
    """
    if not console.is_terminal:
        yield _Lines(console, unit)
        return
    columns: list[ProgressColumn] = [
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
    ]
    if unit is not None:
        columns.append(_PaceColumn(unit))
    with Progress(*columns, console=console) as progress:
        bars = _Bars(progress)
        yield bars
        bars.finish()


@contextmanager
def show_if_slow(console: Console, title: str) -> Iterator[Callable[[int, int | None], None]]:
    """Yield a ``progress(done, total)`` that shows nothing unless it is called.

    Parameters
    ----------
    console : Console
        Where to.
    title : str
        What takes the time.
    """
    with show_progress(console) as reporter:
        begun = False

        def progress(done: int, total: int | None) -> None:
            nonlocal begun
            if not begun:
                reporter.stage(title)
                begun = True
            if total:
                reporter.step(done, total)

        yield progress


@contextmanager
def one_line_errors(
    command: str, *, interrupted: str | Callable[[], str] = "nothing was written"
) -> Iterator[None]:
    """Turn an interruption and the errors of a user's world into one line and an exit code.

    Parameters
    ----------
    command : str
        What the user typed after ``unseen``.
    interrupted : str or callable, default="nothing was written"
        What an interruption leaves behind, or what says it then.
    """
    try:
        yield
    except KeyboardInterrupt:
        left = interrupted if isinstance(interrupted, str) else interrupted()
        typer.echo(f"unseen {command}: interrupted, {left}.", err=True)
        raise typer.Exit(130) from None
    except BrokenPipeError:
        raise
    except (OSError, ImportError, ValueError) as error:
        typer.echo(f"unseen {command}: {_without_number(error)}", err=True)
        raise typer.Exit(2) from None


def _without_number(error: Exception) -> str:
    """Say what the system refused: ``'photos': Permission denied`` in place of ``[Errno 13] ...``."""
    if isinstance(error, OSError) and error.errno is not None and error.filename and error.strerror:
        return f"{os.fspath(error.filename)!r}: {error.strerror}. Check the path and its permissions."
    return str(error)


def print_table(console: Console, table: Table) -> None:
    """Print a table of a report.

    Parameters
    ----------
    console : Console
        Where to.
    table : Table
        What: the same table that the HTML report shows.
    """
    styled = console.color_system is not None
    narrow = console.width < 100  # then headings stand on several lines, and names give way to numbers
    grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1 if narrow else 2, 0, 0), show_edge=False)
    for column, name in enumerate(table.columns):
        right = table.is_numeric(column)
        heading = Text("\n".join(name.split()) if right and narrow else name, style="dim")
        grid.add_column(heading, justify="right" if right else "left", no_wrap=right)
    starred = {column for _, column in table.strong} if not styled else set()
    for i, row in enumerate(table.rows):
        cells = [_text(cell, strong=(i, j) in table.strong) for j, cell in enumerate(row)]
        for j in starred:
            cells[j] = Text(f"{cells[j]}{'*' if (i, j) in table.strong else ' '}")
        if i in table.muted and not styled:
            cells[0] = Text(f"({cells[0]})")
        grid.add_row(*cells, style="italic dim" if i in table.muted else "")
    console.print(Text(table.caption, style="bold"))
    console.print(grid)
    looks = ("Bold", "Italic") if styled else ("*", "( )")
    legend = zip(looks, (table.strong_means, table.muted_means), strict=True)
    for line in (table.note, *(f"{look}: {meaning}." for look, meaning in legend if meaning)):
        if line:
            console.print(Text(line, style="dim"))
    console.print()


def _text(cell: Cell, *, strong: bool) -> Text:
    if isinstance(cell, str):
        return Text(cell, style="bold cyan" if strong else "")
    return Text(" ").join(Text(mark.text, style=_TONES[mark.tone]) for mark in cell)
