"""Calibration: scores of different origin as log-odds, learned on labels and images that were held out."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning

Matrix = NDArray[np.float64]

LEAST_SLOPE = 0.05  # a score keeps its order, however little it was worth on held-out labels
PENALTY = 1.0  # of the squared coefficients; the losses are summed over the entries


class LogOdds(NamedTuple):
    """``log-odds = <coefficients, features> + intercept``."""

    coefficients: Matrix
    intercept: float

    def __call__(self, *features: Matrix) -> Matrix:
        """Log-odds of entries with these features, one array a coefficient."""
        odds: Matrix = sum(w * feature for w, feature in zip(self.coefficients, features, strict=True))
        return odds + self.intercept


def fit_log_odds(features: list[Matrix], targets: NDArray[np.int8]) -> LogOdds | None:
    """Minimise ``sum log(1 + exp(-t (<w, f> + b))) + PENALTY/2 |w|^2``, with ``w_0 >= LEAST_SLOPE``, ``w_j <= 0``.

    The first feature speaks for a label, the others against it. Entries of target 0 are left out; None if the
    others are not of both kinds.
    """
    known = targets != 0
    t = targets[known].astype(np.float64)
    if not (t > 0).any() or not (t < 0).any():
        return None
    F = np.column_stack([feature[known] for feature in features])
    # In units of their own spread the features make a well conditioned problem.
    spread = np.where(F.std(axis=0) > 0.0, F.std(axis=0), 1.0)
    Z = np.column_stack([F / spread, np.ones(len(F))])
    penalty = np.append(PENALTY / spread**2, 0.0)

    def objective(w: Matrix) -> tuple[float, Matrix]:
        margins = t * (Z @ w)
        loss = np.logaddexp(0.0, -margins).sum() + 0.5 * float(penalty @ (w * w))
        return float(loss) / len(t), (Z.T @ (-t * expit(-margins)) + penalty * w) / len(t)

    others = F.shape[1] - 1
    bounds = [(LEAST_SLOPE * spread[0], None), *[(None, 0.0)] * others, (None, None)]
    start = np.zeros(Z.shape[1])
    start[0] = max(1.0, LEAST_SLOPE * spread[0])
    options = {"maxiter": 1000, "ftol": 1e-15, "gtol": 1e-9}
    solved = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    if solved.status == 1:  # out of iterations; that no step improves any more is as far as rounding goes
        warnings.warn("The calibration stopped before it converged.", ConvergenceWarning, stacklevel=2)
    return LogOdds(solved.x[:-1] / spread, float(solved.x[-1]))


def typical_intercept(
    odds: LogOdds, features: list[Matrix], targets: NDArray[np.int8], labels: NDArray[np.intp]
) -> float:
    """Median over the labels of the intercept that makes the mean probability of a label its own rate.

    The intercept of all entries together would follow the most frequent label. A label's rate is that of its known
    entries and of one more that is half positive, so that no intercept is infinite.
    """
    known = targets != 0
    order = np.argsort(labels[known], kind="stable")
    ends = np.flatnonzero(np.diff(labels[known][order])) + 1
    scores = np.split(odds._replace(intercept=0.0)(*features)[known][order], ends)
    shown = np.split(targets[known][order] == 1, ends)
    return float(np.median([_intercept(score, shows) for score, shows in zip(scores, shown, strict=True)]))


def _intercept(scores: Matrix, shown: NDArray[np.bool_]) -> float:
    rate = (shown.sum() + 0.5) / (len(shown) + 1.0)
    level = float(np.log(rate / (1.0 - rate)))
    # The root lies between these two; the slack is for rounding, when all scores are alike.
    low, high = level - float(scores.max()) - 1e-6, level - float(scores.min()) + 1e-6
    return float(brentq(lambda intercept: expit(scores + intercept).mean() - rate, low, high))


def groups(order: NDArray[np.intp], n_groups: int) -> NDArray[np.intp]:
    """Number of the group of each item: items that follow each other in ``order`` go to different groups."""
    group = np.empty(len(order), dtype=np.intp)
    group[order] = np.arange(len(order)) % n_groups
    return group
