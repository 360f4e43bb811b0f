"""The regulariser of the label projection, ``<P, B>``: transfer to unseen labels and agreement with relations."""

from __future__ import annotations

import numpy as np

from unseen.solvers import fantope
from unseen.validation import Matrix


def transfer_term(C: Matrix, n_seen: int) -> Matrix:
    """``C'QC / 2`` of ``H(P) = tr(P C'QC) / 2``: unseen labels near the seen ones and apart from each other.

    ``H`` is half the mean similarity of two unseen labels, if there are two, minus half the mean similarity of a
    seen and an unseen one. Sums over pairs are products of sums, so Q itself is not needed.
    """
    seen, unseen = C[:n_seen], C[n_seen:]
    n_unseen = len(unseen)
    if n_unseen == 0:
        return np.zeros((C.shape[1],) * 2)
    total = unseen.sum(axis=0)
    near = np.outer(seen.mean(axis=0), total / n_unseen)
    term: Matrix = -0.25 * (near + near.T)
    if n_unseen > 1:
        term += 0.5 * (np.outer(total, total) - unseen.T @ unseen) / (n_unseen * (n_unseen - 1))
    return term


def relation_laplacian(R: Matrix) -> Matrix:
    """Normalised Laplacian ``I - D^-1/2 R D^-1/2`` with ``D = diag(R 1)``.

    A label related to nothing has degree zero; its row is zero: it is unconstrained.
    """
    degree = R.sum(axis=1)
    related = degree > 0.0
    inverse_root = np.where(related, 1.0 / np.sqrt(np.where(related, degree, 1.0)), 0.0)
    return np.asarray(np.diag(related.astype(float)) - inverse_root[:, None] * R * inverse_root[None, :])


def projection_regulariser(
    C: Matrix, n_seen: int, relations: Matrix | None, *, gamma: float, lam: float, rank: int, null: int,
    n_images: float | None,
) -> Matrix:  # fmt: skip
    """``B = C'(gamma Q + lam L)C / 2`` in coordinates C of all labels, the seen ones first.

    With ``n_images`` each of the two terms is scaled to range within ``[-weight, weight] * n_images`` over the
    projections of this rank (the scale-free form); with None the weights are used as printed in the paper.
    """
    B = np.zeros((C.shape[1],) * 2)
    terms = [(gamma, transfer_term(C, n_seen))]
    if relations is not None:
        terms.append((lam, 0.5 * C.T @ relation_laplacian(relations) @ C))
    for weight, term in terms:
        if n_images is not None:
            largest = max(fantope.support(term, rank, null), fantope.support(-term, rank, null))
            weight *= n_images / largest if largest > 0.0 else 0.0
        B += weight * term
    return B
