"""ESZSL: an embarrassingly simple approach to zero-shot learning (Romera-Paredes & Torr, 2015)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from unseen.base import Matrix, TrainingProblem
from unseen.baselines._linear import Ridge, gather, project
from unseen.baselines._scored import ScoredTagger
from unseen.explanation import parts_in_span
from unseen.validation import check_number

Linear = Callable[[Matrix], Matrix]


class ESZSL(ScoredTagger):
    r"""Bilinear ridge regression between images and label vectors, in closed form.

    Minimises over W, with the targets t_ic = 1 (image i shows label c) or -1 and label vectors m_c::

        sum over known (i, c) of (t_ic - x_i W m_c)^2
            +  gamma |W Ms'|^2  +  lam |X W|^2  +  gamma lam |W|^2

    When every entry is known: ``W = (X'X + gamma I)^-1 X'T Ms (Ms'Ms + lam I)^-1``. The score of a label is
    ``x W m_c``.

    Multi-label adaptation: Romera-Paredes & Torr have one positive a row of the targets, here any number of them.
    Unknown entries are left out of the first sum exactly: the normal equations are then solved by conjugate
    gradients that the closed form preconditions. The features are used as they are, without a kernel.

    `explain`: x W lies in the span of the seen labels, ``x W = sum_k e_k(x) m_k``; label k adds
    ``e_k(x) <m_k, m_c>`` to the score, the evidence for it times its likeness to the label.

    Parameters
    ----------
    gamma : float, default=1.0
        Weight on the side of the features; of the scale of the eigenvalues of X'X.
    lam : float, default=10.0
        Weight on the side of the labels; of the scale of the eigenvalues of Ms'Ms.
    normalize : bool, default=True
        Scale features and label vectors to unit length.
    center : bool, default=True
        Subtract the mean of the label vectors given to `fit` (before scaling), also from labels asked for later.
    tol : float, default=1e-8
        Relative residual of the normal equations to reach when there are unknown entries.

    Attributes
    ----------
    weights_ : ndarray of shape (n_features, n_dims)
        W.
    n_iter_ : int
        Steps of conjugate gradients; 0 when the closed form was enough.
    threshold_ : float
        What is subtracted from the scores: the threshold of best micro-F1 over the known training entries.
    label_names_, label_vectors_, n_seen_
        The labels given to `fit`, the seen ones first.

    Examples
    --------
    >>> from unseen import make_tagged_scenes
    >>> from unseen.baselines.eszsl import ESZSL
    >>> data = make_tagged_scenes(n_train=300, n_test=5)
    >>> model = ESZSL().fit(data.X_train, data.Y_train[:, data.seen], data.seen_labels)
    >>> model.decision_function(data.X_test, data.unseen_labels).shape
    (5, 12)
    """

    def __init__(
        self,
        gamma: float = 1.0,
        lam: float = 10.0,
        *,
        normalize: bool = True,
        center: bool = True,
        tol: float = 1e-8,
    ) -> None:
        self.gamma = gamma
        self.lam = lam
        self.normalize = normalize
        self.center = center
        self.tol = tol

    def _learn(self, problem: TrainingProblem) -> None:
        gamma = check_number(self.gamma, "gamma", strict=True)
        lam = check_number(self.lam, "lam", strict=True)
        tol = check_number(self.tol, "tol", strict=True)
        X, T = problem.X, problem.T.astype(np.float64)
        # Ms = G R' with orthonormal R: W lies in the span of the labels, W = C R', where Ms'Ms is diagonal.
        left, sizes, R = np.linalg.svd(problem.seen, full_matrices=False)
        G = left * sizes
        ridge = Ridge(X, gamma, "gamma", normalize=self.normalize_)

        def closed_form(B: Matrix) -> Matrix:
            return ridge.solve(B) / (sizes**2 + lam)

        C = ridge.regress(X, T @ G, normalize=self.normalize_) / (sizes**2 + lam)
        self.n_iter_ = 0
        if not T.all():
            known = np.abs(T)

            def normal_equations(C: Matrix) -> Matrix:
                images = project(X, C, normalize=self.normalize_)
                pulled = (known * (images @ G.T)) @ G + lam * images
                return gather(X, pulled, normalize=self.normalize_) + gamma * (sizes**2 + lam) * C

            target = gather(X, T @ G, normalize=self.normalize_)
            C, self.n_iter_ = _conjugate_gradients(normal_equations, closed_form, target, C, tol)
        self.weights_ = C @ R

    def _scores(self, X: Any, M: Matrix) -> Matrix:
        scores: Matrix = self._project(X, self.weights_) @ M.T
        return scores

    def _seen_parts(self, X: Any, M: Matrix) -> Matrix:
        return parts_in_span(self._project(X, self.weights_)[0], self._seen_vectors(), M[0])


def _conjugate_gradients(
    apply: Linear, precondition: Linear, target: Matrix, start: Matrix, tol: float, max_iter: int = 500
) -> tuple[Matrix, int]:
    """Solve ``apply(C) = target`` from ``start``; matrices take the place of vectors."""
    C, residual = start, target - apply(start)
    goal = tol * np.linalg.norm(target)
    direction = z = precondition(residual)
    descent = np.vdot(residual, z)
    for step in range(max_iter):
        if np.linalg.norm(residual) <= goal:
            return C, step
        image = apply(direction)
        length = descent / np.vdot(direction, image)
        C = C + length * direction
        residual = residual - length * image
        z = precondition(residual)
        descent, previous = np.vdot(residual, z), descent
        direction = z + descent / previous * direction
    warnings.warn(
        f"ESZSL stopped after {max_iter} steps at a residual above tol={tol:g}: raise gamma, lam or tol.",
        ConvergenceWarning,
        stacklevel=2,
    )
    return C, max_iter
