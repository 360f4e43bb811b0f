"""`unseen features`: images in, a folder of features out."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from unseen.terminal import one_line_errors, open_console, show_progress

if TYPE_CHECKING:
    from rich.console import Console

    from unseen.images._feature_files import Problem
    from unseen.images.features import FeatureSet

_MOST_LISTED = 20


def features(
    sources: Annotated[
        list[Path],
        typer.Argument(
            help="Folders of images, image files, .txt lists of paths, .csv tables with a column 'path'."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the features.")],
    backbone: Annotated[
        str, typer.Option(help="Network that describes the images: its name, or an .onnx file.")
    ] = "efficientnet-lite0",
    batch: Annotated[int, typer.Option(min=1, help="Images a call of the network.")] = 1,
    jobs: Annotated[int | None, typer.Option(min=1, help="Threads. By default one a core.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Fail if a file cannot be read.")] = False,
) -> None:
    """Compute the features of images; run it again to go on after an interruption, or to add new images."""
    console = open_console()
    with one_line_errors("features", interrupted="what is finished was kept; run it again to go on"):
        logging.getLogger("PIL").setLevel(logging.CRITICAL)  # its remarks on odd files are not for users
        from unseen.images._extraction import UnreadableImages
        from unseen.images.features import extract_features

        run = _Run()
        try:
            with show_progress(console, "images") as reporter:
                reporter.stage(f"describing images by {backbone}")

                def progress(done: int, total: int) -> None:
                    run.note(done)
                    reporter.step(done, total)

                made = extract_features(
                    sources, output, backbone, batch=batch, jobs=jobs, strict=strict, progress=progress
                )
        except UnreadableImages as error:
            _fail(error.problems)
        _print_result(console, made, output, run)


class _Run:
    """How many images this run has described, and how long it took."""

    def __init__(self) -> None:
        self.before: int | None = None
        self.done = 0
        self._start = time.monotonic()
        self.seconds = 0.0

    def note(self, done: int) -> None:
        if self.before is None:
            self.before, self._start = done, time.monotonic()
        self.done = done - self.before
        self.seconds = time.monotonic() - self._start


def _fail(problems: Sequence[Problem]) -> NoReturn:
    count = f"{len(problems):,} {'file' if len(problems) == 1 else 'files'}"
    typer.echo(
        f"unseen features: --strict: {count} cannot be read; the features of the others were kept.", err=True
    )
    for line in _lines(problems):
        typer.echo(line, err=True)
    raise typer.Exit(2)


def _print_result(console: Console, made: FeatureSet, output: Path, run: _Run) -> None:
    name = made.backbone["name"]
    new = run.done - len(made.problems)
    if new > 0:
        pace = f" in {run.seconds:.1f} s, {run.done / run.seconds:.0f} images/s" if run.seconds else ""
        console.print(f"{new:,} images described by {name}{pace}.", markup=False)
    else:
        console.print("Nothing to do: all features are there.", markup=False)
    console.print(f"{_shown(str(output))}: {made.X.shape[1]:,} features of {len(made):,} images.", markup=False)
    if made.problems:
        count = f"{len(made.problems):,} {'file' if len(made.problems) == 1 else 'files'}"
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
