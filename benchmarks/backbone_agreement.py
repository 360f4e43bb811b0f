"""Which way of preparing pictures gives the features of a reference?

Prints the cosine between our EfficientNet-Lite0 features and reference features of the same pictures, for several
ways of resizing::

    python -m benchmarks.backbone_agreement FOLDER

FOLDER holds ``voc2007_efficientnet_lite0.npz`` (features, image_id) and pictures in
``VOCdevkit-sample/VOC2007/JPEGImages``.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from unseen.images.backbones import open_backbone
from unseen.images.preprocessing import prepare
from unseen.images.reading import read_image

BATCH = 20


def main(folder: Path) -> None:
    files = sorted((folder / "VOCdevkit-sample/VOC2007/JPEGImages").glob("*.jpg"))
    with np.load(folder / "voc2007_efficientnet_lite0.npz") as archive:
        rows = {image: row for row, image in enumerate(archive["image_id"].tolist())}
        reference = archive["features"][[rows[file.stem] for file in files]].astype(np.float32)
    pictures = [read_image(file) for file in files]
    backbone = open_backbone()
    default = backbone.preprocessing
    ways = {"crop 0.875, bicubic (default)": default}
    for kind in ("bilinear", "lanczos", "nearest"):
        ways[f"crop 0.875, {kind}"] = replace(default, interpolation=kind)
    ways["crop 1.0, bicubic"] = replace(default, crop_fraction=1.0)
    for kind in ("bicubic", "bilinear"):
        ways[f"squash, {kind}"] = replace(default, resize="squash", interpolation=kind)
    print(f"{len(files)} pictures   smallest cosine   mean cosine   largest difference")
    for name, how in ways.items():
        batches = (pictures[start : start + BATCH] for start in range(0, len(pictures), BATCH))
        ours = np.concatenate(
            [
                backbone.describe(np.stack([prepare(picture, how) for picture in batch])).features
                for batch in batches
            ]
        )
        lengths = np.linalg.norm(ours, axis=1) * np.linalg.norm(reference, axis=1)
        cosines = (ours * reference).sum(axis=1) / lengths
        difference = np.abs(ours - reference).max()
        print(f"{name:30} {cosines.min():.6f}   {cosines.mean():.6f}   {difference:.4f}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
