"""How much evidence do the tags of a photo share, before and after settling those that a better tag explains?

    python -m benchmarks.explaining_away --data DIR

DIR holds ``coco/sample`` with 300 photos of COCO's test part. The tags are those that `unseen tag` shows
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
from unseen.base import MAYBE, Tag, best_tags
from unseen.explanation import ANNOTATED_OVERLAP, OVERLAP, evidence_shares
from unseen.images.features import describe_each
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    photos = sorted((parser.parse_args().data / SAMPLE).glob("*.jpg"))
    for name, found in zip(("before", "after"), measure(PhotoTagger.load(), photos), strict=True):
        print(f"{name}: {found.n_tags:.2f} tags per photo, {found.duplicated:.2f} of their evidence duplicated, "
              f"{found.pairs:.2f} pairs that one tag explains ({len(photos)} photos)")  # fmt: skip


if __name__ == "__main__":
    main()
