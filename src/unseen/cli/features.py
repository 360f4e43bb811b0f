"""`unseen features`: images in, a folder of features out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from unseen.cli.terminal import one_line_errors, open_console, show_progress
from unseen.validation import counted

if TYPE_CHECKING:
    from rich.console import Console

    from unseen.images.features import FeatureSet
    from unseen.images.reading import Problem

_MOST_LISTED = 20


# readable=False: that a path may be read is checked where it is read, and said in one line.
def features(
    sources: Annotated[
        list[Path],
        typer.Argument(
            help="Folders of images, image files, .txt lists of paths, .csv tables with a column 'path'.",
            readable=False,
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the features.", readable=False)],
    backbone: Annotated[
        str, typer.Option(help="Network that describes the images: its name, or an .onnx file.")
    ] = "efficientnet-lite0",
    batch: Annotated[int, typer.Option(min=1, help="Images a call of the network.")] = 1,
    jobs: Annotated[int | None, typer.Option(min=1, help="Threads. By default one a core.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Fail if a file cannot be read.")] = False,
    only: Annotated[
        bool, typer.Option("--only", help="Drop all images from the folder that the sources do not name.")
    ] = False,
) -> None:
    """Compute the features of images; run it again to go on after an interruption, or to add new images."""
    console = open_console()
    run = _Run()
    with one_line_errors("features", interrupted=run.left_behind):
        from unseen.images.features import UnreadableImages, extract_features

        run.output = output
        try:
            with show_progress(console, "images") as reporter:
                reporter.stage(f"describing images by {backbone}")

                def progress(done: int, total: int) -> None:
                    run.note(done)
                    reporter.step(done, total)

                made = extract_features(
                    sources, output, backbone, batch=batch, jobs=jobs, strict=strict, only=only, progress=progress
                )
        except UnreadableImages as error:
            if not strict:
                raise
            _fail(error.problems)
        _print_result(console, made, output, run)


class _Run:
    """How long a run took, how many images it tried, and what it leaves behind if it is interrupted."""

    def __init__(self) -> None:
        self.output: Path | None = None
        self.seconds, self.tried = 0.0, 0
        self._start: tuple[float, int] | None = None

    def note(self, done: int) -> None:
        now = time.monotonic()
        self._start = self._start or (now, done)
        self.seconds, self.tried = now - self._start[0], done - self._start[1]

    def left_behind(self) -> str:
        if self.output is None or not self.output.exists():
            return "nothing was written"
        return "what is finished was kept; run it again to go on"


def _fail(problems: Sequence[Problem]) -> NoReturn:
    count = counted(len(problems), "file")
    typer.echo(
        f"unseen features: --strict: {count} cannot be read; the features of the others were kept.", err=True
    )
    for line in _lines(problems):
        typer.echo(line, err=True)
    raise typer.Exit(2)


def _print_result(console: Console, made: FeatureSet, output: Path, run: _Run) -> None:
    n_described = run.tried - len(made.problems)
    if n_described > 0:
        pace = f" in {run.seconds:.1f} s, {n_described / run.seconds:.0f} images/s" if run.seconds else ""
        name = _shown(made.backbone["name"])
        console.print(f"{counted(n_described, 'image')} described by {name}{pace}.", markup=False, soft_wrap=True)
    else:
        console.print("Nothing to do: all features are there.", markup=False)
    what = f"{counted(made.X.shape[1], 'feature')} of {counted(len(made), 'image')}"
    console.print(f"{_shown(str(output))}: {what}.", markup=False, soft_wrap=True)
    if made.problems:
        count = counted(len(made.problems), "file")
        console.print(f"{count} could not be read and {'was' if len(made.problems) == 1 else 'were'} left out:")
        for line in _lines(made.problems):
            console.print(line, markup=False, soft_wrap=True)


def _lines(problems: Sequence[Problem]) -> list[str]:
    lines = [f"  {_shown(path)}: {reason}" for path, reason in problems[:_MOST_LISTED]]
    more = len(problems) - _MOST_LISTED
    return [*lines, f"  and {more:,} more"] if more > 0 else lines


def _shown(path: str) -> str:
    """Path that any terminal can print, whatever bytes it is made of."""
    return path.encode("utf-8", "backslashreplace").decode()
