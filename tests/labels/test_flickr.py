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
        body = {"photos": {"total": str(PHOTOS.get(query["tags"], 0))}, "stat": "ok"}
        if query["api_key"] != "good":
            body = {"stat": "fail", "code": 100, "message": "Invalid API Key"}
        status, content = self.misbehave[0](len(self.asked)) or (200, json.dumps(body))
        self.send_response(status)
        self.end_headers()
        self.wfile.write(content.encode())

    def log_message(self, *_):
        pass


@pytest.fixture
def flickr(monkeypatch, tmp_path):
    state = {"asked": [], "misbehave": [lambda number: None]}
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Flickr", (Handler,), state))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setattr(module, "URL", f"http://127.0.0.1:{server.server_port}/")
    monkeypatch.setattr(module, "SECONDS_APART", 0.0)
    monkeypatch.setattr(module, "SECONDS_BEFORE_RETRY", 0.0)
    monkeypatch.setenv("FLICKR_API_KEY", "good")
    monkeypatch.setenv("UNSEEN_CACHE", str(tmp_path))
    yield SimpleNamespace(**state)
    server.shutdown()
    thread.join()
    server.server_close()


def test_labels_and_pairs_are_counted_once(flickr):
    hits = flickr_hit_counts(LABELS)
    np.testing.assert_array_equal(hits, COUNTS)
    assert list(hits.index) == list(hits.columns) == LABELS
    assert flickr.asked[0]["method"] == "flickr.photos.search"
    np.testing.assert_array_equal(flickr_hit_counts(["SOFA", "dog"]), [[30, 9], [9, 50]])
    assert len(flickr.asked) == 6


def test_pairs_of_what_never_occurs_are_not_asked(flickr):
    np.testing.assert_array_equal(flickr_hit_counts(["dog", "zzz", "sofa"]).loc["zzz"], [0, 0, 0])
    assert len(flickr.asked) == 4


def test_a_run_that_died_halfway_goes_on_where_it_stopped(flickr):
    flickr.misbehave[0] = lambda number: (503, "down") if number > 3 else None
    with pytest.raises(FlickrError):
        flickr_hit_counts(LABELS)
    assert len(flickr.asked) == 3 + 6  # three answers, then one question in six tries
    flickr.misbehave[0] = lambda number: (429, "slow down") if number == 10 else None
    np.testing.assert_array_equal(flickr_hit_counts(LABELS), COUNTS)
    assert len(flickr.asked) == 9 + 1 + 3


@pytest.mark.parametrize(
    ("status", "content"),
    [
        (403, "forbidden"),
        (200, "<html>not JSON</html>"),
        (200, '{"photos": {"total": "many"}, "stat": "ok"}'),
        (200, "[1, 2]"),
        (200, '{"stat": "fail", "code": 1, "message": "Too many tags"}'),
    ],
)
def test_what_is_not_an_answer_is_an_error(flickr, status, content):
    flickr.misbehave[0] = lambda number: (status, content)
    with pytest.raises(FlickrError, match="'dog'"):
        flickr_hit_counts(["dog"])
    assert len(flickr.asked) == 1


def test_the_key_is_never_told(flickr, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"^api_key: ") as refused:
        flickr_hit_counts(LABELS, api_key="secret", cache=tmp_path / "a")
    monkeypatch.setattr(module, "URL", "http://127.0.0.1:9/")
    with pytest.raises(FlickrError) as unreachable:
        flickr_hit_counts(LABELS, api_key="secret", cache=tmp_path / "a")
    assert "secret" not in f"{refused.value} {unreachable.value}"


def test_estimated_totals_are_refused_as_relations(flickr):
    flickr.misbehave[0] = lambda number: (200, '{"photos": {"total": 99}, "stat": "ok"}') if number == 3 else None
    with pytest.raises(ValueError, match=r"^sources: .*'dog', 'sofa'.*repair_counts"):
        relate(["dog", "sofa"], "flickr")


def test_bad_arguments_are_named(flickr, tmp_path, monkeypatch):
    for labels in (["dog,cat"], ["-dog"], ["dog", "Dog"]):
        with pytest.raises(ValueError, match=r"^labels: "):
            flickr_hit_counts(labels)
    (tmp_path / "notes.txt").write_text("these are notes")
    with pytest.raises(ValueError, match=r"^cache: "):
        flickr_hit_counts(LABELS, cache=tmp_path / "notes.txt")
    monkeypatch.delenv("FLICKR_API_KEY")
    with pytest.raises(ValueError, match=r"^api_key: .*FLICKR_API_KEY"):
        flickr_hit_counts(LABELS)
    assert not flickr.asked
