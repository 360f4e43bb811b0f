"""Consensus of three ways to transfer from the seen labels, and LabelMeanTransfer, the simplest of the three."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from unseen.base import TrainingProblem
from unseen.baselines import _linear as linear
from unseen.baselines._linear import ScoredTagger, unit_rows
from unseen.baselines.conse import top_shares
from unseen.baselines.costa import label_shares
from unseen.validation import Matrix, check_count, check_number

Floats = NDArray[np.floating[Any]]

MOST_SAMPLED = 4000  # training images whose evidence is stored, to standardise labels asked for later
MOST_DIRECTIONS = 128  # of the features, for finding neighbours
FEWEST_NEIGHBORS = 5  # the mean over fewer is worse than the image itself
LABELS_AT_ONCE = 500  # what is computed of the sample takes memory for each label
TEMPERATURE = 0.1  # of the weights of labels without relations, the default of `COSTA`
CONSTANT = 1e-10  # a standard deviation below this share of the largest value is rounding error


class LabelMeanTransfer(ScoredTagger):
    r"""Evidence for the seen labels from their mean images, weighted by the similarity of labels.

    In closed form, without a parameter to tune::

        e_k(x) = <x, mean of the images that show k - mean of those where k is known>
        z_k(x) = (e_k(x) - mean_k) / std_k
        score(x, c) = sum_k z_k(x) <m_k, m_c> / std_c

    with the mean and standard deviation of e_k over the training images, and std_c that of the sum above it: every
    label has scores of mean 0 and variance 1 on the training images. A label that does not vary over its known
    entries has no evidence. `explain`: seen label k adds ``z_k(x) <m_k, m_c> / std_c``.

    Parameters
    ----------
    normalize, center : bool, default=True
        Scale features and label vectors to unit length, the latter after subtracting the mean of those in `fit`.

    Attributes
    ----------
    weights_, bias_ : ndarray of shape (n_features, n_seen) and (n_seen,)
        ``z(x) = x weights_ + bias_``.
    correlations_ : ndarray of shape (n_seen, n_seen)
        Correlations of the evidence for the seen labels over the training images; they give std_c for any label.
    """

    def __init__(self, *, normalize: bool = True, center: bool = True) -> None:
        self.normalize = normalize
        self.center = center

    def _learn(self, problem: TrainingProblem) -> None:
        self.weights_, self.bias_ = mean_evidence(problem.X, problem.T, normalize=self.normalize_)
        z = self._project(problem.X, self.weights_) + self.bias_
        self.correlations_ = z.T @ z / len(z)
        self.embedded_ = problem.seen

    def _similarities(self, M: Matrix) -> Matrix:
        """Similarity of each label to each seen one, divided by the spread of the resulting scores."""
        similarities = M @ self.embedded_.T
        variances = np.einsum("ck,kl,cl->c", similarities, self.correlations_, similarities)
        spreads = np.sqrt(np.maximum(variances, 0.0))[:, None]
        return np.asarray(np.divide(similarities, spreads, out=np.zeros_like(similarities), where=spreads > 0.0))

    def _scores(self, X: Any, M: Matrix) -> Matrix:
        return (self._project(X, self.weights_) + self.bias_) @ self._similarities(M).T

    def _seen_parts(self, X: Any, M: Matrix) -> Matrix:
        return np.asarray((self._project(X, self.weights_)[0] + self.bias_) * self._similarities(M)[0])


class Consensus(ScoredTagger):
    r"""Sum of three estimates from the seen labels, averaged over similar training images.

    With z_k(x) the evidence of `LabelMeanTransfer` for seen label k, p_k(x) the probabilities of the classifiers
    of `ConSE`, divided by their sum, and a_c the weights of `COSTA`, there are three estimates of label c::

        similarity(x, c)    = sum_k <m_k, m_c> z_k(x)
        combination(x, c)   = cos(sum_k p_k(x) m_k, m_c)
        co-occurrence(x, c) = sum_k a_ck z_k(x)

    Each is standardised over the training images; their sum is u_0(x, c). Similar images should have similar
    scores: ``u_t(x, c)`` is the mean of ``u_{t-1}(., c)`` over the nearest training images of x, annotated or not,
    up to ``t = steps``. With w the standardised ``u_steps``::

        score(x, c) = w(x, c) - temperature log( mean_i exp(w(x_i, c) / temperature) )

    over the training images i, as labels that score high on many images would crowd out all others. Features enter
    as ``sign(x) |x|^power``; neighbours are nearest by cosine in the 128 directions of most variation.

    `explain` splits each estimate over the seen labels as its own method does, on the training images by which the
    image is scored; terms that are constant for a label are divided equally among them.

    Parameters
    ----------
    temperature : float, default=0.7
        Of the crowding correction: towards 0, a label's highest score on a training image is subtracted.
    steps : int, default=3
        Number of times scores are averaged over neighbours; with 0 each image is scored by itself.
    neighborhood : float, default=0.35
        Neighbours of an image, as a share of the training images of a typical seen label (the median), at most a
        quarter of all; below 5 neighbours ``steps`` is taken to be 0.
    power : float, default=0.5
        Power of the features. Any value but 1 copies them in memory.
    normalize, center : bool, default=True
        Scale features and label vectors to unit length, the latter after subtracting the mean of those in `fit`.

    Attributes
    ----------
    mean_weights_, mean_bias_, odds_weights_, odds_bias_ : ndarray
        ``z(x) = x mean_weights_ + mean_bias_``, and the same for the log-odds of the classifiers.
    sample_evidence_, sample_odds_, sample_coordinates_, sample_neighbors_ : ndarray
        z, log-odds, coordinates (along ``directions_``, from ``middle_``) and neighbours of up to 4000 training
        images, from which the spread and the crowding of any label follow.
    shares_ : ndarray of shape (n_seen + n_unseen, n_seen)
        The weights a of the labels given to `fit`.

    Examples
    --------
    >>> from unseen import make_tagged_scenes
    >>> from unseen.ensembles import Consensus
    >>> data = make_tagged_scenes(n_train=300, n_test=5)
    >>> model = Consensus().fit(data.X_train, data.Y_train[:, data.seen], data.seen_labels)
    >>> model.decision_function(data.X_test, data.unseen_labels).shape
    (5, 12)
    """

    def __init__(
        self,
        temperature: float = 0.7,
        *,
        steps: int = 3,
        neighborhood: float = 0.35,
        power: float = 0.5,
        normalize: bool = True,
        center: bool = True,
    ) -> None:
        self.temperature = temperature
        self.steps = steps
        self.neighborhood = neighborhood
        self.power = power
        self.normalize = normalize
        self.center = center

    def _learn(self, problem: TrainingProblem) -> None:
        self.temperature_ = check_number(self.temperature, "temperature", strict=True)
        self.steps_ = check_count(self.steps, "steps", low=0)
        neighborhood = check_number(self.neighborhood, "neighborhood", strict=True)
        self.power_ = check_number(self.power, "power", strict=True)
        X, T = self._powered(problem.X), problem.T
        self.mean_weights_, self.mean_bias_ = mean_evidence(X, T, normalize=self.normalize_)
        self.odds_weights_, self.odds_bias_ = linear.logistic_regression(X, T, 1.0, normalize=self.normalize_)
        z, odds = self._evidence(X)
        # From least to most evidence, so that neither chance nor the order of the images matters.
        rows = linear.even_steps(np.lexsort([odds.sum(axis=1), z.sum(axis=1)]), MOST_SAMPLED)
        self.sample_evidence_, self.sample_odds_ = z[rows].astype(np.float32), odds[rows].astype(np.float32)
        n_neighbors = neighborhood_size(T[rows] == 1, neighborhood)
        if n_neighbors < FEWEST_NEIGHBORS:
            self.steps_ = 0
        if self.steps_:
            self._learn_neighbors(X[rows], n_neighbors)
        self.embedded_ = np.vstack([problem.seen, problem.unseen])
        self.shares_ = label_shares(problem, TEMPERATURE)

    def _learn_neighbors(self, X: Any, n_neighbors: int) -> None:
        from sklearn.utils.extmath import randomized_svd

        images = linear.scaled(X, normalize=self.normalize_)
        n_directions = min(MOST_DIRECTIONS, *images.shape)
        _, _, across = randomized_svd(images.astype(np.float32), n_directions, n_iter=4, random_state=0)
        self.directions_ = np.ascontiguousarray(across.T, dtype=np.float32)
        self.middle_ = (images @ self.directions_).mean(axis=0)
        self.sample_coordinates_ = coordinates = self._coordinates(X)
        self.sample_neighbors_ = nearest(coordinates, coordinates, n_neighbors, others=True)

    def _powered(self, X: Any) -> Any:
        return linear.signed_power(X, self.power_, normalize=self.normalize_)

    def _coordinates(self, X: Any) -> NDArray[np.float32]:
        along = self._project(X, self.directions_.astype(np.float64)) - self.middle_
        return unit_rows(along).astype(np.float32)

    def _evidence(self, X: Any) -> tuple[Matrix, Matrix]:
        """Evidence and log-odds of the seen labels, one row per image."""
        z, odds = (self._project(X, weights) for weights in (self.mean_weights_, self.odds_weights_))
        return z + self.mean_bias_, odds + self.odds_bias_

    def _scores(self, X: Any, M: Matrix) -> Matrix:
        X = self._powered(X)
        images = self._neighbors(X) if self.steps_ else self._evidence(X)
        blocks = np.split(M, range(LABELS_AT_ONCE, len(M), LABELS_AT_ONCE))
        return np.hstack([self._block_scores(images, block) for block in blocks])

    def _block_scores(self, images: Any, M: Matrix) -> Matrix:
        """Scores of labels, from the neighbours of images or from the images' own evidence."""
        factors, sample, height, level = self._scale(M)
        total = images @ sample if self.steps_ else add(self._estimates(images[0], images[1], M), factors)
        return np.asarray(height * total - level)

    def _scale(self, M: Matrix) -> tuple[Matrix, Matrix, Matrix, Matrix]:
        """Factors of the estimates, ``u_{steps - 1}`` of the sample, factors of ``u_steps``, crowding."""
        estimates = self._estimates(self.sample_evidence_, self.sample_odds_, M)
        factors = np.array([inverse_spread(estimate) for estimate in estimates])
        sample = total = add(estimates, factors)
        for _ in range(self.steps_):
            sample, total = total, means_over(self.sample_neighbors_, len(total)) @ total
        height = inverse_spread(total)
        total = height * total
        highest = total.max(axis=0)
        crowding = np.exp((total - highest) / self.temperature_).mean(axis=0)
        return factors, sample, height, highest + self.temperature_ * np.log(crowding)

    def _estimates(self, z: Floats, odds: Floats, M: Matrix) -> tuple[Matrix, ...]:
        """Similarity, combination and co-occurrence, not yet standardised."""
        z, seen = z.astype(np.float64), self.embedded_[: self.n_seen_]
        combination = unit_rows(top_shares(odds.astype(np.float64), len(seen)) @ seen) @ unit_rows(M).T
        return z @ (M @ seen.T).T, combination, z @ self._label_shares(M).T

    def _label_shares(self, M: Matrix) -> Matrix:
        shares = linear.similarity_shares(M, self.embedded_[: self.n_seen_], TEMPERATURE)
        return linear.with_known_rows(shares, M, self.embedded_, self.shares_)

    def _neighbors(self, X: Any) -> sp.csr_array:
        """Matrix that takes values of the sample to their means over the neighbours of images."""
        places = nearest(self._coordinates(X), self.sample_coordinates_, self.sample_neighbors_.shape[1])
        return means_over(places, len(self.sample_coordinates_))

    def _seen_parts(self, X: Any, M: Matrix) -> Matrix:
        score, X = self._scores(X, M)[0, 0], self._powered(X)
        factors, _, height, _ = self._scale(M)
        if self.steps_:
            images = self._neighbors(X)
            for _ in range(self.steps_ - 1):
                images = images @ means_over(self.sample_neighbors_, images.shape[1])
            parts = (images @ self._estimate_parts(self.sample_evidence_, self.sample_odds_, M, factors))[0]
        else:
            parts = self._estimate_parts(*self._evidence(X), M, factors)[0]
        parts = height * parts
        return np.asarray(parts + (score - parts.sum()) / len(parts))

    def _estimate_parts(self, z: Floats, odds: Floats, M: Matrix, factors: Matrix) -> Matrix:
        """Contribution of each seen label to the sum of the estimates of one label, one row per image."""
        seen, shares = self.embedded_[: self.n_seen_], top_shares(odds.astype(np.float64), self.n_seen_)
        lengths = np.linalg.norm(shares @ seen, axis=1, keepdims=True)
        combination = shares * (seen @ unit_rows(M)[0]) / np.where(lengths > 0.0, lengths, 1.0)
        return add((z * (seen @ M[0]), combination, z * self._label_shares(M)[0]), factors)


def mean_evidence(X: Any, T: linear.Targets, *, normalize: bool) -> tuple[Matrix, Matrix]:
    """Weights and biases of the evidence z of `LabelMeanTransfer`."""
    known, shown = T != 0, T == 1
    rates = shown.sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    # Proportional to the difference of the means: the centred annotations sum to 0 for each label.
    differences = linear.gather(X, np.where(known, shown - rates, 0.0), normalize=normalize)
    evidence = linear.project(X, differences, normalize=normalize)
    scale = inverse_spread(evidence)
    return differences * scale, -evidence.mean(axis=0) * scale


def inverse_spread(values: Matrix) -> Matrix:
    """One over the standard deviation of each column; 0 for one that does not vary."""
    spread = values.std(axis=0)
    varies = spread > CONSTANT * np.abs(values).max(axis=0)
    return np.asarray(np.divide(1.0, spread, out=np.zeros_like(spread), where=varies))


def add(estimates: tuple[Matrix, ...], factors: Matrix) -> Matrix:
    """Sum of the estimates, each times its factors."""
    total: Matrix = sum(estimate * factor for estimate, factor in zip(estimates, factors, strict=True))
    return total


def neighborhood_size(shown: NDArray[np.bool_], neighborhood: float) -> int:
    """Neighbours of an image, among images that show these labels."""
    return int(min(neighborhood * float(np.median(shown.sum(axis=0))), len(shown) // 4))


def nearest(
    images: NDArray[np.float32], sample: NDArray[np.float32], n_neighbors: int, *, others: bool = False
) -> NDArray[np.int32]:
    """Places of the nearest images of the sample by cosine, in no order; ``others`` excludes itself."""
    found = np.empty((len(images), n_neighbors), dtype=np.int32)
    for start in range(0, len(images), 1024):
        cosines = images[start : start + 1024] @ sample.T
        if others:
            rows = np.arange(len(cosines))
            cosines[rows, start + rows] = -np.inf
        found[start : start + 1024] = np.argpartition(-cosines, n_neighbors - 1, axis=1)[:, :n_neighbors]
    return found


def means_over(places: NDArray[np.int32], n_kept: int) -> sp.csr_array:
    """Matrix whose product with values of the sample is their mean at the places of each row."""
    n_images, n_neighbors = places.shape
    starts = np.arange(0, n_images * n_neighbors + 1, n_neighbors)
    return sp.csr_array(
        (np.full(places.size, 1.0 / n_neighbors), places.ravel(), starts), shape=(n_images, n_kept)
    )
