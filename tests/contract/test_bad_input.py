"""Bad input is refused by the base class with a message that names the argument."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from unseen import TAEP

from .estimators import LeastSquares

NAN, INF = np.nan, np.inf
METHODS = [TAEP(tol=1e-2), LeastSquares()]


def with_entry(matrix: Any, value: float, at: Any = (1, 2)) -> np.ndarray:
    changed = np.array(matrix, dtype=float)
    changed[at] = value
    return changed


BAD_FITS = {
    "X with NaN": (lambda d, Y: {"X": with_entry(d.X_train, NAN)}, "Input X contains NaN"),
    "X of dates": (lambda d, Y: {"X": np.zeros(d.X_train.shape, "datetime64[s]")}, "^X: dates"),
    "X complex": (lambda d, Y: {"X": d.X_train + 1j}, "^X: Complex"),
    "X complex, sparse": (lambda d, Y: {"X": sp.csr_array(d.X_train + 1j)}, "^X: Complex"),
    "X masked": (lambda d, Y: {"X": np.ma.masked_greater(d.X_train, 1.0)}, "^X: .*masked"),
    "X of strings": (lambda d, Y: {"X": np.full(d.X_train.shape, "a")}, "^X: could not convert"),
    "X ragged": (lambda d, Y: {"X": [[1.0, 2.0]] * 119 + [[1.0]]}, "^X: its rows"),
    "X of one dimension": (lambda d, Y: {"X": d.X_train[0]}, "Expected 2D array"),
    "no Y": (lambda d, Y: {"Y": None}, "^Y: "),
    "Y with other values": (lambda d, Y: {"Y": with_entry(Y, 0.5)}, "^Y: .* 0.5 "),
    "Y with infinity": (lambda d, Y: {"Y": with_entry(Y, INF)}, "^Y: .* inf "),
    "Y of strings": (lambda d, Y: {"Y": Y.astype(str)}, "^Y: "),
    "Y of dates": (lambda d, Y: {"Y": Y.astype("M8[s]")}, "^Y: dates"),
    "Y complex": (lambda d, Y: {"Y": Y + 1j}, "^Y: Complex"),
    "Y without positives": (lambda d, Y: {"Y": 0 * Y}, "^Y: "),
    "Y without labels": (lambda d, Y: {"Y": Y[:, :0]}, "^Y: "),
    "Y with rows too few": (lambda d, Y: {"Y": Y[:99]}, "^Y: "),
    "Y ragged": (lambda d, Y: {"Y": [[0, 1]] * 119 + [[1]]}, "^Y: "),
    "Y with repeated names": (lambda d, Y: {"Y": pd.DataFrame(Y, columns=["cat"] * 12)}, "^Y: 'cat'"),
    "Y of one class": (lambda d, Y: {"Y": ["cat"] * 120, "seen": None, "unseen": None}, "^Y: .*'cat'"),
    "Y of classes with NaN": (lambda d, Y: {"Y": [NAN] * 120, "seen": None, "unseen": None}, "Input Y cont"),
    "Y of classes, seen with vectors": (lambda d, Y: {"Y": d.scenes_train, "unseen": None}, "^seen: "),
    "Y of unknown tags": (lambda d, Y: {"Y": [["cat", "unicorn"]] * 120}, "^Y: .*'unicorn'"),
    "Y of tags, seen by vectors": (lambda d, Y: {"Y": [["cat"]] * 120, "seen": d.seen_labels.vectors}, "^seen: "),
    "seen with zeros": (lambda d, Y: {"seen": with_entry(d.seen_labels.vectors, 0.0, at=3)}, "^seen: .*'label 3'"),
    "seen with NaN": (lambda d, Y: {"seen": with_entry(d.seen_labels.vectors, NAN)}, "^seen: .*vector 1"),
    "seen masked": (lambda d, Y: {"seen": np.ma.masked_greater(d.seen_labels.vectors, 1.0)}, "^seen: .*masked"),
    "seen complex": (lambda d, Y: {"seen": d.seen_labels.vectors * 1j}, "^seen: Complex"),
    "seen too long": (lambda d, Y: {"seen": with_entry(d.seen_labels.vectors, 1e200)}, "^seen: the largest"),
    "unseen too short": (lambda d, Y: {"unseen": d.unseen_labels.vectors * 1e-200}, "^unseen: the largest"),
    "seen of one dimension": (lambda d, Y: {"seen": np.ones(12)}, "^seen: "),
    "seen by names alone": (lambda d, Y: {"seen": list(d.seen_labels.names)}, "^seen: "),
    "seen too short": (lambda d, Y: {"seen": d.seen_labels.select(d.seen_labels.names[:5])}, "^seen: 5 "),
    "seen in another order": (lambda d, Y: {"Y": pd.DataFrame(Y, columns=d.seen_labels.names[::-1])}, "^seen: "),
    "unseen without seen": (lambda d, Y: {"seen": None}, "^unseen: "),
    "unseen at a centre": (lambda d, Y: {"unseen": {"no": d.seen_labels.vectors.mean(axis=0)}}, "^unseen: .*'no'"),
    "unseen of other dimensions": (lambda d, Y: {"unseen": d.unseen_labels.vectors[:, :9]}, "^unseen: 9 "),
    "a name both seen and unseen": (lambda d, Y: {"unseen": {"bicycle": np.arange(16)}}, "^seen and unseen: 'bic"),
    "relations of the wrong shape": (lambda d, Y: {"relations": np.eye(12)}, r"^relations: .*\(12, 12\)"),
    "relations below zero": (lambda d, Y: {"relations": -np.eye(24)}, "^relations: .*-1"),
    "relations one way only": (lambda d, Y: {"relations": with_entry(np.eye(24), 0.5)}, "^relations: "),
    "relations too large": (lambda d, Y: {"relations": np.full((24, 24), 1e308)}, "^relations: the largest"),
    "relations with NaN": (lambda d, Y: {"relations": with_entry(np.eye(24), NAN)}, "^relations: "),
}  # fmt: skip


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("case", BAD_FITS)
def test_fit_refuses(case, data, Y):
    change, message = BAD_FITS[case]
    given = {"X": data.X_train, "Y": Y, "seen": data.seen_labels, "unseen": data.unseen_labels}
    for method in METHODS:
        with pytest.raises(ValueError, match=message):
            clone(method).fit(**(given | change(data, Y)))


def test_lists_of_complex_images_are_refused(data, Y):
    with pytest.raises(TypeError, match=r"^X: .*complex"):
        LeastSquares().fit((data.X_train + 1j).tolist(), Y)


@pytest.fixture(scope="module", params=METHODS, ids=["TAEP", "LeastSquares"])
def fitted(request, data, Y):
    return clone(request.param).fit(data.X_train, Y, data.seen_labels, data.unseen_labels)


def test_labels_and_top_are_checked_wherever_they_are_asked_for(fitted, data):
    bad = [
        (["bycicle", "cat", "xyz"], "'bycicle' .*'bicycle'"), (["cat", "cat"], "'cat'"), ([], ""), (None, "None"),
        ({}, "no "), ("dog", "'dog'"), ({3: data.vectors[0]}, "3"), (data.vectors[:, :9], "9 "),
        ({"a": [1.0], "b": [1.0, 2.0]}, "length"), ({"ghost": np.zeros(16)}, "'ghost'"),
        (with_entry(data.vectors, NAN), "vector 1"), (data.vectors[None], "shape"),
        ({"nowhere": fitted.label_vectors_.mean(axis=0)}, "'nowhere'"),
    ]  # fmt: skip
    refused = [((labels,), f"^labels: .*{message}") for labels, message in bad]
    refused += [(("all", top), "^top: ") for top in (0, -1, 1.5, "two", True)]
    for given, message in refused:
        for ask in (fitted.predict, fitted.tag, fitted.similar_labels):
            with pytest.raises(ValueError, match=message):
                ask("cat" if ask == fitted.similar_labels else data.X_test, *given)


def test_a_single_label_and_a_single_image_are_checked(fitted, data):
    for label in ("ct", np.ones(9), np.ones((2, 16)), np.zeros(16), ["cat"]):
        for ask in (fitted.similar_labels, lambda label: fitted.explain(data.X_test[0], label)):
            with pytest.raises(ValueError, match=r"^label: "):
                ask(label)
    with pytest.raises(ValueError, match=r"^x: 3 "):
        fitted.explain(data.X_test[:3], "cat")
    if isinstance(fitted, LeastSquares):
        with pytest.raises(ValueError, match=r"^explain: .*LeastSquares"):
            fitted.explain(data.X_test[0], "cat")


def test_images_are_checked_wherever_they_are_given(fitted, data):
    for X, message in ((data.X_test[:, :7], "X has 7"), (data.X_test * NAN, "NaN"), (data.X_test[0], "2D array")):
        for ask in (fitted.decision_function, fitted.predict, fitted.tag, fitted.threshold):
            with pytest.raises(ValueError, match=message):
                ask(X)


@pytest.mark.parametrize("method", METHODS, ids=["TAEP", "LeastSquares"])
def test_an_unfitted_model_says_so(method, data, tmp_path):
    model = clone(method)
    asks = [lambda: model.predict(data.X_test), lambda: model.threshold(data.X_test),
            lambda: model.explain(data.X_test[0], "cat"), lambda: model.similar_labels("cat"),
            lambda: model.score(data.X_test, data.Y_test), lambda: model.save(tmp_path / "model")]  # fmt: skip
    for ask in asks:
        with pytest.raises(NotFittedError):
            ask()
    assert not list(tmp_path.iterdir())
