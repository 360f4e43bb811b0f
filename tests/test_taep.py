"""TAEP as a user meets it: what it finds, what it certifies, what it says."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from tests.data import needs_voc, voc2007

from unseen import TAEP, make_tagged_scenes
from unseen.evaluation.protocol import alternating_split, evaluate, training_view, zero_shot_view


@pytest.fixture(scope="module")
def scenes():
    return make_tagged_scenes(n_train=600, n_test=300)


@pytest.fixture(scope="module")
def training(scenes):
    return training_view(scenes.X_train, scenes.Y_train, alternating_split(scenes.names))


def fit(training, scenes, relations=None, **params):
    return TAEP(**params).fit(training.X, training.Y, scenes.seen_labels, scenes.unseen_labels, relations)


def test_tags_unseen_labels_far_better_than_chance(scenes, training):
    model = fit(training, scenes, rank=6, beta=2.0)
    test = zero_shot_view(scenes.X_test, scenes.Y_test, alternating_split(scenes.names))
    scores = model.decision_function(test.X, "unseen")
    shuffled = np.random.default_rng(0).permuted(scores, axis=1)
    assert evaluate(scores, test).miap > evaluate(shuffled, test).miap + 0.15


@pytest.mark.parametrize("tol", [1e-2, 1e-3])
def test_certificate_is_reached_and_consistent(scenes, training, tol):
    model = fit(training, scenes, rank=4, beta=2.0, tol=tol)
    assert model.dual_gap_ == model.objective_ - model.lower_bound_
    assert 0 <= model.dual_gap_ <= tol * model.objective_
    assert np.all(np.diff(model.objective_trace_) <= 0)
    assert model.objective_trace_[-1] == pytest.approx(model.objective_, rel=tol)


def test_objective_is_what_the_docstring_says(scenes, training):
    model = fit(training, scenes, rank=4, beta=2.0, gamma=0.7, lam=0.4, scaling="paper",
                relations=scenes.relations("hierarchy"))  # fmt: skip
    S = model.decision_function(training.X)
    positive = np.where(training.Y == 1, 1 - S, 0).max(axis=1).clip(0)
    negative = np.where(training.Y == 0, 1 + S, 0).max(axis=1).clip(0)
    energy = np.sum(model.visual_projection_**2) + np.sum(model.threshold_weights_**2)
    M = np.vstack([scenes.seen_labels.vectors, scenes.unseen_labels.vectors])
    M = M - M.mean(axis=0)
    M /= np.linalg.norm(M, axis=1, keepdims=True)
    G = M @ model.projection_ @ model.projection_.T @ M.T
    n = len(scenes.seen)
    apart = G[n:, n:].sum() - np.trace(G[n:, n:])
    transfer = apart / (2 * n * (n - 1)) - G[:n, n:].sum() / (2 * n * n)
    R = scenes.relations("hierarchy")
    root = np.sqrt(R.sum(axis=1))
    agreement = 0.5 * np.trace((np.eye(2 * n) - R / np.outer(root, root)) @ G)
    by_hand = positive.sum() + negative.sum() + energy + 0.7 * transfer + 0.4 * agreement
    assert model.objective_ == pytest.approx(by_hand, rel=1e-5)


def test_projection_lies_in_the_fantope(scenes, training):
    model = fit(training, scenes, rank=4)
    eigenvalues = np.linalg.eigvalsh(model.projection_.T @ model.projection_)
    assert eigenvalues.max() <= 1 + 1e-8
    assert eigenvalues.sum() <= 4 + 1e-8
    rounded = fit(training, scenes, rank=4, solver="rounded", tol=0.5)
    P = rounded.projection_ @ rounded.projection_.T
    np.testing.assert_allclose(P @ P, P, atol=1e-8)


def test_alternation_warns_and_says_what_to_do(scenes, training):
    with pytest.warns(ConvergenceWarning, match="solver='convex'"):
        alternating = fit(training, scenes, rank=4, beta=1.0, solver="alternating", max_iter=10)
    convex = fit(training, scenes, rank=4, beta=1.0)
    assert convex.objective_ < alternating.objective_trace_.min()
    assert convex.lower_bound_ <= alternating.objective_trace_.min()


def test_too_few_iterations_warn(scenes, training):
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        fit(training, scenes, rank=2, max_iter=1, tol=1e-6)


def test_scale_free_weights_do_not_depend_on_the_number_of_images(scenes, training):
    """Every image twice and beta doubled: the same problem, so the same projection; not so in the paper's form."""
    X, Y = np.vstack([training.X] * 2), np.vstack([training.Y] * 2)
    spaces = scenes.seen_labels, scenes.unseen_labels, scenes.relations("hierarchy")
    for scaling, agrees in (("scale-free", True), ("paper", False)):
        weights = {"gamma": 0.5, "lam": 0.5} if scaling == "scale-free" else {"gamma": 500.0, "lam": 50.0}
        once = TAEP(4, 2.0, scaling=scaling, tol=1e-4, **weights).fit(training.X, training.Y, *spaces)
        twice = TAEP(4, 4.0, scaling=scaling, tol=1e-4, **weights).fit(X, Y, *spaces)
        P, Q = (model.projection_ @ model.projection_.T for model in (once, twice))
        assert (np.linalg.norm(P - Q) < 0.1) == agrees
        assert (twice.objective_ == pytest.approx(2 * once.objective_, rel=1e-3)) == agrees


def test_lambda_to_zero_is_plain_taep(scenes, training):
    plain = fit(training, scenes, rank=4, beta=2.0, gamma=0.0)
    nearly = fit(training, scenes, rank=4, beta=2.0, gamma=0.0, lam=1e-9, relations=scenes.relations("hit counts"))
    strong = fit(training, scenes, rank=4, beta=2.0, gamma=0.0, lam=1.0, relations=scenes.relations("hit counts"))
    np.testing.assert_allclose(nearly.projection_ @ nearly.projection_.T, plain.projection_ @ plain.projection_.T,
                               atol=1e-3)  # fmt: skip
    assert (
        np.linalg.norm(strong.projection_ @ strong.projection_.T - plain.projection_ @ plain.projection_.T) > 0.1
    )


def test_one_unseen_label_works(scenes, training):
    model = TAEP(rank=4, gamma=1.0).fit(
        training.X, training.Y, scenes.seen_labels, scenes.unseen_labels.select(["cat"])
    )
    assert np.isfinite(model.decision_function(training.X, "unseen")).all()


def test_threads_do_not_change_the_answer_beyond_the_tolerance(scenes, training):
    one, two = (fit(training, scenes, rank=4, n_jobs=n) for n in (1, 2))
    assert one.objective_ == pytest.approx(two.objective_, rel=1e-3)


def test_verbose_prints_a_line_an_iteration(scenes, training, capsys):
    model = fit(training, scenes, rank=3, verbose=1)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == model.n_iter_ - 1  # the first evaluation is the starting point
    assert all("objective" in line and "lower bound" in line for line in lines)


def test_silent_by_default(scenes, training, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(training, scenes, rank=4)
    assert capsys.readouterr().out == ""


@needs_voc
def test_on_real_photos_the_convex_optimum_is_below_every_iterate_of_the_alternation():
    training, _, _, seen, unseen = voc2007()
    convex = TAEP(5, 10.0, gamma=0.0, tol=1e-2).fit(training.X, training.Y, seen, unseen)
    with pytest.warns(ConvergenceWarning):
        alternating = TAEP(5, 10.0, gamma=0.0, tol=1e-2, solver="alternating", max_iter=10).fit(
            training.X, training.Y, seen, unseen
        )
    assert convex.dual_gap_ <= 0.01 * convex.objective_
    assert convex.objective_ < alternating.objective_trace_.min()
    assert np.ptp(alternating.objective_trace_[3:]) > 0.02 * convex.objective_  # it cycles


@needs_voc
def test_on_real_photos_unseen_labels_are_ranked_well_above_chance():
    training, zero_shot, generalized, seen, unseen = voc2007()
    model = TAEP(10, 10.0, gamma=0.0, tol=1e-2).fit(training.X, training.Y, seen, unseen)
    assert evaluate(model.decision_function(zero_shot.X, "unseen"), zero_shot).miap > 0.5
    assert evaluate(model.decision_function(generalized.X, "all"), generalized).miap > 0.65


def test_explaining_by_other_images_than_those_of_fit_is_noticed(scenes, training):
    model = fit(training, scenes, rank=4)
    with pytest.raises(ValueError, match=r"X_train: .* Pass the features given to"):
        model.explain(scenes.X_test[0], "cat", training.X[::-1])


def test_a_label_unlike_every_seen_one_is_explained_by_the_threshold_alone(scenes, training):
    model = TAEP(rank=4, center=False).fit(training.X, training.Y, scenes.seen_labels)
    apart = np.linalg.svd(scenes.seen_labels.vectors)[2][-1]  # orthogonal to all seen labels
    why = model.explain(scenes.X_test[0], apart)
    assert [part.value for part in why.parts] == pytest.approx([0.0] * 12, abs=1e-9)
    assert why.score == pytest.approx(why.offset, abs=1e-6)


def test_explanation_belongs_to_the_fit_not_to_the_parameters(scenes, training):
    model = fit(training, scenes, rank=4)
    before = model.explain(scenes.X_test[0], "cat", training.X)
    assert model.set_params(beta=99.0).explain(scenes.X_test[0], "cat", training.X) == before


@pytest.mark.parametrize("factor", [1e-200, 1e200])
def test_features_of_any_size_are_normalised(scenes, training, factor):
    X = training.X.astype(np.float64)
    reference, scaled = (
        TAEP(rank=4).fit(features, training.Y, scenes.seen_labels).decision_function(features)
        for features in (X, X * factor)
    )
    np.testing.assert_allclose(scaled, reference, atol=1e-2)  # the tolerance of the fits


@pytest.mark.parametrize(("parameter", "value"), [("n_jobs", "two"), ("n_jobs", 0), ("random_state", "seed")])
def test_bad_parameters_are_named(scenes, training, parameter, value):
    with pytest.raises(ValueError, match=f"^{parameter}: "):
        fit(training, scenes, **{parameter: value})


def test_a_fitted_model_does_not_change_with_its_parameters(scenes, training):
    model = fit(training, scenes, rank=4)
    before = model.decision_function(scenes.X_test, "all")
    model.set_params(normalize=False, center=False, beta=1.0)
    np.testing.assert_array_equal(model.decision_function(scenes.X_test, "all"), before)


@pytest.mark.parametrize("beta", [1e-2, 1e-4])
def test_separable_data_and_a_small_beta_do_not_ask_for_digits_of_nothing(scenes, beta):
    few = slice(0, 60)
    Y = scenes.Y_train[few][:, scenes.seen]
    model = TAEP(rank=6, beta=beta).fit(scenes.X_train[few], Y, scenes.seen_labels, scenes.unseen_labels)
    assert model.relative_gap_ <= 1e-3
    assert model.n_epochs_ < 5000


@pytest.mark.parametrize("weight", ["gamma", "lam"])
def test_very_strong_regularisers_are_solved_without_overflow(scenes, training, weight):
    R = scenes.relations("hierarchy")
    model = fit(training, scenes, relations=R, rank=4, **{weight: 1e3})
    assert np.isfinite(model.objective_)
    assert model.relative_gap_ <= 1e-3
    with pytest.raises(ValueError, match=f"^{weight}: "):
        fit(training, scenes, relations=R, **{weight: 1e10})


@pytest.mark.parametrize(("dtype", "factor"), [(np.float32, 1e-40), (np.float32, 1e37), (np.float64, 1e-310)])
def test_features_out_of_range_are_refused(training, dtype, factor):
    X = (training.X.astype(np.float64) * factor).astype(dtype)
    with pytest.raises(ValueError, match=r"^X: the largest entry of row 0 is .* Rescale X"):
        TAEP().fit(X, training.Y)
