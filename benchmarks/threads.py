"""How much faster is a certified fit with two threads than with one?

    python -m benchmarks.threads [--images 20000]

The same problem for a fixed projection to the same certified gap, by turns in one process; then whether two runs
with two threads agree in every bit.
"""

from __future__ import annotations

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks._timing import arguments, by_turns, learnable, show, write_json
from unseen.solvers.dual import SparseDuals, solve_dual
from unseen.solvers.images import as_images
from unseen.solvers.team import Team


def main() -> None:
    parser = arguments(__doc__, "threads")
    parser.add_argument("--images", type=int, default=5011)
    parser.add_argument("--features", type=int, default=4096)
    parser.add_argument("--labels", type=int, default=10)
    parser.add_argument("--rank", type=int, default=10)
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--beta", type=float, default=1.0)
    args = parser.parse_args()
    X, T, K = learnable(args.images, args.features, args.labels, args.rank)
    answers = {}

    def solve(n_threads: int):
        duals = SparseDuals(*T.shape)
        with Team(n_threads) as team:
            images = as_images(X, normalize=True, team=team)
            solution = solve_dual(images, T, K, args.beta, duals, np.random.default_rng(0), tol=args.tol)
        answers[n_threads] = solution, duals.tocsr().toarray()
        return answers[n_threads]

    with threadpool_limits(1):
        seconds = by_turns({"1": lambda: solve(1), "2": lambda: solve(2)}, args.rounds)
        (two, psi), (again, psi_again) = answers[2], solve(2)
    one = answers[1][0]
    row = {
        "images": args.images, "features": args.features, "1 thread s": seconds["1"], "2 threads s": seconds["2"],
        "passes of 1": one.n_epochs, "passes of 2": two.n_epochs, "objective of 1": one.primal,
        "objective of 2": two.primal, "same bits": two == again and np.array_equal(psi, psi_again),
        "speed-up": seconds["1"] / seconds["2"],
    }  # fmt: skip
    show(f"to a certified relative gap of {args.tol:g}", [row])
    write_json(args.json, [row])


if __name__ == "__main__":
    main()
