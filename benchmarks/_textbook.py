"""Alternatives to the dual solver, for `benchmarks.certified_time`: compiled BCFW, and QP solvers per row."""

from __future__ import annotations

import time

import numpy as np
from numba import njit

from benchmarks.row_solvers import standard_form


@njit(cache=True)
def bcfw_pass(X, T, A, beta, order, psi, V):
    """One pass of block-coordinate Frank-Wolfe with exact line search (Lacoste-Julien et al., 2013)."""
    n_labels, width = A.shape
    d = X.shape[1]
    z, direction, corner = np.empty(width), np.empty(width), np.empty(n_labels)
    for row in order:
        z[:] = 0.0
        for j in range(d):
            for k in range(width):
                z[k] += X[row, j] * V[j, k]
        squared_norm = 0.0
        for j in range(d):
            squared_norm += X[row, j] * X[row, j]
        best_positive, best_negative = -1, -1
        most_positive = most_negative = 0.0
        corner[:] = 0.0
        slope = 0.0
        for c in range(n_labels):
            score = 0.0
            for k in range(width):
                score += A[c, k] * z[k]
            loss = 1.0 - T[row, c] * score
            if T[row, c] > 0 and loss > most_positive:
                most_positive, best_positive = loss, c
            elif T[row, c] < 0 and loss > most_negative:
                most_negative, best_negative = loss, c
            slope -= psi[row, c] * (T[row, c] - score)
        slope += most_positive + most_negative
        if best_positive >= 0:
            corner[best_positive] = 1.0
        if best_negative >= 0:
            corner[best_negative] = -1.0
        direction[:] = 0.0
        for c in range(n_labels):
            for k in range(width):
                direction[k] += (corner[c] - psi[row, c]) * A[c, k]
        curvature = 0.0
        for k in range(width):
            curvature += direction[k] * direction[k]
        curvature *= squared_norm / beta
        step = 1.0 if curvature <= slope else slope / curvature
        for c in range(n_labels):
            psi[row, c] += step * (corner[c] - psi[row, c])
        for j in range(d):
            for k in range(width):
                V[j, k] += step / beta * X[row, j] * direction[k]


def relative_gap(X, T, A, beta, psi):
    """Certified relative gap of dense duals, and the primal objective."""
    V = X.T @ (psi @ A).astype(X.dtype) / beta
    scores = X @ V @ A.T.astype(X.dtype)
    losses = np.maximum(0.0, 1.0 - T * scores)
    primal = np.where(T > 0, losses, 0).max(axis=1).sum() + np.where(T < 0, losses, 0).max(axis=1).sum()
    energy = 0.5 * beta * float(np.vdot(V, V))
    return (primal + 2.0 * energy - np.abs(psi).sum()) / (primal + energy), primal + energy, V


def bcfw(X, T, A, beta, tol, limit):
    """Run passes until the gap is certified or the seconds are over; returns seconds, passes, gap."""
    psi, V = np.zeros(T.shape), np.zeros((X.shape[1], A.shape[1]), dtype=X.dtype)
    rng, start, passes, gap = np.random.default_rng(0), time.perf_counter(), 0, 1.0
    while gap > tol and time.perf_counter() - start < limit:
        for _ in range(5):
            bcfw_pass(X, T, A, beta, rng.permutation(len(X)), psi, V)
        passes += 5
        gap, _, V = relative_gap(X, T, A, beta, psi)
    return time.perf_counter() - start, passes, gap


def rows_by_qp(X, T, A, K, beta, tol, limit, build):
    """Block-coordinate ascent, row by row, with a general QP solver for the row problem."""
    psi, V = np.zeros(T.shape), np.zeros((X.shape[1], A.shape[1]), dtype=X.dtype)
    rng, start, visited, gap = np.random.default_rng(0), time.perf_counter(), 0, 1.0
    steady = K + 1e-9 * np.eye(len(K))  # these solvers want a strictly convex problem
    while gap > tol:
        for row in rng.permutation(len(X)):
            x = X[row]
            h = float(x @ x) / beta
            linear = (x @ V) @ A.T - h * K @ psi[row]
            new = build(steady, h, T[row], linear)()
            V += np.outer(x, (new - psi[row]) @ A / beta).astype(X.dtype)
            psi[row] = new
            visited += 1
            if visited % 100 == 0 and time.perf_counter() - start > limit:
                return time.perf_counter() - start, visited / len(X), relative_gap(X, T, A, beta, psi)[0]
        gap, _, V = relative_gap(X, T, A, beta, psi)
    return time.perf_counter() - start, visited / len(X), gap


__all__ = ["bcfw", "relative_gap", "rows_by_qp", "standard_form"]
