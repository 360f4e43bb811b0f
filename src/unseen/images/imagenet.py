"""The 1,000 classes of ImageNet (ILSVRC 2012), in the order of a backbone's outputs."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import scipy.sparse as sp

    from unseen.ensembles.backbone_knowledge import BackboneKnowledge
    from unseen.images.backbones import Backbone

DATA = Path(__file__).with_name("data")


class Kinds(NamedTuple):
    """Names of kinds, and the classes that belong to each."""

    names: tuple[str, ...]
    membership: sp.csr_array  # of shape (1000, n_kinds), True where the class (row) is of the kind (column)


def class_names() -> tuple[str, ...]:
    """One name per class, all different even when case is ignored."""
    return tuple(row["names"].split("; ")[0] for row in _table("imagenet1k.csv"))


def class_kinds() -> Kinds:
    """Names of the kinds that classes belong to, besides `class_names`: a tabby is a cat, a feline, an animal."""
    import scipy.sparse as sp

    above = {row["wnid"]: row["hypernyms"].split() for row in _table("imagenet1k_kinds.csv")}
    lemmas = {row["wnid"]: row["names"].split("; ") for row in _table("imagenet1k_kinds.csv")}
    written: dict[str, str] = {}
    members: dict[str, list[int]] = {}
    for k, row in enumerate(_table("imagenet1k.csv")):
        found = [row["wnid"]]
        for current in found:  # the list grows while it is read: all synsets above, each once
            found += [hypernym for hypernym in above[current] if hypernym not in found]
        for key, name in {name.casefold(): name for current in found for name in lemmas[current]}.items():
            written.setdefault(key, name)
            members.setdefault(key, []).append(k)
    own = {name.casefold(): k for k, name in enumerate(class_names())}
    keys = sorted(key for key in members if members[key] != [own.get(key)])
    columns = np.repeat(np.arange(len(keys)), [len(members[key]) for key in keys])
    rows = np.concatenate([members[key] for key in keys])
    membership = sp.csr_array((np.ones(len(rows), dtype=bool), (rows, columns)), shape=(len(own), len(keys)))
    return Kinds(tuple(written[key] for key in keys), membership)


def are_kinds(one: str, other: str) -> bool:
    """Whether one of two names is a kind of the other, as "cat" and "animal" are; False if the tables lack one."""
    return bool(_above(one)[0] & _above(other)[1] or _above(other)[0] & _above(one)[1])


@cache
def _above(name: str) -> tuple[frozenset[str], frozenset[str]]:
    """Synsets with this name, and all synsets above them."""
    by_name, hypernyms = _kinds()
    own = by_name.get(name.casefold(), [])
    found = [hypernym for wnid in own for hypernym in hypernyms[wnid]]
    for current in found:  # the list grows while it is read
        found += [hypernym for hypernym in hypernyms[current] if hypernym not in found]
    return frozenset(own), frozenset(found)


@cache
def _kinds() -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Synsets of each name, and the hypernyms of each synset."""
    by_name: dict[str, list[str]] = {}
    rows = _table("imagenet1k_kinds.csv")
    for row in rows:
        for name in row["names"].casefold().split("; "):
            by_name.setdefault(name, []).append(row["wnid"])
    return by_name, {row["wnid"]: row["hypernyms"].split() for row in rows}


def backbone_knowledge(backbone: Backbone, vectors: Any = "use", **parameters: Any) -> BackboneKnowledge:
    """`BackboneKnowledge` of the classes of a backbone, and of their kinds if they are ImageNet's; not fitted yet.

    ``vectors`` is the source of the text vectors, as in `LabelSpace`; use the same one for the labels.
    """
    from unseen.ensembles.backbone_knowledge import BackboneKnowledge
    from unseen.labels.space import LabelSpace

    if backbone.class_names is None:
        raise ValueError(f"backbone: {backbone.name!r} has no named classes. Use its features alone.")
    if backbone.class_names == class_names():
        return imagenet_knowledge(vectors, **parameters)
    return BackboneKnowledge(LabelSpace(backbone.class_names, vectors, missing="mean"), **parameters)


def imagenet_knowledge(vectors: Any = "use", **parameters: Any) -> BackboneKnowledge:
    """`BackboneKnowledge` of the 1,000 ImageNet classes, with their kinds: see `backbone_knowledge`."""
    from unseen.ensembles.backbone_knowledge import BackboneKnowledge
    from unseen.labels.space import LabelSpace

    names, membership = class_kinds()
    classes, kinds = (LabelSpace(group, vectors, missing="mean") for group in (class_names(), names))
    return BackboneKnowledge(classes, kinds=kinds, membership=membership, **parameters)


@cache
def _table(name: str) -> list[dict[str, str]]:
    """Rows of a table written by scripts/make_imagenet_table.py or make_imagenet_kinds.py."""
    with (DATA / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
