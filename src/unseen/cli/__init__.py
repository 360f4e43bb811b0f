"""The `unseen` command: one thin function a command."""

from __future__ import annotations

from typing import Annotated

import typer

from unseen import __version__
from unseen.cli.demo import demo
from unseen.cli.labels import labels_app

app = typer.Typer(
    name="unseen",
    help="Tag images with labels that nobody ever annotated.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(demo)
app.add_typer(labels_app, name="labels")


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
