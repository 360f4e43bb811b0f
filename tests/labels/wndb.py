"""A tiny WordNet in WNdb format, written by the tests that read it."""

import itertools
from pathlib import Path
from typing import NamedTuple

import numpy as np

from unseen.labels.wordnet import WordNet


class Entry(NamedTuple):
    """A synset: its lemmas, the keys of its hypernyms and of its instance hypernyms, its gloss."""

    lemmas: str
    above: str = ""
    instance_of: str = ""
    gloss: str = "a gloss"


# animal, thing and plant hang under entity; "mouse" and "plant" have two senses; gizmo has no root in common.
TINY = {
    "entity": Entry("entity"),
    "thing": Entry("thing artifact", "entity"),
    "animal": Entry("animal beast", "entity"),
    "pet": Entry("pet", "animal"),
    "canine": Entry("canine", "animal"),
    "dog": Entry("dog domestic_dog", "canine pet", gloss='a barking animal; "the dog barked"'),
    "cat": Entry("cat", "pet"),
    "goose": Entry("goose", "animal"),
    "rodent": Entry("rodent", "animal"),
    "mouse": Entry("mouse", "rodent"),
    "device": Entry("device", "thing"),
    "computer_mouse": Entry("mouse computer_mouse", "device"),
    "keyboard": Entry("keyboard", "device"),
    "sports_car": Entry("sports_car", "thing"),
    "factory": Entry("plant works", "thing"),
    "flora": Entry("plant flora", "entity"),
    "tree": Entry("tree", "flora"),
    "grass": Entry("grass", "flora"),
    "fern": Entry("fern", "flora"),
    "rex": Entry("Rex", "", "dog", gloss="the name of one dog"),
    "gizmo": Entry("gizmo"),
}


def write_wndb(
    folder: Path, entries: dict[str, Entry] = TINY, ids: dict[str, int] | None = None
) -> dict[str, str]:
    """Write `index.noun`, `data.noun` and `noun.exc`; returns the identifier of each synset.

    `ids` overrides the positions that pointers refer to, to break the hierarchy.
    """
    folder.mkdir(parents=True, exist_ok=True)
    header = "  1 This is WordNet 9.9 Copyright 2006 by nobody.  \n"
    sizes = [len(_line(0, entry, entries, dict.fromkeys(entries, 0))) for entry in entries.values()]
    starts = itertools.accumulate(sizes, initial=len(header))
    offsets = dict(zip(entries, starts, strict=False))
    pointers = offsets | (ids or {})
    lines = [_line(offsets[key], entry, entries, pointers) for key, entry in entries.items()]
    (folder / "data.noun").write_text(header + "".join(lines))
    (folder / "index.noun").write_text(header + _index(entries, offsets))
    (folder / "noun.exc").write_text("geese goose\nmice mouse\n")
    return {key: f"{offset:08d}-n" for key, offset in offsets.items()}


def _line(offset: int, entry: Entry, entries: dict[str, Entry], pointers: dict[str, int]) -> str:
    words = entry.lemmas.split()
    below = [key for key, other in entries.items() if any(entries.get(up) is entry for up in other.above.split())]
    targets = [("@", key) for key in entry.above.split()] + [("@i", key) for key in entry.instance_of.split()]
    targets += [("~", key) for key in below]
    head = (
        f"{offset:08d} 03 n {len(words):02x} " + "".join(f"{word} 0 " for word in words) + f"{len(targets):03d} "
    )
    return (
        head + "".join(f"{symbol} {pointers[key]:08d} n 0000 " for symbol, key in targets) + f"| {entry.gloss}  \n"
    )


def _index(entries: dict[str, Entry], offsets: dict[str, int]) -> str:
    senses: dict[str, list[int]] = {}
    for key, entry in entries.items():
        for lemma in entry.lemmas.lower().split():
            senses.setdefault(lemma, []).append(offsets[key])
    return "".join(
        f"{lemma} n {len(found)} 2 @ ~ {len(found)} 0 {' '.join(f'{offset:08d}' for offset in found)}  \n"
        for lemma, found in sorted(senses.items())
    )


def assert_equals_brute_force(wordnet: WordNet, names: list[str]) -> None:
    """Compare with an enumeration of every chain of hypernyms, which shares no code with the library."""

    def chains(identifier: str, depth: int = 0) -> list[tuple[str, int]]:
        record = wordnet._source.record(identifier)
        assert record is not None
        return [(identifier, depth)] + [step for up in record.hypernyms for step in chains(up, depth + 1)]

    found = [chains(wordnet.synset(name).id) for name in names]
    for (i, ups), (j, others) in itertools.product(enumerate(found), repeat=2):
        best = min((a + b for (x, a), (y, b) in itertools.product(ups, others) if x == y), default=np.inf)
        assert wordnet.pairwise(names)[i, j] == best
