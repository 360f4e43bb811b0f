"""The API: tags, search, words, answers, learning, export; and what it refuses."""

import csv
import io
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from tests.app.conftest import client_of, error_of
from tests.photos.world import calibrated, paint

from unseen.app.engine import ID


def wait(client, job):
    for _ in range(600):
        found = client.get(f"/v1/jobs/{job['id']}").json()
        if found["state"] != "running":
            return found
        time.sleep(0.05)
    raise AssertionError(found)


def first(client, word, **more):
    return client.get("/v1/search", params={"q": word, **more}).json()["hits"][0]


def form(path, **fields):
    return {"files": [("photo", (Path(path).name, Path(path).read_bytes()))], "data": fields}


def test_a_search_sorts_all_photos_by_p_and_is_cut_into_pages(client, library):
    found = client.get("/v1/search", params={"q": "red"}).json()
    assert found["total"] == 12  # copies of a photo are one
    p = [hit["p"] for hit in found["hits"]]
    assert p == sorted(p, reverse=True)
    assert found["counts"][0] == found["exact"] == 12
    assert found["counts"][50] == sum(value >= 0.5 for value in p)
    pages = [client.get("/v1/search", params={"q": "red", "offset": k, "limit": 5}).json() for k in (0, 5, 10)]
    assert [hit["id"] for page in pages for hit in page["hits"]] == [hit["id"] for hit in found["hits"]]
    same = library.search("red", model=calibrated(), top=None)
    assert [round(hit.p, 9) for hit in same if "copy" not in hit.photo.path] == [round(value, 9) for value in p]
    assert len(next(hit for hit in found["hits"] if len(hit["paths"]) == 2)["paths"]) == 2


def test_words_are_joined_by_the_software(client):
    both = client.get("/v1/search", params={"q": "red", "or": "blue", "not": ["green"]}).json()["hits"]
    assert {Path(hit["paths"][0]).stem for hit in both[:6]} == {"00", "04", "08", "02", "06", "10"}
    assert error_of(client.get("/v1/search", params={"not": "red"}), 422) == "invalid"
    note = client.get("/v1/search", params={"q": "red", "and": "red"}).json()
    assert note["total"] == 12


def test_photos_without_words_and_like_another(client):
    everything = client.get("/v1/search").json()
    assert everything["total"] == 12
    assert everything["counts"] is None
    assert everything["hits"][0]["p"] is None
    hit = first(client, "green")
    like = client.get("/v1/search", params={"like": hit["id"]}).json()["hits"]
    assert like[0]["id"] == hit["id"]
    assert {int(Path(one["paths"][0]).stem) % 4 for one in like[:3]} == {1}


def test_a_photo_has_tags_a_thumbnail_and_an_image(client):
    hit = first(client, "blue")
    photo = client.get(f"/v1/photos/{hit['id']}").json()
    assert photo["tags"][0]["name"] == "blue"
    assert photo["tags"][0]["kind"] in ("sure", "maybe")
    for kind in ("thumbnail", "image"):
        answer = client.get(f"/v1/photos/{hit['id']}/{kind}")
        assert answer.headers["content-type"] == "image/jpeg"
        assert answer.content[:2] == b"\xff\xd8"
    assert error_of(client.get(f"/v1/photos/{'0' * ID}"), 404) == "not_found"
    assert error_of(client.get("/v1/photos/..%2f..%2fetc"), 404) == "not_found"


def test_the_parts_of_an_explanation_sum_to_the_score(client, tmp_path):
    for given in (
        {"json": {"id": first(client, "red")["id"], "word": "crimson"}},
        form(paint(tmp_path / "x.jpg", ["red"], 7), word="crimson"),
    ):
        why = client.post("/v1/explain", **given).json()
        assert why["offset"] + sum(part["value"] for part in why["parts"]) == pytest.approx(why["score"], abs=1e-9)
        assert why["sentence"].endswith(".")


def test_photos_are_tagged_once_and_then_with_new_words_by_their_ids(alone, tmp_path):
    paths = [paint(tmp_path / f"{name}.jpg", [name]) for name in ("red", "blue")]
    (tmp_path / "no.jpg").write_bytes(b"not a photo")
    sent = [("photo", (path.name, path.read_bytes())) for path in (*paths, tmp_path / "no.jpg")]
    found = alone.post("/v1/tag", files=sent, data={"words": "red, blue", "top": "1"}).json()["photos"]
    assert [[tag["name"] for tag in photo["tags"]] for photo in found] == [["red"], ["blue"], []]
    assert found[2]["id"] is None
    assert "image" in found[2]["problem"]
    ids = [photo["id"] for photo in found[:2]]
    again = alone.post("/v1/tag", json={"ids": ids, "words": ["cold", "warm"], "top": 1}).json()["photos"]
    assert [photo["tags"][0]["name"] for photo in again] == ["warm", "cold"]
    thumbnail = alone.get(f"/v1/photos/{ids[0]}/thumbnail")
    assert thumbnail.headers["content-type"] == "image/jpeg"
    single = [alone.post("/v1/tag", **form(path, words="red, blue")).json()["photos"][0] for path in paths]
    both = alone.post("/v1/tag", files=sent[:2], data={"words": "red, blue"}).json()["photos"]
    assert [one["tags"] for one in single] == [one["tags"] for one in both]


def test_answers_of_many_clients_equal_single_ones(alone, tmp_path):
    colours = ["red", "green", "blue", "yellow"]
    paths = [paint(tmp_path / f"{i}.jpg", [colours[i % 4]], i) for i in range(24)]
    single = [alone.post("/v1/tag", **form(path, words="red,blue,warm")).json()["photos"] for path in paths]
    with ThreadPoolExecutor(8) as pool:
        many = list(
            pool.map(lambda path: alone.post("/v1/tag", **form(path, words="red,blue,warm")).json(), paths)
        )
    for one, other in zip(single, many, strict=True):
        assert [tag["name"] for tag in one[0]["tags"]] == [tag["name"] for tag in other["photos"][0]["tags"]]
        values = [[tag["p"] for tag in photo["tags"]] for photo in (one[0], other["photos"][0])]
        np.testing.assert_allclose(*values, atol=1e-5)


def test_packaged_photos_can_be_tried(alone):
    samples = alone.get("/v1/samples").json()["photos"]
    assert [sample["name"] for sample in samples] == ["astronaut.jpg", "cat.jpg", "coffee.jpg", "rocket.jpg"]
    ids = [sample["id"] for sample in samples]
    assert len(alone.post("/v1/tag", json={"ids": ids, "words": ["red"]}).json()["photos"]) == 4
    words = ["red", "green", "blue"]
    (every,) = alone.post("/v1/tag", json={"ids": ids[:1], "words": words, "top": None}).json()["photos"]
    assert {tag["name"] for tag in every["tags"]} == set(words)
    assert alone.get(f"/v1/photos/{ids[1]}/image").headers["content-type"] == "image/jpeg"


def test_the_vocabulary_is_counted_kept_and_checked(client, library):
    for _ in range(100):
        found = client.get("/v1/words").json()
        if found["counting"] is None:
            break
        time.sleep(0.05)
    rows = {row["word"]: row for row in found["words"]}
    assert list(rows) == ["red", "green", "blue", "yellow", "cyan"]
    assert rows["red"]["sure"] + rows["red"]["maybe"] >= 3
    assert rows["cyan"]["parents"] == ["cold"]
    assert len(rows["red"]["neighbours"]) == 3
    assert (library.path / "words.txt").read_text() == found["text"]
    refused = client.put("/v1/words", json={"text": "red\n> blue"})
    assert error_of(refused, 422) == "invalid"
    assert "line 2" in refused.json()["error"]["message"]
    drawn = client.get("/v1/words/map").json()
    assert [point["word"] for point in drawn["points"]] == list(rows)
    assert np.isfinite([point["before"] + point["after"] for point in drawn["points"]]).all()
    assert all(0 <= i < j < 5 for i, j, _ in drawn["edges"])


def test_answers_are_kept_taken_back_and_learned(client, library):
    hit = client.get("/v1/search", params={"q": "red"}).json()["hits"][-1]
    assert client.post("/v1/corrections", json={"id": hit["id"], "word": "red", "verdict": True}).json() == {
        "corrections": 1
    }
    assert first(client, "red")["id"] == hit["id"]
    assert first(client, "red")["p"] == 1.0
    assert {"name": "red", "p": 1.0}.items() <= client.get(f"/v1/photos/{hit['id']}").json()["tags"][0].items()
    assert (
        client.post("/v1/explain", json={"id": hit["id"], "word": "red"}).json()["examples"][0]["id"] == hit["id"]
    )
    assert client.post("/v1/corrections/undo").json() == {"undone": 1, "corrections": 0}
    assert first(client, "red")["id"] != hit["id"]
    assert error_of(client.post("/v1/learn"), 422) == "nothing_to_learn"
    bulk = client.post("/v1/corrections/bulk", json={"word": "red", "min_p": 0.3}).json()
    assert bulk["changed"] == bulk["corrections"] == len(library.corrections()) >= 3
    for word in ("green", "blue"):
        for hit in client.get("/v1/search", params={"q": word, "limit": 3}).json()["hits"]:
            client.post("/v1/corrections", json={"id": hit["id"], "word": "red", "verdict": False})
    job = wait(client, client.post("/v1/learn").json())
    assert (job["state"], job["done"]) == ("done", 3)
    assert job["result"]["labels"] == 1
    assert job["result"]["sentence"].endswith(".")
    assert set(job["result"]["after"]) == {"precision", "recall"}
    assert client.get("/v1/status").json()["model"]["learned"]
    assert (library.path / "model.1.safetensors").is_file()
    assert client.post("/v1/learn/undo").json() == {"learned": False}
    assert not (library.path / "model.1.safetensors").exists()


def test_review_asks_for_tags_in_doubt(client):
    found = client.get("/v1/review", params={"limit": 3}).json()
    assert len(found["items"]) == min(3, found["left"])
    assert all(0.3 <= item["tag"]["p"] < 0.8 for item in found["items"])


def test_tags_are_written_to_sidecars_and_taken_back(client, library):
    planned = wait(client, client.post("/v1/export/xmp", json={"min_p": 0.3, "dry_run": True}).json())
    assert planned["result"]["photos"] > 0
    assert not list(library.path.parent.glob("photos/**/*.xmp"))
    done = wait(client, client.post("/v1/export/xmp", json={"min_p": 0.3, "dry_run": False}).json())
    assert len(list(library.path.parent.glob("photos/**/*.xmp"))) == done["result"]["photos"]
    back = wait(client, client.post("/v1/export/undo", json={"dry_run": False}).json())
    assert back["result"]["tags"] == done["result"]["tags"]
    assert not list(library.path.parent.glob("photos/**/*.xmp"))
    table = client.get("/v1/export.csv", params={"min_p": 0.3})
    rows = list(csv.DictReader(io.StringIO(table.text)))
    assert len(rows) == done["result"]["tags"]
    assert table.headers["content-disposition"] == 'attachment; filename="tags.csv"'
    lines = client.get("/v1/export.json", params={"min_p": 0.3}).text.splitlines()
    assert len(lines) == done["result"]["photos"]


def test_reports_are_shown(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "results.md").write_text(
        "**Table 1**\n\n| method | MiAP |\n| --- | ---: |\n| TAEP | **50.0** |\n"
    )
    (tmp_path / "run" / "figure.png").write_bytes(b"\x89PNG")
    (tmp_path / "secret.png").write_bytes(b"no")
    with client_of(model=calibrated(), reports=[tmp_path / "run"]) as client:
        assert client.get("/v1/results").json() == {"reports": [{"id": "0", "title": "run"}]}
        found = client.get("/v1/results/0").json()
        assert found["tables"][0]["rows"] == [["TAEP", "50.0"]]
        assert client.get(found["figures"][0]).content == b"\x89PNG"
        assert error_of(client.get("/v1/results/0/secret.png"), 404) == "not_found"
        assert error_of(client.get("/v1/results/1"), 404) == "not_found"


@pytest.mark.parametrize("path", ["search", "review", "export.csv", "photos/" + "0" * ID])
def test_without_a_library_the_answer_says_so(alone, path):
    assert error_of(alone.get(f"/v1/{path}"), 404) in ("no_library", "not_found")
    assert alone.get("/v1/status").json()["library"] is None


@pytest.mark.parametrize(
    ("given", "status", "code"),
    [
        ({"json": {"ids": []}}, 422, "invalid"),
        ({"json": {"ids": ["../../etc/passwd"]}}, 422, "invalid"),
        ({"json": {"ids": ["0" * ID]}}, 404, "not_found"),
        ({"json": {"ids": ["0" * ID], "words": ["a"] * 2001}}, 422, "invalid"),
        ({"json": {"ids": ["0" * ID], "more": 1}}, 422, "invalid"),
        ({"json": [1]}, 422, "invalid"),
        ({"content": b"{"}, 400, "bad_request"),
        ({"content": b"[" * 100_000}, 400, "bad_request"),
        ({"content": b"\xff\xfe"}, 400, "bad_request"),
        ({"data": {"words": "red"}, "files": {"other": b"x"}}, 422, "no_photo"),
        ({"files": {"photo": b"x"}, "data": {"top": "many"}}, 422, "invalid"),
        ({"files": {"photo": b"x"}, "data": {"top": "0"}}, 422, "invalid"),
        ({"files": {"photo": b"x"}, "data": {"words": ",".join(map(str, range(3000)))}}, 422, "too_many_words"),
        ({"files": {"photo": b"x"}, "data": {"words": "x" * 300}}, 422, "long_word"),
        ({"files": [("photo", b"x")] * 65}, 400, "bad_request"),
        ({"files": {"photo": b"x"}, "data": {"words": "no red"}}, 422, "invalid"),
    ],
)
def test_bad_requests_get_a_code_and_a_sentence(alone, given, status, code):
    assert error_of(alone.post("/v1/tag", **given), status) == code


def test_other_hosts_origins_and_large_requests_are_refused(library):
    with client_of(library, calibrated(), most_bytes=20_000, hosts=["photos.lan"]) as client:
        assert error_of(client.get("/v1/status", headers={"host": "evil.example"}), 421) == "wrong_host"
        assert client.get("/v1/status", headers={"host": "photos.lan:8420"}).status_code == 200
        for headers in (
            {"origin": "http://evil.example"},
            {"origin": "null"},
            {"origin": "http://["},
            {"sec-fetch-site": "cross-site"},
        ):
            assert error_of(client.post("/v1/corrections/undo", headers=headers), 403) == "wrong_origin"
        assert client.post("/v1/corrections/undo", headers={"origin": "http://127.0.0.1"}).status_code == 200
        assert error_of(client.post("/v1/tag", content=b"x" * 30_000), 413) == "too_large"
        parts = (b"x" * 10_000 for _ in range(4))  # without a Content-Length
        assert error_of(client.post("/v1/tag", content=parts), 413) == "too_large"
        assert error_of(client.put("/v1/words", content=(b" " * 10_000 for _ in range(4))), 413) == "too_large"


def test_headers_forbid_what_the_page_does_not_need(client):
    for path in ("/", "/v1/status", "/nowhere", "/v1/search?limit=0"):
        headers = client.get(path).headers
        assert "unsafe-inline" not in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in client.get("/", headers={"origin": "http://a.example"}).headers


def test_a_token_opens_the_api_and_then_a_cookie(library):
    with client_of(library, calibrated(), token="secret") as client:
        assert error_of(client.get("/v1/status"), 401) == "no_token"
        assert error_of(client.get("/v1/status", headers={"authorization": "Bearer wrong"}), 401) == "no_token"
        assert client.get("/livez").text == "ok\n"
        assert client.get("/v1/status", headers={"authorization": "Bearer secret"}).status_code == 200
        assert client.get("/?token=secret").headers["set-cookie"].lower().count("httponly") == 1
        assert client.get("/v1/status").status_code == 200


def test_a_full_queue_says_when_to_come_back(tmp_path):
    photo = paint(tmp_path / "x.jpg", ["red"]).read_bytes()
    with client_of(model=calibrated(), queue=2) as client:
        answer = client.post("/v1/tag", files=[("photo", photo)] * 3, data={"words": "red"})
        assert error_of(answer, 429) == "busy"
        assert answer.headers["retry-after"] == "1"
        for _ in range(2):  # the room is free again
            answer = client.post("/v1/tag", files=[("photo", photo)] * 2, data={"words": "red"})
            assert len(answer.json()["photos"]) == 2


def bomb():
    """A PNG file of a few kilobytes that claims 40,000 x 40,000 pixels, and has them."""

    def chunk(kind, content):
        return len(content).to_bytes(4) + kind + content + zlib.crc32(kind + content).to_bytes(4)

    head = (40_000).to_bytes(4) * 2 + bytes([8, 2, 0, 0, 0])
    packer = zlib.compressobj(9)
    pixels = b"".join(packer.compress(bytes(120_001)) for _ in range(2000)) + packer.flush()
    parts = chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


def test_photos_that_take_too_much_memory_or_time_are_refused(tmp_path, monkeypatch):
    good = paint(tmp_path / "x.jpg", ["red"]).read_bytes()
    with client_of(model=calibrated()) as client:
        sent = [("photo", ("bomb.png", bomb())), ("photo", ("x.jpg", good))]
        bad, fine = client.post("/v1/tag", files=sent, data={"words": "red"}).json()["photos"]
        assert bad["problem"]
        assert fine["tags"][0]["name"] == "red"
        answer = client.post("/v1/explain", files={"photo": b"x"}, data={"word": "red"})
        assert error_of(answer, 422) == "unreadable"
        monkeypatch.setattr("unseen.app.uploads.MOST_SECONDS", 0.0)
        assert error_of(client.post("/v1/tag", files={"photo": good}, data={"words": "red"}), 408) == "too_slow"
        monkeypatch.undo()
        assert client.post("/v1/tag", files={"photo": good}, data={"words": "red"}).status_code == 200


def test_figures_are_for_prometheus(client):
    client.get("/v1/status")
    text = client.get("/metrics").text
    for name in ("unseen_requests_total{", "unseen_request_seconds_bucket{", "unseen_batch_size_bucket{",
                 "unseen_queue ", "unseen_model_age_seconds "):  # fmt: skip
        assert name in text
    assert client.get("/readyz").text == "ok\n"
    schema = client.get("/openapi.json").json()
    assert "/v1/tag" in schema["paths"]
