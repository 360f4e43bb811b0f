"""The search finds what held-out labels say, and cannot see unseen ones."""

import warnings
from threading import get_ident

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from joblib import parallel_config
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler

from unseen import TAEP, make_tagged_scenes
from unseen.baselines import ESZSL
from unseen.evaluation import metrics
from unseen.evaluation.search import Setting, choose, class_holdout, class_holdout_search

GRID = {"gamma": [0.1, 10.0], "lam": [0.1, 10.0]}


@pytest.fixture(scope="module")
def scenes():
    return make_tagged_scenes(n_train=300, n_test=10)


def search(scenes, estimator=None, grid=GRID, **options):
    given = {"Y": scenes.Y_train[:, scenes.seen], "seen": scenes.seen_labels} | options
    X = given.pop("X", scenes.X_train)
    return class_holdout_search(estimator or ESZSL(), grid, X, **{"n_splits": 2, **given})


def over_halvings(fold_scores):
    """Mean and standard error of the mean over halvings, each the mean of its two folds."""
    halvings = (np.array(fold_scores[::2]) + np.array(fold_scores[1::2])) / 2
    return halvings.mean(), np.sqrt(
        np.sum((halvings - halvings.mean()) ** 2) / (len(halvings) - 1) / len(halvings)
    )


def test_every_setting_has_its_folds_and_the_standard_error_over_halvings(scenes):
    calls, estimator = [], ESZSL()
    result = search(scenes, estimator, n_splits=3, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(i + 1, 30) for i in range(30)]  # four settings and the default, on six folds
    assert not hasattr(estimator, "label_vectors_")
    assert [row.params for row in result.table] == [
        {"gamma": 1.0, "lam": 10.0},  # its own
        *({"gamma": g, "lam": r} for g in (0.1, 10.0) for r in (0.1, 10.0)),
    ]
    assert result.default == result.table[0]
    assert result.best == max(result.table, key=lambda row: row.mean)
    for row in result.table:
        assert len(row.fold_scores) == 6
        assert row[1:3] == pytest.approx(over_halvings(row.fold_scores))
    paired = np.subtract(result.best.fold_scores, result.default.fold_scores)
    assert (result.gain, result.gain_error) == pytest.approx(over_halvings(paired))


def setting(name, *fold_scores):
    return Setting({"name": name}, *over_halvings(fold_scores), fold_scores)


@pytest.mark.parametrize(
    ("best", "choice"),
    [
        ((0.5, 0.5, 0.6, 0.6, 0.7, 0.7), "default"),  # a tie
        ((0.9, 0.5, 0.6, 0.6, 0.7, 0.68), "default"),  # +0.063 on average, with an error of 0.068
        ((0.52, 0.52, 0.62, 0.62, 0.72, 0.72), "best"),  # +0.02 on each: far below the error of either mean
        ((0.7, 0.5, 0.4, 0.6, 0.75, 0.7), "default"),
        ((0.6, 0.6, 0.6, 0.62, 0.75, 0.7), "best"),
    ],
)
def test_only_a_gain_above_one_standard_error_of_the_paired_difference_leaves_the_default(best, choice):
    default, best = setting("default", 0.5, 0.5, 0.6, 0.6, 0.7, 0.7), setting("best", *best)
    worse = setting("worse", *(0.1,) * 6)
    found = choose([worse, default, best], default)
    assert found.best.params["name"] == ("default" if best.mean == default.mean else "best")
    assert found.chosen.params["name"] == choice
    assert choose([best, default], default).chosen.params["name"] == choice


def test_the_error_of_two_halvings_and_the_defaults_of_a_search(scenes):
    (row,) = search(scenes, grid={}).table
    assert row[1:3] == pytest.approx(over_halvings(row.fold_scores))
    X, Y = scenes.X_train, scenes.Y_train[:, scenes.seen]
    result = class_holdout_search(ESZSL(), {}, X, Y, scenes.seen_labels)
    assert result == search(scenes, grid={}, n_splits=6, scoring="miap", random_state=0)
    assert len(list(class_holdout(Y))) == 4


def test_the_default_is_not_scored_twice_and_a_share_of_the_rank_stays_a_share(scenes):
    options = {"estimator": TAEP(tol=0.1), "n_splits": 1}
    inside = search(scenes, grid={"rank": [0.5, None]}, **options)
    assert [row.params["rank"] for row in inside.table] == [0.5, None]
    assert inside.default.params == {"rank": None}
    outside = search(scenes, grid={"rank": [0.5, 1.0]}, **options)
    assert [repr(row.params["rank"]) for row in outside.table] == ["None", "0.5", "1.0"]
    assert outside.table[0].fold_scores == outside.table[2].fold_scores  # None is all the labels of a fold
    several = search(scenes, grid=[{"rank": [0.5]}, {"beta": [0.5, 1.0]}], **options)
    assert several.default.params == {"beta": 0.5}  # with the rank of the estimator


def test_a_fold_score_is_that_of_a_fit_on_half_of_the_labels(scenes):
    X, M, expected = scenes.X_train, scenes.vectors[scenes.seen], []
    Y = np.where(np.arange(300)[:, None] % 5 == 0, np.nan, scenes.Y_train[:, scenes.seen])
    Y[:, ::2] = scenes.Y_train[:, scenes.seen[::2]]  # of each fifth image, half of the labels are known
    for A, B, fitted, scored in class_holdout(Y, n_splits=1, random_state=0):
        model = ESZSL().fit(X[fitted], Y[np.ix_(fitted, A)], M[A], M[B])
        scores = model.decision_function(X[scored], M[B])
        expected.append(metrics.mean_image_average_precision(Y[np.ix_(scored, B)], scores))
    result = search(scenes, Y=Y, grid={}, n_splits=1)
    (row,) = result.table
    assert row.fold_scores == pytest.approx(expected)
    assert result.chosen == result.default == row
    assert row.std_error == pytest.approx(abs(expected[0] - expected[1]) / 2)  # of two folds


def test_two_processes_find_the_same(scenes):
    assert search(scenes) == search(scenes, n_jobs=2)


def test_same_seed_same_table(scenes):
    assert search(scenes) == search(scenes, random_state=0)
    assert search(scenes).table != search(scenes, random_state=1).table
    assert search(scenes, max_images=30) == search(scenes, max_images=30) != search(scenes)


def test_progress_is_told_after_every_fit_and_fits_run_where_joblib_says(scenes):
    events, threads, options = [], set(), {"grid": {}, "n_splits": 1}
    search(
        scenes,
        scoring=lambda Y, scores: events.append("fit") or 0.5,
        progress=lambda *n: events.append(n),
        **options,
    )
    assert events == ["fit", (1, 2), "fit", (2, 2)]
    with parallel_config("threading"):
        search(scenes, scoring=lambda Y, scores: threads.add(get_ident()) or 0.5, n_jobs=2, **options)
    assert get_ident() not in threads


def test_relations_of_the_seen_labels_take_part(scenes):
    n, options = len(scenes.seen), {"estimator": TAEP(tol=1e-2, gamma=0.0, lam=0.0), "grid": {"lam": [0.0, 1.0]}}
    first, second = search(scenes, relations=scenes.relations("hierarchy")[:n, :n], **options).table
    assert first.mean != second.mean
    first, second = search(scenes, **options).table
    assert first.mean == second.mean  # no relations: lam has nothing to act on
    relations, names = scenes.relations("hierarchy")[:n, :n], list(scenes.seen_labels.names)
    expected = search(scenes, grid={}, relations=relations)
    assert search(scenes, grid={}, relations=relations, seen=scenes.vectors[scenes.seen]) == expected
    named = pd.DataFrame(relations, names, names).iloc[::-1, ::-1]
    assert search(scenes, grid={}, relations=named) == expected


def test_transformers_of_a_pipeline_are_fitted_on_the_training_images_of_each_fold(scenes):
    fitted_on = []

    class Recorded(PCA):
        def fit_transform(self, X, y=None):
            fitted_on.append((len(np.unique(X, axis=0)), y.shape))
            return super().fit_transform(X, y)

    pipeline = Pipeline([("scale", MaxAbsScaler()), ("pca", Recorded(random_state=0)), ("tagger", ESZSL())])
    pipeline.set_params(pca__n_components=2)
    few, many = search(scenes, pipeline, {"pca__n_components": [2, 20], "tagger__gamma": [1.0]}, n_splits=1).table
    folds = class_holdout(scenes.Y_train[:, scenes.seen], n_splits=1, random_state=0)
    sizes = [tuple(map(len, (fold.train_images, fold.train_labels))) for fold in folds]
    assert fitted_on == [(size[0], size) for size in sizes] * 2
    assert few.mean != many.mean
    fitted_on.clear()
    search(scenes, pipeline, {}, n_splits=1, max_images=30, random_state=None)
    assert [n_images for n_images, _ in fitted_on] == [30, 30]  # each at most once
    _, alone = search(scenes, Pipeline([("eszsl", ESZSL())]), {"eszsl__gamma": [0.1]}).table
    assert alone.fold_scores == search(scenes, grid={"gamma": [0.1]}).table[1].fold_scores


def test_only_warnings_of_unfinished_fits_are_silenced(scenes):
    class Warns(ESZSL):
        def fit(self, *given):
            warnings.warn("not converged", ConvergenceWarning, stacklevel=1)
            warnings.warn("something else", UserWarning, stacklevel=1)
            return super().fit(*given)

    with pytest.warns(UserWarning, match="something else") as seen:
        search(scenes, Warns(), {}, n_splits=1)
    assert [warning.category for warning in seen] == [UserWarning] * 2


def test_scoring_by_name_or_by_a_function(scenes):
    assert (
        search(scenes, scoring="map") == search(scenes, scoring=metrics.mean_average_precision) != search(scenes)
    )
    named = search(scenes, scoring="micro_f1")
    assert named == search(scenes, scoring=lambda Y, scores: metrics.micro_f1(Y, metrics.top_k(scores, 3)))


def test_annotations_are_read_as_fit_reads_them(scenes):
    Y, names = scenes.Y_train[:, scenes.seen].astype(float), list(scenes.seen_labels.names)
    assert search(scenes, Y=sp.csr_array(Y)) == search(scenes, Y=pd.DataFrame(Y, columns=names)) == search(scenes)
    tags = [[names[column] for column in np.flatnonzero(row)] for row in Y]
    assert search(scenes, Y=tags, grid={}) == search(scenes, grid={})
    backwards = scenes.seen_labels.select(names[::-1])
    expected = search(scenes, Y=Y[:, ::-1], seen=backwards, grid={})
    assert search(scenes, Y=tags, seen=backwards, grid={}) == expected
    Y[::7, 0] = np.nan
    assert search(scenes, Y=pd.DataFrame(Y).astype("Int8")) == search(scenes, Y=Y)


@pytest.mark.parametrize("make", [np.ndarray.tolist, sp.csr_array, sp.coo_array, pd.DataFrame])
def test_images_are_read_as_fit_reads_them(scenes, make):
    expected, found = (search(scenes, X=X, grid={}).default for X in (scenes.X_train, make(scenes.X_train)))
    assert found.fold_scores == pytest.approx(expected.fold_scores)


def test_three_labels_with_a_positive_are_enough(scenes):
    assert (
        len(search(scenes, Y=scenes.Y_train[:, scenes.seen] * (np.arange(len(scenes.seen)) < 3), grid={}).table)
        == 1
    )


@pytest.mark.parametrize(
    ("argument", "change"),
    [
        ("seen", lambda d: {"seen": list(d.seen_labels.names)}),
        ("seen", lambda d: {"seen": d.vectors[d.seen[:5]]}),
        ("seen", lambda d: {"Y": pd.DataFrame(d.Y_train[:, d.seen], columns=d.seen_labels.names[::-1])}),
        ("seen", lambda d: {"Y": d.Y_train[:, d.seen] * (np.arange(len(d.seen)) < 2)}),  # two labels are too few
        ("seen", lambda d: {"seen": d.vectors[d.seen] * np.nan}),
        ("Y", lambda d: {"X": pd.DataFrame(d.X_train), "Y": pd.DataFrame(d.Y_train[:, d.seen])[::-1]}),
        ("relations", lambda d: {"relations": d.relations("hierarchy")}),
        ("scoring", lambda d: {"scoring": "accuracy"}),
        ("n_splits", lambda d: {"n_splits": 0}),
        ("max_images", lambda d: {"max_images": 0}),
        ("estimator", lambda d: {"estimator": Pipeline([("classifier", LogisticRegression())])}),
    ],
)
def test_bad_arguments_are_refused_by_name(scenes, argument, change):
    with pytest.raises(ValueError, match=f"^{argument}: "):
        search(scenes, **change(scenes))


def test_folds_halve_labels_and_images_and_come_in_pairs():
    rng = np.random.default_rng(0)
    Y = np.where(rng.random((60, 7)) < 0.1, np.nan, rng.random((60, 7)) < 0.25)
    folds = list(class_holdout(Y, n_splits=3, random_state=0))
    for (A, B, fitted, scored), exchanged in zip(folds[::2], folds[1::2], strict=True):
        assert (sorted([*A, *B]), len(A)) == (list(range(7)), 4)
        assert not set(fitted) & set(scored)
        assert all((Y[np.ix_(i, c)] == 1).any(axis=1).all() for i, c in ((fitted, A), (scored, B)))
        assert all(map(np.array_equal, exchanged, (B, A, scored, fitted)))
    assert len({tuple(fold.train_labels) for fold in folds}) > 2


def test_folds_are_drawn_again_until_both_sides_have_positives_or_given_up():
    Y = np.zeros((4, 8))
    Y[0, 0] = Y[1, 1] = 1  # two labels of eight, by one image each: most draws leave a side empty
    for fold in class_holdout(Y, n_splits=10, random_state=0):
        assert sorted([*fold.train_images, *fold.holdout_images]) == [0, 1]
    for Y, message in (([[1, 1], [0, 0]], "halvings"), ([[0, 0], [0, 0]], "none")):
        with pytest.raises(ValueError, match=f"^Y_seen: {message}"):
            next(class_holdout(Y, random_state=0))
