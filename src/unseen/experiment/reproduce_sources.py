"""The files of `unseen reproduce`: those that are given, and those found by their names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from unseen.datasets.voc import find_voc
from unseen.images._foreign_features import holds_features

__all__ = ["Sources", "backbone_of", "find_sources", "year_of"]

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
        Whatever `unseen.datasets.sources.read_annotations` reads; as a table: ``image_id``, optionally ``split``
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

    In the folder: ``NAME_labels.csv``, or the folder is a VOC devkit; ``NAME_BACKBONE.npz``, one or more; and
    optionally ``NAME_*glove*.csv``, ``NAME_hitcounts*.csv`` and ``NAME_wordnet*path_length*.csv``, where NAME may
    also be ``voc20``, for the 20 classes that VOC2007 and VOC2012 share. Of several files the first by its name
    is taken.

    Parameters
    ----------
    name : str or None
        Of the data set; None for that of the CSV file, without ``_labels``.
    where : Path
        The folder, or a CSV file of annotations in it.
    features, labels, vectors, hit_counts, path_lengths
        Take the place of what is found.

    Returns
    -------
    Sources
    """
    if name is not None and Path(name).is_file():
        raise ValueError(
            f"NAME: {name!r} is a file. Write an option before each: --data LABELS.csv --features A --features B."
        )
    if not where.exists():
        raise FileNotFoundError(f"--data: there is no {str(where)!r}. Pass a folder or a CSV file of annotations.")
    if where.is_file():
        name, labels = name or where.stem.removesuffix("_labels"), labels or where
    elif name is None:
        raise ValueError(
            f"--data: {str(where)!r} is a folder. Say which data set: unseen reproduce voc2007 --data ..."
        )
    found = _Folder(where if where.is_dir() else where.parent, name)
    return Sources(
        name,
        labels or found.labels(),
        tuple(features) or found.features(),
        tuple(vectors) or tuple(str(path) for path in found.maybe("*glove*.csv")),
        hit_counts or next(iter(found.maybe("hitcounts*.csv")), None),
        path_lengths or next(iter(found.maybe("wordnet*path_length*.csv")), None),
    )


def backbone_of(path: Path, name: str) -> str:
    """The backbone that a file of features is called after."""
    return path.stem.removeprefix(f"{name}_")


def year_of(name: str) -> int | None:
    """The year of a data set of PASCAL VOC; None for others."""
    return int(name.removeprefix("voc")) if name in ("voc2007", "voc2012") else None


class _Folder:
    """A folder of files named after a data set."""

    def __init__(self, path: Path, name: str) -> None:
        self._path, self._name = path, name
        self._prefixes = (name, "voc20") if name.startswith("voc20") else (name,)

    def labels(self) -> Path:
        path = self._path / f"{self._name}_labels.csv"
        if path.is_file():
            return path
        if find_voc(self._path, year_of(self._name)) is not None:
            return self._path
        raise FileNotFoundError(
            f"--data: {str(self._path)!r} has no {path.name!r}. Pass the annotations with --labels."
        )

    def features(self) -> tuple[Path, ...]:
        found = [path for path in sorted(self._path.glob(f"{self._name}_*.npz")) if holds_features(path)]
        if not found:
            raise FileNotFoundError(
                f"--data: {str(self._path)!r} has no '{self._name}_BACKBONE.npz' with an array 'features'. Pass "
                f"features with --features."
            )
        rank = {backbone: i for i, backbone in enumerate(_PREFERRED)}
        return tuple(sorted(found, key=lambda path: rank.get(backbone_of(path, self._name), len(rank))))

    def maybe(self, pattern: str) -> list[Path]:
        return [path for prefix in self._prefixes for path in sorted(self._path.glob(f"{prefix}_{pattern}"))]
