"""The tables of a reproduction, for the terminal, the page and the Markdown file alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from unseen.evaluation.metrics import Summary
from unseen.experiment.paper_tables import Protocol, implied_totals
from unseen.experiment.reproduce_result import PROTOCOLS, Reproduction, figures, mean_by_split
from unseen.experiment.runner import MAIN, TOP, Interval, interval
from unseen.experiment.studies import FACTORS, Point
from unseen.templates.report import Table
from unseen.validation import counted

METRICS: Final = ("MiAP", "micro-F1", "macro-F1", "Hamming")
TRACKS: Final = {"paper": "paper track", "open": "open track"}
OPEN: Final = (
    "Open track: the backbone's ImageNet classes may speak, and some of them are the unseen labels. "
    "Do not compare with the paper track."
)
_NUMBER: Final[dict[Protocol, int]] = {"zero-shot": 1, "generalized": 2}
_SEARCHED: Final = {
    "paper": " Rank and beta searched for each row.",
    "open": " Parameters searched for each row.",
}
_METRICS_NOTE: Final = "In per cent; Hamming loss: less is better."


def main_tables(result: Reproduction, *, compact: bool = False) -> list[Table]:
    """Tables 1 and 2, the two tracks apart, beside the paper's figures where it has any.

    Compact ones fit a terminal: of the paper's figures they show the difference alone.
    """
    return [
        _main_table(result, protocol, track, compact)
        for protocol in PROTOCOLS
        for track in TRACKS
        if result.methods(track)
    ]


def split_tables(result: Reproduction) -> list[Table]:
    """Mean and 95 % interval over the random splits, for both protocols and tracks."""
    n = len(result.experiment.random_splits)
    if not n:
        return []
    return [
        Table(
            f"{protocol.capitalize()}, {counted(n, 'random split')} of the classes, {TRACKS[track]}",
            ("method", *METRICS),
            tuple(
                (method, *(plus_minus(part) for part in result.over_splits(method, protocol)))
                for method in result.methods(track)
            ),
            note=f"{_METRICS_NOTE} Mean over the splits and half of its 95 % interval (Student's t)."
            + (f" {OPEN}" if track == "open" else ""),
        )
        for protocol in PROTOCOLS
        for track in TRACKS
        if result.methods(track)
    ]


def choice_table(result: Reproduction) -> Table:
    """What class-holdout chose on the main split."""
    rows = []
    for method in result.experiment.methods:
        cell, found = result.experiment.of(method.name)[0]
        held_out = "-" if found.held_out is None else percent(found.held_out)
        chosen = describe(found.params) or "as the method comes"
        inputs = f"{result.experiment.data.inputs(method, cell.backbone)}, {found.vectors}"
        rows.append((method.name, TRACKS[method.track], inputs, chosen, str(found.n_settings), held_out))
    plan = result.experiment.plan
    note = (
        f"Held-out MiAP: mean over {2 * plan.halvings} folds, {plan.halvings} halvings of the seen labels, at "
        f"most {plan.most_images} training images a fold.{_looser(result)}"
        if result.experiment.searched
        else "Nothing was searched."
    )
    columns = ("method", "track", "features, label vectors", "parameters", "settings", "held-out MiAP")
    chosen = "Chosen on the seen labels alone" if result.experiment.searched else "Parameters"
    return Table(f"{chosen}, main split", columns, tuple(rows), note=note)


def _looser(result: Reproduction) -> str:
    """Parameters that hold in the search only, in a sentence."""
    parts = [f"{m.name} {describe(m.in_search)}" for m in result.experiment.methods if m.in_search]
    return f" In the search alone: {'; '.join(parts)}." if parts else ""


def strength_table(result: Reproduction) -> Table:
    """Figure 2 in numbers: zero-shot MiAP at each factor."""
    rows = []
    for curve, points in by_curve(result.strength).items():
        symbol = "gamma" if curve == "TAEP" else "lambda"
        rows.append((f"{curve}, {symbol}", "main split", *(percent(at(points, f)[0].mean) for f in FACTORS)))
        if result.experiment.random_splits:
            rows.append(("", "random splits", *(plus_minus(at(points, f)[1]) for f in FACTORS)))
    columns = ("method", "", *(f"x {factor:g}" for factor in FACTORS))
    note = "Zero-shot MiAP in per cent. Factors multiply the gamma or lambda of the tables, all else is as there. "
    note += "Paper track."
    return Table("Figure 2: the regulariser made weaker", columns, tuple(rows), note=note)


def rank_table(result: Reproduction) -> Table:
    """Objective and MiAP over the rank, for both solvers."""
    ranks = sorted({point.at for point in result.ranks})
    found = {(point.curve, point.at): point.outcome.result for point in result.ranks}
    rows = []
    for rank in ranks:
        convex, paper = found["convex", rank], found["alternating", rank]
        bound = max(part.lower_bound for part in (convex, paper) if part.lower_bound is not None)
        cells = [f"{rank:g}", f"{bound:,.1f}"]
        for part in (convex, paper):
            assert part.objective is not None
            cells += [f"{part.objective:,.1f}", percent(part.zero_shot.miap), percent(part.generalized.miap)]
        rows.append(tuple(cells))
    columns = ("rank", "lower bound", "convex", "ZSL", "GZSL", "alternation", "ZSL", "GZSL")
    note = (
        "Objective by each solver, then MiAP in per cent; TAEP, all else as on the main split. No projection has "
        f"an objective below the lower bound. The alternation is stopped after {rounds_of(result)} rounds: below "
        "full rank it cycles, and where it stops is chance."
    )
    return Table("Rank r, by the convex solver and by the paper's alternation", columns, tuple(rows), note=note)


def rounds_of(result: Reproduction) -> int:
    """Rounds of the paper's alternation in the study of the rank."""
    return next(int((p.outcome.cell.params or {})["max_iter"]) for p in result.ranks if p.curve == "alternating")


def embedding_tables(result: Reproduction) -> list[Table]:
    """Label vectors and backbones, the two tracks apart."""
    tables = []
    for track, title in TRACKS.items():
        points = [point for point in result.embeddings if point.outcome.cell.method.track == track]
        if points:
            tables.append(
                Table(
                    f"Label vectors and backbones, {title}",
                    ("method", "features", "label vectors", "", "ZSL MiAP", "GZSL MiAP", "held-out MiAP"),
                    tuple(_embedding_row(point) for point in points),
                    note="In per cent, main split."
                    + (_SEARCHED[track] if result.experiment.searched else "")
                    + (f" {OPEN}" if track == "open" else ""),
                )
            )
    return tables


def label_tables(result: Reproduction) -> list[Table]:
    """Average precision and F1 of every unseen label of the main split."""
    tables = []
    for key, title in (("average_precision", "Average precision"), ("f1", f"F1 of the top {TOP}")):
        for track, words in TRACKS.items():
            methods = result.methods(track)
            if not methods:
                continue
            parts = [result.experiment.of(method)[0].result.labels for method in methods]
            rows = tuple(
                (name, str(parts[0]["positives"][i]), *(percent(part[key][i]) for part in parts))
                for i, name in enumerate(parts[0]["name"])
            )
            note = f"In per cent, main split, first repeat. {OPEN if track == 'open' else ''}".strip()
            columns = ("unseen label", "test images", *methods)
            tables.append(Table(f"{title} of each unseen label, {words}", columns, rows, note=note))
    return tables


def arithmetic_table(result: Reproduction) -> Table | None:
    """How the protocol follows from the paper's own figures; None for a data set that it does not have."""
    data, split = result.loaded.data, result.split
    Y = np.asarray(data.Y[~data.is_train], dtype=np.float64)
    unseen = Y[:, list(split.unseen)]
    here = {"zero-shot": unseen[(unseen == 1).any(axis=1)], "generalized": Y}
    rows = []
    for protocol in PROTOCOLS:
        totals = implied_totals(protocol, data.name)
        if not totals or result.printed(protocol, "TAEP") is None:
            return None
        rivals = [part.total for part in totals if not part.method.startswith("TAEP")]
        ours = [part.total for part in totals if part.method.startswith("TAEP")]
        a = float(np.nansum(here[protocol], axis=1).mean())
        off = [max(abs(total - TOP - a) for total in group) for group in (rivals, ours)]
        rows.append(
            (
                protocol,
                f"{min(rivals):.3f} to {max(rivals):.3f}",
                f"{min(ours):.3f} to {max(ours):.3f}",
                f"{len(here[protocol]):,}",
                f"{TOP} + {a:.4f} = {TOP + a:.4f}",
                f"{off[0]:.3f}, {off[1]:.3f}",
            )
        )
    return Table(
        "Protocol recovered: k + a = Hamming x L / (1 - micro-F1)",
        (
            "protocol",
            "printed: rivals",
            "printed: TAEP",
            "test images here",
            "k + a here",
            "off by up to: rivals, TAEP",
        ),
        tuple(rows),
        note=f"k labels predicted, a labels true an image, L labels. The rivals' rows imply about the top {TOP}. "
        f"Rounding moves a printed row by 0.001: those that are further off are no prediction of the top {TOP} on "
        f"these images, and differences to them are to be read with care.",
    )


def at(points: Sequence[Point], factor: float) -> tuple[Interval, Interval]:
    """Zero-shot MiAP at a factor: on the main split, and over the random ones."""
    here = [point.outcome for point in points if point.at == factor]
    main = [outcome for outcome in here if outcome.cell.split_name == MAIN]
    random = [outcome for outcome in here if outcome.cell.split_name != MAIN]
    return tuple(
        interval(mean_by_split(part, "zero-shot")[:, 0]) if part else Interval(float("nan"), float("nan"), 0)
        for part in (main, random)
    )  # type: ignore[return-value]


def change(points: Sequence[Point], factor: float) -> Interval:
    """Change in zero-shot MiAP from the first factor to another over the random splits, paired by split."""
    sides = []
    for wanted in (FACTORS[0], factor):
        here = [point.outcome for point in points if point.at == wanted]
        sides.append(mean_by_split([o for o in here if o.cell.split_name != MAIN], "zero-shot")[:, 0])
    return interval(sides[1] - sides[0])


def by_curve(points: Sequence[Point]) -> dict[str, list[Point]]:
    """Points of each curve, in the order in which they come."""
    found: dict[str, list[Point]] = {}
    for point in points:
        found.setdefault(point.curve, []).append(point)
    return found


def percent(value: float) -> str:
    """A fraction in per cent, a dash if there is none."""
    return "-" if np.isnan(value) else f"{100 * value:.2f}"


def plus_minus(part: Interval) -> str:
    """Mean and half width, in per cent."""
    return percent(part.mean) if np.isnan(part.half) else f"{100 * part.mean:.2f} ± {100 * part.half:.2f}"


def describe(params: Mapping[str, Any]) -> str:
    """Parameters in a line."""
    return ", ".join(f"{name} {value}" for name, value in sorted(params.items()))


def _main_table(result: Reproduction, protocol: Protocol, track: str, compact: bool) -> Table:
    methods = result.methods(track)
    rows = {method: result.on_main_split(method, protocol) for method in methods}
    paper = {method: result.printed(protocol, method) for method in methods}
    beside = track == "paper" and any(paper.values())
    more = () if not beside else ("+/-",) if compact else ("paper", "+/-")
    columns = ("method", *(name for metric in METRICS for name in (metric, *more)))
    cells = tuple((method, *_cells(rows[method], paper[method], more)) for method in methods)
    step = 1 + len(more)
    best = [_best([row[i] for row in rows.values()], less=i == 3) for i in range(4)]
    return Table(
        f"Table {_NUMBER[protocol]}: {protocol}, {TRACKS[track]}",
        columns,
        cells,
        note=f"{_METRICS_NOTE} {result.over_repeats}"
        + ("'+/-': this run minus the paper's printed figure." if beside else OPEN if track == "open" else ""),
        strong=frozenset((i, 1 + step * j) for j, places in enumerate(best) for i in places),
        strong_means="best of this run",
    )


def _cells(row: Summary, paper: Summary | None, more: Sequence[str]) -> list[str]:
    """Figures of a row, each followed by the printed one and the difference as far as they are wanted."""
    cells = []
    for i, value in enumerate(row):
        beside = {"paper": "-", "+/-": "-"}
        if paper is not None:
            beside = {"paper": percent(paper[i]), "+/-": f"{100 * (value - paper[i]):+.2f}"}
        cells += [percent(value), *(beside[name] for name in more)]
    return cells


def _best(values: Sequence[float], less: bool) -> list[int]:
    shown = [round(100 * value, 2) for value in values]
    target = min(shown) if less else max(shown)
    return [i for i, value in enumerate(shown) if value == target]


def _embedding_row(point: Point) -> tuple[str, ...]:
    cell, found = point.outcome
    centring = {0.0: "raw", 1.0: "centred"}.get(point.at, "")
    held_out = "-" if found.held_out is None else percent(found.held_out)
    miaps = (percent(figures(point.outcome, protocol).miap) for protocol in PROTOCOLS)
    return (cell.method.name, cell.backbone, point.curve, centring, *miaps, held_out)
