"""PASCAL VOC2007 as features and labels, for the benchmarks.

The folder holds ``voc2007_<features>.npz`` (arrays ``features`` and ``image_id``), ``voc2007_labels.csv``
(image_id, split, ..., one column per class; same images, same order) and ``voc20_glove6B_300d.csv`` (name,
numbers).
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from unseen import LabelSpace


def read_voc2007(folder: Path, features: str = "resnet50"):
    """X_train, Y_train, X_test, Y_test and the 20 labels with their GloVe-300 vectors."""
    names, Y, train, _ = read_labels(folder)
    with np.load(folder / f"voc2007_{features}.npz") as archive:
        X = archive["features"].astype(np.float32)
    with (folder / "voc20_glove6B_300d.csv").open() as file:
        vectors = {row[0]: np.array(row[1:], dtype=float) for row in csv.reader(file)}
    space = LabelSpace(names, [vectors[name] for name in names])
    return X[train], Y[train], X[~train], Y[~train], space


def read_labels(folder: Path):
    """Class names, annotations, which images are for training, and the identifiers of all images."""
    with (folder / "voc2007_labels.csv").open() as file:
        header, *rows = csv.reader(file)
    Y = np.array([row[-20:] for row in rows], dtype=np.int8)
    return header[-20:], Y, np.array([row[1] == "trainval" for row in rows]), [row[0] for row in rows]
