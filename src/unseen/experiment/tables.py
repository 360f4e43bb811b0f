"""The tables of a reproduction, beside the figures that Ye & Guo (2018) print."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from unseen.datasets.voc import VOC_CLASSES
from unseen.evaluation.metrics import Summary
from unseen.evaluation.protocol import alternating_split
from unseen.experiment.runner import MAIN, PROTOCOLS, Experiment, Interval, Outcome, interval
from unseen.experiment.studies import FACTORS, Point
from unseen.templates import Mark, Table
from unseen.validation import counted

METRICS: Final = ("MiAP", "micro-F1", "macro-F1", "Hamming")
TRACKS: Final = {"paper": "paper track", "open": "open track"}
RIVALS: Final = ("ConSE", "LatEm-M", "DMP", "Fast0Tag")
OPEN: Final = (
    "Open track: these methods use the backbone's ImageNet classes, some of which are unseen labels. "
    "Do not compare them with the paper track."
)
TEST_IMAGES: Final = {"voc2007": 4952, "voc2012": 5823}  # VOC2012 is tested on its validation images
_NOTE: Final = "In per cent; Hamming loss: lower is better."
# Tables 1 and 2 of the paper: MiAP, micro-F1, macro-F1, Hamming loss.
_PRINTED: Final = """
zero-shot   voc2007 ConSE    49.98 30.80 27.57 28.12
zero-shot   voc2007 LatEm-M  52.45 35.32 36.69 26.28
zero-shot   voc2007 DMP      53.52 36.70 40.44 25.72
zero-shot   voc2007 Fast0Tag 52.39 35.01 36.76 26.53
zero-shot   voc2007 TAEP     57.42 38.48 42.33 24.98
zero-shot   voc2007 TAEP-C   59.22 39.84 43.77 24.01
zero-shot   voc2007 TAEP-H   57.62 38.95 43.29 24.46
zero-shot   voc2012 ConSE    49.95 33.48 28.83 27.13
zero-shot   voc2012 LatEm-M  51.44 35.74 36.33 26.21
zero-shot   voc2012 DMP      52.92 35.73 41.04 26.12
zero-shot   voc2012 Fast0Tag 52.29 34.23 35.38 26.41
zero-shot   voc2012 TAEP     54.39 37.63 41.58 25.25
zero-shot   voc2012 TAEP-C   57.13 39.30 42.97 24.27
zero-shot   voc2012 TAEP-H   56.10 38.89 42.23 24.44
generalized voc2007 ConSE    64.10 42.11 32.29 12.78
generalized voc2007 LatEm-M  66.46 43.11 32.37 12.56
generalized voc2007 DMP      67.79 43.97 34.13 12.37
generalized voc2007 Fast0Tag 67.34 43.54 33.31 12.49
generalized voc2007 TAEP     68.16 43.61 35.29 12.01
generalized voc2007 TAEP-C   69.87 44.75 35.62 11.98
generalized voc2007 TAEP-H   69.74 44.55 35.56 12.00
generalized voc2012 ConSE    62.85 41.17 35.72 13.04
generalized voc2012 LatEm-M  63.06 39.95 32.35 13.31
generalized voc2012 DMP      64.24 41.29 32.39 13.02
generalized voc2012 Fast0Tag 64.63 41.28 32.46 12.97
generalized voc2012 TAEP     64.67 40.60 34.07 12.75
generalized voc2012 TAEP-C   65.33 42.10 36.74 12.53
generalized voc2012 TAEP-H   65.10 41.39 35.95 12.94
"""
PRINTED: Final = {
    (protocol, data_set, method): Summary(*(float(figure) / 100.0 for figure in figures))
    for protocol, data_set, method, *figures in map(str.split, _PRINTED.strip().splitlines())
}


@dataclass(frozen=True, eq=False)
class Reproduction:
    """Everything that a reproduction found: the experiment, its studies, the command, where it was written."""

    experiment: Experiment
    strength: tuple[Point, ...]
    ranks: tuple[Point, ...]
    command: str
    folder: Path
    seconds: float = 0.0

    def methods(self, track: str) -> tuple[str, ...]:
        """Methods of a track that ran."""
        return tuple(method.name for method in self.experiment.methods if method.track == track)

    def printed(self, protocol: str, method: str) -> Summary | None:
        """The paper's figures; None if it has none for this data set, these classes and this split."""
        data = self.experiment.data
        same = set(data.labels) == set(VOC_CLASSES) and self.experiment.split == alternating_split(data.labels)
        return PRINTED.get((protocol, data.name, method)) if same else None

    def on_main_split(self, method: str, protocol: str) -> Summary:
        """Mean figures over the repeats on the main split."""
        return Summary(*by_split(self.experiment.of(method), protocol)[0].tolist())

    def over_splits(self, method: str, protocol: str) -> list[Interval]:
        """Mean and interval of the figures over the random splits; repeats of a split are averaged first."""
        return [interval(column) for column in by_split(self.experiment.of(method, random=True), protocol).T]


def by_split(outcomes: Iterable[Outcome], protocol: str) -> NDArray[np.float64]:
    """Mean over the repeats of each split, one row per split."""
    splits: dict[str, list[Summary]] = {}
    for cell, result in outcomes:
        splits.setdefault(cell.split_name, []).append(result.figures(protocol))
    return np.array([np.mean(rows, axis=0) for rows in splits.values()]).reshape(len(splits), len(METRICS))


def main_tables(result: Reproduction, *, compact: bool = False) -> list[Table]:
    """Tables 1 and 2 by track, beside the printed figures; compact ones show only the difference to these."""
    return [
        _main_table(result, protocol, track, compact)
        for protocol in PROTOCOLS
        for track in TRACKS
        if result.methods(track)
    ]


def _main_table(result: Reproduction, protocol: str, track: str, compact: bool) -> Table:
    methods = result.methods(track)
    rows = np.array([result.on_main_split(method, protocol) for method in methods])
    paper = [result.printed(protocol, method) for method in methods]
    beside = track == "paper" and any(paper)
    more = () if not beside else ("+/-",) if compact else ("paper", "+/-")
    shown = np.round(100 * rows, 2) * [1, 1, 1, -1]
    best = shown == shown.max(axis=0)
    cells = []
    for i, method in enumerate(methods):
        row: list[str | Mark] = [method]
        for j, value in enumerate(rows[i]):
            row.append(Mark(percent(value), "strong") if best[i, j] else percent(value))
            there = paper[i]
            texts = {"paper": "-", "+/-": "-"}
            if there is not None:
                texts = {"paper": percent(there[j]), "+/-": f"{100 * (value - there[j]):+.2f}"}
            row += [texts[name] for name in more]
        cells.append(row)
    n_repeats = len({outcome.cell.seed for outcome in result.experiment.outcomes})
    note = _NOTE + (f" Means over {n_repeats} repeats." if n_repeats > 1 else "") + " Bold: best of this run."
    note += " '+/-': this run minus the printed figure." if beside else f" {OPEN}" if track == "open" else ""
    columns = ("method", *(name for metric in METRICS for name in (metric, *more)))
    return Table(f"Table {1 + PROTOCOLS.index(protocol)}: {protocol}, {TRACKS[track]}", columns, cells, note)


def split_tables(result: Reproduction) -> list[Table]:
    """Mean and 95 % interval over the random splits, by protocol and track."""
    n = len(result.experiment.random_splits)
    return [
        Table(
            f"{protocol.capitalize()}, {counted(n, 'random split')} of the classes, {TRACKS[track]}",
            ("method", *METRICS),
            [(name, *map(plus_minus, result.over_splits(name, protocol))) for name in result.methods(track)],
            f"{_NOTE} Mean over the splits and half of its 95 % interval (Student's t).",
        )
        for protocol in PROTOCOLS
        for track in TRACKS
        if n and result.methods(track)
    ]


def choice_table(result: Reproduction) -> Table:
    """Parameters of the main split, and their score on held-out seen labels."""
    experiment = result.experiment
    rows = []
    for method in experiment.methods:
        cell, found = experiment.of(method.name)[0]
        inputs = f"{' + '.join(experiment.data.used(method, cell.backbone))}, {found.vectors}"
        held_out = "-" if found.held_out is None else percent(found.held_out)
        rows.append((method.name, inputs, describe(found.params) or "defaults", str(found.n_settings), held_out))
    plan = experiment.plan
    note = "Default parameters: nothing was searched."
    if experiment.searched:
        note = (
            f"Chosen on the seen labels alone. Held-out MiAP: mean over the folds of {plan.halvings} halvings, at "
            f"most {plan.most_images} training images per fold."
        )
    columns = ("method", "features, label vectors", "parameters", "settings", "held-out MiAP")
    return Table("Parameters, main split", columns, rows, note)


def strength_table(result: Reproduction) -> Table:
    """Figure 2 in numbers: zero-shot MiAP at each factor."""
    rows = []
    for name, points in by_curve(result.strength).items():
        symbol = "gamma" if name == "TAEP" else "lambda"
        main, random = (miap_at(points, random=random) for random in (False, True))
        rows.append((f"{name}, {symbol}", "main split", *(percent(values.mean()) for values in main)))
        if result.experiment.random_splits:
            rows.append(("", "random splits", *(plus_minus(interval(values)) for values in random)))
    columns = ("method", "", *(f"x {factor:g}" for factor in FACTORS))
    note = "Zero-shot MiAP in per cent. The factor multiplies the gamma or lambda of the tables."
    return Table("Figure 2: weaker regularisers", columns, rows, note)


def rank_table(result: Reproduction) -> Table:
    """Objective and MiAP over the rank, for both solvers."""
    found = {(point.curve, point.at): point.outcome.result for point in result.ranks}
    rows = []
    for rank in sorted({point.at for point in result.ranks}):
        parts = found["convex", rank], found["alternating", rank]
        row = [f"{rank:g}", f"{max(part.lower_bound or -np.inf for part in parts):,.1f}"]
        for part in parts:
            row += [f"{part.objective:,.1f}", percent(part.zero_shot.miap), percent(part.generalized.miap)]
        rows.append(row)
    columns = ("rank", "lower bound", "convex", "ZSL", "GZSL", "alternation", "ZSL", "GZSL")
    note = (
        "Objective of each solver, then MiAP in per cent; TAEP, all else as on the main split. No projection has "
        f"an objective below the lower bound. The alternation stops after {iterations_of(result)} iterations: "
        "below full rank it cycles, and where it stops is chance."
    )
    return Table("Rank, by the convex solver and by the paper's alternation", columns, rows, note)


def iterations_of(result: Reproduction) -> int:
    """Iterations of the alternation in the study of the rank."""
    return next(int((p.outcome.cell.params or {})["max_iter"]) for p in result.ranks if p.curve == "alternating")


@dataclass(frozen=True)
class Difference:
    """A difference in MiAP behind a claim of the paper: on the main split, and paired over the random ones."""

    claim: str
    what: str
    protocol: str
    main: float
    splits: Interval

    @property
    def verdict(self) -> str:
        """What the interval says of the sign."""
        if np.isnan(self.splits.half):
            return "no interval"
        if abs(self.splits.mean) <= self.splits.half:
            return "not told apart"
        return "above" if self.splits.mean > 0 else "below"


def differences(result: Reproduction) -> list[Difference]:
    """The differences behind the paper's three claims, as far as their methods ran."""
    ran = result.methods("paper")
    others = [name for name in ran if name not in RIVALS and not name.startswith("TAEP")]
    pairs = [("TAEP is better than its rivals", "TAEP", name) for name in RIVALS]
    pairs += [
        ("TAEP is better than methods that the paper does not compare with", "TAEP", name) for name in others
    ]
    pairs += [("Auxiliary information helps", name, "TAEP") for name in ("TAEP-H", "TAEP-C")]
    found = []
    for protocol in PROTOCOLS:
        for claim, first, second in pairs:
            if {first, second} <= set(ran):
                main, random = (
                    by_split(result.experiment.of(first, random=random), protocol)[:, 0]
                    - by_split(result.experiment.of(second, random=random), protocol)[:, 0]
                    for random in (False, True)
                )
                what = f"{first} - {second}"
                found.append(Difference(claim, what, protocol, float(main.mean()), interval(random)))
    for protocol in PROTOCOLS:
        for name, points in by_curve(result.strength).items():
            symbol = "gamma" if name == "TAEP" else "lambda"
            what = f"{name}: {symbol} x 1 - {symbol} x {FACTORS[-1]:g}"
            full, *_, least = miap_at(points, random=False, protocol=protocol)
            fulls, *_, leasts = miap_at(points, random=True, protocol=protocol)
            change, claim = interval(fulls - leasts), "gamma and lambda matter"
            found.append(Difference(claim, what, protocol, float((full - least).mean()), change))
    return found


def claims_table(result: Reproduction) -> Table:
    """All differences with their intervals."""
    n = len(result.experiment.random_splits)
    rows, last = [], ""
    for part in differences(result):
        title, last = "" if part.claim == last else part.claim, part.claim
        more = (plus_minus(part.splits, sign="+"), part.verdict) if n else ()
        rows.append((title, part.what, part.protocol, f"{100 * part.main:+.2f}", *more))
    note = "Points of MiAP."
    if n:
        note += (
            " Paired by split; 'above' and 'below': the 95 % interval of the mean excludes 0, "
            "not corrected for the number of comparisons."
        )
    columns = (
        "claim",
        "difference",
        "protocol",
        "main split",
        *((counted(n, "random split"), "verdict") if n else ()),
    )
    return Table("The paper's claims: differences in MiAP", columns, rows, note)


def by_curve(points: Sequence[Point]) -> dict[str, list[Point]]:
    """Points of each curve."""
    found: dict[str, list[Point]] = {}
    for point in points:
        found.setdefault(point.curve, []).append(point)
    return found


def miap_at(points: Sequence[Point], *, random: bool, protocol: str = "zero-shot") -> list[NDArray[np.float64]]:
    """MiAP at each factor of Figure 2, one value per split."""
    return [
        by_split(
            [p.outcome for p in points if p.at == factor and (p.outcome.cell.split_name != MAIN) == random],
            protocol,
        )[:, 0]
        for factor in FACTORS
    ]


def percent(value: float) -> str:
    """A fraction in per cent; a dash for NaN."""
    return "-" if np.isnan(value) else f"{100 * value:.2f}"


def plus_minus(part: Interval, sign: str = "") -> str:
    """Mean and half width, in per cent."""
    mean = "-" if np.isnan(part.mean) else f"{100 * part.mean:{sign}.2f}"
    return mean if np.isnan(part.half) else f"{mean} ± {100 * part.half:.2f}"


def describe(params: Mapping[str, Any]) -> str:
    """Parameters on one line."""
    return ", ".join(f"{name} {value}" for name, value in sorted(params.items()))
