"""Cosine: the plain similarity of images and labels in a common space."""

from __future__ import annotations

from typing import Any

from unseen.base import TrainingProblem
from unseen.baselines._linear import ScoredTagger
from unseen.validation import Matrix


class Cosine(ScoredTagger):
    r"""Cosine between an image and a label whose vectors come from the same image-text model.

    ``score(x, c) = <x, m_c> / (|x| |m_c|)``. Only the threshold is learned, one for all labels: this is the
    baseline for features of CLIP-like models. Features and label vectors must have the same dimension. There
    is no `explain`, as no part of a score comes from a seen label.

    Parameters
    ----------
    normalize : bool, default=True
        Scale features and label vectors to unit length. False gives the plain inner product.
    center : bool, default=False
        Subtract the mean of the label vectors given to `fit` (before scaling), also from labels scored later.

    Examples
    --------
    >>> import numpy as np
    >>> from unseen.baselines import Cosine
    >>> texts = {"cat": [1.0, 0.0, 0.2], "dog": [0.0, 1.0, 0.2]}
    >>> images = np.array([[0.9, 0.1, 0.0], [0.2, 0.8, 0.1], [0.7, 0.7, 0.0]])
    >>> model = Cosine().fit(images, [[1, 0], [0, 1], [1, 1]], texts)
    >>> model.predict(images, {"cat": texts["cat"], "kitten": [1.0, 0.1, 0.0]}).tolist()
    [[1, 1], [0, 0], [1, 1]]
    """

    def __init__(self, *, normalize: bool = True, center: bool = False) -> None:
        self.normalize = normalize
        self.center = center

    def _learn(self, problem: TrainingProblem) -> None:
        n_dims, n_features = problem.seen.shape[1], problem.X.shape[1]
        if n_dims != n_features:
            raise ValueError(
                f"seen: vectors of {n_dims} dimensions, but the images have {n_features} features. "
                f"Take both from the same image-text model."
            )

    def _scores(self, X: Any, M: Matrix) -> Matrix:
        return self._project(X, M.T)
