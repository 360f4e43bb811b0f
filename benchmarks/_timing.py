"""Shared by the speed benchmarks: timing several contenders in turn, tables of ratios, JSON files."""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parent / "results"


def by_turns(contenders: dict[str, Callable[[], Any]], rounds: int = 5, clock=time.perf_counter):
    """Median seconds of each contender: all run once unmeasured, then in turns, so that noise falls on all."""
    for run in contenders.values():
        run()
    seconds = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            start = clock()
            run()
            seconds[name].append(clock() - start)
    return {name: float(np.median(values)) for name, values in seconds.items()}


def show(title: str, rows: list[dict[str, Any]]) -> None:
    """Print rows of equal keys as a table."""
    table = Table(title=title)
    for column in rows[0]:
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(*(f"{value:.4g}" if isinstance(value, float) else str(value) for value in row.values()))
    Console(width=130).print(table)


def arguments(doc: str, name: str) -> argparse.ArgumentParser:
    """Parser with the options that all speed benchmarks have."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="repetitions of which the median is taken")
    parser.add_argument("--json", type=Path, default=RESULTS / f"{name}.json", help="file for the figures")
    return parser


def write_json(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write the figures with the machine that they belong to and its load."""
    path.parent.mkdir(parents=True, exist_ok=True)
    machine = {"machine": platform.machine(), "cores": os.cpu_count(), "load": os.getloadavg()[0]}
    path.write_text(json.dumps({**machine, "rows": rows}, indent=2) + "\n")
    print(f"written to {path} (load average {machine['load']:.1f} on {machine['cores']} cores)")


def learnable(n: int, d: int, n_labels: int, rank: int, seed: int = 0):
    """Features like those of a network, targets, and the label kernel, in the likeness of PASCAL VOC.

    Labels follow a Zipf law. A feature is what is left above zero of patterns of the labels shown, clutter of
    a few dimensions and noise: the mean cosine of two images, the share of free duals and the passes to a gap are
    then near those of ResNet50 features of VOC2007.
    """
    rng = np.random.default_rng(seed)
    C = rng.standard_normal((n_labels, rank))
    C /= np.linalg.norm(C, axis=1, keepdims=True)
    frequency = 1.0 / (np.arange(n_labels) + 3.0)
    frequency /= frequency.sum()
    shown = rng.random((n, n_labels)) < 0.3 * frequency
    shown[np.arange(n), rng.choice(n_labels, n, p=frequency)] = True

    def normal(*shape):
        return rng.standard_normal(shape, dtype=np.float32)

    X = normal(n, 60) @ (normal(60, d) / np.float32(np.sqrt(60)))
    X += shown.astype(np.float32) @ normal(n_labels, d)
    X += 0.5 * normal(n, d) - np.float32(0.7)
    return np.maximum(X, 0.0), np.where(shown, 1, -1).astype(np.int8), C @ C.T + 1.0
