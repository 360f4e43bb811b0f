"""Hit counts: how many photos carry each label, and each pair of labels.

They are square data frames with the labels on both axes: HC(i, j), the number of photos that carry both labels,
the diagonal HC(i), and NaN where the source has no count. The relations of TAEP-C follow from them by
`unseen.labels.relations.from_hit_counts`: ``R[i, j] = HC(i, j) / (HC(i) + HC(j))``.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import time
import unicodedata
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, combinations_with_replacement
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unseen.files import (
    DAMAGE,
    MOST_LINE,
    cache_dir,
    guess_delimiter,
    lines_of,
    most_unpacked,
    open_session,
    read_whole,
    reason,
    write_atomically,
)
from unseen.hub import import_extra
from unseen.validation import Matrix, check_names, listed

if TYPE_CHECKING:
    import pandas as pd

FLICKR = "https://api.flickr.com/services/rest/"
SECONDS_APART = 1.0  # Flickr allows a key 3,600 requests per hour
INVALID_KEY = 100


class FlickrError(ConnectionError):
    """Flickr cannot be reached, or does not answer."""


def named_counts(counts: Matrix, labels: Iterable[str]) -> pd.DataFrame:
    """Counts as a data frame with the labels on both axes."""
    return import_extra("pandas", "images").DataFrame(counts, index=list(labels), columns=list(labels))


def read_hit_counts(path: str | Path, labels: Iterable[str] | None = None) -> pd.DataFrame:
    """Read a square CSV matrix with the labels in its first row and first column.

    Cells are separated by comma, semicolon or tab; an empty cell is an unknown count. `labels` are those
    to keep, in this order; one that the file lacks gets unknown counts.
    """
    pd = import_extra("pandas", "images")
    try:
        text = read_whole(path).decode("utf-8-sig")
        separator = guess_delimiter(text.partition("\n")[0])
        table = pd.read_csv(io.StringIO(text), sep=separator, header=None, dtype=str, keep_default_na=False)
        names, rows = check_names(table.iloc[0, 1:], "first row"), check_names(table.iloc[1:, 0], "first column")
        if odd := sorted(set(rows) ^ set(names)):
            raise ValueError(f"{listed(odd)} only in the first row or only in the first column")
        values = table.iloc[1:, 1:].replace("", "nan").to_numpy(np.float64)
    except FileNotFoundError:
        raise
    except DAMAGE as error:
        what = f"{str(path)!r} is not a table with labels on both sides ({reason(error)})"
        raise ValueError(f"path: {what}.") from None
    chosen = list(names if labels is None else check_names(labels, "labels"))
    return pd.DataFrame(values, index=rows, columns=names).reindex(index=chosen, columns=chosen)


def count_tag_sets(
    source: str | Path | Iterable[str], labels: Iterable[str], *, separator: str | None = None
) -> pd.DataFrame:
    """Count labels and pairs of labels in a corpus of tag sets: one line per photo.

    Case is ignored, and words of a label may be joined by spaces, underscores, hyphens or nothing.

    Parameters
    ----------
    source : str, Path or iterable of str
        A text file (UTF-8; gzip if its name ends in .gz), or the lines themselves, read once as a stream.
    labels : iterable of str
    separator : str, optional
        Of the tags, or ``"whitespace"``; by default tab, semicolon or comma, whichever most of the first 200 lines
        (or 16 MB) contain, or else white space.

    Examples
    --------
    >>> count_tag_sets(["dog, sofa", "Dog", "cat, sofa"], ["dog", "sofa"])
          dog  sofa
    dog   2.0   1.0
    sofa  1.0   2.0
    """
    names = check_names(labels, "labels")
    rows = _spellings(names)
    if not isinstance(source, str | Path):
        sets = _count(iter(source), rows, separator)
    else:
        reader = gzip.open if str(source).endswith(".gz") else open
        try:
            most = most_unpacked(Path(source)) if str(source).endswith(".gz") else None
            # Bytes that are not UTF-8 lose only the tag that contains them.
            with reader(source, "rt", encoding="utf-8-sig", errors="replace") as file:
                sets = _count(lines_of(file, most), rows, separator)
        except FileNotFoundError:
            raise
        except DAMAGE as error:
            what = f"{str(source)!r} is damaged ({reason(error)})"
            raise ValueError(f"source: {what}. Download it again.") from error
    counts = np.zeros((len(names), len(names)))
    for found, n_photos in sets.items():
        shown = [row for row in found if row is not None]
        counts[np.ix_(shown, shown)] += n_photos
    return named_counts(counts, names)


def _spellings(labels: tuple[str, ...]) -> dict[str, int]:
    """Row of the label that each tag stands for; a label's own name precedes joined forms of others."""
    found: dict[str, int] = {}
    for row, label in enumerate(labels):
        if found.setdefault(_fold(label).strip(), row) != row:
            raise ValueError(f"labels: {label!r} is given twice, as case is ignored. Leave one out.")
    for tag, row in list(found.items()):
        for joint in (" ", "_", "-", ""):
            found.setdefault(joint.join(re.split(r"[\s_-]+", tag)), row)
    return found


def _count(lines: Iterator[str], rows: Mapping[str, int], separator: str | None) -> Counter[frozenset[int | None]]:
    """How many lines carry each set of labels; None stands for any other tag."""
    if separator is None:
        first, n_read = list[str](), 0
        for line in lines:
            first.append(line)
            n_read += len(line)
            if len(first) == 200 or n_read > MOST_LINE:
                break
        lines = chain(first, lines)
        votes = {mark: sum(mark in line.strip() for line in first) for mark in ("\t", ";", ",")}
        separator = max(votes, key=lambda mark: votes[mark]) if any(votes.values()) else "whitespace"
    mark = None if separator in ("whitespace", " ") else separator
    sets: Counter[frozenset[int | None]] = Counter()
    for line in lines:
        tags = _fold(line.replace('"', " ")).split(mark)
        sets[frozenset(map(rows.get, map(str.strip, tags)))] += 1
    return sets


def _fold(text: str) -> str:
    text = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return re.sub(" +", " ", text).casefold()


def flickr_hit_counts(labels: Iterable[str]) -> pd.DataFrame:
    """Count the photos of Flickr that carry each label and each pair of labels as tags, with FLICKR_API_KEY.

    One request is made per label and per pair of labels that occur at all: 210 for 20 labels, 3240
    for 80. Every answer is written to a cache at once, so an interrupted run continues where it stopped.
    """
    names, key = check_names(labels, "labels"), os.environ.get("FLICKR_API_KEY", "").strip()
    if not key:
        raise ValueError("flickr: no key. Set FLICKR_API_KEY to one of flickr.com/services/apps/create.")
    tags = [" ".join(name.lower().split()) for name in names]
    odd = [tag for tag in tags if "," in tag or '"' in tag or tag.startswith("-") or tags.count(tag) > 1]
    if odd:
        raise ValueError(f"labels: {odd[0]!r} has a comma, quote or leading minus, or occurs twice. Rename it.")
    path = cache_dir("flickr") / "answers.json"
    counts = np.zeros((len(names), len(names)))
    # Labels before pairs: a label without hits has no pairs with hits, so these are not requested.
    pairs = sorted(combinations_with_replacement(range(len(names)), 2), key=lambda pair: pair[0] != pair[1])
    answers: dict[str, int] = {}
    try:
        stored = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        answers = {str(asked): int(count) for asked, count in stored.items()}
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        warnings.warn(f"cache: {str(path)!r} is damaged and made again ({error!r}).", stacklevel=2)
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
        response = session.get(FLICKR, params=query, timeout=30)
        answer = response.json()
        if answer["stat"] == "ok":
            return int(answer["photos"]["total"])  # Flickr writes it as a string, or as a number
        reason = f"error {answer['code']}: {answer['message']}"
        is_wrong_key = int(answer["code"]) == INVALID_KEY
    except OSError as error:  # errors of requests, whose messages show the key
        reason, is_wrong_key = type(error).__name__, False
    except (KeyError, TypeError, ValueError):
        reason, is_wrong_key = f"HTTP status {response.status_code}, {response.content[:60]!r}", False
    if is_wrong_key:
        raise ValueError(
            f"flickr: FLICKR_API_KEY is rejected ({reason}). Check it at flickr.com/services/apps/by/me."
        )
    raise FlickrError(f"Flickr does not answer {tags!r} ({reason}). Its answers are kept: run it again to resume.")
