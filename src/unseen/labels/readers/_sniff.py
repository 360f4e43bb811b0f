"""Finding out what a file of word vectors is, by what is in it and not by how it is called."""

from __future__ import annotations

import gzip
import io
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from unseen.labels.readers._binary import read_binary
from unseen.labels.readers._block import Block, fail
from unseen.labels.readers._tables import read_npz, read_safetensors
from unseen.labels.readers._text import Header, parse_header, read_csv, read_text, split, trailing_numbers

_PEEK = 1 << 16
_TELL = 1 << 20
_NUMERIC = frozenset(b"0123456789+-.eEinfatyINFATY \t\r")
_KNOWN = "Pass GloVe, word2vec or fastText vectors, or a .npz, .safetensors or .csv table."

Progress = Callable[[int, int | None], object]


def read_vectors(
    path: str | Path, *, member: str | None = None, dim: int | None = None, progress: Progress | None = None
) -> Iterator[Block]:
    """Words and vectors of a file, block by block, in the order of the file.

    The format is found by content: GloVe text, word2vec text or binary, fastText .vec, .npz, .safetensors
    and .csv, any of the text and binary ones inside .gz or .zip. Text and word2vec's binary give float32, the
    type such vectors are trained in; .csv gives float64; arrays keep their own type. A word that comes twice
    is yielded twice; whoever looks words up keeps the first, as GloVe's own tools do. Nothing in a file is
    executed: pickles and arrays of objects are refused.

    Parameters
    ----------
    path : str or pathlib.Path
        The file.
    member : str, optional
        Which file of a .zip archive, if it holds several.
    dim : int, optional
        The same choice by dimension: 300 for ``glove.6B.300d.txt``.
    progress : callable, optional
        Called as ``progress(done, total)``, in bytes of the file.

    Yields
    ------
    Block
        ``words`` (a list of UTF-8 bytes) and ``vectors`` (one row a word).

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the content is malformed; the message names the file, the line and what to do.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"vectors: there is no file {str(path)!r}. Pass a table of word vectors.")
    with path.open("rb") as raw:
        file = _Counted(raw, path.stat().st_size, progress)
        start = _peek(raw)
        if not start.startswith(b"PK"):
            file.span = (0, file.size)
        if start[:4] == b"PK\x03\x04" or start[:4] == b"PK\x05\x06":
            yield from _read_zip(path, file, member, dim)
        elif start[8:9] == b"{" and int.from_bytes(start[:8], "little") < file.size:
            yield from read_safetensors(path)
        elif start[:2] == b"\x1f\x8b":
            with _unpacking(str(path)):
                yield from _read_stream(cast(IO[bytes], gzip.GzipFile(fileobj=file)), str(path))
        else:
            yield from _read_stream(io.BufferedReader(file, 1 << 20), str(path))
        file.report(file.size)


class _Counted(io.RawIOBase):
    """A file that tells how far it has been read."""

    def __init__(self, raw: IO[bytes], size: int, progress: Progress | None) -> None:
        self.raw, self.size = raw, size
        self.progress = progress or (lambda done, total: None)
        self.span: tuple[int, int] | None = None  # first byte of what is read, and how many there are
        self.told = 0

    def report(self, done: int) -> None:
        """Tell how much of the span has been read, at most once a megabyte."""
        if self.span is None:
            return
        total = self.span[1]
        done = min(max(done - self.span[0], 0), total)
        if done - self.told >= _TELL or (done == total and self.told < total):
            self.told = done
            self.progress(done, total)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        count = cast(io.BufferedReader, self.raw).readinto(buffer)  # type: ignore[arg-type]
        self.report(self.raw.tell())
        return count

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_SET and offset < 0:
            raise zipfile.BadZipFile("a member begins before the file")
        return self.raw.seek(offset, whence)

    def tell(self) -> int:
        return self.raw.tell()


def _peek(stream: IO[bytes]) -> bytes:
    start = stream.read(_PEEK)
    stream.seek(0)
    return start


@contextmanager
def _unpacking(file: str) -> Iterator[None]:
    try:
        yield
    except (
        zipfile.BadZipFile,
        gzip.BadGzipFile,
        EOFError,
        zlib.error,
        NotImplementedError,
        RuntimeError,
    ) as error:
        fail(file, f"the archive is damaged or cut short ({error})", "Fetch it again.")


def _read_zip(path: Path, file: _Counted, member: str | None, dim: int | None) -> Iterator[Block]:
    with _unpacking(str(path)), zipfile.ZipFile(cast(IO[bytes], file)) as archive:
        names = [info.filename for info in archive.infolist() if _is_table(info)]
        if names and all(name.endswith(".npy") for name in names):
            file.span = (0, file.size)
            yield from read_npz(path)
            return
        name = _choose(names, member, dim, str(path))
        info = archive.getinfo(name)
        file.span = (info.header_offset, info.compress_size)
        with archive.open(name) as stream:
            yield from _read_stream(stream, f"{path}:{name}")


def _is_table(info: zipfile.ZipInfo) -> bool:
    return not info.is_dir() and not info.filename.startswith("__MACOSX/") and info.file_size > 0


def _choose(names: list[str], member: str | None, dim: int | None, file: str) -> str:
    """The one member of an archive that is meant."""
    wanted = names
    if member is not None:
        wanted = [name for name in names if member in (name, Path(name).name)]
    elif dim is not None and len(names) > 1:
        wanted = [name for name in names if re.search(rf"(?<![0-9]){dim}d?(?![0-9])[^/]*$", name)]
    if len(wanted) != 1:
        asked = f"member {member!r}" if member is not None else f"dim={dim}" if dim is not None else "no choice"
        held = ", ".join(map(repr, names)) or "no file"
        fail(file, f"{asked} was given and the archive holds {held}", "Name one of them as member.")
    return wanted[0]


def _read_stream(stream: IO[bytes], file: str) -> Iterator[Block]:
    start = _peek(stream)
    _refuse_other_formats(start, file)
    first, _, rest = start.partition(b"\n")
    header = parse_header(first)
    # A table of one dimension may open with two integers too: it is a header only if what follows agrees.
    if header is not None and _is_binary(rest):
        return read_binary(stream, file, header)
    if header is not None and not _agrees(rest.partition(b"\n")[0], header):
        header = None
    if header is None and _is_csv(first):
        return read_csv(stream, file)
    return read_text(stream, file, header)


def _refuse_other_formats(start: bytes, file: str) -> None:
    if not start.strip():
        fail(file, "the file is empty", _KNOWN)
    if start[:4] == b"\xba\x16\x4f\x2f":
        fail(file, "this is a fastText model", "Pass the .vec file of the same vectors.")
    if start[:6] == b"\x93NUMPY":
        fail(file, "an .npy array has no words", "Store it as .npz with arrays 'words' and 'vectors'.")
    if start[:1] == b"\x80" and start[1:2] <= b"\x05":
        fail(file, "this is a pickle, which could run any program", f"It is not read. {_KNOWN}")
    if b"\0" in start.partition(b"\n")[0]:
        fail(file, "the format is unknown", _KNOWN)


def _is_binary(rest: bytes) -> bool:
    """Whether float32 and not numbers in digits follow the first word."""
    line = rest.lstrip(b"\n").partition(b" ")[2].partition(b"\n")[0]
    has_number = trailing_numbers([b"word", *line.split()]) > 0
    return bool(rest) and (not has_number or not _NUMERIC.issuperset(line))


def _agrees(line: bytes, header: Header) -> bool:
    return not line or trailing_numbers([field for field in split(line) if field]) >= header.dim


def _is_csv(line: bytes) -> bool:
    by_comma = [field.strip() for field in line.rstrip(b"\r").split(b",")]
    column_names = len(by_comma) > 2 and b" " not in line and not trailing_numbers(by_comma)
    return column_names or trailing_numbers(by_comma) > trailing_numbers(split(line))
