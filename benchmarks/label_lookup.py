"""What does it cost to look 1,000 labels up, and to count the tags of a million photos?

    python -m benchmarks.label_lookup

Needs the extra ``words``. Lookup of 1,000 names in GloVe 6B 50-d is compared with loading the whole table,
counting with Python's own splitting of the same lines into sets, which counts nothing yet. Medians of five.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from benchmarks._timing import arguments, by_turns, show, write_json
from unseen import LabelSpace
from unseen.labels.cooccurrence import count_tag_sets
from unseen.labels.vectors import open_vectors

N_PHOTOS = 1_000_000


def main() -> None:
    args = arguments(__doc__, "label_lookup").parse_args()
    table = open_vectors("glove")
    rng = np.random.default_rng(0)
    names = [word for word in table.words(0, 30_000) if word.isalpha() and len(word) > 2]
    names = [names[i] for i in rng.choice(len(names), 1000, replace=False)]
    everything = np.arange(len(table))
    lookup, whole = by_turns(
        {"names": lambda: LabelSpace(names, "glove"), "table": lambda: table.take(everything)}, args.rounds
    ).values()
    rows = [{"what": "1,000 names", "seconds": lookup, "against": f"reading all {len(table):,} words",
             "its seconds": whole, "ratio": lookup / whole}]  # fmt: skip

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tags.txt"
        picks = rng.zipf(1.6, size=(N_PHOTOS, 6)) % len(names)
        path.write_text("\n".join(", ".join(names[i] for i in row) for row in picks))
        labels = names[:80]

        def split() -> None:
            with path.open() as file:
                for line in file:
                    set(line.split(","))

        counting, splitting = by_turns(
            {"count": lambda: count_tag_sets(path, labels, separator=","), "split": split}, args.rounds
        ).values()
    rows.append({"what": f"counting the tags of {N_PHOTOS:,} photos", "seconds": counting,
                 "against": "splitting the lines alone", "its seconds": splitting,
                 "ratio": counting / splitting})  # fmt: skip
    show("label names and tag counts", rows)
    write_json(args.json, rows)


if __name__ == "__main__":
    main()
