"""The `unseen` command: one thin function per command."""

from typing import Annotated

import typer

from unseen import __version__
from unseen.cli.backbones import backbones, model_app
from unseen.cli.data import cache_app, data_app
from unseen.cli.experiments import demo, reproduce
from unseen.cli.labels import labels
from unseen.cli.library import duplicates, index, review, search, serve
from unseen.cli.photos import evaluate, explain, features, fit, tag
from unseen.cli.tags import tags_app
from unseen.cli.terminal import make_output_safe

app = typer.Typer(name="unseen", no_args_is_help=True, pretty_exceptions_enable=False)
PHOTOS = (demo, tag, index, search, serve, duplicates, review, explain)
for command in (*PHOTOS, features, fit, evaluate, labels, backbones, reproduce):
    app.command()(command)
app.add_typer(tags_app, name="tags")
app.add_typer(data_app, name="data")
app.add_typer(model_app, name="model")
app.add_typer(cache_app, name="cache")


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
