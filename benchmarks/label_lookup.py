"""What does it cost to look up 1,000 labels, the first time and again, and to count the tags of a million photos?

    python -m benchmarks.label_lookup

Needs the extra ``glove``. Lookup of 1,000 names in GloVe 6B 50-d is compared with reading the array of the whole
table, counting with Python's own splitting of the same lines into sets, which counts nothing yet. Medians of five.
"""

from __future__ import annotations

import os
import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from benchmarks._timing import arguments, by_turns, show, write_json
from unseen import LabelSpace
from unseen.labels.cooccurrence import count_tag_sets
from unseen.labels.vectors import GLOVE_PACKAGE

N_PHOTOS = 1_000_000


def main() -> None:
    args = arguments(__doc__, "label_lookup").parse_args()
    from pyarrow import parquet

    data = Path(find_spec(GLOVE_PACKAGE).submodule_search_locations[0]) / "data"
    common = parquet.read_table(data / "glove_6B_index.parquet")["index"].to_pylist()[:30_000]
    rng = np.random.default_rng(0)
    names = [word for word in common if word.isalpha() and len(word) > 2]
    names = [names[i] for i in rng.choice(len(names), 1000, replace=False)]

    def first_time() -> None:
        with tempfile.TemporaryDirectory() as cache:
            os.environ["UNSEEN_CACHE"] = cache
            LabelSpace(names, "glove")
        del os.environ["UNSEEN_CACHE"]

    first, again, whole = by_turns(
        {
            "first": first_time,
            "again": lambda: LabelSpace(names, "glove"),
            "table": lambda: np.load(data / "glove_6B_50d_emb.npy").copy(order="C"),
        },
        args.rounds,
    ).values()
    rows = [
        {"what": what, "seconds": seconds, "against": "reading all vectors", "its seconds": whole,
         "ratio": seconds / whole}
        for what, seconds in (("1,000 names, first time", first), ("1,000 names, again", again))
    ]  # fmt: skip

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
