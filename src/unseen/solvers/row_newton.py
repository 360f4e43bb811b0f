"""A Newton finish for the row problem: the optimum on the labels in use is one small linear system away.

The variables are ``u = t v >= 0`` of the labels in use. On a side whose cap binds, one label (the anchor, that of
the largest mass) takes what the others give: its column is subtracted from theirs, and only bounds are left.
"""

# mypy: disable-error-code="no-untyped-def"
# compiled kernels: numba infers the types

import numpy as np
from numba import njit

AT_CAP = 1.0 - 1e-12
DEPENDENT = 1e-10  # relative pivot below which a label adds no direction of its own
NO_ANCHOR = -1


@njit(cache=True)
def _labels_in_use(v, labels):
    n = 0
    for c in range(v.shape[0]):
        if v[c] != 0.0:
            labels[n] = c
            n += 1
    return n


@njit(cache=True)
def _choose_anchors(t, v, capped, labels, n, anchors):
    """Write the anchor of each capped side, and the other labels in use to the front of ``labels``."""
    anchors[:] = NO_ANCHOR
    for i in range(n):
        side = 0 if t[labels[i]] > 0 else 1
        if capped[side] and (anchors[side] == NO_ANCHOR or abs(v[labels[i]]) > abs(v[anchors[side]])):
            anchors[side] = labels[i]
    n_moving = 0
    for i in range(n):
        if labels[i] != anchors[0] and labels[i] != anchors[1]:
            labels[n_moving] = labels[i]
            n_moving += 1
    return n_moving


@njit(cache=True)
def _reduce(K, h, t, s, labels, n, anchors, H, gradient):
    """Hessian (lower part) and gradient of the dual in the masses of the moving labels."""
    for i in range(n):
        a = labels[i]
        ra = anchors[0 if t[a] > 0 else 1]
        gradient[i] = 1.0 - t[a] * s[a]
        if ra != NO_ANCHOR:
            gradient[i] -= 1.0 - t[ra] * s[ra]
        for j in range(i + 1):
            b = labels[j]
            rb = anchors[0 if t[b] > 0 else 1]
            entry = K[a, b]
            if ra != NO_ANCHOR:
                entry -= K[ra, b]
            if rb != NO_ANCHOR:
                entry -= K[a, rb]
                if ra != NO_ANCHOR:
                    entry += K[ra, rb]
            H[i, j] = h * t[a] * t[b] * entry


@njit(cache=True, fastmath={"reassoc", "contract"})
def _factor(H, n):
    """Cholesky factor in place; stops at the first dependent row and returns its number (n if there is none)."""
    for i in range(n):
        own = H[i, i]
        for j in range(i):
            total = H[i, j]
            for k in range(j):
                total -= H[i, k] * H[j, k]
            H[i, j] = total / H[j, j]
        pivot = own
        for k in range(i):
            pivot -= H[i, k] * H[i, k]
        if pivot <= DEPENDENT * own:
            return i, max(pivot, 0.0)
        H[i, i] = np.sqrt(pivot)
    return n, 0.0


@njit(cache=True)
def _solve_upper(H, n, b):
    """Solve ``L' x = b`` in place."""
    for i in range(n - 1, -1, -1):
        b[i] /= H[i, i]
        for k in range(i):
            b[k] -= H[i, k] * b[i]


@njit(cache=True)
def _direction(H, gradient, n, step):
    """Newton step, or the null direction of the first dependent label; returns how far the dual rises along it."""
    independent, curvature = _factor(H, n)
    step[:n] = 0.0
    if independent == n:
        for i in range(n):
            total = gradient[i]
            for k in range(i):
                total -= H[i, k] * step[k]
            step[i] = total / H[i, i]
        _solve_upper(H, n, step)
        return 1.0
    for k in range(independent):
        step[k] = -H[independent, k]
    _solve_upper(H, independent, step)
    step[independent] = 1.0
    slope = 0.0
    for k in range(independent + 1):
        slope += gradient[k] * step[k]
    if slope < 0.0:
        slope = -slope
        for k in range(independent + 1):
            step[k] = -step[k]
    return np.inf if slope >= 1e12 * curvature else slope / curvature


@njit(cache=True)
def _longest(t, v, used, labels, n, step, anchors, rise):
    """How far the step can go, at most ``rise``; which label it empties (or side it fills, as ``-2 - side``)."""
    length, blocking = rise, -1
    growth = np.zeros(2)
    for i in range(n):
        growth[0 if t[labels[i]] > 0 else 1] += step[i]
        if step[i] < 0.0 and abs(v[labels[i]]) < -length * step[i]:
            length, blocking = abs(v[labels[i]]) / -step[i], labels[i]
    for side in range(2):
        if growth[side] <= 0.0:
            continue
        if anchors[side] != NO_ANCHOR:
            if abs(v[anchors[side]]) < length * growth[side]:
                length, blocking = abs(v[anchors[side]]) / growth[side], anchors[side]
        elif 1.0 - used[side] < length * growth[side]:
            length, blocking = (1.0 - used[side]) / growth[side], -2 - side
    return length, blocking, growth


@njit(cache=True)
def _add(K, h, t, s, v, label, mass):
    """Add mass to a label; rounding never changes its sign. Keeps the margin scores true."""
    moved = v[label] + t[label] * mass
    if moved * t[label] < 0.0:
        moved = 0.0
    change = h * (moved - v[label])
    v[label] = moved
    for c in range(s.shape[0]):
        s[c] += change * K[label, c]


@njit(cache=True)
def newton_row(K, h, t, s, v, used):
    """Maximise the dual of the row over the labels in use, signs and caps kept; in place, never worse.

    An active-set loop: a step that meets the boundary stops there, what met it is fixed, and the next step is
    taken on the smaller face.
    """
    labels = np.empty(v.shape[0], np.int64)
    most = _labels_in_use(v, labels)
    anchors, capped = np.empty(2, np.int64), np.empty(2, np.bool_)
    for side in range(2):
        capped[side] = used[side] >= AT_CAP
    H, gradient, step = np.empty((most, most)), np.empty(most), np.empty(most)
    for _ in range(2 * most + 2):
        n = _choose_anchors(t, v, capped, labels, _labels_in_use(v, labels), anchors)
        if n == 0:
            return
        _reduce(K, h, t, s, labels, n, anchors, H, gradient)
        rise = _direction(H, gradient, n, step)
        length, blocking, growth = _longest(t, v, used, labels, n, step, anchors, rise)
        if not np.isfinite(length):
            return
        for i in range(n):
            if step[i] != 0.0:
                _add(K, h, t, s, v, labels[i], length * step[i])
        for side in range(2):
            if anchors[side] != NO_ANCHOR:
                _add(K, h, t, s, v, anchors[side], -length * growth[side])
            else:
                used[side] = min(max(used[side] + length * growth[side], 0.0), 1.0)
        if blocking == -1:
            return
        if blocking >= 0:
            _add(K, h, t, s, v, blocking, -2.0 * abs(v[blocking]))
        else:
            capped[-2 - blocking] = True
            used[-2 - blocking] = 1.0
