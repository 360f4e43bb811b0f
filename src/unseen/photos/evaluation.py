"""evaluate_photos: evaluate a photo tagger on annotated images."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from unseen.datasets.annotations import Annotations
from unseen.evaluation.metrics import Summary, label_average_precision, summary
from unseen.images.features import open_features
from unseen.labels.names import label_key
from unseen.photos.tagger import PhotoTagger
from unseen.photos.training import check_features, read_annotated
from unseen.templates import Table
from unseen.validation import counted

__all__ = ["Evaluation", "evaluate_photos"]

TOP = 3  # tags per image for F1 and Hamming loss


class Evaluation(NamedTuple):
    """Figures of a tagger on annotated images.

    ``summaries`` has, if there are such labels, "zero-shot" (images with an unseen label, ranking the
    unseen ones), "generalized" (all images and labels) and "seen" (images with a seen label, ranking those).
    """

    summaries: dict[str, Summary]
    average_precision: dict[str, float]  # of each label, the seen ones first; NaN if no image shows it
    n_seen: int
    n_images: int
    warning: str  # why the figures may be too optimistic; empty if the model was not fitted on these images

    def tables(self) -> list[Table]:
        """All figures in per cent, for the terminal and the page."""
        sizes = {"zero-shot": len(self.average_precision) - self.n_seen, "seen": self.n_seen}
        rows = []
        for name, figures in self.summaries.items():
            n_labels = sizes.get(name, len(self.average_precision))
            miap, precision, *others = (f"{100 * value:.2f}" for value in figures[:5])
            rows.append((name, str(n_labels), miap, precision, *(others if n_labels > TOP else ["-"] * 3)))
        columns = ("setting", "labels", "MiAP", "mAP", "micro-F1", "macro-F1", "Hamming loss")
        note = f"In per cent. F1 and Hamming loss use the {TOP} best tags per image; a low Hamming loss is good."
        per_label = [
            (name, "seen" if i < self.n_seen else "unseen", "-" if value != value else f"{100 * value:.1f}")
            for i, (name, value) in enumerate(self.average_precision.items())
        ]
        settings = Table(counted(self.n_images, "image"), columns, rows, f"{note} {self.warning}".strip())
        return [settings, Table("Labels", ("label", "at fit", "average precision"), per_label)]


def evaluate_photos(
    model: PhotoTagger,
    features: str | Path,
    annotations: str | Path | Annotations,
    split: str | None = None,
) -> Evaluation:
    """Compare the scores of a model with annotations; labels it was fitted on are seen, others unseen.

    Parameters
    ----------
    model : PhotoTagger
        Fitted, on other images.
    features : str or Path
        Features of the backbone of the model; see `unseen.images.features.open_features`.
    annotations : str, Path or Annotations
        Of these images; see `unseen.datasets.read_annotations`.
    split : str, optional
        Part of the annotations, or "all"; by default "test" or "val", if they have parts.
    """
    opened = open_features(features)
    check_features(opened, model.backbone)
    data = read_annotated(opened, annotations, split, ("test", "val"))
    fitted = set(map(label_key, model.tagger.label_names_[: model.tagger.n_seen_]))
    names = sorted(data.annotations.labels, key=lambda name: label_key(name) not in fitted)  # the seen ones first
    n_seen = sum(label_key(name) in fitted for name in names)
    Y = data.annotations.select(labels=names).Y
    X = model.columns(opened.X[data.rows], None if opened.logits is None else opened.logits[data.rows])
    scores = model.tagger.decision_function(X, model.label_vectors(names))
    summaries = {}
    for name, part in (("zero-shot", slice(n_seen, None)), ("generalized", slice(None)), ("seen", slice(n_seen))):
        rows = (Y[:, part] == 1).any(axis=1) | (name == "generalized")
        if rows.any() and (name != "generalized" or 0 < n_seen < len(names)):
            summaries[name] = summary(Y[rows, part], scores[rows, part], TOP)
    precision = dict(zip(names, label_average_precision(Y, scores).tolist(), strict=True))
    warning = ""
    if model.training is not None and Path(features).resolve() == model.training.resolve():
        fitted_rows = data.rows if model.training_rows is None else model.training_rows
        if n_shared := len(np.intersect1d(data.rows, fitted_rows)):
            warning = f"The model was fitted on {n_shared:,} of these images: the figures are too optimistic."
    return Evaluation(summaries, precision, n_seen, len(Y), warning)
