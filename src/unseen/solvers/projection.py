"""Learning the label projection: the convex problem over the Fantope, and the paper's alternation.

For a fixed P the fit costs ``g(P) = max over Psi of <Psi, T> - tr(N (C P C' + 11')) / (2 beta) + <P, B>`` with
``N = Psi' X X' Psi``, C the seen label vectors and B the regulariser of the projection. g is convex, and each Psi,
optimal or not, gives a plane below it: ``g(P) >= height - <S, P>`` with ``S = C'NC / (2 beta) - B``. The least
value of that plane over the Fantope, ``height - (sum of the r largest eigenvalues of S)``, is a lower bound of the
objective of *every* projection, whatever its U: the certificate of the whole fit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from unseen.solvers import fantope
from unseen.solvers.dual import MAX_EPOCHS, DualProblem, LabelKernel
from unseen.validation import Matrix

Progress = Callable[[int, float, float], None]  # iteration, objective, lower bound

LOOSEST_INNER_TOL = 0.05
SERIOUS = 0.03  # share of the predicted decrease that makes a trial the new centre
ALONE = 0.999  # share of one Psi in the mixture of a trial: the model was a plane, so the step can be longer
INNER_SHARE = 0.8  # accuracy of an evaluation, as a share of the predicted decrease
LEAST_PREDICTED = 0.1  # share of the gap that a trial must promise, else the proximal weight is too high
MAX_RELAXED = 8  # times that it is lowered for one trial
MAX_SHORT = 10  # evaluations short of their accuracy, while the gap has not fallen by a tenth, that end a fit
STAY_COLD, STAY_WARM = 0.5, 5.0  # weight of a step away from the first centre: higher near the solution


@dataclass(frozen=True)
class ProjectionProblem:
    """Minimise ``g(P)`` over the Fantope of the given rank (in coordinates of the span of all label vectors)."""

    C: Matrix  # seen label vectors, (n_seen, k)
    B: Matrix  # regulariser of the projection, (k, k)
    beta: float
    rank: int
    null: int

    def label_kernel(self, P: Matrix) -> LabelKernel:
        """``K = C P C' + 11'``."""
        weights, vectors = np.linalg.eigh(P)
        root = vectors[:, weights > 0.0] * np.sqrt(weights[weights > 0.0])
        return LabelKernel.thin(_with_ones(self.C @ root))

    def point(self, duals: DualProblem) -> fantope.Point:
        """The current Psi: its gain ``<Psi, T>`` and ``R = [C, 1]' Psi'X / sqrt(beta)``."""
        gain, moments = duals.moments(_with_ones(self.C))
        return fantope.Point(gain, moments / np.sqrt(self.beta))


def _with_ones(C: Matrix) -> Matrix:
    """``[C, 1]``: the last column is for the threshold of an image, which all labels share."""
    return np.column_stack([C, np.ones(len(C))])


class Start(NamedTuple):
    """Starting point: a projection and its duals, from this problem or a similar one."""

    P: Matrix
    psi: sp.csr_array


@dataclass
class ProjectionFit:
    """A projection with its duals, and bounds on its quality."""

    P: Matrix
    duals: DualProblem
    objective: float
    lower_bound: float
    trace: list[float]
    relative_gap: float  # certified distance of the objective to the global optimum, see `_Oracle.scale`
    n_iter: int
    n_epochs: int


class _Oracle:
    """Evaluates g with warm duals, and keeps the best lower bound that any plane has given."""

    def __init__(self, problem: ProjectionProblem, duals: DualProblem, max_epochs: int = MAX_EPOCHS) -> None:
        self.problem, self.duals, self._max_epochs = problem, duals, max_epochs
        self.n_epochs = 0
        self.lower_bound = -np.inf
        self.first: list[fantope.Point] = []  # Psi of the start
        self.is_short = False  # the last evaluation did not reach its accuracy
        self._inner_scale = 1.0  # `scale` as a share of what the gaps of inner problems are relative to

    def __call__(self, P: Matrix, tol: float) -> tuple[float, fantope.Point]:
        """Return the objective at P, at most ``tol * scale`` above g(P), and the Psi found."""
        problem = self.problem
        inner_tol = tol * self._inner_scale
        inner = self.duals.solve(problem.label_kernel(P), inner_tol, self._max_epochs)
        self.n_epochs += inner.n_epochs
        self.is_short = inner.gap > inner_tol * max(inner.primal, self.duals.least_scale)
        objective = inner.primal + float(np.vdot(P, problem.B))
        self._inner_scale = self.scale(P, objective) / max(inner.primal, self.duals.least_scale)
        point = problem.point(self.duals)
        self.raise_bound(point.plane(problem.B))
        return objective, point

    def raise_bound(self, plane: fantope.Plane) -> None:
        """Use the least value of a plane over the Fantope, if it is higher."""
        height, S = plane
        least = height - fantope.support(S, self.problem.rank, self.problem.null)
        self.lower_bound = max(self.lower_bound, least)

    def begin(self, start: Start | None) -> Matrix:
        """The first centre: by default a projection on the directions in which the seen labels differ most.

        The duals of a start are shortened to the best multiple at this beta (a longer one might break a cap).
        """
        rank, null = self.problem.rank, self.problem.null
        if start is None:
            scatter = self.problem.C.T @ self.problem.C
            scatter *= rank / np.linalg.norm(scatter, 2)
            return fantope.project(scatter, rank, null)
        P = fantope.project(start.P, rank, null)
        self.duals.replace(start.psi)
        point = self.problem.point(self.duals)
        height, S = point.plane(self.problem.B)
        energy = 2.0 * (point.gain - height + float(np.vdot(S + self.problem.B, P)))
        length = min(1.0, point.gain / energy if energy > 0.0 else 1.0)
        self.duals.shorten(length)
        self.first = [fantope.Point(length * point.gain, length * point.R)]
        return P

    def scale(self, P: Matrix, objective: float) -> float:
        """Scale of relative gaps: the objective, unless the regulariser of P or separable data distort it."""
        data = objective - float(np.vdot(P, self.problem.B))  # losses and beta/2 |V|^2
        return max(min(abs(objective), data), 0.1 * data, self.duals.least_scale)

    def relative_gap(self, P: Matrix, objective: float) -> float:
        """Gap between the objective at P and the lower bound."""
        return max(objective - self.lower_bound, 0.0) / self.scale(P, objective)

    def fit(self, P: Matrix, objective: float, trace: list[float], n_iter: int) -> ProjectionFit:
        gap = self.relative_gap(P, objective)
        return ProjectionFit(P, self.duals, objective, self.lower_bound, trace, gap, n_iter, self.n_epochs)


def solve_convex(
    problem: ProjectionProblem, duals: DualProblem, *, tol: float, max_iter: int,
    progress: Progress | None = None, start: Start | None = None,
) -> ProjectionFit:  # fmt: skip
    """Minimise g over the Fantope to a certified relative gap of ``tol``: a proximal bundle method.

    The model of g is the highest of the planes met so far. A trial that achieves a fair share of the decrease
    that the model predicted becomes the new centre, whose objective never rises. Stops after ``max_iter`` trials,
    or when the duals of trials can no longer be solved for to the accuracy that progress needs.
    """
    oracle = _Oracle(problem, duals)
    centre, inner_tol = oracle.begin(start), LOOSEST_INNER_TOL
    objective, point = oracle(centre, inner_tol)
    restore = duals.snapshot()
    stay = STAY_COLD if start is None else STAY_WARM
    weight = stay * float(np.linalg.norm(point.plane(problem.B)[1])) / np.sqrt(problem.rank) or 1.0
    bundle, failures = fantope.Bundle(problem.B, problem.rank, problem.null), 0
    for known in (*oracle.first, point):
        bundle.add(known)
    trace = [objective]
    n_iter, n_short, least_gap = 1, 0, oracle.relative_gap(centre, objective)
    while oracle.relative_gap(centre, objective) > tol and n_iter < max_iter and n_short < MAX_SHORT:
        for _ in range(MAX_RELAXED):
            trial, model = bundle.proximal_step(centre, weight)
            oracle.raise_bound(bundle.plane())
            if objective - model >= LEAST_PREDICTED * (objective - oracle.lower_bound):
                break
            weight /= 4.0
        if oracle.relative_gap(centre, objective) <= tol:
            break
        n_iter += 1
        predicted = max(objective - model, 0.0)
        gap = min(oracle.relative_gap(centre, objective), predicted / oracle.scale(centre, objective))
        inner_tol = min(inner_tol, max(INNER_SHARE * gap, 0.01 * tol))
        trial_objective, point = oracle(trial, inner_tol)
        gained = objective - trial_objective
        if gained > SERIOUS * predicted:
            centre, objective, failures, restore = trial, trial_objective, 0, duals.snapshot()
            if gained > 0.5 * predicted or bundle.mix.max() > ALONE:
                weight /= 2.0
        else:
            failures += 1
            if failures >= 3:
                weight *= 1.5
        n_short += oracle.is_short
        if oracle.relative_gap(centre, objective) < 0.9 * least_gap:
            n_short, least_gap = 0, oracle.relative_gap(centre, objective)
        bundle.add(point)
        trace.append(objective)
        if progress is not None:
            progress(n_iter, objective, oracle.lower_bound)
    restore()  # the duals may belong to a trial that failed
    return oracle.fit(centre, objective, trace, n_iter)


def solve_alternating(
    problem: ProjectionProblem, duals: DualProblem, *, tol: float, max_iter: int, max_epochs: int = MAX_EPOCHS,
    progress: Progress | None = None, start: Start | None = None,
) -> ProjectionFit:  # fmt: skip
    """Run the paper's algorithm: solve for Psi, set U to the top-r eigenvectors of S(Psi), and repeat.

    U and Psi start at zero, or continue from the Psi of an earlier run. Psi is solved for to the end, or gets one
    sweep per update of U (``max_epochs=1``). Below full rank the objective cycles instead of falling. Stops when
    it is certified to ``tol`` or after ``max_iter`` iterations, at the last iterate, as printed.
    """
    oracle = _Oracle(problem, duals, max_epochs)
    P = np.zeros_like(problem.B)
    if start is None:
        objective, point = oracle(P, 0.1 * tol)
    else:
        duals.replace(start.psi)
        point = problem.point(duals)
    trace: list[float] = []
    while len(trace) < max_iter:
        U = fantope.top_eigenvectors(point.plane(problem.B)[1], problem.rank, problem.null)
        P = U @ U.T
        objective, point = oracle(P, 0.1 * tol)
        trace.append(objective)
        if progress is not None:
            progress(len(trace), objective, oracle.lower_bound)
        if oracle.relative_gap(P, objective) <= tol:
            break
    return oracle.fit(P, objective, trace, len(trace))


def round_to_rank(problem: ProjectionProblem, fit: ProjectionFit, *, tol: float) -> ProjectionFit:
    """Replace P by the projector on its top-r eigenvectors, a point of the paper's problem; solve for Psi."""
    U = fantope.top_eigenvectors(fit.P, problem.rank, problem.null)
    oracle = _Oracle(problem, fit.duals)
    oracle.lower_bound, oracle.n_epochs = fit.lower_bound, fit.n_epochs
    objective, _ = oracle(U @ U.T, 0.1 * tol)
    return oracle.fit(U @ U.T, objective, [*fit.trace, objective], fit.n_iter)
