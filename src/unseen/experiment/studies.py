"""Studies that continue an experiment: strength of the regularisers, rank and solver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from unseen.experiment.runner import Cell, Experiment, Outcome
from unseen.taep import TAEP

FACTORS: Final = (1.0, 0.1, 0.01, 0.001)
RANKS: Final = (1, 2, 3, 5, 8, 10)
_STRENGTHS: Final = {"TAEP": "gamma", "TAEP-H": "lam", "TAEP-C": "lam"}
# Iterations of the paper's alternation: below full rank it cycles for ever, at full rank 400 gain little over 100.
_ITERATIONS, _FEW_ITERATIONS = 100, 20

Runner = Callable[[Sequence[Cell]], list[Outcome]]


class Point(NamedTuple):
    """A point of a study: its curve, its place on the axis, and the outcome."""

    curve: str
    at: float
    outcome: Outcome


def strength_study(experiment: Experiment, run: Runner) -> list[Point]:
    """Figure 2 of the paper: gamma of TAEP, and lambda of TAEP-H and TAEP-C, times 1, 0.1, 0.01 and 0.001.

    All else stays as chosen, on every split. ``at`` is the factor, ``curve`` the method.
    """
    plan: list[tuple[str, float, Cell]] = []
    for name, parameter in _STRENGTHS.items():
        for cell, result in (*experiment.of(name), *experiment.of(name, random=True)):
            start = result.params.get(parameter, TAEP().get_params()[parameter])
            for factor in FACTORS:
                params = {**result.params, parameter: start * factor}
                plan.append((name, factor, replace(cell, sources=(result.vectors,), params=params)))
    return _run(plan, run)


def rank_study(experiment: Experiment, run: Runner) -> list[Point]:
    """Objective and MiAP of TAEP over the rank, by the convex solver and by the paper's alternation.

    All else stays as for TAEP on the main split. ``at`` is the rank, ``curve`` the solver.
    """
    plan: list[tuple[str, float, Cell]] = []
    for cell, result in experiment.of("TAEP")[:1]:
        largest = min(len(cell.split.seen), experiment.data.vectors[result.vectors].vectors.shape[1])
        iterations = _ITERATIONS if experiment.searched else _FEW_ITERATIONS
        for solver, options in (("convex", {}), ("alternating", {"max_iter": iterations})):
            for rank in (rank for rank in RANKS if rank <= largest):
                params = {**result.params, "rank": rank, "solver": solver, **options}
                plan.append((solver, float(rank), replace(cell, sources=(result.vectors,), params=params)))
    return _run(plan, run)


def _run(plan: Sequence[tuple[str, float, Cell]], run: Runner) -> list[Point]:
    outcomes = run([cell for _, _, cell in plan])
    return [Point(curve, at, outcome) for (curve, at, _), outcome in zip(plan, outcomes, strict=True)]
