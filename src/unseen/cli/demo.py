"""`unseen demo`: the main job, end to end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from unseen.terminal import check_output, one_line_errors, open_console, print_table, show_progress

if TYPE_CHECKING:
    from rich.console import Console

    from unseen._demo_result import DemoResult


def demo(
    output: Annotated[Path, typer.Option(help="HTML file to write the report to.")] = Path("unseen-demo.html"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulated scenes.")] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer images and settings: a few seconds.")] = False,
) -> None:
    """Run a whole zero-shot experiment on simulated scenes and write a report: half a minute, no downloads."""
    console = open_console()
    with one_line_errors("demo"):
        check_output(output)
        from unseen.demo import run_demo  # the numerical libraries load when there is work for them

        console.print("[bold]unseen demo[/]: learn 12 annotated labels, tag with 12 that nobody annotated.")
        console.print("The scenes are simulated; the report says how.\n", style="dim")
        with show_progress(console) as reporter:
            result = run_demo(output, seed=seed, quick=quick, reporter=reporter)
        _print_demo(console, result)


def _print_demo(console: Console, result: DemoResult) -> None:
    from unseen import _demo_page as page

    console.print()
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
    console.print(f"[bold]Next[/]     unseen demo --seed {result.seed + 1}: other scenes, other label vectors")
    console.print("         python -m pydoc unseen.TAEP: the method, for features of your own")
