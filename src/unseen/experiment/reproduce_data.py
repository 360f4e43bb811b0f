"""Reading the data of `unseen reproduce`: annotations, features, label vectors, relations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from unseen.datasets.annotations import Annotations
from unseen.datasets.sources import read_annotations
from unseen.ensembles import BackboneKnowledge
from unseen.experiment._data import SideBySide
from unseen.experiment.methods import IN_A_PICTURE, SIDE_BY_SIDE
from unseen.experiment.reproduce_sources import Sources, backbone_of, year_of
from unseen.experiment.runner import ExperimentData
from unseen.images.features import open_features
from unseen.images.imagenet import class_names
from unseen.images.knowledge import imagenet_knowledge
from unseen.labels._spelling import VOC_WORDS
from unseen.labels.cooccurrence import read_hit_counts
from unseen.labels.encoders import ENCODERS
from unseen.labels.prompts import split_prompt
from unseen.labels.relate import relate
from unseen.labels.relations import from_path_lengths
from unseen.labels.space import LabelSpace
from unseen.validation import listed

__all__ = ["Loaded", "read_data"]

Array = NDArray[Any]

_TRAIN: Final = ("train", "trainval")
# Sources that are asked by themselves, if installed.
_TITLES: Final = {
    "glove": "GloVe 50-d",
    "use": "use",
    "use:a picture of a {}": IN_A_PICTURE,
    "minilm": "minilm",
}
_PHRASE: Final = "a photo of a {}"


@dataclass(frozen=True, eq=False)
class Loaded:
    """Data of an experiment, and what a reader of its results must know of them."""

    data: ExperimentData
    sources: Sources
    notes: tuple[str, ...] = field(default_factory=tuple)


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


def _read_annotations(sources: Sources) -> Annotations:
    """Annotations; of a VOC devkit, those of the year that the data set is named after."""
    options: dict[str, Any] = {}
    year = year_of(sources.name)
    if sources.labels.is_dir() and year is not None:
        options["year"] = year
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
    parts = [part.strip().lower() for part in annotations.split]
    others = sorted(set(parts) - {*_TRAIN, "val", "test"})
    if others:
        raise ValueError(
            f"--labels: the split of some images is {listed(others)}. Write train or trainval, and test or val."
        )
    training = set(_TRAIN)
    if {"val", "test"} <= set(parts):
        training.add("val")
        notes.append("Images of the split val are for training, as there is a split test.")
    is_train = np.array([part in training for part in parts])
    if is_train.all() or not is_train.any():
        only = "training" if is_train.all() else "testing"
        raise ValueError(f"--labels: all images are for {only}. Write train and test into the column split.")
    return is_train


def _read_features(
    path: Path, name: str, annotations: Annotations, notes: list[str]
) -> tuple[str, Array, Array | None]:
    """Name of the backbone, features and class logits, a row an annotated image."""
    try:
        found = open_features(path)
        in_order = not found.has_names and set(annotations.images) != set(found.paths)
        if in_order and len(found) != len(annotations):
            raise ValueError(
                f"it names no images, and has {len(found):,} rows for {len(annotations):,} of them. Pass a file "
                f"with 'image_id'."
            )
        rows = np.arange(len(found)) if in_order else _rows_of(annotations, found.paths)
    except (OSError, ValueError) as error:
        raise ValueError(f"--features: {str(path)!r}: {error}") from None
    if not found.has_names:
        how = "in the order of the annotations" if in_order else "by their numbers, from 0"
        notes.append(f"{path.name} names no images: its rows are taken {how}.")
    backbone = str(found.backbone.get("name") or backbone_of(path, name))
    logits = None
    if found.logits is not None and found.class_names == class_names():
        logits = np.asarray(found.logits[rows], dtype=np.float32)
    return backbone, np.asarray(found.X[rows], dtype=np.float32), logits


def _rows_of(annotations: Annotations, paths: Sequence[str]) -> NDArray[np.intp]:
    """Row of each annotated image among the paths of features; folders must agree as far as both are given."""
    places = annotations.rows_for(paths, missing="mark")
    rows = np.full(len(annotations), -1, dtype=np.intp)
    rows[places[places >= 0]] = np.flatnonzero(places >= 0)
    missing = [annotations.images[i] for i in np.flatnonzero(rows < 0)]
    if missing:
        raise ValueError(
            f"{len(missing):,} of {len(rows):,} annotated images have no features: {listed(missing)}. Those there "
            f"are of images like {paths[0]!r}; folders must agree as far as both are given."
        )
    return rows


def _look_up(
    names: tuple[str, ...], given: Sequence[str], with_classes: bool, notes: list[str]
) -> tuple[dict[str, LabelSpace | SideBySide], dict[str, BackboneKnowledge]]:
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
) -> SideBySide | None:
    """Vectors of words beside those that each encoder has for a phrase with the label; None without one."""
    parts = dict(words)
    try:
        for source in encoders:
            parts[source] = _written(names, f"{source}:{_PHRASE}")
        beside = SideBySide(tuple(parts.values()))
        beside.select(names)
    except ValueError as error:  # labels that all have one vector, or two of one word
        notes.append(f"No rows with vectors {SIDE_BY_SIDE}: {error}")
        return None
    notes.append(
        f"Vectors {SIDE_BY_SIDE!r}: {', '.join(parts)}, each centred and of unit length, one beside the other; "
        f"encoders are given {_PHRASE.format('...')!r}."
    )
    return beside


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
