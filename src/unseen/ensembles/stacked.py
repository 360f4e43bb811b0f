"""Stacked: TAEP for the annotated labels, a consensus of three methods for all others, on one scale."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning

from unseen.base import TrainingProblem, ZeroShotTagger, seen_places
from unseen.baselines._linear import gather, known_images, project, signed_power
from unseen.ensembles.consensus import Consensus
from unseen.taep import TAEP
from unseen.validation import Matrix, check_count, check_number

MOST_SCORED = 2000  # images per fold; more would hardly change a handful of coefficients
LEAST_SLOPE = 0.05  # keeps the order of a score, however weak it was on held-out labels
PENALTY = 1.0  # of the squared coefficients; the losses are summed over the entries


class Stacked(ZeroShotTagger):
    r"""TAEP for the seen labels and `Consensus` for all others, both as log-odds.

    With s(x, k) the margin score of a seen label by `TAEP` (without its terms for unseen labels) and u(x, c) the
    score of `Consensus`::

        score(x, k) = d s(x, k) + e                               if k is a seen label
        score(x, c) = a u(x, c) - b max_k s(x, k) + c0            otherwise

    The coefficients minimise two logistic losses, with a, d > 0 and b >= 0, on labels and images that were held
    out in turn: each fold fits both methods on the other labels of the other images. c0 is the median over the
    held-out labels of each one's own intercept. Without label vectors, or with a single seen label, d = a = 1,
    b = e = 0 and c0 is minus the threshold of `Consensus`. `explain`: the parts are ``a`` times those of
    `Consensus` or ``d`` times those of `TAEP`; a seen label also gets the remainder of its score.

    Parameters
    ----------
    beta : float, default=1.0
        Weight of |V|^2 in `TAEP`.
    n_splits : int, default=5
        Folds of labels and of images; at most as many as there are seen labels.
    power : float, default=0.5
        Features enter as ``sign(x) |x|^power``. Any value but 1 copies them in memory.
    normalize, center : bool, default=True
        Scale features and label vectors to unit length, the latter after subtracting the mean of those in `fit`.
    tol : float, default=1e-2
        Certified relative gap of `TAEP` to reach.
    random_state : int, RandomState or None, default=0
        Order in which `TAEP` visits images.

    Attributes
    ----------
    seen_part_, unseen_part_ : TAEP, Consensus
        The fitted methods.
    seen_odds_, unseen_odds_ : ndarray of shape (2,) and (3,)
        (d, e) and (a, -b, c0).

    Examples
    --------
    >>> from unseen import make_tagged_scenes
    >>> from unseen.ensembles import Stacked
    >>> data = make_tagged_scenes(n_train=300, n_test=5)
    >>> model = Stacked().fit(data.X_train, data.Y_train[:, data.seen], data.seen_labels, data.unseen_labels)
    >>> model.decision_function(data.X_test, "all").shape
    (5, 24)
    """

    def __init__(
        self,
        beta: float = 1.0,
        *,
        n_splits: int = 5,
        power: float = 0.5,
        normalize: bool = True,
        center: bool = True,
        tol: float = 1e-2,
        random_state: Any = 0,
    ) -> None:
        self.beta = beta
        self.n_splits = n_splits
        self.power = power
        self.normalize = normalize
        self.center = center
        self.tol = tol
        self.random_state = random_state

    def _set_labels(self, n_seen: int, names: tuple[str, ...] | None, seen: Any, unseen: Any) -> None:
        super()._set_labels(n_seen, names, seen, unseen)
        self.has_vectors_ = seen is not None

    def _fit(self, problem: TrainingProblem) -> None:
        n_splits = check_count(self.n_splits, "n_splits", low=2)
        self.power_ = check_number(self.power, "power", strict=True)
        X, T = known_images(problem.X, problem.T)
        problem = problem._replace(X=self._powered(X), T=T)
        self.embedded_ = problem.seen
        self.seen_part_, self.unseen_part_ = self._fit_parts(problem)
        self.seen_odds_ = np.array([1.0, 0.0])
        self.unseen_odds_ = np.array([1.0, 0.0, -self.unseen_part_.threshold_])
        if self.has_vectors_:
            self._calibrate(problem, n_splits)

    def _fit_parts(self, problem: TrainingProblem) -> tuple[TAEP, Consensus]:
        X, Y = problem.X, np.where(problem.T == 0, np.nan, problem.T == 1)
        # The vectors are already centred and the features raised to their power.
        shared: Any = {"normalize": self.normalize, "center": False}
        taep = TAEP(beta=self.beta, gamma=0.0, lam=0.0, tol=self.tol, random_state=self.random_state, **shared)
        taep.fit(X, Y, problem.seen)
        unseen = problem.unseen if len(problem.unseen) else None
        return taep, Consensus(power=1.0, **shared).fit(X, Y, problem.seen, unseen, problem.relations)

    def _calibrate(self, problem: TrainingProblem, n_splits: int) -> None:
        """Learn the coefficients, as far as labels and images can be held out."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the final fit gives its own warning
            folds = folds_of(problem, n_splits, normalize=self.normalize_)
            entries = [self._held_out(problem, *fold) for fold in folds]
        if not entries:
            return
        own, other = (np.vstack(part) for part in zip(*entries, strict=True))
        odds = fit_log_odds(own[:, 1:], own[:, 0])
        self.seen_odds_ = self.seen_odds_ if odds is None else odds
        odds = fit_log_odds(other[:, 2:], other[:, 0])
        if odds is not None:
            intercept = typical_intercept(other[:, 2:] @ odds[:-1], other[:, 0], other[:, 1])
            self.unseen_odds_ = np.append(odds[:-1], intercept)

    def _held_out(self, problem: TrainingProblem, trained: Any, fitted: Any, scored: Any) -> tuple[Matrix, Matrix]:
        """One row per entry: truth and score of trained labels; truth, label, score and maximum of the others."""
        T, M, R = problem.T, problem.seen, problem.relations
        order = np.concatenate([np.flatnonzero(trained), np.flatnonzero(~trained)])
        R = None if R is None else R[np.ix_(order, order)]
        part = TrainingProblem(problem.X[fitted], T[np.ix_(fitted, trained)], M[trained], M[~trained], R)
        taep, consensus = self._fit_parts(part)
        own = taep.decision_function(problem.X[scored], M[trained])
        other = consensus.decision_function(problem.X[scored], M[~trained]) + consensus.threshold_
        truth, shape = T[scored], other.shape
        labels, surest = np.flatnonzero(~trained), own.max(axis=1, keepdims=True)
        columns = truth[:, ~trained], np.broadcast_to(labels, shape), other, np.broadcast_to(surest, shape)
        return (
            np.column_stack([truth[:, trained].ravel(), own.ravel()]),
            np.column_stack([column.ravel() for column in columns]),
        )

    def _margin_scores(self, X: Any, M: Matrix) -> Matrix:
        X, places = self._powered(X), seen_places(M, self.embedded_)
        scores, known = np.empty((X.shape[0], len(M))), places >= 0
        slope, intercept = self.seen_odds_
        scores[:, known] = slope * self.seen_part_._margin_scores(X, self.embedded_[places[known]]) + intercept
        if not known.all():
            transferred = self.unseen_odds_[0] * self.unseen_part_._scores(X, M[~known])
            scores[:, ~known] = transferred - self._needed(X)[:, None]
        return scores

    def _powered(self, X: Any) -> Any:
        return signed_power(X, self.power_, normalize=self.normalize_)

    def _thresholds(self, X: Any) -> Matrix:
        return self._needed(self._powered(X))

    def _needed(self, powered: Any) -> Matrix:
        """Value that ``a u(x, c)`` of an unseen label must exceed."""
        margins = self.seen_part_._margin_scores(powered, self.embedded_)
        return np.asarray(-self.unseen_odds_[1] * margins.max(axis=1) - self.unseen_odds_[2])

    def _seen_parts(self, X: Any, M: Matrix) -> Matrix:
        powered, place = self._powered(X), int(seen_places(M, self.embedded_)[0])
        if place < 0:
            return np.asarray(self.unseen_odds_[0] * self.unseen_part_._seen_parts(powered, M))
        parts: Matrix = self.seen_odds_[0] * self.seen_part_._seen_parts(powered, self.embedded_[[place]])
        parts[place] += self._margin_scores(X, M)[0, 0] + self._needed(powered)[0] - parts.sum()
        return parts


def folds_of(problem: TrainingProblem, n_splits: int, *, normalize: bool) -> Iterator[tuple[Any, Any, Any]]:
    """Yield which labels to train, and the rows of the images to fit and to score; deterministic."""
    X, T, M = problem.X, problem.T, problem.seen
    shown = T == 1
    n_splits = min(n_splits, T.shape[1], len(T))
    mean = gather(X, np.full((len(T), 1), 1.0 / len(T)), normalize=normalize)
    nearest_first = np.argsort(project(X, mean, normalize=normalize)[:, 0], kind="stable")
    of_image = deal(nearest_first, max(n_splits, -(-len(T) // MOST_SCORED)))
    of_label = deal(np.lexsort([M @ M.mean(axis=0), shown.sum(axis=0)]), n_splits)
    for held in range(n_splits):
        trained = of_label != held
        if not trained.any() or trained.all():
            continue
        useful = shown[:, trained].any(axis=1) | ~shown.any(axis=1)
        fitted = np.flatnonzero((of_image != held) & useful & (T[:, trained] != 0).any(axis=1))
        if shown[np.ix_(fitted, trained)].any():
            yield trained, fitted, np.flatnonzero(of_image == held)


def deal(order: NDArray[np.intp], n_groups: int) -> NDArray[np.intp]:
    """Group of each item: consecutive items of ``order`` go to different groups."""
    group = np.empty(len(order), dtype=np.intp)
    group[order] = np.arange(len(order)) % n_groups
    return group


def fit_log_odds(features: Matrix, targets: Matrix) -> Matrix | None:
    """Minimise ``sum log(1 + exp(-t (<w, f> + b))) + PENALTY/2 |w|^2``, with ``w_0 >= LEAST_SLOPE``, ``w_j <= 0``.

    Entries with target 0 are left out; None if the others have only one sign. Returns (w, b).
    """
    from scipy.optimize import minimize

    F, t = features[targets != 0], targets[targets != 0]
    if not (t > 0).any() or not (t < 0).any():
        return None
    # Scaling the features by their spread makes the problem well conditioned.
    spread = np.where(F.std(axis=0) > 0.0, F.std(axis=0), 1.0)
    Z = np.column_stack([F / spread, np.ones(len(F))])
    penalty = np.append(PENALTY / spread**2, 0.0)

    def objective(w: Matrix) -> tuple[float, Matrix]:
        margins = t * (Z @ w)
        loss = np.logaddexp(0.0, -margins).sum() + 0.5 * float(penalty @ (w * w))
        return float(loss) / len(t), (Z.T @ (-t * expit(-margins)) + penalty * w) / len(t)

    least = LEAST_SLOPE * spread[0]
    bounds = [(least, None), *[(None, 0.0)] * (F.shape[1] - 1), (None, None)]
    start = np.append(max(1.0, least), np.zeros(F.shape[1]))
    options = {"maxiter": 1000, "ftol": 1e-15, "gtol": 1e-9}
    solved = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return np.asarray(solved.x / np.append(spread, 1.0))


def typical_intercept(scores: Matrix, targets: Matrix, labels: Matrix) -> float:
    """Median over the labels of the intercept that makes the mean probability of a label its own rate.

    A single intercept for all entries would follow the most frequent label.
    """
    from scipy.optimize import brentq

    found = []
    for label in np.unique(labels[targets != 0]):
        s, shown = (values[(labels == label) & (targets != 0)] for values in (scores, targets == 1))
        rate = (shown.sum() + 0.5) / (len(shown) + 1.0)  # neither 0 nor 1
        level = np.log(rate / (1.0 - rate))
        # The root lies between these two; the slack is for rounding when all scores are equal.
        ends = level - s.max() - 1e-6, level - s.min() + 1e-6
        found.append(brentq(lambda b, s=s, rate=rate: expit(s + b).mean() - rate, *ends))
    return float(np.median(found))
