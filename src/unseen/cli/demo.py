"""`unseen demo`: photos with tags, and a whole experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from unseen.cli.terminal import check_output, one_line_errors, open_console, print_table, say, show_progress


def demo(
    output: Annotated[Path, Option("--output", "-o", help="HTML page to write.")] = Path("unseen-demo.html"),
    seed: Annotated[int, Option(min=0, help="Seed of the simulated scenes.")] = 0,
    quick: Annotated[bool, Option("--quick", help="Fewer images and settings: a few seconds.")] = False,
) -> None:
    """Tag photos, then run a zero-shot experiment on simulated scenes: a minute, no downloads."""
    console = open_console()
    with one_line_errors("demo"):
        check_output(output)
        from unseen.demo import run_demo  # the numerical libraries are loaded when there is work for them

        with show_progress(console) as reporter:
            result = run_demo(output, seed=seed, quick=quick, report=reporter.stage)
        if result.problem:
            say(console, f"No photos were tagged: {result.problem}")
        for _, title, tags in result.photos:
            shown = ", ".join(f"{tag.name} {tag.score:+.2f}" for tag in tags if tag.score > 0)
            say(console, f"{title}: {shown or 'no tag'}")
        console.print("\nThe experiment: learn 12 annotated labels of simulated scenes, tag with 12 others.\n")
        for table in result.tables:
            print_table(console, table)
        say(console, f"Page: {output}", style="bold")
        say(console, "Next: unseen tag photo.jpg --words 'sofa, birthday cake'")
