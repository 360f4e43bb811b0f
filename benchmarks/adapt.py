"""What do a user's own labels add to the packaged model, and is a fit from scratch better?

    python -m benchmarks.adapt --data DIR [--draws 3] [--base FILE]

DIR has ``coco30k_efficientnet_lite0.npz`` and ``coco30k_labels.csv``; only training images of COCO are read. They
are dealt into three parts. A model like the packaged one, calibrated, is fitted on the first with annotations of
half of the labels (``--base``: kept in this file, and read from it the next time). A user annotates photos of the
second with labels drawn from all 80: photos that show at least one of them, or any photos. The figures are of
2,000 photos of the third, for the user's labels: precision and recall of sure tags (p >= 0.8) and the log loss of
a photo; "album" are those of the 2,000 that show one of the labels. From scratch there is no calibration: p is
taken from the score. "without reference" leaves the reference photos out of the objective of `Adapted`.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._timing import arguments, show, write_json
from unseen import LabelSpace, PhotoTagger, train
from unseen.calibration import calibrate
from unseen.datasets import read_annotations
from unseen.datasets.annotations import Annotations
from unseen.ensembles import Adapted, Stacked
from unseen.ensembles.adapted import _Entries, _log_odds, count_sure
from unseen.images.backbones import open_backbone
from unseen.images.features import open_features
from unseen.images.imagenet import backbone_knowledge
from unseen.labels.names import everyday_labels

BACKBONE, FEATURES = "efficientnet-lite0", "coco30k_efficientnet_lite0.npz"
N_BASE, N_SCORED = 8000, 2000
ABOUT = ("photos", "labels", "drawn")
SIZES = ((60, 5), (300, 20), (2000, 80))


class WithoutReference(Adapted):
    """Learns from the user's photos alone."""

    def _anchors(self, own: _Entries, M: Any) -> _Entries:
        return own.select(slice(0))


def fit_base(X: Any, Y: Any, labels: LabelSpace) -> PhotoTagger:
    """A small model like the packaged one."""
    backbone = open_backbone(BACKBONE)
    tagger = Stacked(backbone_knowledge(backbone), backbone.n_features, n_splits=3)
    calibrate(tagger.fit(X, Y, labels), X, Y, LabelSpace(everyday_labels()), n_splits=4, n_repeats=1)
    return PhotoTagger(tagger, backbone)


def log_odds(model: PhotoTagger, X: Any, labels: Any) -> Any:
    """Log-odds of a model, or its scores if it is not calibrated."""
    vectors = model.label_vectors(labels)
    if hasattr(model.tagger, "predict_proba"):
        return _log_odds(model.tagger.predict_proba(X, vectors))
    return model.tagger.decision_function(X, vectors)


def figures(Y: Any, odds: Any) -> dict[str, float]:
    """Precision and recall of sure tags, and the log loss of an image, for all images and those with a label."""
    found: dict[str, float] = {}
    for prefix, rows in (("", slice(None)), ("album ", (Y == 1).any(axis=1))):
        right, marked, shown = count_sure(Y[rows], odds[rows]).sum(axis=1)
        loss = np.logaddexp(0.0, odds[rows]) - Y[rows] * odds[rows]
        found[f"{prefix}precision"] = 100 * right / max(marked, 1.0)
        found[f"{prefix}recall"] = 100 * right / max(shown, 1.0)
        found[f"{prefix}log loss"] = loss.sum(axis=1).mean()
    return found


def main() -> None:
    parser = arguments(__doc__, "adapt")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--base", type=Path)
    args = parser.parse_args()
    features = open_features(args.data / FEATURES)
    annotations = read_annotations(args.data / "coco30k_labels.csv").select(split="train")
    rng = np.random.default_rng(0)
    places = rng.permutation(np.flatnonzero(annotations.rows_for(features.paths, missing="mark") >= 0))
    annotations = annotations.select([features.paths[place] for place in places])
    names, Y = np.array(annotations.labels), annotations.Y.astype(np.float64)
    X = np.hstack([features.X[places], features.logits[places]])
    scored, pool = slice(N_BASE, N_BASE + N_SCORED), np.arange(N_BASE + N_SCORED, len(Y))
    known = np.sort(rng.permutation(len(names))[: len(names) // 2])
    if args.base is not None and args.base.exists():
        base = PhotoTagger.load(args.base)
    else:
        rows = np.flatnonzero(Y[:N_BASE, known].any(axis=1))
        base = fit_base(X[rows], Y[np.ix_(rows, known)], LabelSpace(names[known]))
        if args.base is not None:
            base.save(args.base)
    rows = []
    for n_photos, n_labels in SIZES:
        for drawn in ("with a label", "any")[: 1 if n_labels == len(names) else 2]:
            of: dict[str, list[dict[str, float]]] = {}
            for _ in range(args.draws):
                own = np.sort(rng.permutation(len(names))[:n_labels])
                has_label = Y[np.ix_(pool, own)].any(axis=1)
                photos = rng.permutation(pool[has_label] if drawn != "any" else pool)[:n_photos]
                own = own[Y[np.ix_(photos, own)].any(axis=0)]  # labels that a photo shows
                images = [annotations.images[row] for row in photos]
                given = Annotations(images, names[own], Y[np.ix_(photos, own)])
                path, start = args.data / FEATURES, time.perf_counter()
                models = {"packaged alone": base}
                models["on top"] = train(path, given, base=base, backbone=BACKBONE).model
                seconds = time.perf_counter() - start
                alone = WithoutReference(base.tagger, base.backbone.n_features)
                alone.fit(X[photos], given.Y, base.label_vectors(names[own].tolist()))
                models["without reference"] = PhotoTagger(alone, base.backbone)
                models["from scratch"] = train(path, given, base=None, backbone=BACKBONE).model
                for name, model in models.items():
                    found = figures(Y[scored, own], log_odds(model, X[scored], names[own].tolist()))
                    extra = {"strength": getattr(model.tagger, "strength_", np.nan)} | (
                        {"seconds": seconds} if name == "on top" else {"seconds": np.nan}
                    )
                    of.setdefault(name, []).append(found | extra)
            for name, draws in of.items():
                mean = {key: float(np.mean([draw[key] for draw in draws])) for key in draws[0]}
                rows.append({"photos": n_photos, "labels": n_labels, "drawn": drawn, "model": name, **mean})
            shown = [{key: row[key] for key in row if key not in ABOUT} for row in rows[-len(of) :]]
            show(f"{n_photos:,} photos ({drawn}), {n_labels} labels", shown)
    write_json(args.json, rows)


if __name__ == "__main__":
    main()
