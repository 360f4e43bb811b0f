"""How much CPU time does `unseen tag photo.jpg` take in a new process, against importing its libraries alone?

python -m benchmarks.first_use
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.resources import as_file, files
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks._timing import arguments, show, write_json

LIBRARIES = "import numpy, scipy.sparse, sklearn.base, onnxruntime, PIL.Image, typer, rich"
PROFILED = """
import cProfile, pstats, sys
profile = cProfile.Profile()
profile.enable()
from unseen.cli import app
try:
    app(sys.argv[2:])
finally:
    profile.disable()
    print(pstats.Stats(profile).total_calls, file=open(sys.argv[1], "w"))
"""


def cpu_seconds(command: list[str]) -> float:
    """User and system time of a child process and of the threads in it."""
    before = os.times()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def main() -> None:
    args = arguments(__doc__, "first_use").parse_args()
    with as_file(files("unseen.images").joinpath("data/photos/cat.jpg")) as photo, TemporaryDirectory() as folder:
        contenders = {
            "libraries alone": [sys.executable, "-c", LIBRARIES],
            "unseen --version": [sys.executable, "-m", "unseen", "--version"],
            "unseen tag photo.jpg": [sys.executable, "-m", "unseen", "tag", str(photo)],
        }
        seconds = {name: [] for name in contenders}
        for _ in range(args.rounds + 1):  # the first round fills the cache
            for name, command in contenders.items():
                seconds[name].append(cpu_seconds(command))
        place = Path(folder) / "calls"
        cpu_seconds([sys.executable, "-c", PROFILED, str(place), "tag", str(photo)])
        n_calls = int(place.read_text())
    best = {name: min(values[1:]) for name, values in seconds.items()}
    rows = [
        {"process": name, "CPU seconds": value, "ratio": value / best["libraries alone"]}
        for name, value in best.items()
    ]
    show(f"best of {args.rounds}", rows)
    print(f"function calls of unseen tag, imports included: {n_calls:,}")
    write_json(args.json, [*rows, {"function calls": n_calls}])


if __name__ == "__main__":
    main()
