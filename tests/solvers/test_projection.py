"""Learning the projection: the global optimum with its certificate, and the alternation that cycles."""

from dataclasses import replace

import numpy as np
import pytest
from tests.solvers.problems import as_images, optimum_over_projections, random_problem, solve_at, start

from unseen.solvers import dual
from unseen.solvers.projection import Start, round_to_rank, solve_alternating, solve_convex


def objective_of(problem, images, P, tol=1e-6):
    return solve_at(problem, images, P, tol=tol)[0].primal + np.vdot(P, problem.B)


@pytest.mark.parametrize("seed", range(8))
def test_convex_optimum_equals_a_joint_convex_program(seed):
    problem, images = random_problem(
        seed, n=25, d=4, n_seen=4, n_dims=3, rank=1 + seed % 2, beta=1.0, regulariser=0.3, weighted=seed >= 4
    )
    optimum = optimum_over_projections(problem, images)
    for order in range(2):
        fit = solve_convex(problem, start(images, problem, order), tol=1e-4, max_iter=300)
        assert fit.objective == pytest.approx(optimum, rel=2e-4)
        assert fit.lower_bound <= optimum * (1 + 1e-6) <= fit.objective * (1 + 2e-6)
        assert fit.relative_gap <= 1e-4


@pytest.mark.parametrize("regulariser", [0.0, 1.0])
def test_objective_never_rises_and_the_bound_holds_for_every_projection(regulariser):
    problem, images = random_problem(21, n=60, d=12, n_seen=6, n_dims=7, rank=2, beta=3.0, regulariser=regulariser)
    fit = solve_convex(problem, start(images, problem), tol=1e-3, max_iter=200)
    assert fit.relative_gap <= 1e-3
    assert np.all(np.diff(fit.trace) <= 1e-12 * np.abs(fit.trace[:-1]))
    at_its_duals = fit.duals.solve(problem.label_kernel(fit.P), tol=np.inf).primal + np.vdot(fit.P, problem.B)
    assert at_its_duals == pytest.approx(fit.objective, rel=1e-9)  # also if the last trial failed
    rng = np.random.default_rng(1)
    for _ in range(50):
        U = np.linalg.qr(rng.standard_normal((7, 2)))[0]
        # A loose solve gives a primal value above g: the bound must lie below even the exact one, D.
        assert fit.lower_bound <= objective_of(problem, images, U @ U.T, tol=1e-3)


@pytest.mark.parametrize(
    ("seed", "shape", "tol"),
    [*((seed, {"n": 40, "d": 8, "n_seen": 5, "n_dims": 6, "rank": 1}, 1e-5) for seed in (0, 3, 8)),
     (18, {"n": 60, "d": 12, "n_seen": 6, "n_dims": 7, "rank": 1}, 1e-5),
     (21, {"n": 60, "d": 12, "n_seen": 6, "n_dims": 7, "rank": 2}, 1e-4),
     (10, {"n": 60, "d": 12, "n_seen": 6, "n_dims": 7, "rank": 2}, 1e-4)],
)  # fmt: skip
def test_low_ranks_certify_to_many_digits(seed, shape, tol):
    problem, images = random_problem(seed, **shape, beta=1.0)
    fit = solve_convex(problem, start(images, problem), tol=tol, max_iter=200)
    assert fit.relative_gap <= tol
    assert np.all(np.diff(fit.trace) <= 1e-10 * np.abs(fit.trace[:-1]))
    optimum = optimum_over_projections(problem, images)
    assert fit.lower_bound <= optimum * (1 + 1e-6) <= fit.objective * (1 + 2e-6)


def test_many_labels_have_no_kernel_and_the_same_optimum(monkeypatch):
    problem, images = random_problem(5, n=40, d=6, n_seen=40, n_dims=4, rank=2, beta=1.0)
    dense = solve_convex(problem, start(images, problem), tol=1e-4, max_iter=100)
    monkeypatch.setattr(dual, "MOST_DENSE", 30)
    monkeypatch.setattr(dual.LabelKernel, "K", property(lambda _: pytest.fail("K was formed")))
    by_factor = solve_convex(problem, start(images, problem), tol=1e-4, max_iter=100)
    assert by_factor.relative_gap <= 1e-4
    assert by_factor.lower_bound <= dense.objective
    assert dense.lower_bound <= by_factor.objective


def test_alternation_cycles_below_full_rank_and_the_convex_solver_does_not():
    problem, images = random_problem(0, n=100, d=20, n_seen=6, n_dims=6, rank=2, beta=1.0, learnable=True)
    alternating = solve_alternating(problem, start(images, problem), tol=1e-4, max_iter=30)
    later = np.array(alternating.trace[10:])
    assert np.ptp(later) > 0.01 * later.min()  # still moving after ten iterations
    assert np.any(np.diff(later) > 0)
    convex = solve_convex(problem, start(images, problem), tol=1e-3, max_iter=200)
    assert convex.objective < min(alternating.trace)
    rounded = round_to_rank(problem, convex, tol=1e-3)
    np.testing.assert_allclose(rounded.P @ rounded.P, rounded.P, atol=1e-10)
    assert np.trace(rounded.P) == pytest.approx(2)
    assert rounded.objective >= convex.lower_bound
    assert rounded.objective == pytest.approx(objective_of(problem, images, rounded.P), rel=2e-3)


def test_alternation_is_the_printed_algorithm():
    """Psi to optimality, then U = top-r eigenvectors of S: computed here with plain matrices."""
    problem, images = random_problem(13, n=30, d=6, n_seen=5, n_dims=4, rank=2, beta=2.0, regulariser=0.2)
    problem = replace(
        problem, B=problem.B + 3.0 * np.eye(4)
    )  # of one sign: then tolerances are relative to the loss
    X, C = images.rows.X, problem.C
    for k in range(1, 4):  # two runs have the same first k iterations
        before, after = (
            solve_alternating(problem, start(images, problem), tol=1e-6, max_iter=n) for n in (k, k + 1)
        )
        psi = before.duals.tocsr().toarray()
        U = np.linalg.eigh(C.T @ psi.T @ X @ X.T @ psi @ C / (2 * problem.beta) - problem.B)[1][:, -2:]
        np.testing.assert_allclose(after.P, U @ U.T, atol=1e-8)
        assert after.objective == pytest.approx(objective_of(problem, images, U @ U.T), rel=1e-6)


@pytest.mark.parametrize("max_epochs", [1, 1000])
def test_an_alternation_continues_where_it_stopped(max_epochs):
    problem, images = random_problem(13, n=30, d=6, n_seen=5, n_dims=4, rank=2, beta=2.0)
    options = {"tol": 1e-8, "max_epochs": max_epochs}
    whole = solve_alternating(problem, start(images, problem), max_iter=4, **options)
    duals = start(images, problem)
    trace = solve_alternating(problem, duals, max_iter=1, **options).trace
    for _ in range(3):
        fit = solve_alternating(problem, duals, max_iter=1, start=Start(np.zeros(0), duals.tocsr()), **options)
        trace += fit.trace
    np.testing.assert_allclose(trace, whole.trace, rtol=5e-3)  # thresholds of single rows amplify rounding
    np.testing.assert_allclose(fit.P, whole.P, atol=1e-2)
    assert max_epochs > 1 or whole.n_epochs == 5  # one sweep for each U


@pytest.mark.parametrize("seed", [1390, 1930, 4520])
def test_features_too_large_for_single_precision_are_solved_in_double(seed, monkeypatch):
    problem, images = random_problem(seed, n=20, d=4, n_seen=4, n_dims=3, rank=2, beta=0.02, regulariser=1.0)
    X = (1000.0 * images.rows.X * [0.1, 0.3, 1.0, 3.0]).astype(np.float32)
    fit = solve_convex(problem, start(as_images(X, images.T), problem), tol=1e-4, max_iter=200)
    exact = solve_convex(problem, start(as_images(X.astype(float), images.T), problem), tol=1e-4, max_iter=200)
    assert max(fit.relative_gap, exact.relative_gap) <= 1e-4
    assert fit.lower_bound <= exact.objective
    assert exact.lower_bound <= fit.objective
    monkeypatch.setattr(dual, "MOST_DOUBLED", 0)  # as for a large X: ends soon, with a larger and honest gap
    rough = solve_convex(problem, start(as_images(X, images.T), problem), tol=1e-4, max_iter=200)
    assert rough.relative_gap > 1e-4
    assert rough.n_iter < 60
    assert rough.n_epochs < 5_000
    assert rough.lower_bound <= exact.objective
    assert exact.lower_bound <= rough.objective
