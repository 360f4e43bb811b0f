"""Values of boosted trees for many rows."""

# mypy: disable-error-code="no-untyped-def"
# compiled kernels: numba infers the types

import threading

import numpy as np
from numba import njit, prange

one_at_a_time = threading.Lock()  # some threading layers of numba must not be entered twice


@njit(cache=True, nogil=True, parallel=True)
def sum_of_many(quantities, features, thresholds, left, right, values):
    """Sum of the values of all trees, one per row; nodes as in `unseen.calibration.Trees`."""
    total = np.zeros(quantities.shape[0])
    for row in prange(quantities.shape[0]):
        for tree in range(features.shape[0]):
            node = 0
            while left[tree, node] >= 0:
                goes_left = quantities[row, features[tree, node]] <= thresholds[tree, node]
                node = left[tree, node] if goes_left else right[tree, node]
            total[row] += values[tree, node]
    return total
