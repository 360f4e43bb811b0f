import hashlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from unseen.files import DownloadError, download, file_digest

BODY = bytes(range(256)) * 4000
OTHER = bytes(reversed(BODY))


def sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


@dataclass
class Site:
    """What a server holds, how it misbehaves, and what it was asked."""

    body: bytes = BODY
    etag: str | None = '"one"'
    ranges: bool = True
    cut_after: list[int] = field(
        default_factory=list
    )  # bytes sent before the connection is dropped, a request each
    statuses: list[int] = field(default_factory=list)  # answered first
    asked: list[tuple[str | None, str | None]] = field(default_factory=list)
    url: str = ""


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        site: Site = self.server.site  # type: ignore[attr-defined]
        wanted = self.headers.get("Range")
        site.asked.append((wanted, self.headers.get("If-Range")))
        if site.statuses:
            self.send_response(site.statuses.pop(0))
            self.send_header("Retry-After", "0")
            self.end_headers()
            return
        start = self._start(site, wanted)
        if start == len(site.body):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(site.body)}")
            self.end_headers()
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(site.body) - 1}/{len(site.body)}")
        if site.etag:
            self.send_header("ETag", site.etag)
        self.send_header("Content-Length", str(len(site.body) - start))
        self.end_headers()
        stop = start + site.cut_after.pop(0) if site.cut_after else len(site.body)
        self.wfile.write(site.body[start:stop])

    def _start(self, site: Site, wanted: str | None) -> int:
        fresh = self.headers.get("If-Range") in (None, site.etag)
        return int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and site.ranges and fresh else 0

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def site() -> Iterator[Site]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.site = Site(url=f"http://127.0.0.1:{server.server_port}/file.bin")  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server.site  # type: ignore[attr-defined]
        server.shutdown()
        thread.join()


def leftovers(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if path.name.startswith("."))


def test_a_file_is_fetched_once_and_checked(site: Site, tmp_path: Path) -> None:
    target = tmp_path / "new" / "file.bin"
    seen: list[tuple[int, int | None]] = []
    md5 = hashlib.md5(BODY, usedforsecurity=False).hexdigest()
    for _ in range(2):
        path = download(
            site.url, target, sha256=sha256(BODY).upper(), md5=md5, progress=lambda *at: seen.append(at)
        )
        assert path == target
    assert target.read_bytes() == BODY
    assert len(site.asked) == 1
    assert seen[0] == (0, len(BODY))
    assert seen[-1] == (len(BODY), len(BODY))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert leftovers(target.parent) == []
    assert file_digest(target, "md5") == md5


def test_a_dropped_connection_is_resumed_where_it_stopped(site: Site, tmp_path: Path) -> None:
    site.cut_after = [1000, 500_000]
    download(site.url, tmp_path / "f", sha256=sha256(BODY), backoff=0)
    assert (tmp_path / "f").read_bytes() == BODY
    assert site.asked == [(None, None), ("bytes=1000-", '"one"'), ("bytes=501000-", '"one"')]


def test_the_next_run_resumes_too(site: Site, tmp_path: Path) -> None:
    site.cut_after = [700_000]
    with pytest.raises(DownloadError, match=r"lost after 700000 of 1024000 bytes.*put it at '.*/f'"):
        download(site.url, tmp_path / "f", retries=0)
    assert not (tmp_path / "f").exists()
    assert leftovers(tmp_path) == [".f.part", ".f.part.json"]
    download(site.url, tmp_path / "f")
    assert site.asked[1] == ("bytes=700000-", '"one"')
    assert (tmp_path / "f").read_bytes() == BODY
    assert leftovers(tmp_path) == []


def test_an_interrupt_keeps_what_was_fetched(site: Site, tmp_path: Path) -> None:
    def interrupt(done: int, total: int | None) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        download(site.url, tmp_path / "f", progress=interrupt)
    download(site.url, tmp_path / "f")
    assert site.asked[1][0] not in (None, "bytes=0-")
    assert (tmp_path / "f").read_bytes() == BODY


@pytest.mark.parametrize("etag", ['"two"', None])
def test_a_file_that_has_changed_is_not_glued_to_an_old_part(site: Site, tmp_path: Path, etag: str | None) -> None:
    site.cut_after = [1000]
    if etag is None:
        site.etag = None
    with pytest.raises(DownloadError):
        download(site.url, tmp_path / "f", retries=0)
    site.body, site.etag = OTHER, etag
    download(site.url, tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == OTHER


def test_a_changed_size_is_noticed_without_a_validator(site: Site, tmp_path: Path) -> None:
    site.cut_after, site.etag = [1000], None
    with pytest.raises(DownloadError):
        download(site.url, tmp_path / "f", retries=0, sha256=sha256(BODY + b"!"))
    site.body = BODY + b"!"
    download(site.url, tmp_path / "f", sha256=sha256(BODY + b"!"), backoff=0)
    assert (tmp_path / "f").read_bytes() == BODY + b"!"


def test_a_server_without_ranges_starts_over(site: Site, tmp_path: Path) -> None:
    site.cut_after, site.ranges = [1000], False
    download(site.url, tmp_path / "f", backoff=0)
    assert (tmp_path / "f").read_bytes() == BODY


def test_a_whole_part_needs_no_more_bytes(site: Site, tmp_path: Path) -> None:
    site.cut_after = [len(BODY) - 1]
    with pytest.raises(DownloadError):
        download(site.url, tmp_path / "f", retries=0)
    with (tmp_path / ".f.part").open("ab") as part:
        part.write(BODY[-1:])
    download(site.url, tmp_path / "f", sha256=sha256(BODY))
    assert (tmp_path / "f").read_bytes() == BODY
    assert len(site.asked) == 1


def test_a_wrong_checksum_removes_the_file(site: Site, tmp_path: Path) -> None:
    with pytest.raises(
        DownloadError, match=r"is damaged or has changed: its sha256 is .*, not 00.*It was removed"
    ):
        download(site.url, tmp_path / "f", sha256="00" * 32)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_in_place_is_replaced(site: Site, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"damaged")
    download(site.url, tmp_path / "f", sha256=sha256(BODY))
    assert (tmp_path / "f").read_bytes() == BODY


def test_a_missing_file_is_not_asked_for_again(site: Site, tmp_path: Path) -> None:
    site.statuses = [404, 404]
    with pytest.raises(DownloadError, match=r"answered 404 .*download it by hand and put it at"):
        download(site.url, tmp_path / "f", backoff=0)
    assert len(site.asked) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_busy_server_is_asked_again(site: Site, tmp_path: Path) -> None:
    site.statuses = [503, 429]
    download(site.url, tmp_path / "f", backoff=3600)
    assert (tmp_path / "f").read_bytes() == BODY


def test_retries_come_to_an_end(site: Site, tmp_path: Path) -> None:
    site.statuses = [503] * 10
    with pytest.raises(DownloadError, match="503"):
        download(site.url, tmp_path / "f", retries=2, backoff=0)
    assert len(site.asked) == 3


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/f", "http://no-such-host.invalid/f"])
def test_a_host_out_of_reach_is_reported_with_a_way_out(tmp_path: Path, url: str) -> None:
    with pytest.raises(DownloadError, match=r"cannot be reached: .*by hand and put it at '.*/f'"):
        download(url, tmp_path / "f", retries=1, backoff=0)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://host/f", "nonsense"])
def test_only_http_is_spoken(tmp_path: Path, url: str) -> None:
    with pytest.raises(ValueError, match=r"url: .*http"):
        download(url, tmp_path / "f")


def test_a_place_that_cannot_be_written_is_named(site: Site, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DownloadError, match=r"path: .* cannot be written"):
        download(site.url, tmp_path / "file" / "f")


def test_several_at_once_fetch_it_once(site: Site, tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        paths = list(pool.map(lambda _: download(site.url, tmp_path / "f", sha256=sha256(BODY)), range(8)))
    assert {path.read_bytes() for path in paths} == {BODY}
    assert len(site.asked) == 1
    assert leftovers(tmp_path) == []
