"""ZeroShotTagger: what every method of this library can do, whatever it learns."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from unseen import persistence
from unseen.validation import (
    Labels,
    check_count,
    check_known_names,
    check_labels,
    check_names,
    check_relations,
    check_targets,
    shorten,
)

Matrix = NDArray[np.float64]


class Tag(NamedTuple):
    """A label proposed for an image; ``score`` > 0 means above the image's own threshold."""

    name: str
    score: float


class TrainingProblem(NamedTuple):
    """What a method learns from: validated, embedded, named."""

    X: Any
    T: NDArray[np.int8]
    seen: Matrix
    unseen: Matrix
    relations: Matrix | None


class ZeroShotTagger(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Base of the estimators: scores for any label that has a vector, seen in training or not.

    A subclass implements ``_fit(problem)`` and ``_margin_scores(X, M)``, and ``_thresholds(X)`` when it learns
    a threshold of its own; it has the parameters ``normalize`` and ``center``.
    """

    normalize: bool
    center: bool

    def fit(
        self,
        X: Any,
        Y: ArrayLike,
        seen: Any = None,
        unseen: Any = None,
        relations: ArrayLike | None = None,
    ) -> Self:
        """Learn from annotated images.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_images, n_features)
            Features; float32 and float64 are used as they are, also memory-mapped.
        Y : array-like of shape (n_images, n_seen)
            1 = the image shows the label, 0 = it does not, NaN (in a float array) = nobody knows: such an
            entry takes part in neither side of the loss. A vector of class names is read as one label an image.
        seen : labels, optional
            The annotated labels, in the order of the columns of Y: vectors of shape (n_seen, n_dims), a
            LabelSpace, a data frame indexed by name, or a mapping of names to vectors. Without it every label is
            a dimension of its own and only seen labels can be predicted.
        unseen : labels, optional
            Labels to transfer to, as far as they are known now; any others can be asked for later.
        relations : array-like of shape (n_seen + n_unseen, n_seen + n_unseen), optional
            Symmetric, non-negative similarities between labels, the seen ones first.

        Returns
        -------
        self
        """
        X, T, column_names = self._check_images_and_targets(X, Y)
        given = self._check_seen(seen, T.shape[1], column_names)
        others = self._check_unseen(unseen, given, has_vectors=seen is not None)
        self._set_label_vectors(given, others)
        n_labels = len(self.label_vectors_)
        related = None if relations is None else check_relations(relations, n_labels)
        n_seen = T.shape[1]
        embedded = self._embed(self.label_vectors_, "seen and unseen")
        self._fit(TrainingProblem(X, T, embedded[:n_seen], embedded[n_seen:], related))
        return self

    def decision_function(self, X: Any, labels: Any = None) -> Matrix:
        """Margin scores ``F(x, c) - F(x, 0)``: positive above the image's own threshold.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_images, n_features)
            Features.
        labels : labels, optional
            What to score: names known from `fit`, any label vectors (of labels absent at `fit` too), or one of
            the words "seen", "unseen", "all". None scores the seen labels. A label's scores do not depend on
            the other labels asked for.

        Returns
        -------
        ndarray of shape (n_images, n_labels)
            Of shape (n_images,) after a fit on a vector of two classes.
        """
        check_is_fitted(self)
        _, vectors = self._resolve(labels)
        X = self._check_images(X)
        scores = self._margin_scores(X, self._embed(vectors, "labels"))
        return scores.ravel() if self._is_binary() and labels is None else scores

    def threshold(self, X: Any) -> Matrix:
        """Score ``F(x, 0)`` that a label must exceed on each image; `decision_function` has it subtracted.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_images, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n_images,)
        """
        check_is_fitted(self)
        return self._thresholds(self._check_images(X))

    def predict(self, X: Any, labels: Any = None, top: int | None = None) -> NDArray[Any]:
        """Labels above each image's own threshold, or its ``top`` best ones.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_images, n_features)
            Features.
        labels : labels, optional
            As in `decision_function`.
        top : int, optional
            Predict exactly so many labels an image (all of them if there are fewer); ties go to the earlier one.

        Returns
        -------
        ndarray of shape (n_images, n_labels), int8
            1 = predicted. After a fit on a vector of classes, and without ``labels``: the classes, (n_images,).
        """
        scores = self.decision_function(X, labels)
        if self._single_label and labels is None and top is None:
            chosen = scores > 0.0 if scores.ndim == 1 else scores.argmax(axis=1)
            return np.asarray(self.classes_[np.asarray(chosen, dtype=np.intp)])
        scores = scores.reshape(len(scores), -1)
        if top is None:
            return np.asarray(scores > 0.0, dtype=np.int8)
        predicted = np.zeros(scores.shape, dtype=np.int8)
        np.put_along_axis(predicted, _best_first(scores)[:, : check_count(top, "top")], 1, axis=1)
        return predicted

    def tag(self, X: Any, labels: Any = None, top: int = 5) -> list[list[Tag]]:
        """Best labels of each image, by name.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_images, n_features)
            Features.
        labels : labels, optional
            As in `decision_function`; None proposes every label known from `fit`, seen and unseen.
        top : int, default=5
            How many labels an image, the best first.

        Returns
        -------
        list of list of Tag
            Pairs (name, score); a score above 0 is above the image's threshold.
        """
        check_is_fitted(self)
        labels = "all" if labels is None else labels
        names, _ = self._resolve(labels)
        scores = self.decision_function(X, labels)
        best = _best_first(scores)[:, : check_count(top, "top")]
        return [
            [Tag(names[c], float(row[c])) for c in order] for row, order in zip(scores, best, strict=True)
        ]

    def similar_labels(self, label: Any, labels: Any = "all", top: int = 5) -> list[Tag]:
        """Labels nearest to a label in the space where this model compares them.

        Parameters
        ----------
        label : str or array-like of shape (n_dims,)
            A name known from `fit`, or a vector.
        labels : labels, default="all"
            Among which to look, as in `decision_function`.
        top : int, default=5
            How many.

        Returns
        -------
        list of Tag
            Pairs (name, cosine similarity), the most similar first, the label itself left out.
        """
        check_is_fitted(self)
        name, vector = self._resolve_one(label)
        names, vectors = self._resolve(labels)
        target = _unit_rows(self._label_space(self._embed(vector[None], "label")))[0]
        candidates = _unit_rows(self._label_space(self._embed(vectors, "labels")))
        similarities = candidates @ target
        order = [i for i in np.argsort(-similarities, kind="stable") if names[i] != name]
        return [Tag(names[i], float(similarities[i])) for i in order[: check_count(top, "top")]]

    def save(self, path: str | Path) -> None:
        """Write the fitted model to a safetensors file (whole or not at all).

        Parameters
        ----------
        path : str or Path
            Where to; an existing file is replaced.
        """
        check_is_fitted(self)
        persistence.save(self, path)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a model that `save` wrote; nothing in the file is executed.

        Parameters
        ----------
        path : str or Path
            A model file.

        Returns
        -------
        ZeroShotTagger
            Of the class that was saved, which must be this one or a subclass.
        """
        return persistence.load(path, cls)

    @abstractmethod
    def _fit(self, problem: TrainingProblem) -> None: ...

    @abstractmethod
    def _margin_scores(self, X: Any, M: Matrix) -> Matrix: ...

    def _thresholds(self, X: Any) -> Matrix:
        return np.zeros(X.shape[0])

    def _label_space(self, M: Matrix) -> Matrix:
        """Embedded label vectors in the space where the method compares labels."""
        return M

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        return tags

    def _is_binary(self) -> bool:
        return self._single_label and len(self.classes_) == 2

    def _check_images(self, X: Any) -> Any:
        X = validate_data(
            self, X, reset=False, accept_sparse="csr", dtype=[np.float64, np.float32], order="C"
        )
        return sp.csr_array(X) if sp.issparse(X) else X

    def _check_images_and_targets(
        self, X: Any, Y: Any
    ) -> tuple[Any, NDArray[np.int8], tuple[str, ...] | None]:
        """Validate X and turn Y into targets in {-1, 0, +1}; the names of Y's columns if it has them."""
        column_names = check_names(Y.columns, "Y") if hasattr(Y, "columns") else None
        X = validate_data(
            self,
            X,
            y="no_validation" if Y is not None else None,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            order="C",
        )
        X = sp.csr_array(X) if sp.issparse(X) else X
        Y = Y.toarray() if sp.issparse(Y) else np.asarray(Y)
        if Y.shape[:1] != X.shape[:1]:
            raise ValueError(
                f"Y: {Y.shape[0] if Y.ndim else 0} rows for the {X.shape[0]} images of X, inconsistent numbers of "
                f"samples. Pass one row an image."
            )
        self._single_label = Y.ndim == 1 or (Y.shape[1:] == (1,) and not _is_indicator(Y))
        return X, self._targets_of_classes(Y) if self._single_label else self._targets(Y), column_names

    def _targets_of_classes(self, Y: NDArray[Any]) -> NDArray[np.int8]:
        y = column_or_1d(Y, warn=True)
        check_classification_targets(y)
        self.classes_, position = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"Y: a vector with only one class ({self.classes_[0]!r}) was given; there is nothing to learn. "
                f"Pass at least two classes, or an indicator matrix."
            )
        if len(self.classes_) == 2:
            return np.where(position[:, None] == 1, 1, -1).astype(np.int8)
        return np.where(position[:, None] == np.arange(len(self.classes_)), 1, -1).astype(np.int8)

    def _targets(self, Y: NDArray[Any]) -> NDArray[np.int8]:
        relevant, known = check_targets(Y, "Y")
        T = np.where(relevant, 1, -1).astype(np.int8)
        if known is not None:
            T[~known] = 0
        self.classes_ = np.arange(T.shape[1])
        return T

    def _check_seen(self, seen: Any, n_seen: int, column_names: tuple[str, ...] | None) -> Labels:
        if seen is None:
            return Labels(column_names, np.eye(n_seen))
        if self._single_label:
            raise ValueError("seen: label vectors need an indicator matrix Y, but Y is a vector of classes.")
        given = check_labels(seen, "seen")
        if given.vectors is None:
            raise ValueError("seen: names without vectors were given. Pass a vector for each label.")
        if len(given) != n_seen:
            raise ValueError(
                f"seen: {len(given)} labels for the {n_seen} columns of Y. Pass one label a column, in order."
            )
        if column_names is not None and given.names is not None and given.names != column_names:
            raise ValueError(
                f"seen: its names ({shorten(given.names, 3)}) are not the columns of Y "
                f"({shorten(column_names, 3)}) in their order. Reorder one of the two."
            )
        return Labels(given.names or column_names, given.vectors)

    def _check_unseen(self, unseen: Any, seen: Labels, *, has_vectors: bool) -> Labels:
        assert seen.vectors is not None
        if unseen is None:
            return Labels(None, np.empty((0, seen.vectors.shape[1])))
        if not has_vectors:
            raise ValueError("unseen: unseen labels need vectors of the seen ones. Pass seen as well.")
        given = check_labels(unseen, "unseen")
        if given.vectors is None:
            raise ValueError("unseen: names without vectors were given. Pass a vector for each label.")
        if given.vectors.shape[1] != seen.vectors.shape[1]:
            raise ValueError(
                f"unseen: vectors of {given.vectors.shape[1]} dimensions, but those of seen have "
                f"{seen.vectors.shape[1]}. Take both from one source."
            )
        return given

    def _set_label_vectors(self, seen: Labels, unseen: Labels) -> None:
        assert seen.vectors is not None
        assert unseen.vectors is not None
        n_seen, n_unseen = len(seen.vectors), len(unseen.vectors)
        numbered = [f"label {i}" for i in range(n_seen + n_unseen)]
        if self._single_label and len(self.classes_) > 2:
            numbered = [str(name) for name in self.classes_]
        names = (*(seen.names or numbered[:n_seen]), *(unseen.names or numbered[n_seen:]))
        self.label_names_ = check_names(names, "seen and unseen")
        self.label_vectors_ = np.vstack([seen.vectors, unseen.vectors])
        self.n_seen_ = n_seen
        one_hot = n_seen == seen.vectors.shape[1] and np.array_equal(seen.vectors, np.eye(n_seen))
        centred = self.center and not (one_hot and n_unseen == 0)
        self.label_center_ = (self.label_vectors_.mean(axis=0) if centred else np.zeros(seen.vectors.shape[1]))

    def _embed(self, vectors: Matrix, argument: str) -> Matrix:
        """Label vectors as the method uses them: centred as at fit time and scaled to unit length."""
        if vectors.shape[1] != len(self.label_center_):
            raise ValueError(
                f"{argument}: vectors of {vectors.shape[1]} dimensions, but this model was fitted with "
                f"{len(self.label_center_)}. Take them from the same source."
            )
        moved = vectors - self.label_center_
        lengths = np.linalg.norm(moved, axis=1)
        zero = lengths <= 1e-12 * max(float(np.abs(vectors).max()), 1e-300)
        if zero.any():
            reason = "zero after centring; pass center=False" if self.label_center_.any() else "zero"
            raise ValueError(
                f"{argument}: the vectors of rows {shorten(np.flatnonzero(zero))} are {reason}. "
                f"A label needs a vector that points somewhere."
            )
        return moved / lengths[:, None] if self.normalize else moved

    def _resolve(self, labels: Any) -> tuple[tuple[str, ...], Matrix]:
        """Names and raw vectors of the labels that a caller asks for."""
        names, vectors = self.label_names_, self.label_vectors_
        if labels is None or (isinstance(labels, str) and labels in ("seen", "unseen", "all")):
            part = {"unseen": slice(self.n_seen_, None), "all": slice(None)}.get(labels, slice(0, self.n_seen_))
            if len(names[part]) == 0:
                raise ValueError(f"labels: {labels!r} was asked for, but fit was given no unseen labels.")
            return names[part], vectors[part]
        given = check_labels(labels, "labels")
        if given.vectors is None:
            assert given.names is not None
            return given.names, vectors[check_known_names(given.names, names, "labels")]
        return given.names or tuple(f"label {i}" for i in range(len(given))), given.vectors

    def _resolve_one(self, label: Any) -> tuple[str | None, Matrix]:
        """Name (None for a bare vector) and raw vector of a single label."""
        if isinstance(label, str):
            return label, self.label_vectors_[check_known_names([label], self.label_names_, "label")[0]]
        given = check_labels(np.atleast_2d(label) if not hasattr(label, "names") else label, "label")
        if given.vectors is None or len(given) != 1:
            raise ValueError("label: more than one was given. Pass a single name or vector.")
        return (given.names[0] if given.names else None), given.vectors[0]


def _is_indicator(Y: NDArray[Any]) -> bool:
    return Y.dtype.kind in "biuf" and bool(np.all((Y == 0) | (Y == 1) | (Y != Y)))


def _best_first(scores: Matrix) -> NDArray[np.intp]:
    return np.argsort(-scores, axis=1, kind="stable")


def _unit_rows(M: Matrix) -> Matrix:
    lengths = np.linalg.norm(M, axis=1, keepdims=True)
    return M / np.where(lengths > 0.0, lengths, 1.0)
