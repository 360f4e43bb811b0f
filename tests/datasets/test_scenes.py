import dataclasses

import numpy as np
import pytest

from unseen import TAEP
from unseen.datasets.scenes import IS_A, SCENES, TaggedScenes, make_tagged_scenes
from unseen.labels.relations import from_hit_counts, from_path_lengths


@pytest.fixture(scope="module")
def data() -> TaggedScenes:
    return make_tagged_scenes()


def _unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def _miap(scores: np.ndarray, Y: np.ndarray) -> float:
    relevant = np.take_along_axis(Y, np.argsort(-scores, axis=1, kind="stable"), axis=1).astype(float)
    precision = relevant.cumsum(axis=1) / np.arange(1, Y.shape[1] + 1)
    return float(((precision * relevant).sum(axis=1) / relevant.sum(axis=1)).mean())


def _ridge(A: np.ndarray, B: np.ndarray, penalty: float) -> np.ndarray:
    return np.linalg.solve(A.T @ A + penalty * np.eye(A.shape[1]), A.T @ B)


def _zero_shot_miap(data: TaggedScenes, vectors: np.ndarray, relations: np.ndarray | None = None) -> float:
    """MiAP of the unseen labels after a fit on the images that show a seen one."""
    annotated = data.Y_train[:, data.seen].any(axis=1)
    model = TAEP(rank=6, beta=2.0, gamma=0.0, lam=0.6, tol=1e-2).fit(
        data.X_train[annotated],
        data.Y_train[annotated][:, data.seen],
        vectors[data.seen],
        vectors[data.unseen],
        relations,
    )
    Y = data.Y_test[:, data.unseen]
    tested = Y.any(axis=1)
    return _miap(model.decision_function(data.X_test[tested], "unseen"), Y[tested])


def _chance(data: TaggedScenes) -> float:
    Y = data.Y_test[:, data.unseen]
    Y = Y[Y.any(axis=1)]
    return _miap(np.random.default_rng(0).random(Y.shape), Y)


def test_the_same_seed_gives_the_same_data_and_another_seed_does_not() -> None:
    first, again, other = (make_tagged_scenes(60, 40, random_state=seed) for seed in (3, 3, 4))
    for field in dataclasses.fields(TaggedScenes):
        np.testing.assert_array_equal(getattr(first, field.name), getattr(again, field.name))
    assert not np.array_equal(first.X_train, other.X_train)
    assert not np.array_equal(first.Y_train, other.Y_train)
    assert not np.array_equal(first.vectors, other.vectors)


def test_the_semantic_gap_changes_the_vectors_and_nothing_else() -> None:
    near, far = make_tagged_scenes(60, 40, semantic_gap=0.1), make_tagged_scenes(60, 40, semantic_gap=0.9)
    for field in dataclasses.fields(TaggedScenes):
        same = np.array_equal(getattr(near, field.name), getattr(far, field.name))
        assert same == (field.name != "vectors"), field.name


def test_more_test_images_leave_the_training_images_as_they_are() -> None:
    few, many = make_tagged_scenes(60, 10), make_tagged_scenes(60, 40)
    np.testing.assert_array_equal(few.X_train, many.X_train)
    np.testing.assert_array_equal(few.hit_counts, many.hit_counts)


def test_shapes_and_types() -> None:
    data = make_tagged_scenes(70, 30, n_features=32, n_dims=20)
    assert data.X_train.shape == (70, 32)
    assert data.X_test.shape == (30, 32)
    assert data.X_train.dtype == data.X_test.dtype == np.float32
    assert data.Y_train.shape == (70, 24)
    assert data.Y_test.shape == (30, 24)
    assert data.Y_train.dtype == data.Y_test.dtype == np.int8
    assert data.vectors.shape == (24, 20)
    assert data.path_lengths.shape == data.hit_counts.shape == (24, 24)
    assert data.scenes_train.shape == (70,)
    assert data.scenes_test.shape == (30,)
    np.testing.assert_allclose(np.linalg.norm(data.semantics, axis=1), 1)


def test_features_are_those_of_a_rectifier(data: TaggedScenes) -> None:
    for X in (data.X_train, data.X_test):
        assert np.isfinite(X).all()
        assert X.min() == 0
        assert 0.2 < (X == 0).mean() < 0.8
        assert X.any(axis=1).all()


def test_every_image_has_a_label_and_some_have_many(data: TaggedScenes) -> None:
    for Y in (data.Y_train, data.Y_test):
        assert set(np.unique(Y)) == {0, 1}
        assert Y.any(axis=1).all()
        assert Y.any(axis=0).all()
        assert 1.5 < Y.sum(axis=1).mean() < 2
        assert Y.sum(axis=1).max() >= 5


@pytest.mark.parametrize("mean", [1.0, 2.5])
def test_labels_per_image_is_the_mean_number_of_labels(mean: float) -> None:
    data = make_tagged_scenes(4000, 1, n_features=1, labels_per_image=mean)
    assert data.Y_train.sum(axis=1).mean() == pytest.approx(mean, rel=0.05)


def test_the_split_is_the_alternating_one_of_sorted_names(data: TaggedScenes) -> None:
    assert list(data.names) == sorted(data.names)
    assert len(set(data.names)) == 24
    np.testing.assert_array_equal(data.seen, np.arange(0, 24, 2))
    np.testing.assert_array_equal(data.unseen, np.arange(1, 24, 2))
    assert data.seen_labels.names == data.names[0::2]
    assert data.unseen_labels.names == data.names[1::2]
    np.testing.assert_array_equal((data.seen_labels + data.unseen_labels).select(data.names).vectors, data.vectors)
    assert data.labels.names == data.names


def test_every_unseen_label_has_a_seen_sibling(data: TaggedScenes) -> None:
    seen_parents = {IS_A[name] for name in data.seen_labels.names}
    assert {IS_A[name] for name in data.unseen_labels.names} <= seen_parents


def test_scenes_show_labels_and_every_label_has_a_scene(data: TaggedScenes) -> None:
    assert data.scene_names == tuple(SCENES)
    assert {label for labels in SCENES.values() for label in labels} == set(data.names)
    kitchen, bowl, cow = data.scene_names.index("kitchen"), data.names.index("bowl"), data.names.index("cow")
    in_kitchen = data.Y_train[data.scenes_train == kitchen].mean(axis=0)
    assert in_kitchen[bowl] > 10 * in_kitchen[cow]


def test_path_lengths_are_a_metric(data: TaggedScenes) -> None:
    paths = data.path_lengths
    np.testing.assert_array_equal(paths, paths.T)
    np.testing.assert_array_equal(paths == 0, np.eye(24, dtype=bool))
    assert (paths[:, None, :] <= paths[:, :, None] + paths[None, :, :]).all()
    cat, dog, cow, boy = map(data.names.index, ("cat", "dog", "cow", "boy"))
    assert (paths[cat, dog], paths[cat, cow], paths[cat, boy]) == (2, 4, 6)


def test_co_occurrence_in_the_images_follows_the_hit_counts(data: TaggedScenes) -> None:
    Y = data.Y_train.astype(np.int64)
    pairs = np.triu_indices(24, k=1)
    assert np.corrcoef((Y.T @ Y)[pairs], data.hit_counts[pairs])[0, 1] > 0.9
    assert np.corrcoef(Y.sum(axis=0), np.diag(data.hit_counts))[0, 1] > 0.9
    assert np.diag(data.hit_counts).min() > 10 * Y.sum(axis=0).min()


@pytest.mark.parametrize("seed", range(3))
def test_both_sources_tell_of_true_looks(seed: int) -> None:
    data = make_tagged_scenes(1, 1, random_state=seed)
    pairs = np.triu_indices(24, k=1)
    looks = (data.semantics @ data.semantics.T)[pairs]
    for relations in (from_path_lengths(data.path_lengths), from_hit_counts(data.hit_counts)):
        assert np.corrcoef(looks, relations[pairs])[0, 1] > 0.1


def test_relations_list_the_seen_labels_first(data: TaggedScenes) -> None:
    order = [*data.seen, *data.unseen]
    whole = from_path_lengths(data.path_lengths)
    np.testing.assert_array_equal(data.relations("hierarchy"), whole[order][:, order])
    counts = from_hit_counts(data.hit_counts)
    np.testing.assert_array_equal(data.relations("hit counts"), counts[order][:, order])
    with pytest.raises(ValueError, match="source: 'wordnet' was given"):
        data.relations("wordnet")  # type: ignore[arg-type]


def test_without_gap_a_projection_of_the_vectors_is_the_hidden_truth() -> None:
    data = make_tagged_scenes(1, 1, semantic_gap=0.0)
    projection = np.linalg.lstsq(data.vectors, data.semantics)[0]
    np.testing.assert_allclose(data.vectors @ projection, data.semantics, atol=1e-9)
    assert np.linalg.matrix_rank(data.vectors) > np.linalg.matrix_rank(data.semantics)


@pytest.fixture(scope="module")
def worlds() -> list[TaggedScenes]:
    return [make_tagged_scenes(800, 600, random_state=seed) for seed in range(3)]


def test_the_wider_the_gap_the_less_can_be_transferred(worlds: list[TaggedScenes]) -> None:
    def miap_at(gap: float) -> float:
        drawn = [make_tagged_scenes(800, 600, semantic_gap=gap, random_state=seed) for seed in range(3)]
        return float(np.mean([_zero_shot_miap(data, data.vectors) for data in drawn]))

    none, half, all_of_it = map(miap_at, (0.0, 0.5, 1.0))
    assert none > half + 0.05
    assert half > all_of_it + 0.05
    assert all_of_it == pytest.approx(np.mean([_chance(data) for data in worlds]), abs=0.07)


def test_zero_shot_tagging_works_and_shuffled_vectors_bring_it_to_chance(worlds: list[TaggedScenes]) -> None:
    rng = np.random.default_rng(0)
    true = np.mean([_zero_shot_miap(data, data.vectors) for data in worlds])
    shuffled = np.mean([_zero_shot_miap(data, rng.permutation(data.vectors)) for data in 2 * worlds])
    chance = np.mean([_chance(data) for data in worlds])
    assert true > chance + 0.15
    assert shuffled == pytest.approx(chance, abs=0.08)


@pytest.mark.parametrize("source", ["hierarchy", "hit counts"])
def test_relations_teach_what_the_seen_labels_cannot(worlds: list[TaggedScenes], source: str) -> None:
    without = [_zero_shot_miap(data, data.vectors) for data in worlds]
    related = [_zero_shot_miap(data, data.vectors, data.relations(source)) for data in worlds]  # type: ignore[arg-type]
    assert np.mean(related) > np.mean(without) + 0.04


@pytest.mark.parametrize("seed", range(3))
def test_supervision_on_all_labels_solves_the_task(seed: int) -> None:
    data = make_tagged_scenes(random_state=seed)
    W = _ridge(_unit(data.X_train.astype(float)), data.Y_train.astype(float), penalty=1.0)
    assert _miap(_unit(data.X_test.astype(float)) @ W, data.Y_test) > 0.85


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_train", 0),
        ("n_train", 10.0),
        ("n_test", -1),
        ("n_features", True),
        ("n_dims", 13),
        ("semantic_gap", -0.1),
        ("semantic_gap", 1.5),
        ("semantic_gap", np.nan),
        ("labels_per_image", 0.5),
        ("labels_per_image", "two"),
        ("noise", -1.0),
        ("noise", np.inf),
        ("random_state", -1),
        ("random_state", "seed"),
    ],
)
def test_bad_parameters_are_named(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"^{name}: .* was given\. Pass "):
        make_tagged_scenes(**{name: value})  # type: ignore[arg-type]
