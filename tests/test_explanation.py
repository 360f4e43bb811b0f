"""Explanations: what their sentence names, and which labels better ones explain."""

import numpy as np
import pytest

from unseen.explanation import Explanation, Part, evidence_shares, settle


def never(i, j):
    return False


def test_a_sentence_names_the_main_parts_in_favour():
    parts = [
        Part("class", "tabby", 1.0),
        Part("label", "dog", -9.0),
        Part("label", "cat", 3.0),
        Part("class", "tiger cat", 0.8),
        Part("class", "lynx", 0.7),
        Part("label", "your photos of Tom", 2.0),
    ]
    assert Explanation.of("cat", 0.0, parts).sentence == (
        "Most evidence for 'cat' is from your photos of Tom, and from the backbone's classes 'tabby' and "
        "'tiger cat', and from its own annotated images."
    )
    of_one = Explanation.of("kitten", 0.0, [Part("image", "7.jpg", 1.0), Part("label", "cat", 0.9)]).sentence
    assert (
        of_one
        == "Most evidence for 'kitten' is from the annotated label 'cat', and from the training image '7.jpg'."
    )
    assert Explanation.of("kitten", 0.0, parts[1:2]).sentence == "There is no evidence for 'kitten'."


def test_shares_are_of_what_is_positive():
    np.testing.assert_allclose(
        evidence_shares([[3.0, 1.0, -2.0], [-1.0, 0.0, 0.0]]), [[0.75, 0.25, 0.0], [0.0] * 3]
    )


@pytest.mark.parametrize(
    ("values", "is_annotated", "left"),
    [
        ([[1, 1, 0], [0, 1, 1]], [False, False], [0]),  # they share half
        ([[1, 1, 0], [0, 0.9, 1.1]], [False, False], [0, 1]),
        ([[6, 4, 0], [0, 4, 6]], [True, False], [0]),  # a third, if the better one is annotated
        ([[1, 0], [1, 0]], [False, True], [0, 1]),  # an annotated label stays
        ([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]], [False] * 3, [0, 2]),  # what is left out explains nothing
        ([[-1, -1], [-1, -1]], [False, False], [0, 1]),  # nothing to share
    ],
)
def test_a_label_that_shares_the_evidence_of_a_better_one_is_left_out(values, is_annotated, left):
    assert settle(values, is_annotated, never) == left


def test_kinds_of_each_other_both_stay():
    assert settle([[1, 0], [1, 0], [1, 0]], [False] * 3, lambda i, j: {i, j} == {0, 2}) == [0, 2]
