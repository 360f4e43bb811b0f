"""The Fantope ``{P : 0 <= P <= I, tr P = r}``, convex hull of the rank-r projectors ``U U'`` of R^m.

Everything happens in the k-dimensional span of the label vectors; the remaining ``null = m - k`` dimensions
neither help nor harm, but they may hold part of the trace, at most one each. On the span the set is therefore
``{0 <= P <= I, r - null <= tr P <= r}``, and a symmetric S there stands for one with ``null`` more zeros.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from unseen.validation import Matrix

Plane = tuple[float, Matrix]

MAX_POINTS = 25  # Psi in a bundle
MAX_ENTRIES = 4e6  # of the products that a bundle keeps: fewer Psi where the labels span many dimensions
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
    return np.asarray((vectors * np.clip(eigenvalues, 0.0, 1.0)) @ vectors.T)


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

    Null directions count as eigenvalues of zero: negative ones enter only when no null direction is left.
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


class Point(NamedTuple):
    """A feasible Psi as `Bundle` sees it: ``gain`` and ``R`` are linear in Psi."""

    gain: float
    R: Matrix

    def plane(self, B: Matrix) -> Plane:
        """Height and S of the plane ``height - <S, P>`` that this Psi puts below g."""
        return _plane(self.gain, self.R @ self.R.T, B)


def _plane(gain: float, N: Matrix, B: Matrix) -> Plane:
    return gain - 0.5 * float(N[-1, -1]), 0.5 * N[:-1, :-1] - B


class Bundle:
    """A model from below of ``g(P) = max over Psi of gain - 1/2 tr(R' [P, 0; 0, 1] R) + <B, P>``, by a few Psi.

    Every Psi gives a plane. A mixture of them is a Psi too, and its plane lies above the mixture of their planes:
    the model is the highest plane of all mixtures. ``mix`` is the mixture of the last proximal step.
    """

    def __init__(self, B: Matrix, rank: int, null: int) -> None:
        self.B, self.rank, self.null = B, rank, null
        self.mix, self._gains, k = np.empty(0), np.empty(0), len(B) + 1
        self._most = int(np.clip(np.sqrt(MAX_ENTRIES) / k, 3, MAX_POINTS))
        self._R: list[Matrix] = []
        self._grams = np.empty((0, 0, k, k))

    def add(self, point: Point) -> None:
        """Add a Psi of weight zero; drop those without weight, and merge the two lightest if they are too many."""
        active = np.flatnonzero(self.mix > 1e-9)
        if len(active) >= self._most:
            a, b = active[np.argsort(self.mix[active], kind="stable")[:2]]
            total = self.mix[a] + self.mix[b]
            share = self.mix[b] / total
            self._R[a] = (1.0 - share) * self._R[a] + share * self._R[b]
            self._gains[a], self.mix[a] = (1.0 - share) * self._gains[a] + share * self._gains[b], total
            self._fill(a)
            active = active[active != b]
        self._R = [*(self._R[i] for i in active), point.R]
        self._gains = np.append(self._gains[active], point.gain)
        self.mix = np.append(self.mix[active] / self.mix[active].sum(), 0.0 if len(active) else 1.0)
        grams = np.empty((len(self.mix), len(self.mix), *self._grams.shape[2:]))
        grams[:-1, :-1] = self._grams[np.ix_(active, active)]
        self._grams = grams
        self._fill(-1)

    def _fill(self, i: int) -> None:
        for j, R in enumerate(self._R):
            product = self._R[i] @ R.T
            self._grams[i, j] = self._grams[j, i] = 0.5 * (product + product.T)

    def plane(self) -> Plane:
        """The plane of the mixture."""
        N = np.tensordot(self.mix, np.tensordot(self.mix, self._grams, 1), 1)
        return _plane(float(self.mix @ self._gains), N, self.B)

    def proximal_step(self, centre: Matrix, weight: float) -> tuple[Matrix, float]:
        """Minimise the model ``+ weight/2 |P - centre|^2`` over the Fantope; the mixture there is kept.

        The dual of this small problem is smooth and concave in the mixture. Returns the minimiser and the value of
        the plane of the mixture there.
        """

        def at(mix: Matrix) -> tuple[Matrix, float, float, Matrix]:
            """The minimiser for a fixed mixture, its plane there, the proximal term, and slopes in the mixture."""
            partial = np.tensordot(mix, self._grams, 1)
            height, S = _plane(float(mix @ self._gains), np.tensordot(mix, partial, 1), self.B)
            P = project(centre + S / weight, self.rank, self.null)
            slopes = self._gains - partial[:, -1, -1] - np.einsum("iab,ab->i", partial[:, :-1, :-1], P)
            return P, height - float(np.vdot(S, P)), 0.5 * weight * float(np.vdot(P - centre, P - centre)), slopes

        P, value, proximal, slopes = at(self.mix)
        begin, to_gain = value + proximal, float(slopes.max() - self.mix @ slopes)
        if to_gain <= SOLVED * proximal:
            return P, value

        def negative_dual(mix: Matrix) -> tuple[float, Matrix]:
            _, value, proximal, slopes = at(mix)
            return (begin - value - proximal) / to_gain, -slopes / to_gain

        sum_to_one = {"type": "eq", "fun": lambda mix: mix.sum() - 1.0, "jac": np.ones_like}
        found = minimize(
            negative_dual, self.mix, jac=True, method="SLSQP", bounds=[(0.0, 1.0)] * len(self.mix),
            constraints=sum_to_one, options={"ftol": 1e-10, "maxiter": 100},
        )  # fmt: skip
        if found.fun < 0.0:
            self.mix = found.x.clip(0.0) / found.x.clip(0.0).sum()
            P, value, _, _ = at(self.mix)
        return P, value
