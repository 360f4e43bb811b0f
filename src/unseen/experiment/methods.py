"""The methods of an experiment: one entry each. A new method is one more entry in `METHODS`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from sklearn.base import clone

from unseen.base import ZeroShotTagger
from unseen.baselines import DMP, ESZSL, ConSE, DeViSE, Fast0Tag, LatEm
from unseen.ensembles import BackboneKnowledge, Combination, Stacked
from unseen.taep import TAEP

Grid = Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]]
Track = Literal["paper", "open"]


class Given(NamedTuple):
    """What an estimator may need to be made, beyond its parameters: columns of features, and the classes."""

    n_features: int
    classes: BackboneKnowledge | None


@dataclass(frozen=True)
class Method:
    """One method of an experiment.

    Attributes
    ----------
    name : str
        Its row in the tables.
    track : {"paper", "open"}
        "paper": knows annotations of seen labels and label vectors alone. "open": the classes that the backbone
        was trained on may speak too, and some may be the unseen labels.
    make : callable(Given) -> ZeroShotTagger
        A fresh estimator with the parameters of a run without search; a function of a module, not a lambda.
    stages : tuple of grids
        Searched one after another: each stage starts from the choice of those before it. A grid is what
        `sklearn.model_selection.ParameterGrid` takes.
    columns : {"features", "logits", "both", "all"}
        What its X is: features, class logits, features followed by logits, or the features of all backbones, each
        of unit length, followed by logits.
    relations : {"hierarchy", "hit counts"}, optional
        Relations it is given.
    needs_relations : bool
        Whether it is left out of data sets that have no such relations.
    vectors : tuple of str
        Sources of label vectors to choose from by the search; empty, or none of them there: the first of the data
        set.
    in_search : mapping
        Parameters that hold during the search only, such as a looser tolerance.
    """

    name: str
    track: Track
    make: Callable[[Given], ZeroShotTagger]
    stages: tuple[Grid, ...]
    columns: Literal["features", "logits", "both", "all"] = "features"
    relations: Literal["hierarchy", "hit counts"] | None = None
    needs_relations: bool = True
    vectors: tuple[str, ...] = ()
    in_search: Mapping[str, Any] = field(default_factory=dict)


SIDE_BY_SIDE: Final = "side by side"  # label vectors of several sources, one beside the other
IN_A_PICTURE: Final = "use, a picture of a ..."  # those of the Universal Sentence Encoder for this phrase

# Refits are certified to 1 %; the search compares models at 5 %, which ranks them alike in half the time.
FINAL_TOL: Final = 1e-2
_LOOSE: Final = {"tol": 5e-2}

_FIRST: Final[Grid] = {"rank": [3, 5, 10], "beta": [1.0, 3.0, 10.0]}
_GAMMAS: Final[Grid] = [
    {"scaling": ["scale-free"], "gamma": [0.01, 0.1, 1.0]},
    {"scaling": ["paper"], "gamma": [0.01, 0.1, 1.0, 10.0]},
]
_GAMMAS_AND_LAMBDAS: Final[Grid] = [
    {"scaling": ["scale-free"], "gamma": [0.01, 0.1], "lam": [0.03, 0.1, 0.3, 1.0]},
    {"scaling": ["paper"], "gamma": [0.1, 10.0], "lam": [0.1, 10.0]},
]
_CENTRING: Final[Grid] = {"center": [True, False]}


def _taep(given: Given) -> ZeroShotTagger:
    return TAEP(tol=FINAL_TOL)


def _conse(given: Given) -> ZeroShotTagger:
    return ConSE()


def _latem(given: Given) -> ZeroShotTagger:
    return LatEm()


def _dmp(given: Given) -> ZeroShotTagger:
    return DMP()


def _fast0tag(given: Given) -> ZeroShotTagger:
    return Fast0Tag()


def _devise(given: Given) -> ZeroShotTagger:
    return DeViSE()


def _eszsl(given: Given) -> ZeroShotTagger:
    return ESZSL()


def _stacked(given: Given) -> ZeroShotTagger:
    return Stacked(tol=FINAL_TOL)


def _backbone(given: Given) -> ZeroShotTagger:
    return BackboneKnowledge() if given.classes is None else clone(given.classes)


def _taep_and_backbone(given: Given) -> ZeroShotTagger:
    return Combination(TAEP(tol=FINAL_TOL), _backbone(given), given.n_features)


def _stacked_and_backbone(given: Given) -> ZeroShotTagger:
    knowledge = _backbone(given).set_params(n_features=given.n_features)
    return Combination(Stacked(tol=FINAL_TOL), knowledge, given.n_features, second_sees_all=True)


METHODS: Final[tuple[Method, ...]] = (
    Method("ConSE", "paper", _conse, ({"n_top": [1, 3, 10], "C": [1.0, 10.0]}, _CENTRING)),
    Method("LatEm-M", "paper", _latem, ({"n_maps": [2, 4], "alpha": [1e-2, 1e-3, 1e-4]}, _CENTRING)),
    Method("DMP", "paper", _dmp, ({"alpha": [0.1, 1.0, 10.0, 100.0]}, _CENTRING)),
    Method(
        "Fast0Tag",
        "paper",
        _fast0tag,
        ({"ridge": [3e-3, 1e-2, 3e-2], "alpha": [0.1, 1.0]}, _CENTRING),
    ),
    Method("TAEP", "paper", _taep, (_FIRST, _CENTRING, _GAMMAS), in_search=_LOOSE),
    Method(
        "TAEP-C",
        "paper",
        _taep,
        (_FIRST, _CENTRING, _GAMMAS_AND_LAMBDAS),
        relations="hit counts",
        in_search=_LOOSE,
    ),
    Method(
        "TAEP-H", "paper", _taep, (_FIRST, _CENTRING, _GAMMAS_AND_LAMBDAS), relations="hierarchy", in_search=_LOOSE
    ),
    Method("DeViSE", "paper", _devise, ({"alpha": [1e-2, 3e-3, 1e-3], "pairs": ["all", "worst"]}, _CENTRING)),
    Method("ESZSL", "paper", _eszsl, ({"gamma": [0.1, 1.0, 10.0, 100.0], "lam": [0.1, 1.0, 10.0]}, _CENTRING)),
    Method(
        "Stacked",
        "paper",
        _stacked,
        ({"center": [True]},),  # no choice: the score of the design on held-out labels
        relations="hit counts",
        needs_relations=False,
        vectors=(SIDE_BY_SIDE,),
        in_search={"n_splits": 2, **_LOOSE},
    ),
    Method(
        "BackboneKnowledge",
        "open",
        _backbone,
        ({"sharpness": [4.0, 6.0], "regression": [0.5, 0.7]},),
        columns="logits",
        vectors=(IN_A_PICTURE, "use"),
    ),
    Method(
        "TAEP + BackboneKnowledge",
        "open",
        _taep_and_backbone,
        (
            {"second__sharpness": [4.0, 6.0], "second__regression": [0.5, 0.7]},
            {"first__beta": [1.0, 3.0, 10.0], "first__gamma": [0.01, 0.1, 1.0]},
        ),
        columns="both",
        vectors=(IN_A_PICTURE, "use"),
        in_search={"first__tol": 5e-2},
    ),
    Method(
        "Stacked + BackboneKnowledge",
        "open",
        _stacked_and_backbone,
        ({"second__sharpness": [4.0, 6.0], "second__regression": [0.5, 0.7]},),
        columns="all",
        relations="hit counts",
        needs_relations=False,
        vectors=(IN_A_PICTURE, "use"),
        in_search={"first__n_splits": 2, "first__tol": 5e-2},
    ),
)
