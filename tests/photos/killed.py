"""Kill `write_tags` and `undo_tags` with SIGKILL at random moments, continue, and compare with a run in one piece.

    python -m tests.photos.killed 50

A moment is a line of Python in the modules that write, or any time in the run: both are drawn.
"""

import os
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
from pathlib import Path

from tests.photos.sidecars import SIDECARS

from unseen.photos import tags
from unseen.photos.keywords import Keyword
from unseen.photos.tags import Journal, undo_tags, write_tags

TRACED = ("files.py", "tags.py", "xmp.py", "keywords.py")
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


def run(photos, database, action):
    connection = sqlite3.connect(database)
    journal = Journal(connection)
    done = write_tags([(photo, TAGS) for photo in photos], journal) if action == "write" else undo_tags(journal)
    problems = [outcome.problem for outcome in done if outcome.problem]
    connection.close()
    assert not problems, problems


def killed(photos, database, action, line=None, delay=None):
    """Run an action in a child process that is killed at its n-th line or after a delay; how many lines it ran."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        count = 0

        def trace(frame, event, _):
            nonlocal count
            if not frame.f_code.co_filename.endswith(TRACED):
                return None
            count += event == "line"
            if count == line:
                os.kill(os.getpid(), signal.SIGKILL)
            return trace

        if delay is None:
            sys.settrace(trace)
        run(photos, database, action)
        sys.settrace(None)
        os.write(writing, str(count).encode())
        os._exit(0)
    if delay is not None:
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        printed = pipe.read()
    assert delay is not None or os.WIFSIGNALED(status) == (line is not None), status
    return int(printed or 0)


def check(folder, n_kills, seed=0):
    tags._BATCH = 8  # so that there are several
    rng = random.Random(seed)
    photos, start = make_photos(folder / "whole"), time.perf_counter()
    states = [content(folder / "whole")]
    for action in ("write", "undo"):
        run(photos, folder / "whole.db", action)
        states.append(content(folder / "whole"))
    seconds = (time.perf_counter() - start) / 2
    assert states[2].keys() == states[0].keys() < states[1].keys()
    photos = make_photos(folder / "lines")
    n_lines = {action: killed(photos, folder / "lines.db", action) for action in ("write", "undo")}
    for i in range(n_kills):
        place = folder / str(i)
        photos = make_photos(place)
        for action, before, after in (("write", *states[:2]), ("undo", *states[1:])):
            by_line = {"line": rng.randrange(1, n_lines[action])}
            moment = by_line if i % 2 == 0 else {"delay": rng.random() * seconds}
            killed(photos, place.with_suffix(".db"), action, **moment)
            found = content(place)
            for name in {*found, *before}:  # each file is the old or the new one, never half
                is_part = name.endswith(".part")
                assert is_part or found.get(name) in (before.get(name), after.get(name)), (name, action, moment)
            run(photos, place.with_suffix(".db"), action)
            assert content(place) == after, (action, moment)
        shutil.rmtree(place)
    print(f"{n_kills} kills of write and of undo: every run was completed, no file was lost or half written")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        check(Path(name), int(sys.argv[1]))
