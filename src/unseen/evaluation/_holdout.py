"""Choosing hyper-parameters without unseen labels: hide half of the seen ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from unseen.evaluation._rows import check_rows, take_rows
from unseen.evaluation._splits import RandomState
from unseen.validation import BoolMatrix, check_count, check_matrix, check_targets

_MOST_DRAWS = 100


@dataclass(frozen=True, eq=False)
class HoldoutFold:
    """One fold: fit ``train_labels`` on ``train_images``, score ``holdout_labels`` on ``holdout_images``.

    All four are rising indices into the seen label matrix; a label is in exactly one half, and every image of
    a side has at least one positive among that side's labels.
    """

    train_labels: NDArray[np.intp]
    holdout_labels: NDArray[np.intp]
    train_images: NDArray[np.intp]
    holdout_images: NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class HoldoutProblem:
    """The matrices of one fold: fit on the train ones, score the holdout ones."""

    X_train: Any
    Y_train: NDArray[Any]
    vectors_train: NDArray[Any]
    X_holdout: Any
    Y_holdout: NDArray[Any]
    vectors_holdout: NDArray[Any]


def class_holdout(
    Y_seen: ArrayLike,
    *,
    n_splits: int = 2,
    disjoint_images: bool = True,
    random_state: RandomState = None,
) -> Iterator[HoldoutFold]:
    """Folds (A, I; B, J): fit the seen labels A on images I, score the other seen labels B on images J.

    Each of ``n_splits`` random halvings of the seen labels gives two folds, (A, I; B, J) and its exchange
    (B, J; A, I), so ``2 * n_splits`` in all. With an odd number of labels A is the larger half. The function
    is given the *seen* columns only: nothing about unseen labels can reach the choice of hyper-parameters.

    Parameters
    ----------
    Y_seen : array-like of shape (n_images, n_seen)
        1 present, 0 absent, NaN unknown; at least two labels with a positive.
    n_splits : int, default=2
        Number of random halvings, drawn independently.
    disjoint_images : bool, default=True
        If True the images are halved at random as well: I are the images of one half with a positive in A, J
        those of the other half with a positive in B, and no image is both fitted and scored. If False, the
        paper's looser way: I and J come from all images, so an image may be both fitted and scored.
    random_state : int, RandomState instance or None, default=None
        Pass an int for the same folds every time.

    Yields
    ------
    HoldoutFold
        I and J are never empty: a draw with an empty side is drawn again.

    Raises
    ------
    ValueError
        At the call, if fewer than two labels have a positive; on iteration, if no draw has positives on both
        sides.
    """
    relevant = check_targets(Y_seen, "Y_seen").relevant
    n_splits = check_count(n_splits, "n_splits")
    n_usable = int(relevant.any(axis=0).sum())
    if n_usable < 2:
        raise ValueError(
            f"Y_seen: {n_usable} of its {relevant.shape[1]} labels has a positive image. "
            f"Holding out classes needs at least 2, one to fit and one to score."
        )
    generator = check_random_state(random_state)
    return _folds(relevant, n_splits, disjoint_images, generator)


def holdout_problem(fold: HoldoutFold, X: Any, Y_seen: ArrayLike, vectors: ArrayLike) -> HoldoutProblem:
    """Matrices ``X[I], Y_seen[I, A], vectors[A]`` to fit and ``X[J], Y_seen[J, B], vectors[B]`` to score.

    Parameters
    ----------
    fold : HoldoutFold
        One fold of `class_holdout` of the same ``Y_seen``.
    X : array, memory map or sparse matrix of shape (n_images, n_features)
        Features; only the rows of the fold are read.
    Y_seen : array-like of shape (n_images, n_seen)
        The seen label matrix.
    vectors : array-like of shape (n_seen, n_dimensions)
        Label vectors, one row for each column of ``Y_seen``.

    Returns
    -------
    HoldoutProblem
    """
    Y, M = check_matrix(Y_seen, "Y_seen"), np.asarray(vectors)
    X = check_rows(X, len(Y))
    if len(M) != Y.shape[1]:
        raise ValueError(f"vectors: {len(M)} rows for {Y.shape[1]} labels of Y_seen. Pass one row a label.")
    return HoldoutProblem(
        X_train=take_rows(X, fold.train_images),
        Y_train=Y[np.ix_(fold.train_images, fold.train_labels)],
        vectors_train=M[fold.train_labels],
        X_holdout=take_rows(X, fold.holdout_images),
        Y_holdout=Y[np.ix_(fold.holdout_images, fold.holdout_labels)],
        vectors_holdout=M[fold.holdout_labels],
    )


def _folds(
    relevant: BoolMatrix, n_splits: int, disjoint_images: bool, generator: np.random.RandomState
) -> Iterator[HoldoutFold]:
    for _ in range(n_splits):
        fold = _draw_until_valid(relevant, disjoint_images, generator)
        yield fold
        yield HoldoutFold(fold.holdout_labels, fold.train_labels, fold.holdout_images, fold.train_images)


def _draw_until_valid(
    relevant: BoolMatrix, disjoint_images: bool, generator: np.random.RandomState
) -> HoldoutFold:
    for _ in range(_MOST_DRAWS):
        fold = _draw(relevant, disjoint_images, generator)
        if fold.train_images.size and fold.holdout_images.size:
            return fold
    advice = " or disjoint_images=False" if disjoint_images else ""
    raise ValueError(
        f"Y_seen: {_MOST_DRAWS} random halvings of {relevant.shape[1]} labels and {relevant.shape[0]} images "
        f"all left one side without a positive. Pass more annotated images{advice}."
    )


def _draw(relevant: BoolMatrix, disjoint_images: bool, generator: np.random.RandomState) -> HoldoutFold:
    n_images, n_labels = relevant.shape
    labels = generator.permutation(n_labels)
    middle = (n_labels + 1) // 2
    train_labels, holdout_labels = np.sort(labels[:middle]), np.sort(labels[middle:])
    to_train = to_score = np.ones(n_images, dtype=np.bool_)
    if disjoint_images:
        to_train = np.zeros(n_images, dtype=np.bool_)
        to_train[generator.permutation(n_images)[: (n_images + 1) // 2]] = True
        to_score = ~to_train
    return HoldoutFold(
        train_labels=train_labels,
        holdout_labels=holdout_labels,
        train_images=np.flatnonzero(to_train & relevant[:, train_labels].any(axis=1)),
        holdout_images=np.flatnonzero(to_score & relevant[:, holdout_labels].any(axis=1)),
    )
