"""The numbers of a reproduction as CSV files; no times in them, so that the same run gives the same bytes."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from unseen.evaluation.metrics import Summary
from unseen.experiment.paper_tables import Protocol
from unseen.experiment.reproduce_claims import claims
from unseen.experiment.reproduce_result import PROTOCOLS, Reproduction, figures
from unseen.experiment.reproduce_tables import describe
from unseen.experiment.runner import ExperimentData, Outcome
from unseen.experiment.studies import Point
from unseen.files import write_atomically

_METRICS = Summary._fields
_MORE = ("parameters", "held_out_miap", "objective", "lower_bound")
_ROW = ("method", "track", "split", "seed", "features", "vectors", "protocol", *_METRICS, *_MORE)
_BESIDE = (*(f"paper_{name}" for name in _METRICS), *(f"difference_{name}" for name in _METRICS))
_INTERVAL = ("method", "track", "protocol", "metric", "mean", "half_width", "n")
_CLAIM = ("claim", "difference", "protocol", "main_split", "mean", "half_width", "verdict")
_LABEL = ("method", "track", "split", "seed", "label", "positives", "average_precision", "f1")


def write_csv_files(result: Reproduction, folder: Path) -> None:
    """Write every table as a file; fractions, not per cent."""
    for number, protocol in enumerate(PROTOCOLS, start=1):
        rows = _main_rows(result, protocol)
        _write(folder / f"table{number}.csv", ("method", "track", *_METRICS, *_BESIDE), rows)
    _write(folder / "rows.csv", _ROW, _rows(result.experiment.data, result.experiment.outcomes))
    _write(folder / "random_splits.csv", _INTERVAL, _interval_rows(result))
    _write(folder / "claims.csv", _CLAIM, _claim_rows(result))
    for name, points in (("figure2", result.strength), ("ranks", result.ranks), ("embeddings", result.embeddings)):
        _write(folder / f"{name}.csv", ("curve", "at", *_ROW), _point_rows(result.experiment.data, points))
    _write(folder / "labels.csv", _LABEL, _label_rows(result.experiment.outcomes))


def _main_rows(result: Reproduction, protocol: Protocol) -> list[list[Any]]:
    rows = []
    for method in result.experiment.methods:
        row, paper = result.on_main_split(method.name, protocol), result.printed(protocol, method.name)
        beside = [""] * 8 if paper is None else [*paper, *(a - b for a, b in zip(row, paper, strict=True))]
        rows.append([method.name, method.track, *row, *beside])
    return rows


def _rows(data: ExperimentData, outcomes: Iterable[Outcome]) -> list[list[Any]]:
    return [
        [
            cell.method.name, cell.method.track, cell.split_name, cell.seed,
            data.inputs(cell.method, cell.backbone), found.vectors,
            protocol, *figures(Outcome(cell, found), protocol), describe({**cell.fixed, **found.params}),
            "" if found.held_out is None else found.held_out,
            "" if found.objective is None else found.objective,
            "" if found.lower_bound is None else found.lower_bound,
        ]
        for cell, found in outcomes
        for protocol in PROTOCOLS
    ]  # fmt: skip


def _point_rows(data: ExperimentData, points: Sequence[Point]) -> list[list[Any]]:
    return [[point.curve, point.at, *row] for point in points for row in _rows(data, [point.outcome])]


def _interval_rows(result: Reproduction) -> list[list[Any]]:
    if not result.experiment.random_splits:
        return []
    return [
        [method.name, method.track, protocol, metric, *part]
        for method in result.experiment.methods
        for protocol in PROTOCOLS
        for metric, part in zip(_METRICS, result.over_splits(method.name, protocol), strict=True)
    ]


def _claim_rows(result: Reproduction) -> list[list[Any]]:
    return [
        [claim.title, d.what, d.protocol, d.main, *(d.splits[:2] if d.splits else ("", "")), d.verdict]
        for claim in claims(result)
        for d in claim.differences
    ]


def _label_rows(outcomes: Iterable[Outcome]) -> list[list[Any]]:
    keys = ("name", "positives", "average_precision", "f1")
    return [
        [cell.method.name, cell.method.track, cell.split_name, cell.seed, *values]
        for cell, found in outcomes
        for values in zip(*(found.labels[key] for key in keys), strict=True)
    ]


def _write(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    text = buffer.getvalue()
    write_atomically(path, lambda part: part.write_text(text, encoding="utf-8", newline="\n"))
