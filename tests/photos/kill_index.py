"""Index photos, be killed at a random moment, index again: ``python -m tests.photos.kill_index FOLDER TRIALS``.

A trial adds, moves, changes and deletes photos of a library, and kills the process that indexes them at one of the
calls that its main thread makes. The run that follows must end with what an undisturbed run has.
"""

import os
import random
import shutil
import signal
import sys
from pathlib import Path

from tests.images.pictures import BlockMeans, fill, picture

from unseen.photos import index
from unseen.photos.library import PhotoLibrary
from unseen.photos.storage import decode_rows

index._BLOCK, index._FEW = 4, 2  # several commits, and new files for the rows


def run(folder, kill_at=None):
    """Index in a process of its own; returns the signal that ended it and the number of calls."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        calls = 0

        def count(frame, event, argument):
            nonlocal calls
            calls += 1
            if calls == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

        library = PhotoLibrary.open(folder / "library", create=True, backbone=BlockMeans())
        sys.setprofile(count)
        library.index([folder / "photos"], backbone=BlockMeans(), jobs=1)
        sys.setprofile(None)
        os.write(writing, str(calls).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        calls = int(pipe.read() or 0)
    return os.WTERMSIG(os.waitpid(child, 0)[1]), calls


def content(folder):
    """Everything that a reader sees."""
    library = PhotoLibrary.open(folder / "library")
    found = {}
    with library.snapshot() as now:
        assert now.db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        rows = dict(now.db.execute("SELECT lower(hex(digest)), row FROM images"))
        assert len(rows) + len(now.dead) == len(now.features) == len(now.classes)
        for photo in library.photos():
            row = rows[photo.digest]
            values = decode_rows(now.features[[row]]).tobytes(), decode_rows(now.classes[[row]]).tobytes()
            found[photo.path.partition("/photos/")[2]] = (*photo[1:], *values, library.thumbnail(photo))
    return found


def change(photos):
    """Add 9 photos, move 5, change 5 and delete 10 of the first 30."""
    fill(photos / "new", 9, start=100)
    (photos / "moved").mkdir()
    for i in range(5):
        (photos / f"{i:04d}.jpg").rename(photos / "moved" / f"{i}.jpg")
        picture(50 + i).save(photos / f"{i + 5:04d}.jpg")
    for i in range(10, 20):
        (photos / f"{i:04d}.jpg").unlink()


def main(folder, trials):
    expected, n_calls = {}, {}
    for phase in ("first", "second"):
        place = folder / phase
        if phase == "second":
            shutil.copytree(folder / "first", place)
            change(place / "photos")
        else:
            fill(place / "photos", 30)
        shutil.copytree(place, folder / f"before {phase}")
        n_calls[phase] = run(place)[1]
        expected[phase] = content(place)
    for trial in range(trials):
        phase = ("first", "second")[trial % 2]
        place = folder / f"trial {trial}"
        shutil.copytree(folder / f"before {phase}", place)
        moment = random.randint(1, n_calls[phase])
        killed, _ = run(place, moment)
        content(place)  # readers do not wait for the next run
        ended, _ = run(place)
        same = content(place) == expected[phase]
        print(f"{phase} run, killed at call {moment} of {n_calls[phase]}: {'complete' if same else 'DIFFERENT'}")
        assert (killed, ended, same) == (signal.SIGKILL, 0, True)
        shutil.rmtree(place)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
