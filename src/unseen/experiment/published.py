"""Figures that others have published for a split of the classes, beside those of a run."""

import csv
from importlib.resources import files
from typing import Final

from unseen.evaluation.protocol import name_of_split
from unseen.experiment.tables import Reproduction, percent
from unseen.templates import Table

# Metrics of the file as the fields of `metrics.Summary`.
METRICS: Final = {"mAP": "map", "F1@3": "micro_f1", "F1@5": "f1_at_5"}


def read_published() -> list[dict[str, str]]:
    """Rows of ``published.csv``: one figure each, in per cent, with its source."""
    text = files("unseen.experiment").joinpath("published.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def published_tables(result: Reproduction) -> list[Table]:
    """One table per set of labels scored, for the main split; none if it is not a published one."""
    name = name_of_split(result.experiment.split)
    rows = [row for row in read_published() if name in row["split"].split()]
    return [_table(result, labels, rows) for labels in dict.fromkeys(row["labels"] for row in rows)]


def _table(result: Reproduction, labels: str, published: list[dict[str, str]]) -> Table:
    rows = [row for row in published if row["labels"] == labels]
    metrics = list(dict.fromkeys(row["metric"] for row in rows))
    cells = []
    for method in dict.fromkeys(row["method"] for row in rows):
        own = {row["metric"]: row for row in rows if row["method"] == method}
        first = next(iter(own.values()))
        figures = [own[metric]["value"] if metric in own else "-" for metric in metrics]
        cells.append([method, *figures, first["backbone"], first["training"], first["source"]])
    data, split, protocol = result.experiment.data, result.experiment.split, rows[0]["protocol"]
    n_scored = len(split.unseen) if protocol == "zero-shot" else len(split.seen + split.unseen)
    ours, backbones = result.figures(protocol).droplevel("split"), result.rows.groupby("method").features.first()
    for track in ("paper", "open") if str(n_scored) in labels.split() else ():
        for method in ours.loc[result.methods(track), METRICS[metrics[0]]].nlargest(1).index:
            shown = [percent(ours.at[method, METRICS[metric]]) for metric in metrics]
            training = f"{len(split.seen)} seen labels, best of the {track} track"
            cells.append([method, *shown, backbones[method], training, "this run"])
    n_train, n_test = int(data.is_train.sum()), int((~data.is_train).sum())
    note = (
        "In per cent. Backbones, images and supervision differ: a difference between rows is not one between "
        f"methods alone. This run has {n_train:,} training and {n_test:,} test images; its zero-shot figures are "
        "on images with an unseen label."
    )
    return Table(
        f"Published figures: {labels} labels", ("method", *metrics, "backbone", "training", "source"), cells, note
    )
