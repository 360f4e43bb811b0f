"""Tables as text: GloVe, word2vec text and fastText .vec (a word and numbers, with spaces), and .csv."""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import IO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unseen.labels.readers._block import ROWS, Block, check_finite, fail, show

_HEADER = re.compile(rb"([0-9]+)[ \t]+([0-9]+)[ \t\r]*\n?")
_HEADER_WORDS = frozenset({"", "word", "words", "name", "names", "label", "labels", "token", "key"})


class Header(NamedTuple):
    """First line of a word2vec or fastText file."""

    n_words: int
    dim: int


def parse_header(line: bytes) -> Header | None:
    """The two counts that open a word2vec or fastText file, if this is such a line."""
    match = _HEADER.fullmatch(line)
    return Header(int(match[1]), int(match[2])) if match and int(match[2]) > 0 else None


def trailing_numbers(fields: list[bytes]) -> int:
    """How many fields at the end of a line are numbers; the first one is a word, whatever it looks like."""
    count = 0
    for field in reversed(fields[1:]):
        if not _is_number(field):
            break
        count += 1
    return count


def _is_number(field: bytes | str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return ("_" if isinstance(field, str) else b"_") not in field  # type: ignore[operator]


def split(line: bytes) -> list[bytes]:
    """Fields of a line. Only spaces and tabs separate: words may hold a no-break space or another control."""
    return line.rstrip(b" \t\r\n").replace(b"\t", b" ").split(b" ")


def read_text(stream: IO[bytes], file: str, header: Header | None) -> Iterator[Block]:
    """Blocks of a table with a word and its numbers a line, as float32.

    A word may hold spaces ("at name@domain.com" does, in some tables): the last numbers of a line, as many as
    there are dimensions, are its vector and all before them is its word.
    """
    line_number, dim, n_read = 1, None, 0
    if header is not None:
        stream.readline()
        line_number, dim = 2, header.dim
    while lines := list(islice(stream, ROWS)):
        # An empty line, as many files end with, is passed over; a word of other white space is a word.
        places = [line_number + i for i, line in enumerate(lines) if line.strip(b" \t\r\n")]
        line_number += len(lines)
        if not places:
            continue
        kept = [line for line in lines if line.strip(b" \t\r\n")]
        dim = dim or _dimension(kept[0], file, places[0])
        yield check_finite(_parse(kept, dim, file, places), file, places, "line")
        n_read += len(kept)
    _check_count(n_read, header, file)


def _dimension(line: bytes, file: str, place: int) -> int:
    dim = trailing_numbers(split(line))
    if dim == 0:
        fail(file, "a word followed by numbers was expected", "Pass a table of word vectors.", line=place)
    return dim


def _parse(lines: list[bytes], dim: int, file: str, places: list[int]) -> Block:
    words, numbers = [], []
    for line, place in zip(lines, places, strict=True):
        # One cut at the first space serves nearly every line; counting spaces tells the others.
        word, _, rest = line.rstrip(b" \t\r\n").replace(b"\t", b" ").partition(b" ")
        if rest.count(b" ") != dim - 1 or not word or not rest:
            word, rest = _parse_odd(line, dim, file, place)
        words.append(word)
        numbers.append(rest)
    return Block(words, _numbers(numbers, words, dim, file, places))


def _parse_odd(line: bytes, dim: int, file: str, place: int) -> tuple[bytes, bytes]:
    """Word and numbers of a line whose word holds spaces or whose numbers stand apart; complains otherwise."""
    fields = [field for field in split(line) if field]
    found = trailing_numbers(fields)
    if found != dim:
        fail(
            file,
            f"a word and {dim} numbers were expected, but {show(fields[0])} is followed by {found} numbers",
            "Repair or remove the line, or fetch the file again if it was cut short.",
            line=place,
        )
    return b" ".join(fields[:-dim]), b" ".join(fields[-dim:])


def _numbers(
    numbers: list[bytes], words: list[bytes], dim: int, file: str, places: list[int]
) -> NDArray[np.float32]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)  # how older numpy reports a wrong number
            parsed = np.fromstring(b" ".join(numbers), sep=" ", dtype=np.float32)
        return parsed.reshape(len(numbers), dim)
    except (ValueError, DeprecationWarning):
        _find_wrong_number(numbers, words, file, places)
        raise


def _find_wrong_number(numbers: list[bytes], words: list[bytes], file: str, places: list[int]) -> None:
    for text, word, place in zip(numbers, words, places, strict=True):
        for field in text.split(b" "):
            if not _is_number(field):
                what = f"{show(field)} in the vector of {show(word)} is no number"
                fail(file, what, "Repair or remove the line.", line=place)


def _check_count(n_read: int, header: Header | None, file: str) -> None:
    if n_read == 0:
        fail(file, "it holds no vectors", "Pass a table of word vectors.")
    if header is not None and n_read != header.n_words:
        fail(
            file,
            f"its first line promises {header.n_words} words, but {n_read} follow",
            "The file was probably cut short: fetch it again.",
        )


def read_csv(stream: IO[bytes], file: str) -> Iterator[Block]:
    """Blocks of a comma-separated table with a word and its numbers a line, as float64.

    A first line with names of columns is passed over.
    """
    lines = csv.reader(io.TextIOWrapper(stream, encoding="utf-8-sig", newline=""), skipinitialspace=True)
    rows = _numbered(lines, file)
    dim, n_read = 0, 0
    while numbered := list(islice(rows, ROWS)):
        if n_read == 0 and _is_column_names(numbered[0][1]):
            del numbered[0]
        if not numbered:
            break
        dim = dim or len(numbered[0][1]) - 1
        words = [row[0].encode("utf-8") for _, row in numbered]
        vectors = np.array([_csv_vector(row, dim, file, place) for place, row in numbered])
        yield check_finite(Block(words, vectors), file, [place for place, _ in numbered], "line")
        n_read += len(numbered)
    _check_count(n_read, None, file)


def _numbered(rows: Iterable[list[str]], file: str) -> Iterator[tuple[int, list[str]]]:
    number = 0
    try:
        for row in rows:
            number += 1
            if row:
                yield number, row
    except (csv.Error, UnicodeDecodeError) as error:
        fail(file, f"cannot be read as comma-separated UTF-8 text ({error})", "Save it as UTF-8 .csv.", number + 1)


def _is_column_names(row: list[str]) -> bool:
    numbers = row[1:]
    if not any(map(_is_number, numbers)):
        return True
    # A data frame writes its column numbers: they look like a vector, but only by chance could they be one.
    counted = [[str(i + start) for i in range(len(numbers))] for start in (0, 1)]
    return row[0].strip().lower() in _HEADER_WORDS and numbers in counted


def _csv_vector(row: list[str], dim: int, file: str, number: int) -> list[float]:
    if not row[0].strip() or dim == 0 or len(row) != dim + 1 or not all(map(_is_number, row[1:])):
        found = f"found {len(row)} fields beginning with {row[0][:40]!r}"
        fail(file, f"a word and {max(dim, 1)} numbers were expected, {found}", "Repair the line.", line=number)
    return [float(value) for value in row[1:]]
