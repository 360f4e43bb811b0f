"""How close do `extract_features` and `PhotoTagger.tag` come to the network alone?

    python -m benchmarks.feature_throughput [--images 1000]

Needs the extra ``images``. Both sides use all cores and the same network (EfficientNet-Lite0) in one process and
take turns; medians over rounds. The bare loop is the faster of: one thread per core with one image per call, or
one thread that gives batches of 16 to a session of as many threads; both get ready arrays and read no file. The
loop over files also reads and prepares each photo, one thread per core. Tags are those of the everyday words, with
their probabilities. Then, on one thread, where the time of an image goes (processor time: other programs do
not count).
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import joblib
import numpy as np
import onnxruntime

from benchmarks.photos import write_photos
from unseen.images.backbones import open_backbone
from unseen.images.features import REDUCED, extract_features
from unseen.images.imagenet import DATA
from unseen.images.preprocessing import prepare, shorter_side
from unseen.images.reading import open_image, read_image
from unseen.photos.tagger import PhotoTagger

BATCH = 16


def session(n_threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = n_threads
    graph = str(DATA / "efficientnet-lite0.onnx")
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


def seconds(work) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    n, cores = arguments.images, joblib.cpu_count()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = write_photos(folder / "photos", n)
        size = statistics.mean(path.stat().st_size for path in paths)
        print(f"{n} JPEG files of 500 x 375 pixels, {size / 1000:.0f} kB each on average; {cores} cores")
        times = race(folder, paths, cores, arguments.rounds)
        ours = {side: times.pop(side) for side in ("extract_features", "PhotoTagger.tag")}
        for side, whole in ours.items():
            print(f"{side:38s} {n / whole:7.1f} images/s")
        for loop, median in times.items():
            shares = " and ".join(f"{median / whole:.2f}" for whole in ours.values())
            print(f"{loop:38s} {n / median:7.1f} images/s; ours reach {shares} of it")
        profile(paths[: min(n, 60)])


def race(folder: Path, paths: list[Path], cores: int, rounds: int) -> dict[str, float]:
    """Median seconds of each side."""
    backbone = open_backbone(n_threads=1)
    arrays = np.stack([prepare(read_image(path), backbone.preprocessing) for path in paths])
    one, many = session(1), session(cores)
    name = one.get_inputs()[0].name
    outputs = iter(range(10**6))

    def threads() -> None:
        with ThreadPoolExecutor(cores) as pool:
            list(pool.map(lambda i: one.run(None, {name: arrays[i : i + 1]}), range(len(arrays))))

    def batches() -> None:
        for start in range(0, len(arrays), BATCH):
            many.run(None, {name: arrays[start : start + BATCH]})

    def read_and_run(path: Path) -> None:
        with open_image(path, REDUCED * shorter_side(backbone.preprocessing)) as opened:
            pixels = prepare(opened.pixels, backbone.preprocessing)
        one.run(None, {name: pixels[None]})

    def over_files() -> None:
        with ThreadPoolExecutor(cores) as pool:
            list(pool.map(read_and_run, paths))

    model = PhotoTagger.load()
    query = model.query()
    sides = {
        "loop over files, a thread a core": over_files,
        "PhotoTagger.tag": lambda: list(model.tag(paths, query, None, min_p=0.3)),
        "a thread a core, one image a call": threads,
        f"one session, batches of {BATCH}": batches,
        "extract_features": lambda: extract_features(paths, folder / f"feats{next(outputs)}", backbone),
    }
    for work in sides.values():  # once before the clock runs
        work()
    times: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(rounds):
        for side, work in sides.items():
            times[side].append(seconds(work))
    return {side: statistics.median(values) for side, values in times.items()}


def profile(paths: list[Path]) -> None:
    """Print the processor time of each step of an image, on one thread."""
    backbone = open_backbone(n_threads=1)
    spent: dict[str, list[float]] = {"read and decode": [], "prepare": [], "network": []}

    def timed(step: str, work, *arguments):
        start = time.thread_time()
        result = work(*arguments)
        spent[step].append(time.thread_time() - start)
        return result

    for _ in range(3):
        for path in paths:
            image = timed("read and decode", read_image, path)
            values = timed("prepare", prepare, image, backbone.preprocessing)
            timed("network", backbone.describe, values[None])
    total = sum(map(statistics.median, spent.values()))
    for step, values in spent.items():
        median = statistics.median(values)
        print(f"{step:38s} {1000 * median:7.2f} ms, {median / total:4.0%}")


if __name__ == "__main__":
    main()
