"""The row problem: the dual variables of one image, all others fixed.

With ``h = |x_i|^2 / beta``, ``K`` the label kernel and ``t`` in {-1, 0, +1} the image's targets, the new row
``v`` minimises ``1/2 h v'Kv + (s - h K psi - t)'v`` subject to ``sign(v_c) = t_c``, positives that sum to at most
one, and absolute negatives that do too. ``psi`` is the old row and ``s`` the margin scores that it gives. (The
paper writes the same problem with ``v`` as both the new row and an increment.)

In ``u = t v >= 0`` the gradient is ``t_c s_c - 1`` at the *current* margin scores, so a step only has to keep
``s`` up to date. Each side is a simplex once a slack of gradient zero is added to it.

Pairwise steps find the labels that matter; where the caps do not bind they approach the values slowly, and
`newton_row` jumps to them. With many labels both work on the few that are non-zero or violated.
"""

# mypy: disable-error-code="no-untyped-def"
# compiled kernels: numba infers the types

import numpy as np
from numba import njit

SLACK = -1
FLAT = 1e-14  # a pair of labels whose kernel vectors coincide: the objective is linear along it
FEW_LABELS = 24  # up to this many, pairwise steps consider all labels
NEWCOMERS = 4  # labels added to a working set on each side beyond the non-zero ones
PATIENCE = 30  # pairwise steps before a Newton step is tried, and between two of them
AT_CAP = 1.0 - 1e-12
DEPENDENT = 1e-10  # relative pivot below which a label adds no new direction
NO_ANCHOR = -1


@njit(cache=True, fastmath={"reassoc", "contract"})
def _product(a, b):
    total = 0.0
    for k in range(a.shape[0]):
        total += a[k] * b[k]
    return total


@njit(cache=True)
def row_loss(t, s, is_mean):
    """``max over positives of [1 - s]_+  +  max over negatives of [1 + s]_+``, or means; an empty side adds 0."""
    largest, total, n_labels = np.zeros(2), np.zeros(2), np.zeros(2)
    for c in range(t.shape[0]):
        if t[c] != 0:
            side, excess = 0 if t[c] > 0 else 1, max(1.0 - t[c] * s[c], 0.0)
            largest[side] = max(largest[side], excess)
            total[side] += excess
            n_labels[side] += 1.0
    if is_mean:
        return total[0] / max(n_labels[0], 1.0) + total[1] / max(n_labels[1], 1.0)
    return largest[0] + largest[1]


@njit(cache=True)
def solve_row_of_means(A, h, t, s, v, tol, max_sweeps):
    """`solve_row` for means in place of maxima: one label after another; return how often one moved.

    The only constraints are then ``0 <= t_c v_c <= 1 / (labels on its side)``. Scores follow by the factor A of
    the label kernel: ``s + A z`` with z the sum of the changes.
    """
    caps, z, n_moved = np.zeros(2), np.zeros(A.shape[1]), 0
    for c in range(t.shape[0]):
        if t[c] != 0:
            caps[0 if t[c] > 0 else 1] += 1.0
    for _ in range(max_sweeps):
        n_before = n_moved
        for c in range(t.shape[0]):
            if t[c] == 0:
                continue
            cap, mass = 1.0 / caps[0 if t[c] > 0 else 1], t[c] * v[c]
            gradient = t[c] * (s[c] + (_product(A[c], z) if n_moved > 0 else 0.0)) - 1.0
            if abs(gradient) <= tol or (gradient > 0.0 and mass == 0.0) or (gradient < 0.0 and mass == cap):
                continue
            curvature, new = h * _product(A[c], A[c]), cap if gradient < 0.0 else 0.0
            if curvature > FLAT:
                new = min(max(mass - gradient / curvature, 0.0), cap)
            for k in range(len(z)):
                z[k] += h * t[c] * (new - mass) * A[c, k]
            v[c] = t[c] * new
            n_moved += 1
        if n_moved == n_before:
            break
    if n_moved > 0:
        for c in range(t.shape[0]):
            s[c] += _product(A[c], z)
    return n_moved


@njit(cache=True)
def solve_row(K, h, t, s, v, tol, max_steps, is_factor):
    """Solve one row problem, in place; return the number of pairwise steps taken.

    ``v`` enters as the old row and leaves as the new one; ``s`` are its margin scores, before and after.
    ``is_factor`` is None for pairwise steps alone, which are compiled far sooner; False for working sets; True for
    working sets with the factor A of the kernel ``A A'`` in place of K. The answer satisfies the optimality
    conditions to ``tol`` in the gradient unless ``max_steps`` ran out.
    """
    used = np.zeros(2)  # sum of the positives, and of the absolute negatives
    for c in range(t.shape[0]):
        if v[c] > 0.0:
            used[0] += v[c]
        else:
            used[1] -= v[c]
    if is_factor is None:  # a type of its own, so that the rest is not compiled
        return _pairwise(K, h, t, s, v, used, tol, max_steps)
    steps = 0
    while steps < max_steps:
        if _violation(1, t, s, v, used[0])[0] <= tol and _violation(-1, t, s, v, used[1])[0] <= tol:
            break
        taken = _solve_on_working_set(K, h, t, s, v, used, tol, max_steps - steps, is_factor)
        if taken == 0:
            break
        steps += taken
    return steps


@njit(cache=True)
def _pairwise(K, h, t, s, v, used, tol, max_steps):
    """Take pairwise steps until the optimality conditions hold to ``tol``; return how many were taken."""
    for step in range(max_steps):
        positive, raised = _violation(1, t, s, v, used[0])
        negative, raised_negative = _violation(-1, t, s, v, used[1])
        if positive <= tol and negative <= tol:
            return step
        side = 0
        if positive < negative:
            side, raised = 1, raised_negative
        lowered, difference = _best_partner(K, h, side, t, s, v, used[side], raised)
        if difference <= 0.0:
            return step
        _move(K, h, side, raised, lowered, difference, s, v, used)
    return max_steps


@njit(cache=True, inline="always")
def _violation(sign, t, s, v, used):
    """How far one side is from optimal, and its label to raise, that of the lowest gradient."""
    lowest, raised = 0.0, SLACK
    highest = 0.0 if used < 1.0 else -np.inf
    for c in range(t.shape[0]):
        if t[c] == sign:
            gradient = sign * s[c] - 1.0
            if gradient < lowest:
                lowest, raised = gradient, c
            if v[c] != 0.0 and gradient > highest:
                highest = gradient
    return highest - lowest, raised


@njit(cache=True, inline="always")
def _best_partner(K, h, side, t, s, v, used, raised):
    """The non-zero label (or the slack) that gains most by giving mass to ``raised``, and the gradient difference.

    The gain of an unbounded step is half the squared difference over the curvature, as in LIBSVM.
    """
    sign = 1.0 if side == 0 else -1.0
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
    """Add ``change`` to the dual of one label and update the margin scores."""
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
    longest = 1.0 - used[side] if lowered == SLACK else abs(v[lowered])
    step = longest
    if h * curvature > FLAT and difference < h * curvature * longest:
        step = difference / (h * curvature)
    if raised == SLACK:
        used[side] -= step
    else:
        _shift(K, h, raised, sign * step, s, v)
    if lowered == SLACK:
        used[side] = 1.0 if step == longest else used[side] + step
    else:
        _shift(K, h, lowered, -sign * step, s, v)
        if step == longest:
            v[lowered] = 0.0


@njit(cache=True)
def _working_set(t, s, v, chosen):
    """Choose the non-zero labels and the worst `NEWCOMERS` of each side; return their number."""
    worst, gradients = np.empty((2, NEWCOMERS), np.int64), np.empty((2, NEWCOMERS))
    n_worst = np.zeros(2, np.int64)
    n_chosen = 0
    for c in range(t.shape[0]):
        if v[c] != 0.0:
            chosen[n_chosen] = c
            n_chosen += 1
            continue
        gradient = t[c] * s[c] - 1.0
        if t[c] == 0 or gradient >= 0.0:
            continue
        side = 0 if t[c] > 0 else 1
        k = n_worst[side]
        if k == NEWCOMERS:
            if gradient >= gradients[side, k - 1]:
                continue
            k -= 1
        else:
            n_worst[side] += 1
        while k > 0 and gradients[side, k - 1] > gradient:
            gradients[side, k], worst[side, k] = gradients[side, k - 1], worst[side, k - 1]
            k -= 1
        gradients[side, k], worst[side, k] = gradient, c
    for side in range(2):
        for k in range(n_worst[side]):
            chosen[n_chosen] = worst[side, k]
            n_chosen += 1
    return n_chosen


@njit(cache=True)
def _solve_on_working_set(K, h, t, s, v, used, tol, max_steps, is_factor):
    """Solve the row for the labels of a working set only, then bring the scores of all labels up to date."""
    chosen = np.empty(t.shape[0], np.int64)
    chosen = chosen[: _working_set(t, s, v, chosen)]
    m = len(chosen)
    K_part, t_part, s_part, v_part = np.empty((m, m)), t[chosen], s[chosen], v[chosen]
    for i in range(m):
        for j in range(m):
            K_part[i, j] = _product(K[chosen[i]], K[chosen[j]]) if is_factor else K[chosen[i], chosen[j]]
    steps = _pairwise(K_part, h, t_part, s_part, v_part, used, tol, min(PATIENCE, max_steps))
    while PATIENCE <= steps < max_steps:
        newton_row(K_part, h, t_part, s_part, v_part, used)
        more = min(PATIENCE, max_steps - steps)
        taken = _pairwise(K_part, h, t_part, s_part, v_part, used, tol, more)
        steps += taken
        if taken < more:
            break
    if steps > 0:
        total = np.zeros(K.shape[1])
        for i in range(m):
            label = chosen[i]
            change = v_part[i] - v[label]
            if change != 0.0:
                v[label] = v_part[i]
                for c in range(K.shape[1]):
                    total[c] += h * change * K[label, c]
        for c in range(s.shape[0]):
            s[c] += _product(K[c], total) if is_factor else total[c]
    return steps


@njit(cache=True)
def newton_row(K, h, t, s, v, used):
    """Maximise the dual of the row over its non-zero labels, within signs and caps; in place, never worse.

    The variables are ``u = t v >= 0``. On a side whose cap binds, one label (the anchor, that of the largest mass)
    takes what the others give: its column is subtracted from theirs, and only bounds are left. An active-set
    loop: a step that meets the boundary stops there, what met it is fixed, and the next step is taken on the
    smaller face.
    """
    most = np.count_nonzero(v)
    labels, anchors, capped = np.empty(most, np.int64), np.empty(2, np.int64), used >= AT_CAP
    H, gradient, step = np.empty((most, most)), np.empty(most), np.empty(most)
    for _ in range(2 * most + 2):
        n = _choose_anchors(t, v, capped, anchors, labels)
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


@njit(cache=True)
def _choose_anchors(t, v, capped, anchors, labels):
    """Write the anchor of each capped side, and the other non-zero labels; return the number of these."""
    anchors[:] = NO_ANCHOR
    for c in range(v.shape[0]):
        side = 0 if t[c] > 0 else 1
        if v[c] != 0.0 and capped[side] and (anchors[side] == NO_ANCHOR or abs(v[c]) > abs(v[anchors[side]])):
            anchors[side] = c
    n = 0
    for c in range(v.shape[0]):
        if v[c] != 0.0 and c != anchors[0] and c != anchors[1]:
            labels[n] = c
            n += 1
    return n


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
    """Add mass to a label; rounding never changes its sign."""
    moved = v[label] + t[label] * mass
    if moved * t[label] < 0.0:
        moved = 0.0
    _shift(K, h, label, moved - v[label], s, v)
    v[label] = moved
