"""Combination: the evidence of two taggers, added."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from unseen.base import Matrix, TrainingProblem, ZeroShotTagger, seen_places
from unseen.baselines._scored import ScoredTagger
from unseen.ensembles._parts import keep, recall
from unseen.validation import check_count, check_flag, check_number

PARTS = ("first", "second")


@dataclass(frozen=True)
class CombinedExplanation:
    """How much each of two taggers adds to a score: ``first + second + offset == score``.

    Attributes
    ----------
    label : str
        What was explained.
    score : float
        Margin score, as in `Combination.decision_function`.
    first, second : float
        Standardised score of each part times its weight: that of the second is ``weight``, that of the first 1 or,
        for a label that is not seen, ``transfer``.
    offset : float
        Minus the threshold of the combination.
    why_first, why_second : object or None
        What the parts' own ``explain`` say of their own scores; None of a part that explains nothing.
    scales, starts : tuple of float
        ``first == scales[0] * (own score of the first part) + starts[0]``, and the same for the second.
    """

    label: str
    score: float
    first: float
    second: float
    offset: float
    why_first: Any
    why_second: Any
    scales: tuple[float, float]
    starts: tuple[float, float]


class Combination(ScoredTagger):
    r"""Sum of the standardised scores of two taggers, each with features (and label vectors) of its own.

    Each part minimises its own objective; then

        ``score(x, c) = trust(c) (s1(x, c) - mean1) / std1 + weight (s2(x, c) - mean2) / std2``

    where s1 and s2 are the parts' margin scores, mean and std are taken over the training images and seen labels,
    and trust is 1 for the seen labels and ``transfer`` for all others: a tagger that has learned from annotations
    knows more of the annotated labels than of those it transfers to. The margin score subtracts the threshold of
    best micro-F1 on the training images. Made to add what a backbone's classes say (`BackboneKnowledge`) to what a
    tagger has learned; any two taggers will do.

    Parameters
    ----------
    first, second : ZeroShotTagger
        The parts; clones of them are fitted. Their parameters are set as ``first__beta``, ``second__sharpness``.
    n_first : int
        The first so many columns of X are the features of ``first``, the others those of ``second`` (which has all
        of them with ``second_sees_all``).
    weight : float, default=1.5
        Weight of the second part; with 0 labels are ranked as by the first alone. The default is that of
        `BackboneKnowledge`, see ``docs/open_track.md``.
    transfer : float, default=0.5
        Weight of the first part for labels that are not seen; a label is a seen one if its vector is. With 1 both
        kinds of labels are treated alike.
    second_sees_all : bool, default=False
        Give ``second`` all columns of X, those of the first as well: `BackboneKnowledge` with ``n_features`` makes
        use of them.
    n_first_dims : int, optional
        The first so many dimensions of the label vectors are for ``first``, the others for ``second``: stack the
        vectors of two sources, ``np.hstack([glove.vectors, use.vectors])``. None gives both parts all of them.

    Attributes
    ----------
    first_, second_ : ZeroShotTagger
        The fitted parts.
    means_, stds_ : ndarray of shape (2,)
        Mean and standard deviation of each part's margin scores over the training images and seen labels.
    weight_, transfer_ : float
        The weights of this fit.
    n_first_, second_sees_all_, n_first_dims_
        Which columns of X and of the label vectors are whose.
    threshold_ : float
        What is subtracted from the sum.
    part_classes_, part_params_ : tuple of str
        Class of each part, and its parameters as JSON. All that a part has learned is kept under its name:
        ``first__label_center_`` and so on.
    label_names_, label_vectors_, n_seen_
        The labels given to `fit`, the seen ones first.

    Examples
    --------
    >>> import numpy as np
    >>> from unseen import TAEP, make_tagged_scenes
    >>> from unseen.ensembles.backbone_knowledge import BackboneKnowledge
    >>> from unseen.ensembles.combination import Combination
    >>> data = make_tagged_scenes(n_train=200, n_test=5)
    >>> classes = data.unseen_labels  # a backbone that knows them, and is often right
    >>> logits = data.Y_train[:, data.unseen] * 3.0
    >>> X = np.hstack([data.X_train, logits])
    >>> model = Combination(TAEP(beta=1.0, tol=1e-2), BackboneKnowledge(classes), data.X_train.shape[1])
    >>> _ = model.fit(X, data.Y_train[:, data.seen], data.seen_labels, data.unseen_labels)
    >>> why = model.explain(X[0], classes.names[0])
    >>> bool(abs(why.first + why.second + why.offset - why.score) < 1e-9)
    True
    """

    normalize = False  # the parts scale and centre for themselves
    center = False
    second_sees_all_ = False  # of files that were written before there was a choice

    def __init__(
        self,
        first: ZeroShotTagger | None = None,
        second: ZeroShotTagger | None = None,
        n_first: int = 1,
        weight: float = 1.5,
        *,
        transfer: float = 0.5,
        second_sees_all: bool = False,
        n_first_dims: int | None = None,
    ) -> None:
        self.first = first
        self.second = second
        self.n_first = n_first
        self.weight = weight
        self.transfer = transfer
        self.second_sees_all = second_sees_all
        self.n_first_dims = n_first_dims

    @property
    def first_(self) -> ZeroShotTagger:
        """The fitted first part."""
        return self._part(0)

    @property
    def second_(self) -> ZeroShotTagger:
        """The fitted second part."""
        return self._part(1)

    def explain(self, x: ArrayLike, label: Any) -> CombinedExplanation:  # type: ignore[override]
        """Split the score of one image for one label into what each part adds.

        Parameters
        ----------
        x : array-like of shape (n_features,) or (1, n_features)
            The image, with the features of both parts.
        label : str or array-like of shape (n_dims,)
            A name known from `fit`, or any label vector.

        Returns
        -------
        CombinedExplanation
        """
        check_is_fitted(self)
        X = self._check_images(x if sp.issparse(x) or hasattr(x, "columns") else np.atleast_2d(np.asarray(x)))
        if X.shape[0] != 1:
            raise ValueError(f"x: {X.shape[0]} images were given. Pass the features of one image.")
        name, M = self._resolve_one(label)
        added = [float(part[0, 0]) for part in self._standardised(X, M)]
        is_seen = seen_places(M, self.label_vectors_[: self.n_seen_])[0] >= 0
        weights = (1.0 if is_seen else self.transfer_, self.weight_)
        scales = [weight / float(std) for weight, std in zip(weights, self.stds_, strict=True)]
        reasons = []
        for i in range(2):
            part, own = self._part(i), self._labels_of(i, M)[0]
            try:
                reason = part.explain(self._features_of(i, X), own if name is None else {name: own})
            except ValueError:  # it explains nothing
                reason = None
            reasons.append(reason)
        return CombinedExplanation(
            label=name if name is not None else "label",
            score=sum(added) - self.threshold_,
            first=added[0],
            second=added[1],
            offset=-self.threshold_,
            why_first=reasons[0],
            why_second=reasons[1],
            scales=(scales[0], scales[1]),
            starts=(-scales[0] * float(self.means_[0]), -scales[1] * float(self.means_[1])),
        )

    def _set_labels(self, n_seen: int, names: tuple[str, ...] | None, seen: Any, unseen: Any) -> None:
        super()._set_labels(n_seen, names, seen, unseen)
        self.has_vectors_ = seen is not None
        n_dims = self.label_vectors_.shape[1]
        self.n_first_ = check_count(self.n_first, "n_first")
        self.second_sees_all_ = check_flag(self.second_sees_all, "second_sees_all")
        n_columns = self.n_features_in_
        if self.n_first_ > n_columns:
            raise ValueError(
                f"n_first: {self.n_first_} columns, but X has {n_columns}. Pass how many are for the first part."
            )
        if self.n_first_ == n_columns and not self.second_sees_all_:
            raise ValueError(
                f"n_first: {self.n_first_} of the {n_columns} columns of X leave none for the second part. Pass "
                f"how many are for the first part, or second_sees_all=True."
            )
        split = self.has_vectors_ and self.n_first_dims is not None
        self.n_first_dims_ = check_count(self.n_first_dims, "n_first_dims") if split else None
        if self.n_first_dims_ is not None and self.n_first_dims_ >= n_dims:
            raise ValueError(
                f"n_first_dims: {self.n_first_dims_} of the {n_dims} dimensions of the label vectors leave none "
                f"for the second part. Pass None if both parts share the vectors."
            )

    def _learn(self, problem: TrainingProblem) -> None:
        self.weight_ = check_number(self.weight, "weight")
        self.transfer_ = check_number(self.transfer, "transfer")
        fitted = [self._fit_part(i, part, problem) for i, part in enumerate((self.first, self.second))]
        self.part_classes_ = tuple(type(part).__name__ for part in fitted)
        self.part_params_ = tuple(_plain(part.get_params(deep=False)) for part in fitted)
        for prefix, part in zip(PARTS, fitted, strict=True):
            keep(self, prefix, part)
        scores = [self._part_scores(i, problem.X, problem.seen) for i in range(2)]
        self.means_ = np.array([score.mean() for score in scores])
        self.stds_ = np.array([score.std() or 1.0 for score in scores])

    def _fit_part(self, i: int, part: Any, problem: TrainingProblem) -> ZeroShotTagger:
        if not isinstance(part, ZeroShotTagger):
            raise ValueError(f"{PARTS[i]}: {part!r} was given. Pass a tagger, such as TAEP().")
        twin: ZeroShotTagger = clone(part)
        X, Y = self._features_of(i, problem.X), np.where(problem.T == 0, np.nan, problem.T == 1)
        if not self.has_vectors_:
            return twin.fit(X, Y, relations=problem.relations)
        names, vectors = self.label_names_, self._labels_of(i, self.label_vectors_)
        seen, unseen = (
            dict(zip(names[rows], vectors[rows], strict=True))
            for rows in (slice(self.n_seen_), slice(self.n_seen_, None))
        )
        return twin.fit(X, Y, seen, unseen or None, problem.relations)

    def _scores(self, X: Any, M: Matrix) -> Matrix:
        first, second = self._standardised(X, M)
        return first + second

    def _standardised(self, X: Any, M: Matrix) -> tuple[Matrix, Matrix]:
        trust = np.where(seen_places(M, self.label_vectors_[: self.n_seen_]) >= 0, 1.0, self.transfer_)
        first, second = (
            (self._part_scores(i, X, M) - self.means_[i]) / self.stds_[i] * factor
            for i, factor in enumerate((trust, self.weight_))
        )
        return first, second

    def _part_scores(self, i: int, X: Any, M: Matrix) -> Matrix:
        return self._part(i).decision_function(self._features_of(i, X), self._labels_of(i, M))

    def _features_of(self, i: int, X: Any) -> Any:
        if i == 0:
            return X[:, : self.n_first_]
        return X if self.second_sees_all_ else X[:, self.n_first_ :]

    def _labels_of(self, i: int, M: Matrix) -> Matrix:
        if self.n_first_dims_ is None:
            return M
        return M[:, : self.n_first_dims_] if i == 0 else M[:, self.n_first_dims_ :]

    def _part(self, i: int) -> ZeroShotTagger:
        """A part, put together from what it has learned, which this model keeps and writes to files."""
        check_is_fitted(self, "part_classes_")
        cls = _class_of(self.part_classes_[i])
        known = cls().get_params(deep=False)
        params = {name: value for name, value in json.loads(self.part_params_[i]).items() if name in known}
        part: ZeroShotTagger = cls(**params)
        return recall(self, PARTS[i], part)


def _plain(params: dict[str, Any]) -> str:
    """Parameters as JSON; those that are no plain values are left at None, as in files."""
    items = {name: value.item() if isinstance(value, np.generic) else value for name, value in params.items()}
    return json.dumps(
        {name: item if isinstance(item, bool | int | float | str) else None for name, item in items.items()}
    )


def _class_of(name: str) -> Any:
    """Class of a part among those that this program knows, as for a file."""
    for module in ("unseen.taep", "unseen.baselines", "unseen.ensembles.backbone_knowledge"):
        import_module(module)
    waiting: list[Any] = [ZeroShotTagger]
    while waiting:
        cls = waiting.pop()
        if cls.__name__ == name:
            return cls
        waiting.extend(cls.__subclasses__())
    raise ValueError(f"part_classes_: no tagger {name!r} is known here. Import its module first.")
