"""Splits, views and the class holdout, on small matrices and on the real labels of VOC2007."""

import csv
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from unseen.evaluation import metrics, protocol

DATA = Path(os.environ.get("UNSEEN_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
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


def random_labels(seed, n_images=60, n_labels=7):
    rng = np.random.default_rng(seed)
    labels = (rng.random((n_images, n_labels)) < 0.25).astype(float)
    labels[rng.random(labels.shape) < 0.1] = np.nan
    return labels


def same_folds(first, second):
    fields = ("train_labels", "holdout_labels", "train_images", "holdout_images")
    return len(first) == len(second) and all(
        np.array_equal(getattr(a, field), getattr(b, field))
        for a, b in zip(first, second, strict=True)
        for field in fields
    )


class TestSplits:
    def test_alternating_follows_the_alphabet_but_indexes_the_columns_as_given(self):
        split = protocol.alternating_split(NAMES)
        # Alphabetical: apple, bird, Bus, cat, dog.
        assert set(split.seen_names) == {"apple", "Bus", "dog"}
        assert split.seen == (0, 3, 4)
        assert split.unseen == (1, 2)
        assert split.unseen_names == ("bird", "cat")

    @given(names=st.lists(st.text("abcXYZ", min_size=1), unique=True, min_size=2), data=st.data())
    def test_alternating_does_not_depend_on_the_order_of_columns(self, names, data):
        shuffled = data.draw(st.permutations(names))
        first, second = protocol.alternating_split(names), protocol.alternating_split(shuffled)
        assert set(first.seen_names) == set(second.seen_names)
        assert set(first.unseen_names) == set(names) - set(first.seen_names)

    @given(n_labels=st.integers(2, 20), seed=st.integers(0, 99))
    def test_random_split_is_a_partition_and_repeats_under_its_seed(self, n_labels, seed):
        names = [f"label {i}" for i in range(n_labels)]
        split = protocol.random_split(names, random_state=seed)
        assert sorted(split.seen + split.unseen) == list(range(n_labels))
        assert len(split.seen) == (n_labels + 1) // 2
        assert split == protocol.random_split(names, random_state=seed)

    def test_random_split_draws_different_labels_under_different_seeds(self):
        assert len({protocol.random_split(NAMES, 2, random_state=seed).seen for seed in range(20)}) > 3

    def test_named_split_takes_the_rest_as_unseen_unless_told(self):
        assert protocol.named_split(NAMES, ["cat", "dog"]).unseen_names == ("bird", "apple", "Bus")
        assert protocol.named_split(NAMES, None, ["cat", "dog"]).seen_names == ("bird", "apple", "Bus")
        with pytest.raises(ValueError, match="seen: neither seen nor unseen labels were given"):
            protocol.named_split(NAMES, None)
        split = protocol.named_split(NAMES, seen=["cat", "dog"], unseen=["apple"])
        assert (split.seen, split.unseen) == ((0, 2), (3,))

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (
                lambda: protocol.named_split(NAMES, ["aple"]),
                "seen: 1 unknown label: 'aple' .nearest: 'apple'",
            ),
            (lambda: protocol.named_split(NAMES, ["dog"], ["cow"]), "unseen: 1 unknown label: 'cow'"),
            (lambda: protocol.named_split(NAMES, ["dog", "cat"], ["cat"]), "unseen: 'cat' is also seen"),
            (lambda: protocol.named_split(NAMES, ["dog", "dog"]), "seen: 'dog' given more than once"),
            (lambda: protocol.named_split(NAMES, []), "seen: no label was given"),
            (lambda: protocol.named_split(NAMES, NAMES), "unseen: no label is unseen"),
            (lambda: protocol.named_split(NAMES, "dog"), "seen: the single string 'dog' was given"),
            (lambda: protocol.alternating_split(["a", "b", "a"]), "names: 'a' given more than once"),
            (lambda: protocol.alternating_split(["a"]), "unseen: no label is unseen"),
            (lambda: protocol.random_split(NAMES, 5), "n_seen: 5 of 5 labels leave none unseen"),
            (lambda: protocol.random_split(NAMES, 0), "n_seen: 0 was given"),
            (lambda: protocol.ClassSplit((0, 0), (1,), NAMES), "seen: .* contain a duplicate"),
            (lambda: protocol.ClassSplit((0,), (5,), NAMES), "unseen: .* not all between 0 and 4"),
        ],
    )
    def test_bad_splits_are_refused_by_name(self, make, message):
        with pytest.raises(ValueError, match=message):
            make()


class TestViews:
    def test_training_view_keeps_images_with_a_seen_positive_and_seen_columns(self):
        view = protocol.training_view(X, Y, SPLIT)
        assert view.images.tolist() == [0, 1, 4]
        assert view.labels.tolist() == [0, 3]
        assert view.names == ("dog", "apple")
        np.testing.assert_array_equal(view.X, X[[0, 1, 4]])
        np.testing.assert_array_equal(view.Y, [[1, 0], [0, 1], [0, 1]])

    def test_zero_shot_view_keeps_images_with_an_unseen_positive_and_unseen_columns(self):
        view = protocol.zero_shot_view(X, Y, SPLIT)
        assert view.images.tolist() == [1, 3]
        assert view.names == ("Bus", "bird")
        np.testing.assert_array_equal(view.Y, [[0, 1], [1, 0]])

    def test_generalized_view_has_all_images_and_seen_columns_first(self):
        view = protocol.generalized_view(X, Y, SPLIT)
        assert view.X is X
        assert view.images.tolist() == [0, 1, 2, 3, 4]
        assert view.names == SPLIT.seen_names + SPLIT.unseen_names
        np.testing.assert_array_equal(view.Y, Y[:, [0, 3, 4, 1]])
        assert np.isnan(view.Y).sum() == 2

    @pytest.mark.parametrize("make", [sparse.csr_array, sparse.csr_matrix, sparse.coo_array, np.ndarray.tolist])
    def test_features_may_be_sparse_or_nested_lists(self, make):
        view = protocol.zero_shot_view(make(X), Y, SPLIT)
        dense = view.X.toarray() if sparse.issparse(view.X) else view.X
        np.testing.assert_array_equal(dense, X[[1, 3]])

    def test_features_may_be_memory_mapped(self, tmp_path):
        np.save(tmp_path / "X.npy", X)
        mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
        np.testing.assert_array_equal(protocol.zero_shot_view(mapped, Y, SPLIT).X, X[[1, 3]])

    def test_integer_labels_stay_integers(self):
        whole = np.nan_to_num(Y).astype(np.int8)
        assert protocol.training_view(X, whole, SPLIT).Y.dtype == np.int8

    @pytest.mark.parametrize(
        ("features", "labels", "message"),
        [
            (X[:4], Y, r"X: its shape is \(4, 2\) while the label matrix has 5 rows"),
            (X, Y[:, :4], "Y: 4 columns for a split of 5 labels"),
            (X, 2 * Y - 1, "Y: values other than 0, 1 and NaN"),
            (X, np.zeros_like(Y), "Y: none of its 5 images has a positive among the 2 unseen labels"),
        ],
    )
    def test_bad_data_are_refused_by_name(self, features, labels, message):
        with pytest.raises(ValueError, match=message):
            protocol.zero_shot_view(features, labels, SPLIT)

    def test_evaluate_is_the_summary_of_the_view(self):
        view = protocol.zero_shot_view(X, Y, SPLIT)
        scores = np.array([[2.0, 1.0], [2.0, 1.0]])
        assert protocol.evaluate(scores, view, k=1) == metrics.summary([[0, 1], [1, 0]], scores, k=1)


class TestClassHoldout:
    @pytest.mark.parametrize("disjoint", [True, False])
    @given(seed=st.integers(0, 1000), n_labels=st.integers(2, 9), n_splits=st.integers(1, 3))
    def test_folds_halve_the_labels_and_hold_what_they_promise(self, disjoint, seed, n_labels, n_splits):
        labels = random_labels(seed, n_labels=n_labels)
        folds = list(
            protocol.class_holdout(labels, n_splits=n_splits, disjoint_images=disjoint, random_state=seed)
        )
        assert len(folds) == 2 * n_splits
        for fold in folds:
            assert sorted([*fold.train_labels, *fold.holdout_labels]) == list(range(n_labels))
            assert abs(fold.train_labels.size - fold.holdout_labels.size) <= 1
            for images, side in (
                (fold.train_images, fold.train_labels),
                (fold.holdout_images, fold.holdout_labels),
            ):
                assert images.size > 0
                assert np.all((labels[np.ix_(images, side)] == 1).any(axis=1))
            if disjoint:
                assert np.intersect1d(fold.train_images, fold.holdout_images).size == 0
            else:
                every = np.flatnonzero((labels[:, fold.train_labels] == 1).any(axis=1))
                np.testing.assert_array_equal(fold.train_images, every)

    def test_each_halving_is_followed_by_its_exchange(self):
        folds = list(protocol.class_holdout(random_labels(0), n_splits=3, random_state=0))
        for fold, exchanged in zip(folds[::2], folds[1::2], strict=True):
            np.testing.assert_array_equal(fold.train_labels, exchanged.holdout_labels)
            np.testing.assert_array_equal(fold.train_images, exchanged.holdout_images)
        assert len({tuple(fold.train_labels) for fold in folds}) > 2

    def test_same_seed_same_folds(self):
        labels = random_labels(0)
        first, again, other = (
            list(protocol.class_holdout(labels, random_state=seed, n_splits=3)) for seed in (5, 5, 6)
        )
        assert same_folds(first, again)
        assert not same_folds(first, other)

    def test_shuffling_the_unseen_labels_changes_nothing(self):
        labels = random_labels(1)
        split = protocol.ClassSplit(seen=(0, 2, 4, 6), unseen=(1, 3, 5), names=tuple("abcdefg"))
        shuffled = labels.copy()
        rng = np.random.default_rng(0)
        shuffled[:, split.unseen] = rng.permuted(labels[:, split.unseen], axis=0)
        features = np.arange(len(labels), dtype=float)[:, None]
        views = [protocol.training_view(features, data, split) for data in (labels, shuffled)]
        np.testing.assert_array_equal(views[0].X, views[1].X)
        assert same_folds(*(list(protocol.class_holdout(view.Y, random_state=0)) for view in views))

    def test_draws_again_until_both_sides_have_positives(self):
        # Two labels of eight are annotated, by one image each: most draws leave a side empty.
        labels = np.zeros((4, 8))
        labels[0, 0] = labels[1, 1] = 1
        for fold in protocol.class_holdout(labels, n_splits=10, random_state=0):
            assert sorted([*fold.train_images, *fold.holdout_images]) == [0, 1]

    def test_an_impossible_holdout_says_so(self):
        one_image = np.array([[1, 1], [0, 0]])
        with pytest.raises(ValueError, match=r"left one side without a positive.*or disjoint_images=False"):
            next(protocol.class_holdout(one_image, random_state=0))
        fold = next(protocol.class_holdout(one_image, disjoint_images=False, random_state=0))
        assert fold.train_images.tolist() == fold.holdout_images.tolist() == [0]

    @pytest.mark.parametrize(
        ("labels", "n_splits", "message"),
        [
            ([[1], [0]], 1, "Y_seen: 1 of its 1 labels has a positive image.*at least 2"),
            ([[1, 0], [1, 0]], 1, "Y_seen: 1 of its 2 labels has a positive image"),
            ([[0, 0]], 1, "Y_seen: none of its 2 entries is positive"),
            ([[1, 0], [0, 1]], 0, "n_splits: 0 was given"),
        ],
    )
    def test_bad_arguments_are_refused_at_the_call(self, labels, n_splits, message):
        with pytest.raises(ValueError, match=message):
            protocol.class_holdout(labels, n_splits=n_splits)

    def test_problem_of_a_fold_has_matching_rows_and_columns(self):
        labels = random_labels(2)
        features = np.arange(len(labels), dtype=float)[:, None]
        vectors = np.arange(7.0)[:, None] * 10
        fold = next(protocol.class_holdout(labels, random_state=0))
        problem = protocol.holdout_problem(fold, features, labels, vectors)
        np.testing.assert_array_equal(problem.X_train.ravel(), fold.train_images)
        np.testing.assert_array_equal(problem.X_holdout.ravel(), fold.holdout_images)
        np.testing.assert_array_equal(problem.vectors_train.ravel(), fold.train_labels * 10)
        np.testing.assert_array_equal(problem.vectors_holdout.ravel(), fold.holdout_labels * 10)
        np.testing.assert_array_equal(problem.Y_train, labels[fold.train_images][:, fold.train_labels])
        np.testing.assert_array_equal(problem.Y_holdout, labels[fold.holdout_images][:, fold.holdout_labels])
        with pytest.raises(ValueError, match="vectors: 6 rows for 7 labels"):
            protocol.holdout_problem(fold, features, labels, vectors[:6])


@pytest.mark.skipif(not (DATA / "voc2007_labels.csv").exists(), reason="the shared VOC2007 labels are absent")
def test_alternating_split_of_voc2007_gives_the_images_behind_the_papers_figures():
    with (DATA / "voc2007_labels.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    names = header[-20:]
    labels = np.array([row[-20:] for row in rows if row[1] == "test"], dtype=np.int8)
    split = protocol.alternating_split(names)
    features = np.zeros((len(labels), 1))
    zero_shot = protocol.zero_shot_view(features, labels, split)
    generalized = protocol.generalized_view(features, labels, split)
    assert zero_shot.Y.shape == (2210, 10)
    assert round(zero_shot.Y.sum(axis=1).mean(), 4) == 1.0633
    assert generalized.Y.shape == (4952, 20)
    assert round(generalized.Y.sum(axis=1).mean(), 4) == 1.4162
