"""The search finds what held-out labels say, and cannot see unseen ones."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from unseen import TAEP, make_tagged_scenes
from unseen.baselines import DMP
from unseen.evaluation.search import class_holdout_search

GRID = {"beta": [1.0, 1000.0], "rank": [2, 5]}


@pytest.fixture(scope="module")
def scenes():
    return make_tagged_scenes(n_train=400, n_test=10)


def search(scenes, *, grid=GRID, relations=None, **options):
    Y = scenes.Y_train[:, scenes.seen]
    return class_holdout_search(TAEP(tol=1e-2), grid, scenes.X_train, Y, scenes.seen_labels, relations, **options)


def test_best_is_the_best_of_the_table(scenes):
    result = search(scenes)
    assert len(result.table) == 4
    assert result.best_score == max(score for _, score in result.table)
    assert (result.best_params, result.best_score) in result.table
    assert all(0.0 < score < 1.0 for _, score in result.table)


def test_same_seed_same_table_whatever_the_number_of_jobs(scenes):
    assert search(scenes).table == search(scenes, n_jobs=2).table
    assert search(scenes).table != search(scenes, random_state=1).table


def test_relations_of_the_seen_labels_take_part(scenes):
    n = len(scenes.seen)
    R = scenes.relations("hierarchy")[:n, :n]
    with_relations = search(scenes, grid={"lam": [0.0, 1.0], "gamma": [0.0]}, relations=R)
    assert with_relations.table[0][1] != with_relations.table[1][1]
    without = search(scenes, grid={"lam": [0.0, 1.0], "gamma": [0.0]})
    assert without.table[0][1] == without.table[1][1]  # no relations: lam has nothing to act on


def test_progress_counts_every_fit(scenes):
    calls = []
    search(scenes, grid={"beta": [1.0, 10.0]}, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(i + 1, 8) for i in range(8)]


def test_the_estimator_is_left_alone(scenes):
    estimator = TAEP(tol=1e-2)
    class_holdout_search(
        estimator, {"beta": [1.0]}, scenes.X_train, scenes.Y_train[:, scenes.seen], scenes.seen_labels, n_splits=1
    )
    assert estimator.beta == 10.0
    assert not hasattr(estimator, "objective_")


def test_names_without_vectors_are_refused(scenes):
    with pytest.raises(ValueError, match=r"^seen: "):
        class_holdout_search(
            TAEP(), GRID, scenes.X_train, scenes.Y_train[:, scenes.seen], list(scenes.seen_labels.names)
        )


def test_relations_of_all_labels_are_refused(scenes):
    with pytest.raises(ValueError, match=r"relations: its shape is \(24, 24\)"):
        search(scenes, relations=scenes.relations("hierarchy"))


def test_annotations_are_read_as_fit_reads_them(scenes):
    Y = scenes.Y_train[:, scenes.seen]
    names = list(scenes.seen_labels.names)
    grid = {"beta": [1.0]}
    expected = search(scenes, grid=grid).table
    for form in (pd.DataFrame(Y, columns=names), sp.csr_array(Y)):
        assert (
            class_holdout_search(TAEP(tol=1e-2), grid, scenes.X_train, form, scenes.seen_labels).table == expected
        )
    with pytest.raises(ValueError, match="seen: its names"):
        class_holdout_search(
            TAEP(), grid, scenes.X_train, pd.DataFrame(Y, columns=names[::-1]), scenes.seen_labels
        )


def test_two_labels_cannot_be_searched_on():
    data = make_tagged_scenes(60, 5)
    two = list(data.seen[:2])
    with pytest.raises(ValueError, match=r"seen: 2 labels with a positive image. .* takes at least 3"):
        class_holdout_search(DMP(), {"alpha": [1.0]}, data.X_train, data.Y_train[:, two], data.vectors[two])


def test_unknown_annotations_of_pandas_are_read_as_fit_reads_them():
    data = make_tagged_scenes(80, 5)
    Y = data.Y_train[:, data.seen].astype(float)
    Y[::7, 0] = np.nan
    frame = pd.DataFrame(Y).astype("Int8")
    given = data.X_train, data.vectors[data.seen]
    expected = class_holdout_search(DMP(), {"alpha": [1.0, 10.0]}, given[0], Y, given[1])
    assert class_holdout_search(DMP(), {"alpha": [1.0, 10.0]}, given[0], frame, given[1]) == expected
