"""Cosine: the plain similarity of images and labels that live in one space."""

from __future__ import annotations

from typing import Any

import numpy as np

from unseen.base import Matrix, TrainingProblem
from unseen.baselines._linear import gather, scaled_chunks, unit_rows
from unseen.baselines._scored import ScoredTagger
from unseen.validation import check_flag


class Cosine(ScoredTagger):
    r"""Cosine between an image and a label whose vectors come from the same image-text model.

    ``score(x, c) = <x - x0, m_c - m0> / (|x - x0| |m_c - m0|)``, where x0 and m0 are zero, or the means of the
    training images and of the label vectors. Nothing else is learned, but the threshold: it minimises no objective
    on the way from seen to unseen labels, and is the baseline for features of CLIP-like models.

    Multi-label adaptation: such models choose the one best caption by a softmax over all of them; here the labels
    of an image are those above a threshold that has the best micro-F1 on the training images, the same for every
    label, so that each is scored by itself.

    There is no `explain`: nothing is learned from the seen labels, so that no part of a score is theirs.

    Features and label vectors must have equally many dimensions. Without label vectors (no ``seen``) a label's
    vector is the mean of the scaled images that show it, minus the mean of all images.

    Parameters
    ----------
    normalize : bool, default=True
        Scale features and label vectors to unit length. False leaves the inner product, without any division.
    center : bool, default=False
        Subtract the mean of the label vectors given to `fit` (before scaling), also from labels asked for later.
    center_images : bool, default=False
        Subtract the mean of the scaled training images from every scaled image, and scale again. Images and texts
        of such models lie in two separate cones; centring both brings them together.

    Attributes
    ----------
    image_center_ : ndarray of shape (n_features,)
        x0.
    prototypes_ : ndarray of shape (n_dims, n_features)
        What label vectors are multiplied by: without label vectors the labels' mean images, else of shape (0, 0)
        and not used.
    threshold_ : float
        What is subtracted from the cosines: the threshold of best micro-F1 over the known training entries.
    label_names_, label_vectors_, n_seen_
        The labels given to `fit`, the seen ones first.

    Examples
    --------
    >>> import numpy as np
    >>> from unseen.baselines.cosine import Cosine
    >>> texts = {"cat": [1.0, 0.0, 0.2], "dog": [0.0, 1.0, 0.2]}
    >>> images = np.array([[0.9, 0.1, 0.0], [0.2, 0.8, 0.1], [0.7, 0.7, 0.0]])
    >>> model = Cosine().fit(images, [[1, 0], [0, 1], [1, 1]], texts)
    >>> model.predict(images, {"cat": texts["cat"], "kitten": [1.0, 0.1, 0.0]}).tolist()
    [[1, 1], [0, 0], [1, 1]]
    """

    def __init__(self, *, normalize: bool = True, center: bool = False, center_images: bool = False) -> None:
        self.normalize = normalize
        self.center = center
        self.center_images = center_images

    def _set_labels(self, n_seen: int, names: tuple[str, ...] | None, seen: Any, unseen: Any) -> None:
        super()._set_labels(n_seen, names, seen, unseen)
        n_dims = self.label_vectors_.shape[1]
        self.has_vectors_ = seen is not None
        if self.has_vectors_ and n_dims != self.n_features_in_:
            raise ValueError(
                f"seen: vectors of {n_dims} dimensions, but the images have {self.n_features_in_} features. "
                f"Take both from the same image-text model."
            )

    def _learn(self, problem: TrainingProblem) -> None:
        X, n_images = problem.X, problem.X.shape[0]
        weights = np.column_stack([np.full(n_images, 1.0 / n_images), problem.T == 1])
        sums = gather(X, weights, normalize=self.normalize_)
        mean = sums[:, 0]
        self.image_center_ = mean if check_flag(self.center_images, "center_images") else np.zeros(X.shape[1])
        self.prototypes_ = np.empty((0, 0))
        if not self.has_vectors_:
            counts = (problem.T == 1).sum(axis=0)
            prototypes = (sums[:, 1:] / np.maximum(counts, 1)).T - np.where(counts > 0, 1.0, 0.0)[:, None] * mean
            self.prototypes_ = unit_rows(prototypes) if self.normalize_ else prototypes

    def _scores(self, X: Any, M: Matrix) -> Matrix:
        directions = M if self.has_vectors_ else M @ self.prototypes_
        if self.normalize_:
            directions = unit_rows(directions)
        return np.vstack(
            [self._center(chunk) @ directions.T for _, chunk in scaled_chunks(X, normalize=self.normalize_)]
        )

    def _center(self, X: Matrix) -> Matrix:
        moved = X - self.image_center_
        return unit_rows(moved) if self.normalize_ else moved
