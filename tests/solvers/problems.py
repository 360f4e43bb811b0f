"""Small random problems, and the same problems stated to an independent convex solver."""

import cvxpy as cp
import numpy as np

from unseen.solvers.dual import LocalDual, SparseDuals, TrainingImages, solve_dual
from unseen.solvers.projection import ProjectionProblem
from unseen.solvers.rows import Rows, row_scale


def as_images(X, T, weights=None, *, normalize=False, n_threads=1, is_mean=False):
    return TrainingImages(Rows(X, row_scale(X, normalize), n_threads), T, weights, is_mean=is_mean)


def random_problem(
    seed, *, n=40, d=5, n_seen=5, n_dims=4, rank=None, beta=None, regulariser=0.0, learnable=False, weighted=False,
    is_mean=False,
):  # fmt: skip
    """A problem and its images: targets of pure chance, some unknown, or such that a bilinear model explains."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    X[3] = 0.0
    C, B = rng.standard_normal((n_seen, n_dims)), rng.standard_normal((n_dims, n_dims))
    T = rng.choice(np.array([-1, 0, 1], dtype=np.int8), size=(n, n_seen), p=[0.6, 0.1, 0.3])
    T[0], T[1] = 1, -1
    if learnable:
        scores = X @ rng.standard_normal((d, n_dims)) @ C.T + 0.5 * rng.standard_normal((n, n_seen))
        T = np.where(scores > np.quantile(scores, 0.6, axis=0), 1, -1).astype(np.int8)
    beta = float(10.0 ** rng.uniform(-1, 2)) if beta is None else beta
    weights = np.where(rng.random(n) < 0.2, 0.0, rng.uniform(0, 3, n)) if weighted else None
    images = as_images(X, T, weights, is_mean=is_mean)
    return ProjectionProblem(C, regulariser * (B + B.T), beta, rank or n_dims, 0), images


def start(images, problem, seed=0):
    return LocalDual(images, problem.beta, np.random.default_rng(seed))


def solve_at(problem, images, P, *, tol, duals=None, max_epochs=20_000):
    """Solution and duals for one projection."""
    duals, rng = duals or SparseDuals(*images.T.shape), np.random.default_rng(0)
    kernel = problem.label_kernel(P)
    return solve_dual(images, kernel, problem.beta, duals, rng, tol=tol, max_epochs=max_epochs), duals


def certified_alike(model, reference):
    """Two certified objectives of one problem: neither is below the other's bound."""
    assert model.relative_gap_ <= model.tol
    assert model.objective_ >= reference.lower_bound_ - 1e-9 * abs(reference.lower_bound_)
    assert reference.objective_ >= model.lower_bound_ - 1e-9 * abs(model.lower_bound_)


def assert_feasible(psi, images):
    """Entries have the signs of their targets, and each side sums to at most the weight of its image."""
    assert np.all(psi * images.T >= 0)
    assert not psi[images.T == 0].any()
    for side in (1, -1):
        mass, caps = np.where(-side == images.T, 0.0, side * psi), images.weights * (1 + 1e-9)
        assert np.all(mass.sum(axis=1) <= caps)
        if images.is_mean:
            assert np.all(mass.max(axis=1) <= caps / (side == images.T).sum(axis=1).clip(1))


def _losses(scores, images):
    sides = [(i, side, np.flatnonzero(side == t)) for i, t in enumerate(images.T) for side in (1, -1)]
    total = (lambda losses: cp.sum(losses) / losses.size) if images.is_mean else cp.max
    terms = [
        images.weights[i] * total(cp.pos(1 - side * scores[i, members]))
        for i, side, members in sides
        if len(members)
    ]
    return cp.sum(cp.hstack(terms))


def optimum_at(problem, images, P):
    """Optimal value of the primal for one projection."""
    X, A = images.rows.X, np.linalg.cholesky(problem.label_kernel(P).K + 1e-13 * np.eye(len(problem.C)))
    V = cp.Variable((X.shape[1], A.shape[1]))
    cost = _losses(X @ V @ A.T, images) + 0.5 * problem.beta * cp.sum_squares(V)
    return cp.Problem(cp.Minimize(cost)).solve(solver=cp.CLARABEL)


def optimum_over_projections(problem, images):
    """Optimal value over W, W0 and P of the Fantope jointly: ``|W P^-1/2|^2`` is jointly convex in (W, P)."""
    X, C, k = images.rows.X, problem.C, problem.C.shape[1]
    W, W0, P = cp.Variable((X.shape[1], k)), cp.Variable((X.shape[1], 1)), cp.Variable((k, k), symmetric=True)
    energy = sum(cp.matrix_frac(W[i, :], P) for i in range(X.shape[1])) + cp.sum_squares(W0)
    cost = _losses(X @ W @ C.T - (X @ W0) @ np.ones((1, len(C))), images)
    cost += 0.5 * problem.beta * energy + cp.trace(problem.B @ P)
    limits = [P >> 0, np.eye(k) - P >> 0, cp.trace(P) == problem.rank]
    return cp.Problem(cp.Minimize(cost), limits).solve(solver=cp.CLARABEL)
