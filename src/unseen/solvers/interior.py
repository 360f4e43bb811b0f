"""A second-order finish for the duals: an interior-point method on the few duals that matter.

Coordinate ascent converges linearly, and slowly where many free duals share few features, as with a small beta. It
still finds *which* duals may be non-zero: those it has raised, and those that the solution for them violates.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from unseen.validation import Matrix

MAX_STEPS = 60
TO_BOUNDARY = 0.995  # share of the longest feasible step that is taken


def solve_on_working_set(H: Matrix, side: NDArray[np.intp], caps: Matrix, tol: float) -> Matrix:
    """Minimise ``1/2 u'Hu - sum u`` over ``u >= 0`` with sums of at most ``caps`` on every side, to a gap of ``tol``.

    Every iterate is feasible, for this problem and for its dual: ``xi`` are the losses of the sides, ``y = Hu + xi -
    1`` the slacks of the margins, ``e`` what is left of the caps, and ``u'y + e'xi`` is the duality gap. Steps are
    Mehrotra's: predict, choose the target, correct.
    """
    u = 0.5 * caps[side] / np.bincount(side, minlength=len(caps))[side]
    e = 0.5 * caps
    margins = H @ u - 1.0
    xi = np.ones(len(caps))
    np.maximum.at(xi, side, 1.0 - margins)
    y = margins + xi[side]
    n = len(u) + len(e)
    for _ in range(MAX_STEPS):
        gap = float(u @ y + e @ xi)
        if gap <= tol:
            few = _without_small(u, y, e, xi, side)
            if _gap(few, H, side, caps) <= tol:
                return few
        share = xi / e
        system = H + np.where(side[:, None] == side, share[side], 0.0)
        system.flat[:: len(u) + 1] += y / u
        try:
            factor = scipy.linalg.cho_factor(system, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:
            break

        def direction(pull_u: Matrix, pull_e: Matrix, factor=factor, share=share):
            """Newton step to ``u y + pull_u`` and ``e xi + pull_e`` of zero."""
            right = -(pull_u + u * y) / u + ((pull_e + e * xi) / e)[side]
            du = scipy.linalg.cho_solve(factor, right, check_finite=False)
            de = -np.bincount(side, du, minlength=len(caps))
            dxi = -(pull_e + e * xi) / e - share * de
            return du, H @ du + dxi[side], de, dxi

        du, dy, de, dxi = direction(0.0, 0.0)
        primal, dual = _longest((u, du), (e, de)), _longest((y, dy), (xi, dxi))
        after = float((u + primal * du) @ (y + dual * dy) + (e + primal * de) @ (xi + dual * dxi))
        target = gap / n * (after / gap) ** 3
        du, dy, de, dxi = direction(du * dy - target, de * dxi - target)
        primal, dual = TO_BOUNDARY * _longest((u, du), (e, de)), TO_BOUNDARY * _longest((y, dy), (xi, dxi))
        length = min(primal, dual, 1.0)
        u, e = u + length * du, e + length * de
        y, xi = y + length * dy, xi + length * dxi
    return u


def _without_small(u: Matrix, y: Matrix, e: Matrix, xi: Matrix, side: NDArray[np.intp]) -> Matrix:
    """Drop duals below their slacks, which tend to zero; what they hold of a full side goes to the others."""
    kept = np.where(u < y, 0.0, u)
    sums = np.bincount(side, kept, minlength=len(e))
    caps = np.bincount(side, u, minlength=len(e)) + e
    wanted = np.where(e < xi, caps, np.minimum(sums, caps))
    return kept * (wanted / np.where(sums > 0.0, sums, 1.0))[side]


def _gap(u: Matrix, H: Matrix, side: NDArray[np.intp], caps: Matrix) -> float:
    """Duality gap of feasible duals."""
    margins, losses = H @ u, np.zeros(len(caps))
    np.maximum.at(losses, side, 1.0 - margins)
    return float(u @ margins - u.sum() + caps @ losses)


def _longest(*pairs: tuple[Matrix, Matrix]) -> float:
    """Largest step, at most ``1 / TO_BOUNDARY``, that keeps all values non-negative."""
    return min(
        1.0 / TO_BOUNDARY,
        *(float((-v[dv < 0.0] / dv[dv < 0.0]).min(initial=np.inf)) for v, dv in pairs),
    )
