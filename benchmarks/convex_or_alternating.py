"""How far does the paper's alternation stay from the optimum that the convex solver certifies?

    python -m benchmarks.convex_or_alternating [--data DIR] [--features resnet50|efficientnet_lite0] [--rank 5]

With ``--data`` on PASCAL VOC2007 (see `benchmarks.voc2007`), without it on simulated scenes. Nothing is tuned:
rank and beta are given, gamma = 0.
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
from unseen.evaluation.protocol import (
    alternating_split,
    evaluate,
    generalized_view,
    training_view,
    zero_shot_view,
)


def simulated():
    data = make_tagged_scenes()
    return data.X_train, data.Y_train, data.X_test, data.Y_test, data.labels


def main() -> None:
    parser = arguments(__doc__, "convex_or_alternating")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--features", default="resnet50")
    parser.add_argument("--rank", type=int, default=5)
    parser.add_argument("--beta", type=float, default=10.0)
    parser.add_argument("--iterations", type=int, default=20, help="of the alternation")
    args = parser.parse_args()
    X, Y, X_test, Y_test, space = read_voc2007(args.data, args.features) if args.data else simulated()
    split = alternating_split(space.names)
    seen, unseen = space.select(split.seen_names), space.select(split.unseen_names)
    train = training_view(X, Y, split)
    zero_shot, generalized = zero_shot_view(X_test, Y_test, split), generalized_view(X_test, Y_test, split)
    TAEP(rank=1, tol=0.5).fit(train.X[:50], train.Y[:50], seen, unseen)  # compiles the kernels

    rows, best, bound = [], {}, -np.inf
    for solver, options in (
        ("convex", {"tol": 1e-2}),
        ("rounded", {"tol": 1e-2}),
        ("alternating", {"tol": 1e-2, "max_iter": args.iterations}),
    ):
        seconds = []
        for _ in range(args.rounds):
            start = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                model = TAEP(args.rank, args.beta, gamma=0.0, solver=solver, **options)
                model.fit(train.X, train.Y, seen, unseen)
            seconds.append(time.perf_counter() - start)
        best[solver] = model.objective_trace_.min()
        bound = max(bound, model.lower_bound_)  # all solvers share the problem, and so its best bound
        zsl = evaluate(model.decision_function(zero_shot.X, "unseen"), zero_shot).miap
        gzsl = evaluate(model.decision_function(generalized.X, "all"), generalized).miap
        rows.append({
            "solver": solver, "objective": model.objective_, "best": best[solver], "lower bound": bound,
            "gap %": 100 * (model.objective_ - bound) / model.objective_, "ZSL MiAP": 100 * zsl,
            "GZSL MiAP": 100 * gzsl, "passes": model.n_epochs_, "seconds": float(np.median(seconds)),
        })  # fmt: skip
    show(f"rank {args.rank}, beta {args.beta:g}, {train.X.shape[0]} images", rows)
    print(f"best iterate of the alternation / convex optimum = {best['alternating'] / best['convex']:.3f}")
    write_json(args.json, rows)


if __name__ == "__main__":
    main()
