"""Choose hyper-parameters for unseen labels by hiding seen ones."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, check_random_state, indexable

from unseen import validation
from unseen.base import ZeroShotTagger
from unseen.evaluation import metrics
from unseen.validation import Matrix, check_annotations, check_choice, check_count, check_labels, listed

FEWEST_LABELS = 3  # half of them are ranked, and ranking a single label is meaningless

Scorer = Callable[[NDArray[Any], Matrix], float]
_SCORERS: dict[str, Scorer] = {
    "miap": metrics.mean_image_average_precision,
    "map": metrics.mean_average_precision,
    "micro_f1": lambda Y, scores: metrics.micro_f1(Y, metrics.top_k(scores, 3)),
}


class HoldoutFold(NamedTuple):
    """Fit ``train_labels`` on ``train_images``, score ``holdout_labels`` on ``holdout_images``; sorted indices."""

    train_labels: NDArray[np.intp]
    holdout_labels: NDArray[np.intp]
    train_images: NDArray[np.intp]
    holdout_images: NDArray[np.intp]


class Setting(NamedTuple):
    """One setting of the parameters: its mean score, the standard error of the mean, and the folds' scores."""

    params: dict[str, Any]
    mean: float
    std_error: float
    fold_scores: tuple[float, ...]


class SearchResult(NamedTuple):
    """All settings; of these the default, the one with the best mean (the first if they tie), and the choice."""

    table: list[Setting]
    default: Setting
    best: Setting
    chosen: Setting  # the best setting if the gain is above its error, otherwise the default
    gain: float  # the best mean minus the default's
    gain_error: float  # standard error of this paired difference


def class_holdout_search(
    estimator: ZeroShotTagger | Pipeline,
    grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]],
    X: Any,
    Y: Any,
    seen: Any,
    relations: ArrayLike | None = None,
    *,
    scoring: str | Scorer = "miap",
    n_splits: int = 6,
    max_images: int | None = None,
    random_state: int | None = 0,
    n_jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> SearchResult:
    """Choose hyper-parameters by their score on seen labels that were hidden from the fit.

    For each of ``n_splits`` random halvings of the seen labels and of the images, a clone is fitted to one half of
    the labels on one half of the images, and ranks the other labels on the other images; and the other way round.
    No information about unseen labels is passed, so none can leak into the choice.

    The default, the estimator's own parameters, is evaluated too if the grid does not contain it. It is chosen
    unless the best setting beats it by more than one standard error of their difference, paired by halving (by
    fold if there is only one). The halvings draw from the same labels and images, so the standard error does not
    cover a change of the data set. ``GridSearchCV`` is no substitute: it cannot hide labels.

    Parameters
    ----------
    estimator : ZeroShotTagger or Pipeline
        Model to tune; left unchanged. The last step of a pipeline is the tagger.
    grid : mapping of str to sequence, or a sequence of them
        Values to try for each parameter, in all combinations; named as in ``set_params``.
    X : array-like, data frame or sparse matrix of shape (n_images, n_features)
        Training features.
    Y, seen, relations
        Annotations, vectors and relations of the seen labels alone, as in `ZeroShotTagger.fit`. At least three
        labels must have a positive image.
    scoring : {"miap", "map", "micro_f1"} or callable(Y_true, scores) -> float, default="miap"
        What to maximise; "micro_f1" uses the 3 best labels of each image.
    n_splits : int, default=6
        Number of halvings; each gives two folds. With fewer, the scores mostly reflect which labels were hidden.
    max_images : int, optional
        Train on at most this many images of a fold, drawn at random; all held-out images are scored.
    random_state : int or None, default=0
        Seed of the halvings.
    n_jobs : int, optional
        Number of fits to run in parallel, through joblib.
    progress : callable(done, total), optional
        Called after each fit.

    ``estimator.set_params(**result.chosen.params)`` applies the choice.
    """
    tagger = estimator[-1] if isinstance(estimator, Pipeline) else estimator
    if not isinstance(tagger, ZeroShotTagger):
        raise ValueError(f"estimator: {tagger!r} is not a tagger. Pass one, or a Pipeline that ends in one.")
    validation.refuse_other_order(X, Y)
    (X,) = indexable(X if hasattr(X, "shape") else np.asarray(X))  # sparse becomes CSR
    names, vectors = check_labels(seen, "seen")
    T, columns, _ = check_annotations(Y, X.shape[0], names)
    if names is not None and columns is not None and names != columns:
        raise ValueError(f"seen: {listed(names)} are not the columns of Y, {listed(columns)}, in their order.")
    if len(vectors) != T.shape[1]:
        raise ValueError(f"seen: {len(vectors)} labels for {T.shape[1]} columns of Y. Pass one label per column.")
    n_usable = int((T == 1).any(axis=0).sum())
    if n_usable < FEWEST_LABELS:
        raise ValueError(f"seen: {n_usable} labels have a positive image. A search needs {FEWEST_LABELS} or more.")
    if relations is not None:
        relations = validation.check_relations(
            relations, names or tuple(f"label {i}" for i in range(len(vectors)))
        )
    score = scoring if callable(scoring) else _SCORERS[check_choice(scoring, "scoring", tuple(_SCORERS))]
    annotations = np.where(T == 0, np.nan, T > 0)
    folds = list(class_holdout(annotations, n_splits=n_splits, random_state=random_state))
    folds = [_thinned(fold, i, max_images, random_state) for i, fold in enumerate(folds)]
    settings, default = _with_default(estimator, list(ParameterGrid(grid)))
    data = (X, annotations, vectors, relations, score)
    models = ((clone(estimator).set_params(**setting), fold) for setting in settings for fold in folds)
    jobs = (delayed(_held_out_score)(model, fold, *data) for model, fold in models)
    scores = []
    for value in Parallel(n_jobs=n_jobs, return_as="generator")(jobs):
        scores.append(float(value))
        if progress is not None:
            progress(len(scores), len(settings) * len(folds))
    table = []
    for setting, row in zip(settings, np.array(scores).reshape(len(settings), len(folds)).tolist(), strict=True):
        table.append(Setting(dict(setting), *_mean_and_error(row), tuple(row)))
    return choose(table, table[default])


def choose(table: Sequence[Setting], default: Setting) -> SearchResult:
    """Choose the best of settings scored on the same folds if it beats the default by over a standard error."""
    best = max(table, key=lambda setting: setting.mean)  # the first, if several tie
    gain, error = _mean_and_error(np.subtract(best.fold_scores, default.fold_scores))
    return SearchResult(list(table), default, best, best if gain > error else default, gain, error)


def _mean_and_error(fold_scores: ArrayLike) -> tuple[float, float]:
    """Mean over the folds, which come in pairs, and its standard error over the halvings."""
    halvings = np.reshape(fold_scores, (-1, 2)).mean(axis=1)
    values = halvings if len(halvings) > 1 else np.ravel(fold_scores)
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


def _with_default(estimator: Any, settings: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], int]:
    """Settings that include the estimator's own values of the parameters searched, and the place of these."""
    own = estimator.get_params()
    default = {name: own[name] for setting in settings for name in setting if name in own}
    for place, setting in enumerate(settings):
        if all(np.array_equal((default | setting)[name], value) for name, value in default.items()):
            return settings, place
    return [default, *settings], 0


def class_holdout(Y_seen: ArrayLike, *, n_splits: int = 2, random_state: Any = None) -> Iterator[HoldoutFold]:
    """Yield folds (A, I; B, J): fit the seen labels A on images I, score the other seen labels B on images J.

    Each of ``n_splits`` random halvings of the labels and of the images gives two folds, (A, I; B, J) and
    (B, J; A, I). I are the images of one half with a positive in A, J those of the other half with one in B.
    """
    relevant, generator = validation.check_targets(Y_seen, "Y_seen")[0], check_random_state(random_state)
    for _ in range(check_count(n_splits, "n_splits")):
        draws = (_draw(relevant, generator) for _ in range(100))
        fold = next((draw for draw in draws if draw.train_images.size and draw.holdout_images.size), None)
        if fold is None:
            raise ValueError("Y_seen: halvings leave a side without a positive. Pass more annotated images.")
        yield fold
        yield HoldoutFold(fold.holdout_labels, fold.train_labels, fold.holdout_images, fold.train_images)


def _draw(relevant: NDArray[np.bool_], generator: np.random.RandomState) -> HoldoutFold:
    n_images, n_labels = relevant.shape
    labels = [np.sort(half) for half in np.array_split(generator.permutation(n_labels), 2)]
    images = [np.sort(half) for half in np.array_split(generator.permutation(n_images), 2)]
    annotated = (i[relevant[np.ix_(i, c)].any(axis=1)] for i, c in zip(images, labels, strict=True))
    return HoldoutFold(*labels, *annotated)


def _thinned(fold: HoldoutFold, number: int, max_images: int | None, seed: int | None) -> HoldoutFold:
    if max_images is None or len(fold.train_images) <= check_count(max_images, "max_images"):
        return fold
    rng = np.random.default_rng(None if seed is None else [seed, number])
    return fold._replace(train_images=np.sort(rng.choice(fold.train_images, max_images, replace=False)))


def _held_out_score(
    model: Any, fold: HoldoutFold, X: Any, Y: Matrix, vectors: Matrix, relations: Matrix | None, scorer: Scorer
) -> float:
    X_train, X_holdout = _safe_indexing(X, fold.train_images), _safe_indexing(X, fold.holdout_images)
    Y_train = Y[np.ix_(fold.train_images, fold.train_labels)]
    Y_holdout = Y[np.ix_(fold.holdout_images, fold.holdout_labels)]
    order = np.concatenate([fold.train_labels, fold.holdout_labels])
    related = None if relations is None else relations[np.ix_(order, order)]
    if isinstance(model, Pipeline):
        transformers, model = model[:-1], model[-1]
        if len(transformers):
            X_train, X_holdout = transformers.fit_transform(X_train, Y_train), transformers.transform(X_holdout)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # an unfinished fit is also judged by its score
        model.fit(X_train, Y_train, vectors[fold.train_labels], vectors[fold.holdout_labels], related)
    return scorer(Y_holdout, model.decision_function(X_holdout, vectors[fold.holdout_labels]))
