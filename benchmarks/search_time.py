"""How long does the class-holdout search of TAEP take, against one fit?

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.search_time [--data DIR]

The grid of the documentation's table of variants: 18 settings, on two halvings of the seen labels (four folds), so
72 fits to a gap of 2 %, two at a time. On PASCAL VOC2007 with ``--data``, else on simulated scenes.
"""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks._timing import arguments, by_turns, show, write_json
from benchmarks.convex_or_alternating import simulated
from benchmarks.voc2007 import read_voc2007
from unseen import TAEP
from unseen.evaluation.protocol import alternating_split, training_view
from unseen.evaluation.search import class_holdout_search

GRID = {"rank": [0.25, 0.5, 1.0], "beta": [0.5, 2.0, 10.0], "gamma": [0.0, 0.1]}
HALVINGS = 2


def main() -> None:
    parser = arguments(__doc__, "search_time")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--n-jobs", type=int, default=2)
    args = parser.parse_args()
    X, Y, _, _, space = read_voc2007(args.data) if args.data else simulated()
    split = alternating_split(space.names)
    train = training_view(X, Y, split)
    seen, unseen = space.select(split.seen_names), space.select(split.unseen_names)
    one = by_turns({"fit": lambda: TAEP(rank=5, tol=1e-2).fit(train.X, train.Y, seen, unseen)}, args.rounds)["fit"]
    start = time.perf_counter()
    found = class_holdout_search(
        TAEP(tol=2e-2), GRID, train.X, train.Y, seen, n_splits=HALVINGS, n_jobs=args.n_jobs
    )
    seconds = time.perf_counter() - start
    n_fits = len(found.table) * 2 * HALVINGS
    row = {"fits": n_fits, "search s": seconds, "one fit to 1 % s": one, "search / one fit": seconds / one,
           "held-out MiAP": 100.0 * found.chosen.mean}  # fmt: skip
    show(f"class-holdout search, {args.n_jobs} folds at a time", [row])
    write_json(args.json, [row])


if __name__ == "__main__":
    main()
