"""The server as a process: it starts from the environment, drains on SIGTERM, and survives being killed."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import httpx
import pytest
from tests.photos.world import calibrated, paint
from typer.testing import CliRunner

from unseen.cli import app

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals")


@contextmanager
def started(library, **more):
    """Process and client of ``python -m unseen.app``."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    calibrated().save(model := library.path.parent / "model.safetensors")
    settings = {"UNSEEN_LIBRARY": str(library.path), "UNSEEN_MODEL": str(model), "UNSEEN_PORT": str(port), **more}
    process = subprocess.Popen([sys.executable, "-m", "unseen.app"], env=os.environ | settings)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60.0) as client:
            for _ in range(1200):
                try:
                    if client.get("/readyz").status_code == 200:
                        break
                except httpx.TransportError:
                    assert process.poll() is None
                    time.sleep(0.05)
            yield process, client
    finally:
        process.kill()
        process.wait(30)


def test_requests_are_finished_after_sigterm(library, tmp_path):
    photo = paint(tmp_path / "x.jpg", ["red"]).read_bytes()
    answers = []

    def ask(client):
        answers.append(client.post("/v1/tag", files=[("photo", photo)] * 32, data={"words": "red"}).status_code)

    with started(library) as (process, client):
        assert client.get("/v1/search", params={"q": "red"}).json()["total"] == 12
        asking = threading.Thread(target=ask, args=(client,))
        asking.start()
        time.sleep(0.3)
        process.send_signal(signal.SIGTERM)
        asking.join(60)
        assert answers == [200]
        assert process.wait(60) in (0, -signal.SIGTERM)


def test_a_server_that_was_killed_starts_again_with_all_answers(library, tmp_path):
    photo = paint(tmp_path / "x.jpg", ["red"]).read_bytes()
    stop, kept = threading.Event(), 0

    def ask(base):
        with httpx.Client(base_url=base, timeout=60.0) as client:
            while not stop.is_set():
                try:
                    client.post("/v1/tag", files={"photo": photo}, data={"words": "red"})
                except httpx.TransportError:
                    return

    with started(library) as (process, client):
        ids = [hit["id"] for hit in client.get("/v1/search").json()["hits"]]
        threads = [threading.Thread(target=ask, args=(client.base_url,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for i, key in enumerate(ids):
            if i == len(ids) // 2:
                process.kill()
            try:
                answer = {"id": key, "word": "warm", "verdict": True}
                kept = client.post("/v1/corrections", json=answer).json()["corrections"]
            except httpx.TransportError:
                break
        stop.set()
        for thread in threads:
            thread.join(60)
    with started(library) as (_, client):
        assert kept <= client.get("/v1/status").json()["corrections"] <= kept + 1
        assert client.get("/v1/search", params={"q": "warm"}).json()["hits"][0]["p"] == 1.0
    for answer in library.corrections():
        library.correct(next(one for one in library.photos() if one.digest == answer.digest), answer.word, None)


@pytest.mark.parametrize("typed", ["-L nowhere", "--model nowhere.safetensors", "--port 99999"])
def test_mistakes_end_with_one_line(typed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UNSEEN_LIBRARY", str(tmp_path / "none"))
    done = CliRunner().invoke(app, ["serve", "--no-open", *typed.split()])
    assert done.exit_code == 2


def test_a_port_in_use_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("UNSEEN_LIBRARY", str(tmp_path / "none"))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        done = CliRunner().invoke(app, ["serve", "--no-open", "--port", str(port)])
    assert done.exit_code == 2
    assert f"127.0.0.1:{port} cannot be used" in done.stderr
