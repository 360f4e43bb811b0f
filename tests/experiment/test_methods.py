"""Methods of an experiment: chosen by name, or a class of the user's."""

import sys

import pytest

from unseen.experiment.methods import METHODS, choose_methods
from unseen.taep import TAEP

MODULE = """
from unseen.baselines import DMP

class Plain(DMP):
    pass

class Searched(DMP):
    search_grid = {"alpha": [0.1, 1.0]}

class Needy(DMP):
    def __init__(self, alpha):
        self.alpha = alpha

number = 3
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_taggers.py").write_text(MODULE)
    yield "own_taggers"
    sys.modules.pop("own_taggers", None)


def test_names_are_found_in_any_case_and_keep_their_order():
    assert [method.name for method in choose_methods(["stacked", "TAEP-h"])] == ["Stacked", "TAEP-H"]


def test_a_class_of_the_current_folder_joins_the_paper_track(own):
    plain, searched = choose_methods([f"{own}:Plain", f"{own}:Searched"])
    assert (plain.name, plain.track, plain.stages) == ("Plain", "paper", ())
    assert searched.stages == ({"alpha": [0.1, 1.0]},)
    assert type(searched.make(3, None, 0)).__name__ == "Searched"
    assert "search_grid" in plain.code  # stored results follow the source


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("TAPE", "TAEP-C"),
        ("no_such_module:Tagger", "ModuleNotFoundError"),
        ("own_taggers:Missing", "AttributeError"),
        ("own_taggers:number", "ZeroShotTagger"),
        ("own_taggers:Needy", "alpha"),
        ("unseen:TAEP", "same name"),
    ],
)
def test_what_cannot_be_used_is_refused(own, name, message):
    with pytest.raises(ValueError, match=rf"^--methods: .*{message}"):
        choose_methods(["taep", name])


def test_ranks_are_shares_of_the_labels():
    grids = [grid for m in METHODS if isinstance(m.model, TAEP) for grid in m.stages if "rank" in grid]
    assert grids
    assert all(isinstance(rank, float) and 0 < rank <= 1 for grid in grids for rank in grid["rank"])
