import hashlib
import io
import tarfile
import threading
from http.server import ThreadingHTTPServer

import pytest
from tests.test_files_download import Handler, Site

from unseen.datasets.download import DATA_SETS, Archive, DataSet, data_set_is_there, get_data_set
from unseen.files import DownloadError
from unseen.datasets import download as archives

FOLDER = "VOCdevkit/VOC2007"
TRAINVAL = {
    f"{FOLDER}/ImageSets/Main/trainval.txt": b"000001\n000002\n",
    f"{FOLDER}/JPEGImages/000001.jpg": b"x" * 9000,
}
TEST = {f"{FOLDER}/ImageSets/Main/test.txt": b"000003\n", f"{FOLDER}/JPEGImages/000003.jpg": b"y"}


def make_tar(files, *extra):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        folder = tarfile.TarInfo(FOLDER.partition("/")[0])
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            member.mode = 0o4777
            tar.addfile(member, io.BytesIO(content))
        for member in extra:
            tar.addfile(member)
    return buffer.getvalue()


class Shelf(Handler):
    """Several files, each with its own misbehaviour."""

    def do_GET(self):  # noqa: N802 - the name that http.server calls
        self.server.site = self.server.sites[self.path]
        super().do_GET()


@pytest.fixture
def server(monkeypatch):
    """A host and its mirror with a small data set of two archives, known as voc2007."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Shelf) as server:
        server.sites = {}
        address = f"http://127.0.0.1:{server.server_port}"

        def publish(trainval=make_tar(TRAINVAL), test=make_tar(TEST)):  # noqa: B008
            files = []
            for name, body in (("trainval.tar", trainval), ("test.tar", test)):
                for host in ("host", "mirror"):
                    server.sites[f"/{host}/{name}"] = Site(body=body)
                urls = tuple(f"{address}/{host}/{name}" for host in ("host", "mirror"))
                files.append(Archive(name, urls, hashlib.md5(body, usedforsecurity=False).hexdigest(), len(body)))
            lists = {"ImageSets/Main/trainval.txt": 2, "ImageSets/Main/test.txt": 1}
            monkeypatch.setitem(archives.DATA_SETS, "voc2007", DataSet("Small", tuple(files), FOLDER, lists))
            return server.sites

        publish()
        server.publish = publish
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def asked(server):
    return {path: len(site.asked) for path, site in server.sites.items() if site.asked}


def everything(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_both_archives_become_one_folder_and_nothing_else_stays(server, tmp_path):
    stages = []

    def report(title):
        stages.append(title)
        return lambda done, total: stages.append((done, total))

    folder = get_data_set("voc2007", tmp_path / "new", report=report)
    assert folder == tmp_path / "new" / FOLDER
    assert everything(tmp_path / "new") == sorted([*TRAINVAL, *TEST])
    assert (folder / "JPEGImages" / "000001.jpg").read_bytes() == b"x" * 9000
    assert [stage.split()[0] for stage in stages if isinstance(stage, str)] == ["downloading"] * 2 + [
        "unpacking"
    ] * 2
    size = len(server.sites["/host/test.tar"].body)
    assert stages[-1] == (size, size)


def test_permissions_in_an_archive_are_not_taken_over(server, tmp_path):
    folder = get_data_set("voc2007", tmp_path)
    assert (folder / "JPEGImages" / "000001.jpg").stat().st_mode & 0o7111 == 0


def test_a_data_set_that_is_there_is_not_fetched_again(server, tmp_path):
    assert not data_set_is_there(DATA_SETS["voc2007"], tmp_path)
    get_data_set("voc2007", tmp_path)
    assert data_set_is_there(DATA_SETS["voc2007"], tmp_path)
    assert get_data_set("voc2007", tmp_path) == tmp_path / FOLDER
    assert asked(server) == {"/host/trainval.tar": 1, "/host/test.tar": 1}


def test_a_broken_connection_is_continued(server, tmp_path):
    site = server.sites["/host/trainval.tar"]
    site.cut_after = [5000]
    get_data_set("voc2007", tmp_path, backoff=0)
    assert [wanted for wanted, _ in site.asked] == [None, "bytes=5000-"]
    assert everything(tmp_path) == sorted([*TRAINVAL, *TEST])


def test_a_later_call_continues_too(server, tmp_path):
    site = server.sites["/host/trainval.tar"]
    site.cut_after = [5000]
    server.sites["/mirror/trainval.tar"].statuses = [404]
    with pytest.raises(DownloadError, match="cannot be downloaded"):
        get_data_set("voc2007", tmp_path, retries=0)
    get_data_set("voc2007", tmp_path)
    assert [wanted for wanted, _ in site.asked] == [None, "bytes=5000-"]


def test_a_wrong_checksum_sends_to_the_mirror_and_then_gives_up(server, tmp_path):
    server.sites["/host/test.tar"].body = b"not the archive"
    assert get_data_set("voc2007", tmp_path / "one").is_dir()
    assert asked(server)["/mirror/test.tar"] == 1
    server.sites["/mirror/test.tar"].body = b"nor this"
    with pytest.raises(DownloadError, match="is damaged or has changed: its md5"):
        get_data_set("voc2007", tmp_path / "two")
    assert everything(tmp_path / "two") == ["trainval.tar"]  # whole and checked: kept for the next call


def test_what_a_killed_process_left_is_cleared(server, tmp_path):
    left = tmp_path / ".VOC2007.part" / FOLDER
    left.mkdir(parents=True)
    (left / "half.jpg").write_bytes(b"x")
    get_data_set("voc2007", tmp_path)
    assert everything(tmp_path) == sorted([*TRAINVAL, *TEST])


def test_an_archive_put_there_by_hand_is_used_and_kept(server, tmp_path):
    (tmp_path / "test.tar").write_bytes(server.sites["/host/test.tar"].body)
    get_data_set("voc2007", tmp_path)
    assert asked(server) == {"/host/trainval.tar": 1}
    assert everything(tmp_path) == sorted([*TRAINVAL, *TEST, "test.tar"])


def test_another_file_in_the_place_of_an_archive_is_not_overwritten(server, tmp_path):
    (tmp_path / "test.tar").write_text("mine")
    with pytest.raises(FileExistsError, match=r"test.tar' is there, but damaged or another file"):
        get_data_set("voc2007", tmp_path)
    assert (tmp_path / "test.tar").read_text() == "mine"


def test_an_incomplete_data_set_is_not_touched(server, tmp_path):
    (tmp_path / FOLDER).mkdir(parents=True)
    (tmp_path / FOLDER / "mine.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="does not hold the whole data set"):
        get_data_set("voc2007", tmp_path)
    assert everything(tmp_path) == [f"{FOLDER}/mine.txt"]
    assert asked(server) == {}


def member(name, kind=tarfile.REGTYPE, link=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (member("../escaped.txt"), "outside"),
        (member(f"{FOLDER}/../../../escaped.txt"), "outside"),
        (member("/tmp/escaped.txt"), "outside"),
        (member("VOCdevkit/escaped.txt"), "outside"),
        (member("VOCdevkit"), "outside"),
        (member("other", tarfile.DIRTYPE), "outside"),
        (member(f"{FOLDER}/..\\..\\escaped.txt"), "outside"),
        (member(f"{FOLDER}/C:escaped.txt"), "outside"),
        (member(f"{FOLDER}/link", tarfile.SYMTYPE, "/etc"), "link or a device"),
        (member(f"{FOLDER}/link", tarfile.SYMTYPE, "JPEGImages"), "link or a device"),
        (member(f"{FOLDER}/hard", tarfile.LNKTYPE, f"{FOLDER}/JPEGImages/000003.jpg"), "link or a device"),
        (member(f"{FOLDER}/pipe", tarfile.FIFOTYPE), "link or a device"),
    ],
)
def test_a_malicious_archive_leaves_nothing_behind(server, tmp_path, extra, message):
    server.publish(test=make_tar(TEST, extra))
    into = tmp_path / "deep" / "down"
    with pytest.raises(ValueError, match=message):
        get_data_set("voc2007", into)
    assert everything(tmp_path) == ["deep/down/test.tar", "deep/down/trainval.tar"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"no tar at all", "cannot be unpacked"),
        (make_tar(TEST)[:1030], "cannot be unpacked"),
        (make_tar(TEST)[:700], "is missing or incomplete"),
        (make_tar({f"{FOLDER}/JPEGImages/000003.jpg": b"y"}), r"test.txt' is missing or incomplete"),
    ],
)
def test_a_useless_archive_leaves_no_data_set(server, tmp_path, body, message):
    server.publish(test=body)
    with pytest.raises(ValueError, match=message):
        get_data_set("voc2007", tmp_path)
    assert not (tmp_path / "VOCdevkit").exists()
    assert [name for name in everything(tmp_path) if name.startswith(".")] == []


def test_an_unreachable_host_and_unknown_names_are_told(server, monkeypatch, tmp_path):
    archive = Archive("a.tar", ("http://nowhere.invalid/a.tar", "http://nowhere.invalid/b.tar"), "0" * 32, 1)
    monkeypatch.setitem(archives.DATA_SETS, "voc2007", DataSet("Away", (archive,), FOLDER, {"a.txt": 1}))
    with pytest.raises(DownloadError, match=r"a\.tar cannot be downloaded .* Nor could .*b\.tar") as caught:
        get_data_set("voc2007", tmp_path)
    assert str(tmp_path / "a.tar") in str(caught.value)
    with pytest.raises(ValueError, match="name: 'voc1999'"):
        get_data_set("voc1999", tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"into: .* cannot be written"):
        get_data_set("voc2007", tmp_path / "file")


def test_every_address_is_that_of_its_archive_and_every_checksum_is_whole():
    for data_set in DATA_SETS.values():
        for archive in data_set.archives:
            assert len(archive.urls) > 1
            assert all(url.endswith(f"/{archive.name}") for url in archive.urls)
            assert len(bytes.fromhex(archive.md5)) == 16
