"""The label subset whose summed vector points most nearly where an image points: exact branch and bound."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Matrix = NDArray[np.float64]

TIE = 1e-12  # relative: a later subset must be better by more


def best_subset(a: Matrix, K: Matrix, max_size: int) -> tuple[NDArray[np.intp], float]:
    """Maximise ``sum_S a / sqrt(sum_SxS K)`` over the non-empty subsets S of at most ``max_size`` labels.

    With ``a_c = <v, m_c>`` and ``K = M M'`` this is ``|v|`` times the cosine between v and the mean vector of S. A
    subset whose vectors cancel out has no direction and is never chosen.

    Returns
    -------
    ndarray of int
        Labels of the best subset, rising.
    float
        Its value.
    """
    order = np.argsort(-a, kind="stable")
    a, K = a[order], np.ascontiguousarray(K[np.ix_(order, order)])
    # Greedy first: a good subset at the start prunes most of the search.
    found, value = _greedy(a, K, max_size)
    if max_size > 1 and len(a) > 1:
        found, value = _search(a, K, max_size, found, value)
    return np.sort(order[found]), float(value)


@njit(cache=True)
def _value(total: float, square: float, scale: float) -> float:
    return total / np.sqrt(square) if square > 1e-14 * scale else -np.inf


@njit(cache=True)
def _greedy(a: Any, K: Any, max_size: int) -> Any:
    """Add the label that helps most while one does."""
    n = len(a)
    chosen, dots = np.zeros(n, dtype=np.bool_), np.zeros(n)
    total, square, best, scale = 0.0, 0.0, -np.inf, 0.0
    for _ in range(min(max_size, n)):
        winner = -1
        for c in range(n):
            if not chosen[c]:
                value = _value(total + a[c], square + 2.0 * dots[c] + K[c, c], scale + K[c, c])
                if (winner < 0 and best == -np.inf) or value > best + TIE * abs(best):
                    winner, best = c, value
        if winner < 0:
            break
        total, square = total + a[winner], square + 2.0 * dots[winner] + K[winner, winner]
        scale += K[winner, winner]
        chosen[winner] = True
        dots += K[winner]
    return np.flatnonzero(chosen), best


@njit(cache=True)
def _largest(values: Any, start: int, count: int) -> Any:
    """The ``count`` largest of ``values[start:]``, largest first, padded with zeros; only positive ones."""
    top = np.zeros(count)
    for i in range(start, len(values)):
        value, place = values[i], count - 1
        if value <= top[place]:
            continue
        while place > 0 and top[place - 1] < value:
            top[place] = top[place - 1]
            place -= 1
        top[place] = value
    return top


@njit(cache=True)
def _gains(a: Any, dots: Any, size: float, value: float) -> Any:
    """How much each label can add to ``sum a - value |sum m|``, for a sum whose present length is ``size``.

    ``|s + m| >= |s| + <s, m> / |s|``: the gains of any labels together are at most the sum of these.
    """
    return a - value * dots / size


@njit(cache=True)
def _length_bound(a: Any, dots: Any, total: float, square: float, start: int, more: int, low: Any) -> float:
    """No subset that adds up to ``more`` labels from ``start`` on has a higher value.

    The numerator takes the largest a (sorted, so the next ones), the squared length the smallest products.
    """
    smallest = np.full(more, np.inf)
    for i in range(start, len(dots)):
        value, place = dots[i], more - 1
        if value >= smallest[place]:
            continue
        while place > 0 and smallest[place - 1] > value:
            smallest[place] = smallest[place - 1]
            place -= 1
        smallest[place] = value
    bound, numerator, products = 0.0, total, 0.0
    for j in range(min(more, len(a) - start)):
        numerator += a[start + j]
        products += smallest[j]
        below = square + 2.0 * products + low[j + 1]
        if numerator > 0.0:
            if below <= 0.0:
                return np.inf
            bound = max(bound, numerator / np.sqrt(below))
    return bound


@njit(cache=True)
def _search(a: Any, K: Any, max_size: int, found: Any, best: float) -> Any:
    """Depth-first over subsets in rising order, without the branches that a bound shows to hold nothing better."""
    n = len(a)
    depth_limit = min(max_size, n)
    least_diagonal, least = np.inf, 0.0
    for i in range(n):
        least_diagonal = min(least_diagonal, K[i, i])
        for j in range(i):
            least = min(least, K[i, j])
    low = np.zeros(depth_limit + 1)  # of the squared length of a sum of j labels
    for j in range(depth_limit + 1):
        low[j] = max(0.0, j * least_diagonal + j * (j - 1) * least)
    path, totals, squares = np.full(depth_limit, -1), np.zeros(depth_limit + 1), np.zeros(depth_limit + 1)
    scales, dots = np.zeros(depth_limit + 1), np.zeros((depth_limit + 1, n))
    gains, slack = np.zeros((depth_limit, n)), np.zeros(depth_limit)
    # At the root any unit vector u gives |s| >= <u, s>; the direction of the best subset so far is the tightest.
    towards = np.zeros(n)
    for c in found:
        towards += K[c]
    size = 0.0
    for c in found:
        size += towards[c]
    has_gains = np.zeros(depth_limit, dtype=np.bool_)
    if best > 0.0:
        gains[0], has_gains[0] = _gains(a, towards, np.sqrt(size), best), True
        slack[0] = _largest(gains[0], 0, depth_limit)[: depth_limit - 1].sum()
    depth = 0
    while depth >= 0:
        path[depth] += 1
        c = path[depth]
        if c >= n:
            depth -= 1
            continue
        if has_gains[depth] and slack[depth] + gains[depth, c] < -TIE * abs(best):
            continue
        total = totals[depth] + a[c]
        square = squares[depth] + 2.0 * dots[depth, c] + K[c, c]
        scale = scales[depth] + K[c, c]
        value = _value(total, square, scale)
        if value > best + TIE * abs(best):
            best, found = value, path[: depth + 1].copy()
        more = depth_limit - depth - 1
        if more == 0 or c + 1 >= n:
            continue
        below = depth + 1
        for i in range(c + 1, n):
            dots[below, i] = dots[depth, i] + K[c, i]
        has_gains[below] = False
        if more > 1 and 0.0 < best >= _length_bound(a, dots[below], total, square, c + 1, more, low):
            continue
        if best > 0.0 and square > 1e-14 * scale:
            size = np.sqrt(square)
            gains[below], has_gains[below] = _gains(a, dots[below], size, best), True
            top = _largest(gains[below], c + 1, more)
            base = total - best * size
            if base + top.sum() <= 0.0:
                continue
            slack[below] = base + top[: more - 1].sum()
        totals[below], squares[below], scales[below] = total, square, scale
        path[below] = c
        depth = below
    return found, best
