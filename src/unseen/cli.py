"""The `unseen` command: one thin function a command."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table as Grid
from rich.text import Text

from unseen import __version__
from unseen import _demo_page as page
from unseen.demo import DemoResult, run_demo
from unseen.evaluation.report import Cell, Table

app = typer.Typer(
    name="unseen",
    help="Tag images with labels that nobody ever annotated.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

_TONES = {"good": "green", "accent": "dark_orange3", "plain": "dim"}


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"unseen {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Tag images with labels that nobody ever annotated."""


@app.command()
def demo(
    output: Annotated[Path, typer.Option(help="HTML file to write the report to.")] = Path("unseen-demo.html"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulated scenes.")] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer images and settings: a few seconds.")] = False,
) -> None:
    """Run a whole zero-shot experiment on simulated scenes and write a report: half a minute, no downloads."""
    console = _console()
    with _one_line_errors("demo"):
        check_output(output)
        console.print("[bold]unseen demo[/]: learn 12 annotated labels, tag with 12 that nobody annotated.")
        console.print("The scenes are simulated; the report says how.\n", style="dim")
        with _progress(console) as reporter:
            result = run_demo(output, seed=seed, quick=quick, reporter=reporter)
        _print_result(console, result)


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
    """Progress for a log file or a pipe: a line a stage."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def stage(self, title: str) -> None:
        self._console.print(f"... {title}", markup=False)

    def step(self, done: int, total: int) -> None:
        pass


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
        if self._task is not None:
            self._progress.update(self._task, completed=1, total=1)


def _console() -> Console:
    console = Console(highlight=False)
    # Without a terminal there is no width to fit into: lines stay whole.
    return console if console.is_terminal else Console(highlight=False, width=max(console.width, 110))


@contextmanager
def _progress(console: Console) -> Iterator[_Lines | _Bars]:
    if not console.is_terminal:
        yield _Lines(console)
        return
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        bars = _Bars(progress)
        yield bars
        bars.finish()


@contextmanager
def _one_line_errors(command: str) -> Iterator[None]:
    """Turn an interruption and the errors of a user's world into one line and an exit code."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(f"unseen {command}: interrupted, nothing was written.", err=True)
        raise typer.Exit(130) from None
    except BrokenPipeError:
        raise
    except (OSError, ImportError) as error:
        typer.echo(f"unseen {command}: {error}", err=True)
        raise typer.Exit(2) from None


def _print_result(console: Console, result: DemoResult) -> None:
    console.print()
    for table in (page.choice_table(result), *page.result_tables(result), page.certificate_table(result)):
        _print_table(console, table)
    for example in result.examples[:1]:
        label = example.explanation.label
        console.print(
            f"Test image {example.image}, a {example.scene}: {page.describe(example, result)}", style="bold"
        )
        _print_table(console, page.tag_table(example, result))
        console.print(f"Why {label}: {page.why(example, most=2)}.", markup=False)
        console.print(f"Training images that speak for it: {page.speakers(example) or 'none'}.\n", markup=False)
    console.print(f"[bold]Report[/]   {escape(str(result.report))}", soft_wrap=True)
    console.print(f"[bold]Next[/]     unseen demo --seed {result.seed + 1}: other scenes, other label vectors")
    console.print('         python -c "import unseen; help(unseen.TAEP)": the method, on features of your own')


def _print_table(console: Console, table: Table) -> None:
    styled = console.color_system is not None
    grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False, header_style="dim", show_edge=False)
    for column, name in enumerate(table.columns):
        right = table.is_numeric(column)
        grid.add_column(Text(name), justify="right" if right else "left", no_wrap=column == 0)
    for i, row in enumerate(table.rows):
        cells = [_text(cell, strong=(i, j) in table.strong, styled=styled) for j, cell in enumerate(row)]
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


def _text(cell: Cell, *, strong: bool, styled: bool) -> Text:
    if not isinstance(cell, str):
        return Text(" ").join(Text(mark.text, style=_TONES[mark.tone]) for mark in cell)
    return Text(cell, style="bold cyan" if strong else "") if styled else Text(cell + "*" * strong)
