"""ZeroShotTagger: the interface that every method of this library shares."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, NamedTuple, Self, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from unseen import model_file, validation
from unseen.explanation import Explanation, Kind, Part
from unseen.validation import Annotations, Labels, Matrix, Targets, check_count, check_labels, check_names, listed

SURE, MAYBE = 0.8, 0.3  # probability from which a tag is called sure, and from which it is shown at all
MOST_FEATURES = 10_000_000  # of an image, in a model file
SAME = 1e-5  # tolerance between two calls of an encoder, relative to the largest entry of a vector
MOST_DISTANCES = 2**20  # between labels, computed at a time
MOST_KEPT = 12  # matrices of labels for which something is kept, by model

Kept = TypeVar("Kept")
_KEPT: WeakKeyDictionary[Any, dict[tuple[int, str], tuple[Matrix, Any]]] = WeakKeyDictionary()
_LOCK = Lock()


class Tag(NamedTuple):
    """A label proposed for an image; ``score`` > 0 means above the image's own threshold.

    ``p`` is the probability that the image shows the label; None if the model is not calibrated.
    """

    name: str
    score: float
    p: float | None = None


def _is_calibrated(tagger: Any) -> bool:
    if not tagger._gives_probabilities():
        advice = "Call unseen.calibrate(model, X, Y, vocabulary), or use decision_function."
        raise AttributeError(f"this model is not calibrated, so its scores are not probabilities. {advice}")
    return True


class TrainingProblem(NamedTuple):
    """Training data of a method: validated images, targets and embedded label vectors."""

    X: Any
    T: Targets
    seen: Matrix
    unseen: Matrix
    relations: Matrix | None
    weights: Matrix | None = None  # of the images


@dataclass(eq=False, repr=False)
class ZeroShotTagger(ClassifierMixin, BaseEstimator, model_file.Stored, ABC):
    """Base class of the estimators: scores for any label that has a vector, seen in training or not.

    A subclass implements ``_fit(problem)`` and ``_margin_scores(X, M)``, ``_thresholds(X)`` if it learns its
    own threshold, ``_seen_parts(X, M)`` (or ``_part_table``) if it can explain its scores, and ``_clues(X, M)`` if
    it knows more than its score about how likely a label is; it has the parameters ``normalize`` and ``center``.
    """

    _: KW_ONLY
    normalize: bool = True
    center: bool = True
    _not_for_scores: ClassVar[tuple[str, ...]] = ()  # learned attributes as large as the training set
    _needs_positive = True  # at least one entry of Y must be

    def fit(self, X: Any, Y: Any, seen: Any = None, unseen: Any = None, relations: Any = None) -> Self:
        """Learn from annotated images; a fit that fails or is interrupted leaves the earlier one unchanged.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_images, n_features)
            Features; float32 and float64 are used as given, including memory-mapped arrays.
        Y : array-like of shape (n_images, n_seen), lists of tags, or vector of classes
            1 = the image shows the label, 0 = it does not, NaN or masked = unknown: the entry is left out of both
            sides of the loss. Lists of tags, ``[["dog", "sofa"], [], ["cat"]]``, become columns in the order of
            ``seen``, or sorted without it. A vector of class names is read as one label per image.
        seen : labels, optional
            The annotated labels, in the order of the columns of Y: vectors of shape (n_seen, n_dims), a
            LabelSpace, a data frame indexed by name, or a mapping of names to vectors. Without it every label is
            a dimension of its own and only seen labels can be predicted.
        unseen : labels, optional
            Labels to transfer to, if already known; any others can be scored later.
        relations : array-like of shape (n_seen + n_unseen, n_seen + n_unseen), optional
            Symmetric, non-negative similarities between labels, seen ones first. With names (a data frame, or
            the result of `unseen.relate`) they may be in any order.
        """
        return self._fit_or_restore(X, Y, seen, unseen, relations)

    def decision_function(self, X: Any, labels: Any = "seen") -> Matrix:
        """Margin scores ``F(x, c) - F(x, 0)``: positive above the image's own threshold.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_images, n_features)
        labels : labels, default="seen"
            Labels to score: names known from `fit`, any label vectors (even of labels absent at `fit`), or one of
            the words "seen", "unseen", "all". A label's scores do not depend on the other labels requested.

        Returns
        -------
        ndarray of shape (n_images, n_labels)
            Of shape (n_images,) for "seen" after a fit on a vector of two classes. For a Dask array or data frame
            X, here and in `threshold` and `predict`, a Dask array, computed partition by partition.
        """
        if is_dask(X):
            return self._by_partition("decision_function", X, labels=labels)  # type: ignore[no-any-return]
        _, scores = self._named_scores(X, labels)
        is_binary = self.single_label_ and len(self.classes_) == 2
        return scores.ravel() if is_binary and _are_seen(labels) else scores

    def threshold(self, X: Any) -> Matrix:
        """Score ``F(x, 0)`` that a label must exceed on each image; `decision_function` subtracts it."""
        check_is_fitted(self)
        if is_dask(X):
            return self._by_partition("threshold", X)  # type: ignore[no-any-return]
        return self._thresholds(self._check_images(X))

    def predict(self, X: Any, labels: Any = "seen", top: int | None = None) -> NDArray[Any]:
        """Labels above each image's own threshold, or its ``top`` best labels.

        Parameters
        ----------
        X, labels
            As in `decision_function`.
        top : int, optional
            Predict exactly this many labels per image (or all there are); ties go to the earlier one.

        Returns
        -------
        ndarray of shape (n_images, n_labels), int64
            1 = predicted. After a fit on a vector of classes, for "seen" without ``top``: classes (n_images,).
        """
        top = None if top is None else check_count(top, "top")
        if is_dask(X):
            return self._by_partition("predict", X, labels=labels, top=top)  # type: ignore[no-any-return]
        _, scores = self._named_scores(X, labels)
        if self.single_label_ and _are_seen(labels) and top is None:
            best = scores.argmax(axis=1) if scores.shape[1] > 1 else (scores[:, 0] > 0.0).astype(np.intp)
            return np.asarray(self.classes_[best])
        if top is None:
            return np.asarray(scores > 0.0, dtype=np.int64)
        predicted = np.zeros(scores.shape, dtype=np.int64)
        np.put_along_axis(predicted, np.argsort(-scores, axis=1, kind="stable")[:, :top], 1, axis=1)
        return predicted

    @available_if(_is_calibrated)
    def predict_proba(self, X: Any, labels: Any = "seen") -> Matrix:
        """Probability that each image shows each label, for any label, annotated or not.

        Only after `unseen.calibrate`, which explains how it is learned. Images, labels and the shape of the result
        are as in `decision_function`. A label's probabilities do not depend on the other labels requested, and do
        not sum to one over labels: an image shows several, or none.
        """
        if is_dask(X):
            return self._by_partition("predict_proba", X, labels=labels)  # type: ignore[no-any-return]
        names, vectors = self._resolve(labels)
        scorer: Any = self._scorer(self._embed(vectors, "labels", names))
        return np.asarray(scorer(self._check_images(X))[1])

    def tag(self, X: Any, labels: Any = "all", top: int = 5) -> list[list[Tag]]:
        """Best labels of each image, by name: triples (name, score, p), by p if the model is calibrated.

        Parameters
        ----------
        X, labels
            As in `decision_function`; "all" are the labels known from `fit`, seen and unseen. For a Dask array or
            data frame X, the result is a Dask bag with one item per image.
        top : int, default=5
            How many labels per image, the best first.
        """
        top = check_count(top, "top")
        if is_dask(X):
            return self._by_partition("tag", X, labels=labels, top=top)  # type: ignore[no-any-return]
        check_is_fitted(self)
        names, vectors = self._resolve(labels)
        score = self._scorer(self._embed(vectors, "labels", names))
        return best_tags(names, *score(self._check_images(X)), top)

    def similar_labels(self, label: Any, labels: Any = "all", top: int = 5) -> list[Tag]:
        """Labels nearest to a label in the space where this model compares them, with their cosines as scores.

        Parameters
        ----------
        label : str or array-like of shape (n_dims,)
            A name known from `fit`, or a vector.
        labels : labels, default="all"
            Candidates, as in `decision_function`, among which the label itself is left out.
        top : int, default=5
            How many, the most similar first.
        """
        check_is_fitted(self)
        top = check_count(top, "top")
        name, M = self._resolve_one(label)
        names, vectors = self._resolve(labels)
        space = self._label_space(np.vstack([M, self._embed(vectors, "labels", names)]))
        lengths = np.linalg.norm(space, axis=1)
        similarities = space[1:] @ space[0] / np.where(lengths > 0.0, lengths, 1.0)[1:] / (lengths[0] or 1.0)
        order = [i for i in np.argsort(-similarities, kind="stable") if names[i] != name]
        return [Tag(names[i], float(similarities[i])) for i in order[:top]]

    def explain(self, x: ArrayLike, label: Any) -> Explanation:
        """Split the score of one image for one label into exact contributions.

        Parameters
        ----------
        x : array-like of shape (n_features,) or (1, n_features)
            The image.
        label : str or array-like of shape (n_dims,)
            A name known from `fit`, or any label vector.
        """
        X, name, M = self._question(x, label)
        return self._explanation(X, name, M, self._parts(X, M))

    def score(self, X: Any, y: Any) -> float:
        """Mean image average precision (MiAP) of the seen labels; accuracy after a fit on a vector of classes.

        Images and annotations are as in `fit`. Unknown entries are ignored, images without a known positive are
        left out, and tied labels take the worst of their ranks.
        """
        check_is_fitted(self)
        if self.single_label_:
            return float(super().score(X, y))
        names = self.label_names_[: self.n_seen_]
        scores = np.asarray(self.decision_function(X))
        T, columns, _ = validation.check_annotations(y, len(scores), names)
        if T.shape[1] != len(names) or columns not in (None, names):
            raise ValueError(f"Y: its columns are not the seen labels {listed(names)}. Pass those of fit.")
        precisions = []
        for t, s in zip(T, scores, strict=True):
            hits, ranks = ((s[kind] >= s[t == 1, None]).sum(axis=1) for kind in (t == 1, t != 0))
            precisions += [np.mean(hits / ranks)] if len(hits) else []
        return float(np.mean(precisions))

    def save(self, path: str | Path) -> None:
        """Write the fitted model to a safetensors file, atomically; an existing file is replaced."""
        check_is_fitted(self)
        model_file.save(self, path)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a model of this class, or of a subclass, that `save` wrote; nothing in the file is executed."""
        return model_file.load(path, cls)

    @abstractmethod
    def _fit(self, problem: TrainingProblem) -> None: ...

    @abstractmethod
    def _margin_scores(self, X: Any, M: Matrix) -> Matrix: ...

    def _thresholds(self, X: Any) -> Matrix:
        return np.zeros(X.shape[0])

    def _scorer(self, M: Matrix) -> Callable[[Any], tuple[Matrix, Matrix | None]]:
        """Function from checked images to their scores and, if calibrated, probabilities of labels."""
        if hasattr(self, "calibration_"):
            return self.calibration_.prepare(self, M)  # type: ignore[no-any-return]

        def score(X: Any) -> tuple[Matrix, Matrix | None]:
            scores = self._margin_scores(X, M)
            return scores, expit(scores) if self._gives_log_odds() else None

        return score

    def _trained_on(self, X: Any, T: Targets, labels: NDArray[np.intp]) -> Self:
        """A copy of this fitted model, trained on some of its seen labels, for a `Calibration`."""
        Y = np.where(T[:, labels] == 0, np.nan, T[:, labels] == 1)
        names, vectors = (np.asarray(part, dtype=kind)[labels] for part, kind in
                          ((self.label_names_, object), (self.label_vectors_, float)))  # fmt: skip
        return clone(self).fit(X, Y, dict(zip(names, vectors, strict=True)))  # type: ignore[no-any-return]

    def _check_restored(self) -> None:
        """Raise an error unless this model, as read from a file, fits together and scores an image."""
        names, vectors, n_seen = self.label_names_, self.label_vectors_, self.n_seen_
        check_names(names, "label_names_")
        if check_count(self.n_features_in_, "n_features_in_") > MOST_FEATURES:
            raise ValueError(f"n_features_in_ is {self.n_features_in_}")
        if check_count(n_seen, "n_seen_", low=0) > len(names) or len(vectors) != len(names):
            raise ValueError(f"n_seen_ is {n_seen}, with {len(names)} names and {len(vectors)} vectors")
        found, is_one = np.shape(self.classes_), self.single_label_
        if not isinstance(is_one, bool) or (found != (n_seen,) and (found, n_seen, is_one) != ((2,), 1, True)):
            raise ValueError(f"classes_ has the shape {found}, for {n_seen} labels")
        rng = np.random.default_rng(0)
        images = rng.normal(size=(3, self.n_features_in_)) * [[1.0], [10.0], [0.1]]
        with np.errstate(all="ignore"):
            if hasattr(self, "calibration_"):
                self.calibration_.check_for(self, images)
            self._try(images, names, names[0])
            self._try(images, rng.normal(size=(2, vectors.shape[1])), rng.normal(size=vectors.shape[1]))
            self.tag(images, top=1)
            if n_seen:
                self.predict(images)
            space = self._label_space(self._seen_vectors())
        if not np.isfinite(space).all():
            raise ValueError("its label space is not finite")

    def _try(self, images: Matrix, labels: Any, label: Any) -> None:
        """Raise an error unless images can be scored for labels, and explained for one of them."""
        scores, thresholds = self.decision_function(images, labels), self.threshold(images)
        p = self.predict_proba(images, labels) if self._gives_probabilities() else np.full(scores.shape, 0.5)
        similar = [tag.score for tag in self.similar_labels(label, top=1)]
        self.predict(images, labels)
        if scores.shape != (len(images), len(labels)) or p.shape != scores.shape or thresholds.shape != (3,):
            raise ValueError(f"its scores for 3 images have the shape {scores.shape}")
        is_finite = all(np.isfinite(values).all() for values in (scores, thresholds, similar))
        if not is_finite or not ((p >= 0.0) & (p <= 1.0)).all():
            raise ValueError("its scores are not finite, or its probabilities not between 0 and 1")
        try:
            self.explain(images[0], label)
        except ValueError as error:
            if not str(error).startswith("explain: "):  # this method cannot
                raise

    def _gives_probabilities(self) -> bool:
        return hasattr(self, "calibration_") or self._gives_log_odds()

    def _gives_log_odds(self) -> bool:
        """Whether the margin scores are log-odds of a probability without further calibration."""
        return False

    def _clues(self, X: Any, M: Matrix) -> list[Matrix]:
        """Further quantities of images and labels for a `Calibration`."""
        return []

    def _inputs_for_classifiers(self, X: Any) -> Matrix | None:
        """Columns that help classifiers of seen labels on the same images, if this method has any to add."""
        return None

    def _label_space(self, M: Matrix) -> Matrix:
        """Embedded label vectors in the space where the method compares labels."""
        return M

    def _explanation(self, X: Any, name: str, M: Matrix, parts: list[Part]) -> Explanation:
        scores, p = self._scorer(M)(X)
        return Explanation.of(name, float(scores[0, 0]), parts, None if p is None else float(p[0, 0]))

    def _parts(self, X: Any, M: Matrix, **options: Any) -> list[Part]:
        """Parts that sum to the margin score of image X for label M, up to an offset."""
        keys, values = self._part_table(X, M, np.array([0]), np.array([0]), **options)
        totals: dict[tuple[Kind, str], float] = {}
        for key, value in zip(keys, values[0].tolist(), strict=True):
            totals[key] = totals.get(key, 0.0) + value
        return [Part(*key, value) for key, value in totals.items() if value or key[0] == "label"]

    def _part_table(self, X: Any, M: Matrix, rows: Any, columns: Any) -> tuple[list[tuple[Kind, str]], Matrix]:
        """Kinds and names of parts, and values: one row for each image X[rows[i]] and label M[columns[i]]."""
        names = self.label_names_[: self.n_seen_]
        found = [self._seen_parts(X[[i]], M[[c]]) for i, c in zip(rows, columns, strict=True)]
        return [("label", name) for name in names], np.vstack(found)

    def _seen_parts(self, X: Any, M: Matrix) -> Matrix:
        """One part per seen label; they sum to the margin score of image X for label M plus the threshold."""
        raise ValueError(f"explain: the scores of {type(self).__name__} are not sums over seen labels.")

    def _saved_params(self) -> dict[str, Any]:
        return self.get_params(deep=False)  # type: ignore[no-any-return]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        return tags

    def _fit_or_restore(self, *given: Any) -> Self:
        """Fit, restoring the old model on failure: a half-updated one would silently give wrong scores."""
        before = dict(vars(self))
        self.__dict__.pop("calibration_", None)  # of the earlier fit
        _KEPT.pop(self, None)
        try:
            self._fit(self._check_problem(*given))
        except BaseException:
            self.__dict__ = before
            raise
        return self

    def _check_problem(
        self, X: Any, Y: Any, seen: Any, unseen: Any, relations: Any, sample_weight: Any = None
    ) -> TrainingProblem:
        """Validate the arguments of `fit`, and learn the classes and the labels."""
        self.normalize_ = validation.check_flag(self.normalize, "normalize")
        tags = None
        if validation.are_tag_lists(Y):
            tags = None if seen is None else check_labels(seen, "seen").names
            if seen is not None and tags is None:
                raise ValueError("seen: lists of tags need names. Pass {name: vector}.")
            Y, tags = validation.tag_matrix(Y, tags)
        X, (T, columns, classes), weights = self._check_data(X, Y, sample_weight)
        self.single_label_ = classes is not None
        self.classes_ = np.arange(T.shape[1]) if classes is None else classes
        self._set_labels(T.shape[1], tags or columns, seen, unseen)
        names, vectors, n_seen = self.label_names_, self.label_vectors_, self.n_seen_
        of_seen = self._embed(vectors[:n_seen], "seen", names[:n_seen])
        of_unseen = self._embed(vectors[n_seen:], "unseen", names[n_seen:])
        R = None if relations is None else validation.check_relations(relations, names)
        return TrainingProblem(X, T, of_seen, of_unseen, R, weights)

    def _check_data(self, X: Any, Y: Any, sample_weight: Any) -> tuple[Any, Annotations, Matrix | None]:
        validation.refuse_other_order(X, Y)
        X = self._check_images(X, reset=True)
        return X, validation.check_annotations(Y, X.shape[0], need_positive=self._needs_positive), None

    def _by_partition(self, method: str, X: Any, **options: Any) -> Any:
        """Result of a scoring method for the images of a Dask collection."""
        from unseen.cluster.score import over_partitions

        check_is_fitted(self)
        scorer = copy(self)  # the copy is sent to the workers
        for name in self._not_for_scores:
            scorer.__dict__.pop(name, None)
        return over_partitions(scorer, method, X, **options)

    def _check_images(self, X: Any, *, reset: bool = False) -> Any:
        if is_dask(X):
            raise ValueError(f"X: {type(self).__name__} can score a Dask collection only. Pass X.compute().")
        validation.refuse_other_numbers(X, "X")
        try:
            X = validate_data(self, X, reset=reset, accept_sparse="csr", dtype=[np.float64, np.float32], order="C")
        except (TypeError, ValueError) as error:
            if str(error).startswith(("Complex data", "could not convert", "float() argument")):
                raise type(error)(f"X: {str(error).splitlines()[0]}. Pass real numbers.") from None
            if "inhomogeneous" not in str(error):
                raise
            raise ValueError("X: its rows have different lengths. Pass a matrix (n_images, n_features).") from None
        if sp.issparse(X):
            X = sp.csr_array(X, copy=not X.has_canonical_format)
            X.sum_duplicates()
        if not self.normalize_:
            validation.refuse_huge_entries(X)
        return X

    def _set_labels(self, n_seen: int, names: tuple[str, ...] | None, seen: Any, unseen: Any) -> None:
        """Learn the names and vectors of the labels, seen ones first, and the centre of the vectors."""
        if seen is None and unseen is not None:
            raise ValueError("unseen: unseen labels need vectors of the seen ones. Pass seen as well.")
        given = Labels(names, np.eye(n_seen)) if seen is None else check_labels(seen, "seen")
        if seen is not None and self.single_label_:
            raise ValueError("seen: label vectors need an indicator matrix Y, but Y is a vector of classes.")
        if len(given.vectors) != n_seen:
            raise ValueError(f"seen: {len(given.vectors)} labels for {n_seen} columns of Y. Pass one per column.")
        if names is not None and given.names is not None and names != given.names:
            raise ValueError(f"seen: {listed(given.names)} are not the columns of Y ({listed(names)}) in order.")
        n_dims = given.vectors.shape[1]
        others = Labels((), np.empty((0, n_dims))) if unseen is None else check_labels(unseen, "unseen")
        if others.vectors.shape[1] != n_dims:
            raise ValueError(f"unseen: {others.vectors.shape[1]} dimensions, but the seen labels have {n_dims}.")
        self.n_seen_ = n_seen
        self.label_vectors_ = np.vstack([given.vectors, others.vectors])
        numbered = _numbered_names(len(self.label_vectors_))
        of_seen, of_unseen = given.names or names or numbered[:n_seen], others.names or numbered[n_seen:]
        self.label_names_ = check_names(of_seen + of_unseen, "seen and unseen")
        is_centred = validation.check_flag(self.center, "center") and seen is not None
        self.label_center_ = self.label_vectors_.mean(axis=0) if is_centred else np.zeros(n_dims)

    def _embed(self, vectors: Matrix, argument: str, names: tuple[str, ...] | None = None) -> Matrix:
        """Label vectors as the method uses them: centred as at fit time and scaled to unit length."""
        n_dims = len(self.label_center_)
        if vectors.shape[1] != n_dims:
            raise ValueError(f"{argument}: {vectors.shape[1]} dimensions. Pass vectors of {n_dims}, as in fit.")
        zero = ~vectors.any(axis=1)
        if zero.any():
            which = validation.which_vectors(zero, names)
            raise ValueError(f"{argument}: all zeros in {which}. Leave the label out.")
        moved = vectors - self.label_center_
        # Lengths relative to the largest entry: the squares of huge or tiny vectors stay in range.
        largest = np.abs(vectors).max(axis=1, keepdims=True)
        lengths = np.linalg.norm(moved / largest, axis=1, keepdims=True)
        central = lengths[:, 0] <= 1e-12 * np.linalg.norm(vectors / largest, axis=1)
        if central.any():
            which = validation.which_vectors(central, names)
            raise ValueError(f"{argument}: nothing is left of {which} after centring. Pass center=False.")
        return moved / largest / lengths if self.normalize_ else moved

    def _passed_on(self, M: Matrix) -> Matrix:
        """Labels that a method embeds for this part of it; see `kept_for`."""
        return kept_for(self, M, lambda M: self._embed(M, "labels"))

    def _seen_vectors(self) -> Matrix:
        return self._embed(self.label_vectors_[: self.n_seen_], "seen")

    def _named_scores(self, X: Any, labels: Any) -> tuple[tuple[str, ...], Matrix]:
        check_is_fitted(self)
        names, vectors = self._resolve(labels)
        return names, self._margin_scores(self._check_images(X), self._embed(vectors, "labels", names))

    def _question(self, x: Any, label: Any) -> tuple[Any, str, Matrix]:
        """One image as a matrix of one row, the name of one label, and its embedded vector as a matrix."""
        check_is_fitted(self)
        validation.refuse_other_numbers(x, "x")
        X = self._check_images(x if sp.issparse(x) or hasattr(x, "columns") else np.atleast_2d(np.asarray(x)))
        if X.shape[0] != 1:
            raise ValueError(f"x: {X.shape[0]} images were given. Pass the features of one image.")
        name, M = self._resolve_one(label)
        return X, "label" if name is None else name, M

    def _resolve(self, labels: Any) -> tuple[tuple[str, ...], Matrix]:
        """Names and raw vectors of the requested labels."""
        names, vectors, n_seen = self.label_names_, self.label_vectors_, self.n_seen_
        words = {"seen": slice(n_seen), "unseen": slice(n_seen, None), "all": slice(None)}
        if labels is None or (isinstance(labels, str) and labels not in words):
            raise ValueError(f"labels: {labels!r} was given. Pass one of {listed([*words])}, or a list of names.")
        if isinstance(labels, str):
            part = words[labels]
            if not names[part]:
                raise ValueError(f"labels: this model has no {labels} labels. Pass names or vectors of others.")
            return names[part], vectors[part]
        given = check_labels(labels, "labels", Labels(names, vectors))
        return given.names or _numbered_names(len(given.vectors)), given.vectors

    def _resolve_one(self, label: Any) -> tuple[str | None, Matrix]:
        """Name (None for a bare vector) of a single label, and its embedded vector as a matrix."""
        one = [label] if isinstance(label, str) or np.ndim(label) == 1 else label
        names, vectors = check_labels(one, "label", Labels(self.label_names_, self.label_vectors_))
        if len(vectors) != 1:
            raise ValueError(f"label: {len(vectors)} labels were given. Pass a single name or vector.")
        return (names[0] if names else None), self._embed(vectors, "label", names)


def best_tags(
    names: Sequence[str], scores: Matrix, probabilities: Matrix | None, top: int | None = None
) -> list[list[Tag]]:
    """Tags of each image, by probability and then by score; by score without probabilities."""
    found = []
    for row, s in enumerate(scores):
        p = None if probabilities is None else probabilities[row]
        order = np.argsort(-s, kind="stable") if p is None else np.lexsort([-s, -p])
        found.append([Tag(names[c], float(s[c]), None if p is None else float(p[c])) for c in order[:top]])
    return found


def is_dask(values: Any) -> bool:
    """Whether this is a Dask array or data frame; other types share its method (xarray over NumPy, say)."""
    if not hasattr(values, "__dask_graph__"):
        return False
    from unseen.cluster import score

    return score.is_dask(values)


def kept_for(model: Any, M: Matrix, compute: Callable[[Matrix], Kept]) -> Kept:
    """``compute(M)``, kept for the embedded labels that a model was given last: many blocks of images share them.

    Kept by identity: M must not be changed, nor be a user's array.
    """
    key = id(M), compute.__qualname__
    with _LOCK:
        found = _KEPT.setdefault(model, {}).get(key)
    if found is None or found[0] is not M:
        found = M, compute(M)
        with _LOCK:
            kept = _KEPT.setdefault(model, {})
            kept[key] = found
            while len(kept) > MOST_KEPT:
                kept.pop(next(iter(kept)))  # the oldest
    return found[1]


def seen_places(M: Matrix, seen: Matrix) -> NDArray[np.intp]:
    """Position of each label among the seen ones, or -1: the single rule for which labels are seen.

    Two labels are the same if the entries of their vectors differ by at most 1e-5 of the largest entry of the seen
    one: an encoder gives a text the same vector only up to rounding.
    """
    places, limits = np.full(len(M), -1, dtype=np.intp), SAME * np.abs(seen).max(axis=1)
    size = MOST_DISTANCES // max(len(seen), 1) + 1
    for first in range(0, len(M), size):
        # Few labels agree in the first entries: the others need not be compared further.
        close = cdist(M[first : first + size, :8], seen[:, :8], "chebyshev") <= limits
        rows = first + np.flatnonzero(close.any(axis=1))
        if len(rows):
            distances = cdist(M[rows], seen, "chebyshev")
            nearest = distances.argmin(axis=1)
            places[rows] = np.where(distances.min(axis=1) <= limits[nearest], nearest, -1)
    return places


def _are_seen(labels: Any) -> bool:
    return isinstance(labels, str) and labels == "seen"


def _numbered_names(n_labels: int) -> tuple[str, ...]:
    return tuple(f"label {i}" for i in range(n_labels))
