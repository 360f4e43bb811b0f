"""Finding and reading the data of `unseen reproduce`: a folder of files, or a CSV of annotations and features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from unseen.evaluation._methods import IN_A_PICTURE, SIDE_BY_SIDE
from unseen.evaluation.experiment import ExperimentData
from unseen.images.annotations import Annotations
from unseen.images.features import open_features
from unseen.images.imagenet import class_names
from unseen.images.knowledge import imagenet_knowledge
from unseen.images.sources import read_annotations
from unseen.labels._spelling import VOC_WORDS
from unseen.labels.encoders import ENCODERS
from unseen.labels.hitcounts import read_hit_counts
from unseen.labels.prompts import split_prompt
from unseen.labels.relate import relate
from unseen.labels.relations import from_path_lengths
from unseen.labels.space import LabelSpace
from unseen.rivals import BackboneKnowledge
from unseen.validation import listed

__all__ = ["Sources", "find_sources", "read_data"]

Array = NDArray[Any]

_TRAIN: Final = {"train", "trainval"}
_TEST: Final = {"test", "val"}
# Sources that are asked by themselves, if installed.
_TITLES: Final = {
    "glove": "GloVe 50-d",
    "use": "use",
    "use:a picture of a {}": IN_A_PICTURE,
    "minilm": "minilm",
}
_PHRASE: Final = "a photo of a {}"
# The paper used VGG19; of other backbones the one with the larger features comes first.
_PREFERRED: Final = ("vgg19", "resnet50")


@dataclass(frozen=True)
class Sources:
    """The files of a data set.

    Attributes
    ----------
    name : str
        Of the data set.
    labels : Path
        Whatever `unseen.images.sources.read_annotations` reads; as a table: ``image_id``, optionally ``split``
        (train or trainval; test or val), and a column a label: 1 present, 0 absent, empty unknown.
    features : tuple of Path
        What `unseen.images.features.open_features` opens, such as NPZ files with ``features``, ``image_id`` and
        perhaps ``imagenet_logits``, or folders of `unseen features`; the first is the one of the tables.
    vectors : tuple of str
        Sources of label vectors, the first for the tables.
    hit_counts : Path or None
        CSV matrix of hit counts.
    path_lengths : Path or None
        CSV matrix of path lengths; None for those that come with unseen.
    """

    name: str
    labels: Path
    features: tuple[Path, ...]
    vectors: tuple[str, ...] = ()
    hit_counts: Path | None = None
    path_lengths: Path | None = None


@dataclass(frozen=True, eq=False)
class Loaded:
    """Data of an experiment, and what a reader of its results must know of them."""

    data: ExperimentData
    sources: Sources
    notes: tuple[str, ...] = field(default_factory=tuple)


def find_sources(
    name: str | None,
    where: Path,
    *,
    features: Sequence[Path] = (),
    labels: Path | None = None,
    vectors: Sequence[str] = (),
    hit_counts: Path | None = None,
    path_lengths: Path | None = None,
) -> Sources:
    """Files of a data set: those given, else those found in a folder by their names.

    In the folder: ``NAME_labels.csv``; ``NAME_BACKBONE.npz``, one or more; and optionally ``NAME_*glove*.csv``,
    ``NAME_hitcounts*.csv`` and ``NAME_wordnet*path_length*.csv``, where NAME may also be ``voc20``, for the
    20 classes that VOC2007 and VOC2012 share. Of several files the first in alphabetical order is taken.

    Parameters
    ----------
    name : str or None
        Of the data set; None for that of the CSV file.
    where : Path
        The folder, or the CSV file of annotations.
    features, labels, vectors, hit_counts, path_lengths
        Take the place of what is found.

    Returns
    -------
    Sources
    """
    if not where.exists():
        raise FileNotFoundError(f"--data: there is no {str(where)!r}. Pass a folder or a CSV file of annotations.")
    if where.is_file():
        return Sources(
            name or where.stem,
            labels or where,
            _given_features(features, where),
            tuple(vectors),
            hit_counts,
            path_lengths,
        )
    if name is None:
        raise ValueError(
            f"--data: {str(where)!r} is a folder. Say which data set: unseen reproduce voc2007 --data ..."
        )
    found = _Folder(where, name)
    return Sources(
        name,
        labels or found.one(f"{name}_labels.csv", "--labels"),
        tuple(features) or found.features(),
        tuple(vectors) or tuple(str(path) for path in found.maybe("*glove*.csv")),
        hit_counts or next(iter(found.maybe("hitcounts*.csv")), None),
        path_lengths or next(iter(found.maybe("wordnet*path_length*.csv")), None),
    )


def read_data(sources: Sources, *, seed: int = 0) -> Loaded:
    """Read the files, match features to annotations by image, look label vectors and relations up.

    Parameters
    ----------
    sources : Sources
        The files.
    seed : int, default=0
        Of the halving into training and test images where the annotations name none.

    Returns
    -------
    Loaded
    """
    notes: list[str] = []
    annotations = _read_annotations(sources)
    names = annotations.labels
    is_train = _training_images(annotations, seed, notes)
    features, logits = {}, {}
    for path in sources.features:
        backbone, matrix, scores = _read_features(path, sources.name, annotations, notes)
        if backbone in features:
            raise ValueError(f"--features: two of them are of {backbone!r}. Pass one a backbone.")
        features[backbone] = matrix
        if scores is not None:
            logits[backbone] = scores
    vectors, classes = _look_up(names, sources.vectors, bool(logits), notes)
    relations = _relations(names, sources, notes)
    data = ExperimentData(
        sources.name, names, annotations.Y, is_train, features, vectors, logits, classes, relations
    )
    return Loaded(data, sources, tuple(notes))


class _Folder:
    """A folder of files named after a data set."""

    def __init__(self, path: Path, name: str) -> None:
        self._path, self._name = path, name
        self._prefixes = (name, "voc20") if name.startswith("voc20") else (name,)

    def one(self, file: str, option: str) -> Path:
        path = self._path / file
        if not path.is_file():
            raise FileNotFoundError(f"--data: {str(self._path)!r} has no {file!r}. Pass the file with {option}.")
        return path

    def features(self) -> tuple[Path, ...]:
        found = sorted(self._path.glob(f"{self._name}_*.npz"))
        if not found:
            raise FileNotFoundError(
                f"--data: {str(self._path)!r} has no '{self._name}_BACKBONE.npz'. Pass features with --features."
            )
        rank = {backbone: i for i, backbone in enumerate(_PREFERRED)}
        return tuple(sorted(found, key=lambda path: rank.get(_backbone(path, self._name), len(rank))))

    def maybe(self, pattern: str) -> list[Path]:
        return [path for prefix in self._prefixes for path in sorted(self._path.glob(f"{prefix}_{pattern}"))]


def _given_features(features: Sequence[Path], where: Path) -> tuple[Path, ...]:
    if not features:
        raise ValueError(f"--features: none were given for {where.name!r}. Pass an NPZ file of features.")
    return tuple(features)


def _read_annotations(sources: Sources) -> Annotations:
    """Annotations; of a VOC devkit, those of the year that the data set is named after."""
    options: dict[str, Any] = {}
    if sources.labels.is_dir() and sources.name in ("voc2007", "voc2012"):
        options["year"] = int(sources.name.removeprefix("voc"))
    if options.get("year") == 2012:  # its test annotations were never published: val is the test
        return _joined(*(read_annotations(sources.labels, part, **options) for part in ("train", "val")))
    return read_annotations(sources.labels, **options)


def _joined(first: Annotations, second: Annotations) -> Annotations:
    split = (*(first.split or ()), *(second.split or ()))
    return Annotations(first.images + second.images, first.labels, np.vstack([first.Y, second.Y]), split)


def _training_images(annotations: Annotations, seed: int, notes: list[str]) -> NDArray[np.bool_]:
    """Which images are for training: as the annotations say, else half of them."""
    if annotations.split is None:
        n_images = len(annotations)
        is_train = np.zeros(n_images, dtype=np.bool_)
        is_train[np.random.default_rng(seed).permutation(n_images)[: (n_images + 1) // 2]] = True
        notes.append("The annotations name no split: half of the images, drawn at random, are for training.")
        return is_train
    others = sorted(set(annotations.split) - _TRAIN - _TEST)
    if others:
        raise ValueError(
            f"--labels: the split of some images is {listed(others)}. Write train or trainval, and test or val."
        )
    return np.array([part in _TRAIN for part in annotations.split])


def _backbone(path: Path, name: str) -> str:
    return path.stem.removeprefix(f"{name}_")


def _read_features(
    path: Path, name: str, annotations: Annotations, notes: list[str]
) -> tuple[str, Array, Array | None]:
    """Name of the backbone, features and class logits, a row an annotated image."""
    try:
        found = open_features(path)
        numbered = found.paths == tuple(map(str, range(len(annotations))))
        rows = np.arange(len(annotations)) if numbered else found.rows(annotations.images)
    except (OSError, ValueError) as error:
        raise ValueError(f"--features: {str(path)!r}: {error}") from None
    if numbered:
        notes.append(f"{path.name} names no images: its rows are taken in the order of the annotations.")
    backbone = str(found.backbone.get("name") or _backbone(path, name))
    logits = None
    if found.logits is not None and found.class_names == class_names():
        logits = np.asarray(found.logits[rows], dtype=np.float32)
    return backbone, np.asarray(found.X[rows], dtype=np.float32), logits


def _look_up(
    names: tuple[str, ...], given: Sequence[str], with_classes: bool, notes: list[str]
) -> tuple[dict[str, LabelSpace], dict[str, BackboneKnowledge]]:
    """Label vectors of every source there is, and what the names of the ImageNet classes mean by them."""
    vectors: dict[str, LabelSpace] = {}
    for source in given:
        title = _TITLES.get(source, _source_name(source))
        if title in vectors:
            raise ValueError(f"--vectors: two sources are called {title!r}. Pass files of different names.")
        vectors[title] = _written(names, source)
    classes: dict[str, BackboneKnowledge] = {}
    found: set[str] = set()
    for source, title in _TITLES.items():
        try:
            if title not in vectors or source in given:
                vectors.setdefault(title, _written(names, source))
                found.add(source)
            if with_classes:
                classes[title] = imagenet_knowledge(source)
        except (ImportError, OSError, ValueError) as error:
            notes.append(f"No rows with {title} vectors: {error}")
    if not vectors:
        raise ValueError('--vectors: none were given, and none are installed. Run: pip install "unseen[words]"')
    # A file may have the name of an encoder, and is none.
    encoders = [source for source in ENCODERS if source in found]
    main = next(iter(vectors))
    is_encoder = (split_prompt(given[0]).source if given else main) in encoders
    words = {} if is_encoder else {main: vectors[main]}
    beside = _side_by_side(names, words, encoders, notes) if encoders else None
    return vectors | ({} if beside is None else {SIDE_BY_SIDE: beside}), classes


def _side_by_side(
    names: tuple[str, ...], words: Mapping[str, LabelSpace], encoders: Sequence[str], notes: list[str]
) -> LabelSpace | None:
    """Vectors of words beside those that each encoder has for a phrase with the label; None without one."""
    parts = dict(words)
    try:
        for source in encoders:
            parts[source] = _written(names, f"{source}:{_PHRASE}")
        first, *others = (part.centered().normalized() for part in parts.values())
    except ValueError as error:  # labels that all have one vector, or two of one word
        notes.append(f"No rows with vectors {SIDE_BY_SIDE}: {error}")
        return None
    notes.append(
        f"Vectors {SIDE_BY_SIDE!r}: {', '.join(parts)}, each centred and of unit length, one beside the other; "
        f"encoders are given {_PHRASE.format('...')!r}."
    )
    return first.beside(*others)


def _written(names: tuple[str, ...], source: str) -> LabelSpace:
    """Labels with vectors; sources that are no tables of these labels are asked for what people write."""
    if split_prompt(source).source not in _TITLES:
        return LabelSpace(names, source)
    return LabelSpace(names, LabelSpace([VOC_WORDS.get(name, name) for name in names], source).vectors)


def _source_name(source: str) -> str:
    bare, prompt = split_prompt(source)
    path = Path(bare)
    name = path.stem if path.suffix else bare
    return name if prompt is None else f"{name}, {prompt.replace('{}', '...')}"


def _relations(names: tuple[str, ...], sources: Sources, notes: list[str]) -> Mapping[str, Array]:
    relations: dict[str, Array] = {}
    try:
        if sources.path_lengths is not None:
            lengths = read_hit_counts(sources.path_lengths, names).counts
            if np.isnan(lengths).any():
                raise ValueError(f"--relations: {str(sources.path_lengths)!r} lacks a path between some labels.")
            relations["hierarchy"] = from_path_lengths(lengths)
        else:
            relations["hierarchy"] = relate(names, "wordnet").matrix
    except (ImportError, OSError, ValueError) as error:
        if sources.path_lengths is not None:
            raise
        notes.append(f"WordNet has no paths between these labels: {error}")
    if sources.hit_counts is None:
        notes.append("No hit counts were given (--hit-counts).")
    else:
        relations["hit counts"] = relate(names, sources.hit_counts).matrix
    return relations
