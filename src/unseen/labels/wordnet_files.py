"""WordNet's own files (WNdb format): the nouns of a dict folder or of NLTK's corpus, read without NLTK."""

from __future__ import annotations

import os
import re
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import NamedTuple

__all__ = ["NounRecord", "WordNetFiles", "find_dict", "usual_places"]

NEEDED = ("index.noun", "data.noun")
HYPERNYM, INSTANCE_HYPERNYM, HYPONYMS = "@", "@i", ("~", "~i")
_CORPORA = ("wordnet", "wordnet31", "wordnet2022", "wordnet2021")


class NounRecord(NamedTuple):
    """What a source says of one synset; hypernyms are given by their identifiers."""

    lemmas: tuple[str, ...]
    gloss: str
    kinds_of: tuple[str, ...]  # hypernyms
    instance_of: tuple[str, ...]  # instance hypernyms: of a single river, city, person
    n_hyponyms: int  # direct ones

    @property
    def hypernyms(self) -> tuple[str, ...]:
        """What it is, as a kind or as an instance."""
        return self.kinds_of + self.instance_of


@dataclass(frozen=True)
class WordNetFiles:
    """Nouns of a folder or a zip archive with `index.noun` and `data.noun`.

    Parameters
    ----------
    path : Path
        A folder, or a zip archive as NLTK downloads it.

    Notes
    -----
    Lemmas are the keys of the index: lower case, words joined by underscores. Identifiers are eight digits (the
    position of the synset in `data.noun`) followed by ``-n``. Files are read on first use.
    """

    path: Path

    @cached_property
    def name(self) -> str:
        """Where the data come from and which version of WordNet they say they are."""
        found = re.search(rb"WordNet (\d[\d.]*\d) Copyright", self._data[:4096])
        return f"WordNet {found[1].decode() + ' ' if found else ''}in {str(self.path)!r}"

    @cached_property
    def _read(self) -> Callable[[str], bytes | None]:
        return _zip_reader(self.path) if self.path.is_file() else _folder_reader(self.path)

    def _file(self, name: str) -> bytes:
        content = self._read(name)
        if content is None:
            raise FileNotFoundError(
                f"source: {str(self.path)!r} has no {name}. "
                f"Pass a WordNet dict folder with {' and '.join(NEEDED)}."
            )
        return content

    @cached_property
    def _data(self) -> bytes:
        return self._file("data.noun")

    @cached_property
    def _index(self) -> dict[bytes, bytes]:
        # Only the lemma is cut off here; the rest of a line is parsed when somebody asks for it.
        lines = (line.partition(b" ") for line in self._file("index.noun").splitlines() if line[:1] != b" ")
        return {lemma: rest for lemma, _, rest in lines}

    @cached_property
    def _exceptions(self) -> dict[str, tuple[str, ...]]:
        lines = (self._read("noun.exc") or b"").decode("utf-8", "replace").splitlines()
        words = (line.split() for line in lines)
        return {form: tuple(bases) for form, *bases in filter(None, words)}

    def lemmas(self) -> Iterator[str]:
        """Every noun of the index."""
        return (lemma.decode("utf-8", "replace") for lemma in self._index if lemma)

    def exceptions(self, form: str) -> tuple[str, ...]:
        """Singulars of an irregular plural, as ``noun.exc`` lists them: ``geese`` gives ``goose``."""
        return self._exceptions.get(form, ())

    def sense_ids(self, lemma: str) -> tuple[str, ...]:
        """Identifiers of a lemma's synsets, the most frequent sense first; empty if there is no such noun."""
        rest = self._index.get(lemma.encode())
        if rest is None:
            return ()
        # n synset_cnt p_cnt ptr_symbol... sense_cnt tagsense_cnt synset_offset...
        fields = rest.decode("utf-8", "replace").split()
        try:
            n_senses, n_pointers = int(fields[1]), int(fields[2])
            offsets = fields[5 + n_pointers :]
            ids = tuple(f"{int(offset):08d}-n" for offset in offsets)
        except (IndexError, ValueError):
            raise self._damaged(f"index.noun has the line {lemma!r} {fields}") from None
        if fields[0] != "n" or not ids or len(ids) != n_senses:
            raise self._damaged(f"index.noun promises {n_senses} senses of {lemma!r} and lists {len(ids)}")
        return ids

    def record(self, identifier: str) -> NounRecord | None:
        """Synset of an identifier; None if no synset begins at that position."""
        if not re.fullmatch(r"\d{8}-n", identifier):
            return None
        start = int(identifier[:8])
        end = self._data.find(b"\n", start)
        line = self._data[start : end if end >= 0 else None]
        if (
            not line.startswith(identifier[:8].encode() + b" ")
            or self._data[max(start - 1, 0) : start] not in b"\n"
        ):
            return None
        try:
            return _parse(line.decode("utf-8", "replace"))
        except (IndexError, ValueError):
            raise self._damaged(f"data.noun has a malformed synset {identifier!r}") from None

    def _damaged(self, what: str) -> ValueError:
        return ValueError(
            f"source: the WordNet files in {str(self.path)!r} are damaged: {what}. Install them again, or pass "
            f"another source."
        )


def _parse(line: str) -> NounRecord:
    """Read ``offset lex_file ss_type w_cnt word lex_id... p_cnt symbol offset pos source/target... | gloss``."""
    head, bar, gloss = line.partition(" | ")
    fields = head.split()
    n_words = int(fields[3], 16)
    words = fields[4 : 4 + 2 * n_words : 2]
    first = 5 + 2 * n_words
    n_pointers = int(fields[first - 1])
    pointers = [fields[k : k + 4] for k in range(first, first + 4 * n_pointers, 4)]
    if fields[2] != "n" or len(words) != n_words or not words or len(fields) < first + 4 * n_pointers or not bar:
        raise ValueError("truncated")
    kinds_of, instance_of = (
        tuple(f"{int(offset):08d}-n" for symbol, offset, pos, _ in pointers if symbol == wanted and pos == "n")
        for wanted in (HYPERNYM, INSTANCE_HYPERNYM)
    )
    n_hyponyms = sum(symbol in HYPONYMS for symbol, *_ in pointers)
    return NounRecord(tuple(words), gloss.strip(), kinds_of, instance_of, n_hyponyms)


def _folder_reader(folder: Path) -> Callable[[str], bytes | None]:
    def read(name: str) -> bytes | None:
        file = folder / name
        return file.read_bytes() if file.is_file() else None

    return read


def _zip_reader(path: Path) -> Callable[[str], bytes | None]:
    def read(name: str) -> bytes | None:
        try:
            with zipfile.ZipFile(path) as archive:
                for member in archive.namelist():
                    if PurePosixPath(member).name == name:
                        return archive.read(member)
        except (zipfile.BadZipFile, EOFError, NotImplementedError, zlib.error) as error:
            raise ValueError(
                f"source: {str(path)!r} is no whole zip archive ({error}). Download NLTK's wordnet corpus again."
            ) from error
        return None

    return read


def find_dict(places: Iterator[Path] | None = None) -> Path | None:
    """First usual place that holds WordNet's noun files; None if there is none."""
    return next((place for place in places or usual_places() if has_nouns(place)), None)


def has_nouns(place: Path) -> bool:
    """Whether this is a folder with the noun files, or a zip archive."""
    if place.is_dir():
        return all((place / name).is_file() for name in NEEDED)
    return place.suffix == ".zip" and place.is_file()


def usual_places() -> Iterator[Path]:
    """Where WordNet's files are looked for: its own variables, the system's folders, NLTK's data."""
    if folder := os.environ.get("WNSEARCHDIR"):
        yield Path(folder)
    if home := os.environ.get("WNHOME"):
        yield Path(home) / "dict"
    for folder in ("/usr/share/wordnet", "/usr/share/wordnet/dict", "/usr/local/share/wordnet"):
        yield Path(folder)
    for version in ("3.0", "3.1"):
        yield Path(f"/usr/local/WordNet-{version}/dict")
    for root in _nltk_folders():
        for corpus in _CORPORA:
            yield root / "corpora" / corpus
            yield root / "corpora" / f"{corpus}.zip"


def _nltk_folders() -> Iterator[Path]:
    for folder in filter(None, os.environ.get("NLTK_DATA", "").split(os.pathsep)):
        yield Path(folder)
    if appdata := os.environ.get("APPDATA"):
        yield Path(appdata) / "nltk_data"
    yield Path("~/nltk_data").expanduser()
    for prefix in (sys.prefix, f"{sys.prefix}/share", f"{sys.prefix}/lib"):
        yield Path(prefix) / "nltk_data"
    for prefix in ("/usr/share", "/usr/local/share", "/usr/lib", "/usr/local/lib"):
        yield Path(prefix) / "nltk_data"
