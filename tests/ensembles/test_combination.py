"""Combination adds the standardised scores of two taggers."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from tests.methods_data import fitted

from unseen import TAEP, LabelSpace, make_tagged_scenes
from unseen.baselines import ESZSL, ConSE
from unseen.ensembles import BackboneKnowledge, Combination

N_FIRST, N_CLASSES = 24, 30
CLASSES = LabelSpace(
    [f"class of {k}" for k in range(N_CLASSES)], np.random.default_rng(3).normal(size=(N_CLASSES, 16))
)
TAGGER = TAEP(beta=1.0, tol=1e-5)
KNOWLEDGE = BackboneKnowledge(CLASSES, sharpness=2.0)
WITH_BACKBONE = Combination(TAGGER, KNOWLEDGE, N_FIRST, weight=0.5)
ESTIMATORS = {
    "with backbone": WITH_BACKBONE,
    "of taggers": Combination(TAGGER, ESZSL(), N_FIRST),
}


@pytest.fixture(scope="module")
def data():
    return make_tagged_scenes(120, 30, n_features=N_FIRST + N_CLASSES, n_dims=16, random_state=1)


@pytest.fixture(scope="module", params=ESTIMATORS)
def estimator(request):
    return ESTIMATORS[request.param]


@pytest.fixture(scope="module")
def model(estimator, data):
    return fitted(clone(estimator), data)


def test_the_score_is_the_sum_of_standardised_scores(estimator, model, data):
    total = -model.threshold_
    trust = np.where(np.arange(24) < 12, 1.0, estimator.transfer)
    for tagger, columns, weight in (
        (estimator.first, slice(N_FIRST), trust),
        (estimator.second, slice(N_FIRST, None), estimator.weight),
    ):
        alone = fitted(clone(tagger), data, X=data.X_train[:, columns])
        training = alone.decision_function(data.X_train[:, columns], "seen")
        scores = alone.decision_function(data.X_test[:, columns], "all")
        total = total + weight * (scores - training.mean()) / training.std()
    np.testing.assert_allclose(model.decision_function(data.X_test, "all"), total, atol=1e-9)


def test_training_images_are_named_only_by_a_first_part_that_keeps_them(data):
    model = fitted(Combination(ESZSL(), ConSE(), N_FIRST), data)
    with pytest.raises(ValueError, match=r"^X_train: ESZSL does not keep its images"):
        model.explain(data.X_test[0], "cat", data.X_train)
    model = fitted(Combination(TAEP(tol=1e-2), ConSE(), N_FIRST), data)
    with pytest.raises(ValueError, match="X has 3 features"):
        model.explain(data.X_test[0], "cat", data.X_train[:, :3])
    for X_train in (data.X_train.tolist(), pd.DataFrame(data.X_train), sp.coo_array(data.X_train[:, :N_FIRST])):
        parts = model.explain(data.X_test[0], "cat", X_train).parts
        assert {part.kind for part in parts} == {"image", "label"}


def test_the_parts_are_those_of_the_taggers_times_their_factors(data):
    model, name = fitted(clone(WITH_BACKBONE), data), data.unseen_labels.names[2]
    why = model.explain(data.X_test[0], name)
    for tagger, x, kind, factor in (
        (model.first_, data.X_test[0, :N_FIRST], "label", model.transfer / model.stds_[0]),
        (model.second_, data.X_test[0, N_FIRST:], "class", model.weight / model.stds_[1]),
    ):
        own = {part.name: factor * part.value for part in tagger.explain(x, name).parts}
        assert {part.name: part.value for part in why.parts if part.kind == kind} == pytest.approx(own)


def test_training_images_take_the_place_of_labels(data):
    model, name = fitted(clone(WITH_BACKBONE), data), data.unseen_labels.names[2]
    why = model.explain(data.X_test[0], name, data.X_train)
    assert {part.kind for part in why.parts} == {"image", "class"}
    assert why.score == model.explain(data.X_test[0], name).score
    assert why.offset == pytest.approx(model.explain(data.X_test[0], name).offset, abs=1e-4)


def test_a_combination_of_combinations(data, tmp_path):
    model = fitted(Combination(Combination(ConSE(), ESZSL(), 10), BackboneKnowledge(CLASSES), N_FIRST), data)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.save(tmp_path / "model")
    loaded = Combination.load(tmp_path / "model")
    parts = model.explain(data.X_test[0], model.label_names_[0]).parts  # the two of a seen label are added
    assert len({part[:2] for part in parts}) == len(parts)
    assert type(loaded.first_.second_) is ESZSL
    np.testing.assert_array_equal(loaded.decision_function(data.X_test), model.decision_function(data.X_test))
    assert fitted(loaded.set_params(second=ESZSL()), data).second_.n_features_in_ == N_CLASSES


@pytest.mark.parametrize(
    "changed",
    [
        {"first": None},
        {"second": "TAEP"},
        *({"n_first": given} for given in (0, 54)),
        {"weight": np.nan},
        {"transfer": -0.5},
    ],
)
def test_bad_parameters_are_refused(data, changed):
    with pytest.raises(ValueError, match=rf"^{next(iter(changed))}: "):
        fitted(clone(WITH_BACKBONE).set_params(**changed), data)
