"""A model of a convex function from below: the highest of a few planes ``height - <S, P>`` over the Fantope."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from unseen.solvers import fantope
from unseen.solvers.fantope import Matrix

Plane = tuple[float, Matrix]

MAX_PLANES = 25
SOLVED = 1e-3  # share of the proximal term that may be left to gain
MIXTURE = {"type": "eq", "fun": lambda mix: mix.sum() - 1.0, "jac": np.ones_like}


def nearest_compromise(
    centre: Matrix, weight: float, planes: list[Plane], mix: Matrix, rank: int, null: int
) -> tuple[Matrix, float]:
    """Minimise ``max over planes + weight/2 |P - centre|^2`` over the Fantope; ``mix`` is updated in place.

    The dual of this small problem is smooth and concave in the mixture of the planes; its gradient is the values
    of the planes. ``mix`` is where to begin, and near the best mixture afterwards. Returns the minimiser and the
    value of the highest plane there.
    """
    heights = np.array([height for height, _ in planes])
    slopes = np.array([S for _, S in planes])

    def at(mix: Matrix) -> tuple[Matrix, Matrix, float]:
        """The minimiser for a fixed mixture, the value of every plane there, and the proximal term."""
        P = fantope.project(centre + np.tensordot(mix, slopes, 1) / weight, rank, null)
        values = heights - np.einsum("aij,ij->a", slopes, P)
        return P, values, 0.5 * weight * float(np.vdot(P - centre, P - centre))

    P, values, proximal = at(mix)
    begin = float(mix @ values) + proximal
    to_gain = float(values.max() - mix @ values)
    if to_gain <= SOLVED * proximal:
        return P, float(values.max())

    def negative_dual(mix: Matrix) -> tuple[float, Matrix]:
        _, values, proximal = at(mix)
        return (begin - float(mix @ values) - proximal) / to_gain, -values / to_gain

    found = minimize(
        negative_dual, mix, jac=True, method="SLSQP", bounds=[(0.0, 1.0)] * len(mix), constraints=MIXTURE,
        options={"ftol": 1e-10, "maxiter": 100},
    )  # fmt: skip
    if found.fun < 0.0:
        mix[:] = found.x.clip(0.0) / found.x.clip(0.0).sum()
        P, values, _ = at(mix)
    return P, float(values.max())


def add_plane(planes: list[Plane], mix: Matrix, plane: Plane) -> tuple[list[Plane], Matrix]:
    """Forget the planes that play no part, and the least ones beyond `MAX_PLANES`; add a new one."""
    heaviest = np.sort(np.argsort(-mix, kind="stable")[:MAX_PLANES])
    kept = heaviest[mix[heaviest] > 1e-9]
    return [planes[i] for i in kept] + [plane], np.append(mix[kept] / mix[kept].sum(), 0.0)
