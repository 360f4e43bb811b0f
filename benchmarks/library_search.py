"""How long does a search take in a large library, against the bare product on the same stored matrix?

    python -m benchmarks.library_search [--photos 100000 1000000] [--words 1 3] [--classes] [--memory 500MB]

Libraries of generated features (1,280 columns, eight bits) are written to a temporary folder, 2.5 GB per million
photos, and searched in a process of their own: a linear query with p, and the paths of the best 20 photos. Rivals:
the product alone, by the library's kernel on the mapped codes; and numpy's float32 product, on as many rows as fit
into 1 GB. The packaged model is asked a new word each time. Seconds are medians of runs in turns, memory is the
peak of the process before numpy's matrix is made. The first search, which maps the files and loads the compiled
kernel, is listed apart. With ``--classes`` the query also needs the scores of 1,000 classes, as the packaged model
does. With ``--memory``, the library is also searched by two workers of a Dask cluster with this limit each;
the peak of the larger one is shown.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks._timing import arguments, by_turns, show, write_json
from unseen import PhotoLibrary, PhotoTagger
from unseen.labels.names import everyday_labels
from unseen.photos.query import Expression
from unseen.photos.storage import DATABASE, connect, decode_rows
from unseen.photos.stored_scores import Evidence, StoredScores

BLOCK = 20_000


class Words:
    """A query of words with random weights; with classes, in the form of the packaged model."""

    def __init__(self, library: PhotoLibrary, n_words: int, *, classes: bool) -> None:
        rng, n_classes = np.random.default_rng(1), library.settings["n_classes"]
        weights = rng.normal(size=(library.settings["n_features"], n_words)).astype(np.float32)
        affinities = rng.random((n_classes, n_words)).astype(np.float32) ** 6
        evidence = Evidence(affinities, np.ones(n_words), 3.0, 3) if classes else None
        self.form = StoredScores(weights, np.zeros(n_words), unit=True, evidence=evidence)
        self.needs_classes = classes

    def columns(self, features, classes):
        """Scores and probabilities of a block of photos."""
        scores = self.form.of_values(features, classes)
        return scores, 1.0 / (1.0 + np.exp(-scores))


def write_library(folder: Path, n_photos: int) -> None:
    """Make a library of generated photos: sparse, non-negative features, one file per photo, a date for each."""
    library = PhotoLibrary.open(folder, create=True)
    rng = np.random.default_rng(0)
    db = connect(folder / DATABASE, write=True)
    db.execute("BEGIN")
    db.execute("INSERT INTO roots (id, path) VALUES (1, '/photos')")
    with (folder / "features.1.bin").open("wb") as features, (folder / "classes.1.bin").open("wb") as classes:
        for start in range(0, n_photos, BLOCK):
            n = min(BLOCK, n_photos - start)
            features.write(generated(rng, n, library.settings["n_features"]))
            classes.write(generated(rng, n, library.settings["n_classes"]))
            numbers = range(start, start + n)
            images = (
                (i, i.to_bytes(32, "big"), i, 4000, 3000, f"{2000 + i % 25}-05-01 12:00:00") for i in numbers
            )
            db.executemany("INSERT INTO images VALUES (?, ?, ?, ?, ?, ?, NULL)", images)
            files = ((f"{i // 1000:04d}/{i:07d}.jpg", i) for i in numbers)
            db.executemany("INSERT INTO files (root, path, size, changed, image) VALUES (1, ?, 1, 1, ?)", files)
    db.execute("UPDATE settings SET value = ? WHERE key = 'n_rows'", (n_photos,))
    db.execute("COMMIT")
    db.close()


def generated(rng: np.random.Generator, n: int, n_columns: int) -> bytes:
    """Stored rows, a quarter of them zeros."""
    codes = np.maximum(rng.integers(-90, 256, (n, n_columns), dtype=np.int16), 0).astype(np.uint8)
    steps = rng.uniform(0.005, 0.02, (n, 1)).astype(np.float32)
    lengths = steps * np.sqrt(np.einsum("ij,ij->i", codes, codes, dtype=np.float32))[:, None]
    head = np.hstack([steps, np.zeros_like(steps), lengths]).astype("<f4")
    return np.hstack([head.view(np.uint8), codes]).tobytes()


def measure(folder: Path, n_words: int, rounds: int, classes: bool) -> dict[str, float]:
    """Times and memory of this process."""
    library = PhotoLibrary.open(folder)
    words = Words(library, n_words, classes=classes)
    expression = Expression(words, (0,), tuple(range(1, n_words)))

    def search() -> None:
        assert len(library.find(expression, top=20)) == 20

    def filtered() -> None:
        assert len(library.find(expression, top=20, since="2010", until="2012")) == 20

    start = time.perf_counter()
    search()
    first = time.perf_counter() - start
    model, asked = PhotoTagger.load(), iter(everyday_labels())
    library.search("boat", model=model)  # loads the text encoder
    packaged = by_turns({"packaged": lambda: library.search(next(asked), model=model)}, rounds)["packaged"]
    with library.snapshot() as now:
        seconds = by_turns(
            {
                "search": search,
                "dates": filtered,
                "kernel": lambda: words.form.of_rows(now.features, now.classes),
            },
            rounds,
        )
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        some = decode_rows(now.features[: 2**30 // (4 * now.features.shape[1])])
        blas = (
            by_turns({"numpy": lambda: some @ words.form.weights}, rounds)["numpy"] * len(now.features) / len(some)
        )
        n_photos = len(now.features)
    return {"photos": n_photos, "words": n_words, "first s": first, "search s": seconds["search"],
            "packaged s": packaged, "with dates s": seconds["dates"], "kernel s": seconds["kernel"],
            "numpy float32 s": blas, "search / kernel": seconds["search"] / seconds["kernel"],
            "search / numpy": seconds["search"] / blas, "peak GB": peak}  # fmt: skip


def measure_cluster(folder: Path, n_words: int, rounds: int, limit: str) -> dict[str, float]:
    """Seconds of a search on two workers, and the peak of their memory; the answer is that of one process."""
    from distributed import Client

    library = PhotoLibrary.open(folder)
    expression = Expression(Words(library, n_words, classes=False), (0,), tuple(range(1, n_words)))
    with Client(n_workers=2, threads_per_worker=1, memory_limit=limit, dashboard_address=":0") as client:
        same = library.find(expression, engine="dask") == library.find(expression)
        seconds = by_turns({"dask": lambda: library.find(expression, engine="dask")}, rounds)["dask"]
        peaks = client.run(lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6)
    size = (folder / "features.1.bin").stat().st_size / 1e9
    return {"features GB": size, "words": n_words, "limit of a worker": limit, "its peak GB": max(peaks.values()),
            "search s": seconds, "same answer": same}  # fmt: skip


def main() -> None:
    parser = arguments(__doc__, "library_search")
    parser.add_argument("--photos", type=int, nargs="+", default=[100_000])
    parser.add_argument("--words", type=int, nargs="+", default=[1, 3])
    parser.add_argument("--classes", action="store_true", help="a query that needs the classes too")
    parser.add_argument("--folder", type=Path, help="for the temporary files")
    parser.add_argument("--measure", type=Path, help="a library to search in this process")
    parser.add_argument("--memory", help="limit of each of two Dask workers, such as 500MB")
    args = parser.parse_args()
    if args.measure is not None:
        print(json.dumps(measure(args.measure, args.words[0], args.rounds, args.classes)))
        return
    rows, clusters = [], []
    for n_photos in args.photos:
        with tempfile.TemporaryDirectory(dir=args.folder) as name:
            write_library(Path(name) / "library", n_photos)
            for n_words in args.words:
                command = [sys.executable, "-m", "benchmarks.library_search", "--measure", f"{name}/library"]
                options = ["--words", str(n_words), "--rounds", str(args.rounds), *["--classes"] * args.classes]
                done = subprocess.run([*command, *options], stdout=subprocess.PIPE, check=True, env=os.environ)
                rows.append(json.loads(done.stdout))
            if args.memory is not None:
                found = measure_cluster(Path(name) / "library", args.words[0], args.rounds, args.memory)
                clusters.append({"photos": n_photos, **found})
    show("search in a library of generated photos", rows)
    if clusters:
        show("search by two workers", clusters)
    write_json(args.json, [*rows, *clusters])


if __name__ == "__main__":
    main()
