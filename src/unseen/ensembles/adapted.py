"""Adapted: a fitted tagger with corrections for labels that were annotated later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit
from sklearn.base import clone

from unseen.base import SURE, TrainingProblem, ZeroShotTagger, seen_places
from unseen.baselines._linear import known_images, project, scaled
from unseen.ensembles.stacked import deal
from unseen.explanation import Kind
from unseen.validation import Matrix, check_count, check_names

STRENGTHS = (0.0, 0.1, 1.0, 3.0, 10.0, 30.0)
LEAST_P = 1e-6  # a prior of 0 or 1 could never be corrected
AT_ONCE = 1000  # images whose probabilities are computed together


class Adapted(ZeroShotTagger):
    r"""A fitted tagger, corrected for labels that were annotated later; all other labels keep their scores.

    With p(x, c) the probabilities of ``base``, or expit of its margin scores if it is not calibrated::

        log-odds(x, c) = logit p(x, c) + <d_c, x / |x|> + b_c

    For each annotated label, known to ``base`` or not, (d_c, b_c) minimise, over the known annotations i::

        sum_i log(1 + exp(-t_ic log-odds(x_i, c))) + sum_r H(p(r, c), log-odds(r, c)) + (|d_c|^2 + b_c^2) / (2 C)

    This is the most probable correction with ``base`` as the prior: next to nothing where images are few, a
    classifier of its own where they are many. The reference images r of a calibrated ``base`` count as annotated
    by ``base`` (H is the cross-entropy). People annotate photos that show their labels: from these alone every
    label would look common, and be found on all other photos too. Margin scores get the same correction.

    C is shared by the labels and chosen on held-out images: the least of `STRENGTHS` whose mean log loss is within
    one standard error of the best. With C = 0 nothing is learned, and all scores are those of ``base``.

    Parameters
    ----------
    base : ZeroShotTagger
        Fitted; neither `fit` nor ``clone`` changes it. One that is not fitted is fitted to the same images first.
    n_features : int, optional
        Number of leading columns of X to learn from; None for all.
    n_splits : int, default=5
        Folds of images.

    Attributes
    ----------
    base_ : ZeroShotTagger
        The fitted base.
    n_own_, n_images_ : int
        Number of annotated labels, the first of ``label_names_`` (the others are those of ``base``), and of images
        with a known annotation.
    strength_ : float
        The chosen C.
    corrections_ : ndarray of shape (n_features + 1, n_own)
        d_c, and b_c in the last row.
    losses_ : ndarray of shape (n_strengths,)
        Mean log loss of a held-out image, for each of `STRENGTHS`.
    sure_ : ndarray of shape (2, 3, n_own)
        Sure tags (p >= 0.8) on held-out images by ``base`` and by this model: how many are right, how many there
        are, and how many images show the label. The C of a fold is chosen on the other folds.

    Examples
    --------
    >>> from unseen import make_tagged_scenes
    >>> from unseen.baselines import ESZSL
    >>> from unseen.ensembles import Adapted
    >>> data = make_tagged_scenes(n_train=300, n_test=5)
    >>> base = ESZSL().fit(data.X_train, data.Y_train[:, data.seen], data.seen_labels)
    >>> own = data.unseen_labels.select(data.unseen_labels.names[:2])
    >>> model = Adapted(base).fit(data.X_train, data.Y_train[:, data.unseen[:2]], own)
    >>> model.n_seen_
    14
    """

    normalize = center = False  # base does its own scaling and centring
    _needs_positive = False  # "this is not a bear" teaches something too
    base_: ZeroShotTagger

    def __init__(
        self, base: ZeroShotTagger | None = None, n_features: int | None = None, *, n_splits: int = 5
    ) -> None:
        self.base = base
        self.n_features = n_features
        self.n_splits = n_splits

    def __sklearn_clone__(self) -> Self:
        base = self.base if _is_fitted(self.base) else clone(self.base, safe=False)
        return type(self)(**self.get_params(deep=False) | {"base": base})

    def _saved_params(self) -> dict[str, Any]:
        return super()._saved_params() | {"base": None}  # base_ is saved

    def _set_labels(self, n_seen: int, names: tuple[str, ...] | None, seen: Any, unseen: Any) -> None:
        super()._set_labels(n_seen, names, seen, unseen)
        if not isinstance(self.base, ZeroShotTagger):
            raise ValueError(f"base: {self.base!r} was given. Pass a tagger, such as PhotoTagger.load().tagger.")
        n_columns = self.n_features_in_
        self.has_vectors_, self.n_own_ = seen is not None, n_seen
        self.n_features_ = n_columns if self.n_features is None else check_count(self.n_features, "n_features")
        if self.n_features_ > n_columns:
            raise ValueError(f"n_features: {self.n_features_}, but X has {n_columns} columns. Pass at most those.")
        if _is_fitted(self.base):
            self._add_labels_of(self.base)

    def _add_labels_of(self, base: Any) -> None:
        """Seen: the annotated labels, then those of base; after them the unseen ones of both."""
        if base.n_features_in_ != self.n_features_in_:
            raise ValueError(
                f"X: {self.n_features_in_} columns, but base has {base.n_features_in_}. Pass features as for base."
            )
        if not self.has_vectors_:
            raise ValueError("seen: no label vectors were given. Pass vectors from the source of those of base.")
        base._embed(self.label_vectors_, "seen and unseen", self.label_names_)  # checks them
        own, theirs = (tuple(zip(it.label_names_, it.label_vectors_, strict=True)) for it in (self, base))
        n_own, n_theirs = self.n_own_, base.n_seen_
        known, sizes = list(own[:n_own]), []
        for group in (theirs[:n_theirs], own[n_own:], theirs[n_theirs:]):
            vectors = np.stack([vector for _, vector in known])
            known += [label for label in group if seen_places(label[1][None], vectors)[0] < 0]
            sizes.append(len(known))
        self.label_names_ = check_names([name for name, _ in known], "seen, with the labels of base")
        self.label_vectors_ = np.stack([vector for _, vector in known])
        self.n_seen_, self.classes_ = sizes[0], np.arange(sizes[0])

    def _fit(self, problem: TrainingProblem) -> None:
        n_splits = check_count(self.n_splits, "n_splits", low=2)
        base: Any = self.base
        self.base_ = base if _is_fitted(base) else self._fit_base(problem)
        (X, T), M = known_images(problem.X, problem.T), problem.seen[: self.n_own_]
        self.n_images_, self.strength_, self.losses_ = X.shape[0], 0.0, np.zeros(len(STRENGTHS))
        self.corrections_ = np.zeros((self.n_features_ + 1, self.n_own_), dtype=np.float32)
        self.sure_ = np.zeros((2, 3, self.n_own_))
        if self.n_images_ < 2:  # none can be held out
            return
        own = self._entries(X, M, np.where(T == 0, np.nan, T == 1))
        anchors = self._anchors(own, M)
        of_image = deal(np.argsort(own.Z @ own.Z.mean(axis=0), kind="stable"), min(n_splits, self.n_images_))
        self._choose(own, anchors, of_image)
        if self.strength_:
            (weights,) = corrections(own, anchors, [self.strength_], tol=1e-4)
            self.corrections_ = weights.astype(np.float32)

    def _fit_base(self, problem: TrainingProblem) -> ZeroShotTagger:
        labels = dict(zip(self.label_names_, self.label_vectors_, strict=True))
        unseen = {name: labels.pop(name) for name in self.label_names_[self.n_seen_ :]} or None
        given = {"seen": labels, "unseen": unseen} if self.has_vectors_ else {}
        Y = np.where(problem.T == 0, np.nan, problem.T == 1)
        fitted: ZeroShotTagger = clone(self.base).fit(problem.X, Y, **given, relations=problem.relations)
        return fitted

    def _entries(self, X: Any, M: Matrix, Y: Matrix | None = None) -> _Entries:
        """Images with their annotations, by base if there are no others."""
        score = self.base_._scorer(self.base_._embed(M, "seen"))
        blocks = (score(X[first : first + AT_ONCE]) for first in range(0, X.shape[0], AT_ONCE))
        prior = np.vstack([scores if p is None else _log_odds(p) for scores, p in blocks])
        Z = np.hstack([scaled(X[:, : self.n_features_], normalize=True), np.ones((X.shape[0], 1))])
        return _Entries(Z, expit(prior) if Y is None else Y, prior)

    def _anchors(self, own: _Entries, M: Matrix) -> _Entries:
        """Reference images of the calibration of base; none if it has no calibration."""
        base: Any = self.base_
        while isinstance(base, Adapted):
            base = base.base_
        if not hasattr(base, "calibration_"):
            return own.select(slice(0))
        reference, scales = base.calibration_.reference_, base.calibration_.reference_scales_
        return self._entries(reference.astype(np.float64) * scales, M)

    def _choose(self, own: _Entries, anchors: _Entries, of_image: NDArray[np.intp]) -> None:
        """Choose the strength, and count sure tags, on folds of images."""
        held_out = np.repeat(own.prior[None], len(STRENGTHS), axis=0)
        for fold in range(of_image.max() + 1):
            rest, held = own.select(of_image != fold), of_image == fold
            for log_odds, weights in zip(held_out[1:], corrections(rest, anchors, STRENGTHS[1:]), strict=True):
                log_odds[held] += own.Z[held] @ weights
        losses = np.nansum(np.logaddexp(0.0, held_out) - own.Y * held_out, axis=2)
        self.losses_, self.strength_ = losses.mean(axis=1), STRENGTHS[least_within_error(losses)]
        after = own.prior.copy()
        for fold in range(of_image.max() + 1):
            held = of_image == fold
            after[held] = held_out[least_within_error(losses[:, ~held]), held]
        self.sure_ = np.stack([count_sure(own.Y, log_odds) for log_odds in (own.prior, after)])

    def _added(self, X: Any, M: Matrix) -> tuple[NDArray[np.intp], Matrix]:
        """Which of the labels are corrected, and their corrections."""
        places = seen_places(M, self.label_vectors_[: self.n_own_])
        which = np.flatnonzero((places >= 0) & (self.strength_ > 0.0))
        weights = self.corrections_[:, places[which]]
        return which, project(X[:, : self.n_features_], weights[:-1], normalize=True) + weights[-1]

    def _margin_scores(self, X: Any, M: Matrix) -> Matrix:
        scores = self.base_._margin_scores(X, self.base_._passed_on(M))
        which, added = self._added(X, M)
        scores[:, which] += added
        return scores

    def _scorer(self, M: Matrix) -> Callable[[Any], tuple[Matrix, Matrix | None]]:
        of_base = self.base_._scorer(self.base_._passed_on(M))

        def score(X: Any) -> tuple[Matrix, Matrix | None]:
            (scores, p), (which, added) = of_base(X), self._added(X, M)
            scores[:, which] += added
            if p is not None:
                p[:, which] = expit(_log_odds(p[:, which]) + added)
            return scores, p

        return score

    def _gives_probabilities(self) -> bool:
        return self.base_._gives_probabilities()

    def _thresholds(self, X: Any) -> Matrix:
        return self.base_._thresholds(X)

    def _label_space(self, M: Matrix) -> Matrix:
        return self.base_._label_space(self.base_._passed_on(M))

    def _part_table(self, X: Any, M: Matrix, rows: Any, columns: Any) -> tuple[list[tuple[Kind, str]], Matrix]:
        keys, values = self.base_._part_table(X, self.base_._passed_on(M), rows, columns)
        which, added = self._added(X, M)
        names = [self.label_names_[place] for place in seen_places(M[which], self.label_vectors_)]
        own = np.where(columns[:, None] == which, added[rows], 0.0)
        return [*keys, *(("label", f"your photos of {name}") for name in names)], np.hstack([values, own])


class _Entries(NamedTuple):
    """Images of unit length with a constant, their annotations (NaN = unknown), and the log-odds of base."""

    Z: Matrix
    Y: Matrix
    prior: Matrix

    def select(self, rows: Any) -> _Entries:
        return _Entries(*(part[rows] for part in self))


def corrections(own: _Entries, anchors: _Entries, strengths: Sequence[float], tol: float = 1e-2) -> list[Matrix]:
    """For each C: weights of Z, one column per label, that minimise the objective of `Adapted`."""
    from scipy.optimize import minimize

    Z, Y, prior = (np.vstack(pair) for pair in zip(own, anchors, strict=True))
    known, targets = ~np.isnan(Y), np.nan_to_num(Y)
    # Along principal directions the bound Z'Z/4 + I/C of the Hessian is diagonal: few steps suffice.
    _, spread, directions = np.linalg.svd(Z, full_matrices=False)
    A, shape, found = Z @ directions.T, (len(spread), Y.shape[1]), []
    W = np.zeros(shape)
    for C in strengths:
        scale = 1.0 / np.sqrt(0.25 * spread**2 + 1.0 / C)[:, None]

        def objective(steps: Matrix, C: float = C, scale: Matrix = scale) -> tuple[float, Matrix]:
            V = scale * steps.reshape(shape)
            m = prior + A @ V
            loss = np.sum(known * np.logaddexp(0.0, m) - targets * m) + np.sum(V * V) / (2.0 * C)
            return float(loss), (scale * (A.T @ (known * expit(m) - targets) + V / C)).ravel()

        options = {"maxiter": 500, "maxcor": 20, "ftol": 0.0, "gtol": tol}
        solved = minimize(objective, (W / scale).ravel(), jac=True, method="L-BFGS-B", options=options)
        W = scale * solved.x.reshape(shape)
        found.append(directions.T @ W)
    return found


def least_within_error(losses: Matrix) -> int:
    """First setting (row) whose mean loss exceeds that of the best by at most a standard error, images paired."""
    excess = losses - losses[np.argmin(losses.mean(axis=1))]
    errors = excess.std(axis=1) / np.sqrt(max(losses.shape[1] - 1, 1))
    return int(np.argmax(excess.mean(axis=1) <= errors))


def count_sure(Y: Matrix, log_odds: Matrix) -> Matrix:
    """Per label: how many sure tags are right, how many there are, and how many images show it."""
    sure = (log_odds >= logit(SURE)) & ~np.isnan(Y)
    return np.stack([(sure & (Y == 1)).sum(axis=0), sure.sum(axis=0), (Y == 1).sum(axis=0)]).astype(float)


def _log_odds(p: Matrix) -> Matrix:
    return np.asarray(logit(np.clip(p, LEAST_P, 1.0 - LEAST_P)))


def _is_fitted(tagger: Any) -> bool:
    return hasattr(tagger, "label_names_")
