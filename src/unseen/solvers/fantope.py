"""The Fantope ``{P : 0 <= P <= I, tr P = r}``, convex hull of the rank-r projectors ``U U'`` of R^m.

Everything happens in the k-dimensional span of the label vectors; the remaining ``null = m - k`` dimensions
neither help nor harm, but they may hold part of the trace, at most one each. On the span the set is therefore
``{0 <= P <= I, r - null <= tr P <= r}``, and a symmetric S there stands for one with ``null`` more zeros.

A convex function over it is modelled from below by the highest of a few planes ``height - <S, P>``.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from unseen.validation import Matrix

Plane = tuple[float, Matrix]

MAX_PLANES = 25
SOLVED = 1e-3  # remaining gain allowed, as a share of the proximal term


def project(S: Matrix, rank: int, null: int) -> Matrix:
    """Return the point of the set nearest to S in Frobenius norm.

    The eigenvalues are clipped to [0, 1], after a common shift if the trace would leave its interval.
    """
    eigenvalues, vectors = np.linalg.eigh(0.5 * (S + S.T))
    trace = np.clip(eigenvalues, 0.0, 1.0).sum()
    nearest = min(max(trace, float(rank - null)), float(rank))
    if trace != nearest:
        eigenvalues = eigenvalues - _shift_to_trace(eigenvalues, nearest)
    P: Matrix = (vectors * np.clip(eigenvalues, 0.0, 1.0)) @ vectors.T
    return P


def _shift_to_trace(eigenvalues: Matrix, trace: float) -> float:
    """Solve ``sum of clip(eigenvalues - shift, 0, 1) = trace`` exactly: it is piecewise linear in the shift."""
    breakpoints = np.unique(np.concatenate([eigenvalues - 1.0, eigenvalues]))
    traces = np.clip(eigenvalues[None, :] - breakpoints[:, None], 0.0, 1.0).sum(axis=1)  # falls from k to 0
    i = int(np.searchsorted(-traces, -trace))
    if i == 0:
        return float(breakpoints[0])
    fraction = (traces[i - 1] - trace) / (traces[i - 1] - traces[i])
    return float(breakpoints[i - 1] + fraction * (breakpoints[i] - breakpoints[i - 1]))


def top_eigenvectors(S: Matrix, rank: int, null: int) -> Matrix:
    """Return the maximiser of ``tr(U'SU)``: the top-r eigenvectors of S that lie in the span, as columns.

    A null direction counts as an eigenvalue of zero, so eigenvectors of negative eigenvalues enter only when
    no null direction is left to hold the trace.
    """
    eigenvalues, vectors = np.linalg.eigh(0.5 * (S + S.T))
    eigenvalues, vectors = eigenvalues[::-1], vectors[:, ::-1]
    n_positive = int(np.count_nonzero(eigenvalues > 0.0))
    n_chosen = min(rank, n_positive + max(rank - n_positive - null, 0))
    return vectors[:, :n_chosen]


def support(S: Matrix, rank: int, null: int) -> float:
    """Return the largest ``<S, P>`` over the Fantope: the sum of the r largest eigenvalues (Ky Fan)."""
    full = np.concatenate([np.linalg.eigvalsh(0.5 * (S + S.T)), np.zeros(null)])
    return float(np.sort(full)[len(full) - rank :].sum())


def proximal_step(
    centre: Matrix, weight: float, planes: list[Plane], mix: Matrix, rank: int, null: int
) -> tuple[Matrix, float]:
    """Minimise ``max over planes + weight/2 |P - centre|^2`` over the Fantope; ``mix`` is updated in place.

    The dual of this small problem is smooth and concave in the mixture of the planes; its gradient is the values
    of the planes. ``mix`` is the starting point, and ends near the best mixture. Returns the minimiser and the
    value of the highest plane there.
    """
    heights = np.array([height for height, _ in planes])
    slopes = np.array([S for _, S in planes])

    def at(mix: Matrix) -> tuple[Matrix, Matrix, float]:
        """The minimiser for a fixed mixture, the value of every plane there, and the proximal term."""
        P = project(centre + np.tensordot(mix, slopes, 1) / weight, rank, null)
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

    sum_to_one = {"type": "eq", "fun": lambda mix: mix.sum() - 1.0, "jac": np.ones_like}
    found = minimize(
        negative_dual, mix, jac=True, method="SLSQP", bounds=[(0.0, 1.0)] * len(mix), constraints=sum_to_one,
        options={"ftol": 1e-10, "maxiter": 100},
    )  # fmt: skip
    if found.fun < 0.0:
        mix[:] = found.x.clip(0.0) / found.x.clip(0.0).sum()
        P, values, _ = at(mix)
    return P, float(values.max())


def add_plane(planes: list[Plane], mix: Matrix, plane: Plane) -> tuple[list[Plane], Matrix]:
    """Drop planes without weight, and those with the least weight beyond `MAX_PLANES`; add a new one."""
    heaviest = np.sort(np.argsort(-mix, kind="stable")[:MAX_PLANES])
    active = heaviest[mix[heaviest] > 1e-9]
    return [planes[i] for i in active] + [plane], np.append(mix[active] / mix[active].sum(), 0.0)
