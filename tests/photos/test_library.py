"""A photo library: indexed by folders, kept up to date, searched, copied, killed and read at any moment."""

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("PIL")
from PIL import Image
from tests.photos.world import paint, world

from unseen import PhotoLibrary, PhotoTagger
from unseen.photos import index as indexing
from unseen.photos.query import decode_rows, encode_rows, linear_scores


class Counting:
    """The backbone of the world; it counts what it describes."""

    def __new__(cls):
        backbone = PhotoTagger.load(world() / "model.safetensors").backbone
        run, backbone.n_described = backbone._run, 0

        def counted(batch):
            backbone.n_described += len(batch)
            return run(batch)

        backbone._run = counted
        return backbone


@pytest.fixture
def photos(tmp_path):
    """Return a folder with three photos in two folders."""
    for name, colour in (("a.jpg", "red"), ("b.jpg", "green"), ("sea/c.jpg", "blue")):
        (tmp_path / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        paint(tmp_path / "photos" / name, [colour], seed=ord(name[-5]))
    return tmp_path / "photos"


@pytest.fixture
def backbone():
    return Counting()


@pytest.fixture
def library(photos, backbone):
    made = PhotoLibrary.open(photos.parent / "library", create=True, backbone=backbone)
    made.index([photos], backbone=backbone)
    return made


def names(library, root=None):
    return [os.path.relpath(photo.path, root) if root else Path(photo.path).name for photo in library.photos()]


def found(library, word, **options):
    hits = library.search(word, model=PhotoTagger.load(world() / "model.safetensors"), **options)
    return [Path(hit.photo.path).name for hit in hits]


def test_photos_are_found_by_words_best_first(library):
    hits = library.search("red", model=PhotoTagger.load(world() / "model.safetensors"))
    assert [Path(hit.photo.path).name for hit in hits][0] == "a.jpg"
    assert len(hits) == 3
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert found(library, "cold", top=1) == ["c.jpg"]


def test_the_scores_are_those_of_the_tagger_up_to_eight_bits(library):
    model = PhotoTagger.load(world() / "model.safetensors")
    for hit in library.search("crimson", model=model):
        ((_, ((_, score),), _),) = model.tag(hit.photo.path, ["crimson"])
        assert hit.score == pytest.approx(score, abs=0.05)


def test_only_what_is_new_or_changed_is_described(library, photos, backbone):
    assert backbone.n_described == 4  # with the blank image that every new backbone is tried with
    again = library.index(backbone=backbone)
    assert (again.unchanged, again.new, backbone.n_described) == (3, 0, 4)
    paint(photos / "d.jpg", ["yellow"])
    paint(photos / "a.jpg", ["blue"])
    os.utime(photos / "b.jpg", (1, 1))  # touched: read, but not described
    report = library.index(backbone=backbone)
    assert (report.new, report.changed, report.unchanged, report.n_photos) == (1, 1, 2, 4)
    assert backbone.n_described == 6
    assert found(library, "blue", top=2) in (["a.jpg", "c.jpg"], ["c.jpg", "a.jpg"])
