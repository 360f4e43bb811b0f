"""Studies that go on from an experiment: strength of the regularisers, rank and solver, vectors and backbones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Final, NamedTuple

from unseen.experiment.runner import Cell, Experiment, Outcome
from unseen.taep import TAEP

__all__ = ["FACTORS", "RANKS", "Point", "embedding_study", "rank_study", "strength_study"]

FACTORS: Final = (1.0, 0.1, 0.01, 0.001)
RANKS: Final = (1, 2, 3, 5, 8, 10)
_STRENGTHS: Final = {"TAEP": "gamma", "TAEP-H": "lam", "TAEP-C": "lam"}
# Of the paper's algorithm: below full rank it cycles for ever, at full rank 400 rounds gain little over 100.
_ROUNDS: Final = 100
_FEW_ROUNDS: Final = 20  # of a quick run, without a search

Runner = Callable[[Sequence[Cell]], list[Outcome]]


class Point(NamedTuple):
    """A point of a study: where on its axis, on which curve, and what came out."""

    curve: str
    at: float
    outcome: Outcome


def strength_study(experiment: Experiment, run: Runner) -> list[Point]:
    """Figure 2 of the paper: gamma of TAEP, and lambda of TAEP-H and TAEP-C, times 1, 0.1, 0.01 and 0.001.

    All else stays as chosen, on every split of the experiment.

    Parameters
    ----------
    experiment : Experiment
        With the chosen parameters.
    run : callable
        Runs cells, such as a partial of `unseen.experiment.runner.run_cells`.

    Returns
    -------
    list of Point
        ``at`` is the factor, ``curve`` the method.
    """
    plan: list[tuple[str, float, Cell]] = []
    for name, parameter in _STRENGTHS.items():
        for cell, result in (*experiment.of(name), *experiment.of(name, random=True)):
            start = result.params.get(parameter, TAEP().get_params()[parameter])
            for factor in FACTORS:
                params = {**result.params, parameter: start * factor}
                plan.append((name, factor, _refit(cell, result.vectors, params)))
    return _run(plan, run)


def rank_study(experiment: Experiment, run: Runner) -> list[Point]:
    """Objective and MiAP of TAEP over the rank r, by the convex solver and by the paper's alternation.

    All else stays as for TAEP on the main split. The alternation, which cycles below full rank, has 100
    rounds, or 20 if nothing was searched.

    Parameters
    ----------
    experiment : Experiment
        With the chosen parameters.
    run : callable
        As in `strength_study`.

    Returns
    -------
    list of Point
        ``at`` is the rank, ``curve`` the solver.
    """
    plan: list[tuple[str, float, Cell]] = []
    for cell, result in experiment.of("TAEP")[:1]:
        n_dims = experiment.data.vectors[result.vectors].vectors.shape[1]
        rounds = _ROUNDS if experiment.searched else _FEW_ROUNDS
        for solver, options in (("convex", {}), ("alternating", {"max_iter": rounds})):
            for rank in (rank for rank in RANKS if rank <= min(len(cell.split.seen), n_dims)):
                params = {**result.params, "rank": rank, "solver": solver, **options}
                plan.append((solver, float(rank), _refit(cell, result.vectors, params)))
    return _run(plan, run)


def embedding_study(experiment: Experiment, run: Runner) -> list[Point]:
    """Every backbone with every source of label vectors, on the main split.

    TAEP, raw and centred, with the first stage of the search if the experiment was searched; and the methods that
    read the class logits of one backbone.

    Parameters
    ----------
    experiment : Experiment
        As run.
    run : callable
        As in `strength_study`.

    Returns
    -------
    list of Point
        ``curve`` is the source of the vectors, ``at`` 1 if they are centred, 0 if not, NaN if the method decides.
    """
    data = experiment.data
    plan: list[tuple[str, float, Cell]] = []
    for cell, _ in experiment.of("TAEP")[:1]:
        brief = replace(cell.method, stages=cell.method.stages[:1])
        for backbone, source, center in product(data.features, data.vectors, (False, True)):
            fixed = {"center": center}
            changed = replace(cell, method=brief, backbone=backbone, sources=(source,), fixed=fixed)
            plan.append((source, float(center), changed))
    for method in experiment.methods:
        if method.columns in ("logits", "both"):
            cell = experiment.of(method.name)[0].cell
            for backbone, source in product(data.logits, data.classes):
                plan.append((source, float("nan"), replace(cell, backbone=backbone, sources=(source,))))
    return _run(plan, run)


def _refit(cell: Cell, source: str, params: dict[str, object]) -> Cell:
    return replace(cell, sources=(source,), params=params)


def _run(plan: Sequence[tuple[str, float, Cell]], run: Runner) -> list[Point]:
    outcomes = run([cell for _, _, cell in plan])
    return [Point(curve, at, outcome) for (curve, at, _), outcome in zip(plan, outcomes, strict=True)]
