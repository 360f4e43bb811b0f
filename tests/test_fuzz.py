"""Damaged files that a reader once took badly, and some new ones: each is read, or refused with a clear error.

And kills: nothing is lost, and the next run completes the work.
"""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("PIL")
pytest.importorskip("onnxruntime")
from fuzz.readers import readers
from fuzz.run import attempt, mutate

CORPUS = sorted((Path(__file__).parents[1] / "fuzz" / "corpus").iterdir())


@pytest.mark.parametrize("file", CORPUS, ids=lambda file: file.name)
def test_found_cases_stay_solved(file, tmp_path):
    reader = readers()[file.name.rpartition("-")[0]]
    assert attempt(reader, file.read_bytes(), tmp_path) is None


@pytest.mark.filterwarnings("ignore")
def test_damaged_files_are_refused_clearly(tmp_path):
    rng = random.Random(0)
    for name, reader in readers().items():
        for seed in reader.seeds:
            assert attempt(reader, seed, tmp_path) is None, name
        for _ in range(30):
            content = mutate(rng.choice(reader.seeds), reader.seeds, rng)
            assert attempt(reader, content, tmp_path) is None, (name, content)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_kill_at_any_moment_loses_nothing():
    pytest.importorskip("onnx")
    pytest.importorskip("httpx")
    kinds = ["features, grown", "index", "index, changed", "fit", "tag -L", "tags write", "tags undo", "review"]
    command = [sys.executable, "-m", "fuzz.faults", "--no-faults", "--kills", "16", "--only", *kinds]
    done = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "16 kills" in done.stdout
