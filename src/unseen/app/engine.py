"""What the app does: a model, perhaps a library of photos, photos uploaded lately, and work in the background."""

from __future__ import annotations

import asyncio
import os
import threading
import time
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from unseen.app.uploads import Decoded, decode
from unseen.base import MAYBE, SURE, Tag
from unseen.explanation import Explanation
from unseen.files import write_atomically
from unseen.images.backbones import Described
from unseen.labels.names import Vocabulary, label_key
from unseen.photos.keywords import Keyword
from unseen.photos.library import Photo, PhotoLibrary
from unseen.photos.query import Best, Expression, Likeness, all_rows, answered
from unseen.photos.storage import Snapshot, decode_rows
from unseen.photos.tagger import PhotoTagger, Query
from unseen.validation import Matrix

N_EXACT = 1000  # photos of a search that get a probability
MOST_UPLOADS = 500  # kept in memory, without their pixels
MOST_RANKINGS, MOST_QUERIES = 32, 64  # kept, the latest
MOST_SHOWN = 200  # changes listed
ID = 16  # hex digits of a digest that name a photo
Key = TypeVar("Key")
Value = TypeVar("Value")


class Missing(LookupError):  # noqa: N818 (it is an answer)
    """There is no such photo, job or report."""


class Busy(RuntimeError):  # noqa: N818
    """There is too much to do at the moment."""


class Latest(OrderedDict[Key, Value]):
    """The values used last; a new key is computed once, also if several threads ask for it."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most, self._lock = most, threading.RLock()

    def find(self, key: Key, compute: Callable[[], Value]) -> Value:
        """Value of a key, computed if it is not there."""
        with self._lock:
            if key not in self:
                self[key] = compute()
                while len(self) > self._most:
                    self.popitem(last=False)
            self.move_to_end(key)
            return self[key]


class Upload(NamedTuple):
    """A photo that is not in the library."""

    name: str
    size: tuple[int, int]
    thumbnail: bytes
    columns: NDArray[Any]
    features: NDArray[Any]
    path: Path | None = None  # of a packaged one


class Asked(NamedTuple):
    """A photo to tag: its pixels, as the backbone takes them, or its columns."""

    pixels: NDArray[np.float32] | None
    columns: NDArray[Any] | None
    query: Query
    top: int | None
    min_p: float


class Answer(NamedTuple):
    """Tags of a photo, its columns for the tagger, and its features."""

    tags: tuple[Tag, ...]
    guess: Tag | None
    columns: NDArray[Any]
    features: NDArray[Any] | None


class Batcher:
    """Tags photos of requests that arrive at about the same time together.

    The backbone sees one photo at a time, on all cores: that is fastest there, and keeps its outputs the same to
    the last bit. Photos with the same words are scored at once.
    """

    def __init__(self, engine: Engine, observe: Callable[[int], None], queue: int = 128, most: int = 16) -> None:
        self._engine, self._most, self._observe = engine, most, observe
        self._waiting: asyncio.Queue[tuple[Asked, asyncio.Future[Answer]]] = asyncio.Queue()
        self.free = queue  # photos that may be taken in
        self._pool = ThreadPoolExecutor(os.cpu_count() or 1, "unseen-backbone")
        self._workers: list[asyncio.Task[None]] = []

    def __len__(self) -> int:
        return self._waiting.qsize()

    def start(self) -> None:
        """Begin to work; two batches overlap, so that the backbone is not kept waiting."""
        self._workers = [asyncio.create_task(self._work()) for _ in range(2)]

    async def stop(self) -> None:
        """Answer what is waiting, then end."""
        while self._waiting.qsize():
            await asyncio.sleep(0.01)
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)
        self._pool.shutdown(wait=True)

    @contextmanager
    def room(self, n_photos: int) -> Iterator[None]:
        """Room for the photos of a request, from the moment that it is read; `Busy` if there is none."""
        if n_photos > self.free:
            raise Busy
        self.free -= n_photos
        try:
            yield
        finally:
            self.free += n_photos

    async def __call__(self, asked: Sequence[Asked]) -> list[Answer]:
        """Answers, in the order of the photos."""
        loop = asyncio.get_running_loop()
        futures = [loop.create_future() for _ in asked]
        for item in zip(asked, futures, strict=True):
            self._waiting.put_nowait(item)
        return list(await asyncio.gather(*futures))

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            batch = [await self._waiting.get()]
            while len(batch) < self._most and not self._waiting.empty():
                batch.append(self._waiting.get_nowait())
            batch = [item for item in batch if not item[1].cancelled()]
            self._observe(len(batch))
            try:
                asked = [item for item, _ in batch]
                described = await asyncio.gather(
                    *(loop.run_in_executor(self._pool, self._engine.describe, item) for item in asked)
                )
                found = await loop.run_in_executor(None, self._engine.answer, asked, described)
                for (_, future), answer in zip(batch, found, strict=True):
                    if not future.done():
                        future.set_result(answer)
            except Exception as error:  # it belongs to the requests, not to the loop
                for _, future in batch:
                    if not future.done():
                        future.set_exception(error)


class Job:
    """Work in a thread: how far it is, and what came of it."""

    def __init__(self, kind: str, number: int) -> None:
        self.kind, self.id, self.state = kind, str(number), "running"
        self.done, self.total = 0, None
        self.message: str | None = None
        self.result: Any = None

    def step(self, done: int, total: int | None = None) -> None:
        """Set how far it is."""
        self.done, self.total = done, total  # type: ignore[assignment]

    def as_json(self) -> dict[str, Any]:
        """All that is known."""
        return dict(vars(self))


class Engine:
    """Everything that the routes ask for; safe to use from several threads."""

    def __init__(
        self, library: PhotoLibrary | None, model: PhotoTagger | None, reports: Sequence[Path] = ()
    ) -> None:
        self.library = library
        self._start_model = model or PhotoTagger.load()
        self._others = set[Path]() if model is None else set(self._models)  # learned on top of another model
        self.reports = {f"{i}": path for i, path in enumerate(reports)}
        self.uploads: Latest[str, Upload] = Latest(MOST_UPLOADS)
        self._lock = threading.RLock()
        self._jobs: dict[str, Job] = {}
        self._answers: list[list[tuple[str, str, bool | None]]] = []  # to undo
        self._blas = ThreadpoolController()
        self._own_text = ""
        self._scan: Scan | None = None
        self._set_model()

    # The model and the words

    @property
    def _models(self) -> list[Path]:
        """Models learned from answers in the library, the newest last."""
        found = [] if self.library is None else self.library.path.glob("model.*.safetensors")
        return sorted(found, key=lambda path: int(path.suffixes[0][1:]) if path.suffixes[0][1:].isdigit() else 0)

    def _set_model(self) -> None:
        learned = [path for path in self._models if path not in self._others]
        model = PhotoTagger.load(learned[-1]) if learned else self._start_model
        if self.library is not None:
            self.library.check_model(model)
        with self._lock:
            self.model, self.learned, self.loaded = model, bool(learned), time.time()
            self.queries: Latest[Any, Query] = Latest(MOST_QUERIES)
            self.rankings: Latest[Any, Ranking] = Latest(MOST_RANKINGS)

    @property
    def _words_file(self) -> Path | None:
        return None if self.library is None else self.library.path / "words.txt"

    @property
    def words_text(self) -> str:
        """Vocabulary of the user; empty for everyday words."""
        path = self._words_file
        if path is None or not path.is_file():
            return self._own_text if path is None else ""
        return path.read_text(encoding="utf-8")

    def set_words(self, text: str) -> None:
        """Replace the vocabulary, with everyday words if the text is empty."""
        if text.strip():
            self.model.query(Vocabulary.parse(text.splitlines(), "words"))  # all words can be used
        path = self._words_file
        if path is None:
            self._own_text = text if text.strip() else ""
        elif text.strip():
            write_atomically(path, lambda part: part.write_text(text, encoding="utf-8"))
        else:
            path.unlink(missing_ok=True)

    def query(self, words: Sequence[str] | None = None) -> Query:
        """Prepare words, by default those of the user's vocabulary."""
        text = self.words_text if words is None else ""
        key = text if words is None else tuple(words)

        def prepare() -> Query:
            vocabulary = Vocabulary.parse(text.splitlines(), "words") if text else "everyday"
            with self._blas.limit(limits=1, user_api="blas"):
                return self.model.query(vocabulary if words is None else words)

        return self.queries.find(key, prepare)

    # Photos

    def describe(self, asked: Asked) -> Described | None:
        """Outputs of the backbone, None if the columns are known."""
        return None if asked.pixels is None else self.model.backbone.describe(asked.pixels[None])

    def answer(self, asked: Sequence[Asked], described: Sequence[Described | None]) -> list[Answer]:
        """Tags of photos; those with the same words are scored at once."""
        columns = [
            item.columns if outputs is None else self.model.columns(*outputs)[0]
            for item, outputs in zip(asked, described, strict=True)
        ]
        groups: dict[Any, list[int]] = {}
        for i, item in enumerate(asked):
            groups.setdefault((id(item.query), item.top, item.min_p), []).append(i)
        found: dict[int, Answer] = {}
        with self._blas.limit(limits=1, user_api="blas"):
            for places in groups.values():
                query, top, min_p = asked[places[0]][2:]
                X = np.vstack([np.asarray(columns[i]) for i in places])
                for i, (tags, guess) in zip(places, query.tags(X, top, min_p), strict=True):
                    outputs = described[i]
                    features = None if outputs is None else outputs.features[0]
                    found[i] = Answer(tags, guess, columns[i], features)  # type: ignore[arg-type]
        return [found[i] for i in range(len(asked))]

    @cached_property
    def samples(self) -> list[str]:
        """Ids of the packaged photos, described at first use."""
        ids = []
        for item in sorted(files("unseen.images").joinpath("data/photos").iterdir(), key=lambda item: item.name):
            if item.name.endswith(".jpg"):
                opened = decode(item.read_bytes(), ".jpg", self.model.backbone.preprocessing)
                features, logits = self.model.backbone.describe(opened.pixels[None])  # type: ignore[index]
                columns = self.model.columns(features, logits)[0]
                ids.append(opened.digest[:ID])
                upload = Upload(item.name, opened.size, opened.thumbnail, columns, features[0], Path(str(item)))
                self.uploads.find(ids[-1], lambda upload=upload: upload)  # type: ignore[misc]
        return ids

    def keep(self, name: str, decoded: Decoded, answer: Answer) -> str:
        """Keep an uploaded photo for a while; returns its id."""
        key, features = decoded.digest[:ID], np.asarray(answer.features)
        upload = Upload(name, decoded.size, decoded.thumbnail, answer.columns, features)
        self.uploads.find(key, lambda: upload)
        return key

    def photos(self, key: str) -> list[tuple[int, Photo]]:
        """Row and facts of a photo of the library and its copies; none if it is not there."""
        if self.library is None:
            return []
        with self.library.snapshot() as now:
            return list(now.photos("images.digest >= ? AND images.digest < ?", _digests(key)))

    def copies(self, key: str) -> list[Photo]:
        """A photo of the library and its copies, at least one."""
        found = [photo for _, photo in self.photos(key)]
        if not found:
            raise Missing(f"id: there is no photo {key!r}.")
        return found

    def columns(self, key: str) -> tuple[NDArray[Any], NDArray[Any]]:
        """Columns for the tagger, and features, of a photo in the library or one uploaded lately."""
        if self.library is not None and (found := self.photos(key)):
            with self.library.snapshot() as now:
                row = [found[0][0]]
                features = decode_rows(now.features[row])
                logits = None if now.classes is None else decode_rows(now.classes[row])
            return self.model.columns(features, logits)[0], features[0]
        if key not in self.uploads and not (self.samples and key in self.uploads):
            raise Missing(f"id: there is no photo {key!r}, or it was uploaded too long ago.")
        upload = self.uploads[key]
        return upload.columns, upload.features

    def known(self, key: str, query: Query) -> Matrix | None:
        """What answers say of a photo, as a row of probabilities; NaN where there are none."""
        given = self.verdicts(key)
        return np.array([[given.get(label_key(name), np.nan) for name in query.names]]) if given else None

    def verdicts(self, key: str) -> dict[str, bool]:
        """Answers on a photo of the library, by the keys of the words."""
        if self.library is None:
            return {}
        asked = "SELECT key, verdict FROM corrections WHERE digest >= ? AND digest < ?"
        with self.library.snapshot() as now:
            return {word: bool(verdict) for word, verdict in now.db.execute(asked, _digests(key))}

    def tags(self, key: str) -> tuple[tuple[Tag, ...], Tag | None]:
        """Sure and maybe tags of a photo, and the best guess if there are none."""
        query, least = self.query(), MAYBE if self.query().gives_p else 0.0
        columns = self.columns(key)[0]
        with self._blas.limit(limits=1, user_api="blas"):
            ((tags, guess),) = query.tags(columns[None], 20, least, self.known(key, query))
        return tags, guess

    def explain(self, columns: NDArray[Any], word: str) -> Explanation:
        """Why a photo got its score for a word."""
        with self._blas.limit(limits=1, user_api="blas"):
            return self.model.tagger.explain(columns[None], self.model.label_vectors([word]))

    def accepted(self, word: str) -> list[Photo]:
        """Photos of the library on which a word was accepted, the latest first."""
        if self.library is None:
            return []
        key = label_key(word)
        found = [one.digest for one in self.library.corrections() if one.verdict and label_key(one.word) == key]
        return [photos[0][1] for digest in found[::-1][:12] if (photos := self.photos(digest))]

    # Search

    def _state(self) -> tuple[Any, ...]:
        """What changes whenever the photos of the library or the answers do."""
        with self.of_library().snapshot() as now:
            return now.files[0].name, len(now.features), len(now.dead), self.n_answers()

    def search(self, words: tuple[tuple[str, ...], ...], like: str | None, since: Any, until: Any) -> Ranking:
        """All photos in the order of a search; kept, so that the next page is only cut out."""
        key = words, like, since, until, self._state()
        return self.rankings.find(key, lambda: self._rank(words, like, since, until))

    def _rank(self, words: tuple[tuple[str, ...], ...], like: str | None, since: Any, until: Any) -> Ranking:
        with warnings.catch_warnings(record=True) as caught:  # doubts about words, photos without a date
            warnings.simplefilter("always", UserWarning)
            expression = None
            if like is not None:
                expression = Expression(Likeness(self.columns(like)[1]))
            elif any(words):
                expression = Expression.of_words(self.model, *words)
            with self.of_library().snapshot() as now:
                best = self._best(expression, now, *now.condition(since, until, None))
        return Ranking(best, expression is not None, tuple(str(warning.message) for warning in caught))

    def _best(self, expression: Expression | None, now: Snapshot, condition: str, values: list[Any]) -> Best:
        wanted = now.rows(condition, values)
        if expression is None:
            asked = "SELECT row FROM images ORDER BY taken IS NULL, taken DESC, row"
            rows = np.array(now.db.execute(asked).fetchall(), dtype=np.intp).ravel()
            rows = rows[wanted[rows]]
            return Best(rows, np.zeros(len(rows)), None)
        answers = [answer for answer in now.answers(expression.keys) if wanted[answer[0]]]
        best = all_rows(expression, now.features, now.classes, wanted, N_EXACT)
        return answered(expression, best, now.features, now.classes, answers)

    def page(
        self, ranking: Ranking, offset: int, limit: int
    ) -> list[tuple[list[Photo], float | None, float | None]]:
        """Copies of each photo on a page of a ranking, with p and score."""
        rows = ranking.best.rows[offset : offset + limit].tolist()
        with self.of_library().snapshot() as now:
            found = now.copies(rows)
        page = []
        for place, row in enumerate(rows, offset):
            if row in found:
                p = None if ranking.best.p is None else float(ranking.best.p[place])
                score = float(ranking.best.scores[place]) if ranking.is_scored else None
                page.append((found[row], None if p is None or np.isnan(p) else p, score))
        return page

    def of_library(self) -> PhotoLibrary:
        """The library; `Missing` if there is none."""
        if self.library is None:
            raise Missing("library: there is none. Index photos with unseen index, then start unseen serve again.")
        return self.library

    # Answers

    def n_answers(self) -> int:
        """Number of tags accepted or rejected."""
        if self.library is None:
            return 0
        with self.library.snapshot() as now:
            return int(now.db.execute("SELECT count(*) FROM corrections").fetchone()[0])

    def correct(self, answers: Sequence[tuple[str, str, bool | None]]) -> None:
        """Keep answers (id, word, verdict), so that they can be taken back together."""
        library, before = self.of_library(), []
        for key, word, verdict in answers:
            photo = self.copies(key)[0]
            before.append((key, word, self.verdicts(key).get(label_key(word))))
            library.correct(photo, word, verdict)
        if answers:
            self._answers.append(before)

    def undo_answers(self) -> int:
        """Take back the last answers; returns how many."""
        if not self._answers:
            return 0
        answers = self._answers.pop()
        for key, word, verdict in answers:
            self.of_library().correct(self.copies(key)[0], word, verdict)
        return len(answers)

    # In the background

    def scan(self) -> Scan:
        """Sure and maybe tags of all photos, which are found in the background after each change."""
        library, state = self.of_library(), (*self._state(), self.words_text, self.loaded)
        with self._lock:
            if self._scan is None or self._scan.state != state:
                if self._scan is not None:
                    self._scan.is_wanted = False
                self._scan = Scan(state, self._scan)
                threading.Thread(target=self._scan.run, args=(library, self.query()), daemon=True).start()
            return self._scan

    def start(self, kind: str, work: Callable[[Job], Any]) -> Job:
        """Begin a job; `Busy` if another one is running."""
        with self._lock:
            if any(job.state == "running" for job in self._jobs.values()):
                raise Busy
            job = Job(kind, len(self._jobs) + 1)
            self._jobs[job.id] = job

        def run() -> None:
            try:
                job.result = work(job)
                job.state = "done"
            except (OSError, ValueError) as error:
                job.message, job.state = " ".join(str(error).split()), "failed"
            except Exception as error:
                job.message, job.state = f"unexpected: {error!r}", "failed"

        threading.Thread(target=run, daemon=True).start()
        return job

    def job(self, key: str) -> Job:
        """A job by its id."""
        if key not in self._jobs:
            raise Missing(f"id: there is no job {key!r}.")
        return self._jobs[key]

    def learn(self, job: Job) -> dict[str, Any]:
        """Learn from all answers on top of the packaged model, and use the result."""
        from unseen.ensembles.adapted import Adapted
        from unseen.photos.training import annotated_photos, train, verdict

        library = self.of_library()
        job.step(0, 3)
        features, annotations = annotated_photos(library)
        job.step(1, 3)
        trained = train(features, annotations, base=self._start_model)
        job.step(2, 3)
        number = int(self._models[-1].suffixes[0][1:]) + 1 if self._models else 1
        trained.model.save(library.path / f"model.{number}.safetensors")
        self._set_model()
        tagger: Any = trained.model.tagger
        found: dict[str, Any] = {"labels": len(annotations.labels), "images": len(features)}
        found |= {"before": None, "after": None}
        if isinstance(tagger, Adapted):
            figures = []
            for right, marked, shown in tagger.sure_.sum(axis=2).tolist():
                precision = right / marked if marked else None
                figures.append({"precision": precision, "recall": right / shown if shown else None})
            found |= {"sentence": verdict(tagger), "before": figures[0], "after": figures[1]}
        job.step(3, 3)
        return found

    def forget_learned(self) -> bool:
        """Go back to the model before the last learning; returns whether one is left."""
        if self.learned:
            self._models[-1].unlink()
            self._set_model()
        return self.learned

    def tagged(self, min_p: float) -> Iterator[tuple[str, tuple[Tag, ...]]]:
        """Paths of all photos of the library, with their tags."""
        for photo in self.of_library().tags(self.query(), None, min_p=min_p):
            yield photo.path, photo.tags

    def write_tags(self, job: Job, min_p: float, dry_run: bool) -> dict[str, Any]:
        """Write tags to sidecars, or see what that would change."""
        from unseen.photos.tags import write_tags

        library, query = self.of_library(), self.query()
        parents = {tag.name: tag.parents for tag in query.vocabulary.tags} if query.vocabulary else {}
        total = len(library)

        def pairs() -> Iterator[tuple[str, list[Keyword]]]:
            for done, (path, tags) in enumerate(self.tagged(min_p), start=1):
                job.step(done, total)
                if tags:
                    yield path, [Keyword(tag.name, parents.get(tag.name, ())) for tag in tags]

        with library.journal(write=not dry_run) as journal:
            return _outcomes(write_tags(pairs(), journal, dry_run=dry_run))

    def undo_tags(self, job: Job, dry_run: bool) -> dict[str, Any]:
        """Take back what was written."""
        from unseen.photos.exiftool import ExifTool
        from unseen.photos.tags import undo_tags

        with self.of_library().journal(write=not dry_run) as journal:
            needed = any(record.change.embedded for record in journal.records("done", "planned", "undoing"))
            with ExifTool() if needed and ExifTool.is_installed() else nullcontext() as exiftool:
                return _outcomes(undo_tags(journal, exiftool, dry_run=dry_run))


@dataclass(frozen=True)
class Ranking:
    """All photos in the order of a search, and what is to be said about its words."""

    best: Best
    is_scored: bool
    notes: tuple[str, ...]

    @cached_property
    def counts(self) -> list[int] | None:
        """Number of photos with p of at least 0, 0.01, ..., 1, among those that have one."""
        if self.best.p is None:
            return None
        p = np.sort(self.best.p[~np.isnan(self.best.p)])
        return [len(p) - int(n) for n in np.searchsorted(p, np.arange(101) / 100 - 1e-9)]


class Scan:
    """Sure and maybe tags of all photos of a library; an older scan serves until it has ended."""

    def __init__(self, state: Any, older: Scan | None) -> None:
        self.state, self.is_wanted, self.is_done = state, True, False
        self.done, self.total = 0, 0
        self.problem: str | None = None
        self._tags: dict[str, tuple[Tag, ...]] = {}
        self._older = None if older is None else older.tags

    @property
    def tags(self) -> dict[str, tuple[Tag, ...]]:
        """Tags by the paths of the photos; of an older scan as long as it has more."""
        return self._older if self._older is not None and not self.is_done else self._tags

    def run(self, library: PhotoLibrary, query: Query) -> None:
        """Find the tags of one photo after the other."""
        try:
            self.total = len(library)
            for photo in library.tags(query, None, min_p=MAYBE if query.gives_p else 0.0):
                if not self.is_wanted:
                    return
                self._tags[photo.path] = photo.tags
                self.done += 1
        except (OSError, ValueError) as error:
            self.problem = str(error)
        self.is_done, self._older = True, None

    def hits(self) -> dict[str, list[int]]:
        """Number of photos with each word as a sure, and as a maybe tag."""
        found: dict[str, list[int]] = {}
        for tag in chain.from_iterable(list(self.tags.values())):
            found.setdefault(tag.name, [0, 0])[tag.p is None or tag.p < SURE] += 1
        return found


def _outcomes(outcomes: Iterator[Any]) -> dict[str, Any]:
    """Numbers of tags and photos, the first changes, and what went wrong."""
    n_tags, photos, changes, problems = 0, set[str](), list[dict[str, Any]](), list[str]()
    for photo, change, problem in outcomes:
        if problem is not None:
            problems.append(problem)
        elif change is not None:
            n_tags += len(change.words)
            photos.add(photo)
            if len(changes) < MOST_SHOWN:
                names = {"photo": Path(photo).name, "file": Path(change.target).name}
                changes.append(names | {"words": list(change.words)})
    return {"tags": n_tags, "photos": len(photos), "changes": changes, "problems": problems[:MOST_SHOWN]}


def _digests(key: str) -> tuple[bytes, bytes]:
    """Bounds of the digests that begin with the hex digits of a key: the first, and one past the last."""
    low = bytes.fromhex(key)
    return low, low + b"\xff" * (33 - len(low))
