"""How fast is the row solver against general QP solvers, on one row, when the caps bind and when they do not?

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.row_solvers

Rivals are called directly, with their problem already built: daqp, piqp and quadprog (each skipped if it is not
installed; quadprog is GPL and used here only). All start from nothing; ours runs to 1e-9 in the gradient, with the
Newton finish that fits use from 25 labels on. The label kernel has full rank, as daqp and quadprog want.
"""

from __future__ import annotations

from importlib import import_module

import numpy as np
from numba import njit
from threadpoolctl import threadpool_limits

from benchmarks._timing import arguments, by_turns, show, write_json
from unseen.solvers.row_kernels import solve_row

SIZES = (10, 81, 200, 925)
POSITIVES = 3
STEPS = 1_000_000


def random_row(n_labels: int, is_capped: bool, seed: int = 0):
    """Label kernel of unit vectors and a constant, and a weight h that lets the caps bind or not."""
    rng = np.random.default_rng(seed)
    C = rng.standard_normal((n_labels, 300))
    C /= np.linalg.norm(C, axis=1, keepdims=True)
    t = -np.ones(n_labels, dtype=np.int8)
    t[:POSITIVES] = 1
    K = C @ C.T + 1.0 + 1e-3 * np.eye(n_labels)
    return K, (0.1 if is_capped else 30.0), t, 0.3 * rng.standard_normal(n_labels)


@njit(cache=True)
def solve_alone(K, h, t, s):
    """One row from nothing, with work arrays of its own: a sweep makes them once for many rows."""
    v, scores = np.zeros(len(t)), s.copy()
    solve_row(K, h, t, scores, v, 1e-9, STEPS, False)
    return v


def ours(K, h, t, s):
    return lambda: solve_alone(K, h, t, s)


def standard_form(K, h, t, s):
    """``1/2 u'Hu + f'u`` in u = t v, with ``u >= 0`` and one sum a side of at most one."""
    sides = np.array([t > 0, t < 0], dtype=float)
    return h * K * np.outer(t, t), t * s - 1.0, sides


def with_daqp(K, h, t, s):
    daqp = import_module("daqp")
    H, f, sides = standard_form(K, h, t, s)
    n = len(t)
    upper = np.concatenate([np.full(n, 1.0), np.ones(2)])
    lower = np.concatenate([np.zeros(n), np.full(2, -1e30)])
    sense = np.zeros(n + 2, dtype=np.int32)
    return lambda: np.asarray(daqp.solve(H, f, sides, upper, lower, sense)[0]) * t


def with_piqp(K, h, t, s):
    piqp = import_module("piqp")
    H, f, sides = standard_form(K, h, t, s)
    n = len(t)

    def run():
        solver = piqp.DenseSolver()
        solver.settings.eps_abs = solver.settings.eps_rel = 1e-9
        solver.setup(H, f, None, None, sides, np.full(2, -1e30), np.ones(2), np.zeros(n), np.full(n, 1e30))
        solver.solve()
        return np.array(solver.result.x) * t

    return run


def with_quadprog(K, h, t, s):
    quadprog = import_module("quadprog")
    H, f, sides = standard_form(K, h, t, s)
    limits = np.hstack([np.eye(len(t)), -sides.T])
    bounds = np.concatenate([np.zeros(len(t)), -np.ones(2)])
    return lambda: quadprog.solve_qp(H, -f, limits, bounds)[0] * t


def measure(n_labels: int, is_capped: bool, rounds: int):
    problem = random_row(n_labels, is_capped)
    K, h, t, s = problem
    contenders = {"unseen": ours(*problem)}
    for name, build in (("daqp", with_daqp), ("piqp", with_piqp), ("quadprog", with_quadprog)):
        try:
            contenders[name] = build(*problem)
        except ImportError:
            continue
    values = {}
    for name, run in contenders.items():
        v = run()
        values[name] = 0.5 * h * v @ K @ v + (s - t) @ v
    seconds = by_turns(contenders, rounds)
    row = {"labels": n_labels, "cap binds": is_capped, "in use": int(np.count_nonzero(contenders["unseen"]()))}
    row |= {f"{name} us": 1e6 * value for name, value in seconds.items()}
    rivals = [name for name in seconds if name != "unseen"]
    if rivals:
        row["best rival / unseen"] = min(seconds[name] for name in rivals) / seconds["unseen"]
        row["excess objective"] = values["unseen"] - min(values[name] for name in rivals)
    return row


def main() -> None:
    args = arguments(__doc__, "row_solvers").parse_args()
    with threadpool_limits(1):
        rows = [measure(size, capped, args.rounds) for size in SIZES for capped in (True, False)]
    show("one row problem, from nothing to 1e-9", rows)
    write_json(args.json, rows)


if __name__ == "__main__":
    main()
