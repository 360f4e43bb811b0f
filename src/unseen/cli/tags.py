"""`unseen tags write`, `undo` and `show`: tags in sidecars or photos, for other programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from unseen.cli.terminal import print_table, printable, say, show_progress
from unseen.templates import Table

if TYPE_CHECKING:
    from unseen.photos.tags import Journal, Outcome, Tags


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
