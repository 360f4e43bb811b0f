"""Hit counts from Flickr, asked from a server that answers as Flickr does."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

from unseen.labels import flickr as module
from unseen.labels.flickr import FlickrError, flickr_hit_counts
from unseen.labels.relations import relate

LABELS = ["dog", "dining table", "sofa"]
PHOTOS = {"dog": 50, "dining table": 20, "sofa": 30, "dining table,dog": 4, "dog,sofa": 9, "dining table,sofa": 7}
COUNTS = [[50, 4, 9], [4, 20, 7], [9, 7, 30]]


class Handler(BaseHTTPRequestHandler):
    """Flickr's photo search; `misbehave` may give another reply to a request."""

    def do_GET(self):
        query = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        self.asked.append(query)
        status, body = self.misbehave[0](len(self.asked)) or (200, self.answer(query))
        self.send_response(status or 200)
        self.send_header("Retry-After", self.retry_after[0])
        if not status:  # hang up in the middle of the answer
            self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(body.encode())

    def answer(self, query):
        if query["api_key"] != "good":
            return json.dumps({"stat": "fail", "code": 100, "message": "Invalid API Key"})
        return json.dumps({"photos": {"total": str(PHOTOS.get(query["tags"], 0))}, "stat": "ok"})

    def log_message(self, *_):
        pass


@pytest.fixture
def flickr(monkeypatch, tmp_path):
    state = {"asked": [], "misbehave": [lambda number: None], "retry_after": [""]}
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Flickr", (Handler,), state))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    waits = []
    monkeypatch.setattr(module, "URL", f"http://127.0.0.1:{server.server_port}/")
    monkeypatch.setattr(module.time, "sleep", lambda seconds: waits.append(seconds) if seconds > 0.5 else None)
    monkeypatch.setattr(module, "TRIES", 3)
    monkeypatch.setenv("FLICKR_API_KEY", "good")
    monkeypatch.setenv("UNSEEN_CACHE", str(tmp_path))
    yield SimpleNamespace(**state, waits=waits)
    server.shutdown()
    thread.join()
    server.server_close()


def test_labels_and_pairs_are_counted(flickr, tmp_path):
    hits = flickr_hit_counts(LABELS)
    np.testing.assert_array_equal(hits, COUNTS)
    assert list(hits.index) == list(hits.columns) == LABELS
    first = flickr.asked[0]
    assert (first["method"], first["format"], first["tag_mode"]) == ("flickr.photos.search", "json", "all")
    assert flickr.waits == [1.0] * 6  # Flickr's limit
    assert (tmp_path / "flickr" / "answers.sqlite").is_file()


def test_pairs_of_what_never_occurs_are_not_asked(flickr):
    hits = flickr_hit_counts(["dog", "zzz", "sofa"])
    assert len(flickr.asked) == 4
    np.testing.assert_array_equal(hits.loc["zzz"], [0, 0, 0])


def test_a_second_run_asks_nothing_and_a_new_label_only_what_is_new(flickr):
    flickr_hit_counts(["dog", "sofa"])
    np.testing.assert_array_equal(flickr_hit_counts(["SOFA", "dog"]), [[30, 9], [9, 50]])
    assert len(flickr.asked) == 3
    flickr_hit_counts(LABELS)
    assert len(flickr.asked) == 6


def test_a_run_that_died_halfway_goes_on_where_it_stopped(flickr):
    flickr.misbehave[0] = lambda number: (503, "down") if number > 3 else None
    with pytest.raises(FlickrError, match="3 tries"):
        flickr_hit_counts(LABELS)
    assert len(flickr.asked) == 3 + 3  # three answers, then one question in three tries
    flickr.misbehave[0] = lambda number: None
    np.testing.assert_array_equal(flickr_hit_counts(LABELS), COUNTS)
    assert len(flickr.asked) == 6 + 3


@pytest.mark.parametrize(
    "reply",
    [
        (500, "oops"),
        (429, "slow down"),
        (0, '{"photos":'),
        (200, "<html>not JSON</html>"),
        (200, '{"photos": {"total": "many"}, "stat": "ok"}'),
        (200, '{"stat": "ok"}'),
        (200, "[1, 2]"),
        (200, '{"stat": "fail", "code": 105, "message": "Service currently unavailable"}'),
    ],
)
def test_what_may_pass_is_tried_again_with_longer_waits(flickr, reply):
    flickr.misbehave[0] = lambda number: reply if number < 3 else None
    assert flickr_hit_counts(["dog"]).iloc[0, 0] == 50
    assert flickr.waits == [1.0, 1.0, 1.0, 2.0, 1.0]


def test_the_server_may_ask_for_a_longer_wait(flickr):
    flickr.misbehave[0] = lambda number: (429, "slow down") if number == 1 else None
    flickr.retry_after[0] = "17"
    assert flickr_hit_counts(["sofa"]).iloc[0, 0] == 30
    assert flickr.waits == [1.0, 17.0, 1.0]


def test_an_invalid_key_is_final_and_never_told(flickr, tmp_path):
    with pytest.raises(ValueError, match=r"^api_key: ") as error:
        flickr_hit_counts(LABELS, api_key="secret", cache=tmp_path / "a")
    assert "secret" not in str(error.value)
    assert len(flickr.asked) == 1
    assert b"secret" not in (tmp_path / "a").read_bytes()


@pytest.mark.parametrize(
    "reply", [(200, '{"stat": "fail", "code": 1, "message": "Too many tags"}'), (403, "forbidden")]
)
def test_what_will_not_pass_is_not_tried_again(flickr, reply):
    flickr.misbehave[0] = lambda number: reply
    with pytest.raises(FlickrError):
        flickr_hit_counts(["dog"])
    assert len(flickr.asked) == 1


def test_estimated_totals_are_refused_as_relations_until_they_are_clipped(flickr):
    flickr.misbehave[0] = lambda number: (200, '{"photos": {"total": 99}, "stat": "ok"}') if number == 3 else None
    with pytest.raises(ValueError, match=r"^sources: .*'dog', 'sofa'.*repair_counts"):
        relate(["dog", "sofa"], "flickr")


def test_bad_arguments_are_named(flickr, tmp_path, monkeypatch):
    for labels in (["dog,cat"], ["-dog"], ["dog", "Dog"]):
        with pytest.raises(ValueError, match=r"^labels: "):
            flickr_hit_counts(labels)
    (tmp_path / "notes.txt").write_text("these are notes, and they are longer than a header of SQLite\n" * 20)
    with pytest.raises(ValueError, match=r"^cache: "):
        flickr_hit_counts(LABELS, cache=tmp_path / "notes.txt")
    monkeypatch.delenv("FLICKR_API_KEY")
    with pytest.raises(ValueError, match=r"^api_key: .*FLICKR_API_KEY"):
        flickr_hit_counts(LABELS)
    assert not flickr.asked
