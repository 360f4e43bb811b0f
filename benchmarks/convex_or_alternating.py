"""How far does the paper's alternation stay from the optimum that the convex solver certifies?

    python -m benchmarks.convex_or_alternating [--data DIR] [--features resnet50|efficientnet_lite0] [--rank 5]

With ``--data`` on PASCAL VOC2007 (see `benchmarks.voc2007`), without it on simulated scenes. Nothing is tuned:
rank and beta are given, gamma = 0, with the paper's loss and scaling. The alternation has a period of two, so one
stopping point is chance: means and standard deviations over its last ten iterates are shown.
"""

from __future__ import annotations

import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks._timing import arguments, show, write_json
from benchmarks.voc2007 import read_voc2007
from unseen import TAEP, make_tagged_scenes
from unseen.evaluation.protocol import alternating_split, generalized_view, training_view, zero_shot_view
from unseen.experiment.runner import ITERATES, PROTOCOLS, SOLVERS, figures_of, iterates


def simulated():
    data = make_tagged_scenes()
    return data.X_train, data.Y_train, data.X_test, data.Y_test, data.labels


def spread(values, digits: int) -> str:
    """Mean ± standard deviation; the value, if there is one."""
    around = f" ± {values.std(ddof=1):.{digits}f}" if len(values) > 1 else ""
    return f"{values.mean():.{digits}f}{around}"


def main() -> None:
    parser = arguments(__doc__, "convex_or_alternating")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--features", default="resnet50")
    parser.add_argument("--rank", type=int, default=5)
    parser.add_argument("--beta", type=float, default=10.0)
    args = parser.parse_args()
    X, Y, X_test, Y_test, space = read_voc2007(args.data, args.features) if args.data else simulated()
    split = alternating_split(space.names)
    seen, unseen = space.select(split.seen_names), space.select(split.unseen_names)
    train = training_view(X, Y, split)
    zero_shot, generalized = zero_shot_view(X_test, Y_test, split), generalized_view(X_test, Y_test, split)
    TAEP(rank=1, tol=0.5).fit(train.X[:50], train.Y[:50], seen, unseen)  # compiles the kernels

    rows, best, bound = [], {}, -np.inf
    given, views = (train.X, train.Y, seen, unseen), (zero_shot, generalized)
    for name, options in SOLVERS.items():
        n_iterates = ITERATES if "max_iter" in options else 1
        model = TAEP(args.rank, args.beta, gamma=0.0, tol=1e-2, loss="max", scaling="paper", **options)
        seconds = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            for _ in range(args.rounds):
                start = time.perf_counter()
                model.fit(*given)
                seconds.append(time.perf_counter() - start)
            best[name], passes = model.objective_trace_.min(), model.n_epochs_
            bound = max(bound, model.lower_bound_)  # all solvers share the problem, and so its best bound
            found = figures_of(iterates(model, n_iterates, *given), views)
        objectives = np.array([part["objective"] for part in found])
        miaps = [100.0 * np.array([part[protocol][0] for part in found]) for protocol in PROTOCOLS]
        rows.append({
            "solver": name, "objective": spread(objectives, 1), "best": best[name], "lower bound": bound,
            "gap %": 100 * (objectives.mean() - bound) / objectives.mean(), "ZSL MiAP": spread(miaps[0], 2),
            "GZSL MiAP": spread(miaps[1], 2), "passes": passes, "seconds": float(np.median(seconds)),
        })  # fmt: skip
    show(f"rank {args.rank}, beta {args.beta:g}, {train.X.shape[0]} images", rows)
    print(f"best iterate of the alternation / convex optimum = {best['alternation'] / best['convex']:.3f}")
    write_json(args.json, rows)


if __name__ == "__main__":
    main()
