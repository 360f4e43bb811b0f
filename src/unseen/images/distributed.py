"""Features of more images than one machine can describe: by the workers of a Dask cluster, a folder a part."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unseen.dask_rows import current_client
from unseen.images._backbone import Backbone
from unseen.images._feature_files import Problem
from unseen.images.features import extract_features, open_features
from unseen.images.finding import find_images
from unseen.validation import check_count

__all__ = ["ClusterFeatures", "extract_on_cluster"]


@dataclass(frozen=True, eq=False)
class ClusterFeatures:
    """Features of images in several folders.

    Attributes
    ----------
    paths : tuple of str
        The images, a row each.
    X : dask.array.Array of shape (n_images, n_features)
        Features, float32: a chunk a folder, read by the worker that uses it.
    folders : tuple of pathlib.Path
        Each as `unseen.images.features.open_features` reads it.
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
    cut = [found.paths[start : start + size] for start in range(0, len(found.paths), size)]
    folders = tuple(Path(output).absolute() / f"{k:05d}" for k in range(len(cut)))
    network = str(Path(backbone).absolute()) if isinstance(backbone, Path) else backbone
    tasks = [
        client.submit(_extract, paths, folder, network, batch, pure=False)
        for paths, folder in zip(cut, folders, strict=True)
    ]
    shapes = client.gather(tasks)
    parts = [open_features(folder) for folder in folders]
    read = delayed(_read, pure=False)
    X = da.concatenate(
        [da.from_delayed(read(folder), shape, "float32") for folder, shape in zip(folders, shapes, strict=True)]
    )
    problems = [Problem(*problem) for problem in found.problems]
    return ClusterFeatures(
        tuple(path for part in parts for path in part.paths), X, folders,
        (*problems, *(problem for part in parts for problem in part.problems)),
    )  # fmt: skip


def _extract(paths: list[str], folder: Path, backbone: Backbone | str, batch: int) -> tuple[int, int]:
    made = extract_features(paths, folder, backbone, batch=batch, jobs=1, only=True)
    return len(made), made.X.shape[1]


def _read(folder: Path) -> Any:
    return open_features(folder).X
