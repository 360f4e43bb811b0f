"""Kill `unseen tags write` and `undo` with SIGKILL at random moments, continue, compare with a run in one piece.

    python -m tests.photos.killed 50

A moment is a line of Python: every second time one that writes a file, else any in our modules, or any time.
"""

import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from contextlib import redirect_stdout
from pathlib import Path

from tests.images.pictures import BlockMeans
from tests.photos.sidecars import SIDECARS

from unseen.cli.tags import undo, write
from unseen.photos import tags
from unseen.photos.keywords import Keyword
from unseen.photos.library import PhotoLibrary
from unseen.photos.xmp import open_packet

TRACED = ("files.py", "storage.py", "tags.py", "xmp.py", "keywords.py", "pathlib.py")
WRITING = ("write_atomically", "write", "write_bytes", "replace", "unlink")
TAGS = ["dog", Keyword("cat", ("animal",))]


def make_photos(folder, n=30):
    """Photos without content, the first with sidecars of other programs."""
    folder.mkdir(parents=True)
    for photo, name, content, _ in SIDECARS:
        (folder / photo).touch()
        (folder / name).write_bytes(content)
    for i in range(n - len(SIDECARS)):
        (folder / f"{i:03}.jpg").touch()
    return sorted(path for path in folder.iterdir() if path.suffix.lower() != ".xmp")


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def run(photos, library, action):
    with PhotoLibrary.open(library, create=True, backbone=BlockMeans()).journal() as journal, redirect_stdout(None):
        n_failed = write([(photo, TAGS) for photo in photos], journal) if action == "write" else undo(journal)
    assert not n_failed


def killed(photos, library, action, line=None, delay=None):
    """Run an action in a child process that is killed at its n-th line or after a delay.

    If it was not killed, return how many lines it ran, and which of these write files.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        count, lines = 0, []
        open_packet.cache_clear()  # as in a new process

        def trace(frame, event, _):
            nonlocal count
            if not frame.f_code.co_filename.endswith(TRACED):
                return None
            count += event == "line"
            if event == "line" and frame.f_code.co_name in WRITING:
                lines.append(count)
            if count == line:
                os.kill(os.getpid(), signal.SIGKILL)
            return trace

        if delay is None:
            sys.settrace(trace)
        run(photos, library, action)
        sys.settrace(None)
        with os.fdopen(writing, "w") as pipe:
            json.dump([count, lines], pipe)
        os._exit(0)
    if delay is not None:
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        printed = pipe.read()
    _, status = os.waitpid(child, 0)
    assert delay is not None or os.WIFSIGNALED(status) == (line is not None), status
    return json.loads(printed or "null")


def check(folder, n_kills, timed=False):
    tags._BATCH = 8  # so that there are several
    rng = random.Random(0)
    photos, start = make_photos(folder / "whole"), time.perf_counter()
    states = [content(folder / "whole")]
    for action in ("write", "undo"):
        run(photos, folder / "whole.library", action)
        states.append(content(folder / "whole"))
    seconds = (time.perf_counter() - start) / 2
    assert states[2].keys() == states[0].keys() < states[1].keys()
    photos = make_photos(folder / "lines")
    lines = {action: killed(photos, folder / "lines.library", action) for action in ("write", "undo")}
    for i in range(n_kills):
        place = folder / str(i)
        photos = make_photos(place)
        for action, before, after in (("write", *states[:2]), ("undo", *states[1:])):
            n_lines, writing = lines[action]
            line = rng.choice(writing) if i % 2 else rng.randrange(1, n_lines)
            moment = {"delay": rng.random() * seconds} if timed and i % 4 == 2 else {"line": line}
            killed(photos, place.with_suffix(".library"), action, **moment)
            found = content(place)
            for name in {*found, *before}:  # each file is the old or the new one, never half
                is_part = name.endswith(".part")
                assert is_part or found.get(name) in (before.get(name), after.get(name)), (name, action, moment)
            run(photos, place.with_suffix(".library"), action)
            assert content(place) == after, (action, moment)
        shutil.rmtree(place)
        shutil.rmtree(place.with_suffix(".library"))
    print(f"{n_kills} kills of write and of undo: every run was completed, no file was lost or half written")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        check(Path(name), int(sys.argv[1]), timed=True)
