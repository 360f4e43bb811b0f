"""A Dask cluster of processes on this machine, and a client that runs every task at once."""

import os
import signal
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from unseen.cluster import partitions
from unseen.cluster.distributed import Parts
from unseen.cluster.partitions import Partition
from unseen.solvers.dual import least_scale
from unseen.solvers.images import as_images


@contextmanager
def processes(n_workers=2):
    distributed = pytest.importorskip("distributed")
    options = {"threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with (
        distributed.LocalCluster(n_workers=n_workers, **options) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


class Done:
    """The result of a task, as a future."""

    def __init__(self, value):
        self.value = value

    def result(self):
        return self.value


class AtOnce:
    """What the solver needs of a client, without a cluster."""

    def submit(self, function, *arguments, pure):
        return Done(function(*self.gather(arguments)))

    def gather(self, futures):
        if isinstance(futures, Done):
            return futures.value
        return type(futures)(map(self.gather, futures)) if type(futures) in (list, tuple) else futures


def parts_at_once(X, T, n_parts, *, normalize=False):
    """Images cut into parts, on the client that runs every task at once."""
    bounds = [len(X) * k // n_parts for k in range(n_parts + 1)]
    slices = [slice(a, b) for a, b in pairwise(bounds)]
    futures = [Done(Partition(as_images(X[rows], normalize=normalize), T[rows])) for rows in slices]
    sizes = [rows.stop - rows.start for rows in slices]
    return Parts(
        AtOnce(), futures, [None] * n_parts, sizes, X.shape[1], T.shape[1], X.dtype, len(X), least_scale(T)
    )


def dying_once(flag, in_round):
    """`ascend`, but the first worker that comes to a certain round is killed there."""
    original, killed = partitions.ascend, str(flag)

    def ascend(part, last, seed, *rest):
        if seed[1] == in_round:
            try:
                Path(killed).touch(exist_ok=False)
                os.kill(os.getpid(), signal.SIGKILL)
            except FileExistsError:
                pass
        return original(part, last, seed, *rest)

    return ascend
