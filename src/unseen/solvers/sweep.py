"""Block-coordinate ascent over some images: compiled loops, one for dense and one for CSR rows.

Both update the sparse duals and ``V = X' Psi A / beta`` in place. They visit the images in the given order, from
``start`` on, and return ``(stopped at, whether it was crowded, gap estimate, gain of the dual)``: they stop early,
with everything consistent, when a row needs more dual slots than there are, so that the caller can make room and
go on. They release the interpreter's lock, and several threads may work on one dense sweep.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from unseen.solvers.barrier import make_barrier, meet
from unseen.solvers.row import make_scratch, row_loss, solve_row

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
def _update_row(problems, duals, row, h, s, v, old, old_s, change, scratch, tol, max_steps):
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
    if solve_row(problems.K, h, t, s, v, tol, max_steps, scratch, problems.newton) == 0:
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


class SharedWork(NamedTuple):
    """Where the threads of a dense sweep meet: an entry a thread in each array but the barrier."""

    barrier: Any
    V_changes: Any  # what its block of rows does to V
    has_moved: Any
    is_crowded: Any


def share_work(n_threads, V):
    """Make room for the changes of V by so many threads."""
    flags = np.zeros((2, n_threads), np.bool_)
    return SharedWork(make_barrier(), np.empty((n_threads, *V.shape), V.dtype), flags[0], flags[1])


@njit(cache=True, nogil=True)
def sweep_dense(thread, shared, block, X, scale, squared_norms, problems, duals, order, start, V, tol, max_steps):
    """Visit dense rows in blocks, one a thread: matrix products a block, exact row-after-row updates inside it.

    A row that moves tells the later rows of its block through its products with them, so one thread makes the
    iterates of one row at a time; the rows of a block do not hear of the blocks that other threads work on at the
    same time. The order is the caller's, and should be drawn afresh for every pass. A row whose new duals do not
    fit keeps its old ones, and all threads stop after that block.
    """
    n_threads = shared.V_changes.shape[0]
    n_labels, width = problems.A.shape
    # Buffers for the products: fresh arrays for every block would be cleared by the system each time.
    rows, projected = np.empty((block, X.shape[1]), X.dtype), np.empty((block, width), X.dtype)
    scores, products = np.empty((block, n_labels), X.dtype), np.empty(block, X.dtype)
    changes, V_change = np.empty((block, width), X.dtype), shared.V_changes[thread]
    v, old, old_s = np.empty(n_labels), np.empty(n_labels), np.empty(n_labels)
    s, change, scratch = np.empty((block, n_labels)), np.empty(width), make_scratch(n_labels)
    gap, gain, is_crowded = 0.0, 0.0, False
    shared.is_crowded[thread] = False
    while start < order.shape[0] and not is_crowded:
        together = min(n_threads * block, order.shape[0] - start)
        first = start + thread * together // n_threads
        size = start + (thread + 1) * together // n_threads - first
        for i in range(size):
            row = order[first + i]
            for j in range(X.shape[1]):
                rows[i, j] = X[row, j] * scale[row]
        if size > 0:
            np.dot(rows[:size], V, projected[:size])
            np.dot(projected[:size], problems.At, scores[:size])
        for i in range(size):
            for c in range(n_labels):
                s[i, c] = scores[i, c]
        n_moved = 0
        for i in range(size):
            row = order[first + i]
            h = squared_norms[row] / problems.beta
            row_gap, row_gain, moved = _update_row(
                problems, duals, row, h, s[i], v, old, old_s, change, scratch, tol, max_steps
            )
            if row_gap == NO_ROOM:
                shared.is_crowded[thread] = True
                continue
            gap += row_gap
            gain += row_gain
            if moved and h > 0.0:
                if i + 1 < size:
                    np.dot(rows[i + 1 : size], rows[i], products[i + 1 : size])
                    _tell_others(i, size, products, squared_norms[row], old_s, s)
                # A moved row goes to the front, over rows that did not move: the next product takes it from there.
                if n_moved < i:
                    for j in range(X.shape[1]):  # as a slice it would take seconds to compile: numba checks shapes
                        rows[n_moved, j] = rows[i, j]
                for k in range(width):
                    changes[n_moved, k] = change[k]
                n_moved += 1
        shared.has_moved[thread] = n_moved > 0
        if n_moved > 0:
            np.dot(rows[:n_moved].T, changes[:n_moved], V_change)
        if not meet(shared.barrier, n_threads):
            break
        _add_changes(shared, V, thread * X.shape[1] // n_threads, (thread + 1) * X.shape[1] // n_threads)
        start += together
        is_crowded = shared.is_crowded.any()
        if not meet(shared.barrier, n_threads):
            break
    return start, is_crowded, gap, gain


@njit(cache=True)
def _add_changes(shared, V, first, last):
    """Add what all threads do to some features."""
    for k in range(shared.has_moved.shape[0]):
        if shared.has_moved[k]:
            V_change = shared.V_changes[k]
            for j in range(first, last):
                for c in range(V.shape[1]):
                    V[j, c] += V_change[j, c]


@njit(cache=True)
def _tell_others(i, size, products, squared_norm, old_s, s):
    """Add what the update of row ``i`` does to the margin scores of the later rows of the block."""
    for c in range(s.shape[1]):
        old_s[c] = s[i, c] - old_s[c]
    for j in range(i + 1, size):
        weight = products[j] / squared_norm
        for c in range(s.shape[1]):
            s[j, c] += weight * old_s[c]


@njit(cache=True, nogil=True)
def sweep_csr(data, indices, indptr, scale, problems, duals, order, start, V, tol, max_steps):
    """Visit CSR rows one after another: the work is proportional to a row's non-zeros."""
    n_labels, width = problems.A.shape
    z, change = np.empty(width), np.empty(width)
    v, old, s, old_s = np.empty(n_labels), np.empty(n_labels), np.empty(n_labels), np.empty(n_labels)
    scratch = make_scratch(n_labels)
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
            problems, duals, row, squared_norm / problems.beta, s, v, old, old_s, change, scratch, tol, max_steps
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
    return start, start < order.shape[0], gap, gain


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
