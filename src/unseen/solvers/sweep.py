"""One pass of block-coordinate ascent over the images: compiled loops, one for dense and one for CSR rows.

Both update the sparse duals and ``V = X' Psi A / beta`` in place. They visit the images in the given order,
from ``start`` on, and return ``(stopped at, gap estimate)``: they stop early, with everything consistent, when a
row needs more dual slots than there are, so that the caller can make room and go on.
"""

import numpy as np
from numba import njit

from unseen.solvers.row import row_loss, solve_row


@njit(cache=True, inline="always")
def _load_row(index, value, count, row, v):
    v[:] = 0.0
    for k in range(count[row]):
        v[index[row, k]] = value[row, k]


@njit(cache=True, inline="always")
def _store_row(index, value, count, row, v):
    """Write the non-zeros of ``v``; False, with nothing written, when they do not fit."""
    used = 0
    for c in range(v.shape[0]):
        if v[c] != 0.0:
            used += 1
    if used > index.shape[1]:
        return False
    k = 0
    for c in range(v.shape[0]):
        if v[c] != 0.0:
            index[row, k] = c
            value[row, k] = v[c]
            k += 1
    count[row] = used
    return True


@njit(cache=True, inline="always")
def _update_row(row, z, h, T, A, K, beta, index, value, count, v, old, s, change, pairs, tol, max_steps):
    """Solve the row whose projection is ``z``; ``change`` becomes its ``(new - old) A / beta``.

    Returns the row's share of the duality gap before the update, or -1 when its duals do not fit.
    """
    n_labels, width = A.shape
    for c in range(n_labels):
        score = 0.0
        for k in range(width):
            score += A[c, k] * z[k]
        s[c] = score
    _load_row(index, value, count, row, v)
    gap = row_loss(T[row], s)
    for c in range(n_labels):
        old[c] = v[c]
        gap -= v[c] * (T[row, c] - s[c])
    change[:] = 0.0
    if solve_row(K, h, T[row], s, v, tol, max_steps, pairs) > 0:
        if not _store_row(index, value, count, row, v):
            return -1.0
        for c in range(n_labels):
            if v[c] != old[c]:
                for k in range(width):
                    change[k] += (v[c] - old[c]) / beta * A[c, k]
    return max(gap, 0.0)


@njit(cache=True)
def sweep_dense(
    X, scale, T, A, K, beta, order, start, index, value, count, V, block, tol, max_steps
):  # pragma: no cover - compiled
    """Visit dense rows in blocks: two matrix products a block, exact row-after-row updates inside it.

    The rows of a block see each other's updates through the block's Gram matrix, so the iterates are those of
    one row at a time; the order is the caller's, and should be drawn afresh for every pass.
    """
    n_labels, width = A.shape
    gathered = np.empty((block, X.shape[1]), X.dtype)
    changes = np.zeros((block, width), X.dtype)
    z, change = np.empty(width), np.empty(width)
    v, old, s = np.empty(n_labels), np.empty(n_labels), np.empty(n_labels)
    pairs = np.empty((2, 2), np.int64)
    gap = 0.0
    while start < order.shape[0]:
        size = min(block, order.shape[0] - start)
        for i in range(size):
            row = order[start + i]
            for j in range(X.shape[1]):
                gathered[i, j] = X[row, j] * scale[row]
        rows = gathered[:size]
        projected = np.dot(rows, V)
        gram = np.dot(rows, rows.T)
        changes[:] = 0.0
        done = size
        for i in range(size):
            for k in range(width):
                total = np.float64(projected[i, k])
                for j in range(i):
                    total += gram[i, j] * changes[j, k]
                z[k] = total
            row, h = order[start + i], np.float64(gram[i, i]) / beta
            row_gap = _update_row(
                row, z, h, T, A, K, beta, index, value, count, v, old, s, change, pairs, tol, max_steps
            )
            if row_gap < 0.0:
                done = i
                break
            gap += row_gap
            for k in range(width):
                changes[i, k] = change[k]
        V += np.dot(rows.T, changes[:size])
        start += done
        if done < size:
            break
    return start, gap


@njit(cache=True)
def sweep_csr(
    data, indices, indptr, scale, T, A, K, beta, order, start, index, value, count, V, tol, max_steps
):  # pragma: no cover - compiled
    """Visit CSR rows one after another: the work is proportional to a row's non-zeros."""
    n_labels, width = A.shape
    z, change = np.empty(width), np.empty(width)
    v, old, s = np.empty(n_labels), np.empty(n_labels), np.empty(n_labels)
    pairs = np.empty((2, 2), np.int64)
    gap = 0.0
    while start < order.shape[0]:
        row = order[start]
        z[:] = 0.0
        squared_norm = 0.0
        for e in range(indptr[row], indptr[row + 1]):
            x = np.float64(data[e]) * scale[row]
            squared_norm += x * x
            for k in range(width):
                z[k] += x * V[indices[e], k]
        row_gap = _update_row(
            row, z, squared_norm / beta, T, A, K, beta, index, value, count, v, old, s, change, pairs, tol,
            max_steps,
        )  # fmt: skip
        if row_gap < 0.0:
            break
        gap += row_gap
        for e in range(indptr[row], indptr[row + 1]):
            x = np.float64(data[e]) * scale[row]
            for k in range(width):
                V[indices[e], k] += x * change[k]
        start += 1
    return start, gap


@njit(cache=True)
def total_loss(Z, A, T):
    """Sum over images of the loss at margin scores ``Z A'``."""
    n_labels, width = A.shape
    s = np.empty(n_labels)
    total = 0.0
    for i in range(Z.shape[0]):
        for c in range(n_labels):
            score = 0.0
            for k in range(width):
                score += A[c, k] * Z[i, k]
            s[c] = score
        total += row_loss(T[i], s)
    return total
