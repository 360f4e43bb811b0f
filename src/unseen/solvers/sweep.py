"""Block-coordinate ascent over some images: compiled loops, one for dense and one for CSR rows.

Both update the sparse duals and ``V = X' Psi A / beta`` in place. They visit the images in the given order,
from ``start`` on, and return ``(stopped at, gap estimate, gain of the dual)``: they stop early, with everything
consistent, when a row needs more dual slots than there are, so that the caller can make room and go on. They
release the interpreter's lock: several may run at once on different images and copies of V.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from unseen.solvers.row import row_loss, solve_row

NO_ROOM = -1.0


class RowProblems(NamedTuple):
    """What the problems of all rows share. ``A A' = K``; ``At = A'`` in the dtype of the images."""

    T: Any
    A: Any
    At: Any
    K: Any
    beta: float
    newton: bool | None  # see `solve_row`


class DualArrays(NamedTuple):
    """The rows of Psi: ``count[i]`` pairs (label, value) for image ``i``."""

    index: Any
    value: Any
    count: Any


@njit(cache=True, inline="always")
def _load_row(duals, row, v):
    v[:] = 0.0
    for k in range(duals.count[row]):
        v[duals.index[row, k]] = duals.value[row, k]


@njit(cache=True, inline="always")
def _store_row(duals, row, v):
    """Write the non-zeros of ``v``; False, with nothing written, when they do not fit."""
    used = 0
    for c in range(v.shape[0]):
        if v[c] != 0.0:
            used += 1
    if used > duals.index.shape[1]:
        return False
    k = 0
    for c in range(v.shape[0]):
        if v[c] != 0.0:
            duals.index[row, k] = c
            duals.value[row, k] = v[c]
            k += 1
    duals.count[row] = used
    return True


@njit(cache=True)
def _update_row(problems, duals, row, h, s, v, old, old_s, change, raised, tol, max_steps):
    """Solve the row at its margin scores ``s``, which follow; ``change`` becomes its ``(new - old) A / beta``.

    Returns the row's share of the duality gap before the update (`NO_ROOM` when its duals do not fit), the gain
    of the dual, and whether anything moved.
    """
    t, A = problems.T[row], problems.A
    n_labels, width = A.shape
    _load_row(duals, row, v)
    gap = row_loss(t, s)
    for k in range(duals.count[row]):
        c = duals.index[row, k]
        gap -= v[c] * (t[c] - s[c])
    for c in range(n_labels):
        old[c], old_s[c] = v[c], s[c]
    if solve_row(problems.K, h, t, s, v, tol, max_steps, raised, problems.newton) == 0:
        return max(gap, 0.0), 0.0, False
    if not _store_row(duals, row, v):
        return NO_ROOM, 0.0, False
    change[:] = 0.0
    gain = 0.0
    for c in range(n_labels):
        if v[c] != old[c]:
            moved = v[c] - old[c]
            gain += moved * (t[c] - 0.5 * (s[c] + old_s[c]))
            for k in range(width):
                change[k] += moved / problems.beta * A[c, k]
    return max(gap, 0.0), gain, True


@njit(cache=True, nogil=True)
def sweep_dense(X, scale, squared_norms, problems, duals, order, start, V, block, tol, max_steps):
    """Visit dense rows in blocks: matrix products a block, exact row-after-row updates inside it.

    A row that moves tells the later rows of its block through its products with them, so the iterates are those of
    one row at a time; the order is the caller's, and should be drawn afresh for every pass.
    """
    n_labels, width = problems.A.shape
    rows = np.empty((block, X.shape[1]), X.dtype)
    changes = np.empty((block, width), X.dtype)
    v, old, old_s = np.empty(n_labels), np.empty(n_labels), np.empty(n_labels)
    s, change, raised = np.empty((block, n_labels)), np.empty(width), np.empty(2, np.int64)
    gap, gain = 0.0, 0.0
    while start < order.shape[0]:
        size = min(block, order.shape[0] - start)
        for i in range(size):
            row = order[start + i]
            for j in range(X.shape[1]):
                rows[i, j] = X[row, j] * scale[row]
        scores = np.dot(np.dot(rows[:size], V), problems.At)
        for i in range(size):
            for c in range(n_labels):
                s[i, c] = scores[i, c]
        done, n_moved = size, 0
        for i in range(size):
            row = order[start + i]
            h = squared_norms[row] / problems.beta
            row_gap, row_gain, moved = _update_row(
                problems, duals, row, h, s[i], v, old, old_s, change, raised, tol, max_steps
            )
            if row_gap == NO_ROOM:
                done = i
                break
            gap += row_gap
            gain += row_gain
            if moved and h > 0.0:
                _tell_others(rows, i, size, squared_norms[row], old_s, s)
                # A moved row goes to the front, over rows that did not move: the next product takes it from there.
                if n_moved < i:
                    for j in range(X.shape[1]):  # as a slice it would take seconds to compile: numba checks shapes
                        rows[n_moved, j] = rows[i, j]
                for k in range(width):
                    changes[n_moved, k] = change[k]
                n_moved += 1
        if n_moved > 0:
            V += np.dot(rows[:n_moved].T, changes[:n_moved])
        start += done
        if done < size:
            break
    return start, gap, gain


@njit(cache=True, inline="always")
def _tell_others(rows, i, size, squared_norm, old_s, s):
    """Add what the update of row ``i`` does to the margin scores of the later rows of the block."""
    if i + 1 == size:
        return
    products = np.dot(rows[i + 1 : size], rows[i])
    for c in range(s.shape[1]):
        old_s[c] = s[i, c] - old_s[c]
    for j in range(i + 1, size):
        weight = products[j - i - 1] / squared_norm
        for c in range(s.shape[1]):
            s[j, c] += weight * old_s[c]


@njit(cache=True, nogil=True)
def sweep_csr(data, indices, indptr, scale, problems, duals, order, start, V, tol, max_steps):
    """Visit CSR rows one after another: the work is proportional to a row's non-zeros."""
    n_labels, width = problems.A.shape
    z, change = np.empty(width), np.empty(width)
    v, old, s, old_s = np.empty(n_labels), np.empty(n_labels), np.empty(n_labels), np.empty(n_labels)
    raised = np.empty(2, np.int64)
    gap, gain = 0.0, 0.0
    while start < order.shape[0]:
        row = order[start]
        z[:] = 0.0
        squared_norm = 0.0
        for e in range(indptr[row], indptr[row + 1]):
            x = np.float64(data[e]) * scale[row]
            squared_norm += x * x
            for k in range(width):
                z[k] += x * V[indices[e], k]
        _scores(problems.A, z, s)
        row_gap, row_gain, moved = _update_row(
            problems, duals, row, squared_norm / problems.beta, s, v, old, old_s, change, raised, tol, max_steps
        )
        if row_gap == NO_ROOM:
            break
        gap += row_gap
        gain += row_gain
        if moved:
            for e in range(indptr[row], indptr[row + 1]):
                x = np.float64(data[e]) * scale[row]
                for k in range(width):
                    V[indices[e], k] += x * change[k]
        start += 1
    return start, gap, gain


@njit(cache=True, inline="always")
def _scores(A, z, s):
    for c in range(A.shape[0]):
        score = 0.0
        for k in range(A.shape[1]):
            score += A[c, k] * z[k]
        s[c] = score


@njit(cache=True, nogil=True)
def total_loss(S, T):
    """Sum over images of the loss at margin scores ``S``."""
    total = 0.0
    for i in range(S.shape[0]):
        total += row_loss(T[i], S[i])
    return total
