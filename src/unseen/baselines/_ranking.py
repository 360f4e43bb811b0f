"""Learning to rank, for LatEm, DeViSE and Fast0Tag: an image's positive labels above its negative ones by 1.

A label that is unknown for an image is in none of its (positive, negative) pairs.
"""

import warnings
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from unseen.base import TrainingProblem
from unseen.baselines import _linear as linear
from unseen.solvers.rows import row_scale
from unseen.validation import LEAST, MOST, Matrix, Targets

MARGIN = 1.0  # distance of the threshold from the labels of an image that has labels on one side only
PENALTY = 1e-3  # for the threshold regression, relative to the squared lengths of the images
BATCH = 16  # images per descent step
START = 0.01  # size of the random initial scores, which break the symmetry between the maps
MAX_PASSES = 10_000  # over the pairs of an image in its ranking SVM


class RankingTagger(linear.ScoredTagger):
    """Base class of the methods that learn from label pairs: a subclass implements ``_learn`` and ``_scores``.

    Pairs do not determine the level of an image's scores, so a threshold ``x w0 + b`` is learned afterwards, as
    by Elisseeff & Weston (2001): ridge regression of the midpoint between positive and negative labels.
    """

    threshold_weights_: Matrix

    def _fit(self, problem: TrainingProblem) -> None:
        X, T = linear.known_images(problem.X, problem.T)
        self._learn(problem._replace(X=X, T=T))
        targets = threshold_targets(self._scores(X, problem.seen), T)
        solve = linear.ridge_solver(X, PENALTY, "X", normalize=self.normalize_, relative=True)
        centred = (targets - targets.mean())[:, None]
        self.threshold_weights_ = solve(linear.gather(X, centred, normalize=self.normalize_))[:, 0]
        self.threshold_ = float(np.mean(targets - self._project(X, self.threshold_weights_[:, None])[:, 0]))

    def _margin_scores(self, X: Any, M: Matrix) -> Matrix:
        return self._scores(X, M) - self._thresholds(X)[:, None]

    def _thresholds(self, X: Any) -> Matrix:
        return np.asarray(self._project(X, self.threshold_weights_[:, None])[:, 0] + self.threshold_)


def threshold_targets(scores: Matrix, T: Targets) -> Matrix:
    """Midpoint between the positive and the negative labels of each image, or `MARGIN` beside its only side."""
    lowest = np.where(T > 0, scores, np.inf).min(axis=1)
    highest = np.where(T < 0, scores, -np.inf).max(axis=1)
    lowest, highest = (
        np.where(np.isinf(lowest), highest + 2.0 * MARGIN, lowest),
        np.where(np.isinf(highest), lowest - 2.0 * MARGIN, highest),
    )
    return np.asarray(0.5 * (lowest + highest))


class RankingProblem(NamedTuple):
    """Images that have pairs, in units where the median lengths of an image and of a label are 1."""

    X: Any
    scale: Matrix  # per row of X
    T: Targets
    C: Matrix  # coordinates of the seen labels in the orthonormal `basis` (n_dims, rank) of their span
    basis: Matrix
    image_length: float  # the two medians
    label_length: float

    def take(self, rows: NDArray[np.intp]) -> Matrix:
        """Some images, scaled."""
        chosen = self.X[rows].toarray() if sp.issparse(self.X) else self.X[rows]
        return np.asarray(chosen * self.scale[rows, None], dtype=np.float64)

    def order_by_contents(self, rng: np.random.Generator) -> NDArray[np.intp]:
        """Rows sorted by a random projection of features and labels, so that their order in X is immaterial."""
        direction = rng.standard_normal((self.X.shape[1], 1))
        keys = linear.project(self.X, direction, normalize=False)[:, 0] * self.scale
        keys += self.T @ (self.C @ (self.basis.T @ rng.standard_normal(len(self.basis))))
        return np.argsort(keys, kind="stable")


def ranking_problem(problem: TrainingProblem, *, normalize: bool) -> RankingProblem:
    """Choose images, units and coordinates; all subgradients, so all maps, lie in the span of the seen labels."""
    rows = np.flatnonzero((problem.T > 0).any(axis=1) & (problem.T < 0).any(axis=1))
    X, T = (problem.X, problem.T) if len(rows) == len(problem.T) else (problem.X[rows], problem.T[rows])
    lengths = np.empty(len(rows))
    for chunk, images in linear.scaled_chunks(X, normalize=False):
        with np.errstate(over="ignore"):  # out of range, squares are taken relative to the largest entry
            lengths[chunk] = np.linalg.norm(images, axis=1)
    is_safe = (lengths > LEAST) & (lengths < MOST)
    lengths = lengths if is_safe.all() else np.where(is_safe, lengths, 1.0 / row_scale(X, True))
    image_length = 1.0 if normalize or not len(rows) else float(np.median(lengths))
    label_length = float(np.median(np.linalg.norm(problem.seen, axis=1)))
    _, singular, right = np.linalg.svd(problem.seen, full_matrices=False)
    basis = np.ascontiguousarray(right[singular > 1e-10 * singular[0]].T)
    scale = 1.0 / lengths if normalize else np.full(len(rows), 1.0 / image_length)
    return RankingProblem(X, scale, T, problem.seen @ basis / label_length, basis, image_length, label_length)


def descend(
    problem: RankingProblem, rng: np.random.Generator, *, n_maps: int, alpha: float, worst: bool,
    learning_rate: float, max_iter: int,
) -> tuple[Matrix, Matrix]:  # fmt: skip
    """Minimise the mean loss of the images plus ``alpha/2 |V|^2`` by stochastic subgradient descent.

    The step falls linearly to 0. Returns the maps (n_maps, n_features, rank) in the units of the data, and the
    objective after each epoch; without images both are zero.
    """
    n_features, rank = problem.X.shape[1], problem.C.shape[1]
    if not len(problem.T):
        return np.zeros((n_maps, n_features, rank)), np.zeros(max_iter)
    # Drawn in all label dimensions, so that the maps do not depend on the basis of the span.
    start = [START * rng.standard_normal((n_features, len(problem.basis))) @ problem.basis for _ in range(n_maps)]
    V = np.hstack(start)
    order = problem.order_by_contents(rng)
    size = -(-len(order) // -(-len(order) // BATCH))  # equal batches, none of them empty
    n_steps = max_iter * -(-len(order) // size)
    steps = iter(learning_rate * (1.0 - np.arange(n_steps) / n_steps))
    trace = []
    for _ in range(max_iter):
        shuffled = order[rng.permutation(len(order))]
        for first in range(0, len(shuffled), size):
            rows, step = shuffled[first : first + size], next(steps)
            if alpha > 0.0:
                step = min(step, 0.5 / alpha)
            x = problem.take(rows)
            _, slopes = map_losses(x @ V, problem.C, problem.T[rows], worst=worst)
            V *= 1.0 - step * alpha
            V -= x.T @ (step / len(rows) * slopes)
        losses = 0.0
        for chunk in np.array_split(np.arange(len(order)), -(-len(order) // 1024)):
            losses += map_losses(problem.take(chunk) @ V, problem.C, problem.T[chunk], worst=worst)[0].sum()
        trace.append(losses / len(order) + 0.5 * alpha * np.vdot(V, V))
    maps = V.reshape(n_features, n_maps, rank).transpose(1, 0, 2)
    return np.ascontiguousarray(maps) / (problem.image_length * problem.label_length), np.array(trace)


def map_losses(Z: Matrix, C: Matrix, T: Targets, *, worst: bool) -> tuple[Matrix, Matrix]:
    """Loss of each image at the projections Z by all maps, side by side, and its slope in Z.

    The score of label c is ``max_k <z_k, C_c>``.
    """
    by_map = Z.reshape(len(Z), -1, C.shape[1]) @ C.T
    best = by_map.argmax(axis=1)[:, None]
    losses, slopes = pair_losses(np.take_along_axis(by_map, best, axis=1)[:, 0], T, worst=worst)
    of_best = np.zeros_like(by_map)
    np.put_along_axis(of_best, best, slopes[:, None], axis=1)
    return losses, (of_best @ C).reshape(Z.shape)


def pair_losses(scores: Matrix, T: Targets, *, worst: bool) -> tuple[Matrix, Matrix]:
    """``[1 - s_p + s_n]_+`` of each image, its mean over all pairs or its largest value, and its slope in s."""
    slopes = np.zeros_like(scores)
    if worst:
        images = np.arange(len(scores))
        lowest = np.where(T > 0, scores, np.inf).argmin(axis=1)
        highest = np.where(T < 0, scores, -np.inf).argmax(axis=1)
        losses = np.maximum(1.0 - scores[images, lowest] + scores[images, highest], 0.0)
        slopes[images, lowest], slopes[images, highest] = -1.0 * (losses > 0.0), losses > 0.0
        return losses, slopes
    images, positives = np.nonzero(T > 0)
    share = 1.0 / ((T > 0).sum(axis=1) * (T < 0).sum(axis=1))[images, None]
    short = np.where(
        T[images] < 0, np.maximum(1.0 - scores[images, positives][:, None] + scores[images], 0.0), 0.0
    )
    np.add.at(slopes, images, share * (short > 0.0))
    slopes[images, positives] -= (share * (short > 0.0)).sum(axis=1)
    losses = np.zeros(len(scores))
    np.add.at(losses, images, (share * short).sum(axis=1))
    return losses, slopes


def principal_directions(M: Matrix, T: Targets, *, alpha: float, tol: float) -> tuple[Matrix, float]:
    """Direction of each image (a row of T) in the space of the label vectors M, and the largest relative gap.

    The direction is the ranking SVM that minimises over w, for the positive labels P and negative labels N::

        1 / (|P| |N|) sum over p in P, n in N of [1 - <w, m_p> + <w, m_n>]_+  +  alpha/2 |w|^2

    Images with the same annotations share a direction, which is computed once.
    """
    from numba import njit  # imported here so that scoring does not wait for it

    solve = njit(cache=True)(rank_labels)
    patterns, which = np.unique(T, axis=0, return_inverse=True)
    K, coefficients = M @ M.T, np.zeros(patterns.shape)
    gaps = [solve(K, t, alpha, tol, MAX_PASSES, b) for t, b in zip(patterns, coefficients, strict=True)]
    gap = float(max(gaps, default=0.0))
    if gap > tol:
        message = f"The ranking SVM of an image stopped at a relative gap of {gap:.2g} > tol={tol:g}"
        warnings.warn(f"{message}: raise alpha or tol.", ConvergenceWarning, stacklevel=2)
    return (coefficients @ M)[which.ravel()], gap


def rank_labels(K: Any, t: Any, alpha: float, tol: float, max_passes: int, b: Any) -> float:
    """Coordinate ascent in the dual of one ranking SVM, with one variable in [0, 1 / (|P| |N|)] per pair.

    ``K`` holds the inner products of the labels, ``t`` the targets. ``b`` becomes the coefficients of
    ``w = sum_c b_c m_c``. Returns the relative duality gap.
    """
    positives, negatives = np.flatnonzero(t > 0), np.flatnonzero(t < 0)
    cap = 1.0 / (len(positives) * len(negatives))
    pair, s, gap = np.zeros((len(positives), len(negatives))), np.zeros(K.shape[0]), 1.0
    for _ in range(max_passes):
        for i in range(len(positives)):
            p = positives[i]
            for j in range(len(negatives)):
                n = negatives[j]
                short = 1.0 - s[p] + s[n]
                curvature = (K[p, p] + K[n, n] - 2.0 * K[p, n]) / alpha
                new = cap if short > 0.0 else 0.0
                if curvature > 1e-12 / alpha * (K[p, p] + K[n, n]):
                    new = min(max(pair[i, j] + short / curvature, 0.0), cap)
                change = (new - pair[i, j]) / alpha
                if change != 0.0:
                    pair[i, j] = new
                    b[p] += change
                    b[n] -= change
                    s += change * (K[p] - K[n])
        loss = 0.0
        for p in positives:
            for n in negatives:
                loss += max(1.0 - s[p] + s[n], 0.0) * cap
        squares = alpha * np.dot(b, s)
        primal = loss + 0.5 * squares
        gap = (primal - pair.sum() + 0.5 * squares) / max(primal, 1e-300)
        if gap <= tol:
            break
    return gap
