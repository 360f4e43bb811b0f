"""`unseen reproduce`: every table and figure of the paper on real data."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from unseen.cli.terminal import check_output, one_line_errors, open_console, print_table, show_progress

if TYPE_CHECKING:
    from rich.console import Console

    from unseen.experiment.tables import Reproduction

_NONE: list[str] = []
_NO_PATHS: list[Path] = []


def reproduce(
    name: Annotated[
        str | None, typer.Argument(help="Data set: voc2007, voc2012 or the name of your files.")
    ] = None,
    data: Annotated[
        Path,
        typer.Option(
            readable=False,
            help="Folder with NAME_labels.csv and NAME_BACKBONE.npz, or NAME.csv beside NAME_BACKBONE.npz.",
        ),
    ] = Path(),
    features: Annotated[
        list[Path],
        typer.Option(
            readable=False,
            help="Features: NPZ, NPY, CSV or a folder of `unseen features`; the first for the tables.",
        ),
    ] = _NO_PATHS,
    annotations: Annotated[
        Path | None,
        typer.Option("--annotations", "-a", readable=False, help="Annotations: a CSV file, or a VOC devkit."),
    ] = None,
    vectors: Annotated[
        list[str],
        typer.Option(help='Vectors: glove, use, minilm, "use:a photo of a {}", a file; first: of the tables.'),
    ] = _NONE,
    hit_counts: Annotated[
        Path | None, typer.Option(readable=False, help="CSV matrix of hit counts, for TAEP-C.")
    ] = None,
    relations: Annotated[
        Path | None,
        typer.Option(readable=False, help="CSV matrix of WordNet path lengths for TAEP-H; else those of unseen."),
    ] = None,
    seen: Annotated[
        str, typer.Option(help="Seen labels, with commas; else every other one, as in the paper.")
    ] = "",
    unseen: Annotated[str, typer.Option(help="Unseen labels, with commas; else the rest.")] = "",
    splits: Annotated[
        int | None,
        typer.Option(
            min=0, help="Random splits of the classes beside the main one; else 5, or 3 without a search."
        ),
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Runs with other seeds.")] = 1,
    no_search: Annotated[
        bool, typer.Option("--no-search", "--quick", help="Parameters as the methods come: a few minutes.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same numbers.")] = 0,
    jobs: Annotated[int, typer.Option(help="Parts to run at once; -1 for all cores.")] = -1,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", readable=False, help="Folder to write to; the default is reproduced-NAME."),
    ] = None,
) -> None:
    """Make every table and figure of the paper on real data; run again to go on where it was stopped."""
    console = open_console()
    n_splits = (3 if no_search else 5) if splits is None else splits
    with one_line_errors("reproduce"):
        if jobs == 0:
            raise ValueError("--jobs: 0 was given. Pass 1 or more, or -1 for all cores.")
        from unseen.evaluation.protocol import alternating_split, named_split
        from unseen.experiment import report
        from unseen.experiment.data import read_data

        with show_progress(console) as reporter:
            reporter.stage("reading the data")
            loaded = read_data(
                name, data, annotations=annotations, features=features, vectors=vectors, hit_counts=hit_counts,
                path_lengths=relations, seed=seed,
            )  # fmt: skip
            folder = output or Path(f"reproduced-{loaded.name}")
            check_output(folder / "report.html")
            split = alternating_split(loaded.labels)
            if seen or unseen:
                split = named_split(loaded.labels, _names(seen), _names(unseen))
            try:
                result = report.reproduce(
                    loaded, folder, split=split, n_splits=n_splits, repeats=repeats, search=not no_search, seed=seed,
                    n_jobs=jobs, command=_typed(), stage=reporter.stage, step=reporter.step,
                )  # fmt: skip
            except KeyboardInterrupt:
                typer.echo(
                    f"unseen reproduce: interrupted; finished cells are kept in {folder / 'cells'}. Run the same "
                    f"command to continue.",
                    err=True,
                )
                raise typer.Exit(130) from None
        _print(console, result)


def _names(text: str) -> list[str] | None:
    return [part.strip() for part in text.split(",") if part.strip()] or None


def _typed() -> str:
    return shlex.join(["unseen", *sys.argv[1:]])


def _print(console: Console, result: Reproduction) -> None:
    from unseen.experiment import report, tables

    console.print()
    for table in (
        *tables.main_tables(result, compact=True), *tables.split_tables(result), tables.claims_table(result)
    ):  # fmt: skip
        print_table(console, table)
    for line in report.notes(result):
        console.print(line, markup=False)
    console.print(f"\n[bold]Report[/]   {escape(str(result.folder / 'report.html'))}", soft_wrap=True)
    console.print(
        f"[bold]Numbers[/]  {escape(str(result.folder))}: CSV files, figures, results.md", soft_wrap=True
    )
    console.print(f"[bold]Took[/]     {result.seconds / 60:.1f} minutes")
