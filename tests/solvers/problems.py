"""Small random problems, and the same problems stated to an independent convex solver."""

import cvxpy as cp
import numpy as np

from unseen.solvers.images import as_images
from unseen.solvers.projection import LocalProblem


def random_targets(rng, n, n_labels):
    """Targets of pure chance with unknown entries; among them images of positives only and of negatives only."""
    T = rng.choice(np.array([-1, 0, 1], dtype=np.int8), size=(n, n_labels), p=[0.6, 0.1, 0.3])
    T[0], T[1] = 1, -1
    T[2] = -1
    T[2, rng.integers(n_labels)] = 1
    return T


def learnable_targets(rng, X, C):
    """Targets that a bilinear model of images and label vectors explains but for some noise."""
    scores = X @ rng.standard_normal((X.shape[1], C.shape[1])) @ C.T
    scores += 0.5 * rng.standard_normal(scores.shape)
    return np.where(scores > np.quantile(scores, 0.6, axis=0), 1, -1).astype(np.int8)


def random_problem(
    seed, *, n=40, d=5, n_seen=5, n_unseen=0, n_dims=4, rank=None, beta=None, regulariser=0.0, learnable=False
):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    X[3] = 0.0
    C = rng.standard_normal((n_seen + n_unseen, n_dims))
    B = rng.standard_normal((n_dims, n_dims))
    return LocalProblem(
        images=as_images(X, normalize=False),
        T=learnable_targets(rng, X, C[:n_seen]) if learnable else random_targets(rng, n, n_seen),
        C=C[:n_seen],
        B=regulariser * (B + B.T),
        beta=float(10.0 ** rng.uniform(-1, 2)) if beta is None else beta,
        rank=rank or n_dims,
        null=0,
    )


def _losses(scores, T):
    terms = []
    for i in range(T.shape[0]):
        for side in (1, -1):
            members = np.flatnonzero(T[i] == side)
            if len(members):
                terms.append(cp.max(cp.pos(1 - side * scores[i, members])))
    return cp.sum(cp.hstack(terms))


def optimum_at_fixed_kernel(problem, P):
    """Optimal value of the primal for one projection."""
    X, A = problem.images.X, np.linalg.cholesky(problem.label_kernel(P) + 1e-13 * np.eye(len(problem.C)))
    V = cp.Variable((X.shape[1], A.shape[1]))
    cost = _losses(X @ V @ A.T, problem.T) + 0.5 * problem.beta * cp.sum_squares(V)
    return cp.Problem(cp.Minimize(cost)).solve(solver=cp.CLARABEL)


def optimum_over_projections(problem):
    """Optimal value over W, W0 and P of the Fantope jointly: ``|W P^-1/2|^2`` is jointly convex in (W, P)."""
    X, C, k = problem.images.X, problem.C, problem.C.shape[1]
    W, W0, P = cp.Variable((X.shape[1], k)), cp.Variable((X.shape[1], 1)), cp.Variable((k, k), symmetric=True)
    energy = sum(cp.matrix_frac(W[i, :], P) for i in range(X.shape[1])) + cp.sum_squares(W0)
    cost = _losses(X @ W @ C.T - (X @ W0) @ np.ones((1, len(C))), problem.T)
    cost += 0.5 * problem.beta * energy + cp.trace(problem.B @ P)
    limits = [P >> 0, np.eye(k) - P >> 0, cp.trace(P) == problem.rank]
    return cp.Problem(cp.Minimize(cost), limits).solve(solver=cp.CLARABEL)
