"""Options of a fit that change its speed or memory: the certificate stays what it was."""

import numpy as np
import pytest
from tests.solvers.problems import certified_alike

from unseen import TAEP, make_tagged_scenes

OPTIONS = {"rank": 4, "beta": 1.0, "tol": 5e-3}


@pytest.fixture(scope="module")
def data():
    scenes = make_tagged_scenes(n_train=400, n_test=20)
    return scenes.X_train, scenes.Y_train[:, scenes.seen].astype(float), scenes.seen_labels, scenes.unseen_labels


def test_a_file_in_low_memory_certifies_the_same_optimum(data, tmp_path):
    np.save(tmp_path / "X.npy", data[0].astype(np.float32))
    X = np.load(tmp_path / "X.npy", mmap_mode="r")
    low = TAEP(**OPTIONS, memory="low").fit(X, *data[1:])
    certified_alike(low, TAEP(**OPTIONS).fit(*data))
    np.testing.assert_allclose(low.decision_function(X), low.decision_function(np.array(X)), rtol=1e-5, atol=1e-5)
    np.save(tmp_path / "bad.npy", np.where(data[0] == data[0].max(), np.nan, data[0]))
    with pytest.raises(ValueError, match="NaN"):
        low.fit(np.load(tmp_path / "bad.npy", mmap_mode="r"), *data[1:])


def test_a_warm_start_ends_certified_and_saves_passes(data):
    model = TAEP(**OPTIONS, warm_start=True).fit(*data)
    assert model.n_iter_ > model.fit(*data).n_iter_
    for beta in (0.7, 2.0):  # shorter and longer duals than before
        certified_alike(model.set_params(beta=beta).fit(*data), TAEP(**{**OPTIONS, "beta": beta}).fit(*data))


@pytest.mark.parametrize("change", [lambda Y: 1 - Y, lambda Y: np.roll(Y, 1, axis=1), lambda Y: Y[:300]])
def test_a_warm_start_with_other_annotations_is_certified_for_them(data, change):
    X, Y, *labels = data
    other = change(Y)
    model = TAEP(**OPTIONS, warm_start=True).fit(X, Y, *labels).fit(X[: len(other)], other, *labels)
    certified_alike(model, TAEP(**OPTIONS).fit(X[: len(other)], other, *labels))
