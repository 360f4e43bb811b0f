"""Named pipes: who reads one waits for ever, unless someone writes to it."""

import os
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest

needs_pipes = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")


@contextmanager
def unopened(path):
    """Make a named pipe that nobody may open while the block lasts; who does finds it empty."""
    os.mkfifo(path)
    opened, is_over = [], Event()

    def write():
        while not is_over.is_set():
            with Path(path).open("wb"):
                opened.append(is_over.is_set())

    thread = Thread(target=write)
    thread.start()
    try:
        yield path
    finally:
        is_over.set()
        end = os.open(path, os.O_RDWR)  # lets the other end go
        thread.join()
        os.close(end)
    assert opened == [True]
