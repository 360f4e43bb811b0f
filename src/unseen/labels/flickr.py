"""Hit counts from Flickr: the number of public photos with each label, and with each pair of labels."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from itertools import combinations_with_replacement
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unseen.files import cache_dir, open_session, write_atomically
from unseen.hub import import_extra
from unseen.labels.cooccurrence import named_counts
from unseen.validation import check_names

if TYPE_CHECKING:
    import pandas as pd

URL = "https://api.flickr.com/services/rest/"
SECONDS_APART = 1.0  # Flickr allows a key 3,600 requests per hour
_INVALID_KEY = 100


class FlickrError(ConnectionError):
    """Flickr cannot be reached, or does not answer."""


def flickr_hit_counts(
    labels: Iterable[str], *, api_key: str | None = None, cache: str | Path | None = None
) -> pd.DataFrame:
    """Count the photos of Flickr that carry each label and each pair of labels as tags.

    One request is made per label and per pair of labels that occur at all: 210 for 20 labels, 3240
    for 80. Every answer is written to a cache at once, so an interrupted run continues where it stopped.

    Parameters
    ----------
    labels : iterable of str
        Names of labels, without commas.
    api_key : str, optional
        A key of the Flickr API; by default the environment variable FLICKR_API_KEY. It is never stored.
    cache : str or Path, optional
        JSON file of the answers; by default ``flickr/answers.json`` in the cache directory of this package.
    """
    names = check_names(labels, "labels")
    key = (api_key or os.environ.get("FLICKR_API_KEY", "")).strip()
    if not key:
        raise ValueError("api_key: none was given. Set FLICKR_API_KEY to one of flickr.com/services/apps/create.")
    tags = [" ".join(name.lower().split()) for name in names]
    odd = [tag for tag in tags if "," in tag or '"' in tag or tag.startswith("-") or tags.count(tag) > 1]
    if odd:
        raise ValueError(f"labels: {odd[0]!r} has a comma, quote or leading minus, or occurs twice. Rename it.")
    path = Path(cache) if cache is not None else cache_dir("flickr") / "answers.json"
    counts = np.zeros((len(names), len(names)))
    # Labels before pairs: a label without hits has no pairs with hits, so these are not requested.
    pairs = sorted(combinations_with_replacement(range(len(names)), 2), key=lambda pair: pair[0] != pair[1])
    try:
        answers: dict[str, int] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    except ValueError as error:
        raise ValueError(f"cache: {str(path)!r} does not contain Flickr's answers ({error}).") from error
    import_extra("requests", "images")
    with open_session(5) as session:
        for i, j in pairs:
            if i == j or (counts[i, i] and counts[j, j]):
                asked = ",".join(sorted({tags[i], tags[j]}))
                if asked not in answers:
                    answers[asked] = _ask(asked, key, session)
                    write_atomically(path, lambda temporary: temporary.write_text(json.dumps(answers)))
                counts[i, j] = counts[j, i] = answers[asked]
    # Its totals are estimates: a pair may have more hits than one of its labels.
    single = np.diag(counts)
    return named_counts(np.minimum(counts, np.minimum.outer(single, single)), names)


def _ask(tags: str, key: str, session: Any) -> int:
    """Number of photos reported by Flickr; errors never show the key."""
    time.sleep(SECONDS_APART)
    query = {"method": "flickr.photos.search", "api_key": key, "format": "json", "nojsoncallback": "1",
             "per_page": "1", "tags": tags, "tag_mode": "all"}  # fmt: skip
    try:
        response = session.get(URL, params=query, timeout=30)
        answer = response.json()
        if answer["stat"] == "ok":
            return int(answer["photos"]["total"])  # Flickr writes it as a string, or as a number
        reason = f"error {answer['code']}: {answer['message']}"
        is_wrong_key = int(answer["code"]) == _INVALID_KEY
    except OSError as error:  # errors of requests, whose messages show the key
        reason, is_wrong_key = type(error).__name__, False
    except (KeyError, TypeError, ValueError):
        reason, is_wrong_key = f"HTTP status {response.status_code}, {response.content[:60]!r}", False
    if is_wrong_key:
        raise ValueError(f"api_key: Flickr rejects it ({reason}). Check it at flickr.com/services/apps/by/me.")
    raise FlickrError(f"Flickr does not answer {tags!r} ({reason}). Its answers are kept: run it again to resume.")
