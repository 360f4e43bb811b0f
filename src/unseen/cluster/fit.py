"""Training images for a Dask cluster, in parts that are validated where they are."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import check_array

from unseen.cluster.distributed import Parts
from unseen.cluster.partitions import Partition, writeable
from unseen.cluster.score import current_client, is_dask, known_rows
from unseen.solvers.dual import least_scale
from unseen.solvers.images import as_images
from unseen.validation import Annotations, axis_names, check_annotations, check_targets

Targets = NDArray[np.int8]


class _Blocks(NamedTuple):
    """Consecutive rows of a matrix, in memory here or futures, and how many each has."""

    blocks: list[Any]
    sizes: list[int]


class _Summary(NamedTuple):
    """What the client has to know of a part."""

    n_images: int
    n_annotated: int
    least_scale: float
    n_positive: int


def spread(X: Any, Y: Any, *, normalize: bool, part_size: int) -> tuple[Parts, Annotations]:
    """Put images and targets on the workers of the current cluster, in parts of about ``part_size`` images.

    X is a validated matrix of this machine, or a Dask array as `known_rows` returns it. The targets that are
    returned are those of no image: the others are on the workers.
    """
    client = current_client()
    if not client.nthreads():
        raise ValueError("engine: the Dask cluster has no workers. Wait for some: client.wait_for_workers(1)")
    # Parts follow from the data and the parameter alone: workers come and go.
    n_parts = max(-(-X.shape[0] // part_size), 1)
    images = _dask_blocks(client, X) if is_dask(X) else _cut(X, _even(X.shape[0], n_parts))
    n_images = sum(images.sizes)
    if n_images == 0:
        raise ValueError("X: it has no rows. Pass at least one image.")
    Y, annotations = _check_targets(Y, n_images)
    targets = _dask_blocks(client, Y.rechunk((tuple(images.sizes), -1))) if is_dask(Y) else _cut(Y, images.sizes)
    dtype = np.dtype(np.float32 if X.dtype == np.float32 else np.float64)
    # Parts of a matrix of this machine go to the workers in turn; those of Dask stay where Dask has put them.
    workers = [] if is_dask(X) else list(client.nthreads())
    starts = np.cumsum([0, *images.sizes])
    futures = [
        _submit(
            client, workers[k % len(workers)] if workers else None, make_part, [images.blocks[b] for b in group],
            [targets.blocks[b] for b in group], is_dask(Y), int(starts[group[0]]), normalize, dtype,
        )
        for k, group in enumerate(_grouped(images.sizes, n_parts))
    ]  # fmt: skip
    summaries = client.gather(client.map(_summary, futures, pure=False))
    holders = client.who_has(futures)  # in an order of its own
    homes = [min(holders[future.key], default=None) for future in futures]
    if not any(summary.n_positive for summary in summaries):
        check_targets(np.zeros((1, 1)), "Y")  # says that there is nothing to learn
    n_seen = annotations.T.shape[1]
    parts = Parts(
        client, futures, homes, [summary.n_images for summary in summaries], X.shape[1], n_seen, dtype,
        sum(summary.n_annotated for summary in summaries), sum(summary.least_scale for summary in summaries),
    )  # fmt: skip
    return parts, annotations


def _dask_blocks(client: Any, matrix: Any) -> _Blocks:
    return _Blocks(client.compute(matrix.to_delayed().ravel().tolist()), [int(size) for size in matrix.chunks[0]])


def _cut(matrix: Any, sizes: list[int]) -> _Blocks:
    edges = np.cumsum([0, *sizes])
    return _Blocks([matrix[start:stop] for start, stop in pairwise(edges)], sizes)


def _even(n_images: int, n_parts: int) -> list[int]:
    edges = np.linspace(0, n_images, min(n_parts, n_images) + 1).astype(int)
    return [int(size) for size in np.diff(edges)]


def _grouped(sizes: Sequence[int], n_parts: int) -> list[list[int]]:
    """Consecutive chunks of about as many rows for each part; empty chunks are left out."""
    held = [chunk for chunk, size in enumerate(sizes) if size]
    rows = np.array([sizes[chunk] for chunk in held])
    middles = np.cumsum(rows) - 0.5 * rows
    part_of = np.minimum(middles * n_parts / rows.sum(), n_parts - 1).astype(int)
    return [[held[i] for i in np.flatnonzero(part_of == part)] for part in np.unique(part_of)]


def _check_targets(Y: Any, n_images: int) -> tuple[Any, Annotations]:
    """Annotations that stay on the cluster, or the targets of those that are here; and what the labels are."""
    names = axis_names(Y.columns, "Y") if hasattr(Y, "columns") else None
    Y = known_rows(Y, "Y") if is_dask(Y) else Y
    if not is_dask(Y) or Y.ndim != 2:
        # Which classes a vector has is found by looking at all of it.
        annotations = check_annotations(Y.compute() if is_dask(Y) else Y, n_images)
        return annotations.T, annotations._replace(T=annotations.T[:0])
    if Y.shape[0] != n_images:
        raise ValueError(
            f"Y: inconsistent with X, its shape is {Y.shape} for {n_images} images. Pass one row an image."
        )
    return Y, Annotations(np.empty((0, Y.shape[1]), dtype=np.int8), names, None)


def _submit(client: Any, home: str | None, *task: Any) -> Any:
    """A task for a certain worker, or for another if that is lost; it may carry a part of X."""
    import dask

    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 PB"}):
        return client.submit(*task, pure=False, workers=home, allow_other_workers=home is not None)


def make_part(
    X_blocks: list[Any],
    Y_blocks: list[Any],
    is_raw: bool,
    first: int,
    normalize: bool,
    dtype: np.dtype[Any],
) -> Partition:
    """Validate the images, and the annotations if they are raw, of one part; ``first`` is its first row."""
    try:
        X = check_array(_stacked(X_blocks), accept_sparse="csr", dtype=dtype, order="C", input_name="X")
        if sp.issparse(X):
            X = sp.csr_array(X, copy=True)
            X.sum_duplicates()
        else:
            X = writeable(X)
        T = np.vstack([_targets(block) for block in Y_blocks] if is_raw else Y_blocks)
        return Partition(as_images(X, normalize=normalize), T)
    except ValueError as error:
        raise ValueError(f"{error} (In the part that begins at row {first}.)") from None


def _stacked(blocks: list[Any]) -> Any:
    if len(blocks) == 1:
        return blocks[0]
    return sp.vstack(blocks, format="csr") if sp.issparse(blocks[0]) else np.concatenate(blocks)


def _targets(block: Any) -> Targets:
    relevant, known = check_targets(block, "Y", need_positive=False)
    T = np.where(np.ascontiguousarray(relevant), np.int8(1), np.int8(-1))
    if known is not None:
        T[~known] = 0
    return T


def _summary(part: Partition) -> _Summary:
    T = part.T
    return _Summary(len(T), int(T.any(axis=1).sum()), least_scale(T), int(np.count_nonzero(T > 0)))
