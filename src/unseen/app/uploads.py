"""Uploaded photos are decoded by processes of their own, with limits on memory and time."""

import asyncio
import hashlib
import io
import multiprocessing
import os
import tempfile
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unseen.images.features import REDUCED
from unseen.images.preprocessing import Preprocessing, prepare, shorter_side
from unseen.images.reading import IMAGE_SUFFIXES, UnreadableImage, open_image, quiet_pillow

MOST_MEMORY = 3 * 2**30  # bytes of address space of a process
MOST_SECONDS = 20.0  # for one photo
THUMBNAIL = 320  # pixels


class Decoded(NamedTuple):
    """A photo as the backbone takes it, its size, and a small copy; or why it cannot be read."""

    digest: str
    pixels: NDArray[np.float32] | None = None
    size: tuple[int, int] = (0, 0)
    thumbnail: bytes = b""
    problem: str | None = None


class TooSlow(Exception):  # noqa: N818 (what is wrong with the photo)
    """A photo took longer than allowed."""


class Decoder:
    """Decodes photos in processes that end, and are replaced, if a photo takes too much memory or time."""

    def __init__(self, how: Preprocessing, n_processes: int | None = None) -> None:
        self._how, self._n = how, n_processes or os.cpu_count() or 1
        self._pool: ProcessPoolExecutor | None = None

    async def __call__(self, content: bytes, suffix: str) -> Decoded:
        """Decode the content of a file with such a name."""
        loop, problem = asyncio.get_running_loop(), "it needs too much memory, or is damaged"
        if self._pool is None:
            spawn = multiprocessing.get_context("spawn")  # a fork of threads may hang
            self._pool = ProcessPoolExecutor(self._n, spawn, initializer=limit_memory)
        pool = self._pool
        try:
            work = loop.run_in_executor(pool, decode, content, suffix, self._how)
            return await asyncio.wait_for(work, MOST_SECONDS)
        except TimeoutError:
            self._replace(pool)
            raise TooSlow from None
        except (BrokenProcessPool, MemoryError):
            self._replace(pool)
            return Decoded(hashlib.sha256(content).hexdigest(), problem=problem)

    def _replace(self, pool: ProcessPoolExecutor) -> None:
        if self._pool is pool:
            self._pool = None
        for process in list((pool._processes or {}).values()):
            process.kill()
        pool.shutdown(wait=False, cancel_futures=True)

    def close(self) -> None:
        """End the processes."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)


def limit_memory() -> None:
    """Let this process have no more memory than a large photo needs; Ctrl-C is for the server alone."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(ImportError, ValueError, OSError):  # Windows; a lower limit
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))


def decode(content: bytes, suffix: str, how: Preprocessing) -> Decoded:
    """Decode a photo by way of a file with a name of our own."""
    digest = hashlib.sha256(content).hexdigest()
    suffix = suffix.lower() if suffix.lower() in IMAGE_SUFFIXES else ".jpg"
    with tempfile.TemporaryDirectory(prefix="unseen-") as folder:
        path = Path(folder) / f"photo{suffix}"
        path.write_bytes(content)
        try:
            with quiet_pillow(), open_image(path, max(REDUCED * shorter_side(how), 2 * THUMBNAIL)) as opened:
                pixels, small, jpeg = prepare(opened.pixels, how), opened.pixels.copy(), io.BytesIO()
                small.thumbnail((THUMBNAIL, THUMBNAIL))
                small.save(jpeg, "JPEG", quality=85)
                return Decoded(digest, pixels, opened.size, jpeg.getvalue())
        except UnreadableImage as error:
            return Decoded(digest, problem=error.reason)
