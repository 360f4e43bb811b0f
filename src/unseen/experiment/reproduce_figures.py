"""The figures of a reproduction, by the name of their files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from unseen.evaluation.plots import Curve, Panel, curves, intervals, label_grid
from unseen.experiment.reproduce_result import Reproduction
from unseen.experiment.reproduce_tables import at, by_curve, change, rounds_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure


FIGURES: Final = ("figure2", "ranks", "splits", "labels")


class Drawn(NamedTuple):
    """A figure with its caption and what it shows in words."""

    figure: Figure
    caption: str
    description: str


def draw(result: Reproduction) -> dict[str, Drawn]:
    """All figures that there is something to draw for."""
    drawn = {}
    if result.strength:
        drawn["figure2"] = _strength(result)
    if result.ranks:
        drawn["ranks"] = _ranks(result)
    if len(result.experiment.random_splits) > 1:
        drawn["splits"] = _splits(result)
    drawn["labels"] = _labels(result)
    return drawn


def _strength(result: Reproduction) -> Drawn:
    points = by_curve(result.strength)
    ticks = tuple(f"{factor:g}" for factor in dict.fromkeys(point.at for point in result.strength))
    panels = []
    for title, names in (("gamma", ("TAEP",)), ("lambda", ("TAEP-H", "TAEP-C"))):
        drawn = []
        for kind, name in enumerate(name for name in names if name in points):
            main, random = zip(*(at(points[name], float(tick)) for tick in ticks), strict=True)
            drawn.append(Curve(name, tuple(100 * part.mean for part in main), kind=kind))
            if result.experiment.random_splits:
                means = tuple(100 * part.mean for part in random)
                halves = tuple(100 * change(points[name], float(tick)).half for tick in ticks)
                drawn.append(Curve(f"{name}, random splits", means, halves, kind=kind, faint=True))
        if drawn:
            panels.append(Panel("zero-shot MiAP, %", f"factor on {title}", ticks, tuple(drawn)))
    dashed = (
        " Dashed: mean over the random splits, with the 95 % interval of its change from the left, paired "
        "by split."
        if result.experiment.random_splits
        else ""
    )
    return Drawn(
        curves(panels),
        "Figure 2 of the paper: the regulariser is made weaker from left to right." + dashed,
        "Curves of zero-shot MiAP over factors on gamma and lambda; the numbers are in the table.",
    )


def _ranks(result: Reproduction) -> Drawn:
    points = by_curve(result.ranks)
    ranks = sorted({point.at for point in result.ranks})
    ticks = tuple(f"{rank:g}" for rank in ranks)
    found = {(point.curve, point.at): point.outcome.result for point in result.ranks}
    names = {"convex": "convex", "alternating": "paper's alternation"}
    objective = [
        Curve(names[solver], tuple(found[solver, rank].objective or np.nan for rank in ranks), kind=kind)
        for kind, solver in enumerate(points)
    ]
    miap = []
    for kind, solver in enumerate(points):
        here = [found[solver, rank] for rank in ranks]
        zero_shot = tuple(100 * part.zero_shot.miap for part in here)
        miap.append(Curve(f"{names[solver]}, ZSL", zero_shot, kind=kind))
        generalized = tuple(100 * part.generalized.miap for part in here)
        miap.append(Curve(f"{names[solver]}, GZSL", generalized, kind=kind, faint=True))
    panels = [
        Panel("objective (lower is better)", "rank r", ticks, tuple(objective)),
        Panel("MiAP, %", "rank r", ticks, tuple(miap)),
    ]
    return Drawn(
        curves(panels, 4.2),
        "TAEP over the rank of its projection, by the convex solver and by the paper's alternation "
        f"({rounds_of(result)} rounds).",
        "Curves of objective and MiAP over the rank for two solvers; the numbers are in the table.",
    )


def _splits(result: Reproduction) -> Drawn:
    opened = result.methods("open")
    rows = {}
    for method in (*result.methods("paper"), *opened):
        miap = result.over_splits(method, "zero-shot")[0]
        rows[method] = (100 * miap.mean, 100 * miap.half)
    n = len(result.experiment.random_splits)
    return Drawn(
        intervals(rows, f"zero-shot MiAP, %: mean over {n} random splits and its 95 % interval", opened),
        "Squares, orange: open track, which knows the backbone's ImageNet classes.",
        "Mean zero-shot MiAP of each method with an interval; the numbers are in the table.",
    )


def _labels(result: Reproduction) -> Drawn:
    methods = (*result.methods("paper"), *result.methods("open"))
    parts = [result.experiment.of(method)[0].result.labels for method in methods]
    values = np.array([part["average_precision"] for part in parts], dtype=np.float64).T
    order = np.argsort(-np.nan_to_num(values).mean(axis=1), kind="stable")
    names = [parts[0]["name"][i] for i in order]
    opened = result.methods("open")
    titles = [name.replace(" + ", " +\n") + "\n(open)" if name in opened else name for name in methods]
    return Drawn(
        label_grid(values[order], names, titles, "average precision of each unseen label, %"),
        "Which unseen labels work: average precision over the test images of the main split, best label on top.",
        "A grid of unseen labels by methods; the numbers are in the table.",
    )
