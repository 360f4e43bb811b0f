"""BackboneKnowledge scores any label from the classes of a backbone, as its docstring says."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.special import softmax
from sklearn.base import clone
from tests.methods_data import fitted, raw_scores, unit

from unseen import LabelSpace, make_tagged_scenes
from unseen.ensembles import BackboneKnowledge

N_CLASSES = 40
RNG = np.random.default_rng(3)
CLASSES = LabelSpace([f"class of {k}" for k in range(N_CLASSES)], RNG.normal(size=(N_CLASSES, 16)) + 0.5)
KINDS = LabelSpace([f"kind of {k}" for k in range(7)], RNG.normal(size=(7, 16)) + 0.5)
MEMBERSHIP = RNG.random((N_CLASSES, 7)) < 0.3
MEMBERSHIP[5] = False  # a class of no kind
MEMBERSHIP[:, 0] = np.arange(N_CLASSES) == 3  # a kind of one class
PLAIN = {"spread": 1.0, "cooccurrence": 0.0, "smoothing": 0.0, "center": False}
ESTIMATORS = {
    "centred": BackboneKnowledge(CLASSES),
    "plain": BackboneKnowledge(CLASSES.vectors, 2.5, temperature=1.5, **PLAIN),
    "kinds": BackboneKnowledge(CLASSES, kinds=KINDS, membership=MEMBERSHIP, spread=2.0, cooccurrence=0.4),
}


@pytest.fixture(scope="module")
def data():
    return make_tagged_scenes(120, 30, n_features=25 + N_CLASSES, n_dims=16, random_state=1)


@pytest.fixture(scope="module", params=ESTIMATORS)
def estimator(request):
    return ESTIMATORS[request.param]


@pytest.fixture(scope="module", name="X")
def training(data):
    return data.X_train[:, 25:]


@pytest.fixture(scope="module", name="X_test")
def tested(data):
    return data.X_test[:, 25:]


@pytest.fixture(scope="module")
def model(estimator, data, X):
    return fitted(clone(estimator), data, X=X)


def evidence_by_hand(model, logits, vectors, training):
    """One affinity at a time."""
    centre = CLASSES.vectors.mean(axis=0) if model.center else 0.0
    names = [(vector, {k}) for k, vector in enumerate(CLASSES.vectors)]
    if model.kinds is not None:
        names += [(KINDS.vectors[n], set(np.flatnonzero(MEMBERSHIP[:, n]))) for n in range(len(KINDS))]

    def affinity(k, label):
        own = [(vector, len(classes)) for vector, classes in names if k in classes]
        cosines = [(unit(vector - centre) @ unit(label), count) for vector, count in own]
        specificity = 1.0 - np.log([count for _, count in cosines]) / np.log(N_CLASSES)
        return max(
            s * max(0.0, cosine) ** model.sharpness for s, (cosine, _) in zip(specificity, cosines, strict=True)
        )

    shown = softmax(training / model.temperature, axis=1)
    together = np.array([(shown[:, [k]] * shown).mean(axis=0) / shown[:, k].mean() for k in range(N_CLASSES)])
    scores = np.zeros((len(logits), len(vectors)))
    for c, label in enumerate(vectors - centre):
        own = np.array([affinity(k, label) for k in range(N_CLASSES)])
        b = (1.0 - model.cooccurrence) * own + model.cooccurrence * together @ own
        for T in (model.temperature, model.spread * model.temperature):
            mean = softmax(training / T, axis=1).mean(axis=0)
            background = model.smoothing / N_CLASSES + (1.0 - model.smoothing) * mean
            scores[:, c] += 0.5 * (np.log(softmax(logits / T, axis=1) @ b) - np.log(background @ b))
    return scores


def test_the_score_is_the_formula(model, data, X, X_test):
    expected = evidence_by_hand(model, X_test[:6].astype(float), data.unseen_labels.vectors, X.astype(float))
    np.testing.assert_allclose(raw_scores(model, X_test[:6], "unseen"), expected, atol=2e-2)


def test_classes_in_proportion_and_the_threshold_explain_a_score(model, data, X_test):
    for label in (data.unseen_labels.names[2], data.seen_labels.names[0]):
        why = model.explain(X_test[7], label)
        assert why.score == pytest.approx(model.decision_function(X_test, [label])[7, 0], abs=1e-9)
        assert why.offset == pytest.approx(-model.threshold_)
        assert {part.kind for part in why.parts} == {"class"}
        assert len({np.sign(part.value) for part in why.parts}) == 1
    logits = np.full(X_test.shape[1], -50.0)
    logits[5] = 50.0
    assert model.explain(logits, CLASSES.vectors[5]).parts[0].name == model.class_names_[5]


def test_a_label_opposite_to_every_class_has_no_parts(data):
    model = fitted(BackboneKnowledge(np.abs(CLASSES.vectors), center=False), data, X=data.X_train[:, 25:])
    why = model.explain(data.X_test[0, 25:], -np.ones(16))
    assert why.parts == ()
    assert why.score == why.offset == pytest.approx(-model.threshold_)


def test_a_second_fit_forgets_the_first(estimator, model, data, X, X_test):
    again = fitted(clone(estimator), data, X=X[::-1] * 3.0)
    again.decision_function(X_test, "all")
    fitted(again, data, X=X)
    np.testing.assert_array_equal(again.decision_function(X_test, "all"), model.decision_function(X_test, "all"))


def test_log_probabilities_do_as_well_as_logits(model, X_test):
    expected = model.decision_function(X_test, "all")
    logs = X_test.astype(float)
    logs -= np.log(np.exp(logs).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(model.decision_function(logs, "all"), expected, atol=1e-10)


def test_neither_annotations_nor_the_size_of_vectors_change_the_ranking(estimator, model, data, X, X_test):
    huge = clone(estimator).set_params(class_vectors=CLASSES.vectors * 1e45)
    if estimator.kinds is not None:
        huge.set_params(kinds=KINDS.vectors * 1e45)
    huge.fit(X, 1 - data.Y_train[:, data.seen][:, :5], data.seen_labels.vectors[:5] * 1e45)
    expected = raw_scores(model, X_test, data.unseen_labels)
    np.testing.assert_allclose(raw_scores(huge, X_test, data.unseen_labels.vectors * 1e45), expected, atol=1e-9)


def test_many_labels_at_once_score_as_one_by_one(model, X_test):
    labels = np.random.default_rng(1).normal(size=(600, 16))
    together = model.decision_function(X_test[:3], labels)
    alone = [model.decision_function(X_test[:3], labels[c : c + 1])[:, 0] for c in (0, 255, 256, 599)]
    np.testing.assert_allclose(together[:, [0, 255, 256, 599]].T, alone, atol=1e-10)


def test_logits_beyond_half_precision_leave_no_infinite_scores(data):
    model = fitted(BackboneKnowledge(CLASSES), data, X=data.X_train[:, 25:] * 1e6)
    assert np.isfinite(model.decision_function(data.X_test[:, 25:] * 1e6)).all()


def test_a_kind_counts_by_its_classes_alone_and_a_kind_of_all_classes_not_at_all(data, X, X_test):
    alone = {"cooccurrence": 0.0, "smoothing": 1.0}
    model = BackboneKnowledge(CLASSES, 200.0, kinds=KINDS, membership=sp.csr_array(MEMBERSHIP), **alone)
    model.fit(X, data.Y_train[:, : len(KINDS)], KINDS)
    for n, name in enumerate(KINDS.names):
        parts = model.explain(X_test[0], name).parts
        members = {CLASSES.names[k] for k in np.flatnonzero(MEMBERSHIP[:, n])}
        assert {part.name for part in parts if abs(part.value) > 1e-6} == members
    plain = fitted(BackboneKnowledge(CLASSES), data, X=X)
    expected = plain.decision_function(X_test, "unseen")
    everything = plain.set_params(kinds=KINDS.vectors[:1], membership=np.ones((N_CLASSES, 1)))
    np.testing.assert_array_equal(fitted(everything, data, X=X).decision_function(X_test, "unseen"), expected)


def test_columns_in_another_order_than_the_classes_are_refused():
    logits = pd.DataFrame(np.eye(3) * 4.0, columns=["a", "b", "c"])
    classes = dict(zip("abc", np.eye(3), strict=True))
    BackboneKnowledge(classes).fit(logits, np.eye(3), np.eye(3))
    with pytest.raises(ValueError, match=r"^X: "):
        BackboneKnowledge(classes).fit(logits[["c", "b", "a"]], np.eye(3), np.eye(3))


@pytest.mark.filterwarnings("error")
def test_logits_that_cannot_be_squared_are_refused(model, data, X):
    for dtype, size in ((np.float64, 1e51), (np.float32, 1e16)):
        with pytest.raises(ValueError, match=f"^X: some entries of {dtype.__name__} are larger than"):
            fitted(clone(model), data, X=np.where(X.max() == X, size, X.astype(dtype)))
        with pytest.raises(ValueError, match=r"^X: some entries"):
            model.decision_function(sp.csr_array(np.full(X[:1].shape, -size, dtype)), "all")


def test_a_membership_that_is_masked_or_complex_is_refused():
    eye = np.eye(3)
    for membership in (np.ma.masked_equal(eye, 1.0), sp.csr_array(eye * 1j), eye.astype("m8[s]")):
        model = BackboneKnowledge(np.eye(3), kinds=np.eye(3), membership=membership, center=False)
        with pytest.raises(ValueError, match=r"^membership: "):
            model.fit(np.eye(3), np.eye(3), np.eye(3))


def test_probabilities_are_refused(data, X):
    probabilities = softmax(X, axis=1)
    model = fitted(BackboneKnowledge(CLASSES), data, X=X)
    for use in (model.decision_function, lambda X: fitted(model, data, X=X)):
        with pytest.raises(ValueError, match=r"^X: its rows are probabilities"):
            use(probabilities)


@pytest.mark.parametrize(
    "changed",
    [
        *(
            {"class_vectors": given}
            for given in (None, CLASSES.vectors[:9], CLASSES.vectors[:, :9], 0 * CLASSES.vectors)
        ),
        {"class_vectors": CLASSES, "kinds": KINDS.vectors[:, :9], "membership": MEMBERSHIP},
        *({"membership": given, "kinds": KINDS} for given in (None, MEMBERSHIP.T)),
        *({name: 1.5} for name in ("cooccurrence", "smoothing")),
        {"spread": 0.5},
        {"sharpness": "high"},
        {"center": "yes"},
    ],
)
def test_bad_parameters_are_refused(data, changed):
    with pytest.raises(ValueError, match=rf"^{next(iter(changed))}: "):
        fitted(BackboneKnowledge(CLASSES).set_params(**changed), data, X=data.X_train[:, 25:])


def test_labels_need_vectors(data):
    with pytest.raises(ValueError, match=r"^seen: "):
        BackboneKnowledge(CLASSES).fit(data.X_train[:, 25:], data.Y_train[:, data.seen])
