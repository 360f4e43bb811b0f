"""Which labels are seen ones, by their vectors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

Matrix = NDArray[np.float64]

ROUNDING = 1e-5  # of the largest entry of a vector: what may differ between two calls of an encoder


def places_among(M: Matrix, seen: Matrix) -> NDArray[np.intp]:
    """Place among the seen labels of each label, or -1; a text has the same vector only up to rounding."""
    distances = cdist(M, seen, "chebyshev")
    nearest = distances.argmin(axis=1)
    close = distances.min(axis=1) <= ROUNDING * np.abs(seen[nearest]).max(axis=1)
    return np.where(close, nearest, -1)
