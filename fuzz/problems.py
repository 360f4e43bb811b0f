"""Random training problems: no certificate may be violated, and no small fit may take long.

    python -m fuzz.problems [--problems 10000] [--every 10] [--jobs 2] [--seed 0]

Each problem has up to 60 images of up to 12 features, with labels, weights, unknown annotations, scales and
parameters by chance, in float32 or float64. `TAEP`'s solver runs to a chosen tolerance; of every tenth problem the
optimum is also found by an independent convex solver (Clarabel, through cvxpy): it must lie between the certified
lower bound and the objective. Violations, fits of more than 10 s of processor time, and any exception are printed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

import numpy as np

MOST_SECONDS = 10.0
ROUNDING = 1e-6  # relative, of the independent solver


class Outcome(NamedTuple):
    """Of one problem: what is wrong, how long it took, whether it reached its tolerance, and was compared."""

    seed: int
    wrong: str | None
    seconds: float
    reached: bool
    compared: bool


def attempt(seed: int, compare: bool) -> Outcome:
    """Solve one problem, and compare it."""
    from tests.solvers.problems import optimum_over_projections, random_problem, start

    from unseen.solvers.projection import solve_convex

    warnings.simplefilter("ignore")
    rng = np.random.default_rng(seed)
    small = compare  # joint programs of the independent solver grow fast
    n, d = int(rng.integers(6, 26 if small else 61)), int(rng.integers(1, 5 if small else 13))
    n_seen, n_dims = int(rng.integers(2, 5 if small else 9)), int(rng.integers(2, 4 if small else 9))
    beta, tol = float(10.0 ** rng.uniform(-3, 3)), float(10.0 ** rng.uniform(-4, -2))
    shape = {"n": n, "d": d, "n_seen": n_seen, "n_dims": n_dims, "rank": int(rng.integers(1, n_dims + 1))}
    chance = {"learnable": rng.random() < 0.5, "weighted": rng.random() < 0.3, "is_mean": rng.random() < 0.3}
    problem, images = random_problem(
        seed, **shape, beta=beta, regulariser=float(rng.choice([0.0, 0.1, 3.0])), **chance
    )
    scale = float(10.0 ** rng.uniform(-2, 2)) if rng.random() < 0.3 else 1.0
    if scale != 1.0 or rng.random() < 0.3:
        from tests.solvers.problems import as_images

        dtype = np.float32 if rng.random() < 0.5 else np.float64
        X = (scale * images.rows.X * 10.0 ** rng.uniform(-1, 1, images.rows.X.shape[1])).astype(dtype)
        # As TAEP does by default; the independent solver is given the features as they are.
        images = as_images(X, images.T, images.weights, is_mean=images.is_mean, normalize=not compare)
    started = time.process_time()
    try:
        fit = solve_convex(problem, start(images, problem), tol=tol, max_iter=200)
    except Exception as error:
        return Outcome(seed, f"{type(error).__name__}: {error}", time.process_time() - started, False, False)
    seconds, slack = time.process_time() - started, ROUNDING * max(abs(fit.objective), abs(fit.lower_bound), 1e-6)
    wrong = None
    if not np.isfinite([fit.objective, fit.lower_bound]).all() or fit.lower_bound > fit.objective + slack:
        wrong = f"bound {fit.lower_bound} above objective {fit.objective}"
    if seconds > MOST_SECONDS:
        wrong = f"{seconds:.1f} s at {shape}, beta {beta:.2g}, tol {tol:.2g}"
    compared = False
    if compare and wrong is None:
        try:
            optimum = optimum_over_projections(problem, images)
        except Exception:  # the independent solver gave up
            optimum = None
        if optimum is not None and np.isfinite(optimum):
            compared = True
            if not fit.lower_bound - slack <= optimum * (1 + 1e-5 * np.sign(optimum)) + slack:
                wrong = f"bound {fit.lower_bound} above the optimum {optimum}"
            if fit.objective < optimum - 10 * slack - 1e-5 * abs(optimum):
                wrong = f"objective {fit.objective} below the optimum {optimum}"
    return Outcome(seed, wrong, seconds, fit.relative_gap <= tol, compared)


def main() -> int:
    """Run the command; returns 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=10_000)
    parser.add_argument("--every", type=int, default=10, help="compare one of so many")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    seeds = range(args.seed, args.seed + args.problems)
    found: list[Outcome] = []
    with ProcessPoolExecutor(args.jobs) as pool:
        for one in pool.map(attempt, seeds, [seed % args.every == 0 for seed in seeds], chunksize=20):
            found.append(one)
            if one.wrong is not None:
                print(f"seed {one.seed}: {one.wrong}", flush=True)
    seconds = np.array([one.seconds for one in found])
    n_wrong, n_compared = sum(one.wrong is not None for one in found), sum(one.compared for one in found)
    print(f"{len(found):,} problems, {n_compared:,} compared with an independent solver: {n_wrong} wrong")
    print(f"{sum(one.reached for one in found):,} reached their tolerance; slowest {seconds.max():.2f} s")
    return 1 if n_wrong else 0


if __name__ == "__main__":
    from fuzz.problems import main as run  # a module that processes can import

    sys.exit(run())
