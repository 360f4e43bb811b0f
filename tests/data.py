"""Real data for tests that want it: PASCAL VOC2007 features in ../shared/data, or where UNSEEN_DATA points."""

import csv
import os
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from unseen.evaluation.protocol import alternating_split, generalized_view, training_view, zero_shot_view
from unseen.labels.space import LabelSpace

FOLDER = Path(os.environ.get("UNSEEN_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
needs_voc = pytest.mark.skipif(
    not (FOLDER / "voc2007_resnet50.npz").is_file(), reason=f"no VOC2007 features in {FOLDER} (set UNSEEN_DATA)"
)


@cache
def voc2007():
    """Training, zero-shot and generalized views of VOC2007, its seen and its unseen labels (GloVe 300-d)."""
    with (FOLDER / "voc2007_labels.csv").open() as file:
        header, *rows = csv.reader(file)
    names = header[-20:]
    Y = np.array([row[-20:] for row in rows], dtype=np.int8)
    with np.load(FOLDER / "voc2007_resnet50.npz") as archive:
        X = archive["features"].astype(np.float32)
        assert [row[0] for row in rows] == list(archive["image_id"])
    with (FOLDER / "voc20_glove6B_300d.csv").open() as file:
        vectors = {row[0]: np.array(row[1:], dtype=float) for row in csv.reader(file)}
    split = alternating_split(names)
    train = np.array([row[1] == "trainval" for row in rows])
    spaces = [
        LabelSpace(side, [vectors[name] for name in side]) for side in (split.seen_names, split.unseen_names)
    ]
    views = (
        training_view(X[train], Y[train], split),
        *(view(X[~train], Y[~train], split) for view in (zero_shot_view, generalized_view)),
    )
    return *views, *spaces
