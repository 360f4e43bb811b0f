"""Which defaults suit the baselines? Held-out *seen* labels only; no test image and no unseen label is read.

    python -m benchmarks.rival_defaults --data DIR [--splits 5] [--only LatEm,DeViSE]

Needs the folder of `benchmarks.voc2007`. Each setting is fitted on half of the ten seen labels and scored on the
other half, on the training photos of VOC2007 with two kinds of features and on simulated scenes; a cell is the
mean MiAP over 2 x splits folds. The last column is the mean over the three of what a setting loses to the best.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from benchmarks.voc2007 import read_voc2007
from unseen import baselines, make_tagged_scenes
from unseen.evaluation.protocol import alternating_split, training_view
from unseen.evaluation.search import class_holdout_search

FEATURES = ("resnet50", "efficientnet_lite0")
SHOWN = 12  # settings of a method, the best first

GRIDS = {
    "ConSE": (baselines.ConSE(), {"C": [0.1, 1.0, 10.0], "n_top": [3, 10]}),
    "COSTA": (baselines.COSTA(), {"C": [0.1, 1.0, 10.0], "temperature": [0.1, 0.3]}),
    "LabelPropagation": (
        baselines.LabelPropagation(),
        {"C": [1.0, 10.0], "alpha": [0.5, 0.9], "temperature": [0.1, 0.3]},
    ),
    "DMP": (baselines.DMP(), {"alpha": [0.1, 1.0, 10.0, 100.0, 1000.0]}),
    "ESZSL": (baselines.ESZSL(), {"gamma": [0.1, 1.0, 10.0, 100.0, 1000.0], "lam": [0.1, 1.0, 10.0]}),
    "Fast0Tag": (baselines.Fast0Tag(), {"alpha": [0.01, 0.1, 1.0], "ridge": [1e-3, 3e-3, 1e-2, 3e-2, 1e-1]}),
    "DeViSE": (
        baselines.DeViSE(),
        {"alpha": [1e-2, 1e-3, 1e-4], "max_iter": [10, 30], "pairs": ["all", "worst"]},
    ),
    "LatEm": (baselines.LatEm(), {"alpha": [1e-2, 1e-3], "max_iter": [10, 30], "n_maps": [2, 4]}),
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--only", help="names with commas")
    parser.add_argument("--jobs", type=int, default=1)
    args = parser.parse_args()
    sources = {features: _photos(args.data, features) for features in FEATURES} | {"scenes": _scenes()}
    console = Console(width=130)
    for name in args.only.split(",") if args.only else GRIDS:
        start = time.perf_counter()
        estimator, grid = GRIDS[name]
        with threadpool_limits(limits=1):
            found = [
                class_holdout_search(estimator, grid, X, Y, seen, n_splits=args.splits, n_jobs=args.jobs).table
                for X, Y, seen in sources.values()
            ]
        settings = [row.params for row in found[0]]
        scores = 100 * np.array([[row.mean for row in table] for table in found]).T
        console.print(_table(name, settings, scores, tuple(sources)))
        console.print(f"{time.perf_counter() - start:.0f} s")


def _photos(folder: Path, features: str):
    X, Y, _, _, space = read_voc2007(folder, features)
    split = alternating_split(space.names)
    train = training_view(X, Y, split)
    return train.X, train.Y, space.select(split.seen_names)


def _scenes():
    data = make_tagged_scenes(2000, 10)
    return data.X_train, data.Y_train[:, data.seen], data.seen_labels


def _table(name: str, settings: list[dict], scores: np.ndarray, columns: tuple[str, ...]) -> Table:
    table = Table(title=f"{name}: MiAP on held-out seen labels")
    for column in ("setting", *columns, "loses"):
        table.add_column(column, justify="left" if column == "setting" else "right")
    losses = (scores.max(axis=0) - scores).mean(axis=1)
    for i in np.argsort(losses, kind="stable")[:SHOWN]:
        setting = ", ".join(f"{key} {value}" for key, value in sorted(settings[i].items()))
        table.add_row(setting, *(f"{score:.2f}" for score in scores[i]), f"{losses[i]:.2f}")
    return table


if __name__ == "__main__":
    main()
