"""The diagnosis: neighbours by cosine, orphans by chance."""

import numpy as np
import pytest
from tests.labels.test_encoders import Letters

from unseen import LabelSpace
from unseen.labels.diagnosis import diagnose


def space(names, vectors):
    return LabelSpace(names.split(), vectors)


def test_neighbours_are_the_nearest_by_cosine_best_supported_label_first():
    seen = space("a b c", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    unseen = space("p q", [[0.2, 1.0, 0.5], [5.0, 0.1, 0.0]])
    found = diagnose(seen, unseen, center=False, top=2)
    assert [label.name for label in found.labels] == ["q", "p"]
    assert [name for name, _ in found.labels[1].neighbours] == ["b", "c"]
    assert found.labels[1].neighbours[0][1] == pytest.approx(1.0 / np.sqrt(1.29))


def test_unrelated_vectors_are_orphans_about_half_of_the_time_and_copies_never():
    rng = np.random.default_rng(0)
    orphans = copies = 0
    for _ in range(40):
        seen = LabelSpace([f"s{i}" for i in range(20)], rng.standard_normal((20, 40)))
        near = seen.vectors[:5] + 0.1 * rng.standard_normal((5, 40))
        unseen = LabelSpace([f"u{i}" for i in range(10)], np.vstack([near, rng.standard_normal((5, 40))]))
        found = diagnose(seen, unseen).orphans
        copies += sum(f"u{i}" in found for i in range(5))
        orphans += sum(f"u{i}" in found for i in range(5, 10))
    assert copies == 0
    assert orphans > 0.35 * 200  # chance is exceeded by half of them, less where the copies stretch the spread


def test_few_labels_are_compared_as_they_are_and_said_to_be_few():
    """Centring two labels makes them opposites, whatever they mean."""
    found = diagnose(["aaa", "bbb"], ["aa"], vectors=Letters())
    assert found.is_rough
    assert found.labels[0].neighbours[0][0] == "aaa"
    assert found.labels[0].neighbours[0][1] > 0.9


def test_nothing_is_supported_by_a_label_that_points_elsewhere():
    assert diagnose(space("a b", [[1.0, 0.0], [0.9, 0.1]]), space("p", [[-1.0, 0.1]])).orphans == ("p",)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"^top: "):
        diagnose(space("a", [[1.0, 0.0]]), space("b", [[0.9, 0.1]]), top=0)
    with pytest.raises(ValueError, match=r"^others: "):
        diagnose(space("a", [[1.0, 0.0]]), space("b", [[0.9, 0.1, 0.3]]))
