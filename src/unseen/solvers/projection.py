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
from unseen.solvers.dual import DualProblem, DualSolution
from unseen.validation import Matrix

Progress = Callable[[int, float, float], None]  # iteration, objective, lower bound

LOOSEST_INNER_TOL = 0.05
SERIOUS = 0.1  # share of the predicted decrease that makes a trial the new centre
GOLDEN = 0.381966
STAY_COLD, STAY_WARM = 0.5, 2.0  # weight of a step away from the first centre: higher near the solution


@dataclass(frozen=True)
class ProjectionProblem:
    """Minimise ``g(P)`` over the Fantope of the given rank (in coordinates of the span of all label vectors)."""

    C: Matrix  # seen label vectors, (n_seen, k)
    B: Matrix  # regulariser of the projection, (k, k)
    beta: float
    rank: int
    null: int

    def label_kernel(self, P: Matrix) -> Matrix:
        """``K = C P C' + 11'``."""
        K: Matrix = self.C @ P @ self.C.T + 1.0
        return K


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


class _DualPoint(NamedTuple):
    """Summary of a feasible Psi for the planes: ``gain = <Psi, T>``, ``moments = Psi'X``, ``N`` their Gram."""

    gain: float
    moments: Matrix
    N: Matrix

    @classmethod
    def of(cls, duals: DualProblem) -> _DualPoint:
        gain, moments = duals.moments()
        return cls(gain, moments, moments @ moments.T)

    def plane(self, problem: ProjectionProblem) -> fantope.Plane:
        """The plane below g that this Psi gives."""
        height = self.gain - float(self.N.sum()) / (2.0 * problem.beta)
        return height, problem.C.T @ self.N @ problem.C / (2.0 * problem.beta) - problem.B

    def bound(self, problem: ProjectionProblem) -> float:
        """Least value of the plane over the Fantope."""
        height, S = self.plane(problem)
        return height - fantope.support(S, problem.rank, problem.null)


def _best_mixture(a: _DualPoint, b: _DualPoint, problem: ProjectionProblem) -> _DualPoint:
    """Mix two feasible Psi, which gives a third, so that the bound is highest: it is concave along the segment."""
    cross = a.moments @ b.moments.T
    cross = cross + cross.T

    def at(share: float) -> _DualPoint:
        rest = 1.0 - share
        N = rest**2 * a.N + rest * share * cross + share**2 * b.N
        return _DualPoint(rest * a.gain + share * b.gain, a.moments, N)

    low, high = 0.0, 1.0
    for _ in range(12):
        left, right = low + GOLDEN * (high - low), high - GOLDEN * (high - low)
        if at(left).bound(problem) < at(right).bound(problem):
            low = left
        else:
            high = right
    share = max((0.0, 1.0, 0.5 * (low + high)), key=lambda share: at(share).bound(problem))
    return at(share)._replace(moments=(1.0 - share) * a.moments + share * b.moments)


class _Oracle:
    """Evaluates g with warm duals, and keeps the best lower bound that any mixture of duals has given."""

    def __init__(self, problem: ProjectionProblem, duals: DualProblem) -> None:
        self.problem, self.duals = problem, duals
        self.n_epochs = 0
        self.lower_bound = -np.inf
        self._best: _DualPoint | None = None
        self._inner: DualSolution

    def __call__(self, P: Matrix, tol: float) -> tuple[float, fantope.Plane]:
        """Return the objective at P (an upper bound of g(P), tight to ``tol``) and a plane below g."""
        problem = self.problem
        self._inner = self.duals.solve(problem.label_kernel(P), tol)
        self.n_epochs += self._inner.n_epochs
        point = _DualPoint.of(self.duals)
        self._best = point if self._best is None else _best_mixture(self._best, point, problem)
        self.lower_bound = max(self.lower_bound, self._best.bound(problem))
        return self._inner.primal + float(np.vdot(P, problem.B)), point.plane(problem)

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
        point = _DualPoint.of(self.duals)
        energy = float(np.vdot(point.N, self.problem.label_kernel(P))) / self.problem.beta
        self.duals.replace(start.psi * min(1.0, point.gain / energy if energy > 0.0 else 1.0))
        return P

    def scale(self, objective: float) -> float:
        """Scale of relative gaps: the objective, unless the regulariser of P or separable data distort it."""
        data = self._inner.primal  # losses and beta/2 |V|^2
        return max(min(abs(objective), data), 0.1 * data, self.duals.least_scale)

    def relative_gap(self, objective: float) -> float:
        """Gap between an objective (of the last P or an earlier one) and the lower bound."""
        return max(objective - self.lower_bound, 0.0) / self.scale(objective)

    def fit(self, P: Matrix, objective: float, trace: list[float], n_iter: int) -> ProjectionFit:
        gap = self.relative_gap(objective)
        return ProjectionFit(P, self.duals, objective, self.lower_bound, trace, gap, n_iter, self.n_epochs)


def solve_convex(
    problem: ProjectionProblem,
    duals: DualProblem,
    *,
    tol: float,
    max_iter: int,
    progress: Progress | None = None,
    start: Start | None = None,
) -> ProjectionFit:
    """Minimise g over the Fantope to a certified relative gap of ``tol``: a proximal bundle method.

    The model of g is the highest of the planes met so far. A trial that achieves a fair share of the decrease
    that the model predicted becomes the new centre; one that does not still sharpens the model. The objective of
    the centre never rises; with the Psi of inexact inner solves every plane is still a true one.
    """
    oracle = _Oracle(problem, duals)
    centre = oracle.begin(start)
    inner_tol = LOOSEST_INNER_TOL
    objective, plane = oracle(centre, inner_tol)
    stay = STAY_COLD if start is None else STAY_WARM
    weight = stay * float(np.linalg.norm(plane[1])) / np.sqrt(problem.rank) or 1.0
    planes, mix, failures = [plane], np.ones(1), 0
    trace = [objective]
    n_iter = 1
    while oracle.relative_gap(objective) > 0.9 * tol and n_iter < max_iter:
        n_iter += 1
        trial, model = fantope.proximal_step(centre, weight, planes, mix, problem.rank, problem.null)
        predicted = max(objective - model, 0.0)
        gap = min(oracle.relative_gap(objective), predicted / oracle.scale(objective))
        inner_tol = min(inner_tol, max(0.1 * gap, 0.01 * tol))
        trial_objective, plane = oracle(trial, inner_tol)
        gained = objective - trial_objective
        if gained > SERIOUS * predicted:
            centre, objective, failures = trial, trial_objective, 0
            if gained > 0.5 * predicted:
                weight /= 2.0
        else:
            failures += 1
            if failures >= 3:
                weight *= 1.5
        planes, mix = fantope.add_plane(planes, mix, plane)
        trace.append(objective)
        if progress is not None:
            progress(n_iter, objective, oracle.lower_bound)
    if failures > 0:
        # The duals belong to the last trial: re-solve at the centre, at least as accurately as before.
        for closer_tol in (min(inner_tol, 0.1 * tol), 1e-2 * tol, 1e-3 * tol):
            final, _ = oracle(centre, closer_tol)
            if final <= objective:
                break
        objective = final
        trace.append(objective)
    return oracle.fit(centre, objective, trace, n_iter)


def solve_alternating(
    problem: ProjectionProblem, duals: DualProblem, *, tol: float, max_iter: int, progress: Progress | None = None
) -> ProjectionFit:
    """Run the paper's algorithm: solve for Psi, set U to the top-r eigenvectors of S(Psi), and repeat.

    U and Psi start at zero. Step two is the Frank-Wolfe oracle of g taken with step one, so below full rank
    the objective cycles instead of falling; ``trace`` shows it. Stops when the objective is certified to
    ``tol`` or after ``max_iter`` iterations, at the last iterate, as printed.
    """
    oracle = _Oracle(problem, duals)
    P = np.zeros_like(problem.B)
    objective, (_, S) = oracle(P, 0.1 * tol)
    trace: list[float] = []
    while len(trace) < max_iter:
        U = fantope.top_eigenvectors(S, problem.rank, problem.null)
        P = U @ U.T
        objective, (_, S) = oracle(P, 0.1 * tol)
        trace.append(objective)
        if progress is not None:
            progress(len(trace), objective, oracle.lower_bound)
        if oracle.relative_gap(objective) <= tol:
            break
    return oracle.fit(P, objective, trace, len(trace))


def round_to_rank(problem: ProjectionProblem, fit: ProjectionFit, *, tol: float) -> ProjectionFit:
    """Replace P by the projector on its top-r eigenvectors and solve for Psi once more.

    The result is feasible for the paper's own problem, and the lower bound of the convex one holds for it.
    """
    U = fantope.top_eigenvectors(fit.P, problem.rank, problem.null)
    oracle = _Oracle(problem, fit.duals)
    oracle.lower_bound, oracle.n_epochs = fit.lower_bound, fit.n_epochs
    objective, _ = oracle(U @ U.T, 0.1 * tol)
    return oracle.fit(U @ U.T, objective, [*fit.trace, objective], fit.n_iter)
