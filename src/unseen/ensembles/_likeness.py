"""What images alike say: evidence for a label as a ridge regression on the looks of some training images."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from unseen.baselines._linear import scaled, scaled_chunks
from unseen.ensembles._affinities import directions

Matrix = NDArray[np.float64]

MOST_KEPT = 512  # training images: more do not do better, and these take 1 MB of a file for 1,000 classes
PENALTY = 0.03  # of the squared weights, beside the mean squared error; looks are logits
FEATURE_PENALTY = 0.01  # the same if looks are features
LOWEST = -6e4  # logits further below the largest are no numbers in half precision


def looks(images: Matrix, n_features: int) -> Matrix:
    """What tells images alike, of unit length: their features, if there are any before the logits.

    Else logits minus their mean over the classes: the same for logits and log-probabilities.
    """
    if n_features:
        return directions(images[:, :n_features])
    return directions(images - images.mean(axis=1, keepdims=True))


def kept_images(logits: Any) -> NDArray[np.intp]:
    """Rows of at most `MOST_KEPT` images.

    They are taken in even steps from the most common logits to the rarest: neither a random number nor the order
    of the images decides.
    """
    n_images = logits.shape[0]
    if n_images <= MOST_KEPT:
        return np.arange(n_images)
    common = sum(looks(chunk, 0).sum(axis=0) for _, chunk in scaled_chunks(logits, normalize=False)) / n_images
    likeness = np.concatenate([looks(chunk, 0) @ common for _, chunk in scaled_chunks(logits, normalize=False)])
    steps = np.linspace(0, n_images - 1, MOST_KEPT).round().astype(np.intp)
    return np.argsort(-likeness, kind="stable")[steps]


def compact_images(X: Any, n_features: int) -> NDArray[np.float16]:
    """Features of unit length and logits minus the largest of each image, in half precision."""
    rows = scaled(X, normalize=False)
    logits = rows[:, n_features:]
    lowered = np.maximum(logits - logits.max(axis=1, keepdims=True), LOWEST)
    compact: NDArray[np.float16] = np.hstack([directions(rows[:, :n_features]), lowered]).astype(np.float16)
    return compact


def expected_evidence(X: Any, kept: Matrix, evidence: Matrix, n_features: int) -> Matrix:
    """Evidence to be expected of images that look like those of X, learned from kept images and theirs."""
    alike = fit_regression(looks(kept, n_features), evidence, FEATURE_PENALTY if n_features else PENALTY)
    chunks = (chunk for _, chunk in scaled_chunks(X, normalize=False))
    return np.vstack([alike.expected(looks(chunk, n_features)) for chunk in chunks])


class Regression(NamedTuple):
    """Evidence to be expected of an image with look z: ``(z - middle) weights + level``, a column a label."""

    weights: Matrix
    middle: Matrix
    level: Matrix

    def expected(self, z: Matrix) -> Matrix:
        """A row an image."""
        evidence: Matrix = (z - self.middle) @ self.weights + self.level
        return evidence


def fit_regression(z: Matrix, evidence: Matrix, penalty: float) -> Regression:
    """Minimise ``mean_i (evidence_i - level - <z_i - middle, w>)^2 + penalty |w|^2`` for each label.

    Level and middle are the means of the evidence and of the looks z. The weights are combinations of the looks,
    of which there are fewer than classes or features: that is the smaller system.
    """
    middle, level = z.mean(axis=0), evidence.mean(axis=0)
    z = z - middle
    gram = z @ z.T
    gram[np.diag_indices_from(gram)] += penalty * len(z)
    weights = z.T @ cho_solve(cho_factor(gram, lower=True, overwrite_a=True), evidence - level)
    return Regression(weights, middle, level)
