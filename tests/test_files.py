"""Files are whole or absent, locks are exclusive, and downloads are checked, continued and made once."""

import hashlib
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from unseen.files import DownloadError, cache_dir, download, file_digest, locked, write_atomically

BODY = bytes(range(256)) * 4000
SHA256 = hashlib.sha256(BODY).hexdigest()


@dataclass
class Site:
    """A file on a server, how the server misbehaves, and the ranges it was asked for."""

    body: bytes = BODY
    ranges: bool = True
    cut_after: list[int] = field(default_factory=list)  # bytes sent before a connection is dropped, per request
    statuses: list[int] = field(default_factory=list)  # answered first
    asked: list[str | None] = field(default_factory=list)
    url: str = ""


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        site: Site = self.server.sites[self.path]  # type: ignore[attr-defined]
        site.asked.append(self.headers.get("Range"))
        if site.statuses:
            return self.answer(site.statuses.pop(0), b"", 0)
        start = int(site.asked[-1].removeprefix("bytes=").removesuffix("-")) if site.ranges else 0
        if start and start >= len(site.body):
            return self.answer(416, b"", 0)
        stop = start + site.cut_after.pop(0) if site.cut_after else len(site.body)
        return self.answer(206 if site.ranges else 200, site.body[start:stop], len(site.body) - start)

    def answer(self, status: int, body: bytes, length: int) -> None:
        self.send_response(status)
        self.send_header("Retry-After", "0")
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serve(*paths: str) -> Iterator[dict[str, Site]]:
    """Serve one file at each path on this machine."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        host = f"http://127.0.0.1:{server.server_port}"
        server.sites = {path: Site(url=host + path) for path in paths}  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.sites  # type: ignore[attr-defined]
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr("unseen.files._PAUSE", 0)
    with serve("/file.bin") as sites:
        yield sites["/file.bin"]


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_downloaded_once_and_checked(site: Site, tmp_path: Path) -> None:
    target = tmp_path / "new" / "file.bin"
    steps: list[tuple[int, int | None]] = []
    md5 = hashlib.md5(BODY, usedforsecurity=False).hexdigest()
    assert download(site.url, target, md5=md5.upper(), progress=lambda *step: steps.append(step)) == target
    download(site.url, target, sha256=SHA256)
    assert target.read_bytes() == BODY
    assert file_digest(target, "md5") == md5
    assert site.asked == ["bytes=0-"]
    assert steps[-1] == (len(BODY), len(BODY))
    assert steps == sorted(steps)
    assert files_in(target.parent) == ["file.bin"]


def test_a_lost_connection_is_continued_where_it_stopped(site: Site, tmp_path: Path) -> None:
    site.cut_after = [100_000, 500_000]
    download(site.url, tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == BODY
    assert site.asked == ["bytes=0-", "bytes=65536-", "bytes=524288-"]  # whole blocks count


def interrupt(done: int, total: int | None) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(("checksum", "continued"), [(SHA256, True), (None, False)], ids=str)
def test_the_next_call_continues_what_a_checksum_can_verify(
    site: Site, tmp_path: Path, checksum: str | None, continued: bool
) -> None:
    with pytest.raises(KeyboardInterrupt):
        download(site.url, tmp_path / "f", sha256=checksum, progress=interrupt)
    assert files_in(tmp_path) == [".f.part"]
    download(site.url, tmp_path / "f", sha256=checksum)
    assert (site.asked[1] != "bytes=0-") == continued
    assert (tmp_path / "f").read_bytes() == BODY
    assert files_in(tmp_path) == ["f"]


def test_a_whole_part_needs_no_more_bytes(site: Site, tmp_path: Path) -> None:
    (tmp_path / ".f.part").write_bytes(BODY)
    download(site.url, tmp_path / "f", sha256=SHA256)
    assert (tmp_path / "f").read_bytes() == BODY


def test_a_part_of_another_version_is_never_put_in_place(site: Site, tmp_path: Path) -> None:
    (tmp_path / ".f.part").write_bytes(b"old")
    with pytest.raises(DownloadError, match=r"^url: "):
        download(site.url, tmp_path / "f", sha256=SHA256)
    assert files_in(tmp_path) == []
    download(site.url, tmp_path / "f", sha256=SHA256)
    assert (tmp_path / "f").read_bytes() == BODY


def test_a_server_without_ranges_starts_over_and_is_given_up_when_it_gets_no_further(
    site: Site, tmp_path: Path
) -> None:
    site.ranges, site.cut_after = False, [100_000]
    download(site.url, tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == BODY
    site.cut_after = [100_000] * 10
    with pytest.raises(DownloadError, match=r"^url: "):
        download(site.url, tmp_path / "g")
    assert site.cut_after == [100_000] * 8


def test_a_file_with_a_wrong_checksum_is_replaced(site: Site, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"damaged")
    download(site.url, tmp_path / "f", sha256=SHA256)
    assert (tmp_path / "f").read_bytes() == BODY


def test_a_busy_server_is_asked_again_until_the_retries_end(site: Site, tmp_path: Path) -> None:
    site.statuses = [503, 429]
    download(site.url, tmp_path / "f")
    assert len(site.asked) == 3
    site.statuses = [503] * 10
    with pytest.raises(DownloadError, match=r"^url: "):
        download(site.url, tmp_path / "g")
    assert len(site.statuses) == 5


def test_a_failure_says_how_to_get_the_file_by_hand(
    site: Site, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    site.statuses = [404]
    for url in (site.url, "http://127.0.0.1:1/f", "http://no-such-host.invalid/f"):
        with pytest.raises(DownloadError, match=r"^url: ") as caught:
            download(url, tmp_path / "f")
        assert url in str(caught.value)
        assert repr(str(tmp_path / "f")) in str(caught.value)
    assert len(site.asked) == 1
    assert capfd.readouterr() == ("", "")
    assert logging.getLogger("pooch").level in (logging.NOTSET, logging.WARNING)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://host/f", "nonsense"])
def test_other_addresses_are_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(ValueError, match=r"^url: "):
        download(url, tmp_path / "f")


def test_downloads_without_pooch_name_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ImportError, match=r"unseen\[images\]"):
        download("https://host.invalid/f", tmp_path / "f")


def test_several_at_once_download_it_once(site: Site, tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        paths = list(pool.map(lambda _: download(site.url, tmp_path / "f", sha256=SHA256), range(8)))
    assert {path.read_bytes() for path in paths} == {BODY}
    assert len(site.asked) == 1


def test_a_place_that_cannot_be_written_is_named(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file" / "f"
    blocked.parent.write_text("in the way")
    with pytest.raises(DownloadError, match=r"^path: "):
        download(site.url, blocked)
    with pytest.raises(OSError, match=r"^path: "):
        write_atomically(blocked, Path.touch)
    monkeypatch.setenv("UNSEEN_CACHE", str(blocked))
    with pytest.raises(OSError, match=r"^cache: "):
        cache_dir()


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    def fail(path: Path) -> None:
        path.write_text("half")
        raise RuntimeError

    write_atomically(tmp_path / "new" / "f", lambda path: path.write_text("whole"))
    with pytest.raises(RuntimeError):
        write_atomically(tmp_path / "new" / "f", fail)
    assert (tmp_path / "new" / "f").read_text() == "whole"
    assert files_in(tmp_path / "new") == ["f"]


def test_the_cache_is_where_the_variable_says_or_else_in_the_users_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("UNSEEN_CACHE", str(tmp_path / "mine"))
    assert cache_dir("a", "b") == tmp_path / "mine" / "a" / "b"
    assert (tmp_path / "mine" / "a" / "b").is_dir()
    monkeypatch.setenv("UNSEEN_CACHE", "")
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name, **_: tmp_path / "cache" / name)
    assert cache_dir(create=False) == tmp_path / "cache" / "unseen"
    assert not (tmp_path / "cache").exists()


def test_a_lock_is_refused_or_waited_for_and_ends_with_its_holder(tmp_path: Path) -> None:
    lock, note = tmp_path / ".lock", tmp_path / "note"
    head = "import sys; from pathlib import Path; from unseen.files import locked; lock = Path(sys.argv[1])\n"
    holder = head + "with locked(lock): print('held', flush=True); sys.stdin.read()"
    waiter = head + "print('waiting', flush=True)\nwith locked(lock): print(Path(sys.argv[2]).read_text())"

    def start(program: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", program, lock, note], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline().strip() in ("held", "waiting")
        return process

    with start(holder) as held:
        with pytest.raises(BlockingIOError), locked(lock, wait=False):
            pass
        held.kill()
    with locked(lock, wait=False):
        waiting = start(waiter)
        note.write_text("written before the lock was released")
    assert waiting.communicate()[0] == "written before the lock was released\n"
    assert files_in(tmp_path) == ["note"]
