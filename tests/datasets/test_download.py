"""Data sets are fetched from host or mirror, checked, and appear whole or not at all."""

import hashlib
import io
import tarfile

import pytest
from tests.test_files import serve

from unseen.datasets import download as archives
from unseen.datasets.download import DATA_SETS, Archive, DataSet, get_data_set
from unseen.files import DownloadError

FOLDER = "VOCdevkit/VOC2007"
TRAINVAL = {
    f"{FOLDER}/ImageSets/Main/trainval.txt": b"000001\n000002\n",
    f"{FOLDER}/JPEGImages/000001.jpg": b"x" * 200_000,
}
TEST = {f"{FOLDER}/ImageSets/Main/test.txt": b"000003\n", f"{FOLDER}/JPEGImages/000003.jpg": b"y"}


def make_tar(files, *extra):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            member.mode = 0o4777
            tar.addfile(member, io.BytesIO(content))
        for member in extra:
            tar.addfile(member)
    return buffer.getvalue()


@pytest.fixture
def publish(monkeypatch):
    """Serve a small data set of two archives from a host and a mirror, known as voc2007."""
    monkeypatch.setattr("unseen.files._PAUSE", 0)
    with serve("/host/trainval.tar", "/mirror/trainval.tar", "/host/test.tar", "/mirror/test.tar") as sites:

        def publish(test=make_tar(TEST)):  # noqa: B008
            files = []
            for name, body in (("trainval.tar", make_tar(TRAINVAL)), ("test.tar", test)):
                served = [sites[f"/{host}/{name}"] for host in ("host", "mirror")]
                for site in served:
                    site.body = body
                md5 = hashlib.md5(body, usedforsecurity=False).hexdigest()
                files.append(Archive(name, tuple(site.url for site in served), md5, len(body)))
            lists = {"ImageSets/Main/trainval.txt": 2, "ImageSets/Main/test.txt": 1}
            monkeypatch.setitem(archives.DATA_SETS, "voc2007", DataSet("Small", tuple(files), FOLDER, lists))
            return sites

        yield publish


def asked(sites):
    return {path: len(site.asked) for path, site in sites.items() if site.asked}


def everything(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_all_archives_are_unpacked_and_removed_once(publish, tmp_path):
    sites, stages, steps = publish(), [], []

    def report(title):
        stages.append(title.split()[0])
        return lambda *step: steps.append(step)

    for _ in range(2):
        assert get_data_set("voc2007", tmp_path / "new", report=report) == tmp_path / "new" / FOLDER
    assert everything(tmp_path / "new") == sorted([*TRAINVAL, *TEST])
    photo = tmp_path / "new" / FOLDER / "JPEGImages" / "000001.jpg"
    assert photo.read_bytes() == b"x" * 200_000
    assert photo.stat().st_mode & 0o7022 == 0  # neither set-uid nor writable by others, as the archive asks
    assert stages == ["downloading"] * 2 + ["unpacking"] * 2
    assert all(0 < done <= total for done, total in steps)
    assert asked(sites) == {"/host/trainval.tar": 1, "/host/test.tar": 1}


def test_a_lost_connection_is_continued_by_a_later_call_too(publish, tmp_path):
    sites = publish()
    site = sites["/host/trainval.tar"]
    site.cut_after, site.statuses = [100_000, 0], []
    sites["/mirror/trainval.tar"].statuses = [404]
    with pytest.raises(DownloadError, match=r"^url: "):
        get_data_set("voc2007", tmp_path)
    get_data_set("voc2007", tmp_path)
    assert site.asked == ["bytes=0-", "bytes=65536-", "bytes=65536-"]
    assert everything(tmp_path) == sorted([*TRAINVAL, *TEST])


def test_a_wrong_checksum_sends_to_the_mirror_and_then_gives_up(publish, tmp_path):
    sites = publish()
    sites["/host/test.tar"].body = b"not the archive"
    assert get_data_set("voc2007", tmp_path / "one").is_dir()
    assert asked(sites)["/mirror/test.tar"] == 1
    sites["/mirror/test.tar"].body = b"nor this"
    with pytest.raises(DownloadError, match=r"^url: "):
        get_data_set("voc2007", tmp_path / "two")
    assert everything(tmp_path / "two") == ["trainval.tar"]  # whole and checked: kept for the next call


def test_what_a_killed_process_left_is_cleared(publish, tmp_path):
    publish()
    (tmp_path / ".voc2007.part" / FOLDER).mkdir(parents=True)
    (tmp_path / ".voc2007.part" / FOLDER / "half.jpg").write_bytes(b"x")
    get_data_set("voc2007", tmp_path)
    assert everything(tmp_path) == sorted([*TRAINVAL, *TEST])


def test_an_archive_put_there_by_hand_is_used_and_kept(publish, tmp_path):
    sites = publish()
    (tmp_path / "test.tar").write_bytes(sites["/host/test.tar"].body)
    get_data_set("voc2007", tmp_path)
    assert asked(sites) == {"/host/trainval.tar": 1}
    assert everything(tmp_path) == sorted([*TRAINVAL, *TEST, "test.tar"])


def test_an_incomplete_data_set_is_not_touched(publish, tmp_path):
    sites = publish()
    (tmp_path / FOLDER).mkdir(parents=True)
    (tmp_path / FOLDER / "mine.txt").write_text("mine")
    with pytest.raises(FileExistsError, match=r"^into: "):
        get_data_set("voc2007", tmp_path)
    assert everything(tmp_path) == [f"{FOLDER}/mine.txt"]
    assert asked(sites) == {}


def member(name, kind=tarfile.REGTYPE, link=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


@pytest.mark.parametrize(
    "body",
    [
        make_tar(TEST, member("../escaped.txt")),
        make_tar(TEST, member(f"{FOLDER}/../../../escaped.txt")),
        make_tar(TEST, member(f"{FOLDER}/link", tarfile.SYMTYPE, "/etc")),
        make_tar(TEST, member(f"{FOLDER}/link", tarfile.SYMTYPE, "../../../..")),
        make_tar(TEST, member(f"{FOLDER}/pipe", tarfile.FIFOTYPE)),
        make_tar(TEST)[:515],
        make_tar({f"{FOLDER}/JPEGImages/000003.jpg": b"y"}),
        b"no tar at all",
    ],
)
def test_a_malicious_or_damaged_archive_leaves_nothing_behind(publish, tmp_path, body):
    publish(test=body)
    with pytest.raises(ValueError, match=r"^archive: "):
        get_data_set("voc2007", tmp_path / "deep" / "down")
    assert everything(tmp_path) == ["deep/down/test.tar", "deep/down/trainval.tar"]


def test_what_is_outside_the_folder_of_the_data_set_is_left_out(publish, tmp_path):
    publish(test=make_tar(TEST, member("VOCdevkit/extra.txt"), member("/extra.txt")))
    get_data_set("voc2007", tmp_path)
    assert everything(tmp_path) == sorted([*TRAINVAL, *TEST])


def test_an_unknown_name_and_a_bad_folder_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"^name: "):
        get_data_set("voc1999", tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"^into: "):
        get_data_set("voc2007", tmp_path / "file")


def test_every_address_is_that_of_its_archive_and_every_checksum_is_whole():
    for data_set in DATA_SETS.values():
        for archive in data_set.archives:
            assert len(archive.urls) > 1
            assert all(url.endswith(f"/{archive.name}") for url in archive.urls)
            assert len(bytes.fromhex(archive.md5)) == 16
