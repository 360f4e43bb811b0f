"""Scoring a Dask array or data frame partition by partition; the client of the current cluster."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any

import numpy as np


def is_dask(values: Any) -> bool:
    """Whether this is a Dask array or data frame; an xarray over NumPy, which has the same method, is not."""
    dask = sys.modules.get("dask.base")
    return hasattr(values, "__dask_graph__") and dask is not None and bool(dask.is_dask_collection(values))


def current_client() -> Any:
    """The client of the cluster to work on.

    A task of that cluster that calls this releases its thread: it will wait for other tasks, and if all
    threads waited, those would never run.
    """
    try:
        from distributed import get_client, get_worker, secede
    except ImportError as error:
        raise ImportError(
            f"engine: Dask is needed, which cannot be imported ({error}). Run: pip install 'unseen[dask]'"
        ) from error
    try:
        client = get_client()
    except ValueError:
        raise ValueError(
            "engine: there is no Dask cluster to work on. Make one first: from dask.distributed import Client; "
            "client = Client() for the cores of this machine, or Client(address) for a running cluster."
        ) from None
    with suppress(ValueError):  # not in a task
        get_worker()
        with suppress(KeyError, AttributeError):  # already seceded, or not one of Dask's threads
            secede()
    return client


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
    arrays = [
        da.from_delayed(result, (size, *sample.shape[1:]), sample.dtype)
        for result, size in zip(results, sizes, strict=True)
    ]
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
