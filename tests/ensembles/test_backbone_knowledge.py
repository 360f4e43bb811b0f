"""BackboneKnowledge scores any label from the classes of a backbone, and keeps the contract on logits."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.linear_model import Ridge
from tests.contract.test_contract import TestPredictions, TestScores, fit  # noqa: F401

from unseen import LabelSpace, ZeroShotTagger, make_tagged_scenes
from unseen.ensembles._likeness import FEATURE_PENALTY, MOST_KEPT, PENALTY, compact_images, kept_images
from unseen.ensembles._readings import RANK, factor
from unseen.ensembles.backbone_knowledge import TINY, BackboneKnowledge

N_CLASSES = 40
RNG = np.random.default_rng(3)
CLASSES = LabelSpace([f"class of {k}" for k in range(N_CLASSES)], RNG.normal(size=(N_CLASSES, 16)) + 0.5)
KINDS = LabelSpace([f"kind of {k}" for k in range(7)], RNG.normal(size=(7, 16)) + 0.5)
MEMBERSHIP = RNG.random((N_CLASSES, 7)) < 0.3
MEMBERSHIP[5] = False  # a class of no kind
MEMBERSHIP[:, 0] = np.arange(N_CLASSES) == 3  # a kind of one class


@pytest.fixture(scope="module")
def data():
    return make_tagged_scenes(120, 30, n_features=N_CLASSES, n_dims=16, random_state=1)


@pytest.fixture(scope="module", name="Y")
def annotations(data):
    return data.Y_train[:, data.seen]


@pytest.fixture(
    scope="module",
    params=[
        BackboneKnowledge(CLASSES),
        BackboneKnowledge(
            CLASSES.vectors,
            sharpness=2.5,
            temperature=1.5,
            spread=1.0,
            cooccurrence=0.0,
            smoothing=0.0,
            regression=0.0,
            center=False,
        ),
        BackboneKnowledge(
            CLASSES, kinds=KINDS, membership=MEMBERSHIP, spread=2.0, cooccurrence=0.4, regression=0.8
        ),
    ],
    ids=["centred", "plain", "kinds"],
)
def estimator(request):
    return request.param


@pytest.fixture(scope="module")
def model(estimator, data, Y):
    return clone(estimator).fit(data.X_train, Y, data.seen_labels, data.unseen_labels)


def by_hand(model, logits, vectors, training):
    """The formula, with the regression as one of scikit-learn."""
    own = evidence_by_hand(model, np.vstack([logits, training]), vectors, training)
    tested, learned = np.split(own, [len(logits)])
    centred = [rows.astype(float) - rows.mean(axis=1, keepdims=True) for rows in (logits, training)]
    z, z_training = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in centred)
    alike = Ridge(alpha=PENALTY * len(training)).fit(z_training, learned)
    return (1.0 - model.regression) * tested + model.regression * alike.predict(z)


def evidence_by_hand(model, logits, vectors, training):
    """One number at a time."""
    centre = CLASSES.vectors.mean(axis=0) if model.center else 0.0
    names = [(vector, {k}) for k, vector in enumerate(CLASSES.vectors)]
    if model.kinds is not None:
        names += [(KINDS.vectors[n], set(np.flatnonzero(MEMBERSHIP[:, n]))) for n in range(len(KINDS))]

    def affinity(k, label):
        largest = 0.0
        for vector, classes in names:
            if k in classes:
                moved = vector - centre
                cosine = moved @ label / np.linalg.norm(moved) / np.linalg.norm(label)
                specificity = 1.0 - np.log(len(classes)) / np.log(N_CLASSES)
                largest = max(largest, specificity * max(0.0, cosine) ** model.sharpness)
        return largest

    def probabilities(rows, temperature):
        powers = np.exp(rows.astype(float) / temperature)
        return powers / powers.sum(axis=1, keepdims=True)

    shown = probabilities(training, model.temperature)
    together = np.array([(shown[:, [k]] * shown).mean(axis=0) / shown[:, k].mean() for k in range(N_CLASSES)])
    scores = np.zeros((len(logits), len(vectors)))
    for c, label in enumerate(vectors - centre):
        own = np.array([affinity(k, label) for k in range(N_CLASSES)])
        spoken = (1.0 - model.cooccurrence) * own + model.cooccurrence * together @ own
        for temperature in (model.temperature, model.spread * model.temperature):
            expected = probabilities(training, temperature).mean(axis=0)
            background = model.smoothing / N_CLASSES + (1.0 - model.smoothing) * expected
            for i, p in enumerate(probabilities(logits, temperature)):
                scores[i, c] += 0.5 * (np.log(p @ spoken + TINY) - np.log(background @ spoken + TINY))
    return scores


def test_the_score_is_the_formula(model, data):
    X, labels = data.X_test[:6], data.unseen_labels
    scores = model.decision_function(X, labels) + model.threshold_
    np.testing.assert_allclose(scores, by_hand(model, X, labels.vectors, data.X_train), atol=1e-3)


def test_classes_seen_together_speak_for_each_other(data):
    logits = np.zeros((60, N_CLASSES))
    logits[:30, [3, 4]] = 9.0  # always together
    logits[30:, 8] = 9.0
    asked = {"companion": CLASSES.vectors[4]}
    only_3 = np.where(np.arange(N_CLASSES) == 3, 9.0, 0.0)
    shares = []
    for cooccurrence in (0.0, 0.3):
        model = BackboneKnowledge(CLASSES, sharpness=50.0, cooccurrence=cooccurrence)
        model.fit(logits, np.arange(60)[:, None] < 30, asked)
        why = model.explain(only_3, "companion")
        shares.append({tag.name: tag.score for tag in why.shares}.get("class of 3", 0.0))
        assert why.score == pytest.approx(model.decision_function(only_3[None], asked)[0, 0], abs=1e-9)
    assert shares[0] < 0.01
    assert shares[1] > 0.5


def test_companions_of_many_classes_are_kept_by_their_largest_part(data):
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.full(100, 0.05), size=300)
    products = P.T @ P / len(P)
    kept = factor(products)
    assert kept.shape == (100, RANK)
    values = np.linalg.eigvalsh(products)
    # The nearest matrix of this rank leaves out exactly the smallest eigenvalues.
    error = np.linalg.norm(kept.astype(float) @ kept.T - products)
    assert error == pytest.approx(np.linalg.norm(values[: 100 - RANK]), rel=0.05)


def test_an_image_borrows_the_evidence_of_those_that_look_alike():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(80, N_CLASSES))
    logits[:40, :10] += 4.0  # one look of a scene, in which class 3 speaks now and then
    logits[:30, 3] += 5.0
    asked = {"thing": CLASSES.vectors[3]}
    overlooked = logits[35]  # of that look, but class 3 is silent
    unlikely = logits[70] + 5.0 * (np.arange(N_CLASSES) == 3)  # class 3 speaks on another look
    model = BackboneKnowledge(CLASSES, sharpness=50.0, cooccurrence=0.0)
    model.fit(logits, np.arange(80)[:, None] < 40, asked)
    assert model.explain(overlooked, "thing").alike > 0.2
    assert model.explain(unlikely, "thing").alike < -0.2


def test_the_images_kept_do_not_depend_on_the_order_of_all():
    logits = np.random.default_rng(0).normal(size=(3 * MOST_KEPT, 12))
    kept = logits[kept_images(logits)]
    assert kept.shape == (MOST_KEPT, 12)
    backwards = logits[::-1]
    np.testing.assert_array_equal(kept, backwards[kept_images(backwards)])


def test_kept_images_are_features_of_unit_length_and_logits_up_to_zero():
    images = 100.0 * np.random.default_rng(0).normal(size=(5, 12))
    images[3, :8] = 0.0  # an image without a feature stays one
    kept = compact_images(images, 8).astype(float)
    np.testing.assert_allclose(np.linalg.norm(kept[:, :8], axis=1), [1.0, 1.0, 1.0, 0.0, 1.0], atol=1e-3)
    np.testing.assert_allclose(kept[:, 8:], images[:, 8:] - images[:, 8:].max(axis=1, keepdims=True), rtol=1e-3)


@pytest.fixture(scope="module")
def features():
    return np.random.default_rng(4).gamma(1.0, size=(150, 25))


@pytest.fixture(scope="module")
def seeing(features, data, Y):
    model = BackboneKnowledge(CLASSES, n_features=25, regression=0.4)
    return model.fit(np.hstack([features[:120], data.X_train]), Y, data.seen_labels, data.unseen_labels)


class TestFeatures:
    """Features before the logits tell the images that look alike, and nothing else."""

    def test_the_regression_is_on_them(self, seeing, features, data):
        plain = BackboneKnowledge(CLASSES, regression=0.0)
        learned, tested = (
            evidence_by_hand(plain, rows, data.unseen_labels.vectors, data.X_train)
            for rows in (data.X_train, data.X_test)
        )
        z = features / np.linalg.norm(features, axis=1, keepdims=True)
        alike = Ridge(alpha=FEATURE_PENALTY * 120).fit(z[:120], learned)
        scores = seeing.decision_function(np.hstack([features[120:], data.X_test]), data.unseen_labels)
        np.testing.assert_allclose(
            scores + seeing.threshold_, 0.6 * tested + 0.4 * alike.predict(z[120:]), atol=2e-2
        )

    def test_their_length_is_immaterial(self, seeing, features, data):
        X = np.hstack([features[120:], data.X_test])
        longer = np.hstack([1e5 * features[120:], data.X_test])
        np.testing.assert_allclose(seeing.decision_function(longer), seeing.decision_function(X), atol=1e-9)

    @pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
    def test_explanations_and_files_keep_them(self, seeing, features, data, storage, tmp_path):
        X = storage(np.hstack([features[120:], data.X_test]))
        name = data.unseen_labels.names[0]
        scores = seeing.decision_function(X, [name])[:, 0]
        assert seeing.explain(X[[2]], name).score == pytest.approx(scores[2], abs=1e-9)
        seeing.save(tmp_path / "model")
        loaded = ZeroShotTagger.load(tmp_path / "model")
        np.testing.assert_array_equal(loaded.decision_function(X, [name])[:, 0], scores)

    def test_the_images_kept_are_those_of_the_logits(self, data, Y):
        rng = np.random.default_rng(0)
        features, logits = rng.gamma(1.0, size=(700, 25)), rng.normal(size=(700, N_CLASSES))
        X, given = np.hstack([features, logits]), np.tile(Y, (6, 1))[:700]
        model = BackboneKnowledge(CLASSES, n_features=25).fit(X, given, data.seen_labels)
        np.testing.assert_array_equal(model.kept_, compact_images(X[kept_images(logits)], 25))
        expected = model.decision_function(X[:9])
        model.set_params(n_features=0)  # of the next fit
        np.testing.assert_array_equal(model.decision_function(X[:9]), expected)

    def test_probabilities_after_them_are_refused(self, features, data, Y):
        probabilities = np.random.default_rng(0).dirichlet(np.ones(N_CLASSES), size=120)
        with pytest.raises(ValueError, match=r"^X: its rows are probabilities"):
            BackboneKnowledge(CLASSES, n_features=25).fit(
                np.hstack([features[:120], probabilities]), Y, data.seen_labels
            )

    def test_without_regression_or_training_they_are_immaterial(self, features, data, Y):
        X = np.hstack([features[120:], data.X_test])
        model = BackboneKnowledge(CLASSES, n_features=25, regression=0.0)
        model.fit(np.hstack([features[:120], data.X_train]), Y, data.seen_labels)
        plain = BackboneKnowledge(CLASSES, regression=0.0).fit(data.X_train, Y, data.seen_labels)
        np.testing.assert_allclose(model.decision_function(X), plain.decision_function(data.X_test), atol=1e-12)
        ready = BackboneKnowledge(CLASSES, n_features=25).without_training(data.seen_labels)
        plain = BackboneKnowledge(CLASSES).without_training(data.seen_labels)
        np.testing.assert_allclose(ready.decision_function(X), plain.decision_function(data.X_test), atol=1e-12)

    @pytest.mark.parametrize(
        ("n_features", "message"),
        [
            (-1, r"^n_features: -1 was given\. Pass"),
            (1.5, r"^n_features: 1\.5 was given\. Pass"),
            (3, r"^n_features: 3 columns and 40 classes, but X has 40 columns\. Pass"),
            (99, r"^n_features: 99 columns and 40 classes, but X has 40 columns\. Pass"),
        ],
    )
    def test_bad_numbers_of_features_are_refused(self, data, Y, n_features, message):
        with pytest.raises(ValueError, match=message):
            BackboneKnowledge(CLASSES, n_features=n_features).fit(data.X_train, Y, data.seen_labels)


def test_logits_beyond_half_precision_leave_no_infinite_scores(data, Y):
    model = BackboneKnowledge(CLASSES).fit(data.X_train * 1e6, Y, data.seen_labels)
    assert np.isfinite(model.decision_function(data.X_test * 1e6)).all()


def test_a_model_written_before_there_was_a_regression_does_without(data, Y, tmp_path):
    model = BackboneKnowledge(CLASSES, regression=0.0).fit(data.X_train, Y, data.seen_labels)
    expected = model.decision_function(data.X_test)
    del model.kept_, model.regression_
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(ZeroShotTagger.load(tmp_path / "model").decision_function(data.X_test), expected)


def test_log_probabilities_do_as_well_as_logits(model, data):
    X = data.X_test.astype(float)
    log_probabilities = X - np.log(np.exp(X).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(
        model.decision_function(log_probabilities, "all"), model.decision_function(X, "all"), atol=1e-10
    )


def test_annotations_and_seen_labels_do_not_change_the_ranking(estimator, model, data, Y):
    other = clone(estimator).fit(data.X_train, 1 - Y[:, :5], data.seen_labels.vectors[:5])
    expected = model.decision_function(data.X_test, data.labels) + model.threshold_
    np.testing.assert_allclose(
        other.decision_function(data.X_test, data.labels) + other.threshold_, expected, atol=1e-12
    )


def test_evidence_is_standardised_on_the_training_images_and_seen_labels(model, data):
    evidence = model.evidence(data.X_train)
    assert evidence.mean() == pytest.approx(0.0, abs=1e-9)
    assert evidence.std() == pytest.approx(1.0)
    assert np.array_equal(evidence.argsort(axis=1), model.decision_function(data.X_train).argsort(axis=1))


def test_a_class_without_a_vector_says_nothing_itself(data, Y):
    vectors = CLASSES.vectors.copy()
    vectors[7] = 0.0
    model = BackboneKnowledge(vectors, cooccurrence=0.0).fit(data.X_train, Y, data.seen_labels)
    np.testing.assert_allclose(model.label_center_, np.delete(vectors, 7, axis=0).mean(axis=0))
    reasons = [model.explain(data.X_test[0], vector) for vector in data.unseen_labels.vectors]
    names = {tag.name for why in reasons for tag in why.classes}
    assert names
    assert "class 7" not in names


def test_sparse_logits_are_the_same_logits(estimator, model, data, Y):
    again = clone(estimator).fit(sp.csr_array(data.X_train), Y, data.seen_labels, data.unseen_labels)
    expected = model.decision_function(data.X_test, "all")
    np.testing.assert_allclose(again.decision_function(sp.csr_array(data.X_test), "all"), expected, atol=1e-12)


def test_the_size_of_the_vectors_is_immaterial(estimator, model, data, Y):
    huge = clone(estimator).set_params(class_vectors=CLASSES.vectors * 1e200)
    if estimator.kinds is not None:
        huge.set_params(kinds=KINDS.vectors * 1e200)
    huge.fit(data.X_train, Y, data.seen_labels.vectors * 1e200)
    np.testing.assert_allclose(
        huge.decision_function(data.X_test), model.decision_function(data.X_test), atol=1e-9
    )


class TestExplanations:
    def test_the_classes_sum_to_the_score(self, model, data):
        name = data.unseen_labels.names[2]
        scores = model.decision_function(data.X_test, [name])[:, 0]
        for i in (0, 7):
            why = model.explain(data.X_test[i], name)
            assert why.label == name
            assert why.score == pytest.approx(scores[i], abs=1e-9)
            evidence = [tag.score for tag in why.classes]
            total = np.log(sum(evidence)) - np.log(why.expected) + why.alike - model.threshold_
            assert total == pytest.approx(scores[i], abs=1e-9)
            assert evidence == sorted(evidence, reverse=True)
            assert sum(tag.score for tag in why.shares) == pytest.approx(1.0)

    def test_the_classes_have_their_names(self, data, Y):
        for vectors, name in ((CLASSES, "class of 5"), (CLASSES.vectors, "class 5")):
            model = BackboneKnowledge(vectors, sharpness=50.0).fit(data.X_train, Y, data.seen_labels)
            assert model.explain(data.X_test[:1], CLASSES.vectors[5]).classes[0].name == name

    def test_nothing_speaks_for_the_opposite_of_every_class(self, data, Y):
        model = BackboneKnowledge(np.abs(CLASSES.vectors), center=False)
        model.fit(data.X_train, Y, data.seen_labels)
        why = model.explain(data.X_test[0], -np.ones(16))
        assert (why.classes, why.shares, why.expected) == ((), (), pytest.approx(TINY))
        assert why.score == pytest.approx(-model.threshold_)

    def test_without_regression_only_the_image_itself_speaks(self, data, Y):
        model = BackboneKnowledge(CLASSES, regression=0.0).fit(data.X_train, Y, data.seen_labels)
        assert model.explain(data.X_test[0], data.seen_labels.names[0]).alike == 0.0
        assert model.kept_.shape == (0, N_CLASSES)

    def test_one_image_at_a_time(self, model, data):
        with pytest.raises(ValueError, match=r"^x: 2 images were given\. Pass"):
            model.explain(data.X_test[:2], data.unseen_labels.names[0])


class TestFiles:
    def test_a_loaded_model_is_the_saved_one(self, model, data, Y, tmp_path):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.save(tmp_path / "model")
        loaded = ZeroShotTagger.load(tmp_path / "model")
        assert type(loaded) is BackboneKnowledge
        assert loaded.get_params() == model.get_params() | {
            "class_vectors": None,
            "kinds": None,
            "membership": None,
        }
        assert loaded.class_names_ == model.class_names_
        assert set(vars(loaded)) == set(vars(model))
        X, name = data.X_test, data.unseen_labels.names[0]
        np.testing.assert_array_equal(loaded.decision_function(X, "all"), model.decision_function(X, "all"))
        assert loaded.explain(X[0], name) == model.explain(X[0], name)
        loaded.save(tmp_path / "again")
        assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()

    def test_a_loaded_model_can_be_fitted_again(self, model, data, Y, tmp_path):
        model.save(tmp_path / "model")
        again = BackboneKnowledge.load(tmp_path / "model").fit(data.X_train, Y, data.seen_labels)
        np.testing.assert_array_equal(again.decision_function(data.X_test), model.decision_function(data.X_test))


def test_clones_carry_the_parameters_and_nothing_learned(model):
    twin = clone(model)
    assert not any(name.endswith("_") for name in vars(twin))
    assert twin.set_params(sharpness=3.0).get_params()["sharpness"] == 3.0
    vectors = getattr(twin.class_vectors, "vectors", twin.class_vectors)
    np.testing.assert_array_equal(vectors, CLASSES.vectors)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"class_vectors": None}, r"^class_vectors: None was given\. Pass"),
        ({"class_vectors": CLASSES.vectors[:9]}, r"^class_vectors: 9 classes, but X has 40 columns\. Pass"),
        (
            {"class_vectors": CLASSES.vectors[:, :9]},
            r"^seen: vectors of 16 dimensions, but class_vectors has 9\. T",
        ),
        ({"class_vectors": np.zeros((40, 16))}, r"^class_vectors: all of them are zeros\. Pass"),
        (
            {"class_vectors": np.full((40, 16), np.nan)},
            r"^class_vectors: ",
        ),
        ({"class_vectors": list(CLASSES.names)}, r"^class_vectors: names without vectors were given\. Pass"),
        ({"kinds": KINDS}, r"^membership: None was given with kinds\. Pass"),
        ({"membership": MEMBERSHIP}, r"^membership: given without kinds\. Pass"),
        (
            {"kinds": KINDS, "membership": MEMBERSHIP.T},
            r"^membership: its shape is \(7, 40\), but there are 40 classes and 7 kinds\. Pass",
        ),
        ({"kinds": KINDS, "membership": [["a"] * 7] * 40}, r"^membership: cannot be read .* Pass zeros and ones"),
        (
            {"kinds": KINDS.vectors[:, :9], "membership": MEMBERSHIP},
            r"^kinds: vectors of 9 dimensions, but class_vectors has 16\. Take",
        ),
        ({"temperature": 0.0}, r"^temperature: 0\.0 was given\. Pass"),
        ({"spread": 0.5}, r"^spread: 0\.5 was given\. Pass a finite number >= 1"),
        ({"cooccurrence": 1.5}, r"^cooccurrence: 1\.5 was given\. Pass"),
        ({"smoothing": 1.5}, r"^smoothing: 1\.5 was given\. Pass"),
        ({"regression": 1.5}, r"^regression: 1\.5 was given\. Pass"),
        ({"sharpness": 0}, r"^sharpness: 0 was given\. Pass"),
        ({"sharpness": "high"}, r"^sharpness: 'high' was given\. Pass"),
        ({"center": "yes"}, r"^center: 'yes' was given\. Pass"),
    ],
)
def test_bad_parameters_are_refused(data, Y, changed, message):
    model = BackboneKnowledge(CLASSES).set_params(**changed)
    with pytest.raises(ValueError, match=message):
        model.fit(data.X_train, Y, data.seen_labels)
    assert not any(name.endswith("_") for name in vars(model))


def test_labels_need_vectors(data, Y):
    with pytest.raises(ValueError, match=r"^seen: no label vectors were given, .* Pass"):
        BackboneKnowledge(CLASSES).fit(data.X_train, Y)


def test_probabilities_are_refused(data, Y):
    X = np.exp(data.X_train.astype(float))
    with pytest.raises(ValueError, match=r"^X: its rows are probabilities, .* Pass the logits"):
        BackboneKnowledge(CLASSES).fit(X / X.sum(axis=1, keepdims=True), Y, data.seen_labels)


def test_no_annotated_image_is_needed_to_rank_labels(estimator, data, Y, tmp_path):
    untrained = clone(estimator).without_training(data.unseen_labels, lift=2.0)
    even = clone(estimator).set_params(smoothing=1.0, cooccurrence=0.0, regression=0.0)
    even.fit(data.X_train, Y, data.seen_labels)
    X, asked = data.X_test, list(data.unseen_labels.names)
    raw = even.decision_function(X, data.unseen_labels) + even.threshold_
    np.testing.assert_allclose(untrained.decision_function(X), raw - np.log(2.0), atol=1e-10)
    np.testing.assert_array_equal(untrained.predict(X), raw > np.log(2.0))
    assert untrained.tag(X[:1], asked[:1])[0][0].name == asked[0]
    untrained.save(tmp_path / "model.safetensors")
    loaded = BackboneKnowledge.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(loaded.decision_function(X), untrained.decision_function(X))


@pytest.mark.parametrize("lift", [0.0, -1.0, "much"])
def test_an_impossible_lift_is_refused(data, lift):
    with pytest.raises(ValueError, match="lift: "):
        BackboneKnowledge(CLASSES).without_training(data.unseen_labels, lift)


def test_a_kind_speaks_through_all_its_classes_and_no_other(data):
    model = BackboneKnowledge(CLASSES, sharpness=200.0, kinds=KINDS, membership=sp.csr_array(MEMBERSHIP))
    model.without_training(KINDS)
    for n, name in enumerate(KINDS.names):
        why = model.explain(data.X_test[0], name)
        assert {tag.name for tag in why.classes if tag.score > 1e-6} == {
            CLASSES.names[k] for k in np.flatnonzero(MEMBERSHIP[:, n])
        }


def test_a_kind_of_all_classes_says_nothing(data):
    plain = BackboneKnowledge(CLASSES).without_training(data.unseen_labels)
    everything = clone(plain).set_params(kinds=KINDS.vectors[:1], membership=np.ones((N_CLASSES, 1)))
    everything.without_training(data.unseen_labels)
    np.testing.assert_array_equal(everything.decision_function(data.X_test), plain.decision_function(data.X_test))


def test_many_labels_at_once_score_as_one_by_one(model, data):
    labels = np.random.default_rng(1).normal(size=(600, 16))
    together = model.decision_function(data.X_test[:3], labels)
    alone = [model.decision_function(data.X_test[:3], labels[c : c + 1])[:, 0] for c in (0, 255, 256, 599)]
    np.testing.assert_allclose(together[:, [0, 255, 256, 599]].T, alone, atol=1e-10)


def test_without_training_too_labels_come_from_the_source_of_the_classes(data):
    with pytest.raises(ValueError, match="dimensions, but class_vectors has 16"):
        BackboneKnowledge(CLASSES).without_training({"a": np.ones(3)})
    with pytest.raises(ValueError, match="class_vectors"):
        BackboneKnowledge().without_training(data.unseen_labels)


def test_columns_in_another_order_than_the_classes_are_refused():
    logits = pd.DataFrame(np.eye(3) * 4.0, columns=["a", "b", "c"])
    classes = dict(zip("abc", np.eye(3), strict=True))
    BackboneKnowledge(classes).fit(logits, np.eye(3), np.eye(3))
    with pytest.raises(ValueError, match="X: its columns are the classes of class_vectors in another order"):
        BackboneKnowledge(classes).fit(logits[["c", "b", "a"]], np.eye(3), np.eye(3))


def test_probabilities_are_refused_when_they_are_to_be_scored():
    logits = np.random.default_rng(0).normal(size=(20, 12)) * 3.0
    model = BackboneKnowledge(np.eye(12)).fit(logits, np.eye(2)[np.arange(20) % 2], np.eye(12)[:2])
    with pytest.raises(ValueError, match="X: its rows are probabilities"):
        model.decision_function(np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True))
