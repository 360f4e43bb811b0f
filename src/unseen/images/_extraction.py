"""From image files to features: threads that read and describe, and a store that keeps what is finished."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import joblib
import numpy as np
from numpy.typing import NDArray

from unseen.images._backbone import Backbone
from unseen.images._feature_files import Entry, Part, Problem
from unseen.images._feature_store import FeatureStore, open_store
from unseen.images.finding import find_images
from unseen.images.preprocessing import prepare
from unseen.images.reading import UnreadableImage, decoded, pillow_silent, system_reason
from unseen.validation import check_count, check_flag, counted

__all__ = ["Extracted", "Progress", "UnreadableImages", "describe_each", "extract"]

Progress = Callable[[int, int], object]

_PART_SIZE = 128  # images: what a killed run may lose, at most
_BATCHES_AHEAD = 8  # for each thread, so that one large file does not stop the others


class Extracted(NamedTuple):
    """What a run did: images it described, and images it dropped from the folder, as their files are gone."""

    described: int
    dropped: int


class UnreadableImages(ValueError):  # noqa: N818 (see UnreadableImage)
    """Files that could not be read, in a run that was told to be strict.

    Parameters
    ----------
    problems : sequence of Problem
        Path and reason of each.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        shown = "; ".join(f"{path!r}: {reason}" for path, reason in self.problems[:5])
        more = f"; and {len(self.problems) - 5} more" if len(self.problems) > 5 else ""
        super().__init__(f"sources: {counted(len(self.problems), 'file')} cannot be read: {shown}{more}.")


def extract(
    sources: str | Path | Iterable[str | Path],
    output: Path,
    backbone: Backbone | str | Path,
    *,
    batch: int = 1,
    jobs: int | None = None,
    strict: bool = False,
    only: bool = False,
    progress: Progress | None = None,
) -> Extracted:
    """Do the work of `unseen.images.features.extract_features`."""
    batch = check_count(batch, "batch")
    jobs = joblib.cpu_count() if jobs is None else check_count(jobs, "jobs")
    strict, only = check_flag(strict, "strict"), check_flag(only, "only")
    found = find_images(sources)
    if not isinstance(backbone, Backbone):
        from unseen.images.backbones import open_backbone

        # The threads that read images also run the network, one image or batch each: nobody waits for anybody.
        backbone = open_backbone(backbone, n_threads=1)
    problems = [Problem(*problem) for problem in found.problems]
    with open_store(output, backbone) as store:
        if not only:
            store.check_reachable(found.paths)
        todo = [path for path in found.paths if not store.knows(path)]
        work = _Work(backbone, batch, jobs)
        failed = _describe_all(
            work, todo, store, _stepwise(progress, len(found.paths) - len(todo), len(found.paths))
        )
        problems += failed
        if strict and problems:
            raise UnreadableImages(problems)
        if len(failed) == len(found.paths):
            raise ValueError(
                f"sources: none of {counted(len(failed), 'file')} can be read, for example {failed[-1].path!r}: "
                f"{failed[-1].reason}."
            )
        order = {path: i for i, path in enumerate(found.paths)}
        problems.sort(key=lambda problem: order.get(problem.path, -1))
        dropped = store.finish(found.paths, problems, only=only)
    return Extracted(len(todo) - len(failed), dropped)


def describe_each(
    paths: Sequence[str], backbone: Backbone, jobs: int | None = None
) -> Iterator[tuple[str, tuple[NDArray[np.float32], NDArray[np.float32] | None] | None, str | None]]:
    """Describe images one by one, in threads, and keep nothing.

    Yields the path, its features and logits (None if it cannot be read), and the reason why it cannot be read.
    """
    work = _Work(backbone, 1, jobs or os.cpu_count() or 1)
    for path, part in zip(paths, _in_order(work, [[path] for path in paths]), strict=True):
        if part.problems:
            yield path, None, part.problems[0].reason
        else:
            yield path, (part.features, part.logits), None


class _Work(NamedTuple):
    """How images are described."""

    backbone: Backbone
    batch: int
    jobs: int


def _stepwise(progress: Progress | None, done: int, total: int) -> Callable[[int], None]:
    """Turn ``progress(done, total)`` into a function of how many more are done."""

    def add(more: int) -> None:
        nonlocal done
        done += more
        if progress:
            progress(done, total)

    add(0)
    return add


def _describe_all(
    work: _Work, todo: Sequence[str], store: FeatureStore, count: Callable[[int], None]
) -> list[Problem]:
    """Describe images and keep the results, in parts that are whole batches.

    A run that goes on after an interruption therefore makes the same batches as one that was never interrupted:
    the last bits of a network's output may depend on the batch. Files that failed before come last, so that they
    do not shift the others.
    """
    first = [path for path in todo if path not in store.failed]
    again = [path for path in todo if path in store.failed]
    problems: list[Problem] = []
    waiting: list[Part] = []
    try:
        with closing(_in_order(work, [*_cut(first, work.batch), *_cut(again, work.batch)])) as parts:
            for part in parts:
                waiting.append(part)
                problems += part.problems
                if sum(map(_size, waiting)) >= _PART_SIZE:
                    store.add(_joined(waiting))
                    waiting = []
                count(_size(part))
    finally:  # whatever the reason to stop, what is finished is kept
        if any(part.images for part in waiting):
            store.add(_joined(waiting))
    return problems


def _in_order(work: _Work, batches: Sequence[Sequence[str]]) -> Generator[Part, None, None]:
    """Describe batches in threads; the results come in the order of the batches."""
    running: deque[Future[Part]] = deque()
    pool = ThreadPoolExecutor(work.jobs, thread_name_prefix="unseen-features")
    try:
        with pillow_silent():
            for paths in batches:
                running.append(pool.submit(_describe, paths, work.backbone))
                if len(running) >= _BATCHES_AHEAD * work.jobs:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def _describe(paths: Sequence[str], backbone: Backbone) -> Part:
    """Read, prepare and describe one batch."""
    side = backbone.preprocessing.size
    inputs = np.empty((len(paths), 3, side, side), dtype=np.float32)
    images: list[Entry] = []
    problems: list[Problem] = []
    for path in paths:
        try:
            status = os.stat(path)  # noqa: PTH116 (before reading: a file that changes meanwhile is read again)
            with decoded(path) as image:
                inputs[len(images)] = prepare(image, backbone.preprocessing)
                images.append(Entry(path, *image.size, status.st_size, status.st_mtime_ns))
        except UnreadableImage as error:
            problems.append(Problem(path, error.reason))
        except OSError as error:
            problems.append(Problem(path, system_reason(error)))
    if not images:
        return Part([], problems, np.empty((0, backbone.n_features), dtype=np.float32), None)
    return Part(images, problems, *backbone.describe(inputs[: len(images)]))


def _joined(parts: Sequence[Part]) -> Part:
    images = [entry for part in parts for entry in part.images]
    problems = [problem for part in parts for problem in part.problems]
    logits = [part.logits for part in parts if part.logits is not None]
    features = np.concatenate([part.features for part in parts])
    return Part(images, problems, features, np.concatenate(logits) if logits else None)


def _cut(paths: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    return (paths[start : start + size] for start in range(0, len(paths), size))


def _size(part: Part) -> int:
    return len(part.images) + len(part.problems)
