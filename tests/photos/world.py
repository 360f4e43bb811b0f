"""Painted photos, a backbone that sees their mean colour, annotations, and vectors for the names of colours."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from tests.images.graphs import mean_colour

from unseen import PhotoTagger
from unseen.calibration import calibrate
from unseen.ensembles import Stacked
from unseen.images.features import extract_features
from unseen.photos.training import train

KEPT: list[TemporaryDirectory] = []  # removed at exit
COLOURS = {"red": (200, 20, 20), "green": (20, 200, 20), "blue": (20, 20, 200), "yellow": (200, 200, 20)}
SHOWN = [("red",), ("green",), ("blue",), ("red", "green"), ("red", "blue"), ("green", "blue")]
VECTORS = {
    "red": (1, 0, 0), "green": (0, 1, 0), "blue": (0, 0, 1), "yellow": (0.7, 0.7, 0), "warm": (1, 0.3, 0),
    "cold": (0, 0.2, 1), "crimson": (0.9, 0.1, 0.1),
}  # fmt: skip
CORNERS = {name: VECTORS[name] for name in ("red", "green", "blue")} | {
    "yellow": (1, 1, 0), "cyan": (0, 1, 1), "magenta": (1, 0, 1), "white": (1, 1, 1), "black": (0.1, 0.1, 0.1),
}  # fmt: skip
TOML = """
mean = [128.0, 128.0, 128.0]
std = [64.0, 64.0, 64.0]
value_range = 255
size = 16
resize = "squash"
features = "colour"
logits = "warmth"
class_names = ["warm", "cold"]
"""


def paint(path, names, seed=0):
    """Write a photo of patches in the given colours, with some noise."""
    from PIL import Image

    width = 48 // len(names)
    pixels = np.hstack([np.full((32, width, 3), COLOURS[name]) for name in names])
    pixels = pixels + np.random.default_rng(seed).normal(0, 8, size=pixels.shape)
    Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(path, quality=95)
    return path


def write_rows(path, rows):
    path.write_text("".join(",".join(map(str, row)) + "\n" for row in rows))
    return path


def write_backbone(folder):
    mean_colour(folder / "eye.onnx")
    (folder / "eye.toml").write_text(TOML)
    return folder / "eye.onnx"


@cache
def world() -> Path:
    """Return a folder with photos, labels.csv (train and test), vectors.csv, eye.onnx, feats and a model.

    The model was fitted on red and green; blue is unseen.
    """
    for package in ("PIL", "onnxruntime", "onnx"):
        pytest.importorskip(package)
    KEPT.append(TemporaryDirectory(prefix="unseen-world-"))
    folder = Path(KEPT[0].name)
    (folder / "photos").mkdir()
    rows = [("path", "split", "labels")]
    for i in range(60):
        names = SHOWN[i % len(SHOWN)]
        paint(folder / "photos" / f"{i:03d}.jpg", names, i)
        rows.append((f"{i:03d}.jpg", "test" if i >= 42 else "train", ";".join(names)))
    write_rows(folder / "labels.csv", rows)
    write_rows(folder / "vectors.csv", [("name", "x", "y", "z"), *((name, *v) for name, v in VECTORS.items())])
    extract_features(folder / "photos", folder / "feats", write_backbone(folder))
    fit(folder / "labels.csv", unseen=["blue"]).model.save(folder / "model.safetensors")
    return folder


def fit(labels, features=None, **options):
    """Train on the features of the world with small vectors."""
    folder = Path(labels).parent if features is None else Path(features).parent
    vectors = options.pop("vectors", str(folder / "vectors.csv"))
    return train(features or folder / "feats", labels, vectors=vectors, beta=1.0, **options)


@cache
def calibrated() -> PhotoTagger:
    """A model with probabilities: learned from simulated photos of one colour each, of eight."""
    folder, rng = world(), np.random.default_rng(0)
    words = VECTORS | CORNERS
    table = write_rows(folder / "many.csv", [("name", "x", "y", "z"), *((name, *v) for name, v in words.items())])
    shown = rng.integers(len(CORNERS), size=400)
    X = 3.0 * np.array([*CORNERS.values()])[shown] - 1.7 + rng.normal(0.0, 0.2, (400, 3))
    Y = np.eye(len(CORNERS))[shown]
    model = Stacked(n_splits=2).fit(X, Y, CORNERS)
    # Synonyms of annotated colours are common here.
    calibrate(model, X, Y, words, n_splits=2, n_repeats=1, n_reference=40, n_trees=120, prior=16.0)
    return PhotoTagger(model, str(folder / "eye.onnx"), str(table))
