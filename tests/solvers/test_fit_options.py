"""Options of a fit that change its speed or memory: the certificate stays what it was."""

import numpy as np
import pytest

from unseen import TAEP, make_tagged_scenes


@pytest.fixture(scope="module")
def data():
    return make_tagged_scenes(n_train=400, n_test=20)


def problem(data, X=None):
    X = data.X_train if X is None else X
    return X, data.Y_train[:, data.seen], data.seen_labels, data.unseen_labels


def certified_alike(model, reference):
    """Two certified objectives of one problem: neither is below the other's bound."""
    assert model.relative_gap_ <= model.tol
    assert model.objective_ >= reference.lower_bound_ - 1e-9 * abs(reference.lower_bound_)
    assert reference.objective_ >= model.lower_bound_ - 1e-9 * abs(model.lower_bound_)


def test_two_threads_certify_the_same_optimum(data):
    options = {"rank": 4, "beta": 1.0, "tol": 5e-3}
    certified_alike(TAEP(**options, n_jobs=2).fit(*problem(data)), TAEP(**options).fit(*problem(data)))


def test_a_file_in_low_memory_certifies_the_same_optimum(data, tmp_path):
    np.save(tmp_path / "X.npy", data.X_train.astype(np.float32))
    X = np.load(tmp_path / "X.npy", mmap_mode="r")
    options = {"rank": 4, "beta": 1.0, "tol": 5e-3}
    low = TAEP(**options, memory="low").fit(*problem(data, X))
    certified_alike(low, TAEP(**options).fit(*problem(data)))
    np.testing.assert_allclose(low.decision_function(X), low.decision_function(np.array(X)), rtol=1e-5, atol=1e-5)


def test_low_memory_refuses_what_full_memory_refuses(data, tmp_path):
    X = data.X_train.astype(np.float32)
    X[-1, 0] = np.nan
    np.save(tmp_path / "X.npy", X)
    with pytest.raises(ValueError, match="NaN"):
        TAEP(memory="low").fit(*problem(data, np.load(tmp_path / "X.npy", mmap_mode="r")))
    with pytest.raises(ValueError, match="memory: 'tiny' was given"):
        TAEP(memory="tiny").fit(*problem(data))


def test_a_warm_start_ends_certified_and_saves_passes(data):
    model = TAEP(rank=4, beta=1.0, tol=5e-3, warm_start=True).fit(*problem(data))
    first = model.n_epochs_
    again = model.fit(*problem(data)).n_epochs_
    assert again < first
    for beta in (0.7, 2.0):  # shorter and longer duals than before
        model.set_params(beta=beta).fit(*problem(data))
        certified_alike(model, TAEP(rank=4, beta=beta, tol=5e-3).fit(*problem(data)))


@pytest.mark.parametrize("change", ["turned", "moved", "unknown"])
def test_a_warm_start_with_other_annotations_is_certified_for_them(data, change):
    X, Y, *labels = problem(data)
    other = Y.astype(float)
    if change == "turned":
        other = 1.0 - other
    elif change == "moved":
        other = np.roll(other, 1, axis=1)
    else:
        other[::2] = np.nan
    options = {"rank": 4, "beta": 1.0, "tol": 5e-3}
    model = TAEP(**options, warm_start=True).fit(X, Y, *labels).fit(X, other, *labels)
    certified_alike(model, TAEP(**options).fit(X, other, *labels))


def test_a_warm_start_from_another_number_of_images_begins_afresh(data):
    X, Y, seen, unseen = problem(data)
    model = TAEP(rank=4, tol=1e-2, warm_start=True).fit(X, Y, seen, unseen).fit(X[:300], Y[:300], seen, unseen)
    cold = TAEP(rank=4, tol=1e-2).fit(X[:300], Y[:300], seen, unseen)
    assert model.objective_ == cold.objective_
