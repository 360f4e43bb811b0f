"""A Dask cluster of two processes on this machine, for all tests of this folder."""

import pytest

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="session")
def cluster():
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    with distributed.LocalCluster(**options) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    """A client whose workers are there: an earlier test may have killed one."""
    with distributed.Client(cluster) as client:
        client.wait_for_workers(2)
        yield client
