"""Features of images: computed once by a backbone, kept in a folder, opened without loading them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unseen.datasets._matching import find_rows
from unseen.images import _feature_files as files
from unseen.images._feature_files import Problem
from unseen.images._feature_metadata import FORMAT
from unseen.images._feature_store import is_being_finished
from unseen.images._foreign_features import read_foreign, reason
from unseen.images.imagenet import class_names as imagenet_names
from unseen.validation import counted, listed

if TYPE_CHECKING:
    from unseen.images._backbone import Backbone

__all__ = ["FeatureSet", "extract_features", "open_features"]


@dataclass(frozen=True, eq=False)
class FeatureSet:
    """Features of images, a row an image.

    Attributes
    ----------
    paths : tuple of str
        The images: paths, or whatever identifies them in a file made elsewhere.
    X : ndarray of shape (n_images, n_features)
        Features; of a folder, float32 and memory-mapped.
    logits : ndarray of shape (n_images, n_classes), or None
        What the backbone says about its own classes, before the softmax.
    backbone : dict
        ``name``, ``fingerprint``, ``preprocessing``, ... of the backbone; empty for a file made elsewhere.
    class_names : tuple of str, or None
        Names of the columns of ``logits``, if they are known.
    problems : tuple of (path, reason)
        Files that could not be read and have no row.
    has_names : bool
        Whether the file said which images these are; if not, ``paths`` are "0", "1", ...
    """

    paths: tuple[str, ...]
    X: NDArray[Any]
    logits: NDArray[Any] | None = None
    backbone: dict[str, Any] = field(default_factory=dict)
    class_names: tuple[str, ...] | None = None
    problems: tuple[Problem, ...] = ()
    has_names: bool = True

    def __len__(self) -> int:
        return len(self.paths)

    def __repr__(self) -> str:
        return f"<FeatureSet: {self.X.shape[1]} features of {counted(len(self), 'image')}>"

    def rows(self, images: Iterable[str | Path]) -> NDArray[np.intp]:
        """Rows of images.

        An image is found by its path as it is in ``paths``; if there is none, by as much of the path as both give
        (``1.jpg`` for ``cats/1.jpg``, but not ``dogs/1.jpg``); and then without the suffix of an image. A name
        that several images share finds none of them.

        Parameters
        ----------
        images : iterable of str or pathlib.Path
            Paths, names or identifiers.

        Returns
        -------
        ndarray of int

        Raises
        ------
        ValueError
            If some are not here, or a name fits several images; the message lists them.
        """
        names = [str(image) for image in images]
        # As in annotations, backslashes count as slashes.
        rows = find_rows(*([name.replace("\\", "/") for name in side] for side in (names, self.paths)))
        missing = [name for name, row in zip(names, rows, strict=True) if row < 0]
        if missing:
            raise ValueError(
                f"images: {len(missing):,} of {len(names):,} have no features, or share their name with another: "
                f"{listed(missing)}. Name images as in the features, for example {self.paths[0]!r}."
            )
        return rows


def extract_features(
    sources: str | Path | Iterable[str | Path],
    output: str | Path,
    backbone: Backbone | str | Path = "efficientnet-lite0",
    *,
    batch: int = 1,
    jobs: int | None = None,
    strict: bool = False,
    only: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> FeatureSet:
    """Compute the features of images and keep them in a folder.

    An interrupted run goes on where it stopped when it is started again, and the result is the same, bit by bit,
    as without the interruption. On a finished folder only images that are new or have changed are computed. Images
    that are there already and that `sources` do not name stay as they are as long as their files exist, so that a
    folder can grow by several calls; those whose files are gone are dropped. Memory does not grow with the images,
    but for some hundred bytes each.

    Parameters
    ----------
    sources : path or iterable of paths
        Folders, image files, ``.txt`` lists or ``.csv`` tables with a column ``path``; see
        `unseen.images.finding.find_images`.
    output : str or pathlib.Path
        Folder for ``features.npy``, ``logits.npy`` (if the backbone has classes), ``images.csv``,
        ``backbone.json`` and, if there are any, ``problems.csv``.
    backbone : Backbone, str or pathlib.Path, default="efficientnet-lite0"
        A backbone, or what `unseen.images.backbones.open_backbone` takes. One that is passed open should use one
        thread a call, since `jobs` threads call it.
    batch : int, default=1
        Images a call of the network. With 1 the features of an image depend on nothing but the image. More pays
        off for networks with very large last layers, and may change the last bits of a result.
    jobs : int, optional
        Threads; by default one a core.
    strict : bool, default=False
        Raise an error if a file cannot be read, after the others are done. By default such files are left out.
    only : bool, default=False
        Keep exactly the images that `sources` name, and drop all others from the folder.
    progress : callable, optional
        Called as ``progress(done, total)`` in images; what was done before counts.

    Returns
    -------
    FeatureSet

    Raises
    ------
    ValueError
        If there are no images, none can be read, some cannot with `strict`, `output` was begun with another
        backbone, or none of the images in it is found any more.
    OSError
        If `output` cannot be written, is no folder of features, or another process is writing to it.
    """
    from unseen.images._extraction import extract

    extract(sources, Path(output), backbone, batch=batch, jobs=jobs, strict=strict, only=only, progress=progress)
    return open_features(output)


def open_features(path: str | Path, ids: Sequence[str] | None = None) -> FeatureSet:
    """Open features: a folder that `extract_features` made, or a file made elsewhere.

    - A folder: the arrays are memory-mapped, nothing is loaded.
    - A ``.npz`` file: ``features`` (or ``X``), one row an image; ``image_id`` (or ``paths``, ``ids``); and, if
      there are any, ``logits`` or ``imagenet_logits``. float16 and whole numbers become float32.
    - A ``.npy`` file: a matrix, one row an image, memory-mapped; images are identified by `ids`.
    - A ``.csv`` or ``.tsv`` file: a line of column names, then a line an image: what identifies it, its features.

    Parameters
    ----------
    path : str or pathlib.Path
        The folder or the file.
    ids : sequence of str, optional
        What identifies the images of a file, instead of what it says. By default "0", "1", ... if it says nothing.

    Returns
    -------
    FeatureSet

    Raises
    ------
    FileNotFoundError
        If there is nothing there, or a folder is not finished.
    ValueError
        If it cannot be read as features.
    """
    path = Path(path)
    if path.is_dir():
        return _open_folder(path)
    if not path.exists():
        raise FileNotFoundError(
            f"path: there are no features {str(path)!r}. Make them: unseen features IMAGES -o DIR."
        )
    found = read_foreign(path, ids)
    classes = imagenet_names() if found.of_imagenet else None
    names = found.ids or tuple(map(str, range(len(found.X))))
    return FeatureSet(names, found.X, found.logits, class_names=classes, has_names=found.ids is not None)


def _open_folder(folder: Path) -> FeatureSet:
    needed = (files.METADATA, files.FEATURES, files.IMAGES)
    missing = [name for name in needed if not (folder / name).exists()]
    if missing and not (folder / files.METADATA).exists():
        raise FileNotFoundError(f"path: {str(folder)!r} is no folder of features: it has no {missing[0]!r}.")
    if missing or is_being_finished(folder):
        raise FileNotFoundError(
            f"path: the features in {str(folder)!r} are not finished. Run the command that makes them once more: "
            f"it goes on where it stopped."
        )
    try:
        metadata = json.loads((folder / files.METADATA).read_text("utf-8"))
        classes, version = metadata.pop("class_names"), metadata.pop("format")
        paths = tuple(entry.path for entry in files.read_images(folder / files.IMAGES))
        X = np.load(folder / files.FEATURES, mmap_mode="r", allow_pickle=False)
        has_logits = (folder / files.LOGITS).exists()
        logits = np.load(folder / files.LOGITS, mmap_mode="r", allow_pickle=False) if has_logits else None
        problems = tuple(files.read_problems(folder / files.PROBLEMS))
    except (ValueError, LookupError, TypeError, AttributeError, EOFError) as error:
        raise ValueError(
            f"path: a file in {str(folder)!r} is damaged ({reason(error)}). Make the features again."
        ) from error
    if version != FORMAT:
        raise ValueError(f"path: {str(folder)!r} has format {version}, this version of unseen reads {FORMAT}.")
    if any(array is not None and array.shape[:1] != (len(paths),) for array in (X, logits)):
        raise ValueError(f"path: the files in {str(folder)!r} do not fit together. Make the features again.")
    names = None if classes is None else tuple(classes)
    return FeatureSet(paths, X, logits, metadata, names, problems)
