"""Rows of a feature matrix, whether dense, memory-mapped or sparse."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def check_rows(X: Any, n_images: int) -> Any:
    """``X`` as something whose rows can be taken: sparse becomes CSR, a sequence becomes an array."""
    if hasattr(X, "tocsr"):
        X = X.tocsr()
    elif not isinstance(X, np.ndarray):
        X = np.asarray(X)
    if X.ndim != 2 or X.shape[0] != n_images:
        raise ValueError(
            f"X: its shape is {X.shape} while the label matrix has {n_images} rows. Pass one row an image."
        )
    return X


def take_rows(X: Any, images: NDArray[np.intp]) -> Any:
    """``X[images]``, images rising; ``X`` itself, not copied, when these are all its rows."""
    return X if images.size == X.shape[0] else X[images]
