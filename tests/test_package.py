"""The package itself: what it exports, and that asking for its version stays cheap."""

import subprocess
import sys

import pytest

import unseen


def test_every_public_name_can_be_had():
    for name in unseen.__all__:
        assert getattr(unseen, name).__name__ == name
        assert name in dir(unseen)


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="no attribute 'Taep'"):
        unseen.Taep  # noqa: B018


def test_importing_unseen_loads_none_of_the_numerical_libraries():
    heavy = {"numpy", "scipy", "sklearn", "numba", "matplotlib", "typer"}
    code = f"import sys, unseen; print(sorted({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"
