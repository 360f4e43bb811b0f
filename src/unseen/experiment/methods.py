"""The methods of an experiment: one entry each in `METHODS`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Literal

from sklearn.base import clone

from unseen.base import ZeroShotTagger
from unseen.baselines import DMP, ESZSL, ConSE, Cosine, DeViSE, Fast0Tag, LatEm
from unseen.ensembles import BackboneKnowledge, Combination, Stacked
from unseen.taep import TAEP

Grid = Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]]


@dataclass(frozen=True)
class Method:
    """One method of an experiment.

    ``model`` is an estimator with the parameters of a run without search; or a function of a module (not a lambda)
    that makes one, given the number of feature columns and an unfitted `BackboneKnowledge` of the classes. Grids
    of ``stages``, as `sklearn.model_selection.ParameterGrid` takes them, are searched one after another; each
    stage starts from the choice of those before it. On the track "paper" methods learn from annotations of seen
    labels and label vectors alone; on the track "open" they also use the classes that the backbone was trained on,
    some of which may be the unseen labels.
    """

    name: str
    track: Literal["paper", "open"]
    model: ZeroShotTagger | Callable[[int, Any], ZeroShotTagger]
    stages: tuple[Grid, ...]
    # Its X: features, class logits, features then logits, or features of all backbones (unit length) then logits.
    columns: Literal["features", "logits", "both", "all"] = "features"
    relations: Literal["hierarchy", "hit counts"] | None = None
    needs_relations: bool = True  # left out if the data set has no such relations
    vectors: tuple[str, ...] = ()  # sources that the search chooses from; otherwise the first of the data set
    in_search: Mapping[str, Any] = field(default_factory=dict)  # for the search only, such as a looser tolerance
    shared_space: bool = False  # features and label vectors must have the same dimensions
    code: str = ""  # source of a method from outside the package: stored results of another one are not reused

    def make(self, n_features: int, knowledge: BackboneKnowledge | None, seed: int) -> ZeroShotTagger:
        """Return a new estimator whose random states are all ``seed``."""
        if isinstance(self.model, ZeroShotTagger):
            model: ZeroShotTagger = clone(self.model)
        else:
            model = self.model(n_features, BackboneKnowledge() if knowledge is None else clone(knowledge))
        seeds = [name for name in model.get_params() if name.rpartition("__")[-1] == "random_state"]
        model.set_params(**dict.fromkeys(seeds, seed))
        return model


SIDE_BY_SIDE: Final = "side by side"  # label vectors of several sources, concatenated
IN_A_PICTURE: Final = "use, a picture of a ..."  # the Universal Sentence Encoder on this phrase

# Refits are certified to 1 %; the search compares models at 5 %, which gives the same ranking in half the time.
FINAL_TOL: Final = 1e-2
_LOOSE: Final = {"tol": 5e-2}

# Ranks are shares of the labels trained on: a fold of the search has half as many as the refit.
_RANK_AND_BETA: Final[Grid] = {"rank": [0.25, 0.5, 1.0], "beta": [1.0, 3.0, 10.0]}
_GAMMA: Final[Grid] = [
    {"scaling": ["scale-free"], "gamma": [0.01, 0.1, 1.0]},
    {"scaling": ["paper"], "gamma": [0.01, 0.1, 1.0, 10.0]},
]
_GAMMA_AND_LAMBDA: Final[Grid] = [
    {"scaling": ["scale-free"], "gamma": [0.01, 0.1], "lam": [0.03, 0.1, 0.3, 1.0]},
    {"scaling": ["paper"], "gamma": [0.1, 10.0], "lam": [0.1, 10.0]},
]
_CENTRE: Final[Grid] = {"center": [True, False]}
_KNOWLEDGE: Final = {"sharpness": [4.0, 6.0], "regression": [0.5, 0.7]}
_SECOND: Final = {f"second__{name}": values for name, values in _KNOWLEDGE.items()}


def backbone_alone(n_features: int, knowledge: Any) -> ZeroShotTagger:
    """The backbone's classes alone."""
    tagger: ZeroShotTagger = knowledge
    return tagger


def taep_and_backbone(n_features: int, knowledge: Any) -> ZeroShotTagger:
    """TAEP on the features plus the backbone's classes."""
    return Combination(TAEP(tol=FINAL_TOL), knowledge, n_features)


def stacked_and_backbone(n_features: int, knowledge: Any) -> ZeroShotTagger:
    """Stacked on the features plus the backbone's classes, which see the features too."""
    knowledge.set_params(n_features=n_features)
    return Combination(Stacked(tol=FINAL_TOL), knowledge, n_features, second_sees_all=True)


_TAEP: Final = TAEP(tol=FINAL_TOL)
_STAGES: Final = (_RANK_AND_BETA, _CENTRE, _GAMMA_AND_LAMBDA)
_PROMPTS: Final = (IN_A_PICTURE, "use")

METHODS: Final[tuple[Method, ...]] = (
    Method("ConSE", "paper", ConSE(), ({"n_top": [1, 3, 10], "C": [1.0, 10.0]}, _CENTRE)),
    Method("LatEm-M", "paper", LatEm(), ({"n_maps": [2, 4], "alpha": [1e-2, 1e-3, 1e-4]}, _CENTRE)),
    Method("DMP", "paper", DMP(), ({"alpha": [0.1, 1.0, 10.0, 100.0]}, _CENTRE)),
    Method("Fast0Tag", "paper", Fast0Tag(), ({"ridge": [3e-3, 1e-2, 3e-2], "alpha": [0.1, 1.0]}, _CENTRE)),
    Method("TAEP", "paper", _TAEP, (_RANK_AND_BETA, _CENTRE, _GAMMA), in_search=_LOOSE),
    Method("TAEP-C", "paper", _TAEP, _STAGES, relations="hit counts", in_search=_LOOSE),
    Method("TAEP-H", "paper", _TAEP, _STAGES, relations="hierarchy", in_search=_LOOSE),
    Method("DeViSE", "paper", DeViSE(), ({"alpha": [1e-2, 3e-3, 1e-3], "pairs": ["all", "worst"]}, _CENTRE)),
    Method("Cosine", "paper", Cosine(), (_CENTRE,), shared_space=True),
    Method("ESZSL", "paper", ESZSL(), ({"gamma": [0.1, 1.0, 10.0, 100.0], "lam": [0.1, 1.0, 10.0]}, _CENTRE)),
    Method(
        "Stacked",
        "paper",
        Stacked(tol=FINAL_TOL),
        ({"center": [True]},),  # a single setting, for its held-out score
        relations="hit counts",
        needs_relations=False,
        vectors=(SIDE_BY_SIDE,),
        in_search={"n_splits": 2, **_LOOSE},
    ),
    Method("BackboneKnowledge", "open", backbone_alone, (_KNOWLEDGE,), columns="logits", vectors=_PROMPTS),
    Method(
        "TAEP + BackboneKnowledge",
        "open",
        taep_and_backbone,
        (_SECOND, {"first__beta": [1.0, 3.0, 10.0], "first__gamma": [0.01, 0.1, 1.0]}),
        columns="both",
        vectors=_PROMPTS,
        in_search={"first__tol": 5e-2},
    ),
    Method(
        "Stacked + BackboneKnowledge",
        "open",
        stacked_and_backbone,
        (_SECOND,),
        columns="all",
        relations="hit counts",
        needs_relations=False,
        vectors=_PROMPTS,
        in_search={"first__n_splits": 2, "first__tol": 5e-2},
    ),
)


def choose_methods(names: Sequence[str]) -> tuple[Method, ...]:
    """Entries of `METHODS` by name, ignoring case, and classes of yours as ``module:Name``.

    A class is a `ZeroShotTagger` whose parameters all have defaults; its module is also looked for in the current
    folder. It joins the paper track, under its own name. If it has an attribute ``search_grid``, a grid as
    `sklearn.model_selection.ParameterGrid` takes it, this is searched; otherwise it keeps its default parameters.
    """
    known = {method.name.casefold(): method for method in METHODS}
    unknown = [name for name in names if ":" not in name and name.casefold() not in known]
    if unknown:
        raise ValueError(
            f"--methods: there is no {unknown[0]!r}. Pass some of {', '.join(method.name for method in METHODS)}, "
            f"or a class of yours as module:Name."
        )
    chosen = tuple(_load(name) if ":" in name else known[name.casefold()] for name in names)
    titles = [method.name for method in chosen]
    if len(set(titles)) < len(titles):
        raise ValueError(f"--methods: two of {', '.join(titles)} have the same name. Pass each once.")
    return chosen


def _load(path: str) -> Method:
    """The method of a user's class, given as ``module:Name``."""
    module_name, _, name = path.partition(":")
    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))  # and stays there: worker processes import the module too
    try:
        module = import_module(module_name)
        found = getattr(module, name)
    except Exception as error:  # whatever the user's module raises
        raise ValueError(
            f"--methods: cannot import {path!r}: {type(error).__name__}: {error}. Run the command in the folder "
            f"of the module, or install it."
        ) from error
    if not (isinstance(found, type) and issubclass(found, ZeroShotTagger)):
        raise ValueError(f"--methods: {path!r} is not a subclass of unseen.ZeroShotTagger. Derive it from that.")
    try:
        model = found()
    except TypeError as error:
        raise ValueError(
            f"--methods: {path!r} cannot be made without arguments: {error}. Give its parameters defaults."
        ) from error
    grid = getattr(found, "search_grid", None)
    return Method(name, "paper", model, () if grid is None else (grid,), code=inspect.getsource(module))
