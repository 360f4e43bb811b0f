"""A tiny WordNet in WNdb format, written by the tests that read it."""

import itertools
from pathlib import Path
from typing import NamedTuple


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


def write_wndb(folder: Path, entries: dict[str, Entry] = TINY) -> Path:
    """Write `index.noun`, `data.noun` and `noun.exc`."""
    folder.mkdir(parents=True, exist_ok=True)
    header = "  1 This is WordNet 9.9 Copyright 2006 by nobody.  \n"
    sizes = [len(_line(0, entry, entries, dict.fromkeys(entries, 0))) for entry in entries.values()]
    offsets = dict(zip(entries, itertools.accumulate(sizes, initial=len(header)), strict=False))
    lines = [_line(offsets[key], entry, entries, offsets) for key, entry in entries.items()]
    (folder / "data.noun").write_text(header + "".join(lines))
    (folder / "index.noun").write_text(header + _index(entries, offsets))
    (folder / "noun.exc").write_text("geese goose\nmice mouse\n")
    return folder


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
