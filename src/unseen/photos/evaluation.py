"""evaluate_photos: evaluate a photo tagger on annotated images."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unseen.base import MAYBE, SURE
from unseen.datasets.annotations import Annotations
from unseen.evaluation.metrics import (
    Reliability,
    Summary,
    label_average_precision,
    precision_recall_f1,
    reliability,
    summary,
)
from unseen.images.features import open_features
from unseen.labels.names import label_key
from unseen.photos.tagger import PhotoTagger, Query
from unseen.photos.training import check_features, read_annotated
from unseen.templates import Mark, Table
from unseen.validation import counted

__all__ = ["Evaluation", "evaluate_photos"]

TOP = 3  # tags per image for F1 and Hamming loss
FEW = 200  # tags, below which their observed share says little
AT_ONCE = 256  # images scored together

GROUPS = {"sure": (SURE, np.inf), "maybe": (MAYBE, SURE)}


class Judged(NamedTuple):
    """How many tags there are, the share of them that is right, and the share of what is shown that they find."""

    n_tags: int
    precision: float
    recall: float


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
    tags: dict[tuple[str, str], Judged]  # by ("sure" or "maybe", "seen" or "unseen"); empty without probabilities
    reliability: dict[str, Reliability]  # of seen and unseen labels, in tenths of p

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
        labels = Table("Labels", ("label", "at fit", "average precision"), per_label)
        return [settings, *([self._tags_table()] if self.tags else []), *self._reliability_tables(), labels]

    def _tags_table(self) -> Table:
        rows = [(*key, f"{n:,}", f"{100 * precision:.1f}" if n else "-", f"{100 * recall:.1f}")
                for key, (n, precision, recall) in self.tags.items()]  # fmt: skip
        note = f"Sure: p of at least {SURE}; maybe: of {MAYBE} to {SURE}. Tags are not settled here."
        columns = ("tags", "labels", "number", "precision", "recall")
        return Table("Sure and maybe tags", columns, rows, note)

    def _reliability_tables(self) -> list[Table]:
        tables, note = [], f"Of the tags with this p, the share that is right. Muted: fewer than {FEW} tags."
        for name, found in self.reliability.items():
            rows = []
            for tenth, (n, p, observed) in enumerate(zip(*found, strict=True)):
                span = f"{tenth / len(found.n_entries):.1f} to {(tenth + 1) / len(found.n_entries):.1f}"
                values = (f"{100 * p:.1f}", f"{100 * observed:.1f}") if n else ("-", "-")
                rows.append((Mark(span, "muted" if n < FEW else "text"), f"{n:,}", *values))
            columns = ("p", "tags", "mean p", "observed")
            tables.append(Table(f"Reliability, {name} labels", columns, rows, note))
        return tables


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
    query = Query(model, model.label_vectors(names))
    blocks = [query.score(X[start : start + AT_ONCE]) for start in range(0, len(X), AT_ONCE)]
    scores = np.vstack([block for block, _ in blocks])
    likely = [p for _, p in blocks if p is not None]
    tags, reliable = _judge(Y, np.vstack(likely), n_seen) if likely else ({}, {})
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
    return Evaluation(summaries, precision, n_seen, len(Y), warning, tags, reliable)


def _judge(Y: Any, p: Any, n_seen: int) -> tuple[dict[tuple[str, str], Judged], dict[str, Reliability]]:
    """Figures of sure and maybe tags, and how reliable p is; of seen and of unseen labels."""
    tags, reliable = {}, {}
    for name, part in (("seen", slice(n_seen)), ("unseen", slice(n_seen, None))):
        if not (Y[:, part] == 1).any():
            continue
        reliable[name] = reliability(Y[:, part], p[:, part])
        for group, (low, high) in GROUPS.items():
            chosen = (p[:, part] >= low) & (p[:, part] < high)
            n_tags = int((chosen & ~np.isnan(Y[:, part])).sum())
            tags[group, name] = Judged(n_tags, *precision_recall_f1(Y[:, part], chosen)[:2])
    return tags, reliable
