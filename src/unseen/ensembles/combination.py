"""Combination: the standardised scores of two taggers, added."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import signature
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import clone

from unseen.base import TrainingProblem, ZeroShotTagger, seen_places
from unseen.baselines._linear import ScoredTagger, check_first_columns, split_columns
from unseen.explanation import Explanation, Kind
from unseen.validation import Matrix, check_number


class Combination(ScoredTagger):
    r"""Sum of the standardised scores of two taggers, each with its own columns of X.

    Each tagger minimises its own objective; then, with their margin scores s1 and s2,

        ``score(x, c) = trust(c) (s1(x, c) - mean1) / std1 + weight (s2(x, c) - mean2) / std2``

    where mean and std are taken over the training images and seen labels, and trust is 1 for the seen labels and
    ``transfer`` for all others. Intended to add the evidence of `BackboneKnowledge` to a tagger trained on
    annotations, but any two taggers work.

    Parameters
    ----------
    first, second : ZeroShotTagger
        Clones of them are fitted. Their parameters are set as ``first__beta``, ``second__sharpness``.
    n_first : int
        Number of leading columns of X for ``first``; the others are for ``second``.
    weight : float, default=1.0
        Weight of the second tagger; with 0 labels are ranked as by the first alone.
    transfer : float, default=0.5
        Weight of the first tagger for labels that are not seen.

    Attributes
    ----------
    first_, second_ : ZeroShotTagger
        The fitted taggers.
    means_, stds_ : ndarray of shape (2,)
        Mean and standard deviation of the margin scores of each over the training images and seen labels.

    Examples
    --------
    >>> import numpy as np
    >>> from unseen import TAEP, make_tagged_scenes
    >>> from unseen.ensembles import BackboneKnowledge, Combination
    >>> data = make_tagged_scenes(n_train=200, n_test=5)
    >>> classes = data.unseen_labels  # a backbone that knows them, and is often right
    >>> X = np.hstack([data.X_train, data.Y_train[:, data.unseen] * 3.0])
    >>> model = Combination(TAEP(beta=1.0, tol=1e-2), BackboneKnowledge(classes), data.X_train.shape[1])
    >>> _ = model.fit(X, data.Y_train[:, data.seen], data.seen_labels, data.unseen_labels)
    >>> sorted({part.kind for part in model.explain(X[0], classes.names[0]).parts})
    ['class', 'label']
    """

    normalize = center = False  # each tagger does its own scaling and centring
    first_: ZeroShotTagger
    second_: ZeroShotTagger

    def __init__(
        self,
        first: ZeroShotTagger | None = None,
        second: ZeroShotTagger | None = None,
        n_first: int = 1,
        weight: float = 1.0,
        *,
        transfer: float = 0.5,
    ) -> None:
        self.first = first
        self.second = second
        self.n_first = n_first
        self.weight = weight
        self.transfer = transfer

    def explain(self, x: ArrayLike, label: Any, X_train: Any = None) -> Explanation:
        """Split the score of one image for one label into exact contributions, as in `ZeroShotTagger.explain`.

        With ``X_train``, the features given to `fit`, the parts of a `TAEP` as ``first`` are training images.
        """
        if X_train is not None:
            if "X_train" not in signature(self.first_.explain).parameters:
                method = type(self.first_).__name__
                raise ValueError(f"X_train: {method} does not keep its images. Explain by labels instead.")
            X_train = sp.csr_array(X_train) if sp.issparse(X_train) else np.atleast_2d(np.asarray(X_train))
        X, name, M = self._question(x, label)
        return self._explanation(X, name, M, self._parts(X, M, X_train=X_train))

    def _set_labels(self, n_seen: int, names: tuple[str, ...] | None, seen: Any, unseen: Any) -> None:
        super()._set_labels(n_seen, names, seen, unseen)
        self.has_vectors_ = seen is not None
        self.n_first_ = check_first_columns(self.n_first, "n_first", self.n_features_in_)

    def _learn(self, problem: TrainingProblem) -> None:
        self.weight_ = check_number(self.weight, "weight")
        self.transfer_ = check_number(self.transfer, "transfer")
        Y, n_seen = np.where(problem.T == 0, np.nan, problem.T == 1), self.n_seen_
        labels = dict(zip(self.label_names_, self.label_vectors_, strict=True))
        unseen = {name: labels.pop(name) for name in self.label_names_[n_seen:]} or None
        given = {"seen": labels, "unseen": unseen} if self.has_vectors_ else {}
        for name, X in zip(("first", "second"), split_columns(problem.X, self.n_first_), strict=True):
            tagger = getattr(self, name)
            if not isinstance(tagger, ZeroShotTagger):
                raise ValueError(f"{name}: {tagger!r} was given. Pass a tagger, such as TAEP().")
            setattr(self, f"{name}_", clone(tagger).fit(X, Y, **given, relations=problem.relations))
        scores = self._tagger_scores(problem.X, problem.seen)
        self.means_ = np.array([values.mean() for values in scores])
        self.stds_ = np.array([values.std() or 1.0 for values in scores])

    def _taggers(self, X: Any, M: Matrix) -> Iterator[tuple[ZeroShotTagger, Any, Matrix]]:
        """Both taggers, with their columns of X and the labels as they use them."""
        for tagger, own in zip((self.first_, self.second_), split_columns(X, self.n_first_), strict=True):
            yield tagger, own, tagger._passed_on(M)

    def _scores(self, X: Any, M: Matrix) -> Matrix:
        first, second = self._tagger_scores(X, M)
        factors = self._factors(M)
        return np.asarray((first - self.means_[0]) * factors[0] + (second - self.means_[1]) * factors[1])

    def _clues(self, X: Any, M: Matrix) -> list[Matrix]:
        return [clue for tagger, own, labels in self._taggers(X, M) for clue in tagger._clues(own, labels)]

    def _factors(self, M: Matrix) -> tuple[Matrix, Matrix]:
        """Factors on the scores of both taggers, one entry per label."""
        trust = np.where(seen_places(M, self.label_vectors_[: self.n_seen_]) >= 0, 1.0, self.transfer_)
        return trust / self.stds_[0], np.full(len(M), self.weight_ / self.stds_[1])

    def _tagger_scores(self, X: Any, M: Matrix) -> list[Matrix]:
        return [tagger._margin_scores(own, labels) for tagger, own, labels in self._taggers(X, M)]

    def _part_table(
        self, X: Any, M: Matrix, rows: Any, columns: Any, X_train: Any = None
    ) -> tuple[list[tuple[Kind, str]], Matrix]:
        keys: list[tuple[Kind, str]] = []
        tables = []
        for (tagger, x, labels), factor in zip(self._taggers(X, M), self._factors(M), strict=True):
            if X_train is not None and tagger is self.first_:
                learned: Any = tagger
                parts = learned.explain(x, M[0], X_train[:, : self.n_first_]).parts
                own, table = [part[:2] for part in parts], np.array([[part.value for part in parts]])
            else:
                own, table = tagger._part_table(x, labels, rows, columns)
            keys += own
            tables.append(factor[columns][:, None] * table)
        return keys, np.hstack(tables)
