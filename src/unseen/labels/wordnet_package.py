"""The nouns of a lexicon in the data of the `wn` package."""

from __future__ import annotations

import importlib
from functools import cached_property
from typing import Any

from unseen.labels.wordnet_files import NounRecord

__all__ = ["WordNetPackage", "has_package_data"]

# English lexicons, the one with the 3.0 senses of the shipped tables first.
PREFERRED = ("omw-en", "omw-en31", "oewn", "ewn")


class WordNetPackage:
    """A source of nouns over one lexicon that `wn` has downloaded.

    Parameters
    ----------
    lexicon : str, default=None
        Its specifier, such as ``"oewn:2024"``. None takes the first English one of Open Multilingual Wordnet's 3.0
        and 3.1, Open English WordNet and its older editions.

    Raises
    ------
    FileNotFoundError
        If `wn` is not installed or has no such lexicon.
    """

    def __init__(self, lexicon: str | None = None) -> None:
        self._wn = _import_wn()
        if self._wn is None:
            raise FileNotFoundError("source: the package wn is not installed. Install it: `pip install wn`.")
        self._lexicon = _find_lexicon(self._wn, lexicon)
        if self._lexicon is None:
            wanted = f"lexicon {lexicon!r}" if lexicon else f"English lexicon ({', '.join(PREFERRED)})"
            raise FileNotFoundError(
                f"source: the package wn has no {wanted}. "
                f"Get one: `python -m wn download {lexicon or PREFERRED[0]}`."
            )

    @property
    def name(self) -> str:
        """Which lexicon this is."""
        return f"the lexicon {self._lexicon.specifier()!r} of the package wn"

    @cached_property
    def _wordnet(self) -> Any:
        # No other lexicon may lend its hypernyms (expand): what is reported is what this one says.
        return self._wn.Wordnet(lexicon=self._lexicon.specifier(), expand="")

    def lemmas(self) -> list[str]:
        """Every noun."""
        return [word.lemma().lower().replace(" ", "_") for word in self._wordnet.words(pos="n")]

    def exceptions(self, form: str) -> tuple[str, ...]:
        """Nothing: a lexicon lists irregular plurals as forms of their words, which `sense_ids` finds."""
        return ()

    def sense_ids(self, lemma: str) -> tuple[str, ...]:
        """Identifiers of a noun's synsets in the lexicon's order; empty if there is no such noun."""
        words = self._wordnet.words(lemma.replace("_", " "), pos="n")
        found = (sense.synset().id for word in words for sense in word.senses())
        return tuple(dict.fromkeys(map(self._short, found)))

    def record(self, identifier: str) -> NounRecord | None:
        """Synset of an identifier, with or without the lexicon's prefix; None if there is none."""
        try:
            synset = self._wordnet.synset(f"{self._lexicon.id}-{self._short(identifier)}")
        except self._wn.Error:
            return None
        if synset.pos != "n":
            return None
        lemmas = tuple(lemma.replace(" ", "_") for lemma in synset.lemmas())
        kinds_of, instance_of = (
            tuple(self._short(other.id) for other in synset.get_related(relation))
            for relation in ("hypernym", "instance_hypernym")
        )
        n_hyponyms = len(synset.get_related("hyponym", "instance_hyponym"))
        return NounRecord(lemmas, synset.definition() or "", kinds_of, instance_of, n_hyponyms)

    def _short(self, identifier: str) -> str:
        return identifier.removeprefix(f"{self._lexicon.id}-")


def has_package_data() -> bool:
    """Whether `wn` is installed and has an English lexicon; nothing is created or downloaded."""
    wn = _import_wn()
    return wn is not None and wn.config.database_path.is_file() and _find_lexicon(wn, None) is not None


def _import_wn() -> Any:
    try:
        return importlib.import_module("wn")
    except ImportError:
        return None


def _find_lexicon(wn: Any, specifier: str | None) -> Any:
    for candidate in [specifier] if specifier else PREFERRED:
        try:
            found = wn.lexicons(lexicon=candidate if ":" in candidate else f"{candidate}:*")
        except wn.Error:
            found = []
        if found:
            return found[-1]
    return None
