"""Linear algebra that several rivals share: scaled images, ridge systems, logistic regression, similarities."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.special import softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from unseen.solvers.rows import CHUNK, row_scale

Matrix = NDArray[np.float64]
Targets = NDArray[np.int8]

MOST_STEPS = 2000  # of L-BFGS, for one label


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


def signed_power(X: Any, power: float, *, normalize: bool) -> Any:
    """``sign(x) |x|^power`` of each feature, in the storage and dtype of X; X itself for a power of 1.

    Rows that are to be normalised are first divided by their largest entry, so that their length is immaterial.
    """
    if power == 1.0:
        return X
    if sp.issparse(X):
        raised = sp.csr_array(X)
        lengths = np.diff(raised.indptr)
        largest = np.repeat(_largest(abs(raised).max(axis=1).toarray().ravel()), lengths) if normalize else 1.0
        return sp.csr_array((_signed_power(raised.data / largest, power), raised.indices, raised.indptr), X.shape)
    X = np.asarray(X)
    return _signed_power(X / _largest(np.abs(X).max(axis=1))[:, None] if normalize else X, power)


def _signed_power(values: NDArray[Any], power: float) -> NDArray[Any]:
    raised: NDArray[Any] = np.sign(values) * np.abs(values) ** power
    return raised


def _largest(values: NDArray[Any]) -> NDArray[Any]:
    return np.where(values > 0.0, values, 1.0).astype(values.dtype)


def project(X: Any, weights: Matrix, *, normalize: bool) -> Matrix:
    """``X weights`` in float64, with the rows of X scaled."""
    if sp.issparse(X):
        product = np.asarray(X.astype(np.float64) @ weights)
        product *= row_scale(X, normalize)[:, None]
        return product
    return np.vstack([chunk @ weights for _, chunk in scaled_chunks(X, normalize=normalize)])


def gather(X: Any, weights: Matrix, *, normalize: bool) -> Matrix:
    """``X' weights`` in float64, with the rows of X scaled."""
    if sp.issparse(X):
        return np.asarray(X.T.astype(np.float64) @ (row_scale(X, normalize)[:, None] * weights))
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
            return np.ascontiguousarray(cho_solve(self.factor, B))  # the layout of arrays read from a file
        inner = cho_solve(self.factor, self.dual @ B)
        return np.ascontiguousarray((B - self.dual.T @ inner) / self.penalty)

    def regress(self, X: Any, targets: Matrix, *, normalize: bool) -> Matrix:
        """Solve with ``B = X' targets``: the ridge regression of the targets on X."""
        if self.dual is None:
            return self.solve(gather(X, targets, normalize=normalize))
        return np.ascontiguousarray(self.dual.T @ cho_solve(self.factor, targets))


class Classifiers(NamedTuple):
    """One linear classifier a label: log-odds ``X weights + bias``."""

    weights: Matrix
    bias: Matrix


def logistic_regression(X: Any, T: Targets, C: float, *, normalize: bool) -> Classifiers:
    """Minimise ``sum_known_i log(1 + exp(-t_ic (x_i w_c + b_c))) + |w_c|^2 / (2 C)`` for each label c.

    X is used in its own dtype, and stays sparse if it is. A label whose known entries all agree has no finite
    optimum. It gets no weights, and as its bias the log-odds of its entries together with one more that is
    positive at the rate of all known entries of T.
    """
    positives, negatives = (T == 1).sum(axis=0), (T == -1).sum(axis=0)
    rate = (positives.sum() + 0.5) / (positives.sum() + negatives.sum() + 1.0)
    bias = np.log((positives + rate) / (negatives + 1.0 - rate))
    weights = np.zeros((X.shape[1], T.shape[1]))
    varied = np.flatnonzero((positives > 0) & (negatives > 0))
    X = _unit_images(X) if normalize and len(varied) else X
    slowest = 0
    for c in varied:
        known = T[:, c] != 0
        model = LogisticRegression(C=C, tol=1e-8, max_iter=MOST_STEPS)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # float32 may stop just short of tol
            model.fit(X if known.all() else X[np.flatnonzero(known)], T[known, c])
        weights[:, c], bias[c] = model.coef_[0], model.intercept_[0]
        slowest = max(slowest, int(model.n_iter_[0]))
    if slowest >= MOST_STEPS:
        warnings.warn(
            f"The classifiers of the seen labels did not converge in {MOST_STEPS} iterations: lower C.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return Classifiers(weights, bias)


def _unit_images(X: Any) -> Any:
    """Rows of unit length, in the storage and dtype of X."""
    scale = row_scale(X, True)
    if sp.issparse(X):
        return sp.csr_array(sp.diags_array(scale) @ X, dtype=X.dtype)
    return np.asarray(X) * scale[:, None].astype(X.dtype)


def unit_rows(M: Matrix) -> Matrix:
    """Rows scaled to unit length; a row of zeros stays."""
    lengths = np.linalg.norm(M, axis=1, keepdims=True)
    return M / np.where(lengths > 0.0, lengths, 1.0)


def similarity_shares(M: Matrix, N: Matrix, temperature: float) -> Matrix:
    """``exp(cos(m, n) / temperature)`` for each row m of M and n of N, divided by the sum of the row."""
    shares: Matrix = softmax(unit_rows(M) @ unit_rows(N).T / temperature, axis=1)
    return shares
