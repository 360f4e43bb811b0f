"""The Fantope ``{P : 0 <= P <= I, tr P = r}``, convex hull of the rank-r projectors ``U U'`` of R^m.

Everything happens in the k-dimensional span of the label vectors; the remaining ``null`` dimensions of R^m
neither help nor harm, but they may hold part of the trace. A symmetric matrix S on the span therefore stands for
one on R^m with ``null`` further eigenvalues zero, and so does P.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


def project(S: Matrix, rank: int, null: int) -> Matrix:
    """Return the point of the Fantope nearest to S in Frobenius norm.

    The eigenvalues are shifted by a common amount and clipped to [0, 1]; the shift is found exactly, among
    the intervals between the breakpoints of the piecewise linear trace.
    """
    eigenvalues, vectors = np.linalg.eigh(0.5 * (S + S.T))
    full = np.concatenate([eigenvalues, np.zeros(null)])
    breakpoints = np.unique(np.concatenate([full - 1.0, full]))
    traces = np.clip(full[None, :] - breakpoints[:, None], 0.0, 1.0).sum(axis=1)  # falls from m to 0
    i = int(np.searchsorted(-traces, -float(rank)))
    if i == 0:
        shift = breakpoints[0]
    else:
        fraction = (traces[i - 1] - rank) / max(traces[i - 1] - traces[i], np.finfo(float).tiny)
        shift = breakpoints[i - 1] + fraction * (breakpoints[i] - breakpoints[i - 1])
    P: Matrix = (vectors * np.clip(eigenvalues - shift, 0.0, 1.0)) @ vectors.T
    return P


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
