"""Without a cluster: what to do is said."""

import sys

import numpy as np
import pytest

from unseen import TAEP


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
