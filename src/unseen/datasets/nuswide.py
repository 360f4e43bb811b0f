"""NUS-WIDE, in the layout of its original archives."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from unseen.datasets.annotations import Annotations
from unseen.validation import check_choice, listed

__all__ = ["is_nuswide", "read_nuswide"]

_FOLDERS = frozenset(
    {"alllabels", "conceptslist", "groundtruth", "imagelist", "nus-wide", "nus_wid_tags", "traintestlabels"}
)
_BLOCK = 1 << 24
_SPACE, _ZERO, _ONE = b" 01"

Files = dict[str, Path]


def read_nuswide(
    folder: str | PathLike[str], labels: Literal["concepts81", "tags1k", "both"] = "concepts81"
) -> Annotations:
    """Labels of NUS-WIDE images.

    The lists of all images are read where they are there: ``ImageList/Imagelist.txt`` with
    ``Groundtruth/AllLabels/Labels_<concept>.txt`` and ``NUS_WID_Tags/AllTags1k.txt``. Otherwise the lists of the
    two parts are: ``TrainImagelist.txt``, ``TrainTestLabels/Labels_<concept>_Train.txt``, ``Train_Tags1k.dat`` and
    the same for ``Test``. Capital letters in file names do not matter, nor which of these folders a file is in.

    Parameters
    ----------
    folder : str or path
        Folder that holds these folders.
    labels : {"concepts81", "tags1k", "both"}, default="concepts81"
        The 81 concepts that people verified; the 1,000 most frequent tags of Flickr users; or both, as the
        literature on zero-shot tagging does: the tags that are no concepts (seen), followed by the 81 concepts
        (unseen).

    Returns
    -------
    Annotations
        `images` are paths with slashes, such as ``actor/0001_2124494179.jpg``; `split` is ``train`` or ``test`` if
        the lists of the two parts are there.
    """
    check_choice(labels, "labels", ("concepts81", "tags1k", "both"))
    files = _index(Path(folder))
    concepts = _concepts(files, folder) if labels != "tags1k" else []
    tags = _names(_need(files, "TagList1k.txt", folder)) if labels != "concepts81" else []
    kept = [i for i, tag in enumerate(tags) if tag not in set(concepts)]
    parts = _parts(files, folder, concepts[0] if concepts else None, bool(tags))
    lists = [_image_names(_need(files, _image_list(part), folder)) for part in parts]
    Y = np.empty((sum(map(len, lists)), len(kept) + len(concepts)), dtype=np.int8)
    start = 0
    for part, images in zip(parts, lists, strict=True):
        rows = slice(start, start + len(images))
        if tags:
            bits = _read_bits(_need(files, _tag_file(part), folder), len(images), len(tags))
            Y[rows, : len(kept)] = bits if len(kept) == len(tags) else bits[:, kept]
        for column, concept in enumerate(concepts, start=len(kept)):
            path = _need(files, _label_file(concept, part), folder)
            Y[rows, column] = _read_bits(path, len(images), 1)[:, 0]
        start = rows.stop
    names = [name for images in lists for name in images]
    return Annotations(tuple(names), (*(tags[i] for i in kept), *concepts), Y, _split(files, names))


def is_nuswide(folder: str | PathLike[str]) -> bool:
    """Whether a folder holds lists of images or labels of NUS-WIDE.

    Parameters
    ----------
    folder : str or path
        The folder.

    Returns
    -------
    bool
    """
    files = _index(Path(folder))
    lists = [_image_list(part).lower() for part in ("", "Train", "Test")]
    return any(name in files for name in lists) and any(
        name.startswith(("labels_", "taglist1k")) for name in files
    )


def _index(folder: Path) -> Files:
    """Files by their name in small letters; folders of images, which are large, are not looked into."""
    files: Files = {}
    for entry in sorted(folder.iterdir()):
        if entry.name.lower() in _FOLDERS and entry.is_dir():
            files = _index(entry) | files
        elif entry.suffix.lower() in (".txt", ".dat"):
            files[entry.name.lower()] = entry
    return files


def _image_list(part: str) -> str:
    return f"{part}Imagelist.txt"


def _tag_file(part: str) -> str:
    return f"{part}_Tags1k.dat" if part else "AllTags1k.txt"


def _label_file(concept: str, part: str) -> str:
    return f"Labels_{concept}_{part}.txt" if part else f"Labels_{concept}.txt"


def _parts(files: Files, folder: str | PathLike[str], concept: str | None, with_tags: bool) -> tuple[str, ...]:
    """One list of all images, or else the two of the parts."""

    def missing(part: str) -> list[str]:
        wanted = [_image_list(part), *([_label_file(concept, part)] if concept else [])]
        wanted += [_tag_file(part)] if with_tags else []
        return [name for name in wanted if name.lower() not in files]

    if not missing(""):
        return ("",)
    if not missing("Train") and not missing("Test"):
        return "Train", "Test"
    raise FileNotFoundError(
        f"folder: {str(folder)!r} lacks {listed(missing(''))} of NUS-WIDE. Unpack its archives ImageList, "
        f"Groundtruth, ConceptsList and NUS_WID_Tags into one folder."
    )


def _need(files: Files, name: str, folder: str | PathLike[str]) -> Path:
    if name.lower() not in files:
        raise FileNotFoundError(f"folder: {str(folder)!r} lacks {name!r} of NUS-WIDE. Unpack its archives again.")
    return files[name.lower()]


def _concepts(files: Files, folder: str | PathLike[str]) -> list[str]:
    if "concepts81.txt" in files:
        return _names(files["concepts81.txt"])
    found = {path.stem.removeprefix("Labels_") for name, path in files.items() if name.startswith("labels_")}
    if not found:
        raise FileNotFoundError(
            f"folder: {str(folder)!r} lacks 'Concepts81.txt' and Labels_<concept>.txt. "
            f"Unpack the archive Groundtruth."
        )
    # The official list is in alphabetical order, too.
    return sorted({name.removesuffix("_Train").removesuffix("_Test") for name in found})


def _names(path: Path) -> list[str]:
    """Lines of a file, without blank ones."""
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"folder: {str(path)!r} is no text in UTF-8 ({error}). Unpack the archive again."
        ) from None
    names = [line.strip() for line in lines if line.strip()]
    if not names:
        raise ValueError(f"folder: {str(path)!r} is empty. Unpack the archive again.")
    return names


def _image_names(path: Path) -> list[str]:
    return [name.replace("\\", "/") for name in _names(path)]


def _split(files: Files, images: list[str]) -> tuple[str, ...] | None:
    lists = {part: files.get(_image_list(part).lower()) for part in ("Train", "Test")}
    of_image = {
        name: part.lower() for part, path in lists.items() if path is not None for name in _image_names(path)
    }
    if None in lists.values():
        return None
    homeless = [name for name in images if name not in of_image]
    if homeless:
        raise ValueError(
            f"folder: {listed(homeless)} are neither in TrainImagelist.txt nor in TestImagelist.txt. "
            f"Unpack the archive ImageList again."
        )
    return tuple(of_image[name] for name in images)


def _read_bits(path: Path, n_rows: int, n_columns: int) -> NDArray[np.int8]:
    """A matrix of 0 and 1 in text, a line a row; read in blocks, since a file may have 540 MB."""
    bits = np.empty((n_rows, n_columns), dtype=np.int8)
    done = 0
    with path.open("rb") as file:
        while done <= n_rows and (block := file.read(_BLOCK) + file.readline()):
            lines = block.rstrip()
            rows = _rows_of(lines + b"\n", path, done, n_columns) if lines else bits[:0]
            bits[done : done + len(rows)] = rows[: n_rows - done]
            done += len(rows)
    if done != n_rows:
        raise ValueError(
            f"folder: {str(path)!r} has {'more' if done > n_rows else 'fewer'} rows than the {n_rows} images of "
            f"the list it belongs to. Unpack the archives again."
        )
    return bits


def _rows_of(block: bytes, path: Path, first: int, n_columns: int) -> NDArray[Any]:
    """Rows of whole lines."""
    codes = np.frombuffer(block, dtype=np.uint8)
    filled = codes > _SPACE
    ends = np.flatnonzero(codes == ord("\n"))
    per_line = np.add.reduceat(filled, np.append(0, ends[:-1] + 1), dtype=np.int64)
    digits = codes[filled]
    joined = bool((filled[1:] & filled[:-1]).any())
    if joined or (digits | 1 != _ONE).any() or (per_line != n_columns).any():
        _explain(block, path, first, n_columns)
    return (digits - _ZERO).astype(np.int8).reshape(-1, n_columns)


def _explain(block: bytes, path: Path, first: int, n_columns: int) -> None:
    for number, line in enumerate(block.split(b"\n"), start=first + 1):
        cells = line.split()
        wrong = [cell for cell in cells if cell not in (b"0", b"1")]
        if wrong:
            raise ValueError(
                f"folder: {str(path)!r}, line {number}: {wrong[0][:20].decode('ascii', 'replace')!r} is neither 0 "
                f"nor 1. Correct the line, or add the lists of all images (AllLabels, AllTags1k.txt), which are "
                f"read in preference."
            )
        if len(cells) != n_columns:
            raise ValueError(
                f"folder: {str(path)!r}, line {number}: {len(cells)} numbers, not {n_columns}. "
                f"Unpack the archive again."
            )
