"""Write docs/results.md and docs/results.csv: run the experiments of the page and collect their output.

    python scripts/make_results.py --data DIR [--jobs 2] [--only coco]

Finished cells are kept in the folders reproduced-NAME, so that a second call only writes the page. It begins with
docs/results_reading.md, which is written by hand; each experiment then adds its results.md, with headings one
level down, its figures, which are copied to docs/images/results, and the rows of its table1.csv and table2.csv.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd

DOCS = Path(__file__).parents[1] / "docs"
RUNS = {
    "voc2007": "voc2007 --data DIR --features DIR/voc2007_vgg19.npz --splits 5",
    "voc2012": "voc2012 --data DIR --splits 0",
    "voc2007-resnet50": "voc2007 --data DIR --features DIR/voc2007_resnet50.npz "
    "--features DIR/voc2007_efficientnet_lite0.npz --splits 0",
    "coco": "coco --data DIR --classes coco48/17 --splits 0 --repeats 1",
}


def reproduce(name: str, data: Path, jobs: int) -> Path:
    """Run `unseen reproduce` in a process of its own; return its folder."""
    folder = Path(f"reproduced-{name}")
    arguments = RUNS[name].replace("DIR", str(data)).split(" ")
    command = [sys.executable, "-m", "unseen", "reproduce", *arguments, "--jobs", str(jobs), "-o", str(folder)]
    subprocess.run(command, check=True)
    return folder


def collect(folders: dict[str, Path], docs: Path = DOCS, data: Path = Path("DIR")) -> Path:
    """Write results.md and results.csv into a folder of documentation that has a results_reading.md."""
    images = docs / "images" / "results"
    shutil.rmtree(images, ignore_errors=True)
    images.mkdir(parents=True)
    parts, frames = [(docs / "results_reading.md").read_text(encoding="utf-8")], []
    for name, folder in folders.items():
        text = (folder / "results.md").read_text(encoding="utf-8").replace(str(data), "DIR")
        for figure in re.findall(r"\]\((\w+\.png)\)", text):
            shutil.copyfile(folder / figure, images / f"{name}_{figure}")
            text = text.replace(f"]({figure})", f"](images/results/{name}_{figure})")
        parts.append(re.sub(r"^#", "##", text, flags=re.MULTILINE))
        for table, protocol in (("table1", "zero-shot"), ("table2", "generalized")):
            rows = pd.read_csv(folder / f"{table}.csv")
            frames.append(rows.assign(run=name, protocol=protocol))
    page = docs / "results.md"
    page.write_text("\n\n".join(part.strip() for part in parts) + "\n", encoding="utf-8", newline="\n")
    figures = pd.concat(frames).set_index(["run", "protocol", "method"])
    figures.to_csv(docs / "results.csv", float_format="%.4f", lineterminator="\n")
    return page


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with the features and annotations")
    parser.add_argument("--jobs", type=int, default=2, help="cells to run at once")
    parser.add_argument("--only", choices=RUNS, nargs="+", default=list(RUNS), help="runs to make again")
    options = parser.parse_args()
    for name in options.only:
        reproduce(name, options.data, options.jobs)
    print(collect({name: Path(f"reproduced-{name}") for name in RUNS}, data=options.data))
