"""DMP: direct multi-label zero-shot prediction (Fu et al., 2015)."""

from dataclasses import dataclass
from itertools import chain, combinations
from math import comb
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from unseen.base import TrainingProblem
from unseen.baselines._linear import ScoredTagger, gather, parts_in_span, ridge_solver, unit_rows
from unseen.validation import Matrix, Targets, check_count, check_number

MOST_SUBSETS = 3_000_000


@dataclass(eq=False, repr=False)
class DMP(ScoredTagger):
    r"""Regression of an image on the mean vector of its labels, then the subset of labels with the nearest mean.

    Minimises over W, with the mean vector v_i of the labels of image i (zero if it shows none)::

        sum_i |v_i - mean(v) - x_i W|^2  +  alpha |W|^2

    An image lies at ``v(x) = mean(v) + x W``. `predict_subset` takes ``argmax_S cos(v(x), mean_{c in S} m_c)``
    over label *subsets*, the direct prediction of the paper. It depends on all labels requested, so
    `decision_function`, `predict` and `tag` rank each label by itself: ``score(x, c) = <v(x), m_c> / |m_c|``.

    Differences from the paper: a ridge regression replaces the deep regression, and nothing is adapted to the test
    images. A label that is unknown for an image enters its mean with the label's frequency as its weight.

    Parameters
    ----------
    alpha : float, default=1.0
        Weight of |W|^2, on the scale of the eigenvalues of X'X.
    normalize, center : bool, default=True
        Scale features and label vectors to unit length, the latter after subtracting the mean of those in `fit`.

    Attributes
    ----------
    weights_, mean_ : ndarray of shape (n_features, n_dims) and (n_dims,)
        W and the mean of the v_i.
    """

    alpha: float = 1.0

    def predict_subset(self, X: Any, labels: Any = "seen", max_size: int = 3) -> NDArray[np.int64]:
        """The subset of 1 to ``max_size`` labels whose mean vector is nearest to each image, by cosine.

        All subsets are compared. Images and labels are as in `decision_function`; in the result 1 = in the subset.
        """
        check_is_fitted(self)
        names, vectors = self._resolve(labels)
        subsets = all_subsets(len(names), check_count(max_size, "max_size"))
        sums = subsets @ self._embed(vectors, "labels", names)
        lengths = np.linalg.norm(sums, axis=1)
        # A subset whose vectors cancel out has no direction.
        sums[lengths <= 1e-7 * subsets.sum(axis=1)] = np.nan
        directions = sums / lengths[:, None]
        found = [np.nanargmax(directions @ v) for v in self._predict_vectors(self._check_images(X))]
        return np.asarray(subsets[found].toarray(), dtype=np.int64)

    def _learn(self, problem: TrainingProblem) -> None:
        alpha = check_number(self.alpha, "alpha", strict=True)
        targets = mean_vectors(problem.T, problem.seen)
        self.mean_ = targets.mean(axis=0)
        solve = ridge_solver(problem.X, alpha, "alpha", normalize=self.normalize_)
        self.weights_ = solve(gather(problem.X, targets - self.mean_, normalize=self.normalize_))

    def _predict_vectors(self, X: Any) -> Matrix:
        return np.asarray(self._project(X, self.weights_) + self.mean_)

    def _scores(self, X: Any, M: Matrix) -> Matrix:
        return self._predict_vectors(X) @ unit_rows(M).T

    def _seen_parts(self, X: Any, M: Matrix) -> Matrix:
        return parts_in_span(self._predict_vectors(X)[0], self._seen_vectors(), unit_rows(M)[0])


def mean_vectors(T: Targets, M: Matrix) -> Matrix:
    """Mean label vector of each image; an unknown label is weighted by its frequency on the other images."""
    frequency = (T == 1).sum(axis=0) / np.maximum((T != 0).sum(axis=0), 1)
    share = np.where(T == 0, frequency, T == 1)
    counts = share.sum(axis=1, keepdims=True)
    return np.asarray(share @ M / np.where(counts > 0.0, counts, 1.0))


def all_subsets(n_labels: int, max_size: int) -> sp.csr_array:
    """Indicators of all non-empty subsets of at most ``max_size`` labels, one row per subset."""
    sizes = range(1, min(max_size, n_labels) + 1)
    counts = [comb(n_labels, size) for size in sizes]
    if sum(counts) > MOST_SUBSETS:
        raise ValueError(f"max_size: {sum(counts):,} subsets are more than {MOST_SUBSETS:,}. Pass a smaller one.")
    members = chain.from_iterable(chain.from_iterable(combinations(range(n_labels), size) for size in sizes))
    indices = np.fromiter(members, dtype=np.int32)
    starts = np.append(0, np.cumsum(np.repeat(sizes, counts)))
    return sp.csr_array((np.ones(len(indices)), indices, starts), shape=(sum(counts), n_labels))
