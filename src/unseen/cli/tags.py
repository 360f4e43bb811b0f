"""`unseen tags write`, `undo` and `show`: tags in sidecars or photos, for other programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

import unseen  # PhotoLibrary and PhotoTagger are loaded when they are used
from unseen.cli.labels import read_vocabulary
from unseen.cli.library import Library, Model, Words, tags_in
from unseen.cli.terminal import check_output, one_line_errors, print_table, printable, say, show_progress
from unseen.files import write_atomically
from unseen.templates import Table

if TYPE_CHECKING:
    from unseen.photos.library import PhotoLibrary
    from unseen.photos.tagger import Query
    from unseen.photos.tags import Journal, Outcome, Tags


tags_app = typer.Typer(no_args_is_help=True, help="Write tags for other programs, show them and take them back.")
_DryRun = Annotated[bool, Option("--dry-run", help="Show what would change.")]


@tags_app.command("write")
def _write(
    folders: Annotated[list[str], Argument(help="Folders of the library; without any, all.")] = [],
    words: Words = [],
    library: Library = None,
    model: Model = None,
    min_p: Annotated[float, Option(min=0.01, max=1, help="Least probability of a tag.")] = 0.8,
    dry_run: _DryRun = False,
    embed: Annotated[bool, Option("--embed", help="Let exiftool write into the photos.")] = False,
    backup: Annotated[bool, Option("--backup/--no-backup", help="With --embed: keep IMG_1.jpg_original.")] = True,
    table: Annotated[Path | None, Option("--csv", help="Write a table for exiftool instead.")] = None,
) -> None:
    """Write the sure tags of the library's photos to sidecars (IMG_1.jpg.xmp); existing ones are merged."""
    with one_line_errors("tags write", "what was written is in the journal"):
        opened = unseen.PhotoLibrary.open(library)
        query = unseen.PhotoTagger.load(model).query(read_vocabulary(words))
        if table is not None and (embed or dry_run):
            raise ValueError("--csv: nothing but the table is written. Leave out --embed and --dry-run.")
        options: dict[str, Any] = {"embed": embed, "backup": backup, "dry_run": dry_run}
        raise typer.Exit(write_library(opened, query, min_p, folders, table=table, **options))


@tags_app.command("undo")
def _undo(
    library: Library = None,
    last: Annotated[bool, Option("--last", help="Only what the last run wrote.")] = False,
    dry_run: _DryRun = False,
) -> None:
    """Take back exactly what was written; what others have written since stays."""
    with (
        one_line_errors("tags undo", "run it again to take back the rest"),
        unseen.PhotoLibrary.open(library).journal(write=not dry_run) as journal,
    ):
        raise typer.Exit(2 * bool(undo(journal, last=last, dry_run=dry_run)))


@tags_app.command("show")
def _show(library: Library = None) -> None:
    """List the tags that were written, the newest first."""
    with one_line_errors("tags show"), unseen.PhotoLibrary.open(library).journal(write=False) as journal:
        show(journal)


def write_library(
    library: PhotoLibrary,
    query: Query,
    min_p: float,
    folders: Sequence[str] = (),
    *,
    table: Path | None = None,
    **options: Any,
) -> int:
    """Write the tags of a library's photos, or a table of them; return the exit code."""
    from unseen.photos.keywords import Keyword
    from unseen.photos.tags import write_table

    if not query.gives_p or not min_p:
        raise ValueError("--min-p: it must be above 0, and the model must give probabilities.")
    parents = {tag.name: tag.parents for tag in query.vocabulary.tags} if query.vocabulary else {}
    for doubt in query.doubts.values():
        typer.echo(f"unseen tags write: {printable(doubt.sentence)}", err=True)
    tagged = (photo for photo in tags_in(library, query, None, min_p, folders) if photo.tags)
    pairs = ((path, [Keyword(tag.name, parents.get(tag.name, ())) for tag in tags]) for path, tags, *_ in tagged)
    if table is not None:
        check_output(table)

        def write_file(part: Path) -> None:
            with part.open("w", encoding="utf-8", errors="surrogateescape", newline="") as file:
                write_table(pairs, file)

        write_atomically(table, write_file)
        say(f"Table: {table}. To import it: exiftool -csv={table} -sep ', ' PHOTOS")
        return 0
    with library.journal(write=not options.get("dry_run")) as journal:
        return 2 * bool(write(pairs, journal, **options))


def write(
    pairs: Iterable[tuple[str | Path, Tags]],
    journal: Journal,
    *,
    embed: bool = False,
    backup: bool = True,
    dry_run: bool = False,
) -> int:
    """Write tags to sidecars, or into photos; print what was done and return how many photos failed."""
    from unseen.photos.exiftool import ExifTool
    from unseen.photos.tags import write_tags

    with ExifTool(backup) if embed else nullcontext() as exiftool:
        outcomes = write_tags(pairs, journal, exiftool, dry_run=dry_run)
        return _report(outcomes, "write", "+", "written", dry_run)


def undo(journal: Journal, *, last: bool = False, dry_run: bool = False) -> int:
    """Take back what was written, or the last run; print it and return how many photos failed."""
    from unseen.photos.exiftool import ExifTool
    from unseen.photos.tags import undo_tags

    needed = any(record.change.embedded for record in journal.records("done", "planned", "undoing"))
    with ExifTool() if needed and ExifTool.is_installed() else nullcontext() as exiftool:
        outcomes = undo_tags(journal, exiftool, last=last, dry_run=dry_run)
        return _report(outcomes, "undo", "-", "taken back", dry_run)


def show(journal: Journal) -> None:
    """Print what was written and not taken back, the newest first."""
    changes = [(record.time, record.change) for record in journal.records("done")]
    rows = [(one.photo, ", ".join(one.words), Path(one.target).name, time) for time, one in changes]
    if rows:
        print_table(Table("Tags written", ("photo", "tags", "file", "time"), rows))
    else:
        say("No tags were written, or all were taken back.")


def _report(outcomes: Iterator[Outcome], command: str, sign: str, done: str, dry_run: bool) -> int:
    """Print changes that would be made, or progress; in the end the numbers."""
    from unseen.validation import counted

    n_tags, photos, n_same, n_failed = 0, set[str](), 0, 0
    with nullcontext() if dry_run else show_progress() as reporter:
        step = reporter.stage(f"tags {command}") if reporter else None
        for number, (photo, change, problem) in enumerate(outcomes, start=1):
            if problem is not None:
                n_failed += 1
                typer.echo(f"unseen tags {command}: {printable(problem)}", err=True)
            elif change is None:
                n_same += 1
            else:
                n_tags += len(change.words)
                photos.add(photo)
                if dry_run:
                    say(f"{change.target}: {sign} {', '.join(change.words)}")
            if step is not None:
                step(number, None)
    what = f"{counted(n_tags, 'tag')} of {counted(len(photos), 'photo')}"
    same = f"; {counted(n_same, 'photo')} had them already" if n_same else ""
    say(f"{what} {'would be' if dry_run else 'were'} {done}{same}.", style="bold")
    return n_failed
