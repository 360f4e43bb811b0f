"""Features of more images than one machine can describe: by the workers of a Dask cluster, a folder a part."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from unseen.cluster.score import current_client
from unseen.images.backbones import Backbone
from unseen.images.features import UnreadableImages, extract_features, open_features
from unseen.images.reading import Problem, find_images
from unseen.validation import check_count, counted

__all__ = ["ClusterFeatures", "extract_on_cluster"]


@dataclass(frozen=True, eq=False)
class ClusterFeatures:
    """Features of images in several folders.

    Attributes
    ----------
    paths : tuple of str
        The images, a row each: absolute paths.
    X : dask.array.Array of shape (n_images, n_features)
        Features, float32: a chunk a folder, read by the worker that uses it.
    folders : tuple of pathlib.Path
        Each as `unseen.images.features.open_features` reads it. A part without a readable image has none.
    problems : tuple of (path, reason)
        Files that could not be read and have no row.
    """

    paths: tuple[str, ...]
    X: Any
    folders: tuple[Path, ...]
    problems: tuple[Problem, ...]


def extract_on_cluster(
    sources: str | Path | Iterable[str | Path],
    output: str | Path,
    backbone: Backbone | str | Path = "efficientnet-lite0",
    *,
    part_size: int = 4096,
    batch: int = 1,
) -> ClusterFeatures:
    """Compute the features of images on the workers of the current Dask client.

    The images are cut into parts, and a worker makes a folder of each, by `extract_features` with one thread. All
    workers must see the image files and `output` under the same paths. What is interrupted, by a lost worker
    too, goes on where it stopped, and what is finished is not done again.

    Parameters
    ----------
    sources : path or iterable of paths
        As in `extract_features`.
    output : str or pathlib.Path
        Folder for the folders ``00000``, ``00001``, ... of the parts.
    backbone : Backbone, str or pathlib.Path, default="efficientnet-lite0"
        As in `extract_features`; opened by each worker.
    part_size : int, default=4096
        Images a part. Another number makes other parts.
    batch : int, default=1
        Images a call of the network.

    Returns
    -------
    ClusterFeatures
        ``X`` can be passed to `unseen.TAEP.fit` as it is.
    """
    import dask.array as da
    from dask.delayed import delayed

    client = current_client()
    size = check_count(part_size, "part_size")
    found = find_images(sources)
    paths = list(dict.fromkeys(map(_absolute, found.paths)))
    network = _absolute_backbone(backbone)
    tasks = [
        client.submit(
            _extract, paths[start : start + size], Path(output).absolute() / f"{k:05d}", network, batch, pure=False
        )
        for k, start in enumerate(range(0, len(paths), size))
    ]
    parts = client.gather(tasks)
    problems = [problem for part in parts for problem in part.problems]
    filled = [part for part in parts if part.shape is not None]
    if not filled:
        raise ValueError(
            f"sources: none of {counted(len(paths), 'file')} can be read, for example {problems[-1].path!r}: "
            f"{problems[-1].reason}."
        )
    read = delayed(_read, pure=False)
    return ClusterFeatures(
        tuple(path for part in filled for path in open_features(part.folder).paths),
        da.concatenate([da.from_delayed(read(part.folder), part.shape, "float32") for part in filled]),
        tuple(part.folder for part in filled),
        (*(Problem(_absolute(path), reason) for path, reason in found.problems), *problems),
    )


class _Part(NamedTuple):
    """What became of some of the images; without a shape if none of them can be read."""

    folder: Path
    shape: tuple[int, int] | None
    problems: list[Problem]


def _absolute(path: str) -> str:
    """A path that means the same in the current folder of another process."""
    return os.path.join(os.getcwd(), path)  # noqa: PTH109, PTH118 (a Path costs ten times as much)


def _absolute_backbone(backbone: Backbone | str | Path) -> Backbone | str | Path:
    from unseen.images.backbones import NAMES

    if isinstance(backbone, Backbone) or backbone in NAMES:
        return backbone
    path = Path(backbone).expanduser().absolute()
    return path if path.is_file() else backbone


def _extract(paths: list[str], folder: Path, backbone: Backbone | str | Path, batch: int) -> _Part:
    """Make the folder of one part; that no file of it can be read is no error, as others can."""
    from unseen.images.backbones import open_backbone

    reasons = {path: reason for path in paths if (reason := _no_image(path))}
    images = [path for path in paths if path not in reasons]
    shape = None
    if images:
        network = backbone if isinstance(backbone, Backbone) else open_backbone(backbone, n_threads=1)
        extract = partial(extract_features, images, folder, network, batch=batch, jobs=1, only=True)
        try:
            shape = extract(strict=True).X.shape
        except UnreadableImages as error:
            reasons |= dict(error.problems)
            if len(reasons) < len(paths):  # what was described is kept, and now finished without the others
                shape = extract().X.shape
    return _Part(folder, shape, [Problem(path, reasons[path]) for path in paths if path in reasons])


def _no_image(path: str) -> str | None:
    """Why a listed path cannot be passed on as an image file; None if it can."""
    try:
        os.stat(path)  # noqa: PTH116
    except OSError as error:
        return error.strerror or str(error)
    if not os.path.isfile(path):  # noqa: PTH113
        return "it is not a file"
    return "it is a list, no image" if path.lower().endswith((".txt", ".csv")) else None


def _read(folder: Path) -> Any:
    return open_features(folder).X
