"""Consensus: three ways to pass on what the seen labels say, added, so that one's errors count less."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from unseen.base import Matrix, TrainingProblem, seen_places
from unseen.baselines._linear import logistic_regression, signed_power, similarity_shares, unit_rows
from unseen.baselines._scored import ScoredTagger
from unseen.baselines.conse import top_shares
from unseen.baselines.costa import label_shares
from unseen.ensembles._neighbours import Looks, learn_looks, nearest, shares_of
from unseen.ensembles.transfer import inverse_spread, mean_evidence
from unseen.validation import check_count, check_number

MOST_KEPT = 4000  # training images whose evidence is kept, to standardise labels asked for later
LABELS_AT_ONCE = 500
FEWEST_NEIGHBORS = 5  # fewer say less than the image itself, on held-out labels of VOC2007
LOOSE = 0.1  # temperature of the shares of labels without relations, that of `COSTA`


class Consensus(ScoredTagger):
    r"""Sum of three readings of the evidence for the seen labels: likeness, combination and company.

    With z_k(x) the evidence of `LabelMeanTransfer` for seen label k, o_k(x) the log-odds of a logistic regression
    that minimises ``sum over known (i, k) of log(1 + exp(-t_ik (x_i w_k + b_k))) + |w_k|^2 / (2 C)``, and p_k(x)
    its probabilities divided by their sum, a label c is read in three ways::

        likeness(x, c)    = sum_k <m_k, m_c> z_k(x)                (LabelMeanTransfer)
        combination(x, c) = cos(sum_k p_k(x) m_k, m_c)             (ConSE, of all seen labels)
        company(x, c)     = sum_k a_ck z_k(x)                      (COSTA, with this evidence)

    where a_c are the relations of c with the seen labels divided by their sum (`COSTA` has the rules for labels
    without any): the first two ask what c looks like, the third what it is seen with. Each reading of each label
    is standardised over the training images and added, which gives u. Images that look alike should have like
    scores, so an image is scored by the training images that look most like it, whatever they are annotated with::

        u_0 = u,    u_t(x, c) = mean of u_(t-1)(i, c) over the neighbours i of x

    up to ``t = steps``: by its neighbours, their neighbours and so on (of training images, none of which is its
    own neighbour). With w this u_t, standardised over the training images: labels that stand high on many images
    would crowd out all others, so what a label has on the images where it stands high is subtracted::

        score(x, c) = w(x, c) - temperature log( mean_i exp(w(x_i, c) / temperature) )

    over the training images i. Features enter as ``sign(x) |x|^power``: roots keep a few strong ones from deciding
    alone. Looks are compared by cosine, in the 128 directions in which the features vary most and with their mean
    subtracted.

    Multi-label adaptation: none is needed. Seen labels are scored as any other, by their vectors; `Stacked` has a
    better way for them.

    `explain` splits each reading over the seen labels, as the method that it comes from does, on the training
    images by which the image is scored; what is constant for a label, the means of its readings and its crowding,
    is divided equally among them.

    Parameters
    ----------
    C : float, default=1.0
        Inverse strength of the penalty of the classifiers; their losses are summed over the images.
    temperature : float, default=0.7
        Of the correction for crowding: towards 0 the highest score of a label on a training image is subtracted,
        with a large one the same for all labels.
    steps : int, default=3
        How often scores become the means over neighbours; with 0 an image speaks for itself, and nothing of the
        looks of training images is kept.
    neighborhood : float, default=0.35
        Neighbours of an image, as a share of the training images of a typical seen label (the median); at most a
        quarter of all. Neighbours are sought, and these are counted, among at most 4000 training images. The
        best number grows in proportion to the images. Fewer than 5 would say less than the image itself: then
        ``steps`` is taken to be 0.
    power : float, default=0.5
        Of the features. Other than 1 it takes a copy of them in memory.
    normalize : bool, default=True
        Scale features and label vectors to unit length.
    center : bool, default=True
        Subtract the mean of the label vectors given to `fit` (before scaling), also from labels asked for later.

    Attributes
    ----------
    mean_weights_, odds_weights_ : ndarray of shape (n_features, n_seen)
        ``z(x) = x mean_weights_ + mean_bias_``, ``o(x) = x odds_weights_ + odds_bias_``.
    mean_bias_, odds_bias_ : ndarray of shape (n_seen,)
        See ``mean_weights_``.
    kept_evidence_, kept_odds_ : ndarray of shape (at most 4000, n_seen), float32
        z and o of training images, from which the mean, the spread and the crowding of any label follow.
    kept_looks_ : ndarray of shape (at most 4000, at most 128), float32
        What they look like; without rows if ``steps`` is 0.
    kept_neighbors_ : ndarray of shape (at most 4000, n_neighbors), int32
        The neighbours of each of them among the others.
    look_directions_, look_middle_ : ndarray of shape (n_features, at most 128) and (at most 128,)
        The looks of an image are ``x look_directions_ - look_middle_``, of unit length.
    shares_ : ndarray of shape (n_seen + n_unseen, n_seen)
        The weights a of the labels given to `fit`.
    embedded_ : ndarray of shape (n_seen + n_unseen, n_dims)
        Their vectors, centred and scaled.
    temperature_, power_ : float
        Those of this fit.
    steps_ : int
        Of this fit; 0 if an image would have fewer than 5 neighbours.
    threshold_ : float
        What is subtracted from the scores: the threshold of best micro-F1 over the known training entries.
    label_names_, label_vectors_, n_seen_
        The labels given to `fit`, the seen ones first.

    Examples
    --------
    >>> from unseen import make_tagged_scenes
    >>> from unseen.baselines import Consensus
    >>> data = make_tagged_scenes(n_train=300, n_test=5)
    >>> model = Consensus().fit(data.X_train, data.Y_train[:, data.seen], data.seen_labels)
    >>> model.decision_function(data.X_test, data.unseen_labels).shape
    (5, 12)
    """

    def __init__(
        self,
        C: float = 1.0,
        temperature: float = 0.7,
        *,
        steps: int = 3,
        neighborhood: float = 0.35,
        power: float = 0.5,
        normalize: bool = True,
        center: bool = True,
    ) -> None:
        self.C = C
        self.temperature = temperature
        self.steps = steps
        self.neighborhood = neighborhood
        self.power = power
        self.normalize = normalize
        self.center = center

    def _learn(self, problem: TrainingProblem) -> None:
        C = check_number(self.C, "C", strict=True)
        self.temperature_ = check_number(self.temperature, "temperature", strict=True)
        self.steps_ = check_count(self.steps, "steps", low=0)
        neighborhood = check_number(self.neighborhood, "neighborhood", strict=True)
        self.power_ = check_number(self.power, "power", strict=True)
        X, T = signed_power(problem.X, self.power_, normalize=self.normalize_), problem.T
        self.mean_weights_, self.mean_bias_, evidence = mean_evidence(X, T, normalize=self.normalize_)
        self.odds_weights_, self.odds_bias_ = logistic_regression(X, T, C, normalize=self.normalize_)
        odds = self._project(X, self.odds_weights_) + self.odds_bias_
        kept = _even_steps(evidence, odds)
        self.kept_evidence_, self.kept_odds_ = (values[kept].astype(np.float32) for values in (evidence, odds))
        self._learn_looks(X[kept], neighborhood_size(T[kept] == 1, neighborhood))
        self.embedded_ = np.vstack([problem.seen, problem.unseen])
        self.shares_ = label_shares(problem, LOOSE)

    def _learn_looks(self, X: Any, n_neighbors: int) -> None:
        if self.steps_ == 0 or n_neighbors < FEWEST_NEIGHBORS:
            self.steps_ = 0
            self.look_directions_, self.look_middle_ = np.zeros((X.shape[1], 0), dtype=np.float32), np.zeros(0)
            self.kept_looks_ = np.zeros((0, 0), dtype=np.float32)
            self.kept_neighbors_ = np.zeros((0, 0), dtype=np.int32)
            return
        looks = learn_looks(X, normalize=self.normalize_)
        self.look_directions_, self.look_middle_ = looks
        self.kept_looks_ = looks(X, normalize=self.normalize_)
        self.kept_neighbors_ = nearest(self.kept_looks_, self.kept_looks_, n_neighbors, themselves=True)

    def _scores(self, X: Any, M: Matrix) -> Matrix:
        X = signed_power(X, self.power_, normalize=self.normalize_)
        among = self._among()
        speakers: Any = self._alike(X) if self.steps_ else self._evidence(X)
        # What is computed of the kept images takes memory for each label.
        blocks = np.split(M, range(LABELS_AT_ONCE, len(M), LABELS_AT_ONCE))
        return np.hstack([self._block_scores(speakers, among, block) for block in blocks])

    def _block_scores(self, speakers: Any, among: sp.csr_array, M: Matrix) -> Matrix:
        """Scores from the neighbours of images, or from the evidence that they have themselves."""
        scale = self._scale(M, among)
        if self.steps_:
            scores = speakers @ scale.spoken
        else:
            z, o = speakers
            scores = self._sum(self._readings(z, o, M), scale.factors)
        return np.asarray(scale.height * scores - scale.level)

    def _seen_parts(self, X: Any, M: Matrix) -> Matrix:
        among, score = self._among(), self._scores(X, M)[0, 0]
        X = signed_power(X, self.power_, normalize=self.normalize_)
        scale = self._scale(M, among)
        if self.steps_:
            shares = self._alike(X)
            for _ in range(self.steps_ - 1):
                shares = shares @ among
            parts = (shares @ self._parts_of(*self._kept(), M, scale.factors))[0]
        else:
            parts = self._parts_of(*self._evidence(X), M, scale.factors)[0]
        parts = scale.height * parts
        return np.asarray(parts + (score - parts.sum()) / len(parts))

    def _parts_of(self, z: Matrix, o: Matrix, M: Matrix, factors: Matrix) -> Matrix:
        """What each seen label adds to the sum of the readings of one label, a row an image."""
        seen, likeness, shares = self._weights(M)
        probable = top_shares(o, len(seen))
        lengths = np.linalg.norm(probable @ seen, axis=1, keepdims=True)
        combined = probable * (seen @ unit_rows(M)[0]) / np.where(lengths > 0.0, lengths, 1.0)
        return self._sum((z * likeness[0], combined, z * shares[0]), factors)

    def _evidence(self, X: Any) -> tuple[Matrix, Matrix]:
        """Evidence z and log-odds o for the seen labels, a row an image; X has its power."""
        return (
            self._project(X, self.mean_weights_) + self.mean_bias_,
            self._project(X, self.odds_weights_) + self.odds_bias_,
        )

    def _kept(self) -> tuple[Matrix, Matrix]:
        """Evidence and log-odds of the kept images."""
        return self.kept_evidence_.astype(np.float64), self.kept_odds_.astype(np.float64)

    def _alike(self, X: Any) -> sp.csr_array:
        """Matrix that takes values of the kept images to their means over the neighbours of images.

        X has its power.
        """
        looks = Looks(self.look_directions_, self.look_middle_)(X, normalize=self.normalize_)
        return shares_of(nearest(looks, self.kept_looks_, self.kept_neighbors_.shape[1]), len(self.kept_looks_))

    def _among(self) -> sp.csr_array:
        """The same for the neighbours of the kept images; empty if there are none."""
        if not self.steps_:
            return sp.csr_array((0, 0))
        return shares_of(self.kept_neighbors_, len(self.kept_looks_))

    def _weights(self, M: Matrix) -> tuple[Matrix, Matrix, Matrix]:
        """Vectors of the seen labels, and the likeness to them and the share of them of each label."""
        seen = self.embedded_[: self.n_seen_]
        shares = similarity_shares(M, seen, LOOSE)
        places = seen_places(M, self.embedded_)
        shares[places >= 0] = self.shares_[places[places >= 0]]
        return seen, M @ seen.T, shares

    def _readings(self, z: Matrix, o: Matrix, M: Matrix) -> tuple[Matrix, Matrix, Matrix]:
        seen, likeness, shares = self._weights(M)
        combination = unit_rows(top_shares(o, len(seen)) @ seen) @ unit_rows(M).T
        return z @ likeness.T, combination, z @ shares.T

    @staticmethod
    def _sum(readings: tuple[Matrix, ...], factors: Matrix) -> Matrix:
        total: Matrix = sum(reading * factor for reading, factor in zip(readings, factors, strict=True))
        return total

    def _scale(self, M: Matrix, among: sp.csr_array) -> _Scale:
        """What the kept images say of each label, and what puts labels on one scale."""
        readings = self._readings(*self._kept(), M)
        factors = np.array([inverse_spread(reading) for reading in readings])
        spoken = total = self._sum(readings, factors)
        for _ in range(self.steps_):
            spoken, total = total, among @ total
        height = inverse_spread(total)
        total = height * total
        highest = total.max(axis=0)
        crowding = np.exp((total - highest) / self.temperature_).mean(axis=0)
        return _Scale(factors, spoken, height, highest + self.temperature_ * np.log(crowding))


class _Scale(NamedTuple):
    """``score = height * (mean of spoken over the neighbours) - level``, both with an entry a label.

    ``spoken`` is what the kept images say after all steps but the last; without steps, an image has
    ``sum of factors * readings`` instead of the mean.
    """

    factors: Matrix
    spoken: Matrix
    height: Matrix
    level: Matrix


def neighborhood_size(shown: NDArray[np.bool_], neighborhood: float) -> int:
    """Neighbours of an image among those of which ``shown`` says what labels they have, a row each."""
    typical = float(np.median(shown.sum(axis=0)))
    return int(min(neighborhood * typical, len(shown) // 4))


def _even_steps(evidence: Matrix, odds: Matrix) -> NDArray[np.intp]:
    """At most `MOST_KEPT` images from the least to the most evidence: neither chance nor their order decides."""
    order = np.lexsort([odds.sum(axis=1), evidence.sum(axis=1)])
    if len(order) <= MOST_KEPT:
        return order
    steps: NDArray[np.intp] = np.linspace(0, len(order) - 1, MOST_KEPT).round().astype(np.intp)
    return order[steps]
