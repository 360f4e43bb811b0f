"""Data sets that can be downloaded: official archives, checked, unpacked whole or not at all."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from unseen.files import DownloadError, Progress, download, locked
from unseen.validation import check_choice, listed

__all__ = ["DATA_SETS", "Archive", "DataSet", "get_data_set"]


@dataclass(frozen=True)
class Archive:
    """A tar file: its name, its addresses (the official one first), its MD5 and its size."""

    name: str
    urls: tuple[str, ...]
    md5: str
    n_bytes: int


@dataclass(frozen=True)
class DataSet:
    """Archives that unpack to one folder, and the lists of images in it with their numbers of lines."""

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
    name: str, into: str | PathLike[str] = ".", *, report: Callable[[str], Progress] | None = None
) -> Path:
    """Download and unpack a data set, unless it is there.

    The archives are put into `into` and removed at the end; an archive that was there before is used and left
    there. An interrupted download is continued by the next call. The data set appears only when all of it is
    unpacked.

    Parameters
    ----------
    name : str
        One of `DATA_SETS`.
    into : str or path, default="."
        Folder to put it in.
    report : callable, optional
        Called with the title of each stage; returns a ``progress(done, total)`` for it, in bytes.

    Returns
    -------
    pathlib.Path
        Folder of the data set.

    Raises
    ------
    DownloadError
        If an archive cannot be downloaded from any of its addresses.
    ValueError
        If an archive is damaged or unsafe.
    FileExistsError
        If something else, or an incomplete data set, is in its place.
    """
    data_set = DATA_SETS[check_choice(name, "name", tuple(DATA_SETS))]
    report = report or (lambda title: lambda done, total: None)
    into = Path(into).expanduser()
    target = into / data_set.folder
    try:
        into.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(f"into: {str(into)!r} cannot be written ({error}). Pass another folder.") from error
    with locked(into / f".{name}.lock"):
        if not _incomplete_lists(data_set, target):
            return target
        if target.exists():
            raise FileExistsError(
                f"into: {str(target)!r} is there, but is not the whole data set. Move it, or pass another folder."
            )
        paths = {archive: into / archive.name for archive in data_set.archives}
        fetched = [path for path in paths.values() if not path.exists()]
        for archive, path in paths.items():
            _fetch(archive, path, report)
        _unpack(data_set, into, into / f".{name}.part", report)
        for path in fetched:
            path.unlink()
    return target


def _incomplete_lists(data_set: DataSet, folder: Path) -> list[str]:
    """Lists that are missing, or name another number of images than they should."""

    def n_lines(path: Path) -> int:
        return len(path.read_bytes().split()) if path.is_file() else -1

    return [name for name, count in data_set.lists.items() if n_lines(folder / name) != count]


def _fetch(archive: Archive, path: Path, report: Callable[[str], Progress]) -> None:
    """Download from the first address that has the right file."""
    reasons = []
    for url in archive.urls:
        try:
            download(url, path, md5=archive.md5, progress=report(f"downloading {url}"))
            return
        except DownloadError as error:
            reasons.append(str(error))
    raise DownloadError(f"{reasons[0]} Neither can {', '.join(archive.urls[1:])}.")


def _unpack(data_set: DataSet, into: Path, temporary: Path, report: Callable[[str], Progress]) -> None:
    """Unpack all archives into a temporary folder, and move the data set from there when it is whole."""
    shutil.rmtree(temporary, ignore_errors=True)  # left by a process that was killed
    try:
        for archive in data_set.archives:
            path, progress = into / archive.name, report(f"unpacking {archive.name}")
            with path.open("rb") as file, tarfile.open(fileobj=file) as tar:
                for member in tar:
                    tar.extract(member, temporary, filter="data")
                    progress(file.tell(), archive.n_bytes)
        missing = _incomplete_lists(data_set, temporary / data_set.folder)
        if missing:
            raise ValueError(f"archive: {listed(missing)} is missing or incomplete. Nothing was unpacked.")
        (into / data_set.folder).parent.mkdir(parents=True, exist_ok=True)
        (temporary / data_set.folder).replace(into / data_set.folder)
    except (tarfile.TarError, EOFError) as error:
        raise ValueError(
            f"archive: {str(path)!r} cannot be unpacked ({error}). Do not trust it: remove it and try again."
        ) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
