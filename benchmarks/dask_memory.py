"""Does a fit of features that exceed the memory of each Dask worker end within it, with the same certificate?

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.dask_memory

Two processes of a LocalCluster, each with a memory limit that Dask enforces, fit a float32 X that they read from
a file. A peak is the largest resident set of a process so far: it includes Python, numba and Dask, and what it was
before the fit is given too. The local fit, on one thread, keeps X in the file.
"""

from __future__ import annotations

import resource
import tempfile
import time
from pathlib import Path

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

from benchmarks._timing import arguments, show, write_json
from benchmarks.scale import generate
from unseen import TAEP

LABELS, DIMENSIONS = 50, 25


def rows_of(path: Path, block_info=None):
    """The rows of one chunk, read by the worker that needs them."""
    start, stop = block_info[None]["array-location"][0]
    return np.array(np.load(path, mmap_mode="r")[start:stop])


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def fit(X, Y, vectors, **options):
    start = time.perf_counter()
    model = TAEP(rank=10, beta=100.0, **options).fit(X, Y, vectors)
    return model, time.perf_counter() - start


def row(name: str, model: TAEP, seconds: float, limit: float, before: float, after: float):
    return {"fit": name, "limit MB": limit, "MB before": before, "peak MB": after, "seconds": seconds,
            "passes": model.n_epochs_, "gap": model.relative_gap_, "objective": model.objective_}  # fmt: skip


def main() -> None:
    parser = arguments(__doc__, "dask_memory")
    parser.add_argument("--images", type=int, default=150_000)
    parser.add_argument("--features", type=int, default=2048)
    parser.add_argument("--chunk", type=int, default=2500, help="images per chunk of the Dask array")
    parser.add_argument("--tol", type=float, default=0.05)
    parser.add_argument("--part-size", type=int, default=12_500)
    parser.add_argument("--verbose", type=int, default=0)
    parser.add_argument("--limit", type=float, default=700.0, help="MB per worker")
    args = parser.parse_args()
    n, d = args.images, args.features
    common = {"tol": args.tol, "verbose": args.verbose}
    vectors = np.random.default_rng(0).standard_normal((LABELS, DIMENSIONS))
    options = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": int(args.limit * 1e6)}
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(**options, dashboard_address=None, local_directory=folder) as cluster,
        Client(cluster) as client,
    ):
        before = client.run(peak)
        path, Y = generate(Path(folder), n, d, vectors)
        chunks = ((*[args.chunk] * (n // args.chunk), *([n % args.chunk] if n % args.chunk else [])), d)
        X = da.map_blocks(rows_of, path, chunks=chunks, dtype=np.float32, meta=np.empty((0, 0), np.float32))
        there, seconds = fit(X, Y, vectors, part_size=args.part_size, **common)
        after = client.run(peak)
        rows = [row("2 workers", there, seconds, args.limit, max(before.values()), max(after.values()))]
        is_alive = before.keys() == after.keys()
        print(f"two workers: {rows[0]}, {'alive' if is_alive else 'KILLED'}", flush=True)
        start = peak()
        here, seconds = fit(np.load(path, mmap_mode="r"), Y, vectors, memory="low", **common)
        rows.append(row("local", here, seconds, np.inf, start, peak()))
    show(f"X: {n * d * 4 / 1e6:.0f} MB; workers {'survived' if is_alive else 'WERE KILLED'}", rows)
    print(f"objective of the workers / local: {there.objective_ / here.objective_:.4f}")
    write_json(args.json, rows)


if __name__ == "__main__":
    main()
