"""Downloads that survive a lost connection: resumed, verified, and renamed into place only when whole."""

from __future__ import annotations

import hashlib
import http.client
import json
import shutil
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

from unseen._locks import locked

__all__ = ["DownloadError", "Progress", "download", "file_digest"]

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
