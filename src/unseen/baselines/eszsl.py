"""ESZSL: an embarrassingly simple approach to zero-shot learning (Romera-Paredes & Torr, 2015)."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from unseen.base import TrainingProblem
from unseen.baselines._linear import ScoredTagger, parts_in_span, ridge_solver, scaled
from unseen.validation import Matrix, check_number

TOL, MAX_ITER = 1e-9, 1000  # relative change of W, and iterations, when there are unknown entries


@dataclass(eq=False, repr=False)
class ESZSL(ScoredTagger):
    r"""Bilinear ridge regression between images and label vectors, in closed form.

    Minimises over W, with the targets t_ic = 1 (image i shows label c) or -1 and label vectors m_c::

        sum over known (i, c) of (t_ic - x_i W m_c)^2
            +  gamma |W Ms'|^2  +  lam |X W|^2  +  gamma lam |W|^2

    When every entry is known: ``W = (X'X + gamma I)^-1 X'T Ms (Ms'Ms + lam I)^-1``; otherwise this is repeated
    with the predictions of the last W in place of the unknown entries. The score of a label is ``x W m_c``.

    Differences from the paper: a target row may have any number of positives, some entries may be unknown, and
    the features are used directly, without a kernel.

    Parameters
    ----------
    gamma : float, default=1.0
        Weight on the feature side, on the scale of the eigenvalues of X'X.
    lam : float, default=10.0
        Weight on the label side, on the scale of the eigenvalues of Ms'Ms.
    normalize, center : bool, default=True
        Scale features and label vectors to unit length, the latter after subtracting the mean of those in `fit`.

    Attributes
    ----------
    weights_ : ndarray of shape (n_features, n_dims)
        W.
    n_iter_ : int
        Iterations; 0 when every entry is known.
    """

    gamma: float = 1.0
    lam: float = 10.0

    def _learn(self, problem: TrainingProblem) -> None:
        gamma = check_number(self.gamma, "gamma", strict=True)
        lam = check_number(self.lam, "lam", strict=True)
        X, T = scaled(problem.X, normalize=self.normalize_), problem.T.astype(np.float64)
        # Ms = G R' with orthonormal R: W lies in the span of the labels, W = C R', where Ms'Ms is diagonal.
        left, sizes, R = np.linalg.svd(problem.seen, full_matrices=False)
        G = left * sizes
        solve = ridge_solver(X, gamma, "gamma", normalize=False)
        C, self.n_iter_ = solve(X.T @ (T @ G)) / (sizes**2 + lam), 0
        change = 0.0 if T.all() else np.inf
        while change > TOL and self.n_iter_ < MAX_ITER:
            # A fixed point of this solves the normal equations of the known entries.
            filled = np.where(T == 0.0, X @ C @ G.T, T)
            earlier, C = C, solve(X.T @ (filled @ G)) / (sizes**2 + lam)
            change = float(np.linalg.norm(C - earlier) / np.linalg.norm(C))
            self.n_iter_ += 1
        if change > TOL:
            message = f"ESZSL stopped after {MAX_ITER} steps with a change above {TOL:g}: raise lam."
            warnings.warn(message, ConvergenceWarning, stacklevel=2)
        self.weights_ = C @ R

    def _scores(self, X: Any, M: Matrix) -> Matrix:
        return self._project(X, self.weights_) @ M.T

    def _seen_parts(self, X: Any, M: Matrix) -> Matrix:
        return parts_in_span(self._project(X, self.weights_)[0], self._seen_vectors(), M[0])
