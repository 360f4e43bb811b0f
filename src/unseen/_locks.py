"""A lock between processes that the system releases even when its holder is killed."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["locked"]

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
