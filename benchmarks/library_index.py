"""How fast are photos indexed, against a bare loop over the backbone; and unchanged folders looked through again?

    python -m benchmarks.library_index [--images 300] [--files 50000]

The bare loop opens and prepares the same photos and calls the network, one thread per core, and keeps nothing. The
index also computes digests and thumbnails, and writes everything to disk. Both in turns, medians over rounds.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import joblib

from benchmarks._timing import arguments, by_turns, show, write_json
from benchmarks.photos import write_photos
from unseen import PhotoLibrary
from unseen.images.backbones import open_backbone
from unseen.images.preprocessing import prepare
from unseen.images.reading import quiet_pillow, read_image


def main() -> None:
    parser = arguments(__doc__, "library_index")
    parser.add_argument("--images", type=int, default=300, help="photos to describe")
    parser.add_argument("--files", type=int, default=50_000, help="files to look through again")
    args = parser.parse_args()
    backbone = open_backbone(n_threads=1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = write_photos(folder / "photos", args.images)

        def describe(path: Path) -> None:
            backbone.describe(prepare(read_image(path), backbone.preprocessing)[None])

        def bare() -> None:
            with quiet_pillow(), ThreadPoolExecutor(joblib.cpu_count()) as pool:
                list(pool.map(describe, paths))

        def index() -> None:
            shutil.rmtree(folder / "library", ignore_errors=True)
            library = PhotoLibrary.open(folder / "library", create=True, backbone=backbone)
            assert library.index([folder / "photos"], backbone=backbone).new == args.images

        seconds = by_turns({"bare loop": bare, "index": index}, args.rounds)
        rate = {side: args.images / value for side, value in seconds.items()}
        rows = [
            {"side": side, "images/s": rate[side], "of the bare loop": rate[side] / rate["bare loop"]}
            for side in rate
        ]
        show("photos of 500 x 375 pixels", rows)
        again = rescan(folder, paths, args.files, args.rounds)
        show("folders without changes", [again])
        write_json(args.json, [*rows, again])


def rescan(folder: Path, paths: list[Path], n_files: int, rounds: int) -> dict[str, float]:
    """Seconds of a run over many files that are known."""
    for i in range(n_files):
        place = folder / "many" / f"{i // 500:03d}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{i:06d}.jpg").hardlink_to(paths[i % len(paths)])
    library = PhotoLibrary.open(folder / "library")
    library.index([folder / "many"])  # their content is known
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        assert library.index([folder / "many"]).unchanged == n_files
        times.append(time.perf_counter() - start)
    median = sorted(times)[len(times) // 2]
    return {"files": n_files, "seconds": median, "files/s": n_files / median}


if __name__ == "__main__":
    main()
