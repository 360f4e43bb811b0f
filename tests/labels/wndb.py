"""A tiny WordNet in WNdb format, written by the tests that read it."""

import itertools

# Key of each synset: its lemmas, and the keys of what it is (of what it is an instance, after "@i").
TINY = {
    "entity": ("entity", ""),
    "thing": ("thing artifact", "entity"),
    "animal": ("animal beast", "entity"),
    "pet": ("pet", "animal"),
    "canine": ("canine", "animal"),
    "dog": ("dog domestic_dog", "canine pet"),
    "cat": ("cat", "pet"),
    "goose": ("goose", "animal"),
    "rodent": ("rodent", "animal"),
    "mouse": ("mouse", "rodent"),
    "device": ("device", "thing"),
    "computer_mouse": ("mouse computer_mouse", "device"),
    "keyboard": ("keyboard", "device"),
    "sports_car": ("sports_car", "thing"),
    "factory": ("plant works", "thing"),
    "flora": ("plant flora", "entity"),
    "tree": ("tree", "flora"),
    "grass": ("grass", "flora"),
    "fern": ("fern", "flora"),
    "rex": ("Rex", "@i dog"),
    "gizmo": ("gizmo", ""),  # shares no root with the others
}


def write_wndb(folder, entries=TINY):
    """Write `index.noun`, `data.noun` and `noun.exc`; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    header = "  1 This is WordNet 9.9 Copyright 2006 by nobody.  \n"

    def line(key, offsets):
        lemmas, above = entries[key][0].split(), entries[key][1]
        pointers = [("@i" if above.startswith("@i") else "@", up) for up in above.removeprefix("@i").split()]
        pointers += [("~", low) for low, (_, up) in entries.items() if key in up.split()]
        words = "".join(f"{lemma} 0 " for lemma in lemmas)
        targets = "".join(f"{symbol} {offsets[other]:08d} n 0000 " for symbol, other in pointers)
        return f"{offsets[key]:08d} 03 n {len(lemmas):02x} {words}{len(pointers):03d} {targets}| a gloss  \n"

    sizes = [len(line(key, dict.fromkeys(entries, 0))) for key in entries]
    offsets = dict(zip(entries, itertools.accumulate(sizes, initial=len(header)), strict=False))
    senses = {}
    for key, (lemmas, _) in entries.items():
        for lemma in lemmas.lower().split():
            senses.setdefault(lemma, []).append(f"{offsets[key]:08d}")
    index = "".join(
        f"{lemma} n {len(x)} 2 @ ~ {len(x)} 0 {' '.join(x)}  \n" for lemma, x in sorted(senses.items())
    )
    (folder / "data.noun").write_text(header + "".join(line(key, offsets) for key in entries))
    (folder / "index.noun").write_text(header + index)
    (folder / "noun.exc").write_text("geese goose\nmice mouse\n")
    return folder
