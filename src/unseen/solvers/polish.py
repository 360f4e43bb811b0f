"""A Newton finish for the duals: coordinate ascent finds *which* duals are free, linear algebra their values.

Coordinate ascent converges linearly, and slowly where many free duals share few features. Once the free set is
nearly right, the optimum on it is one linear system away.
"""

from __future__ import annotations

import warnings

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from unseen.solvers.rows import Rows
from unseen.validation import Matrix

MAX_FREE = 500  # beyond this, a dense system costs more than the passes it saves
MAX_ROUNDS = 50
AT_CAP = 1.0 - 1e-12


def polish(rows: Rows, T: NDArray[np.int8], weights: Matrix, K: Matrix, beta: float, psi: Matrix) -> None:
    """Maximise the dual over the non-zeros of ``psi`` (dense, in place), within signs and caps.

    An active-set loop: a step that meets the boundary stops there, the duals that met it are fixed, and the
    system is solved again. Every step raises the dual. For 1 to `MAX_FREE` non-zeros.
    """
    active = np.flatnonzero((psi != 0.0).any(axis=1))
    X = rows.take(active)
    gram = X @ X.T / beta
    signs, v = T[active].astype(float), psi[active]
    caps = np.repeat(weights[active], 2)
    gradient = signs - gram @ v @ K
    for _ in range(MAX_ROUNDS):
        free = np.nonzero(v)
        side = 2 * free[0] + (signs[free] < 0.0)  # 2i for the positives of row i, 2i + 1 for its negatives
        # A dual that uses up the cap of its side alone cannot move.
        is_alone = np.bincount(side, minlength=len(caps))[side] == 1
        movable = ~(is_alone & (np.abs(v[free]) >= AT_CAP * caps[side]))
        free, side = (free[0][movable], free[1][movable]), side[movable]
        if len(side) == 0:
            break
        used: Matrix = np.bincount(side, np.abs(v[free]), minlength=len(caps)).astype(float)
        is_capped = used >= AT_CAP * caps
        hessian = gram[np.ix_(free[0], free[0])] * K[np.ix_(free[1], free[1])]
        step = _newton_step(hessian, gradient[free], signs[free], side, is_capped)
        length, emptied = _longest_step(v[free], step, signs[free], side, np.where(is_capped, np.inf, caps - used))
        change = np.zeros_like(v)
        change[free] = length * step
        v += change
        v[free[0][emptied], free[1][emptied]] = 0.0
        gradient -= gram @ change @ K
        if length == 1.0:
            break
    psi[active] = v


def _newton_step(
    hessian: Matrix, gradient: Matrix, signs: Matrix, side: NDArray[np.intp], is_capped: NDArray[np.bool_]
) -> Matrix:
    """Solve ``hessian step = gradient`` with the mass of every capped side kept."""
    n_free = len(gradient)
    members = np.flatnonzero(is_capped[side])
    sides, position = np.unique(side[members], return_inverse=True)
    system = np.zeros((n_free + len(sides),) * 2)
    # A proximal ridge: where the free duals are not unique, the shortest step is as good as any.
    system[:n_free, :n_free] = hessian + 1e-11 * hessian.diagonal().max() * np.eye(n_free)
    system[n_free + position, members] = system[members, n_free + position] = signs[members]
    right = np.concatenate([gradient, np.zeros(len(sides))])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", scipy.linalg.LinAlgWarning)
        step: Matrix = scipy.linalg.solve(system, right, assume_a="sym")[:n_free]
    return step


def _longest_step(
    v: Matrix, step: Matrix, signs: Matrix, side: NDArray[np.intp], left: Matrix
) -> tuple[float, NDArray[np.bool_]]:
    """Largest fraction of the step, at most one, that stays feasible; and the duals that it empties.

    ``left`` is the remaining mass of each side.
    """
    growth = signs * step
    limits = np.full(len(v), np.inf)
    shrinking = growth < 0.0
    limits[shrinking] = np.abs(v[shrinking]) / -growth[shrinking]
    added = np.bincount(side, growth, minlength=len(left))
    filling = added > 1e-15
    length = float(min(1.0, limits.min(), (left[filling] / added[filling]).min(initial=np.inf)))
    return length, limits <= length
