"""The Fantope ``{P : 0 <= P <= I, tr P = r}``, convex hull of the rank-r projectors ``U U'`` of R^m.

Everything happens in the k-dimensional span of the label vectors; the remaining ``null = m - k`` dimensions
neither help nor harm, but they may hold part of the trace, at most one each. On the span the set is therefore
``{0 <= P <= I, r - null <= tr P <= r}``, and a symmetric S there stands for one with ``null`` more zeros.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


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
