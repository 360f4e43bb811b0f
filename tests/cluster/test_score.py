"""What is taken for Dask's, and what is said to do without a cluster."""

import sys

import numpy as np
import pytest

from unseen import TAEP
from unseen.cluster.score import is_dask


class Wrapped:
    """As an xarray: it can hold a Dask array, or another."""

    def __init__(self, graph):
        self._graph = graph

    def __dask_graph__(self):
        return self._graph


@pytest.mark.parametrize(("graph", "is_lazy"), [(None, False), ({"x": 1}, True)])
def test_what_holds_no_dask_graph_is_not_of_dask(graph, is_lazy):
    pytest.importorskip("dask")
    assert is_dask(Wrapped(graph)) is is_lazy


def test_arrays_and_data_frames_of_dask_are_known():
    da = pytest.importorskip("dask.array")
    X = da.ones((4, 2), chunks=2)
    assert is_dask(X)
    assert not is_dask(X.compute())


def test_without_a_cluster_the_message_says_how_to_make_one():
    distributed = pytest.importorskip("distributed")
    with pytest.raises(ValueError, match="No clients found"):
        distributed.default_client()  # or this test would prove nothing
    with pytest.raises(ValueError, match=r"^engine: there is no Dask cluster.*Client\(\)"):
        TAEP(engine="dask").fit(np.eye(4), np.eye(4))


def test_without_dask_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"^engine: .*unseen\[dask\]"):
        TAEP(engine="dask").fit(np.eye(4), np.eye(4))
