"""Studies that continue an experiment: strength of the regularisers, solver and rank."""

from dataclasses import replace
from typing import Any, Final

from unseen.experiment.runner import Cell, Experiment
from unseen.taep import TAEP

FACTORS: Final = (1.0, 0.1, 0.01, 0.001)
STRENGTHS: Final = {"TAEP": "gamma", "TAEP-H": "lam", "TAEP-C": "lam"}
RANKS: Final = (0.1, 0.3, 0.5, 1.0)  # shares of the seen labels
# Below full rank the paper's alternation cycles with a period of two: iterates 21 to 30 are tested, not one.
BURN_IN: Final = 20
ITERATES: Final = 10
# The paper's text leaves open whether Psi is solved to the end before each update of U, or swept once.
SOLVERS: Final[dict[str, dict[str, Any]]] = {
    "convex": {"solver": "convex"},
    "rounded": {"solver": "rounded"},
    "alternation": {"solver": "alternating", "max_iter": BURN_IN + ITERATES},
    "alternation, one sweep": {"solver": "alternating-sweep", "max_iter": BURN_IN + ITERATES},
}


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


def solver_cells(experiment: Experiment) -> list[Cell]:
    """TAEP by each solver at each rank; all else stays as for TAEP on the main split.

    ``at`` is the rank as a share of the seen labels, ``curve`` the solver.
    """
    cells = []
    for cell, result in experiment.of("TAEP")[:1]:
        for solver, options in SOLVERS.items():
            n_iterates = ITERATES if "max_iter" in options else 1
            for rank in RANKS:
                params = {**result["params"], "rank": rank, **options}
                start = replace(cell, sources=(result["vectors"],), params=params)
                cells.append(replace(start, n_iterates=n_iterates, curve=solver, at=rank))
    return cells
