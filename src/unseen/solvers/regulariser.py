"""The regulariser of the label projection, ``<P, B>``: transfer to unseen labels and agreement with relations."""

from __future__ import annotations

import numpy as np

from unseen.solvers import fantope
from unseen.validation import Matrix


def transfer_matrix(n_seen: int, n_unseen: int) -> Matrix:
    """Q of ``H(P) = tr(P M'QM) / 2``: unseen labels near the seen ones and apart from each other.

    ``H`` is half the mean similarity of two unseen labels minus half the mean similarity of a seen and an unseen
    one. The first mean is over no pair when there is one unseen label, and is then left out.
    """
    Q = np.zeros((n_seen + n_unseen,) * 2)
    if n_unseen == 0:
        return Q
    Q[:n_seen, n_seen:] = Q[n_seen:, :n_seen] = -0.5 / (n_seen * n_unseen)
    if n_unseen > 1:
        Q[n_seen:, n_seen:] = (1.0 - np.eye(n_unseen)) / (n_unseen * (n_unseen - 1))
    return Q


def relation_laplacian(R: Matrix) -> Matrix:
    """Normalised Laplacian ``I - D^-1/2 R D^-1/2`` with ``D = diag(R 1)``.

    A label related to nothing has degree zero; its row is zero: it is unconstrained.
    """
    degree = R.sum(axis=1)
    related = degree > 0.0
    inverse_root = np.where(related, 1.0 / np.sqrt(np.where(related, degree, 1.0)), 0.0)
    L: Matrix = np.diag(related.astype(float)) - inverse_root[:, None] * R * inverse_root[None, :]
    return L


def projection_regulariser(
    C: Matrix,
    n_seen: int,
    relations: Matrix | None,
    *,
    gamma: float,
    lam: float,
    rank: int,
    null: int,
    n_images: float | None,
) -> Matrix:
    """``B = C'(gamma Q + lam L)C / 2`` in coordinates C of all labels, the seen ones first.

    With ``n_images`` each of the two terms is scaled to range within ``[-weight, weight] * n_images`` over the
    projections of this rank (the scale-free form); with None the weights are used as printed in the paper.
    """
    B = np.zeros((C.shape[1],) * 2)
    sources = [(gamma, transfer_matrix(n_seen, len(C) - n_seen))]
    if relations is not None:
        sources.append((lam, relation_laplacian(relations)))
    for weight, Q in sources:
        term = 0.5 * C.T @ Q @ C
        if n_images is not None:
            largest = max(fantope.support(term, rank, null), fantope.support(-term, rank, null))
            weight *= n_images / largest if largest > 0.0 else 0.0
        B += weight * term
    return B
