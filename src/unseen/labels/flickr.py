"""Hit counts asked from Flickr: how many public photos carry a label, and each pair of labels."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Iterable
from contextlib import closing
from http.client import HTTPException
from itertools import combinations_with_replacement
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import numpy as np

from unseen.files import cache_dir
from unseen.labels.cooccurrence import named_counts
from unseen.validation import check_names

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FlickrError", "flickr_hit_counts"]

URL = "https://api.flickr.com/services/rest/"
SECONDS_APART = 1.0  # Flickr allows a key 3,600 requests per hour
TRIES = 6
_INVALID_KEY = 100
_UNAVAILABLE = (0, 10, 105, 106)  # Flickr's codes for a service that is not available right now


class FlickrError(ConnectionError):
    """Flickr cannot be reached, or does not answer the question."""


class _TemporaryError(Exception):
    """A failure that may pass, after as many seconds as the server asked for."""

    def __init__(self, reason: str, wait: str = "") -> None:
        super().__init__(reason)
        self.wait = min(float(wait), 3600.0) if wait.isdigit() else 0.0


def flickr_hit_counts(
    labels: Iterable[str], *, api_key: str | None = None, cache: str | Path | None = None
) -> pd.DataFrame:
    """Count the photos of Flickr that carry each label and each pair of labels as tags.

    One question is asked for each label and one for each pair of labels that occur at all: 210 for 20 labels, 3240
    for 80. Every answer is written to a cache at once, so a run that was stopped, by a failing network or by
    Ctrl-C, goes on where it stopped, and no question is ever asked twice.

    Parameters
    ----------
    labels : iterable of str
        Names of labels, without commas.
    api_key : str, optional
        A key of the Flickr API; by default the environment variable FLICKR_API_KEY. It is never stored.
    cache : str or Path, optional
        SQLite file of the answers; by default ``flickr/answers.sqlite`` in the cache directory of this package.

    Returns
    -------
    DataFrame of shape (n_labels, n_labels)
        As Flickr gives them. Its totals are estimates: a pair may have more hits than one of its labels, which
        ``unseen.labels.cooccurrence.repair_counts(counts, "clip")`` mends.
    """
    names = check_names(labels, "labels")
    key = (api_key or os.environ.get("FLICKR_API_KEY", "")).strip()
    if not key:
        raise ValueError(
            "api_key: no key was given. Get one at https://www.flickr.com/services/apps/create/ and pass it, "
            "or set FLICKR_API_KEY."
        )
    tags = [" ".join(name.lower().split()) for name in names]
    odd = [tag for tag in tags if "," in tag or '"' in tag or tag.startswith("-") or tags.count(tag) > 1]
    if odd:
        raise ValueError(
            f"labels: {odd[0]!r} cannot be asked for: commas, quotes and a leading minus mean something to "
            f"Flickr, and it ignores case. Rename it."
        )
    path = Path(cache) if cache is not None else cache_dir("flickr") / "answers.sqlite"
    counts = np.zeros((len(names), len(names)))
    # Labels before their pairs: what never occurs does not occur together either, so it is not asked.
    pairs = sorted(combinations_with_replacement(range(len(names)), 2), key=lambda pair: pair[0] != pair[1])
    try:
        with closing(sqlite3.connect(path, timeout=30)) as answers:
            answers.execute(
                "CREATE TABLE IF NOT EXISTS answers (question TEXT PRIMARY KEY, total INTEGER NOT NULL)"
            )
            for i, j in pairs:
                if i == j or (counts[i, i] and counts[j, j]):
                    counts[i, j] = counts[j, i] = _answer(",".join(sorted({tags[i], tags[j]})), key, answers)
    except sqlite3.Error as error:
        raise ValueError(
            f"cache: {str(path)!r} cannot be used as a cache of Flickr's answers ({error}). Pass another file."
        ) from error
    return named_counts(counts, names)


def _answer(tags: str, key: str, answers: sqlite3.Connection) -> int:
    """Number of photos from the cache, or else from Flickr and then also in the cache."""
    if found := answers.execute("SELECT total FROM answers WHERE question = ?", [tags]).fetchone():
        return int(found[0])
    for attempt in range(TRIES):
        time.sleep(SECONDS_APART)
        try:
            total = _ask(tags, key)
            break
        except _TemporaryError as problem:
            reason = str(problem)
            if attempt < TRIES - 1:
                time.sleep(max(2.0**attempt, problem.wait))
    else:
        raise FlickrError(
            f"Flickr gave no answer to {tags!r} in {TRIES} tries: {reason}. "
            f"What it has answered so far is kept: run the same again later to go on."
        )
    with answers:  # one transaction per answer: whatever happens next, it stays
        answers.execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", [tags, total])
    return total


def _ask(tags: str, key: str) -> int:
    """Number of photos as Flickr says it; or raise what is wrong."""
    query = {"method": "flickr.photos.search", "api_key": key, "format": "json", "nojsoncallback": "1",
             "per_page": "1", "tags": tags, "tag_mode": "all"}  # fmt: skip
    try:
        with urlopen(
            Request(f"{URL}?{urlencode(query)}", headers={"User-Agent": "unseen"}), timeout=30.0
        ) as response:
            content = response.read()
        answer: Any = json.loads(content)
        if answer["stat"] == "ok":
            return int(answer["photos"]["total"])  # Flickr writes it as a string, or as a number
        code, message = int(answer["code"]), answer["message"]
    except HTTPError as error:
        with error:
            said = f"HTTP status {error.code} {error.reason}"
            if error.code == 429 or error.code >= 500:
                raise _TemporaryError(said, error.headers.get("Retry-After", "")) from None
        raise FlickrError(f"Flickr refuses the question {tags!r}: {said}.") from None
    except (OSError, HTTPException) as error:  # no connection, a time-out, a connection cut off
        raise _TemporaryError(f"{type(error).__name__}: {error}") from None
    except (KeyError, TypeError, ValueError):
        raise _TemporaryError(f"an answer without a total, {content[:60]!r}") from None
    if code == _INVALID_KEY:
        raise ValueError(
            f"api_key: Flickr refuses the key ({message}). Check it at flickr.com/services/apps/by/me."
        )
    raise (_TemporaryError if code in _UNAVAILABLE else FlickrError)(f"Flickr's error {code}: {message}")
