"""`unseen demo`: the main job, end to end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from unseen.cli.terminal import check_output, one_line_errors, open_console, print_table, show_progress

if TYPE_CHECKING:
    from rich.console import Console

    from unseen._demo_result import DemoResult


def demo(
    output: Annotated[Path, typer.Option(readable=False, help="HTML file to write the report to.")] = Path(
        "unseen-demo.html"
    ),
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulated scenes.")] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer images and settings: a few seconds.")] = False,
) -> None:
    """Tag photos, run a whole zero-shot experiment on simulated scenes, write a report: a minute, no downloads."""
    console = open_console()
    with one_line_errors("demo"):
        check_output(output)
        from unseen.demo import run_demo  # the numerical libraries load when there is work for them

        console.print("[bold]unseen demo[/]: real photos first, tagged by the model in the box with any words;")
        console.print("then an experiment: learn 12 annotated labels, tag with 12 that nobody annotated.")
        console.print("The scenes of the experiment are simulated; the report says how.\n", style="dim")
        with show_progress(console) as reporter:
            result = run_demo(output, seed=seed, quick=quick, reporter=reporter)
        _print_demo(console, result)


def _print_demo(console: Console, result: DemoResult) -> None:
    from unseen import _demo_page as page

    console.print()
    if result.photos.missing:
        console.print(f"No photos were tagged: {result.photos.missing}\n", markup=False)
    else:
        print_table(console, result.photos.table())
    for table in (page.choice_table(result), *page.result_tables(result), page.certificate_table(result)):
        print_table(console, table)
    for example in result.examples[:1]:
        label = example.explanation.label
        console.print(
            f"Test image {example.image}, a {example.scene}: {page.describe(example, result)}", style="bold"
        )
        print_table(console, page.tag_table(example, result))
        console.print(f"Why {label}: {page.why(example, most=2)}.", markup=False)
        console.print(f"Training images that speak for it: {page.speakers(example) or 'none'}.\n", markup=False)
    console.print(f"[bold]Report[/]   {escape(str(result.report))}", soft_wrap=True)
    console.print("[bold]Next[/]     unseen tag photo.jpg --labels 'sofa, birthday cake': your photos, any words")
    console.print(f"         unseen demo --seed {result.seed + 1}: other scenes, other label vectors")
    console.print("         python -m pydoc unseen.TAEP: the method, for features of your own")
