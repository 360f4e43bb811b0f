"""Which names count as synonyms, not as alternatives, in CLIP's text space? Shares of pairs above the limit.

    python -m benchmarks.text_synonyms --data DIR

Needs ``compact/clip_vitb32_text.npz``, the extras ``words`` and ``wordnet``, and a WordNet. Two names of COCO,
LVIS, Objects365 or Open Images are synonyms if their first senses in WordNet are the same, parent and child if one
is directly above the other, siblings ("bicycle" and "motorcycle") if they share the sense above. Cosines are
centred on the everyday words among the names, as in `unseen.baselines.Cosine.without_annotations`.
"""

from __future__ import annotations

import argparse
from itertools import combinations
from pathlib import Path

import numpy as np

from unseen.baselines.cosine import SYNONYM
from unseen.labels.names import everyday_labels
from unseen.labels.vectors import cached_vectors
from unseen.labels.wordnet import open_wordnet


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    args = parser.parse_args()
    with np.load(args.data / "compact" / "clip_vitb32_text.npz") as file:
        sets = [name.removesuffix("_names") for name in file.files if name.endswith("_names")]
        rows = [(str(name).lower(), vector) for one in sets for name, vector in
                zip(file[f"{one}_names"], file[f"{one}_vectors"].astype(float), strict=True)]  # fmt: skip
    net = open_wordnet()
    senses = {name: net.synsets(name.replace(" ", "_"), pos="n")[:1] for name, _ in rows}
    vectors = {name: vector for name, vector in reversed(rows) if senses[name]}
    names, everyday = list(vectors), set(everyday_labels())
    kinds: dict[str, list[tuple[int, int]]] = {"synonyms": [], "parent and child": [], "siblings": []}
    for i, j in combinations(range(len(names)), 2):
        (a,), (b,) = senses[names[i]], senses[names[j]]
        above = set(a.hypernyms()), set(b.hypernyms())
        kind = "synonyms" if a == b else "parent and child" if a in above[1] or b in above[0] else "siblings"
        if kind != "siblings" or above[0] & above[1]:
            kinds[kind].append((i, j))
    for space, M in (("CLIP", np.array(list(vectors.values()))), ("USE", cached_vectors(names, "use"))):
        unit = M - M[[name in everyday for name in names]].mean(axis=0)
        unit /= np.linalg.norm(unit, axis=1, keepdims=True)
        for kind, pairs in kinds.items():
            i, j = np.array(pairs).T
            share = np.mean((unit[i] * unit[j]).sum(axis=1) >= SYNONYM)
            print(f"{space}: {100 * share:.1f} % of {len(pairs)} pairs of {kind} at a cosine of {SYNONYM} or more")


if __name__ == "__main__":
    main()
