"""Every reader of `unseen`, with small valid files to start from."""

from __future__ import annotations

import contextlib
import copy
import gzip
import io
import json
import random
import sqlite3
import tempfile
import zipfile
from collections.abc import Callable, Iterator
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


ANYTHING = [
    None, True, False, -1, 0, 1, 3, 2**31, 10**18, 10**400, 0.5, -1e-9, 1e30, 1e308, float("nan"), float("inf"),
    "", "mean", "TAEP", "..", [], ["a"], ["a", "a"], [[]], {}, {"json": 1}, {"tensor": "label_vectors_"},
    {"csr": [5, 5]},
]  # fmt: skip


@cache
def _models() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Header and tensors of a small model of every kind."""
    from safetensors import safe_open
    from sklearn.base import clone
    from tests.contract.estimators import ESTIMATORS, WITH_VECTORS
    from tests.photos.world import calibrated

    from unseen.model_file import read_header
    from unseen.testing import Trial

    found, estimators = [], [clone(estimator) for estimator in (*ESTIMATORS, *WITH_VECTORS)]
    for estimator in estimators:
        estimator.set_params(**{name: 0.1 for name in estimator.get_params(deep=False) if name == "tol"})
    with tempfile.TemporaryDirectory() as name:
        for tagger in (*(Trial(estimator).model for estimator in estimators), calibrated().tagger):
            tagger.save(Path(name) / "m")
            with safe_open(Path(name) / "m", framework="numpy") as file:
                tensors = {part: file.get_tensor(part) for part in file.keys()}  # noqa: SIM118
            found.append((read_header(Path(name) / "m"), tensors))
    return found


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every entry of nested dicts and lists: its container, and its key there."""
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key])


def _change(header: dict[str, Any], tensors: dict[str, Any], rng: random.Random) -> None:
    """Change one entry of a header, or one tensor."""
    if tensors and rng.random() < 0.4:
        name, kind = rng.choice(sorted(tensors)), rng.randrange(6)
        array = tensors[name]
        if kind == 0:
            tensors[name] = array[: rng.randrange(len(array) + 1)] if array.ndim else array.reshape(1)
        elif kind == 1:
            tensors[name] = array.T if rng.random() < 0.5 else array.ravel()
        elif kind == 2:
            tensors[name] = array.astype(rng.choice(["f2", "f4", "f8", "i1", "u1", "i4", "i8", "?"]))
        elif kind == 3:
            tensors[name] = tensors[rng.choice(sorted(tensors))]
        elif kind == 4:
            tensors[name] = np.full_like(array, rng.choice([0, 1, -1, 127]))
        elif array.size:
            tensors[name] = array.copy()
            tensors[name].flat[rng.randrange(array.size)] = rng.choice([0, -1, 100, 1e4, 1e99, np.nan])
        return
    container, key = rng.choice(list(_places(header)))
    if rng.random() < 0.2:
        del container[key]
    elif rng.random() < 0.3:
        other, name = rng.choice(list(_places(header)))
        container[key] = copy.deepcopy(other[name])
    else:
        container[key] = copy.deepcopy(rng.choice(ANYTHING))


def _read_signed(path: Path) -> Any:
    """A model that was changed by someone who knows how; what is read must score. The bytes choose the changes."""
    from safetensors.numpy import save_file

    from unseen import ZeroShotTagger
    from unseen.model_file import HEADER, _digest

    rng = random.Random(path.read_bytes())
    header, tensors = copy.deepcopy(rng.choice(_models()))
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        with np.errstate(all="ignore"), contextlib.suppress(OverflowError):
            _change(header, tensors, rng)
    tensors = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    header["digest"] = _digest(header, tensors)
    save_file(tensors, path, metadata={HEADER: json.dumps(header)})
    tagger = ZeroShotTagger.load(path)
    try:
        chance = np.random.default_rng(rng.randrange(2**32))
        X = chance.normal(size=(3, tagger.n_features_in_)) * 10.0 ** chance.integers(-3, 4)
        others = chance.normal(size=(4, tagger.label_vectors_.shape[1]))  # labels that it has not met
        with np.errstate(all="ignore"):
            tagger.tag(X), tagger.predict(X)
            for labels, label in (("all", tagger.label_names_[0]), (others, others[0])):
                scores = tagger.decision_function(X, labels)
                p = tagger.predict_proba(X, labels) if hasattr(tagger, "predict_proba") else 0.0 * scores
                assert np.isfinite(np.hstack([scores, tagger.threshold(X)[:, None]])).all()
                assert ((p >= 0.0) & (p <= 1.0)).all()
                assert np.isfinite([tag.score for tag in tagger.similar_labels(label)]).all()
                tagger.predict(X, labels), tagger.explain(X[0], label)
    except Exception as error:
        if str(error).startswith("explain: "):  # this method cannot
            return
        raise RuntimeError(f"it loads, but fails later: {error!r}") from error


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
        "signed model": Reader(_read_signed, ".safetensors", [bytes(range(256))]),
        "sidecar": Reader(sidecar, ".xmp", [packet]),
        "keywords": Reader(photo_with_keywords, ".jpg", [tiny.getvalue()]),
        "image": Reader(read_image, ".jpg", pictures),
        "pair": Reader(pair, ".json", [b'{"model_cfg": {"embed_dim": 4}, "preprocess_cfg": {"size": 8}}']),
        "library": Reader(_read_library, ".sqlite", [_library()]),
    }
