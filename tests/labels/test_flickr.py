"""Hit counts from Flickr, asked from a session that answers as Flickr does."""

import json
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from unseen.labels import cooccurrence as module
from unseen.labels.cooccurrence import FlickrError, flickr_hit_counts

LABELS = ["dog", "dining table", "sofa"]
PHOTOS = {"dog": 50, "dining table": 20, "sofa": 30, "dining table,dog": 4, "dog,sofa": 9, "dining table,sofa": 7}
COUNTS = [[50, 4, 9], [4, 20, 7], [9, 7, 30]]


class Flickr:
    """Flickr's photo search; `content` is what it says instead, an exception what happens."""

    def __init__(self):
        self.asked, self.content = [], None

    def get(self, url, params, timeout):
        self.asked.append(params["tags"])
        if isinstance(self.content, Exception):
            raise self.content
        answer = {"photos": {"total": str(PHOTOS.get(params["tags"], 0))}, "stat": "ok"}
        if params["api_key"] != "good":
            answer = {"stat": "fail", "code": 100, "message": "Invalid API Key"}
        content = self.content or json.dumps(answer)
        return SimpleNamespace(json=lambda: json.loads(content), status_code=200, content=content.encode())


@pytest.fixture
def flickr(monkeypatch, tmp_path):
    session = Flickr()
    monkeypatch.setattr(module, "open_session", lambda n_retries: nullcontext(session))
    monkeypatch.setattr(module, "SECONDS_APART", 0.0)
    monkeypatch.setenv("FLICKR_API_KEY", "good")
    monkeypatch.setenv("UNSEEN_CACHE", str(tmp_path))
    return session


def test_labels_and_pairs_are_counted_once(flickr, monkeypatch):
    hits = flickr_hit_counts(LABELS)
    np.testing.assert_array_equal(hits, COUNTS)
    assert list(hits.index) == list(hits.columns) == LABELS
    np.testing.assert_array_equal(flickr_hit_counts(["SOFA", "dog"]), [[30, 9], [9, 50]])
    assert flickr.asked == [*LABELS, *(tags for tags in PHOTOS if "," in tags)]
    np.testing.assert_array_equal(flickr_hit_counts(["dog", "zzz", "sofa"]).loc["zzz"], [0, 0, 0])
    monkeypatch.setitem(PHOTOS, "dog,zoo", 70)  # an estimate
    monkeypatch.setitem(PHOTOS, "zoo", 60)
    np.testing.assert_array_equal(flickr_hit_counts(["dog", "zoo"]), [[50, 50], [50, 60]])
    assert len(flickr.asked) == 9  # what never occurs does not occur together either


def test_a_run_that_died_halfway_goes_on_where_it_stopped(flickr):
    flickr_hit_counts(LABELS[:2])
    odd = ["not JSON", '{"photos": {}, "stat": "ok"}', "[1]", '{"stat": "fail", "code": 1, "message": "Too many"}']
    for content in (*odd, OSError("for url: ?api_key=good")):
        flickr.content = content
        with pytest.raises(FlickrError, match="'sofa'") as error:
            flickr_hit_counts(LABELS)
        assert "good" not in str(error.value)
    flickr.content = None
    np.testing.assert_array_equal(flickr_hit_counts(LABELS), COUNTS)
    assert len(flickr.asked) == 3 + 5 + 3


def test_bad_arguments_are_named(flickr, tmp_path, monkeypatch):
    for labels in (["dog,cat"], ["-dog"], ["dog", "Dog"]):
        with pytest.raises(ValueError, match=r"^labels: "):
            flickr_hit_counts(labels)
    monkeypatch.setenv("FLICKR_API_KEY", "wrong")
    with pytest.raises(ValueError, match=r"^flickr: .*Invalid"):
        flickr_hit_counts(LABELS)
    monkeypatch.delenv("FLICKR_API_KEY")
    with pytest.raises(ValueError, match=r"^flickr: .*FLICKR_API_KEY"):
        flickr_hit_counts(LABELS)


@pytest.mark.parametrize("content", ["these are notes", "[1]", '{"dog": "many"}', "[" * 100_000])
def test_a_damaged_cache_is_made_again(flickr, tmp_path, content):
    (tmp_path / "flickr").mkdir()
    (tmp_path / "flickr" / "answers.json").write_text(content)
    with pytest.warns(UserWarning, match=r"^cache: .*made again"):
        flickr_hit_counts(LABELS)
    assert isinstance(json.loads((tmp_path / "flickr" / "answers.json").read_text()), dict)
