"""Make the WordNet tables that ship with unseen, from the curated senses and WordNet 3.0.

    python scripts/make_wordnet_tables.py /usr/share/wordnet           # write the tables
    python scripts/make_wordnet_tables.py /usr/share/wordnet --check   # compare them with those that ship

The senses are curated by hand in src/unseen/labels/data/label_senses.json; the rest is computed here.
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from unseen.files import write_atomically
from unseen.labels.wordnet import curated_senses, open_wordnet, pairwise_lengths

FOLDER = Path(__file__).parents[1] / "src" / "unseen" / "labels" / "data"


def make_tables(wordnet: Any) -> dict[str, str]:
    """Content of each file, by its name."""
    names = sorted({sense for labels in curated_senses().values() for sense in labels.values()})
    synsets = [wordnet.synset(name) for name in names]
    renamed = [(name, synset.name()) for name, synset in zip(names, synsets, strict=True) if name != synset.name()]
    if renamed:
        raise SystemExit(f"label_senses.json: write the senses under WordNet's own names: {renamed}")
    lengths = pairwise_lengths(synsets)
    senses = [(synset.name(), f"{synset.offset():08d}-n", synset.definition()) for synset in synsets]
    paths = [[name, *(f"{length:g}" for length in row)] for name, row in zip(names, lengths, strict=True)]
    return {
        "wordnet30_senses.csv": _as_csv([("sense", "id", "definition"), *senses]),
        "wordnet30_paths.csv": _as_csv([["", *names], *paths]),
    }


def main() -> int:
    """Write or check the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dict_folder", nargs="?", help="WordNet 3.0's dict folder (default: the one installed)")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the shipped tables differ")
    arguments = parser.parse_args()
    wordnet = open_wordnet(arguments.dict_folder)
    tables = make_tables(wordnet)
    if arguments.check:
        stale = [name for name, content in tables.items() if (FOLDER / name).read_bytes() != content.encode()]
        print(f"differ from {wordnet.root}: {stale}" if stale else f"equal to {wordnet.root}")
        return 1 if stale else 0
    for name, content in tables.items():
        write_atomically(FOLDER / name, partial(Path.write_bytes, data=content.encode()))
        print(f"wrote {FOLDER / name}, {len(content.encode()):,} bytes")
    return 0


def _as_csv(rows: Iterable[Iterable[str]]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(rows)
    return buffer.getvalue()


if __name__ == "__main__":
    sys.exit(main())
