"""Make the packaged model and its card: `Stacked` on COCO's 80 labels, with the backbone's classes and calibrated.

    python scripts/make_photo_model.py --data DIR --date YYYY-MM-DD [--card-only] [--quick]

DIR holds the features of EfficientNet-Lite0 (features, imagenet_logits, image_id) and the annotations (image_id,
split, one column per label) of 30,000 images of COCO, ``coco30k_efficientnet_lite0.npz`` and ``coco30k_labels.csv``,
and of PASCAL VOC2007, ``voc2007_efficientnet_lite0.npz`` and ``voc2007_labels.csv``. The test images are looked at
for the card alone; ``--card-only`` leaves the model as it is.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from unseen import PhotoTagger, __version__
from unseen.calibration import calibrate
from unseen.datasets import read_annotations
from unseen.datasets.annotations import Annotations
from unseen.ensembles import Stacked
from unseen.images.features import open_features
from unseen.images.imagenet import imagenet_knowledge
from unseen.labels.names import VOC_WORDS, everyday_labels
from unseen.labels.space import LabelSpace
from unseen.photos.evaluation import evaluate_photos

ROOT = Path(__file__).parents[1]
MODEL = ROOT / "src" / "unseen" / "photos" / "data" / "model.safetensors"
CARD = ROOT / "docs" / "model_card.md"
BACKBONE, VECTORS = "efficientnet-lite0", "use:a picture of a {}"
OF_COCO = {"sofa": "couch", "television": "tv"}  # VOC's labels under COCO's names
PARTS = {"coco": ("coco30k_efficientnet_lite0.npz", "coco30k_labels.csv", "train"),
         "voc": ("voc2007_efficientnet_lite0.npz", "voc2007_labels.csv", "trainval")}  # fmt: skip
C = 10.0  # of the classifiers, by held-out training images


def main() -> None:
    """Fit, calibrate, test and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--date", required=True, help="of the card")
    parser.add_argument("--card-only", action="store_true", help="keep the packaged model")
    options = parser.parse_args()
    annotations = {name: read_part(options.data, name) for name in PARTS}
    if not options.card_only:
        write_model(fit(options.data, annotations))
    model = PhotoTagger.load(MODEL)
    figures = {name: evaluate_photos(model, options.data / PARTS[name][0], given, "test")
               for name, given in annotations.items()}  # fmt: skip
    CARD.write_text(card(options.date, model, figures, annotations), encoding="utf-8")
    print(f"{MODEL}: {MODEL.stat().st_size:,} bytes\n{CARD}")


def read_part(data: Path, name: str) -> Annotations:
    """Annotations of a data set, under COCO's names."""
    given = read_annotations(data / PARTS[name][1])
    words = (VOC_WORDS.get(label, label) for label in given.labels)
    return Annotations(given.images, tuple(OF_COCO.get(word, word) for word in words), given.Y, given.split)


def fit(data: Path, annotations: dict[str, Annotations]) -> Any:
    """Fit on the training parts; what a data set does not annotate is unknown."""
    labels = annotations["coco"].labels
    X, Y = [], []
    for name, given in annotations.items():
        features, train = open_features(data / PARTS[name][0]), given.select(split=PARTS[name][2])
        rows = {path: row for row, path in enumerate(features.paths)}
        order = [rows[image] for image in train.images]
        X.append(np.hstack([features.X[order], features.logits[order]]))
        known = {label: column for label, column in zip(train.labels, train.Y.T, strict=True)}
        Y.append(np.column_stack([known.get(label, np.full(len(order), np.nan)) for label in labels]))
    images, known = np.vstack(X), np.vstack(Y)
    # Half precision in the file, so in training too.
    vectors = LabelSpace(labels, VECTORS).vectors.astype(np.float16).astype(np.float32)
    model = Stacked(imagenet_knowledge(VECTORS), X[0].shape[1] - 1000, C=C)
    model.fit(images, known, dict(zip(labels, vectors, strict=True)))
    words = LabelSpace(everyday_labels(), VECTORS, missing="skip")
    report = lambda done, total: print(f"calibrating: {done} of {total}", flush=True)  # noqa: E731
    return calibrate(model, images, known, words, progress=report)


def write_model(tagger: Any) -> None:
    """Write the model in half precision, without what explains by training images, which are not packaged."""
    tagger.transfer_.duals_ = sp.csr_array((0, tagger.n_seen_))
    for part in (tagger, tagger.transfer_):
        for name, value in vars(part).items():
            if isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.ndim == 2:
                setattr(part, name, value.astype(np.float16).astype(np.float32))
    MODEL.parent.mkdir(exist_ok=True)
    PhotoTagger(tagger, BACKBONE, VECTORS).save(MODEL)
