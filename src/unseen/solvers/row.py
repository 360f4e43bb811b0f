"""The row problem: one image's dual variables, all others fixed.

With ``h = |x_i|^2 / beta``, ``K`` the label kernel and ``t`` in {-1, 0, +1} the image's targets, the new row
``v`` minimises ``1/2 h v'Kv + (s - h K psi - t)'v`` over ``C_i``: ``sign(v_c) = t_c``, the positives sum to at
most one, and so do the absolute negatives. ``psi`` is the old row and ``s`` the margin scores that it gives.
(The paper writes the same problem with ``v`` as both the new row and an increment.)

In ``u = t v >= 0`` the gradient is ``t_c s_c - 1`` at the *current* margin scores, so a step only has to keep
``s`` up to date. Each side is a simplex once a slack of gradient zero is added to it.
"""

import numpy as np
from numba import njit

SLACK = -1
FLAT = 1e-14  # a pair of labels whose kernel vectors coincide: the objective is linear along it


@njit(cache=True, inline="always")
def _worst_pairs(t, s, v, used, pairs):
    """Find, on each side, the label to raise (lowest gradient) and the one to lower (highest, in use).

    Writes ``pairs[side] = (raise, lower)`` and returns how far each side is from optimal.
    """
    lowest_pos, highest_pos, lowest_neg, highest_neg = 0.0, -np.inf, 0.0, -np.inf
    pairs[:] = SLACK
    if used[0] < 1.0:
        highest_pos = 0.0
    if used[1] < 1.0:
        highest_neg = 0.0
    for c in range(t.shape[0]):
        if t[c] > 0:
            gradient = s[c] - 1.0
            if gradient < lowest_pos:
                lowest_pos = gradient
                pairs[0, 0] = c
            if v[c] > 0.0 and gradient > highest_pos:
                highest_pos = gradient
                pairs[0, 1] = c
        elif t[c] < 0:
            gradient = -s[c] - 1.0
            if gradient < lowest_neg:
                lowest_neg = gradient
                pairs[1, 0] = c
            if v[c] < 0.0 and gradient > highest_neg:
                highest_neg = gradient
                pairs[1, 1] = c
    return highest_pos - lowest_pos, highest_neg - lowest_neg


@njit(cache=True, inline="always")
def _shift(K, h, label, change, s, v):
    """Add ``change`` to the dual of one label and keep the margin scores true."""
    v[label] += change
    for c in range(s.shape[0]):
        s[c] += h * change * K[label, c]


@njit(cache=True, inline="always")
def _move(K, h, side, raised, lowered, violation, s, v, used):
    """Exact line search along a pair: the mass leaves ``lowered`` for ``raised``; either may be the slack."""
    sign = 1.0 if side == 0 else -1.0
    if raised == SLACK:
        curvature = K[lowered, lowered]
    elif lowered == SLACK:
        curvature = K[raised, raised]
    else:
        curvature = K[raised, raised] + K[lowered, lowered] - 2.0 * K[raised, lowered]
    room = 1.0 - used[side] if lowered == SLACK else abs(v[lowered])
    step = room
    if h * curvature > FLAT and violation < h * curvature * room:
        step = violation / (h * curvature)
    if raised == SLACK:
        used[side] -= step
    else:
        _shift(K, h, raised, sign * step, s, v)
    if lowered == SLACK:
        used[side] = 1.0 if step == room else used[side] + step
    else:
        _shift(K, h, lowered, -sign * step, s, v)
        if step == room:
            v[lowered] = 0.0


@njit(cache=True)
def solve_row(K, h, t, s, v, tol, max_steps, pairs):
    """Solve one row problem by pairwise steps, in place; return the number of steps taken.

    ``v`` enters as the old row and leaves as the new one; ``s`` are its margin scores, before and after;
    ``pairs`` is a 2 x 2 integer work array. The answer satisfies the optimality conditions to ``tol`` in the
    gradient unless ``max_steps`` ran out (a caller that comes back to the row loses nothing by that: every
    step improves the dual).
    """
    used = np.zeros(2)
    for c in range(t.shape[0]):
        if v[c] > 0.0:
            used[0] += v[c]
        else:
            used[1] -= v[c]
    for step in range(max_steps):
        positive, negative = _worst_pairs(t, s, v, used, pairs)
        if positive <= tol and negative <= tol:
            return step
        side = 0 if positive >= negative else 1
        _move(K, h, side, pairs[side, 0], pairs[side, 1], max(positive, negative), s, v, used)
    return max_steps


@njit(cache=True)
def row_loss(t, s):
    """``max over positives of [1 - s]_+  +  max over negatives of [1 + s]_+``; an empty side costs nothing."""
    positive = negative = 0.0
    for c in range(t.shape[0]):
        if t[c] > 0:
            positive = max(positive, 1.0 - s[c])
        elif t[c] < 0:
            negative = max(negative, 1.0 + s[c])
    return positive + negative
