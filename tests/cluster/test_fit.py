"""Training on a cluster: the certificate of one machine, whatever the parts and whatever dies."""

import os
import signal
from pathlib import Path

import dask.array as da
import distributed
import numpy as np
import pytest
import scipy.sparse as sp
from tests.solvers.problems import as_images, assert_feasible, optimum_at_fixed_kernel, random_problem, solve_at

from unseen import TAEP, make_tagged_scenes
from unseen.cluster import fit
from unseen.cluster.fit import ClusterDual, spread

OPTIONS = {"rank": 4, "beta": 10.0, "tol": 2e-2, "part_size": 200}


@pytest.fixture(scope="module")
def data():
    return make_tagged_scenes(n_train=400, n_test=20, n_features=32)


@pytest.fixture(scope="module")
def labels(data):
    return data.seen_labels, data.unseen_labels


@pytest.fixture(scope="module", name="Y")
def annotations(data):
    return data.Y_train[:, data.seen]


@pytest.fixture(scope="module")
def local(data, Y, labels):
    return TAEP(**OPTIONS).fit(data.X_train, Y, *labels)


def certified_alike(model, reference):
    """Two certified objectives of one problem: neither is below the other's bound."""
    assert model.relative_gap_ <= model.tol
    assert model.objective_ >= reference.lower_bound_
    assert reference.objective_ >= model.lower_bound_


def consistent(model, X):
    """Whether the moments are those of the duals."""
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    np.testing.assert_allclose(model.moments_ * model.beta_, unit.T @ model.duals_, atol=1e-5)


def dual_on(images, beta, part_size, seed=0):
    parts, _ = spread(
        images.rows.X, np.where(images.T == 0, np.nan, images.T > 0), normalize=False, part_size=part_size,
        weights=da.from_array(images.weights, chunks=7),
    )  # fmt: skip
    return ClusterDual(parts, beta, np.random.default_rng(seed))


@pytest.mark.parametrize("part_size", [120, 50, 24])
def test_parts_reach_the_optimum_of_an_independent_solver_with_weights(client, part_size):
    problem, images = random_problem(part_size, n=120, d=8, n_seen=6, beta=10.0, weighted=True)
    dual = dual_on(images, problem.beta, part_size)
    solution = dual.solve(problem.label_kernel(np.eye(4)), tol=1e-5)
    assert solution.gap <= 1e-5 * solution.primal
    assert solution.primal == pytest.approx(optimum_at_fixed_kernel(problem, images, np.eye(4)), rel=2e-5)
    assert_feasible(dual.tocsr().toarray(), images)


def test_the_dual_never_falls_even_if_all_parts_pull_in_the_same_direction(client, monkeypatch):
    rng = np.random.default_rng(0)
    X = np.ones((90, 5)) + 1e-3 * rng.standard_normal((90, 5))
    images = as_images(X, np.where(rng.random((90, 6)) < 0.3, 1, -1).astype(np.int8))
    monkeypatch.setattr(fit, "CHECK_EVERY", 1)
    monkeypatch.setattr(fit, "CHECKPOINT_EVERY", 2)
    dual = dual_on(images, 5.0, 30)
    solution = dual.solve(np.eye(6) + 1.0, tol=1e-3)
    values = np.array([value for _, value in solution.trace])
    assert len(values) > 5
    assert np.all(np.diff(values) >= -1e-9 * values[-1])
    assert_feasible(dual.tocsr().toarray(), images)


def test_a_start_is_taken_over_and_moments_are_those_of_psi(client):
    problem, images = random_problem(3, n=100, d=7, n_seen=6, beta=1.0)
    _, duals = solve_at(problem, images, np.eye(4), tol=1e-6)
    dual = dual_on(images, problem.beta, 34)
    dual.replace(duals.tocsr())
    np.testing.assert_allclose(dual.tocsr().toarray(), duals.tocsr().toarray(), rtol=1e-12)
    assert dual.solve(problem.label_kernel(np.eye(4)), 1e-5).n_epochs == 0
    gain, sums = dual.moments()
    np.testing.assert_allclose(sums, duals.tocsr().T @ images.rows.X, atol=1e-10)
    assert gain == pytest.approx(duals.total())


def test_a_round_moves_one_v_per_worker_and_neither_images_nor_duals(client):
    problem, images = random_problem(1, n=4000, d=50, n_seen=6, beta=300.0)
    dual = dual_on(images, problem.beta, 2000)
    distributed.wait(dual._rounds)
    client.run(lambda dask_worker: dask_worker.transfer_incoming_log.clear())
    dual.solve(problem.label_kernel(np.eye(4)), 1e-4)
    sizes = [size for log in client.run(_transfers).values() for size in log]
    assert dual.n_rounds > 3
    assert sizes
    assert max(sizes) <= 50 * 5 * 8 + 1000  # d x (r + 1) numbers; a part of X has 2000 x 50


def _transfers(dask_worker):
    return [size for entry in dask_worker.transfer_incoming_log for size in entry["keys"].values()]


def test_a_fit_that_loses_a_worker_is_as_good(client, data, Y, labels, local, tmp_path, monkeypatch):
    original, killed = fit.ascend, str(tmp_path / "killed")

    def dying_once(part, last, seed, *rest):
        if seed[1] == 5:  # the round
            try:
                Path(killed).touch(exist_ok=False)
                os.kill(os.getpid(), signal.SIGKILL)
            except FileExistsError:
                pass
        return original(part, last, seed, *rest)

    monkeypatch.setattr(fit, "ascend", dying_once)
    survived = TAEP(**OPTIONS, engine="dask").fit(data.X_train, Y, *labels)
    assert Path(killed).exists()
    certified_alike(survived, local)
    consistent(survived, data.X_train)


def test_parts_follow_from_the_data(client, data, Y):
    for X in (data.X_train, da.from_array(data.X_train, chunks=(50, 32))):
        parts, _ = spread(X, Y, normalize=True, part_size=150)
        assert parts.sizes == [133, 133, 134]
        assert parts.annotated_weight == 400


def test_dask_arrays_are_trained_on_whatever_their_chunks(client, data, Y, labels, local):
    X = da.from_array(data.X_train, chunks=(90, 20))
    X = X[X[:, 0] > -np.inf]  # of unknown chunk sizes
    model = TAEP(**OPTIONS).fit(X, da.from_array(Y, chunks=(150, 5)), *labels)
    certified_alike(model, local)
    consistent(model, data.X_train)
    assert model.n_features_in_ == 32


def test_data_frames_keep_their_names(client, data, Y, labels, local):
    pandas, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    frame = pandas.DataFrame(data.X_train, columns=[f"f{i}" for i in range(32)])
    known = pandas.DataFrame(Y, columns=list(labels[0].names))
    model = TAEP(**OPTIONS).fit(
        dd.from_pandas(frame, npartitions=3), dd.from_pandas(known, npartitions=2), *labels
    )
    certified_alike(model, local)
    assert list(model.feature_names_in_) == list(frame.columns)


@pytest.mark.parametrize("lazy", [False, True])
def test_sparse_rows_and_a_vector_of_classes(client, data, lazy):
    y = np.array(["cat", "dog", "cow"])[data.scenes_train % 3]
    X = np.where(data.X_train > 1.0, data.X_train, 0.0)
    expected = TAEP(tol=2e-2).fit(sp.csr_array(X), y)
    given = da.from_array(X, chunks=(150, 32)).map_blocks(sp.csr_array) if lazy else sp.csr_array(X)
    certified_alike(
        TAEP(tol=2e-2, engine="dask", part_size=200).fit(given, da.from_array(y, chunks=100)), expected
    )


def test_unknown_annotations_and_a_warm_start_on_others(client, data, Y, labels):
    hidden = np.where(np.random.default_rng(0).random(Y.shape) < 0.2, np.nan, Y)
    X, lazy = da.from_array(data.X_train, chunks=(100, 32)), da.from_array(hidden, chunks=(100, 12))
    model = TAEP(**OPTIONS, warm_start=True).fit(X, lazy, *labels)
    certified_alike(model, TAEP(**OPTIONS).fit(data.X_train, hidden, *labels))
    first = model.n_epochs_
    assert model.fit(X, lazy, *labels).n_epochs_ < first
    other = np.roll(Y, 1, axis=1)
    certified_alike(model.fit(X, other, *labels), TAEP(**OPTIONS).fit(data.X_train, other, *labels))


def test_tasks_that_train_leave_their_threads_to_the_tasks_they_wait_for(client, data, Y, labels, local):
    """As many as there are threads: if they kept them, all would wait forever."""
    tasks = client.map(_two_fits, range(2), X=data.X_train, Y=Y, labels=labels, pure=False)
    for model in client.gather(tasks):
        certified_alike(model, local)


def _two_fits(seed, X, Y, labels):
    model = TAEP(**OPTIONS, engine="dask", random_state=seed)
    return model.fit(X, Y, *labels).fit(da.from_array(X, chunks=(150, 32)), Y, *labels)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda X, Y: (X[:, 0], Y), r"^X: "),
        (lambda X, Y: (X[:0], Y[:0]), r"^X: "),
        (lambda X, Y: (X, Y[:-1]), r"^Y: "),
        (lambda X, Y: (da.where(X.max() == X, np.nan, X), Y), r"X contains NaN.*row [0-9]+"),
        (lambda X, Y: (X, Y + 5), r"^Y: "),
        (lambda X, Y: (X, Y * 0), r"^Y: "),
    ],
)
def test_bad_data_are_found_where_they_are(client, data, Y, labels, spoil, message):
    X, lazy = spoil(da.from_array(data.X_train, chunks=(100, 32)), da.from_array(Y, chunks=(100, 12)))
    with pytest.raises(ValueError, match=message):
        TAEP(**OPTIONS).fit(X, lazy, *labels)
