"""Files of a photo library: the database, and rows of numbers of one byte each.

A library is a folder:

- ``library.sqlite``: the folders, the files in them, and the images these hold (copies of a file are one image).
- ``features.N.bin``, ``classes.N.bin``: one row per image. Rows are only ever appended; they count once the
  database says so. Images that are gone leave dead rows; when there are many, the living ones are copied to files
  with the next number N.
- ``thumbnails.sqlite``: small pictures, by the digest of the image.

A row holds three float32 numbers (``step``, ``low`` and the length of the row) and one code per column:
``x = low + step * code``.
"""

import json
import os
import re
import sqlite3
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unseen.files import expanded, locked, writing
from unseen.images.backbones import Backbone
from unseen.photos.tags import Journal
from unseen.validation import counted

FORMAT = 1
HEAD = 12  # bytes before the codes of a row
DATABASE, THUMBNAILS, LOCK = "library.sqlite", "thumbnails.sqlite", ".lock"
Rows = NDArray[np.uint8]  # (n, HEAD + n_columns)
_PHOTOS = """SELECT images.row, files.root, files.path, images.digest, images.width, images.height, images.taken,
    images.note FROM files JOIN images ON images.id = files.image"""
_IN_ORDER = "ORDER BY files.root, files.path"
# Paths are written as CAST(? AS TEXT) of their bytes: names that are not valid UTF-8 stay as they are.


def encode_rows(values: NDArray[Any]) -> Rows:
    """Rows of numbers as they are stored: 255 equal steps from the smallest to the largest of each row."""
    values = np.asarray(values, dtype=np.float32)
    low = values.min(axis=1, keepdims=True)
    step = (values.max(axis=1, keepdims=True) - low) / np.float32(255.0)
    codes = np.rint((values - low) / np.where(step > 0.0, step, np.float32(1.0)))
    lengths = np.linalg.norm(low + step * codes, axis=1, keepdims=True)
    head = np.hstack([step, low, np.where(lengths > 0.0, lengths, 1.0)]).astype("<f4")
    return np.hstack([head.view(np.uint8), codes.astype(np.uint8)])


def decode_rows(rows: Rows) -> NDArray[np.float32]:
    """Numbers of stored rows."""
    head = np.ascontiguousarray(rows[:, :HEAD]).view("<f4")
    values = rows[:, HEAD:].astype(np.float32)
    values *= head[:, :1]
    values += head[:, 1:2]
    return values


def map_rows(path: Path, n_rows: int, n_columns: int) -> Rows | None:
    """Map the rows of a file into memory, None without columns; a file that is still growing may be longer."""
    if not n_columns:
        return None
    if not n_rows:
        return np.empty((0, HEAD + n_columns), dtype=np.uint8)
    return np.asarray(np.memmap(path, dtype=np.uint8, mode="r", shape=(n_rows, HEAD + n_columns)))


def write_at(path: Path, offset: int, data: bytes) -> None:
    """Write bytes to a file and wait until they are on disk."""
    with path.open("r+b" if path.exists() else "wb") as file:
        file.seek(offset)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def default_library() -> Path:
    """Folder of the library that is used where none is named."""
    from platformdirs import user_data_path

    named = os.environ.get("UNSEEN_LIBRARY")
    return expanded(named).absolute() if named else user_data_path("unseen", appauthor=False) / "library"


def connect(path: Path, *, write: bool = False) -> sqlite3.Connection:
    """Connection to a database, without implicit transactions."""
    mode = "rwc" if write else "ro" if os.access(path.parent, os.W_OK) else "ro&immutable=1"  # a read-only disk
    db = sqlite3.connect(f"{path.as_uri()}?mode={mode}", uri=True, timeout=60.0, isolation_level=None)
    db.text_factory = os.fsdecode
    if write:
        db.execute("PRAGMA synchronous = NORMAL")
    return db


@contextmanager
def connect_alone(folder: Path, *, wait: bool) -> Iterator[tuple[sqlite3.Connection, sqlite3.Connection]]:
    """Connections of the only writer to the database and the thumbnails; another one waits, or gets an error."""
    if wait:
        try:
            with locked(folder / LOCK, wait=False):
                pass
        except OSError:
            warnings.warn("library: another process is writing to it; waiting for it to end.", stacklevel=5)
    with (
        locked(folder / LOCK, wait=wait, argument="library"),
        closing(connect(folder / DATABASE, write=True)) as db,
        closing(connect(folder / THUMBNAILS, write=True)) as thumbnails,
    ):
        yield db, thumbnails


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """All statements of a block, or none."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        with suppress(sqlite3.Error):  # a full disk may have rolled it back already
            db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


@contextmanager
def sqlite_errors(folder: Path) -> Iterator[None]:
    """Turn errors of SQLite, and that of a full disk, into an OSError that names the library."""
    try:
        with writing(folder, "library"):
            yield
    except sqlite3.Error as error:
        found = f"library: {str(folder)!r} cannot be used ({error})"
        raise OSError(f"{found}. Check the disk and the folder.") from error


def create_library(folder: Path, backbone: Backbone) -> None:
    """Make an empty library, unless another process just made one."""
    side = backbone.preprocessing.size
    features, classes = backbone.describe(np.zeros((0, 3, side, side), dtype=np.float32))
    settings = {
        "backbone": backbone.name,
        "fingerprint": backbone.fingerprint,
        "n_features": features.shape[1],
        "n_classes": 0 if classes is None else classes.shape[1],
        "generation": 1,
        "n_rows": 0,
    }
    with locked(folder / LOCK, argument="library"):
        if (folder / DATABASE).is_file():
            return
        if any(not item.name.startswith((".", THUMBNAILS)) for item in folder.iterdir()):
            raise OSError(f"library: {str(folder)!r} holds other files. Pass a new or an empty folder.")
        with closing(connect(folder / THUMBNAILS, write=True)) as db:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("CREATE TABLE IF NOT EXISTS thumbnails (digest BLOB PRIMARY KEY, jpeg BLOB)")
        draft = folder / ".draft.sqlite"
        draft.unlink(missing_ok=True)
        with closing(connect(draft, write=True)) as db:
            db.execute("PRAGMA journal_mode = WAL")
            db.executescript(files("unseen.photos").joinpath("data/library.sql").read_text(encoding="utf-8"))
            db.execute(f"PRAGMA user_version = {FORMAT}")
            db.executemany("INSERT INTO settings VALUES (?, ?)", settings.items())
            Journal(db)
        draft.replace(folder / DATABASE)  # its log was merged when it was closed


def read_settings(db: sqlite3.Connection, folder: Path) -> dict[str, Any]:
    """Settings of a library, which has all of them unless it is damaged."""
    found = dict(db.execute("SELECT key, value FROM settings"))
    numbers = [found.get(name) for name in ("n_features", "n_classes", "generation", "n_rows")]
    names = [found.get(name) for name in ("backbone", "fingerprint")]
    are_numbers = all(isinstance(one, int) and one >= 0 for one in numbers)
    if not (are_numbers and all(isinstance(one, str) for one in names)):
        raise OSError(f"library: {str(folder)!r} is damaged. Copy the whole folder again, or make a new library.")
    return found


class Photo(NamedTuple):
    """A file of the library, and what is known of it; ``digest`` is the SHA-256 of its content."""

    path: str
    digest: str
    width: int
    height: int
    taken: str | None  # local date and time, "2024-05-01 12:30:00"
    note: str | None  # what is missing of a damaged photo


class Correction(NamedTuple):
    """Whether a photo shows what a word means, as a person said; ``digest`` is that of the photo."""

    digest: str
    word: str
    verdict: bool
    time: str  # UTC


class Snapshot(NamedTuple):
    """The library as it was at one moment: a read transaction, and the rows it knows of."""

    db: sqlite3.Connection
    features: Rows
    classes: Rows | None
    dead: NDArray[np.intp]
    roots: dict[int, str]
    files: tuple[Path, Path]  # of the rows

    def photos(self, condition: str = "", values: Sequence[Any] = ()) -> Iterator[tuple[int, Photo]]:
        """Row and facts of photos, in the order of their paths."""
        where = f"WHERE {condition}" if condition else ""
        for row, root, path, digest, *facts in self.db.execute(f"{_PHOTOS} {where} {_IN_ORDER}", values):
            yield row, Photo(os.path.join(self.roots[root], *path.split("/")), digest.hex(), *facts)  # noqa: PTH118

    def copies(
        self, rows: Sequence[int], condition: str = "", values: Sequence[Any] = ()
    ) -> dict[int, list[Photo]]:
        """Photos of some rows that fulfil a condition, by row."""
        found: dict[int, list[Photo]] = {}
        among = " AND ".join(filter(None, (condition, "images.row IN (SELECT value FROM json_each(?))")))
        for row, photo in self.photos(among, [*values, json.dumps(rows)]):
            found.setdefault(row, []).append(photo)
        return found

    def rows(self, condition: str = "", values: Sequence[Any] = ()) -> NDArray[np.bool_]:
        """Mask of the rows of photos; those of the dead are never wanted."""
        wanted = np.full(len(self.features), not condition)
        if condition:
            tables = "files JOIN images ON images.id = files.image" if "files." in condition else "images"
            asked = f"SELECT images.row FROM {tables} WHERE {condition}"  # nosec B608
            wanted[np.array(self.db.execute(asked, values).fetchall(), dtype=np.intp).ravel()] = True
        wanted[self.dead] = False
        return wanted

    def answers(self, keys: Sequence[str]) -> list[tuple[int, int, bool]]:
        """Row, place of the word's key, and verdict of all that `PhotoLibrary.correct` keeps for some words."""
        asked = "SELECT row, verdict FROM corrections JOIN images USING (digest) WHERE key = ?"
        return [
            (row, place, bool(verdict)) for place, key in enumerate(keys)
            for row, verdict in self.db.execute(asked, (key,))
        ]  # fmt: skip

    def condition(self, since: Any, until: Any, folder: str | Path | None) -> tuple[str, list[Any]]:
        """Condition in SQL, with its values, for photos of some days and in a folder; "" for all."""
        parts, values = [], list[Any]()
        for name, date, sign, last in (("since", since, ">=", ""), ("until", until, "<", "~")):  # ~ follows digits
            if date is not None:
                text = str(date)
                if not re.fullmatch(r"\d{4}(-\d\d(-\d\d)?)?", text):
                    raise ValueError(f"{name}: {text!r} was given. Write a date as 2024, 2024-05 or 2024-05-01.")
                parts.append(f"images.taken {sign} ?")
                values.append(text + last)
        if parts:
            (n_without,) = self.db.execute("SELECT count(*) FROM images WHERE taken IS NULL").fetchone()
            if n_without:
                without = f"{counted(n_without, 'photo')} without a date left out"
                warnings.warn(f"since, until: {without}.", stacklevel=5)
        if folder is not None:
            place = Path(os.path.abspath(expanded(folder)))  # noqa: PTH100 (links stay links)
            inside, bounds = _inside(self.roots, place)
            parts.append(inside)
            values += bounds
        return " AND ".join(parts), values


def locate_roots(db: sqlite3.Connection, library: Path) -> dict[int, Path]:
    """Folders of a library: where they were or, if gone, in the same place relative to the library."""
    found = {}
    for key, path, beside in db.execute("SELECT id, path, beside FROM roots"):
        if not isinstance(path, str):
            raise OSError(f"library: {str(library)!r} is damaged. Copy the whole folder again, or make a new one.")
        there = Path(path)
        if beside is not None and not there.is_dir() and (library / beside).is_dir():
            there = Path(os.path.normpath(library / beside))
        found[key] = there
    return found


def forget_roots(db: sqlite3.Connection, library: Path, folder: Path) -> int:
    """Drop a folder of the library, or all that are in it; returns the number of files."""
    keys = [(key,) for key, root in locate_roots(db, library).items() if folder in (root, *root.parents)]
    if not keys and any(root in folder.parents for root in locate_roots(db, library).values()):
        raise ValueError(f"forget: {str(folder)!r} was not indexed by itself. Pass a folder that was.")
    if not keys:  # as after a run that was killed
        warnings.warn(f"forget: {str(folder)!r} is not in the library.", stacklevel=4)
    n_files = db.executemany("DELETE FROM files WHERE root = ?", keys).rowcount
    db.executemany("DELETE FROM roots WHERE id = ?", keys)
    return n_files


def _inside(roots: Mapping[int, str | Path], folder: Path) -> tuple[str, list[Any]]:
    """Condition in SQL, with its values, for the files in a folder, or a file."""
    parts, values = [], list[Any]()
    for key, root in ((key, Path(root)) for key, root in roots.items()):
        if folder in (root, *root.parents):
            parts.append("files.root = ?")
            values.append(key)
        elif root in folder.parents:
            inner = os.fsencode(folder.relative_to(root).as_posix())
            within = "files.path > CAST(? AS TEXT) AND files.path < CAST(? AS TEXT)"
            parts.append(f"files.root = ? AND (files.path = CAST(? AS TEXT) OR {within})")
            values += [key, inner, inner + b"/", inner + b"0"]  # 0 follows / in the order of characters
    if not parts:
        raise ValueError(f"folder: {str(folder)!r} is not in the library. Index it, or pass another one.")
    return f"({' OR '.join(parts)})", values


def add_roots(db: sqlite3.Connection, library: Path, folders: Sequence[Path]) -> list[tuple[int, Path, str]]:
    """Add folders to a library; returns each with its root and, if that is another folder, its path in there.

    A folder that holds older ones takes over their files. Without folders, all that the library has.
    """

    def set_root(key: int, place: Path) -> None:
        try:
            beside = os.fsencode(os.path.relpath(place, library))
        except ValueError:  # on another drive
            beside = None
        asked = "UPDATE roots SET path = CAST(? AS TEXT), beside = CAST(? AS TEXT) WHERE id = ?"
        db.execute(asked, (os.fsencode(str(place)), beside, key))

    roots = locate_roots(db, library)
    for key, place in roots.items():
        set_root(key, place)  # where they are now
    chosen = {} if folders else {(key, ""): place for key, place in roots.items()}
    for folder in folders:
        outer = next((key for key, root in roots.items() if root == folder or root in folder.parents), None)
        if outer is None:
            db.execute("INSERT INTO roots (path) VALUES (CAST(? AS TEXT))", (os.fsencode(str(folder)),))
            (outer,) = db.execute("SELECT last_insert_rowid()").fetchone()
            set_root(outer, folder)
            for key in [key for key, root in roots.items() if folder in root.parents]:
                prefix = os.fsencode(f"{roots.pop(key).relative_to(folder).as_posix()}/")
                asked = "UPDATE files SET root = ?, path = CAST(? AS TEXT) || path WHERE root = ?"
                db.execute(asked, (outer, prefix, key))
                db.execute("DELETE FROM roots WHERE id = ?", (key,))
                chosen = {place: root for place, root in chosen.items() if place[0] != key}
            roots[outer] = folder
        inside = folder.relative_to(roots[outer]).as_posix()
        chosen[outer, "" if inside == "." else f"{inside}/"] = roots[outer]
    return [(key, root, inside) for (key, inside), root in chosen.items()]
