"""How well a tagger of photos does on annotated ones."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unseen.evaluation.metrics import Summary, label_average_precision, summary
from unseen.labels.names import label_key
from unseen.photos.tagger import PhotoTagger
from unseen.photos.training import TrainingSet

__all__ = ["Evaluation", "evaluate_photos"]


@dataclass(frozen=True)
class Evaluation:
    """How well photos are tagged, in the settings that the labels allow.

    Attributes
    ----------
    zero_shot : Summary or None
        Images with an unseen label, ranking the unseen labels; None if there are none.
    generalized : Summary or None
        All images, all labels; None unless there are both seen and unseen labels.
    seen : Summary or None
        Images with a seen label, ranking the seen labels; None if none of them was annotated at fit.
    names : tuple of str
        The labels, the seen ones first.
    average_precision : tuple of float
        Of each label's ranking of the images; NaN for a label that no image shows.
    n_seen, n_images : int
        How many of the names are seen; how many images there were.
    n_trained_on : int
        How many of the images the model was fitted on, as far as it is known: figures on these say nothing.
    """

    zero_shot: Summary | None
    generalized: Summary | None
    seen: Summary | None
    names: tuple[str, ...]
    average_precision: tuple[float, ...]
    n_seen: int
    n_images: int
    n_trained_on: int | None = 0


def evaluate_photos(
    model: PhotoTagger, data: TrainingSet, folder: str | PathLike[str] | None = None
) -> Evaluation:
    """Compare the scores of a tagger with annotations: seen are the labels that it was fitted on.

    Parameters
    ----------
    model : PhotoTagger
        Fitted, on other images.
    data : TrainingSet
        Features and annotations of test images.
    folder : str or Path, optional
        Where the features are, to tell which of the images the model was fitted on.

    Returns
    -------
    Evaluation
    """
    fitted = set(map(label_key, model.tagger.label_names_[: model.tagger.n_seen_]))
    names = data.annotations.labels
    seen = [name for name in names if label_key(name) in fitted]
    unseen = [name for name in names if label_key(name) not in fitted]
    X, Y = data.columns(model.inputs), data.annotations.Y
    order = [*seen, *unseen]
    columns = [names.index(name) for name in order]
    asked = model.label_vectors(order)
    scores = model.tagger.decision_function(X, asked)
    truth = Y[:, columns]
    return Evaluation(
        zero_shot=_summary(truth[:, len(seen) :], scores[:, len(seen) :], only_with_label=True),
        generalized=_summary(truth, scores) if seen and unseen else None,
        seen=_summary(truth[:, : len(seen)], scores[:, : len(seen)], only_with_label=True),
        names=tuple(order),
        average_precision=tuple(map(float, label_average_precision(truth, scores))),
        n_seen=len(seen),
        n_images=len(truth),
        n_trained_on=0 if folder is None else _n_shared(model, data, folder),
    )


def _n_shared(model: PhotoTagger, data: TrainingSet, folder: str | PathLike[str]) -> int | None:
    """Number of images that a model was fitted on, if these are its features; None if they have changed since."""
    if model.training is None or Path(folder).resolve() != model.training.resolve():
        return 0
    if not model.knows_training_images(data.features):
        return None
    rows = model.training_rows
    return len(data.rows) if rows is None else len(np.intersect1d(data.rows, rows))


def _summary(Y: NDArray[Any], scores: NDArray[np.float64], *, only_with_label: bool = False) -> Summary | None:
    shown = (Y == 1).any(axis=1)
    if not shown.any():
        return None
    return summary(Y[shown], scores[shown]) if only_with_label else summary(Y, scores)
