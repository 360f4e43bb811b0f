"""Hit counts asked from Flickr: how many public photos carry a label, and each pair of labels."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np

from unseen.files import cache_dir
from unseen.labels._flickr_api import BASE_URL, FlickrAPI, FlickrError
from unseen.labels.cooccurrence import HitCounts
from unseen.validation import check_choice, check_names

__all__ = ["FlickrAPI", "FlickrError", "flickr_hit_counts"]

_RESERVED = {"method", "api_key", "format", "nojsoncallback", "per_page", "tags", "tag_mode", "text"}


class Answer(NamedTuple):
    """Number of photos, and the day on which Flickr said so."""

    total: int
    date: str


def flickr_hit_counts(
    labels: Iterable[str],
    *,
    api_key: str | None = None,
    cache: str | Path | None = None,
    mode: str = "tags",
    filters: Mapping[str, str] | None = None,
    api: FlickrAPI | None = None,
    base_url: str = BASE_URL,
    per_hour: float = 3600,
    progress: Callable[[int, int], object] | None = None,
) -> HitCounts:
    """Count the photos of Flickr that carry each label and each pair of labels.

    One question is asked for each label and one for each pair of labels that occur at all: 210 for 20 labels, 3240
    for 80. Every answer is written to a cache at once, so a run that was stopped, by a failing network or by
    Ctrl-C, goes on where it stopped, and no question is ever asked twice.

    Parameters
    ----------
    labels : iterable of str
        Names of labels, without commas.
    api_key : str, default=None
        A key of the Flickr API; None takes the environment variable FLICKR_API_KEY. It is never stored.
    cache : str or Path, default=None
        SQLite file of the answers; None takes ``flickr/answers.sqlite`` in the cache directory of this package.
    mode : {"tags", "text"}, default="tags"
        Whether a photo must carry the labels as tags, or as words of its title, description or tags.
    filters : mapping of str to str, default=None
        Further arguments of ``flickr.photos.search``, such as ``{"min_upload_date": "2010-01-01"}``.
    api : FlickrAPI, default=None
        The connection, to choose time limits and retries yourself; it then has its own `api_key`, `base_url` and
        `per_hour`.
    base_url : str, default="https://api.flickr.com/services/rest/"
        Where the API is.
    per_hour : float, default=3600
        Most requests an hour; 3600 is what Flickr allows a key.
    progress : callable, default=None
        Called with the number of questions answered and the number of all questions after each of them.

    Returns
    -------
    HitCounts
        As Flickr gives them. Its totals are estimates: a pair may have more hits than one of its labels, which
        `HitCounts.problems` reports and ``repaired("clip")`` mends.

    Raises
    ------
    ValueError
        If there is no key, if Flickr refuses it, or if an argument or the cache cannot be used.
    FlickrError
        If Flickr cannot be reached or does not answer the question, after several tries.
    """
    names = check_names(labels, "labels")
    check_choice(mode, "mode", ("tags", "text"))
    folded = _fold(names)
    extra = _check_filters(filters)
    connection = api or FlickrAPI(
        api_key or os.environ.get("FLICKR_API_KEY"), base_url=base_url, per_hour=per_hour
    )
    path = Path(cache) if cache is not None else cache_dir("flickr") / "answers.sqlite"
    counts = np.zeros((len(names), len(names)))
    dates: set[str] = set()
    n_questions = len(names) * (len(names) + 1) // 2
    with _open_cache(path) as answers:
        questions = [(i, i) for i in range(len(names))] + list(combinations(range(len(names)), 2))
        for done, (i, j) in enumerate(questions, start=1):
            # What never occurs does not occur together either, so it is not asked.
            if i == j or (counts[i, i] and counts[j, j]):
                answer = _ask({folded[i], folded[j]}, mode, extra, connection, answers)
                counts[i, j] = counts[j, i] = answer.total
                dates.add(answer.date[:10])
            if progress is not None:
                progress(done, n_questions)
    when = " to ".join(sorted({min(dates), max(dates)}))
    return HitCounts(names, counts, f"Flickr, photos by {mode}, asked on {when}")


def _fold(names: tuple[str, ...]) -> list[str]:
    """Labels as Flickr is asked for them; commas, quotes and a leading minus mean something else to it."""
    folded = [" ".join(name.lower().split()) for name in names]
    for name, tag in zip(names, folded, strict=True):
        if "," in tag or '"' in tag or tag.startswith("-"):
            raise ValueError(
                f"labels: {name!r} cannot be asked for, because of a comma, a quote or a leading minus. Rename it."
            )
        if folded.count(tag) > 1:
            raise ValueError(f"labels: {name!r} occurs twice if case is ignored, as Flickr does. Give it once.")
    return folded


def _check_filters(filters: Mapping[str, str] | None) -> dict[str, str]:
    extra = {str(name): str(value) for name, value in (filters or {}).items()}
    if taken := sorted(_RESERVED & set(extra)):
        raise ValueError(f"filters: {', '.join(taken)} cannot be set. Use the other arguments of this function.")
    return extra


def _ask(
    tags: set[str], mode: str, extra: Mapping[str, str], api: FlickrAPI, answers: sqlite3.Connection
) -> Answer:
    """Answer from the cache, or else from Flickr and then also in the cache."""
    if mode == "tags":
        asked = {"tags": ",".join(sorted(tags)), "tag_mode": "all"}
    else:
        asked = {"text": " ".join(f'"{tag}"' if " " in tag else tag for tag in sorted(tags))}
    asked |= extra
    key = json.dumps(asked, sort_keys=True, ensure_ascii=False)
    found = answers.execute("SELECT total, date FROM answers WHERE question = ?", [key]).fetchone()
    if found:
        return Answer(*found)
    answer = Answer(api.count_photos(asked), datetime.now(UTC).isoformat(timespec="seconds"))
    with answers:  # one transaction an answer: whatever happens next, it stays
        answers.execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", [key, *answer])
    return answer


@contextmanager
def _open_cache(path: Path) -> Iterator[sqlite3.Connection]:
    def unusable(error: Exception) -> ValueError:
        return ValueError(
            f"cache: {str(path)!r} cannot be used as a cache of Flickr's answers ({error}). Pass another file, or "
            f"remove this one to ask everything again."
        )

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unusable(error) from error
    try:
        with closing(sqlite3.connect(path, timeout=30)) as answers:
            with answers:
                answers.execute(
                    "CREATE TABLE IF NOT EXISTS answers "
                    "(question TEXT PRIMARY KEY, total INTEGER NOT NULL, date TEXT NOT NULL)"
                )
            yield answers
    except sqlite3.Error as error:
        raise unusable(error) from error
