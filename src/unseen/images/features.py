"""Features of images: computed once by a backbone, kept in a folder, opened without loading them."""

import json
import os
import shutil
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.lib.format import open_memmap
from numpy.typing import NDArray

from unseen.files import DAMAGE, check_unpacked, guess_delimiter, locked, reason, regular, writing
from unseen.images import backbones, imagenet
from unseen.images.backbones import Backbone, Described
from unseen.images.preprocessing import prepare, shorter_side
from unseen.images.reading import Problem, UnreadableImage, find_images, open_image, quiet_pillow
from unseen.validation import check_count, counted, listed

_ARRAYS, _DONE, _INDEX = ("features.npy", "logits.npy"), "done.npy", "index.json"
_FORMAT = 1
_DRAFT = ".draft"  # a version that is made, or removed
_BLOCK = 128  # images between two writes: the most that a killed run can lose
_AHEAD = 8  # batches in progress per thread, so that one large file does not block the others
REDUCED = 4  # large JPEG files are decoded at a size that is still this many times what the backbone sees
_ID_KEYS = ("paths", "path", "image_id", "image_ids", "ids", "id")
Progress = Callable[[int, int], object]
Item = TypeVar("Item")
Result = TypeVar("Result")
Outcome = tuple[str, Described | None, str | None]  # path of an image; its outputs, or why it cannot be read


@dataclass(frozen=True, eq=False)
class FeatureSet:
    """Features of images, one row per image."""

    paths: tuple[str, ...]  # or whatever identifies the images in a file made elsewhere
    X: NDArray[Any]  # (n_images, n_features); from a folder, float32 and memory-mapped
    logits: NDArray[Any] | None = None  # of the backbone's own classes, (n_images, n_classes)
    backbone: dict[str, Any] = field(default_factory=dict)  # name, fingerprint and preprocessing, if known
    class_names: tuple[str, ...] | None = None  # of the columns of the logits, if known
    problems: tuple[Problem, ...] = ()  # files that the last run could not read; they have no row
    has_names: bool = True  # False: the paths are "0", "1", ...

    def __len__(self) -> int:
        return len(self.paths)


class UnreadableImages(ValueError):  # noqa: N818 (see UnreadableImage)
    """No file, or in a strict run not every file, can be read; ``problems`` has the path and reason of each."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        shown = listed([f"{path}: {reason}" for path, reason in problems])
        super().__init__(f"sources: {counted(len(problems), 'file')} cannot be read: {shown}.")


def extract_features(
    sources: str | Path | Iterable[str | Path],
    output: str | Path,
    backbone: Backbone | str | Path = backbones.DEFAULT,
    *,
    batch: int = 1,
    jobs: int | None = None,
    strict: bool = False,
    only: bool = False,
    progress: Progress | None = None,
) -> FeatureSet:
    """Compute the features of images and store them in a folder.

    When restarted, an interrupted run continues where it stopped. In a finished folder only images that are new or
    have changed are computed; images that `sources` do not name stay, so that a folder can grow by several calls.

    Parameters
    ----------
    sources : path or iterable of paths
        Folders, image files and lists: see `unseen.images.reading.find_images`.
    output : str or pathlib.Path
        Folder for a numbered folder with ``features.npy``, ``logits.npy`` (if the backbone has classes) and
        ``index.json``, which lists the images.
    backbone : Backbone, str or pathlib.Path, default="efficientnet-lite0"
        A backbone, or what `unseen.images.backbones.open_backbone` takes.
    batch : int, default=1
        Images per call of the network. More pays off for networks with very large last layers, and may change the
        last bits of a result.
    jobs : int, optional
        Threads; by default one per core.
    strict : bool, default=False
        Raise an error if a file cannot be read, after the others are done. By default such files are left out.
    only : bool, default=False
        Drop the images from the folder that `sources` do not name.
    progress : callable, optional
        Called as ``progress(done, total)`` in images; including earlier ones.
    """
    check_count(batch, "batch")
    if jobs is not None:
        check_count(jobs, "jobs")
    found = find_images(sources)
    if not isinstance(backbone, Backbone):
        # The threads that read images also run the network, so that no thread waits for another.
        backbone = backbones.open_backbone(backbone, n_threads=1)
    folder = Path(output)
    # Hidden files may be leftovers of a killed run.
    if folder.is_file() or any(not (item / _INDEX).exists() for item in folder.glob("[!.]*")):
        raise OSError(f"output: {str(folder)!r} is a file, or holds other files. Pass a new or an empty folder.")
    with locked(folder / ".lock", wait=False, argument="output"), writing(folder, "output"):
        shutil.rmtree(folder / _DRAFT, ignore_errors=True)  # of a run that was killed
        versions = _versions(folder, "output")
        images = {_key(path): [path, *_stamp(path)] for path in found.paths}
        if not only:
            there = {_key(image[0]): image for version in versions for _, image in version.done()}
            if there.keys() - images.keys():  # existing rows keep their order, and new ones follow
                images = there | images
        plan = version = _begin(folder, list(images.values()), found.problems, versions, backbone)
        failed = _describe_rows(plan, backbone, batch, jobs, progress)
        problems = [*found.problems, *failed.values()]
        if problems and (strict or len(failed) == len(found.paths)):
            raise UnreadableImages(problems)
        if failed:
            readable = [image for row, image in enumerate(plan.content["images"]) if row not in failed]
            version = _begin(folder, readable, problems, [*versions, plan], backbone)
        for outdated in {old.folder for old in (*versions, plan)} - {version.folder}:
            shutil.rmtree(outdated.rename(folder / _DRAFT))  # never half of a version under its name
    return open_features(folder)


def describe_each(
    paths: Sequence[str], backbone: Backbone, jobs: int | None = None, batch: int = 1
) -> Generator[Outcome, None, None]:
    """Describe images in threads, in the order of the paths; those that cannot be read have a reason."""
    batches = (paths[start : start + batch] for start in range(0, len(paths), batch))
    for outcomes in in_threads(partial(_describe, backbone=backbone), batches, jobs):
        for path, outputs, problem, note in outcomes:
            if note is not None:
                warnings.warn(f"{path}: {note}.", stacklevel=2)
            yield path, outputs, problem


def in_threads(
    work: Callable[[Item], Result], items: Iterable[Item], jobs: int | None = None
) -> Generator[Result, None, None]:
    """Results of a function that opens photos, in the order of the items; a few are in progress at a time."""
    from joblib import cpu_count

    n_threads = jobs or cpu_count()
    running: deque[Future[Result]] = deque()
    pool = ThreadPoolExecutor(n_threads, thread_name_prefix="unseen-features")
    try:
        with quiet_pillow():
            for item in items:
                running.append(pool.submit(work, item))
                if len(running) >= _AHEAD * n_threads:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def _describe(
    paths: Sequence[str], backbone: Backbone
) -> list[tuple[str, Described | None, str | None, str | None]]:
    """Read, prepare and describe one batch; the last entry of an outcome notes what is missing of a photo."""
    inputs: dict[str, NDArray[np.float32]] = {}
    notes: dict[str, str | None] = {}
    problems: dict[str, str] = {}
    for path in paths:
        try:
            with open_image(path, REDUCED * shorter_side(backbone.preprocessing)) as opened:
                inputs[path] = prepare(opened.pixels, backbone.preprocessing)
                notes[path] = opened.note
        except UnreadableImage as error:
            problems[path] = error.reason
    rows: dict[str, Described] = {}
    if inputs:
        features, logits = backbone.describe(np.stack(list(inputs.values())))
        for i, path in enumerate(inputs):
            rows[path] = Described(features[i : i + 1], None if logits is None else logits[i : i + 1])
    return [(path, rows.get(path), problems.get(path), notes.get(path)) for path in paths]


class _Version(NamedTuple):
    """Rows of features in a numbered folder; finished when all are done, and kept while a run extends it."""

    folder: Path
    content: dict[str, Any]  # backbone; images, as [path, bytes, time of change]; problems, as [path, reason]
    mask: NDArray[np.bool_]  # of the rows that are done

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Arrays of the rows by file name, memory-mapped."""
        files = (self.folder / name for name in _ARRAYS)
        return {
            file.name: np.load(regular(file), mmap_mode="r", allow_pickle=False) for file in files if file.exists()
        }

    def done(self) -> list[tuple[int, list[Any]]]:
        """Rows that are done, and their images."""
        return [(row, self.content["images"][row]) for row in np.flatnonzero(self.mask).tolist()]


def _key(path: str) -> str:
    return os.path.abspath(path)  # noqa: PTH100 (a Path per file is slow)


def _stamp(path: str) -> tuple[int, int]:
    """Size and time of a file; a missing file is reported when it is read."""
    with suppress(OSError):
        status = os.stat(path)  # noqa: PTH116
        return status.st_size, status.st_mtime_ns
    return -1, 0


def _versions(folder: Path, argument: str) -> list[_Version]:
    """Versions of the features in a folder: a finished one, and one that was interrupted."""
    try:
        return [_read_version(file.parent) for file in sorted(folder.glob(f"[!.]*/{_INDEX}"))]
    except DAMAGE as error:
        found = f"{str(folder)!r} cannot be read as features ({reason(error)})"
        raise ValueError(f"{argument}: {found}. Delete it, and make them again: unseen features.") from error


def _read_version(folder: Path) -> _Version:
    content = json.loads(regular(folder / _INDEX).read_text())
    if content.setdefault("format", _FORMAT) != _FORMAT:  # without a number: as the first one
        raise ValueError(f"format {content['format']!r:.20}, this version of unseen reads {_FORMAT}")
    if not folder.name.isdecimal():
        raise ValueError(f"its folder {folder.name!r} has no number for a name")
    version = _Version(folder, content, np.load(regular(folder / _DONE)))
    n_rows = {len(content["images"]), *map(len, (version.mask, *version.arrays().values()))}
    are_known = {"name", "fingerprint", "class_names", "preprocessing"} <= content["backbone"].keys()
    are_images = all([type(part) for part in image] == [str, int, int] for image in content["images"])
    are_pairs = all(len(Problem(*problem)) == 2 for problem in content["problems"])
    if len(n_rows) > 1 or _ARRAYS[0] not in version.arrays() or not (are_known and are_images and are_pairs):
        raise ValueError("its files do not fit together")
    return version


def _begin(
    folder: Path, images: list[Any], problems: Sequence[Problem], versions: list[_Version], backbone: Backbone
) -> _Version:
    """Version of these images: an existing one, or a new one with the rows already computed."""
    about = {"name": backbone.name, "fingerprint": backbone.fingerprint, "class_names": backbone.class_names,
             "preprocessing": asdict(backbone.preprocessing)}  # fmt: skip
    text = json.dumps({"format": _FORMAT, "backbone": about, "images": images, "problems": problems})
    content = json.loads(text)
    for version in versions:
        if version.mask.any() and version.content["backbone"]["fingerprint"] != backbone.fingerprint:
            other = f"{version.content['backbone']['name']!r}, whose weights or preprocessing are others"
            raise ValueError(f"output: {str(folder)!r} was made with {other}. Pass another folder.")
        if version.content == content:
            return version
    draft = folder / _DRAFT
    draft.mkdir()
    side = backbone.preprocessing.size
    widths = backbone.describe(np.zeros((0, 3, side, side), dtype=np.float32))
    arrays = {name: empty.shape[1] for name, empty in zip(_ARRAYS, widths, strict=True) if empty is not None}
    for name, width in arrays.items():
        open_memmap(draft / name, mode="w+", dtype="<f4", shape=(len(images), width))
    mask = np.zeros(len(images), dtype=bool)
    rows = {(_key(path), *stamp): row for row, (path, *stamp) in enumerate(images)}
    for version in versions:
        old = {rows.get((_key(path), *stamp)): row for row, (path, *stamp) in version.done()}
        new = [row for row in old if row is not None]
        for start, name in product(range(0, len(new), _BLOCK), arrays):
            block = new[start : start + _BLOCK]
            mapped = np.load(version.folder / name, mmap_mode="r")
            _write_rows(draft / name, block, mapped[[old[row] for row in block]])
            mask[block] = True
    np.save(draft / _DONE, mask)
    (draft / _INDEX).write_text(text)
    number = 1 + max((int(version.folder.name) for version in versions), default=0)
    return _Version(draft.rename(folder / f"{number:06d}"), content, mask)


def _describe_rows(
    version: _Version, backbone: Backbone, batch: int, jobs: int | None, progress: Progress | None
) -> dict[int, Problem]:
    rows = {version.content["images"][row][0]: row for row in np.flatnonzero(~version.mask).tolist()}
    before, total = len(version.mask) - len(rows), len(version.mask)
    report = progress or (lambda done, total: None)
    described, failed = dict[int, Described](), dict[int, Problem]()
    report(before, total)
    try:
        with closing(describe_each(list(rows), backbone, jobs, batch)) as outcomes:
            for done, (path, outputs, reason) in enumerate(outcomes, before + 1):
                if outputs is None:
                    failed[rows[path]] = Problem(path, reason or "")
                else:
                    described[rows[path]] = outputs
                if len(described) >= _BLOCK:
                    _save(version, described)
                    described = {}
                report(done, total)
    finally:  # finished rows are kept, whatever the reason for stopping
        if described:
            _save(version, described)
    return failed


def _save(version: _Version, described: dict[int, Described]) -> None:
    rows = list(described)
    for name, values in zip(_ARRAYS, zip(*described.values(), strict=True), strict=True):
        if values[0] is not None:
            _write_rows(version.folder / name, rows, np.concatenate(values))
    version.mask[rows] = True
    _write_rows(version.folder / _DONE, rows, True)


def _write_rows(path: Path, rows: list[int], values: Any) -> None:
    """Write rows of an array to disk, not by way of a memory map: on a full disk that would end the process."""
    array = np.load(path, mmap_mode="r")
    content = np.broadcast_to(np.asarray(values, dtype=array.dtype), (len(rows), *array.shape[1:]))
    with path.open("r+b") as file:
        for row, data in zip(rows, content, strict=True):
            file.seek(array.offset + row * array.strides[0])
            file.write(data.tobytes())
        file.flush()
        os.fsync(file.fileno())


def open_features(path: str | Path) -> FeatureSet:
    """Open features: a folder that `extract_features` made, or a file made elsewhere.

    Parameters
    ----------
    path : str or pathlib.Path
        - A folder: the arrays are memory-mapped, nothing is loaded.
        - A ``.npz`` file: ``features`` (or ``X``), one row per image; ``image_id`` (or ``paths``, ``ids``);
          optionally ``logits`` or ``imagenet_logits``. float16 and integers become float32.
        - A ``.npy`` file: a matrix, one row per image, memory-mapped. The images are called "0", "1", ...
        - A ``.csv`` or ``.tsv`` file: a header, then one line per image: its identifier, then its features.
    """
    path = Path(path)
    if path.is_dir() or not path.exists():
        return _open_folder(path)
    try:
        return _open_file(regular(path))
    except DAMAGE as error:
        advice = "Pass a folder that unseen features made, or a .npz, .npy or .csv file"
        raise ValueError(f"path: {str(path)!r} cannot be read as features ({reason(error)}). {advice}.") from error


def _open_folder(folder: Path) -> FeatureSet:
    finished = [version for version in _versions(folder, "path") if version.mask.all()]
    if not finished:
        made = f"no finished features in {str(folder)!r}"
        raise FileNotFoundError(f"path: {made}. Make them: unseen features IMAGES -o DIR.")
    content, (X, *logits) = finished[-1].content, finished[-1].arrays().values()
    about, paths = content["backbone"], tuple(image[0] for image in content["images"])
    names, problems = about.pop("class_names"), tuple(Problem(*problem) for problem in content["problems"])
    return FeatureSet(paths, X, logits[0] if logits else None, about, names and tuple(names), problems)


def _open_file(path: Path) -> FeatureSet:
    if path.suffix.lower() in (".csv", ".tsv"):
        arrays = _read_table(path)
    else:
        check_unpacked(path)
        content = np.load(path, mmap_mode="r", allow_pickle=False)
        arrays = {"features": content} if isinstance(content, np.ndarray) else dict(content)
    X, logits = (_matrix(arrays, keys) for keys in (("features", "X"), ("logits", "imagenet_logits")))
    if X is None or (logits is not None and len(logits) != len(X)):
        raise ValueError(f"it needs 'features', and logits of the same images; it has {listed(list(arrays))}")
    given = next((arrays[key] for key in _ID_KEYS if key in arrays), None)
    paths = tuple(np.asarray(range(len(X)) if given is None else given).astype(str).ravel().tolist())
    if len(paths) != len(X) or len(set(paths)) != len(X):
        raise ValueError(f"ids: {len(set(paths)):,} distinct values for {counted(len(X), 'row')}")
    classes = imagenet.class_names() if "imagenet_logits" in arrays else None
    return FeatureSet(paths, X, logits, class_names=classes, has_names=given is not None)


def _read_table(path: Path) -> dict[str, NDArray[Any]]:
    import pandas as pd

    with path.open(encoding="utf-8-sig") as file:
        separator = guess_delimiter(file.readline())
    table = pd.read_csv(path, sep=separator, converters={0: str.strip}, encoding="utf-8-sig")
    names = table.columns.astype(str)
    if names[0].strip().lower() not in _ID_KEYS and not pd.to_numeric(names[1:], errors="coerce").isna().any():
        raise ValueError("it has no column names: start with a line such as image_id,f0,f1,f2")
    return {"features": table.iloc[:, 1:].to_numpy(dtype=np.float32), "ids": table.iloc[:, 0].to_numpy()}


def _matrix(arrays: dict[str, NDArray[Any]], keys: Sequence[str]) -> NDArray[Any] | None:
    """Real matrix under one of the keys, float32 or float64; None if there is none."""
    values = next((arrays[key] for key in keys if key in arrays), None)
    if values is None:
        return None
    if values.ndim != 2 or not values.size or values.dtype.kind not in "fiu":
        raise ValueError(f"{keys[0]!r} has shape {values.shape} and type {values.dtype}, not one row per image")
    if not isinstance(values, np.memmap) and not np.isfinite(values).all():  # memory maps are not read
        row = np.flatnonzero(~np.isfinite(values).all(axis=1))[0]
        raise ValueError(f"{keys[0]!r} is NaN or infinite in row {row}")
    return values if values.dtype in (np.float32, np.float64) else values.astype(np.float32)
