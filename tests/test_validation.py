import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from unseen import LabelSpace
from unseen.labels.relate import Relations
from unseen.validation import (
    Labels,
    check_annotations,
    check_choice,
    check_count,
    check_flag,
    check_labels,
    check_names,
    check_number,
    check_relations,
    check_targets,
    check_vectors,
    find_names,
    listed,
    which_vectors,
)


class TestNumbers:
    @pytest.mark.parametrize("value", [1, 7, np.int8(3), np.uint64(2)])
    def test_integers_count(self, value):
        checked = check_count(value, "n")
        assert checked == value
        assert type(checked) is int

    @pytest.mark.parametrize("value", [0, -1, 2.0, True, np.True_, "3", None, np.nan, np.array([1])])
    def test_others_do_not(self, value):
        with pytest.raises(ValueError, match=r"^n: .* was given\. Pass an integer of at least 1\."):
            check_count(value, "n")

    def test_the_least_count_can_be_set(self):
        assert check_count(0, "seed", low=0) == 0
        with pytest.raises(ValueError, match=r"n_dims: 13 was given\. Pass an integer of at least 14"):
            check_count(13, "n_dims", low=14)

    @given(st.floats(allow_nan=False, allow_infinity=False, min_value=0.0))
    def test_finite_numbers_pass_unchanged(self, value):
        assert check_number(value, "x") == value
        assert check_number(np.float64(value), "x") == value

    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -1e-300, "1", None, True, 1j, [1.0]])
    def test_others_are_refused(self, value):
        with pytest.raises(ValueError, match=r"^x: .* was given\. Pass a finite number >= 0\."):
            check_number(value, "x")

    def test_bounds_are_in_the_message(self):
        assert check_number(1, "x", high=1) == 1.0
        with pytest.raises(ValueError, match=r"x: 2 was given\. Pass a finite number >= 0 and <= 1\."):
            check_number(2, "x", high=1)
        with pytest.raises(ValueError, match=r"x: 0 was given\. Pass a finite number > 0\."):
            check_number(0, "x", strict=True)

    @pytest.mark.parametrize("value", ["c", None, 1, np.array(["a", "b"]), ["a"]])
    def test_a_choice_is_one_of_the_words(self, value):
        assert check_choice("a", "word", ("a", "b")) == "a"
        with pytest.raises(ValueError, match=r"^word: .* was given\. Choose one of 'a', 'b'\."):
            check_choice(value, "word", ("a", "b"))


class TestAnnotations:
    @given(arrays(np.float64, (5, 3), elements=st.sampled_from([0.0, 1.0, np.nan])))
    def test_one_zero_and_nan_are_the_three_targets(self, Y):
        Y[0, 0] = 1
        T, names, classes = check_annotations(Y, 5)
        assert T.dtype == np.int8
        np.testing.assert_array_equal(T, np.nan_to_num(2 * Y - 1))
        assert names is classes is None

    def test_classes_become_labels(self):
        T, names, classes = check_annotations(["b", "c", "a", "b"], 4)
        np.testing.assert_array_equal(T, [[-1, 1, -1], [-1, -1, 1], [1, -1, -1], [-1, 1, -1]])
        assert names == ("a", "b", "c")
        np.testing.assert_array_equal(classes, ["a", "b", "c"])

    def test_two_classes_become_one_label(self):
        T, names, classes = check_annotations([7, 3, 3], 3)
        np.testing.assert_array_equal(T, [[1], [-1], [-1]])
        assert names == ("7",)
        np.testing.assert_array_equal(classes, [3, 7])

    def test_a_vector_of_numbers_that_are_no_classes_is_refused(self):
        with pytest.raises(ValueError, match="Unknown label type: continuous"):
            check_annotations([0.1, 0.7, 3.2], 3)


class TestTargets:
    def test_known_is_none_when_everything_is(self):
        relevant, known = check_targets([[0.0, 1.0]])
        np.testing.assert_array_equal(relevant, [[False, True]])
        assert known is None

    def test_counts_of_known_entries(self):
        for Y, of_images, of_labels in [
            ([[0, 1, 1], [1, 0, 0]], [3, 3], [2, 2, 2]),
            ([[0, np.nan, 1], [1, 0, 0]], [2, 3], [2, 1, 2]),
        ]:
            targets = check_targets(Y)
            np.testing.assert_array_equal(targets.n_known(axis=1), of_images)
            np.testing.assert_array_equal(targets.n_known(axis=0), of_labels)


class TestLabels:
    VECTORS = np.array([[1.0, 2.0], [3.0, 4.0]])

    @pytest.mark.parametrize(
        ("labels", "names"),
        [
            ({"a": [1, 2], "b": [3, 4]}, ("a", "b")),
            (LabelSpace(["a", "b"], VECTORS), ("a", "b")),
            (pd.DataFrame(VECTORS, index=["a", "b"]), ("a", "b")),
            (pd.DataFrame(VECTORS), None),
            (pd.DataFrame(VECTORS, index=["a", "b"], columns=["names", "vectors"]), ("a", "b")),
            (VECTORS.tolist(), None),
            (np.asfortranarray(VECTORS), None),
            (VECTORS.astype(np.float32), None),
        ],
    )
    def test_every_form_gives_the_same_vectors(self, labels, names):
        given = check_labels(labels, "labels")
        assert given.names == names
        np.testing.assert_array_equal(given.vectors, self.VECTORS)
        assert given.vectors.flags.c_contiguous
        assert given.vectors.dtype == np.float64

    def test_names_alone_are_looked_up(self):
        known = Labels(("a", "b"), self.VECTORS)
        given = check_labels(["b"], "labels", known)
        assert given.names == ("b",)
        np.testing.assert_array_equal(given.vectors, [[3.0, 4.0]])

    def test_a_set_has_no_order(self):
        with pytest.raises(ValueError, match="labels: cannot be read as a matrix of numbers"):
            check_labels({"a", "b"}, "labels", Labels(("a", "b"), self.VECTORS))

    def test_names_are_plain_unique_strings(self):
        checked = check_names(np.array(["a", "b"]), "names")
        assert checked == ("a", "b")
        assert {type(name) for name in checked} == {str}

    def test_unknown_names_are_listed_with_the_nearest(self):
        rows = {"cat": 0, "dog": 1}
        assert find_names(["dog", "cat"], rows, "names", "Pass others.") == [1, 0]
        message = r"^names: 2 unknown labels: 'catt' \(nearest: 'cat'\); 5\. Pass others\.$"
        with pytest.raises(ValueError, match=message):
            find_names(["catt", "dog", 5], rows, "names", "Pass others.")
        with pytest.raises(ValueError, match=r"names: 9 unknown labels: .*; and 4 more"):
            find_names([f"x{i}" for i in range(9)], rows, "names", "Pass others.")

    def test_messages_show_a_few_and_count_the_rest(self):
        assert listed(["a", "b"]) == "'a', 'b'"
        assert listed(list(range(7))) == "0, 1, 2, 3, 4 and 2 more"
        assert which_vectors(np.array([False, True]), ("a", "b")) == "the vector of 'b'"
        assert which_vectors(np.array([True, True]), None) == "vectors 0, 1"

    def test_vectors_are_not_copied_without_need(self):
        assert np.shares_memory(check_vectors(self.VECTORS, "vectors"), self.VECTORS)


@given(arrays(np.float64, (4, 4), elements=st.floats(0.0, 1e3)))
def test_relations_are_made_exactly_symmetric(R):
    R = R + R.T
    R[0, 1] *= 1 + 1e-12
    checked = check_relations(R, ("a", "b", "c", "d"))
    np.testing.assert_array_equal(checked, checked.T)
    np.testing.assert_allclose(checked, R, rtol=1e-9)


def test_relations_with_names_are_put_into_the_order_of_the_labels():
    R = np.array([[1.0, 0.2, 0.4], [0.2, 1.0, 0.1], [0.4, 0.1, 1.0]])
    order = [2, 0, 1]
    frame = pd.DataFrame(R[np.ix_(order, order)], index=list("cab"), columns=list("cab"))
    np.testing.assert_array_equal(check_relations(frame, ("a", "b", "c")), R)
    with pytest.raises(ValueError, match="relations: 1 unknown label: 'd'"):
        check_relations(frame, ("a", "b", "d"))


def test_relations_may_be_sparse_or_carry_their_sources():
    R = np.eye(2)
    np.testing.assert_array_equal(check_relations(sp.csr_array(R), ("a", "b")), R)
    np.testing.assert_array_equal(check_relations(Relations(R, ("here",)), ("a", "b")), R)


def test_missing_values_of_pandas_are_unknown_annotations():
    Y = pd.DataFrame({"a": [1, 0, None], "b": [0, 1, 1]}, dtype="Int64")
    np.testing.assert_array_equal(check_annotations(Y, 3).T, [[1, -1], [-1, 1], [0, 1]])


def test_names_that_differ_by_blanks_are_the_same():
    with pytest.raises(ValueError, match="'dog' given more than once"):
        check_names(["dog", " dog"], "names")


@pytest.mark.parametrize("value", ["no", None, 1, 0.0])
def test_flags_are_true_or_false(value):
    with pytest.raises(ValueError, match=r"^center: .* Pass True or False"):
        check_flag(value, "center")
