"""Shared by the baselines: a calibrated threshold, scaled images, ridge and logistic regression."""

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning

from unseen.base import TrainingProblem, ZeroShotTagger
from unseen.solvers.rows import read_chunks, row_scale
from unseen.validation import Matrix, Targets, check_count

MAX_ITER = 2000  # L-BFGS iterations
MOST_SQUARE = 5000  # features whose products with each other are computed


class ScoredTagger(ZeroShotTagger):
    """Base class of one-threshold methods: a subclass implements ``_learn(problem)`` and ``_scores(X, M)``.

    The margin score is the score minus the threshold with the best micro-F1 over the known entries of the training
    images and seen labels. Images without a known entry are left out.
    """

    threshold_: float

    @abstractmethod
    def _learn(self, problem: TrainingProblem) -> None: ...

    @abstractmethod
    def _scores(self, X: Any, M: Matrix) -> Matrix: ...

    def _fit(self, problem: TrainingProblem) -> None:
        X, T = known_images(problem.X, problem.T)
        self._learn(problem._replace(X=X, T=T))
        self.threshold_ = best_threshold(self._scores(X, problem.seen), T)

    def _margin_scores(self, X: Any, M: Matrix) -> Matrix:
        return self._scores(X, M) - self.threshold_

    def _thresholds(self, X: Any) -> Matrix:
        return np.full(X.shape[0], self.threshold_)

    def _project(self, X: Any, weights: Matrix) -> Matrix:
        """``X weights`` with the rows of X scaled as in training."""
        return project(X, weights, normalize=self.normalize_)


def known_images(X: Any, T: Targets) -> tuple[Any, Targets]:
    """Images with at least one known entry; T in C order, as the bits of a product depend on it."""
    known, T = T.any(axis=1), np.ascontiguousarray(T)
    return (X, T) if known.all() else (X[np.flatnonzero(known)], T[known])


def best_threshold(scores: Matrix, T: Targets) -> float:
    """Threshold with the best micro-F1 over the known entries, midway between scores; ties take the highest."""
    known = T != 0
    order = np.argsort(-scores[known], kind="stable")
    ranked, relevant = scores[known][order], (T[known] == 1)[order]
    hits = np.cumsum(relevant)
    f1 = 2.0 * hits / (np.arange(1, len(hits) + 1) + hits[-1])
    ends = np.append(ranked[:-1] > ranked[1:], True)  # equal scores are predicted together or not at all
    last = int(np.argmax(np.where(ends, f1, -1.0)))
    below = ranked[last + 1] if last + 1 < len(ranked) else ranked[last] - 1.0
    return float(0.5 * (ranked[last] + below))


def unit_rows(M: Matrix) -> Matrix:
    """Rows of unit length, however large or small their entries; a row of zeros stays zero."""
    if not M.size:
        return M
    largest = np.maximum(M.max(axis=1), -M.min(axis=1))[:, None]
    scaled = M / np.where(largest > 0.0, largest, 1.0)
    scaled /= np.where(largest > 0.0, np.linalg.norm(scaled, axis=1, keepdims=True), 1.0)
    return scaled


def unit_images(X: Any) -> Any:
    """All rows of X with unit length, in its own data type, however large or small their entries."""
    from sklearn.preprocessing import normalize

    scale = row_scale(X, True)
    if np.all((scale > 1e-10) & (scale < 1e10)):
        return normalize(X)
    rows = sp.diags_array(scale) @ X if sp.issparse(X) else X * scale[:, None]
    return rows.astype(X.dtype)


def scaled_chunks(X: Any, *, normalize: bool) -> Iterator[tuple[slice, Matrix]]:
    """Yield the rows of X chunk by chunk: dense, in float64, of unit length if they are to be normalised."""
    for rows, part in read_chunks(X):
        chunk = (part.toarray() if sp.issparse(part) else part).astype(np.float64, copy=False)
        yield rows, unit_rows(chunk) if normalize else chunk


def scaled(X: Any, *, normalize: bool) -> Matrix:
    """All rows of X as `scaled_chunks` yields them."""
    return np.vstack([chunk for _, chunk in scaled_chunks(X, normalize=normalize)])


def split_columns(X: Any, n_first: int) -> tuple[Any, Any]:
    """The first columns of X, and the others."""
    parts = X[:, :n_first], X[:, n_first:]
    return parts if sp.issparse(X) else (np.ascontiguousarray(parts[0]), np.ascontiguousarray(parts[1]))


def check_first_columns(value: Any, name: str, n_columns: int) -> int:
    """``value`` as a number of first columns that leaves others."""
    if check_count(value, name) >= n_columns:
        raise ValueError(f"{name}: {value} of the {n_columns} columns of X leave none for the second part.")
    return int(value)


def project(X: Any, weights: Matrix, *, normalize: bool) -> Matrix:
    """``X weights`` in float64, with the rows of X scaled."""
    product = np.empty((X.shape[0], weights.shape[1]))
    for rows, chunk in scaled_chunks(X, normalize=normalize):
        product[rows] = chunk @ weights
    return product


def gather(X: Any, weights: Matrix, *, normalize: bool) -> Matrix:
    """``X' weights`` in float64, with the rows of X scaled."""
    total = np.zeros((X.shape[1], weights.shape[1]))
    for rows, chunk in scaled_chunks(X, normalize=normalize):
        total += chunk.T @ weights[rows]
    return total


def ridge_solver(
    X: Any, penalty: float, name: str, *, normalize: bool, relative: bool = False
) -> Callable[[Matrix], Matrix]:
    """Solver for ``(X'X + penalty I) W = B``; a relative penalty is multiplied by the trace of X'X."""
    from scipy.linalg import cho_factor, cho_solve

    if 0 < X.shape[0] < X.shape[1]:
        rows = scaled(X, normalize=normalize)
        gram = rows @ rows.T
        weight = penalty * (np.trace(gram) or 1.0) if relative else penalty
        if weight > 1e-8 * np.trace(gram):
            # W = (B - X'(XX' + penalty I)^-1 XB) / penalty needs only the smaller Gram matrix.
            gram[np.diag_indices_from(gram)] += weight
            inner = cho_factor(gram, lower=True, overwrite_a=True)
            return lambda B: np.ascontiguousarray((B - rows.T @ cho_solve(inner, rows @ B)) / weight)
    gram = np.zeros((X.shape[1], X.shape[1]))
    for _, chunk in scaled_chunks(X, normalize=normalize):
        gram += chunk.T @ chunk
    gram[np.diag_indices_from(gram)] += penalty * (np.trace(gram) or 1.0) if relative else penalty
    try:
        factor = cho_factor(gram, lower=True, overwrite_a=True)
    except np.linalg.LinAlgError:
        raise ValueError(f"{name}: {penalty:g} is lost in rounding beside X. Pass a larger one.") from None
    # The layout of arrays that are read from a file, so that a loaded model gives the same bits.
    return lambda B: np.ascontiguousarray(cho_solve(factor, B))


def logistic_regression(X: Any, T: Targets, C: float, *, normalize: bool) -> tuple[Matrix, Matrix]:
    """Minimise ``sum_known_i log(1 + exp(-t_ic (x_i w_c + b_c))) + |w_c|^2 / (2 C)`` for each label c.

    Returns weights (a column per label) and biases. A label whose known entries all agree has no finite optimum:
    it gets zero weights, and its bias is the log-odds of its entries plus one more that is positive at
    the rate of all known entries of T.
    """
    from scipy.linalg import cholesky, solve_triangular
    from scipy.optimize import minimize

    positives, negatives = (T == 1).sum(axis=0), (T == -1).sum(axis=0)
    rate = (positives.sum() + 0.5) / (positives.sum() + negatives.sum() + 1.0)
    bias = np.log((positives + rate) / (negatives + 1.0 - rate))
    weights = np.zeros((X.shape[1], T.shape[1]))
    learnable = np.flatnonzero((positives > 0) & (negatives > 0))
    if not len(learnable):
        return weights, bias
    X = unit_images(X) if normalize else X
    t = T[:, learnable].astype(X.dtype)  # unknown entries, 0, add a constant
    # Where the bound X'X/4 + I/C of the Hessian is the identity, all labels converge together in a few steps.
    try:
        if X.shape[1] > MOST_SQUARE:
            raise np.linalg.LinAlgError
        gram = X.T @ X
        gram = (gram.toarray() if sp.issparse(gram) else gram).astype(np.float64)
        root = cholesky(0.25 * gram + np.eye(len(gram)) / C, lower=True)
        to_weights: Callable[[Any], Any] = partial(solve_triangular, root, lower=True, trans="T")
        to_steps: Callable[[Any], Any] = partial(solve_triangular, root, lower=True)
    except np.linalg.LinAlgError:  # too large, or I/C is lost in rounding
        squares = np.asarray((X.power(2) if sp.issparse(X) else X**2).sum(axis=0)).ravel()
        scale = np.sqrt(0.25 * squares + 1.0 / C)
        scale[scale == 0.0] = 1.0  # in float32
        to_weights = to_steps = lambda values: values / scale[:, None]
    of_bias, shape = 2.0 / np.sqrt(len(t)), (X.shape[1] + 1, len(learnable))

    def objective(steps: Matrix) -> tuple[float, Matrix]:
        V = steps.reshape(shape)
        W = to_weights(V[:-1])
        margins = t * (X @ W.astype(X.dtype) + (of_bias * V[-1]).astype(X.dtype))
        residuals = -t * expit(-margins)
        loss = float(np.logaddexp(0.0, -margins).sum(dtype=np.float64)) + float((W * W).sum()) / (2.0 * C)
        slopes = to_steps((X.T @ residuals).astype(np.float64) + W / C)
        return loss, np.vstack([slopes, of_bias * residuals.sum(axis=0, dtype=np.float64)]).ravel()

    start = np.zeros(shape)
    start[-1] = bias[learnable] / of_bias
    options = {"maxiter": MAX_ITER, "maxfun": 2 * MAX_ITER, "maxcor": 20, "ftol": 0.0}
    options["gtol"] = 1e-6 if X.dtype == np.float64 else 1e-6 * len(t)  # no closer in float32
    solved = minimize(objective, start.ravel(), jac=True, method="L-BFGS-B", options=options)
    if solved.nit >= MAX_ITER:
        message = f"The classifiers of the seen labels did not converge in {MAX_ITER} iterations: lower C."
        warnings.warn(message, ConvergenceWarning, stacklevel=2)
    V = solved.x.reshape(shape)
    weights[:, learnable], bias[learnable] = to_weights(V[:-1]), of_bias * V[-1]
    return weights, bias


def even_steps(order: NDArray[np.intp], most: int) -> NDArray[np.intp]:
    """At most this many entries of ``order``, evenly spaced."""
    if len(order) <= most:
        return order
    return order[np.linspace(0, len(order) - 1, most).round().astype(np.intp)]


def quantised(values: Matrix, axis: int) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Eight bits per entry, and the scale of each row (axis 1) or column (axis 0)."""
    scales = (np.maximum(np.abs(values).max(axis=axis), 1e-12) / 127.0).astype(np.float32)
    return np.round(values / np.expand_dims(scales, axis)).astype(np.int8), scales


def parts_in_span(vector: Matrix, seen: Matrix, label: Matrix) -> Matrix:
    """Split ``<vector, label>`` into ``e_k <seen_k, label>``: ``vector = sum_k e_k seen_k`` with least ``|e|``."""
    evidence = np.linalg.lstsq(seen.T, vector, rcond=1e-10)[0]
    return np.asarray(evidence * (seen @ label))
