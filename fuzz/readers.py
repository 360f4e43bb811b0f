"""Every reader of `unseen`, with small valid files to start from."""

from __future__ import annotations

import gzip
import io
import json
import sqlite3
import tempfile
import zipfile
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

XML = """<annotation><filename>1.jpg</filename><size><width>4</width><height>4</height></size>
<object><name>dog</name><difficult>0</difficult></object>
<object><name>cat</name><difficult>1</difficult></object></annotation>"""
COCO = {
    "images": [{"id": 1, "file_name": "1.jpg"}, {"id": 2, "file_name": "2.jpg"}],
    "categories": [{"id": 7, "name": "dog"}, {"id": 8, "name": "cat"}],
    "annotations": [{"image_id": 1, "category_id": 7}, {"image_id": 2, "category_id": 8, "iscrowd": 0}],
}
GLOVE = "dog 1.0 0.5 0.25\ncat 0.5 1.0 0.125\ncow 0.1 0.2 0.3\n"


class Reader(NamedTuple):
    """A function of a file, the suffix of its name, and contents to start from."""

    read: Callable[[Path], Any]
    suffix: str
    seeds: list[bytes]


def _npz(**arrays: Any) -> bytes:
    content = io.BytesIO()
    np.savez(content, **arrays)
    return content.getvalue()


def _npy(array: Any) -> bytes:
    content = io.BytesIO()
    np.save(content, array)
    return content.getvalue()


def _zip(**members: bytes) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name.replace("_txt", ".txt"), data)
    return content.getvalue()


def _read_voc(path: Path) -> Any:
    from unseen.datasets.voc import read_voc

    devkit = path.parent / "devkit" / "VOC2007"
    for name in ("Annotations", "ImageSets/Main", "JPEGImages"):
        (devkit / name).mkdir(parents=True, exist_ok=True)
    (devkit / "ImageSets" / "Main" / "trainval.txt").write_text("000001\n")
    (devkit / "Annotations" / "000001.xml").write_bytes(path.read_bytes())
    return read_voc(devkit.parent, split="trainval")


def _read_library(path: Path) -> Any:
    from unseen.photos.library import PhotoLibrary

    folder = path.parent / "library"
    folder.mkdir(exist_ok=True)
    (folder / "library.sqlite").write_bytes(path.read_bytes())
    for rest in ("-wal", "-shm"):
        (folder / f"library.sqlite{rest}").unlink(missing_ok=True)
    return list(PhotoLibrary.open(folder).photos())


def _library() -> bytes:
    with tempfile.TemporaryDirectory() as name:
        from unseen.photos.library import PhotoLibrary

        PhotoLibrary.open(Path(name) / "library", create=True)
        with sqlite3.connect(Path(name) / "library" / "library.sqlite") as db:
            db.execute("PRAGMA journal_mode = DELETE")
        return (Path(name) / "library" / "library.sqlite").read_bytes()


def _model() -> bytes:
    from unseen import TAEP, make_tagged_scenes

    data = make_tagged_scenes(60, 5, n_features=4)
    model = TAEP(tol=0.1).fit(data.X_train, data.Y_train[:, data.seen], data.seen_labels)
    with tempfile.TemporaryDirectory() as name:
        model.save(Path(name) / "m")
        return (Path(name) / "m").read_bytes()


@cache
def readers() -> dict[str, Reader]:
    """All of them, by name."""
    from unseen import LabelSpace, ZeroShotTagger
    from unseen.datasets import read_annotations
    from unseen.hub import read_pair
    from unseen.images.features import open_features
    from unseen.images.reading import read_image
    from unseen.labels.cooccurrence import count_tag_sets, read_hit_counts
    from unseen.labels.names import Vocabulary
    from unseen.photos.keywords import read_keywords
    from unseen.photos.xmp import Packet

    def sidecar(path: Path) -> Any:
        packet = Packet(path.read_bytes(), str(path))
        return packet.entries, packet.with_entries({"dc:subject": ["dog"]})

    def photo_with_keywords(path: Path) -> Any:
        return read_keywords(path)

    def pair(path: Path) -> Any:
        folder = path.parent / "pair"
        (folder / "visual").mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_bytes(path.read_bytes())
        return read_pair(folder)

    vectors = [GLOVE.encode(), f"3 3\n{GLOVE}".encode(), b"word,x,y\ndog,1,2\ncat,2,1\n"]
    table = b"path,split,labels\na.jpg,train,dog;cat\nb.jpg,test,cat\n"
    matrix = b"path,dog,cat\na.jpg,1,0\nb.jpg,0,1\n"
    X = np.arange(6, dtype=np.float32).reshape(2, 3)
    photos = files("unseen.images").joinpath("data/photos")
    tiny = io.BytesIO()
    from PIL import Image

    Image.effect_noise((24, 16), 40).convert("RGB").save(tiny, "JPEG")
    pictures = [tiny.getvalue()]
    for kind in ("PNG", "GIF", "WEBP", "BMP", "TIFF", "PPM"):
        content = io.BytesIO()
        Image.open(io.BytesIO(tiny.getvalue())).save(content, kind)
        pictures.append(content.getvalue())
    packet = Packet().with_entries({"dc:subject": ["cat"], "digiKam:TagsList": ["animal/cat"]})
    names = ["dog", "cat"]
    assert photos.is_dir()
    return {
        "table": Reader(read_annotations, ".csv", [table, matrix, table.replace(b",", b"\t")]),
        "coco": Reader(read_annotations, ".json", [json.dumps(COCO).encode()]),
        "voc": Reader(_read_voc, ".xml", [XML.encode()]),
        "vectors": Reader(lambda path: LabelSpace(names, str(path)), ".txt", vectors),
        "vectors.gz": Reader(
            lambda path: LabelSpace(names, str(path)), ".txt.gz", [gzip.compress(one) for one in vectors]
        ),
        "vectors.zip": Reader(lambda path: LabelSpace(names, f"{path}:a.txt"), ".zip", [_zip(a_txt=vectors[0])]),
        "vectors.npz": Reader(
            lambda path: LabelSpace(names, str(path)), ".npz", [_npz(words=np.array(names), vectors=X)]
        ),
        "features.npz": Reader(open_features, ".npz", [_npz(features=X, image_id=np.array(["a", "b"]))]),
        "features.npy": Reader(open_features, ".npy", [_npy(X)]),
        "features.csv": Reader(open_features, ".csv", [b"path,1,2\na.jpg,0.5,1\nb.jpg,1,2\n"]),
        "hit counts": Reader(read_hit_counts, ".csv", [b"label,dog,cat\ndog,9,2\ncat,2,7\n"]),
        "tag sets": Reader(
            lambda path: count_tag_sets(path, names), ".txt", [b"dog, cat\ndog\n", b'["dog", "cat"]\n["cat"]\n']
        ),
        "vocabulary": Reader(Vocabulary.read, ".txt", [b"animal > cat: kitten, !toy\nboat\n@everyday\n!gun\n"]),
        "model": Reader(ZeroShotTagger.load, ".safetensors", [_model()]),
        "sidecar": Reader(sidecar, ".xmp", [packet]),
        "keywords": Reader(photo_with_keywords, ".jpg", [tiny.getvalue()]),
        "image": Reader(read_image, ".jpg", pictures),
        "pair": Reader(pair, ".json", [b'{"model_cfg": {"embed_dim": 4}, "preprocess_cfg": {"size": 8}}']),
        "library": Reader(_read_library, ".sqlite", [_library()]),
    }
