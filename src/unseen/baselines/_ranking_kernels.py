"""Compiled loops of stochastic subgradient descent on a pairwise ranking loss of one or several bilinear maps.

An image x has the projections ``z = x V``, where V (n_features, n_maps * rank) holds the maps side by side, and a
label with coordinates ``C_c`` the score ``s_c = max_k <z_k, C_c>``. Updates of V are in place.
"""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False

import numpy as np
from numba import njit


@njit(cache=True)
def pair_loss(t, s, worst, slope):
    """Hinge loss ``[1 - s_p + s_n]_+`` of the (positive, negative) pairs of an image, and its slope in ``s``.

    Its mean over all pairs, or its largest value if ``worst``. Labels with target 0 belong to no pair.
    """
    slope[:] = 0.0
    if worst:
        lowest, highest = -1, -1
        for c in range(t.shape[0]):
            if t[c] > 0 and (lowest < 0 or s[c] < s[lowest]):
                lowest = c
            if t[c] < 0 and (highest < 0 or s[c] > s[highest]):
                highest = c
        if lowest < 0 or highest < 0 or s[lowest] - s[highest] >= 1.0:
            return 0.0
        slope[lowest], slope[highest] = -1.0, 1.0
        return 1.0 - s[lowest] + s[highest]
    loss, n_pairs = 0.0, 0
    for p in range(t.shape[0]):
        if t[p] > 0:
            for n in range(t.shape[0]):
                if t[n] < 0:
                    n_pairs += 1
                    short = 1.0 - s[p] + s[n]
                    if short > 0.0:
                        loss += short
                        slope[p] -= 1.0
                        slope[n] += 1.0
    if n_pairs > 0:
        slope /= n_pairs
        loss /= n_pairs
    return loss


@njit(cache=True)
def best_maps(z, C, s, best):
    """Score of every label, and the map that gives it; of equal maps the first."""
    n_labels, rank = C.shape
    for c in range(n_labels):
        s[c] = -np.inf
        for k in range(z.shape[0] // rank):
            score = 0.0
            for j in range(rank):
                score += z[k * rank + j] * C[c, j]
            if score > s[c]:
                s[c] = score
                best[c] = k


@njit(cache=True)
def _image_slope(z, C, t, worst, s, best, slope, change):
    """Slope of an image's loss in its projections ``z``, written to ``change``."""
    rank = C.shape[1]
    best_maps(z, C, s, best)
    change[:] = 0.0
    if pair_loss(t, s, worst, slope) > 0.0:
        for c in range(C.shape[0]):
            if slope[c] != 0.0:
                for j in range(rank):
                    change[best[c] * rank + j] += slope[c] * C[c, j]


@njit(cache=True)
def descend_dense(X, scale, T, C, order, steps, alpha, worst, V):  # pragma: no cover - compiled
    """One pass over dense rows, in as many blocks as there are ``steps`` (their lengths)."""
    n_blocks, n_labels, width = steps.shape[0], C.shape[0], V.shape[1]
    block = -(-order.shape[0] // n_blocks)
    gathered = np.empty((block, X.shape[1]), X.dtype)
    changes = np.empty((block, width), X.dtype)
    z, change = np.empty(width), np.empty(width)
    s, slope, best = np.empty(n_labels), np.empty(n_labels), np.empty(n_labels, np.int64)
    for b in range(n_blocks):
        chosen = order[b * block : (b + 1) * block]
        size = chosen.shape[0]
        for i in range(size):
            for j in range(X.shape[1]):
                gathered[i, j] = X[chosen[i], j] * scale[chosen[i]]
        rows = gathered[:size]
        projected = np.dot(rows, V)
        for i in range(size):
            z[:] = projected[i]
            _image_slope(z, C, T[chosen[i]], worst, s, best, slope, change)
            for j in range(width):
                changes[i, j] = -steps[b] / size * change[j]
        moved = np.dot(rows.T, changes[:size])
        kept = 1.0 - steps[b] * alpha
        for i in range(V.shape[0]):
            for j in range(width):
                V[i, j] = kept * V[i, j] + moved[i, j]


@njit(cache=True)
def descend_csr(data, indices, indptr, scale, T, C, order, steps, alpha, worst, V):  # pragma: no cover - compiled
    """One pass over CSR rows; the decay of V is kept in a scalar, so the work is that of the non-zeros."""
    n_blocks, n_labels, width = steps.shape[0], C.shape[0], V.shape[1]
    block = -(-order.shape[0] // n_blocks)
    changes = np.empty((block, width))
    z = np.empty(width)
    s, slope, best = np.empty(n_labels), np.empty(n_labels), np.empty(n_labels, np.int64)
    kept = 1.0
    for b in range(n_blocks):
        chosen = order[b * block : (b + 1) * block]
        for i in range(chosen.shape[0]):
            row = chosen[i]
            z[:] = 0.0
            for e in range(indptr[row], indptr[row + 1]):
                for j in range(width):
                    z[j] += data[e] * scale[row] * kept * V[indices[e], j]
            _image_slope(z, C, T[row], worst, s, best, slope, changes[i])
        kept *= 1.0 - steps[b] * alpha
        if kept < 1e-3:
            V *= kept
            kept = 1.0
        for i in range(chosen.shape[0]):
            row = chosen[i]
            factor = -steps[b] / chosen.shape[0] / kept * scale[row]
            for e in range(indptr[row], indptr[row + 1]):
                for j in range(width):
                    V[indices[e], j] += factor * data[e] * changes[i, j]
    V *= kept


@njit(cache=True)
def total_pair_loss(Z, C, T, worst, wins):
    """Sum of the images' losses at projections ``Z``; ``wins`` counts the positives that each map scores."""
    n_labels = C.shape[0]
    s, slope, best = np.empty(n_labels), np.empty(n_labels), np.empty(n_labels, np.int64)
    total = 0.0
    for i in range(Z.shape[0]):
        best_maps(Z[i], C, s, best)
        total += pair_loss(T[i], s, worst, slope)
        for c in range(n_labels):
            if T[i, c] > 0:
                wins[best[c]] += 1
    return total
