"""What does a path over ten values of beta cost with warm starts, against one fit?

    python -m benchmarks.beta_path [--data DIR] [--rank 5]

With ``--data`` on PASCAL VOC2007 (see `benchmarks.voc2007`), without it on simulated scenes. Every fit is
certified to the same tolerance; "one fit" is a cold fit at the last beta of the path, the slowest of the ten.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._timing import arguments, by_turns, show, write_json
from benchmarks.convex_or_alternating import simulated
from benchmarks.voc2007 import read_voc2007
from unseen import TAEP
from unseen.evaluation.protocol import alternating_split, training_view


def main() -> None:
    parser = arguments(__doc__, "beta_path")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--features", default="resnet50")
    parser.add_argument("--rank", type=int, default=5)
    parser.add_argument("--first", type=float, default=100.0)
    parser.add_argument("--last", type=float, default=1.0)
    parser.add_argument("--loss", default="max", choices=["max", "mean"])
    parser.add_argument("--tol", type=float, default=1e-2)
    parser.add_argument(
        "--seeds", type=int, default=4, help="orders of the images, summed: the path varies with it"
    )
    args = parser.parse_args()
    X, Y, _, _, space = read_voc2007(args.data, args.features) if args.data else simulated()
    split = alternating_split(space.names)
    train = training_view(X, Y, split)
    problem = train.X, train.Y, space.select(split.seen_names), space.select(split.unseen_names)
    betas = np.geomspace(args.first, args.last, 10)
    options: dict[str, Any] = {"tol": args.tol, "loss": args.loss, "scaling": "paper"}
    gaps, passes = [], {}

    def path(warm_start: bool):
        n_passes = 0
        for seed in range(args.seeds):
            model = TAEP(rank=args.rank, warm_start=warm_start, random_state=seed, **options)
            for beta in betas:
                gaps.append(model.set_params(beta=beta).fit(*problem).relative_gap_)
                n_passes += model.n_epochs_
        passes["warm" if warm_start else "cold"] = n_passes

    def one():
        fits = (TAEP(args.rank, betas[-1], random_state=seed, **options) for seed in range(args.seeds))
        passes["one"] = sum(fit.fit(*problem).n_epochs_ for fit in fits)

    contenders = {"one fit": one, "warm path": lambda: path(True), "cold path": lambda: path(False)}
    seconds = by_turns(contenders, args.rounds, clock=time.process_time)
    row = {**seconds, "warm / one": seconds["warm path"] / seconds["one fit"],
           "warm / cold": seconds["warm path"] / seconds["cold path"],
           "passes warm / one": passes["warm"] / passes["one"], "worst gap": max(gaps)}  # fmt: skip
    show(f"ten values of beta from {args.first:g} to {args.last:g}, gap {args.tol:g}", [row])
    write_json(args.json, [row])


if __name__ == "__main__":
    main()
