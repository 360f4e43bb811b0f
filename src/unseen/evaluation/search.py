"""Hyper-parameters by class-holdout: train on half of the seen labels, tag with the other half."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import ParameterGrid

from unseen.base import ZeroShotTagger
from unseen.evaluation import metrics
from unseen.evaluation.protocol import HoldoutFold, class_holdout, holdout_problem
from unseen.validation import as_matrix, axis_names, check_count, check_labels, check_relations, counted, listed

__all__ = ["SearchResult", "class_holdout_search"]


FEWEST_LABELS = 3


@dataclass(frozen=True)
class SearchResult:
    """What `class_holdout_search` found.

    Attributes
    ----------
    best_params : dict
        The parameters with the best mean score; the first of them in the order of the grid when several are equal.
    best_score : float
        Their MiAP on held-out labels, mean over the folds.
    table : list of (dict, float)
        Every parameter setting with its mean score, in the order of the grid.
    """

    best_params: dict[str, Any]
    best_score: float
    table: list[tuple[dict[str, Any], float]]


def class_holdout_search(
    estimator: ZeroShotTagger,
    grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]],
    X: Any,
    Y: Any,
    seen: Any,
    relations: ArrayLike | None = None,
    *,
    n_splits: int = 2,
    max_images: int | None = None,
    random_state: int | None = 0,
    n_jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> SearchResult:
    """Choose hyper-parameters for unseen labels without looking at any: the seen labels play both parts.

    For each of ``n_splits`` random halvings of the seen labels, a clone is trained on one half and ranks the other
    half on images it was not trained on, and the other way round. The function is given nothing that belongs to an
    unseen label, so nothing of it can leak into the choice.

    Parameters
    ----------
    estimator : ZeroShotTagger
        What to tune; left as it is.
    grid : mapping of str to sequence, or a sequence of them
        Values to try for each parameter, in all combinations; of several grids, one after the other.
    X : array-like or CSR matrix of shape (n_images, n_features)
        Training features.
    Y : array-like of shape (n_images, n_seen)
        Annotations of the seen labels; NaN = unknown. At least three labels must have a positive image.
    seen : labels
        The seen labels with their vectors, as in `ZeroShotTagger.fit`.
    relations : array-like of shape (n_seen, n_seen), optional
        Relations between the seen labels.
    n_splits : int, default=2
        Number of halvings; each gives two folds.
    max_images : int, optional
        Most images to train on in a fold, drawn at random from it; None for all. Held-out images are all scored.
    random_state : int or None, default=0
        Seed of the halvings.
    n_jobs : int, optional
        Folds to run at once, through joblib.
    progress : callable(done, total), optional
        Called after each fit.

    Returns
    -------
    SearchResult
    """
    names, vectors = check_labels(seen, "seen")
    columns = axis_names(Y.columns, "Y") if hasattr(Y, "columns") else None
    if names is not None and columns is not None and names != columns:
        raise ValueError(
            f"seen: its names ({listed(names)}) are not the columns of Y ({listed(columns)}), in their order."
        )
    Y = as_matrix(Y)
    n_usable = int((Y == 1).any(axis=0).sum())
    if n_usable < FEWEST_LABELS:
        raise ValueError(
            f"seen: {counted(n_usable, 'label')} with a positive image. A search hides half of them and ranks "
            f"those: it takes at least {FEWEST_LABELS}, as to rank one label tells nothing."
        )
    numbered = tuple(f"label {i}" for i in range(len(vectors)))
    R = None if relations is None else check_relations(relations, names or numbered)
    settings = list(ParameterGrid(grid))
    folds = list(class_holdout(Y, n_splits=n_splits, random_state=random_state))
    folds = [_thinned(fold, max_images, i, random_state) for i, fold in enumerate(folds)]
    jobs = (
        delayed(_held_out_miap)(clone(estimator).set_params(**setting), fold, X, Y, vectors, R)
        for setting in settings
        for fold in folds
    )
    scores = []
    for score in Parallel(n_jobs=n_jobs, return_as="generator")(jobs):
        scores.append(score)
        if progress is not None:
            progress(len(scores), len(settings) * len(folds))
    means = np.array(scores).reshape(len(settings), len(folds)).mean(axis=1)
    best = int(means.argmax())
    table = [(setting, float(mean)) for setting, mean in zip(settings, means, strict=True)]
    return SearchResult(dict(settings[best]), float(means[best]), table)


def _thinned(fold: HoldoutFold, max_images: int | None, number: int, random_state: int | None) -> HoldoutFold:
    """The fold with at most ``max_images`` images to train on."""
    if max_images is None or len(fold.train_images) <= check_count(max_images, "max_images"):
        return fold
    rng = np.random.default_rng(None if random_state is None else [random_state, number])
    kept = np.sort(rng.choice(fold.train_images, max_images, replace=False))
    return replace(fold, train_images=kept)


def _held_out_miap(
    model: ZeroShotTagger,
    fold: HoldoutFold,
    X: Any,
    Y: NDArray[Any],
    vectors: NDArray[np.float64],
    relations: NDArray[np.float64] | None,
) -> float:
    problem = holdout_problem(fold, X, Y, vectors)
    order = np.concatenate([fold.train_labels, fold.holdout_labels])
    related = None if relations is None else relations[np.ix_(order, order)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a search compares models as they come
        model.fit(problem.X_train, problem.Y_train, problem.vectors_train, problem.vectors_holdout, related)
    scores = model.decision_function(problem.X_holdout, problem.vectors_holdout)
    return metrics.mean_image_average_precision(problem.Y_holdout, scores)
