"""Dask clusters on this machine: workers in threads, and in processes that can be killed."""

import pytest

distributed = pytest.importorskip("distributed")
TWO = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}


@pytest.fixture(scope="module")
def client():
    with distributed.Client(**TWO, processes=False) as client:
        yield client


@pytest.fixture
def processes():
    with distributed.Client(**TWO) as client:
        client.wait_for_workers(2)
        yield client
