"""A folder of features in the making: what is finished stays finished, whatever happens to the program."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unseen.files import locked, write_atomically
from unseen.images import _feature_files as files
from unseen.images._backbone import Backbone
from unseen.images._feature_files import Entry, Part, Problem
from unseen.images._feature_metadata import check_same_backbone, metadata_of
from unseen.validation import counted

__all__ = ["FeatureStore", "is_being_finished", "open_store"]

_RESULT = "result"  # in parts: a whole result on its way to its place
_FINISHED = -1  # instead of the number of a part
_MOST_ROWS = 1024  # copied at a time
_PARTS_OPEN = 4


class _Place(NamedTuple):
    entry: Entry
    part: int
    row: int


def is_being_finished(folder: Path) -> bool:
    """Whether a run was interrupted while it put a result into place: the files may not fit together."""
    return (folder / files.PARTS / _RESULT).is_dir()


@contextmanager
def open_store(folder: Path, backbone: Backbone) -> Iterator[FeatureStore]:
    """Open a folder for features of this backbone, for this process alone."""
    _check_free(folder)
    with ExitStack() as stack:
        try:
            if not folder.exists():
                folder.mkdir(parents=True)
                stack.callback(_remove_if_empty, folder)
            stack.enter_context(locked(folder / ".lock", wait=False))
        except BlockingIOError:
            raise OSError(
                f"output: another process is writing to {str(folder)!r}. Wait for it, or pass another folder."
            ) from None
        except OSError as error:
            raise OSError(
                f"output: {str(folder)!r} cannot be written ({error}). Pass a folder you may write to."
            ) from error
        yield FeatureStore(folder, backbone)


def _check_free(folder: Path) -> None:
    """Refuse a folder that holds something else."""
    if folder.exists() and not folder.is_dir():
        raise OSError(f"output: {str(folder)!r} is a file. Pass the name of a folder.")
    ours = (folder / files.METADATA).exists() or not folder.exists()
    if not ours and any(item.name != ".lock" for item in folder.iterdir()):
        raise OSError(f"output: {str(folder)!r} holds other files. Pass a new or an empty folder.")


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


class FeatureStore:
    """What is known of the images so far, finished or in parts.

    Parameters
    ----------
    folder : Path
        Locked by the caller.
    backbone : Backbone
        Must be the one that the folder was begun with.

    Attributes
    ----------
    failed : dict
        Reasons by path, from the parts: files that an interrupted run could not read.
    """

    def __init__(self, folder: Path, backbone: Backbone) -> None:
        self._folder, self._parts = folder, folder / files.PARTS
        self._metadata = metadata_of(backbone)
        check_same_backbone(folder, self._metadata)
        if is_being_finished(folder):
            self._publish()
        self._known: dict[str, _Place] = {}
        self.failed: dict[str, str] = {}
        self._next_part = 0
        self._load_part = lru_cache(_PARTS_OPEN)(lambda number: files.read_part_rows(self._part_file(number)))
        self._finished = self._read_finished()
        self._read_parts()

    def knows(self, path: str) -> bool:
        """Whether the features of this very file are here."""
        place = self._known.get(path)
        return place is not None and _stamp(path) == (place.entry.bytes, place.entry.modified)

    def check_reachable(self, paths: Sequence[str]) -> None:
        """Refuse to go on if all that is here would be dropped: most likely another current folder."""
        named = set(paths)
        if self._known and not any(path in named or _is_file(path) for path in self._known):
            raise ValueError(
                f"output: {str(self._folder)!r} holds the features of {counted(len(self._known), 'image')}, "
                f"such as {next(iter(self._known))!r}, and none of these files is found. Run the command in the "
                f"folder where it was run before, pass another output, or delete this one."
            )

    def add(self, part: Part) -> None:
        """Keep a part: from now on it survives."""
        if not (self._folder / files.METADATA).exists():
            content = json.dumps(self._metadata, indent=1) + "\n"
            write_atomically(
                self._folder / files.METADATA, lambda temporary: temporary.write_text(content, "utf-8")
            )
        number = self._next_part
        files.write_part(self._part_file(number), part)
        self._next_part += 1
        self._known |= {entry.path: _Place(entry, number, row) for row, entry in enumerate(part.images)}

    def finish(self, paths: Sequence[str], problems: Sequence[Problem], *, only: bool = False) -> int:
        """Put these images, and the others here whose files still exist, into the finished files.

        The order is that of ``paths`` if there are no others; else what is here stays in its order and new images
        follow. With ``only`` there are no others. Returns the number of images dropped, as their files are gone.
        """
        unreadable = {problem.path for problem in problems}  # among them may be files that were good before
        here = [path for path in paths if path in self._known and path not in unreadable]
        others = [] if only else _not_among(self._known, paths)
        kept = [path for path in others if _is_file(path)]
        if kept:
            stay = {*here, *kept}
            here = [path for path in self._known if path in stay]
        if not only:
            problems = [*self._earlier_problems(paths), *problems]
        places = [self._known[path] for path in here]
        as_before = (
            [place.entry for place in places] == self._finished
            and all(place.part == _FINISHED for place in places)
            and list(problems) == files.read_problems(self._folder / files.PROBLEMS)
        )
        if not as_before:
            self._assemble(places, problems)
            self._publish()
        shutil.rmtree(self._parts, ignore_errors=True)
        return len(others) - len(kept)

    def _earlier_problems(self, paths: Sequence[str]) -> list[Problem]:
        """Problems that earlier runs had with files that are not among ``paths`` and still exist."""
        earlier = dict(files.read_problems(self._folder / files.PROBLEMS)) | self.failed
        return [Problem(path, earlier[path]) for path in _not_among(earlier, paths) if _is_file(path)]

    def _part_file(self, number: int) -> Path:
        return self._parts / f"{number:06d}.safetensors"

    def _read_finished(self) -> list[Entry]:
        path = self._folder / files.IMAGES
        entries = files.read_images(path) if path.exists() else []
        if entries and _n_rows(self._folder / files.FEATURES) != len(entries):
            raise ValueError(f"output: the files in {str(self._folder)!r} do not fit together. Delete the folder.")
        self._known |= {entry.path: _Place(entry, _FINISHED, row) for row, entry in enumerate(entries)}
        return entries

    def _read_parts(self) -> None:
        for path in sorted(self._parts.glob("*.safetensors")):
            header = files.read_part_header(path)
            if header is None:  # of a machine that lost power: it is computed again
                path.unlink()
                continue
            number = int(path.stem)
            self._next_part = number + 1
            for row, entry in enumerate(header[0]):
                known = self._known.get(entry.path)
                if known is None or known.entry != entry:
                    self._known[entry.path] = _Place(entry, number, row)
            self.failed |= dict(header[1])

    def _assemble(self, places: list[_Place], problems: Sequence[Problem]) -> None:
        """Write all finished files to a hidden folder, and rename it when they are whole."""
        draft = self._parts / ".result"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        with ExitStack() as stack:
            outputs: dict[str, Any] = {}
            for part, start, stop in _runs(places):
                for name, rows in self._read_rows(part, start, stop).items():
                    if name not in outputs:
                        outputs[name] = stack.enter_context((draft / name).open("wb"))
                        files.write_array_header(outputs[name], (len(places), rows.shape[1]))
                    outputs[name].write(rows.tobytes())
        files.write_images(draft / files.IMAGES, (place.entry for place in places))
        if problems:
            files.write_problems(draft / files.PROBLEMS, problems)
        draft.rename(self._parts / _RESULT)

    def _read_rows(self, part: int, start: int, stop: int) -> dict[str, NDArray[np.float32]]:
        """Rows of a part, by the name of the finished file that they go to."""
        if part != _FINISHED:
            return {name: rows[start:stop] for name, rows in self._load_part(part).items()}
        paths = [self._folder / name for name in (files.FEATURES, files.LOGITS)]
        # Mapped anew for each block, so that the pages read before do not stay in memory.
        return {path.name: np.array(np.load(path, mmap_mode="r")[start:stop]) for path in paths if path.exists()}

    def _publish(self) -> None:
        """Move a whole result to its place; once begun it is completed, if need be by the next run."""
        result = self._parts / _RESULT
        # The features go first: as long as they are here, nothing has been moved.
        if (result / files.FEATURES).exists() and not (result / files.PROBLEMS).exists():
            (self._folder / files.PROBLEMS).unlink(missing_ok=True)
        for name in (files.FEATURES, files.LOGITS, files.IMAGES, files.PROBLEMS):
            if (result / name).exists():
                (result / name).replace(self._folder / name)
        result.rmdir()


def _runs(places: Sequence[_Place]) -> Iterator[tuple[int, int, int]]:
    """Stretches of rows that lie one after another in the same part: (part, start, stop)."""
    begin = 0
    for end in range(1, len(places) + 1):
        first = places[begin]
        if (
            end == len(places)
            or end - begin == _MOST_ROWS
            or (places[end].part, places[end].row) != (first.part, first.row + end - begin)
        ):
            yield first.part, first.row, first.row + end - begin
            begin = end


def _not_among(candidates: Iterable[str], paths: Sequence[str]) -> list[str]:
    """Candidates that ``paths`` do not name, not even by another name, such as the absolute path."""
    named = set(paths)
    others = [path for path in candidates if path not in named]
    files_named = {_absolute(path) for path in paths} if others else set()
    return [path for path in others if _absolute(path) not in files_named]


def _absolute(path: str) -> str:
    return os.path.abspath(path)  # noqa: PTH100 (a Path costs ten times as much)


def _n_rows(path: Path) -> int | None:
    """Rows of a finished array; None if it is missing or damaged."""
    try:
        return int(np.load(path, mmap_mode="r", allow_pickle=False).shape[0])
    except (OSError, ValueError, EOFError, LookupError):
        return None


def _is_file(path: str) -> bool:
    return os.path.isfile(path)  # noqa: PTH113 (a Path costs ten times as much)


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns
