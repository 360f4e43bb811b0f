"""Tags for other programs: written beside photos or into them, and taken back exactly.

Every change is in a journal, with a digest of the file that it will make, before a file is touched. After a crash
the journal and the files tell which changes were made, so that the rest can be written or all taken back.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, TypeVar

from unseen.files import advice, csv_cell, part_of, read_whole, write_atomically
from unseen.photos.keywords import Keyword, embedded_keywords, find_sidecars, keywords_in
from unseen.photos.xmp import LISTS, Packet, open_packet

if TYPE_CHECKING:
    from unseen.photos.exiftool import ExifTool

__all__ = ["Change", "Journal", "Outcome", "Record", "apply", "plan_tags", "undo", "undo_tags", "write_table",
           "write_tags", "written_words"]  # fmt: skip

Tags = Iterable[str | Keyword]
Entries = Mapping[str, Sequence[str]]
_Item = TypeVar("_Item")
_BATCH = 64  # photos per commit of the journal


@dataclass(frozen=True)
class Change:
    """What is added to one file.

    ``added`` has the new entries of each list. A list that is new also gets what the photo carries elsewhere
    (``repeated``), as most programs read only one list. ``created`` names the new lists. ``before`` and ``after``
    are digests of a sidecar, "" if there is none; None for a change in the photo itself.
    """

    photo: str
    target: str
    added: dict[str, list[str]] = field(default_factory=dict)
    repeated: dict[str, list[str]] = field(default_factory=dict)
    created: list[str] = field(default_factory=list)
    before: str | None = None
    after: str | None = None

    @property
    def embedded(self) -> bool:
        """Whether the photo itself is written."""
        return self.before is None

    @property
    def words(self) -> tuple[str, ...]:
        """Names of the tags that it adds."""
        return tuple(one.name for one in keywords_in(self.added))


class Record(NamedTuple):
    """A change in a journal: planned, done, undoing or undone; ``digest`` is what its file is about to be."""

    id: int
    run: int
    time: str
    state: str
    digest: str | None
    change: Change


class Outcome(NamedTuple):
    """What was done for a photo, or why not; without a change there was nothing to do."""

    photo: str
    change: Change | None = None
    problem: str | None = None


class Journal:
    """Changes in the table ``tag_changes`` of an SQLite file; what a method wrote is safe when it returns."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        columns = "id INTEGER PRIMARY KEY, run INTEGER, time TEXT, state TEXT, digest TEXT, change TEXT"
        connection.execute(f"CREATE TABLE IF NOT EXISTS tag_changes ({columns})")
        connection.execute("CREATE INDEX IF NOT EXISTS tag_changes_state ON tag_changes (state)")

    def _commit(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> list[int]:
        if rows and not self._connection.in_transaction:
            self._connection.execute("BEGIN IMMEDIATE")
        with self._connection:
            return [self._connection.execute(statement, row).lastrowid or 0 for row in rows]

    def new_run(self) -> int:
        """Return the number of a new run of a command."""
        return int(self._connection.execute("SELECT coalesce(max(run), 0) + 1 FROM tag_changes").fetchone()[0])

    def append(self, changes: Sequence[Change], run: int) -> list[int]:
        """Record planned changes and return their ids."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        rows = [(run, now, "planned", change.after, json.dumps(vars(change))) for change in changes]
        return self._commit("INSERT INTO tag_changes VALUES (NULL, ?, ?, ?, ?, ?)", rows)

    def records(self, *states: str) -> list[Record]:
        """Return the records in these states, the newest first."""
        where = f"WHERE state IN ({', '.join('?' * len(states))}) ORDER BY id DESC"
        asked = f"SELECT * FROM tag_changes {where}"  # nosec B608
        found: Iterable[Any] = self._connection.execute(asked, states)
        return [Record(*row[:5], Change(**json.loads(row[5]))) for row in found]  # type: ignore[call-arg]

    def mark(self, states: Iterable[tuple[int, str, str | None]]) -> None:
        """Set the state and the digest of records."""
        rows = [(state, digest, number) for number, state, digest in states]
        self._commit("UPDATE tag_changes SET state = ?, digest = ? WHERE id = ?", rows)


def plan_tags(photo: str | Path, tags: Tags) -> Change:
    """Return what would be added to the sidecar of a photo; ``added`` is empty if it has the tags already.

    The sidecar is ``IMG_1.jpg.xmp`` or ``IMG_1.xmp``, if one exists, else a new ``IMG_1.jpg.xmp``.
    """
    path = Path(os.path.abspath(photo))  # noqa: PTH100 (links stay as they are)
    if not path.is_file():
        raise FileNotFoundError(f"photo: there is no file {str(photo)!r}.")
    sidecars = find_sidecars(path)
    target, packet = sidecars[0] if sidecars else (path.with_name(f"{path.name}.xmp"), Packet())
    carried = [keyword for _, one in sidecars for keyword in keywords_in(one.entries)]
    if not all(packet.entries.get(name) for name in LISTS):
        carried += embedded_keywords(path)
    added, repeated, created = missing_entries(tags, packet.entries, carried, LISTS)
    if not packet.has_description:
        created.append("rdf:Description")
    before = _digest(packet.content) if sidecars else ""
    after = _digest(packet.with_entries(joined(repeated, added))) if added else before
    return Change(str(path), str(target), added, repeated, created, before, after)


def missing_entries(
    tags: Tags, entries: Entries, carried: Sequence[Keyword], names: Iterable[str]
) -> tuple[dict[str, list[str]], dict[str, list[str]], list[str]]:
    """Return the entries to add to each list, the ones to repeat in new lists, and the names of those."""
    wanted = {one.key: one for one in map(Keyword.checked, tags)}
    others = {one.key: one for one in carried}
    added, repeated = dict[str, list[str]](), dict[str, list[str]]()
    for name in names:
        separator = LISTS[name].separator if name in LISTS else None
        known = {Keyword.read(entry, separator).key for entry in entries.get(name, ())}
        if new := [one.written(separator) for key, one in wanted.items() if key not in (known or others)]:
            added[name] = new
            repeated[name] = [] if known else [one.written(separator) for one in others.values()]
    return added, repeated, [name for name in added if name not in entries]


def joined(first: Entries, second: Entries) -> dict[str, list[str]]:
    """Return the entries of two mappings, for the lists in the second."""
    return {name: [*first.get(name, ()), *entries] for name, entries in second.items()}


def apply(change: Change) -> None:
    """Write a planned change to a sidecar that is still as it was when the change was planned."""
    content = _read(change.target)
    if _digest(content) != change.before:
        raise ValueError(f"photo: {change.target!r} was changed by another program meanwhile. Run it again.")
    packet = open_packet(content, change.target) if content else Packet()
    _write(change.target, packet.with_entries(joined(change.repeated, change.added)))


def undo(change: Change) -> None:
    """Take a change out of a sidecar; what others wrote stays, and a new sidecar with nothing else is deleted."""
    _write(change.target, _undone(change))


def _undone(change: Change) -> bytes:
    """Return a sidecar without the change; nothing if it is to be deleted."""
    if not (content := _read(change.target)):
        return b""
    packet = open_packet(content, change.target)
    result = packet.without_entries(change.added, change.repeated, change.created)
    return b"" if change.before == "" and Packet(result).is_bare else result


def _read(path: str) -> bytes:
    if os.path.islink(path) and not os.path.exists(path):  # noqa: PTH110, PTH114
        raise OSError(f"photo: {path!r} is a link to a file that does not exist. Remove it.")
    try:
        return read_whole(path)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise OSError(f"photo: {path!r} cannot be read ({error.strerror or error}). Move it away.") from error


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest() if content else ""


def _write(target: str, content: bytes) -> None:
    """Write a sidecar, or delete it without content; its mode and owner stay, and links stay links."""
    path = Path(os.path.realpath(target))

    def write(part: Path) -> None:
        part.write_bytes(content)
        with suppress(OSError, AttributeError):  # a new file; not the owner; Windows
            shutil.copymode(path, part)
            os.chown(part, path.stat().st_uid, path.stat().st_gid)

    try:
        if content:
            write_atomically(path, write, alone=True)  # the journal is open
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        cause = error.__cause__ if isinstance(error.__cause__, OSError) else error
        todo = advice(cause, "Make the folder writable, or write a table with --csv.")
        raise OSError(f"photo: its sidecar {str(path)!r} cannot be written ({cause}). {todo}") from error


def write_tags(
    pairs: Iterable[tuple[str | Path, Tags]],
    journal: Journal,
    exiftool: ExifTool | None = None,
    *,
    dry_run: bool = False,
) -> Iterator[Outcome]:
    """Write tags to the sidecars of photos, or with exiftool into them, and yield what was done for each.

    Changes that an earlier run left half done are settled first. A photo that fails does not stop the others. Only
    one process may use a journal at a time.
    """
    if not dry_run:
        _settle(journal, exiftool)
    run = journal.new_run()
    plan, make = (plan_tags, apply) if exiftool is None else (exiftool.plan, exiftool.apply)
    for batch in _batches(pairs, lambda pair: os.path.splitext(os.path.abspath(pair[0]))[0]):  # noqa: PTH100, PTH122
        changes = []
        for photo, tags in batch:
            try:
                change = plan(photo, tags)
            except (OSError, ValueError) as error:
                yield Outcome(str(photo), problem=str(error))
                continue
            if change.added and not dry_run:
                changes.append(change)
            else:
                yield Outcome(change.photo, change if change.added else None)
        yield from _make(journal, list(zip(journal.append(changes, run), changes, strict=True)), make, "done")


def undo_tags(
    journal: Journal, exiftool: ExifTool | None = None, *, last: bool = False, dry_run: bool = False
) -> Iterator[Outcome]:
    """Take back all that `write_tags` wrote, or its last run, the newest first; in photos this needs exiftool."""
    if not dry_run:
        _settle(journal, exiftool)
    records = journal.records("done")
    records = [record for record in records if not last or record.run == records[0].run]
    for batch in _batches(records, lambda record: record.change.target):
        changes, marks = list[tuple[int, Change]](), list[tuple[int, str, str | None]]()
        for number, _, _, _, _, change in batch:
            try:
                marks.append((number, "undoing", None if change.embedded else _digest(_undone(change))))
                changes.append((number, change))
            except (OSError, ValueError) as error:
                yield Outcome(change.photo, change, str(error))
        if dry_run:
            yield from (Outcome(change.photo, change) for _, change in changes)
        else:
            journal.mark(marks)
            yield from _make(journal, changes, partial(_undo_any, exiftool=exiftool), "undone")


def _undo_any(change: Change, exiftool: ExifTool | None) -> None:
    if not change.embedded:
        undo(change)
    elif exiftool is None:
        raise OSError(f"exiftool: it wrote into {change.photo!r}, but is not installed now. Install it.")
    elif os.path.exists(change.target):  # noqa: PTH110
        exiftool.undo(change)


def _make(
    journal: Journal, changes: Sequence[tuple[int, Change]], make: Callable[[Change], None], state: str
) -> Iterator[Outcome]:
    """Make changes that are in the journal, and mark what became of them."""
    marks, outcomes = list[tuple[int, str, None]](), list[Outcome]()
    for number, change in changes:
        try:
            make(change)
            marks.append((number, state, None))
            outcomes.append(Outcome(change.photo, change))
        except (OSError, ValueError) as error:
            marks.append((number, "undone" if state == "done" else "done", None))
            outcomes.append(Outcome(change.photo, change, str(error)))
    journal.mark(marks)
    yield from outcomes


def _batches(items: Iterable[_Item], key: Callable[[_Item], str]) -> Iterator[list[_Item]]:
    """Yield short lists of items without a key twice: a file is changed once per commit."""
    batch: dict[str, _Item] = {}
    for item in items:
        if key(item) in batch or len(batch) == _BATCH:
            yield list(batch.values())
            batch = {}
        batch[key(item)] = item
    yield list(batch.values())


def _settle(journal: Journal, exiftool: ExifTool | None) -> None:
    """Mark what an interrupted run has written, and not, by the look of the files."""
    marks = []
    for record in journal.records("planned", "undoing"):
        if record.change.embedded and exiftool is None:
            continue  # until there is one again
        if not record.change.embedded:
            part_of(Path(os.path.realpath(record.change.target))).unlink(missing_ok=True)
        marks.append((record.id, "done" if _is_made(record, exiftool) else "undone", None))
    journal.mark(marks)


def _is_made(record: Record, exiftool: ExifTool | None) -> bool:
    """Whether a file has the change of an unfinished record."""
    change, was_planned = record.change, record.state == "planned"
    try:
        if exiftool is not None and change.embedded:
            entries = exiftool.entries(change.target)
        else:
            content = _read(change.target)
            if (digest := _digest(content)) in (record.digest, change.before):
                return was_planned and digest == record.digest
            entries = Packet(content, change.target).entries
    except (OSError, ValueError):  # undo will say what is wrong
        return not was_planned
    # Another program has written since. It does not write all our entries by chance, but may take some out.
    there = [entry in entries.get(name, ()) for name, new in change.added.items() for entry in new]
    return all(there) if was_planned else any(there)


def written_words(journal: Journal) -> dict[str, set[str]]:
    """Return the words written for each photo and not taken back, which are not annotations by a person."""
    words: dict[str, set[str]] = {}
    for record in journal.records("done", "planned", "undoing"):
        words.setdefault(record.change.photo, set()).update(record.change.words)
    return words


def write_table(pairs: Iterable[tuple[str | Path, Tags]], file: IO[str], separator: str = ", ") -> None:
    """Write a table for ``exiftool -csv=FILE -sep ", " PHOTOS``: paths and tags, nothing else that is known."""
    table = csv.writer(file, lineterminator="\n")
    table.writerow(("SourceFile", "Subject", "HierarchicalSubject"))
    for photo, tags in pairs:
        keywords = [Keyword.checked(tag) for tag in tags]
        for word in {word for one in keywords for word in (*one.parents, one.name) if separator.strip() in word}:
            raise ValueError(f"tags: {word!r} contains the separator {separator!r}. Pass another separator.")
        path = os.path.join(".", photo)  # noqa: PTH118 (a name may begin with -; an absolute path stays)
        lists = (separator.join(one.written(mark) for one in keywords) for mark in (None, "|"))
        table.writerow(map(csv_cell, (path, *lists)))
