"""The row problem: one image's dual variables, all others fixed.

With ``h = |x_i|^2 / beta``, ``K`` the label kernel and ``t`` in {-1, 0, +1} the image's targets, the new row
``v`` minimises ``1/2 h v'Kv + (s - h K psi - t)'v`` over ``C_i``: ``sign(v_c) = t_c``, the positives sum to at
most one, and so do the absolute negatives. ``psi`` is the old row and ``s`` the margin scores that it gives.
(The paper writes the same problem with ``v`` as both the new row and an increment.)

In ``u = t v >= 0`` the gradient is ``t_c s_c - 1`` at the *current* margin scores, so a step only has to keep
``s`` up to date. Each side is a simplex once a slack of gradient zero is added to it.

Pairwise steps find the labels that matter; where the caps do not bind they close in on the values only slowly, and
`unseen.solvers.row_newton` jumps to them. With many labels both work on the few that are in use or wrong.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from unseen.solvers.row_newton import newton_row

SLACK = -1
FLAT = 1e-14  # a pair of labels whose kernel vectors coincide: the objective is linear along it
FEW_LABELS = 24  # up to here the pairwise steps look at all labels
NEWCOMERS = 4  # labels that a working set takes in on each side beyond those in use
PATIENCE = 30  # pairwise steps before a Newton step is tried, and between two of them


class Scratch(NamedTuple):
    """Work arrays of `solve_row`: allocated once for many rows, since that costs as much as a pairwise step."""

    raised: Any
    used: Any
    chosen: Any
    K: Any
    t: Any
    s: Any
    v: Any
    worst: Any
    gradients: Any
    found: Any


@njit(cache=True)
def make_scratch(n_labels):
    """Work arrays for rows of so many labels."""
    return Scratch(
        np.empty(2, np.int64),
        np.empty(2),
        np.empty(n_labels, np.int64),
        np.empty(n_labels * n_labels),
        np.empty(n_labels, np.int8),
        np.empty(n_labels),
        np.empty(n_labels),
        np.empty((2, NEWCOMERS), np.int64),
        np.empty((2, NEWCOMERS)),
        np.empty(2, np.int64),
    )


@njit(cache=True, inline="always")
def _violations(t, s, v, used, raised):
    """How far each side is from optimal; writes the label to raise (lowest gradient) of each side."""
    lowest_pos, highest_pos, lowest_neg, highest_neg = 0.0, -np.inf, 0.0, -np.inf
    raised[0] = raised[1] = SLACK
    if used[0] < 1.0:
        highest_pos = 0.0
    if used[1] < 1.0:
        highest_neg = 0.0
    for c in range(t.shape[0]):
        if t[c] > 0:
            gradient = s[c] - 1.0
            if gradient < lowest_pos:
                lowest_pos = gradient
                raised[0] = c
            if v[c] > 0.0 and gradient > highest_pos:
                highest_pos = gradient
        elif t[c] < 0:
            gradient = -s[c] - 1.0
            if gradient < lowest_neg:
                lowest_neg = gradient
                raised[1] = c
            if v[c] < 0.0 and gradient > highest_neg:
                highest_neg = gradient
    return highest_pos - lowest_pos, highest_neg - lowest_neg


@njit(cache=True, inline="always")
def _best_partner(K, h, sign, t, s, v, used, raised):
    """The label in use (or the slack) that gains most by giving mass to ``raised``, and the gradient difference.

    The gain of an unbounded step is half the squared difference over the curvature, as in LIBSVM.
    """
    base, own = 0.0, 0.0
    if raised != SLACK:
        base, own = sign * s[raised] - 1.0, K[raised, raised]
    partner, difference, most = SLACK, 0.0, 0.0
    if raised != SLACK and used < 1.0 and base < 0.0:
        difference = -base
        most = base * base / max(h * own, FLAT)
    for c in range(t.shape[0]):
        if v[c] * sign > 0.0 and c != raised:
            fall = sign * s[c] - 1.0 - base
            if fall > 0.0:
                curvature = K[c, c]
                if raised != SLACK:
                    curvature += own - 2.0 * K[raised, c]
                gain = fall * fall / max(h * curvature, FLAT)
                if gain > most:
                    most, partner, difference = gain, c, fall
    return partner, difference


@njit(cache=True, inline="always")
def _shift(K, h, label, change, s, v):
    """Add ``change`` to the dual of one label and keep the margin scores true."""
    v[label] += change
    for c in range(s.shape[0]):
        s[c] += h * change * K[label, c]


@njit(cache=True, inline="always")
def _move(K, h, side, raised, lowered, difference, s, v, used):
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
    if h * curvature > FLAT and difference < h * curvature * room:
        step = difference / (h * curvature)
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
def _pairwise(K, h, t, s, v, used, tol, max_steps, raised):
    """Take pairwise steps until the optimality conditions hold to ``tol``; return how many were taken."""
    for step in range(max_steps):
        positive, negative = _violations(t, s, v, used, raised)
        if positive <= tol and negative <= tol:
            return step
        side = 0 if positive >= negative else 1
        sign = 1.0 if side == 0 else -1.0
        lowered, difference = _best_partner(K, h, sign, t, s, v, used[side], raised[side])
        if difference <= 0.0:
            return step
        _move(K, h, side, raised[side], lowered, difference, s, v, used)
    return max_steps


@njit(cache=True)
def _working_set(t, s, v, scratch):
    """Choose the labels in use and the worst `NEWCOMERS` of each side; return their number."""
    chosen, worst, gradients, found = scratch.chosen, scratch.worst, scratch.gradients, scratch.found
    n_chosen = 0
    found[:] = 0
    for c in range(t.shape[0]):
        if v[c] != 0.0:
            chosen[n_chosen] = c
            n_chosen += 1
            continue
        gradient = t[c] * s[c] - 1.0
        if t[c] == 0 or gradient >= 0.0:
            continue
        side = 0 if t[c] > 0 else 1
        k = found[side]
        if k == NEWCOMERS:
            if gradient >= gradients[side, k - 1]:
                continue
            k -= 1
        else:
            found[side] += 1
        while k > 0 and gradients[side, k - 1] > gradient:
            gradients[side, k], worst[side, k] = gradients[side, k - 1], worst[side, k - 1]
            k -= 1
        gradients[side, k], worst[side, k] = gradient, c
    for side in range(2):
        for k in range(found[side]):
            chosen[n_chosen] = worst[side, k]
            n_chosen += 1
    return n_chosen


@njit(cache=True)
def _solve_on(m, K, h, t, s, v, tol, max_steps, scratch):
    """Solve the row for the ``m`` chosen labels only, then bring the scores of all labels up to date."""
    chosen, used, raised = scratch.chosen, scratch.used, scratch.raised
    K_part = scratch.K[: m * m].reshape(m, m)
    t_part, s_part, v_part = scratch.t[:m], scratch.s[:m], scratch.v[:m]
    for i in range(m):
        t_part[i], s_part[i], v_part[i] = t[chosen[i]], s[chosen[i]], v[chosen[i]]
        for j in range(m):
            K_part[i, j] = K[chosen[i], chosen[j]]
    steps = _pairwise(K_part, h, t_part, s_part, v_part, used, tol, min(PATIENCE, max_steps), raised)
    while PATIENCE <= steps < max_steps:
        newton_row(K_part, h, t_part, s_part, v_part, used)
        more = min(PATIENCE, max_steps - steps)
        taken = _pairwise(K_part, h, t_part, s_part, v_part, used, tol, more, raised)
        steps += taken
        if taken < more:
            break
    if steps > 0:
        for i in range(m):
            label = chosen[i]
            change = v_part[i] - v[label]
            if change != 0.0:
                _shift(K, h, label, change, s, v)
                v[label] = v_part[i]
    return steps


@njit(cache=True)
def solve_row(K, h, t, s, v, tol, max_steps, scratch, newton):
    """Solve one row problem, in place; return the number of pairwise steps taken.

    ``v`` enters as the old row and leaves as the new one; ``s`` are its margin scores, before and after;
    ``scratch`` comes from `make_scratch`. ``newton`` is True, or None for pairwise steps alone, which are
    compiled far sooner. The answer satisfies the optimality conditions to ``tol`` in the
    gradient unless ``max_steps`` ran out (a caller that comes back to the row loses nothing by that: every
    step improves the dual).
    """
    used, raised = scratch.used, scratch.raised
    used[:] = 0.0
    for c in range(t.shape[0]):
        if v[c] > 0.0:
            used[0] += v[c]
        else:
            used[1] -= v[c]
    if newton is None:  # of a type of its own, so that the rest is not even compiled
        return _pairwise(K, h, t, s, v, used, tol, max_steps, raised)
    steps = 0
    while steps < max_steps:
        positive, negative = _violations(t, s, v, used, raised)
        if positive <= tol and negative <= tol:
            break
        n_chosen = _working_set(t, s, v, scratch)
        taken = _solve_on(n_chosen, K, h, t, s, v, tol, max_steps - steps, scratch)
        if taken == 0:
            break
        steps += taken
    return steps


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
