"""Names of labels: when two are the same label, and which words of a table of vectors represent one.

A name is looked up in a table by the first of these rules that succeeds: as written (``exact``); as the phrase
that a data set glued together (``data set``); in another ``case``; as one word, ``joined`` by underscores, hyphens
or nothing, if it is common; in British or American ``spelling``; in the singular or plural (``number``); as the
mean of its ``words``, without small ones ("of", "the").
"""

from __future__ import annotations

import csv
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


def read_data(name: str) -> str:
    """Text of a file in ``unseen/labels/data``."""
    return files("unseen.labels").joinpath("data", name).read_text(encoding="utf-8")


# Data set names that are not words, with their meaning.
_GLUED = """
dining table, tv monitor, potted plant, traffic light, fire hydrant, stop sign, parking meter, teddy bear,
sports ball, baseball bat, baseball glove, tennis racket
"""
DATA_SET_NAMES = {phrase.replace(" ", ""): phrase for phrase in " ".join(_GLUED.split()).split(", ")}
DATA_SET_NAMES |= {"hairdrier": "hair dryer", "hair drier": "hair dryer"}
# Classes of PASCAL VOC as people write them; the others are words already.
VOC_WORDS = {
    "aeroplane": "airplane",
    "diningtable": "dining table",
    "motorbike": "motorcycle",
    "pottedplant": "potted plant",
    "tvmonitor": "television",
}
SMALL_WORDS = frozenset({"a", "an", "and", "at", "by", "for", "from", "in", "of", "on", "or", "the", "to", "with"})

_COMMON = 150_000
_PAIRS = list(csv.reader(read_data("spellings.csv").splitlines()))[1:]  # British, American
_SPELLINGS = dict(_PAIRS) | {american: british for british, american in _PAIRS}


class Resolution(NamedTuple):
    """How a name was looked up: words whose mean is its vector, or the phrase given to a text encoder.

    The rule is one of the module's, "phrase" for a text encoder, or "mean" if some words are unknown.
    """

    name: str
    words: tuple[str, ...]
    rule: str
    unknown: tuple[str, ...] = ()


def as_phrase(name: str) -> str:
    """A name as a person would write it, for a text encoder.

    Words of more than three capitals are lower-cased, as encoders hardly know them. Others stay: "Hund" is better
    German than "hund".
    """
    words = unicodedata.normalize("NFC", name).replace("_", " ").split()
    text = " ".join(word.lower() if len(word) > 3 and word.isupper() else word for word in words)
    return DATA_SET_NAMES.get(text.lower(), text)


def label_key(name: str) -> str:
    """Key shared by names of the same label: "Sofa" and "sofa", "aeroplane" (of PASCAL VOC) and "airplane"."""
    phrase = as_phrase(name).casefold()
    return VOC_WORDS.get(name.casefold(), VOC_WORDS.get(phrase.replace(" ", ""), phrase))


def merge_names(names: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Keep the first of the names that mean the same label, by `label_key`; and a sentence on each of the others.

    Examples
    --------
    >>> merge_names(["Bus", "cat", "bus"])
    (('Bus', 'cat'), ("'bus' is the same label as 'Bus' and was merged with it.",))
    """
    first: dict[str, str] = {}
    notes = []
    for name in names:
        other = first.setdefault(label_key(name), name)
        if other != name:
            notes.append(f"{name!r} is the same label as {other!r} and was merged with it.")
    return tuple(first.values()), tuple(dict.fromkeys(notes))


def everyday_labels() -> tuple[str, ...]:
    """Names of things, animals, people, food and places that are often seen in photos."""
    return tuple(line for line in read_data("everyday.txt").splitlines() if line and not line.startswith("#"))


class VocabularyTag(NamedTuple):
    """A tag, the more general ones above it, all words that mean it, and words for what is not meant."""

    name: str
    parents: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    exclusions: tuple[str, ...] = ()


class Vocabulary(NamedTuple):
    """Tags with synonyms, parents and exclusions.

    In a file, one tag per line::

        animal > cat: kitten, tabby cat, !toy cat
        animal > dog
        boat: ship, sailing boat
        @everyday
        !weapon

    After ``>`` follows a more special tag, after ``:`` words that mean the same, and after ``!`` words for what is
    not meant. ``@everyday`` stands for `everyday_labels`, a line that begins with ``!`` removes a word from the
    whole vocabulary, and ``#`` begins a comment. A tag has the largest probability of its words, times 1 - p of
    each exclusion; a tag above others that has a line of its own at least theirs.
    """

    tags: tuple[VocabularyTag, ...]

    @classmethod
    def of(cls, words: Iterable[str]) -> Vocabulary:
        """Words as tags, without synonyms."""
        return cls(tuple(VocabularyTag(word, (), (word,)) for word in merge_names(words)[0]))

    @classmethod
    def read(cls, path: str | Path) -> Vocabulary:
        """Vocabulary of a UTF-8 file; an error names the line."""
        try:
            lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
        except UnicodeDecodeError as error:
            raise ValueError(f"vocabulary: {str(path)!r} is not UTF-8 text ({error}).") from None
        return cls.parse(lines, str(path))

    @classmethod
    def parse(cls, lines: Iterable[str], source: str = "vocabulary") -> Vocabulary:
        """Vocabulary of lines of text."""
        found: dict[str, tuple[int, VocabularyTag]] = {}
        removed: dict[str, int] = {}
        everyday = False
        for number, line in enumerate(lines, start=1):
            text = " ".join(line.partition("#")[0].split())
            if text.startswith("!"):
                removed[label_key(text[1:].strip())] = number
            elif text.startswith("@"):
                if text != "@everyday":
                    raise ValueError(f"{source}, line {number}: {text[:60]!r} is unknown. Write @everyday.")
                everyday = True
            elif text:
                head, _, tail = text.partition(":")
                *parents, name = (part.strip() for part in head.split(">"))
                others = [part.strip() for part in tail.split(",") if part.strip()]
                if not name or not all(parents) or "!" in (others or [""]):
                    raise ValueError(f"{source}, line {number}: a name is missing in {text[:60]!r}.")
                words = (name, *(word for word in others if not word.startswith("!")))
                exclusions = tuple(word[1:].strip() for word in others if word.startswith("!"))
                tag = VocabularyTag(name, tuple(parents), words, exclusions)
                first, _ = found.setdefault(label_key(name), (number, tag))
                if first != number:
                    raise ValueError(f"{source}, line {number}: {name[:60]!r} is on line {first} as well.")
        if everyday:
            for word in everyday_labels():
                found.setdefault(label_key(word), (0, VocabularyTag(word, (), (word,))))
        tags = [
            tag._replace(words=tuple(word for word in tag.words if label_key(word) not in removed))
            for key, (_, tag) in found.items()
            if key not in removed
        ]
        if not tags:
            raise ValueError(f"{source}: there is no tag in it. Write one per line, such as animal > cat: kitten.")
        return cls(tuple(tags))

    @property
    def words(self) -> tuple[str, ...]:
        """All words that need a score, each once."""
        return merge_names(word for tag in self.tags for word in (*tag.words, *tag.exclusions))[0]

    def combine(self, scores: NDArray[Any], p: NDArray[Any] | None) -> tuple[NDArray[Any], NDArray[Any] | None]:
        """Scores and probabilities of the tags from those of `words`, one row per photo."""
        column = {label_key(word): i for i, word in enumerate(self.words)}
        own = [[column[label_key(word)] for word in tag.words] for tag in self.tags]
        not_meant = [[column[label_key(word)] for word in tag.exclusions] for tag in self.tags]
        if p is None and any(not_meant):
            raise ValueError("vocabulary: this model gives no probabilities, which exclusions need. Remove them.")
        place = {label_key(tag.name): i for i, tag in enumerate(self.tags)}
        above_below = ((label_key(parent), i) for i, tag in enumerate(self.tags) for parent in tag.parents)
        pairs = [(place[key], i) for key, i in above_below if key in place]

        def with_those_below(values: NDArray[Any]) -> NDArray[Any]:
            found = values.copy()
            for above, below in pairs:
                found[:, above] = np.maximum(found[:, above], values[:, below])
            return found

        of_tags = np.column_stack([scores[:, places].max(axis=1) for places in own])
        if p is None:
            return with_those_below(of_tags), None
        both = zip(own, not_meant, strict=True)
        likely = [p[:, places].max(axis=1) * np.prod(1.0 - p[:, others], axis=1) for places, others in both]
        return with_those_below(of_tags), with_those_below(np.column_stack(likely))


def candidate_words(name: str) -> set[str]:
    """Every word of a table that `resolve_name` may look for."""
    _, text, parts = _read(name)
    words = {*_written(name), *_joined_forms(parts)} | {word for _, word in _whole_forms(text, parts)}
    return words | {word for part in parts for _, word in _forms(part)}


def resolve_name(name: str, ranks: Mapping[str, int]) -> Resolution:
    """Words of a table that stand for a name, by the rules above; `ranks` are the places of those that it has."""
    if written := [word for word in _written(name) if word in ranks]:
        return Resolution(name, (written[0],), "exact")
    rule, text, parts = _read(name)
    for form_rule, form in _whole_forms(text, parts):
        if form in ranks:
            return Resolution(name, (form,), rule or form_rule)
    joined = [word for word in _joined_forms(parts) if ranks.get(word, _COMMON) < _COMMON]
    if joined:
        return Resolution(name, (min(joined, key=ranks.__getitem__),), rule or "joined")
    content = [part for part in parts if part.lower() not in SMALL_WORDS] or parts or [text]
    found = {part: next((word for _, word in _forms(part) if word in ranks), None) for part in content}
    words = tuple(word for part in content if (word := found[part]) is not None)
    unknown = tuple(part for part in content if found[part] is None)
    return Resolution(name, words, "mean" if unknown else rule or "words", unknown)


def _written(name: str) -> list[str]:
    """A name as it is written; one of a data set also in small letters, with spaces, _ or -."""
    words = re.split(r"[\s_-]+", name.strip().lower())
    return [name, *(joint.join(words) for joint in " _-" if " ".join(words) in DATA_SET_NAMES)]


def _read(name: str) -> tuple[str | None, str, list[str]]:
    """The rule if a name is not used as written, its text, and its words ("camelCase" has two)."""
    text = " ".join(unicodedata.normalize("NFC", name).split())
    key = re.sub(r"[\s_-]+", " ", text).lower()
    text = DATA_SET_NAMES.get(key, text)
    parts = re.split(r"[\W_]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text))
    return "data set" if key in DATA_SET_NAMES else None, text, [part for part in parts if part]


def _cases(word: str) -> list[str]:
    return [word, word.lower(), word.lower().capitalize(), word.upper()]


def _forms(word: str) -> Iterator[tuple[str, str]]:
    """Rule and form of a single word, in the order they are tried."""
    yield from (("case", form) for form in _cases(word))
    lower = word.lower()
    for known, ending in ((lower, ""), (lower.removesuffix("s"), "s")):
        if known in _SPELLINGS:
            yield from (("spelling", form + ending) for form in _cases(_SPELLINGS[known]))
    if not lower.endswith(("ss", "us", "is")):
        singulars = (re.sub("ies$", "y", lower), lower.removesuffix("es"), lower.removesuffix("s"))
        yield from (("number", form) for form in (*singulars, lower + "s"))


def _whole_forms(text: str, parts: list[str]) -> Iterator[tuple[str, str]]:
    """Rule and form of a name as one word of the table."""
    if len(parts) > 1:
        yield from (("case", form) for form in _cases(text))
    else:
        yield from (form for word in (text, *parts) for form in _forms(word))


def _joined_forms(parts: list[str]) -> list[str]:
    cases = (parts, [part.lower() for part in parts], [part.title() for part in parts])
    return [joint.join(case) for joint, case in product(("_", "-", ""), cases)] if len(parts) > 1 else []
