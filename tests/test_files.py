"""Files are whole or absent, locks are exclusive, and downloads are checked, continued and made once."""

import errno
import hashlib
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

from unseen.cli import app
from unseen.files import (
    DownloadError,
    cache_dir,
    csv_cell,
    csv_text,
    download,
    expanded,
    locked,
    write_atomically,
    writing,
)

BODY = bytes(range(256)) * 4000
SHA256 = "sha256:" + hashlib.sha256(BODY).hexdigest()


@dataclass
class Site:
    """A file on a server, how the server misbehaves, and the ranges it was asked for."""

    url: str
    body: bytes = BODY
    ranges: bool = True
    cut_after: list = field(default_factory=list)  # bytes sent before a connection is dropped, per request
    ends: list = field(default_factory=list)  # of parts that are answered first
    statuses: list = field(default_factory=list)  # answered first
    asked: list = field(default_factory=list)
    location: str = ""  # of a redirection
    headers: dict = field(default_factory=dict)  # instead of the right ones


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        site = self.server.sites[self.path]
        site.asked.append(self.headers["Range"])
        is_part = site.ranges and site.asked[-1] is not None
        start = int(site.asked[-1].removeprefix("bytes=").removesuffix("-")) if is_part else 0
        status = 206 if is_part else 200
        if site.statuses or (is_part and start > len(site.body) - 1):
            status, start = site.statuses.pop(0) if site.statuses else 416, len(site.body)
        status, end = (206, site.ends.pop(0)) if site.ends else (status, len(site.body))
        stop = start + site.cut_after.pop(0) if site.cut_after else end
        self.send_response(status)
        if site.location:
            self.send_header("Location", site.location)
        self.send_header("Retry-After", "0")
        headers = {"Content-Length": end - start}
        if status == 206:
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(site.body)}"
        for name, value in (headers | site.headers).items():
            self.send_header(name, str(value))
        self.end_headers()
        with suppress(ConnectionError):
            self.wfile.write(site.body[start:stop])

    def log_message(self, *_):
        pass


@contextmanager
def serve(*paths):
    """Serve one file at each path on this machine."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.sites = {path: Site(f"http://127.0.0.1:{server.server_port}{path}") for path in paths}
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.sites
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def site(monkeypatch):
    monkeypatch.setattr("unseen.files._PAUSE", 0)
    with serve("/file.bin") as sites:
        yield sites["/file.bin"]


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_downloaded_once_and_checked(site, tmp_path):
    target, steps = tmp_path / "new" / "file.bin", []
    md5 = hashlib.md5(BODY, usedforsecurity=False).hexdigest()
    assert download(site.url, target, "md5:" + md5, lambda *step: steps.append(step)) == target
    download(site.url, target, SHA256)
    assert site.asked == [None]
    assert steps == sorted(steps)
    assert steps[-1] == (len(BODY), len(BODY))
    target.write_bytes(b"damaged")
    download(site.url, target, SHA256)
    assert target.read_bytes() == BODY
    assert names_in(target.parent) == ["file.bin"]


def test_a_lost_connection_is_continued_where_it_stopped(site, tmp_path):
    site.cut_after = [100_000, 500_000]
    download(site.url, tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == BODY
    assert site.asked == [None, "bytes=65536-", "bytes=524288-"]  # whole blocks count


@pytest.mark.parametrize(("checksum", "continued"), [(SHA256, True), (None, False)], ids=str)
def test_the_next_call_continues_what_a_checksum_can_verify(site, tmp_path, checksum, continued):
    def interrupt(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        download(site.url, tmp_path / "f", checksum, progress=interrupt)
    assert names_in(tmp_path) == [".f.part"]
    download(site.url, tmp_path / "f", checksum)
    assert (site.asked[1] is not None) == continued
    assert (tmp_path / "f").read_bytes() == BODY


def test_a_part_is_used_if_the_checksum_agrees_and_dropped_if_not(site, tmp_path):
    (tmp_path / ".f.part").write_bytes(BODY)
    download(site.url, tmp_path / "f", SHA256)
    (tmp_path / ".g.part").write_bytes(b"of another version")
    with pytest.raises(DownloadError, match=r"^url: "):
        download(site.url, tmp_path / "g", SHA256)
    assert names_in(tmp_path) == ["f"]


def test_a_server_that_gets_no_further_is_given_up(site, tmp_path):
    site.ranges, site.cut_after = False, [100_000] * 11
    with pytest.raises(DownloadError, match=r"^url: "):
        download(site.url, tmp_path / "f")
    assert len(site.cut_after) == 9
    site.cut_after = [100_000]
    download(site.url, tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == BODY


def test_a_busy_server_is_asked_again_until_the_retries_end(site, tmp_path):
    site.statuses = [503, 429]
    download(site.url, tmp_path / "f")
    assert len(site.asked) == 3
    site.statuses = [503] * 10
    with pytest.raises(DownloadError, match=r"^url: "):
        download(site.url, tmp_path / "g")
    assert len(site.statuses) == 5


def test_a_failure_says_how_to_get_the_file_by_hand(site, tmp_path, capfd):
    site.statuses = [404]
    for url in (site.url, "http://127.0.0.1:1/f", "https://no-such-host.invalid/f"):
        with pytest.raises(DownloadError, match=r"^url: ") as caught:
            download(url, tmp_path / "f")
        assert url in str(caught.value)
        assert repr(str(tmp_path / "f")) in str(caught.value)
    assert len(site.asked) == 1
    assert capfd.readouterr() == ("", "")
    with pytest.raises(ValueError, match=r"^url: "):
        download("file:///etc/passwd", tmp_path / "f")


def test_only_safe_addresses_are_asked(site, tmp_path, monkeypatch):
    for url in ("http://example.org/file.bin", "ftp://example.org/file.bin", "file:///etc/passwd"):
        for checksum in (None, f"md5:{'0' * 32}"):
            with pytest.raises(ValueError, match=r"^url: .*https"):
                download(url, tmp_path / "file.bin", checksum)
    site.statuses, site.location = [302], "http://example.org/file.bin"
    with pytest.raises(DownloadError, match=r"without HTTPS"):
        download(site.url, tmp_path / "file.bin")
    site.location = ""
    monkeypatch.setattr("unseen.files.MOST_DOWNLOADED", len(BODY) - 1)
    with pytest.raises(DownloadError, match=r"too much"):
        download(site.url, tmp_path / "file.bin")
    assert not (tmp_path / "file.bin").exists()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"statuses": [204]}, "answers 204"),
        ({"statuses": [206], "headers": {"Content-Range": "x"}}, "a part of it"),
        ({"body": b""}, "it is empty"),
        ({"headers": {"Content-Length": "abc"}}, "its length is said to be abc"),
        ({"headers": {"Content-Length": "9" * 5000}}, "its length is said to be 999"),
        ({"headers": {"Content-Length": "-5"}}, "its length is said to be -5"),
        ({"statuses": [302], "location": "http://["}, "Invalid IPv6 URL"),
        ({"statuses": [206], "headers": {"Content-Range": "bytes 5-9/10"}}, "another part than was asked for"),
    ],
)
def test_what_is_not_the_whole_file_is_not_put_in_place(site, tmp_path, changes, reason):
    vars(site).update(changes)
    with pytest.raises(DownloadError, match=rf"^url: .* cannot be downloaded \(.*({reason})"):
        download(site.url, tmp_path / "f")
    assert not (tmp_path / "f").exists()


def test_an_answer_that_ends_early_is_continued_if_there_is_more(site, tmp_path):
    site.ends = [100_000]
    assert download(site.url, tmp_path / "f").read_bytes() == BODY
    assert site.asked == [None, "bytes=100000-"]
    site.ends = [100_000] * 2
    with pytest.raises(DownloadError, match=rf"ends after 100,000 of {len(BODY):,} bytes"):
        download(site.url, tmp_path / "g")


def test_an_address_that_cannot_be_parsed_is_refused(tmp_path):
    for url in ("https://[", "http://[::1", "", "x"):
        with pytest.raises(ValueError, match=r"^url: "):
            download(url, tmp_path / "f")
    with pytest.raises(DownloadError, match=r"^url: "):
        download("http://[", tmp_path / "f", SHA256)


def test_several_at_once_download_it_once(site, tmp_path):
    with ThreadPoolExecutor(4) as pool:
        paths = list(pool.map(lambda _: download(site.url, tmp_path / "f", SHA256), range(8)))
    assert {path.read_bytes() for path in paths} == {BODY}
    assert len(site.asked) == 1


def test_a_place_that_cannot_be_written_is_named(site, tmp_path):
    blocked = tmp_path / "file" / "f"
    blocked.parent.write_text("in the way")
    with pytest.raises(DownloadError, match=r"^path: "):
        download(site.url, blocked)
    with pytest.raises(OSError, match=r"^path: "):
        write_atomically(blocked, Path.touch)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    def fail(path):
        path.write_text("half")
        raise RuntimeError

    write_atomically(tmp_path / "new" / "f", lambda path: path.write_text("whole"))
    with pytest.raises(RuntimeError):
        write_atomically(tmp_path / "new" / "f", fail)
    assert (tmp_path / "new" / "f").read_text() == "whole"
    assert names_in(tmp_path / "new") == ["f"]


def test_what_a_kill_left_is_removed_and_writers_take_turns(tmp_path):
    program = (
        "import os, signal, sys; from pathlib import Path; from unseen.files import write_atomically\n"
        "def die(part): part.write_text('half'); os.kill(os.getpid(), signal.SIGKILL)\n"
        "write_atomically(Path(sys.argv[1]), die)"
    )
    assert subprocess.run([sys.executable, "-c", program, tmp_path / "f"]).returncode == -9
    assert names_in(tmp_path) == sorted([".252f10c83610ebca.lock", ".252f10c83610ebca.part"])
    inside = []

    def write(path):
        inside.append(path.exists() and path.read_text() != "half")  # of another thread
        path.write_text("whole")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: write_atomically(tmp_path / "f", write), range(8)))
    assert inside == [False] * 8
    assert (tmp_path / "f").read_text() == "whole"
    assert names_in(tmp_path) == ["f"]


def test_a_full_disk_is_named_with_what_to_do(tmp_path):
    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    for act in (lambda: write_atomically(tmp_path / "f", fail), lambda: writing_to(tmp_path / "f", fail)):
        with pytest.raises(OSError, match=r"f' cannot be written \(No space left on device\)\. Free some space"):
            act()
    with pytest.raises(PermissionError), writing(tmp_path):
        raise PermissionError(errno.EACCES, "Permission denied", "other")
    assert names_in(tmp_path) == []


def writing_to(path, act):
    with writing(path):
        act()


def test_the_cache_is_where_the_variable_says_or_else_in_the_users_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("UNSEEN_CACHE", str(tmp_path / "mine"))
    assert cache_dir("a", "b") == tmp_path / "mine" / "a" / "b"
    monkeypatch.setenv("UNSEEN_CACHE", "")
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name, **_: tmp_path / "cache" / name)
    assert cache_dir() == tmp_path / "cache" / "unseen"


def test_a_lock_is_refused_or_waited_for_and_ends_with_its_holder(tmp_path):
    lock, note = tmp_path / ".lock", tmp_path / "note"
    head = "import sys; from pathlib import Path; from unseen.files import locked; lock = Path(sys.argv[1])\n"
    holder = head + "with locked(lock): print('held', flush=True); sys.stdin.read()"
    waiter = head + "print('waiting', flush=True)\nwith locked(lock): print(Path(sys.argv[2]).read_text())"

    def start(program):
        command = [sys.executable, "-c", program, lock, note]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdout.readline().strip() in ("held", "waiting")
        return process

    with start(holder) as held:
        with pytest.raises(OSError, match=r"^path: "), locked(lock, wait=False):
            pass
        held.kill()
    with locked(lock, wait=False):
        waiting = start(waiter)
        note.write_text("written before the lock was released")
    assert waiting.communicate()[0] == "written before the lock was released\n"
    assert names_in(tmp_path) == ["note"]


def test_a_cell_is_never_a_formula_and_gives_back_its_text():
    made = {"=1+1": "'=1+1", "+x": "'+x", "-x": "'-x", "@x": "'@x", "\tx": "'\tx", "\rx": "'\rx",
            "\uff1dx": "'\uff1dx", "'=x": "''=x", "'x": "'x", "a=b": "a=b", "": ""}  # fmt: skip
    assert {text: csv_cell(text) for text in made} == made
    assert [csv_text(cell) for cell in made.values()] == list(made)


@pytest.mark.parametrize("path", ["~no-such-user/x", "~no-such-user"])
def test_the_home_of_an_unknown_user_is_a_path_like_any_other(path, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert expanded(path) == Path(path)
    assert expanded("~/x") == Path.home() / "x"
    monkeypatch.setenv("UNSEEN_CACHE", path)
    assert cache_dir() == tmp_path / path
    sources = Path(__file__).parents[1].joinpath("src").rglob("*.py")
    assert [file.name for file in sources if "expanduser(" in file.read_text(encoding="utf-8")] == ["files.py"]
    for command in (["data", "show", path], ["labels", "--seen", "a,b", "--vectors", path], ["index", path]):
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 2
        assert path in done.stderr
