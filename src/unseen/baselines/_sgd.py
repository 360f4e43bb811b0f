"""Stochastic subgradient descent for bilinear ranking models: what LatEm and DeViSE share.

The order of the images is drawn over their contents, not their places, and every step counts all labels: so
permuting images or labels gives the same model up to rounding, although the descent is stochastic.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unseen.base import Matrix
from unseen.baselines._ranking_kernels import descend_csr, descend_dense, total_pair_loss
from unseen.solvers.rows import Rows, row_scale

BLOCK = 16  # images in one step
PARTS = 5  # equal parts of the descent; maps are pruned after each but the last
FEWEST_WINS = 0.05  # share of the positive labels below which a map is pruned
START = 0.01  # size of the random scores to begin with: what tells the maps apart


class RankingProblem(NamedTuple):
    """What is minimised, in units where the median lengths of an image and of a label are 1."""

    images: Rows
    T: NDArray[np.int8]
    rows: NDArray[np.int64]  # images with a positive and a negative label
    C: Matrix  # coordinates of the seen labels in the orthonormal `basis` (n_dims, rank) of their span
    basis: Matrix
    image_length: float  # the two medians
    label_length: float
    alpha: float
    worst: bool


class RankingFit(NamedTuple):
    """Maps (n_maps, n_features, rank) in the units of the data, their shares of wins, and the objectives."""

    maps: Matrix
    shares: Matrix
    trace: Matrix


def ranking_problem(
    X: Any, T: NDArray[np.int8], seen: Matrix, *, alpha: float, worst: bool, normalize: bool
) -> RankingProblem:
    """Choose units and coordinates; a subgradient lies in the span of the seen labels, so maps stay there."""
    rows = paired_rows(T)
    scale = row_scale(X, normalize)
    length = 1.0 if normalize or not len(rows) else float(np.median(1.0 / row_scale(X, True)[rows]))
    C, basis, label_length = label_coordinates(seen)
    return RankingProblem(Rows(X, scale / length), T, rows, C, basis, length, label_length, alpha, worst)


def paired_rows(T: NDArray[np.int8]) -> NDArray[np.int64]:
    """Images with a positive and a negative label."""
    return np.flatnonzero((T > 0).any(axis=1) & (T < 0).any(axis=1))


def label_coordinates(seen: Matrix) -> tuple[Matrix, Matrix, float]:
    """Labels in units of their median length, in an orthonormal basis of their span; the basis; that length."""
    length = float(np.median(np.linalg.norm(seen, axis=1)))
    _, singular, right = np.linalg.svd(seen, full_matrices=False)
    basis = np.ascontiguousarray(right[singular > 1e-10 * singular[0]].T)
    return np.ascontiguousarray(seen @ basis) / length, basis, length


def descend(
    problem: RankingProblem,
    rng: np.random.Generator,
    *,
    n_maps: int,
    prune: bool,
    learning_rate: float,
    max_iter: int,
    verbose: int = 0,
) -> RankingFit:
    """Run ``max_iter`` epochs, the step falling linearly to 0; without pairs the maps are zero."""
    n_features, rank = problem.images.shape[1], problem.C.shape[1]
    if not len(problem.rows):
        n_maps = 1 if prune else n_maps
        return RankingFit(np.zeros((n_maps, n_features, rank)), np.full(n_maps, 1.0 / n_maps), np.zeros(max_iter))
    V = _start(problem, rng, n_maps)
    base = order_by_contents(problem, rng)
    n_blocks = -(-len(base) // BLOCK)
    n_blocks = -(-len(base) // -(-len(base) // n_blocks))  # none of the equal blocks is empty
    steps = learning_rate * (1.0 - np.arange(max_iter * n_blocks) / (max_iter * n_blocks))
    if problem.alpha > 0.0:
        steps = np.minimum(steps, 0.5 / problem.alpha)
    ends = {max_iter * part // PARTS for part in range(1, PARTS)} if prune else set()
    trace = []
    for epoch in range(max_iter):
        order = base[rng.permutation(len(base))]
        _pass(problem, order, steps[epoch * n_blocks : (epoch + 1) * n_blocks], V)
        value, shares = objective(problem, V)
        trace.append(value)
        if verbose:
            print(f"epoch {epoch + 1}: objective {value:.6g}, {V.shape[1] // rank} maps")
        if epoch + 1 in ends:
            kept = shares >= min(FEWEST_WINS, shares.max())
            V = np.ascontiguousarray(V.reshape(n_features, -1, rank)[:, kept].reshape(n_features, -1))
            shares = shares[kept]
    return RankingFit(_unpack(problem, V), shares, np.array(trace))


def objective(problem: RankingProblem, V: NDArray[Any]) -> tuple[float, Matrix]:
    """Mean loss of the images plus ``alpha/2 |V|^2``, and the share of positive labels that each map scores."""
    wins = np.zeros(V.shape[1] // problem.C.shape[1])
    total = 0.0
    for rows, Z in problem.images.project(V):
        total += total_pair_loss(np.asarray(Z, np.float64), problem.C, problem.T[rows], problem.worst, wins)
    squares = float(np.einsum("ij,ij->", V, V, dtype=np.float64))
    return total / len(problem.rows) + 0.5 * problem.alpha * squares, wins / max(wins.sum(), 1.0)


def order_by_contents(problem: RankingProblem, rng: np.random.Generator) -> NDArray[np.int64]:
    """Rows that have pairs, sorted by a random projection of their features and labels."""
    images, direction = problem.images, rng.standard_normal((problem.images.shape[1], 1))
    keys = np.concatenate([np.ravel(Z) for _, Z in images.project(direction)]).astype(np.float64)
    keys += problem.T @ (problem.C @ (problem.basis.T @ rng.standard_normal(len(problem.basis))))
    return problem.rows[np.argsort(keys[problem.rows], kind="stable")]


def _start(problem: RankingProblem, rng: np.random.Generator, n_maps: int) -> NDArray[Any]:
    """Small random maps; drawn in all dimensions, so that they do not depend on the basis of the span."""
    n_features, n_dims = problem.images.shape[1], len(problem.basis)
    drawn = [START * rng.standard_normal((n_features, n_dims)) @ problem.basis for _ in range(n_maps)]
    return np.ascontiguousarray(np.hstack(drawn), dtype=problem.images.dtype)


def _pass(problem: RankingProblem, order: NDArray[np.int64], steps: Matrix, V: NDArray[Any]) -> None:
    images, rest = problem.images, (problem.T, problem.C, order, steps, problem.alpha, problem.worst, V)
    if images.is_sparse:
        descend_csr(images.X.data, images.X.indices, images.X.indptr, images.scale, *rest)
    else:
        descend_dense(images.X, images.scale, *rest)


def _unpack(problem: RankingProblem, V: NDArray[Any]) -> Matrix:
    maps = V.astype(np.float64).reshape(len(V), -1, problem.C.shape[1]).transpose(1, 0, 2)
    return np.ascontiguousarray(maps) / (problem.image_length * problem.label_length)
