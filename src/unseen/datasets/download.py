"""Data sets that can be downloaded: official archives, checksummed, unpacked whole or not at all."""

from __future__ import annotations

import shutil
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path, PurePosixPath
from typing import IO

from unseen.files import DownloadError, Progress, download, file_digest, locked
from unseen.validation import check_choice, listed

__all__ = ["DATA_SETS", "Archive", "DataSet", "data_set_is_there", "get_data_set"]

Reporter = Callable[[str], Progress]


@dataclass(frozen=True)
class Archive:
    """A tar file.

    Attributes
    ----------
    name : str
        Its file name.
    urls : tuple of str
        Where to get it: the official address first, then mirrors.
    md5 : str
        Its checksum, as torchvision publishes it; what disagrees is never unpacked.
    n_bytes : int
        Its size.
    """

    name: str
    urls: tuple[str, ...]
    md5: str
    n_bytes: int


@dataclass(frozen=True)
class DataSet:
    """Archives that make up a data set.

    Attributes
    ----------
    title : str
        What it is, in a few words.
    archives : tuple of Archive
        Unpacked together.
    folder : str
        The one folder that they hold, with slashes.
    lists : dict of str to int
        Files in `folder` that name images, one a line, and how many: this is how a whole data set is known.
    """

    title: str
    archives: tuple[Archive, ...]
    folder: str
    lists: dict[str, int]

    @property
    def n_bytes(self) -> int:
        """Size of all archives."""
        return sum(archive.n_bytes for archive in self.archives)


def _voc(year: int, name: str, md5: str, n_bytes: int) -> Archive:
    hosts = (f"http://host.robots.ox.ac.uk/pascal/VOC/voc{year}", "https://data.pjreddie.com/files")
    return Archive(name, tuple(f"{host}/{name}" for host in hosts), md5, n_bytes)


DATA_SETS = {
    "voc2007": DataSet(
        "PASCAL VOC2007: 20 labels, trainval and test",
        (
            _voc(2007, "VOCtrainval_06-Nov-2007.tar", "c52e279531787c972589f7e41ab4ae64", 460_032_000),
            _voc(2007, "VOCtest_06-Nov-2007.tar", "b6e924de25625d8de591ea690078ad9f", 451_020_800),
        ),
        "VOCdevkit/VOC2007",
        {"ImageSets/Main/trainval.txt": 5011, "ImageSets/Main/test.txt": 4952},
    ),
    "voc2012": DataSet(
        "PASCAL VOC2012: 20 labels, train and val",
        (_voc(2012, "VOCtrainval_11-May-2012.tar", "6cd6e144f989b92b3379bac3b3de84fd", 1_999_639_040),),
        "VOCdevkit/VOC2012",
        {"ImageSets/Main/trainval.txt": 11540},
    ),
}


def get_data_set(
    name: str,
    into: str | PathLike[str] = ".",
    *,
    report: Reporter | None = None,
    retries: int = 4,
    backoff: float = 1.0,
) -> Path:
    """Download and unpack a data set, unless it is there.

    The archives go to `into` while they are needed; one that is already there is used, and left there. An
    interrupted download is continued by the next call. The data set appears only when all of it is unpacked.

    Parameters
    ----------
    name : str
        One of `DATA_SETS`.
    into : str or path, default="."
        Folder to put it in.
    report : callable, optional
        Called with the title of each stage; returns a ``progress(done, total)`` for it, in bytes.
    retries, backoff : int, float
        See `unseen.files.download`.

    Returns
    -------
    pathlib.Path
        Folder of the data set.

    Raises
    ------
    DownloadError
        If an archive cannot be fetched from any of its addresses.
    ValueError
        If an archive holds what it should not.
    FileExistsError
        If there is something else, or an incomplete data set, at its place.
    """
    data_set = DATA_SETS[check_choice(name, "name", tuple(DATA_SETS))]
    report = report or (lambda title: lambda done, total: None)
    into = Path(into).expanduser()
    try:
        into.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=into):
            pass
    except OSError as error:
        raise OSError(f"into: {str(into)!r} cannot be written ({error}). Pass another folder.") from error
    target = into / data_set.folder
    with locked(into / f".{name}.lock"):
        if data_set_is_there(data_set, into):
            return target
        if target.exists():
            raise FileExistsError(
                f"into: {str(target)!r} is there, but does not hold the whole data set. Move it away, or pass "
                f"another folder."
            )
        kept = {archive.name for archive in data_set.archives if (into / archive.name).exists()}
        for archive in data_set.archives:
            _fetch(archive, into / archive.name, report, retries, backoff)
        _unpack_all(data_set, into, report)
        for archive in data_set.archives:
            if archive.name not in kept:
                (into / archive.name).unlink()
    return target


def data_set_is_there(data_set: DataSet, into: str | PathLike[str]) -> bool:
    """Whether a folder holds a whole data set.

    Parameters
    ----------
    data_set : DataSet
        One of the values of `DATA_SETS`.
    into : str or path
        The folder that was given to `get_data_set`.

    Returns
    -------
    bool
    """
    return not _incomplete(data_set, Path(into) / data_set.folder)


def _incomplete(data_set: DataSet, folder: Path) -> list[str]:
    """Lists that are missing, or name another number of images than they should."""

    def lines(path: Path) -> int:
        return len(path.read_bytes().split()) if path.is_file() else -1

    return [name for name, count in data_set.lists.items() if lines(folder / name) != count]


def _fetch(archive: Archive, path: Path, report: Reporter, retries: int, backoff: float) -> None:
    """Download from the first address that has the right file."""
    if path.exists() and file_digest(path, "md5") != archive.md5:
        raise FileExistsError(
            f"into: {str(path)!r} is there, but damaged or another file: its md5 is not {archive.md5}. Remove it."
        )
    reasons = []
    for url in archive.urls:
        progress = report(f"downloading {url}")
        try:
            download(url, path, md5=archive.md5, progress=progress, retries=retries, backoff=backoff)
            return
        except DownloadError as error:
            reasons.append(str(error))
    others = f" Nor could {', '.join(archive.urls[1:])}." if archive.urls[1:] else ""
    raise DownloadError(reasons[0] + others)


def _unpack_all(data_set: DataSet, into: Path, report: Reporter) -> None:
    # The lock is held: what is there was left by a process that was killed.
    temporary = into / f".{PurePosixPath(data_set.folder).name}.part"
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir()
        for archive in data_set.archives:
            _unpack(into / archive.name, temporary, data_set.folder, report(f"unpacking {archive.name}"))
        missing = _incomplete(data_set, temporary / data_set.folder)
        if missing:
            raise ValueError(f"archive: {listed(missing)} is missing or incomplete. Nothing was unpacked.")
        target = into / data_set.folder
        target.parent.mkdir(parents=True, exist_ok=True)
        (temporary / data_set.folder).replace(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _unpack(path: Path, into: Path, folder: str, progress: Progress) -> None:
    """Write the files of a tar: nothing but plain files, in the one folder expected, with default permissions."""
    total = path.stat().st_size
    try:
        with path.open("rb") as file, tarfile.open(fileobj=file) as tar:
            for member in tar:
                _refuse_unsafe(path, member, folder)
                target = into / member.name
                if member.isdir():
                    target.mkdir(parents=True, exist_ok=True)
                else:
                    target.parent.mkdir(parents=True, exist_ok=True)
                    _write(tar.extractfile(member), target)
                progress(file.tell(), total)
    except (tarfile.TarError, EOFError) as error:
        raise ValueError(
            f"archive: {str(path)!r} cannot be unpacked ({error}). Remove it and try again."
        ) from None
    progress(total, total)


def _write(source: IO[bytes] | None, target: Path) -> None:
    assert source is not None  # a plain file always has a content
    with source, target.open("wb") as file:
        shutil.copyfileobj(source, file, 1 << 20)


def _refuse_unsafe(path: Path, member: tarfile.TarInfo, folder: str) -> None:
    """Stricter than tarfile's own filter: a data set needs no links, and knows its folder."""
    name = PurePosixPath(member.name)
    inside = name.is_relative_to(folder) or (member.isdir() and PurePosixPath(folder).is_relative_to(name))
    if name.is_absolute() or ".." in name.parts or "\\" in member.name or ":" in member.name or not inside:
        what = f"{member.name!r}, which lies outside of {folder}"
    elif not (member.isfile() or member.isdir()):
        what = f"{member.name!r}, which is a link or a device"
    else:
        return
    raise ValueError(f"archive: {str(path)!r} holds {what}. Nothing was unpacked: do not trust this file.")
