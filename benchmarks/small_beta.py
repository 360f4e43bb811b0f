"""How many passes over the images does the second-order finish save where beta is small?

    python -m benchmarks.small_beta

Small random problems, solved as usual and by coordinate ascent alone (a finish of no duals).
"""

from __future__ import annotations

import time
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks._timing import arguments, show, write_json
from unseen import TAEP
from unseen.solvers import dual

CASES = ((11, 7, 5, 2, 4e-4, 1e-5), (11, 7, 5, None, 4e-4, 1e-5), (300, 20, 8, 4, 1e-2, 1e-3))
FINISHES = {"finish": dual.MAX_FREE, "ascent alone": 0}


def problem(n_images: int, n_features: int, n_labels: int, seed: int):
    rng = np.random.default_rng(seed)
    X, M = rng.standard_normal((n_images, n_features)), rng.standard_normal((2 * n_labels, n_labels + 1))
    scores = X @ rng.standard_normal((n_features, n_labels + 1)) @ M[:n_labels].T
    Y = scores + rng.standard_normal(scores.shape) > 0.3 * scores.std()
    return X, Y.astype(float), M[:n_labels], M[n_labels:]


def main() -> None:
    parser = arguments(__doc__, "small_beta")
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    rows = []
    for *shape, rank, beta, tol in CASES:
        passes, seconds, gaps = (
            dict.fromkeys(FINISHES, 0),
            dict.fromkeys(FINISHES, 0.0),
            dict.fromkeys(FINISHES, 0.0),
        )
        for seed in range(args.seeds):
            data = problem(*shape, seed)
            TAEP(tol=0.5).fit(*data)  # compiles
            for name, dual.MAX_FREE in FINISHES.items():
                start = time.process_time()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    model = TAEP(rank=rank, beta=beta, loss="max", scaling="paper", tol=tol).fit(*data)
                seconds[name] += time.process_time() - start
                passes[name] += model.n_epochs_
                gaps[name] = max(gaps[name], model.relative_gap_)
        rows.append(
            dict(zip(("images", "features", "labels"), shape, strict=True))
            | {"rank": rank, "beta": beta, "tol": tol}
            | {f"passes, {name}": passes[name] // args.seeds for name in FINISHES}
            | {f"s, {name}": seconds[name] / args.seeds for name in FINISHES}
            | {"ratio of passes": passes["ascent alone"] / passes["finish"], "worst gap": gaps["ascent alone"]}
        )
    show(f"passes and seconds a fit, means of {args.seeds}; the worst gap is that of ascent alone", rows)
    write_json(args.json, rows)


if __name__ == "__main__":
    main()
