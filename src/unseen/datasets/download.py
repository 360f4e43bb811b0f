"""Data sets that can be downloaded: official archives, verified and unpacked atomically."""

import shutil
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from unseen.files import DownloadError, Progress, download, expanded, locked, writing
from unseen.validation import check_choice, listed


@dataclass(frozen=True)
class DataSet:
    """Tar archives with MD5 and size, their hosts, and the lists of images in the folder that they unpack to."""

    title: str
    hosts: tuple[str, ...]
    archives: dict[str, tuple[str, int]]
    folder: str
    lists: dict[str, int]  # line counts: if these are right, the data set is complete

    @property
    def n_bytes(self) -> int:
        """Size of all archives."""
        return sum(size for _, size in self.archives.values())


_VOC, _MIRROR = "https://thor.robots.ox.ac.uk/pascal/VOC", "https://data.pjreddie.com/files"
DATA_SETS = {
    "voc2007": DataSet(
        "PASCAL VOC2007: 20 labels, trainval and test",
        (f"{_VOC}/voc2007", _MIRROR),
        {
            "VOCtrainval_06-Nov-2007.tar": ("c52e279531787c972589f7e41ab4ae64", 460_032_000),
            "VOCtest_06-Nov-2007.tar": ("b6e924de25625d8de591ea690078ad9f", 451_020_800),
        },
        "VOCdevkit/VOC2007",
        {"ImageSets/Main/trainval.txt": 5011, "ImageSets/Main/test.txt": 4952},
    ),
    "voc2012": DataSet(
        "PASCAL VOC2012: 20 labels, train and val",
        (f"{_VOC}/voc2012", _MIRROR),
        {"VOCtrainval_11-May-2012.tar": ("6cd6e144f989b92b3379bac3b3de84fd", 1_999_639_040)},
        "VOCdevkit/VOC2012",
        {"ImageSets/Main/trainval.txt": 11540},
    ),
}


def get_data_set(
    name: str, into: str | PathLike[str] = ".", *, report: Callable[[str], Progress] | None = None
) -> Path:
    """Download and unpack a data set, unless it exists; return its folder.

    The archives are put into `into` and removed at the end, except those that were already there, which are used.
    The next call resumes an interrupted download. ``report(title)`` begins a stage, and returns a
    ``progress(done, total)`` for it, in bytes.
    """
    data_set = DATA_SETS[check_choice(name, "name", tuple(DATA_SETS))]
    report = report or (lambda title: lambda done, total: None)
    into = expanded(into)
    target = into / data_set.folder
    with locked(into / f".{name}.lock", argument="into"):
        # Hidden archives are ours, also after a kill.
        ours = [into / f".{archive}" for archive in data_set.archives if not (into / archive).exists()]
        temporary = into / f".{name}.part"
        if _incomplete_lists(data_set, target):
            if target.exists():
                raise FileExistsError(f"into: {str(target)!r} is not complete. Move it, or pass another folder.")
            paths = {path.name.removeprefix("."): path for path in ours}
            for archive, (md5, _) in data_set.archives.items():
                path = paths.setdefault(archive, into / archive)
                _fetch([f"{host}/{archive}" for host in data_set.hosts], path, md5, report)
            with writing(into, "into"):
                _unpack(data_set, paths, target, temporary, report)
        for path in ours:
            path.unlink(missing_ok=True)
        shutil.rmtree(temporary, ignore_errors=True)
    return target


def _incomplete_lists(data_set: DataSet, folder: Path) -> list[str]:
    paths = {name: folder / name for name in data_set.lists}
    n_images = {name: len(path.read_bytes().split()) for name, path in paths.items() if path.is_file()}
    return [name for name, count in data_set.lists.items() if n_images.get(name) != count]


def _fetch(urls: list[str], path: Path, md5: str, report: Callable[[str], Progress]) -> None:
    """Download from the first address that has the right file."""
    reasons = []
    for url in urls:
        try:
            download(url, path, f"md5:{md5}", report(f"downloading {url}"))
            return
        except DownloadError as error:
            reasons.append(str(error))
    raise DownloadError(f"{reasons[0]} Neither can {', '.join(urls[1:])}.")


def _unpack(
    data_set: DataSet,
    archives: Mapping[str, Path],
    target: Path,
    temporary: Path,
    report: Callable[[str], Progress],
) -> None:
    shutil.rmtree(temporary, ignore_errors=True)  # left by a process that was killed
    try:
        for archive, path in archives.items():
            progress = report(f"unpacking {archive}")
            with path.open("rb") as file, tarfile.open(fileobj=file) as tar:
                for member in tar:
                    tar.extract(member, temporary, filter="data")
                    progress(file.tell(), data_set.archives[archive][1])
        unpacked = temporary / data_set.folder
        if missing := _incomplete_lists(data_set, unpacked):
            raise tarfile.TarError(f"{listed(missing)} is missing or incomplete")
        target.parent.mkdir(parents=True, exist_ok=True)
        unpacked.replace(target)
    except (tarfile.TarError, EOFError) as error:
        what = f"{str(path)!r} cannot be unpacked ({error})"
        raise ValueError(f"archive: {what}. Remove it and try again.") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
