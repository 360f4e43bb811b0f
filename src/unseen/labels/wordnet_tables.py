"""Tables that ship with the package: the curated WordNet 3.0 senses of VOC-20 and COCO-80, and their paths."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from unseen.labels.wordnet_synsets import Synset

__all__ = ["curated_label_sets", "curated_sense", "curated_senses", "table_lengths"]

TABLE_SOURCE = "the table of WordNet 3.0 paths that ships with unseen"
_DATA = files("unseen.labels") / "data"


def curated_sense(label: str) -> Synset | None:
    """Sense of a label of VOC-20 or COCO-80, chosen by hand; None if it is no such label.

    Parameters
    ----------
    label : str
        In any case, its words joined by spaces, hyphens, underscores or nothing ("dining table", "diningtable").

    Returns
    -------
    Synset or None
    """
    return curated_senses().get(_glued(label))


@cache
def curated_label_sets() -> dict[str, dict[str, str]]:
    """Names of the senses, by label set and label: the part of the tables that is written by hand."""
    sets: dict[str, dict[str, str]] = json.loads((_DATA / "label_senses.json").read_text(encoding="utf-8"))
    return sets


@cache
def curated_senses() -> dict[str, Synset]:
    """Curated sense of each label, the words of which are glued together."""
    rows = csv.DictReader((_DATA / "wordnet30_senses.csv").read_text(encoding="utf-8").splitlines())
    synsets = {
        row["sense"]: Synset(row["id"], row["sense"], tuple(row["lemmas"].split()), row["gloss"]) for row in rows
    }
    return {
        _glued(name): synsets[sense] for names in curated_label_sets().values() for name, sense in names.items()
    }


def table_lengths(senses: Iterable[Synset]) -> NDArray[np.float64]:
    """Path lengths between curated senses.

    Parameters
    ----------
    senses : iterable of Synset
        As `curated_sense` gives them.

    Returns
    -------
    ndarray of shape (n_senses, n_senses)
    """
    rows, lengths = _paths()
    order = [rows[sense.name] for sense in senses]
    return lengths[np.ix_(order, order)]


@cache
def _paths() -> tuple[dict[str, int], NDArray[np.float64]]:
    header, *rows = csv.reader((_DATA / "wordnet30_paths.csv").read_text(encoding="utf-8").splitlines())
    lengths = np.array([row[1:] for row in rows], dtype=np.float64)
    return {name: row for row, name in enumerate(header[1:])}, lengths


def _glued(label: str) -> str:
    return "".join(label.lower().replace("_", " ").replace("-", " ").split())
