"""The app: routes of the API, the page, health and figures. Built by `create_app` for any ASGI server."""

import asyncio
import csv
import io
import json
import os
import re
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, TypeVar

from unseen import __version__

try:
    from fastapi import APIRouter, FastAPI, Query, Request, Response, UploadFile
    from fastapi import Path as InPath
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import FileResponse, JSONResponse, StreamingResponse
    from fastapi.staticfiles import StaticFiles
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
    from pydantic import BaseModel, ConfigDict, Field, ValidationError
    from starlette.concurrency import run_in_threadpool
    from starlette.exceptions import HTTPException
except ImportError as error:
    raise ImportError('app: FastAPI is not installed. Run: pip install "unseen[app]"') from error

from unseen.app.engine import ID, Answer, Asked, Batcher, Busy, Engine, Missing
from unseen.app.guard import COOKIE, LOCAL, TOO_LARGE, Guard
from unseen.app.uploads import Decoder, TooSlow
from unseen.app.words import describe_words, label_map
from unseen.base import MAYBE, SURE, Tag
from unseen.files import csv_cell
from unseen.labels.names import label_key
from unseen.photos.library import Photo, PhotoLibrary
from unseen.photos.tagger import PhotoTagger
from unseen.photos.tagger import Query as Words

PAGE = Path(__file__).parent / "page"
MOST_WORDS, MOST_PHOTOS, MOST_LETTERS = 2000, 64, 200
MOST_BYTES, MOST_SECONDS = 64 * 2**20, 60.0
LARGE = 2048  # pixels of the longer side of a photo on the page
CODES = {400: "bad_request", 401: "no_token", 404: "not_found", 405: "wrong_method", 413: "too_large"}
Made = TypeVar("Made")

DIGITS = rf"^[0-9a-f]{{{ID}}}$"
Id = Annotated[str, InPath(pattern=DIGITS, description="Id of a photo, as in other answers.")]
PhotoId = Annotated[str, Field(pattern=DIGITS)]
AnyWord = Annotated[str, Field(min_length=1, max_length=MOST_LETTERS, pattern=r"\S")]
Text = Annotated[str | None, Query(max_length=MOST_LETTERS)]
Texts = Annotated[list[Annotated[str, Field(max_length=MOST_LETTERS)]], Query(max_length=20)]
Date = Annotated[str | None, Query(pattern=r"^\d{4}(-\d\d(-\d\d)?)?$", description="2024, 2024-05 or 2024-05-01.")]
LeastP = Annotated[float, Field(ge=0.01, le=1)]
MinP = Annotated[float, Query(ge=0.01, le=1)]


class Strict(BaseModel):
    """A body without unknown fields."""

    model_config = ConfigDict(extra="forbid")


class TagRequest(Strict):
    """Photos of the library, uploaded lately or packaged, and words; by default those of the vocabulary."""

    ids: Annotated[list[PhotoId], Field(min_length=1, max_length=MOST_PHOTOS)]
    words: Annotated[list[AnyWord], Field(min_length=1, max_length=MOST_WORDS)] | None = None
    top: Annotated[int, Field(ge=1, le=MOST_WORDS)] | None = 20
    min_p: Annotated[float, Field(ge=0, le=1)] = 0.0


class ExplainRequest(Strict):
    """A photo and a word."""

    id: PhotoId
    word: AnyWord


class WordsRequest(Strict):
    """A vocabulary: one tag per line, as in ``animal > cat: kitten, !toy cat``."""

    text: Annotated[str, Field(max_length=200_000)]


class Correction(Strict):
    """Whether a photo shows what a word means; null forgets it."""

    id: PhotoId
    word: AnyWord
    verdict: bool | None


class BulkCorrection(Strict):
    """Accept a word on all photos where its probability is at least this."""

    word: AnyWord
    min_p: LeastP


class UndoRequest(Strict):
    """A dry run changes nothing."""

    dry_run: bool = True


class ExportRequest(UndoRequest):
    """Least probability of the tags; a dry run changes nothing."""

    min_p: LeastP = SURE


class Problem(Exception):  # noqa: N818 (it is an answer)
    """An error as an answer: a status, a code and a sentence."""


class Figures:
    """What /metrics shows, for Prometheus."""

    def __init__(self, engine: Engine) -> None:
        self.registry = CollectorRegistry()
        to: Any = {"registry": self.registry}
        self.requests = Counter("unseen_requests", "Requests answered.", ["path", "status"], **to)
        self.seconds = Histogram("unseen_request_seconds", "Time to answer.", ["path"], **to)
        self.batch = Histogram("unseen_batch_size", "Photos tagged together.", buckets=(1, 2, 4, 8, 16), **to)
        self.queue = Gauge("unseen_queue", "Photos waiting to be tagged.", **to)
        age = Gauge("unseen_model_age_seconds", "Time since the model was loaded.", **to)
        age.set_function(lambda: time.time() - engine.loaded)

    def observe(self, path: str, status: int, seconds: float) -> None:
        """Count an answer."""
        self.requests.labels(path, str(status)).inc()
        self.seconds.labels(path).observe(seconds)


def create_app(
    library: str | Path | PhotoLibrary | None = None,
    model: str | Path | PhotoTagger | None = None,
    *,
    reports: Sequence[str | Path] = (),
    hosts: Sequence[str] = (),
    token: str | None = None,
    most_bytes: int = MOST_BYTES,
    most_seconds: float = MOST_SECONDS,
    queue: int = 128,
) -> Any:
    """ASGI app with the page at ``/`` and the API below ``/v1``.

    Parameters
    ----------
    library : path or PhotoLibrary, optional
        Photos to search, tag and correct; without one, only photos that are uploaded are tagged.
    model : path or PhotoTagger, optional
        By default what the library has learned, or the packaged one.
    reports : sequence of paths
        Folders made by ``unseen reproduce`` to show.
    hosts : sequence of str
        Names under which it may be asked, beside 127.0.0.1, localhost and ::1; with a token, "*" for any.
    token : str, optional
        Secret that every request has to carry: ``Authorization: Bearer TOKEN``, or ``/?token=TOKEN`` once in a
        browser.
    most_bytes, most_seconds, queue : numbers
        Limits of a request, and the number of photos that may wait to be tagged.
    """
    opened = library if isinstance(library, PhotoLibrary) or library is None else PhotoLibrary.open(library)
    tagger = model if isinstance(model, PhotoTagger) or model is None else PhotoTagger.load(model)
    engine = Engine(opened, tagger, [Path(report) for report in reports])
    figures, decoder = Figures(engine), Decoder(engine.model.backbone.preprocessing)
    batcher = Batcher(engine, figures.batch.observe, queue)
    figures.queue.set_function(lambda: len(batcher))

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        batcher.start()
        app.state.is_ready = True
        yield
        app.state.is_ready = False
        await batcher.stop()
        decoder.close()

    app = FastAPI(
        title="unseen", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None,
        description="Tags photos with any words, searches a library of them, and says why.",
        responses={"4XX": {"description": "An error: a code and a sentence.", "model": Failed}},
    )  # fmt: skip
    app.state.is_ready = False
    app.include_router(_routes(engine, batcher, decoder))
    _add_plain_routes(app, figures, token)
    _add_error_handlers(app)
    app.mount("/", StaticFiles(directory=PAGE, html=True), name="page")
    limits: Any = {"most_bytes": most_bytes, "most_seconds": most_seconds}
    return Guard(app, hosts=(*LOCAL, *hosts), token=token, observe=figures.observe, **limits)


def from_environment() -> Any:
    """App for any ASGI server, by UNSEEN_LIBRARY, UNSEEN_MODEL, UNSEEN_TOKEN, UNSEEN_HOSTS and UNSEEN_REPORTS.

    ``uvicorn --factory unseen.app.server:from_environment``; lists are separated by commas.
    """
    given = {name: os.environ.get(f"UNSEEN_{name.upper()}") or None for name in ("library", "model", "token")}
    lists = {name: os.environ.get(f"UNSEEN_{name.upper()}", "").split(",") for name in ("hosts", "reports")}
    return create_app(**given, **{name: list(filter(None, parts)) for name, parts in lists.items()})  # type: ignore[arg-type]


def serve(app: Any, host: str, port: int, ready: Callable[[str], None] = lambda url: None) -> None:
    """Answer requests until SIGTERM or Ctrl-C; what has begun is finished. ``ready`` gets the address."""
    import socket

    import uvicorn

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError as error:
            raise OSError(f"--port: {host}:{port} cannot be used ({error.strerror}). Choose another.") from error
        name = f"[{host}]" if ":" in host else host
        config = uvicorn.Config(
            app, log_level="warning", server_header=False, date_header=False, timeout_graceful_shutdown=30
        )
        listener.listen()  # whoever reads the address may use it at once
        ready(f"http://{name}:{listener.getsockname()[1]}/")
        uvicorn.Server(config).run(sockets=[listener])


class ErrorBody(BaseModel):
    """What went wrong."""

    code: str
    message: str


class Failed(BaseModel):
    """An answer with an error."""

    error: ErrorBody


def _failed(status: int, code: str, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": {"code": code, "message": message}}, status, headers)


def _add_error_handlers(app: FastAPI) -> None:
    def http(request: Request, error: Any) -> JSONResponse:
        code = CODES.get(error.status_code, "error")
        message = TOO_LARGE if code == "too_large" else f"{error.detail}."
        return _failed(error.status_code, code, message, getattr(error, "headers", None))

    def invalid(request: Request, error: Any) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"] if part not in ("body", "query", "path")) or "body"
        return _failed(422, "invalid", f"{where}: {first['msg']}.")

    def busy(request: Request, error: Any) -> JSONResponse:
        return _failed(429, "busy", "There is too much to do at the moment. Try again soon.", {"Retry-After": "1"})

    handlers: dict[Any, Any] = {
        HTTPException: http,
        RequestValidationError: invalid,
        ValidationError: invalid,
        Busy: busy,
        Missing: lambda request, error: _failed(
            404, "no_library" if "library:" in str(error) else "not_found", str(error.args[0])
        ),
        Problem: lambda request, error: _failed(*error.args),
        TooSlow: lambda request, error: _failed(408, "too_slow", "A photo took too long to decode."),
        ValueError: lambda request, error: _failed(422, "invalid", " ".join(str(error).split())),
        Exception: lambda request, error: _failed(
            500, "internal", "Something went wrong here: see the server's log."
        ),
        OSError: lambda request, error: _failed(503, "storage", " ".join(str(error).split())),
    }
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, handler)


def _add_plain_routes(app: FastAPI, figures: Figures, token: str | None) -> None:
    @app.get("/livez", tags=["health"], response_class=Response)
    async def livez() -> Response:
        """Whether the process answers."""
        return Response("ok\n", media_type="text/plain")

    @app.get("/readyz", tags=["health"], response_class=Response)
    async def readyz() -> Response:
        """Whether the model is loaded and photos are tagged."""
        ready = app.state.is_ready
        return Response("ok\n" if ready else "not ready\n", 200 if ready else 503, media_type="text/plain")

    @app.get("/metrics", tags=["health"], response_class=Response)
    async def metrics() -> Response:
        """Figures for Prometheus: requests, latency, batch sizes, the queue, the age of the model."""
        return Response(generate_latest(figures.registry), media_type="text/plain; version=0.0.4")

    @app.get("/", include_in_schema=False)
    async def page(request: Request) -> Response:
        response = FileResponse(PAGE / "index.html")
        if token is not None:  # the guard has seen it in the address: from now on it is in a cookie
            response.set_cookie(COOKIE, token, httponly=True, samesite="strict")
        return response


def _kind(tag: Tag) -> str | None:
    if tag.p is None:
        return "sure" if tag.score > 0 else "no"
    return "sure" if tag.p >= SURE else "maybe" if tag.p >= MAYBE else "no"


def _tag(tag: Tag, verdicts: dict[str, bool] | None = None, query: Words | None = None) -> dict[str, Any]:
    doubt = query.doubts.get(tag.name) if query is not None else None
    return {
        "name": tag.name,
        "p": None if tag.p is None else round(tag.p, 6),
        "score": round(tag.score, 6),
        "kind": _kind(tag),
        "verdict": (verdicts or {}).get(label_key(tag.name)),
        "doubt": None if doubt is None else doubt.kind,
    }


def _text(path: str) -> str:
    """A path with a mark for what is not valid UTF-8."""
    return os.fsencode(path).decode("utf-8", "replace")


def _photo(copies: Sequence[Photo]) -> dict[str, Any]:
    first = copies[0]
    paths = [_text(photo.path) for photo in copies]
    facts = {name: getattr(first, name) for name in ("width", "height", "taken", "note")}
    return {"id": first.digest[:ID], "name": Path(paths[0]).name, "paths": paths, **facts}


def _answer(key: str, name: str, size: Any, answer: Answer, query: Words, verdicts: Any = None) -> dict[str, Any]:
    guess = None if answer.guess is None else _tag(answer.guess, verdicts, query)
    tags = [_tag(tag, verdicts, query) for tag in answer.tags]
    return _about(key, name, size) | {"tags": tags, "guess": guess, "problem": None}


def _about(key: str | None, name: str, size: Any) -> dict[str, Any]:
    return {"id": key, "name": name, "width": size[0], "height": size[1]}


def split_words(text: str) -> list[str] | None:
    """Words separated by commas or lines; None if there are none."""
    words = [" ".join(word.split()) for word in re.split(r"[,;\n]", text)]
    words = [word for word in dict.fromkeys(words) if word]
    if len(words) > MOST_WORDS:
        raise Problem(422, "too_many_words", f"words: {len(words):,} were given. Send at most {MOST_WORDS:,}.")
    for word in words:
        if len(word) > MOST_LETTERS:
            raise Problem(422, "long_word", f"words: {word[:30]!r}... is longer than {MOST_LETTERS} letters.")
    return words or None


def _body(model: type[BaseModel], **files: Any) -> dict[str, Any]:
    """Description of a body that is JSON, or a form with photos."""
    form = {"type": "object", "properties": files, "required": ["photo"]}
    schema = model.model_json_schema()
    content = {"application/json": {"schema": schema}, "multipart/form-data": {"schema": form}}
    return {"requestBody": {"required": True, "content": content}}


_PHOTO = {"type": "string", "format": "binary"}
_PHOTOS = {"type": "array", "items": _PHOTO, "minItems": 1, "maxItems": MOST_PHOTOS}
_WORDS = {"type": "string", "description": "Separated by commas."}


async def _read_form(request: Request) -> tuple[list[UploadFile], dict[str, str]]:
    """Photos and fields of a form."""
    form = await request.form(max_files=MOST_PHOTOS, max_fields=20, max_part_size=2**20)
    photos: list[Any] = [part for part in form.getlist("photo") if not isinstance(part, str)]
    if not photos:
        raise Problem(422, "no_photo", "photo: send at least one file under this name.")
    return photos, {name: value for name, value in form.items() if isinstance(value, str)}


async def _read_json(request: Request, model: type[Made]) -> Made:
    try:
        content = json.loads(await request.body())
    except (ValueError, RecursionError):
        raise Problem(400, "bad_request", "The body is neither a form nor JSON.") from None
    return model.model_validate(content)  # type: ignore[attr-defined, no-any-return]


def _is_form(request: Request) -> bool:
    return request.headers.get("content-type", "").startswith("multipart/form-data")


def _routes(engine: Engine, batcher: Batcher, decoder: Decoder) -> APIRouter:
    """Routes below /v1; those that wait for the disk or the processor run in threads."""
    router = APIRouter(prefix="/v1")

    async def tag_uploads(
        photos: Sequence[UploadFile], query: Words, top: int, min_p: float
    ) -> list[dict[str, Any]]:
        names = [Path(photo.filename or "photo").name[:MOST_LETTERS] for photo in photos]
        with batcher.room(len(photos)):
            contents = [(await photo.read(), Path(photo.filename or "").suffix) for photo in photos]
            found = await asyncio.gather(*(decoder(*content) for content in contents))
            pixels = [decoded.pixels for decoded in found if decoded.pixels is not None]
            answers = iter(await batcher([Asked(one, None, query, top, min_p) for one in pixels]))
        results = []
        for name, decoded in zip(names, found, strict=True):
            if decoded.pixels is None:
                nothing = _about(None, name, (0, 0)) | {"tags": [], "guess": None}
                results.append(nothing | {"problem": decoded.problem})
            else:
                answer = next(answers)
                results.append(_answer(engine.keep(name, decoded, answer), name, decoded.size, answer, query))
        return results

    def stored(key: str) -> tuple[str, tuple[int, int], Any, dict[str, bool]]:
        columns, _ = engine.columns(key)
        copies = engine.photos(key)
        if copies:
            first = copies[0][1]
            return _photo([first])["name"], (first.width, first.height), columns, engine.verdicts(key)
        upload = engine.uploads[key]
        return upload.name, upload.size, columns, {}

    @router.post("/tag", tags=["tags"], openapi_extra=_body(TagRequest, photo=_PHOTOS, words=_WORDS))
    async def tag(request: Request) -> dict[str, Any]:
        """Tag photos that are sent, or named by their ids, with any words."""
        if _is_form(request):
            photos, fields = await _read_form(request)
            words = split_words(fields.get("words", ""))
            try:
                top, min_p = int(fields.get("top", 20)), float(fields.get("min_p", 0.0))
            except ValueError:
                raise Problem(422, "invalid", "top, min_p: these are numbers.") from None
            if not 1 <= top <= MOST_WORDS or not 0.0 <= min_p <= 1.0:
                raise Problem(422, "invalid", f"top: from 1 to {MOST_WORDS:,}; min_p: from 0 to 1.")
            query = await run_in_threadpool(engine.query, words)
            found = await tag_uploads(photos, query, top, min_p)
        else:
            body = await _read_json(request, TagRequest)
            words = None if body.words is None else split_words("\n".join(body.words))
            query = await run_in_threadpool(engine.query, words)
            known = [await run_in_threadpool(stored, key) for key in body.ids]
            with batcher.room(len(known)):
                asked = [Asked(None, columns, query, body.top, body.min_p) for _, _, columns, _ in known]
                answers = await batcher(asked)
            found = [
                _answer(key, name, size, answer, query, verdicts)
                for key, (name, size, _, verdicts), answer in zip(body.ids, known, answers, strict=True)
            ]
        return {"photos": found, "notes": [doubt.sentence for doubt in query.doubts.values()]}

    @router.post(
        "/explain", tags=["tags"], openapi_extra=_body(ExplainRequest, photo=_PHOTOS, word={"type": "string"})
    )
    async def explain(request: Request) -> dict[str, Any]:
        """Why a photo got its score for a word: exact parts, which add up to it."""
        if _is_form(request):
            photos, fields = await _read_form(request)
            if not (word := fields.get("word", "").strip()) or len(word) > MOST_LETTERS:
                raise Problem(422, "invalid", f"word: send one, of at most {MOST_LETTERS} letters.")
            query = await run_in_threadpool(engine.query, [word])
            (sent, *_) = await tag_uploads(photos[:1], query, 1, 0.0)
            if sent["problem"] is not None:
                raise Problem(422, "unreadable", f"photo: it cannot be read: {sent['problem']}.")
            key = sent["id"]
        else:
            body = await _read_json(request, ExplainRequest)
            key, word = body.id, " ".join(body.word.split())

        def compute() -> dict[str, Any]:
            why = engine.explain(engine.columns(key)[0], word)
            parts = [{"kind": kind, "name": name, "value": value} for kind, name, value in why.parts]
            examples = [_photo([photo]) for photo in engine.accepted(word)]
            figures = {"word": why.label, "p": why.p, "score": why.score, "offset": why.offset}
            return figures | {"sentence": why.sentence, "parts": parts, "examples": examples}

        return await run_in_threadpool(compute)

    @router.get("/search", tags=["photos"])
    def search(
        q: Text = None,
        any_of: Annotated[Texts, Query(alias="or")] = [],
        all_of: Annotated[Texts, Query(alias="and")] = [],
        none_of: Annotated[Texts, Query(alias="not")] = [],
        like: Annotated[str | None, Query(pattern=rf"^[0-9a-f]{{{ID}}}$")] = None,
        since: Date = None,
        until: Date = None,
        offset: Annotated[int, Query(ge=0, le=2**40)] = 0,
        limit: Annotated[int, Query(ge=1, le=500)] = 100,
    ) -> dict[str, Any]:
        """Photos of the library, the most probable first; without words, the newest first."""
        started = time.perf_counter()
        groups = [
            tuple(" ".join(word.split()) for word in group if word.strip())
            for group in ((q or "", *any_of), all_of, none_of)
        ]
        if not groups[0] and (groups[1] or groups[2]):
            if not groups[1]:
                raise Problem(422, "invalid", "q: name what the photos show, beside what they do not.")
            groups[0], groups[1] = groups[1][:1], groups[1][1:]
        ranking = engine.search(tuple(groups), like, since, until)
        hits = []
        for copies, p, score in engine.page(ranking, offset, limit):
            kind = None if p is None else _kind(Tag("", score or 0.0, p))
            hits.append({**_photo(copies), "p": p, "score": score, "kind": kind})
        counts = ranking.counts
        figures = {"counts": counts, "exact": counts[0] if counts else 0, "seconds": time.perf_counter() - started}
        return {"total": len(ranking.best.rows), "offset": offset, "hits": hits, **figures, "notes": ranking.notes}

    @router.get("/status", tags=["photos"])
    def status() -> dict[str, Any]:
        """What is served: the library, the model, limits."""
        library, tagger = None, engine.model.tagger
        if engine.library is not None:
            with engine.library.snapshot() as now:
                (photos,) = now.db.execute("SELECT count(*) FROM images").fetchone()
                library = {"name": engine.library.path.name, "photos": photos, "folders": list(now.roots.values())}
        about = {"name": type(tagger).__name__, "labels": tagger.n_seen_, "backbone": engine.model.backbone.name}
        about |= {"learned": engine.learned, "gives_p": hasattr(tagger, "predict_proba")}
        found = {"version": __version__, "library": library, "model": about, "corrections": engine.n_answers()}
        limits = {"words": MOST_WORDS, "photos": MOST_PHOTOS, "bytes": MOST_BYTES}
        return found | {"sure": SURE, "maybe": MAYBE, "limits": limits}

    @router.get("/samples", tags=["tags"])
    def samples() -> dict[str, Any]:
        """Packaged photos to try."""
        uploads = [(key, engine.uploads[key]) for key in engine.samples if key in engine.uploads]
        return {"photos": [_about(key, one.name, one.size) for key, one in uploads]}

    @router.get("/photos/{id}", tags=["photos"])
    def photo(id: Id) -> dict[str, Any]:
        """A photo of the library: file, size, date, and its sure and maybe tags."""
        copies = engine.copies(id)
        tags, guess = engine.tags(id)
        verdicts, query = engine.verdicts(id), engine.query()
        shown = [_tag(tag, verdicts, query) for tag in tags]
        return {**_photo(copies), "tags": shown, "guess": None if guess is None else _tag(guess, verdicts, query)}

    picture: dict[int | str, dict[str, Any]] = {200: {"content": {"image/jpeg": {}}}}

    @router.get("/photos/{id}/thumbnail", tags=["photos"], response_class=Response, responses=picture)
    def thumbnail(id: Id) -> Response:
        """A small copy, without its position."""
        if copies := engine.photos(id):
            jpeg = engine.library.thumbnail(copies[0][1]) if engine.library else None
        else:
            jpeg = engine.uploads[id].thumbnail if id in engine.uploads else None
        if jpeg is None:
            raise Missing(f"id: there is no picture of {id!r}.")
        kept = {"Cache-Control": "private, max-age=31536000, immutable"}  # an id is that of its content
        return Response(jpeg, media_type="image/jpeg", headers=kept)

    @router.get("/photos/{id}/image", tags=["photos"], response_class=Response, responses=picture)
    def image(id: Id) -> Response:
        """A large copy, uncropped, without its position."""
        from unseen.images.reading import UnreadableImage, open_image, quiet_pillow

        places = [Path(copy.path) for _, copy in engine.photos(id)]
        if not places and id in engine.uploads and engine.uploads[id].path is not None:
            places = [engine.uploads[id].path]  # type: ignore[list-item]
        for path in places:
            try:
                with quiet_pillow(), open_image(path, LARGE // 2) as opened:
                    large, jpeg = opened.pixels.copy(), io.BytesIO()
                    large.thumbnail((LARGE, LARGE))
                    large.save(jpeg, "JPEG", quality=88)
            except (OSError, UnreadableImage):
                continue
            kept = {"Cache-Control": "private, max-age=86400"}
            return Response(jpeg.getvalue(), media_type="image/jpeg", headers=kept)
        raise Missing(f"id: the file of {id!r} is not there any more.")

    @router.get("/words", tags=["words"])
    def words() -> dict[str, Any]:
        """The vocabulary: photos per word, neighbours, and words that it cannot know."""
        return describe_words(engine)

    @router.put("/words", tags=["words"])
    def set_words(body: WordsRequest) -> dict[str, Any]:
        """Replace the vocabulary."""
        if not body.text.strip():
            raise Problem(422, "invalid", "text: there is no tag in it. Write one per line.")
        if body.text.count("\n") >= MOST_WORDS:
            raise Problem(422, "too_many_words", f"text: write at most {MOST_WORDS:,} lines.")
        engine.set_words(body.text)
        return describe_words(engine)

    @router.delete("/words", tags=["words"])
    def reset_words() -> dict[str, Any]:
        """Go back to everyday words."""
        engine.set_words("")
        return describe_words(engine)

    @router.get("/words/map", tags=["words"])
    def words_map() -> dict[str, Any]:
        """Words on a plane, before and after the projection that the model has learned."""
        return label_map(engine)

    @router.get("/review", tags=["corrections"])
    def review(word: Text = None, limit: Annotated[int, Query(ge=1, le=500)] = 50) -> dict[str, Any]:
        """Tags in doubt, the most doubtful first."""
        scan, query = engine.scan(), engine.query()
        counting = None if scan.is_done else {"done": scan.done, "total": scan.total}  # before its tags are read
        wanted = None if not word else label_key(word)
        found = [
            (abs((tag.p or 0.0) - 0.5), path, tag)
            for path, tags in list(scan.tags.items()) for tag in tags
            if tag.p is not None and MAYBE <= tag.p < SURE and wanted in (None, label_key(tag.name))
        ]  # fmt: skip
        found.sort(key=lambda item: (item[0], item[1], item[2].name))
        items: list[dict[str, Any]] = []
        with engine.of_library().snapshot() as now:
            for _, path, tag in found[:limit]:
                if copies := [one for _, one in now.photos(*now.condition(None, None, path))]:
                    items.append({"photo": _photo(copies[:1]), "tag": _tag(tag, None, query)})
        return {"items": items, "left": len(found), "counting": counting}

    @router.post("/corrections", tags=["corrections"])
    def correct(body: Correction) -> dict[str, Any]:
        """Accept or reject a tag."""
        engine.correct([(body.id, " ".join(body.word.split()), body.verdict)])
        return {"corrections": engine.n_answers()}

    @router.post("/corrections/bulk", tags=["corrections"])
    def correct_many(body: BulkCorrection) -> dict[str, Any]:
        """Accept a word on all photos where it is probable enough."""
        word = " ".join(body.word.split())
        ranking = engine.search(((word,), (), ()), None, None, None)
        if ranking.best.p is None:
            raise Problem(422, "no_p", "min_p: this model gives scores, not probabilities.")
        n_likely = int((ranking.best.p >= body.min_p).sum())
        keys = [copies[0].digest[:ID] for copies, *_ in engine.page(ranking, 0, n_likely)]
        new = [(key, word, True) for key in keys if label_key(word) not in engine.verdicts(key)]
        engine.correct(new)
        return {"changed": len(new), "corrections": engine.n_answers()}

    @router.post("/corrections/undo", tags=["corrections"])
    def undo_corrections() -> dict[str, Any]:
        """Take back the last answer, or the last ones given at once."""
        return {"undone": engine.undo_answers(), "corrections": engine.n_answers()}

    @router.post("/learn", tags=["corrections"], status_code=202)
    def learn() -> dict[str, Any]:
        """Learn from all answers, in the background."""
        if not engine.n_answers():
            raise Problem(422, "nothing_to_learn", "Accept or reject some tags first: there is nothing to learn.")
        return engine.start("learn", engine.learn).as_json()

    @router.post("/learn/undo", tags=["corrections"])
    def undo_learn() -> dict[str, Any]:
        """Go back to the model before the last learning."""
        return {"learned": engine.forget_learned()}

    @router.get("/jobs/{id}", tags=["corrections"])
    def job(id: Annotated[str, InPath(max_length=20)]) -> dict[str, Any]:
        """How far work in the background is."""
        return engine.job(id).as_json()

    @router.post("/export/xmp", tags=["export"], status_code=202)
    def write_sidecars(body: ExportRequest) -> dict[str, Any]:
        """Write tags to sidecars, in the background, or see what would change."""
        engine.of_library()
        work: Callable[..., Any] = partial(engine.write_tags, min_p=body.min_p, dry_run=body.dry_run)
        return engine.start("xmp", work).as_json()

    @router.post("/export/undo", tags=["export"], status_code=202)
    def undo_sidecars(body: UndoRequest) -> dict[str, Any]:
        """Take back all that was written to sidecars."""
        engine.of_library()
        return engine.start("undo", partial(engine.undo_tags, dry_run=body.dry_run)).as_json()

    def download(lines: Iterable[str], name: str, kind: str) -> StreamingResponse:
        head = {"Content-Disposition": f'attachment; filename="{name}"'}
        return StreamingResponse((line.encode() for line in lines), media_type=kind, headers=head)

    @router.get("/export.csv", tags=["export"], response_class=Response)
    def as_csv(min_p: MinP = SURE) -> Response:
        """A table of all tags: path, tag, p."""
        engine.of_library()

        def lines() -> Iterator[str]:
            line: Any = csv.writer(SimpleNamespace(write=str), lineterminator="\n").writerow  # returns the line
            yield line(("path", "tag", "p", "score"))
            for path, tags in engine.tagged(min_p):
                for one in tags:
                    p = "" if one.p is None else f"{one.p:.4f}"
                    yield line((csv_cell(_text(path)), csv_cell(one.name), p, f"{one.score:.4f}"))

        return download(lines(), "tags.csv", "text/csv")

    @router.get("/export.json", tags=["export"], response_class=Response)
    def as_json(min_p: MinP = SURE) -> Response:
        """One JSON object per line and photo."""
        engine.of_library()

        def lines() -> Iterator[str]:
            for path, tags in engine.tagged(min_p):
                if tags:
                    shown = [{"name": one.name, "p": one.p, "score": one.score} for one in tags]
                    yield json.dumps({"path": _text(path), "tags": shown}, ensure_ascii=False) + "\n"

        return download(lines(), "tags.jsonl", "application/jsonl")

    @router.get("/results", tags=["results"])
    def results() -> dict[str, Any]:
        """Reports of `unseen reproduce` that are served."""
        return {"reports": [{"id": key, "title": path.name} for key, path in engine.reports.items()]}

    @router.get("/results/{id}", tags=["results"])
    def result(id: Annotated[str, InPath(max_length=20)]) -> dict[str, Any]:
        """Tables and figures of a report."""
        folder = _report(engine, id)
        report = folder / "results.md"
        tables = _tables(report.read_text(encoding="utf-8")) if report.is_file() else []  # else it is not finished
        figures = [f"/v1/results/{id}/{path.name}" for path in sorted(folder.glob("*.png"))]
        return {"id": id, "title": folder.name, "tables": tables, "figures": figures}

    @router.get("/results/{id}/{figure}", tags=["results"], response_class=Response)
    def figure(
        id: Annotated[str, InPath(max_length=20)], figure: Annotated[str, InPath(pattern=r"^\w+\.png$")]
    ) -> Response:
        """A figure of a report."""
        known = {path.name: path for path in _report(engine, id).glob("*.png")}
        if figure not in known:
            raise Missing(f"figure: there is no {figure!r}.")
        return FileResponse(known[figure], media_type="image/png")

    return router


def _report(engine: Engine, key: str) -> Path:
    if key not in engine.reports:
        raise Missing(f"id: there is no report {key!r}.")
    return engine.reports[key]


def _tables(text: str) -> list[dict[str, Any]]:
    """Tables of the Markdown that `unseen reproduce` writes, each after a line with its title in bold."""
    tables: list[dict[str, Any]] = []
    title = ""
    for line in text.splitlines():
        if line.startswith("**"):
            title = line.strip("*")
        elif line.startswith("|"):
            cells = [cell.strip().strip("*") for cell in line.strip("|").split("|")]
            if title:
                tables.append({"title": title, "columns": cells, "rows": []})
                title = ""
            elif tables and not set("".join(cells)) <= {"-", ":", " "}:
                tables[-1]["rows"].append(cells)
    return tables
