"""Image files: finding those that folders and lists name."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from unseen.files import guess_delimiter
from unseen.images.reading import system_reason
from unseen.validation import listed

__all__ = ["IMAGE_SUFFIXES", "Found", "find_images"]

IMAGE_SUFFIXES = (
    ".jpg", ".jpeg", ".jpe", ".jfif", ".mpo", ".png", ".gif", ".webp", ".bmp", ".tif", ".tiff", ".ppm", ".pgm",
    ".pbm", ".pnm", ".avif", ".jp2",
)  # fmt: skip


_COLUMNS = ("path", "image", "file", "file_name", "image_path")


class Found(NamedTuple):
    """Images that sources name, each once, and the folders that could not be read, with the reason."""

    paths: list[str]
    problems: list[tuple[str, str]]


def find_images(sources: str | Path | Iterable[str | Path]) -> Found:
    """Paths of the images that files, folders and lists name.

    - A folder: the files in it and in its sub-folders whose suffix is that of an image, in sorted order. Names
      that begin with a dot are left out; links to files are followed, links to folders are not.
    - A ``.txt`` file: a path a line; empty lines and those that begin with ``#`` do not count.
    - A ``.csv`` file: its column ``path`` (or ``image``, ``file``, ``file_name``, ``image_path``).
    - Any other file: an image.

    A relative path in a list is looked for in the list's folder and then in the current one. A file that comes
    twice counts once. That a listed file is there is not checked.

    Parameters
    ----------
    sources : path or iterable of paths
        What to look through, in this order.

    Returns
    -------
    Found
        ``paths`` as they were given: relative ones stay relative to the current folder.

    Raises
    ------
    FileNotFoundError
        If a source does not exist.
    ValueError
        If a list cannot be read, or there is no image at all.
    """
    given = [sources] if isinstance(sources, str | Path) else list(sources)
    paths: dict[str, str] = {}  # as they were given, by where they lead
    problems: list[tuple[str, str]] = []
    for source in map(Path, given):
        for path in _paths_in(source, problems):
            paths.setdefault(os.path.abspath(path), path)  # noqa: PTH100 (a Path a file costs ten times as much)
    if not paths:
        locked = f" {problems[0][0]!r} cannot be read: {problems[0][1]}." if problems else ""
        raise ValueError(
            f"sources: there is no image in {listed([str(source) for source in given]) or 'nothing'}.{locked} "
            f"Pass folders with files such as .jpg or .png, image files, or a .txt or .csv list of them."
        )
    return Found(list(paths.values()), problems)


def _paths_in(source: Path, problems: list[tuple[str, str]]) -> Iterable[str]:
    if source.is_dir():
        return _paths_in_folder(source, problems)
    if not source.exists():
        raise FileNotFoundError(f"sources: there is no file or folder {str(source)!r}.")
    if source.suffix.lower() == ".csv":
        return _paths_in_list(source, _column(source))
    if source.suffix.lower() == ".txt":
        lines = (line.strip() for line in _text(source).splitlines())
        return _paths_in_list(source, [line for line in lines if line and not line.startswith("#")])
    return [str(source)]


def _paths_in_folder(folder: Path, problems: list[tuple[str, str]]) -> list[str]:
    found = []

    def note(error: OSError) -> None:
        problems.append((str(error.filename), f"the folder cannot be read ({system_reason(error)})"))

    for parent, folders, files in os.walk(folder, onerror=note):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in files:
            if not name.startswith(".") and name.lower().endswith(IMAGE_SUFFIXES):
                found.append(os.path.join(parent, name))  # noqa: PTH118 (a Path a file costs ten times as much)
    return sorted(found)


def _paths_in_list(source: Path, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        beside = source.parent / name
        yield str(beside if beside.exists() or not Path(name).exists() else Path(name))


def _column(source: Path) -> list[str]:
    text = _text(source)
    rows = csv.DictReader(io.StringIO(text, newline=""), delimiter=guess_delimiter(text.partition("\n")[0]))
    try:
        for name in (name for name in _COLUMNS if name in (rows.fieldnames or ())):
            return [value for row in rows if (value := (row[name] or "").strip())]
    except csv.Error as error:
        raise ValueError(f"sources: {str(source)!r} cannot be read as CSV ({error}).") from None
    raise ValueError(
        f"sources: {str(source)!r} has no column 'path', only {listed(rows.fieldnames or ()) or 'no text'}. "
        f"Name the column of image files 'path'."
    )


def _text(source: Path) -> str:
    try:
        return source.read_text("utf-8-sig", errors="strict")
    except UnicodeDecodeError:
        raise ValueError(f"sources: {str(source)!r} is no text in UTF-8. Pass a list of paths as text.") from None
