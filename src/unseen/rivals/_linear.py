"""Linear algebra that several rivals share: scaled images, ridge systems, logistic regression, similarities."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, qr, solve_triangular
from scipy.optimize import minimize
from scipy.special import expit, softmax
from sklearn.exceptions import ConvergenceWarning

from unseen.solvers.images import CHUNK, row_scale

Matrix = NDArray[np.float64]
Targets = NDArray[np.int8]


def known_images(X: Any, T: Targets) -> tuple[Any, Targets]:
    """Images of which at least one entry is known; T in C order, as the bits of a product depend on it."""
    kept, T = T.any(axis=1), np.ascontiguousarray(T)
    return (X, T) if kept.all() else (X[np.flatnonzero(kept)], T[kept])


def scaled_chunks(X: Any, *, normalize: bool) -> Iterator[tuple[slice, Matrix]]:
    """Yield the rows of X chunk by chunk: dense, in float64, of unit length if they are to be normalised."""
    scale = row_scale(X, normalize)
    for start in range(0, X.shape[0], CHUNK):
        rows = slice(start, min(start + CHUNK, X.shape[0]))
        chunk = X[rows].toarray() if sp.issparse(X) else np.asarray(X[rows])
        yield rows, chunk.astype(np.float64) * scale[rows, None]


def scaled(X: Any, *, normalize: bool) -> Matrix:
    """All rows of X as `scaled_chunks` gives them."""
    return np.vstack([chunk for _, chunk in scaled_chunks(X, normalize=normalize)])


def project(X: Any, weights: Matrix, *, normalize: bool) -> Matrix:
    """``X weights`` in float64, with the rows of X scaled."""
    if sp.issparse(X):
        product = np.asarray(X.astype(np.float64) @ weights)
        product *= row_scale(X, normalize)[:, None]
        return product
    return np.vstack([chunk @ weights for _, chunk in scaled_chunks(X, normalize=normalize)])


def gather(X: Any, weights: Matrix, *, normalize: bool) -> Matrix:
    """``X' weights`` in float64, with the rows of X scaled."""
    total = np.zeros((X.shape[1], weights.shape[1]))
    for rows, chunk in scaled_chunks(X, normalize=normalize):
        total += chunk.T @ weights[rows]
    return total


class Ridge:
    """Solver of ``(X'X + penalty I) W = B`` by one Cholesky factor, of X'X or, with fewer images, of XX'.

    ``name`` is what the user calls the penalty.
    """

    def __init__(self, X: Any, penalty: float, name: str, *, normalize: bool) -> None:
        self.penalty = penalty
        n_images, n_features = X.shape
        self.dual: Matrix | None = scaled(X, normalize=normalize) if n_images < n_features else None
        if self.dual is not None:
            gram = self.dual @ self.dual.T
        else:
            gram = np.zeros((n_features, n_features))
            for _, chunk in scaled_chunks(X, normalize=normalize):
                gram += chunk.T @ chunk
        gram[np.diag_indices_from(gram)] += penalty
        try:
            self.factor = cho_factor(gram, lower=True, overwrite_a=True)
        except np.linalg.LinAlgError:
            raise ValueError(
                f"{name}: {penalty:g} is lost in rounding beside features of this size. Pass a larger one."
            ) from None

    def solve(self, B: Matrix) -> Matrix:
        """W of the system; the matrix inversion lemma serves when there are fewer images than features."""
        if self.dual is None:
            return np.asarray(cho_solve(self.factor, B))
        inner = cho_solve(self.factor, self.dual @ B)
        return np.asarray((B - self.dual.T @ inner) / self.penalty)

    def regress(self, X: Any, targets: Matrix, *, normalize: bool) -> Matrix:
        """Solve with ``B = X' targets``: the ridge regression of the targets on X."""
        if self.dual is None:
            return self.solve(gather(X, targets, normalize=normalize))
        return np.asarray(self.dual.T @ cho_solve(self.factor, targets))


class Classifiers(NamedTuple):
    """One linear classifier a label: log-odds ``X weights + bias``."""

    weights: Matrix
    bias: Matrix


def logistic_regression(X: Any, T: Targets, C: float, *, normalize: bool) -> Classifiers:
    """Minimise ``sum_known_i log(1 + exp(-t_ic (x_i w_c + b_c))) + |w_c|^2 / (2 C)`` for each label c.

    A label whose known entries all agree has no finite optimum. It gets no weights, and as its bias the log-odds
    of its entries together with one more that is positive at the rate of all known entries of T.
    """
    positives, negatives = (T == 1).sum(axis=0), (T == -1).sum(axis=0)
    rate = (positives.sum() + 0.5) / (positives.sum() + negatives.sum() + 1.0)
    bias = np.log((positives + rate) / (negatives + 1.0 - rate))
    weights = np.zeros((X.shape[1], T.shape[1]))
    varied = (positives > 0) & (negatives > 0)
    if varied.any():
        weights[:, varied], bias[varied] = _fit_logistic(scaled(X, normalize=normalize), T[:, varied], C)
    return Classifiers(weights, bias)


def _fit_logistic(X: Matrix, T: Targets, C: float) -> tuple[Matrix, Matrix]:
    """L-BFGS on all labels at once.

    The Hessian of every label lies below ``H = (X, 1)'(X, 1) / 4 + diag(1/C, .., 1/C, 0)``: in coordinates where H
    is the identity the problem is well conditioned. A small part of its diagonal is added to keep H regular.
    """
    n_images, n_features = X.shape
    basis = None
    if n_images < n_features:  # the weights lie in the span of the images
        basis, triangle = qr(X.T, mode="economic")
        X = triangle.T
    Z = np.column_stack([X, np.ones(n_images)])
    n_dims, n_labels = Z.shape[1], T.shape[1]
    H = 0.25 * Z.T @ Z
    penalty = np.append(np.full(n_dims - 1, 1.0 / C), 0.0)[:, None]
    H[np.diag_indices(n_dims)] += penalty[:, 0] + 1e-10 * np.trace(H)
    factor = np.linalg.cholesky(H)
    signs = T.astype(np.float64)

    def objective(flat: Matrix) -> tuple[float, Matrix]:
        W = solve_triangular(factor, flat.reshape(n_dims, n_labels), lower=True, trans="T")
        margins = signs * (Z @ W)
        loss = np.logaddexp(0.0, -margins)[T != 0].sum() + 0.5 * float((penalty * W * W).sum())
        gradient = Z.T @ (-signs * expit(-margins)) + penalty * W
        return float(loss), solve_triangular(factor, gradient, lower=True).ravel()

    start = np.zeros(n_dims * n_labels)
    options = {"maxiter": 2000, "maxfun": 3000, "maxcor": 20, "ftol": 1e-13, "gtol": 1e-6}
    result = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    if result.status == 1:
        warnings.warn(
            f"The classifiers of the seen labels did not converge in {result.nit} iterations: lower C.",
            ConvergenceWarning,
            stacklevel=2,
        )
    W = solve_triangular(factor, result.x.reshape(n_dims, n_labels), lower=True, trans="T")
    return (W[:-1] if basis is None else basis @ W[:-1]), W[-1]


def unit_rows(M: Matrix) -> Matrix:
    """Rows scaled to unit length; a row of zeros stays."""
    lengths = np.linalg.norm(M, axis=1, keepdims=True)
    return M / np.where(lengths > 0.0, lengths, 1.0)


def similarity_shares(M: Matrix, N: Matrix, temperature: float) -> Matrix:
    """``exp(cos(m, n) / temperature)`` for each row m of M and n of N, divided by the sum of the row."""
    shares: Matrix = softmax(unit_rows(M) @ unit_rows(N).T / temperature, axis=1)
    return shares


def matching_rows(M: Matrix, known: Matrix) -> NDArray[np.intp]:
    """For each row of M the first equal row of ``known``, or -1."""
    places: dict[bytes, int] = {}
    for i, row in enumerate(np.ascontiguousarray(known) + 0.0):  # + 0.0 makes one zero of -0.0 and 0.0
        places.setdefault(row.tobytes(), i)
    return np.array([places.get(row.tobytes(), -1) for row in np.ascontiguousarray(M) + 0.0], dtype=np.intp)
