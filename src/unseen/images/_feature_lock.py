"""One process a folder: a lock that refuses instead of waiting, and that the system releases with its holder."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["held"]


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold the lock file ``path`` for the duration of a block; raise BlockingIOError if another process does."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        _take(descriptor)
        # Its last holder may have removed the file since it was opened; then it protects nothing.
        if not path.exists() or not os.path.samestat(os.fstat(descriptor), path.stat()):
            raise BlockingIOError(f"{str(path)!r} was held by another process")
    except BaseException:
        os.close(descriptor)
        raise
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink()
        os.close(descriptor)


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
