import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

from unseen.labels.flickr import FlickrAPI, FlickrError, flickr_hit_counts

LABELS = ["dog", "dining table", "sofa"]
PHOTOS = {"dog": 50, "dining table": 20, "sofa": 30, "dining table,dog": 4, "dog,sofa": 9, "dining table,sofa": 7}

Reply = tuple[int, str] | None


class Flickr:
    """A server that speaks the JSON of Flickr's photo search; `misbehave` may give another reply to a request."""

    def __init__(self) -> None:
        self.asked: list[dict[str, str]] = []
        self.misbehave: Callable[[int, dict[str, str]], Reply] = lambda number, query: None
        self.headers: dict[str, str] = {}
        flickr = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                query = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
                flickr.asked.append(query)
                status, body = flickr.misbehave(len(flickr.asked), query) or (200, flickr.answer(query))
                if status == 0:  # hang up in the middle of the answer
                    self.send_response(200)
                    self.send_header("Content-Length", "1000")
                    self.end_headers()
                    self.wfile.write(body.encode())
                    return
                self.send_response(status)
                for name, value in flickr.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/services/rest/"

    @staticmethod
    def answer(query: dict[str, str]) -> str:
        if query["api_key"] != "good":
            return json.dumps({"stat": "fail", "code": 100, "message": "Invalid API Key (Key has invalid format)"})
        total = PHOTOS.get(query.get("tags") or query["text"].replace('"', ""), 0)
        return json.dumps({"photos": {"page": 1, "pages": total, "perpage": 1, "total": str(total)}, "stat": "ok"})


class Clock:
    """Time that passes only when somebody waits."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []

    def time(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


@pytest.fixture
def flickr() -> Iterator[Flickr]:
    server = Flickr()
    thread = threading.Thread(target=server.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.server.shutdown()
    thread.join()
    server.server.server_close()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def api(flickr: Flickr, clock: Clock) -> FlickrAPI:
    return FlickrAPI("good", base_url=flickr.url, retries=2, clock=clock.time, sleep=clock.sleep)


def expected() -> np.ndarray:
    return np.array([[50, 4, 9], [4, 20, 7], [9, 7, 30]])


def test_labels_and_pairs_are_counted(flickr: Flickr, api: FlickrAPI, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    hits = flickr_hit_counts(
        LABELS, api=api, cache=tmp_path / "a.sqlite", progress=lambda done, of: told.append((done, of))
    )
    np.testing.assert_array_equal(hits.counts, expected())
    assert told == [(done, 6) for done in range(1, 7)]
    assert hits.source.startswith("Flickr, photos by tags, asked on 20")
    first = flickr.asked[0]
    assert first["method"] == "flickr.photos.search"
    assert (first["format"], first["nojsoncallback"], first["tag_mode"]) == ("json", "1", "all")


def test_text_and_filters_are_passed_on(flickr: Flickr, api: FlickrAPI, tmp_path: Path) -> None:
    filters = {"min_upload_date": "2010-01-01"}
    flickr_hit_counts(["dog", "Dining  Table"], api=api, cache=tmp_path / "a", mode="text", filters=filters)
    assert [query["text"] for query in flickr.asked] == ["dog", '"dining table"', '"dining table" dog']
    assert {query["min_upload_date"] for query in flickr.asked} == {"2010-01-01"}
    assert not any("tags" in query for query in flickr.asked)


def test_pairs_of_what_never_occurs_are_not_asked(flickr: Flickr, api: FlickrAPI, tmp_path: Path) -> None:
    hits = flickr_hit_counts(["dog", "zzz", "sofa"], api=api, cache=tmp_path / "a")
    assert len(flickr.asked) == 4
    assert hits.problems().no_hits == ("'zzz'",)


def test_a_second_run_asks_nothing_and_a_new_label_only_what_is_new(
    flickr: Flickr, api: FlickrAPI, tmp_path: Path
) -> None:
    flickr_hit_counts(["dog", "sofa"], api=api, cache=tmp_path / "a")
    assert len(flickr.asked) == 3
    hits = flickr_hit_counts(["SOFA", "dog"], api=api, cache=tmp_path / "a")
    assert len(flickr.asked) == 3
    np.testing.assert_array_equal(hits.counts, [[30, 9], [9, 50]])
    flickr_hit_counts(LABELS, api=api, cache=tmp_path / "a")
    assert len(flickr.asked) == 6
    flickr_hit_counts(["dog"], api=api, cache=tmp_path / "a", mode="text")
    assert len(flickr.asked) == 7


def test_a_run_that_died_halfway_goes_on_where_it_stopped(flickr: Flickr, api: FlickrAPI, tmp_path: Path) -> None:
    flickr.misbehave = lambda number, query: (503, "down") if number > 3 else None
    with pytest.raises(FlickrError, match=r"no answer to .*in 3 tries: HTTP status 503.*run the same again"):
        flickr_hit_counts(LABELS, api=api, cache=tmp_path / "a")
    assert len(flickr.asked) == 3 + 3  # three answers, then one question in three tries
    flickr.misbehave = lambda number, query: None
    hits = flickr_hit_counts(LABELS, api=api, cache=tmp_path / "a")
    np.testing.assert_array_equal(hits.counts, expected())
    assert len(flickr.asked) == 6 + 3
    assert len({query["tags"] for query in flickr.asked}) == 6


def test_ctrl_c_loses_no_answer(flickr: Flickr, api: FlickrAPI, tmp_path: Path) -> None:
    def interrupt(done: int, _: int) -> None:
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        flickr_hit_counts(LABELS, api=api, cache=tmp_path / "a", progress=interrupt)
    assert len(flickr.asked) == 4
    flickr_hit_counts(LABELS, api=api, cache=tmp_path / "a")
    assert len(flickr.asked) == 6


@pytest.mark.parametrize(
    "reply",
    [
        (500, "oops"),
        (502, "<html>bad gateway</html>"),
        (429, "slow down"),
        (0, '{"photos":'),
        (200, "<html>not JSON</html>"),
        (200, '{"photos": {"total": "many"}, "stat": "ok"}'),
        (200, '{"photos": {"total": -3}, "stat": "ok"}'),
        (200, '{"stat": "ok"}'),
        (200, "[1, 2]"),
        (200, '{"stat": "fail", "code": 105, "message": "Service currently unavailable"}'),
    ],
)
def test_what_may_pass_is_tried_again_with_longer_waits(
    flickr: Flickr, api: FlickrAPI, clock: Clock, reply: tuple[int, str]
) -> None:
    flickr.misbehave = lambda number, query: reply if number < 3 else None
    assert api.count_photos({"tags": "dog", "tag_mode": "all"}) == 50
    assert len(flickr.asked) == 3
    assert clock.waits == [1.0, 2.0]
    flickr.misbehave = lambda number, query: reply
    with pytest.raises(FlickrError, match="in 3 tries"):
        api.count_photos({"tags": "dog"})
    assert len(flickr.asked) == 6


def test_the_server_may_ask_for_a_longer_wait(flickr: Flickr, api: FlickrAPI, clock: Clock) -> None:
    flickr.misbehave = lambda number, query: (429, "slow down") if number == 1 else None
    flickr.headers = {"Retry-After": "17"}
    assert api.count_photos({"tags": "sofa"}) == 30
    assert clock.waits == [17.0]


def test_no_connection_is_tried_again_and_then_an_error(clock: Clock) -> None:
    api = FlickrAPI("good", base_url="http://127.0.0.1:9/", retries=1, clock=clock.time, sleep=clock.sleep)
    with pytest.raises(FlickrError, match="in 2 tries: URLError"):
        api.count_photos({"tags": "dog"})
    assert clock.waits == [1.0]


def test_an_invalid_key_is_final_and_never_told(flickr: Flickr, clock: Clock, tmp_path: Path) -> None:
    api = FlickrAPI("secret", base_url=flickr.url, clock=clock.time, sleep=clock.sleep)
    with pytest.raises(ValueError, match="api_key: Flickr refuses the key: Invalid API Key") as error:
        flickr_hit_counts(LABELS, api=api, cache=tmp_path / "a")
    assert "secret" not in str(error.value)
    assert len(flickr.asked) == 1
    assert b"secret" not in (tmp_path / "a").read_bytes()


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ((200, '{"stat": "fail", "code": 1, "message": "Too many tags"}'), "Flickr's error 1: Too many tags"),
        ((403, "forbidden"), "HTTP status 403"),
    ],
)
def test_what_will_not_pass_is_not_tried_again(
    flickr: Flickr, api: FlickrAPI, reply: tuple[int, str], message: str
) -> None:
    flickr.misbehave = lambda number, query: reply
    with pytest.raises(FlickrError, match=message):
        api.count_photos({"tags": "dog"})
    assert len(flickr.asked) == 1


def test_requests_keep_to_the_hourly_limit(flickr: Flickr, clock: Clock, tmp_path: Path) -> None:
    api = FlickrAPI("good", base_url=flickr.url, per_hour=1800, clock=clock.time, sleep=clock.sleep)
    flickr_hit_counts(LABELS, api=api, cache=tmp_path / "a")
    assert clock.waits == [2.0] * 5
    flickr_hit_counts(LABELS, api=api, cache=tmp_path / "a")
    assert clock.now == 10.0  # the cache needs no waiting


def test_totals_may_be_numbers(flickr: Flickr, api: FlickrAPI) -> None:
    flickr.misbehave = lambda number, query: (200, '{"photos": {"total": 123}, "stat": "ok"}')
    assert api.count_photos({"tags": "dog"}) == 123


def test_estimated_totals_are_reported(flickr: Flickr, api: FlickrAPI, tmp_path: Path) -> None:
    flickr.misbehave = lambda number, query: (
        (200, '{"photos": {"total": "99"}, "stat": "ok"}') if query["tags"] == "dog,sofa" else None
    )
    hits = flickr_hit_counts(LABELS, api=api, cache=tmp_path / "a")
    assert hits.problems().excessive == ("'dog' and 'sofa' (99 and 30)",)
    assert hits.repaired("clip").counts[0, 2] == 30


def test_the_key_and_the_cache_have_defaults(
    flickr: Flickr, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLICKR_API_KEY", "good")
    monkeypatch.setenv("UNSEEN_CACHE", str(tmp_path))
    flickr_hit_counts(["dog"], base_url=flickr.url)
    assert (tmp_path / "flickr" / "answers.sqlite").is_file()
    monkeypatch.delenv("FLICKR_API_KEY")
    with pytest.raises(ValueError, match=r"api_key: no key was given. Get one at https.*FLICKR_API_KEY"):
        flickr_hit_counts(["dog"], base_url=flickr.url)


@pytest.mark.parametrize(
    ("labels", "arguments", "message"),
    [
        (["dog,cat"], {}, "labels: 'dog,cat' cannot be asked for"),
        (["-dog"], {}, "labels: '-dog' cannot be asked for"),
        (["dog", "Dog"], {}, "labels: 'dog' occurs twice"),
        (["dog"], {"mode": "title"}, "mode: 'title' was given"),
        (["dog"], {"filters": {"tags": "x"}}, "filters: tags cannot be set"),
        (["dog"], {"per_hour": 0}, "per_hour: 0 was given"),
        (["dog"], {"base_url": "file:///etc/passwd"}, "base_url: 'file:///etc/passwd' was given"),
    ],
)
def test_bad_arguments_are_named(
    labels: list[str], arguments: dict[str, object], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        flickr_hit_counts(labels, api_key="good", cache=tmp_path / "a", **arguments)
    assert not (tmp_path / "a").exists()


def test_a_file_that_is_no_cache_is_left_alone(api: FlickrAPI, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("these are my notes, and they are longer than a header of SQLite\n" * 20)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"cache: .*notes.txt' cannot be used .*Pass another file"):
        flickr_hit_counts(LABELS, api=api, cache=path)
    assert path.read_bytes() == before
