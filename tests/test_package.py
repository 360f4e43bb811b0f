"""The package itself: what it exports, and what is not loaded before it is needed."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import unseen
from unseen import TAEP, make_tagged_scenes


def modules_after(code: str) -> set[str]:
    """Modules that a fresh process has loaded after running some code."""
    code += "\nimport sys; print(*sys.modules)"
    return set(subprocess.check_output([sys.executable, "-c", code], text=True).split())


def test_every_public_name_can_be_had():
    for name in unseen.__all__:
        assert getattr(unseen, name) is not None
        assert name in dir(unseen)
    with pytest.raises(AttributeError, match="Taep"):
        unseen.Taep  # noqa: B018


def test_importing_unseen_loads_none_of_the_numerical_libraries():
    assert not {"numpy", "scipy", "sklearn", "numba", "matplotlib", "typer"} & modules_after("import unseen")


def test_scoring_loads_nothing_that_training_alone_needs(tmp_path):
    data = make_tagged_scenes(60, 5, n_features=12)
    model = TAEP(tol=0.1).fit(data.X_train, data.Y_train[:, data.seen], data.seen_labels, data.unseen_labels)
    model.save(tmp_path / "model")
    np.save(tmp_path / "X.npy", data.X_test)
    code = f"""
import numpy as np, unseen
model = unseen.ZeroShotTagger.load({str(tmp_path / "model")!r})
assert type(model) is unseen.TAEP
X = np.load({str(tmp_path / "X.npy")!r})
model.tag(X), model.explain(X[0], "cat")
"""
    # scikit-learn loads some of them itself, where they are installed.
    needless = {"numba", "sklearn.linear_model", "pandas", "scipy.optimize", "dask"}
    assert not needless & (modules_after(code) - modules_after("import sklearn.base"))


def test_nothing_in_the_package_imports_a_pickler():
    forbidden = r"^\s*(import|from) (pickle|cPickle|dill|cloudpickle|marshal|shelve)\b|joblib\.(dump|load)\b"
    for source in Path(unseen.__file__).parent.rglob("*.py"):
        assert not re.search(forbidden, source.read_text(encoding="utf-8"), re.MULTILINE), source
