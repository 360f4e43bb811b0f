"""Make the table of the 1,000 ImageNet classes that ships with unseen, from the wheel of timm on PyPI.

    pip download --no-deps timm
    python scripts/make_imagenet_table.py timm-*.whl           # write the table
    python scripts/make_imagenet_table.py timm-*.whl --check   # compare it with the one that ships

A class is a synset of WordNet 3.0 and its names are the lemmas of that synset, in their order; but the first name
of every class is its own: see `unique_first`.
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from zipfile import ZipFile

from unseen.files import write_atomically

TABLE = Path(__file__).parents[1] / "src" / "unseen" / "images" / "data" / "imagenet1k.csv"
FOLDER = "timm/data/_info"
ADDED = {"n02012849": "crane bird", "n03126707": "construction crane"}  # two synsets with the one lemma "crane"


def make_table(wheel: Path) -> str:
    """Content of the table: of each class the position among a backbone's outputs, the synset and the names."""
    with ZipFile(wheel) as archive:
        synsets = archive.read(f"{FOLDER}/imagenet_synsets.txt").decode().split()
        lines = archive.read(f"{FOLDER}/imagenet_synset_to_lemma.txt").decode().splitlines()
    lemmas = {synset: names.split(", ") for synset, names in (line.split("\t") for line in lines)}
    classes = unique_first([([ADDED[synset]] if synset in ADDED else []) + lemmas[synset] for synset in synsets])
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["index", "wnid", "names"])
    writer.writerows(
        (i, synset, "; ".join(names)) for i, (synset, names) in enumerate(zip(synsets, classes, strict=True))
    )
    return buffer.getvalue()


def unique_first(classes: list[list[str]]) -> list[list[str]]:
    """Where several classes begin with the same name, those that have another one begin with that."""
    counts = Counter(names[0].casefold() for names in classes)
    ordered = [
        [*names[1:2], names[0], *names[2:]] if counts[names[0].casefold()] > 1 else names for names in classes
    ]
    repeated = [name for name, n in Counter(names[0].casefold() for names in ordered).items() if n > 1]
    if repeated:
        raise SystemExit(f"several classes are called {repeated}: give them names in ADDED")
    return ordered


def main() -> int:
    """Write or check the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path, help="the wheel of timm")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the shipped table differs")
    arguments = parser.parse_args()
    content = make_table(arguments.wheel).encode()
    if arguments.check:
        is_same = TABLE.read_bytes() == content
        print(f"{'equal to' if is_same else 'differs from'} {arguments.wheel.name}")
        return 0 if is_same else 1
    write_atomically(TABLE, partial(Path.write_bytes, data=content))
    print(f"wrote {TABLE}, {len(content):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
