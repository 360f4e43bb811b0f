"""A library of photos, described once and searched often: `unseen index`, `search`, `serve`, ..."""

from __future__ import annotations

import csv
import os
import secrets
import sys
import tempfile
import threading
import time
import webbrowser
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from typer import Argument, Option

import unseen  # PhotoLibrary and PhotoTagger are loaded when they are used
from unseen.cli.labels import read_vocabulary
from unseen.cli.terminal import (
    check_output,
    json_line,
    one_line_errors,
    open_console,
    printable,
    say,
    show_progress,
    write_page,
)
from unseen.files import csv_cell

if TYPE_CHECKING:
    from unseen.photos.index import IndexReport
    from unseen.photos.library import Hit, PhotoLibrary
    from unseen.photos.storage import Photo
    from unseen.photos.tagger import PhotoTags, Query

Library = Annotated[
    Path | None,
    Option("--library", "-L", help="Folder of the library; else UNSEEN_LIBRARY, or the user's data folder."),
]
Words = Annotated[list[str], Option("--words", "-w", help="Comma-separated words, or a file; repeatable.")]
Model = Annotated[str | None, Option("--model", "-m", help="A model from unseen fit; else the packaged one.")]
InFolder = Annotated[Path | None, Option("--in", help="Only photos in this folder.")]
_Page = Annotated[Path | None, Option("--output", "-o", help="HTML page of thumbnails to write.")]
_Open = Annotated[bool, Option("--open", help="Show the page in a browser.")]
_LOCAL = ("127.0.0.1", "localhost", "::1")


def index(
    folders: Annotated[
        list[Path], Argument(help="Folders of photos; without any, all that the library has.")
    ] = [],
    library: Library = None,
    backbone: Annotated[str | None, Option(help="For a new library: network that describes photos.")] = None,
    jobs: Annotated[int | None, Option(min=1, help="Threads; by default one per core.")] = None,
    forget: Annotated[list[Path], Option(help="Drop the photos of a folder from the library; repeatable.")] = [],
    verbose: Annotated[bool, Option("--verbose", help="Name every file that was skipped.")] = False,
) -> None:
    """Describe the photos of folders once, for `unseen search`; run it again to add what is new."""
    with one_line_errors("index", "finished photos are in the library, run it again to resume"):
        started = time.monotonic()
        opened = unseen.PhotoLibrary.open(library, create=bool(folders), backbone=backbone)
        with show_progress() as reporter:
            step = reporter.stage("comparing folders and describing photos")

            def report(done: int, total: int, skipped: int) -> None:
                step(done, total, f"{skipped:,} skipped" if skipped else "")

            made = opened.index(folders, jobs=jobs, forget=forget, progress=report)
        _print_index(made, opened, time.monotonic() - started, verbose)


def search(
    word: Annotated[str | None, Argument(help="What the photos show, in any words.")] = None,
    any_of: Annotated[list[str], Option("--or", help="Or this; repeatable.")] = [],
    all_of: Annotated[list[str], Option("--and", help="And this; repeatable.")] = [],
    none_of: Annotated[list[str], Option("--not", help="But not this; repeatable.")] = [],
    like: Annotated[Path | None, Option(help="A photo instead of words: those that look like it.")] = None,
    since: Annotated[str | None, Option(help="First day: 2024, 2024-05 or 2024-05-01.")] = None,
    until: Annotated[str | None, Option(help="Last day.")] = None,
    folder: InFolder = None,
    min_p: Annotated[float, Option(min=0.0, max=1.0, help="Least probability.")] = 0.0,
    top: Annotated[int, Option(min=0, help="Number of photos; 0 for all.")] = 20,
    library: Library = None,
    model: Model = None,
    as_json: Annotated[bool, Option("--json", help="Print one JSON object per line, one per photo.")] = False,
    as_csv: Annotated[bool, Option("--csv", help="Print a CSV table.")] = False,
    print0: Annotated[bool, Option("--print0", help="Print paths alone, each followed by a zero byte.")] = False,
    output: _Page = None,
    show: _Open = False,
) -> None:
    """Find photos of the library by words, or by a photo that they look like; the best first."""
    with one_line_errors("search"):
        if as_json + as_csv + print0 > 1:
            raise ValueError("--json, --csv, --print0: choose one.")
        check_output(output)
        opened = unseen.PhotoLibrary.open(library)
        hits = opened.search(
            word, any_of=any_of, all_of=all_of, none_of=none_of, like=like, since=since, until=until,
            folder=folder, min_p=min_p, top=top or None, model=unseen.PhotoTagger.load(model),
        )  # fmt: skip
        if print0:
            for hit in hits:
                sys.stdout.buffer.write(os.fsencode(hit.photo.path) + b"\0")
        elif as_csv:
            table = csv.writer(sys.stdout, lineterminator="\n")
            table.writerow(("path", "p", "score", "taken"))
            for photo, score, p in hits:
                path, known = csv_cell(printable(photo.path)), "" if p is None else f"{p:.6f}"
                table.writerow((path, known, f"{score:.6f}", photo.taken or ""))
        elif as_json:
            for hit in hits:
                typer.echo(json_line(_as_json(hit)))
        else:
            console = open_console()
            for hit in hits:
                say(f"{_figures(hit)}  {hit.photo.path}", console=console)
            if not hits:
                say("No photo found.", "dim", console)
        sys.stdout.flush()
        if output is not None or show:
            more = [("or", any_of), ("and", all_of), ("not", none_of)]
            words = [str(word), *(f"{join} {other}" for join, others in more for other in others)]
            cards = [(hit.photo, _figures(hit)) for hit in hits]
            title = " ".join(words) if like is None else f"Like {like.name}"
            _show_page(opened, printable(title), [("", cards)], output, show)


def duplicates(
    library: Library = None,
    agreement: Annotated[float | None, Option(help="Least agreement, up to 1.4; 1.22 by default.")] = None,
    as_json: Annotated[
        bool, Option("--json", help="Print one JSON array of paths per line, one per group.")
    ] = False,
    output: _Page = None,
    show: _Open = False,
) -> None:
    """Find photos of the library that are the same or nearly: scaled, saved again, a little cropped."""
    with one_line_errors("duplicates"):
        check_output(output)
        opened = unseen.PhotoLibrary.open(library)
        with show_progress(Console(stderr=True)) as reporter:
            groups = opened.duplicates(agreement, progress=reporter.stage("comparing photos"))
        for number, group in enumerate(groups, start=1):
            if as_json:
                typer.echo(json_line([photo.path for photo in group]))
                continue
            say(f"{number}: {len(group)} photos", "bold")
            for photo in group:
                say(f"  {photo.width:>5} x {photo.height:<5} {photo.path}")
        if not groups and not as_json:
            say("No two photos are nearly the same.")
        if output is not None or show:
            cards = [
                (f"{len(group)} photos", [(one, f"{one.width} x {one.height}") for one in group])
                for group in groups
            ]
            _show_page(opened, "Duplicates", cards, output, show)


def review(words: Words = [], library: Library = None, model: Model = None, folder: InFolder = None) -> None:
    """Accept or reject tags that may be right, those in most doubt first; then: unseen fit -L."""
    with one_line_errors("review", "answers were kept"):
        from unseen.photos.tagger import MAYBE, SURE
        from unseen.validation import counted

        opened = unseen.PhotoLibrary.open(library)
        query = unseen.PhotoTagger.load(model).query(read_vocabulary(words))
        tagged = opened.tags(query, None, min_p=MAYBE, folder=folder)
        found = [(path, one.name, one.p or 0.0) for path, tags, *_ in tagged for one in tags]
        asked = sorted((item for item in found if item[2] < SURE), key=lambda item: abs(item[2] - 0.5))
        say(f"{counted(len(asked), 'tag')} to review. y: yes, n: no, s: skip, u: undo, o: open the photo, q: quit")
        place, answers = 0, dict[int, bool]()
        while place < len(asked):
            path, name, p = asked[place]
            say(f"{place + 1}: {path}", "bold")
            say(f"  {name}, {100 * p:.0f} %? [y/n/s/u/o/q]")
            key = _read_key()
            if key in ("", "q"):
                break
            if key == "o":
                typer.launch(path)
            elif key == "u" and place:
                place -= 1
                if answers.pop(place, None) is not None:
                    opened.correct(*asked[place][:2], None)
            elif key in ("y", "n", "s"):
                if key != "s":
                    answers[place] = key == "y"
                    opened.correct(path, name, answers[place])
                place += 1
        n_yes = sum(answers.values())
        say(f"{counted(n_yes, 'tag')} accepted, {len(answers) - n_yes:,} rejected.", "bold")
        if answers:
            say(f"Next: unseen fit -L {opened.path} -o model.safetensors")


def serve(
    library: Library = None,
    model: Model = None,
    host: Annotated[
        str, Option(help="Address to listen on; others than this machine need the token.")
    ] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, help="Port; 0 for any that is free.")] = 8420,
    name: Annotated[list[str], Option(help="Host name under which it is asked; repeatable.")] = [],
    token: Annotated[str | None, Option(envvar="UNSEEN_TOKEN", help="Secret; else one is made if needed.")] = None,
    reports: Annotated[list[Path], Option(help="Folder of unseen reproduce to show; repeatable.")] = [],
    open_page: Annotated[bool, Option("--open/--no-open", help="Show the page in a browser.")] = True,
) -> None:
    """Search, look at, correct and export photos in a browser; the API is beside the page."""
    with one_line_errors("serve", "it has ended"):
        from unseen.app import server
        from unseen.photos.storage import DATABASE, default_library

        place = library or default_library()
        opened = unseen.PhotoLibrary.open(place) if library is not None or (place / DATABASE).is_file() else None
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


def tags_in(
    library: PhotoLibrary, query: Query, top: int | None, min_p: float, folders: Sequence[str]
) -> Iterator[PhotoTags]:
    """Tags of the photos in some folders of a library, without any in all."""
    for folder in folders or (None,):
        yield from library.tags(query, top, min_p=min_p, folder=folder)


def _read_key() -> str:
    """A key typed on a terminal, or the first letter of a line of other input; "" at its end."""
    if sys.stdin.isatty():
        try:
            return str(typer.getchar()).lower()
        except EOFError:
            return ""
    line = sys.stdin.readline()
    return line.strip()[:1].lower() or line[:1]


def _print_index(made: IndexReport, library: PhotoLibrary, seconds: float, verbose: bool) -> None:
    from unseen.validation import counted

    say(f"{library.path}: {counted(made.n_photos, 'photo')}, {seconds:.1f} s.")
    names = ("new", "changed", "moved", "deleted", "unchanged")
    say("  " + ", ".join(f"{getattr(made, name):,} {name}" for name in names))
    for reason, number in made.skipped().items():
        say(f"  skipped: {counted(number, 'file')}: {reason}")
    if made.others:
        kinds = ", ".join(f"{number:,} {kind}" for kind, number in made.others.items())
        say(f"  not photos: {kinds}")
    for note in made.notes[: None if verbose else 5]:
        say(f"  note: {note}")
    if not verbose and len(made.notes) > 5:
        say(f"  and {len(made.notes) - 5:,} more notes (--verbose)")
    if verbose:
        for path, reason in made.problems:
            say(f"  {path}: {reason}")


def _figures(hit: Hit) -> str:
    return f"{hit.score:+.3f}" if hit.p is None else f"{hit.p:.3f} ({hit.score:+.2f})"


def _as_json(hit: Hit) -> dict[str, Any]:
    p = {} if hit.p is None else {"p": round(hit.p, 6)}
    known = {"width": hit.photo.width, "height": hit.photo.height, "taken": hit.photo.taken}
    return {"path": hit.photo.path, **p, "score": round(hit.score, 6), **known}


def _show_page(
    library: PhotoLibrary,
    title: str,
    groups: Sequence[tuple[str, Sequence[tuple[Photo, str]]]],
    output: Path | None,
    show: bool,
) -> None:
    """Write a page of thumbnails, and perhaps open it."""
    from unseen.templates import data_uri

    def card(photo: Photo, text: str) -> tuple[str, str, str, str]:
        path = Path(photo.path)
        taken = f", {photo.taken}" if photo.taken else ""
        jpeg = data_uri(library.thumbnail(photo) or b"")
        return jpeg, printable(path.name), printable(f"{text}{taken}, {path.parent}"), path.as_uri()

    cards = [(heading, [card(*one) for one in photos]) for heading, photos in groups]
    n_photos = sum(len(photos) for _, photos in groups)
    page = output or Path(tempfile.mkdtemp(prefix="unseen-")) / "search.html"
    subtitle = f"{n_photos:,} photo{'s' * (n_photos != 1)} of {printable(str(library.path))}"
    write_page(page, "search.html.j2", title=title, subtitle=subtitle, groups=cards)
    if show:
        webbrowser.open(page.absolute().as_uri())
