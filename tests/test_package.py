"""The package itself: what it exports, and what is not loaded before it is needed."""

import ast
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import unseen
from unseen import TAEP, make_tagged_scenes


def modules_after(code: str) -> set[str]:
    """Modules that a fresh process has loaded after running some code."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


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
model.tag(np.load({str(tmp_path / "X.npy")!r}))
model.explain(np.load({str(tmp_path / "X.npy")!r})[0], "cat")
"""
    # scikit-learn loads some of them itself, where they are installed.
    needless = {"numba", "sklearn.linear_model", "pandas", "scipy.optimize", "dask"}
    assert not needless & (modules_after(code) - modules_after("import sklearn.base"))


def test_nothing_in_the_package_imports_a_pickler():
    forbidden = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve"}
    for source in Path(unseen.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {name.split(".")[0] for name in names} & forbidden, source
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                is_joblib = isinstance(node.func.value, ast.Name) and node.func.value.id == "joblib"
                assert not (is_joblib and node.func.attr in ("dump", "load")), source
