"""How much faster is a certified fit with two threads than with one?

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.threads

The same problem for a fixed projection to the same certified gap, by turns in one process; then whether two runs
with two threads agree in every bit.
"""

from __future__ import annotations

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks._timing import arguments, by_turns, learnable, show, write_json
from unseen.solvers.dual import LabelKernel, SparseDuals, TrainingImages, kernel_factor, solve_dual
from unseen.solvers.rows import Rows, row_scale

SHAPES = ((5011, 4096, 10, 10), (20_000, 2048, 100, 50))  # images, features, seen labels, rank


def measure(shape, beta: float, tol: float, rounds: int):
    X, T, K = learnable(*shape)
    answers = {}

    def solve(n_threads: int):
        duals = SparseDuals(*T.shape)
        images = TrainingImages(Rows(X, row_scale(X, True), n_threads), T)
        solution = solve_dual(
            images, LabelKernel(kernel_factor(K)), beta, duals, np.random.default_rng(0), tol=tol
        )
        answers[n_threads] = solution, duals.tocsr().toarray()
        return answers[n_threads]

    seconds = by_turns({"1": lambda: solve(1), "2": lambda: solve(2)}, rounds)
    (two, psi), (again, psi_again) = answers[2], solve(2)
    one = answers[1][0]
    return {
        "images": shape[0], "features": shape[1], "labels": shape[2], "1 thread s": seconds["1"],
        "2 threads s": seconds["2"], "passes of 1": one.n_epochs, "passes of 2": two.n_epochs,
        "objective of 1": one.primal, "objective of 2": two.primal,
        "same bits": two == again and np.array_equal(psi, psi_again), "speed-up": seconds["1"] / seconds["2"],
    }  # fmt: skip


def main() -> None:
    parser = arguments(__doc__, "threads")
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--beta", type=float, default=10.0)
    args = parser.parse_args()
    with threadpool_limits(1):
        rows = [measure(shape, args.beta, args.tol, args.rounds) for shape in SHAPES]
    show(f"to a certified relative gap of {args.tol:g}, beta {args.beta:g}", rows)
    write_json(args.json, rows)


if __name__ == "__main__":
    main()
