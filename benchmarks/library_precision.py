"""What is lost by eight bits per number, by candidates, and by decoding large photos at a reduced size?

    python -m benchmarks.library_precision DIR [--split train] [--images 8000] [--model MODEL] [--photos FOLDER]

DIR holds ``coco30k_efficientnet_lite0.npz`` and ``coco30k_labels.csv``. Scores of 80 labels from stored numbers
are compared with those from the numbers given: mAP, MiAP, rank correlation, how many of the best 100 photos of a
label stay. Then, how many of the best 20 photos by p are among the best by score. With ``--photos``, pictures of
the folder are enlarged to 12 megapixels with fine detail; the cosine of their features after reduced decoding is
compared with that after saving them again with quality 85.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from PIL import Image
from scipy.stats import spearmanr

from benchmarks._timing import show
from unseen import PhotoTagger
from unseen.datasets import read_annotations
from unseen.evaluation.metrics import mean_average_precision, mean_image_average_precision
from unseen.images.backbones import open_backbone
from unseen.images.features import open_features
from unseen.images.preprocessing import prepare
from unseen.images.reading import find_images, open_image
from unseen.photos.storage import decode_rows, encode_rows


def symmetric(values: np.ndarray) -> np.ndarray:
    steps = np.abs(values).max(axis=1, keepdims=True) / 127.0
    return np.rint(values / steps) * steps


STORED = {
    "float32": lambda values: values,
    "float16": lambda values: values.astype(np.float16).astype(np.float32),
    "eight bits, as stored": lambda values: decode_rows(encode_rows(values)),
    "eight bits, symmetric": symmetric,
}


def compare_stored(folder: Path, split: str, n_images: int, model: PhotoTagger) -> None:
    features = open_features(folder / "coco30k_efficientnet_lite0.npz")
    annotations = read_annotations(folder / "coco30k_labels.csv").select(split=split)
    rows = np.flatnonzero(annotations.rows_for(features.paths, missing="mark") >= 0)[:n_images]
    Y = annotations.select([features.paths[row] for row in rows]).Y
    labels, found, given = model.label_vectors(annotations.labels), [], None
    for name, store in STORED.items():
        X = model.columns(store(features.X[rows]), store(features.logits[rows]))
        scores = model.tagger.decision_function(X, labels)
        given = scores if given is None else given
        columns = range(scores.shape[1])
        best, were = (np.argsort(-values, axis=0)[:100] for values in (scores, given))
        found.append({
            "stored as": name,
            "mAP": 100 * mean_average_precision(Y, scores),
            "MiAP": 100 * mean_image_average_precision(Y, scores),
            "rank correlation": f"{np.mean([spearmanr(scores[:, c], given[:, c])[0] for c in columns]):.6f}",
            "same of the best 100": np.mean([len({*best[:, c]} & {*were[:, c]}) for c in columns]),
        })  # fmt: skip
    show(f"{len(rows):,} images of the part {split!r}, {len(labels)} labels", found)


def compare_candidates(folder: Path, split: str, n_images: int, model: PhotoTagger) -> None:
    """How many of the best 20 photos by probability are among the best ones by score?"""
    features = open_features(folder / "coco30k_efficientnet_lite0.npz")
    annotations = read_annotations(folder / "coco30k_labels.csv").select(split=split)
    rows = np.flatnonzero(annotations.rows_for(features.paths, missing="mark") >= 0)[:n_images]
    query = model.query(list(model.label_vectors("everyday"))[::11])
    blocks = [query.columns(features.X[some], features.logits[some]) for some in np.array_split(rows, 8)]
    scores, p = (np.vstack(part) for part in zip(*blocks, strict=True))
    found = []
    for n in (100, 200, 500, 1000):
        shares = []
        for c in range(scores.shape[1]):
            best = np.lexsort((-scores[:, c], -p[:, c]))[:20]
            shares.append(np.isin(best, np.argpartition(-scores[:, c], n)[:n]).mean())
        found.append(
            {"candidates": n, "best 20 among them": f"{np.mean(shares):.2%}", "least": f"{min(shares):.0%}"}
        )
    show(f"{len(rows):,} images of the part {split!r}, {scores.shape[1]} words", found)


def compare_decoded(folder: Path, n_photos: int = 24) -> None:
    backbone, rng = open_backbone(n_threads=1), np.random.default_rng(0)
    cosines: dict[str, list[float]] = {}
    place = Path("large.jpg")

    def described(shorter: int | None) -> np.ndarray:
        with open_image(place, shorter) as opened:
            features = backbone.describe(prepare(opened.pixels, backbone.preprocessing)[None]).features[0]
        return features / np.linalg.norm(features)

    try:
        for path in find_images(folder).paths[:n_photos]:
            image = Image.open(path).convert("RGB").resize((4000, 3000), Image.Resampling.LANCZOS)
            pixels = np.asarray(image, dtype=np.float32)
            for size in (2, 4, 8):  # detail that the enlarged picture lacks
                noise = Image.fromarray(rng.normal(0, 6, (3000 // size, 4000 // size)).astype(np.float32))
                pixels = pixels + np.asarray(noise.resize((4000, 3000), Image.Resampling.BICUBIC))[..., None]
            Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(place, quality=92)
            whole = described(None)
            for times in (4, 2, 1):
                cosines.setdefault(f"at least {times} x 256 pixels", []).append(
                    float(described(256 * times) @ whole)
                )
            Image.open(place).save(place, quality=85)
            cosines.setdefault("saved again, quality 85", []).append(float(described(None) @ whole))
    finally:
        place.unlink(missing_ok=True)
    rows = [{"": name, "least": min(some), "median": float(np.median(some))} for name, some in cosines.items()]
    show("cosine of the features with those of the whole photo, 12 megapixels", rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--split", default="train")
    parser.add_argument("--images", type=int, default=8000)
    parser.add_argument("--model", help="by default the packaged one")
    parser.add_argument("--photos", type=Path)
    args = parser.parse_args()
    model = PhotoTagger.load(args.model)
    compare_stored(args.folder, args.split, args.images, model)
    compare_candidates(args.folder, args.split, args.images, model)
    if args.photos is not None:
        compare_decoded(args.photos)


if __name__ == "__main__":
    main()
