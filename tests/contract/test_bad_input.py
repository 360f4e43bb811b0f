"""Bad input is refused with a message that names the argument and says what to do."""

from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from unseen import LabelSpace, TaggedScenes

NAN, INF = np.nan, np.inf


def with_entry(matrix: Any, value: float, at: tuple[int, int] = (1, 2)) -> np.ndarray:
    changed = np.array(matrix, dtype=float)
    changed[at] = value
    return changed


def renamed(space: LabelSpace, **new_names: str) -> LabelSpace:
    return LabelSpace([new_names.get(name, name) for name in space.names], space.vectors)


Change = Callable[[TaggedScenes, np.ndarray], dict[str, Any]]

BAD_FITS: dict[str, tuple[Change, str]] = {
    "X with NaN": (lambda d, Y: {"X": with_entry(d.X_train, NAN)}, r"^Input X contains NaN"),
    "X with infinity": (lambda d, Y: {"X": with_entry(d.X_train, INF)}, r"^Input X contains infinity"),
    "CSR X with NaN": (
        lambda d, Y: {"X": sp.csr_array(with_entry(d.X_train, NAN))},
        r"^Input X contains NaN",
    ),
    "X of one dimension": (lambda d, Y: {"X": d.X_train[0]}, r"(?s)Expected 2D array, got 1D.*Reshape your data"),
    "X of three dimensions": (lambda d, Y: {"X": d.X_train[None]}, r"Found array with dim 3"),
    "X without images": (lambda d, Y: {"X": d.X_train[:0]}, r"Found array with 0 sample"),
    "X without features": (lambda d, Y: {"X": d.X_train[:, :0]}, r"Found array with 0 feature"),
    "no Y": (lambda d, Y: {"Y": None}, r"^Y: .*y is None\. Pass one row an image"),
    "Y with other values": (
        lambda d, Y: {"Y": with_entry(Y, 0.5)},
        r"^Y: values other than 0, 1 and NaN were given \(0\.5\)\. Write 1 for present",
    ),
    "Y in -1 and 1": (lambda d, Y: {"Y": 2 * Y - 1}, r"^Y: values other than 0, 1 and NaN were given \(-1\)"),
    "Y with infinity": (lambda d, Y: {"Y": with_entry(Y, INF)}, r"^Y: values other than 0, 1 and NaN .*inf"),
    "Y of strings": (lambda d, Y: {"Y": Y.astype(str)}, r"^Y: expected numbers, got dtype .*Convert"),
    "Y without positives": (
        lambda d, Y: {"Y": 0 * Y},
        r"^Y: none of its 1440 entries is positive.*Pass data with at least one",
    ),
    "Y all unknown": (lambda d, Y: {"Y": np.full(Y.shape, NAN)}, r"^Y: none of its 1440 entries is positive"),
    "Y without labels": (lambda d, Y: {"Y": Y[:, :0]}, r"^Y: empty, its shape is \(120, 0\)\. Pass at least"),
    "Y without images": (lambda d, Y: {"Y": Y[:0]}, r"^Y: .*its shape is \(0, 12\) for 120 images\. Pass one"),
    "Y with rows too few": (lambda d, Y: {"Y": Y[:99]}, r"^Y: .*\(99, 12\) for 120 images\. Pass one row"),
    "Y a number": (lambda d, Y: {"Y": 1}, r"^Y: .*its shape is \(\) for 120 images"),
    "Y of three dimensions": (lambda d, Y: {"Y": Y[:, :, None]}, r"^Y: expected a matrix \(n_images, n_lab"),
    "Y ragged": (lambda d, Y: {"Y": [[0, 1]] * 119 + [[1]]}, r"^Y: cannot be read as a matrix.*equal length"),
    "Y with repeated names": (
        lambda d, Y: {"Y": pd.DataFrame(Y, columns=["cat"] * 12)},
        r"^Y: 'cat' given more than once",
    ),
    "Y of one class": (
        lambda d, Y: {"Y": np.array(["cat"] * 120), "seen": None, "unseen": None},
        r"^Y: a vector with only one class.*Pass at least two",
    ),
    "Y of classes with NaN": (
        lambda d, Y: {"Y": np.full(120, NAN), "seen": None, "unseen": None},
        r"Input Y contains NaN",
    ),
    "Y a vector, seen with vectors": (
        lambda d, Y: {"Y": d.scenes_train, "unseen": None},
        r"^seen: label vectors need an indicator matrix Y",
    ),
    "seen with a zero vector": (
        lambda d, Y: {"seen": with_entry(d.seen_labels.vectors, 0.0, at=(3, slice(None)))},
        r"^seen: all zeros in the vector of 'label 3'\. Give the label a vector",
    ),
    "unseen with a zero vector": (
        lambda d, Y: {"unseen": {"ghost": np.zeros(16), "boat": np.ones(16)}},
        r"^unseen: all zeros in the vector of 'ghost'\. Give the label a vector",
    ),
    "seen with NaN": (
        lambda d, Y: {"seen": with_entry(d.seen_labels.vectors, NAN)},
        r"^seen: NaN or infinite values in vector 1\. Pass finite",
    ),
    "seen of one dimension": (lambda d, Y: {"seen": np.ones(12)}, r"^seen: expected a matrix .*got shape \(12,\)"),
    "seen of words": (lambda d, Y: {"seen": [["a"], ["b"]]}, r"^seen: cannot be read as a matrix of numbers"),
    "seen by names alone": (
        lambda d, Y: {"seen": list(d.seen_labels.names)},
        r"^seen: names without vectors were given\. Pass a vector for each label",
    ),
    "seen a string": (lambda d, Y: {"seen": "cat"}, r"^seen: the single string 'cat' was given\. Pass a list"),
    "seen too short": (
        lambda d, Y: {"seen": d.seen_labels.select(d.seen_labels.names[:5])},
        r"^seen: 5 labels for the 12 columns of Y\. Pass one label a column",
    ),
    "seen in another order than Y": (
        lambda d, Y: {"Y": pd.DataFrame(Y, columns=list(d.seen_labels.names[::-1]))},
        r"^seen: its names \('bicycle', .*\) are not the columns of Y .*Reorder",
    ),
    "unseen without seen": (lambda d, Y: {"seen": None}, r"^unseen: .*Pass seen as well"),
    "unseen by names alone": (
        lambda d, Y: {"unseen": list(d.unseen_labels.names)},
        r"^unseen: names without vectors",
    ),
    "unseen of other dimensions": (
        lambda d, Y: {"unseen": d.unseen_labels.vectors[:, :9]},
        r"^unseen: vectors of 9 dimensions, but those of seen have 16\. Take both",
    ),
    "a name both seen and unseen": (
        lambda d, Y: {"unseen": renamed(d.unseen_labels, boat="bicycle")},
        r"^seen and unseen: 'bicycle' given more than once\. Give every label a name of its own",
    ),
    "relations of the wrong shape": (
        lambda d, Y: {"relations": np.eye(12)},
        r"^relations: its shape is \(12, 12\)\. Pass a \(24, 24\) matrix",
    ),
    "relations below zero": (
        lambda d, Y: {"relations": with_entry(with_entry(np.eye(24), -1.0), -1.0, at=(2, 1))},
        r"^relations: the smallest entry is -1\. .*pass values >= 0",
    ),
    "relations one way only": (
        lambda d, Y: {"relations": with_entry(np.eye(24), 0.5)},
        r"^relations: not symmetric\. Pass \(R \+ R\.T\) / 2",
    ),
    "relations with NaN": (
        lambda d, Y: {"relations": with_entry(np.eye(24), NAN)},
        r"^relations: some entries are NaN or infinite",
    ),
}


@pytest.mark.parametrize("case", BAD_FITS)
def test_fit_refuses(case: str, estimator: Any, data: TaggedScenes, Y: np.ndarray) -> None:
    change, message = BAD_FITS[case]
    given = {"X": data.X_train, "Y": Y, "seen": data.seen_labels, "unseen": data.unseen_labels}
    with pytest.raises(ValueError, match=message):
        clone(estimator).fit(**(given | change(data, Y)))


def test_fit_refuses_a_label_at_the_centre(estimator: Any, data: TaggedScenes, Y: np.ndarray) -> None:
    unseen = {"nowhere": data.seen_labels.vectors.mean(axis=0)}  # which leaves the mean where it is
    model = clone(estimator)
    if estimator.center:
        with pytest.raises(ValueError, match=r"^unseen: nothing is left of the vector of 'nowhere' after centr"):
            model.fit(data.X_train, Y, data.seen_labels, unseen)
    else:
        model.fit(data.X_train, Y, data.seen_labels, unseen)


BAD_LABELS: dict[str, tuple[Callable[[TaggedScenes], Any], str]] = {
    "unknown names": (
        lambda d: ["bycicle", "cat", "xyz"],
        r"^labels: 2 unknown labels: 'bycicle' \(nearest: 'bicycle'.*\); 'xyz'.* Pass names given to fit, or",
    ),
    "a repeated name": (lambda d: ["cat", "cat"], r"^labels: 'cat' given more than once"),
    "a string": (
        lambda d: "cat",
        r"^labels: 'cat' was given\. Pass one of 'seen', 'unseen', 'all', or a list of names",
    ),
    "nothing": (lambda d: [], r"^labels: .*got shape \(0,\)\. Pass one vector a label"),
    "no names": (lambda d: {}, r"^labels: no label was given"),
    "a number as a name": (
        lambda d: {3: d.vectors[0]},
        r"^labels: the name of label 0 is 3\. Pass non-empty strings",
    ),
    "other dimensions": (
        lambda d: d.vectors[:, :9],
        r"^labels: vectors of 9 dimensions, but this model was fitted with 16\. Take them from the same",
    ),
    "vectors of unequal length": (
        lambda d: {"a": [1.0], "b": [1.0, 2.0]},
        r"^labels: cannot be read as a matrix of numbers.*equal length",
    ),
    "a vector of zeros": (
        lambda d: {"boat": d.vectors[0], "ghost": np.zeros(16)},
        r"^labels: all zeros in the vector of 'ghost'\. Give the label a vector",
    ),
    "NaN": (lambda d: with_entry(d.vectors, NAN), r"^labels: NaN or infinite values in vector 1"),
    "a matrix of three dimensions": (lambda d: d.vectors[None], r"^labels: expected a matrix"),
}


@pytest.mark.parametrize("case", BAD_LABELS)
def test_labels_are_checked_wherever_they_are_asked_for(case: str, model: Any, data: TaggedScenes) -> None:
    make, message = BAD_LABELS[case]
    for ask in (model.decision_function, model.predict, model.tag):
        with pytest.raises(ValueError, match=message):
            ask(data.X_test, make(data))
    with pytest.raises(ValueError, match=message):
        model.similar_labels("cat", make(data))


def test_a_label_at_the_centre_cannot_be_scored(model: Any, data: TaggedScenes) -> None:
    central = {"nowhere": model.label_vectors_.mean(axis=0)}
    if model.center:
        with pytest.raises(ValueError, match=r"^labels: nothing is left of the vector of 'nowhere'.*center=False"):
            model.decision_function(data.X_test, central)
    else:
        assert np.isfinite(model.decision_function(data.X_test, central)).all()


def test_a_tiny_vector_beside_a_huge_one_is_no_zero(model: Any, data: TaggedScenes) -> None:
    if model.center:
        pytest.skip("centring tells them apart")
    tiny, huge = 1e-13 * data.vectors[0], 1e13 * data.vectors[1]
    assert model.decision_function(data.X_test, [tiny, huge]).shape == (30, 2)


def test_unseen_labels_that_were_never_given_cannot_be_asked_for(
    estimator: Any, data: TaggedScenes, Y: np.ndarray
) -> None:
    model = clone(estimator).fit(data.X_train, Y, data.seen_labels)
    with pytest.raises(ValueError, match=r"^labels: fit was given no unseen labels\. Pass the vectors"):
        model.decision_function(data.X_test, "unseen")


@pytest.mark.parametrize("top", [0, -1, 1.5, "two", True])
def test_top_must_count(model: Any, data: TaggedScenes, top: Any) -> None:
    message = rf"^top: {top!r} was given\. Pass an integer of at least 1"
    for ask in (model.predict, model.tag):
        with pytest.raises(ValueError, match=message):
            ask(data.X_test, "all", top=top)
    with pytest.raises(ValueError, match=message):
        model.similar_labels("cat", top=top)


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ("ct", r"^label: 1 unknown label: 'ct' \(nearest: 'cat'"),
        (np.ones(9), r"^label: vectors of 9 dimensions, but this model was fitted with 16"),
        (np.ones((2, 16)), r"^label: 2 labels were given\. Pass a single name or vector"),
        (np.zeros(16), r"^label: all zeros in vector 0"),
        (["cat"], r"^label: cannot be read as a matrix of numbers"),
    ],
    ids=repr,
)
def test_a_single_label_is_checked_too(model: Any, data: TaggedScenes, label: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model.similar_labels(label)
    if True:
        with pytest.raises(ValueError, match=message):
            model.explain(data.X_test[0], label)


def test_images_are_checked_wherever_they_are_given(model: Any, data: TaggedScenes) -> None:
    for ask in (model.decision_function, model.predict, model.tag, model.threshold):
        with pytest.raises(ValueError, match=r"X has 7 features, but .* is expecting 24 features"):
            ask(data.X_test[:, :7])
        with pytest.raises(ValueError, match="Input X contains NaN"):
            ask(with_entry(data.X_test, NAN))
        with pytest.raises(ValueError, match="Expected 2D array"):
            ask(data.X_test[0])


def test_an_unfitted_model_says_so(estimator: Any, data: TaggedScenes) -> None:
    model = clone(estimator)
    asks = [model.decision_function, model.predict, model.tag, model.threshold]
    for ask in asks:
        with pytest.raises(NotFittedError, match="is not fitted yet"):
            ask(data.X_test)
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        model.similar_labels("cat")
    if True:
        with pytest.raises(NotFittedError, match="is not fitted yet"):
            model.explain(data.X_test[0], "cat")


def test_a_fit_that_fails_leaves_the_model_unfitted(
    estimator: Any, data: TaggedScenes, Y: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = clone(estimator).fit(data.X_train, Y)
    with pytest.raises(ValueError, match="relations: "):
        model.fit(data.X_train, Y, data.seen_labels, relations=np.eye(3))
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        model.predict(data.X_test)
    monkeypatch.setattr(type(model), "_margin_scores", lambda *_: pytest.fail("scored by an unfitted model"))
    monkeypatch.setattr(type(model), "_fit", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        model.fit(data.X_train, Y)
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        model.decision_function(data.X_test)


def test_explanations_are_of_one_image_and_of_the_training_images(model: Any, data: TaggedScenes) -> None:
    if not hasattr(model, "explain"):
        pytest.skip("explains nothing")
    with pytest.raises(ValueError, match=r"^x: 3 images were given\. Pass the features of one image"):
        model.explain(data.X_test[:3], "cat")
    if "X_train" in signature(model.explain).parameters:
        with pytest.raises(ValueError, match=r"^X_train: 99 images, but the model was fitted on 120\. Pass"):
            model.explain(data.X_test[0], "cat", X_train=data.X_train[:99])
