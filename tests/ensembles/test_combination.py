"""Combination adds the standardised scores of two taggers, and keeps the contract."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from tests.contract import test_contract as contract
from tests.contract.test_contract import (  # noqa: F401
    TestPredictions,
    TestScores,
    TestUnknownEntries,
    fit,
)

from unseen import TAEP, LabelSpace, ZeroShotTagger, make_tagged_scenes
from unseen.baselines.eszsl import ESZSL
from unseen.ensembles.backbone_knowledge import BackboneKnowledge
from unseen.ensembles.combination import Combination
from unseen.ensembles.stacked import Stacked
from unseen.evaluation.search import class_holdout_search

N_FIRST, N_CLASSES = 24, 30
CLASSES = LabelSpace(
    [f"class of {k}" for k in range(N_CLASSES)], np.random.default_rng(3).normal(size=(N_CLASSES, 16))
)
TAGGER = TAEP(beta=1.0, tol=1e-5)
WITH_BACKBONE = Combination(TAGGER, BackboneKnowledge(CLASSES, sharpness=2.0), N_FIRST, weight=0.5)
OF_TAGGERS = Combination(TAGGER, ESZSL(), N_FIRST)
OF_PARTS = Combination(
    Stacked(n_splits=2, tol=1e-5),
    BackboneKnowledge(CLASSES, sharpness=2.0, n_features=N_FIRST),
    N_FIRST,
    second_sees_all=True,
)


class Silent(ESZSL):
    """A tagger that explains nothing."""

    _seen_parts = ZeroShotTagger._seen_parts


@pytest.fixture(scope="module")
def data():
    return make_tagged_scenes(120, 30, n_features=N_FIRST + N_CLASSES, n_dims=16, random_state=1)


@pytest.fixture(scope="module", name="Y")
def annotations(data):
    return data.Y_train[:, data.seen]


@pytest.fixture(
    scope="module", params=[WITH_BACKBONE, OF_TAGGERS, OF_PARTS], ids=["with backbone", "of taggers", "of parts"]
)
def estimator(request):
    return request.param


@pytest.fixture(scope="module")
def model(estimator, data, Y):
    return clone(estimator).fit(data.X_train, Y, data.seen_labels, data.unseen_labels)


class TestFit(contract.TestFit):
    test_clones_carry_the_parameters_and_nothing_learned = None  # clones of the parts are equal, not the same


class TestFiles:
    @pytest.mark.parametrize("form", contract.FORMS)
    def test_a_loaded_model_is_the_saved_one_bit_for_bit(self, estimator, data, Y, form, tmp_path):
        given = {"X": data.X_train} | contract.FORMS[form](data, Y)
        if "seen" not in given and estimator is not OF_TAGGERS:
            pytest.skip("the backbone needs label vectors")
        model = clone(estimator).fit(**given)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.save(tmp_path / "model")
        loaded = ZeroShotTagger.load(tmp_path / "model")
        assert type(loaded) is Combination
        assert type(loaded.first) is type(estimator.first)
        assert set(vars(loaded)) == set(vars(model))
        assert type(loaded.first_) is type(estimator.first)
        X = given["X"][:30]
        np.testing.assert_array_equal(loaded.decision_function(X, "all"), model.decision_function(X, "all"))
        np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
        assert loaded.tag(X) == model.tag(X)
        label = model.label_names_[0]
        assert loaded.explain(X[:1], label) == model.explain(X[:1], label)
        loaded.save(tmp_path / "again")
        assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()

    def test_a_combination_of_combinations(self, data, Y, tmp_path):
        inner = Combination(TAGGER, ESZSL(), 10)
        model = Combination(inner, BackboneKnowledge(CLASSES), N_FIRST)
        model.fit(data.X_train, Y, data.seen_labels).save(tmp_path / "model")
        loaded = Combination.load(tmp_path / "model")
        assert type(loaded.first_.second_) is ESZSL
        np.testing.assert_array_equal(loaded.decision_function(data.X_test), model.decision_function(data.X_test))


def test_the_score_is_the_sum_of_standardised_scores(estimator, model, data, Y):
    total = -model.threshold_
    for part, columns, weight in (
        (estimator.first, slice(N_FIRST), 1.0),
        (estimator.second, slice(0 if estimator.second_sees_all else N_FIRST, None), estimator.weight),
    ):
        alone = clone(part).fit(data.X_train[:, columns], Y, data.seen_labels, data.unseen_labels)
        training = alone.decision_function(data.X_train[:, columns], "seen")
        scores = alone.decision_function(data.X_test[:, columns], data.labels)
        if part is estimator.first:
            weight = np.where(
                np.isin(data.labels.names, data.seen_labels.names), weight, weight * estimator.transfer
            )
        total = total + weight * (scores - training.mean()) / training.std()
    np.testing.assert_allclose(model.decision_function(data.X_test, data.labels), total, atol=1e-9)


def test_with_weight_zero_labels_are_ranked_as_by_the_first(estimator, data, Y):
    model = clone(estimator).set_params(weight=0.0, transfer=1.0).fit(data.X_train, Y, data.seen_labels)
    alone = clone(estimator.first).fit(data.X_train[:, :N_FIRST], Y, data.seen_labels)
    scores = alone.decision_function(data.X_test[:, :N_FIRST], data.labels)
    np.testing.assert_array_equal(
        np.argsort(-model.decision_function(data.X_test, data.labels), axis=1), np.argsort(-scores, axis=1)
    )


def test_a_seen_label_is_known_by_its_vector_up_to_rounding(model, data):
    seen = data.seen_labels
    by_name = model.decision_function(data.X_test, list(seen.names))
    rounded = seen.vectors.astype(np.float32).astype(np.float64)
    np.testing.assert_allclose(model.decision_function(data.X_test, rounded), by_name, atol=1e-4)
    other = seen.vectors[:1] * (1.0 + 1e-3 * np.arange(16))  # nearly the same direction, yet another label
    moved = model.decision_function(data.X_test, other)[:, 0] - by_name[:, 0]
    assert np.abs(moved).max() > 0.05


def test_each_part_may_have_label_vectors_of_its_own(data, Y):
    other = np.random.default_rng(5).normal(size=(len(data.labels), 5))
    stacked = LabelSpace(data.labels.names, np.hstack([data.labels.vectors, other]))
    classes = np.random.default_rng(6).normal(size=(N_CLASSES, 5))
    seen = stacked.select(data.seen_labels.names)
    model = Combination(TAGGER, BackboneKnowledge(classes), N_FIRST, n_first_dims=16)
    model.fit(data.X_train, Y, seen)
    second = BackboneKnowledge(classes).fit(data.X_train[:, N_FIRST:], Y, seen.vectors[:, 16:])
    np.testing.assert_array_equal(
        model.second_.decision_function(data.X_test[:, N_FIRST:]),
        second.decision_function(data.X_test[:, N_FIRST:]),
    )
    assert model.first_.label_vectors_.shape[1] == 16
    why = model.explain(data.X_test[0], stacked.vectors[3])
    assert why.score == pytest.approx(model.decision_function(data.X_test[:1], stacked)[0, 3])


def test_two_taggers_may_have_all_columns(data, Y):
    model = Combination(ESZSL(), TAGGER, 54, second_sees_all=True).fit(data.X_train, Y, data.seen_labels)
    assert model.first_.n_features_in_ == model.second_.n_features_in_ == 54
    expected = model.decision_function(data.X_test)
    model.set_params(second_sees_all=False)  # of the next fit
    np.testing.assert_array_equal(model.decision_function(data.X_test), expected)


class TestExplanations:
    @pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
    def test_the_parts_sum_to_the_score(self, model, data, storage):
        name = data.unseen_labels.names[2]
        scores = model.decision_function(data.X_test, [name])[:, 0]
        for i in (0, 7):
            why = model.explain(storage(data.X_test[i : i + 1]), name)
            assert why.label == name
            assert why.first + why.second + why.offset == pytest.approx(why.score, abs=1e-12)
            assert why.score == pytest.approx(scores[i], abs=1e-6)
            standardised = (why.why_first.score - model.means_[0]) / model.stds_[0]
            assert standardised * model.transfer == pytest.approx(why.first, abs=1e-5)

    def test_each_part_gives_its_reasons(self, data, Y):
        why = (
            clone(WITH_BACKBONE)
            .fit(data.X_train, Y, data.seen_labels)
            .explain(data.X_test[0], data.unseen_labels.vectors[0])
        )
        assert {part.name for part in why.why_first.parts} == set(data.seen_labels.names)
        assert why.why_second.classes[0].name in CLASSES.names
        silent = Combination(TAGGER, Silent(), N_FIRST).fit(data.X_train, Y, data.seen_labels)
        assert silent.explain(data.X_test[0], data.seen_labels.names[0]).why_second is None

    def test_one_image_at_a_time(self, model, data):
        with pytest.raises(ValueError, match=r"^x: 2 images were given\. Pass"):
            model.explain(data.X_test[:2], data.unseen_labels.names[0])


def test_parameters_of_the_parts_are_set_by_name(data, Y):
    model = clone(WITH_BACKBONE).set_params(first__beta=3.0, second__sharpness=5.0, weight=2.0)
    assert (model.first.beta, model.second.sharpness, model.weight) == (3.0, 5.0, 2.0)
    assert WITH_BACKBONE.first.beta == 1.0
    model.fit(data.X_train, Y, data.seen_labels)
    assert model.first_.beta_ == 3.0
    assert model.second_.sharpness_ == 5.0
    assert not any(name.endswith("_") for name in vars(model.first))
    assert not any(name.endswith("_") for name in vars(clone(model)))
    with pytest.raises(ValueError, match="nonsense"):
        model.set_params(nonsense=1)


def test_a_refit_with_other_parts_leaves_nothing_of_the_old_ones(data, Y):
    model = clone(WITH_BACKBONE).fit(data.X_train, Y, data.seen_labels)
    model.set_params(second=ESZSL()).fit(data.X_train, Y, data.seen_labels)
    fresh = clone(model).fit(data.X_train, Y, data.seen_labels)
    assert set(vars(model)) == set(vars(fresh))


def test_weight_and_sharpness_are_chosen_by_class_holdout(data, Y):
    grid = {"weight": [0.0, 1.0], "second__sharpness": [2.0, 6.0]}
    quick = clone(WITH_BACKBONE).set_params(first__tol=1e-1)
    result = class_holdout_search(quick, grid, data.X_train, Y, data.seen_labels, n_splits=1)
    assert set(result.best_params) == set(grid)
    silent = {row.mean for row in result.table if row.params["weight"] == 0.0}
    heard = {row.mean for row in result.table if row.params["weight"] == 1.0}
    assert len(silent) == 1  # without weight, sharpness is immaterial
    assert len(heard) == 2


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"first": None}, r"^first: None was given\. Pass a tagger"),
        ({"second": "TAEP"}, r"^second: 'TAEP' was given\. Pass a tagger"),
        ({"n_first": 0}, r"^n_first: 0 was given\. Pass"),
        ({"n_first": 54}, r"^n_first: 54 of the 54 columns of X leave none for the second part\. Pass"),
        ({"n_first": 55, "second_sees_all": True}, r"^n_first: 55 columns, but X has 54\. Pass"),
        ({"second_sees_all": "yes"}, r"^second_sees_all: 'yes' was given\. Pass"),
        ({"second_sees_all": True}, r"^class_vectors: 30 classes, but X has 54 columns\. Pass"),
        ({"n_first_dims": 16}, r"^n_first_dims: 16 of the 16 dimensions .* leave none .* Pass None"),
        ({"n_first_dims": 1.5}, r"^n_first_dims: 1\.5 was given\. Pass"),
        ({"weight": -1.0}, r"^weight: -1\.0 was given\. Pass"),
        ({"weight": np.nan}, r"^weight: nan was given\. Pass"),
        ({"transfer": -0.5}, r"^transfer: -0\.5 was given\. Pass"),
        ({"first__beta": 0.0}, r"^beta: 0\.0 was given\. Pass"),
        ({"n_first": 25}, r"^class_vectors: 30 classes, but X has 29 columns\. Pass"),
    ],
)
def test_bad_parameters_are_refused(data, Y, changed, message):
    model = clone(WITH_BACKBONE).set_params(**changed)
    with pytest.raises(ValueError, match=message):
        model.fit(data.X_train, Y, data.seen_labels)
    assert not any(name.endswith("_") for name in vars(model))
