"""Stacked: classifiers for the annotated labels, TAEP for all others, on one scale."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from copy import copy
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from unseen.base import TrainingProblem, ZeroShotTagger, kept_for, seen_places
from unseen.baselines import _linear as linear
from unseen.baselines._linear import known_images, logistic_regression, project, split_columns, unit_images
from unseen.explanation import Kind
from unseen.taep import TAEP
from unseen.validation import Matrix, check_count, check_number

MOST_FITTED, MOST_SCORED = 10_000, 2000  # images per fold; more would hardly change a handful of coefficients
LEAST_SLOPE = 0.05  # keeps the order of a score, however weak it was on held-out labels
PENALTY = 1.0  # of the squared coefficients; the losses are summed over the entries
MEAN_SHARE = 0.5  # of a label's mean score; 0.3 to 0.7 are about as good


class Stacked(ZeroShotTagger):
    r"""Logistic classifiers for the seen labels and `TAEP` for all others, as log-odds.

    With l(x, k) = <w_k, x> + b_k the log-odds of seen label k (x also has half the square roots of the class
    probabilities, if the evidence is `BackboneKnowledge`), which minimise
    ``sum over known (i, k) of log(1 + exp(-t_ik l(x_i, k))) + |w_k|^2 / (2 C)``, s(x, c) the margin score of
    `TAEP` and e(x, c) that of ``evidence``, if there is one::

        score(x, k) = d0 l(x, k) + d1 e(x, k) + d2                if k is a seen label
        score(x, c) = a0 s'(x, c) + a1 e(x, c) + a2               otherwise

    Some unseen labels score high for every image. Without evidence, s' is therefore s minus half of its mean over
    the training images, which is ``s(x - x_mean / 2, c)`` as s is linear in x; with evidence, s' is s.

    The coefficients minimise two logistic losses, with slopes of at least 0 (d0, a0 > 0), on labels and images
    that were held out in turn. An entry counts by ``1 / sqrt(1 + n)`` if its label has n positive images. Without
    label vectors, or with a single seen label, d0 = a0 = 1 and the others are 0. The threshold of an image is that
    of an unseen label, ``a0 F(x, 0) - a2``, less half of the mean of F(., 0) where s' is.

    Parameters
    ----------
    evidence : ZeroShotTagger, optional
        Usually `BackboneKnowledge`: a tagger that needs no annotations of the labels it ranks.
    n_features : int, optional
        With ``evidence``: number of leading columns of X that are features; the others are for the evidence.
    C : float, default=3.0
        Inverse strength of the penalty of the classifiers.
    beta : float, default=0.5
        Weight of |V|^2 in `TAEP`, scale-free.
    n_splits : int, default=5
        Folds of labels and of images; at most as many as there are seen labels.
    tol : float, default=1e-2
        Certified relative gap of `TAEP` to reach.
    random_state : int, RandomState or None, default=0
        Order in which `TAEP` visits images.

    Attributes
    ----------
    weights_, bias_ : ndarray of shape (n_inputs, n_seen) and (n_seen,)
        ``l(x, .) = x weights_ + bias_``, with features of unit length.
    transfer_, evidence_ : ZeroShotTagger or None
        The fitted `TAEP` (None without label vectors) and the fitted evidence.
    seen_odds_, unseen_odds_ : ndarray of shape (3,)
        (d0, d1, d2) and (a0, a1, a2).
    """

    normalize = center = False  # each part does its own scaling and centring
    transfer_: TAEP | None
    evidence_: ZeroShotTagger | None

    def __init__(
        self,
        evidence: ZeroShotTagger | None = None,
        n_features: int | None = None,
        *,
        C: float = 3.0,
        beta: float = 0.5,
        n_splits: int = 5,
        tol: float = 1e-2,
        random_state: Any = 0,
    ) -> None:
        self.evidence = evidence
        self.n_features = n_features
        self.C = C
        self.beta = beta
        self.n_splits = n_splits
        self.tol = tol
        self.random_state = random_state

    def _set_labels(self, n_seen: int, names: tuple[str, ...] | None, seen: Any, unseen: Any) -> None:
        super()._set_labels(n_seen, names, seen, unseen)
        self.has_vectors_ = seen is not None
        self.n_features_ = self.n_features_in_
        if self.evidence is None:
            return
        if not isinstance(self.evidence, ZeroShotTagger):
            raise ValueError(f"evidence: {self.evidence!r} was given. Pass a tagger, such as BackboneKnowledge.")
        self.n_features_ = linear.check_first_columns(self.n_features, "n_features", self.n_features_in_)

    def _fit(self, problem: TrainingProblem) -> None:
        n_splits = check_count(self.n_splits, "n_splits", low=2)
        check_number(self.C, "C", strict=True)
        X, T = known_images(problem.X, problem.T)
        features, others = split_columns(X, self.n_features_)
        problem = problem._replace(X=features, T=T)
        self.evidence_ = None
        if self.evidence is not None:
            labels = (problem.seen, problem.unseen if len(problem.unseen) else None) if self.has_vectors_ else ()
            self.evidence_ = clone(self.evidence).fit(others, _annotations(T), *labels)
        inputs = self._inputs(features, others)
        self.weights_, self.bias_ = logistic_regression(inputs, T, self.C, normalize=False)
        self.mean_image_ = mean_image(features)
        self.transfer_ = self._fit_taep(problem) if self.has_vectors_ else None
        self.seen_odds_ = self.unseen_odds_ = np.array([1.0, 0.0, 0.0])
        if self.has_vectors_:
            self._calibrate(problem, inputs, others, list(folds_of(problem._replace(X=X), n_splits)))

    def _inputs(self, features: Any, others: Any) -> Any:
        """Columns of the classifiers: features, of unit length, and those that the evidence adds."""
        unit = unit_images(features)
        added = None if self.evidence_ is None else self.evidence_._inputs_for_classifiers(others)
        if added is None:
            return unit
        added = added.astype(unit.dtype)
        return sp.csr_array(sp.hstack([unit, added])) if sp.issparse(unit) else np.hstack([unit, added])

    def _fit_taep(self, problem: TrainingProblem) -> TAEP:
        taep = TAEP(beta=self.beta, tol=self.tol, random_state=self.random_state)
        taep.set_params(center=len(problem.seen) + len(problem.unseen) > 1)  # a vector minus itself is zero
        unseen = problem.unseen if len(problem.unseen) else None
        return taep.fit(problem.X, _annotations(problem.T), problem.seen, unseen, problem.relations)

    def _calibrate(self, problem: TrainingProblem, inputs: Any, others: Any, folds: list[Any]) -> None:
        """Learn the coefficients, as far as labels and images can be held out."""
        evidence = self._evidence_scores(others, problem.seen)  # needs no annotations: fitted once
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the final fit gives its own warning
            entries = [self._held_out(problem, inputs, evidence, *fold) for fold in folds]
        for name, part in zip(("seen_odds_", "unseen_odds_"), zip(*entries, strict=True), strict=False):
            rows = np.vstack(part)
            odds = fit_log_odds(rows[:, 2:], rows[:, 0], rows[:, 1])
            if odds is not None:
                setattr(self, name, odds)

    def _held_out(
        self, problem: TrainingProblem, inputs: Any, evidence: Matrix, trained: Any, fitted: Any, scored: Any
    ) -> tuple[Matrix, Matrix]:
        """Truth, weight, score and evidence of each entry, of trained labels and of the others."""
        X, T, M, R = problem.X, problem.T, problem.seen, problem.relations
        weights = np.tile(1.0 / np.sqrt(1.0 + (T == 1).sum(axis=0)), (len(scored), 1))
        order = np.concatenate([np.flatnonzero(trained), np.flatnonzero(~trained)])
        R = None if R is None else R[np.ix_(order, order)]
        part = TrainingProblem(X[fitted], T[np.ix_(fitted, trained)], M[trained], M[~trained], R)
        directions, bias = logistic_regression(inputs[fitted], part.T, self.C, normalize=False)
        own = project(inputs[scored], directions, normalize=False) + bias
        transferred = self._less_mean(self._fit_taep(part).decision_function, X[scored], M[~trained])
        return tuple(  # type: ignore[return-value]
            np.column_stack([part.ravel() for part in (T[rows], weights[:, which], s, evidence[rows])])
            for which, s in ((trained, own), (~trained, transferred))
            for rows in (np.ix_(scored, which),)
        )

    def _less_mean(self, of: Callable[..., Matrix], X: Any, *labels: Matrix) -> Matrix:
        """A linear function of TAEP at the images, minus its share at the mean image if there is no evidence."""
        if self.evidence_ is not None:
            return of(X, *labels)
        # Functions scale an image to unit length.
        share = MEAN_SHARE * float(np.linalg.norm(self.mean_image_))
        return of(X, *labels) - share * of(self.mean_image_[None], *labels)

    def _evidence_scores(self, X: Any, M: Matrix) -> Matrix:
        if self.evidence_ is None:
            return np.zeros((X.shape[0], len(M)))
        return self.evidence_._margin_scores(X, self.evidence_._passed_on(M))

    def _margin_scores(self, X: Any, M: Matrix) -> Matrix:
        features, others = split_columns(X, self.n_features_)
        places, of_others = kept_for(self, M, self._places_and_others)
        known, scores = places >= 0, np.empty((X.shape[0], len(M)))
        if known.any():
            inputs, chosen = self._inputs(features, others), places[known]
            own = project(inputs, self.weights_[:, chosen], normalize=False) + self.bias_[chosen]
            scores[:, known] = self.seen_odds_[0] * own + self.seen_odds_[2]
        if not known.all() and self.transfer_ is not None:
            s = self._less_mean(self.transfer_._margin_scores, features, of_others)
            scores[:, ~known] = self.unseen_odds_[0] * s + self.unseen_odds_[2]
        slopes = np.where(known, self.seen_odds_[1], self.unseen_odds_[1])
        return np.asarray(scores + slopes * self._evidence_scores(others, M)) if slopes.any() else scores

    def _places_and_others(self, M: Matrix) -> tuple[NDArray[np.intp], Matrix]:
        """Which seen label each label is, or -1, and those that are none, as TAEP uses them."""
        places = seen_places(M, self.label_vectors_[: self.n_seen_])
        others = M[places < 0]
        return places, others if self.transfer_ is None else self.transfer_._embed(others, "labels")

    def _trained_on(self, X: Any, T: Any, labels: NDArray[np.intp]) -> Self:
        # The evidence needs no annotations, and the coefficients are of held-out labels already.
        part = copy(self)
        part.label_names_ = tuple(self.label_names_[k] for k in labels)
        part.label_vectors_, part.n_seen_, part.classes_ = self.label_vectors_[labels], len(labels), labels
        X, T = known_images(X, T[:, labels])
        features, others = split_columns(X, self.n_features_)
        inputs = self._inputs(features, others)
        part.weights_, part.bias_ = logistic_regression(inputs, T, self.C, normalize=False)
        M = self._embed(part.label_vectors_, "seen")
        own = TrainingProblem(features, T, M, M[:0], None)
        part.transfer_ = self._fit_taep(own) if self.has_vectors_ else None
        return part

    def _clues(self, X: Any, M: Matrix) -> list[Matrix]:
        features, others = split_columns(X, self.n_features_)
        clues: list[Matrix] = []
        if self.transfer_ is not None:
            clues.append(self.transfer_._margin_scores(features, self.transfer_._passed_on(M)))
        if self.evidence_ is not None:
            clues += self.evidence_._clues(others, self.evidence_._passed_on(M))
        return clues

    def _thresholds(self, X: Any) -> Matrix:
        if self.transfer_ is None:
            return np.zeros(X.shape[0])
        thresholds = self._less_mean(self.transfer_._thresholds, split_columns(X, self.n_features_)[0])
        return np.asarray(self.unseen_odds_[0] * thresholds - self.unseen_odds_[2])

    def _part_table(self, X: Any, M: Matrix, rows: Any, columns: Any) -> tuple[list[tuple[Kind, str]], Matrix]:
        features, others = split_columns(X, self.n_features_)
        places = kept_for(self, M, self._places_and_others)[0][columns]
        known, values = np.flatnonzero(places >= 0), np.zeros((len(places), self.n_seen_))
        keys: list[tuple[Kind, str]] = []
        told = np.empty((len(places), 0))
        if self.evidence_ is not None:
            keys, told = self.evidence_._part_table(others, self.evidence_._passed_on(M), rows, columns)
            told = told * np.where(places >= 0, self.seen_odds_[1], self.unseen_odds_[1])[:, None]
        if self.transfer_ is not None:
            labels = self.transfer_._passed_on(M)[columns]
            values = self.unseen_odds_[0] * self._less_mean(self.transfer_._seen_parts, features[rows], labels)
        total = self._margin_scores(X, M)[rows, columns] + self._thresholds(X)[rows]
        values[known] = 0.0
        values[known, places[known]] = (total - told.sum(axis=1))[known]
        return [*keys, *(("label", name) for name in self.label_names_[: self.n_seen_])], np.hstack([told, values])


def mean_image(X: Any) -> Matrix:
    """Mean of the rows of X, each scaled to unit length."""
    return linear.gather(X, np.full((X.shape[0], 1), 1.0 / X.shape[0]), normalize=True)[:, 0]


def _annotations(T: Any) -> Matrix:
    return np.where(T == 0, np.nan, T == 1)


def folds_of(problem: TrainingProblem, n_splits: int) -> Iterator[tuple[Any, Any, Any]]:
    """Yield which labels to train, and the rows of the images to fit and to score; deterministic."""
    X, T, M = problem.X, problem.T, problem.seen
    shown = T == 1
    n_splits = min(n_splits, T.shape[1], len(T))
    nearest_first = np.argsort(project(X, mean_image(X)[:, None], normalize=True)[:, 0], kind="stable")
    of_image = deal(nearest_first, max(n_splits, -(-len(T) // MOST_SCORED)))
    n_used = MOST_FITTED * (of_image.max() + 1) // len(T)  # groups of images that one fold is fitted to
    of_label = deal(np.lexsort([M @ M.mean(axis=0), shown.sum(axis=0)]), n_splits)
    for held in range(n_splits):
        trained = of_label != held
        if not trained.any() or trained.all():
            continue
        useful = shown[:, trained].any(axis=1) | ~shown.any(axis=1)
        is_used = (of_image != held) & ((of_image - held) % (of_image.max() + 1) <= max(n_used, 1))
        fitted = np.flatnonzero(is_used & useful & (T[:, trained] != 0).any(axis=1))
        if shown[np.ix_(fitted, trained)].any():
            yield trained, fitted, np.flatnonzero(of_image == held)


def deal(order: NDArray[np.intp], n_groups: int) -> NDArray[np.intp]:
    """Group of each item: consecutive items of ``order`` go to different groups."""
    group = np.empty(len(order), dtype=np.intp)
    group[order] = np.arange(len(order)) % n_groups
    return group


def fit_log_odds(features: Matrix, targets: Matrix, weights: Matrix) -> Matrix | None:
    """Minimise ``sum v log(1 + exp(-t (<w, f> + b))) + PENALTY/2 |w|^2``, ``w_0 >= LEAST_SLOPE``, ``w_j >= 0``.

    The weights v are scaled to a mean of 1. Entries with target 0 are left out; None if the others have only one
    sign. Returns (w, b).
    """
    from scipy.optimize import minimize

    F, t, v = (values[targets != 0] for values in (features, targets, weights))
    if not (t > 0).any() or not (t < 0).any():
        return None
    v = v / v.mean()
    # Scaling the features by their spread makes the problem well conditioned.
    spread = np.where(F.std(axis=0) > 0.0, F.std(axis=0), 1.0)
    Z = np.column_stack([F / spread, np.ones(len(F))])
    penalty = np.append(PENALTY / spread**2, 0.0)

    def objective(w: Matrix) -> tuple[float, Matrix]:
        margins = t * (Z @ w)
        loss = v @ np.logaddexp(0.0, -margins) + 0.5 * float(penalty @ (w * w))
        return float(loss) / len(t), (Z.T @ (-v * t * expit(-margins)) + penalty * w) / len(t)

    least = LEAST_SLOPE * spread[0]
    bounds = [(least, None), *[(0.0, None)] * (F.shape[1] - 1), (None, None)]
    start = np.append(max(1.0, least), np.zeros(F.shape[1]))
    options = {"maxiter": 1000, "ftol": 1e-15, "gtol": 1e-9}
    solved = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return np.asarray(solved.x / np.append(spread, 1.0))
