"""The data of an experiment: annotations, features of one or more backbones, label vectors and relations."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from unseen.datasets import read_annotations
from unseen.datasets.annotations import Annotations
from unseen.datasets.voc import find_voc
from unseen.ensembles import BackboneKnowledge
from unseen.experiment.methods import IN_A_PICTURE, SIDE_BY_SIDE, Method
from unseen.images.features import open_features
from unseen.images.imagenet import class_names, imagenet_knowledge
from unseen.labels.cooccurrence import read_hit_counts
from unseen.labels.names import VOC_WORDS
from unseen.labels.relations import from_path_lengths, relate
from unseen.labels.space import LabelSpace
from unseen.validation import listed

Matrices = Mapping[str, NDArray[Any]]

# Sources of label vectors that are used if installed, and their names in tables.
_SOURCES: Final = {"glove": "GloVe 50-d", "use": "use", "use:a picture of a {}": IN_A_PICTURE}
_PHRASE: Final = "a photo of a {}"
_PREFERRED: Final = ("vgg19", "resnet50")  # the paper used VGG19; then the larger features


@dataclass(frozen=True, eq=False)
class SideBySide:
    """Label vectors of several sources, concatenated; each is centred over the labels in use and of unit length.

    The labels in use are those of `select`: a mean over all labels would leak information about the unseen
    ones into a search on the seen labels.
    """

    parts: tuple[LabelSpace, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """All labels."""
        return self.parts[0].names

    @property
    def vectors(self) -> NDArray[Any]:
        """Vectors of all labels."""
        return self.select(self.names).vectors

    def select(self, names: Sequence[str]) -> LabelSpace:
        """Vectors of some labels."""
        parts = [part.select(names).centered().normalized().vectors for part in self.parts]
        return LabelSpace(names, np.hstack(parts))


@dataclass(frozen=True, eq=False)
class ExperimentData:
    """A data set for experiments; the tables use the first backbone and the first source of label vectors."""

    name: str  # "voc2007" and "voc2012" are compared with the paper's figures
    labels: tuple[str, ...]
    Y: NDArray[Any]  # (n_images, n_labels): 1 present, 0 absent, NaN unknown
    is_train: NDArray[np.bool_]  # training images; the others are for testing
    features: Matrices  # by backbone, (n_images, n_features)
    vectors: Mapping[str, LabelSpace | SideBySide]  # by source
    logits: Matrices = field(default_factory=dict)  # of some backbones, (n_images, n_classes)
    classes: Mapping[str, BackboneKnowledge] = field(default_factory=dict)  # by source: vectors of the class names
    relations: Matrices = field(default_factory=dict)  # "hierarchy" and "hit counts", as available
    notes: tuple[str, ...] = ()  # what readers of the results must know about the data

    def __post_init__(self) -> None:
        for name, matrix in (*self.features.items(), *self.logits.items()):  # before hours are spent on them
            if len(matrix) != len(self.Y) or not np.isfinite(matrix.sum(dtype=np.float64)):
                raise ValueError(f"features: {name!r} does not have one finite row per image. Extract them again.")

    @property
    def main_features(self) -> str:
        """The backbone of the tables."""
        return next(iter(self.features))

    @property
    def main_vectors(self) -> str:
        """The label vectors of the tables."""
        return next(iter(self.vectors))

    def lacks(self, method: Method) -> str | None:
        """Description of what the data set lacks for a method; None if it has everything."""
        if method.needs_relations and method.relations is not None and self.related(method) is None:
            return f"there are no relations by {method.relations}"
        if method.columns != "features" and not self.backbone(method):
            return "no backbone has class logits"
        if method.columns != "features" and not self.classes:
            return "the names of the backbone's classes have no vectors"
        if method.shared_space:
            n_features = self.features[self.main_features].shape[1]
            n_dims = self.vectors[self.main_vectors].vectors.shape[1]
            if n_features != n_dims:
                return (
                    f"images have {n_features} features and labels {n_dims} dimensions: not one image-text model"
                )
        return None

    def backbone(self, method: Method) -> str | None:
        """The backbone that a method uses: the first, or the first with logits if it needs them."""
        names = self.features if method.columns == "features" else self.logits
        return next((name for name in self.features if name in names), None)

    def sources(self, method: Method) -> tuple[str, ...]:
        """Sources of label vectors that a method chooses from."""
        known = self.vectors if method.columns == "features" else self.classes
        return tuple(source for source in method.vectors if source in known) or tuple(known)[:1]

    def related(self, method: Method) -> NDArray[Any] | None:
        """Relations that a method is given, if there are any."""
        return None if method.relations is None else self.relations.get(method.relations)

    def columns(self, method: Method, backbone: str) -> NDArray[Any]:
        """The X of a method."""
        if method.columns == "features":
            return self.features[backbone]
        if method.columns == "logits":
            return self.logits[backbone]
        return np.hstack([self.features[backbone], self.logits[backbone]])


def read_data(
    name: str | None,
    where: str | Path,
    *,
    annotations: Path | None = None,
    features: Sequence[Path] = (),
    vectors: Sequence[str] = (),
    hit_counts: Path | None = None,
    path_lengths: Path | None = None,
    seed: int = 0,
) -> ExperimentData:
    """Read a data set; files that are not given are found in a folder by name.

    In the folder: ``NAME_labels.csv``, or the folder is a VOC devkit; ``NAME_BACKBONE.npz``, one or more; and
    optionally ``NAME_*glove*.csv``, ``NAME_hitcounts*.csv`` and ``NAME_wordnet*path_length*.csv``. A number may
    follow NAME, as in ``coco80_glove.csv``; for VOC2007 and VOC2012 it may also be ``voc20``.

    Parameters
    ----------
    name : str or None
        Name of the data set; None takes it from the CSV file, without ``_labels``.
    where : str or Path
        The folder, or a CSV file of annotations in it.
    annotations, features, vectors, hit_counts, path_lengths : optional
        What `read_annotations` and `open_features` take, sources of label vectors (the first for the tables), and
        CSV matrices. Without path lengths, those of the package's WordNet.
    seed : int, default=0
        Seed for the training half when the annotations have no split.
    """
    where = Path(where)
    if not where.exists():
        raise FileNotFoundError(f"--data: there is no {str(where)!r}. Pass a folder or a CSV file of annotations.")
    if where.is_file():
        name, annotations = name or where.stem.removesuffix("_labels"), annotations or where
    elif name is None:
        raise ValueError(f"--data: {str(where)!r} is a folder. Name the data set: unseen reproduce voc2007 ...")
    folder = where if where.is_dir() else where.parent
    found = _read_labels(name, annotations or _find_annotations(folder, name))
    notes: list[str] = []
    is_train = _training_images(found, seed, notes)
    matrices, logits = {}, {}
    for path in tuple(features) or _find_features(folder, name):
        backbone, matrix, scores = _read_features(path, name, found, notes)
        if backbone in matrices:
            raise ValueError(f"--features: two are from {backbone!r}. Pass one per backbone.")
        matrices[backbone] = matrix
        if scores is not None:
            logits[backbone] = scores
    tables = tuple(vectors) or tuple(str(path) for path in _find(folder, name, "*glove*.csv"))
    counts = hit_counts or next(iter(_find(folder, name, "hitcounts*.csv")), None)
    lengths = path_lengths or next(iter(_find(folder, name, "wordnet*path_length*.csv")), None)
    label_vectors, classes = _look_up(found.labels, tables, bool(logits), notes)
    relations = _relations(found.labels, counts, lengths, notes)
    return ExperimentData(
        name, found.labels, found.Y, is_train, matrices, label_vectors, logits, classes, relations, tuple(notes)
    )


def _read_labels(name: str, path: Path) -> Annotations:
    if not path.is_dir() or name not in ("voc2007", "voc2012"):
        return read_annotations(path)
    if name == "voc2007":
        return read_annotations(path, year=2007)
    # The test annotations of VOC2012 were never published: val is the test.
    train, val = (read_annotations(path, part, year=2012) for part in ("train", "val"))
    split = (*(train.split or ()), *(val.split or ()))
    return Annotations(train.images + val.images, train.labels, np.vstack([train.Y, val.Y]), split)


def _find(folder: Path, name: str, pattern: str) -> list[Path]:
    """Files that begin with the name, with the name and a number, or with what the years of VOC share."""
    prefixes = (name, f"{name}[0-9]*", *(["voc20"] if name.startswith("voc20") else []))
    return [path for prefix in prefixes for path in sorted(folder.glob(f"{prefix}_{pattern}"))]


def _find_annotations(folder: Path, name: str) -> Path:
    found = _find(folder, name, "labels.csv")
    if len(found) == 1 or (found and found[0].name == f"{name}_labels.csv"):
        return found[0]
    if name in ("voc2007", "voc2012") and find_voc(folder, int(name[3:])) is not None:
        return folder
    several = f": it has {listed([path.name for path in found])}" if found else ""
    raise FileNotFoundError(f"--data: {str(folder)!r} has no '{name}_labels.csv'{several}. Pass --annotations.")


def _find_features(folder: Path, name: str) -> list[Path]:
    found = []
    for path in _find(folder, name, "*.npz"):
        with suppress(OSError, ValueError), np.load(path) as archive:
            found += [path] if "features" in archive else []
    if not found:
        missing = f"'{name}_BACKBONE.npz' with an array 'features'"
        raise FileNotFoundError(f"--data: {str(folder)!r} has no {missing}. Pass --features.")
    rank = {backbone: i for i, backbone in enumerate(_PREFERRED)}
    return sorted(found, key=lambda path: rank.get(_backbone(path, name), len(rank)))


def _backbone(path: Path, name: str) -> str:
    """``vgg19`` of ``voc2007_vgg19.npz``, ``resnet50`` of ``coco30k_resnet50.npz``."""
    return re.sub(rf"^{re.escape(name)}(\d[^_]*)?_", "", path.stem)


def _training_images(annotations: Annotations, seed: int, notes: list[str]) -> NDArray[np.bool_]:
    n_images = len(annotations)
    if annotations.split is None:
        is_train = np.zeros(n_images, dtype=np.bool_)
        is_train[np.random.default_rng(seed).permutation(n_images)[: (n_images + 1) // 2]] = True
        notes.append("The annotations have no split: a random half of the images is used for training.")
        return is_train
    parts = [part.strip().lower() for part in annotations.split]
    others = sorted(set(parts) - {"train", "trainval", "val", "test"})
    if others:
        raise ValueError(f"--annotations: some splits are {listed(others)}. Write train, trainval, val or test.")
    training = {"train", "trainval"}
    if {"val", "test"} <= set(parts):
        training.add("val")
        notes.append("Images of the split val are used for training, as there is a split test.")
    is_train = np.array([part in training for part in parts])
    if is_train.all() or not is_train.any():
        only = "training" if is_train.all() else "testing"
        raise ValueError(f"--annotations: all images are for {only}. Write train and test into the column split.")
    return is_train


def _read_features(
    path: Path, name: str, annotations: Annotations, notes: list[str]
) -> tuple[str, NDArray[Any], NDArray[Any] | None]:
    try:
        found = open_features(path)
        by_order = not found.has_names and set(annotations.images) != set(found.paths)
        if by_order and len(found) != len(annotations):
            given = f"{len(found):,} rows for {len(annotations):,} of them"
            raise ValueError(f"it names no images, and has {given}. Pass a file with 'image_id'.")
        rows = np.arange(len(found)) if by_order else _rows_of(annotations, found.paths)
    except (OSError, ValueError) as error:
        raise ValueError(f"--features: {str(path)!r}: {error}") from None
    if not found.has_names:
        how = "in the order of the annotations" if by_order else "by their numbers, from 0"
        notes.append(f"{path.name} names no images: its rows are taken {how}.")
    backbone = str(found.backbone.get("name") or _backbone(path, name))
    logits = None
    if found.logits is not None and found.class_names == class_names():
        logits = np.asarray(found.logits[rows], dtype=np.float32)
    return backbone, np.asarray(found.X[rows], dtype=np.float32), logits


def _rows_of(annotations: Annotations, paths: Sequence[str]) -> NDArray[np.intp]:
    places = annotations.rows_for(paths, missing="mark")
    rows = np.full(len(annotations), -1, dtype=np.intp)
    rows[places[places >= 0]] = np.flatnonzero(places >= 0)
    missing = [annotations.images[i] for i in np.flatnonzero(rows < 0)]
    if missing:
        what = f"{len(missing):,} of {len(rows):,} annotated images have no features: {listed(missing)}"
        raise ValueError(f"{what}. These are features of images like {paths[0]!r}; folders must agree.")
    return rows


def _look_up(
    names: tuple[str, ...], given: Sequence[str], with_classes: bool, notes: list[str]
) -> tuple[dict[str, LabelSpace | SideBySide], dict[str, BackboneKnowledge]]:
    """Label vectors of every available source, and the vectors of the class names by the same sources."""
    vectors: dict[str, LabelSpace] = {}
    for source in given:
        title = _SOURCES.get(source) or (Path(source).stem if Path(source).suffix else source)
        if title in vectors:
            raise ValueError(f"--vectors: two sources are called {title!r}. Pass files with different names.")
        vectors[title] = LabelSpace(names, source)
    classes: dict[str, BackboneKnowledge] = {}
    words = [VOC_WORDS.get(name, name) for name in names]  # as people write them
    for source, title in _SOURCES.items():
        try:
            if title not in vectors:
                vectors[title] = LabelSpace(names, LabelSpace(words, source).vectors)
            if with_classes:
                classes[title] = imagenet_knowledge(source)
        except (ImportError, OSError, ValueError) as error:
            notes.append(f"No rows with {title} vectors: {error}")
    if not vectors:
        raise ValueError('--vectors: none were given, and none are installed. Run: pip install "unseen[words]"')
    main = next(iter(vectors))
    if "use" not in vectors:
        return {**vectors}, classes
    tables = [] if main in ("use", IN_A_PICTURE) else [vectors[main]]
    try:
        phrases = LabelSpace(names, LabelSpace(words, f"use:{_PHRASE}").vectors)
        beside = SideBySide((*tables, phrases))
        beside.select(names)
    except ValueError as error:  # labels that share one vector
        notes.append(f"No rows with vectors {SIDE_BY_SIDE}: {error}")
        return {**vectors}, classes
    notes.append(
        f"Vectors {SIDE_BY_SIDE!r}: {f'{main}, use' if tables else 'use'}, each centred and of unit length, "
        f"concatenated; the encoder is given {_PHRASE.format('...')!r}."
    )
    return {**vectors, SIDE_BY_SIDE: beside}, classes


def _relations(
    names: tuple[str, ...], hit_counts: Path | None, path_lengths: Path | None, notes: list[str]
) -> Matrices:
    relations: dict[str, NDArray[Any]] = {}
    if path_lengths is not None:
        lengths = read_hit_counts(path_lengths, names).to_numpy()
        if np.isnan(lengths).any():
            raise ValueError(f"--relations: {str(path_lengths)!r} lacks the path between some labels.")
        relations["hierarchy"] = from_path_lengths(lengths)
    else:
        try:
            relations["hierarchy"] = relate(names, "wordnet").matrix
        except (ImportError, OSError, ValueError) as error:
            notes.append(f"WordNet has no paths between these labels: {error}")
    if hit_counts is None:
        notes.append("No hit counts were given (--hit-counts).")
    else:
        relations["hit counts"] = relate(names, hit_counts).matrix
        notes.append(f"The hit counts come from {hit_counts.name}; the paper counted hits on Flickr.")
    return relations
