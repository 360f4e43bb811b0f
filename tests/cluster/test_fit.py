"""TAEP on a cluster: the same certificate as here, and scores where the images are."""

import numpy as np
import pytest

pytest.importorskip("distributed")
import dask.array as da
import distributed
import joblib
from sklearn.exceptions import NotFittedError
from tests.cluster.clusters import dying_once, processes

from unseen import TAEP, make_tagged_scenes
from unseen.baselines import ESZSL
from unseen.cluster import partitions
from unseen.cluster.fit import spread
from unseen.evaluation.search import class_holdout_search

OPTIONS = {"rank": 4, "beta": 10.0, "tol": 2e-2, "part_size": 200}


@pytest.fixture(scope="module")
def client():
    with processes() as client:
        yield client


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


def test_numpy_arrays_are_trained_on_by_the_workers(client, data, Y, labels, local, tmp_path):
    model = TAEP(**OPTIONS, engine="dask").fit(data.X_train, Y, *labels)
    certified_alike(model, local)
    np.testing.assert_allclose(model.moments_ * model.beta_, _unit(data.X_train).T @ model.duals_, atol=1e-5)
    scores = model.decision_function(data.X_test, "all")
    model.save(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(
        TAEP.load(tmp_path / "model.safetensors").decision_function(data.X_test, "all"), scores
    )


def _unit(X):
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def test_a_fit_that_loses_a_worker_is_as_good(client, data, Y, labels, local, tmp_path, monkeypatch):
    client.wait_for_workers(2)
    monkeypatch.setattr(partitions, "ascend", dying_once(tmp_path / "killed", in_round=5))
    survived = TAEP(**OPTIONS, engine="dask").fit(data.X_train, Y, *labels)
    assert (tmp_path / "killed").exists()
    client.wait_for_workers(2)
    certified_alike(survived, local)
    np.testing.assert_allclose(
        survived.moments_ * survived.beta_, _unit(data.X_train).T @ survived.duals_, atol=1e-5
    )


def test_the_number_of_parts_follows_from_the_data(client, data, Y):
    lazy = da.from_array(data.X_train, chunks=(50, 32))
    for X, sizes in ((data.X_train, [133, 133, 134]), (lazy, [100, 150, 150])):
        parts, _ = spread(X, Y, normalize=True, part_size=150)
        assert sorted(parts.sizes) == sizes


def test_dask_arrays_are_trained_on_where_they_are_whatever_their_chunks(client, data, Y, labels, local):
    X = da.from_array(data.X_train, chunks=(90, 20))
    X = X[X[:, 0] > -np.inf]  # of unknown chunk sizes
    model = TAEP(**OPTIONS).fit(X, da.from_array(Y, chunks=(150, 5)), *labels)
    certified_alike(model, local)
    assert model.duals_.shape == Y.shape
    assert model.n_features_in_ == 32


def test_data_frames_keep_their_names(client, data, Y, labels, local):
    pandas = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")
    names = [f"f{i}" for i in range(32)]
    frame = pandas.DataFrame(data.X_train, columns=names)
    X = dd.from_pandas(frame, npartitions=3)
    columns = dict(zip(range(Y.shape[1]), labels[0].names, strict=True))
    model = TAEP(**OPTIONS).fit(
        X, dd.from_pandas(pandas.DataFrame(Y).rename(columns=columns), npartitions=2), *labels
    )
    certified_alike(model, local)
    assert list(model.feature_names_in_) == names
    scores = model.decision_function(X, "unseen").compute()
    np.testing.assert_allclose(scores, model.decision_function(frame, "unseen"), atol=1e-5)


def test_sparse_rows_and_a_vector_of_classes(client, data):
    sparse = pytest.importorskip("scipy.sparse")
    y = np.array(["cat", "dog", "cow"])[data.scenes_train % 3]
    X = sparse.csr_array(np.where(data.X_train > 1.0, data.X_train, 0.0))
    model = TAEP(tol=2e-2, engine="dask").fit(X, da.from_array(y, chunks=100))
    certified_alike(model, TAEP(tol=2e-2).fit(X, y))
    dense = da.from_array(X.toarray(), chunks=(150, 32))
    np.testing.assert_array_equal(model.predict(dense).compute(), model.predict(X))


def test_unknown_annotations_and_a_warm_start(client, data, Y, labels):
    hidden = np.where(np.random.default_rng(0).random(Y.shape) < 0.2, np.nan, Y)
    X, lazy = da.from_array(data.X_train, chunks=(100, 32)), da.from_array(hidden, chunks=(100, 12))
    model = TAEP(**OPTIONS, warm_start=True).fit(X, lazy, *labels)
    certified_alike(model, TAEP(**OPTIONS).fit(data.X_train, hidden, *labels))
    first = model.n_epochs_
    assert model.fit(X, lazy, *labels).n_epochs_ < first
    certified_alike(model, TAEP(**OPTIONS).fit(data.X_train, hidden, *labels))


def test_a_warm_start_on_other_annotations_has_a_true_certificate(client, data, Y, labels):
    model = TAEP(**OPTIONS, engine="dask", warm_start=True).fit(data.X_train, Y, *labels)
    other = np.roll(Y, 1, axis=1)
    certified_alike(model.fit(data.X_train, other, *labels), TAEP(**OPTIONS).fit(data.X_train, other, *labels))


def test_every_part_stays_on_the_worker_that_has_it(client, data, Y):
    for _ in range(8):  # two parts in any order are in the right one half of the time
        parts, _ = spread(data.X_train, Y, normalize=True, part_size=200)
        holders = client.who_has(parts.futures)
        assert all(home in holders[part.key] for part, home in zip(parts.futures, parts.homes, strict=True))


def test_tasks_that_train_leave_their_threads_to_the_tasks_they_wait_for(client, data, Y, labels, local):
    """As many as there are threads: if they kept them, all would wait forever."""
    tasks = client.map(_two_fits, range(2), X=data.X_train, Y=Y, labels=labels, pure=False)
    for task in tasks:
        certified_alike(task.result(timeout=300), local)


def _two_fits(seed, X, Y, labels):
    model = TAEP(**OPTIONS, engine="dask", random_state=seed)
    return model.fit(X, Y, *labels).fit(da.from_array(X, chunks=(150, 32)), Y, *labels)


def test_a_cluster_without_workers_is_named(data, Y, labels):
    options = {"n_workers": 0, "processes": False, "dashboard_address": ":0"}
    with (
        distributed.LocalCluster(**options) as cluster,
        distributed.Client(cluster),
        pytest.raises(ValueError, match=r"^engine: the Dask cluster has no workers.*wait_for_workers"),
    ):
        TAEP(engine="dask").fit(data.X_train, Y, *labels)


@pytest.mark.parametrize("model", [TAEP(), ESZSL()], ids=["TAEP", "ESZSL"])
@pytest.mark.parametrize("method", ["decision_function", "predict", "tag", "threshold"])
def test_an_unfitted_model_says_so(model, method):
    with pytest.raises(NotFittedError):
        getattr(model, method)(da.ones((4, 3), chunks=2))


@pytest.mark.parametrize("model", [TAEP(rank=4, tol=0.1), ESZSL()], ids=["TAEP", "ESZSL"])
def test_scores_are_mapped_over_the_partitions(data, Y, labels, model):
    """Without a cluster too: Dask then uses its threads."""
    model.fit(data.X_train, Y, *labels)
    X, lazy = data.X_test, da.from_array(data.X_test, chunks=(7, 16))
    for call in (
        lambda X: model.decision_function(X, "all"),
        lambda X: model.predict(X, "unseen", top=3),
        lambda X: model.predict(X),
        lambda X: model.threshold(X),
    ):
        result = call(lazy)
        assert isinstance(result, da.Array)
        assert result.shape == call(X).shape
        np.testing.assert_allclose(result.compute(scheduler="threads"), call(X), atol=1e-5)
    tags = model.tag(lazy, top=2).compute(scheduler="threads")
    assert [[tag.name for tag in row] for row in tags] == [
        [tag.name for tag in row] for row in model.tag(X, top=2)
    ]
    with pytest.raises(ValueError, match="labels: "):
        model.decision_function(lazy, ["no such label"])
    with pytest.raises(ValueError, match="X has 31 features"):
        model.predict(lazy[:, :31])


def test_what_only_one_machine_can_do_is_refused_by_name(data, Y, labels):
    lazy = da.from_array(data.X_train, chunks=(100, 32))
    with pytest.raises(ValueError, match=r"^X: a Dask Array .* ESZSL .* Pass X.compute"):
        ESZSL().fit(lazy, Y, *labels)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda X, Y: (X[:, 0], Y), "^X: expected a matrix"),
        (lambda X, Y: (X[:0], Y[:0]), "^X: it has no rows"),
        (lambda X, Y: (X, Y[:-1]), "^Y: inconsistent with X"),
        (lambda X, Y: (da.where(X.max() == X, np.nan, X), Y), r"X contains NaN.*begins at row"),
        (lambda X, Y: (X, Y + 5), r"^Y: values other than 0, 1 and NaN"),
        (lambda X, Y: (X, Y * 0), r"^Y: none of its"),
    ],
)
def test_bad_data_are_found_where_they_are(client, data, Y, labels, spoil, message):
    X, lazy = spoil(da.from_array(data.X_train, chunks=(100, 32)), da.from_array(Y, chunks=(100, 12)))
    with pytest.raises(ValueError, match=message):
        TAEP(**OPTIONS).fit(X, lazy, *labels)


def test_bad_parameters_are_named(data, Y, labels):
    with pytest.raises(ValueError, match="engine: 'spark' was given"):
        TAEP(engine="spark").fit(data.X_train, Y, *labels)
    with pytest.raises(ValueError, match="memory: 'low' keeps X in a file"):
        TAEP(engine="dask", memory="low").fit(data.X_train, Y, *labels)


def test_the_search_runs_on_the_cluster_through_joblib(client, data, Y, labels):
    grid, model = {"gamma": [0.1, 10.0]}, ESZSL()
    here = class_holdout_search(model, grid, data.X_train, Y, labels[0], n_splits=1)
    with joblib.parallel_config(backend="dask"):
        there = class_holdout_search(model, grid, data.X_train, Y, labels[0], n_splits=1, n_jobs=-1)
    assert there.best_params == here.best_params
    assert [row.mean for row in there.table] == pytest.approx([row.mean for row in here.table], rel=1e-6)
