"""Files on disk: written atomically, locked, cached, downloaded."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import stat
import struct
import time
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

Progress = Callable[[int, int | None], object]

_TIMEOUT = 30.0  # seconds without a byte after which a connection counts as lost
_PAUSE = 1.0  # seconds before a connection is retried
_BLOCK = 1 << 16  # bytes lost at most when a connection drops
_FORMULA = (*"=+-@\t\r\n", *"\uff1d\uff0b\uff0d\uff20")  # spreadsheets also know the wide forms of the signs
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_TRANSIENT_STATUS = (408, 425, 429, 500, 502, 503, 504)


# What json, NumPy, zipfile, gzip and pandas raise on damaged files.
DAMAGE = (ArithmeticError, AttributeError, EOFError, LookupError, MemoryError, NotImplementedError, OSError,
          RecursionError, RuntimeError, SyntaxError, TypeError, ValueError, struct.error, tokenize.TokenError,
          zipfile.BadZipFile, zlib.error)  # fmt: skip
MOST_DOWNLOADED = 64 * 2**30  # bytes
_THIS_MACHINE = ("127.0.0.1", "localhost", "::1")
MOST_READ = 2 * 2**30  # bytes of a text that is read whole
MOST_GROWTH = 200  # bytes that a byte of a packed file may unpack to, if these are many in all
_LITTLE = 256 * 2**20
MOST_LINE = 16 * 2**20  # bytes of a line: a small archive can hold a line of gigabytes


def reason(error: BaseException) -> str:
    """Why a file could not be read, in a short line, without advice to load pickled objects: they can run code."""
    text = " ".join(str(error).split())
    if "pickle" in text:
        return "it contains Python objects, or is not a NumPy file"
    return (text if len(text) < 200 else f"{text[:200]}...") or type(error).__name__


def lines_of(stream: Any, most: int | None = None) -> Iterator[Any]:
    """Lines of an open file; a ValueError if one has more than 16 MB, or all together more than ``most`` bytes."""
    n_read = 0
    while line := stream.readline(MOST_LINE):
        if len(line) == MOST_LINE:
            raise ValueError(f"it has a line of more than {MOST_LINE // 2**20} MB")
        n_read += len(line)
        if most is not None and n_read > most:
            raise ValueError(f"it unpacks to more than {most:,} bytes, {MOST_GROWTH} times its size or more")
        yield line


class DownloadError(OSError):
    """A file could not be downloaded; the message says how to get it by hand."""


def most_unpacked(path: Path) -> int:
    """Bytes that a packed file may unpack to: one of a few MB can hold gigabytes."""
    return max(_LITTLE, MOST_GROWTH * path.stat().st_size)


def check_unpacked(path: Path) -> None:
    """A ValueError if a zip archive, as .npz files are, unpacks to far more than its size."""
    with path.open("rb") as file:
        if file.read(4) != b"PK\3\4":
            return
    with zipfile.ZipFile(path) as archive:
        n_bytes = sum(member.file_size for member in archive.infolist())
    if n_bytes > most_unpacked(path):
        raise ValueError(f"it unpacks to {n_bytes:,} bytes, more than {MOST_GROWTH} times its size")


def expanded(path: str | os.PathLike[str]) -> Path:
    """A path whose ``~`` is the home folder; as it is, if that is not known or ``~name`` is not a user."""
    with suppress(RuntimeError):
        return Path(path).expanduser()
    return Path(path)


def regular(path: str | Path) -> Path:
    """The path of a file, or of a link to one; an OSError for others: a pipe or a device may never end."""
    if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116
        raise OSError("it is not a file")
    return Path(path)


def read_whole(path: str | Path) -> bytes:
    """Content of a file; an OSError if it is not a file, or has more than 2 GB."""
    if regular(path).stat().st_size > MOST_READ:
        raise OSError(f"it has more than {MOST_READ // 2**30} GB")
    return Path(path).read_bytes()


def write_atomically(path: Path, write: Callable[[Path], object], *, alone: bool = False) -> None:
    """Call ``write`` with a temporary name beside ``path``, then rename the file: all or nothing.

    The name is always the same, so that the next call removes what a kill left behind, and processes that write
    the file take turns, unless the caller sees to it that it is ``alone``.
    """
    with ExitStack() as stack:
        temporary = part_of(path)
        if not alone:
            try:
                stack.enter_context(locked(temporary.with_suffix(".lock")))
            except OSError:  # no locks here: a name of our own. A folder that cannot be written is reported below.
                temporary = path.with_name(f".{secrets.token_hex(8)}.part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write(temporary)
            with temporary.open("rb+") as file:  # flush the bytes to disk before renaming, in case of a crash
                os.fsync(file.fileno())
            temporary.replace(path)
        except OSError as error:
            what = f"{str(path)!r} cannot be written ({error.strerror or error})"
            raise OSError(f"path: {what}. {advice(error, 'Choose another path.')}") from error
        finally:
            with suppress(OSError):  # already renamed, or never written
                temporary.unlink()


def part_of(path: Path) -> Path:
    """Temporary name beside a file, always the same; short, as that of the file may be as long as can be."""
    return path.with_name(f".{hashlib.sha256(os.fsencode(path.name)).hexdigest()[:16]}.part")


def advice(error: OSError, other: str) -> str:
    """What to do about a file that cannot be written."""
    return "Free some space, then run it again." if error.errno in _FULL else other


@contextmanager
def writing(path: str | Path, argument: str = "path") -> Iterator[None]:
    """Name what is written in errors that do not: those of a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        what = f"{str(path)!r} cannot be written ({error.strerror})"
        raise OSError(f"{argument}: {what}. {advice(error, '')}") from error


def cache_dir(*parts: str) -> Path:
    """Directory for reproducible files, in ``UNSEEN_CACHE`` or the user's cache; it need not exist."""
    from platformdirs import user_cache_path

    named = os.environ.get("UNSEEN_CACHE")
    root = expanded(named) if named else user_cache_path("unseen", appauthor=False)
    return root.absolute().joinpath(*parts)


@contextmanager
def locked(path: Path, *, wait: bool = True, argument: str = "path") -> Iterator[None]:
    """Hold the lock file ``path``, in a folder that is created if needed, for the duration of a block.

    Others wait, or, without ``wait``, get an OSError about the ``argument``. A lock ends with its process.
    """
    from filelock import FileLock

    lock = FileLock(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=-1 if wait else 0)
    except (OSError, NotImplementedError) as error:  # the latter: the file system has no locks
        what = f"{str(path.parent)!r} cannot be written, or another process is writing to it ({error})"
        raise OSError(f"{argument}: {what}. Wait, or choose another folder.") from error
    try:
        yield
    finally:
        # Removed while still held: filelock never takes the lock of a file that has lost its name.
        with suppress(OSError):
            path.unlink()
        lock.release()


def download(url: str, path: str | Path, checksum: str | None = None, progress: Progress | None = None) -> Path:
    """Download a file to ``path``, unless it exists with the right checksum; return ``path``.

    Only over HTTPS, unless the host is this machine or a SHA-256 says what is wanted; a redirection does not lead
    from HTTPS to HTTP. A file of more than 64 GB, or whose `checksum` (``"md5:..."`` or ``"sha256:..."``) differs,
    is never put in place. An interrupted download leaves a hidden partial file beside `path`, which the next call
    with a checksum resumes. Processes that want the same file take turns. ``progress(done, total)`` counts bytes;
    the total is None if it is unknown.
    """
    is_pinned = checksum is not None and checksum.startswith("sha256:")
    if not _is_safe(url) and not (is_pinned and url.startswith("http://")):
        raise ValueError(f"url: {url!r} was given. Pass an address that begins with https://.")
    path = Path(path)
    part, by_hand = path.with_name(f".{path.name}.part"), f"download it by hand and put it at {str(path)!r}"
    try:
        from requests import RequestException
    except ImportError:
        raise ImportError(f'requests: not installed. Run: pip install "unseen[images]", or {by_hand}.') from None
    try:
        with locked(path.with_name(f".{path.name}.lock")):
            if not _has_checksum(path, checksum):
                if checksum is None:  # without one, a changed file would go unnoticed
                    part.unlink(missing_ok=True)
                _fetch_rest(url, part, progress or (lambda done, total: None))
                if not _has_checksum(part, checksum):
                    part.unlink()
                    raise DownloadError(f"url: {url} is not the expected file. Try again, or {by_hand}.")
                part.replace(path)
    except DownloadError:
        raise
    except RequestException as error:
        reason = getattr(error.args[0], "reason", error) if error.args else error
        raise DownloadError(f"url: {url} cannot be downloaded ({reason}). Try again, or {by_hand}.") from error
    except OSError as error:
        what = f"{str(path)!r} cannot be written ({error.__cause__ or error})"
        raise DownloadError(f"path: {what}. {advice(error, 'Choose another path.')}") from error
    return path


def _has_checksum(path: Path, checksum: str | None) -> bool:
    """Whether there is such a file."""
    if checksum is None or not path.is_file():
        return path.is_file()
    name, _, wanted = checksum.partition(":")
    with path.open("rb") as file:
        return hashlib.file_digest(file, name).hexdigest() == wanted.lower()


def _is_safe(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _THIS_MACHINE)


def open_session(n_retries: int, **options: Any) -> Any:
    """A session of requests that retries when a server fails or is too busy, after ever longer pauses."""
    import requests
    from requests.adapters import HTTPAdapter
    from urllib3 import Retry

    class Session(requests.Session):
        def get_redirect_target(self, resp: Any) -> Any:
            target = super().get_redirect_target(resp)
            if target is not None and _is_safe(resp.url) and not _is_safe(urljoin(resp.url, target)):
                raise requests.exceptions.InvalidURL("it leads from a safe address to one without HTTPS")
            return target

        def request(self, *args: Any, **options: Any) -> Any:
            try:
                return super().request(*args, **options)
            except requests.RequestException:
                raise
            except ValueError as error:  # an address, also one that the server leads to, that cannot be parsed
                raise requests.exceptions.InvalidURL(str(error)) from error

    retry = Retry(n_retries, status_forcelist=_TRANSIENT_STATUS, backoff_factor=_PAUSE, **options)
    session = Session()
    session.headers["User-Agent"] = "unseen"
    for scheme in ("http://", "https://"):
        session.mount(scheme, HTTPAdapter(max_retries=retry))
    return session


def _fetch_rest(url: str, part: Path, progress: Progress) -> None:
    """Append the missing bytes to a partial file, by range requests; the checksum catches errors."""
    import requests
    from requests.exceptions import InvalidHeader

    # An unreachable host is reported at once, so that offline users do not wait.
    with open_session(4, connect=0) as session:
        while True:
            have = part.stat().st_size if part.is_file() else 0
            headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
            try:
                with session.get(url, headers=headers, timeout=_TIMEOUT, stream=True) as response:
                    if have and response.status_code == 416:  # nothing follows: the file is complete
                        return
                    response.raise_for_status()
                    done, total = _announced(response)
                    if done not in (0, have):
                        part.unlink(missing_ok=True)
                        raise InvalidHeader("the server sends another part than was asked for")
                    if total is not None and total > MOST_DOWNLOADED:
                        raise InvalidHeader(f"it has {total:,} bytes, which is too much")
                    with part.open("ab" if done else "wb") as file:
                        for block in response.iter_content(_BLOCK):
                            done += file.write(block)
                            if done > (total or MOST_DOWNLOADED):
                                raise InvalidHeader("it has more bytes than announced")
                            progress(done, total)
                if not done:
                    raise InvalidHeader("it is empty")
                if total is not None and done < total:
                    raise requests.ConnectionError(f"it ends after {done:,} of {total:,} bytes")
                return
            except (requests.exceptions.ChunkedEncodingError, requests.ConnectionError):
                # Retry a lost connection as long as each attempt makes progress.
                if not part.is_file() or part.stat().st_size <= have:
                    raise
                time.sleep(_PAUSE)


def _announced(response: Any) -> tuple[int, int | None]:
    """Where an answer begins in its file, and the bytes of the whole file, if known."""
    from requests.exceptions import InvalidHeader

    length, part = response.headers.get("Content-Length"), response.headers.get("Content-Range", "")
    if response.status_code not in (200, 206):
        raise InvalidHeader(f"the server answers {response.status_code}, without the file")
    if length is not None and not re.fullmatch("[0-9]{1,18}", length):
        raise InvalidHeader(f"its length is said to be {length:.40}")
    if response.headers.get("Content-Encoding", "identity") != "identity":
        length = None  # of what is sent, not of the file
    if response.status_code == 200:
        return 0, int(length) if length else None
    found = re.fullmatch(r"bytes ([0-9]{1,18})-[0-9]{1,18}/([0-9]{1,18}|\*)", part)
    if found is None:
        raise InvalidHeader(f"the server sends a part of it, said to be {part!r:.40}")
    start, total = found.groups()
    return int(start), int(total) if total != "*" else int(start) + int(length) if length else None


def guess_delimiter(line: str) -> str:
    """The first comma, tab or semicolon of a line that is not in quotation marks; a comma if there is none."""
    found = re.search(r"[,\t;]", re.sub(r'"[^"]*"', "", line))
    return found[0] if found else ","


def csv_cell(text: str) -> str:
    """Return text for a cell of a CSV file, with an apostrophe where a spreadsheet would see a formula."""
    return f"'{text}" if text.lstrip("'").startswith(_FORMULA) else text


def csv_text(cell: str) -> str:
    """Return the text of a cell that `csv_cell` made."""
    return cell[1:] if cell.startswith("'") and cell.lstrip("'").startswith(_FORMULA) else cell
