"""How long until the answer is certified to a relative gap of 1e-3, against other ways to solve the same problem?

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.certified_time [--images 5011] [--features 2048]

One projection, all contenders in one process on one thread. Rivals: the same ascent with a general QP solver for
each row (daqp, quadprog), block-coordinate Frank-Wolfe in compiled code, the whole dual handed to Clarabel (at
``--whole`` images, where that still fits), and Adam on the primal in torch, which stops at the objective that we
reached. A rival that needs more than ``--limit`` seconds is stopped: its ratio is then a lower bound.
"""

from __future__ import annotations

import time

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from benchmarks import _textbook
from benchmarks._timing import arguments, by_turns, learnable, show, write_json
from benchmarks.row_solvers import with_daqp, with_quadprog
from unseen.solvers.dual import SparseDuals, kernel_factor, solve_dual
from unseen.solvers.images import as_images


def ours(X, T, K, beta, tol):
    images = as_images(X, normalize=False)
    return solve_dual(images, T, K, beta, SparseDuals(*T.shape), np.random.default_rng(0), tol=tol)


def whole_dual_by_clarabel(X, T, A, beta, tol):
    """Seconds of Clarabel on ``min 1/2 |z|^2 - sum u`` with ``z = X'(T u)A / sqrt(beta)``, u >= 0, caps."""
    import clarabel

    n, n_labels = T.shape
    d, width = X.shape[1], A.shape[1]
    n_u, n_z = n * n_labels, d * width
    columns = np.einsum("id,ic,ck->icdk", X, T, A).reshape(n_u, n_z).T / np.sqrt(beta)
    sides = sp.vstack([sp.kron(sp.eye(n), np.ones((1, n_labels))).multiply(side) for side in
                       ((T.ravel() > 0)[None], (T.ravel() < 0)[None])])  # fmt: skip
    limits = sp.bmat([[sp.csc_matrix(columns), -sp.eye(n_z)], [-sp.eye(n_u), None], [sides, None]], format="csc")
    bounds = np.concatenate([np.zeros(n_z + n_u), np.ones(2 * n)])
    cones = [clarabel.ZeroConeT(n_z), clarabel.NonnegativeConeT(n_u + 2 * n)]
    P = sp.block_diag([sp.csc_matrix((n_u, n_u)), sp.eye(n_z)], format="csc")
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_rel = tol
    start = time.perf_counter()
    clarabel.DefaultSolver(
        P, np.concatenate([-np.ones(n_u), np.zeros(n_z)]), limits, bounds, cones, settings
    ).solve()
    return time.perf_counter() - start


def adam(X, T, A, beta, objective, limit):
    """Seconds and passes of full-batch Adam until the primal is at most the given objective."""
    import torch

    torch.set_num_threads(1)
    features, factor, targets = torch.tensor(X), torch.tensor(A, dtype=torch.float32), torch.tensor(T)
    V = torch.zeros((X.shape[1], A.shape[1]), requires_grad=True)
    optimiser = torch.optim.Adam([V], lr=1e-2)
    start, passes, value = time.perf_counter(), 0, np.inf
    while value > objective and time.perf_counter() - start < limit:
        optimiser.zero_grad()
        losses = torch.relu(1.0 - targets * (features @ V @ factor.T))
        cost = (losses * (targets > 0)).amax(1).sum() + (losses * (targets < 0)).amax(1).sum()
        cost = cost + 0.5 * beta * (V * V).sum()
        cost.backward()
        value = cost.item()
        optimiser.step()
        passes += 1
    return time.perf_counter() - start, passes, value / objective - 1.0


def unit_rows(X):
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def compare(args):
    X, T, K = learnable(args.images, args.features, args.labels, args.rank)
    X, A = unit_rows(X), kernel_factor(K)
    seconds = by_turns({"unseen": lambda: ours(X, T, K, args.beta, args.tol)}, args.rounds)["unseen"]
    solution = ours(X, T, K, args.beta, args.tol)

    def row(name, result, mine=seconds):
        spent, passes, gap = result
        return {"solver": name, "seconds": spent, "passes": passes, "gap": float(gap), "ratio": spent / mine,
                "finished": bool(gap <= args.tol)}  # fmt: skip

    yield row("unseen", (seconds, solution.n_epochs, solution.gap / solution.primal))
    _textbook.bcfw(X[:50], T[:50], A, args.beta, 0.5, 1.0)  # compiles
    yield row("BCFW, compiled", _textbook.bcfw(X, T, A, args.beta, args.tol, args.limit))
    for name, build in (("rows by daqp", with_daqp), ("rows by quadprog", with_quadprog)):
        yield row(name, _textbook.rows_by_qp(X, T, A, K, args.beta, args.tol, args.limit, build))
    try:
        yield row("Adam on the primal (torch)", adam(X, T, A, args.beta, solution.primal, args.limit))
    except ImportError:
        print("torch is not installed: no row for Adam")
    X, T, K = learnable(args.whole, args.whole, args.labels, args.rank)
    X = unit_rows(X)
    mine = by_turns({"unseen": lambda: ours(X, T, K, args.beta, args.tol)}, args.rounds)["unseen"]
    whole = whole_dual_by_clarabel(X, T, kernel_factor(K), args.beta, args.tol)
    yield row(f"whole dual by Clarabel, {args.whole} images and features", (whole, 1, args.tol), mine)


def main() -> None:
    parser = arguments(__doc__, "certified_time")
    parser.add_argument("--images", type=int, default=5011)
    parser.add_argument("--features", type=int, default=2048)
    parser.add_argument("--labels", type=int, default=10)
    parser.add_argument("--rank", type=int, default=10)
    parser.add_argument("--beta", type=float, default=10.0)
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--limit", type=float, default=600.0, help="seconds after which a rival is stopped")
    parser.add_argument("--whole", type=int, default=100, help="images and features of the whole dual")
    args = parser.parse_args()
    with threadpool_limits(1):
        rows = list(compare(args))
    show(f"to a certified relative gap of {args.tol:g}, beta {args.beta:g}", rows)
    write_json(args.json, rows)


if __name__ == "__main__":
    main()
