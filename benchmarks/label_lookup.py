"""What does it cost to look 1,000 labels up, and to count the tags of a million photos?

    python -m benchmarks.label_lookup

Needs the extra ``words``. Lookup of 1,000 names in GloVe 6B 50-d is compared with loading the whole table,
counting with Python's own splitting of the same lines into sets, which counts nothing yet. Medians of five.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from unseen import LabelSpace
from unseen.labels.hitcounts import count_tag_sets
from unseen.labels.vectors import open_vectors

N_PHOTOS = 1_000_000


def median_seconds(work) -> float:
    times = []
    for _ in range(5):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> None:
    table = open_vectors("glove")
    rng = np.random.default_rng(0)
    names = [word for word in table.words(0, 30_000) if word.isalpha() and len(word) > 2]
    names = [names[i] for i in rng.choice(len(names), 1000, replace=False)]
    lookup = median_seconds(lambda: LabelSpace(names, "glove"))
    whole = median_seconds(lambda: table.take(np.arange(len(table))))
    print(f"1,000 names: {lookup:.3f} s; the whole table of {len(table):,} words: {whole:.3f} s")
    print(f"lookup / whole table = {lookup / whole:.2f}")

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tags.txt"
        picks = rng.zipf(1.6, size=(N_PHOTOS, 6)) % len(names)
        path.write_text("\n".join(", ".join(names[i] for i in row) for row in picks))
        labels = names[:80]
        counting = median_seconds(lambda: count_tag_sets(path, labels, separator=","))

        def split() -> None:
            with path.open() as file:
                for line in file:
                    set(line.split(","))

        splitting = median_seconds(split)
    print(f"{N_PHOTOS:,} photos: {counting:.1f} s, {60 * N_PHOTOS / counting / 1e6:.1f} million photos a minute")
    print(f"counting / splitting alone = {counting / splitting:.2f}")


if __name__ == "__main__":
    main()
