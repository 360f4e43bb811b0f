"""Does a fit of the size of NUS-WIDE end within minutes, in little memory, and how does its cost grow?

    python -m benchmarks.scale --data DIR [--images 161789] [--memory low] [--n-jobs 2]

The labels are the 925 seen and 81 unseen ones of NUS-WIDE with their GloVe vectors (``nuswide_glove6B_300d.npz``
in the folder); features and annotations are generated, about 2.4 labels per image, and kept as float32 in a file.
With ``--growth`` smaller problems are fitted too, for the exponents of the cost of a pass.
"""

from __future__ import annotations

import resource
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks._timing import arguments, show, write_json
from unseen import TAEP
from unseen.solvers.rows import CHUNK, advise

LABELS_AN_IMAGE = 2.4


def read_vectors(path: Path):
    """Vectors of the 1,000 tags but for those that are concepts (seen), and of the 81 concepts (unseen)."""
    with np.load(path, allow_pickle=False) as archive:
        concepts = set(archive["nus81_names"])
        is_seen = np.array([name not in concepts for name in archive["nus1k_names"]])
        seen, unseen = archive["nus1k"][is_seen].astype(float), archive["nus81"].astype(float)
    known = seen.any(axis=1)
    return seen[known], unseen


def generate(folder: Path, n: int, d: int, seen, seed: int = 0):
    """Features on disk and annotations: labels of a Zipf law, and features as in `benchmarks._timing.learnable`.

    The pattern of a label follows from its vector, so that like labels look alike.
    """
    rng = np.random.default_rng(seed)
    C = (seen - seen.mean(axis=0)).astype(np.float32)
    C /= np.linalg.norm(C, axis=1, keepdims=True)
    patterns = C @ rng.standard_normal((C.shape[1], d), dtype=np.float32)
    clutter = rng.standard_normal((60, d), dtype=np.float32) / np.float32(np.sqrt(60))
    frequency = 1.0 / (np.arange(len(seen)) + 10.0)
    frequency /= frequency.sum()
    path = folder / f"X_{n}_{d}.npy"
    X = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n, d))
    Y = np.zeros((n, len(seen)), dtype=np.int8)
    for start in range(0, n, CHUNK):
        stop = min(start + CHUNK, n)
        shown = rng.random((stop - start, len(seen))) < (LABELS_AN_IMAGE - 1.0) * frequency
        shown[np.arange(stop - start), rng.choice(len(seen), stop - start, p=frequency)] = True
        Y[start:stop] = shown
        signal = shown.astype(np.float32) @ patterns
        signal += rng.standard_normal((stop - start, 60), dtype=np.float32) @ clutter
        signal += 0.5 * rng.standard_normal(signal.shape, dtype=np.float32) - np.float32(0.7)
        X[start:stop] = np.maximum(signal, 0.0)
        advise(X, slice(start, stop), "MADV_DONTNEED")  # written to the file: not in the peak of the fit
    X.flush()
    return path, Y


def fit(folder: Path, n: int, d: int, vectors, args):
    path, Y = generate(folder, n, d, vectors[0])
    X = np.load(path, mmap_mode="r")
    model = TAEP(rank=args.rank, beta=args.beta, tol=args.tol, memory=args.memory, n_jobs=args.n_jobs,
                 verbose=args.verbose)  # fmt: skip
    start, used = time.perf_counter(), time.process_time()
    model.fit(X, Y, *vectors)
    seconds, used = time.perf_counter() - start, time.process_time() - used
    path.unlink()
    return {
        "images": n, "features": d, "seconds": seconds, "cpu s": used, "gap": model.relative_gap_,
        "iterations": model.n_iter_, "passes": model.n_epochs_, "cpu ms a pass": 1e3 * used / model.n_epochs_,
        "duals an image": model.duals_.nnz / n, "density": model.duals_.nnz / n / len(vectors[0]),
        "peak GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
    }  # fmt: skip


def exponent(small, large, size: str) -> float:
    """Power of the size with which the processor time of a pass grows."""
    ratio = large["cpu ms a pass"] / small["cpu ms a pass"]
    return float(np.log(ratio) / np.log(large[size] / small[size]))


def main() -> None:
    parser = arguments(__doc__, "scale")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--images", type=int, default=161_789)
    parser.add_argument("--features", type=int, default=4096)
    parser.add_argument("--rank", type=int, default=50)
    parser.add_argument("--beta", type=float, default=100.0, help="as strong an image as 2.3 on VOC2007")
    parser.add_argument("--tol", type=float, default=1e-2)
    parser.add_argument("--memory", default="full", choices=("full", "low"))
    parser.add_argument("--n-jobs", type=int, default=2)
    parser.add_argument("--growth", action="store_true", help="also fit smaller ones, for the exponents")
    parser.add_argument("--verbose", type=int, default=0)
    args = parser.parse_args()
    vectors = read_vectors(args.data / "nuswide_glove6B_300d.npz")
    n, d = args.images, args.features
    sizes = [(n // 8, d), (n // 4, d), (n // 2, d // 2), (n // 2, d)] if args.growth else []
    with tempfile.TemporaryDirectory() as folder:
        rows = [fit(Path(folder), *size, vectors, args) for size in [*sizes, (n, d)]]
    show(f"rank {args.rank}, beta {args.beta:g}, gap {args.tol:g}, memory {args.memory}", rows)
    if args.growth:
        print(f"cost of a pass grows as n^{exponent(rows[0], rows[-1], 'images'):.2f} "
              f"and d^{exponent(rows[2], rows[3], 'features'):.2f}")  # fmt: skip
    write_json(args.json, rows)


if __name__ == "__main__":
    main()
