"""Run all speed benchmarks, one process each, and write their tables to one page.

    python -m benchmarks [--data DIR] [--page docs/benchmarks.md] [--only NAME ...]

With ``--only`` the page keeps the last results of the others.

DIR is the folder of `benchmarks.voc2007` with ``nuswide_glove6B_300d.npz``; without it those that need it are left
out or run on generated data. The benchmarks of accuracy (`transfer_choices`, `rival_defaults`) answer other
questions and are run by their names.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks._timing import RESULTS
from unseen.files import write_atomically

Row = dict[str, Any]


@dataclass(frozen=True)
class Benchmark:
    """One module of this package: what it asks, how it is called, and the figure that answers it."""

    name: str
    question: str
    target: str
    answer: Callable[[list[Row]], str]
    options: tuple[str, ...] = ()
    data: str = "takes"  # "takes" it if given, "needs" it, or "ignores" it

    @property
    def figures(self) -> Path:
        """Where the benchmark writes its rows; what it printed is kept beside them."""
        return Path(self.options[-1]) if "--json" in self.options else RESULTS / f"{self.name}.json"

    def command(self, data: Path | None) -> list[str]:
        """What follows ``python -m``."""
        given = ["--data", str(data)] if data is not None and self.data != "ignores" else []
        return [f"benchmarks.{self.name}", *given, *self.options]


class Result(NamedTuple):
    """What a benchmark found."""

    benchmark: Benchmark
    rows: list[Row]
    tables: str
    seconds: str


def ratios(rows: list[Row], of: str, key: str = "seconds / ours") -> str:
    return ", ".join(f"{row[of]} {row[key]:.3g}x" for row in rows if key in row and of in row and row[key] != 1.0)


def spread(rows: list[Row], key: str) -> str:
    values = [row[key] for row in rows if key in row]
    return f"{min(values):.3g} to {max(values):.3g}"


BENCHMARKS = (
    Benchmark("epoch_floor", "a pass, against its two products", "at most 3x",
              lambda rows: ", ".join(f"{row['ratio']:.2f}x (n = {row['images']:,})" for row in rows),
              data="ignores"),
    Benchmark("row_solvers", "one row problem, best QP solver against ours", "above 1x in all 8 cases",
              lambda rows: spread(rows, "best rival / unseen") + "x", data="ignores"),
    Benchmark("certified_time", "to a certified gap of 1e-3, rivals against ours",
              "QP rows 100x, BCFW 10x, whole dual 20x, Adam above 1x",
              lambda rows: "; ".join(filter(None, (ratios(rows, "solver"), ratios(rows, "whole dual by"))))),
    Benchmark("beta_path", "ten values of beta with warm starts, against one fit", "at most 3x",
              lambda rows: f"{rows[0]['warm / one']:.2f}x"),
    Benchmark("iterations", "iterations over P on VOC2007, 72 settings", "at most 60",
              lambda rows: f"at most {max(row['iterations'] for row in rows)}, "
                           f"{np.mean([row['iterations'] for row in rows]):.1f} on average", data="needs"),
    Benchmark("small_beta", "passes by coordinate ascent alone, against those with the finish", "at least 10x",
              lambda rows: spread(rows, "ratio of passes") + "x", data="ignores"),
    Benchmark("many_labels", "50 images, 10,000 seen and 10,000 unseen labels", "30 s, 1 GB",
              lambda rows: f"{rows[-1]['seconds']:.0f} s, {rows[-1]['peak GB']:.2f} GB", data="ignores"),
    Benchmark("search_time", "the class-holdout search of TAEP", "minutes",
              lambda rows: f"{rows[0]['fits']} fits in {rows[0]['search s']:.0f} s"),
    Benchmark("convex_or_alternating", "convex solver and the paper's alternation", "-",
              lambda rows: "; ".join(f"{row['solver']}: {row['objective']} in {row['seconds']:.1f} s"
                                     for row in rows)),
    Benchmark("threads", "two threads against one", "above 1.6x",
              lambda rows: ", ".join(f"{row['speed-up']:.2f}x (n = {row['images']:,})" for row in rows),
              data="ignores"),
    Benchmark("scale", "NUS-WIDE size, to a gap of 1 %", "15 min, 6 GB",
              lambda rows: f"{rows[-1]['seconds']:.0f} s, {rows[-1]['peak GB']:.2f} GB, density "
                           f"{rows[-1]['density']:.4f}", ("--growth",), data="needs"),
    Benchmark("scale", "the same with memory='low'", "2 GB",
              lambda rows: f"{rows[-1]['seconds']:.0f} s, {rows[-1]['peak GB']:.2f} GB",
              ("--memory", "low", "--json", "benchmarks/results/scale_low.json"), data="needs"),
    Benchmark("first_use", "CPU time of unseen tag, against its libraries alone", "at most 2x",
              lambda rows: f"{rows[2]['ratio']:.2f}x, {rows[-1]['function calls']:,} calls", data="ignores"),
    Benchmark("dask_rounds", "a cluster of two processes against one thread", "same answer",
              lambda rows: f"objective differs by {100 * abs(rows[1]['objective / local'] - 1.0):.3f} %, "
                           f"{rows[1]['seconds'] / rows[0]['seconds']:.1f}x the seconds",
              data="ignores"),
    Benchmark("xmp_files", "tags into sidecars, against plain atomic writes of the same bytes", "at most 2x",
              lambda rows: ", ".join(f"{row['sidecars']}: {row['seconds / plain']:.2f}x, {row['photos/s']:.0f}/s"
                                     for row in rows if "plain" not in row["sidecars"]), data="ignores"),
    Benchmark("label_lookup", "finding 1,000 label names in a table of 400,000", "-",
              lambda rows: f"{rows[0]['ratio']:.2f} of reading the table", data="ignores"),
    Benchmark("library_search", "a search among 1,000,000 photos, against the product", "1.5x, 1 s, 4 GB",
              lambda rows: f"{rows[0]['search / kernel']:.2f}x, {rows[0]['search s']:.2f} s, "
                           f"{rows[0]['peak GB']:.1f} GB", ("--photos", "1000000"), data="ignores"),
    Benchmark("library_index", "photos indexed, against the bare backbone loop", "at least 0.85; files/s again",
              lambda rows: f"{rows[1]['of the bare loop']:.2f}; {rows[2]['files/s']:,.0f} files/s",
              data="ignores"),
)  # fmt: skip


def run(benchmark: Benchmark, data: Path | None) -> bool:
    """Run it in a process of its own, show and keep what it prints; False if it failed."""
    start = time.perf_counter()
    finished = subprocess.run(
        [sys.executable, "-m", *benchmark.command(data)], text=True, stdout=subprocess.PIPE,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}, check=False,
    )  # fmt: skip
    print(finished.stdout)
    if finished.returncode:
        print(f"benchmarks.{benchmark.name} ended with code {finished.returncode}", file=sys.stderr)
        return False
    tables = [line.rstrip() for line in finished.stdout.splitlines() if not line.startswith("written to")]
    seconds = f"{time.perf_counter() - start:.0f} s"
    benchmark.figures.with_suffix(".txt").write_text(
        "\n".join([seconds, *tables]).rstrip() + "\n", encoding="utf-8"
    )
    return True


def last_result(benchmark: Benchmark) -> Result | None:
    """Of this run or an earlier one."""
    printed = benchmark.figures.with_suffix(".txt")
    if not (benchmark.figures.exists() and printed.exists()):
        return None
    seconds, _, tables = printed.read_text(encoding="utf-8").partition("\n")
    return Result(benchmark, json.loads(benchmark.figures.read_text())["rows"], tables.strip("\n"), seconds)


def machine() -> str:
    cpu = next(
        (line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), ""
    )
    return (
        f"{os.cpu_count()} cores {cpu or platform.machine()}, {platform.system()}, Python "
        f"{platform.python_version()}, numpy {np.__version__}; load average {os.getloadavg()[0]:.1f} at the end"
    )


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def page(results: list[Result]) -> str:
    """The Markdown page: a table of answers, then what each benchmark printed."""
    lines = [
        "# Speed, measured",
        "",
        f"Written by `python -m benchmarks --data DIR --page docs/benchmarks.md` on {machine()}.",
        "Both sides of a ratio ran in one process, by turns; figures are medians of at least five runs, but for",
        "the fits of the size of NUS-WIDE, the search and rivals that need more than a minute. On a shared",
        "machine the seconds vary by a third, the ratios by a tenth. Benchmarks that were run again alone",
        "(`--only`) stand in place of their part of the whole run.",
        "",
        "| question | answer | wanted | command |",
        "|---|---|---|---|",
    ]
    for benchmark, rows, _, _ in results:
        command = " ".join(["python -m", *benchmark.command(Path("DIR"))])
        lines.append(f"| {benchmark.question} | {benchmark.answer(rows)} | {benchmark.target} | `{command}` |")
    for benchmark, _, tables, seconds in results:
        title = f"## {benchmark.question[0].upper()}{benchmark.question[1:]}"
        command = f"`python -m {' '.join(benchmark.command(Path('DIR')))}`, {seconds}"
        lines += ["", title, "", command, "", "```text", tables, "```"]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--page", type=Path, help="Markdown file for all tables")
    parser.add_argument("--only", nargs="*", metavar="NAME", choices=sorted({b.name for b in BENCHMARKS}))
    args = parser.parse_args()
    chosen = [benchmark for benchmark in BENCHMARKS if args.only is None or benchmark.name in args.only]
    runnable = [benchmark for benchmark in chosen if benchmark.data != "needs" or args.data is not None]
    succeeded = [run(benchmark, args.data) for benchmark in runnable]
    if not all(succeeded):
        sys.exit("Not all benchmarks ran: nothing is written.")
    results = [result for benchmark in BENCHMARKS if (result := last_result(benchmark)) is not None]
    for result in results:
        question, answer = result.benchmark.question, result.benchmark.answer(result.rows)
        print(f"{question}: {answer} (wanted: {result.benchmark.target}; {result.seconds})")
    if args.page is not None:
        write_atomically(args.page, lambda path: path.write_text(page(results), encoding="utf-8"))


if __name__ == "__main__":
    main()
