"""Class probabilities of images at two temperatures, and which classes are seen together."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.special import softmax

from unseen.baselines._linear import scaled_chunks

Matrix = NDArray[np.float64]

RANK = 64  # of the products of class probabilities that are kept: 128 kB for 1,000 classes


def refuse_probabilities(X: Any) -> None:
    """A softmax of probabilities is nearly flat: no error would show, only bad tags."""
    sums = np.asarray(X.sum(axis=1), dtype=np.float64).ravel()
    if X.shape[1] > 1 and X.min() >= 0.0 and np.abs(sums - 1.0).max() < 1e-2:
        raise ValueError(
            "X: its rows are probabilities, non-negative and of sum one. Pass the logits of the backbone, or "
            "np.log(X + 1e-12)."
        )


def readings(logits: Matrix, temperatures: Matrix) -> Matrix:
    """Softmax of the logits at each temperature, of shape (n_temperatures, n_images, n_classes)."""
    probabilities: Matrix = softmax(logits / temperatures[:, None, None], axis=2)
    return probabilities


def mean_readings(X: Any, temperatures: Matrix) -> tuple[Matrix, Matrix]:
    """Means over the images of the readings, a row a temperature, and of the products of the first with itself."""
    n_images, n_classes = X.shape
    totals, products = np.zeros((len(temperatures), n_classes)), np.zeros((n_classes, n_classes))
    for _, chunk in scaled_chunks(X, normalize=False):
        probabilities = readings(chunk, temperatures)
        totals += probabilities.sum(axis=1)
        products += probabilities[0].T @ probabilities[0]
    return totals / n_images, products / n_images


def factor(products: Matrix) -> NDArray[np.float16]:
    """F of at most `RANK` columns with ``F F^T`` nearest to the matrix, which is positive semidefinite."""
    n = len(products)
    values, vectors = scipy.linalg.eigh(products, subset_by_index=(max(0, n - RANK), n - 1))
    columns = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.ascontiguousarray(columns, dtype=np.float16)  # as read from a file: sums round the same way


def among_companions(spoken: Matrix, factors: NDArray[np.float16], shown: Matrix) -> Matrix:
    """Affinities to be expected on images that show a class: ``max(0, F F^T a) / shown``, a row a class."""
    F = factors.astype(np.float64)
    found = np.maximum(F @ (F.T @ spoken), 0.0)
    means: Matrix = np.divide(found, shown[:, None], out=np.zeros_like(found), where=shown[:, None] > 0.0)
    return means


def compact(vectors: Matrix) -> NDArray[np.floating[Any]]:
    """Vectors as float32 if that loses nothing, as with those of most encoders: files are half as large."""
    with np.errstate(over="ignore"):
        small = vectors.astype(np.float32)
    return small if np.array_equal(small, vectors) else vectors.copy()
