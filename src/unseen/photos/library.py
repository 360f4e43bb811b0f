"""PhotoLibrary: photos described once, then searched and tagged with any words without reading them again."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from unseen.files import expanded
from unseen.images.backbones import DEFAULT, Backbone, open_backbone
from unseen.images.features import FeatureSet
from unseen.labels.encoders import with_absolute_path
from unseen.labels.names import label_key
from unseen.photos import storage
from unseen.photos.storage import Correction, Photo, Snapshot
from unseen.photos.tags import Journal
from unseen.validation import check_choice, check_count, check_names, check_number

if TYPE_CHECKING:
    from unseen.photos.index import IndexReport
    from unseen.photos.query import Expression
    from unseen.photos.tagger import PhotoTagger, PhotoTags

__all__ = ["Correction", "Hit", "Photo", "PhotoLibrary"]

_BLOCK = 512  # photos tagged at a time


class Hit(NamedTuple):
    """A photo found; ``p`` is its probability, None where the model gives only scores."""

    photo: Photo
    score: float
    p: float | None


class PhotoLibrary:
    """Photos whose features, class scores, dates and thumbnails are known.

    One process writes at a time (`index`), any number read: each call sees the library as it was when it began.

    Examples
    --------
    ``unseen index ~/Pictures`` on the command line, then ``PhotoLibrary.open().search("boat")``; or all in Python:
    ``PhotoLibrary.open("lib", create=True).index(["photos"])``.
    """

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self.path, self.settings = path, settings
        self._mapped: tuple[Any, list[Any]] = None, []  # the rows that were mapped last, by generation and number

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
        folder = storage.default_library() if path is None else expanded(path).absolute()
        with storage.sqlite_errors(folder):
            if not (folder / storage.DATABASE).is_file():
                if not create:
                    raise FileNotFoundError(
                        f"library: there is none in {str(folder)!r}. Make it: unseen index FOLDER -L LIBRARY."
                    )
                opened = backbone if isinstance(backbone, Backbone) else open_backbone(backbone or DEFAULT)
                storage.create_library(folder, opened)
            with closing(storage.connect(folder / storage.DATABASE)) as db:
                (version,) = db.execute("PRAGMA user_version").fetchone()
                if version != storage.FORMAT:
                    newer = "a newer" if version > storage.FORMAT else "another"
                    raise ValueError(
                        f"library: {str(folder)!r} has format {version}, of {newer} version of unseen; this one "
                        f"reads {storage.FORMAT}. Install that version, or choose another folder."
                    )
                settings = storage.read_settings(db, folder)
        name = backbone.name if isinstance(backbone, Backbone) else backbone and with_absolute_path(backbone)
        if name is not None and name != settings["backbone"]:
            raise ValueError(
                f"backbone: {name!r} was given, but the photos in {str(folder)!r} are described by "
                f"{settings['backbone']!r}. Choose another folder for the library, or leave it out."
            )
        return cls(folder, settings)

    def index(self, folders: Iterable[str | Path] = (), **options: Any) -> IndexReport:
        """Add the photos of folders, or bring the library up to date; see `unseen.photos.index.index_folders`."""
        from unseen.photos.index import index_folders

        with storage.sqlite_errors(self.path):
            return index_folders(self, folders, **options)

    def photos(self) -> Iterator[Photo]:
        """All photos, folder by folder and in the order of their paths."""
        with self.snapshot() as now:
            for _, photo in now.photos():
                yield photo

    def __len__(self) -> int:
        with self.snapshot() as now:
            return int(now.db.execute("SELECT count(*) FROM files WHERE image IS NOT NULL").fetchone()[0])

    def search(
        self,
        word: str | Expression | None = None,
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
        engine: str = "local",
    ) -> list[Hit]:
        """Find photos that show something, or that look like another one; the best first.

        Parameters
        ----------
        word : str or Expression
            Any words, as a phrase: "boat", "birthday cake"; or an expression made of words before.
        any_of, all_of, none_of : sequences of str
            Further words. With p(w) the probability that a photo shows w::

                p = (1 - (1 - p(word)) prod_any (1 - p(w))) * prod_all p(w) * prod_none (1 - p(w))

        like : str or Path
            A photo, instead of words: the score is the cosine of the features.
        since, until : str or date, optional
            Dates such as "2024", "2024-05" or "2024-05-01", both included. Photos without a date are left out,
            with a warning.
        folder : str or Path, optional
            Only photos in this folder and those in it, or one photo.
        min_p : float, default=0
            The least probability.
        top : int or None, default=20
            Number of photos; None for all.
        model : PhotoTagger, optional
            Model that knows the words; by default the packaged one.
        engine : {"local", "dask"}, default="local"
            With "dask" on the workers of the current Dask client, which see the library under the same path.
        """
        from unseen.photos.query import Expression, Likeness, answered, best_rows

        top = None if top is None else check_count(top, "top")
        check_number(min_p, "min_p", high=1.0)
        if (like is None) == (word is None) or (like is not None and (any_of or all_of or none_of)):
            raise ValueError("word, like: give either words or a photo.")
        if isinstance(word, Expression):
            expression = word
        elif like is not None:
            expression = Expression(Likeness.of_file(like, self.check_model(model)))
        else:
            expression = Expression.of_words(self.check_model(model), [str(word), *any_of], all_of, none_of)
        check_choice(engine, "engine", ("local", "dask"))
        with self.snapshot() as now:
            condition, values = now.condition(since, until, folder)
            wanted = now.rows(condition, values)
            answers = [answer for answer in now.answers(expression.keys) if wanted[answer[0]]]
            most = None if top is None else top + len(answers)
            if engine == "dask":
                from unseen.cluster.score import best_on_cluster

                found = best_on_cluster(expression, now, wanted, most, min_p)
            else:
                found = best_rows(expression, now.features, now.classes, wanted, most, min_p)
            found = answered(expression, found, now.features, now.classes, answers)
            if min_p > 0.0 and answers:
                found = found.select(np.flatnonzero(found.p >= min_p))  # type: ignore[operator]
            found = found.select(slice(top))
            photos = now.copies(found.rows.tolist(), condition, values)
        hits: list[Hit] = []
        for i, row in enumerate(found.rows.tolist()):
            p = None if found.p is None else float(found.p[i])
            hits += [Hit(photo, float(found.scores[i]), p) for photo in photos.get(row, ())]
        return hits[:top]

    def find(self, expression: Expression, **options: Any) -> list[Hit]:
        """Find the photos with the largest values of an expression; the options are those of `search`."""
        return self.search(expression, **options)

    def tags(
        self,
        words: Any = "everyday",
        top: int | None = 5,
        *,
        min_p: float = 0.0,
        folder: str | Path | None = None,
        model: PhotoTagger | None = None,
    ) -> Iterator[PhotoTags]:
        """Find the best words for photos, in the order of their paths, without reading the photos.

        Words that were accepted or rejected (`correct`) have the probability 1 or 0, here and in `search`.

        Parameters
        ----------
        words : "everyday", sequence of str, mapping of names to vectors, Vocabulary or Query, default="everyday"
            As in `PhotoTagger.tag`; see `unseen.labels.names.Vocabulary` for synonyms, parents and exclusions.
        top : int or None, default=5
            Number of tags per photo at most, the best first.
        min_p : float, default=0
            The least probability of a tag; as in `PhotoTagger.tag`.
        folder : str or Path, optional
            Only photos in this folder and those in it, or one photo.
        model : PhotoTagger, optional
            By default the packaged one, or that of a query.
        """
        from unseen.photos.tagger import PhotoTags, Query

        top, min_p = None if top is None else check_count(top, "top"), check_number(min_p, "min_p", high=1.0)
        query = words if isinstance(words, Query) else self.check_model(model).query(words)
        self.check_model(query.model)
        if min_p > 0.0 and not query.gives_p:
            raise ValueError("min_p: this model gives scores, not probabilities. Leave it out.")
        place = {label_key(name): column for column, name in enumerate(query.names)}
        answers: dict[str, list[tuple[int, bool]]] = {}
        for digest, word, verdict, _ in self.corrections():
            if label_key(word) in place:
                answers.setdefault(digest, []).append((place[label_key(word)], verdict))

        def results() -> Iterator[PhotoTags]:
            with self.snapshot() as now:
                photos = now.photos(*now.condition(None, None, folder))
                while block := list(islice(photos, _BLOCK)):
                    rows = np.array([row for row, _ in block])
                    known = np.full((len(block), len(place)), np.nan)
                    for row, (_, photo) in enumerate(block):
                        for column, verdict in answers.get(photo.digest, ()):
                            known[row, column] = verdict
                    logits = storage.decode_rows(now.classes[rows]) if query.needs_classes else None  # type: ignore[index]
                    X = query.model.columns(storage.decode_rows(now.features[rows]), logits)
                    found = query.tags(X, top, min_p, known)
                    for (_, photo), (tags, guess) in zip(block, found, strict=True):
                        yield PhotoTags(photo.path, tags, None, guess)

        return results()  # arguments are checked at once

    def correct(self, photo: Photo | str | Path, word: str, verdict: bool | None) -> None:
        """Keep whether a photo shows what a word means, for `tags` and ``unseen fit -L``; None forgets it.

        An answer belongs to the content of a photo: it stays if the photo is moved or its keywords change, and
        counts for its copies.
        """
        (word,) = check_names([word], "word")
        if not isinstance(photo, Photo):
            with self.snapshot() as now:
                found = next(now.photos(*now.condition(None, None, photo)), None)
            if found is None or found[1].path != os.path.abspath(expanded(photo)):  # noqa: PTH100
                raise ValueError(f"photo: {str(photo)!r} is not in the library. Index its folder first.")
            photo = found[1]
        given = (bytes.fromhex(photo.digest), label_key(word))
        with (
            storage.sqlite_errors(self.path),
            closing(storage.connect(self.path / storage.DATABASE, write=True)) as db,
            storage.transaction(db),
        ):
            db.execute("DELETE FROM corrections WHERE digest = ? AND key = ?", given)
            if verdict is not None:
                time = datetime.now(UTC).isoformat(timespec="seconds")
                db.execute("INSERT INTO corrections VALUES (?, ?, ?, ?, ?)", (*given, word, bool(verdict), time))

    def corrections(self) -> list[Correction]:
        """All that `correct` keeps, the oldest first."""
        with self.snapshot() as now:
            found = now.db.execute("SELECT digest, word, verdict, time FROM corrections ORDER BY time").fetchall()
        return [Correction(digest.hex(), word, bool(verdict), time) for digest, word, verdict, time in found]

    @contextmanager
    def journal(self, *, write: bool = True) -> Iterator[Journal]:
        """Journal of the tags written for other programs; to write, as the only writer of the library."""
        with storage.sqlite_errors(self.path), ExitStack() as stack:
            if write:
                db, _ = stack.enter_context(storage.connect_alone(self.path, wait=False))
                db.execute("PRAGMA synchronous = FULL")
            else:
                db = stack.enter_context(closing(storage.connect(self.path / storage.DATABASE)))
            yield Journal(db)

    def features(self, paths: Collection[str] | None = None) -> FeatureSet:
        """Features and class scores of all photos, or some, in memory."""
        with self.snapshot() as now:
            found = [(row, photo) for row, photo in now.photos() if paths is None or photo.path in paths]
            rows = np.array([row for row, _ in found], dtype=np.intp)
            logits = None if now.classes is None else storage.decode_rows(now.classes[rows])
            about = {"name": self.settings["backbone"], "fingerprint": self.settings["fingerprint"]}
            return FeatureSet(
                tuple(photo.path for _, photo in found), storage.decode_rows(now.features[rows]), logits, about
            )

    def duplicates(self, agreement: float | None = None, progress: Any = None) -> list[list[Photo]]:
        """Find groups of photos that are the same, or nearly: scaled, saved again, a little cropped or brightened.

        Parameters
        ----------
        agreement : float, optional
            Two photos are the same if the correlation of the brightness of their thumbnails, in 16 x 16 fields,
            plus 0.4 times the cosine of their features is at least this, 1.22 by default.
        progress : callable(done, total), optional

        Returns
        -------
        list of lists of Photo
            In each group the photo with most pixels first; the groups in the order of their paths.
        """
        from unseen.photos.query import AGREEMENT, duplicate_groups

        least = check_number(AGREEMENT if agreement is None else agreement, "agreement", high=1.4)
        with self.snapshot() as now, closing(storage.connect(self.path / storage.THUMBNAILS)) as thumbnails:
            group = duplicate_groups(now, thumbnails, least, progress)
            found: dict[int, list[Photo]] = {}
            for row, photo in now.photos():
                found.setdefault(int(group[row]), []).append(photo)
        several = [photos for photos in found.values() if len(photos) > 1]
        return [sorted(photos, key=lambda photo: -photo.width * photo.height) for photos in several]

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
        """Small copy of a photo, a JPEG file of up to 320 pixels, without its position."""
        with storage.sqlite_errors(self.path), closing(storage.connect(self.path / storage.THUMBNAILS)) as db:
            asked = "SELECT jpeg FROM thumbnails WHERE digest = ?"
            found = db.execute(asked, (bytes.fromhex(photo.digest),)).fetchone()
        return None if found is None else bytes(found[0])

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """Read transaction, and the rows that it knows of."""
        with storage.sqlite_errors(self.path), closing(storage.connect(self.path / storage.DATABASE)) as db:
            for _ in range(9):  # another process may replace the files of the rows just now
                db.execute("BEGIN")
                facts = storage.read_settings(db, self.path)
                which = facts["generation"], facts["n_rows"]
                try:
                    files = (self.path / f"features.{which[0]}.bin", self.path / f"classes.{which[0]}.bin")
                    mapped = self._mapped  # another thread may replace it
                    if mapped[0] != which:
                        widths = facts["n_features"], facts["n_classes"]
                        maps = [storage.map_rows(file, which[1], n) for file, n in zip(files, widths, strict=True)]
                        self._mapped = mapped = which, maps
                    break
                except (FileNotFoundError, ValueError):
                    db.execute("ROLLBACK")
            else:
                found = f"library: files in {str(self.path)!r} are missing or cut off"
                raise OSError(f"{found}. Copy the whole folder again, or make a new library.")
            dead = np.array(db.execute("SELECT row FROM dead_rows").fetchall(), dtype=np.intp).ravel()
            roots = {key: str(place) for key, place in storage.locate_roots(db, self.path).items()}
            features, classes = mapped[1]
            yield Snapshot(db, features, classes, dead, roots, files)
