"""Training on a cluster: the certificate of one machine, whatever the parts and whatever dies."""

import mmap
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import dask.array as da
import distributed
import numpy as np
import psutil
import pytest
import scipy.sparse as sp
from distributed.protocol import deserialize_bytes
from distributed.protocol.serialize import serialize_bytelist
from tests.solvers.problems import as_images, assert_feasible, certified_alike, optimum_at, random_problem

from unseen import TAEP, make_tagged_scenes
from unseen.cluster import fit, score
from unseen.cluster.fit import ClusterDual, spread
from unseen.solvers.dual import LabelKernel

OPTIONS = {"rank": 4, "beta": 10.0, "scaling": "paper", "tol": 2e-3, "part_size": 200}
I4 = np.eye(4)


@pytest.fixture(scope="module")
def data():
    """Images with many zeros, annotations with unknown entries, seen and unseen labels."""
    scenes = make_tagged_scenes(n_train=400, n_test=20, n_features=32)
    Y = scenes.Y_train[:, scenes.seen].astype(float)
    Y[np.random.default_rng(0).random(Y.shape) < 0.1] = np.nan
    return np.where(scenes.X_train > 0.5, scenes.X_train, 0.0), Y, scenes.seen_labels, scenes.unseen_labels


@pytest.fixture(scope="module")
def local(data):
    return TAEP(**OPTIONS).fit(*data)


def dual_on(images, beta, part_size):
    Y = np.where(images.T == 0, np.nan, images.T > 0)
    options = {"part_size": part_size, "is_mean": images.is_mean, "weights": images.weights}
    parts, _ = spread(images.rows.X, Y, normalize=False, **options)
    return ClusterDual(parts, beta, np.random.default_rng(0))


@pytest.mark.parametrize(("part_size", "is_mean"), [(60, False), (30, False), (12, False), (30, True), (12, True)])
def test_parts_reach_the_optimum_of_an_independent_solver_and_the_dual_never_falls(
    client, part_size, is_mean, monkeypatch
):
    monkeypatch.setattr(fit, "CHECK_EVERY", 2)
    monkeypatch.setattr(fit, "CHECKPOINT_EVERY", 2)
    problem, images = random_problem(part_size, n=60, d=8, n_seen=6, beta=30.0, weighted=True)
    X = images.rows.X + 1.0  # all parts pull in one direction
    images = as_images(X, images.T, images.weights, is_mean=is_mean)
    dual = dual_on(images, problem.beta, part_size)
    solution = dual.solve(problem.label_kernel(I4), tol=1e-2)
    assert solution.gap <= 1e-2 * solution.primal
    assert solution.dual <= optimum_at(problem, images, I4) * (1 + 1e-7) <= solution.primal
    assert np.all(np.diff([value for _, value in solution.trace]) >= -1e-9 * solution.primal)
    assert_feasible(dual.tocsr().toarray(), images)


def test_a_round_moves_one_v_per_worker_and_neither_images_nor_duals(processes):
    problem, images = random_problem(1, n=4000, d=50, n_seen=6, beta=300.0)
    dual = dual_on(images, problem.beta, 2000)
    distributed.wait(dual._rounds)
    processes.run(lambda dask_worker: dask_worker.transfer_incoming_log.clear())
    dual.solve(problem.label_kernel(I4), 1e-4)
    logs = processes.run(lambda dask_worker: [entry["keys"] for entry in dask_worker.transfer_incoming_log])
    sizes = [size for log in logs.values() for keys in log for size in keys.values()]
    assert dual.n_rounds > 3
    assert sizes
    assert max(sizes) <= 50 * 5 * 8 + 1000  # d x (r + 1) numbers; a part of X has 2000 x 50


@pytest.mark.skipif(not hasattr(mmap, "MADV_DONTNEED"), reason="the system keeps pages as it likes")
def test_workers_keep_images_targets_and_duals_on_disk(processes):
    def in_memory(n):
        X = da.random.default_rng(0).random((n, 1024), chunks=(1000, -1), dtype=np.float32)
        Y = np.arange(n)[:, None] % 300 == np.arange(300)
        parts, _ = spread(X, da.from_array(Y, chunks=(1000, -1)), normalize=True, part_size=n // 8, is_mean=True)
        assert parts.dtype == np.float32
        dual = ClusterDual(parts, 1e4, np.random.default_rng(0))
        assert dual.solve(LabelKernel(np.eye(300)[:, :4]), 0.5).n_epochs > 0
        return sum(processes.run(lambda: psutil.Process().memory_info().rss).values())

    few = in_memory(2 * 4096)
    assert in_memory(40_000) - few < 80e6  # X has 164 MB, Y 12 MB, the duals of a round up to 432 MB


def test_what_dask_moves_is_a_file_again(data):
    X, T, weights = data[0].astype(np.float32), np.where(data[1] > 0, 1, -1).astype(np.int8), np.ones(400)
    pieces = [fit.store_images(X, 0, X.dtype)], [fit.store_targets(T, 0)]
    part = fit.make_part(*pieces, weights, 0, True, False, X.dtype)
    again = deserialize_bytes(b"".join(serialize_bytelist(part)))
    assert isinstance(again.rows._source, np.memmap)
    np.testing.assert_array_equal(again.rows.X, X)
    np.testing.assert_array_equal(again.T, T)


@pytest.mark.parametrize("loses_all", [False, True])
def test_a_fit_that_loses_workers_is_as_good(processes, data, local, tmp_path, monkeypatch, loses_all):
    original, killed = fit.ascend, str(tmp_path / "killed")
    others = [*processes.run(os.getpid).values()] if loses_all else []

    def dying_once(part, last, seed, *rest):
        with suppress(FileExistsError):
            if seed[1] == 5:  # the round
                Path(killed).touch(exist_ok=False)
                for pid in sorted([*others, os.getpid()], key=os.getpid().__eq__):  # this one last
                    os.kill(pid, signal.SIGKILL)
        return original(part, last, seed, *rest)

    monkeypatch.setattr(fit, "ascend", dying_once)
    monkeypatch.setattr(score, "LOOK", 0.2)
    survived = TAEP(**OPTIONS, engine="dask").fit(*data)
    assert Path(killed).exists()
    certified_alike(survived, local)


def unknown_chunks(X, Y):
    with_empty = np.vstack([np.full((90, 32), -np.inf), X])  # the first chunk becomes empty
    lazy = da.from_array(with_empty, chunks=(90, 20))
    return lazy[lazy[:, 0] > -np.inf], da.from_array(Y, chunks=(150, 5))


def sparse_chunks(X, Y):
    return da.from_array(X, chunks=(150, 32)).map_blocks(sp.csr_array), Y


def data_frames(X, Y):
    pandas, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    frame = pandas.DataFrame(X, columns=[f"f{i}" for i in range(32)])
    return dd.from_pandas(frame, npartitions=3), dd.from_pandas(pandas.DataFrame(Y), npartitions=2)


@pytest.mark.parametrize("store", [lambda X, Y: (sp.csr_array(X), Y), unknown_chunks, sparse_chunks, data_frames])
def test_any_storage_is_trained_on_and_warm_starts(client, data, local, store):
    X, Y = store(*data[:2])
    model = TAEP(**OPTIONS, engine="dask", warm_start=True).fit(X, Y, *data[2:])
    certified_alike(model, local)
    assert model.n_epochs_ > model.fit(X, Y, *data[2:]).n_epochs_
    assert store is not data_frames or list(model.feature_names_in_)[:2] == ["f0", "f1"]


def test_parts_follow_from_the_data_and_a_vector_of_classes_is_learned(client, data):
    for X in (data[0], da.from_array(data[0], chunks=(50, 32))):
        parts, _ = spread(X, data[1], normalize=True, part_size=150, is_mean=True)
        assert (parts.sizes, parts.total_weight) == ([133, 133, 134], 400.0)
    y = np.array(["cat", "dog", "cow"])[np.arange(400) % 3]
    certified_alike(
        TAEP(tol=2e-2, engine="dask").fit(X, da.from_array(y, chunks=100)), TAEP(tol=2e-2).fit(data[0], y)
    )


def test_tasks_that_train_leave_their_threads_to_the_tasks_they_wait_for(client, data, local):
    """As many as there are threads: if they kept them, all would wait forever."""
    tasks = client.map(lambda seed: TAEP(**OPTIONS, engine="dask", random_state=seed).fit(*data), range(2))
    for model in client.gather(tasks):
        certified_alike(model, local)


BAD = {
    "^X: its": lambda X, Y: (X[:0], Y[:0]),
    "^X:": lambda X, Y: (X[:, 0], Y),
    "X contains NaN.*row [0-9]+": lambda X, Y: (da.where(X.max() == X, np.nan, X), Y),
    "^Y: its shape": lambda X, Y: (X, Y[:-1]),
    "^Y: values": lambda X, Y: (X, Y + 5),
    "^Y: none": lambda X, Y: (X, Y * 0),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_data_are_found_where_they_are(client, data, message):
    X, Y = BAD[message](*(da.from_array(array, chunks=(100, -1)) for array in data[:2]))
    with pytest.raises(ValueError, match=message):
        TAEP(**OPTIONS).fit(X, Y, *data[2:])


PROGRAM = """
import sys
import scipy.sparse as sp
from distributed import Client
from numba.core.dispatcher import Dispatcher
from unseen import TAEP, make_tagged_scenes
from unseen.cluster import fit

def compiled():
    modules = [module for name, module in sys.modules.items() if name.startswith("unseen.solvers")]
    kernels = [kernel for module in modules for kernel in vars(module).values() if isinstance(kernel, Dispatcher)]
    return {(kernel.__name__, str(types)) for kernel in kernels for types in kernel.signatures}

def submit(*arguments):
    before.append(compiled())
    return original(*arguments)

original, fit._submit = fit._submit, submit
data = make_tagged_scenes(400, 10, n_features=16)
with Client(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None):
    for X in (data.X_train, data.X_train.astype(float), sp.csr_array(data.X_train)):
        before = []
        TAEP(engine="dask", tol=1e-2).fit(X, data.Y_train[:, data.seen], data.seen_labels)
        assert before[0] and before[0] == compiled(), compiled() - before[0]
"""


def test_workers_need_not_compile_which_takes_memory():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


def test_the_folder_of_a_worker_that_has_ended_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr(fit.Stored, "folder", str(tmp_path / "gone"))
    assert fit.Stored([I4], I4.shape, float).copy().tolist() == I4.tolist()
