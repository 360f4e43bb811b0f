"""Names of labels: when two are the same label, and which words of a vocabulary stand for one.

A name is looked up in a table of word vectors by the first of these rules that succeeds:

1. ``exact``: the table has the name as it is written.
2. ``data set``: a name that a data set glues together ("diningtable") is read as the phrase it stands for, by a
   short table, and then as below.
3. ``case``: in lower case, capitalised, or in capitals.
4. ``joined``: a name of several words is one word of the table, joined by underscores, hyphens or nothing: the
   most common of these forms, if it is among the first 150,000 words. Rarer ones have poor vectors.
5. ``spelling``: the British form of an American word, or the reverse.
6. ``number``: the singular of a plural, or the reverse, in either spelling.
7. ``words``: a name of several words is the mean of their vectors, each found by the rules for single words. Small
   words ("of", "the") are left out unless there are no others.

"Common" is read off the order of the table, which publishers sort by frequency.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files
from itertools import product
from typing import NamedTuple

__all__ = [
    "VOC_WORDS",
    "Resolution",
    "as_phrase",
    "candidate_words",
    "everyday_labels",
    "label_key",
    "merge_names",
    "resolve_name",
]

# Names of data sets that are not words, with what they mean.
DATA_SET_NAMES = {
    "diningtable": "dining table",
    "tvmonitor": "tv monitor",
    "pottedplant": "potted plant",
    "trafficlight": "traffic light",
    "firehydrant": "fire hydrant",
    "stopsign": "stop sign",
    "parkingmeter": "parking meter",
    "teddybear": "teddy bear",
    "hairdrier": "hair dryer",
    "hair drier": "hair dryer",
    "sportsball": "sports ball",
    "baseballbat": "baseball bat",
    "baseballglove": "baseball glove",
    "tennisracket": "tennis racket",
}
# Classes of PASCAL VOC as people write them; the others are words already.
VOC_WORDS = {
    "aeroplane": "airplane",
    "diningtable": "dining table",
    "motorbike": "motorcycle",
    "pottedplant": "potted plant",
    "tvmonitor": "television",
}
SMALL_WORDS = frozenset(["a", "an", "and", "at", "by", "for", "from", "in", "of", "on", "or", "the", "to", "with"])

_BRITISH_AMERICAN = """
aeroplane airplane, aluminium aluminum, armour armor, axe ax, catalogue catalog, centre center, cheque check,
chequered checkered, cosy cozy, colour color, coloured colored, colourful colorful, dialogue dialog,
doughnut donut, favourite favorite, fibre fiber, flavour flavor, grey gray, greyhound grayhound,
harbour harbor, jewellery jewelry, kerb curb, labour labor, licence license, litre liter, metre meter,
mould mold, moustache mustache, neighbour neighbor, neighbourhood neighborhood, omelette omelet, parlour parlor,
plough plow, programme program, pyjamas pajamas, racquet racket, sceptre scepter, sombre somber,
storey story, sulphur sulfur, theatre theater, traveller traveler, tyre tire, vapour vapor, waggon wagon,
whisky whiskey, woollen woolen, yoghurt yogurt, motorbike motorcycle, drier dryer
"""
_IRREGULAR_PLURALS = """
man men, woman women, child children, person people, mouse mice, goose geese, foot feet, tooth teeth, ox oxen,
leaf leaves, loaf loaves, knife knives, wife wives, wolf wolves, shelf shelves, calf calves, half halves,
scarf scarves, thief thieves, cactus cacti, fungus fungi, penny pennies, die dice
"""
# Ending of a plural, and the endings that its singular may have.
_ENDINGS = {"ies": ("y", "ie"), "ches": ("ch", "che"), "ses": ("se", "s"), "zes": ("ze", "z"), "ves": ("ve", "f"),
            "oes": ("o", "oe"), "shes": ("sh",), "xes": ("x",), "men": ("man",), "s": ("",)}  # fmt: skip
_ACRONYM = 3  # letters: TV, USA
_COMMON = 150_000


def _both_ways(pairs: str) -> dict[str, str]:
    listed = [pair.split() for pair in pairs.replace("\n", " ").split(",")]
    return dict(listed) | {b: a for a, b in listed}


_SPELLINGS = _both_ways(_BRITISH_AMERICAN)
_NUMBERS = _both_ways(_IRREGULAR_PLURALS)


class Resolution(NamedTuple):
    """What stands for a name.

    Attributes
    ----------
    name : str
        The name of the label.
    words : tuple of str
        Words of the table, whose mean is the label's vector; or the phrase that a text encoder was given.
    rule : str
        How they were found: see the module's description; ``"phrase"`` for a text encoder.
    unknown : tuple of str
        Words of the name that were not found.
    """

    name: str
    words: tuple[str, ...]
    rule: str
    unknown: tuple[str, ...] = ()


def as_phrase(name: str) -> str:
    """A name as a person would write it, for a text encoder.

    Parameters
    ----------
    name : str
        Name of a label.

    Returns
    -------
    str
        Glued names of data sets are taken apart; underscores and repeated spaces become a single space; words of
        more than three capitals are written in small letters, as encoders hardly know them. Other letters stay:
        "Hund" is better German than "hund".
    """
    words = unicodedata.normalize("NFC", name).replace("_", " ").split()
    text = " ".join(word.lower() if len(word) > _ACRONYM and word.isupper() else word for word in words)
    return DATA_SET_NAMES.get(text.lower(), text)


def label_key(name: str) -> str:
    """What two names of the same label share: "Sofa" and "sofa", "diningtable" and "dining table".

    Parameters
    ----------
    name : str
        Name of a label. Those of PASCAL VOC are brought to what people write ("aeroplane" is an airplane).

    Returns
    -------
    str
    """
    phrase = as_phrase(name).casefold()
    return VOC_WORDS.get(name.casefold(), VOC_WORDS.get(phrase.replace(" ", ""), phrase))


def merge_names(names: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Keep the first of the names that mean the same label.

    Parameters
    ----------
    names : iterable of str
        Names of labels, in which "Bus" may follow "bus", or "hair drier" "hair dryer".

    Returns
    -------
    names : tuple of str
        One name for each label, in the given order.
    notes : tuple of str
        A sentence for each name that was left out.

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
    """Names of things, animals, people, food and places that are often seen in photos.

    Returns
    -------
    tuple of str
    """
    text = files("unseen.labels").joinpath("data/everyday.txt").read_text(encoding="utf-8")
    return tuple(line for line in text.splitlines() if line and not line.startswith("#"))


def candidate_words(name: str) -> set[str]:
    """Every word of a table that `resolve_name` may look for."""
    _, text = _reading(name)
    parts = _split(text)
    words = {name, *_joined_forms(parts)} | {word for _, word in _whole_forms(text, parts)}
    return words | {word for part in parts for _, word in _forms(part)}


def resolve_name(name: str, ranks: Mapping[str, int]) -> Resolution:
    """Words of a table that stand for a name, by the rules above; `ranks` are the places of those that it has."""
    if name in ranks:
        return Resolution(name, (name,), "exact")
    rule, text = _reading(name)
    parts = _split(text)
    for found_by, word in _whole_forms(text, parts):
        if word in ranks:
            return Resolution(name, (word,), rule or found_by)
    joined = [word for word in _joined_forms(parts) if ranks.get(word, _COMMON) < _COMMON]
    if joined:
        return Resolution(name, (min(joined, key=ranks.__getitem__),), rule or "joined")
    words, unknown = [], []
    for part in [part for part in parts if part.lower() not in SMALL_WORDS] or parts or [text]:
        found = next((word for _, word in _forms(part) if word in ranks), None)
        words += [] if found is None else [found]
        unknown += [part] if found is None else []
    return Resolution(name, tuple(words), "mean" if unknown else rule or "words", tuple(unknown))


def _reading(name: str) -> tuple[str | None, str]:
    """Text of a name, and the rule if it is not simply what is written."""
    text = " ".join(unicodedata.normalize("NFC", name).split())
    key = re.sub(r"[\s_-]+", " ", text).lower()
    return ("data set", DATA_SET_NAMES[key]) if key in DATA_SET_NAMES else (None, text)


def _split(text: str) -> list[str]:
    """Words of a name: cut at white space, punctuation, and where "camelCase" changes case."""
    return [part for part in re.split(r"[\W_]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)) if part]


def _cases(word: str) -> list[str]:
    return [word, word.lower(), word.lower().capitalize(), word.upper()]


def _forms(word: str) -> Iterator[tuple[str, str]]:
    """Rule and form of a single word, in the order they are tried."""
    yield from (("case", form) for form in _cases(word))
    lower = word.lower()
    yield from (("spelling", form) for spelling in _spellings(lower) for form in _cases(spelling))
    for number in _other_numbers(lower):
        yield from (("number", form) for other in (number, *_spellings(number)) for form in _cases(other))


def _whole_forms(text: str, parts: list[str]) -> Iterator[tuple[str, str]]:
    """Rule and form of a name as one word of the table."""
    if len(parts) > 1:
        yield from (("case", form) for form in _cases(text))
    else:
        yield from _forms(text)
        yield from (form for part in parts for form in _forms(part))


def _joined_forms(parts: list[str]) -> list[str]:
    cases = (parts, [part.lower() for part in parts], [part.title() for part in parts])
    return [joint.join(case) for joint, case in product(("_", "-", ""), cases)] if len(parts) > 1 else []


def _spellings(word: str) -> list[str]:
    """The British word of an American one, or the reverse; a plural of either too."""
    singular = word.removesuffix("s")
    ending = word[len(singular) :]
    return (
        [_SPELLINGS[word]]
        if word in _SPELLINGS
        else [_SPELLINGS[singular] + ending]
        if singular in _SPELLINGS
        else []
    )


def _other_numbers(word: str) -> list[str]:
    """Singulars that a plural may have, and plurals of a singular, the likelier first."""
    if word in _NUMBERS:
        return [_NUMBERS[word]]
    if len(word) < 3:
        return []
    forms = []
    if len(word) > 3 and not word.endswith(("ss", "us", "is")):
        ending = next((ending for ending in _ENDINGS if word.endswith(ending)), "")
        forms = [word.removesuffix(ending) + singular for singular in _ENDINGS.get(ending, ())]
    if word.endswith("y"):
        forms.append(word.removesuffix("y") + "ies")
    return [*forms, word + "es", word + "s"]
