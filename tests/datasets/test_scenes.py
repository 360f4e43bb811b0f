"""Simulated scenes have the structure that they promise."""

from dataclasses import fields

import numpy as np
import pytest

from unseen.datasets.scenes import IS_A, SCENES, TaggedScenes, make_tagged_scenes
from unseen.labels.relations import from_hit_counts, from_path_lengths

PAIRS = np.triu_indices(24, k=1)


@pytest.fixture(scope="module")
def data():
    return make_tagged_scenes(800, 100)


def changed(one, other):
    names = [field.name for field in fields(TaggedScenes)]
    return {name for name in names if not np.array_equal(getattr(one, name), getattr(other, name))}


def test_a_seed_decides_everything_and_each_parameter_what_it_should():
    assert changed(make_tagged_scenes(60, 40, random_state=3), make_tagged_scenes(60, 40, random_state=3)) == set()
    data = make_tagged_scenes(60, 40)
    assert {"X_train", "Y_train", "vectors"} <= changed(data, make_tagged_scenes(60, 40, random_state=4))
    assert changed(data, make_tagged_scenes(60, 40, semantic_gap=0.9)) == {"vectors"}
    assert changed(data, make_tagged_scenes(60, 10)) == {"X_test", "Y_test", "scenes_test"}


def test_shapes_types_and_ranges():
    data = make_tagged_scenes(4000, 30, n_features=32, n_dims=20)
    shapes = data.X_train.shape, data.X_test.shape, data.Y_test.shape, data.vectors.shape, data.scenes_test.shape
    assert shapes == ((4000, 32), (30, 32), (30, 24), (24, 20), (30,))
    assert (data.X_train.dtype, data.Y_train.dtype) == (np.float32, np.int8)
    assert data.X_train.min() == 0  # as after a rectifier
    assert 0.2 < (data.X_train == 0).mean() < 0.8
    assert set(np.unique(data.Y_train)) == {0, 1}
    assert data.Y_train.any(axis=1).all()
    assert data.Y_train.sum(axis=1).mean() == pytest.approx(1.6, rel=0.05)
    np.testing.assert_allclose(np.linalg.norm(data.semantics, axis=1), 1)


def test_every_unseen_label_has_a_seen_sibling_and_every_label_a_scene(data):
    assert list(data.names) == sorted({label for labels in SCENES.values() for label in labels})
    assert (data.seen_labels.names, data.unseen_labels.names) == (data.names[0::2], data.names[1::2])
    np.testing.assert_array_equal((data.seen_labels + data.unseen_labels).select(data.names).vectors, data.vectors)
    assert {IS_A[name] for name in data.unseen_labels.names} <= {IS_A[name] for name in data.seen_labels.names}
    in_kitchen = data.Y_train[data.scenes_train == data.scene_names.index("kitchen")].mean(axis=0)
    assert in_kitchen[data.names.index("bowl")] > 10 * in_kitchen[data.names.index("cow")]


def test_path_lengths_are_a_metric_and_hit_counts_those_of_the_images(data):
    paths = data.path_lengths
    np.testing.assert_array_equal(paths, paths.T)
    np.testing.assert_array_equal(paths == 0, np.eye(24, dtype=bool))
    assert (paths[:, None, :] <= paths[:, :, None] + paths[None, :, :]).all()
    assert [paths[data.names.index("cat"), data.names.index(name)] for name in ("dog", "cow", "boy")] == [2, 4, 6]
    Y = data.Y_train.astype(int)
    assert np.corrcoef((Y.T @ Y)[PAIRS], data.hit_counts[PAIRS])[0, 1] > 0.9


@pytest.mark.parametrize("source", ["hierarchy", "hit counts"])
def test_relations_tell_of_looks_and_list_the_seen_labels_first(data, source):
    order = [*data.seen, *data.unseen]
    whole = from_path_lengths(data.path_lengths) if source == "hierarchy" else from_hit_counts(data.hit_counts)
    np.testing.assert_array_equal(data.relations(source), whole[order][:, order])
    assert np.corrcoef((data.semantics @ data.semantics.T)[PAIRS], whole[PAIRS])[0, 1] > 0.1
    with pytest.raises(ValueError, match=r"^source: "):
        data.relations("wordnet")


def test_without_gap_a_projection_of_the_vectors_is_the_hidden_truth():
    data = make_tagged_scenes(1, 1, semantic_gap=0.0)
    projection = np.linalg.lstsq(data.vectors, data.semantics)[0]
    np.testing.assert_allclose(data.vectors @ projection, data.semantics, atol=1e-9)


@pytest.mark.parametrize(
    ("name", "value"),
    [("n_train", 0), ("n_test", 10.0), ("n_features", True), ("n_dims", 13), ("semantic_gap", 1.5),
     ("random_state", -1)],
)  # fmt: skip
def test_bad_parameters_are_named(name, value):
    with pytest.raises(ValueError, match=f"^{name}: "):
        make_tagged_scenes(**{name: value})
