import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from unseen import validation as check


@pytest.mark.parametrize(
    ("checked", "good", "bad"),
    [
        (check.check_count, [1, np.int8(3), np.uint64(2)], [0, -1, 2.0, True, np.True_, "3", None, np.array([1])]),
        (check.check_number, [0, 1e-100, np.float32(2)], [np.nan, np.inf, -1e-100, "1", None, True, 1j, [1.0]]),
        (check.check_number, [1e100], [5e-324, 1e-200, 1e200, 10**400, -(10**5000)]),
        (lambda v, name: check.check_number(v, name, high=1, strict=True), [1e-9, 1], [0, 1.1]),
        (lambda v, name: check.check_choice(v, name, ("a", "b")), ["a"], ["c", None, 1, np.array(["a"]), ["a"]]),
        (check.check_flag, [True, np.False_], ["no", None, 1, 0.0]),
        (check.check_names, [("a", "b")], ["a", [], [""], [3], ["dog", " dog"]]),
        (check.check_matrix, [[[1, 2]]], [[1, 2], [[]], [["a"]], sp.eye_array(2)]),
        (check.check_scores, [[[0.5, 2]]], [[[np.nan, 1.0]]]),
        (check.check_predictions, [[[0, 1]]], [[[np.nan, 1.0]], [[2, 1]]]),
    ],
)
def test_values_pass_or_are_refused_by_name(checked, good, bad):
    for value in good:
        np.testing.assert_array_equal(checked(value, "this"), value)
        assert not isinstance(checked(value, "this"), np.generic)
    for value in bad:
        with pytest.raises(ValueError, match=r"^this: "):
            checked(value, "this")


@given(arrays(np.float64, (5, 3), elements=st.sampled_from([0.0, 1.0, np.nan])))
def test_one_zero_and_nan_are_the_three_targets(Y):
    Y[0, 0] = 1
    T, names, classes = check.check_annotations(Y, 5)
    assert T.dtype == np.int8
    np.testing.assert_array_equal(T, np.nan_to_num(2 * Y - 1))
    assert names is classes is None
    relevant, known = check.check_targets(Y)
    np.testing.assert_array_equal(relevant, Y == 1)
    np.testing.assert_array_equal(np.ones((5, 3), bool) if known is None else known, ~np.isnan(Y))


def test_classes_become_labels_and_two_of_them_one():
    T, names, classes = check.check_annotations(["b", "c", "a", "b"], 4)
    np.testing.assert_array_equal(T, [[-1, 1, -1], [-1, -1, 1], [1, -1, -1], [-1, 1, -1]])
    assert names == tuple(classes) == ("a", "b", "c")
    T, names, classes = check.check_annotations([7, 3, 3], 3)
    assert (T.tolist(), names, classes.tolist()) == ([[1], [-1], [-1]], ("7",), [3, 7])
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        check.check_annotations([0.1, 0.7, 3.2], 3)


def test_tags_become_columns_in_the_order_of_the_names():
    T, names, _ = check.check_annotations([["dog", " sofa"], (), {"cat"}], 3, ("sofa", "cat", "dog"))
    assert (T.tolist(), names) == ([[1, -1, 1], [-1, -1, -1], [-1, 1, -1]], ("sofa", "cat", "dog"))
    for other in ([["0"], [1]], [[], []], ["dog", "cat"], [[0, 1]], np.array([["a"], ["b"]])):
        assert not check.are_tag_lists(other)


def test_missing_values_of_pandas_are_unknown_annotations():
    Y = pd.DataFrame({"a": [1, 0, None], "b": [0, 1, 1]}, dtype="Int64")
    np.testing.assert_array_equal(check.check_annotations(Y, 3).T, [[1, -1], [-1, 1], [0, 1]])


def test_unknown_names_are_listed_with_the_nearest():
    rows = {"cat": 0, "dog": 1}
    assert check.find_names(["dog", "cat"], rows, "names", "Pass others.") == [1, 0]
    with pytest.raises(ValueError, match=r"^names: 2 .*'catt' \(nearest: 'cat'\); 5\. Pass others\.$"):
        check.find_names(["catt", "dog", 5], rows, "names", "Pass others.")
    with pytest.raises(ValueError, match=r"^names: 9 unknown labels: .*; and 4 more"):
        check.find_names([f"x{i}" for i in range(9)], rows, "names", "Pass others.")
    assert check.listed(list(range(7))) == "0, 1, 2, 3, 4 and 2 more"
    assert (check.counted(1, "image"), check.counted(2000, "image")) == ("1 image", "2,000 images")


def test_masked_annotations_are_unknown():
    Y = np.ma.array([[1, 0], [0, 1], [1, 1]], mask=[[0, 0], [0, 1], [1, 0]])
    np.testing.assert_array_equal(check.check_annotations(Y, 3).T, [[1, -1], [-1, 0], [0, 1]])
    np.testing.assert_array_equal(check.check_targets(Y)[1], [[True, True], [True, False], [False, True]])
    assert check.check_annotations(np.ma.array([0, 1, 1]), 3).names == ("1",)
    with pytest.raises(ValueError, match=r"^scores: .*masked"):
        check.check_scores(np.ma.masked_less(np.eye(2), 0.5))


OTHER_NUMBERS = [
    (np.eye(2) * 1j, "Complex"), (np.eye(2).astype("m8[s]"), "time spans"), (np.ones((2, 2), "M8[D]"), "dates"),
    (np.ma.masked_equal(np.eye(2), 1), "masked"), (pd.DataFrame(np.eye(2).astype("m8[s]")), "time spans"),
]  # fmt: skip


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("given", "found"), OTHER_NUMBERS)
def test_numbers_of_another_kind_are_refused_and_not_converted(given, found):
    with pytest.raises(ValueError, match=f"^relations: .*{found}"):
        check.check_relations(given, ("a", "b"))
    for vectors in (given, {"a": np.asanyarray(given)[0], "b": np.asanyarray(given)[1]}):
        with pytest.raises(ValueError, match=f"^seen: .*{found}"):
            check.check_labels(vectors, "seen")
    if found != "masked":
        for Y in (given, np.asarray(given)[:, 0]):
            with pytest.raises(ValueError, match=f"^Y: .*{found}"):
                check.check_annotations(Y, 2)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("size", [1e307, 1e308])
def test_relations_whose_sums_overflow_are_refused(size):
    with pytest.raises(ValueError, match=r"^relations: the largest entry is 1e\+30"):
        check.check_relations(np.full((2, 2), size), ("a", "b"))
    np.testing.assert_array_equal(check.check_relations(np.full((1, 1), 1e100), ("a",)), [[1e100]])


def test_label_vectors_may_be_long_or_short_but_not_beyond_their_squares():
    vectors = np.array([[1e45, 1e-300], [-1e-45, 0.0], [0.0, 0.0]])
    np.testing.assert_array_equal(check.check_labels(vectors, "seen").vectors, vectors)
    for factor, found in ((1e10, "vector 0 is 1e\\+55"), (1e-10, "vector 1 is 1e-55")):
        with pytest.raises(ValueError, match=f"^seen: the largest entry of {found}"):
            check.check_labels(vectors * factor, "seen")


@given(arrays(np.float64, (4, 4), elements=st.floats(0.0, 1e3)))
def test_relations_are_made_exactly_symmetric(R):
    R = R + R.T
    R[0, 1] *= 1 + 1e-12
    checked = check.check_relations(sp.csr_array(R), ("a", "b", "c", "d"))
    np.testing.assert_array_equal(checked, checked.T)
    np.testing.assert_allclose(checked, R, rtol=1e-9)
