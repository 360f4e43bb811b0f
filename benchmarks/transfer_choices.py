"""Which choices transfer best to labels that nobody annotated? Held-out *seen* labels and training images only.

    python -m benchmarks.transfer_choices --data DIR [--folds 6] [--images 5000] [--only TABLE ...]

DIR has the files of `unseen reproduce coco`. The 48 seen labels of COCO 48/17 are dealt into thirds, except for
the most common one (person), which is always annotated, as it is in the experiment. Two thirds are annotated, the
other is ranked on other training images. A cell is the mean over the folds: zero-shot MiAP, mAP and F1@3 (held-out
labels alone), MiAP of all labels and of the annotated ones; beside it stands the standard error of the difference
to the first row of the table, paired by fold. The defaults of `TAEP` and the parts of the ensembles were chosen by
such tables; no test image and no unseen label is read.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from benchmarks._timing import arguments, show, write_json
from unseen import TAEP, baselines
from unseen.ensembles import Combination, Stacked, stacked
from unseen.evaluation.metrics import mean_average_precision, mean_image_average_precision, micro_f1, top_k
from unseen.evaluation.protocol import class_split
from unseen.experiment.data import read_data
from unseen.experiment.methods import IN_A_PICTURE, SIDE_BY_SIDE

N_SCORED = 2500
FIGURES = ("ZSL", "ZSL mAP", "ZSL F1", "GZSL", "seen")


def folds(Y, n_folds: int, n_images: int) -> Iterator[tuple[Any, Any, Any, Any]]:
    """Annotated and held-out labels, images to fit and images to score."""
    rng = np.random.default_rng(0)
    others = np.delete(np.arange(Y.shape[1]), Y.sum(axis=0).argmax())
    for k in range(n_folds):
        if k % 3 == 0:
            thirds = np.array_split(rng.permutation(others), 3)
        held = np.sort(thirds[k % 3])
        kept = np.setdiff1d(np.arange(Y.shape[1]), held)
        fitted, scored = np.array_split(rng.permutation(len(Y)), 2)
        fitted = fitted[Y[np.ix_(fitted, kept)].any(axis=1)][:n_images]
        yield kept, held, fitted, scored[:N_SCORED]


def main() -> None:
    parser = arguments(__doc__, "transfer_choices")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--folds", type=int, default=6)
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument(
        "--only", nargs="*", default=[], help="tables: loss, images, terms, rivals, transfer, evidence"
    )
    args = parser.parse_args()
    data = read_data("coco", args.data)
    split = class_split("coco48/17", data.labels)
    names = list(split.seen_names)
    Y = data.Y[np.ix_(data.is_train, split.seen)]
    backbone = data.main_features
    features, logits = data.features[backbone][data.is_train], data.logits[backbone][data.is_train]
    both, n_features = np.hstack([features, logits]), features.shape[1]
    relations = {kind: R[np.ix_(split.seen, split.seen)] for kind, R in data.relations.items()}
    knowledge, rows = data.classes[IN_A_PICTURE], []
    firsts: dict[str, Any] = {}
    unweighted = {"fit_log_odds": lambda F, t, v, fit=stacked.fit_log_odds: fit(F, t, np.ones_like(v))}

    def row(
        table: str, model: Any, source: str = data.main_vectors, X: Any = features, kind: str = "", **about: Any
    ):
        """Mean figures of a model over the folds."""
        figures, change = [], about.pop("change", {})
        start = time.process_time()
        for kept, held, fitted, scored in folds(Y, args.folds, about.get("images", args.images)):
            order = np.concatenate([kept, held])
            vectors = data.vectors[source].select([names[i] for i in order]).vectors
            R = relations[kind][np.ix_(order, order)] if kind else None
            given = X[fitted], Y[np.ix_(fitted, kept)], vectors[: len(kept)], vectors[len(kept) :], R
            with patch.multiple(stacked, **change) if change else nullcontext():
                S, truth = clone(model).fit(*given).decision_function(X[scored], vectors), Y[np.ix_(scored, order)]
            unseen, shown = slice(len(kept), None), truth[:, len(kept) :].any(axis=1)
            figures.append((
                mean_image_average_precision(truth[shown, unseen], S[shown, unseen]),
                mean_average_precision(truth[:, unseen], S[:, unseen]),
                micro_f1(truth[shown, unseen], top_k(S[shown, unseen], 3)),
                mean_image_average_precision(truth, S),
                mean_image_average_precision(truth[:, : len(kept)], S[:, : len(kept)]),
            ))  # fmt: skip
        found = 100 * np.array(figures)
        first = firsts.setdefault(table, found)
        errors = (found - first).std(axis=0, ddof=1) / np.sqrt(len(found))
        cells = {}
        for name, mean, error in zip(FIGURES, found.mean(axis=0), errors, strict=True):
            cells |= {name: float(mean), f"±{name}": float(error)}
        rows.append({"table": table, **about, **cells, "CPU s": (time.process_time() - start) / args.folds})

    def tables():
        yield (
            "loss",
            [
                ({"loss": loss, "beta": beta}, TAEP(beta=beta, loss=loss, tol=1e-2), {})
                for loss in ("max", "mean")
                for beta in (0.1, 0.5, 2.0, 10.0, 100.0)
            ],
        )
        yield (
            "images",
            [
                ({"images": n, "beta": beta}, TAEP(beta=beta, tol=1e-2), {})
                for n in (1000, 10_000)
                for beta in (0.1, 0.5, 2.0, 10.0)
            ],
        )
        yield "terms", [
            ({"term": "gamma", "value": gamma}, TAEP(gamma=gamma, tol=1e-2), {}) for gamma in (0.0, 0.03, 0.3)
        ] + [
            ({"term": f"lam, {kind}", "value": lam}, TAEP(lam=lam, tol=1e-2), {"kind": kind})
            for kind in relations
            for lam in (0.03, 0.3)
        ] + [({"term": "rank", "value": rank}, TAEP(rank=rank, tol=1e-2), {}) for rank in (0.25, 0.5)]  # fmt: skip
        rivals = (baselines.ConSE(), baselines.LatEm(), baselines.DMP(), baselines.Fast0Tag(), baselines.DeViSE())
        yield "rivals", [({"method": type(rival).__name__}, rival, {}) for rival in rivals]
        yield "transfer", [
            ({"method": "Stacked", "vectors": source, "share of the mean": share},
             Stacked(), {"source": source, "change": {"MEAN_SHARE": share}})
            for source in (SIDE_BY_SIDE, IN_A_PICTURE)
            for share in (0.5, 0.0, 1.0)
        ] + [
            ({"method": "TAEP", "vectors": SIDE_BY_SIDE, "share of the mean": 0.0},
             TAEP(tol=1e-2), {"source": SIDE_BY_SIDE}),
        ]  # fmt: skip
        use: dict[str, Any] = {"source": IN_A_PICTURE}
        with_evidence = Stacked(knowledge, n_features), use | {"X": both}
        changed = [{"cooccurrence": 0.0}, {"cooccurrence": 0.1}, {"spread": 1.0}]
        yield "evidence", [
            ({"method": "Stacked", "change of": "-"}, *with_evidence),
            ({"method": "Stacked", "change of": "entries count alike"},
             with_evidence[0], with_evidence[1] | {"change": unweighted}),
        ] + [
            ({"method": "Stacked", "change of": str(one)},
             Stacked(clone(knowledge).set_params(**one), n_features), with_evidence[1]) for one in changed
        ] + [
            ({"method": "Combination", "change of": f"weight {weight}"},
             Combination(TAEP(tol=1e-2), knowledge, n_features, weight), with_evidence[1]) for weight in (1.0, 1.5)
        ] + [({"method": "evidence alone", "change of": "-"}, knowledge, use | {"X": logits})]  # fmt: skip

    with threadpool_limits(1):
        for table, settings in tables():
            if args.only and table not in args.only:
                continue
            for about, model, options in settings:
                row(table, model, **options, **about)
            found = [found for found in rows if found["table"] == table]
            show(table, [{key: value for key, value in one.items() if key != "table"} for one in found])
    write_json(args.json, rows)


if __name__ == "__main__":
    main()
