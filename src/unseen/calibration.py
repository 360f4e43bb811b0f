"""Calibration: from margin scores to probabilities, for labels that were annotated and for any others."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from unseen.base import ZeroShotTagger, seen_places
from unseen.baselines._linear import even_steps, quantised, unit_rows
from unseen.model_file import Stored
from unseen.validation import Matrix, check_annotations, check_count, check_labels

__all__ = ["Calibration", "calibrate"]

FEWEST_LABELS = 8  # with an annotated positive; fewer say nothing about other labels
MOST_FITTED, MOST_SCORED = 10_000, 2500  # images per fold
SAME = 0.95  # cosine above which a word of the reference vocabulary is the label itself
NEAR = (0.3, 0.5)  # cosines above which such a word competes with the label
N_COMPETITORS = 32  # best words of the vocabulary on an image: the others explain nothing there
HIGHEST = 0.04  # share of the reference images on which a label fires most
HOPELESS = 7.0  # entries this far below the best of their image are thinned out in training
MOST_ENTRIES = 400_000  # of images and labels that the trees are learned on
N_LEAVES = 8  # of a tree
FEW_ENTRIES = 2000  # whose trees are walked without compiled code
N_FITS = 5  # of the trees; each leaves out a fifth of the labels
N_RISING = 3  # p rises with the first quantities: the score, and the score among those on reference images


class Calibration(Stored):
    r"""Probability that an image shows a label, from what is known without annotations of that label.

    ``p(x, c) = 1 / (1 + exp(-(b + sum_t tree_t(q(x, c)))))``: boosted trees of 8 leaves on quantities q of an
    image and a label, which are

    - the margin score, and what the tagger adds (`ZeroShotTagger._clues`: evidence by how literally a class has
      the name of the label, the margin score of the transfer alone);
    - the score relative to those of the same label on reference images, how high these are, and how often they
      are positive;
    - how close the label is to the seen ones, and to the classes of a backbone;
    - competition: scores of the words of a *fixed* reference vocabulary that are close to the label, how many
      words score higher, and the probabilities of seen labels.

    The trees are learned on seen labels: held out of training in turn, for labels without annotations, and on held
    out images, for those with annotations. None of the quantities depends on other labels asked for.

    Attributes
    ----------
    reference_, reference_scales_ : ndarray of int8 and float32
        Reference images, one column scale per feature.
    vocabulary_, vocabulary_scales_ : ndarray of int8 and float32
        Vectors of the reference vocabulary, one scale per word.
    features_, thresholds_, left_, right_, values_ : ndarray of shape (2, n_trees, 15)
        Nodes of the trees for labels without annotations, and for those with them.
    offsets_ : ndarray of shape (2,)
        b of each group.
    """

    reference_: NDArray[np.int8]
    reference_scales_: NDArray[np.float32]
    vocabulary_: NDArray[np.int8]
    vocabulary_scales_: NDArray[np.float32]
    offsets_: Matrix
    left_: NDArray[np.int8]
    right_: NDArray[np.int8]
    values_: NDArray[np.float32]

    def _check_restored(self) -> None:
        """Raise an error unless every path through the trees ends: a node comes before those below it."""
        nodes = np.arange(np.shape(self.left_)[-1])
        inner = self.left_ >= 0
        for below in (self.left_, self.right_):
            if not ((below > nodes) & (below < len(nodes)))[inner].all() or below.shape != self.values_.shape:
                raise ValueError("the trees of the calibration do not end")

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
        seen = tagger._seen_vectors()
        self.is_seen = seen_places(M, seen) >= 0
        unit, words, known = (unit_rows(part) for part in (M, vocabulary, seen))
        to_words, to_seen = unit @ words.T, unit @ known.T
        # A seen label is not close to itself.
        to_seen[to_seen > 1.0 - 1e-9] = 0.0
        self.support = np.maximum(to_seen, 0.0) ** 2
        nearest = np.sort(to_seen, axis=1)[:, ::-1]
        self.same = to_words >= SAME
        self.near = [(to_words > cosine) & ~self.same for cosine in NEAR]
        self.weights = 2.0 * np.log(np.where(self.same, 0.0, np.maximum(to_words, 0.0)) + 1e-3)
        scores = tagger._margin_scores(reference, M)
        clues, of_labels = tagger._clues(reference, M)
        self.reference = np.sort(scores, axis=0)
        n_highest = max(1, round(HIGHEST * len(reference)))
        self.usual = [np.quantile(clue, 0.9, axis=0) for clue in clues]
        self.mean, self.std = scores.mean(axis=0), np.maximum(scores.std(axis=0), 1e-9)
        self.of_labels = [
            self.mean,
            self.reference[-n_highest:].mean(axis=0),
            np.log(expit(scores).mean(axis=0) + 1e-9),
            nearest[:, 0],
            nearest[:, min(2, nearest.shape[1] - 1)],
            self.near[-1].sum(axis=1),
            *of_labels,
        ]

    def __call__(self, X: Any) -> tuple[Matrix, Matrix]:
        """Margin scores and probabilities, one row per image and one column per label."""
        scores = self.tagger._margin_scores(X, self.M)
        probabilities = np.empty_like(scores)
        for group, labels in enumerate((~self.is_seen, self.is_seen)):
            if labels.any():
                values = self.quantities(X, scores, np.flatnonzero(labels))
                flat = self.calibration._apply(group, values.reshape(-1, values.shape[2]))
                probabilities[:, labels] = flat.reshape(len(scores), -1)
        return scores, probabilities

    def quantities(self, X: Any, scores: Matrix, labels: NDArray[np.intp]) -> NDArray[np.float32]:
        """q(x, c) for all images and these labels, of shape (n_images, n_labels, n_quantities)."""
        s = scores[:, labels]
        clues, _ = self.tagger._clues(X, self.M[labels])
        of_words = self.tagger._margin_scores(X, self.vocabulary)
        word_clues, _ = self.tagger._clues(X, self.vocabulary)
        n_best = min(N_COMPETITORS, of_words.shape[1])
        best = np.argpartition(-of_words, n_best - 1, axis=1)[:, :n_best]
        rivals = np.take_along_axis(of_words, best, axis=1)[:, None, :]
        of_seen = expit(self.tagger._margin_scores(X, self.tagger._seen_vectors()))
        found = [s, (s - self.mean[labels]) / self.std[labels]]
        found.append(np.column_stack([
            np.searchsorted(self.reference[:, c], scores[:, c]) / len(self.reference) for c in labels
        ]))  # fmt: skip
        for clue, usual in zip(clues, self.usual, strict=True):
            found += [clue, clue - usual[labels]]
        for near in self.near:
            is_near = near[labels].T[best].transpose(0, 2, 1)
            for own, theirs in ((s, of_words), *zip(clues, word_clues, strict=True)):
                others = np.take_along_axis(theirs, best, axis=1)[:, None, :]
                # Without a competitor among the best words: as if one were far behind.
                found.append(np.where(is_near, others, own[:, :, None] - 8.0).max(axis=2) - own)
        closeness = self.weights[labels].T[best].transpose(0, 2, 1)
        found.append((rivals + closeness).max(axis=2) - s)
        higher = (rivals > s[:, :, None]) & ~self.same[labels].T[best].transpose(0, 2, 1)
        far = ~self.near[0][labels].T[best].transpose(0, 2, 1)
        found += [np.log1p(higher.sum(axis=2)), np.log1p((higher & far).sum(axis=2))]
        found.append((of_seen[:, None, :] * self.support[labels]).max(axis=2))
        nearest = self.support[labels].argmax(axis=1)
        found += [of_seen[:, nearest], np.broadcast_to(of_seen.sum(axis=1, keepdims=True), s.shape)]
        found += [np.broadcast_to(values[labels], s.shape) for values in self.of_labels]
        return np.stack(found, axis=2).astype(np.float32)


def calibrate(
    tagger: Any,
    X: Any,
    Y: Any,
    vocabulary: Any,
    *,
    n_splits: int = 5,
    n_repeats: int = 3,
    n_reference: int = 256,
    n_trees: int = 300,
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
    n_trees : int, default=300
        Trees for either kind of label.
    random_state : int, default=0
    progress : callable(done, total), optional

    Returns
    -------
    tagger
        The same, with ``calibration_``.
    """
    check_is_fitted(tagger)
    n_splits, n_repeats = check_count(n_splits, "n_splits", low=2), check_count(n_repeats, "n_repeats")
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
        for group, found in enumerate(_held_out(tagger, X, T, fold, calibration, n_reference, rng)):
            entries[group].append(found)
        if progress is not None:
            progress(done + 1, len(folds))
    learned = [_boost(group, n_trees, random_state) for group in entries]
    for name, parts in zip(Trees._fields, zip(*(trees for trees, _ in learned), strict=True), strict=True):
        setattr(calibration, f"{name}_", np.stack(parts))
    calibration.offsets_ = np.array([offset for _, offset in learned])
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
    quantities: NDArray[np.float32]
    is_shown: NDArray[np.bool_]
    weights: Matrix
    labels: NDArray[np.intp]


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
    tagger: ZeroShotTagger, X: Any, T: Any, fold: _Fold, calibration: Calibration, n_reference: int, rng: Any
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
        scores = model._margin_scores(X[fold.scored], M)
        values = prepared.quantities(X[fold.scored], scores, np.arange(len(labels)))
        t = T[np.ix_(fold.scored, labels)]
        # Most entries are hopeless: one in ten of them is enough, at ten times the weight.
        hopeless = (t == -1) & (scores < scores.max(axis=1, keepdims=True) - HOPELESS) & (scores < 0)
        used = (t != 0) & (~hopeless | (rng.random(t.shape) < 0.1))
        weights, which = np.where(hopeless, 10.0, 1.0), np.broadcast_to(labels, t.shape)
        found.append(_Entries(values[used], t[used] == 1, weights[used], which[used]))
    return found


class Trees(NamedTuple):
    """Nodes of trees, one row per tree: q goes left if ``q[feature] <= threshold``; a leaf has left < 0."""

    features: NDArray[np.int16]
    thresholds: NDArray[np.float32]
    left: NDArray[np.int8]
    right: NDArray[np.int8]
    values: NDArray[np.float32]


def _boost(entries: list[_Entries], n_trees: int, random_state: int) -> tuple[Trees, float]:
    """Fit the trees and their offset: a mean over fits that leave out some labels, so that none decides alone."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    q, shown, weights, labels = (np.concatenate(part) for part in zip(*entries, strict=True))
    rng = np.random.default_rng(random_state)
    used = rng.permutation(len(q))[:MOST_ENTRIES]
    q, shown, weights, labels = q[used], shown[used], weights[used], labels[used]
    group = (rng.permutation(labels.max() + 1) % N_FITS)[labels]
    nodes, offsets = [], []
    for left_out in range(N_FITS):
        model = HistGradientBoostingClassifier(
            max_iter=n_trees // N_FITS, max_leaf_nodes=N_LEAVES, learning_rate=0.1, l2_regularization=10.0,
            max_features=0.3, min_samples_leaf=max(1, min(500, len(q) // 100)), early_stopping=False,
            monotonic_cst=[1] * N_RISING + [0] * (q.shape[1] - N_RISING), random_state=random_state + left_out,
        )  # fmt: skip
        rows = group != left_out
        with threadpool_limits(1):  # threads that wait for each other are slow on a busy machine
            model.fit(q[rows], shown[rows], weights[rows])
        # scikit-learn has no public way to its trees; a test compares the two.
        nodes += [stage[0].nodes for stage in model._predictors]
        offsets.append(float(model._baseline_prediction.ravel()[0]))
    shape = len(nodes), 2 * N_LEAVES - 1
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
    if len(quantities) > FEW_ENTRIES:  # worth the time to load the compiled loop
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
