"""Scores of Dask collections, what counts as one, and the messages without a cluster."""

import os
import sys
from types import SimpleNamespace

import dask.array as da
import distributed
import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from unseen import TAEP, make_tagged_scenes
from unseen.baselines import ESZSL
from unseen.cluster import score
from unseen.cluster.score import is_dask


def test_what_holds_a_dask_graph_is_of_dask():
    X, like_xarray = da.ones((4, 2), chunks=2), SimpleNamespace(__dask_graph__=lambda: None)
    assert [is_dask(x) for x in (X, X.compute(), like_xarray)] == [True, False, False]


@pytest.mark.parametrize("model", [TAEP(rank=4, tol=0.1), ESZSL()], ids=["TAEP", "ESZSL"])
def test_scores_are_mapped_over_the_partitions(model):
    data = make_tagged_scenes(n_train=200, n_test=20, n_features=32)
    X, lazy = data.X_test, da.from_array(data.X_test, chunks=(7, 16))
    with pytest.raises(NotFittedError):
        model.predict(lazy)
    model.fit(data.X_train, data.Y_train[:, data.seen], data.seen_labels, data.unseen_labels)
    for call in (
        lambda X: model.decision_function(X, "all"),
        lambda X: model.predict(X, "unseen", top=3),
        lambda X: model.predict(X),
        lambda X: model.threshold(X),
    ):
        assert call(lazy).shape == call(X).shape
        np.testing.assert_allclose(call(lazy).compute(scheduler="threads"), call(X), atol=1e-5)
    none_left = model.decision_function(lazy[lazy[:, 0] > np.inf], "unseen").compute(scheduler="threads")
    assert none_left.shape == (0, len(data.unseen_labels))
    lists = model.tag(lazy, top=2).compute(scheduler="threads"), model.tag(X, top=2)
    assert len({tuple(tag.name for row in rows for tag in row) for rows in lists}) == 1
    with pytest.raises(ValueError, match=r"^labels: "):
        model.decision_function(lazy, ["no such label"])
    with pytest.raises(ValueError, match=r"^X: "):
        model.predict(lazy[:, 0])


def test_a_cluster_that_does_nothing_or_dies_is_an_error_that_says_so(processes, monkeypatch):
    monkeypatch.setattr(score, "LOOK", 0.1)
    monkeypatch.setattr(score, "PATIENCE", 0.5)
    for_none = processes.submit(abs, -1, workers="127.0.0.1:9")
    with pytest.raises(RuntimeError, match=r"^engine: no worker .*2 workers, 0 paused"):
        score.gathered(processes, [for_none])
    processes.run_on_scheduler(lambda dask_scheduler: setattr(dask_scheduler, "allowed_failures", 0))
    with pytest.raises(RuntimeError, match=r"^engine: 1 worker .* died"):
        score.gathered(processes, [processes.submit(os._exit, 1)])


def test_without_a_cluster_workers_or_dask_the_message_says_what_to_do(monkeypatch):
    model = TAEP(engine="dask")
    with pytest.raises(ValueError, match=r"^engine: .*Client\(\)"):
        model.fit(np.eye(4), np.eye(4))
    with distributed.Client(n_workers=0, processes=False, dashboard_address=":0"):
        with pytest.raises(ValueError, match=r"^engine: .*wait_for_workers"):
            model.fit(np.eye(4), np.eye(4))
        with pytest.raises(ValueError, match=r"^memory: "):
            TAEP(engine="dask", memory="low").fit(np.eye(4), np.eye(4))
        with pytest.raises(ValueError, match=r"^X: .*ESZSL"):
            ESZSL().fit(da.ones((4, 3), chunks=2), np.eye(4))
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"^engine: .*unseen\[dask\]"):
        model.fit(np.eye(4), np.eye(4))
