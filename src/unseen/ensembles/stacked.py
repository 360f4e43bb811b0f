"""Stacked: TAEP for the annotated labels, a consensus of three methods for all others, on one scale."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from unseen.base import Matrix, TrainingProblem, ZeroShotTagger, seen_places
from unseen.baselines._linear import gather, known_images, project, signed_power
from unseen.ensembles._calibration import LogOdds, fit_log_odds, groups, typical_intercept
from unseen.ensembles._parts import keep, recall
from unseen.ensembles.consensus import Consensus
from unseen.taep import TAEP
from unseen.validation import check_count, check_number

MOST_SCORED = 2000  # images of a group: more would not change a handful of coefficients


class Stacked(ZeroShotTagger):
    r"""TAEP for the seen labels and `Consensus` for all others, both as log-odds.

    With s(x, k) the margin score of a seen label by `TAEP` (without its terms for unseen labels) and u(x, c) the
    score of `Consensus`::

        score(x, k) = d s(x, k) + e                               if k is a seen label
        score(x, c) = a u(x, c) - b max_k s(x, k) + c0            otherwise

    The more surely an image shows a seen label, the less likely it is to show a given other one: this is what the
    maximum stands for. The coefficients are those of two logistic regressions, a, d > 0, b >= 0, on labels and
    images that were held out. The seen labels and the training images are both dealt into ``n_splits`` groups (the
    images into more, of which so many are used, if a group had over 2000). Group by group both methods are fitted
    on the other labels of the other images, without the images that show held-out labels alone. The scores of the
    held-out labels on the held-out images give a and b, those of the others d and e; c0 is the median over the
    held-out labels of each one's own intercept, as one very frequent label says little of the next. Then both
    methods are fitted on everything. Images are dealt in the order of their likeness to the mean image and labels
    in the order of their frequency: no random number decides.

    A label is a seen one if its vector is. Nothing else than its vector is needed of a label asked for later;
    ``relations`` of the labels given to `fit` go to `Consensus`. With a single seen label, or without label
    vectors, nothing can be held out: then d = a = 1, b = e = 0 and c0 is minus the threshold of `Consensus`.
    Features enter as ``sign(x) |x|^power``.

    `explain`: the parts of an unseen label are ``a`` times those of `Consensus`. Those of a seen label are
    ``d`` times those of `TAEP`, and the label itself also has what these and the offset leave of its score.

    Parameters
    ----------
    beta : float, default=1.0
        Of `TAEP`: weight of its squared weights.
    n_splits : int, default=5
        Groups of labels and of images to hold out in turn; at most as many as there are seen labels.
    power : float, default=0.5
        Of the features. Other than 1 it takes a copy of them in memory.
    normalize : bool, default=True
        Scale features and label vectors to unit length.
    center : bool, default=True
        Subtract the mean of the label vectors given to `fit` (before scaling), also from labels asked for later.
    tol : float, default=1e-2
        Certified relative gap of `TAEP` to reach.
    random_state : int, RandomState or None, default=0
        Order in which `TAEP` visits images.

    Attributes
    ----------
    seen_part_ : TAEP
        The method of the seen labels.
    unseen_part_ : Consensus
        The method of all others.
    seen_odds_ : ndarray of shape (2,)
        d and e.
    unseen_odds_ : ndarray of shape (3,)
        a, -b and c0.
    embedded_ : ndarray of shape (n_seen, n_dims)
        The vectors of the seen labels, centred and scaled.
    power_ : float
        That of this fit.
    has_vectors_ : bool
        Whether `fit` was given label vectors.
    label_names_, label_vectors_, n_seen_
        The labels given to `fit`, the seen ones first.

    Examples
    --------
    >>> from unseen import make_tagged_scenes
    >>> from unseen.baselines import Stacked
    >>> data = make_tagged_scenes(n_train=300, n_test=5)
    >>> model = Stacked().fit(data.X_train, data.Y_train[:, data.seen], data.seen_labels, data.unseen_labels)
    >>> model.decision_function(data.X_test, "all").shape
    (5, 24)
    >>> bool(model.unseen_odds_[0] > 0 >= model.unseen_odds_[1])
    True
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

    @property
    def seen_part_(self) -> TAEP:
        """The method of the seen labels."""
        return recall(self, "seen", self._new_seen_part())

    @property
    def unseen_part_(self) -> Consensus:
        """The method of all others."""
        return recall(self, "unseen", self._new_unseen_part())

    def _new_seen_part(self) -> TAEP:
        # The vectors it is given have been centred; what its terms for unseen labels do is not asked for.
        return TAEP(
            beta=self.beta,
            gamma=0.0,
            lam=0.0,
            normalize=self.normalize,
            center=False,
            tol=self.tol,
            random_state=self.random_state,
        )

    def _new_unseen_part(self) -> Consensus:
        return Consensus(
            power=1.0, normalize=self.normalize, center=False
        )  # the features it gets have their power

    def _set_labels(self, n_seen: int, names: tuple[str, ...] | None, seen: Any, unseen: Any) -> None:
        super()._set_labels(n_seen, names, seen, unseen)
        self.has_vectors_ = seen is not None

    def _fit(self, problem: TrainingProblem) -> None:
        n_splits = check_count(self.n_splits, "n_splits", low=2)
        self.power_ = check_number(self.power, "power", strict=True)
        X, T = known_images(problem.X, problem.T)
        problem = problem._replace(X=self._powered(X), T=T)
        self.embedded_ = problem.seen
        seen_part, unseen_part = self._fit_parts(problem)
        keep(self, "seen", seen_part)
        keep(self, "unseen", unseen_part)
        seen, unseen = self._calibrate(problem, n_splits) if self.has_vectors_ else (None, None)
        self.seen_odds_ = _as_array(seen or LogOdds(np.ones(1), 0.0))
        self.unseen_odds_ = _as_array(unseen or LogOdds(np.array([1.0, 0.0]), -unseen_part.threshold_))

    def _powered(self, X: Any) -> Any:
        return signed_power(X, self.power_, normalize=self.normalize_)

    def _fit_parts(self, problem: TrainingProblem) -> tuple[TAEP, Consensus]:
        X, Y = problem.X, np.where(problem.T == 0, np.nan, problem.T == 1)
        unseen = problem.unseen if len(problem.unseen) else None
        taep = self._new_seen_part().fit(X, Y, problem.seen)
        return taep, self._new_unseen_part().fit(X, Y, problem.seen, unseen, problem.relations)

    def _calibrate(self, problem: TrainingProblem, n_splits: int) -> tuple[LogOdds | None, LogOdds | None]:
        """Log-odds of the seen and of all other labels; None where nothing could be held out."""
        X, T, M = problem.X, problem.T, problem.seen
        n_seen = len(M)
        if problem.relations is not None:
            problem = problem._replace(relations=problem.relations[:n_seen, :n_seen])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the fit on everything speaks for itself
            scores = [
                self._held_out_scores(problem, *fold)
                for fold in _folds(X, T, M, n_splits, normalize=self.normalize_)
            ]
        if not scores:
            return None, None
        all_scores = _Scores(*(np.concatenate(column) for column in zip(*scores, strict=True)))
        s, s_truth, u, novelty, u_truth, u_labels = all_scores
        unseen = fit_log_odds([u, novelty], u_truth)
        if unseen is not None:
            unseen = unseen._replace(intercept=typical_intercept(unseen, [u, novelty], u_truth, u_labels))
        return fit_log_odds([s], s_truth), unseen

    def _held_out_scores(
        self, problem: TrainingProblem, trained: NDArray[np.bool_], fitted: Any, scored: Any
    ) -> _Scores:
        T, M, R = problem.T, problem.seen, problem.relations
        order = np.concatenate([np.flatnonzero(trained), np.flatnonzero(~trained)])
        taep, consensus = self._fit_parts(
            problem._replace(
                X=problem.X[fitted],
                T=T[np.ix_(fitted, trained)],
                seen=M[trained],
                unseen=M[~trained],
                relations=None if R is None else R[np.ix_(order, order)],
            )
        )
        own = taep.decision_function(problem.X[scored], M[trained])
        other = consensus.decision_function(problem.X[scored], M[~trained]) + consensus.threshold_
        novelty = np.broadcast_to(own.max(axis=1, keepdims=True), other.shape)
        labels = np.broadcast_to(np.flatnonzero(~trained), other.shape)
        own_truth, other_truth = T[np.ix_(scored, trained)], T[np.ix_(scored, ~trained)]
        return _Scores(
            own.ravel(), own_truth.ravel(), other.ravel(), novelty.ravel(), other_truth.ravel(), labels.ravel()
        )

    def _margin_scores(self, X: Any, M: Matrix) -> Matrix:
        X = self._powered(X)
        scores = np.empty((X.shape[0], len(M)))
        places = seen_places(M, self.embedded_)
        known = places >= 0
        slope, intercept = self.seen_odds_
        scores[:, known] = slope * self.seen_part_._margin_scores(X, self.embedded_[places[known]]) + intercept
        if not known.all():
            transferred = self.unseen_odds_[0] * self.unseen_part_._scores(X, M[~known])
            scores[:, ~known] = transferred - self._needed(X)[:, None]
        return scores

    def _thresholds(self, X: Any) -> Matrix:
        return self._needed(self._powered(X))

    def _needed(self, powered: Any) -> Matrix:
        """What the transferred score of a label that is not seen must exceed."""
        margins = self.seen_part_._margin_scores(powered, self.embedded_)
        needed: Matrix = -self.unseen_odds_[1] * margins.max(axis=1) - self.unseen_odds_[2]
        return needed

    def _seen_parts(self, X: Any, M: Matrix) -> Matrix:
        powered, place = self._powered(X), int(seen_places(M, self.embedded_)[0])
        if place < 0:
            transferred: Matrix = self.unseen_odds_[0] * self.unseen_part_._seen_parts(powered, M)
            return transferred
        parts: Matrix = self.seen_odds_[0] * self.seen_part_._seen_parts(powered, self.embedded_[[place]])
        parts[place] += self._margin_scores(X, M)[0, 0] + self._needed(powered)[0] - parts.sum()
        return parts


class _Scores(NamedTuple):
    """Entries of one fold, flat: scores and truth of the trained labels, then of the held-out ones."""

    seen: Matrix
    seen_truth: NDArray[np.int8]
    unseen: Matrix
    novelty: Matrix
    unseen_truth: NDArray[np.int8]
    unseen_labels: NDArray[np.intp]


def _as_array(odds: LogOdds) -> Matrix:
    return np.append(odds.coefficients, odds.intercept)


def _folds(X: Any, T: NDArray[np.int8], M: Matrix, n_splits: int, *, normalize: bool) -> Any:
    """Yield which labels to train, and the rows of the images to fit and to score."""
    shown = T == 1
    n_splits = min(n_splits, T.shape[1], len(T))
    n_groups = max(n_splits, -(-len(T) // MOST_SCORED))
    mean = gather(X, np.full((len(T), 1), 1.0 / len(T)), normalize=normalize)
    of_image = groups(np.argsort(project(X, mean, normalize=normalize)[:, 0], kind="stable"), n_groups)
    of_label = groups(np.lexsort([M @ M.mean(axis=0), shown.sum(axis=0)]), n_splits)
    for held in range(n_splits):
        trained = of_label != held
        if not trained.any() or trained.all():
            continue
        useful = shown[:, trained].any(axis=1) | ~shown.any(axis=1)
        fitted = np.flatnonzero((of_image != held) & useful & (T[:, trained] != 0).any(axis=1))
        if shown[np.ix_(fitted, trained)].any():
            yield trained, fitted, np.flatnonzero(of_image == held)
