"""Write docs/results.md from the folders of `unseen reproduce`.

    python scripts/make_results.py reproduced-voc2007 reproduced-voc2012 reproduced-coco

The page begins with docs/results_reading.md, which is written by hand; each folder then adds its results.md, with
headings one level down, and its figures, which are copied to docs/images/results.
"""

from __future__ import annotations

import argparse
import re
import shutil
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def collect(folders: list[Path], docs: Path = DOCS) -> Path:
    """Write results.md into a folder of documentation that has a results_reading.md; return its path."""
    images = docs / "images" / "results"
    shutil.rmtree(images, ignore_errors=True)
    images.mkdir(parents=True)
    parts = [(docs / "results_reading.md").read_text(encoding="utf-8")]
    for folder in folders:
        name = folder.name.removeprefix("reproduced-")
        text = (folder / "results.md").read_text(encoding="utf-8")
        for figure in re.findall(r"\]\((\w+\.png)\)", text):
            shutil.copyfile(folder / figure, images / f"{name}_{figure}")
            text = text.replace(f"]({figure})", f"](images/results/{name}_{figure})")
        parts.append(re.sub(r"^#", "##", text, flags=re.MULTILINE))
    page = docs / "results.md"
    page.write_text("\n\n".join(part.strip() for part in parts) + "\n", encoding="utf-8", newline="\n")
    return page


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path, help="output folders of unseen reproduce, in order")
    print(collect(parser.parse_args().folders))
