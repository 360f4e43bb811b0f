"""PhotoLibrary: photos described once, then searched and tagged with any words without reading them again.

A library is a folder:

- ``library.sqlite``: the folders, the files in them, and the images these hold (copies of a file are one image).
- ``features.N.bin``, ``classes.N.bin``: one row per image, see `unseen.photos.query`. Rows are only ever appended;
  they count once ``library.sqlite`` says so. Images that are gone leave dead rows; when there are many, the living
  ones are copied to files with the next number N.
- ``thumbnails.sqlite``: small pictures, by the digest of the image.

One process writes at a time, any number read: each reader sees the library as it was when it began.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unseen.files import locked
from unseen.images import backbones
from unseen.validation import check_count, check_number, counted

if TYPE_CHECKING:
    from unseen.images.backbones import Backbone
    from unseen.photos.index import IndexReport
    from unseen.photos.query import Expression, Rows
    from unseen.photos.tagger import PhotoTagger

FORMAT = 1
_DATABASE, _THUMBNAILS = "library.sqlite", "thumbnails.sqlite"
_SCHEMA = """
CREATE TABLE settings (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE roots (id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, beside TEXT);
CREATE TABLE images (id INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE, row INTEGER NOT NULL UNIQUE,
    width INTEGER, height INTEGER, taken TEXT, note TEXT);
CREATE TABLE files (id INTEGER PRIMARY KEY, root INTEGER NOT NULL REFERENCES roots, path TEXT NOT NULL,
    size INTEGER, changed INTEGER, image INTEGER REFERENCES images, problem TEXT, UNIQUE (root, path));
CREATE TABLE dead_rows (row INTEGER PRIMARY KEY);
CREATE INDEX files_by_image ON files (image);
CREATE INDEX images_by_date ON images (taken);
"""
_PHOTOS = """SELECT files.root, files.path, images.row, images.digest, images.width, images.height, images.taken,
    images.note FROM files JOIN images ON images.id = files.image"""

_IN_ORDER = "ORDER BY files.root, files.path"


class Photo(NamedTuple):
    """A file of the library, and what is known of it; ``digest`` is the SHA-256 of its content."""

    path: str
    digest: str
    width: int
    height: int
    taken: str | None  # local date and time, "2024-05-01 12:30:00"
    note: str | None  # what is missing of a damaged photo


class Hit(NamedTuple):
    """A photo found; ``p`` is its probability, None where the model gives only scores."""

    photo: Photo
    score: float
    p: float | None


class Snapshot(NamedTuple):
    """The library as it was at one moment: a read transaction, and the rows it knows of."""

    db: sqlite3.Connection
    features: Rows
    classes: Rows | None
    dead: NDArray[np.intp]
    roots: dict[int, str]


class PhotoLibrary:
    """Photos whose features, class scores, dates and thumbnails are known.

    Examples
    --------
    ``unseen index ~/Pictures`` on the command line, then ``PhotoLibrary.open().search("boat")``; or all in Python:
    ``PhotoLibrary.open("lib", create=True).index(["photos"])``.
    """

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self.path = path
        self.settings = settings

    def __repr__(self) -> str:
        return f"<PhotoLibrary: {str(self.path)!r}, {self.settings['backbone']}>"

    @classmethod
    def open(
        cls, path: str | Path | None = None, *, create: bool = False, backbone: Backbone | str | None = None
    ) -> PhotoLibrary:
        """Open a library.

        Parameters
        ----------
        path : str or Path, optional
            Its folder; by default that of the environment variable UNSEEN_LIBRARY, else ``library`` in the user's
            data folder (on Linux ``~/.local/share/unseen``).
        create : bool, default=False
            Make a new one if there is none.
        backbone : Backbone or str, optional
            For a new library: the network that describes its photos, "efficientnet-lite0" by default.
        """
        folder = default_library() if path is None else Path(path).expanduser().absolute()
        with _sqlite_errors(folder):
            if not (folder / _DATABASE).is_file():
                if not create:
                    raise FileNotFoundError(
                        f"library: there is none in {str(folder)!r}. Make it: unseen index FOLDER -L LIBRARY."
                    )
                _create(folder, backbone)
            with closing(_connect(folder / _DATABASE)) as db:
                (version,) = db.execute("PRAGMA user_version").fetchone()
                if version != FORMAT:
                    newer = "a newer" if version > FORMAT else "another"
                    raise ValueError(
                        f"library: {str(folder)!r} has format {version}, of {newer} version of unseen; this one "
                        f"reads {FORMAT}. Install that version, or choose another folder."
                    )
                settings = dict(db.execute("SELECT key, value FROM settings"))
        library = cls(folder, settings)
        if backbone is not None:
            name = backbone if isinstance(backbone, str) else backbone.name
            if name != settings["backbone"]:
                raise ValueError(
                    f"backbone: {name!r} was given, but the photos in {str(folder)!r} are described by "
                    f"{settings['backbone']!r}. Choose another folder for the library, or leave it out."
                )
        return library

    def index(self, folders: Iterable[str | Path] = (), **options: Any) -> IndexReport:
        """Add the photos of folders, and bring what is known of them up to date; see `unseen.photos.index`."""
        from unseen.photos.index import index_folders

        with _sqlite_errors(self.path):
            return index_folders(self, folders, **options)

    def photos(self) -> Iterator[Photo]:
        """All photos, folder by folder and in the order of their paths."""
        with self.snapshot() as now:
            for record in now.db.execute(f"{_PHOTOS} {_IN_ORDER}"):
                yield _photo(now, record)

    def __len__(self) -> int:
        with self.snapshot() as now:
            return int(now.db.execute("SELECT count(*) FROM files WHERE image IS NOT NULL").fetchone()[0])

    def search(
        self,
        word: str | None = None,
        *,
        any_of: Sequence[str] = (),
        all_of: Sequence[str] = (),
        none_of: Sequence[str] = (),
        like: str | Path | None = None,
        since: Any = None,
        until: Any = None,
        folder: str | Path | None = None,
        min_p: float = 0.0,
        top: int | None = 20,
        model: PhotoTagger | None = None,
    ) -> list[Hit]:
        """Find photos that show something, or that look like another one; the best first.

        Parameters
        ----------
        word : str
            Any words, as a phrase: "boat", "birthday cake".
        any_of, all_of, none_of : sequences of str
            Further words. With p(w) the probability that a photo shows w::

                p = (1 - (1 - p(word)) prod_any (1 - p(w))) * prod_all p(w) * prod_none (1 - p(w))

        like : str or Path
            A photo, instead of words: the score is the cosine of the features.
        since, until : str or date, optional
            Dates such as "2024", "2024-05" or "2024-05-01", both included. Photos without a date are left out,
            with a warning.
        folder : str or Path, optional
            Only photos in this folder and those in it.
        min_p : float, default=0
            The least probability.
        top : int or None, default=20
            Number of photos; None for all.
        model : PhotoTagger, optional
            Model that knows the words; by default the packaged one.
        """
        from unseen.photos.query import Expression

        top = None if top is None else check_count(top, "top")
        check_number(min_p, "min_p", high=1.0)
        words = [word, *any_of, *all_of, *none_of]
        if (like is None) == (word is None) or (like is not None and len(words) > 1):
            raise ValueError("word, like: give either words or a photo.")
        model = self.check_model(model)
        if like is not None:
            expression = Expression.like(like, model)
        else:
            expression = Expression.of(model, [str(word), *any_of], all_of, none_of)
        return self.find(expression, since=since, until=until, folder=folder, min_p=min_p, top=top)

    def find(
        self,
        expression: Expression,
        *,
        since: Any = None,
        until: Any = None,
        folder: str | Path | None = None,
        min_p: float = 0.0,
        top: int | None = 20,
        best: Callable[..., Any] | None = None,
    ) -> list[Hit]:
        """Photos with the largest values of an expression, as `search` finds them."""
        from unseen.photos.query import best_rows

        with self.snapshot() as now:
            wanted = self._wanted_rows(now, since, until, folder)
            found = (best or best_rows)(expression, now.features, now.classes, wanted, top, min_p)
            hits: list[Hit] = []
            for start in range(0, len(found.rows), 1000):
                rows = found.rows[start : start + 1000].tolist()
                records: dict[int, list[Photo]] = {row: [] for row in rows}
                asked = f"{_PHOTOS} WHERE images.row IN (SELECT value FROM json_each(?)) {_IN_ORDER}"
                for record in now.db.execute(asked, (json.dumps(rows),)):
                    records[record[2]].append(_photo(now, record))
                for i, row in enumerate(rows, start):
                    p = None if found.p is None else float(found.p[i])
                    hits += [Hit(photo, float(found.scores[i]), p) for photo in records[row]]
        return hits if top is None else hits[:top]

    def check_model(self, model: PhotoTagger | None) -> PhotoTagger:
        """Return a model, by default the packaged one, if it was fitted on features like those of the library."""
        from unseen.photos.tagger import PhotoTagger

        model = PhotoTagger.load() if model is None else model
        if model.backbone.fingerprint != self.settings["fingerprint"]:
            raise ValueError(
                f"model: it needs features of {model.backbone.name!r}, but the photos in {str(self.path)!r} are "
                f"described by {self.settings['backbone']!r}. Choose another model, or index another library."
            )
        return model

    def thumbnail(self, photo: Photo) -> bytes | None:
        """Small copy of a photo, a JPEG file of up to 240 pixels, without its position."""
        with _sqlite_errors(self.path), closing(_connect(self.path / _THUMBNAILS)) as db:
            asked = "SELECT jpeg FROM thumbnails WHERE digest = ?"
            found = db.execute(asked, (bytes.fromhex(photo.digest),)).fetchone()
        return None if found is None else bytes(found[0])

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """Read transaction, and the rows that it knows of."""
        from unseen.photos.query import map_rows

        with _sqlite_errors(self.path), closing(_connect(self.path / _DATABASE)) as db:
            for _ in range(9):  # another process may replace the files of the rows just now
                db.execute("BEGIN")
                facts = dict(db.execute("SELECT key, value FROM settings"))
                try:
                    maps = [
                        map_rows(
                            self.path / f"{name}.{facts['generation']}.bin", facts["n_rows"], facts[f"n_{name}"]
                        )
                        if facts[f"n_{name}"]
                        else None
                        for name in ("features", "classes")
                    ]
                    break
                except FileNotFoundError:
                    db.execute("ROLLBACK")
            else:
                raise OSError(f"library: files are missing in {str(self.path)!r}. Copy the whole folder again.")
            dead = np.array(db.execute("SELECT row FROM dead_rows").fetchall(), dtype=np.intp).ravel()
            roots = {key: str(place) for key, place in self.roots(db).items()}
            features, classes = maps
            assert features is not None
            yield Snapshot(db, features, classes, dead, roots)

    def roots(self, db: sqlite3.Connection) -> dict[int, Path]:
        """Folders of the library: where they were or, if gone, in the same place relative to the library."""
        found = {}
        for key, path, beside in db.execute("SELECT id, path, beside FROM roots"):
            there = Path(path)
            if beside is not None and not there.is_dir() and (self.path / beside).is_dir():
                there = Path(os.path.normpath(self.path / beside))
            found[key] = there
        return found

    def _wanted_rows(self, now: Snapshot, since: Any, until: Any, folder: str | Path | None) -> NDArray[np.bool_]:
        """Mask of the rows to search."""
        conditions, values = [], list[Any]()
        for name, date, sign in (("since", since, ">="), ("until", until, "<=")):
            if date is not None:
                text = str(date)
                if not re.fullmatch(r"\d{4}(-\d\d(-\d\d)?)?", text):
                    raise ValueError(f"{name}: {text!r} was given. Write a date as 2024, 2024-05 or 2024-05-01.")
                conditions.append(f"substr(images.taken, 1, {len(text)}) {sign} ?")
                values.append(text)
        if conditions:
            asked = "SELECT count(*) FROM images WHERE taken IS NULL"
            (n_without,) = now.db.execute(asked).fetchone()
            if n_without:
                warnings.warn(
                    f"since, until: {counted(n_without, 'photo')} without a date left out.", stacklevel=4
                )
        if folder is not None:
            condition, bounds = self._inside(now, Path(folder))
            conditions.append(condition)
            values += bounds
        wanted = np.ones(len(now.features), dtype=bool)
        if conditions:
            asked = "SELECT images.row FROM files JOIN images ON images.id = files.image WHERE "
            found = now.db.execute(asked + " AND ".join(conditions), values).fetchall()
            rows = np.array(found, dtype=np.intp).ravel()
            wanted[:] = False
            wanted[rows] = True
        wanted[now.dead] = False
        return wanted

    def _inside(self, now: Snapshot, folder: Path) -> tuple[str, list[Any]]:
        """SQL condition for the files in a folder."""
        place = folder.expanduser().absolute()
        parts, values = [], list[Any]()
        for key, root in now.roots.items():
            if place == Path(root) or place in Path(root).parents:
                parts.append("files.root = ?")
                values.append(key)
            elif Path(root) in place.parents:
                inner = as_text(place.relative_to(root).as_posix())
                parts.append("files.root = ? AND files.path > CAST(? AS TEXT) AND files.path < CAST(? AS TEXT)")
                values += [key, inner + b"/", inner + b"0"]  # 0 follows / in the order of characters
        if not parts:
            raise ValueError(
                f"folder: {str(folder)!r} is not in the library. Index it first, or pass another one."
            )
        return f"({' OR '.join(parts)})", values


def default_library() -> Path:
    """Folder of the library that is used where none is named."""
    from platformdirs import user_data_path

    named = os.environ.get("UNSEEN_LIBRARY")
    return Path(named).expanduser().absolute() if named else user_data_path("unseen", appauthor=False) / "library"


def as_text(path: str) -> bytes:
    """A path for ``CAST(? AS TEXT)``: names that are not valid UTF-8 are kept as they are."""
    return os.fsencode(path)


def _photo(now: Snapshot, record: Sequence[Any]) -> Photo:
    root, path, _, digest, width, height, taken, note = record
    return Photo(os.path.join(now.roots[root], *path.split("/")), digest.hex(), width, height, taken, note)  # noqa: PTH118


def connect_to_write(folder: Path) -> tuple[sqlite3.Connection, sqlite3.Connection]:
    """Connections to the database and to the thumbnails; the caller holds the lock of the library."""
    return _connect(folder / _DATABASE, write=True), _connect(folder / _THUMBNAILS, write=True)


def _connect(path: Path, *, write: bool = False) -> sqlite3.Connection:
    mode = "rwc" if write else "ro" if os.access(path.parent, os.W_OK) else "ro&immutable=1"  # a read-only disk
    db = sqlite3.connect(f"{path.as_uri()}?mode={mode}", uri=True, timeout=60.0, isolation_level=None)
    db.text_factory = os.fsdecode
    if write:
        db.execute("PRAGMA synchronous = NORMAL")
    return db


def _create(folder: Path, backbone: Backbone | str | None) -> None:
    """Make an empty library; what is in its folder already is an error, unless another process just made one."""
    opened = (
        backbone
        if isinstance(backbone, backbones.Backbone)
        else backbones.open_backbone(backbone or backbones.DEFAULT)
    )
    with locked(folder / ".lock", argument="library"):
        if (folder / _DATABASE).is_file():
            return
        if any(not item.name.startswith(".") for item in folder.iterdir() if item.name != _THUMBNAILS):
            raise OSError(f"library: {str(folder)!r} holds other files. Pass a new or an empty folder.")
        side = opened.preprocessing.size
        features, classes = opened.describe(np.zeros((0, 3, side, side), dtype=np.float32))
        settings = {
            "backbone": opened.name,
            "fingerprint": opened.fingerprint,
            "n_features": features.shape[1],
            "n_classes": 0 if classes is None else classes.shape[1],
            "generation": 1,
            "n_rows": 0,
        }
        with closing(_connect(folder / _THUMBNAILS, write=True)) as db:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("CREATE TABLE IF NOT EXISTS thumbnails (digest BLOB PRIMARY KEY, jpeg BLOB)")
        draft = folder / ".draft.sqlite"
        draft.unlink(missing_ok=True)
        with closing(_connect(draft, write=True)) as db:
            db.executescript(_SCHEMA)
            db.executemany("INSERT INTO settings VALUES (?, ?)", settings.items())
            db.execute(f"PRAGMA user_version = {FORMAT}")
        draft.replace(folder / _DATABASE)
        with closing(_connect(folder / _DATABASE, write=True)) as db:
            db.execute("PRAGMA journal_mode = WAL")


@contextmanager
def _sqlite_errors(folder: Path) -> Iterator[None]:
    """Turn errors of SQLite into an OSError that names the library."""
    try:
        yield
    except sqlite3.Error as error:
        raise OSError(
            f"library: {str(folder)!r} cannot be used ({error}). Check the disk and the folder."
        ) from error
