"""Do probabilities hold for labels that nobody annotated? Random halves of COCO's 80 labels, in turn.

    python -m benchmarks.calibration --data DIR [--halvings 2] [--images 10000] [--on held-out] [--figure FILE]

DIR has the files of `scripts/make_photo_model.py`. One half of the labels is annotated: a model of the packaged
kind is fitted and calibrated on training images. The other half is scored, as words, on other images: those of the
test part, or with ``--on held-out`` training images that it was not fitted on (for development). Printed: tenths
of p with the share of right tags, tags with p >= 0.8, and recall at 88 % precision as a ratio to that of the best
flat cut-off on the margin score.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._timing import arguments, show, write_json
from unseen.calibration import calibrate
from unseen.ensembles import Stacked
from unseen.evaluation import plots
from unseen.evaluation.metrics import mean_average_precision, reliability
from unseen.experiment.data import read_data
from unseen.images.imagenet import imagenet_knowledge
from unseen.labels.names import everyday_labels
from unseen.labels.space import LabelSpace

VECTORS = "use:a picture of a {}"
FEWEST, PRECISION, SURE = 200, 0.88, 0.8


def recall_at_precision(Y, scores, precision: float = PRECISION) -> float:
    """Largest recall of a cut-off on the scores with at least this precision."""
    order = np.argsort(-scores, kind="stable")
    hits = np.cumsum(Y[order])
    enough = np.flatnonzero(hits >= precision * np.arange(1, len(Y) + 1))
    return float(hits[enough[-1]] / hits[-1]) if len(enough) else 0.0


def tenths(Y, p) -> list[dict[str, Any]]:
    """Tags, mean p and share of right ones in each tenth of p."""
    which = np.minimum((10 * p).astype(int), 9)
    return [
        {"p": f"{b / 10:.1f} to {(b + 1) / 10:.1f}", "tags": int((which == b).sum()),
         "mean p": float(p[which == b].mean()), "right": float(Y[which == b].mean())}
        for b in range(10) if (which == b).any()
    ]  # fmt: skip


def judge(Y, p, scores) -> dict[str, float]:
    """Figures of probabilities, all images and labels together."""
    sure = p >= SURE
    worst = [abs(row["mean p"] - row["right"]) for row in tenths(Y, p) if row["tags"] >= FEWEST]
    flat, found = recall_at_precision(Y, scores), recall_at_precision(Y, p)
    return {
        "worst tenth": max(worst), "sure": int(sure.sum()), "right": float(Y[sure].mean()) if sure.any() else 0.0,
        "recall of sure": float(Y[sure].sum() / Y.sum()), "recall at 88 %": found, "by score": flat,
        "ratio": found / flat if flat else np.inf,
    }  # fmt: skip


def main() -> None:
    parser = arguments(__doc__, "calibration")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--halvings", type=int, default=2)
    parser.add_argument("--images", type=int, default=10_000, help="to fit")
    parser.add_argument("--on", choices=["test", "held-out"], default="test")
    parser.add_argument("--figure", type=Path, help="reliability diagram to write")
    args = parser.parse_args()
    data = read_data("coco", args.data)
    names, backbone = list(data.labels), data.main_features
    X = np.hstack([data.features[backbone], data.logits[backbone]]).astype(np.float32)
    n_features = data.features[backbone].shape[1]
    vectors = LabelSpace(names, VECTORS).vectors
    words, rows = LabelSpace(everyday_labels(), VECTORS, missing="skip"), []
    pooled: dict[str, list[Any]] = {"unannotated": [], "annotated": []}
    for halving in range(args.halvings):
        rng = np.random.default_rng(halving)
        halves = np.array_split(rng.permutation(len(names)), 2)
        train = rng.permutation(np.flatnonzero(data.is_train))
        fitted = train[: args.images]
        scored = np.flatnonzero(~data.is_train) if args.on == "test" else train[args.images :][:4000]
        for half in halves:
            kept, held = np.sort(half), np.setdiff1d(np.arange(len(names)), half)
            given = X[fitted], data.Y[np.ix_(fitted, kept)]
            model = Stacked(imagenet_knowledge(VECTORS), n_features)
            model.fit(*given, {names[c]: vectors[c] for c in kept})
            calibrate(model, *given, words)
            for kind, labels in (("unannotated", held), ("annotated", kept)):
                asked = {names[c]: vectors[c] for c in labels}
                p, scores = model.predict_proba(X[scored], asked), model.decision_function(X[scored], asked)
                Y = data.Y[np.ix_(scored, labels)]
                pooled[kind].append([part.ravel() for part in (Y, p, scores)])
                precision = {
                    "mAP, p": mean_average_precision(Y, p),
                    "mAP, score": mean_average_precision(Y, scores),
                }
                rows.append({"halving": halving, "labels": kind} | judge(*pooled[kind][-1]) | precision)
                print(rows[-1], flush=True)
    show("each half", rows)
    together = {
        kind: [np.concatenate(part) for part in zip(*parts, strict=True)] for kind, parts in pooled.items()
    }
    show("together", [{"labels": kind} | judge(*parts) for kind, parts in together.items()])
    for kind, (Y, p, _) in together.items():
        show(f"tenths, {kind} labels", tenths(Y, p))
    if args.figure is not None:
        parts = {f"{kind} labels": (Y[:, None], p[:, None]) for kind, (Y, p, _) in together.items()}
        groups = {name: reliability(*part) for name, part in parts.items()}
        plots.save(plots.reliability_diagram(groups, FEWEST), args.figure)
    write_json(args.json, rows)


if __name__ == "__main__":
    main()
