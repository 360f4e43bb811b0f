"""What does the backbone's own knowledge add? The open track on VOC2007: ImageNet classes may speak too.

    python -m benchmarks.open_track --data DIR [--vectors use]

Needs the folder of `benchmarks.voc2007` with ``voc2007_efficientnet_lite0.npz`` (features and ImageNet logits) and
the extra ``words``. Some unseen labels are ImageNet classes: these figures stand apart from those of methods that
know the seen labels only. Sharpness and weight are chosen on held-out *seen* labels; the unseen ones tested once.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from benchmarks.voc2007 import read_labels
from unseen import TAEP, LabelSpace
from unseen.evaluation.protocol import (
    alternating_split,
    evaluate,
    generalized_view,
    training_view,
    zero_shot_view,
)
from unseen.evaluation.search import class_holdout_search
from unseen.images.imagenet import class_names
from unseen.rivals import BackboneKnowledge, Combination


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--vectors", default="use")
    parser.add_argument("--splits", type=int, default=3)
    args = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    names, Y, train, _ = read_labels(args.data)
    with np.load(args.data / "voc2007_efficientnet_lite0.npz") as archive:
        features, logits = (archive[name].astype(np.float32) for name in ("features", "imagenet_logits"))
    split = alternating_split(names)
    labels = LabelSpace(names, args.vectors)
    classes = LabelSpace(class_names(), args.vectors, missing="mean")
    seen, unseen = labels.select(split.seen_names), labels.select(split.unseen_names)
    n_features = features.shape[1]
    both = np.hstack([features, logits])
    knowledge = BackboneKnowledge(classes)
    taep = TAEP(rank=10, beta=10.0, tol=1e-2)
    sharpness = [1.0, 2.0, 4.0, 6.0]
    rows = (
        ("TAEP", features, taep, None),
        ("BackboneKnowledge, default", logits, knowledge, None),
        ("BackboneKnowledge, chosen", logits, knowledge, {"sharpness": sharpness}),
        ("TAEP + BackboneKnowledge, default", both, Combination(taep, knowledge, n_features), None),
        (
            "TAEP + BackboneKnowledge, chosen",
            both,
            Combination(taep, knowledge, n_features),
            {"second__sharpness": sharpness, "weight": [0.5, 1.0, 2.0]},
        ),
    )
    table = Table(title=f"VOC2007, EfficientNet-Lite0, {args.vectors}; uses supervision of ImageNet classes")
    for column in ("method", "chosen on seen labels", "ZSL MiAP / micro / macro / Hamming", "GZSL"):
        table.add_column(column)
    for name, X, model, grid in rows:
        view = training_view(X[train], Y[train], split)
        model, chosen = clone(model), {}  # the parts are shared between rows
        if grid is not None:
            found = class_holdout_search(model, grid, view.X, view.Y, seen, n_splits=args.splits, n_jobs=2)
            chosen = found.best_params
            model = model.set_params(**chosen)
        model.fit(view.X, view.Y, seen, unseen)
        figures = []
        for make, asked in ((zero_shot_view, "unseen"), (generalized_view, "all")):
            test = make(X[~train], Y[~train], split)
            summary = evaluate(model.decision_function(test.X, asked), test)
            figures.append(" / ".join(f"{100 * value:.2f}" for value in summary))
        table.add_row(name, ", ".join(f"{key} {value:g}" for key, value in sorted(chosen.items())), *figures)
    Console(width=150).print(table)


if __name__ == "__main__":
    main()
