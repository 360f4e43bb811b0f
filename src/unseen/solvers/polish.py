"""A Newton finish for the duals: coordinate ascent finds *which* duals are free, linear algebra their values.

Coordinate ascent converges linearly, and slowly where many free duals share few features. Once the free set is
nearly right, the optimum on it is one linear system away.
"""

from __future__ import annotations

import warnings

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from unseen.solvers.images import Images

Matrix = NDArray[np.float64]

MAX_FREE = 500  # beyond, a dense system costs more than the passes it saves
MAX_ROUNDS = 50
AT_CAP = 1.0 - 1e-12


def polish(images: Images, T: NDArray[np.int8], K: Matrix, beta: float, psi: Matrix) -> None:
    """Maximise the dual over the non-zeros of ``psi`` (dense, in place), signs and caps kept.

    An active-set loop: a step that meets the boundary stops there, what met it is fixed, and the system is solved
    again. Every step raises the dual. Meant for at most `MAX_FREE` non-zeros, and at least one.
    """
    rows = np.flatnonzero((psi != 0.0).any(axis=1))
    X = images.take(rows)
    gram = X @ X.T / beta
    signs = T[rows].astype(float)
    v = psi[rows]
    gradient = signs - gram @ v @ K
    for _ in range(MAX_ROUNDS):
        free = _free_duals(v, signs)
        if len(free[0]) == 0:
            break
        side = _side(free[0], signs[free])
        used: Matrix = np.bincount(side, np.abs(v[free]), minlength=2 * len(rows)).astype(float)
        hessian = gram[np.ix_(free[0], free[0])] * K[np.ix_(free[1], free[1])]
        step = _newton_step(hessian, gradient[free], signs[free], side, used >= AT_CAP)
        length, emptied = _longest_step(v[free], step, signs[free], side, used)
        change = np.zeros_like(v)
        change[free] = length * step
        v += change
        v[free[0][emptied], free[1][emptied]] = 0.0
        gradient -= gram @ change @ K
        if length == 1.0:
            break
    psi[rows] = v


def _side(rows: NDArray[np.intp], signs: Matrix) -> NDArray[np.intp]:
    """Number the sides: each row has its positives and its negatives, with a cap each."""
    return np.where(signs > 0.0, 2 * rows, 2 * rows + 1)


def _free_duals(v: Matrix, signs: Matrix) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Non-zeros that can move: all but those that use up the cap of their side alone."""
    rows, labels = np.nonzero(v)
    side = _side(rows, signs[rows, labels])
    alone = np.bincount(side, minlength=2 * len(v))[side] == 1
    movable = ~(alone & (np.abs(v[rows, labels]) >= AT_CAP))
    return rows[movable], labels[movable]


def _newton_step(
    hessian: Matrix, gradient: Matrix, signs: Matrix, side: NDArray[np.intp], capped: NDArray[np.bool_]
) -> Matrix:
    """Solve ``hessian step = gradient`` with the mass of every capped side kept."""
    n_free = len(gradient)
    members = np.flatnonzero(capped[side])
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
    v: Matrix, step: Matrix, signs: Matrix, side: NDArray[np.intp], used: Matrix
) -> tuple[float, NDArray[np.bool_]]:
    """Largest fraction of the step, at most one, that stays feasible; and the duals that it empties."""
    growth = signs * step
    room = np.full(len(v), np.inf)
    shrinking = growth < 0.0
    room[shrinking] = np.abs(v[shrinking]) / -growth[shrinking]
    added = np.bincount(side, growth, minlength=len(used))
    filling = (added > 1e-15) & (used < AT_CAP)
    side_room = ((1.0 - used[filling]) / added[filling]).min(initial=np.inf)
    length = float(min(1.0, room.min(), side_room))
    return length, room <= length
