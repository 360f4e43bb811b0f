"""Calibration: from margin scores to probabilities, for labels that were annotated and for any others."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import expit, logit
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from unseen.base import ZeroShotTagger, seen_places
from unseen.baselines._linear import even_steps, quantised, unit_rows
from unseen.model_file import Stored
from unseen.validation import Matrix, check_annotations, check_count, check_labels, check_number

__all__ = ["Calibration", "calibrate"]

FEWEST_LABELS = 8  # with an annotated positive; fewer say nothing about other labels
MOST_FITTED, MOST_SCORED = 10_000, 2500  # images per fold
UNLIKELY = 0.85  # share of the entries, those with the lowest scores, whose p follows from the score alone
SAME = 0.95  # cosine above which a word of the reference vocabulary is the label itself
NEAR, FAR = 0.5, 0.3  # cosines above which such a word competes with the label, and below which it does not
N_COMPETITORS = 32  # best words of the vocabulary on an image: the others explain nothing there
BEHIND = 8.0  # how far the competitor is behind if none of the best words is near
AT_ONCE = 512  # images
USUAL = 0.9  # quantile of a clue on the reference images
MOST_ENTRIES = 400_000  # of images and labels that the trees are learned on
N_LEAVES = 8  # of a tree
FEW_ENTRIES = 2000  # whose trees are walked without compiled code
N_FITS = 5  # of the trees; each leaves out a fifth of the labels
N_RISING = 3  # p rises with the first quantities: the score, and the score among those on reference images


class Calibration(Stored):
    r"""Probability that an image shows a label, from what is known without annotations of that label.

    ``p(x, c) = 1 / (1 + exp(-(b + sum_t tree_t(q(x, c)))))`` with boosted trees of 8 leaves, and for the many
    scores below a floor ``1 / (1 + exp(-(u s + v)))``. The quantities q of an image and a label are

    - the margin score s; relative to the mean and spread of those on reference images; its rank among these;
    - what the tagger adds (`ZeroShotTagger._clues`: the margin score of the transfer alone, and evidence by how
      literally a class has the name of the label), and how far it exceeds what is usual on reference images;
    - competition: scores of the words of a *fixed* reference vocabulary that are close to the label, and how many
      words score higher.

    The trees are learned on seen labels: held out of training in turn, for labels without annotations, and on held
    out images, for those with annotations. None of the quantities depends on other labels asked for, and none is
    the same for all images of a label: some tens of labels are too few to learn from what only labels tell.

    Attributes
    ----------
    reference_, reference_scales_ : ndarray of int8 and float32
        Reference images, one column scale per feature.
    vocabulary_, vocabulary_scales_ : ndarray of int8 and float32
        Vectors of the reference vocabulary, one scale per word.
    features_, thresholds_, left_, right_, values_ : ndarray of shape (2, n_trees, 15)
        Nodes of the trees for labels without annotations, and for those with them.
    offsets_, floors_ : ndarray of shape (2,)
        b of each group, and its floor.
    below_ : ndarray of shape (2, 2)
        u >= 0 and v of each group.
    """

    reference_: NDArray[np.int8]
    reference_scales_: NDArray[np.float32]
    vocabulary_: NDArray[np.int8]
    vocabulary_scales_: NDArray[np.float32]
    offsets_: Matrix
    floors_: Matrix
    below_: Matrix
    features_: NDArray[np.int16]
    left_: NDArray[np.int8]
    right_: NDArray[np.int8]
    values_: NDArray[np.float32]

    def _check_restored(self) -> None:
        """Raise an error unless every path through the trees ends: a node comes before those below it."""
        trees = [getattr(self, f"{name}_") for name in Trees._fields]
        (n_groups, _, n_nodes), *others = {array.shape for array in trees}
        by_group = self.offsets_, self.floors_, self.below_
        fits = not others and n_groups == 2 and n_nodes and [x.shape for x in by_group] == [(2,), (2,), (2, 2)]
        if not fits or "".join(array.dtype.kind for array in (*trees, *by_group)) != "ifiiffff":
            raise ValueError("the parts of the calibration do not fit together")
        nodes = np.arange(self.left_.shape[-1])
        inner = self.left_ >= 0
        for below in (self.left_, self.right_):
            if not ((below > nodes) & (below < len(nodes)))[inner].all():
                raise ValueError("the trees of the calibration do not end")

    def check_for(self, tagger: Any, images: Matrix) -> None:
        """Raise an error unless the trees ask for quantities that there are: compiled code does not check."""
        M = tagger._embed(np.random.default_rng(1).normal(size=(2, tagger.label_vectors_.shape[1])), "labels")
        first = np.zeros(1, dtype=np.intp)
        values = self.prepare(tagger, M).quantities(images, tagger._margin_scores(images, M), first, first)
        if not ((self.features_ >= 0) & (self.features_ < values.shape[1])).all():
            raise ValueError("the trees of the calibration ask for quantities that there are not")
        for group in (0, 1):
            if not np.isfinite(self._apply(group, values)).all():
                raise ValueError("the calibration is not finite")

    def prepare(self, tagger: Any, M: Matrix) -> Prepared:
        """All that depends on the labels alone, so that many blocks of images share it."""
        reference = self.reference_.astype(np.float64) * self.reference_scales_
        return Prepared(tagger, M, reference, self._vocabulary(tagger), self)

    def _vocabulary(self, tagger: Any) -> Matrix:
        vectors = self.vocabulary_ * self.vocabulary_scales_[:, None]
        return np.asarray(tagger._embed(vectors.astype(np.float64), "vocabulary"))

    def _apply(self, group: int, quantities: NDArray[np.float32]) -> Matrix:
        trees = Trees(*(getattr(self, f"{name}_")[group] for name in Trees._fields))
        return np.asarray(expit(self.offsets_[group] + sum_of_trees(quantities, trees)))


class Prepared:
    """Labels with the quantities that depend on them alone; called with images, gives scores and probabilities."""

    def __init__(self, tagger: Any, M: Matrix, reference: Matrix, vocabulary: Matrix, calibration: Any) -> None:
        self.tagger, self.M, self.vocabulary, self.calibration = tagger, M, vocabulary, calibration
        self.is_seen = seen_places(M, tagger._seen_vectors()) >= 0
        to_words = unit_rows(M) @ unit_rows(vocabulary).T
        same = to_words >= SAME
        self.is_near, self.is_other, self.is_far = (to_words > NEAR) & ~same, ~same, to_words <= FAR
        self.closeness = 2.0 * np.log(np.where(same, 0.0, np.maximum(to_words, 0.0)) + 1e-3)
        scores = tagger._margin_scores(reference, M)
        self.usual = [np.quantile(clue, USUAL, axis=0) for clue in tagger._clues(reference, M)]
        self.reference = np.sort(scores, axis=0)
        self.mean, self.std = scores.mean(axis=0), np.maximum(scores.std(axis=0), 1e-9)

    def __call__(self, X: Any) -> tuple[Matrix, Matrix]:
        """Margin scores and probabilities, one row per image and one column per label."""
        blocks = [self._block(X[first : first + AT_ONCE]) for first in range(0, max(X.shape[0], 1), AT_ONCE)]
        scores, probabilities = zip(*blocks, strict=True)
        return (scores[0], probabilities[0]) if len(blocks) == 1 else (np.vstack(scores), np.vstack(probabilities))

    def _block(self, X: Any) -> tuple[Matrix, Matrix]:
        scores, model = self.tagger._margin_scores(X, self.M), self.calibration
        group = self.is_seen.astype(np.intp)
        slope, intercept = model.below_[group].T
        probabilities = expit(slope * scores + intercept)
        rows, labels = np.nonzero(scores >= model.floors_[group])
        values = self.quantities(X, scores, rows, labels)
        for kind in (0, 1):
            own = group[labels] == kind
            probabilities[rows[own], labels[own]] = model._apply(kind, values[own])
        return scores, probabilities

    def quantities(
        self, X: Any, scores: Matrix, rows: NDArray[np.intp], labels: NDArray[np.intp]
    ) -> NDArray[np.float32]:
        """q(x, c) of images X[rows[i]] and labels[i], one row each; ``scores`` has all images and labels."""
        s = scores[rows, labels]
        of_words = self.tagger._margin_scores(X, self.vocabulary)
        n_best = min(N_COMPETITORS, of_words.shape[1])
        best = np.argpartition(-of_words, n_best - 1, axis=1)[:, :n_best]
        words, rivals = best[rows], np.take_along_axis(of_words, best, axis=1)[rows]
        pairs = labels[:, None], words
        found = [s, (s - self.mean[labels]) / self.std[labels]]
        found.append((self.reference[:, labels] < s).mean(axis=0))
        for clue, usual in zip(self.tagger._clues(X, self.M), self.usual, strict=True):
            found += [clue[rows, labels], clue[rows, labels] - usual[labels]]
        found.append(np.where(self.is_near[pairs], rivals, s[:, None] - BEHIND).max(axis=1) - s)
        found.append((rivals + self.closeness[pairs]).max(axis=1) - s)
        higher = (rivals > s[:, None]) & self.is_other[pairs]
        found += [np.log1p(higher.sum(axis=1)), np.log1p((higher & self.is_far[pairs]).sum(axis=1))]
        return np.column_stack(found).astype(np.float32)


def calibrate(
    tagger: Any,
    X: Any,
    Y: Any,
    vocabulary: Any,
    *,
    n_splits: int = 5,
    n_repeats: int = 3,
    n_reference: int = 256,
    n_trees: int = 200,
    prior: float = 1.0,
    random_state: int = 0,
    progress: Any = None,
) -> Any:
    """Learn the `Calibration` of a fitted tagger, so that it has ``predict_proba``; see there for the method.

    Parameters
    ----------
    tagger : ZeroShotTagger
        Fitted on X and Y. Clones of it are fitted ``n_splits * n_repeats`` times.
    X, Y
        The images and annotations given to ``fit``.
    vocabulary : labels
        Reference vocabulary: some hundred words of all kinds, with vectors from the source of the labels.
    n_splits, n_repeats : int, default=5 and 3
        Labels and images are dealt into ``n_splits`` groups; each group is held out once, in each repeat.
    n_reference : int, default=256
        Reference images, drawn from X and stored with the model.
    n_trees : int, default=200
        Trees for either kind of label, at least 5.
    prior : float, default=1.0
        Odds that an image shows a label without annotations, relative to those of the labels in Y. Below 1 if the
        words that will be asked for are rarer than the annotated ones, as most words are.
    random_state : int, default=0
    progress : callable(done, total), optional

    Returns
    -------
    tagger
        The same, with ``calibration_``.
    """
    check_is_fitted(tagger)
    n_splits, n_repeats = check_count(n_splits, "n_splits", low=2), check_count(n_repeats, "n_repeats")
    check_count(n_reference, "n_reference")
    check_count(n_trees, "n_trees", low=N_FITS)
    shift = np.log(check_number(prior, "prior", strict=True))
    rng = np.random.default_rng(random_state)
    X = tagger._check_images(X)
    T = check_annotations(Y, X.shape[0], tagger.label_names_[: tagger.n_seen_]).T
    useful = (T == 1).any(axis=0) & (T == -1).any(axis=0)
    if useful.sum() < FEWEST_LABELS:
        raise ValueError(
            f"Y: {int(useful.sum())} labels with annotated positives and negatives are too few to learn what "
            f"holds for other labels. Annotate at least {FEWEST_LABELS}."
        )
    words = check_labels(vocabulary, "vocabulary").vectors
    calibration = Calibration()
    calibration.vocabulary_, calibration.vocabulary_scales_ = quantised(words, axis=1)
    entries: list[list[_Entries]] = [[], []]
    folds = list(_folds(T, useful, n_splits, n_repeats, rng))
    for done, fold in enumerate(folds):
        for group, found in enumerate(_held_out(tagger, X, T, fold, calibration, n_reference)):
            entries[group].append(found)
        if progress is not None:
            progress(done + 1, len(folds))
    learned = [_learn(group, n_trees, random_state) for group in entries]
    for name, parts in zip(Trees._fields, zip(*(group.trees for group in learned), strict=True), strict=True):
        setattr(calibration, f"{name}_", np.stack(parts))
    calibration.offsets_ = np.array([learned[0].offset + shift, learned[1].offset])
    calibration.floors_ = np.array([group.floor for group in learned])
    calibration.below_ = np.array([group.below for group in learned])
    calibration.below_[0, 1] += shift
    sample = _dense(X[np.sort(rng.permutation(X.shape[0])[:n_reference])])
    calibration.reference_, calibration.reference_scales_ = quantised(sample, axis=0)
    tagger.calibration_ = calibration
    return tagger


class _Fold(NamedTuple):
    kept: NDArray[np.intp]  # labels to train
    held: NDArray[np.intp]
    fitted: NDArray[np.intp]  # images
    scored: NDArray[np.intp]


class _Entries(NamedTuple):
    """Of the known entries of some labels and images; quantities of those with a score above the floor."""

    floor: float
    scores: Matrix
    is_shown: NDArray[np.bool_]
    labels: NDArray[np.intp]
    quantities: NDArray[np.float32]


def _folds(T: Any, useful: Any, n_splits: int, n_repeats: int, rng: Any) -> Iterator[_Fold]:
    labels = np.flatnonzero(useful)
    for _ in range(n_repeats):
        of_label, of_image = rng.permutation(len(labels)) % n_splits, rng.permutation(len(T)) % n_splits
        for held in range(n_splits):
            kept, out = labels[of_label != held], labels[of_label == held]
            fitted, scored = np.flatnonzero(of_image != held), np.flatnonzero(of_image == held)
            fitted = fitted[(T[np.ix_(fitted, kept)] != 0).any(axis=1)]
            fitted = np.sort(rng.permutation(fitted)[:MOST_FITTED])
            kept = kept[(T[np.ix_(fitted, kept)] == 1).any(axis=0)]
            if len(out) and len(kept) > 1 and len(fitted) > 1:
                yield _Fold(kept, out, fitted, np.sort(rng.permutation(scored)[:MOST_SCORED]))


def _held_out(
    tagger: ZeroShotTagger, X: Any, T: Any, fold: _Fold, calibration: Calibration, n_reference: int
) -> list[_Entries]:
    """Entries of the held out labels, and of the others, on images that a clone was not fitted on."""
    vectors = tagger.label_vectors_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model: Any = tagger._trained_on(X[fold.fitted], T[fold.fitted], fold.kept)
    reference = _dense(X[even_steps(fold.fitted, n_reference)])
    words, found = calibration._vocabulary(model), []
    for labels in (fold.held, fold.kept):
        M = model._embed(vectors[labels], "labels")
        prepared = Prepared(model, M, reference, words, calibration)
        scores, t = model._margin_scores(X[fold.scored], M), T[np.ix_(fold.scored, labels)]
        rows, columns = np.nonzero(t)
        known = scores[rows, columns]
        floor = float(np.quantile(known, UNLIKELY))
        likely = known >= floor
        values = prepared.quantities(X[fold.scored], scores, rows[likely], columns[likely])
        found.append(_Entries(floor, known, t[rows, columns] == 1, labels[columns], values))
    return found


class Trees(NamedTuple):
    """Nodes of trees, one row per tree: q goes left if ``q[feature] <= threshold``; a leaf has left < 0."""

    features: NDArray[np.int16]
    thresholds: NDArray[np.float32]
    left: NDArray[np.int8]
    right: NDArray[np.int8]
    values: NDArray[np.float32]


class _Learned(NamedTuple):
    """What `Calibration` has of a group of labels."""

    trees: Trees
    offset: float
    floor: float
    below: tuple[float, float]


def _learn(entries: list[_Entries], n_trees: int, random_state: int) -> _Learned:
    """Learn p of a group of labels: below the floor from the score, above it from the quantities."""
    floor = float(np.mean([part.floor for part in entries]))
    scores, shown = (np.concatenate([getattr(part, name) for part in entries]) for name in ("scores", "is_shown"))
    below = _log_odds(scores[scores < floor], shown[scores < floor], float(shown.mean()))
    likely = [(part.scores >= part.floor, part) for part in entries]
    trees, offset = _boost(
        np.concatenate([part.quantities for _, part in likely]),
        np.concatenate([part.is_shown[rows] for rows, part in likely]),
        np.concatenate([part.labels[rows] for rows, part in likely]),
        n_trees,
        random_state,
    )
    return _Learned(trees, offset, floor, below)


def _log_odds(scores: Matrix, shown: NDArray[np.bool_], rate: float) -> tuple[float, float]:
    """(u, v) of ``u s + v``, the log-odds that a score s is of a label that the image shows; u is not negative."""
    from sklearn.linear_model import LogisticRegression

    if 0 < shown.sum() < len(shown):
        model = LogisticRegression().fit(scores[:, None], shown)
        if model.coef_[0, 0] > 0.0:
            return float(model.coef_[0, 0]), float(model.intercept_[0])
    return 0.0, float(logit((shown.sum() + rate) / (len(shown) + 1.0)))


def _boost(
    q: NDArray[np.float32], shown: NDArray[np.bool_], labels: NDArray[np.intp], n_trees: int, random_state: int
) -> tuple[Trees, float]:
    """Fit the trees and their offset: a mean over fits that leave out some labels, so that none decides alone."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    rng = np.random.default_rng(random_state)
    used = rng.permutation(len(q))[:MOST_ENTRIES]
    q, shown, labels = q[used], shown[used], labels[used]
    group = (rng.permutation(labels.max() + 1) % N_FITS)[labels]
    nodes, offsets = [], []
    for left_out in range(N_FITS):
        rows = group != left_out
        if not 0 < shown[rows].sum() < rows.sum():  # nothing to tell apart
            offsets.append(float(logit((shown[rows].sum() + 0.5) / (rows.sum() + 1.0))))
            continue
        model = HistGradientBoostingClassifier(
            max_iter=n_trees // N_FITS, max_leaf_nodes=N_LEAVES, learning_rate=0.1, l2_regularization=10.0,
            max_features=0.3, min_samples_leaf=max(1, min(100, len(q) // 100)), early_stopping=False,
            monotonic_cst=[1] * N_RISING + [0] * (q.shape[1] - N_RISING), random_state=random_state + left_out,
        )  # fmt: skip
        with threadpool_limits(1):  # threads that wait for each other are slow on a busy machine
            model.fit(q[rows], shown[rows])
        # scikit-learn has no public way to its trees; a test compares the two.
        nodes += [stage[0].nodes for stage in model._predictors]
        offsets.append(float(model._baseline_prediction.ravel()[0]))
    shape = N_FITS * (n_trees // N_FITS), 2 * N_LEAVES - 1
    trees = Trees(np.zeros(shape, np.int16), np.zeros(shape, np.float32), np.full(shape, -1, np.int8),
                  np.full(shape, -1, np.int8), np.zeros(shape, np.float32))  # fmt: skip
    for number, tree in enumerate(nodes):
        inner = np.flatnonzero(tree["is_leaf"] == 0)
        trees.features[number, inner] = tree["feature_idx"][inner]
        trees.thresholds[number, inner] = tree["num_threshold"][inner]
        trees.left[number, inner], trees.right[number, inner] = tree["left"][inner], tree["right"][inner]
        trees.values[number, : len(tree)] = tree["value"] / N_FITS
    return trees, float(np.mean(offsets))


def sum_of_trees(quantities: NDArray[np.float32], trees: Trees) -> Matrix:
    """Sum of the values of all trees, one per row of the quantities."""
    # Worth the time to load the compiled loop, or loaded already.
    if len(quantities) > FEW_ENTRIES or "unseen.solvers.trees" in sys.modules:
        from unseen.solvers.trees import one_at_a_time, sum_of_many

        with one_at_a_time:
            return np.asarray(sum_of_many(quantities, *trees))
    rows, numbers = np.arange(len(quantities))[:, None], np.arange(len(trees.left))
    nodes = np.zeros((len(quantities), len(trees.left)), dtype=np.intp)
    while (inner := trees.left[numbers, nodes] >= 0).any():
        goes_left = quantities[rows, trees.features[numbers, nodes]] <= trees.thresholds[numbers, nodes]
        below = np.where(goes_left, trees.left[numbers, nodes], trees.right[numbers, nodes])
        nodes = np.where(inner, below, nodes)
    return np.asarray(trees.values[numbers, nodes].sum(axis=1, dtype=np.float64))


def _dense(X: Any) -> Matrix:
    return np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)
