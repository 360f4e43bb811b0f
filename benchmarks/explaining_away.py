"""How much evidence do the tags of a photo share, before and after settling those that a better tag explains?

And how many sure tags are wrong, with COCO's 80 names and with LVIS's 1,203 rarer ones beside them?

    python -m benchmarks.explaining_away --data DIR

DIR holds ``coco/sample`` with 300 photos of COCO's test part and their ``labels.csv``, and a file of names,
``compact/clip_vitb32_text.npz``. The tags are those that `unseen tag` shows
(p >= 0.3) of the everyday words. Duplicated evidence is the sum of the shares of all tags, 1 each, minus that
of their union, the largest share of each part; a pair is two words, at least one without annotations, that share
enough of it for the better one to explain the other, neither being a kind of the other.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np

from unseen import PhotoTagger
from unseen.base import MAYBE, SURE, Tag, best_tags
from unseen.datasets import read_annotations
from unseen.explanation import ANNOTATED_OVERLAP, OVERLAP, evidence_shares
from unseen.images.features import describe_each
from unseen.labels.names import label_key, merge_names
from unseen.photos.tagger import names_a_kind

SAMPLE = "coco/sample"


class Shared(NamedTuple):
    """Means per photo."""

    n_tags: float
    duplicated: float
    pairs: float


def measure(model: PhotoTagger, photos: Sequence[Path]) -> tuple[Shared, Shared]:
    """Figures of all likely tags, and of those that are shown."""
    query = model.query()
    outputs = [found for _, found, _ in describe_each(list(map(str, photos)), model.backbone) if found is not None]
    X = np.vstack([model.columns(*found) for found in outputs])
    likely = [[tag for tag in tags if tag.p >= MAYBE] for tags in best_tags(query.names, *query.score(X))]
    shown = [list(tags) for tags, _ in query.tags(X, None, MAYBE)]
    return tuple(Shared(*np.mean([figures(model, X[[i]], tags) for i, tags in enumerate(found)], axis=0))
                 for found in (likely, shown))  # fmt: skip


def figures(model: PhotoTagger, x: np.ndarray, tags: Sequence[Tag]) -> Shared:
    """Figures of the tags of one photo."""
    if not tags:
        return Shared(0, 0.0, 0)
    tagger, names = model.tagger, [tag.name for tag in tags]
    M = tagger._embed(np.array(list(model.label_vectors(names).values())), "words")
    columns = np.arange(len(names))
    shares = evidence_shares(tagger._part_table(x, M, np.zeros_like(columns), columns)[1])
    seen, pairs = set(tagger.label_names_[: tagger.n_seen_]), 0
    for i, j in combinations(columns, 2):
        limit = ANNOTATED_OVERLAP if names[i] in seen else OVERLAP
        is_shared = np.minimum(shares[i], shares[j]).sum() >= limit
        pairs += is_shared and names[j] not in seen and not names_a_kind(names[i], names[j])
    return Shared(len(tags), shares.sum() - shares.max(axis=0).sum(), pairs)


def count_sure(model: PhotoTagger, data: Path) -> None:
    """Sure tags among COCO's names and others, and those that its annotations contradict."""
    annotations = read_annotations(data / SAMPLE / "labels.csv")
    photos = [str(data / SAMPLE / Path(image).name) for image in annotations.images]
    with np.load(data / "compact" / "clip_vitb32_text.npz") as archive:
        rare = [str(name) for name in archive["lvis_names"]]
    known = {label_key(name): i for i, name in enumerate(annotations.labels)}
    for title, names in (("COCO's names", annotations.labels), ("with LVIS's", [*annotations.labels, *rare])):
        query = model.query(merge_names(names)[0])
        n_sure, n_wrong, others = 0, 0, 0
        for row, photo in enumerate(model.tag(photos, query, None, min_p=SURE)):
            columns = [known.get(label_key(tag.name)) for tag in photo.tags]
            n_sure += sum(c is not None for c in columns)
            n_wrong += sum(c is not None and annotations.Y[row, c] != 1 for c in columns)
            others += sum(c is None for c in columns)
        print(f"{title}: {n_sure} sure tags of COCO's names, {n_wrong} wrong; {others} of other names")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    data = parser.parse_args().data
    photos = sorted((data / SAMPLE).glob("*.jpg"))
    for name, found in zip(("before", "after"), measure(PhotoTagger.load(), photos), strict=True):
        print(f"{name}: {found.n_tags:.2f} tags per photo, {found.duplicated:.2f} of their evidence duplicated, "
              f"{found.pairs:.2f} pairs that one tag explains ({len(photos)} photos)")  # fmt: skip
    count_sure(PhotoTagger.load(), data)


if __name__ == "__main__":
    main()
