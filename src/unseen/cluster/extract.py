"""Feature extraction on the workers of a Dask cluster, one folder per part."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Generator, Iterable, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any

from unseen.cluster.score import current_client, gathered, share
from unseen.images.backbones import DEFAULT, Backbone, open_backbone
from unseen.images.features import FeatureSet, UnreadableImages, extract_features, open_features
from unseen.images.reading import Problem, find_images, quiet_pillow
from unseen.photos.index import Described, File, describe_file
from unseen.validation import check_count, counted


def extract_on_cluster(
    sources: str | Path | Iterable[str | Path],
    output: str | Path,
    backbone: Backbone | str | Path = DEFAULT,
    *,
    part_size: int = 4096,
    batch: int = 1,
) -> FeatureSet:
    """Compute the features of images, as `extract_features` does, on the workers of the current Dask client.

    Workers fill one folder, ``00000``, ``00001``, ..., for every ``part_size`` images. They must see the image
    files and `output` under the same paths. Interrupted work, even by a lost worker, continues where it stopped.
    The result has absolute paths and no ``logits``; its ``X`` is a Dask array with one chunk per folder, which can
    be passed to `unseen.TAEP.fit`.
    """
    import dask.array as da
    from dask.delayed import delayed

    client, size = current_client(), check_count(part_size, "part_size")
    found = find_images(sources)
    paths = [os.path.abspath(path) for path in found.paths]  # noqa: PTH100 (a Path per file is ten times slower)
    if not isinstance(backbone, Backbone) and Path(backbone).is_file():
        backbone = Path(backbone).absolute()
    parts = [paths[start : start + size] for start in range(0, len(paths), size)]
    folders = [Path(output).absolute() / f"{k:05d}" for k in range(len(parts))]
    tasks = client.map(_extract, parts, folders, backbone=backbone, batch=batch, pure=False)
    unreadable = gathered(client, tasks)
    problems = (*found.problems, *chain.from_iterable(unreadable))
    outcomes = zip(folders, parts, unreadable, strict=True)
    made = {folder: open_features(folder) for folder, part, some in outcomes if len(some) < len(part)}
    if not made:
        path, reason = problems[-1]
        raise ValueError(f"sources: none of {counted(len(paths), 'file')} can be read ({path!r}: {reason}).")
    read = delayed(_read, pure=False)
    X = da.concatenate([da.from_delayed(read(folder), part.X.shape, "float32") for folder, part in made.items()])
    all_paths = tuple(chain.from_iterable(part.paths for part in made.values()))
    return replace(made[min(made)], paths=all_paths, X=X, logits=None, problems=problems)


def _extract(paths: list[str], folder: Path, backbone: Backbone | str | Path, batch: int) -> tuple[Problem, ...]:
    """Make the folder of one part, unless none of its files can be read; return the unreadable ones."""
    images = folder.with_suffix(".txt")  # a missing file in a list is skipped, not an error
    images.parent.mkdir(parents=True, exist_ok=True)
    images.write_text("\n".join(paths), "utf-8")
    extract = partial(extract_features, images, folder, backbone, batch=batch, jobs=1, only=True)
    try:
        extract(strict=True)
    except UnreadableImages as error:
        if len(error.problems) < len(paths):
            extract()  # finishes without the unreadable files; existing features are reused
        return error.problems
    return ()


def _read(folder: Path) -> Any:
    return open_features(folder).X


def describe_on_cluster(
    files: Sequence[File], backbone: str, known: set[bytes], part_size: int = 64
) -> Generator[Described, None, None]:
    """Describe the files of a photo library on the workers of the current Dask client, in their order."""
    client = current_client()
    shared = share(client, known)
    running: deque[Any] = deque()
    most = 2 * max(1, sum(client.nthreads().values()))
    for start in range(0, len(files), part_size):
        part = list(files[start : start + part_size])
        running.append(client.submit(_describe_part, part, backbone, shared, pure=False))
        if len(running) >= most:
            yield from gathered(client, [running.popleft()])[0]
    while running:
        yield from gathered(client, [running.popleft()])[0]


def _describe_part(files: list[File], backbone: str, known: set[bytes]) -> list[Described]:
    with quiet_pillow():
        return [describe_file(file, _opened(backbone), known) for file in files]


@cache
def _opened(backbone: str) -> Backbone:
    return open_backbone(backbone, n_threads=1)
