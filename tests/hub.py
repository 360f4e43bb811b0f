"""A Hugging Face hub on this machine: as much of it as downloads need, for models in folders."""

import json
import re
import threading
from contextlib import contextmanager
from hashlib import sha1
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest


def commit_of(repo, version):
    return sha1(f"{repo} {version}".encode()).hexdigest()


class Handler(BaseHTTPRequestHandler):
    """Serves every version of each repository, the last as its main branch, and parts of files (to resume).

    Of a file in ``hub.cut`` only the first half arrives, once: as if that were all ("short"), or the connection
    were lost ("dropped").
    """

    hub: SimpleNamespace

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        path = self.path.partition("?")[0]
        self.hub.asked.append(path)
        repo = next((repo for repo in self.hub.repos if f"/{repo}/" in f"{path}/"), None)
        if repo is None:
            return self.answer(b"{}", 404)
        commits = {commit_of(repo, i): folder for i, folder in enumerate(self.hub.repos[repo])}
        asked = re.search(r"/(?:revision|tree|resolve)/([^/]+)", path)
        commit = asked[1] if asked and asked[1] != "main" else list(commits)[-1]
        folder = commits.get(commit)
        if folder is None:
            return self.answer(b"{}", 404, {"X-Error-Code": "RevisionNotFound"})
        files = {str(file.relative_to(folder)): file for file in folder.rglob("*") if file.is_file()}
        if "/resolve/" in path:
            name = path.partition(f"/resolve/{asked[1]}/")[2]
            body = files[name].read_bytes() if name in files else b""
            etag = {"ETag": f'"{sha1(body).hexdigest()}"', "X-Repo-Commit": commit, "Accept-Ranges": "bytes"}
            cut = self.hub.cut.pop(name, None) if self.command == "GET" else None
            return self.answer(body, 200 if name in files else 404, etag, cut=cut)
        if "/tree/" in path:
            items = [{"type": "file", "path": n, "size": f.stat().st_size, "oid": n} for n, f in files.items()]
            return self.answer(json.dumps(items).encode())
        info = {"id": repo, "sha": commit, "siblings": [{"rfilename": name} for name in files]}
        return self.answer(json.dumps(info).encode())

    def answer(self, body, status=200, headers=None, *, cut=None):
        headers = {"Content-Type": "application/json", **(headers or {})}
        start = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if start and status == 200:
            self.hub.resumed.append(int(start[1]))
            headers["Content-Range"] = f"bytes {start[1]}-{len(body) - 1}/{len(body)}"
            status, body = 206, body[int(start[1]) :]
        sent = body[: len(body) // 2] if cut else body
        headers["Content-Length"] = len(sent if cut == "short" else body)
        self.send_response(status)
        for header, value in headers.items():
            self.send_header(header, str(value))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(sent)

    def log_message(self, *_):
        pass


@contextmanager
def serve(repos, cache, monkeypatch):
    """Serve versions of repositories, ``{"owner/name": [folder, ...]}``; downloads go below ``cache``."""
    constants = pytest.importorskip("huggingface_hub.constants")
    hub = SimpleNamespace(repos=repos, asked=[], resumed=[], cut={})
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Own", (Handler,), {"hub": hub}))
    hub.address = f"http://127.0.0.1:{server.server_port}"
    # What the library read from HF_ENDPOINT and HF_HOME when it was imported.
    monkeypatch.setattr(constants, "ENDPOINT", hub.address)
    template = hub.address + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache / "hub"))
    monkeypatch.setenv("UNSEEN_CACHE", str(cache / "unseen"))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
