"""A photo library described and searched by the workers of a cluster is that of one machine."""

import os
import signal
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("PIL")
pytest.importorskip("onnxruntime")
from tests.images.pictures import fill
from tests.photos.world import world

from unseen import PhotoLibrary, PhotoTagger
from unseen.cluster import extract, score
from unseen.photos.query import Expression
from unseen.photos.stored_scores import StoredScores


class Words:
    """Two words with random weights."""

    needs_classes = False

    def __init__(self, has_form):
        self.weights = np.random.default_rng(0).normal(size=(3, 2)).astype(np.float32)
        self.form = StoredScores(self.weights, np.zeros(2), unit=False) if has_form else None

    def columns(self, features, classes):
        scores = features @ self.weights
        return scores, 1.0 / (1.0 + np.exp(-scores))


def made(folder, photos, engine):
    library = PhotoLibrary.open(folder, create=True, backbone=str(world() / "eye.onnx"))
    report = library.index([photos], engine=engine)
    with library.snapshot() as now:
        photos = [photo for _, photo in now.photos()]
        return library, report, photos, np.array(now.features), np.array(now.classes)


def test_the_index_is_that_of_one_machine_even_if_a_worker_dies(processes, tmp_path, monkeypatch):
    fill(tmp_path / "photos", 23)
    (tmp_path / "photos" / "0003.jpg").write_text("no picture")
    killed, original = str(tmp_path / "killed"), extract._describe_part

    def dying_once(*given):
        with suppress(FileExistsError):
            Path(killed).touch(exist_ok=False)
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*given)

    monkeypatch.setattr(extract, "_describe_part", dying_once)
    monkeypatch.setattr(extract.describe_on_cluster, "__defaults__", (5,))
    _, report, photos, features, classes = made(tmp_path / "a", tmp_path / "photos", "dask")
    assert Path(killed).exists()
    _, *local = made(tmp_path / "b", tmp_path / "photos", "local")
    assert (report, photos) == (local[0], local[1])
    assert np.array_equal(features, local[2])
    assert np.array_equal(classes, local[3])


@pytest.mark.parametrize("has_form", [True, False])
def test_a_search_finds_what_one_machine_finds_even_if_a_worker_dies(processes, tmp_path, monkeypatch, has_form):
    fill(tmp_path / "photos", 40)
    library, *_ = made(tmp_path / "library", tmp_path / "photos", "local")
    killed, original = str(tmp_path / "killed"), score._best_part

    def dying_once(*given):
        with suppress(FileExistsError):
            Path(killed).touch(exist_ok=False)
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*given, block=4)

    monkeypatch.setattr(score, "_best_part", dying_once)
    monkeypatch.setattr(score.best_on_cluster, "__defaults__", (7,))
    monkeypatch.setattr("unseen.photos.query.CANDIDATES", 12)
    for groups in (((0,),), ((0,), (), (1,)), ((0, 1), (1,))):
        expression = Expression(Words(has_form), *groups)
        hits = library.find(expression, top=6, engine="dask")
        for hit, other in zip(hits, library.find(expression, top=6), strict=True):
            assert hit.photo == other.photo
            assert hit[1:] == pytest.approx(other[1:])
    assert Path(killed).exists()


def test_words_are_searched_by_the_workers(client, tmp_path, monkeypatch):
    model = PhotoTagger.load(world() / "model.safetensors")
    library = PhotoLibrary.open(tmp_path / "library", create=True, backbone=model.backbone)
    library.index([world() / "photos"])
    monkeypatch.setattr(score.best_on_cluster, "__defaults__", (7,))
    for top in (5, None):  # with and without the form of the scores
        found, local = (
            library.search("crimson", model=model, top=top, engine=engine) for engine in ("dask", "local")
        )
        assert [hit.photo for hit in found] == [hit.photo for hit in local]
        assert [hit.score for hit in found] == pytest.approx([hit.score for hit in local])
