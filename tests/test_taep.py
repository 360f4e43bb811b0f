"""TAEP as a user meets it: what it finds, what it certifies, what it says."""

import warnings
from copy import copy

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from tests.data import needs_voc, voc2007

from unseen import TAEP, make_tagged_scenes
from unseen.evaluation.protocol import alternating_split, evaluate, training_view


@pytest.fixture(scope="module")
def scenes():
    return make_tagged_scenes(n_train=600, n_test=300)


@pytest.fixture(scope="module")
def training(scenes):
    return training_view(scenes.X_train, scenes.Y_train, alternating_split(scenes.names))


@pytest.fixture(scope="module")
def model(scenes, training):
    return fit(training, scenes, rank=4, beta=2.0)


def fit(training, scenes, relations=None, **params):
    return TAEP(**params).fit(training.X, training.Y, scenes.seen_labels, scenes.unseen_labels, relations)


def projector(model):
    return model.projection_ @ model.projection_.T


class TestObjective:
    @pytest.mark.parametrize("loss", ["mean", "max"])
    def test_it_is_what_the_docstring_says(self, scenes, training, loss):
        weights = np.random.default_rng(0).uniform(0, 3, size=len(training.X)).round(1)
        R = scenes.relations("hierarchy")
        model = TAEP(rank=4, beta=2.0, gamma=0.7, lam=0.4, loss=loss, scaling="paper").fit(
            training.X, training.Y, scenes.seen_labels, scenes.unseen_labels, R, sample_weight=weights
        )
        S = model.decision_function(training.X)
        sides = [
            np.where(side, (1 - t * S).clip(0), np.nan)
            for t, side in ((1, training.Y == 1), (-1, training.Y == 0))
        ]
        total = {"mean": np.nanmean, "max": np.nanmax}[loss]
        positive, negative = (np.nan_to_num(total(side, axis=1)) for side in sides)
        energy = np.sum(model.visual_projection_**2) + np.sum(model.threshold_weights_**2)
        M = np.vstack([scenes.seen_labels.vectors, scenes.unseen_labels.vectors])
        M = M - M.mean(axis=0)
        M /= np.linalg.norm(M, axis=1, keepdims=True)
        G = M @ projector(model) @ M.T
        n = len(scenes.seen)
        apart = G[n:, n:].sum() - np.trace(G[n:, n:])
        transfer = apart / (2 * n * (n - 1)) - G[:n, n:].sum() / (2 * n * n)
        root = np.sqrt(R.sum(axis=1))
        agreement = 0.5 * np.trace((np.eye(2 * n) - R / np.outer(root, root)) @ G)
        data = weights @ (positive + negative) + energy
        assert model.objective_ == pytest.approx(data + 0.7 * transfer + 0.4 * agreement, rel=1e-5)
        n_sides = weights @ ((training.Y == 1).any(axis=1).astype(int) + (training.Y == 0).any(axis=1))
        scale = max(min(abs(model.objective_), data), 0.1 * data, 0.01 * n_sides)
        assert model.relative_gap_ == pytest.approx(model.dual_gap_ / scale, rel=0.05)

    def test_the_certificate_is_reached_and_consistent(self, model):
        assert model.dual_gap_ == model.objective_ - model.lower_bound_
        assert 0 <= model.dual_gap_ <= 1e-3 * model.objective_
        assert np.all(np.diff(model.objective_trace_) <= 0)
        assert model.objective_trace_[-1] == pytest.approx(model.objective_, rel=1e-3)

    def test_the_projection_lies_in_the_fantope(self, scenes, training, model):
        eigenvalues = np.linalg.eigvalsh(model.projection_.T @ model.projection_)
        assert eigenvalues.max() <= 1 + 1e-8
        assert eigenvalues.sum() <= 4 + 1e-8
        P = projector(fit(training, scenes, rank=4, solver="rounded", tol=0.5))
        np.testing.assert_allclose(P @ P, P, atol=1e-8)

    def test_the_alternation_warns_and_says_what_to_do(self, scenes, training):
        with pytest.warns(ConvergenceWarning, match="solver='convex'"):
            alternating = fit(training, scenes, rank=4, beta=1.0, solver="alternating", max_iter=10)
        convex = fit(training, scenes, rank=4, beta=1.0)
        assert convex.lower_bound_ <= convex.objective_ < alternating.objective_trace_.min()
        with pytest.warns(ConvergenceWarning, match="max_iter"):
            fit(training, scenes, rank=2, max_iter=1, tol=1e-6)

    @pytest.mark.parametrize("solver", ["alternating", "alternating-sweep"])
    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    def test_a_warm_start_continues_the_alternation(self, scenes, training, solver):
        options = {"rank": 4, "beta": 1.0, "loss": "max", "scaling": "paper", "solver": solver}
        whole = fit(training, scenes, max_iter=4, **options)
        model, trace = TAEP(**options, max_iter=1, warm_start=True), []
        for _ in range(4):
            model.fit(training.X, training.Y, scenes.seen_labels, scenes.unseen_labels)
            trace.append(model.objective_)
        # Every fit begins with the same order of the images, which matters most where they are visited once.
        assert trace[0] == pytest.approx(whole.objective_trace_[0])
        np.testing.assert_allclose(trace, whole.objective_trace_, rtol=0.1 if solver == "alternating" else 0.3)
        if solver == "alternating-sweep":
            assert max(trace[1:]) < 0.5 * trace[0]  # a fit that began anew would repeat the first
            assert (model.n_epochs_, whole.n_epochs_) == (1, 5)

    def test_scale_free_weights_do_not_depend_on_the_number_of_images(self, scenes, training):
        """Every image twice and |V|^2 too: the same problem and projection; not in the paper's form."""
        X, Y = np.vstack([training.X] * 2), np.vstack([training.Y] * 2)
        spaces = scenes.seen_labels, scenes.unseen_labels, scenes.relations("hierarchy")
        for scaling, agrees in (("scale-free", True), ("paper", False)):
            weights = {"gamma": 0.5, "lam": 0.5} if scaling == "scale-free" else {"gamma": 500.0, "lam": 50.0}
            # The scale-free beta grows by the root of the number of images itself.
            more = np.sqrt(2.0) if agrees else 2.0
            once = TAEP(4, 2.0, scaling=scaling, tol=1e-4, **weights).fit(training.X, training.Y, *spaces)
            twice = TAEP(4, 2.0 * more, scaling=scaling, tol=1e-4, **weights).fit(X, Y, *spaces)
            assert twice.beta_ == pytest.approx(2.0 * once.beta_)
            assert (np.linalg.norm(projector(once) - projector(twice)) < 0.1) == agrees
            assert (twice.objective_ == pytest.approx(2 * once.objective_, rel=1e-3)) == agrees

    def test_separable_data_and_a_small_beta_do_not_ask_for_digits_of_nothing(self, scenes):
        Y = scenes.Y_train[:60, scenes.seen]
        model = TAEP(rank=6, beta=1e-4).fit(scenes.X_train[:60], Y, scenes.seen_labels, scenes.unseen_labels)
        assert model.relative_gap_ <= 1e-3
        assert model.n_epochs_ < 5000


class TestSampleWeight:
    @pytest.mark.parametrize("storage", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
    def test_an_image_of_weight_two_counts_as_two_and_of_weight_zero_as_none(self, storage):
        scenes = make_tagged_scenes(60, 20, n_features=16, random_state=2)
        X, Y = scenes.X_train.astype(np.float64), scenes.Y_train[:, scenes.seen]
        counts = np.random.default_rng(0).integers(0, 4, size=60)
        rows = np.repeat(np.arange(60), counts)
        labels, model = (scenes.seen_labels, scenes.unseen_labels), TAEP(beta=1.0, tol=1e-9)
        weighted = model.fit(storage(X), Y, *labels, sample_weight=counts).decision_function(scenes.X_test, "all")
        repeated = model.fit(storage(X[rows]), Y[rows], *labels).decision_function(scenes.X_test, "all")
        np.testing.assert_allclose(weighted, repeated, atol=1e-4)
        plain = model.fit(storage(X), Y, *labels).decision_function(scenes.X_test, "all")
        assert np.abs(plain - repeated).max() > 0.1

    def test_bad_weights_are_refused(self, training):
        for weights in (np.ones(3), -np.ones(600), np.zeros(600), np.full(600, np.nan)):
            with pytest.raises(ValueError, match=r"sample_?[ wW]eight"):
                TAEP().fit(training.X, training.Y, sample_weight=weights)


class TestParameters:
    def test_rank_may_be_a_share_of_the_seen_labels(self, scenes, training):
        for rank, number in ((0.5, 6), (1.0, 12), (0.01, 1), (np.float32(0.25), 3), (None, 12)):
            share, same = (fit(training, scenes, rank=value, tol=1e-2) for value in (rank, number))
            assert share.objective_ == same.objective_

    def test_bad_values_are_refused_by_name(self, scenes, training):
        bad = {"rank": [51, 0, 2.5, 0.0, "two"], "beta": [0.0, -1, 1e21, np.nan, "ten"], "gamma": [-0.1, 1e10],
               "lam": [np.inf, 1e10], "tol": [0], "max_iter": [0], "solver": ["newton"], "scaling": [None],
               "n_jobs": ["two", 0], "memory": ["all"], "engine": ["spark"]}  # fmt: skip
        for name, value in ((name, value) for name, values in bad.items() for value in values):
            with pytest.raises(ValueError, match=f"^{name}: "):
                fit(training, scenes, **{name: value})

    def test_weights_that_cannot_be_squared_or_read_are_refused(self, training):
        good, n = np.ones(len(training.Y)), len(training.Y)
        fine = [np.full(n, 1e-50), np.r_[1e50, np.full(n - 1, 1e-50)]]
        bad = [good * 1e308, good * 5e-324, np.r_[1e308, good[1:] * 1e-308], np.full(n, "x"), good * 1j,
               np.zeros(n, "m8[s]"), np.ma.masked_equal(np.arange(n), 3)]  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for weights in fine:
                model = TAEP(tol=1e-2).fit(training.X, training.Y, sample_weight=weights)
                assert model.relative_gap_ <= 1e-2
                assert np.isfinite(model.decision_function(training.X)).all()
            for weights in bad:
                with pytest.raises(ValueError, match=r"^sample_weight: "):
                    TAEP().fit(training.X, training.Y, sample_weight=weights)

    @pytest.mark.parametrize("memory", ["full", "low"])
    def test_images_that_cannot_be_squared_must_be_normalised(self, training, memory, tmp_path):
        np.save(tmp_path / "X.npy", training.X.astype(float) * 1e200)
        X = np.load(tmp_path / "X.npy", mmap_mode="r")
        TAEP(tol=1e-2, memory=memory).fit(X, training.Y)
        with pytest.raises(ValueError, match=r"^X: some entries of float64 are larger than 1e\+50"):
            TAEP(normalize=False, memory=memory).fit(X, training.Y)

    def test_threads_do_not_change_the_answer_beyond_the_tolerance(self, scenes, training, model):
        two = fit(training, scenes, rank=4, beta=2.0, n_jobs=2)
        assert two.objective_ == pytest.approx(model.objective_, rel=1e-3)

    def test_verbose_prints_a_line_per_iteration(self, scenes, training, capsys):
        model = fit(training, scenes, rank=3, verbose=1)
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) == model.n_iter_ - 1  # the first evaluation is the starting point

    def test_one_unseen_label_and_one_seen_label_work(self, scenes, training):
        model = TAEP(rank=4, gamma=1.0).fit(training.X, training.Y, scenes.seen_labels, {"cat": np.arange(50.0)})
        assert np.isfinite(model.decision_function(training.X, "unseen")).all()
        one = TAEP(center=False, tol=1e-2).fit(training.X, training.Y[:, :1], scenes.seen_labels.vectors[:1])
        assert one.label_names_ == ("label 0",)

    def test_a_fitted_model_does_not_change_with_its_parameters(self, scenes, training, model):
        changed = copy(model).set_params(normalize=False, center=False, beta=99.0)
        assert changed.tag(scenes.X_test) == model.tag(scenes.X_test)
        asked = scenes.X_test[0], "cat", training.X
        assert changed.explain(*asked) == model.explain(*asked)


class TestExplanations:
    @pytest.mark.parametrize("storage", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
    def test_training_images_sum_to_the_score_too(self, scenes, training, model, storage):
        why = model.explain(storage(scenes.X_test[:1]), "cat", storage(training.X))
        by_labels = model.explain(scenes.X_test[0], "cat")
        assert why.score == pytest.approx(by_labels.score, abs=1e-6)
        assert why.offset == pytest.approx(by_labels.offset, abs=1e-4)
        support = np.flatnonzero(np.diff(model.duals_.indptr))
        assert {(part.kind, part.name) for part in why.parts} <= {("image", str(row)) for row in support}

    def test_other_images_than_those_of_fit_are_noticed(self, scenes, training, model):
        for other in (training.X[::-1], training.X[:99]):
            with pytest.raises(ValueError, match=r"^X_train: "):
                model.explain(scenes.X_test[0], "cat", other)


@needs_voc
def test_on_real_photos_the_convex_optimum_is_below_every_iterate_of_the_alternation():
    training, zero_shot, generalized, seen, unseen = voc2007()
    convex, paper = (
        TAEP(5, 10.0, 0.0, loss="max", scaling="paper", tol=1e-2, solver=solver, max_iter=10)
        for solver in ("convex", "alternating")
    )
    convex.set_params(max_iter=200).fit(training.X, training.Y, seen, unseen)
    with pytest.warns(ConvergenceWarning):
        trace = paper.fit(training.X, training.Y, seen, unseen).objective_trace_
    assert convex.dual_gap_ <= 0.01 * convex.objective_
    assert convex.objective_ < trace.min()
    assert np.ptp(trace[3:]) > 0.02 * convex.objective_  # it cycles
    assert evaluate(convex.decision_function(zero_shot.X, "unseen"), zero_shot).miap > 0.5
    assert evaluate(convex.decision_function(generalized.X, "all"), generalized).miap > 0.65
