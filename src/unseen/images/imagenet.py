"""The 1,000 classes of ImageNet (ILSVRC 2012), in the order of a backbone's outputs."""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

__all__ = ["Kinds", "class_kinds", "class_names", "class_synsets"]


class Kinds(NamedTuple):
    """Names that classes go by, and which classes go by each."""

    names: tuple[str, ...]
    membership: sp.csr_array  # of shape (1000, n_kinds), True where the class (row) goes by the name (column)


def class_names() -> tuple[str, ...]:
    """One name for each class, no two alike, whatever the case of their letters.

    It is the first lemma of the class's WordNet synset, but for four classes that share theirs with another:
    "crane bird", "construction crane", "Cardigan Welsh corgi" and "tank suit".

    Returns
    -------
    tuple of str
        1,000 names.

    Examples
    --------
    >>> from unseen.images.imagenet import class_names
    >>> class_names()[:3], class_names()[999]
    (('tench', 'goldfish', 'great white shark'), 'toilet tissue')
    """
    return tuple(names.split("; ")[0] for _, names in _classes())


def class_synsets() -> tuple[str, ...]:
    """WordNet 3.0 synset of each class, as ImageNet writes it: ``n`` (noun) and eight digits.

    Returns
    -------
    tuple of str
        1,000 identifiers.

    Examples
    --------
    >>> from unseen.images.imagenet import class_synsets
    >>> class_synsets()[0]
    'n01440764'
    """
    return tuple(synset for synset, _ in _classes())


def class_kinds() -> Kinds:
    """Names of what the classes are, besides those of `class_names`: a tabby is a cat, a feline, an animal.

    They are the lemmas of the classes' synsets and of all synsets above these in WordNet's is-a hierarchy. A class
    goes by a name if one of these synsets has it, whatever its sense.

    Returns
    -------
    Kinds
        Names, no two alike whatever the case of their letters, and the classes of each.

    Examples
    --------
    >>> from unseen.images.imagenet import class_kinds, class_names
    >>> kinds = class_kinds()
    >>> classes = kinds.membership[:, [kinds.names.index("boat")]].nonzero()[0]
    >>> [class_names()[k] for k in classes]
    ['canoe', 'fireboat', 'gondola', 'lifeboat', 'speedboat', 'yawl']
    """
    hierarchy = _hierarchy()
    written: dict[str, str] = {}
    members: dict[str, list[int]] = {}
    for k, synset in enumerate(class_synsets()):
        names = {name.casefold(): name for above in _with_hypernyms(synset) for name in hierarchy[above][1]}
        for key, name in names.items():
            written.setdefault(key, name)
            members.setdefault(key, []).append(k)
    own = {name.casefold(): k for k, name in enumerate(class_names())}
    kept = sorted(key for key in members if members[key] != [own.get(key)])
    columns = np.repeat(np.arange(len(kept)), [len(members[key]) for key in kept])
    rows = np.concatenate([members[key] for key in kept])
    membership = sp.csr_array((np.ones(len(rows), dtype=bool), (rows, columns)), shape=(len(own), len(kept)))
    return Kinds(tuple(written[key] for key in kept), membership)


def _with_hypernyms(synset: str) -> list[str]:
    """A synset and all above it, each once."""
    found = [synset]
    for current in found:
        found += [above for above in _hierarchy()[current][0] if above not in found]
    return found


@cache
def _hierarchy() -> dict[str, tuple[list[str], list[str]]]:
    """Direct hypernyms and lemmas of each synset."""
    # Written by scripts/make_imagenet_kinds.py.
    table = files("unseen.images").joinpath("data/imagenet1k_kinds.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(table.splitlines())
    return {row["wnid"]: (row["hypernyms"].split(), row["names"].split("; ")) for row in rows}


@cache
def _classes() -> tuple[tuple[str, str], ...]:
    # Written by scripts/make_imagenet_table.py.
    table = files("unseen.images").joinpath("data/imagenet1k.csv").read_text(encoding="utf-8")
    return tuple((row["wnid"], row["names"]) for row in csv.DictReader(table.splitlines()))
