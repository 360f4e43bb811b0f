"""Scoring a Dask array or data frame partition by partition; the client of the current cluster."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unseen.validation import counted

if TYPE_CHECKING:
    from unseen.photos.query import Best, Expression
    from unseen.photos.storage import Snapshot

LOOK, PATIENCE = 5.0, 300.0  # seconds between two looks at the workers, and without any work


def is_dask(values: Any) -> bool:
    """Whether this is a Dask array or data frame; an xarray over NumPy, which has the same method, is not."""
    dask = sys.modules.get("dask.base")
    return hasattr(values, "__dask_graph__") and dask is not None and bool(dask.is_dask_collection(values))


def current_client() -> Any:
    """The client of the cluster to work on; a task that asks releases its thread, as it will wait for others."""
    try:
        from distributed import get_client, get_worker, secede
    except ImportError as error:
        raise ImportError(f"engine: Dask is needed ({error}). Run: pip install 'unseen[dask]'") from error
    try:
        client = get_client()
    except ValueError:
        advice = "client = dask.distributed.Client(), or Client(address) for a running cluster"
        raise ValueError(f"engine: there is no Dask cluster to work on. Make one first: {advice}.") from None
    with suppress(ValueError):  # not in a task
        get_worker()
        with suppress(KeyError, AttributeError):  # already seceded, or not one of Dask's threads
            secede()
    return client


def gathered(client: Any, tasks: list[Any]) -> list[Any]:
    """Results of tasks, as soon as all are there; see `wait_for`."""
    from distributed.scheduler import KilledWorker

    wait_for(client, tasks)
    try:
        return list(client.gather(tasks))
    except KilledWorker as error:
        raise RuntimeError(
            f"engine: {counted(error.allowed_failures + 1, 'worker')} of the Dask cluster died at the same task. "
            "If they ran out of memory, give them more, or pass X in smaller chunks."
        ) from error


def wait_for(client: Any, tasks: list[Any]) -> None:
    """Wait until tasks have ended; raises if for `PATIENCE` seconds no worker can run any."""
    from distributed import wait

    last_run = time.monotonic()
    while True:
        with suppress(TimeoutError):
            wait(tasks, timeout=LOOK)
            return
        n_busy, n_paused, n_workers = client.run_on_scheduler(_look)
        if n_busy:
            last_run = time.monotonic()
        elif time.monotonic() - last_run > PATIENCE:
            raise RuntimeError(
                f"engine: no worker of the Dask cluster has run a task for {PATIENCE:g} seconds "
                f"({n_workers} workers, {n_paused} paused as they use most of their memory). "
                "Start workers, give them more memory, or pass X in smaller chunks."
            )


def _look(dask_scheduler: Any) -> tuple[int, int, int]:
    """How many workers have something that they can do, how many are paused, and how many there are.

    Tasks for a lost worker that others may do wait forever in Dask if there was no other at the time: not here.
    """
    workers, running = dask_scheduler.workers.values(), dask_scheduler.running
    stuck = [task.key for task in dask_scheduler.unrunnable if task.loose_restrictions]
    if workers and stuck:
        dask_scheduler.set_restrictions(dict.fromkeys(stuck))
        dask_scheduler.transitions(dict.fromkeys(stuck, "waiting"), "unseen")
    n_busy = sum(bool(worker.executing or (worker.processing and worker in running)) for worker in workers)
    return n_busy, len(workers) - len(running), len(workers)


def share(client: Any, value: Any) -> Any:
    """Future of a value that all workers need; unlike what is scattered, it is not lost with a worker."""
    return client.submit(_same, value, pure=False)


def _same(value: Any) -> Any:
    return value


def known_rows(values: Any, name: str) -> Any:
    """A Dask array or data frame as an array in chunks of whole rows, of known sizes."""
    if hasattr(values, "to_dask_array"):
        values = values.to_dask_array(lengths=True)
    if not hasattr(values, "compute_chunk_sizes"):
        raise ValueError(f"{name}: a Dask {type(values).__name__} was given. Pass an array or a data frame.")
    if np.isnan(values.shape).any():
        values = values.compute_chunk_sizes()
    return values.rechunk({1: -1}) if values.ndim == 2 and values.numblocks[1] > 1 else values


def over_partitions(model: Any, method: str, X: Any, **options: Any) -> Any:
    """Results of a scoring method as a Dask array; for "tag", as a bag with one item per image."""
    import dask.array as da
    import dask.bag as db
    from dask.delayed import delayed

    example, blocks, sizes = _partitions(X)
    sample = getattr(model, method)(example, **options)  # raises now if the options are invalid
    shared, call = delayed(model, pure=False), delayed(_call, pure=False)
    results = [call(shared, method, block, options) for block in blocks]
    if method == "tag":
        return db.from_delayed(results)
    shapes = ((size, *sample.shape[1:]) for size in sizes)
    arrays = [da.from_delayed(*known, sample.dtype) for known in zip(results, shapes, strict=True)]
    return da.concatenate(arrays, allow_unknown_chunksizes=True)


def _partitions(X: Any) -> tuple[Any, list[Any], list[float]]:
    """An example image, the partitions as delayed objects, and their sizes (NaN where unknown)."""
    if hasattr(X, "columns"):
        blocks = X.to_delayed()
        return X._meta_nonempty[:1], blocks, [np.nan] * len(blocks)
    if getattr(X, "ndim", None) != 2 or np.isnan(X.shape[1]):
        raise ValueError(f"X: a Dask {type(X).__name__} was given. Pass a matrix (n_images, n_features).")
    X = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
    return np.ones((1, X.shape[1]), dtype=X.dtype), X.to_delayed().ravel().tolist(), list(X.chunks[0])


def _call(model: Any, method: str, block: Any, options: dict[str, Any]) -> Any:
    if block.shape[0]:
        return getattr(model, method)(block, **options)
    return [] if method == "tag" else getattr(model, method)(np.ones((1, block.shape[1])), **options)[:0]


def best_on_cluster(
    expression: Expression, now: Snapshot, wanted: NDArray[np.bool_], top: int | None, min_p: float,
    part_size: int = 131_072,
) -> Best:  # fmt: skip
    """Run `unseen.photos.query.best_rows` on the workers of the current Dask client."""
    from unseen.photos.query import exact_best, largest, n_candidates

    client, most = current_client(), n_candidates(expression, top)
    shared = share(client, expression)
    widths = (now.features.shape[1], 0 if now.classes is None else now.classes.shape[1])
    tasks = [
        client.submit(_best_part, shared, now.files, widths, start, wanted[start : start + part_size],
                      top, min_p, most, pure=False)
        for start in range(0, len(wanted), part_size)
    ]  # fmt: skip
    best = _joined(gathered(client, tasks))
    if most is None:
        return best.first(top)
    rows = best.rows[largest(best.scores, most)]
    return exact_best(expression, now.features, now.classes, rows, top, min_p)


def _best_part(
    expression: Expression, files: tuple[Path, Path], widths: tuple[int, int], first: int,
    wanted: NDArray[np.bool_], top: int | None, min_p: float, most: int | None, block: int = 8192,
) -> Best:  # fmt: skip
    """The best of the rows from the first one on; with ``most``, so many candidates by their rough scores."""
    from unseen.photos.query import Best, exact_best, largest, rough_best

    found = []
    for start in range(0, len(wanted), block):
        n_rows = len(wanted[start : start + block])
        rows = np.flatnonzero(wanted[start : start + block])

        def read(which: int, place: int = first + start, n: int = n_rows) -> Any:
            values = np.fromfile(files[which], np.uint8, n * widths[which], offset=place * widths[which])
            return values.reshape(n, widths[which])

        form = expression.query.form
        in_use = form.evidence is not None if most and form else expression.query.needs_classes
        classes = read(1) if in_use and widths[1] else None
        if most is None:
            best = exact_best(expression, read(0), classes, rows, top, min_p)
        else:
            best = Best(*rough_best(expression, read(0), classes, rows, most), None)
        found.append(best._replace(rows=best.rows + first + start))
    best = _joined(found)
    if most is None:
        return best.first(top)
    chosen = largest(best.scores, most)
    return Best(best.rows[chosen], best.scores[chosen], None)


def _joined(parts: list[Best]) -> Best:
    p = [part.p for part in parts if part.p is not None]
    rows, scores = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
    return parts[0]._replace(rows=rows, scores=scores, p=np.concatenate(p) if p else None)
