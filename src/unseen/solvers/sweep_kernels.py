"""Block-coordinate ascent over some images: compiled loops, one for dense and one for CSR rows.

Both update the sparse duals and ``V = X' Psi A / beta`` in place. They visit the images in the given order, from
``start`` on, and return ``(where it stopped, whether slots ran out, gap estimate, gain of the dual)``: they stop
early, with everything consistent, when a row needs more dual slots than there are, so that the caller can double
them and continue. They release the interpreter's lock, and several threads may work on one dense sweep.

An image of weight w has caps w instead of 1. With ``v = psi / w`` its row problem is that of `row_kernels`, with
``h = w |x|^2 / beta``.
"""

# mypy: disable-error-code="no-untyped-def, misc, call-arg, var-annotated"
# compiled kernels: numba infers the types

import ctypes
import sys
from typing import Any, NamedTuple

import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from unseen.solvers.row_kernels import row_loss, solve_row, solve_row_of_means

NO_SLOT = -1.0
MEAN_SWEEPS = 5  # over the labels of a row; the rest is done at its next visit
SPINS = 2000  # polls of the counter before yielding the processor: about a microsecond
ARRIVED, MEETINGS, ABORTED = 0, 8, 16  # places in the barrier's array, on cache lines of their own


class RowProblems(NamedTuple):
    """Data shared by all row problems. ``A A' = K``; ``At = A'`` in the dtype of the images."""

    T: Any
    weights: Any
    A: Any
    At: Any
    K: Any  # or A, see `solve_row`
    beta: float
    is_factor: bool | None  # see `solve_row`
    is_mean: bool  # each side costs the mean over its labels, not the maximum


class SharedWork(NamedTuple):
    """State shared by the threads of a dense sweep: one entry per thread in each array but the barrier."""

    barrier: Any  # 24 zeros
    V_changes: Any  # change of V by its block of rows
    has_moved: Any
    lacks_slots: Any


@njit(cache=True)
def _update_row(problems, duals, row, squared_norm, s, v, old, old_s, change, tol, max_steps):
    """Solve the row at its margin scores ``s``, which follow; ``change`` becomes its ``(new - old) A / beta``.

    Returns the row's share of the duality gap before the update (`NO_SLOT` when its duals do not fit), the gain
    of the dual, and whether anything moved.
    """
    index, value, count = duals
    t, A, weight = problems.T[row], problems.A, problems.weights[row]
    n_labels, width = A.shape
    if weight == 0.0:
        return 0.0, 0.0, False
    v[:] = 0.0
    gap = row_loss(t, s, problems.is_mean)
    for k in range(count[row]):
        c = index[row, k]
        v[c] = value[row, k] / weight
        gap -= v[c] * (t[c] - s[c])
    gap = weight * max(gap, 0.0)
    for c in range(n_labels):
        old[c], old_s[c] = v[c], s[c]
    h = weight * squared_norm / problems.beta
    if problems.is_mean:
        n_steps = solve_row_of_means(A, h, t, s, v, tol, MEAN_SWEEPS)
    else:
        n_steps = solve_row(problems.K, h, t, s, v, tol, max_steps, problems.is_factor)
    if n_steps == 0:
        return gap, 0.0, False
    if np.count_nonzero(v) > index.shape[1]:
        return NO_SLOT, 0.0, False
    change[:] = 0.0
    gain = 0.0
    count[row] = 0
    for c in range(n_labels):
        if v[c] != 0.0:
            index[row, count[row]], value[row, count[row]] = c, weight * v[c]
            count[row] += 1
        if v[c] != old[c]:
            moved = weight * (v[c] - old[c])
            gain += moved * (t[c] - 0.5 * (s[c] + old_s[c]))
            for k in range(width):
                change[k] += moved / problems.beta * A[c, k]
    return gap, gain, True


@njit(cache=True, nogil=True)
def sweep_dense(shared, block, X, scale, squared_norms, problems, duals, order, start, V, tol, max_steps, thread):
    """Visit dense rows in blocks, one per thread: matrix products per block, row-after-row updates inside it.

    A row that moves changes the scores of the later rows of its block through its products with them; a block does
    not see the blocks that other threads work on at the same time. A row whose new duals do not fit keeps its old
    ones, and all threads stop after that block.
    """
    n_threads = shared.V_changes.shape[0]
    n_labels, width = problems.A.shape
    # Buffers for the products: the system would clear new arrays for every block.
    rows, projected = np.empty((block, X.shape[1]), X.dtype), np.empty((block, width), X.dtype)
    scores, products = np.empty((block, n_labels), X.dtype), np.empty(block, X.dtype)
    changes, V_change = np.empty((block, width), X.dtype), shared.V_changes[thread]
    v, old, old_s = np.empty(n_labels), np.empty(n_labels), np.empty(n_labels)
    s, change = np.empty((block, n_labels)), np.empty(width)
    gap, gain, lacks_slots = 0.0, 0.0, False
    shared.lacks_slots[thread] = False
    while start < order.shape[0] and not lacks_slots:
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
            squared_norm = squared_norms[row]
            row_gap, row_gain, moved = _update_row(
                problems, duals, row, squared_norm, s[i], v, old, old_s, change, tol, max_steps
            )
            if row_gap == NO_SLOT:
                shared.lacks_slots[thread] = True
                continue
            gap += row_gap
            gain += row_gain
            if moved and squared_norm > 0.0:
                if i + 1 < size:
                    np.dot(rows[i + 1 : size], rows[i], products[i + 1 : size])
                    _update_later_rows(i, size, products, squared_norm, old_s, s)
                # Moved rows are packed at the front, over unmoved ones, for the next product.
                if n_moved < i:
                    for j in range(X.shape[1]):  # a slice would take seconds to compile, as numba checks shapes
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
        lacks_slots = shared.lacks_slots.any()
        if not meet(shared.barrier, n_threads):
            break
    return start, lacks_slots, gap, gain


@njit(cache=True)
def _update_later_rows(i, size, products, squared_norm, old_s, s):
    """Add the effect of the update of row ``i`` to the margin scores of the later rows of the block."""
    for c in range(s.shape[1]):
        old_s[c] = s[i, c] - old_s[c]
    for j in range(i + 1, size):
        share = products[j] / squared_norm
        for c in range(s.shape[1]):
            s[j, c] += share * old_s[c]


@njit(cache=True)
def _add_changes(shared, V, first, last):
    for k in range(shared.has_moved.shape[0]):
        if shared.has_moved[k]:
            V_change = shared.V_changes[k]
            for j in range(first, last):
                for c in range(V.shape[1]):
                    V[j, c] += V_change[j, c]


@njit(cache=True, nogil=True)
def sweep_csr(data, indices, indptr, scale, problems, duals, order, start, V, tol, max_steps):
    """Visit CSR rows one after another: the work is proportional to a row's non-zeros."""
    n_labels, width = problems.A.shape
    z, change = np.empty(width), np.empty(width)
    v, old, s, old_s = np.empty(n_labels), np.empty(n_labels), np.empty(n_labels), np.empty(n_labels)
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
        for c in range(n_labels):
            s[c] = 0.0
            for k in range(width):
                s[c] += problems.A[c, k] * z[k]
        row_gap, row_gain, moved = _update_row(
            problems, duals, row, squared_norm, s, v, old, old_s, change, tol, max_steps
        )
        if row_gap == NO_SLOT:
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


@njit(cache=True, nogil=True)
def total_loss(S, T, weights, is_mean):
    """Weighted sum over images of the loss at margin scores ``S``."""
    total = 0.0
    for i in range(S.shape[0]):
        total += weights[i] * row_loss(T[i], S[i], is_mean)
    return total


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def squared_lengths(X, scale):
    """Squared lengths of the rows ``scale[i] * X[i]``."""
    squared = np.zeros(X.shape[0])
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            squared[i] += np.float64(X[i, j] * scale[i]) ** 2
    return squared


# The threads of a sweep meet thousands of times a second: a barrier of the standard library, which goes through
# the interpreter, would cost more than the work between two meetings.


def abort(barrier):
    """Release the threads that wait, now and later: one of them has failed and will not arrive."""
    barrier[ABORTED] = 1


@intrinsic
def _atomic_add(typing_context, array, place, amount):
    """Add to ``array[place]`` as one indivisible step; return the value before.

    What others wrote before they changed that entry is visible afterwards.
    """

    def generate(context, builder, signature, arguments):
        view = context.make_array(signature.args[0])(context, builder, arguments[0])
        pointer = cgutils.get_item_pointer(context, builder, signature.args[0], view, [arguments[1]])
        return builder.atomic_rmw("add", pointer, arguments[2], "seq_cst")

    return types.int64(array, types.intp, types.int64), generate


if sys.platform != "win32" and hasattr(ctypes.CDLL(None), "sched_yield"):
    _offer_processor = types.ExternalFunction("sched_yield", types.int32())
else:

    @njit(cache=True)
    def _offer_processor():
        return 0


@njit(cache=True)
def meet(barrier, n_threads):
    """Wait until all threads arrive; False if the barrier was aborted."""
    meeting = _atomic_add(barrier, MEETINGS, 0)
    if _atomic_add(barrier, ARRIVED, 1) == n_threads - 1:
        _atomic_add(barrier, ARRIVED, -n_threads)
        _atomic_add(barrier, MEETINGS, 1)
        return True
    spins = 0
    while _atomic_add(barrier, MEETINGS, 0) == meeting:
        if _atomic_add(barrier, ABORTED, 0) != 0:
            return False
        spins += 1
        if spins > SPINS:
            _offer_processor()
    return True
