from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from unseen import make_tagged_scenes
from unseen.baselines import ConSE
from unseen.baselines._linear import signed_power
from unseen.ensembles import Consensus, LabelMeanTransfer, consensus
from unseen.evaluation.metrics import mean_image_average_precision


@pytest.fixture(scope="module")
def data():
    scenes = make_tagged_scenes(200, 60, n_features=40, n_dims=16, random_state=0)
    return replace(scenes, X_train=scenes.X_train.astype(float), X_test=scenes.X_test.astype(float))


@pytest.fixture(scope="module", name="Y")
def annotations(data):
    return data.Y_train[:, data.seen].astype(float)


@pytest.fixture(scope="module", name="R")
def relations(data):
    counts = np.random.default_rng(1).random((24, 24))
    return counts + counts.T


@pytest.fixture(scope="module")
def model(data, Y, R):
    model = Consensus(neighborhood=0.8).fit(data.X_train, Y, data.seen_labels, data.unseen_labels, R)
    assert model.steps_ == 3
    return model


def raw_scores(model, X, labels):
    return model.decision_function(X, labels) + model.threshold_


def unit(X):
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def roots(X):
    return np.sign(X) * np.sqrt(np.abs(X))


def standardised(scores, known):
    return (scores - known.mean(axis=0)) / known.std(axis=0), (known - known.mean(axis=0)) / known.std(axis=0)


def without_and_with_neighbours(n_images):
    data = make_tagged_scenes(n_images, 100, random_state=1)
    models = (Consensus(steps=steps) for steps in (0, 3))
    return data, *(model.fit(data.X_train, data.Y_train[:, data.seen], data.seen_labels) for model in models)


class TestScores:
    @pytest.mark.parametrize("steps", [0, 1, 3])
    def test_it_is_the_sum_of_three_readings_by_images_alike_less_the_crowding(self, data, Y, R, steps):
        model = Consensus(steps=steps, neighborhood=0.8)
        model.fit(data.X_train, Y, data.seen_labels, data.unseen_labels, R)
        X, X_test = roots(data.X_train), roots(data.X_test)
        means, conse = LabelMeanTransfer(), ConSE(n_top=12)
        readings = []
        for rival in (means, conse):
            rival.fit(X, Y, data.seen_labels, data.unseen_labels)
            readings.append([rival.decision_function(images, "unseen") for images in (X_test, X)])
        shares = R[12:, :12] / R[12:, :12].sum(axis=1, keepdims=True)
        readings.append([(unit(images) @ means.weights_ + means.bias_) @ shares.T for images in (X_test, X)])
        parts = [standardised(*reading) for reading in readings]
        total, known = (sum(part) for part in zip(*parts, strict=True))
        n_neighbors = int(0.8 * np.median(Y.sum(axis=0)))
        middle = unit(X).mean(axis=0)
        looks, kept = (unit(unit(images) - middle) for images in (X_test, X))
        among = kept @ kept.T
        np.fill_diagonal(among, -1.0)
        alike, among = (np.argsort(-cosines, axis=1)[:, :n_neighbors] for cosines in (looks @ kept.T, among))
        for _ in range(steps):
            total, known = known[alike].mean(axis=1), known[among].mean(axis=1)
        total, known = standardised(total, known)
        expected = total - 0.7 * np.log(np.exp(known / 0.7).mean(axis=0))
        np.testing.assert_allclose(raw_scores(model, data.X_test, "unseen"), expected, atol=1e-5)

    def test_a_low_temperature_subtracts_the_highest_score_on_a_training_image(self, data, Y):
        model = Consensus(temperature=1e-3, steps=0).fit(data.X_train, Y, data.seen_labels, data.unseen_labels)
        highest = raw_scores(model, data.X_train, data.unseen_labels).max(axis=0)
        np.testing.assert_allclose(highest, 0.0, atol=0.01)

    def test_relations_matter_to_the_labels_given_to_fit_alone(self, data, Y, R, model):
        plain = Consensus(neighborhood=0.8).fit(data.X_train, Y, data.seen_labels, data.unseen_labels)
        late = np.random.default_rng(0).normal(size=(5, 16))
        np.testing.assert_allclose(raw_scores(plain, data.X_test, late), raw_scores(model, data.X_test, late))
        changed = raw_scores(plain, data.X_test, "unseen") - raw_scores(model, data.X_test, "unseen")
        assert np.abs(changed).max() > 0.1

    def test_without_steps_no_looks_are_kept(self, data, Y):
        model = Consensus(steps=0).fit(data.X_train, Y, data.seen_labels)
        assert model.kept_looks_.size == model.look_directions_.size == model.kept_neighbors_.size == 0

    def test_sparse_features_are_compared_as_dense_ones(self, data, Y, model):
        X, X_test = sp.csr_array(data.X_train), sp.csr_array(data.X_test)
        sparse, dense = (
            Consensus(neighborhood=0.8).fit(features, Y, data.seen_labels, data.unseen_labels)
            for features in (X, data.X_train)
        )
        np.testing.assert_allclose(
            raw_scores(sparse, X_test, "unseen"), raw_scores(dense, data.X_test, "unseen"), atol=1e-3
        )

    def test_few_images_are_not_asked(self):
        data, plain, few = without_and_with_neighbours(40)
        assert few.steps_ == 0
        np.testing.assert_array_equal(*(raw_scores(model, data.X_test, "all") for model in (plain, few)))

    def test_neighbours_do_not_reverse_what_the_image_says(self):
        data, plain, alike = without_and_with_neighbours(400)
        assert alike.steps_ == 3
        for label in data.unseen_labels.vectors:
            own, passed_on = (raw_scores(model, data.X_test, label[None])[:, 0] for model in (plain, alike))
            assert np.corrcoef(own, passed_on)[0, 1] > 0.3

    def test_the_neighbourhood_grows_with_the_images_of_a_label_up_to_a_quarter_of_all(self, data, Y):
        typical = np.median(Y.sum(axis=0))
        for neighborhood, n_neighbors in ((0.5, int(0.5 * typical)), (1e3, 50)):
            model = Consensus(neighborhood=neighborhood).fit(data.X_train, Y, data.seen_labels)
            assert model.kept_neighbors_.shape == (200, n_neighbors)

    def test_labels_are_scored_in_blocks(self, data, model, monkeypatch):
        expected = raw_scores(model, data.X_test, "all")
        monkeypatch.setattr(consensus, "LABELS_AT_ONCE", 5)
        np.testing.assert_allclose(raw_scores(model, data.X_test, "all"), expected, atol=1e-12)

    def test_an_image_alone_has_no_neighbour(self, data, Y):
        shown = np.flatnonzero(Y.any(axis=1))[:1]
        model = Consensus().fit(data.X_train[shown], Y[shown], data.seen_labels, data.unseen_labels)
        assert np.isfinite(model.decision_function(data.X_test, "all")).all()

    def test_half_of_the_images_nearly_suffice(self, monkeypatch):
        data = make_tagged_scenes(800, 60, random_state=0)
        sizes, scores = (400, 800), []
        for size in sizes:
            monkeypatch.setattr(consensus, "MOST_KEPT", size)
            model = Consensus().fit(data.X_train, data.Y_train[:, data.seen], data.seen_labels)
            assert model.kept_odds_.shape == (size, 12)
            assert model.steps_ == 3
            scores.append(raw_scores(model, data.X_test, data.unseen_labels).ravel())
        assert np.corrcoef(*scores)[0, 1] > 0.9

    def test_images_that_are_all_the_same_leave_every_score_alike(self, data, Y):
        X = np.repeat(data.X_train[:1], len(Y), axis=0)
        model = Consensus(neighborhood=0.8).fit(X, Y, data.seen_labels, data.unseen_labels)
        np.testing.assert_allclose(raw_scores(model, data.X_test, "all"), 0.0, atol=1e-9)

    def test_a_single_seen_label_is_enough(self, data, Y):
        seen = data.seen_labels.vectors[:1]
        model = Consensus(neighborhood=0.8, center=False).fit(
            data.X_train, Y[:, :1], seen, data.unseen_labels.vectors
        )
        assert np.isfinite(model.decision_function(data.X_test, "all")).all()

    def test_unseen_labels_are_found_far_better_than_by_chance(self):
        data = make_tagged_scenes(800, 300, random_state=3)
        model = Consensus().fit(data.X_train, data.Y_train[:, data.seen], data.seen_labels, data.unseen_labels)
        truth = data.Y_test[:, data.unseen]
        kept = truth.any(axis=1)
        scores = model.decision_function(data.X_test[kept], "unseen")
        chance = np.random.default_rng(0).random(scores.shape)
        found, lucky = (mean_image_average_precision(truth[kept], part) for part in (scores, chance))
        assert found > lucky + 0.2


class TestExplain:
    @pytest.mark.parametrize("steps", [0, 1, 3])
    def test_all_but_what_is_constant_for_a_label_is_of_the_seen_label_that_says_it(self, data, Y, R, steps):
        model = Consensus(steps=steps, neighborhood=0.8)
        model.fit(data.X_train, Y, data.seen_labels, data.unseen_labels, R)
        assert model.steps_ == steps
        m, seen = (unit(model.label_vectors_ - model.label_center_)[rows] for rows in (14, slice(12)))
        weights = seen @ m, R[14, :12] / R[14, :12].sum()

        def readings(z, o):
            probable = 1.0 / (1.0 + np.exp(-o))
            probable /= probable.sum(axis=1, keepdims=True)
            combined = probable * (seen @ m) / np.linalg.norm(probable @ seen, axis=1, keepdims=True)
            return z * weights[0], combined, z * weights[1]

        kept = readings(model.kept_evidence_.astype(float), model.kept_odds_.astype(float))
        spreads = [part.sum(axis=1).std() for part in kept]
        of_kept = spoken = sum(part / spread for part, spread in zip(kept, spreads, strict=True))
        for _ in range(steps):
            spoken, of_kept = of_kept, of_kept[model.kept_neighbors_].mean(axis=1)
        X = unit(roots(data.X_test[:5]))
        if steps:
            cosines = unit(X @ model.look_directions_ - model.look_middle_) @ model.kept_looks_.T
            nearest = np.argsort(-cosines, axis=1)[:, : model.kept_neighbors_.shape[1]]
            expected = spoken[nearest].mean(axis=1)
        else:
            z, o = X @ model.mean_weights_ + model.mean_bias_, X @ model.odds_weights_ + model.odds_bias_
            expected = sum(part / spread for part, spread in zip(readings(z, o), spreads, strict=True))
        for image, parts in zip(data.X_test, expected / of_kept.sum(axis=1).std(), strict=False):
            found = {part.name: part.value for part in model.explain(image, data.unseen_labels.names[2]).parts}
            rest = np.array([found[name] for name in data.seen_labels.names]) - parts
            np.testing.assert_allclose(rest, rest[0], atol=1e-4)


class TestParameters:
    @pytest.mark.parametrize(("name", "value"), [("steps", -1), ("steps", 1.5), ("neighborhood", 0.0)])
    def test_the_neighbourhood_is_checked(self, data, Y, name, value):
        with pytest.raises(ValueError, match=rf"^{name}: "):
            Consensus(**{name: value}).fit(data.X_train, Y, data.seen_labels)

    @pytest.mark.parametrize("name", ["C", "temperature", "power"])
    @pytest.mark.parametrize("value", [0.0, -1.0, np.nan, "much"])
    def test_they_are_checked(self, data, Y, name, value):
        with pytest.raises(ValueError, match=rf"^{name}: "):
            Consensus(**{name: value}).fit(data.X_train, Y, data.seen_labels)


class TestSignedPower:
    def test_signs_and_zeros_stay(self):
        X = np.array([[4.0, -9.0, 0.0], [0.0, 0.0, 0.0]])
        np.testing.assert_allclose(signed_power(X, 0.5, normalize=False), [[2.0, -3.0, 0.0], [0.0, 0.0, 0.0]])
        np.testing.assert_allclose(signed_power(X, 0.5, normalize=True), [[2.0 / 3.0, -1.0, 0.0], [0.0, 0.0, 0.0]])

    @pytest.mark.parametrize("normalize", [False, True])
    def test_sparse_features_stay_sparse(self, normalize):
        X = np.array([[4.0, -9.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 16.0]], dtype=np.float32)
        raised = signed_power(sp.csr_array(X), 0.5, normalize=normalize)
        assert sp.issparse(raised)
        assert raised.dtype == np.float32
        np.testing.assert_allclose(raised.toarray(), signed_power(X, 0.5, normalize=normalize))

    def test_a_power_of_one_is_no_copy(self):
        X = np.ones((2, 2))
        assert signed_power(X, 1.0, normalize=True) is X
