"""What does a pass of the row solver cost, against the two matrix products that it cannot avoid?

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.epoch_floor

The floor is ``X V`` and ``X' Z`` in the same dtype, on one thread, rows in the order of memory; a pass visits the
rows in a fresh random order. Processor time of the thread, so that other programs weigh little.
"""

from __future__ import annotations

import time

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks._timing import arguments, by_turns, learnable, show, write_json
from unseen.solvers.dual import Ascent, LabelKernel, SparseDuals, TrainingImages, kernel_factor
from unseen.solvers.rows import Rows, row_scale

SHAPES = ((5011, 4096, 10, 10), (20_000, 2048, 100, 50))  # images, features, seen labels, rank


def measure(shape, beta: float, rounds: int):
    X, T, K = learnable(*shape)
    images, rng = TrainingImages(Rows(X, row_scale(X, True)), T), np.random.default_rng(0)
    problems = images.row_problems(LabelKernel(kernel_factor(K)), beta)
    V = np.zeros((shape[1], problems.A.shape[1]), dtype=X.dtype)
    ascent = Ascent(images.rows, problems, SparseDuals(*T.shape))
    ascent.visit_all(V, rng, 1e-3)  # the first pass, from nothing, is unlike the others

    def floor():
        return X.T @ (X @ V)

    seconds = by_turns(
        {"products": floor, "pass": lambda: ascent.visit_all(V, rng, 1e-3)}, rounds, clock=time.thread_time
    )
    labels = dict(zip(("images", "features", "labels", "rank"), shape, strict=True))
    return {**labels, **seconds, "ratio": seconds["pass"] / seconds["products"]}


def main() -> None:
    parser = arguments(__doc__, "epoch_floor")
    parser.add_argument("--beta", type=float, default=1.0)
    args = parser.parse_args()
    with threadpool_limits(1):
        rows = [measure(shape, args.beta, args.rounds) for shape in SHAPES]
    show("seconds of one pass and of its two products", rows)
    write_json(args.json, rows)


if __name__ == "__main__":
    main()
