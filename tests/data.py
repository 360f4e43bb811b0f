"""Real data for tests that want it: PASCAL VOC2007 features in ../shared/data, or where UNSEEN_DATA points."""

import os
from functools import cache
from pathlib import Path

import pytest
from benchmarks.voc2007 import read_voc2007

from unseen.evaluation.protocol import alternating_split, generalized_view, training_view, zero_shot_view

FOLDER = Path(os.environ.get("UNSEEN_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
needs_voc = pytest.mark.skipif(
    not (FOLDER / "voc2007_resnet50.npz").is_file(), reason=f"no VOC2007 features in {FOLDER} (set UNSEEN_DATA)"
)


@cache
def voc2007():
    """Training, zero-shot and generalized views of VOC2007, its seen and its unseen labels (GloVe 300-d)."""
    X, Y, X_test, Y_test, space = read_voc2007(FOLDER)
    split = alternating_split(space.names)
    views = (
        training_view(X, Y, split),
        zero_shot_view(X_test, Y_test, split),
        generalized_view(X_test, Y_test, split),
    )
    return *views, space.select(split.seen_names), space.select(split.unseen_names)
