"""Simulated tagged scenes: data with a known ground truth, so that everything runs without a download."""

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from unseen.labels.relations import from_hit_counts, from_path_lengths
from unseen.labels.space import LabelSpace
from unseen.validation import Matrix, check_choice, check_count, check_number

# The simulated world: an is-a tree of things, whose leaves are the labels. In alphabetical order, each group of
# siblings has labels at even positions (seen) and at odd ones (unseen): every unseen label has a seen sibling.
_CHILDREN: Final[dict[str, tuple[str, ...]]] = {
    "entity": ("living thing", "artefact", "food"), "living thing": ("animal", "person"),
    "animal": ("mammal", "bird"), "mammal": ("carnivore", "ungulate"), "carnivore": ("cat", "dog"),
    "ungulate": ("cow", "horse", "sheep"), "bird": ("chicken", "duck"), "person": ("boy", "woman"),
    "artefact": ("vehicle", "household item"), "vehicle": ("land vehicle", "watercraft"),
    "land vehicle": ("motor vehicle", "cycle"), "motor vehicle": ("car", "truck", "van"),
    "cycle": ("bicycle", "motorbike"), "watercraft": ("boat", "ship"), "household item": ("seat", "vessel"),
    "seat": ("sofa", "stool"), "vessel": ("bottle", "bowl"), "food": ("fruit", "baked food"),
    "fruit": ("orange", "pear"), "baked food": ("cake", "pizza"),
}  # fmt: skip
IS_A: Final[dict[str, str]] = {child: parent for parent, children in _CHILDREN.items() for child in children}

# Labels that each scene is likely to show, most typical first.
SCENES: Final[dict[str, tuple[str, ...]]] = {
    "farm": ("cow", "sheep", "horse", "chicken", "duck", "dog", "truck"),
    "harbour": ("boat", "ship", "van", "duck", "woman"),
    "kitchen": ("bowl", "bottle", "pizza", "cake", "pear", "orange", "stool", "woman"),
    "living room": ("sofa", "cat", "stool", "dog", "boy", "bottle"),
    "market": ("orange", "pear", "cake", "van", "woman", "bowl", "chicken"),
    "park": ("dog", "bicycle", "boy", "duck", "horse", "woman"),
    "street": ("car", "motorbike", "truck", "bicycle", "van", "woman", "boy"),
}

_N_SEMANTIC: Final = 10  # fewer than the seen labels, so that every direction can be learned from these
_N_NUISANCE: Final = 4
_NUISANCE_STRENGTH: Final = 1.5  # larger than the semantic part, so that a projection helps
_INHERITANCE: Final = 0.75  # correlation of a child's semantics with its parent's
_BACKGROUND_STRENGTH: Final = 0.2
_NOISE: Final = 0.8  # standard deviation in a feature, where one label contributes 1
_LABELS_PER_IMAGE: Final = 1.6  # on average; every image has at least one
_SURPRISE: Final = 0.05  # probability that a tag is independent of the scene
_N_TAG_SETS: Final = 50_000


@dataclass(frozen=True, eq=False)
class TaggedScenes:
    """Simulated images, their labels and side information on the labels; made by `make_tagged_scenes`."""

    X_train: NDArray[np.float32]  # (n_images, n_features), not negative
    Y_train: NDArray[np.int8]  # (n_images, n_labels), 1 where the image shows the label, else 0
    X_test: NDArray[np.float32]
    Y_test: NDArray[np.int8]
    names: tuple[str, ...]  # of the labels, in alphabetical order
    vectors: Matrix  # observed label vectors, (n_labels, n_dims)
    seen: NDArray[np.int64]  # the alternating split: even positions of `names`
    unseen: NDArray[np.int64]  # and odd ones
    path_lengths: NDArray[np.int64]  # shortest is-a paths between labels, in edges
    hit_counts: NDArray[np.int64]  # tag sets that contain both labels, in a collection larger than the images
    scene_names: tuple[str, ...]
    scenes_train: NDArray[np.int64]  # index of each image's scene
    scenes_test: NDArray[np.int64]
    semantics: Matrix  # the hidden truth: inner products of its rows give the visual similarity of labels

    @property
    def labels(self) -> LabelSpace:
        """All labels, in the order of `names`."""
        return LabelSpace(self.names, self.vectors)

    @property
    def seen_labels(self) -> LabelSpace:
        """The seen labels, in the order of `seen`."""
        return LabelSpace([self.names[i] for i in self.seen], self.vectors[self.seen])

    @property
    def unseen_labels(self) -> LabelSpace:
        """The unseen labels, in the order of `unseen`."""
        return LabelSpace([self.names[i] for i in self.unseen], self.vectors[self.unseen])

    def relations(self, source: Literal["hierarchy", "hit counts"]) -> Matrix:
        """Relations of the seen labels followed by the unseen ones, from `path_lengths` or from `hit_counts`."""
        order = np.concatenate([self.seen, self.unseen])
        if check_choice(source, "source", ("hierarchy", "hit counts")) == "hierarchy":
            return from_path_lengths(self.path_lengths[np.ix_(order, order)])
        return from_hit_counts(self.hit_counts[np.ix_(order, order)])


def make_tagged_scenes(
    n_train: int = 2000,
    n_test: int = 1000,
    *,
    n_features: int = 256,
    n_dims: int = 50,
    semantic_gap: float = 0.1,
    random_state: int | None = 0,
) -> TaggedScenes:
    """Simulate tagged images of everyday scenes, with 24 labels, half of them intended as unseen.

    **Everything is simulated**, for examples, tests and first steps: it has the structure that zero-shot learning
    needs, and does not show how well a method works on photographs.

    Parameters
    ----------
    n_train, n_test, n_features : int
        Numbers of images, and of features per image.
    n_dims : int, default=50
        Dimension of the label vectors, at least 14.
    semantic_gap : float in [0, 1], default=0.1
        How much of the label vectors' meaning is not visual. At 0 a linear projection of the vectors shows
        exactly which labels look alike, at 1 the vectors are uninformative.
    random_state : int or None, default=0
        Seed. Under one seed, `semantic_gap` and `n_dims` change the label vectors and nothing else.

    Notes
    -----
    The hidden semantics of the labels diffuse down the is-a tree `IS_A`: the longer the path between two labels,
    the less similar they look. An image is a scene of `SCENES`, which draws labels that go together. Features are
    ``relu(sum of the labels' prototypes + background of the scene + noise)``, where a prototype is a random linear
    map of the label's semantics. The label vectors hold the semantics, a share `semantic_gap` of whose variance is
    replaced by independent values, and larger nuisance in orthogonal directions, which a projection can remove.

    Examples
    --------
    >>> data = make_tagged_scenes(n_train=100, n_test=50)
    >>> data.X_train.shape, data.Y_train.shape
    ((100, 256), (100, 24))
    >>> data.unseen_labels.names[:4]
    ('boat', 'bowl', 'cake', 'cat')
    """
    for name, n in (("n_train", n_train), ("n_test", n_test), ("n_features", n_features)):
        check_count(n, name)
    check_count(n_dims, "n_dims", low=_N_SEMANTIC + _N_NUISANCE)
    check_number(semantic_gap, "semantic_gap", high=1.0)
    if random_state is not None:
        check_count(random_state, "random_state", low=0)
    # One random stream per quantity, so that the vectors' parameters do not change the images.
    streams = np.random.SeedSequence(random_state).spawn(6)
    world, camera, vocabulary, train, test, web = map(np.random.default_rng, streams)

    names = tuple(sorted(set(IS_A) - set(IS_A.values())))
    chains = [_ancestry(name) for name in names]
    semantics = _hidden_semantics(chains, world)
    prototypes = semantics @ camera.standard_normal((_N_SEMANTIC, n_features))
    backgrounds = _BACKGROUND_STRENGTH * camera.standard_normal((len(SCENES), n_features))

    def photograph(Y: NDArray[np.int8], scenes: NDArray[np.int64], rng: Generator) -> NDArray[np.float32]:
        activations = Y @ prototypes + backgrounds[scenes]
        activations += _NOISE * rng.standard_normal(activations.shape)
        return np.maximum(activations, 0.0).astype(np.float32)

    scenes_train, Y_train = _draw_tags(names, n_train, train)
    scenes_test, Y_test = _draw_tags(names, n_test, test)
    X_train, X_test = photograph(Y_train, scenes_train, train), photograph(Y_test, scenes_test, test)
    vectors = _observed_vectors(semantics, n_dims, semantic_gap, vocabulary)
    seen, unseen = np.arange(0, len(names), 2), np.arange(1, len(names), 2)
    # In a tree, the nodes on only one of two chains count the edges between their leaves.
    path_lengths = np.array([[len({*a} ^ {*b}) for b in chains] for a in chains])
    tags = _draw_tags(names, _N_TAG_SETS, web)[1].astype(np.float64)
    hit_counts = (tags.T @ tags).astype(np.int64)
    return TaggedScenes(
        X_train, Y_train, X_test, Y_test, names, vectors, seen, unseen, path_lengths, hit_counts, tuple(SCENES),
        scenes_train, scenes_test, semantics,
    )  # fmt: skip


def _draw_tags(
    names: tuple[str, ...], n_images: int, rng: Generator
) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
    """Draw the scene of each image and from it a geometric number of distinct labels."""
    weights = np.zeros((len(SCENES), len(names)))
    for row, members in zip(weights, SCENES.values(), strict=True):
        row[[names.index(member) for member in members]] = 1.0 / np.sqrt(np.arange(1, len(members) + 1))
    weights /= weights.sum(axis=1, keepdims=True)
    probabilities = (1.0 - _SURPRISE) * weights + _SURPRISE / len(names)
    scenes = rng.integers(len(SCENES), size=n_images)
    # The Gumbel trick: the k largest of log-probability + Gumbel noise are k draws without replacement.
    keys = np.log(probabilities)[scenes] + rng.gumbel(size=(n_images, len(names)))
    n_drawn = np.minimum(rng.geometric(1.0 / _LABELS_PER_IMAGE, size=n_images), len(names))
    smallest_drawn = np.take_along_axis(np.sort(keys, axis=1), (len(names) - n_drawn)[:, None], axis=1)
    return scenes, (keys >= smallest_drawn).astype(np.int8)


def _ancestry(name: str) -> list[str]:
    return [name, *(_ancestry(IS_A[name]) if name in IS_A else [])]


def _hidden_semantics(chains: list[list[str]], rng: Generator) -> Matrix:
    """Diffuse down the tree, then scale to unit length: labels correlate as _INHERITANCE ** path length."""
    nodes = sorted({*IS_A, *IS_A.values()})
    steps = dict(zip(nodes, rng.standard_normal((len(nodes), _N_SEMANTIC)), strict=True))
    semantics = np.empty((len(chains), _N_SEMANTIC))
    for row, (*descent, root) in zip(semantics, chains, strict=True):
        row[:] = steps[root]
        for node in reversed(descent):
            row[:] = _INHERITANCE * row + np.sqrt(1.0 - _INHERITANCE**2) * steps[node]
    semantics /= np.linalg.norm(semantics, axis=1, keepdims=True)
    return semantics


def _observed_vectors(semantics: Matrix, n_dims: int, semantic_gap: float, rng: Generator) -> Matrix:
    """Semantics behind a gap, and nuisance, in a random frame."""
    unrelated = rng.standard_normal(semantics.shape) / np.sqrt(_N_SEMANTIC)
    nuisance = rng.standard_normal((len(semantics), _N_NUISANCE)) / np.sqrt(_N_NUISANCE)
    meaning = np.sqrt(1.0 - semantic_gap) * semantics + np.sqrt(semantic_gap) * unrelated
    frame, _ = np.linalg.qr(rng.standard_normal((n_dims, _N_SEMANTIC + _N_NUISANCE)))
    return np.asarray(np.hstack([meaning, _NUISANCE_STRENGTH * nuisance]) @ frame.T)
