"""Path lengths between labels in WordNet's is-a hierarchy, and the choice of the senses they are measured between.

The relations of TAEP-H are ``from_path_lengths(path_lengths(labels))``: ``R[i, j] = 1 / (path + 1)``.
"""

import csv
import io
import json
import os
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from difflib import SequenceMatcher
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unseen.files import expanded
from unseen.hub import import_extra
from unseen.labels.names import read_data
from unseen.validation import Matrix, check_names, find_names, listed

# Bonus of a sense per doubling of the kinds listed below it, and penalty per sense before it. Chosen on
# COCO-80, where 6 of 79 senses then differ from those curated by hand (13 do if the first sense is taken).
HYPONYM_GAIN, RANK_LOSS = 0.06, 0.05


class PathLengths(NamedTuple):
    """Path lengths between labels, the sense of each label ("dog.n.01"), and their source."""

    labels: tuple[str, ...]
    lengths: Matrix
    senses: dict[str, str]
    source: str


def path_lengths(
    labels: Iterable[str], senses: Mapping[str, str] | None = None, *, wordnet: Any = None
) -> PathLengths:
    """Edges of the shortest is-a paths between labels; ``inf`` where there is none.

    A label of VOC-20 or COCO-80 has a sense curated by hand. Any other label takes the sense s with the largest

    ``1 / (1 + length of the path from s to the nearest sense of another label)
    + 0.06 log2(1 + kinds listed directly below s) - 0.05 (senses before s)``,

    where all labels start at their first sense and each takes its best one in turn, in alphabetical order, until
    none changes. Senses that are single individuals (Crane, the writer) count only if there is no other.

    Parameters
    ----------
    labels : iterable of str
    senses : mapping of label to sense, optional
        Senses of some labels, such as ``{"plant": "plant.n.02"}``.
    wordnet : optional
        The WordNet to use, see `open_wordnet`; none is needed for labels that are all of VOC-20 or COCO-80.

    Examples
    --------
    >>> paths = path_lengths(["dog", "sofa", "diningtable"])
    >>> paths.lengths
    array([[ 0., 11., 11.],
           [11.,  0.,  4.],
           [11.,  4.,  0.]])
    >>> paths.senses["diningtable"]
    'dining_table.n.01'
    """
    names = check_names(labels, "labels")
    if not senses and wordnet is None and all(curated_sense(name) for name in names):
        chosen = {name: str(curated_sense(name)) for name in names}
        header, *rows = csv.reader(read_data("wordnet30_paths.csv").splitlines())
        order = [header[1:].index(sense) for sense in chosen.values()]
        lengths = np.array([row[1:] for row in rows], dtype=np.float64)[np.ix_(order, order)]
        return PathLengths(names, lengths, chosen, "the table of WordNet 3.0 paths that ships with unseen")
    net = open_wordnet(wordnet)
    given = dict(senses or {})
    find_names(given, dict.fromkeys(names, 0), "senses", "Give senses of `labels` only.")
    candidates = {name: _given(net, given[name]) if name in given else _candidates(net, name) for name in names}
    if unknown := [name for name in names if not candidates[name]]:
        initials = {name[0].lower() for name in unknown}
        nouns = {lemma.replace("_", " "): 0 for lemma in net.all_lemma_names(pos="n") if lemma[0] in initials}
        find_names(unknown, nouns, "labels", "WordNet has no such nouns. Name a sense in senses: 'dog.n.01'.")
    picks = _most_agreeing(candidates)
    chosen = {name: picks[name].name() for name in names}
    return PathLengths(names, pairwise_lengths([picks[name] for name in names]), chosen, f"WordNet in {net.root}")


def open_wordnet(source: Any = None) -> Any:
    """Open WordNet with NLTK's reader.

    `source` is WordNet's dict folder, or a reader, returned unchanged. By default it is ``$WNSEARCHDIR``, or else
    NLTK's corpus or Debian's folder.
    """
    if source is not None and not isinstance(source, str | os.PathLike):
        return source
    corpora = import_extra("nltk.corpus", "wordnet")
    source = source or os.environ.get("WNSEARCHDIR")
    if not source:
        with suppress(LookupError):
            corpora.wordnet.ensure_loaded()
            return corpora.wordnet
    folder = expanded(source or "/usr/share/wordnet")
    if not (folder / "data.noun").is_file() or not (folder / "index.noun").is_file():
        raise FileNotFoundError(
            f"wordnet: there is no WordNet in {str(folder)!r}. Install one (`apt-get install wordnet-base` on "
            f"Debian, `python -m nltk.downloader wordnet` anywhere) or set WNSEARCHDIR to its folder."
        )
    return _open_folder(folder.resolve())


@cache
def _open_folder(folder: Path) -> Any:
    allowed = import_module("nltk.data").path
    reader: Any = import_module("nltk.corpus.reader.wordnet").WordNetCorpusReader

    class Nouns(reader):
        """The nouns of a dict folder. Debian's lacks the names of lexicographer files, which are not needed."""

        def open(self, file: str) -> Any:
            if file == "lexnames":
                return io.StringIO("".join(f"{i:02d} file{i} 1\n" for i in range(45)))
            return super().open(file) if "noun" in file and (folder / file).exists() else io.StringIO()

        def map_wn(self, version: str = "wordnet") -> None:
            """Map nothing: maps to other versions are only for other languages."""

    if str(folder) not in allowed:  # NLTK reads only below the folders that are registered there
        allowed.append(str(folder))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about missing languages
            return Nouns(str(folder), None)
    except Exception as error:  # NLTK's WordNetError is an Exception
        raise ValueError(f"wordnet: {str(folder)!r} cannot be read ({error!r}). Install it again.") from error


def curated_sense(label: str) -> str | None:
    """Sense of a label of VOC-20 or COCO-80, chosen by hand; None for any other label."""
    senses = (item for names in curated_senses().values() for item in names.items())
    return next((sense for name, sense in senses if _glued(name) == _glued(label)), None)


@cache
def curated_senses() -> dict[str, dict[str, str]]:
    """Senses chosen by hand, by label set and label."""
    sets: dict[str, dict[str, str]] = json.loads(read_data("label_senses.json"))
    return sets


def _glued(label: str) -> str:
    return re.sub(r"[\s_-]+", "", label.lower())


def _nouns(net: Any, name: str) -> list[Any]:
    """Noun senses of a name in any of its forms, the most frequent first; hyphens may be spaces."""
    lemma = "_".join(name.lower().replace("_", " ").split())
    return list(net.synsets(lemma, pos="n") or net.synsets(lemma.replace("-", "_"), pos="n"))


def _candidates(net: Any, name: str) -> list[Any]:
    """Senses that a label may have: the curated one, or else all that are kinds of things, or else all."""
    curated = curated_sense(name)
    if curated and (alike := _nouns(net, curated.partition(".")[0])):
        # By its definition: other versions of WordNet number senses differently.
        rows = csv.DictReader(read_data("wordnet30_senses.csv").splitlines())
        definition = next(row["definition"] for row in rows if row["sense"] == curated)
        return sorted(alike, key=lambda s: -SequenceMatcher(None, s.definition(), definition).ratio())[:1]
    senses = _nouns(net, name)
    return [sense for sense in senses if not sense.instance_hypernyms()] or senses


def _given(net: Any, sense: str) -> list[Any]:
    with suppress(Exception):  # NLTK's WordNetError is an Exception; a name without dots raises another
        if (synset := net.synset(sense)).pos() == "n":
            return [synset]
    others = [synset.name() for synset in _nouns(net, str(sense).partition(".")[0])]
    raise ValueError(f"senses: {sense!r} is not a noun sense. Choose from {listed(others or ['dog.n.01'])}.")


def pairwise_lengths(synsets: Sequence[Any]) -> Matrix:
    """Edges of the shortest is-a path between every two of NLTK's synsets; ``inf`` if they share no ancestor."""
    members: dict[str, dict[int, int]] = {}
    for row, synset in enumerate(synsets):
        for ancestor, distance in synset.hypernym_distances():
            below = members.setdefault(ancestor.name(), {})
            below[row] = min(distance, below.get(row, distance))
    lengths = np.full((len(synsets), len(synsets)), np.inf)
    for below in members.values():
        block = np.ix_(list(below), list(below))
        distances = list(below.values())
        lengths[block] = np.minimum(lengths[block], np.add.outer(distances, distances))
    return lengths


def _most_agreeing(candidates: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """The sense of each label, by the rule in the notes of `path_lengths`."""
    names = sorted(candidates)
    flat = [sense for name in names for sense in candidates[name]]
    sizes = np.array([len(candidates[name]) for name in names])
    starts = np.cumsum(sizes) - sizes
    picks = starts.copy()
    if len(flat) > len(names) > 1:
        closeness = 1.0 / (1.0 + pairwise_lengths(flat))
        n_kinds = np.array([len(sense.hyponyms() + sense.instance_hyponyms()) for sense in flat])
        merit = HYPONYM_GAIN * np.log2(1 + n_kinds) - RANK_LOSS * (np.arange(len(flat)) - np.repeat(starts, sizes))
        for _ in range(20):
            before = picks.copy()
            for row in np.flatnonzero(sizes > 1):
                own = slice(starts[row], starts[row] + sizes[row])
                nearest = closeness[own][:, np.delete(picks, row)].max(axis=1)
                picks[row] = starts[row] + np.argmax(nearest + merit[own])
            if np.array_equal(picks, before):
                break
    return {name: flat[pick] for name, pick in zip(names, picks, strict=True)}
