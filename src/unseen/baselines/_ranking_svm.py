"""Principal directions: for each image the ranking SVM whose direction puts its labels before all others.

Minimises over w, for an image with the positive labels P and the negative labels N::

    1 / (|P| |N|) sum over p in P, n in N of [1 - <w, m_p> + <w, m_n>]_+  +  alpha/2 |w|^2

by coordinate ascent in the dual, one variable in [0, 1 / (|P| |N|)] a pair, to a certified gap.
"""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False

from __future__ import annotations

import warnings

import numpy as np
from numba import njit
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

Matrix = NDArray[np.float64]

MAX_PASSES = 10_000


@njit(cache=True)
def rank_labels(K, t, alpha, tol, max_passes, b):
    """Solve for one image; ``b`` becomes the coefficients of ``w = sum_c b_c m_c``.

    ``K`` holds the inner products of the labels and ``t`` the targets 1, -1 and 0 (unknown, in no pair). Returns
    the relative duality gap.
    """
    positives, negatives = np.flatnonzero(t > 0), np.flatnonzero(t < 0)
    n_pairs = len(positives) * len(negatives)
    b[:] = 0.0
    if n_pairs == 0:
        return 0.0
    cap = 1.0 / n_pairs
    pair = np.zeros((len(positives), len(negatives)))
    s = np.zeros(K.shape[0])
    gap = 1.0
    for _ in range(max_passes):
        for i in range(len(positives)):
            p = positives[i]
            for j in range(len(negatives)):
                n = negatives[j]
                short = 1.0 - s[p] + s[n]
                curvature = (K[p, p] + K[n, n] - 2.0 * K[p, n]) / alpha
                new = cap if short > 0.0 else 0.0
                if curvature > 1e-12 / alpha * (K[p, p] + K[n, n]):
                    new = min(max(pair[i, j] + short / curvature, 0.0), cap)
                change = (new - pair[i, j]) / alpha
                if change != 0.0:
                    pair[i, j] = new
                    b[p] += change
                    b[n] -= change
                    for c in range(K.shape[0]):
                        s[c] += change * (K[c, p] - K[c, n])
        loss = 0.0
        for p in positives:
            for n in negatives:
                loss += max(1.0 - s[p] + s[n], 0.0) * cap
        squares = alpha * np.dot(b, s)
        primal = loss + 0.5 * squares
        gap = (primal - pair.sum() + 0.5 * squares) / max(primal, 1e-300)
        if gap <= tol:
            break
    return gap


def principal_directions(M: Matrix, T: NDArray[np.int8], *, alpha: float, tol: float) -> tuple[Matrix, float]:
    """Direction of every image (a row of T) in the space of the label vectors M, and the largest relative gap.

    Images with the same annotations share their direction, which is found once.
    """
    patterns, which = np.unique(T, axis=0, return_inverse=True)
    K = M @ M.T
    coefficients = np.zeros(patterns.shape)
    gaps = [rank_labels(K, t, alpha, tol, MAX_PASSES, b) for t, b in zip(patterns, coefficients, strict=True)]
    gap = float(max(gaps, default=0.0))
    if gap > tol:
        warnings.warn(
            f"The ranking SVM of an image stopped at a relative gap of {gap:.2g} > tol={tol:g}: "
            f"raise alpha or tol.",
            ConvergenceWarning,
            stacklevel=2,
        )
    directions: Matrix = (coefficients @ M)[which.ravel()]
    return directions, gap
