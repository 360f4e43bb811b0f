"""Make the table of what the 1,000 ImageNet classes are kinds of, from WordNet 3.0.

    python scripts/make_imagenet_kinds.py /usr/share/wordnet           # write the table
    python scripts/make_imagenet_kinds.py /usr/share/wordnet --check   # compare it with the one that ships

A row for every synset that is a class or lies above one: its identifier as ImageNet writes it, its direct
hypernyms and its lemmas.
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
from functools import partial
from pathlib import Path
from typing import Any

from unseen.files import write_atomically
from unseen.labels.wordnet import open_wordnet

TABLE = Path(__file__).parents[1] / "src" / "unseen" / "images" / "data" / "imagenet1k_kinds.csv"


def make_table(wordnet: Any) -> str:
    """Content of the table, in the order of the identifiers."""
    with TABLE.with_name("imagenet1k.csv").open(encoding="utf-8") as file:
        classes = [int(row["wnid"][1:]) for row in csv.DictReader(file)]
    waiting = [wordnet.synset_from_pos_and_offset("n", offset) for offset in classes]
    rows = {}
    while waiting:
        synset = waiting.pop()
        if synset in rows:
            continue
        above = sorted(synset.hypernyms() + synset.instance_hypernyms(), key=_wnid)
        lemmas = "; ".join(lemma.replace("_", " ") for lemma in synset.lemma_names())
        rows[synset] = (_wnid(synset), " ".join(map(_wnid, above)), lemmas)
        waiting += above
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["wnid", "hypernyms", "names"])
    writer.writerows(sorted(rows.values()))
    return buffer.getvalue()


def _wnid(synset: Any) -> str:
    return f"n{synset.offset():08d}"


def main() -> int:
    """Write or check the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dict_folder", nargs="?", help="WordNet 3.0's dict folder (default: the one installed)")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the shipped table differs")
    arguments = parser.parse_args()
    wordnet = open_wordnet(arguments.dict_folder)
    content = make_table(wordnet).encode()
    if arguments.check:
        is_same = TABLE.read_bytes() == content
        print(f"{'equal to' if is_same else 'differs from'} {wordnet.root}")
        return 0 if is_same else 1
    write_atomically(TABLE, partial(Path.write_bytes, data=content))
    print(f"wrote {TABLE}, {len(content):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
