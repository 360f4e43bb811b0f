"""Writing a photo library: folders are compared with what is known, new and changed photos are described.

Nothing is lost when the process is killed. A block of photos counts as soon as it is committed: first the rows of
its features are on disk, then its thumbnails, then one transaction makes it visible to readers. The next run does
the rest.
"""

import hashlib
import io
import os
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing, suppress
from functools import partial
from math import ceil
from pathlib import Path
from typing import NamedTuple

import numpy as np

from unseen.files import expanded, regular
from unseen.images.backbones import Backbone, open_backbone
from unseen.images.features import REDUCED, in_threads
from unseen.images.preprocessing import prepare, shorter_side
from unseen.images.reading import IMAGE_SUFFIXES, Problem, UnreadableImage, open_image
from unseen.photos import storage
from unseen.photos.library import PhotoLibrary
from unseen.photos.storage import Rows
from unseen.validation import check_choice, check_count

THUMBNAIL = 320  # pixels of the longer side, at most; photos are reduced by a whole number
_BLOCK, _SECONDS = 128, 5.0  # photos and seconds between two commits: the most that a killed run repeats
_MOST_DEAD = 0.25  # share of the rows; above it the files of the rows are written anew
_FEW = 1000  # dead rows that never matter
Stamp = tuple[int, int]  # bytes, and time of change in nanoseconds
Progress = Callable[[int, int, int], object]  # photos done, in all, and skipped


class File(NamedTuple):
    """A file to describe: its folder, its path in there and in the system, and its stamp."""

    root: int
    path: str
    place: str
    stamp: Stamp


class Described(NamedTuple):
    """What was found in a file: a known image has nothing but its digest, an unreadable one a problem."""

    file: File
    digest: bytes | None = None
    problem: str | None = None
    features: Rows | None = None
    classes: Rows | None = None
    facts: tuple[int, int, str | None, str | None] | None = None  # width, height, taken, note
    thumbnail: bytes = b""


class IndexReport(NamedTuple):
    """What `PhotoLibrary.index` did."""

    n_photos: int  # in the library
    new: int
    changed: int
    moved: int
    deleted: int
    unchanged: int
    problems: tuple[Problem, ...]  # photos that cannot be read, and folders
    others: dict[str, int]  # files that are not photos, by suffix
    notes: tuple[str, ...]  # damaged photos, and folders that are kept although they are not there

    def skipped(self) -> dict[str, int]:
        """Number of files that could not be read, by reason."""
        reasons = (problem.reason.partition(" (")[0] for problem in self.problems)  # without details
        return dict(Counter(reasons).most_common())


def index_folders(
    library: PhotoLibrary,
    folders: Iterable[str | Path] = (),
    *,
    jobs: int | None = None,
    wait: bool = True,
    backbone: Backbone | None = None,
    forget: Iterable[str | Path] = (),
    engine: str = "local",
    progress: Progress | None = None,
) -> IndexReport:
    """Add the photos of folders to a library, and bring what is known of them up to date.

    A file with the same size and time of change is not read. A file whose content is known, because it was moved,
    copied or only touched, is read but not described again. Photos that are gone are dropped, unless their whole
    folder cannot be found or is empty: that may be a disk that is not connected.

    Parameters
    ----------
    library : PhotoLibrary
    folders : iterable of paths
        By default all that the library has. A folder in another one of the library is looked at alone.
    jobs : int, optional
        Threads; by default one per core.
    wait : bool, default=True
        Wait for another process that is writing to the library; else that is an error.
    backbone : Backbone, optional
        That of the library, if it is open already.
    forget : iterable of paths
        Folders that were indexed, to be dropped whether they are still there or not.
    engine : {"local", "dask"}, default="local"
        With "dask" photos are described on the workers of the current Dask client, which see them under the same
        paths; this process writes the library.
    progress : callable, optional
        Called as ``progress(done, total, skipped)``, in photos.
    """
    check_choice(engine, "engine", ("local", "dask"))
    if jobs is not None:
        check_count(jobs, "jobs")
    given, dropped = ([Path(os.path.abspath(expanded(folder))) for folder in some]  # noqa: PTH100
                      for some in (folders, forget))  # fmt: skip
    for folder in given:
        if not folder.is_dir():
            raise ValueError(f"folders: there is no folder {str(folder)!r}. Pass folders of photos.")
    with storage.connect_alone(library.path, wait=wait) as (db, thumbnails):
        writer = _Writer(library, db, thumbnails)
        with storage.transaction(db):
            for folder in dropped:
                writer.counts["deleted"] += storage.forget_roots(db, library.path, folder)
            places = storage.add_roots(db, library.path, given)
        scans = [_scan(*place, library.path) for place in places]
        work: list[File] = []
        for scan in scans:
            work += writer.compare(scan)
        if work:
            backbone = backbone or open_backbone(library.settings["backbone"], n_threads=1)
            if backbone.fingerprint != library.settings["fingerprint"]:
                raise ValueError(
                    f"backbone: {backbone.name!r} has other weights or preprocessing than when the library was "
                    f"made. Make a new one."
                )
            known = {digest for (digest,) in db.execute("SELECT digest FROM images")}
            if engine == "dask":
                from unseen.cluster.extract import describe_on_cluster

                described = describe_on_cluster(work, backbone.name, known)
            else:
                described = in_threads(partial(describe_file, backbone=backbone, known=known), work, jobs)
            writer.describe(described, len(work), progress)
        writer.drop_orphans()
        return writer.report(scans)


class _Scan(NamedTuple):
    """Photos in a folder of the library, or in a part of it."""

    root: int
    folder: Path
    inside: str  # the part, as a prefix of the paths: "" or "2024/"
    stamps: dict[str, Stamp]
    others: Counter[str]
    unreadable: list[Problem]
    is_missing: bool


def _scan(root: int, folder: Path, inside: str, library: Path) -> _Scan:
    stamps: dict[str, Stamp] = {}
    others: Counter[str] = Counter()
    unreadable: list[Problem] = []
    waiting = [inside.rstrip("/")]
    while waiting:
        part = waiting.pop()
        place = os.path.join(folder, *part.split("/")) if part else os.fspath(folder)  # noqa: PTH118
        try:
            with os.scandir(place) as entries:
                for entry in entries:
                    if entry.name.startswith("."):
                        continue
                    path = f"{part}/{entry.name}" if part else entry.name
                    if entry.is_dir(follow_symlinks=False):
                        if entry.path != os.fspath(library):
                            waiting.append(path)
                    elif entry.name.lower().endswith(IMAGE_SUFFIXES):
                        try:
                            status = entry.stat()
                            stamps[path] = status.st_size, status.st_mtime_ns
                        except OSError:  # or deleted just now
                            others["broken link"] += 1
                    else:
                        others[os.path.splitext(entry.name)[1].lower() or "without suffix"] += 1  # noqa: PTH122
        except OSError as error:
            unreadable.append(Problem(place, f"the folder cannot be read ({error.strerror})"))
    is_missing = not stamps and not others and (not folder.is_dir() or not inside)
    return _Scan(root, folder, inside, stamps, others, unreadable, is_missing)


class _Writer:
    """One run over a library: the only process that writes."""

    def __init__(self, library: PhotoLibrary, db: sqlite3.Connection, thumbnails: sqlite3.Connection) -> None:
        self.library, self.db, self.thumbnails = library, db, thumbnails
        self.counts: Counter[str] = Counter()
        self.notes: list[str] = []
        facts = dict(db.execute("SELECT key, value FROM settings"))
        self.generation, self.n_rows = facts["generation"], facts["n_rows"]
        self.widths = {
            name: storage.HEAD + facts[f"n_{name}"] for name in ("features", "classes") if facts[f"n_{name}"]
        }
        for file in library.path.glob("*.bin"):  # of a run that was killed while it wrote the files anew
            if file.name not in (self._rows_file(name).name for name in self.widths):
                file.unlink()

    def _rows_file(self, name: str, generation: int | None = None) -> Path:
        return self.library.path / f"{name}.{generation or self.generation}.bin"

    def compare(self, scan: _Scan) -> list[File]:
        """Forget the files that are gone; return those that are new or have changed."""
        asked = "SELECT path, size, changed, problem FROM files WHERE root = ?"
        known: dict[str, Stamp] = {}
        n_problems = 0
        for path, size, changed, problem in self.db.execute(asked, (scan.root,)):
            if path.startswith(scan.inside):
                known[path] = size, changed
                n_problems += problem is not None and scan.stamps.get(path) == (size, changed)
        if scan.is_missing and known:
            self.notes.append(f"{scan.folder}: not found, or empty; its {len(known):,} photos are kept")
            self.counts["unchanged"] += len(known) - n_problems
            return []
        hidden = tuple(f"{os.path.relpath(place, scan.folder)}/" for place, _ in scan.unreadable)
        gone = [path for path in known.keys() - scan.stamps.keys() if not path.startswith(hidden)]
        with storage.transaction(self.db):
            asked = "DELETE FROM files WHERE root = ? AND path = CAST(? AS TEXT)"
            self.db.executemany(asked, ((scan.root, os.fsencode(path)) for path in gone))
        self.counts["deleted"] += len(gone)
        work = [
            File(scan.root, path, os.path.join(scan.folder, *path.split("/")), stamp)  # noqa: PTH118
            for path, stamp in sorted(scan.stamps.items())
            if known.get(path) != stamp
        ]
        self.counts["unchanged"] += len(scan.stamps) - len(work) - n_problems
        return work

    def describe(
        self, described: Generator[Described, None, None], n_files: int, progress: Progress | None
    ) -> None:
        """Commit what is found in files, block by block."""
        report = progress or (lambda done, total, skipped: None)
        block: list[Described] = []
        skipped, committed = 0, time.monotonic()
        report(0, n_files, 0)
        try:
            with closing(described) as outcomes:
                for done, found in enumerate(outcomes, start=1):
                    block.append(found)
                    skipped += found.problem is not None
                    if len(block) >= _BLOCK or time.monotonic() - committed > _SECONDS:
                        full, block = block, []
                        self.commit(full)
                        committed = time.monotonic()
                    report(done, n_files, skipped)
        finally:  # finished photos are kept, whatever the reason for stopping
            self.commit(block)

    def commit(self, block: Sequence[Described]) -> None:
        """Write the rows of new images, then their thumbnails, then make them visible."""
        if not block:
            return
        fresh: dict[bytes, Described] = {}
        for found in block:
            if found.digest is not None and found.features is not None and self._image(found.digest) is None:
                fresh.setdefault(found.digest, found)
        for name, width in self.widths.items():
            data = b"".join(getattr(found, name).tobytes() for found in fresh.values())
            storage.write_at(self._rows_file(name), self.n_rows * width, data)
        with storage.transaction(self.thumbnails):
            pictures = ((digest, found.thumbnail) for digest, found in fresh.items())
            self.thumbnails.executemany("INSERT OR REPLACE INTO thumbnails VALUES (?, ?)", pictures)
        counts: Counter[str] = Counter()
        with storage.transaction(self.db):
            asked = "INSERT INTO images (digest, row, width, height, taken, note) VALUES (?, ?, ?, ?, ?, ?)"
            rows = (
                (digest, self.n_rows + i, *(found.facts or ())) for i, (digest, found) in enumerate(fresh.items())
            )
            self.db.executemany(asked, rows)
            for found in block:
                counts[self._record(found)] += 1
            self.db.execute("UPDATE settings SET value = ? WHERE key = 'n_rows'", (self.n_rows + len(fresh),))
        self.n_rows += len(fresh)
        self.counts += counts
        self.counts["deleted"] = max(0, self.counts["deleted"] - counts["moved"])

    def _image(self, digest: bytes) -> int | None:
        found = self.db.execute("SELECT id FROM images WHERE digest = ?", (digest,)).fetchone()
        return None if found is None else int(found[0])

    def _record(self, found: Described) -> str:
        """Write what was found in a file; returns whether it is new, changed, moved, unchanged or unreadable."""
        file, key = found.file, (found.file.root, os.fsencode(found.file.path))
        image = None if found.digest is None else self._image(found.digest)
        asked = "SELECT image FROM files WHERE root = ? AND path = CAST(? AS TEXT)"
        before = self.db.execute(asked, key).fetchone()
        if found.problem is not None:
            kind = "skipped"
        elif before is not None:
            kind = "unchanged" if before[0] == image else "changed"
        else:
            is_known = found.features is None
            held = self.db.execute("SELECT 1 FROM files WHERE image = ? LIMIT 1", (image,)).fetchone()
            kind = "moved" if is_known and held is None else "new"
        is_final = found.problem is None or "pip install" not in found.problem  # else it is tried again
        asked = "INSERT OR REPLACE INTO files (root, path, size, changed, image, problem)"
        values = (*key, *(file.stamp if is_final else (-1, 0)), image, found.problem)
        self.db.execute(f"{asked} VALUES (?, CAST(? AS TEXT), ?, ?, ?, ?)", values)
        if kind == "changed":
            self._keep_answers(before[0], image)
        return kind

    def _keep_answers(self, *images: int | None) -> None:
        """Keep answers for the new content of a file that looks the same: its keywords changed, not its pixels."""
        asked = "SELECT digest, row FROM images WHERE id = ?"
        found = [self.db.execute(asked, (image,)).fetchone() for image in images]
        if None not in found:
            (old, *_), (new, *_) = found
            width = self.widths["features"]
            with self._rows_file("features").open("rb") as file:
                if len({os.pread(file.fileno(), width, row * width) for _, row in found}) == 1:
                    asked = "SELECT ?, key, word, verdict, time FROM corrections WHERE digest = ?"
                    self.db.execute(f"INSERT OR IGNORE INTO corrections {asked}", (new, old))

    def drop_orphans(self) -> None:
        """Forget images that no file holds any more; write the files of the rows anew if many are dead."""
        orphans = self.db.execute(
            "SELECT id, row, digest FROM images WHERE NOT EXISTS (SELECT 1 FROM files WHERE image = images.id)"
        ).fetchall()
        with storage.transaction(self.db):
            self.db.executemany("DELETE FROM images WHERE id = ?", ((key,) for key, _, _ in orphans))
            self.db.executemany("INSERT INTO dead_rows VALUES (?)", ((row,) for _, row, _ in orphans))
        with storage.transaction(self.thumbnails):
            self.thumbnails.executemany("DELETE FROM thumbnails WHERE digest = ?", ((d,) for _, _, d in orphans))
        (n_dead,) = self.db.execute("SELECT count(*) FROM dead_rows").fetchone()
        if n_dead > max(_FEW, _MOST_DEAD * self.n_rows):
            self.compact()

    def compact(self) -> None:
        """Copy the living rows to new files, then switch to these."""
        old, new = self.generation, self.generation + 1
        living = self.db.execute("SELECT row, id FROM images ORDER BY row").fetchall()
        rows = np.array([row for row, _ in living], dtype=np.intp)
        for name, width in self.widths.items():
            stored = np.memmap(self._rows_file(name), dtype=np.uint8, mode="r", shape=(self.n_rows, width))
            self._rows_file(name, new).unlink(missing_ok=True)
            for start in range(0, len(rows), 4096):
                storage.write_at(
                    self._rows_file(name, new), start * width, stored[rows[start : start + 4096]].tobytes()
                )
        with storage.transaction(self.db):
            places = ((row, key) for row, (_, key) in enumerate(living))
            self.db.executemany("UPDATE images SET row = ? WHERE id = ?", places)
            self.db.execute("DELETE FROM dead_rows")
            facts = ((new, "generation"), (len(living), "n_rows"))
            self.db.executemany("UPDATE settings SET value = ? WHERE key = ?", facts)
        self.generation, self.n_rows = new, len(living)
        for name in self.widths:
            with suppress(OSError):  # a reader on Windows has it open: the next run removes it
                self._rows_file(name, old).unlink()

    def report(self, scans: Sequence[_Scan]) -> IndexReport:
        """Sum up what was done and what was found."""
        others: Counter[str] = Counter()
        problems: list[Problem] = []
        roots = storage.locate_roots(self.db, self.library.path)
        for scan in scans:
            others += scan.others
            problems += scan.unreadable
        for root, path, problem in self.db.execute(
            "SELECT root, path, problem FROM files WHERE problem IS NOT NULL"
        ):
            problems.append(Problem(str(roots[root] / path), problem))
        asked = "SELECT root, path, note FROM files JOIN images ON images.id = image WHERE note IS NOT NULL"
        notes = [f"{roots[root] / path}: {note}" for root, path, note in self.db.execute(asked)]
        (n_photos,) = self.db.execute("SELECT count(*) FROM files WHERE image IS NOT NULL").fetchone()
        names = ("new", "changed", "moved", "deleted", "unchanged")
        counts = {name: self.counts[name] for name in names}
        return IndexReport(n_photos, **counts, problems=tuple(problems), others=dict(others.most_common()),
                           notes=(*self.notes, *notes))  # fmt: skip


def describe_file(file: File, backbone: Backbone, known: set[bytes]) -> Described:
    """Read and describe one file, unless its content is known."""
    try:
        with regular(file.place).open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").digest()
        if digest in known:
            return Described(file, digest)
        with open_image(file.place, max(REDUCED * shorter_side(backbone.preprocessing), 2 * THUMBNAIL)) as opened:
            row = prepare(opened.pixels, backbone.preprocessing)
            jpeg = io.BytesIO()
            small = opened.pixels.reduce(ceil(max(opened.pixels.size) / THUMBNAIL))
            small.save(jpeg, "JPEG", quality=80)
            facts = (*opened.size, opened.taken, opened.note)
    except UnreadableImage as error:
        return Described(file, problem=error.reason)
    except OSError as error:
        return Described(file, problem=error.strerror or str(error))
    features, logits = backbone.describe(row[None])
    classes = None if logits is None else storage.encode_rows(logits)
    return Described(file, digest, None, storage.encode_rows(features), classes, facts, jpeg.getvalue())
