"""What images alike say: evidence for a label as a ridge regression on the logits of some training images."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from unseen.rivals._linear import scaled_chunks, unit_rows

Matrix = NDArray[np.float64]

MOST_KEPT = 512  # training images: more do not do better, and these take 1 MB of a file for 1,000 classes
PENALTY = 0.03  # of the squared weights, beside the mean squared error
LOWEST = -6e4  # logits further below the largest are no numbers in half precision


def looks(logits: Matrix) -> Matrix:
    """Logits minus their mean over the classes, of unit length: the same for logits and log-probabilities."""
    centred = logits - logits.mean(axis=1, keepdims=True)
    largest = np.abs(centred).max(axis=1, keepdims=True)
    return unit_rows(centred / np.where(largest > 0.0, largest, 1.0))


def kept_images(X: Any) -> NDArray[np.float16]:
    """Logits of at most `MOST_KEPT` images, minus the largest of each image.

    They are taken in even steps from the most common look to the rarest: neither a random number nor the order of
    the images decides.
    """
    n_images = X.shape[0]
    if n_images > MOST_KEPT:
        common = sum(looks(chunk).sum(axis=0) for _, chunk in scaled_chunks(X, normalize=False)) / n_images
        likeness = np.concatenate([looks(chunk) @ common for _, chunk in scaled_chunks(X, normalize=False)])
        steps = np.linspace(0, n_images - 1, MOST_KEPT).round().astype(np.intp)
        X = X[np.argsort(-likeness, kind="stable")[steps]]
    kept = [chunk - chunk.max(axis=1, keepdims=True) for _, chunk in scaled_chunks(X, normalize=False)]
    logits: NDArray[np.float16] = np.maximum(np.vstack(kept), LOWEST).astype(np.float16)
    return logits


class Regression(NamedTuple):
    """Evidence to be expected of an image with look z: ``(z - middle) weights + level``, a column a label."""

    weights: Matrix
    middle: Matrix
    level: Matrix

    def expected(self, logits: Matrix) -> Matrix:
        """A row an image."""
        evidence: Matrix = (looks(logits) - self.middle) @ self.weights + self.level
        return evidence


def fit_regression(logits: Matrix, evidence: Matrix) -> Regression:
    """Minimise ``mean_i (evidence_i - level - <z_i - middle, w>)^2 + PENALTY |w|^2`` for each label.

    Level and middle are the means of the evidence and of the looks z. The weights are combinations of the looks,
    of which there are fewer than classes: that is the smaller system.
    """
    z = looks(logits)
    middle, level = z.mean(axis=0), evidence.mean(axis=0)
    z -= middle
    gram = z @ z.T
    gram[np.diag_indices_from(gram)] += PENALTY * len(z)
    weights = z.T @ cho_solve(cho_factor(gram, lower=True, overwrite_a=True), evidence - level)
    return Regression(weights, middle, level)
