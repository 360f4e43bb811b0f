"""Why an image got its score for a label: exact parts, one a seen label."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from unseen.base import Matrix, Tag, ZeroShotTagger

DEPENDENT = 1e-10  # singular values below this share of the largest count as zero


@dataclass(frozen=True)
class Explanation:
    """Why an image got its score for a label: parts that, with the offset, sum to the score.

    Attributes
    ----------
    label : str
        What was explained.
    score : float
        Margin score, as in `ZeroShotTagger.decision_function`.
    seen_labels : tuple of Tag
        Contribution of each seen label, the largest in absolute value first; with ``offset`` they sum to
        ``score``.
    images : tuple of (int, float), or None
        Contribution of each training image that has one (row in X, value), the largest in absolute value first;
        with ``offset`` they sum to ``score`` too. None unless the method can tell and was given the training
        features.
    offset : float
        What every label of this image starts from: minus the threshold that a score must exceed.
    """

    label: str
    score: float
    seen_labels: tuple[Tag, ...]
    images: tuple[tuple[int, float], ...] | None = None
    offset: float = 0.0


class ExplainedBySeenLabels(ZeroShotTagger):
    """Base of the methods whose scores are sums over the seen labels: a subclass implements ``_seen_parts``."""

    def explain(self, x: ArrayLike, label: Any) -> Explanation:
        """Split the score of one image for one label into exact contributions of the seen labels.

        Parameters
        ----------
        x : array-like of shape (n_features,) or (1, n_features)
            The image.
        label : str or array-like of shape (n_dims,)
            A name known from `fit`, or any label vector.

        Returns
        -------
        Explanation
            What a part means is said in the description of the class.
        """
        X, name, M = self._question(x, label)
        return self._answer(X, name, M)

    @abstractmethod
    def _seen_parts(self, X: Any, M: Matrix) -> Matrix:
        """One part for each seen label; they sum to the margin score of image X for label M plus the threshold."""

    def _question(self, x: Any, label: Any) -> tuple[Any, str, Matrix]:
        """One image as a matrix of one row, the name of one label, and its embedded vector as a matrix."""
        check_is_fitted(self)
        X = self._check_images(x if sp.issparse(x) or hasattr(x, "columns") else np.atleast_2d(np.asarray(x)))
        if X.shape[0] != 1:
            raise ValueError(f"x: {X.shape[0]} images were given. Pass the features of one image.")
        name, vector = self._resolve_one(label)
        M = self._embed(vector[None], "label", None if name is None else (name,))
        return X, "label" if name is None else name, M

    def _answer(self, X: Any, name: str, M: Matrix, images: Mapping[int, float] | None = None) -> Explanation:
        parts = self._seen_parts(X, M)
        return Explanation(
            label=name,
            score=float(self._margin_scores(X, M)[0, 0]),
            seen_labels=tuple(Tag(self.label_names_[c], float(parts[c])) for c in largest_first(parts)),
            images=None if images is None else tuple(images.items()),
            offset=-float(self._thresholds(X)[0]),
        )

    def _seen_vectors(self) -> Matrix:
        """The seen label vectors as the method uses them."""
        return self._embed(self.label_vectors_[: self.n_seen_], "seen")


def largest_first(parts: Matrix) -> NDArray[np.intp]:
    """Places of the parts, the largest in absolute value first."""
    return np.argsort(-np.abs(parts), kind="stable")


def parts_in_span(vector: Matrix, seen: Matrix, label: Matrix) -> Matrix:
    """Split ``<vector, label>`` over the seen labels, in whose span the vector lies.

    ``vector = sum_k e_k m_k`` gives the parts ``e_k <m_k, label>``. The e are unique when no seen label is a
    combination of the others; else the smallest ones are taken.
    """
    evidence = np.linalg.lstsq(seen.T, vector, rcond=DEPENDENT)[0]
    parts: Matrix = evidence * (seen @ label)
    return parts
