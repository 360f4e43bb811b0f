"""How many iterations over P does a fit of PASCAL VOC2007 need, over a grid of parameters?

    python -m benchmarks.iterations --data DIR [--features resnet50|vgg19] [--ranks 5 10 20 300]

Every rank with every beta and gamma, with and without centring the label vectors; only the training images are
used. A fit that has not reached its tolerance after ``--most`` iterations is stopped there.
"""

from __future__ import annotations

import itertools
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks._timing import arguments, show, write_json
from benchmarks.voc2007 import read_voc2007
from unseen import TAEP
from unseen.evaluation.protocol import alternating_split, training_view


def main() -> None:
    parser = arguments(__doc__, "iterations")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--features", default="resnet50")
    parser.add_argument("--ranks", type=int, nargs="+", default=[5, 10, 20, 300])
    parser.add_argument("--betas", type=float, nargs="+", default=[1.0, 3.0, 10.0])
    parser.add_argument("--gammas", type=float, nargs="+", default=[0.0, 0.1, 1.0])
    parser.add_argument("--centres", type=int, nargs="+", default=[1, 0], choices=[0, 1])
    parser.add_argument("--tol", type=float, default=1e-2)
    parser.add_argument("--loss", default="max", choices=["max", "mean"])
    parser.add_argument("--most", type=int, default=200)
    args = parser.parse_args()
    X, Y, _, _, space = read_voc2007(args.data, args.features)
    split = alternating_split(space.names)
    train = training_view(X, Y, split)
    problem = train.X, train.Y, space.select(split.seen_names), space.select(split.unseen_names)
    rows = []
    for rank, centre, beta, gamma in itertools.product(args.ranks, args.centres, args.betas, args.gammas):
        model = TAEP(
            rank,
            beta,
            gamma,
            loss=args.loss,
            scaling="paper",
            center=bool(centre),
            tol=args.tol,
            max_iter=args.most,
        )
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(*problem)
        rows.append({
            "rank": rank, "centre": centre, "beta": beta, "gamma": gamma, "iterations": model.n_iter_,
            "passes": model.n_epochs_, "gap": model.relative_gap_, "seconds": time.process_time() - start,
        })  # fmt: skip
    show(f"to a gap of {args.tol:g}, {len(train.X)} images", rows)
    iterations = [row["iterations"] for row in rows]
    unfinished = sum(row["gap"] > args.tol for row in rows)
    print(
        f"{len(rows)} fits: at worst {max(iterations)} iterations, {np.mean(iterations):.1f} on average, "
        f"{sum(row['passes'] for row in rows):,} passes, {sum(row['seconds'] for row in rows):.0f} s; "
        f"{unfinished} above the tolerance"
    )
    write_json(args.json, rows)


if __name__ == "__main__":
    main()
