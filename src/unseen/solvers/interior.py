"""A second-order finish for the duals: an interior-point method on the few duals that matter.

Coordinate ascent converges linearly, and slowly where many free duals share few features, as with a small beta. It
still finds *which* duals may be non-zero: those it has raised, and those that the solution for them violates.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from unseen.validation import Matrix

MAX_STEPS = 60
TO_BOUNDARY = 0.995  # share of the longest feasible step that is taken


def solve_on_working_set(H: Matrix, side: NDArray[np.intp], caps: Matrix, tol: float) -> Matrix:
    """Minimise ``1/2 u'Hu - sum u`` over ``u >= 0`` with sums of at most ``caps`` on the sides.

    To a duality gap of ``tol``. Every iterate is feasible, here and in the dual problem: ``xi`` are the losses of
    the sides, ``y = Hu - 1 + xi`` the slacks of the margins, ``e`` what is left of the caps, and ``u'y + e'xi`` is
    the gap. Steps are Mehrotra's: predict, choose the target, correct.
    """
    u, e = 0.5 * caps[side] / np.bincount(side)[side], 0.5 * caps
    margins, xi = H @ u - 1.0, np.ones(len(caps))
    np.maximum.at(xi, side, 1.0 - margins)
    y = margins + xi[side]
    is_together = side[:, None] == side
    for _ in range(MAX_STEPS):
        gap = float(u @ y + e @ xi)
        if gap <= tol:
            few = _without_small(u, y, e, xi, side)
            if _gap(few, H, side, caps) <= tol:
                return few
        system = H + is_together * (xi / e)[side]
        system.flat[:: len(u) + 1] += y / u
        try:
            factor = scipy.linalg.cho_factor(system, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:
            break

        def step(
            of_u: Matrix, of_e: Matrix, factor: Any = factor, u: Matrix = u, e: Matrix = e, xi: Matrix = xi
        ) -> tuple[Matrix, ...]:
            """Newton step that changes the products ``u y`` and ``e xi`` by these amounts, to first order."""
            du: Matrix = scipy.linalg.cho_solve(factor, of_u / u - (of_e / e)[side], check_finite=False)
            de: Matrix = -np.bincount(side, du).astype(float)
            dxi = (of_e - xi * de) / e
            return du, H @ du + dxi[side], de, dxi

        du, dy, de, dxi = step(-u * y, -e * xi)
        length = _longest((u, du), (e, de), (y, dy), (xi, dxi))
        left = float((u + length * du) @ (y + length * dy) + (e + length * de) @ (xi + length * dxi)) / gap
        target = gap * left**3 / (len(u) + len(e))
        du, dy, de, dxi = step(target - u * y - du * dy, target - e * xi - de * dxi)
        length = min(TO_BOUNDARY * _longest((u, du), (e, de), (y, dy), (xi, dxi)), 1.0)
        u, e, y, xi = u + length * du, e + length * de, y + length * dy, xi + length * dxi
    return u


def _without_small(u: Matrix, y: Matrix, e: Matrix, xi: Matrix, side: NDArray[np.intp]) -> Matrix:
    """Drop duals below their slacks, which tend to zero; what they hold of a full side goes to the others."""
    kept = np.where(u < y, 0.0, u)
    sums = np.bincount(side, kept, minlength=len(e))
    caps = np.bincount(side, u, minlength=len(e)) + e
    wanted = np.where(e < xi, caps, np.minimum(sums, caps))
    return kept * (wanted / np.where(sums > 0.0, sums, 1.0))[side]


def _gap(u: Matrix, H: Matrix, side: NDArray[np.intp], caps: Matrix) -> float:
    margins, losses = H @ u, np.zeros(len(caps))
    np.maximum.at(losses, side, 1.0 - margins)
    return float(u @ margins - u.sum() + caps @ losses)


def _longest(*pairs: tuple[Matrix, Matrix]) -> float:
    """Largest step, at most ``1 / TO_BOUNDARY``, that keeps all values non-negative."""
    return min(
        1.0 / TO_BOUNDARY,
        *(float((-v[dv < 0.0] / dv[dv < 0.0]).min(initial=np.inf)) for v, dv in pairs),
    )
