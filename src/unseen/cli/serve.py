"""`unseen serve`: the page and the API."""

import secrets
import threading
import webbrowser
from pathlib import Path
from typing import Annotated

from typer import Option

from unseen.cli.library import Library, Model
from unseen.cli.terminal import one_line_errors, say

_LOCAL = ("127.0.0.1", "localhost", "::1")


def serve(
    library: Library = None,
    model: Model = None,
    host: Annotated[
        str, Option(help="Address to listen on; others than this machine need the token.")
    ] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, help="Port; 0 for any that is free.")] = 8420,
    name: Annotated[list[str], Option(help="Host name under which it is asked; repeatable.")] = [],  # noqa: B006
    token: Annotated[str | None, Option(envvar="UNSEEN_TOKEN", help="Secret; else one is made if needed.")] = None,
    reports: Annotated[list[Path], Option(help="Folder of unseen reproduce to show; repeatable.")] = [],  # noqa: B006
    open_page: Annotated[bool, Option("--open/--no-open", help="Show the page in a browser.")] = True,
) -> None:
    """Search, look at, correct and export photos in a browser; the API is beside the page."""
    with one_line_errors("serve", "it has ended"):
        from unseen.app import server
        from unseen.photos.library import PhotoLibrary
        from unseen.photos.storage import DATABASE, default_library

        place = library or default_library()
        opened = PhotoLibrary.open(place) if library is not None or (place / DATABASE).is_file() else None
        if host not in _LOCAL and token is None:
            token = secrets.token_urlsafe(24)
        # With a token, any name will do.
        is_everywhere = host in ("0.0.0.0", "::")  # nosec B104
        hosts = [*name, "*"] if is_everywhere else [host, *name]
        app = server.create_app(opened, model, reports=reports, hosts=hosts, token=token)

        def show(url: str) -> None:
            address = url if token is None else f"{url}?token={token}"
            what = "photos that you drop on it" if opened is None else f"{len(opened):,} photos of {opened.path}"
            say(f"unseen serves {what}: {address}", style="bold")
            say("Ctrl-C ends it.")
            if open_page:
                threading.Timer(0.5, webbrowser.open, [address]).start()

        server.serve(app, host, port, show)
