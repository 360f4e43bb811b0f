"""Splits and views, on small matrices and on the real labels of VOC2007."""

import csv

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from tests.data import FOLDER

from unseen.evaluation import metrics, protocol

NAMES = ("dog", "bird", "cat", "apple", "Bus")
Y = np.array(
    [
        [1, 0, 0, 0, 0],
        [0, 1, 0, 1, 0],
        [0, 0, 0, 0, 0],
        [np.nan, 0, 1, 0, 1],
        [0, 0, np.nan, 1, np.nan],
    ]
)
X = np.arange(10.0).reshape(5, 2)
SPLIT = protocol.ClassSplit(seen=(0, 3), unseen=(4, 1), names=NAMES)


def test_alternating_follows_the_alphabet_but_indexes_the_columns_as_given():
    split = protocol.alternating_split(NAMES)
    # Alphabetical: apple, bird, Bus, cat, dog.
    assert (split.seen, split.unseen) == ((0, 3, 4), (1, 2))
    assert split.seen_names == ("dog", "apple", "Bus")
    assert split.unseen_names == ("bird", "cat")


@given(names=st.lists(st.text("abcXYZ", min_size=1), unique=True, min_size=2), data=st.data())
def test_alternating_does_not_depend_on_the_order_of_columns(names, data):
    shuffled = data.draw(st.permutations(names))
    first, second = protocol.alternating_split(names), protocol.alternating_split(shuffled)
    assert set(first.seen_names) == set(second.seen_names)
    assert set(first.unseen_names) == set(names) - set(first.seen_names)


@given(n_labels=st.integers(2, 20), seed=st.integers(0, 99))
def test_random_split_is_a_partition_and_repeats_under_its_seed(n_labels, seed):
    names = [f"label {i}" for i in range(n_labels)]
    split = protocol.random_split(names, random_state=seed)
    assert sorted(split.seen + split.unseen) == list(range(n_labels))
    assert len(split.seen) == (n_labels + 1) // 2
    assert split == protocol.random_split(names, random_state=seed)


def test_random_split_draws_different_labels_under_different_seeds():
    assert len({protocol.random_split(NAMES, 2, random_state=seed).seen for seed in range(20)}) > 3


def test_named_split_gives_the_rest_to_the_side_that_is_not_named():
    assert protocol.named_split(NAMES, ["cat", "dog"]).unseen_names == ("bird", "apple", "Bus")
    assert protocol.named_split(NAMES, None, ["cat", "dog"]).seen_names == ("bird", "apple", "Bus")
    split = protocol.named_split(NAMES, seen=["cat", "dog"], unseen=["apple"])
    assert (split.seen, split.unseen) == ((0, 2), (3,))


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: protocol.named_split(NAMES, None), "seen"),
        (lambda: protocol.named_split(NAMES, ["aple"]), "seen"),
        (lambda: protocol.named_split(NAMES, ["dog"], ["cow"]), "unseen"),
        (lambda: protocol.named_split(NAMES, ["dog", "cat"], ["cat"]), "unseen"),
        (lambda: protocol.named_split(NAMES, NAMES), "unseen"),
        (lambda: protocol.named_split(NAMES, "dog"), "seen"),
        (lambda: protocol.alternating_split(["a", "b", "a"]), "names"),
        (lambda: protocol.alternating_split(["a"]), "unseen"),
        (lambda: protocol.random_split(NAMES, 5), "unseen"),
        (lambda: protocol.random_split(NAMES, 0), "n_seen"),
        (lambda: protocol.ClassSplit((0, 0), (1,), NAMES), "seen"),
        (lambda: protocol.ClassSplit((0,), (5,), NAMES), "unseen"),
        (lambda: protocol.training_view(X, Y[:, :4], SPLIT), "Y"),
        (lambda: protocol.training_view(X[:4], Y, SPLIT), "X"),
        (lambda: protocol.zero_shot_view(X[2:3], Y[2:3], SPLIT), "Y"),
        (lambda: protocol.zero_shot_view(X, Y + 1, SPLIT), "Y"),
    ],
)
def test_bad_splits_and_views_are_refused_by_name(make, argument):
    with pytest.raises(ValueError, match=f"^{argument}: "):
        make()


def test_training_view_keeps_images_with_a_seen_positive_and_seen_columns():
    view = protocol.training_view(X, Y, SPLIT)
    assert view.images.tolist() == [0, 1, 4]
    assert view.labels.tolist() == [0, 3]
    assert view.names == ("dog", "apple")
    np.testing.assert_array_equal(view.X, X[[0, 1, 4]])
    np.testing.assert_array_equal(view.Y, [[1, 0], [0, 1], [0, 1]])


def test_zero_shot_view_keeps_images_with_an_unseen_positive_and_unseen_columns():
    view = protocol.zero_shot_view(X, Y, SPLIT)
    assert view.images.tolist() == [1, 3]
    assert view.names == ("Bus", "bird")
    np.testing.assert_array_equal(view.Y, [[0, 1], [1, 0]])


def test_generalized_view_has_all_images_uncopied_and_seen_columns_first():
    view = protocol.generalized_view(X, Y, SPLIT)
    assert view.X is X
    assert view.names == SPLIT.seen_names + SPLIT.unseen_names
    np.testing.assert_array_equal(view.Y, Y[:, [0, 3, 4, 1]])


@pytest.mark.parametrize("make", [sparse.csr_array, sparse.coo_array, np.ndarray.tolist])
def test_features_may_be_sparse_or_nested_lists(make):
    view = protocol.zero_shot_view(make(X), Y, SPLIT)
    dense = view.X.toarray() if sparse.issparse(view.X) else view.X
    np.testing.assert_array_equal(dense, X[[1, 3]])


def test_evaluate_is_the_summary_of_the_views_annotations():
    view = protocol.generalized_view(X, Y, SPLIT)
    scores = np.arange(20.0).reshape(5, 4)
    assert protocol.evaluate(scores, view, k=2) == metrics.summary(view.Y, scores, 2)


@pytest.mark.skipif(not (FOLDER / "voc2007_labels.csv").exists(), reason="the shared VOC2007 labels are absent")
def test_alternating_split_of_voc2007_gives_the_images_behind_the_papers_figures():
    with (FOLDER / "voc2007_labels.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    labels = np.array([row[-20:] for row in rows if row[1] == "test"], dtype=np.int8)
    split, features = protocol.alternating_split(header[-20:]), np.zeros((len(labels), 1))
    zero_shot = protocol.zero_shot_view(features, labels, split)
    generalized = protocol.generalized_view(features, labels, split)
    assert zero_shot.Y.shape == (2210, 10)
    assert round(zero_shot.Y.sum(axis=1).mean(), 4) == 1.0633
    assert generalized.Y.shape == (4952, 20)
    assert round(generalized.Y.sum(axis=1).mean(), 4) == 1.4162
