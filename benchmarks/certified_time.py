"""How long until the answer is certified to a relative gap of 1e-3, against other ways to solve the same problem?

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.certified_time [--data DIR]

One projection, all contenders in one process on one thread, each a median of several runs; on PASCAL VOC2007 with
``--data`` (see `benchmarks.voc2007`), else on generated features. Rivals: the same ascent with a general QP solver
for each row (daqp, quadprog), block-coordinate Frank-Wolfe in compiled code, Adam on the primal in torch, which
stops at the objective that we reached (the best of several learning rates, its evaluations not counted), and
the whole dual handed to Clarabel and PIQP, at ``--whole`` images. A rival that needs more than ``--limit`` seconds
is stopped: its ratio is then a lower bound. The last table shows where the time of a row goes.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from benchmarks import _textbook
from benchmarks._timing import arguments, by_turns, learnable, show, write_json
from benchmarks.row_solvers import with_daqp, with_quadprog
from benchmarks.voc2007 import read_voc2007
from unseen.evaluation.protocol import alternating_split, training_view
from unseen.solvers.dual import LabelKernel, SparseDuals, TrainingImages, kernel_factor, solve_dual
from unseen.solvers.rows import Rows, row_scale

LEARNING_RATES = (0.01, 0.03, 0.1)
BATCH = 256
ADAM_LIMIT = 10.0  # seconds, its evaluations not counted


def ours(X, T, K, beta, tol):
    images = TrainingImages(Rows(X, row_scale(X, False)), T)
    return solve_dual(
        images, LabelKernel(kernel_factor(K)), beta, SparseDuals(*T.shape), np.random.default_rng(0), tol=tol
    )


def whole_dual(X, T, K, beta):
    """The dual of all images at once: ``1/2 u'Hu - sum u``, u >= 0, one sum a side and image of at most one."""
    n, n_labels = T.shape
    H = np.kron(X @ X.T / beta, K) * np.outer(T.ravel(), T.ravel()).astype(float)
    images = sp.kron(sp.eye(n), np.ones((1, n_labels)))
    sides = sp.vstack([images.multiply((T.ravel() * side > 0)[None]) for side in (1, -1)], format="csc")
    return H.astype(float), -np.ones(n * n_labels), sides


def with_clarabel(H, f, sides, tol):
    import clarabel

    m, n = sides.shape
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.tol_gap_rel = False, tol
    limits = sp.vstack([-sp.eye(n), sides], format="csc")
    bounds = np.concatenate([np.zeros(n), np.ones(m)])
    upper = sp.csc_matrix(np.triu(H))
    cones = [clarabel.NonnegativeConeT(n + m)]
    return lambda: clarabel.DefaultSolver(upper, f, limits, bounds, cones, settings).solve()


def with_piqp(H, f, sides, tol):
    import piqp

    m, n = sides.shape
    rows = sides.toarray()

    def run():
        solver = piqp.DenseSolver()
        solver.settings.eps_abs = solver.settings.eps_rel = tol
        solver.setup(H, f, None, None, rows, np.full(m, -1e30), np.ones(m), np.zeros(n), np.full(n, 1e30))
        solver.solve()

    return run


def adam(X, T, A, beta, objective, rate):
    """Seconds and passes of Adam until the primal is at most the given objective; the rate falls by 5 % a pass."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    features, factor, targets = torch.tensor(X), torch.tensor(A, dtype=torch.float32), torch.tensor(T)
    V = torch.zeros((X.shape[1], A.shape[1]), requires_grad=True)
    optimiser = torch.optim.Adam([V], lr=rate)

    def loss(rows):
        losses = torch.relu(1.0 - targets[rows] * (features[rows] @ V @ factor.T))
        return (losses * (targets[rows] > 0)).amax(1).sum() + (losses * (targets[rows] < 0)).amax(1).sum()

    spent, passes, value = 0.0, 0, np.inf
    while value > objective and spent < ADAM_LIMIT:
        start = time.perf_counter()
        for rows in torch.randperm(len(X)).split(BATCH):
            optimiser.zero_grad()
            (loss(rows) + 0.5 * beta * len(rows) / len(X) * (V * V).sum()).backward()
            optimiser.step()
        for group in optimiser.param_groups:
            group["lr"] *= 0.95
        spent += time.perf_counter() - start
        passes += 1
        with torch.no_grad():
            value = (loss(slice(None)) + 0.5 * beta * (V * V).sum()).item()
    return spent, passes, value / objective - 1.0


def problem(args):
    """Unit features, targets and label kernel, of VOC2007 or generated."""
    if args.data is None:
        X, T, K = learnable(args.images, args.features, args.labels, args.rank)
    else:
        X, Y, _, _, space = read_voc2007(args.data)
        split = alternating_split(space.names)
        train = training_view(X, Y, split)
        C = space.centered().normalized().select(split.seen_names).vectors
        X, T, K = train.X, np.where(train.Y > 0, 1, -1).astype(np.int8), C @ C.T + 1.0
    return np.ascontiguousarray(X / np.linalg.norm(X, axis=1, keepdims=True), dtype=np.float32), T, K


def several(run, rounds):
    """The run of median seconds; a single one if it takes longer than a minute."""
    results = [run()]
    while len(results) < rounds and results[0][0] < 60.0:
        results.append(run())
    return sorted(results)[len(results) // 2], len(results)


def compare(args):
    X, T, K = problem(args)
    A = kernel_factor(K)
    seconds = by_turns({"unseen": lambda: ours(X, T, K, args.beta, args.tol)}, args.rounds)["unseen"]
    solution = ours(X, T, K, args.beta, args.tol)

    def row(name, result, rounds, mine=seconds, tol=args.tol):
        spent, passes, gap = result
        return {"solver": name, "seconds": spent, "passes": passes, "us a row": 1e6 * spent / passes / len(X),
                "gap": float(gap), "seconds / ours": spent / mine, "finished": bool(gap <= tol),
                "rounds": rounds}  # fmt: skip

    yield row("unseen", (seconds, solution.n_epochs, solution.gap / solution.primal), args.rounds)
    _textbook.bcfw(X[:50], T[:50], A, args.beta, 0.5, 1.0)  # compiles
    yield row("BCFW, compiled",
              *several(lambda: _textbook.bcfw(X, T, A, args.beta, args.tol, args.limit), args.rounds))  # fmt: skip
    for name, build in (("rows by daqp", with_daqp), ("rows by quadprog", with_quadprog)):

        def by_rows(build=build):
            return _textbook.rows_by_qp(X, T, A, K, args.beta, args.tol, args.limit, build)

        yield row(name, *several(by_rows, args.rounds))
    try:
        tried = {rate: adam(X, T, A, args.beta, solution.primal, rate) for rate in LEARNING_RATES}
        best = min(tried, key=lambda rate: (tried[rate][2] > 0.0, tried[rate][0]))
        name = f"Adam, {BATCH} images a step, best rate {best:g}"
        again = several(lambda: adam(X, T, A, args.beta, solution.primal, best), args.rounds)
        yield row(name, *again, tol=0.0)
    except ImportError:
        print("torch is not installed: no row for Adam")


def where_it_goes(args):
    """Microseconds of a row: the products that cannot be avoided, and the general QP solvers alone."""
    X, T, K = problem(args)
    width, visits = kernel_factor(K).shape[1], ours(X, T, K, args.beta, args.tol).n_epochs * len(X)
    V = np.ones((X.shape[1], width), dtype=X.dtype)
    steady, n_rows = K + 1e-9 * np.eye(len(K)), 300
    runs = {
        name: [build(steady, float(x @ x) / args.beta, t, np.zeros(len(t))) for x, t in zip(X, T, strict=True)][
            :n_rows
        ]
        for name, build in (("daqp", with_daqp), ("quadprog", with_quadprog))
    }
    seconds = by_turns(
        {
            "unseen, all of a visit": lambda: ours(X, T, K, args.beta, args.tol),
            "products X V and X'Z alone": lambda: X.T @ (X @ V),
            "daqp alone": lambda: [run() for run in runs["daqp"]],
            "quadprog alone": lambda: [run() for run in runs["quadprog"]],
        },
        args.rounds,
    )
    rows_of = dict(zip(seconds, (visits, len(X), n_rows, n_rows), strict=True))
    each = {name: 1e6 * spent / rows_of[name] for name, spent in seconds.items()}
    ours_us = each["unseen, all of a visit"]
    for name, us in each.items():
        yield {"what": name, "us a row": us, "us / ours": us / ours_us}


def compare_whole(args):
    X, T, K = problem(args)
    keep = np.sort(np.random.default_rng(0).permutation(len(X))[: args.whole])
    X, T = X[keep], T[keep]
    H, f, sides = whole_dual(X, T, K, args.beta)
    seconds = by_turns(
        {"unseen": lambda: ours(X, T, K, args.beta, args.tol), "PIQP": with_piqp(H, f, sides, args.tol),
         "Clarabel": with_clarabel(H, f, sides, args.tol)}, args.rounds,
    )  # fmt: skip
    for name, spent in seconds.items():
        yield {"whole dual by": name, "images": args.whole, "seconds": spent,
               "seconds / ours": spent / seconds["unseen"]}  # fmt: skip


def main() -> None:
    parser = arguments(__doc__, "certified_time")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--images", type=int, default=5011)
    parser.add_argument("--features", type=int, default=2048)
    parser.add_argument("--labels", type=int, default=10)
    parser.add_argument("--rank", type=int, default=10)
    parser.add_argument("--beta", type=float, default=10.0)
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--limit", type=float, default=120.0, help="seconds after which a rival is stopped")
    parser.add_argument("--whole", type=int, default=150, help="images of the whole dual")
    args = parser.parse_args()
    with threadpool_limits(1):
        rows, whole, parts = list(compare(args)), list(compare_whole(args)), list(where_it_goes(args))
    show(f"to a certified relative gap of {args.tol:g}, beta {args.beta:g}", rows)
    show("the whole dual handed to a general solver", whole)
    show("where the time of a row goes", parts)
    write_json(args.json, rows + whole + parts)


if __name__ == "__main__":
    main()
