"""BackboneKnowledge: what an image classifier with named classes already knows of any label."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from unseen.base import Matrix, Tag, TrainingProblem
from unseen.baselines._linear import scaled_chunks
from unseen.baselines._scored import ScoredTagger
from unseen.ensembles._affinities import affinities, center_of, centred, check_membership
from unseen.ensembles._backbone_explanation import BackboneExplanation
from unseen.ensembles._likeness import compact_images, expected_evidence, kept_images
from unseen.ensembles._readings import (
    among_companions,
    compact,
    factor,
    mean_readings,
    readings,
    refuse_probabilities,
)
from unseen.validation import check_count, check_labels, check_number

__all__ = ["BackboneExplanation", "BackboneKnowledge"]

TINY = 1e-12  # what a label gets of which no class says anything
FEWEST_TOLD = 10  # classes: logits of fewer may look like probabilities by chance
LIFT = 3.0  # near the best micro-F1 on annotated photos, the seen labels of VOC2007


class BackboneKnowledge(ScoredTagger):
    r"""Evidence for any label from the class probabilities of a backbone and the names of its classes.

    The score of label c on image x says how much more the classes speak for the label here than on any image,

        ``score(x, c) = (1 - regression) e(x, c) + regression f_c(x)``,
        ``e(x, c) = mean_T [log( sum_k p_k(x) b_kc + 1e-12 ) - log( sum_k background_k b_kc + 1e-12 )]``,

    the mean over two temperatures T, ``temperature`` and ``spread`` times as much, with p the softmax of
    ``X / T``: what is plainly there, and what else there may be. A class speaks for a label as itself and as the
    classes that it is seen with, "dining table" for "chair":

        ``b_kc = (1 - cooccurrence) a_kc + cooccurrence sum_l C_kl a_lc``,

    where C_kl is the mean of ``p_k p_l`` over the training images (annotated or not, it makes no difference),
    divided by that of p_k: what is to be expected on images of class k. The affinity of class k to label c is
    that of the best of its names n, its own and those of the kinds it belongs to ("tabby", "cat", "animal"):

        ``a_kc = max_n specificity_n max(0, cos(t_n, t_c))^sharpness``,
        ``specificity_n = 1 - log(number of classes with the name n) / log(number of classes)``,

    where t are the text vectors of the names and of the label, minus the mean of the vectors of the classes' own
    names. So a label is compared with words for what the backbone knows at every level, and labels need no other
    knowledge than their vectors. Images that look alike should have like evidence: f_c is what is to be expected
    of an image that looks like this one, the ridge regression of e(., c) on z, the logits minus their mean and of
    unit length, over up to 512 training images, annotated or not,

        ``min_w mean_i (e(x_i, c) - mean of e - <z_i - mean of z, w>)^2 + 0.03 |w|^2``.

    With ``n_features``, features of the images stand before the logits in X, of this backbone or of others. Then z
    is these features, scaled to unit length, and the weight of the penalty is 0.01. Scale the features of several
    backbones to one length before putting them side by side, or the longest decide.

    The background is the mean of p over the training images, mixed with the even distribution: without it, labels
    near to many classes would come first everywhere.

    `fit` learns the background, C (of rank 64, so that files stay small), a threshold (the best micro-F1 on the
    training images, the same for every image and label), and the mean and the standard deviation of the scores. It
    keeps the images that f_c is learned on, as f_c of a label asked for later needs them. Annotations are used for
    the threshold alone; `without_training` does without images altogether, and so without C and f_c.

    It uses the supervision of the backbone's classes, and some of these may be the unseen labels themselves: in
    comparisons keep it apart from methods that know the seen labels only.

    Parameters
    ----------
    class_vectors : labels of the backbone's classes, optional
        Text vectors of shape (n_classes, n_dims), from the source of the label vectors and in the order of the
        logits; a LabelSpace (or a mapping, or a data frame) gives the classes names in explanations. A class
        whose vector is all zeros says nothing itself. None, in a model read from a file, stands for the saved
        vectors.
    sharpness : float, default=6.0
        Power of the cosines: the larger, the more the nearest names count alone.
    kinds : labels, optional
        Text vectors of more names: of what the classes are kinds of. `unseen.images.imagenet.imagenet_knowledge`
        has them for ImageNet.
    membership : array-like or sparse matrix of shape (n_classes, n_kinds), optional
        1 where the class (row) belongs to the kind (column).
    temperature : float, default=1.0
        Divides the logits: the larger, the more the less likely classes count.
    spread : float, at least 1, default=3.0
        The logits are read a second time at so many times the temperature; 1 stands for one reading.
    cooccurrence : float in [0, 1], default=0.1
        Weight of the classes that a class is seen with on the training images.
    smoothing : float in [0, 1], default=0.5
        Share of the even distribution in the background; the rest is the mean of p over the training images, which
        show what is common but not what the labels to come have in store.
    regression : float in [0, 1], default=0.7
        Share of what is to be expected of images that look alike. With 0 no images are kept, and a file is smaller
        by 1 MB for 1,000 classes.
    n_features : int, default=0
        The first so many columns of X are features, which tell the images that look alike; the logits follow. 0:
        there are none, the logits tell. They make a file larger by 1 MB for every 1,000.
    center : bool, default=True
        Subtract the mean of the class vectors from class and label vectors.

    Attributes
    ----------
    class_vectors_ : ndarray of shape (n_classes, n_dims)
        Vectors of the classes, as given.
    class_names_ : tuple of str
        Their names; "class 0", "class 1", ... if none were given.
    kind_vectors_ : ndarray of shape (n_kinds, n_dims)
        Vectors of the kinds; float32 where that loses nothing.
    membership_ : CSR array of shape (n_classes, n_kinds)
        Which classes belong to them.
    background_ : ndarray of shape (2, n_classes)
        Class probabilities to be expected of any image, at each temperature.
    companions_ : ndarray of shape (n_classes, at most 64), float16
        F with ``F F^T`` nearest to the means of ``p_k p_l``; without columns if there was no training.
    shown_ : ndarray of shape (n_classes,)
        Mean of p over the training images, at the first temperature.
    kept_ : ndarray of shape (at most 512, n_features + n_classes), float16
        Training images: features of unit length, and logits minus the largest of each; without rows if there is
        no regression.
    score_mean_, score_std_ : float
        Mean and standard deviation of the scores over the training images and seen labels.
    threshold_ : float
        What is subtracted from the scores.
    sharpness_, cooccurrence_, regression_ : float
        Those of this fit.
    n_features_ : int
        Columns of X before the logits.
    temperatures_ : ndarray of shape (2,)
        Those at which the logits are read.
    label_names_, label_vectors_, n_seen_
        The labels given to `fit`, the seen ones first.

    Examples
    --------
    >>> import numpy as np
    >>> from unseen.ensembles.backbone_knowledge import BackboneKnowledge
    >>> classes = {"tabby": [1.0, 0.1, 0.0], "beagle": [0.1, 1.0, 0.0], "sports car": [0.0, 0.0, 1.0]}
    >>> logits = np.array([[4.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 0.0, 4.0]])
    >>> labels = {"cat": [1.0, 0.0, 0.0], "dog": [0.0, 1.0, 0.0]}
    >>> model = BackboneKnowledge(classes).fit(logits, [[1, 0], [0, 1], [0, 0]], labels)
    >>> model.tag(logits[2:], {"taxi": [0.0, 0.1, 0.9], "puppy": [0.0, 0.9, 0.2]}, top=1)[0][0].name
    'taxi'
    >>> model.explain(logits[0], "cat").classes[0].name
    'tabby'
    >>> kinds = {"pet": [0.5, 0.5, -0.5]}
    >>> model = BackboneKnowledge(classes, kinds=kinds, membership=[[1], [1], [0]])
    >>> _ = model.without_training(labels | kinds, lift=1.0)
    >>> [model.tag(row[None], ["pet"])[0][0].score > 0.0 for row in logits]
    [True, True, False]
    """

    normalize = False  # the length of a row of logits says how sure the backbone is
    regression_, n_features_ = 0.0, 0  # of files that were written before there were any

    def __init__(
        self,
        class_vectors: Any = None,
        sharpness: float = 6.0,
        *,
        kinds: Any = None,
        membership: Any = None,
        temperature: float = 1.0,
        spread: float = 3.0,
        cooccurrence: float = 0.1,
        smoothing: float = 0.5,
        regression: float = 0.7,
        n_features: int = 0,
        center: bool = True,
    ) -> None:
        self.class_vectors = class_vectors
        self.sharpness = sharpness
        self.kinds = kinds
        self.membership = membership
        self.temperature = temperature
        self.spread = spread
        self.cooccurrence = cooccurrence
        self.smoothing = smoothing
        self.regression = regression
        self.n_features = n_features
        self.center = center

    def without_training(self, labels: Any, lift: float = LIFT) -> Self:
        """Make the tagger ready with no annotated image at all: the ranking needs none.

        Parameters
        ----------
        labels : labels
            Labels to know by name, with vectors from the source of the class vectors; any others can be asked for
            by their vectors.
        lift : float, default=3.0
            A label is predicted where the evidence for it is more than so many times what is expected of any
            image, all classes being as likely. `fit` would learn both from annotated images.

        Returns
        -------
        self
        """
        self._check_parameters()
        threshold = float(np.log(check_number(lift, "lift", strict=True)))
        n_labels = len(check_labels(labels, "labels").vectors)
        n_classes = len(check_labels(self.class_vectors, "class_vectors").vectors)
        self.n_features_in_ = check_count(self.n_features, "n_features", low=0) + n_classes
        self.single_label_, self.classes_, self.normalize_ = False, np.arange(n_labels), False
        self._set_labels(n_labels, None, labels, None)
        self.shown_ = np.full(n_classes, 1.0 / n_classes)
        self.background_ = np.tile(self.shown_, (2, 1))
        self.companions_ = np.empty((n_classes, 0), dtype=np.float16)
        self.kept_ = np.empty((0, self.n_features_in_), dtype=np.float16)
        self.threshold_, self.score_mean_, self.score_std_ = threshold, 0.0, 1.0
        return self

    def evidence(self, X: Any, labels: Any = "seen") -> Matrix:
        """Scores in standard deviations from their mean over the training images and seen labels.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_images, n_features + n_classes)
            Logits, after the features if there are any.
        labels : labels, optional
            As in `decision_function`.

        Returns
        -------
        ndarray of shape (n_images, n_labels)
        """
        _, margins = self._named_scores(X, labels)
        return (margins + (self.threshold_ - self.score_mean_)) / self.score_std_

    def explain(self, x: ArrayLike, label: Any) -> BackboneExplanation:  # type: ignore[override]
        """Split the evidence for one label on one image over the classes of the backbone.

        Parameters
        ----------
        x : array-like of shape (n_features + n_classes,) or (1, n_features + n_classes)
            The logits of the image, after its features if there are any.
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
        name, M = self._resolve_one(label)
        spoken = self._affinities(M)[:, 0]
        (_, chunk), *_ = scaled_chunks(X, normalize=False)
        parts = readings(self._logits(chunk), self.temperatures_)[:, 0] * spoken
        sums = parts.sum(axis=1)
        total, expected = _geometric_mean(sums), _geometric_mean(self.background_ @ spoken)
        own = float(np.log(total) - np.log(expected))
        alike = float(self._regressed(X, np.array([[own]]), spoken[:, None])[0, 0]) - own
        heard = sums > 0.0  # all of them, unless no class speaks or probabilities are too small for a number
        shares = (parts[heard] / sums[heard, None]).mean(axis=0) if heard.any() else np.zeros(len(spoken))
        order = [k for k in np.argsort(-shares, kind="stable") if shares[k] > 0.0]
        return BackboneExplanation(
            label=name if name is not None else "label",
            score=own + alike - self.threshold_,
            classes=tuple(Tag(self.class_names_[k], float(total * shares[k])) for k in order),
            shares=tuple(Tag(self.class_names_[k], float(shares[k])) for k in order),
            expected=expected,
            alike=alike,
        )

    def _saved_params(self) -> dict[str, Any]:
        # What they hold is in attributes of their names.
        return super()._saved_params() | dict.fromkeys(("class_vectors", "kinds", "membership"))

    def _set_labels(self, n_seen: int, names: tuple[str, ...] | None, seen: Any, unseen: Any) -> None:
        if seen is None:
            raise ValueError(
                "seen: no label vectors were given, but labels are compared with the names of the backbone's "
                "classes. Pass vectors from the source of class_vectors."
            )
        super()._set_labels(n_seen, names, seen, unseen)
        self.n_features_ = check_count(self.n_features, "n_features", low=0)
        self._set_classes()
        n_dims = self.label_vectors_.shape[1]
        if self.class_vectors_.shape[1] != n_dims:
            raise ValueError(
                f"seen: vectors of {n_dims} dimensions, but class_vectors has {self.class_vectors_.shape[1]}. "
                f"Take both from the same source."
            )
        if self.kind_vectors_.shape[1] != n_dims:
            raise ValueError(
                f"kinds: vectors of {self.kind_vectors_.shape[1]} dimensions, but class_vectors has {n_dims}. "
                f"Take both from the same source."
            )
        self.label_center_ = center_of(self.class_vectors_, self.center)

    def _set_classes(self) -> None:
        if self.class_vectors is not None:
            names, vectors = check_labels(self.class_vectors, "class_vectors")
            self.class_vectors_ = vectors.copy()
            self.class_names_ = names or tuple(f"class {k}" for k in range(len(vectors)))
        elif not hasattr(self, "class_vectors_"):
            raise ValueError("class_vectors: None was given. Pass the text vectors of the backbone's class names.")
        n_classes, n_columns = len(self.class_vectors_), self.n_features_in_
        if self.n_features_ + n_classes != n_columns:
            wanted = (
                f"n_features: {self.n_features_} columns and {n_classes} classes"
                if self.n_features_
                else f"class_vectors: {n_classes} classes"
            )
            raise ValueError(
                f"{wanted}, but X has {n_columns} columns. Pass the logits of the backbone as X, one class vector "
                f"for each in the same order, and as n_features how many columns stand before them."
            )
        columns = tuple(map(str, getattr(self, "feature_names_in_", ())[self.n_features_ :]))
        if columns != self.class_names_ and sorted(columns) == sorted(self.class_names_):
            raise ValueError(
                "X: its columns are the classes of class_vectors in another order. Pass X[list(classes)], or the "
                "class vectors in the order of the columns."
            )
        self._set_kinds()

    def _set_kinds(self) -> None:
        n_classes, n_dims = self.class_vectors_.shape
        if self.kinds is not None:
            vectors = check_labels(self.kinds, "kinds").vectors
            self.membership_ = check_membership(self.membership, n_classes, len(vectors))
            self.kind_vectors_ = compact(vectors)
        elif self.membership is not None:
            raise ValueError("membership: given without kinds. Pass the text vectors of the kinds as well.")
        elif self.class_vectors is not None or not hasattr(self, "kind_vectors_"):
            self.membership_ = sp.csr_array((n_classes, 0), dtype=bool)
            self.kind_vectors_ = np.empty((0, n_dims), dtype=np.float32)

    def _check_parameters(self) -> None:
        self.sharpness_ = check_number(self.sharpness, "sharpness", strict=True)
        temperature = check_number(self.temperature, "temperature", strict=True)
        self.temperatures_ = temperature * np.array([1.0, check_number(self.spread, "spread", low=1.0)])
        self.cooccurrence_ = check_number(self.cooccurrence, "cooccurrence", high=1.0)
        self.regression_ = check_number(self.regression, "regression", high=1.0)

    def _learn(self, problem: TrainingProblem) -> None:
        self._check_parameters()
        smoothing = check_number(self.smoothing, "smoothing", high=1.0)
        logits = self._logits(problem.X)
        refuse_probabilities(logits)
        means, products = mean_readings(logits, self.temperatures_)
        self.shown_, self.companions_ = means[0], factor(products)
        self.background_ = smoothing / means.shape[1] + (1.0 - smoothing) * means
        self.kept_ = np.empty((0, self.n_features_in_), dtype=np.float16)
        if self.regression_:
            self.kept_ = compact_images(problem.X[kept_images(logits)], self.n_features_)
        scores = self._scores(problem.X, problem.seen)
        self.score_mean_ = float(scores.mean())
        self.score_std_ = float(scores.std()) or 1.0

    def _logits(self, X: Any) -> Any:
        return X[:, self.n_features_ :]

    def _scores(self, X: Any, M: Matrix) -> Matrix:
        if len(self.class_vectors_) >= FEWEST_TOLD:
            refuse_probabilities(self._logits(X))
        spoken = self._affinities(M)
        return self._regressed(X, self._own_evidence(self._logits(X), spoken), spoken)

    def _regressed(self, X: Any, own: Matrix, spoken: Matrix) -> Matrix:
        """The evidence of images, mixed with what is to be expected of images that look like them."""
        if not self.regression_ or not len(self.kept_):
            return own
        kept = self.kept_.astype(np.float64)
        evidence = self._own_evidence(self._logits(kept), spoken)
        expected = expected_evidence(X, kept, evidence, self.n_features_)
        return (1.0 - self.regression_) * own + self.regression_ * expected

    def _own_evidence(self, logits: Any, spoken: Matrix) -> Matrix:
        """e(x, c): a row an image, a column a label."""
        chunks = (readings(chunk, self.temperatures_) for _, chunk in scaled_chunks(logits, normalize=False))
        logs = np.vstack([np.log(chunk @ spoken + TINY).mean(axis=0) for chunk in chunks])
        scores: Matrix = logs - np.log(self.background_ @ spoken + TINY).mean(axis=0)
        return scores

    def _affinities(self, M: Matrix) -> Matrix:
        """``b_kc``, a row a class and a column a label."""
        spoken = affinities(
            centred(self.class_vectors_, self.label_center_),
            centred(self.kind_vectors_.astype(np.float64), self.label_center_),
            self.membership_,
            M,
            self.sharpness_,
        )
        if not self.cooccurrence_ or not self.companions_.shape[1]:
            return spoken
        others = among_companions(spoken, self.companions_, self.shown_)
        return (1.0 - self.cooccurrence_) * spoken + self.cooccurrence_ * others


def _geometric_mean(sums: Matrix) -> float:
    return float(np.exp(np.log(sums + TINY).mean()))
