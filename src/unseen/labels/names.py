"""From the names of labels to words of a vocabulary, by rules that a user can read and see at work.

A name is resolved by the first of these rules that succeeds:

1. ``data set``: names that a data set glues together and that are no words ("diningtable", "tvmonitor",
   "pottedplant") are read as the phrase they stand for, by a short table, and then as below.
2. ``exact``: the name is in the vocabulary as it is written.
3. ``case``: in lower case, capitalised, or in capitals ("Dog", "paris", "tv").
4. ``joined``: a name of several words is one word of the vocabulary, written with underscores, with hyphens or as
   one ("new york" as "new_york", "t shirt" as "t-shirt", "hot dog" as "hotdog"): the most common of these forms,
   if it is among the first 150,000 words. Rarer ones have vectors of few occurrences: rule 8 is used.
5. ``spelling``: the British form of an American word, or the reverse ("airplane", "aeroplane").
6. ``number``: the singular of a plural, or the reverse, in either spelling.
7. ``glued``: a single unknown word is cut into two or three common words ("surfshop" into "surf", "shop"): the
   fewest, then the most common. Parts have three letters at least, and those of three must be very common.
8. ``words``: a name of several words is the mean of their vectors, each found by rules 2, 3, 5, 6 or 7. Small
   words ("of", "the") are left out unless there are no others.

"Common" is read off the order of the vocabulary, which publishers sort by frequency. What cannot be resolved
is reported with the nearest known words.
"""

from __future__ import annotations

import re
import unicodedata
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unseen.labels._nearest import COMMON, nearest_of
from unseen.labels._spelling import DATA_SET_NAMES, SMALL_WORDS, number_forms, other_spellings
from unseen.labels.vectors import WordVectors
from unseen.validation import check_choice, check_names, listed

__all__ = ["MISSING", "Resolution", "as_phrase", "name_vectors", "resolve_names"]

MISSING = ("error", "mean", "skip")

_MOST_REPORTED = 20
_COMMON_JOINED = 150_000
_COMMON_PART = 50_000
_VERY_COMMON_PART = 5_000


@dataclass(frozen=True)
class Resolution:
    """What stands for a name.

    Attributes
    ----------
    name : str
        The name of the label.
    words : tuple of str
        Words of the vocabulary; the label's vector is the mean of theirs.
    rule : str
        How they were found; see the module's description. ``"mean"`` marks a fallback.
    unknown : tuple of str
        Words of the name that were not found.
    """

    name: str
    words: tuple[str, ...]
    rule: str
    unknown: tuple[str, ...] = ()

    def __str__(self) -> str:
        words = ", ".join(map(repr, self.words)) or "the mean of all words"
        used = f"mean of {words}" if len(self.words) > 1 else words
        return f"{self.name!r} -> {used} ({self.rule})"


_ACRONYM = 3  # letters: TV, USA


def as_phrase(name: str) -> str:
    """A name as a person would write it, for a text encoder.

    Parameters
    ----------
    name : str
        Name of a label.

    Returns
    -------
    str
        Glued names of data sets taken apart; underscores and repeated spaces replaced by a single space; words of
        more than three capitals in small letters, as encoders hardly know them. Other letters stay: "Hund" is
        better German than "hund".
    """
    words = unicodedata.normalize("NFC", name).replace("_", " ").split()
    text = " ".join(word.lower() if len(word) > _ACRONYM and word.isupper() else word for word in words)
    return DATA_SET_NAMES.get(text.lower(), text)


def resolve_names(names: Iterable[str], vectors: WordVectors, *, missing: str = "error") -> list[Resolution]:
    """Words of a vocabulary that stand for the names of labels.

    Parameters
    ----------
    names : iterable of str
        Names of labels, as a data set or a person writes them.
    vectors : WordVectors
        The vocabulary.
    missing : {"error", "mean", "skip"}, default="error"
        What to do with names that have unknown words. ``"error"``: refuse them all at once, with the nearest known
        words. ``"mean"``: use the words that are known, or, if none is, the mean of the whole vocabulary.
        ``"skip"``: leave the label out, with a warning.

    Returns
    -------
    list of Resolution
        One for each name, in order; fewer under ``missing="skip"``.

    Raises
    ------
    ValueError
        If a name cannot be resolved under ``missing="error"``, or none is left under ``"skip"``.
    """
    check_choice(missing, "missing", MISSING)
    checked = check_names(names, "names")
    known = _Known(vectors, checked)
    resolved = [_resolve(name, known) for name in checked]
    unknown = [resolution for resolution in resolved if resolution.unknown]
    if unknown and missing == "error":
        raise ValueError(_unknown_message(unknown, vectors))
    if missing == "skip":
        resolved = [resolution for resolution in resolved if not resolution.unknown]
        if not resolved:
            raise ValueError(_unknown_message(unknown, vectors))
        if unknown:
            warnings.warn(f"names: {listed([r.name for r in unknown])} left out, having no vector.", stacklevel=2)
    return resolved


def name_vectors(resolved: Sequence[Resolution], vectors: WordVectors) -> NDArray[np.float64]:
    """Vectors of resolved names: the means of their words' vectors.

    Parameters
    ----------
    resolved : sequence of Resolution
        As `resolve_names` returns them.
    vectors : WordVectors
        The vocabulary they were resolved in.

    Returns
    -------
    ndarray of shape (n_names, n_dims)
        The vector of a single word is that of the vocabulary, to the bit.
    """
    words = list(dict.fromkeys(word for resolution in resolved for word in resolution.words))
    table = dict(zip(words, vectors.vectors(words).astype(np.float64), strict=True))
    rows = [
        np.mean([table[word] for word in resolution.words], axis=0) if resolution.words else vectors.mean()
        for resolution in resolved
    ]
    return np.array(rows).reshape(len(resolved), vectors.n_dims)


class _Known:
    """Rows of words, looked up for all names at once: each look-up opens the table's files."""

    def __init__(self, vectors: WordVectors, names: Iterable[str]) -> None:
        self._vectors = vectors
        self._rows: dict[str, int] = {}
        texts = [_reading(name)[1] for name in names]
        parts = [(text, _split(text)) for text in texts]
        forms = [form for text, words in parts for _, form in _whole_forms(text, words)]
        forms += [form for text, words in parts for form in _joined_forms(words)]
        forms += [form for _, words in parts for word in words for _, form in _forms(word)]
        self.rows(forms)

    def rows(self, words: Sequence[str]) -> list[int]:
        """Row of each word, -1 where there is none."""
        new = [word for word in dict.fromkeys(words) if word not in self._rows]
        if new:
            self._rows |= dict(zip(new, self._vectors.rows(new).tolist(), strict=True))
        return [self._rows[word] for word in words]

    def first(self, forms: Iterable[tuple[str, str]]) -> tuple[str, str] | None:
        """The first of several (rule, word) whose word is known."""
        tried = list(forms)
        rows = self.rows([word for _, word in tried])
        return next((form for form, row in zip(tried, rows, strict=True) if row >= 0), None)


def _reading(name: str) -> tuple[str | None, str]:
    """Text of a name, and the rule if it is not simply what is written."""
    text = " ".join(unicodedata.normalize("NFC", name).split())
    key = re.sub(r"[\s_-]+", " ", text).lower()
    return ("data set", DATA_SET_NAMES[key]) if key in DATA_SET_NAMES else (None, text)


def _resolve(name: str, known: _Known) -> Resolution:
    rule, text = _reading(name)
    parts = _split(text)
    whole = known.first(_whole_forms(text, parts)) or _joined(parts, known)
    if whole is not None:
        return Resolution(name, (whole[1],), rule or whole[0])
    if len(parts) < 2:
        cut = _cut(parts[0] if parts else text, known)
        return Resolution(name, cut, rule or "glued") if cut else Resolution(name, (), "mean", (text,))
    words, unknown = _resolve_parts(parts, known)
    return Resolution(name, words, "mean" if unknown else rule or "words", unknown)


def _resolve_parts(parts: list[str], known: _Known) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Words that are known and those that are not."""
    content = [part for part in parts if part.lower() not in SMALL_WORDS] or parts
    words: list[str] = []
    unknown: list[str] = []
    for part in content:
        found = known.first(_forms(part))
        cut = (found[1],) if found else _cut(part, known)
        words += cut
        if not cut:
            unknown.append(part)
    return tuple(words), tuple(unknown)


def _split(text: str) -> list[str]:
    """Words of a name: cut at white space, punctuation, and where "camelCase" changes case."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)
    return [part for part in re.split(r"[\W_]+", spaced) if part]


def _cases(word: str) -> list[str]:
    return [word, word.lower(), word.lower().capitalize(), word.upper()]


def _forms(word: str) -> Iterator[tuple[str, str]]:
    """Rule and form of a single word, in the order they are tried."""
    yield "exact", word
    for form in _cases(word)[1:]:
        yield "case", form
    for spelling in other_spellings(word.lower()):
        for form in _cases(spelling):
            yield "spelling", form
    for number in number_forms(word.lower()):
        for spelling in (number, *other_spellings(number)):
            for form in _cases(spelling):
                yield "number", form


def _whole_forms(text: str, parts: list[str]) -> Iterator[tuple[str, str]]:
    """Rule and form of a name as one word of the vocabulary."""
    if len(parts) < 2:
        yield from _forms(text)
        if parts and parts[0] != text:
            yield from _forms(parts[0])
        return
    yield "exact", text
    for form in _cases(text)[1:]:
        yield "case", form


def _joined_forms(parts: list[str]) -> list[str]:
    cases = (parts, [part.lower() for part in parts], [part.title() for part in parts])
    return [join.join(case) for join, case in product(("_", "-", ""), cases)] if len(parts) > 1 else []


def _joined(parts: list[str], known: _Known) -> tuple[str, str] | None:
    forms = _joined_forms(parts)
    common = [(row, i) for i, row in enumerate(known.rows(forms)) if 0 <= row < _COMMON_JOINED]
    return ("joined", forms[min(common)[1]]) if common else None


def _cut(word: str, known: _Known) -> tuple[str, ...]:
    """Two or three common words that a name was glued from; empty if there are none.

    Among several ways the fewest parts win, then those whose rarest part is the most common.
    """
    word = word.lower()
    if not word.isalpha() or not 6 <= len(word) <= 40:
        return ()
    pieces = [(a, b) for a in range(len(word)) for b in range(a + 3, len(word) + 1) if b - a < len(word)]
    rows = known.rows([word[a:b] for a, b in pieces])
    rank = {
        piece: row
        for piece, row in zip(pieces, rows, strict=True)
        if 0 <= row < (_VERY_COMMON_PART if piece[1] - piece[0] == 3 else _COMMON_PART)
    }
    ends = [(cut,) for cut in range(len(word))] + [(a, b) for a, b in pieces if a > 0 and b < len(word)]
    best: tuple[Any, ...] | None = None
    for cuts in ends:
        spans = list(zip((0, *cuts), (*cuts, len(word)), strict=True))
        if all(span in rank for span in spans):
            cost = (len(spans), max(rank[span] for span in spans), spans)
            best = cost if best is None or cost < best else best
    return tuple(word[a:b] for a, b in best[2]) if best else ()


def _unknown_message(unknown: list[Resolution], vectors: WordVectors) -> str:
    shown = unknown[:_MOST_REPORTED]
    words = [word for resolution in shown for word in resolution.unknown]
    near = dict(zip(words, nearest_of(words, vectors.words(0, COMMON)), strict=True))
    hints = []
    for resolution in shown:
        nearest = list(dict.fromkeys(word for part in resolution.unknown for word in near[part]))
        hints.append(f"{resolution.name!r}" + (f" (nearest: {listed(nearest)})" if nearest else ""))
    more = f"; and {len(unknown) - len(shown)} more" if len(unknown) > len(shown) else ""
    count = "1 name has" if len(unknown) == 1 else f"{len(unknown)} names have"
    return (
        f"names: {count} no word vector in {vectors.source!r}: {'; '.join(hints)}{more}. "
        f'Correct the spelling, pass missing="mean" or missing="skip", or use a text encoder, vectors="use", '
        f"which knows every phrase."
    )
