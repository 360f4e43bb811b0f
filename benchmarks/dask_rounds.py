"""What does training on a Dask cluster of two processes cost, against one process with the same cores?

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.dask_rounds

One max-margin problem (a fixed projection) is solved to the same certified gap by the local solver, on one thread,
and by CoCoA+ on a LocalCluster of two processes. Bytes are as reported by the workers. The second table is
the cost of what a worker does in a round, and of the factor of the label kernel, which the client makes once an
iteration over projections: docs/scale.md makes its plans from them.
"""

from __future__ import annotations

import time

import numpy as np
from distributed import Client, LocalCluster
from threadpoolctl import threadpool_limits

from benchmarks._timing import arguments, learnable, show, write_json
from unseen.cluster.fit import (
    ClusterDual,
    StoredDuals,
    advance,
    ascend,
    make_part,
    spread,
    start_round,
    store_images,
    store_targets,
)
from unseen.solvers.dual import LabelKernel, SparseDuals, TrainingImages, kernel_factor, solve_dual
from unseen.solvers.rows import Rows, row_scale

SHAPE = (8_000, 512, 50, 25)  # images, features, seen labels, rank
BETA = 5.0


def forget(dask_worker):
    dask_worker.transfer_incoming_log.clear()


def received(dask_worker):
    return sum(entry["total"] for entry in dask_worker.transfer_incoming_log)


def local(X, T, K, tol: float):
    duals, images = SparseDuals(*T.shape), TrainingImages(Rows(X, row_scale(X, True)), T)
    start = time.perf_counter()
    solution = solve_dual(images, LabelKernel(kernel_factor(K)), BETA, duals, np.random.default_rng(0), tol=tol)
    return solution, time.perf_counter() - start


def on_cluster(client, X, T, K, tol: float):
    parts, _ = spread(X, (T > 0).astype(np.int8), normalize=True, part_size=-(-len(X) // 2), is_mean=False)
    ClusterDual(parts, BETA, np.random.default_rng(0)).solve(LabelKernel(kernel_factor(K)), 0.5)  # compiles
    client.run(forget)
    dual = ClusterDual(parts, BETA, np.random.default_rng(0))
    start = time.perf_counter()
    solution = dual.solve(LabelKernel(kernel_factor(K)), tol)
    seconds = time.perf_counter() - start
    return solution, seconds, max(client.run(received).values())


def cost(n: int, d: int, n_labels: int, rank: int):
    """Microseconds a row of the third round of one part, and seconds for the factor of a label kernel."""
    X, T, K = learnable(n, d, n_labels, rank)
    kernel = LabelKernel(random_factor(n_labels, rank))
    pieces = [store_images(X, 0, X.dtype)], [store_targets(T, 0)]
    part = make_part(*pieces, np.ones(n), 0, True, False, X.dtype)
    last = start_round(part, StoredDuals(SparseDuals(*T.shape).tocsr()))
    V = np.zeros((d, rank + 1), dtype=np.float32)
    kernel.K  # noqa: B018 - made once a worker and iteration
    for k in range(3):
        start = time.thread_time()
        last = ascend(part, last, [0, k], 1.0, V, kernel, BETA, 1.0, 0.0 if k == 0 else 0.5, 1e-3)
        seconds = time.thread_time() - start
        V, _ = advance(V, [last.move], BETA)
    start = time.perf_counter()
    kernel_factor(K)
    return {
        "labels": n_labels, "features": d, "rank": rank, "us a row": 1e6 * seconds / n,
        "duals an image": last.after.nnz / n,
        "s of factor": time.perf_counter() - start,
    }  # fmt: skip


def random_factor(n_labels: int, rank: int):
    C = np.random.default_rng(0).standard_normal((n_labels, rank))
    return np.column_stack([C / np.linalg.norm(C, axis=1, keepdims=True), np.ones(n_labels)])


def median_of(run, rounds: int):
    """The run of median seconds."""
    return sorted((run() for _ in range(rounds)), key=lambda result: result[1])[rounds // 2]


def main() -> None:
    parser = arguments(__doc__, "dask_rounds")
    parser.add_argument("--tol", type=float, default=1e-3)
    args = parser.parse_args()
    X, T, K = learnable(*SHAPE)
    width = SHAPE[3] + 1
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with threadpool_limits(1), LocalCluster(**options) as cluster, Client(cluster) as client:
        local(X, T, K, 0.5)
        here, seconds = median_of(lambda: local(X, T, K, args.tol), args.rounds)
        there, cluster_seconds, sent = median_of(lambda: on_cluster(client, X, T, K, args.tol), args.rounds)
    checks = len(there.trace)
    rows = [
        {"solver": "local", "passes": here.n_epochs, "gaps": len(here.trace), "seconds": seconds,
         "relative gap": here.gap / here.primal, "KB a round and worker": 0.0, "V in KB": 0.0,
         "objective / local": 1.0},
        {"solver": "2 workers", "passes": there.n_epochs, "gaps": checks, "seconds": cluster_seconds,
         "relative gap": there.gap / there.primal, "KB a round and worker": sent / 1e3 / (there.n_epochs + checks),
         "V in KB": SHAPE[1] * width * 4 / 1e3, "objective / local": there.primal / here.primal},
    ]  # fmt: skip
    show(f"{SHAPE[0]} images, d {SHAPE[1]}, {SHAPE[2]} labels, rank {SHAPE[3]}, gap {args.tol:g}", rows)
    with threadpool_limits(1):
        costs = [cost(1000, 2048, n_labels, 100) for n_labels in (925, 7186)]
    show("cost of a round, one thread", costs)
    write_json(args.json, [*rows, *costs])


if __name__ == "__main__":
    main()
