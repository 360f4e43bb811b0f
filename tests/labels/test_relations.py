import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from unseen.labels.relations import combine, from_hit_counts, from_path_lengths

tag_sets = st.tuples(st.integers(1, 30), st.integers(1, 6)).flatmap(
    lambda shape: arrays(np.int64, shape, elements=st.integers(0, 1))
)


def test_paths_become_reciprocals_and_no_path_becomes_zero() -> None:
    paths = [[0, 1, np.inf], [1, 0, 3], [np.inf, 3, 0]]
    np.testing.assert_allclose(from_path_lengths(paths), [[1, 1 / 2, 0], [1 / 2, 1, 1 / 4], [0, 1 / 4, 1]])


def test_hit_counts_are_half_the_dice_coefficient() -> None:
    relations = from_hit_counts([[10, 4, 0], [4, 6, 3], [0, 3, 3]])
    np.testing.assert_allclose(relations, [[1 / 2, 1 / 4, 0], [1 / 4, 1 / 2, 1 / 3], [0, 1 / 3, 1 / 2]])


def test_a_label_without_hits_is_related_to_nothing() -> None:
    np.testing.assert_array_equal(from_hit_counts([[0, 0], [0, 7]]), [[0, 0], [0, 0.5]])
    np.testing.assert_array_equal(from_hit_counts([[0, 0], [0, 0]]), np.zeros((2, 2)))


@given(tag_sets)
def test_counts_of_any_tag_sets_give_a_symmetric_relation_of_at_most_one_half(tags: np.ndarray) -> None:
    relations = from_hit_counts(tags.T @ tags)
    np.testing.assert_array_equal(relations, relations.T)
    assert relations.min() >= 0
    assert relations.max() <= 0.5
    np.testing.assert_array_equal(np.diag(relations) == 0.5, tags.any(axis=0))


@given(tag_sets, st.integers(2, 1000))
def test_hit_counts_do_not_depend_on_the_size_of_the_source(tags: np.ndarray, factor: int) -> None:
    counts = tags.T @ tags
    np.testing.assert_allclose(from_hit_counts(counts), from_hit_counts(factor * counts))


def test_inputs_are_left_as_they_are() -> None:
    counts = np.array([[3.0, 1.0], [1.0, 2.0]])
    before = counts.copy()
    from_hit_counts(counts)
    combine([counts, counts])
    np.testing.assert_array_equal(counts, before)


def test_asymmetry_of_rounding_size_is_evened_out() -> None:
    paths = np.array([[0.0, 1.0], [1.0 + 1e-14, 0.0]])
    relations = from_path_lengths(paths)
    assert relations[0, 1] == relations[1, 0]


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        ([[0, 1], [2, 0]], r"paths: .*\[0, 1\] = 1\. .*symmetric"),
        ([[0, -1], [-1, 0]], r"paths: .*>= 0.*\[0, 1\] = -1, \[1, 0\] = -1"),
        ([[0, np.nan], [np.nan, 0]], r"paths: .*\[0, 1\] = nan.*inf where no path"),
        ([[0, np.inf], [2, 0]], r"paths: .*\[0, 1\] = inf"),
        ([[0, 1], [1, 2]], r"paths: .*\[1, 1\] = 2\..*diagonal"),
        ([0, 1], r"paths: .*shape \(2,\).*square"),
        ([[0, 1]], r"paths: .*shape \(1, 2\).*square"),
        (np.empty((0, 0)), r"paths: .*shape \(0, 0\).*square"),
    ],
)
def test_bad_paths_are_named(paths: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_path_lengths(paths)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([[5, 1], [2, 5]], r"counts: .*\[0, 1\] = 1\. .*symmetric"),
        ([[5, 4], [4, 3]], r"counts: .*more often.*\[0, 1\] = 4.*same records"),
        ([[0, 1], [1, 3]], r"counts: .*more often.*\[0, 1\] = 1"),
        ([[-5, 0], [0, 3]], r"counts: .*\[0, 0\] = -5"),
        ([[5, np.nan], [np.nan, 3]], r"counts: .*\[0, 1\] = nan.*write 0"),
        ([[np.inf, 1], [1, 3]], r"counts: .*finite.*\[0, 0\] = inf"),
        (-np.ones((3, 3)), r"and 6 more"),
    ],
)
def test_bad_counts_are_named(counts: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_hit_counts(counts)  # type: ignore[arg-type]


def test_combine_is_a_weighted_mean() -> None:
    a, b = np.eye(2), np.ones((2, 2))
    np.testing.assert_allclose(combine([a, b]), [[1, 0.5], [0.5, 1]])
    np.testing.assert_allclose(combine([a, b], weights=[3, 1]), combine([a, b], weights=[0.75, 0.25]))
    np.testing.assert_array_equal(combine([a, b], weights=[0, 2]), b)
    np.testing.assert_array_equal(combine([a]), a)


@pytest.mark.parametrize(
    ("relations", "weights", "message"),
    [
        ([], None, "relations: an empty sequence"),
        ([np.eye(2), np.eye(3)], None, "relations: .*different shapes.*same labels"),
        ([np.eye(2), [[1, 0], [0.5, 1]]], None, r"relations\[1\]: .*\[0, 1\] = 0"),
        ([-np.eye(2)], None, r"relations\[0\]: .*\[0, 0\] = -1"),
        (np.eye(2), None, r"relations\[0\]: .*square"),
        ([np.eye(2)], [1, 2], r"weights: shape \(2,\).*1 relations"),
        ([np.eye(2), np.eye(2)], [1, -1], r"weights: \[1\.0, -1\.0\]"),
        ([np.eye(2), np.eye(2)], [0, 0], "weights: .*positive"),
        ([np.eye(2)], [np.nan], "weights: .*finite"),
    ],
)
def test_bad_combinations_are_named(relations: list[np.ndarray], weights: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        combine(relations, weights)
