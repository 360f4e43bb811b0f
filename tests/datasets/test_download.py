"""Data sets are fetched from host or mirror, checked, and appear whole or not at all."""

import hashlib
import io
import tarfile

import pytest
from tests.test_files import serve

from unseen.datasets.download import DATA_SETS, DataSet, get_data_set
from unseen.files import DownloadError

FOLDER = "VOCdevkit/VOC2007"
FILES = {f"{FOLDER}/trainval.txt": b"000001\n000002\n", f"{FOLDER}/JPEGs/000001.jpg": b"x" * 200_000}


def make_tar(files=FILES, name="", kind=tarfile.REGTYPE, link=""):
    """Archive of files, and of one more member if it has a name."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path, content in files.items():
            member = tarfile.TarInfo(path)
            member.size, member.mode = len(content), 0o4777
            tar.addfile(member, io.BytesIO(content))
        if name:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, link
            tar.addfile(member)
    return buffer.getvalue()


@pytest.fixture
def publish(monkeypatch):
    """Serve a small data set of one archive from a host and a mirror, known as voc2007."""
    monkeypatch.setattr("unseen.files._PAUSE", 0)
    with serve("/host/all.tar", "/mirror/all.tar") as sites:

        def publish(body=make_tar()):  # noqa: B008
            sites["/host/all.tar"].body = sites["/mirror/all.tar"].body = body
            hosts = tuple(site.url.removesuffix("/all.tar") for site in sites.values())
            archives = {"all.tar": (hashlib.md5(body, usedforsecurity=False).hexdigest(), len(body))}
            data_set = DataSet("Small", hosts, archives, FOLDER, {"trainval.txt": 2})
            monkeypatch.setitem(DATA_SETS, "voc2007", data_set)
            return sites.values()

        yield publish


def everything(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_an_archive_is_downloaded_unpacked_and_removed_once(publish, tmp_path):
    host, mirror = publish()
    stages, steps = [], []

    def report(title):
        stages.append(title.split()[0])
        return lambda *step: steps.append(step)

    for _ in range(2):
        assert get_data_set("voc2007", tmp_path / "new", report=report) == tmp_path / "new" / FOLDER
    assert everything(tmp_path / "new") == sorted(FILES)
    photo = tmp_path / "new" / FOLDER / "JPEGs" / "000001.jpg"
    assert photo.stat().st_mode & 0o7022 == 0  # neither set-uid nor writable by others, as the archive asks
    assert stages == ["downloading", "unpacking"]
    assert all(0 < done <= total for done, total in steps)
    assert (len(host.asked), len(mirror.asked)) == (1, 0)


def test_a_wrong_checksum_sends_to_the_mirror_and_then_gives_up(publish, tmp_path):
    host, mirror = publish()
    host.body = b"not the archive"
    assert get_data_set("voc2007", tmp_path / "one").is_dir()
    mirror.body = b"nor this"
    with pytest.raises(DownloadError, match=r"^url: "):
        get_data_set("voc2007", tmp_path / "two")
    assert everything(tmp_path / "two") == []


@pytest.mark.parametrize(
    "changes", [{"headers": {"Content-Length": "x"}}, {"statuses": [302], "location": "http://["}]
)
def test_a_server_that_makes_no_sense_sends_to_the_mirror(publish, tmp_path, changes):
    host, _ = publish()
    vars(host).update(changes)
    get_data_set("voc2007", tmp_path)
    assert everything(tmp_path) == sorted(FILES)


def test_what_a_kill_leaves_is_used_and_cleared(publish, tmp_path):
    host, _ = publish()
    (tmp_path / ".all.tar").write_bytes(host.body)  # killed before it was unpacked, then before it was removed
    for _ in range(2):
        get_data_set("voc2007", tmp_path)
        assert host.asked == []
        assert everything(tmp_path) == sorted(FILES)
        (tmp_path / ".all.tar").write_bytes(host.body)
        (tmp_path / ".voc2007.part").mkdir()
    get_data_set("voc2007", tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["VOCdevkit"]


def test_what_is_there_is_used_or_cleared_but_not_overwritten(publish, tmp_path):
    host, _ = publish()
    (tmp_path / "all.tar").write_bytes(host.body)  # put there by hand
    (tmp_path / ".voc2007.part").mkdir()
    (tmp_path / ".voc2007.part" / "half.jpg").write_bytes(b"left by a killed process")
    get_data_set("voc2007", tmp_path)
    assert host.asked == []
    assert everything(tmp_path) == sorted([*FILES, "all.tar"])
    (tmp_path / FOLDER / "trainval.txt").write_text("mine")
    with pytest.raises(FileExistsError, match=r"^into: "):
        get_data_set("voc2007", tmp_path)
    assert (tmp_path / FOLDER / "trainval.txt").read_text() == "mine"


@pytest.mark.parametrize(
    "body",
    [
        make_tar(name="../escaped.txt"),
        make_tar(name=f"{FOLDER}/../../../escaped.txt"),
        make_tar(name=f"{FOLDER}/link", kind=tarfile.SYMTYPE, link="/etc"),
        make_tar(name=f"{FOLDER}/link", kind=tarfile.SYMTYPE, link="../../../.."),
        make_tar(name=f"{FOLDER}/pipe", kind=tarfile.FIFOTYPE),
        make_tar()[:515],
        make_tar({f"{FOLDER}/JPEGs/000003.jpg": b"y"}),
        b"not a tar at all",
    ],
)
def test_a_malicious_or_damaged_archive_leaves_nothing_behind(publish, tmp_path, body):
    publish(body)
    with pytest.raises(ValueError, match=r"^archive: "):
        get_data_set("voc2007", tmp_path / "deep" / "down")
    assert everything(tmp_path) == ["deep/down/.all.tar"]


def test_wrong_arguments_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"^name: "):
        get_data_set("voc1999", tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"^into: "):
        get_data_set("voc2007", tmp_path / "file")


def test_every_data_set_has_a_mirror_and_whole_checksums():
    for data_set in DATA_SETS.values():
        assert len(data_set.hosts) > 1
        assert {len(bytes.fromhex(md5)) for md5, _ in data_set.archives.values()} == {16}
