"""The world that `unseen.datasets.scenes` simulates: an is-a tree of things, and the scenes that show them."""

from __future__ import annotations

from typing import Final

# The labels are the leaves. In alphabetical order, each group of siblings has labels at even positions (seen)
# and at odd ones (unseen): every unseen label has a seen sibling.
_CHILDREN: Final[dict[str, tuple[str, ...]]] = {
    "entity": ("living thing", "artefact", "food"),
    "living thing": ("animal", "person"),
    "animal": ("mammal", "bird"),
    "mammal": ("carnivore", "ungulate"),
    "carnivore": ("cat", "dog"),
    "ungulate": ("cow", "horse", "sheep"),
    "bird": ("chicken", "duck"),
    "person": ("boy", "woman"),
    "artefact": ("vehicle", "household item"),
    "vehicle": ("land vehicle", "watercraft"),
    "land vehicle": ("motor vehicle", "cycle"),
    "motor vehicle": ("car", "truck", "van"),
    "cycle": ("bicycle", "motorbike"),
    "watercraft": ("boat", "ship"),
    "household item": ("seat", "vessel"),
    "seat": ("sofa", "stool"),
    "vessel": ("bottle", "bowl"),
    "food": ("fruit", "baked food"),
    "fruit": ("orange", "pear"),
    "baked food": ("cake", "pizza"),
}
IS_A: Final[dict[str, str]] = {child: parent for parent, children in _CHILDREN.items() for child in children}

# What each scene is likely to show, the most typical label first.
SCENES: Final[dict[str, tuple[str, ...]]] = {
    "farm": ("cow", "sheep", "horse", "chicken", "duck", "dog", "truck"),
    "harbour": ("boat", "ship", "van", "duck", "woman"),
    "kitchen": ("bowl", "bottle", "pizza", "cake", "pear", "orange", "stool", "woman"),
    "living room": ("sofa", "cat", "stool", "dog", "boy", "bottle"),
    "market": ("orange", "pear", "cake", "van", "woman", "bowl", "chicken"),
    "park": ("dog", "bicycle", "boy", "duck", "horse", "woman"),
    "street": ("car", "motorbike", "truck", "bicycle", "van", "woman", "boy"),
}
