"""Studies that continue an experiment: strength of the regularisers, rank and solver."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from unseen.experiment.runner import Cell, Experiment
from unseen.taep import TAEP

FACTORS: Final = (1.0, 0.1, 0.01, 0.001)
RANKS: Final = (1, 2, 3, 5, 8, 10)
STRENGTHS: Final = {"TAEP": "gamma", "TAEP-H": "lam", "TAEP-C": "lam"}
# Iterations of the paper's alternation: below full rank it cycles forever, at full rank 400 gain little over 100.
ITERATIONS, FEW_ITERATIONS = 100, 20


def strength_cells(experiment: Experiment) -> list[Cell]:
    """Figure 2 of the paper: gamma of TAEP, and lambda of TAEP-H and TAEP-C, times 1, 0.1, 0.01 and 0.001.

    All else stays as chosen, on every split. ``at`` is the factor, ``curve`` the method.
    """
    cells = []
    for name, parameter in STRENGTHS.items():
        for cell, result in experiment.of(name):
            start = result["params"].get(parameter, TAEP().get_params()[parameter])
            for factor in FACTORS:
                params = {**result["params"], parameter: start * factor}
                cells.append(replace(cell, sources=(result["vectors"],), params=params, curve=name, at=factor))
    return cells


def rank_cells(experiment: Experiment) -> list[Cell]:
    """TAEP over the rank, by the convex solver and by the paper's alternation.

    All else stays as for TAEP on the main split. ``at`` is the rank, ``curve`` the solver.
    """
    cells = []
    for cell, result in experiment.of("TAEP")[:1]:
        n_dims = experiment.data.vectors[result["vectors"]].vectors.shape[1]
        iterations = ITERATIONS if experiment.searched else FEW_ITERATIONS
        for solver, options in (("convex", {}), ("alternating", {"max_iter": iterations})):
            for rank in (rank for rank in RANKS if rank <= min(len(cell.split.seen), n_dims)):
                params = {**result["params"], "rank": rank, "solver": solver, **options}
                cells.append(replace(cell, sources=(result["vectors"],), params=params, curve=solver, at=rank))
    return cells
