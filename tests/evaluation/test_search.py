"""The search finds what held-out labels say, and cannot see unseen ones."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline

from unseen import TAEP, make_tagged_scenes
from unseen.baselines import DMP, ESZSL
from unseen.evaluation import metrics
from unseen.evaluation.search import class_holdout, class_holdout_search

GRID = {"gamma": [0.1, 10.0], "lam": [0.1, 10.0]}


@pytest.fixture(scope="module")
def scenes():
    return make_tagged_scenes(n_train=300, n_test=10)


def search(scenes, estimator=None, grid=GRID, relations=None, Y=None, seen=None, **options):
    Y = scenes.Y_train[:, scenes.seen] if Y is None else Y
    labels = scenes.seen_labels if seen is None else seen
    return class_holdout_search(estimator or ESZSL(), grid, scenes.X_train, Y, labels, relations, **options)


def test_best_is_the_best_mean_of_the_table(scenes):
    result = search(scenes)
    assert [row.params for row in result.table] == [
        {"gamma": g, "lam": r} for g in (0.1, 10.0) for r in (0.1, 10.0)
    ]
    best = max(result.table, key=lambda row: row.mean)
    assert (result.best_params, result.best_score) == (best.params, best.mean)


def test_every_setting_has_its_folds_their_mean_and_standard_error(scenes):
    for row in search(scenes, n_splits=3).table:
        assert len(row.fold_scores) == 6
        assert row.mean == pytest.approx(np.mean(row.fold_scores))
        assert row.std_error == pytest.approx(np.std(row.fold_scores, ddof=1) / np.sqrt(6))


def test_a_fold_score_is_that_of_a_fit_on_half_of_the_labels(scenes):
    Y, M = scenes.Y_train[:, scenes.seen], scenes.vectors[scenes.seen]
    expected = []
    for fold in class_holdout(Y, n_splits=1, random_state=0):
        fitted, hidden = fold.train_labels, fold.holdout_labels
        X, annotations = scenes.X_train[fold.train_images], Y[np.ix_(fold.train_images, fitted)]
        model = ESZSL().fit(X, annotations, M[fitted], M[hidden])
        scores = model.decision_function(scenes.X_train[fold.holdout_images], M[hidden])
        truth = Y[np.ix_(fold.holdout_images, hidden)]
        expected.append(metrics.mean_image_average_precision(truth, scores))
    (row,) = search(scenes, grid={}, n_splits=1).table
    assert row.fold_scores == pytest.approx(expected)


def test_same_seed_same_table_whatever_the_number_of_jobs(scenes):
    assert search(scenes) == search(scenes, n_jobs=2)
    assert search(scenes).table != search(scenes, random_state=1).table


def test_relations_of_the_seen_labels_take_part(scenes):
    n, options = len(scenes.seen), {"estimator": TAEP(tol=1e-2), "grid": {"lam": [0.0, 1.0], "gamma": [0.0]}}
    first, second = search(scenes, relations=scenes.relations("hierarchy")[:n, :n], **options).table
    assert first.mean != second.mean
    first, second = search(scenes, **options).table
    assert first.mean == second.mean  # no relations: lam has nothing to act on


def test_progress_counts_every_fit_and_the_estimator_is_left_alone(scenes):
    calls, estimator = [], ESZSL(gamma=3.0)
    search(scenes, estimator, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(i + 1, 16) for i in range(16)]
    assert estimator.gamma == 3.0
    assert not hasattr(estimator, "label_vectors_")


def test_fewer_images_change_the_fit(scenes):
    assert search(scenes, max_images=30).table != search(scenes).table
    assert search(scenes, max_images=30) == search(scenes, max_images=30)


def test_transformers_of_a_pipeline_are_fitted_on_the_training_images_of_each_fold(scenes):
    fitted_on = []

    class Recorded(PCA):
        def fit_transform(self, X, y=None):
            fitted_on.append(len(X))
            return super().fit_transform(X, y)

    pipeline = Pipeline([("pca", Recorded(random_state=0)), ("tagger", ESZSL())])
    result = search(scenes, pipeline, {"pca__n_components": [2, 20], "tagger__gamma": [1.0]}, n_splits=1)
    folds = class_holdout(scenes.Y_train[:, scenes.seen], n_splits=1, random_state=0)
    assert fitted_on == [len(fold.train_images) for fold in folds] * 2
    assert result.table[0].mean != result.table[1].mean
    assert not hasattr(pipeline[0], "components_")


def test_a_pipeline_of_a_tagger_alone_is_the_tagger(scenes):
    alone = search(scenes, Pipeline([("eszsl", ESZSL())]), {"eszsl__gamma": [0.1, 10.0]})
    assert [row.mean for row in alone.table] == [
        row.mean for row in search(scenes, grid={"gamma": [0.1, 10.0]}).table
    ]


@pytest.mark.parametrize(
    ("scoring", "metric"),
    [
        ("map", metrics.mean_average_precision),
        ("micro_f1", lambda Y, scores: metrics.micro_f1(Y, metrics.top_k(scores, 3))),
    ],
)
def test_scoring_by_name_or_by_a_function(scenes, scoring, metric):
    named = search(scenes, scoring=scoring)
    assert named == search(scenes, scoring=metric)
    assert named.table != search(scenes).table


def test_annotations_are_read_as_fit_reads_them(scenes):
    Y, names = scenes.Y_train[:, scenes.seen].astype(float), list(scenes.seen_labels.names)
    assert search(scenes, Y=sp.csr_array(Y)) == search(scenes, Y=pd.DataFrame(Y, columns=names)) == search(scenes)
    Y[::7, 0] = np.nan
    assert search(scenes, Y=pd.DataFrame(Y).astype("Int8")) == search(scenes, Y=Y)


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        (lambda d: {"seen": list(d.seen_labels.names)}, "seen"),
        (lambda d: {"seen": d.vectors[d.seen[:5]]}, "seen"),
        (lambda d: {"Y": pd.DataFrame(d.Y_train[:, d.seen], columns=d.seen_labels.names[::-1])}, "seen"),
        (lambda d: {"Y": d.Y_train[:, d.seen] * (np.arange(len(d.seen)) < 2)}, "seen"),
        (lambda d: {"relations": d.relations("hierarchy")}, "relations"),
        (lambda d: {"scoring": "accuracy"}, "scoring"),
        (lambda d: {"n_splits": 0}, "n_splits"),
        (lambda d: {"max_images": 0}, "max_images"),
        (lambda d: {"estimator": Pipeline([("classifier", LogisticRegression())])}, "estimator"),
    ],
)
def test_bad_arguments_are_refused_by_name(scenes, change, argument):
    with pytest.raises(ValueError, match=f"^{argument}: "):
        search(scenes, **change(scenes))


@pytest.mark.parametrize("n_labels", [3, 6, 7])
def test_folds_halve_labels_and_images_and_come_in_pairs(n_labels):
    rng = np.random.default_rng(n_labels)
    Y = np.where(rng.random((60, n_labels)) < 0.1, np.nan, rng.random((60, n_labels)) < 0.25)
    folds = list(class_holdout(Y, n_splits=3, random_state=0))
    for fold, exchanged in zip(folds[::2], folds[1::2], strict=True):
        assert sorted([*fold.train_labels, *fold.holdout_labels]) == list(range(n_labels))
        assert 0 <= fold.train_labels.size - fold.holdout_labels.size <= 1
        assert np.intersect1d(fold.train_images, fold.holdout_images).size == 0
        for images, labels in (fold[2::-2], fold[3::-2]):
            assert images.size > 0
            assert np.all((Y[np.ix_(images, labels)] == 1).any(axis=1))
        assert all(map(np.array_equal, exchanged, (fold[1], fold[0], fold[3], fold[2])))
    assert len({tuple(fold.train_labels) for fold in folds}) > 2


def test_folds_are_drawn_again_until_both_sides_have_positives_or_given_up():
    Y = np.zeros((4, 8))
    Y[0, 0] = Y[1, 1] = 1  # two labels of eight, by one image each: most draws leave a side empty
    for fold in class_holdout(Y, n_splits=10, random_state=0):
        assert sorted([*fold.train_images, *fold.holdout_images]) == [0, 1]
    with pytest.raises(ValueError, match=r"^Y_seen: "):
        next(class_holdout([[1, 1], [0, 0]], random_state=0))


def test_two_labels_cannot_be_searched_on():
    data = make_tagged_scenes(60, 5)
    two = list(data.seen[:2])
    with pytest.raises(ValueError, match=r"^seen: "):
        class_holdout_search(DMP(), {"alpha": [1.0]}, data.X_train, data.Y_train[:, two], data.vectors[two])
