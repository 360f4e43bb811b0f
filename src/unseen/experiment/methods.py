"""The methods of an experiment: one entry each in `METHODS`."""

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
    of ``stages``, as `sklearn.model_selection.ParameterGrid` takes them, are searched one after another. On the
    track "open" methods also use the classes of the backbone, some of which may be the unseen labels.
    """

    name: str
    track: Literal["paper", "open"]
    model: ZeroShotTagger | Callable[[int, Any], ZeroShotTagger]
    stages: tuple[Grid, ...]
    columns: Literal["features", "logits", "both"] = "features"  # its X; "both": features, then class logits
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
        model.set_params(**dict.fromkeys(seeds_of(model), seed))
        return model


def seeds_of(model: ZeroShotTagger) -> list[str]:
    """Names of the parameters that are seeds."""
    return [name for name in model.get_params() if name.rpartition("__")[-1] == "random_state"]


SIDE_BY_SIDE: Final = "side by side"  # label vectors of several sources, concatenated
IN_A_PICTURE: Final = "use, a picture of a ..."  # the Universal Sentence Encoder on this phrase

# Refits are certified to 1 %; the search compares models at 5 %, which gives the same ranking in half the time.
FINAL_TOL: Final = 1e-2
_LOOSE: Final = {"tol": 5e-2}

# Ranks are shares of the labels trained on, and beta is scale-free: a fold of the search has half of the labels
# and fewer images.
_RANK_AND_BETA: Final[Grid] = {"rank": [0.25, 0.5, 1.0], "beta": [0.5, 2.0, 10.0, 100.0]}
_GAMMA: Final[Grid] = {"gamma": [0.01, 0.03, 0.1, 1.0]}
_GAMMA_AND_LAMBDA: Final[Grid] = {"gamma": [0.03, 0.3], "lam": [0.01, 0.03, 0.1, 0.3, 1.0]}
_CENTRE: Final[Grid] = {"center": [True, False]}
_KNOWLEDGE: Final = {"sharpness": [4.0, 6.0], "cooccurrence": [0.1, 0.5]}
_STACKED: Final[dict[str, Any]] = {
    "relations": "hit counts", "needs_relations": False, "in_search": {"n_splits": 2, **_LOOSE}
}  # fmt: skip


def backbone_alone(n_features: int, knowledge: Any) -> ZeroShotTagger:
    """The backbone's classes alone."""
    tagger: ZeroShotTagger = knowledge
    return tagger


def taep_and_backbone(n_features: int, knowledge: Any) -> ZeroShotTagger:
    """TAEP on the features plus the backbone's classes."""
    return Combination(TAEP(tol=FINAL_TOL), knowledge, n_features)


def stacked_and_backbone(n_features: int, knowledge: Any) -> ZeroShotTagger:
    """Stacked on the features, with the backbone's classes as evidence."""
    return Stacked(knowledge, n_features, tol=FINAL_TOL)


def _taep_family(suffix: str, loss: Literal["max", "mean"]) -> list[Method]:
    model, stages = TAEP(rank=1.0, loss=loss, tol=FINAL_TOL), (_RANK_AND_BETA, _CENTRE, _GAMMA_AND_LAMBDA)
    return [
        Method(f"TAEP{suffix}", "paper", model, (_RANK_AND_BETA, _CENTRE, _GAMMA), in_search=_LOOSE),
        Method(f"TAEP-C{suffix}", "paper", model, stages, relations="hit counts", in_search=_LOOSE),
        Method(f"TAEP-H{suffix}", "paper", model, stages, relations="hierarchy", in_search=_LOOSE),
    ]


def _prefixed(prefix: str, grid: Mapping[str, Sequence[Any]]) -> Grid:
    return {f"{prefix}__{name}": values for name, values in grid.items()}


METHODS: Final[tuple[Method, ...]] = (
    Method("ConSE", "paper", ConSE(), ({"n_top": [1, 3, 10], "C": [1.0, 10.0]}, _CENTRE)),
    Method("LatEm-M", "paper", LatEm(), ({"n_maps": [2, 4], "alpha": [1e-2, 1e-3, 1e-4]}, _CENTRE)),
    Method("DMP", "paper", DMP(), ({"alpha": [0.1, 1.0, 10.0, 100.0]}, _CENTRE)),
    Method("Fast0Tag", "paper", Fast0Tag(), ({"ridge": [3e-3, 1e-2, 3e-2], "alpha": [0.1, 1.0]}, _CENTRE)),
    *_taep_family("", "max"),  # as in the paper
    *_taep_family(" (mean)", "mean"),  # the default of the estimator
    Method("DeViSE", "paper", DeViSE(), ({"alpha": [1e-2, 3e-3, 1e-3], "pairs": ["all", "worst"]}, _CENTRE)),
    Method("Cosine", "paper", Cosine(), (_CENTRE,), shared_space=True),
    Method("ESZSL", "paper", ESZSL(), ({"gamma": [0.1, 1.0, 10.0, 100.0], "lam": [0.1, 1.0, 10.0]}, _CENTRE)),
    # A single setting, for its held-out score.
    Method("Stacked", "paper", Stacked(tol=FINAL_TOL), ({"C": [3.0]},), vectors=(IN_A_PICTURE, SIDE_BY_SIDE),
           **_STACKED),
    Method("BackboneKnowledge", "open", backbone_alone, (_KNOWLEDGE,), columns="logits", vectors=(IN_A_PICTURE,)),
    Method("TAEP + BackboneKnowledge", "open", taep_and_backbone, (_prefixed("second", _KNOWLEDGE),),
           columns="both", vectors=(IN_A_PICTURE,), in_search={"first__tol": 5e-2}),
    Method("Stacked + BackboneKnowledge", "open", stacked_and_backbone, (_prefixed("evidence", _KNOWLEDGE),),
           columns="both", vectors=(IN_A_PICTURE,), **_STACKED),
)  # fmt: skip


def choose_methods(names: Sequence[str]) -> tuple[Method, ...]:
    """Entries of `METHODS` by name, ignoring case, and classes of yours as ``module:Name``.

    A class is a `ZeroShotTagger` whose parameters all have defaults; its module is also looked for in the current
    folder. It joins the paper track. Its attribute ``search_grid`` is searched; without it, it keeps its defaults.
    """
    known = {method.name.casefold(): method for method in METHODS}
    unknown = [name for name in names if ":" not in name and name.casefold() not in known]
    if unknown:
        names = ", ".join(method.name for method in METHODS)
        raise ValueError(f"--methods: there is no {unknown[0]!r}. Pass some of {names}, or module:Name.")
    chosen = tuple(_load(name) if ":" in name else known[name.casefold()] for name in names)
    titles = [method.name for method in chosen]
    if len(set(titles)) < len(titles):
        raise ValueError(f"--methods: two of {', '.join(titles)} have the same name. Pass each once.")
    return chosen


def _load(path: str) -> Method:
    module_name, _, name = path.partition(":")
    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))  # and stays there: worker processes import the module too
    try:
        module = import_module(module_name)
        found = getattr(module, name)
    except Exception as error:  # whatever the user's module raises
        advice = "Run the command in the folder of the module, or install it"
        raise ValueError(f"--methods: cannot import {path!r} ({error!r}). {advice}.") from error
    if not (isinstance(found, type) and issubclass(found, ZeroShotTagger)):
        raise ValueError(f"--methods: {path!r} is not a subclass of unseen.ZeroShotTagger. Derive it from that.")
    try:
        model = found()
    except TypeError as error:
        raise ValueError(f"--methods: {path!r}: {error}. Give its parameters defaults.") from error
    grid = getattr(found, "search_grid", None)
    return Method(name, "paper", model, () if grid is None else (grid,), code=inspect.getsource(module))
