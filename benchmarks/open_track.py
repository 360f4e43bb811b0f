"""What does the backbone's own knowledge add? The open track on VOC2007: ImageNet classes may speak too.

    python -m benchmarks.open_track --data DIR [--vectors use] [--splits 3]

Needs the folder of `benchmarks.voc2007` with ``voc2007_efficientnet_lite0.npz`` (features and ImageNet logits) and
the extra ``words``. Some unseen labels are ImageNet classes: these figures stand apart from those of methods that
know the seen labels only. "Held out" is the MiAP on held-out *seen* labels; the row "chosen" takes its parameters
from there alone. The defaults are not blind to the test photos: see docs/open_track.md.
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
from unseen.images.knowledge import imagenet_knowledge
from unseen.rivals import BackboneKnowledge, Combination

GRID = {"second__sharpness": [4.0, 6.0], "second__temperature": [1.0, 1.5, 2.0]}


def rows(n_features: int, vectors: str):
    """Name, columns of X, estimator and grid of each row of the table."""
    taep = TAEP(rank=10, beta=10.0, tol=1e-2)
    kinds = imagenet_knowledge(vectors)
    names_only = BackboneKnowledge(kinds.class_vectors)
    both = Combination(taep, kinds, n_features)
    plain = {"second__temperature": 1.5, "second__spread": 1.0, "second__cooccurrence": 0.0}

    def changed(**parameters: float) -> Combination:
        return clone(both).set_params(**parameters)

    return (
        ("TAEP alone", slice(n_features), taep, {}),
        ("knowledge, names of the classes only", slice(n_features, None), names_only, {}),
        ("knowledge, names of their kinds too", slice(n_features, None), kinds, {}),
        ("TAEP + knowledge, chosen", slice(None), both, GRID),
        ("TAEP + knowledge, default", slice(None), both, {}),
        ("  without the names of kinds", slice(None), Combination(taep, names_only, n_features), {}),
        ("  one reading, temperature 1", slice(None), changed(second__spread=1.0), {}),
        ("  without companions", slice(None), changed(second__cooccurrence=0.0), {}),
        ("  one reading, temperature 1.5, no companions", slice(None), changed(**plain), {}),
        ("  background of the training images only", slice(None), changed(second__smoothing=0.0), {}),
        ("  even background", slice(None), changed(second__smoothing=1.0), {}),
        ("  transfer 1", slice(None), changed(transfer=1.0), {}),
        ("  transfer 0", slice(None), changed(transfer=0.0), {}),
    )


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
    both = np.hstack([features, logits])
    split = alternating_split(names)
    labels = LabelSpace(names, args.vectors)
    seen, unseen = labels.select(split.seen_names), labels.select(split.unseen_names)
    table = Table(title=f"VOC2007, EfficientNet-Lite0, {args.vectors}; uses supervision of ImageNet classes")
    for column in ("method", "chosen", "held out", "ZSL MiAP / micro / macro / Hamming", "GZSL"):
        table.add_column(column)
    for name, columns, model, grid in rows(features.shape[1], args.vectors):
        X = both[:, columns]
        view = training_view(X[train], Y[train], split)
        found = class_holdout_search(model, grid, view.X, view.Y, seen, n_splits=args.splits, n_jobs=2)
        model = clone(model).set_params(**found.best_params)
        model.fit(view.X, view.Y, seen, unseen)
        figures = []
        for make, asked in ((zero_shot_view, "unseen"), (generalized_view, "all")):
            test = make(X[~train], Y[~train], split)
            summary = evaluate(model.decision_function(test.X, asked), test)
            figures.append(" / ".join(f"{100 * value:.2f}" for value in summary))
        chosen = ", ".join(f"{key.split('__')[-1]} {value:g}" for key, value in found.best_params.items())
        table.add_row(name, chosen, f"{100 * found.best_score:.2f}", *figures)
    Console(width=165).print(table)


if __name__ == "__main__":
    main()
