"""Which labels each line of a corpus of tag sets carries, read as a stream."""

from __future__ import annotations

import csv
import gzip
import re
import unicodedata
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple, TextIO

from unseen.validation import find_names

__all__ = ["Chunk", "chunks_of_labels", "open_lines", "sniff_separator", "spellings"]

_SNIFFED_LINES = 200
_CHUNK = 50_000  # records whose labels are held at a time


class Chunk(NamedTuple):
    """Labels of consecutive records: those of record i are ``labels[ends[i - 1]:ends[i]]``."""

    labels: list[int]
    ends: list[int]


@contextmanager
def open_lines(source: str | Path | Iterable[str]) -> Iterator[Iterator[str]]:
    """Lines of a text file (gzip if its name ends in .gz), or of any iterable of strings.

    Bytes that are no UTF-8 are replaced: the tag that has them is no label, the others on its line still count.
    """
    if not isinstance(source, str | Path):
        yield iter(source)
        return
    path = Path(source)
    if not path.is_file():
        raise FileNotFoundError(
            f"source: there is no file {str(path)!r}. Pass a file with one photo's tags a line."
        )
    with ExitStack() as stack:
        file: TextIO
        if path.suffix == ".gz":
            file = stack.enter_context(gzip.open(path, "rt", encoding="utf-8-sig", errors="replace"))
        else:
            file = stack.enter_context(path.open(encoding="utf-8-sig", errors="replace"))
        try:
            yield iter(file)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(
                f"source: {str(path)!r} is no whole gzip file ({error}). Get it again; nothing was counted."
            ) from error


def sniff_separator(lines: Iterator[str]) -> tuple[str | None, Iterator[str]]:
    """Separator of tags, and all the lines again.

    The one of tab, semicolon and comma that stands in most of the first lines, in that order if several do alike;
    None, for any white space, if none does.
    """
    first = list(islice(lines, _SNIFFED_LINES))
    votes = {separator: sum(separator in line.strip() for line in first) for separator in ("\t", ";", ",")}
    best = max(votes, key=lambda separator: votes[separator])
    return (best if votes[best] else None), chain(first, lines)


def spellings(
    labels: tuple[str, ...], synonyms: Mapping[str, Iterable[str]] | None, separator: str | None
) -> dict[str, int]:
    """Row of the label that each tag stands for.

    A label of several words is also found with its words joined by underscores, hyphens or nothing, as photo sites
    store tags, unless that is another label's own name.
    """
    rows = {label: row for row, label in enumerate(labels)}
    synonyms = synonyms or {}
    find_names(synonyms, rows, "synonyms", "Give synonyms of `labels` only.")
    found: dict[str, int] = {}
    for what, tags in (("labels", rows.items()), ("synonyms", _pairs(synonyms, rows))):
        for tag, row in tags:
            folded = fold(tag).strip()
            if found.setdefault(folded, row) != row:
                raise ValueError(
                    f"{what}: {tag!r} stands for two labels, {labels[found[folded]]!r} and {labels[row]!r} "
                    f"(case is ignored). Give every tag one meaning."
                )
            if separator is not None and separator in folded:
                raise ValueError(
                    f"{what}: {tag!r} contains the separator {separator!r}, so no tag can equal it. "
                    f"Rename it or use another separator."
                )
    for tag, row in list(found.items()):
        words = re.split(r"[\s_-]+", tag)
        for joint in (" ", "_", "-", ""):
            found.setdefault(joint.join(words), row)
    return found


def _pairs(synonyms: Mapping[str, Iterable[str]], rows: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    for label, tags in synonyms.items():
        if isinstance(tags, str):
            raise ValueError(
                f"synonyms[{label!r}]: the single string {tags!r} was given. Pass a list, [{tags!r}]."
            )
        for tag in tags:
            yield tag, rows[label]


def fold(line: str) -> str:
    """``line`` without case, with every run of spaces as one, and in one Unicode form."""
    if not line.isascii():
        line = unicodedata.normalize("NFKC", line)
    if "  " in line:
        line = re.sub(" +", " ", line)
    return line.casefold()


def chunks_of_labels(lines: Iterable[str], rows: Mapping[str, int], separator: str | None) -> Iterator[Chunk]:
    """Labels of every line that is not blank, in chunks of bounded size."""
    find = rows.get
    split = _splitter(separator)
    chunk = Chunk([], [])
    for line in lines:
        folded = fold(line)
        found = set(map(find, split(folded)))
        found.discard(None)
        if found:
            chunk.labels.extend(found)  # type: ignore[arg-type]
        elif not folded.strip():
            continue
        chunk.ends.append(len(chunk.labels))
        if len(chunk.ends) == _CHUNK:
            yield chunk
            chunk = Chunk([], [])
    if chunk.ends:
        yield chunk


def _splitter(separator: str | None) -> Callable[[str], Iterable[str]]:
    """Function that gives the tags of a line; a tag in double quotes may contain the separator."""
    delimiter = separator if separator is not None and len(separator) == 1 else " "
    strip = str.strip

    def split(line: str) -> Iterable[str]:
        if '"' in line and (separator is None or len(separator) == 1):
            text = line if separator is not None else " ".join(line.split())
            try:
                return map(
                    strip, next(csv.reader([text], delimiter=delimiter, skipinitialspace=True, strict=True))
                )
            except (csv.Error, StopIteration):
                line = line.replace('"', " ")  # a stray quote, say of inches: no quoting is meant
        return line.split() if separator is None else map(strip, line.split(separator))

    return split
