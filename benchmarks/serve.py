"""`unseen serve` under load: many clients on loopback, against bare calls of the model in the same run.

    python -m benchmarks.serve [--requests 10000] [--clients 32] [--words 20]

The server is a process of its own; each request sends one JPEG file and some words. The bare call decodes the
same files, runs the backbone in threads and scores them, without HTTP. Then more photos than the queue holds are
sent at once, which must be answered with 200 or 429, and the server is ended by SIGTERM during requests.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files

import httpx
import numpy as np
import psutil
from threadpoolctl import threadpool_limits

from benchmarks._timing import arguments, show, write_json
from unseen.app.uploads import decode
from unseen.labels.names import everyday_labels
from unseen.photos.tagger import PhotoTagger


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def memory(process: psutil.Process) -> float:
    """Resident megabytes of a process and its children."""
    return sum(one.memory_info().rss for one in (process, *process.children(recursive=True))) / 2**20


async def load(address: str, photos: list[bytes], words: str, n_requests: int, n_clients: int):
    """Status and seconds of each request."""
    found, waiting = [], iter(range(n_requests))
    limits = httpx.Limits(max_connections=n_clients)
    async with httpx.AsyncClient(base_url=address, timeout=120.0, limits=limits) as client:

        async def work() -> None:
            for i in waiting:
                start = time.perf_counter()
                try:
                    sent = {"photo": (f"{i}.jpg", photos[i % len(photos)])}
                    answer = await client.post("/v1/tag", files=sent, data={"words": words})
                    status = answer.status_code
                except httpx.HTTPError as error:
                    status = type(error).__name__
                found.append((status, time.perf_counter() - start))

        await asyncio.gather(*(work() for _ in range(n_clients)))
    return found


def bare(photos: list[bytes], words: list[str], n_calls: int) -> float:
    """Calls per second without a server: as many threads as cores."""
    model = PhotoTagger.load()
    query = model.query(words)

    def call(i: int) -> None:
        decoded = decode(photos[i % len(photos)], ".jpg", model.backbone.preprocessing)
        X = model.columns(*model.backbone.describe(decoded.pixels[None]))
        list(query.tags(X, 20, 0.0))

    with ThreadPoolExecutor(os.cpu_count()) as pool, threadpool_limits(1, "blas"):  # the cores are busy already
        list(pool.map(call, range(20)))
        start = time.perf_counter()
        list(pool.map(call, range(n_calls)))
        return n_calls / (time.perf_counter() - start)


def main() -> None:
    parser = arguments(__doc__, "serve")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--words", type=int, default=20)
    args = parser.parse_args()
    folder = files("unseen.images").joinpath("data/photos")
    photos = [item.read_bytes() for item in folder.iterdir() if item.name.endswith(".jpg")]
    words = everyday_labels()[: args.words]
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    environment = os.environ | {"UNSEEN_PORT": str(port), "UNSEEN_LIBRARY": ""}
    server = subprocess.Popen([sys.executable, "-m", "unseen.app"], env=environment)
    process = psutil.Process(server.pid)
    try:
        for _ in range(600):
            try:
                if httpx.get(f"{address}/readyz").status_code == 200:
                    break
            except httpx.HTTPError:
                time.sleep(0.1)
        asked = ",".join(words)
        rows, before = [], bare(photos, words, max(50, args.requests // 20))
        asyncio.run(load(address, photos, asked, 64, args.clients))
        for _ in range(4):
            start = time.perf_counter()
            found = asyncio.run(load(address, photos, asked, args.requests // 4, args.clients))
            rate, seconds = len(found) / (time.perf_counter() - start), [second for _, second in found]
            rows.append({
                "requests": len(found), "errors": sum(status != 200 for status, _ in found), "per second": rate,
                "ratio to bare": rate / before, "median ms": 1e3 * float(np.median(seconds)),
                "p99 ms": 1e3 * float(np.quantile(seconds, 0.99)),
                "p99 / bare call": float(np.quantile(seconds, 0.99)) * before, "server MB": memory(process),
            })  # fmt: skip
            print(rows[-1], flush=True)
        after = bare(photos, words, max(50, args.requests // 20))
        show(f"{args.clients} clients; bare calls per second: {before:.1f} before, {after:.1f} after", rows)
        crowd = asyncio.run(load(address, photos, asked, 600, 600))
        counts = {str(status): sum(one == status for one, _ in crowd) for status in {one for one, _ in crowd}}
        show("600 clients at once", [counts | {"slowest s": max(second for _, second in crowd)}])

        async def drain():
            work = asyncio.create_task(load(address, photos, asked, 400, 16))
            await asyncio.sleep(1.0)
            process.send_signal(signal.SIGTERM)
            return await work

        drained = asyncio.run(drain())
        code = server.wait(60)
        done = sum(status == 200 for status, _ in drained)
        broken = sum(status not in (200, "ConnectError", "ConnectTimeout") for status, _ in drained)
        ended = {"answered": done, "refused": len(drained) - done - broken, "broken": broken, "exit code": code}
        show("SIGTERM during requests", [ended])
        write_json(args.json, [*rows, counts, ended])
    finally:
        server.kill()


if __name__ == "__main__":
    main()
