"""NUS-WIDE, in the layout of its original archives."""

from os import PathLike
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from unseen.datasets.annotations import Annotations
from unseen.validation import check_choice, listed

_FOLDERS = frozenset({"alllabels", "conceptslist", "groundtruth", "imagelist", "nus-wide", "nus_wid_tags"})


def read_nuswide(
    folder: str | PathLike[str], labels: Literal["concepts81", "tags1k", "both"] = "concepts81"
) -> Annotations:
    """Labels of NUS-WIDE images.

    Neither capital letters in file names nor the folder that a file is in matter. The `split`, ``train`` or
    ``test``, is known if ``TrainImagelist.txt`` and ``TestImagelist.txt`` exist.

    Parameters
    ----------
    folder : str or path
        Folder of the unpacked archives.
    labels : {"concepts81", "tags1k", "both"}, default="concepts81"
        The 81 manually verified concepts; the 1,000 most frequent tags of Flickr users; or both, as in the
        literature on zero-shot tagging: the tags that are not concepts (seen), then the 81 concepts (unseen).
    """
    check_choice(labels, "labels", ("concepts81", "tags1k", "both"))
    files = _index(Path(folder))

    def find(name: str) -> Path:
        if name.lower() not in files:
            advice = "Unpack the archives ImageList, Groundtruth, ConceptsList and NUS_WID_Tags into one folder"
            raise FileNotFoundError(f"folder: {str(folder)!r} lacks {name!r} of NUS-WIDE. {advice}.")
        return files[name.lower()]

    images = _names(find("Imagelist.txt"))
    concepts = _names(find("Concepts81.txt")) if labels != "tags1k" else []
    names, columns = [], []
    if labels != "concepts81":
        tags = _names(find("TagList1k.txt"))
        others = [i for i, tag in enumerate(tags) if tag not in concepts]
        names += [tags[i] for i in others]
        columns.append(_read_bits(find("AllTags1k.txt"), len(images), len(tags))[:, others])
    columns += [_read_bits(find(f"Labels_{concept}.txt"), len(images), 1) for concept in concepts]
    return Annotations(tuple(images), (*names, *concepts), np.hstack(columns), _split(files, images))


def is_nuswide(folder: str | PathLike[str]) -> bool:
    """Whether a folder holds lists of images and labels of NUS-WIDE."""
    names = _index(Path(folder))
    return "imagelist.txt" in names and any(name.startswith(("labels_", "taglist1k")) for name in names)


def _index(folder: Path) -> dict[str, Path]:
    """Files by lower-case name; image folders, which are large, are skipped."""
    files: dict[str, Path] = {}
    for entry in sorted(folder.iterdir()):
        if entry.name.lower() in _FOLDERS and entry.is_dir():
            files = _index(entry) | files
        elif entry.suffix.lower() in (".txt", ".dat"):
            files[entry.name.lower()] = entry
    return files


def _names(path: Path) -> list[str]:
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        lines = []
    names = [line.strip().replace("\\", "/") for line in lines if line.strip()]
    if not names:
        raise ValueError(f"folder: {str(path)!r} is empty or not UTF-8 text. Unpack the archive again.")
    return names


def _split(files: dict[str, Path], images: list[str]) -> tuple[str, ...] | None:
    lists = {part: files.get(f"{part}imagelist.txt") for part in ("train", "test")}
    if None in lists.values():
        return None
    of_image = {name: part for part, path in lists.items() if path for name in _names(path)}
    missing = [name for name in images if name not in of_image]
    if missing:
        raise ValueError(f"folder: TrainImagelist.txt and TestImagelist.txt both lack {listed(missing)}.")
    return tuple(of_image[name] for name in images)


def _read_bits(path: Path, n_rows: int, n_columns: int) -> NDArray[np.int8]:
    """Read a text matrix of 0 and 1: 270 million entries in seconds, unlike general parsers."""
    codes = np.fromfile(path, dtype=np.uint8)
    bits = (codes[codes > ord(" ")] - ord("0")).view(np.int8)
    if bits.size != n_rows * n_columns or bits.min() < 0 or bits.max() > 1:
        wanted = f"{n_columns} x 0 or 1 for each of {n_rows} images"
        raise ValueError(f"folder: {str(path)!r} does not contain {wanted}. Unpack the archive again.")
    return bits.reshape(n_rows, n_columns)
