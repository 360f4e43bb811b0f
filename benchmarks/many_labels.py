"""What do ten thousand labels cost, seen or unseen?

    python -m benchmarks.many_labels

Random label vectors of 300 dimensions and random features; each fit runs in a process of its own, so that its
peak memory is its own. The first row is the same fit with few labels: what Python and its libraries need.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time

import numpy as np

from benchmarks._timing import arguments, show, write_json
from unseen import TAEP

CASES = ((50, 10, 10), (50, 10, 10_000), (50, 10_000, 10), (50, 10_000, 10_000))  # images, seen, unseen labels


def measure(n_images: int, n_seen: int, n_unseen: int) -> dict[str, float]:
    rng = np.random.default_rng(0)
    X = np.maximum(rng.standard_normal((n_images, 512)), 0.0).astype(np.float32)
    Y = np.zeros((n_images, n_seen), dtype=np.int8)
    Y[np.arange(n_images)[:, None], rng.integers(n_seen, size=(n_images, 3))] = 1
    seen, unseen = rng.standard_normal((n_seen, 300)), rng.standard_normal((n_unseen, 300))
    TAEP(tol=0.5).fit(X[:, :8], Y[:, :10] | np.eye(n_images, 10, dtype=np.int8), seen[:10])  # compiles
    start = time.perf_counter()
    model = TAEP(rank=50, beta=1.0).fit(X, Y, seen, unseen)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {
        "images": n_images, "seen": n_seen, "unseen": n_unseen, "iterations": model.n_iter_,
        "passes": model.n_epochs_, "gap": model.relative_gap_, "seconds": seconds, "peak GB": peak,
    }  # fmt: skip


def main() -> None:
    parser = arguments(__doc__, "many_labels")
    parser.add_argument("--case", type=int, nargs=3, help="one fit, in this process")
    args = parser.parse_args()
    if args.case:
        print(json.dumps(measure(*args.case)))
        return
    rows = []
    for case in CASES:
        command = [sys.executable, "-m", "benchmarks.many_labels", "--case", *map(str, case)]
        rows.append(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))
    show("fits with many labels", rows)
    extra = max(row["peak GB"] for row in rows) - rows[0]["peak GB"]
    print(
        f"10,000 labels add at most {extra:.2f} GB; the slowest fit takes {max(r['seconds'] for r in rows):.1f} s"
    )
    write_json(args.json, rows)


if __name__ == "__main__":
    main()
