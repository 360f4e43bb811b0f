"""BackboneKnowledge: evidence for any label from an image classifier with named classes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import softmax

from unseen.base import TrainingProblem, kept_for
from unseen.baselines._linear import ScoredTagger, quantised, scaled, scaled_chunks, unit_rows
from unseen.explanation import Kind
from unseen.validation import Matrix, check_flag, check_labels, check_number, refuse_other_numbers

TINY = 1e-12  # evidence for a label that no class is similar to
FEWEST_CHECKED = 10  # classes; with fewer, logits may look like probabilities by chance
RANK = 64  # of the products of class probabilities that are stored: 128 kB for 1,000 classes
LABELS_AT_ONCE = 256  # one row per name of a class makes a tall matrix
LEAST_EVIDENCE = 1e-6  # of the clue
MOST_SHARPNESS = 1000.0  # beyond it, only equal names count
MOST_DIMS = 192  # of the names that are stored


class _About(NamedTuple):
    """What depends on the labels alone."""

    affinities: Matrix  # b_kc
    usual: Matrix  # evidence in the background
    literal: Any  # max_n specificity_n cos_nc^32 of each class, in single precision


class BackboneKnowledge(ScoredTagger):
    r"""Evidence for any label from the class probabilities of a backbone and the names of its classes.

    With p the softmax of ``logits / T`` for two temperatures T, ``temperature`` and ``spread * temperature``::

        score(x, c) = mean_T [log( sum_k p_k(x) b_kc + 1e-12 ) - log( sum_k background_k b_kc + 1e-12 )]
        b_kc = (1 - cooccurrence) a_kc + cooccurrence sum_l C_kl a_lc
        a_kc = max_n specificity_n max(0, cos(t_n, t_c))^sharpness

    The names n of class k are its own and those of its kinds ("tabby", "cat", "animal"); a name that j of all K
    classes share has the specificity ``1 - log(j) / log(K)``; t are text vectors minus the mean of those of the
    classes. C_kl is the mean of ``p_k p_l`` over the training images divided by that of p_k; the background is the
    mean of p, mixed with the uniform distribution.

    Annotations are used only for the threshold. Some classes of the backbone may be the unseen labels: in
    comparisons keep it apart from methods that use only the seen labels.

    Parameters
    ----------
    class_vectors : labels of the backbone's classes
        Text vectors of shape (n_classes, n_dims), from the source of the label vectors and in the order of the
        logits; with names, to have them in explanations. A class of zeros counts only through its kinds.
    sharpness : float, default=6.0
        Power of the cosines: the larger, the more the nearest names dominate.
    kinds : labels, optional
        Text vectors of the broader categories of the classes. `unseen.images.imagenet` has them for ImageNet.
    membership : array-like or sparse matrix of shape (n_classes, n_kinds), optional
        1 where the class (row) belongs to the kind (column).
    temperature, spread : float, default=1.0 and 3.0
        The larger, the more weight less likely classes get.
    cooccurrence : float in [0, 1], default=0.5
        Weight of the classes that a class appears with on the training images.
    smoothing : float in [0, 1], default=0.5
        Share of the uniform distribution in the background.
    center : bool, default=True
        Subtract the mean of the class vectors from class and label vectors.

    Attributes
    ----------
    name_vectors_, name_scales_, name_basis_, membership_ : ndarray (int8), ndarray, ndarray, CSR array
        Directions of all names times the root of their specificity, ``name_vectors_ * name_scales_[:, None]``, in
        an orthonormal basis of up to 192 dimensions, and the names of each class.
    background_, shown_, companions_ : ndarray
        The background at each T, the means of p_k, and F with ``F F^T`` nearest to those of ``p_k p_l``.

    Examples
    --------
    >>> import numpy as np
    >>> from unseen.ensembles import BackboneKnowledge
    >>> classes = {"tabby": [1.0, 0.1, 0.0], "beagle": [0.1, 1.0, 0.0], "sports car": [0.0, 0.0, 1.0]}
    >>> logits = np.array([[4.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 0.0, 4.0]])
    >>> labels = {"cat": [1.0, 0.0, 0.0], "dog": [0.0, 1.0, 0.0]}
    >>> model = BackboneKnowledge(classes).fit(logits, [[1, 0], [0, 1], [0, 0]], labels)
    >>> model.tag(logits[2:], {"taxi": [0.0, 0.1, 0.9], "puppy": [0.0, 0.9, 0.2]}, top=1)[0][0].name
    'taxi'
    """

    normalize = False  # the length of a row of logits reflects the backbone's confidence

    def __init__(
        self,
        class_vectors: Any = None,
        sharpness: float = 6.0,
        *,
        kinds: Any = None,
        membership: Any = None,
        temperature: float = 1.0,
        spread: float = 3.0,
        cooccurrence: float = 0.5,
        smoothing: float = 0.5,
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
        self.center = center

    def _saved_params(self) -> dict[str, Any]:
        # Scoring needs only `name_vectors_` and `membership_`.
        return super()._saved_params() | dict.fromkeys(("class_vectors", "kinds", "membership"))

    def _set_labels(self, n_seen: int, names: tuple[str, ...] | None, seen: Any, unseen: Any) -> None:
        if seen is None:
            raise ValueError("seen: None was given. Pass label vectors from the source of class_vectors.")
        super()._set_labels(n_seen, names, seen, unseen)
        self.sharpness_ = check_number(self.sharpness, "sharpness", high=MOST_SHARPNESS, strict=True)
        temperature = check_number(self.temperature, "temperature", strict=True)
        self.temperatures_ = temperature * np.array([1.0, check_number(self.spread, "spread", low=1.0)])
        self.cooccurrence_ = check_number(self.cooccurrence, "cooccurrence", high=1.0)
        self._set_classes()

    def _set_classes(self) -> None:
        if self.class_vectors is None:
            raise ValueError("class_vectors: None was given. Pass the text vectors of the backbone's class names.")
        names, classes = check_labels(self.class_vectors, "class_vectors")
        n_classes, n_dims = classes.shape
        self.class_names_ = names or tuple(f"class {k}" for k in range(n_classes))
        if n_classes != self.n_features_in_:
            raise ValueError(f"class_vectors: {n_classes} for {self.n_features_in_} columns of X. Pass one each.")
        columns = tuple(map(str, getattr(self, "feature_names_in_", ())))
        if columns != self.class_names_ and sorted(columns) == sorted(self.class_names_):
            raise ValueError("X: its columns are the classes in another order. Pass X[list(class_vectors)].")
        kinds, membership = np.empty((0, n_dims)), sp.csr_array((n_classes, 0))
        if self.kinds is not None:
            kinds = check_labels(self.kinds, "kinds").vectors
            refuse_other_numbers(self.membership, "membership")
            membership = sp.csr_array((0, 0) if self.membership is None else self.membership)
        if {n_dims, kinds.shape[1]} != {len(self.label_center_)}:
            given = f"{n_dims} dimensions, seen {len(self.label_center_)} and kinds {kinds.shape[1]}"
            raise ValueError(f"class_vectors: {given}. Take all of them from the same source.")
        if membership.shape != (n_classes, len(kinds)):
            raise ValueError(f"membership: its shape is {membership.shape}. Pass {(n_classes, len(kinds))}.")
        has_vector = classes.any(axis=1)
        if not has_vector.any():
            raise ValueError("class_vectors: all are zero. Pass the text vectors of the class names.")
        is_centred = check_flag(self.center, "center")
        self.label_center_ = classes[has_vector].mean(axis=0) if is_centred else np.zeros(n_dims)
        self.membership_ = sp.csr_array(sp.hstack([sp.eye_array(n_classes), membership]) != 0)
        covered = np.bincount(self.membership_.indices, minlength=n_classes + len(kinds))
        specificity = 1.0 - np.log(np.maximum(covered, 1)) / np.log(max(n_classes, 2))
        vectors = np.vstack([classes, kinds])
        moved = np.where(vectors.any(axis=1, keepdims=True), vectors - self.label_center_, 0.0)
        # Under the power, the root becomes the specificity itself.
        scaled_names = unit_rows(moved) * specificity[:, None] ** (1.0 / self.sharpness_)
        # 192 dimensions of one byte each: 0.6 MB in a file for the names of ImageNet.
        basis = np.linalg.svd(scaled_names, full_matrices=False)[2][:MOST_DIMS]
        self.name_basis_ = np.ascontiguousarray(basis.T, dtype=np.float32).astype(np.float16).astype(np.float32)
        self.name_vectors_, self.name_scales_ = quantised(scaled_names @ self.name_basis_, axis=1)

    def _learn(self, problem: TrainingProblem) -> None:
        from scipy.linalg import eigh

        smoothing = check_number(self.smoothing, "smoothing", high=1.0)
        n_images, n_classes = problem.X.shape[0], len(self.class_names_)
        totals, products = np.zeros((2, n_classes)), np.zeros((n_classes, n_classes))
        for _, chunk in scaled_chunks(problem.X, normalize=False):
            probabilities = self._probabilities(chunk)
            totals += probabilities.sum(axis=1)
            products += probabilities[0].T @ probabilities[0]
        values, vectors = eigh(products / n_images, subset_by_index=(max(0, n_classes - RANK), n_classes - 1))
        # In the layout of arrays read from a file, so that sums round the same way.
        self.companions_ = (vectors * np.sqrt(np.maximum(values, 0.0))).astype(np.float16, order="C")
        self.shown_ = totals[0] / n_images
        self.background_ = smoothing / n_classes + (1.0 - smoothing) * totals / n_images

    def _check_restored(self) -> None:
        check_number(self.cooccurrence_, "cooccurrence_", high=1.0)
        for temperature in self.temperatures_:
            check_number(temperature, "temperatures_", strict=True)
        super()._check_restored()

    def _scores(self, X: Any, M: Matrix) -> Matrix:
        about, found = kept_for(self, M, self._about), []
        for _, logits in scaled_chunks(X, normalize=False):
            sums_to_one = logits.min() >= 0.0 and np.abs(logits.sum(axis=1) - 1.0).max() < 1e-2
            if sums_to_one and len(self.class_names_) >= FEWEST_CHECKED:
                # Their softmax is nearly flat: tags would be bad without an error.
                raise ValueError("X: its rows are probabilities. Pass logits, or np.log(X + 1e-12).")
            found.append(np.log(self._probabilities(logits) @ about.affinities + TINY).mean(axis=0) - about.usual)
        return np.vstack(found)

    def _clues(self, X: Any, M: Matrix) -> list[Matrix]:
        """Evidence from classes with nearly the name of the label."""
        chunks = (softmax(logits, axis=1) for _, logits in scaled_chunks(X, normalize=False))
        return [
            np.log(
                np.vstack(list(chunks)).astype(np.float32) @ kept_for(self, M, self._about).literal
                + LEAST_EVIDENCE
            )
        ]

    def _inputs_for_classifiers(self, X: Any) -> Matrix:
        """Half the square roots of the class probabilities: unlike the logits, they are not linear in features."""
        chunks = (softmax(logits, axis=1) for _, logits in scaled_chunks(X, normalize=False))
        return np.asarray(0.5 * np.sqrt(np.vstack(list(chunks))))

    def _about(self, M: Matrix) -> _About:
        """All that depends on labels alone."""
        affinities = self._affinities(M)
        usual = np.log(self.background_ @ affinities + TINY).mean(axis=0)
        return _About(affinities, usual, self._literal(M))

    def _literal(self, M: Matrix) -> Any:
        names, labels = self._names_and_labels(M)
        lengths = np.linalg.norm(names, axis=1, keepdims=True)
        powers = np.maximum((names / np.maximum(lengths, TINY)) @ labels.T, 0.0).astype(np.float32)
        for _ in range(5):  # five squares
            powers *= powers
        return self._by_class(powers * (lengths**self.sharpness_).astype(np.float32))

    def _names_and_labels(self, M: Matrix) -> tuple[Matrix, Matrix]:
        """Directions of names, scaled, and of labels, in the basis of the names."""
        names = self.name_vectors_.astype(np.float64) * self.name_scales_[:, None]
        return names, unit_rows(M) @ self.name_basis_

    def _by_class(self, of_names: Any) -> Any:
        """The largest value among the names of each class: of the first names, then of the second ones, ..."""
        names, first = self.membership_.indices, self.membership_.indptr[:-1]
        counts = np.diff(self.membership_.indptr)
        largest = of_names[names[first]]
        for k in range(1, counts.max()):
            classes = np.flatnonzero(counts > k)
            largest[classes] = np.maximum(largest[classes], of_names[names[first[classes] + k]])
        return largest

    def _part_table(self, X: Any, M: Matrix, rows: Any, columns: Any) -> tuple[list[tuple[Kind, str]], Matrix]:
        p, affinities = self._probabilities(scaled(X, normalize=False)), kept_for(self, M, self._about).affinities
        evidence = p[:, rows] * affinities.T[columns]
        sums = evidence.sum(axis=2, keepdims=True)
        shares = np.divide(evidence, sums, out=np.zeros_like(evidence), where=sums > 0.0).mean(axis=0)
        total = shares.sum(axis=1, keepdims=True)
        values = shares / np.where(total > 0.0, total, 1.0) * self._scores(X, M)[rows, columns][:, None]
        return [("class", name) for name in self.class_names_], values

    def _probabilities(self, logits: Matrix) -> Matrix:
        """Softmax of the logits at each temperature, of shape (2, n_images, n_classes)."""
        return np.asarray(softmax(logits / self.temperatures_[:, None, None], axis=2))

    def _affinities(self, M: Matrix) -> Matrix:
        """b_kc, one row per class and one column per label."""
        names, labels = self._names_and_labels(M)
        found = []
        for first in range(0, len(M), LABELS_AT_ONCE):
            cosines = np.maximum(names @ labels[first : first + LABELS_AT_ONCE].T, 0.0)
            found.append(self._by_class(cosines) ** self.sharpness_)
        own = np.hstack(found)
        if not self.cooccurrence_ or not self.companions_.shape[1]:
            return own
        F = self.companions_.astype(np.float64)
        together = np.maximum(F @ (F.T @ own), 0.0) / np.maximum(self.shown_, TINY)[:, None]
        return np.asarray((1.0 - self.cooccurrence_) * own + self.cooccurrence_ * together)
