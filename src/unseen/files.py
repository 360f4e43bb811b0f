"""Files on disk: whole or not at all, locked, cached, downloaded."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import re
import secrets
import shutil
import socket
import ssl
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

__all__ = [
    "DownloadError",
    "Progress",
    "cache_dir",
    "download",
    "file_digest",
    "guess_delimiter",
    "locked",
    "write_atomically",
]

Progress = Callable[[int, int | None], object]

_BLOCK = 1 << 18
_TRANSIENT_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})
_LONGEST_WAIT = 60.0


class DownloadError(OSError):
    """A file could not be fetched; the message says how to get it by hand."""


class _TransientError(Exception):
    """A failure that may pass: worth another attempt after ``wait`` seconds, if the server named a time."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


class _FinalError(Exception):
    """A failure that will not pass by itself."""


@dataclass(frozen=True)
class _Version:
    """What a server says about the version of a file; a part is only continued with the same version."""

    url: str
    etag: str | None
    modified: str | None
    size: int | None

    @property
    def validator(self) -> str | None:
        """Value of If-Range. A weak ETag does not promise equal bytes, so that it does not count."""
        return self.etag if self.etag and not self.etag.startswith("W/") else self.modified


def download(
    url: str,
    path: str | Path,
    *,
    sha256: str | None = None,
    md5: str | None = None,
    progress: Progress | None = None,
    timeout: float = 30.0,
    retries: int = 4,
    backoff: float = 1.0,
) -> Path:
    """Fetch a file over HTTP(S), once.

    A file that is already at `path` with the right checksum is kept and nothing is fetched. An interrupted
    download leaves a hidden part file beside `path`, and the next call continues it if the server still has
    the same version of the file. Two processes that want the same file take turns.

    Parameters
    ----------
    url : str
        An http or https address.
    path : str or pathlib.Path
        Where the file goes; its directory is made.
    sha256, md5 : str, optional
        Checksums as hexadecimal digits. The file is put in place only if those given agree.
    progress : callable, optional
        Called as ``progress(done, total)`` in bytes; `total` is None if the server does not tell.
    timeout : float, default=30.0
        Seconds without a byte after which a connection counts as lost.
    retries : int, default=4
        Attempts after the first that make no headway; an attempt that fetched something is not counted.
    backoff : float, default=1.0
        Seconds before the first retry, doubled for each one after it.

    Returns
    -------
    pathlib.Path
        `path`.

    Raises
    ------
    DownloadError
        If the file cannot be fetched, or its checksum is wrong (it is removed then).
    ValueError
        If `url` is no http or https address.
    """
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"url: {url!r} was given. Pass an address that begins with http:// or https://.")
    job = _Job(url, Path(path), {"sha256": sha256, "md5": md5}, progress, timeout)
    try:
        job.path.parent.mkdir(parents=True, exist_ok=True)
        with locked(job.path.with_name(f".{job.path.name}.lock")):
            if not job.is_done():
                _fetch_with_retries(job, retries, backoff)
                job.finish()
    except DownloadError:
        raise
    except OSError as error:
        raise DownloadError(
            f"path: {str(job.path)!r} cannot be written ({error}). Pass a file in a directory you may write to."
        ) from error
    return job.path


def file_digest(path: str | Path, algorithm: str = "sha256") -> str:
    """Checksum of a file as hexadecimal digits.

    Parameters
    ----------
    path : str or pathlib.Path
        The file.
    algorithm : str, default="sha256"
        A name that `hashlib.new` knows.

    Returns
    -------
    str
    """
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False)).hexdigest()


class _Job:
    """One file to fetch, and the part of it that is here."""

    def __init__(
        self, url: str, path: Path, digests: dict[str, str | None], progress: Progress | None, timeout: float
    ) -> None:
        self.url, self.path, self.timeout = url, path, timeout
        self.digests = {kind: digest.lower() for kind, digest in digests.items() if digest}
        self.progress = progress or (lambda done, total: None)
        self.part = path.with_name(f".{path.name}.part")
        self.version_file = path.with_name(f".{path.name}.part.json")

    def is_done(self) -> bool:
        """Whether the file is in place; one with a wrong checksum does not count and will be replaced."""
        return self.path.is_file() and not self.wrong_digest(self.path)

    def wrong_digest(self, path: Path) -> str | None:
        for kind, wanted in self.digests.items():
            found = file_digest(path, kind)
            if found != wanted:
                return f"its {kind} is {found}, not {wanted}"
        return None

    def have(self) -> int:
        return self.part.stat().st_size if self.part.is_file() else 0

    def version(self) -> _Version | None:
        """Version that the part belongs to, as noted when it was begun."""
        try:
            version = _Version(**json.loads(self.version_file.read_text("utf-8")))
        except (OSError, ValueError, TypeError):
            return None
        return version if version.url == self.url else None

    def begin(self, version: _Version) -> None:
        self.drop()
        self.version_file.write_text(json.dumps(asdict(version)), "utf-8")

    def drop(self) -> None:
        for file in (self.part, self.version_file):
            file.unlink(missing_ok=True)

    def finish(self) -> None:
        """Verify the part and put it in place."""
        wrong = self.wrong_digest(self.part)
        if wrong:
            self.drop()
            raise DownloadError(
                f"url: the file from {self.url} is damaged or has changed: {wrong}. It was removed. "
                f"Try again, or put the right file at {str(self.path)!r}."
            )
        self.part.replace(self.path)
        with suppress(OSError):
            self.version_file.unlink()


def _fetch_with_retries(job: _Job, retries: int, backoff: float) -> None:
    attempt = 0
    while True:
        before = job.have()
        try:
            return _fetch(job)
        except _FinalError as error:
            reason, wait = str(error), None
            attempt = retries
        except _TransientError as error:
            reason, wait = str(error), error.wait
            attempt = 0 if job.have() > before else attempt
        if attempt >= retries:
            raise DownloadError(
                f"url: {job.url} cannot be downloaded ({reason}). Try again later and it continues where it "
                f"stopped, or download it by hand and put it at {str(job.path)!r}."
            )
        time.sleep(min(wait if wait is not None else backoff * 2**attempt, _LONGEST_WAIT))
        attempt += 1


def _fetch(job: _Job) -> None:
    """Fetch what is missing of the part; returns when the part is whole."""
    have, version = job.have(), job.version()
    if version is not None and version.size == have:
        return
    # Without a validator nothing but a checksum would notice that the file has changed in between.
    if have and (version is None or not (version.validator or job.digests)):
        have = 0
    headers = {"User-Agent": "unseen", "Accept-Encoding": "identity"}
    if have and version:
        headers["Range"] = f"bytes={have}-"
        if version.validator:
            headers["If-Range"] = version.validator
    try:
        request = urllib.request.Request(job.url, headers=headers)
        with urllib.request.urlopen(request, timeout=job.timeout) as response:
            _receive(job, response, have, version)
    except urllib.error.HTTPError as error:
        _handle_status(job, error, have)
    except urllib.error.URLError as error:
        raise _network_error(error.reason) from error
    except (http.client.HTTPException, TimeoutError, ConnectionError, ssl.SSLError) as error:
        raise _TransientError(f"{type(error).__name__}: {error}") from error


def _network_error(reason: Any) -> Exception:
    """A name that does not resolve or a refused certificate stays so; a lost connection may come back."""
    text = f"the host cannot be reached: {reason}"
    if isinstance(reason, socket.gaierror) or not isinstance(reason, OSError) or "CERTIFICATE" in str(reason):
        return _FinalError(text)
    return _TransientError(text)


def _handle_status(job: _Job, error: urllib.error.HTTPError, have: int) -> None:
    if error.code == 416 and have:
        # The server has nothing after the part: it is whole, or the file has changed.
        if error.headers.get("Content-Range", "").rpartition("/")[2] == str(have) and job.version():
            return
        job.drop()
        raise _TransientError("the file has changed on the server", wait=0.0)
    reason = f"the server answered {error.code} {error.reason}"
    if error.code in _TRANSIENT_STATUS:
        raise _TransientError(reason, wait=_retry_after(error.headers.get("Retry-After")))
    raise _FinalError(reason)


def _retry_after(value: str | None) -> float | None:
    """Seconds that a server asks to wait, given as a number or as a date."""
    if value is None:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return None


def _receive(job: _Job, response: http.client.HTTPResponse, have: int, version: _Version | None) -> None:
    length = response.headers.get("Content-Length")
    if response.status == 206 and version is not None:
        total = _resumed_total(job, response, have, version)
    else:
        have, total = 0, int(length) if length is not None else None
        job.begin(_Version(job.url, response.headers.get("ETag"), response.headers.get("Last-Modified"), total))
    _check_room(job.part.parent, total, have)
    with job.part.open("ab") as part:
        job.progress(have, total)
        while block := response.read(_BLOCK):
            part.write(block)
            have += len(block)
            job.progress(have, total)
    if total is not None and have < total:
        raise _TransientError(f"the connection was lost after {have} of {total} bytes")


def _resumed_total(job: _Job, response: http.client.HTTPResponse, have: int, version: _Version) -> int | None:
    """Size of the whole file, if the answer continues the part; otherwise the part is of no use."""
    unit, _, span = response.headers.get("Content-Range", "").partition(" ")
    where, _, total = span.partition("/")
    size = int(total) if total.isdigit() else None
    same = size is None or version.size is None or size == version.size
    if unit != "bytes" or where.partition("-")[0] != str(have) or not same:
        job.drop()
        raise _TransientError("the file has changed on the server", wait=0.0)
    return size if size is not None else version.size


def _check_room(directory: Path, total: int | None, have: int) -> None:
    free = shutil.disk_usage(directory).free
    if total is not None and total - have > free:
        raise _FinalError(f"it needs {total - have} more bytes, and {str(directory)!r} has room for {free}")


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Call ``write`` with a temporary name beside ``path`` and rename on success: whole file or none."""
    temporary = path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(temporary)
        temporary.replace(path)
    except OSError as error:
        raise OSError(
            f"path: {str(path)!r} cannot be written ({error}). Pass a file in a directory you may write to."
        ) from error
    finally:
        with suppress(OSError):  # already renamed, or never written
            temporary.unlink()


VARIABLE = "UNSEEN_CACHE"


def cache_dir(*parts: str, create: bool = True) -> Path:
    """Directory for files that can be made again.

    The environment variable ``UNSEEN_CACHE`` names it; without it, it is ``$XDG_CACHE_HOME/unseen``, and
    without that ``~/.cache/unseen``. It may be deleted at any time.

    Parameters
    ----------
    *parts : str
        Sub-directory, if any.
    create : bool, default=True
        Make the directory and check that files can be written to it. False: only name it.

    Returns
    -------
    pathlib.Path
        An absolute path.

    Raises
    ------
    OSError
        If the directory cannot be made or written to.
    """
    path = _root().joinpath(*parts)
    if create:
        _make_writable(path)
    return path


def _root() -> Path:
    named = os.environ.get(VARIABLE, "")
    if named:
        return Path(named).expanduser().absolute()
    # The XDG specification tells programs to ignore a relative path.
    xdg = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (xdg if xdg.is_absolute() else Path("~/.cache").expanduser().absolute()) / "unseen"


def _make_writable(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
        # Asking the file system is the only sure test: permission bits do not tell of read-only mounts.
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise OSError(
            f"cache: the directory {str(path)!r} cannot be written ({error}). "
            f"Set {VARIABLE} to a directory you may write to."
        ) from error


_SECONDS_BETWEEN_TRIES = 0.05


@contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold the lock file ``path`` for the duration of a block.

    Others wait, or, without ``wait``, get a BlockingIOError.
    """
    descriptor = _acquire(path, wait)
    try:
        yield
    finally:
        # Removed while still held: whoever waits for this file sees that it is gone and opens the next one.
        with suppress(OSError):
            path.unlink()
        os.close(descriptor)


def _acquire(path: Path, wait: bool) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _take(descriptor)
            if _is_current(descriptor, path):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            if not wait:
                raise
            time.sleep(_SECONDS_BETWEEN_TRIES)
        except BaseException:
            os.close(descriptor)
            raise
        else:
            os.close(descriptor)


def _is_current(descriptor: int, path: Path) -> bool:
    """Whether the file that was locked is still the one that others will find."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


if sys.platform == "win32":
    import msvcrt

    def _take(descriptor: int) -> None:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError as error:
            raise BlockingIOError(str(error)) from error

else:
    import fcntl

    def _take(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def guess_delimiter(line: str) -> str:
    """The first comma, tab or semicolon of a line that is not in quotation marks; a comma if there is none."""
    found = re.search(r"[,\t;]", re.sub(r'"[^"]*"', "", line))
    return found[0] if found else ","
