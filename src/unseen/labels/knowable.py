"""Words that a tagger cannot know: negations, colours, numbers, actions, people's names, unread languages, ideas.

A text encoder has a vector for every text, and a tagger a score for every vector: "no bus" scores as "bus", and a
Finnish word as whatever it is spelled like. `doubts` finds such words before they are scored, see docs/labels.md.
"""

import csv
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cache
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from unseen.labels.encoders import TextEncoder
from unseen.labels.names import as_phrase, everyday_labels, label_key, read_data
from unseen.labels.vectors import is_encoder, look_up
from unseen.validation import Matrix, check_labels

KINDS = {
    "negation": "{!r} is a negation, which its vector hardly expresses: it is not scored.",
    "colour": "{!r} is about a colour, and the model has learned none.",
    "count": "{!r} is about a number, and the model does not count.",
    "action": "{!r} is an action, and the model knows only things.",
    "person": "{!r} looks like the name of a person, and the model knows nobody by name.",
    "language": "{!r} is not in a language that the text encoder reads: its score has no meaning.",
    "abstract": "{!r} is not a thing that a photo shows: its score has little meaning.",
    "far": "{!r} is far from every name that the model has evidence for: its score has little meaning.",
}

# French and English phrases; then what is joined to a word, or written without spaces (Chinese, Japanese, ...).
_PHRASES = (
    r"no one|anything but|other than|lack of|absence of|free (?:of|from)|empty of|devoid of|\w+n['\u2019]t|"
    r"pas d(?:e|u|es)|pas une?|ne pas|n(?:e |['\u2019])\w+ pas|ni \w+ ni"
)
_JOINED = (
    r"^(?:no[nt]?-|[-!~])(?=\w+$)|\bpas d['\u2019]|没有|沒有|毫无|不是|并非|並非|不存在|(?<=.)(?:なし|無し)|"
    r"[がはのもでゃ]い?ない|いない|[いり]ません|없|아닌|아니다|않|ไม่(?:ใช่|มี)?|ปราศจาก"
)
_AMBIGUOUS = re.compile(r"[无無](.+)|(\w{2,})s[\u0131iuü]z|(\w+)-free\b.*", re.IGNORECASE)
_SIGN = re.compile(r"no[ -](?:\w+ing|entry|exit|u-turn) (?:sign|symbol|sticker)s?", re.IGNORECASE)
_SMALL = re.compile(
    r"^(?:(?:an?|the|any|de|hay|há|ma|è|é|una?|uma?|eine?|een)\s+)+|[がはのもいで]+$", re.IGNORECASE
)

# Cosines in `use`: "araba" means "car" (0.85); "two dogs" scores much like "dog" (0.7), "red" like nothing (0.54).
_MEANS, _LIKE = 0.8, 0.6
_SHRINKAGE = 0.5  # of the covariance towards a multiple of the identity
_LOG_ODDS = 6.0  # of a kind against "thing": the model of normal distributions is overconfident
_FEW = 200  # known names, below which they do not show what is far
_FEW_MISREAD = 30  # probes of other languages, below which they are exceptions

Source = str | PathLike[str] | TextEncoder


class Doubt(NamedTuple):
    """Why a word cannot be known: one of `KINDS`, and a sentence for the user."""

    kind: str
    sentence: str


def doubts(labels: Any, known: Any, source: Source | None = None) -> dict[str, Doubt]:
    """Find the labels that a tagger cannot know.

    Parameters
    ----------
    labels, known : LabelSpace or mapping of str to vector
        The labels to be scored; and what the tagger has evidence for, annotated labels and the classes of a
        backbone. The latter are never in doubt, nor are everyday words.
    source : str, path or TextEncoder, optional
        Where all these vectors come from; see `unseen.labels.vectors.look_up`. Probes are encoded once, and then
        read from the cache. Without a text encoder, only negations and words far from all known names are found.
    """
    names, vectors = check_labels(labels, "labels")
    known_names, known_vectors = check_labels(known, "known")
    if names is None or known_names is None:
        raise ValueError("labels, known: vectors without names were given. Pass {name: vector}.")
    if vectors.shape[1] != known_vectors.shape[1]:
        lengths = f"{known_vectors.shape[1]} numbers, but those of labels have {vectors.shape[1]}"
        raise ValueError(f"known: vectors of {lengths}. Pass vectors of one source.")
    probes, everyday = read_probes(), everyday_labels()
    things = [*everyday, *probes["thing"], *probes["coloured"]]
    sure = {label_key(name) for name in (*known_names, *things)}
    rows = [i for i, name in enumerate(names) if label_key(name) not in sure]
    if not rows:
        return {}
    asked, unit, known_unit = [names[i] for i in rows], _unit(vectors[rows]), _unit(known_vectors)
    negated, like = [_negated(name) for name in asked], [""] * len(asked)
    if source is None or not is_encoder(source):
        kinds = _far(unit, known_unit)
    else:
        thing_unit = _vectors(things, source)
        negated = [negated[i] or _maybe_negated(name, thing_unit, source) for i, name in enumerate(asked)]
        kinds = _measured(asked, unit, np.vstack([known_unit, thing_unit]), source)
        cosines = unit @ thing_unit[: len(everyday)].T
        like = [everyday[row.argmax()] if row.max() >= _LIKE else "" for row in cosines]
    found = {}
    for name, rest, kind, near in zip(asked, negated, kinds, like, strict=True):
        kind = "negation" if rest else kind
        advice = ""
        if rest and rest != name and len(rest.split()) <= 2:
            advice = f" Ask for {rest!r}, and look at the photos without it."
        elif kind in ("colour", "count", "action") and near:
            advice = f" It scores much like {near!r}."
        if kind:
            found[name] = Doubt(kind, KINDS[kind].format(name) + advice)
    return found


def _negated(name: str) -> str:
    """What a phrase negates, "bus" of "no bus"; the name itself if that is not said, and empty if it does not."""
    phrase = re.sub(r"\s*\(non\b.*?\)", "", as_phrase(name))  # as data sets write: "pin (non jewelry)"
    found = _negation().search(phrase)
    is_alone = phrase.lower() in read_probes()["alone"]
    if not found or _SIGN.fullmatch(phrase) or (found[0] == phrase and not is_alone):
        return ""
    rest = phrase[found.end() :].strip() or phrase[: found.start()].strip()
    return _SMALL.sub("", rest).strip(" .,;:!?") or name


def _maybe_negated(name: str, things: Matrix, source: Source) -> str:
    """The same for a syllable that negates the name of a thing, but also begins or ends other words."""
    found = _AMBIGUOUS.fullmatch(as_phrase(name))
    rest = next(filter(None, found.groups())) if found else ""
    return rest if rest and (_vectors([rest], source) @ things.T).max() >= _MEANS else ""


def _far(unit: Matrix, known: Matrix) -> list[str]:
    """Mark vectors that are farther from all known ones than any of these is from its nearest."""
    if len(known) < _FEW:
        return [""] * len(unit)
    sample = np.arange(0, len(known), max(1, len(known) // 256))
    cosines = known[sample] @ known.T
    cosines[np.arange(len(sample)), sample] = -1.0
    bound = cosines.max(axis=1).min()
    return ["far" if near < bound else "" for near in (unit @ known.T).max(axis=1)]


def _measured(names: Sequence[str], unit: Matrix, things: Matrix, source: Source) -> list[str]:
    """Kind of each name that is not a thing, by its script and its vector; empty for things."""
    probes = read_probes()
    kinds = ("colour", "colour of a kind", "count", "action", "person", "abstract")
    words = [word for kind in kinds for word in probes[kind]]
    foreign, meanings = zip(*(pair.split("=") for pair in probes["language"]), strict=True)
    vectors = _vectors([*words, *foreign, *meanings], source)
    examples, foreign_unit, meant = np.split(vectors, [len(words), len(words) + len(foreign)])
    is_read = np.array(meanings)[(foreign_unit @ meant.T).argmax(axis=1)] == meanings
    scripts = np.array([_script(word) for word in foreign])
    read_scripts = {"LATIN", "", *(script for script in scripts if is_read[scripts == script].mean() >= 0.5)}
    read, misread = foreign_unit[is_read], foreign_unit[(scripts == "LATIN") & ~is_read]
    if len(misread) < _FEW_MISREAD:
        misread = misread[:0]
    groups = ["thing"] * (len(things) + len(read)) + [kind for kind in kinds for _ in probes[kind]]
    groups += ["language"] * len(misread)
    judge = _discriminant(np.vstack([things, read, examples, misread]), np.array(groups))
    found = judge(unit)
    # "Three-piece suit" is not a count, as "piece suit" is none; "forty-two" is, as "two" is.
    joined = [i for i, kind in enumerate(found) if kind == "count" and "-" in names[i]]
    parts = [re.sub(r"\w+-(?=\w)", "", names[i]) for i in joined]
    for i, kind in zip(joined, judge(_vectors(parts, source)) if parts else [], strict=True):
        found[i] = kind
    return [kind if _script(name) in read_scripts else "language" for name, kind in zip(names, found, strict=True)]


def _discriminant(examples: Matrix, kinds: Any) -> Callable[[Matrix], list[str]]:
    """Linear discriminant analysis, equal priors: a function from vectors to kinds, empty where unsure.

    One product of matrices in float32 and one solve: 20 ms for 5,000 examples, where scikit-learn's takes 90.
    """
    groups, group = np.unique(kinds, return_inverse=True)
    means = np.array([examples[group == k].mean(axis=0) for k in range(len(groups))])
    residuals = (examples - means[group]).astype(np.float32)
    covariance = (1.0 - _SHRINKAGE) * (residuals.T @ residuals).astype(np.float64) / len(residuals)
    covariance[np.diag_indices_from(covariance)] += _SHRINKAGE * residuals.var() + 1e-9
    weights = scipy.linalg.solve(covariance, means.T, assume_a="pos")
    offsets = -0.5 * np.einsum("kd,dk->k", means, weights)

    def judge(unit: Matrix) -> list[str]:
        scores = unit @ weights + offsets
        best = groups[scores.argmax(axis=1)]
        sure = scores.max(axis=1) - scores[:, groups == "thing"][:, 0] > _LOG_ODDS
        return [str(kind) for kind in np.where(sure & (best != "colour of a kind"), best, "")]

    return judge


@cache
def read_probes() -> dict[str, tuple[str, ...]]:
    """Words and phrases of each kind, and words that negate; other languages with the meaning, as "koira=dog"."""
    probes: dict[str, tuple[str, ...]] = defaultdict(tuple)
    for kind, _, words in list(csv.reader(read_data("probes.csv").splitlines()))[1:]:
        probes[kind] += tuple(words.split("; "))
    for kind, first, nouns in (
        ("colour", "colour modifier", "colour noun"),
        ("colour of a kind", "colour modifier", "coloured noun"),
        ("count", "count modifier", "count noun"),
    ):
        probes[kind] += tuple(f"{modifier} {noun}" for modifier in probes[first] for noun in probes[nouns])
        probes["thing"] += probes[nouns]
    probes["colour of a kind"] += probes["coloured"]
    return dict(probes)


@cache
def _negation() -> re.Pattern[str]:
    words = "|".join(read_probes()["beside"] + read_probes()["alone"])
    return re.compile(rf"(?<![\w-])(?:{_PHRASES}|{words})(?![\w-])|{_JOINED}", re.IGNORECASE)


def _script(text: str) -> str:
    """Script of the first letter: LATIN, GREEK, CJK, ...; empty without letters."""
    letter = next(filter(str.isalpha, text), "")
    return unicodedata.name(letter, "").partition(" ")[0] if letter else ""


def _vectors(texts: Sequence[str], source: Source) -> Matrix:
    return _unit(look_up(texts, source).vectors)


def _unit(vectors: Matrix) -> Matrix:
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12))
