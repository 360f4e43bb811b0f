"""LabelMeanTransfer: what the mean images of the seen labels say of any other label."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unseen.base import Matrix, TrainingProblem
from unseen.baselines._linear import gather, project
from unseen.baselines._scored import ScoredTagger

CONSTANT = 1e-10  # a standard deviation below this share of the largest value is rounding


class LabelMeanTransfer(ScoredTagger):
    r"""Evidence for the seen labels from their mean images, passed on by the likeness of labels.

    In closed form, without a parameter to tune::

        e_k(x) = <x, mean of the images that show k - mean of those where k is known>
        z_k(x) = (e_k(x) - mean_k) / std_k
        score(x, c) = sum_k z_k(x) <m_k, m_c> / std_c

    where mean_k and std_k are those of e_k over the training images, and std_c that of the sum above it: every
    seen label speaks with the same force, and every label has scores of mean 0 and variance 1 on the training
    images, however frequent or central it is. Means do not sharpen what tells the seen labels from each other, as
    classifiers do: whether that transfers better depends on the features, see ``docs/paper_track.md``.

    Multi-label adaptation: none is needed. A label that never varies over its known entries has no evidence, and
    a label that is like no seen one scores 0. ``relations`` are not used.

    `explain` gives each seen label its part ``z_k(x) <m_k, m_c> / std_c`` of the score.

    Parameters
    ----------
    normalize : bool, default=True
        Scale features and label vectors to unit length.
    center : bool, default=True
        Subtract the mean of the label vectors given to `fit` (before scaling), also from labels asked for later.

    Attributes
    ----------
    weights_ : ndarray of shape (n_features, n_seen)
        ``z(x) = x weights_ + bias_``.
    bias_ : ndarray of shape (n_seen,)
        See ``weights_``.
    correlations_ : ndarray of shape (n_seen, n_seen)
        Of the evidence for the seen labels, over the training images; std_c for any label follows from them.
    embedded_ : ndarray of shape (n_seen, n_dims)
        The vectors of the seen labels, centred and scaled.
    threshold_ : float
        What is subtracted from the scores: the threshold of best micro-F1 over the known training entries.
    label_names_, label_vectors_, n_seen_
        The labels given to `fit`, the seen ones first.

    Examples
    --------
    >>> from unseen import make_tagged_scenes
    >>> from unseen.baselines import LabelMeanTransfer
    >>> data = make_tagged_scenes(n_train=300, n_test=5)
    >>> model = LabelMeanTransfer().fit(data.X_train, data.Y_train[:, data.seen], data.seen_labels)
    >>> model.decision_function(data.X_test, data.unseen_labels).shape
    (5, 12)
    """

    def __init__(self, *, normalize: bool = True, center: bool = True) -> None:
        self.normalize = normalize
        self.center = center

    def _learn(self, problem: TrainingProblem) -> None:
        weights, bias, standardised = mean_evidence(problem.X, problem.T, normalize=self.normalize_)
        self.weights_, self.bias_ = weights, bias
        self.correlations_ = standardised.T @ standardised / len(standardised)
        self.embedded_ = problem.seen

    def _likeness(self, M: Matrix) -> Matrix:
        """Of each label to each seen one, divided by the spread of the scores that it leads to."""
        likeness = M @ self.embedded_.T
        variances = np.einsum("ck,kl,cl->c", likeness, self.correlations_, likeness)
        spreads = np.sqrt(np.maximum(variances, 0.0))[:, None]
        shares: Matrix = np.divide(likeness, spreads, out=np.zeros_like(likeness), where=spreads > 0.0)
        return shares

    def _scores(self, X: Any, M: Matrix) -> Matrix:
        scores: Matrix = self._evidence(X) @ self._likeness(M).T
        return scores

    def _seen_parts(self, X: Any, M: Matrix) -> Matrix:
        parts: Matrix = self._evidence(X)[0] * self._likeness(M)[0]
        return parts

    def _evidence(self, X: Any) -> Matrix:
        evidence: Matrix = self._project(X, self.weights_) + self.bias_
        return evidence


class MeanEvidence(NamedTuple):
    """``z(x) = x weights + bias``, and z of the training images."""

    weights: Matrix
    bias: Matrix
    standardised: Matrix


def mean_evidence(X: Any, T: NDArray[np.int8], *, normalize: bool) -> MeanEvidence:
    """Evidence for each label, a column of T: projection on the difference of two means, standardised."""
    known, shown = T != 0, T == 1
    rates = shown.sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    # Proportional to the difference of the means: the centred annotations sum to 0 for each label.
    differences = gather(X, np.where(known, shown - rates, 0.0), normalize=normalize)
    evidence = project(X, differences, normalize=normalize)
    means, scale = evidence.mean(axis=0), inverse_spread(evidence)
    return MeanEvidence(differences * scale, -means * scale, (evidence - means) * scale)


def inverse_spread(values: Matrix) -> Matrix:
    """One over the standard deviation of each column; 0 for one that does not vary."""
    spread = values.std(axis=0)
    varies = spread > CONSTANT * np.abs(values).max(axis=0)
    inverse: Matrix = np.divide(1.0, spread, out=np.zeros_like(spread), where=varies)
    return inverse
