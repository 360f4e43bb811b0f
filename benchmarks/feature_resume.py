"""Does `unseen features` continue where it was killed, to the same bits, and in flat memory?

    python -m benchmarks.feature_resume [--images 20000] [--backbone tiny|efficientnet-lite0]

Writes small JPEG files into a temporary folder and runs the command three times: whole; killed with SIGKILL once
half of the images are done; and again on what the killed run left. Prints the resident memory of the
whole run over time, and whether both outputs are equal, byte by byte. ``tiny`` is a network of one convolution,
made here, so that the run is about files and not about arithmetic. Linux only.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
from PIL import Image

BLOCK = 128  # images between two writes of the command
SETTINGS = "size = 32\nmean = [127.0, 127.0, 127.0]\nstd = [128.0, 128.0, 128.0]\nvalue_range = 255\n"


def write_small_photos(folder: Path, n: int) -> None:
    """Write ``n`` different JPEG files of 64 x 48 pixels, a thousand a folder."""
    for i in range(n):
        parent = folder / f"{i // 1000:03d}"
        parent.mkdir(parents=True, exist_ok=True)
        coarse = np.random.default_rng(i).integers(0, 256, size=(6, 8, 3), dtype=np.uint8)
        Image.fromarray(coarse).resize((64, 48), Image.Resampling.BICUBIC).save(
            parent / f"{i:06d}.jpg", quality=85
        )


def write_tiny_network(path: Path) -> None:
    """One convolution with 1280 filters and the mean over the picture."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    weights = np.random.default_rng(0).standard_normal((1280, 3, 8, 8)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["input", "weights"], ["maps"], kernel_shape=[8, 8], strides=[8, 8]),
        helper.make_node("GlobalAveragePool", ["maps"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["features"]),
    ]
    inputs = [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["n", 3, 32, 32])]
    outputs = [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["n", 1280])]
    graph = helper.make_graph(nodes, "tiny", inputs, outputs, [numpy_helper.from_array(weights, "weights")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7), path)
    path.with_suffix(".toml").write_text(SETTINGS, "utf-8")


def start(photos: Path, output: Path, backbone: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "unseen", "features", str(photos), "-o", str(output), "--backbone", backbone]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def n_done(output: Path) -> int:
    """Images whose features are safe."""
    masks = [np.load(file) for file in output.glob("[0-9]*/done.npy")]
    return max((int(mask.sum()) for mask in masks), default=0)


def megabytes(process: subprocess.Popen[bytes]) -> float:
    """Resident memory of a process."""
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def watch(process: subprocess.Popen[bytes], output: Path) -> list[tuple[int, float]]:
    """Images done and resident memory, in the order of time, until the process ends."""
    samples: list[tuple[int, float]] = []
    done = 0
    while process.poll() is None:
        with suppress(OSError, ValueError, IndexError):  # it may end between the lines
            done = n_done(output)
            samples.append((done, megabytes(process)))
        time.sleep(0.05)
    assert process.returncode == 0, "the command failed"
    return samples


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def print_memory(samples: list[tuple[int, float]], n: int) -> None:
    """Print the resident memory in each tenth of the run; the last one includes putting the result together."""
    print("finished images    resident memory: median, largest")
    tenths = [[m for done, m in samples if n * k / 10 < done <= n * (k + 1) / 10 + BLOCK] for k in range(10)]
    for k, seen in enumerate(tenths):
        if seen:
            span = f"{n * k // 10:>7,} - {n * (k + 1) // 10:>6,}"
            print(f"{span}   {statistics.median(seen):6.0f} MB  {max(seen):6.0f} MB")
    early, late = tenths[1], tenths[9]
    if early and late:
        print(
            f"median of the last tenth / of the second = {statistics.median(late) / statistics.median(early):.2f}"
        )
    print(f"largest before the first images (imports, listing) {max(m for done, m in samples if not done):.0f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=20_000)
    parser.add_argument("--backbone", default="tiny")
    arguments = parser.parse_args()
    n = arguments.images
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_small_photos(folder / "photos", n)
        backbone = arguments.backbone
        if backbone == "tiny":
            backbone = str(folder / "tiny.onnx")
            write_tiny_network(Path(backbone))
        begin = time.perf_counter()
        samples = watch(start(folder / "photos", folder / "whole", backbone), folder / "whole")
        whole = time.perf_counter() - begin
        print(f"{n:,} images, backbone {arguments.backbone}: {whole:.1f} s in one run")
        print_memory(samples, n)

        killed = start(folder / "photos", folder / "feats", backbone)
        while n_done(folder / "feats") < n / 2:
            assert killed.poll() is None, "it ended before it could be killed"
            time.sleep(0.02)
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        kept = n_done(folder / "feats")
        begin = time.perf_counter()
        watch(start(folder / "photos", folder / "feats", backbone), folder / "feats")
        print(f"killed with {kept:,} images done; the rest took {time.perf_counter() - begin:.1f} s")
        equal = content(folder / "feats") == content(folder / "whole")
        print(f"output of the killed and continued run equal to the whole one, byte by byte: {equal}")
        assert equal


if __name__ == "__main__":
    main()
