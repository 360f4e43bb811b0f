"""A table of word vectors on disk, looked up without loading it.

Its directory holds ``vectors.bin`` (the rows, in the order of the source), ``words.bin`` and ``offsets.npy``
(the words in the same order, as UTF-8) and ``hashes.npy`` with ``rows.npy`` (a sorted 64-bit hash of every
word and the row it belongs to). ``meta.json`` says how to read them. All are memory-mapped.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unseen.files import locked
from unseen.labels.readers import Block

FORMAT = 1
_ABANDONED = 24 * 3600.0  # seconds after which a half-written table is nobody's
_ROWS_A_READ = 8192

Rows = NDArray[np.int64]


def build_table(target: Path, blocks: Callable[[], Iterable[Block]]) -> None:
    """Write a table to the directory ``target``, unless it is there: the whole of it or nothing."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with locked(target.with_name(f".{target.name}.lock")):
        if is_whole(target):
            return
        _remove_abandoned(target)
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
        try:
            temporary.mkdir()
            _write(temporary, blocks())
            shutil.rmtree(target, ignore_errors=True)
            temporary.replace(target)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def is_whole(directory: Path) -> bool:
    """Whether a directory holds a table that can be opened; a lost or cut file means that it does not."""
    try:
        meta = json.loads((directory / "meta.json").read_text("utf-8"))
        needed = meta["n_rows"] * meta["dim"] * np.dtype(meta["dtype"]).itemsize
        vectors = (directory / "vectors.bin").stat().st_size == needed
        words = (directory / "words.bin").stat().st_size == meta["n_bytes"]
        index = all((directory / f"{name}.npy").is_file() for name in ("offsets", "hashes", "rows"))
        return bool(meta["format"] == FORMAT and vectors and words and index)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _remove_abandoned(target: Path) -> None:
    """Clear what killed processes left behind: at once for this table, whose lock is held, else in time."""
    for part in target.parent.glob(".*.part"):
        with suppress(OSError):
            own = part.name.startswith(f".{target.name}.")
            if own or time.time() - part.stat().st_mtime > _ABANDONED:
                shutil.rmtree(part, ignore_errors=True)


def _write(directory: Path, blocks: Iterable[Block]) -> None:
    hashes: list[NDArray[np.uint64]] = []
    lengths: list[NDArray[np.int64]] = []
    dim, dtype = 0, np.dtype(np.float32)
    with (
        (directory / "words.bin").open("wb") as words_file,
        (directory / "vectors.bin").open("wb") as vectors_file,
    ):
        for block in blocks:
            if not dim:
                dim, dtype = block.vectors.shape[1], block.vectors.dtype.newbyteorder("<")
            hashes.append(_hash(block.words))
            lengths.append(np.fromiter(map(len, block.words), dtype=np.int64, count=len(block.words)))
            words_file.write(b"".join(block.words))
            vectors_file.write(np.ascontiguousarray(block.vectors, dtype=dtype).tobytes())
    offsets = np.concatenate([[0], np.cumsum(np.concatenate(lengths))])
    np.save(directory / "offsets.npy", offsets)
    _write_index(directory, np.concatenate(hashes), offsets)
    meta = {
        "format": FORMAT,
        "n_rows": len(offsets) - 1,
        "n_bytes": int(offsets[-1]),
        "dim": dim,
        "dtype": dtype.str,
    }
    (directory / "meta.json").write_text(json.dumps(meta), "utf-8")


def _write_index(directory: Path, hashes: NDArray[np.uint64], offsets: Rows) -> None:
    # A stable order keeps the rows of a word that comes twice in file order: the first one is found.
    rows = np.argsort(hashes, kind="stable")
    ordered = hashes[rows]
    kept = np.ones(len(rows), dtype=np.bool_)
    repeated = np.flatnonzero(ordered[1:] == ordered[:-1]) + 1
    if len(repeated):
        blob = np.memmap(directory / "words.bin", dtype=np.uint8, mode="r")
        for i in repeated.tolist():
            # All words with the same hash: nearly always the same word again, but it need not be.
            first = int(np.searchsorted(ordered, ordered[i]))
            word = _word(blob, offsets, int(rows[i]))
            kept[i] = all(_word(blob, offsets, int(row)) != word for row in rows[first:i])
    np.save(directory / "hashes.npy", ordered[kept])
    np.save(directory / "rows.npy", rows[kept])


def _word(blob: NDArray[np.uint8], offsets: Rows, row: int) -> bytes:
    return blob[int(offsets[row]) : int(offsets[row + 1])].tobytes()


def _hash(words: Sequence[bytes]) -> NDArray[np.uint64]:
    digests = b"".join(hashlib.blake2b(word, digest_size=8).digest() for word in words)
    return np.frombuffer(digests, dtype="<u8")


class Table:
    """A table in a directory. Its arrays are mapped only while they are used: no pages stay behind."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        meta = json.loads((directory / "meta.json").read_text("utf-8"))
        self.n_rows, self.dim = int(meta["n_rows"]), int(meta["dim"])
        self.dtype: np.dtype[Any] = np.dtype(meta["dtype"])

    def _map(self, name: str) -> NDArray[Any]:
        if name == "words":
            return np.asarray(np.memmap(self.directory / "words.bin", dtype=np.uint8, mode="r"))
        if name == "vectors":
            shape = (self.n_rows, self.dim)
            return np.asarray(np.memmap(self.directory / "vectors.bin", dtype=self.dtype, mode="r", shape=shape))
        return np.asarray(np.load(self.directory / f"{name}.npy", mmap_mode="r", allow_pickle=False))

    def n_words(self) -> int:
        """Number of different words."""
        return len(self._map("rows"))

    def find(self, words: Sequence[bytes]) -> Rows:
        """Row of each word, -1 where there is none."""
        hashes, rows = self._map("hashes"), self._map("rows")
        blob, offsets = self._map("words"), self._map("offsets")
        wanted = _hash(words)
        found = np.full(len(words), -1, dtype=np.int64)
        for i, place in enumerate(np.searchsorted(hashes, wanted).tolist()):
            # Words with equal hashes stand side by side; practically there is one.
            while place < len(hashes) and hashes[place] == wanted[i]:
                if _word(blob, offsets, int(rows[place])) == words[i]:
                    found[i] = rows[place]
                    break
                place += 1
        return found

    def take(self, rows: Rows) -> NDArray[Any]:
        """Vectors of the given rows, as a copy.

        They are read one by one: a map would bring in the 64 kB around each of them.
        """
        taken = np.empty((len(rows), self.dim), dtype=self.dtype)
        n_bytes = self.dim * self.dtype.itemsize
        with (self.directory / "vectors.bin").open("rb", buffering=0) as file:
            for i in np.argsort(rows).tolist():
                file.seek(int(rows[i]) * n_bytes)
                file.readinto(taken[i].data)
        return taken.astype(self.dtype.newbyteorder("="), copy=False)

    def words(self, start: int, stop: int) -> list[bytes]:
        """Words of a range of rows."""
        offsets = np.array(self._map("offsets")[start : stop + 1])
        first = int(offsets[0])
        text = self._map("words")[first : int(offsets[-1])].tobytes()
        ends = (offsets - first).tolist()
        return [text[a:b] for a, b in pairwise(ends)]

    def mean(self) -> NDArray[np.float64]:
        """Mean of all rows, read in passing."""
        total = np.zeros(self.dim)
        for start in range(0, self.n_rows, _ROWS_A_READ):
            total += self._map("vectors")[start : start + _ROWS_A_READ].sum(axis=0, dtype=np.float64)
        return total / self.n_rows
