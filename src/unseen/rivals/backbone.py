"""BackboneKnowledge: what an image classifier with named classes already knows of any label."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.special import softmax
from sklearn.utils.validation import check_is_fitted

from unseen import persistence
from unseen.rivals._linear import scaled_chunks, unit_rows
from unseen.rivals._scored import ScoredTagger
from unseen.tagger import Matrix, Tag, TrainingProblem
from unseen.validation import check_flag, check_labels, check_number

TINY = 1e-12  # what a label gets of which no class says anything


@dataclass(frozen=True)
class BackboneExplanation:
    """Which classes of the backbone speak for a label on an image.

    Attributes
    ----------
    label : str
        What was explained.
    score : float
        Margin score: ``log(sum of the evidence + 1e-12) - threshold_``.
    classes : tuple of Tag
        Evidence ``p_k(x) max(0, cos(t_k, t_c))^sharpness`` of each class that has any, the most first.
    shares : tuple of Tag
        The same, divided by its sum: they sum to one (to zero if no class speaks for the label).
    """

    label: str
    score: float
    classes: tuple[Tag, ...]
    shares: tuple[Tag, ...]


class BackboneKnowledge(ScoredTagger):
    r"""Evidence for any label from the class probabilities of a backbone and the names of its classes.

    Minimises nothing: the score of label c on image x is

        ``e(x, c) = log( sum_k p_k(x) max(0, cos(t_k, t_c))^sharpness + 1e-12 )``

    with p the softmax of X, and t the text vectors of the backbone's classes k and of the label, minus the mean of
    the class vectors. `fit` learns a threshold (the best micro-F1 on the training images, the same for every image
    and label), and the mean and the standard deviation of the scores; it does not change the ranking of an image's
    labels. Annotations are used for the threshold alone; `without_training` does without them.

    It uses the supervision of the backbone's classes, and some of these may be the unseen labels themselves: in
    comparisons keep it apart from methods that know the seen labels only.

    Parameters
    ----------
    class_vectors : labels of the backbone's classes, optional
        Text vectors of shape (n_classes, n_dims), from the source of the label vectors and in the order of the
        columns of X; a LabelSpace (or a mapping, or a data frame) gives the classes names in explanations. A class
        whose vector is all zeros says nothing. None, in a model read from a file, stands for the saved vectors.
    sharpness : float, default=6.0
        Power of the cosines: the larger, the more the nearest classes count alone.
    center : bool, default=True
        Subtract the mean of the class vectors from class and label vectors.

    Attributes
    ----------
    class_vectors_ : ndarray of shape (n_classes, n_dims)
        Vectors of the classes, as given.
    class_names_ : tuple of str
        Their names; "class 0", "class 1", ... if none were given.
    score_mean_, score_std_ : float
        Mean and standard deviation of the scores e(x, c) over the training images and seen labels.
    threshold_ : float
        What is subtracted from the scores.
    sharpness_ : float
        The sharpness of this fit.
    label_names_, label_vectors_, n_seen_
        The labels given to `fit`, the seen ones first.

    Examples
    --------
    >>> import numpy as np
    >>> from unseen.rivals.backbone import BackboneKnowledge
    >>> classes = {"tabby": [1.0, 0.1, 0.0], "beagle": [0.1, 1.0, 0.0], "sports car": [0.0, 0.0, 1.0]}
    >>> logits = np.array([[4.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 0.0, 4.0]])
    >>> labels = {"cat": [1.0, 0.0, 0.0], "dog": [0.0, 1.0, 0.0]}
    >>> model = BackboneKnowledge(classes).fit(logits, [[1, 0], [0, 1], [0, 0]], labels)
    >>> model.tag(logits[2:], {"taxi": [0.0, 0.1, 0.9], "puppy": [0.0, 0.9, 0.2]}, top=1)[0][0].name
    'taxi'
    >>> model.explain(logits[0], "cat").classes[0].name
    'tabby'
    """

    normalize = False  # the length of a row of logits says how sure the backbone is

    def __init__(self, class_vectors: Any = None, sharpness: float = 6.0, *, center: bool = True) -> None:
        self.class_vectors = class_vectors
        self.sharpness = sharpness
        self.center = center

    def without_training(self, labels: Any, share: float = 0.1) -> Self:
        """Make the tagger ready with no annotated image at all: the ranking needs none.

        Parameters
        ----------
        labels : labels
            Labels to know by name, with vectors from the source of the class vectors; any others can be asked for
            by their vectors.
        share : float in (0, 1], default=0.1
            A label is predicted where ``sum_k p_k(x) max(0, cos(t_k, t_c))^sharpness`` exceeds this. `fit` would
            learn it from annotated images.

        Returns
        -------
        self
        """
        sharpness = check_number(self.sharpness, "sharpness", strict=True)
        threshold = float(np.log(check_number(share, "share", high=1.0, strict=True)))
        n_labels = len(check_labels(labels, "labels").vectors)
        self.n_features_in_ = len(check_labels(self.class_vectors, "class_vectors").vectors)
        self.single_label_, self.classes_, self.normalize_ = False, np.arange(n_labels), False
        self._set_labels(n_labels, None, labels, None)
        self.sharpness_, self.threshold_ = sharpness, threshold
        self.score_mean_, self.score_std_ = 0.0, 1.0
        return self

    def evidence(self, X: Any, labels: Any = None) -> Matrix:
        """Scores in standard deviations from their mean over the training images and seen labels.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_images, n_classes)
            Logits.
        labels : labels, optional
            As in `decision_function`.

        Returns
        -------
        ndarray of shape (n_images, n_labels)
        """
        _, margins = self._named_scores(X, labels)
        return (margins + (self.threshold_ - self.score_mean_)) / self.score_std_

    def explain(self, x: ArrayLike, label: Any) -> BackboneExplanation:
        """Split the evidence for one label on one image over the classes of the backbone.

        Parameters
        ----------
        x : array-like of shape (n_classes,) or (1, n_classes)
            The logits of the image.
        label : str or array-like of shape (n_dims,)
            A name known from `fit`, or any label vector.

        Returns
        -------
        BackboneExplanation
        """
        check_is_fitted(self)
        X = self._check_images(x if sp.issparse(x) or hasattr(x, "columns") else np.atleast_2d(np.asarray(x)))
        if X.shape[0] != 1:
            raise ValueError(f"x: {X.shape[0]} images were given. Pass the logits of one image.")
        name, vector = self._resolve_one(label)
        affinities = self._affinities(self._embed(vector[None], "label", None if name is None else (name,)))
        (_, chunk), *_ = scaled_chunks(X, normalize=False)
        parts = softmax(chunk[0]) * affinities[:, 0]
        total = parts.sum()
        order = [k for k in np.argsort(-parts, kind="stable") if parts[k] > 0.0]
        return BackboneExplanation(
            label=name if name is not None else "label",
            score=float(np.log(total + TINY)) - self.threshold_,
            classes=tuple(Tag(self.class_names_[k], float(parts[k])) for k in order),
            shares=tuple(Tag(self.class_names_[k], float(parts[k] / total)) for k in order),
        )

    def save(self, path: str | Path) -> None:
        """Write the fitted model to a safetensors file (whole or not at all), the class vectors with it.

        Parameters
        ----------
        path : str or Path
            Where to; an existing file is replaced.
        """
        check_is_fitted(self)
        twin = copy.copy(self)
        twin.class_vectors = None  # class_vectors_ has them
        persistence.save(twin, path)

    def _set_labels(self, n_seen: int, names: tuple[str, ...] | None, seen: Any, unseen: Any) -> None:
        if seen is None:
            raise ValueError(
                "seen: no label vectors were given, but labels are compared with the names of the backbone's "
                "classes. Pass vectors from the source of class_vectors."
            )
        super()._set_labels(n_seen, names, seen, unseen)
        self._set_classes()
        n_dims = self.label_vectors_.shape[1]
        if self.class_vectors_.shape[1] != n_dims:
            raise ValueError(
                f"seen: vectors of {n_dims} dimensions, but class_vectors has {self.class_vectors_.shape[1]}. "
                f"Take both from the same source."
            )
        has_vector = self.class_vectors_.any(axis=1)
        if not has_vector.any():
            raise ValueError("class_vectors: all of them are zeros. Pass the text vectors of the class names.")
        is_centred = check_flag(self.center, "center")
        self.label_center_ = self.class_vectors_[has_vector].mean(axis=0) if is_centred else np.zeros(n_dims)

    def _set_classes(self) -> None:
        if self.class_vectors is not None:
            names, vectors = check_labels(self.class_vectors, "class_vectors")
            self.class_vectors_ = vectors.copy()
            self.class_names_ = names or tuple(f"class {k}" for k in range(len(vectors)))
        elif not hasattr(self, "class_vectors_"):
            raise ValueError("class_vectors: None was given. Pass the text vectors of the backbone's class names.")
        if len(self.class_vectors_) != self.n_features_in_:
            raise ValueError(
                f"class_vectors: {len(self.class_vectors_)} classes, but X has {self.n_features_in_} columns. "
                f"Pass the logits of the backbone as X and one vector a class, in the same order."
            )

    def _learn(self, problem: TrainingProblem) -> None:
        self.sharpness_ = check_number(self.sharpness, "sharpness", strict=True)
        _refuse_probabilities(problem.X)
        scores = self._scores(problem.X, problem.seen)
        self.score_mean_ = float(scores.mean())
        self.score_std_ = float(scores.std()) or 1.0

    def _scores(self, X: Any, M: Matrix) -> Matrix:
        affinities = self._affinities(M)
        parts = [softmax(chunk, axis=1) @ affinities for _, chunk in scaled_chunks(X, normalize=False)]
        scores: Matrix = np.log(np.vstack(parts) + TINY)
        return scores

    def _affinities(self, M: Matrix) -> Matrix:
        """``max(0, cos(t_k, t_c))^sharpness``, a row a class and a column a label."""
        has_vector = self.class_vectors_.any(axis=1, keepdims=True)
        moved = np.where(has_vector, self.class_vectors_ - self.label_center_, 0.0)
        cosines = np.maximum(_directions(moved) @ _directions(M).T, 0.0)
        affinities: Matrix = cosines**self.sharpness_
        return affinities


def _directions(M: Matrix) -> Matrix:
    """Rows of unit length, whatever their size; a row of zeros stays."""
    largest = np.abs(M).max(axis=1, keepdims=True)
    return unit_rows(M / np.where(largest > 0.0, largest, 1.0))


def _refuse_probabilities(X: Any) -> None:
    """A softmax of probabilities is nearly flat: no error would show, only bad tags."""
    sums = np.asarray(X.sum(axis=1), dtype=np.float64).ravel()
    if X.shape[1] > 1 and X.min() >= 0.0 and np.abs(sums - 1.0).max() < 1e-2:
        raise ValueError(
            "X: its rows are probabilities, non-negative and of sum one. Pass the logits of the backbone, or "
            "np.log(X + 1e-12)."
        )
