"""DMP: direct multi-label zero-shot prediction (Fu et al., 2015)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from unseen.base import Matrix, TrainingProblem
from unseen.baselines._linear import Ridge, unit_rows
from unseen.baselines._scored import ScoredTagger
from unseen.baselines._subsets import best_subset
from unseen.explanation import parts_in_span
from unseen.validation import check_count, check_number


class DMP(ScoredTagger):
    r"""Regression of an image on the mean vector of its labels, then the subset of labels with the nearest mean.

    Minimises over W, with the mean vector v_i of the labels of image i (zero if it shows none)::

        sum_i |v_i - mean(v) - x_i W|^2  +  alpha |W|^2

    An image lies at ``v(x) = mean(v) + x W``. `predict_subset` compares it with the mean vectors of label
    *subsets* and takes ``argmax_S cos(v(x), mean_{c in S} m_c)``: the paper's direct prediction over the power
    set. Which subset is best depends on the labels asked for, as every one of them may complete it. The scores
    of `decision_function` must not, and rank a label by itself: ``score(x, c) = <v(x), m_c> / |m_c|``, the length
    of v(x) along the label, whose order for an image is that of the cosines of subsets of one label. `predict`
    and `tag` follow the scores.

    The search is exact for subsets of at most ``max_size`` labels and enumerates no power set: labels are added
    one by one, and a branch is left when a bound on the cosine shows that no label still available can bring a
    better one. Larger sizes cost more: the time grows with how close the best subsets are to each other.

    Multi-label adaptation: none is needed, Fu et al. are multi-label. Theirs is a multi-output deep regression and
    here it is a ridge regression; and they adapt it to the test images (their transductive strategy), which a
    model that scores one image at a time cannot. A label that nobody knows of an image takes part in its mean with
    the label's frequency as its weight.

    `explain`: v(x) lies in the span of the seen labels, ``v(x) = sum_k e_k(x) m_k``, where e_k is what the
    regression predicts of label k's share in the image; label k adds ``e_k(x) <m_k, m_c> / |m_c|`` to the score.

    Parameters
    ----------
    alpha : float, default=1.0
        Weight of |W|^2; of the scale of the eigenvalues of X'X.
    normalize : bool, default=True
        Scale features and label vectors to unit length.
    center : bool, default=True
        Subtract the mean of the label vectors given to `fit` (before scaling), also from labels asked for later.

    Attributes
    ----------
    weights_ : ndarray of shape (n_features, n_dims)
        W.
    mean_ : ndarray of shape (n_dims,)
        Mean of the v_i.
    threshold_ : float
        What is subtracted from the scores: the threshold of best micro-F1 over the known training entries.
    label_names_, label_vectors_, n_seen_
        The labels given to `fit`, the seen ones first.

    Examples
    --------
    >>> from unseen import make_tagged_scenes
    >>> from unseen.baselines.dmp import DMP
    >>> data = make_tagged_scenes(n_train=300, n_test=5)
    >>> model = DMP().fit(data.X_train, data.Y_train[:, data.seen], data.seen_labels)
    >>> subsets = model.predict_subset(data.X_test, data.unseen_labels, max_size=2)
    >>> bool(((subsets.sum(axis=1) >= 1) & (subsets.sum(axis=1) <= 2)).all())
    True
    """

    def __init__(self, alpha: float = 1.0, *, normalize: bool = True, center: bool = True) -> None:
        self.alpha = alpha
        self.normalize = normalize
        self.center = center

    def predict_subset(self, X: Any, labels: Any = "seen", max_size: int = 3) -> NDArray[np.int64]:
        """The subset of labels whose mean vector is nearest to each image, by cosine.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_images, n_features)
            Features.
        labels : labels, optional
            As in `decision_function`.
        max_size : int, default=3
            Most labels in a subset; the empty one is none.

        Returns
        -------
        ndarray of shape (n_images, n_labels), int64
            1 = in the subset.
        """
        check_is_fitted(self)
        max_size = check_count(max_size, "max_size")
        names, vectors = self._resolve(labels)
        M = self._embed(vectors, "labels", names)
        along = self._predict_vectors(self._check_images(X)) @ M.T
        K = M @ M.T
        chosen = np.zeros(along.shape, dtype=np.int64)
        for row, a in zip(chosen, along, strict=True):
            row[best_subset(a, K, max_size)[0]] = 1
        return chosen

    def semantic_vectors(self, X: Any) -> Matrix:
        """Where images lie among the label vectors: v(x), centred and scaled as the label vectors are.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_images, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n_images, n_dims)
        """
        check_is_fitted(self)
        return self._predict_vectors(self._check_images(X))

    def _learn(self, problem: TrainingProblem) -> None:
        alpha = check_number(self.alpha, "alpha", strict=True)
        targets = _mean_vectors(problem.T, problem.seen)
        self.mean_ = targets.mean(axis=0)
        ridge = Ridge(problem.X, alpha, "alpha", normalize=self.normalize_)
        self.weights_ = ridge.regress(problem.X, targets - self.mean_, normalize=self.normalize_)

    def _predict_vectors(self, X: Any) -> Matrix:
        vectors: Matrix = self._project(X, self.weights_) + self.mean_
        return vectors

    def _scores(self, X: Any, M: Matrix) -> Matrix:
        scores: Matrix = self._predict_vectors(X) @ unit_rows(M).T
        return scores

    def _seen_parts(self, X: Any, M: Matrix) -> Matrix:
        return parts_in_span(self._predict_vectors(X)[0], self._seen_vectors(), unit_rows(M)[0])


def _mean_vectors(T: NDArray[np.int8], M: Matrix) -> Matrix:
    """Mean label vector of each image; a label unknown of it counts as often as it is seen on the other images."""
    frequency = (T == 1).sum(axis=0) / np.maximum((T != 0).sum(axis=0), 1)
    share = np.where(T == 0, frequency, T == 1)
    counts = share.sum(axis=1, keepdims=True)
    means: Matrix = share @ M / np.where(counts > 0.0, counts, 1.0)
    return means
