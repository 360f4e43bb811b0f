"""The `unseen` command: one thin function per command."""

from __future__ import annotations

from typing import Annotated

import typer

from unseen import __version__
from unseen.cli.data import data_app
from unseen.cli.demo import demo
from unseen.cli.features import features
from unseen.cli.labels import labels
from unseen.cli.photos import evaluate, explain, fit, tag
from unseen.cli.reproduce import reproduce
from unseen.cli.terminal import make_output_safe

app = typer.Typer(
    name="unseen",
    help="Tag images with labels that were never annotated.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(demo)
app.command()(tag)
app.command()(explain)
app.command()(features)
app.command()(fit)
app.command()(evaluate)
app.command()(labels)
app.add_typer(data_app, name="data")
app.command()(reproduce)


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
    """Tag images with labels that were never annotated."""
    make_output_safe()
