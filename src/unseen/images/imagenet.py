"""The 1,000 classes of ImageNet (ILSVRC 2012), in the order of a backbone's outputs."""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files

__all__ = ["class_names", "class_synsets"]


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


@cache
def _classes() -> tuple[tuple[str, str], ...]:
    # Written by scripts/make_imagenet_table.py.
    table = files("unseen.images").joinpath("data/imagenet1k.csv").read_text(encoding="utf-8")
    return tuple((row["wnid"], row["names"]) for row in csv.DictReader(table.splitlines()))
