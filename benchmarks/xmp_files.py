"""How many photos per second get their tags, against writing the same bytes atomically and nothing else?

python -m benchmarks.xmp_files
"""

from __future__ import annotations

import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks._timing import arguments, show, write_json
from benchmarks.photos import write_photos
from unseen.files import write_atomically
from unseen.photos.keywords import Keyword
from unseen.photos.tags import Journal, undo_tags, write_tags
from unseen.photos.xmp import Packet

TAGS = ["boat", Keyword("cat", ("animal",)), Keyword("golden retriever", ("animal", "dog"))]
EDITS = "".join(f'<rdf:li d:operation="step{i}" d:params="{"0a" * 100}"/>' for i in range(30))
OTHERS = Packet().content.replace(  # as a raw developer leaves it: 30 steps of editing
    b"  </rdf:Description>",
    f'<d:history xmlns:d="d"><rdf:Seq>{EDITS}</rdf:Seq></d:history>\n  </rdf:Description>'.encode(),
)


def seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def write_plainly(files: dict[Path, bytes]) -> None:
    for path, content in files.items():
        write_atomically(path, lambda part, content=content: part.write_bytes(content))


def main() -> None:
    parser = arguments(__doc__, "xmp_files")
    parser.add_argument("--photos", type=int, default=500)
    args = parser.parse_args()
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        photos = write_photos(Path(name) / "photos", args.photos)
        sidecars = [path.with_name(f"{path.name}.xmp") for path in photos]
        pairs = [(path, TAGS) for path in photos]
        journal = Journal(sqlite3.connect(Path(name) / "journal.db"))
        for number in range(args.rounds + 1):  # the first one loads modules
            for case, before in (("new", None), ("merged", OTHERS)):
                for path in sidecars if before else ():
                    path.write_bytes(before)
                made = seconds(lambda: list(write_tags(pairs, journal)))
                files = {path: path.read_bytes() for path in sidecars}
                back = seconds(lambda: list(undo_tags(journal)))
                left = [path.read_bytes() if path.exists() else None for path in sidecars]
                assert left == [before] * len(photos), "undo is not exact"
                plain = seconds(partial(write_plainly, files))
                for path in sidecars:
                    path.unlink()
                for what, value in ((case, made), (f"{case}, undone", back), (f"{case}, plain writes", plain)):
                    found.setdefault(what, []).extend([value] if number else [])
    medians = {what: statistics.median(values) for what, values in found.items()}
    rows = [
        {
            "sidecars": what,
            "photos/s": args.photos / value,
            "seconds / plain": value / medians[f"{what.partition(',')[0]}, plain writes"],
        }
        for what, value in medians.items()
    ]
    show(f"{args.photos} photos, three tags each, median of {args.rounds}", rows)
    write_json(args.json, rows)


if __name__ == "__main__":
    main()
