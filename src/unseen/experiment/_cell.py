"""One part of an experiment: choose a method's parameters on the seen labels, fit, test once."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import numpy as np
from joblib import parallel_config
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from unseen.base import ZeroShotTagger
from unseen.evaluation import metrics
from unseen.evaluation.protocol import (
    ClassSplit,
    View,
    evaluate,
    generalized_view,
    training_view,
    zero_shot_view,
)
from unseen.evaluation.search import class_holdout_search
from unseen.experiment._data import ExperimentData
from unseen.experiment.methods import Given, Method

TOP = 3  # labels predicted for each image, which the paper's figures follow from


@dataclass(frozen=True)
class SearchPlan:
    """How parameters are chosen: halvings of the seen labels, and the most images a fold is trained on.

    More halvings of fewer images tell settings apart better than the reverse at the same cost: what varies most is
    which labels are hidden.
    """

    halvings: int = 3
    most_images: int = 800


@dataclass(frozen=True)
class Cell:
    """What is to be computed: a method on a split of the classes.

    Attributes
    ----------
    method : Method
        What.
    split_name : str
        As it is called in tables.
    split : ClassSplit
        Seen and unseen labels.
    backbone : str
        Whose features or logits it works on.
    sources : tuple of str
        Sources of label vectors to choose from.
    seed : int
        Of the halvings and of the estimator.
    params : dict, optional
        Parameters to fit with on top of those the estimator is made with; None searches them.
    fixed : dict
        Parameters that the search does not touch.
    """

    method: Method
    split_name: str
    split: ClassSplit
    backbone: str
    sources: tuple[str, ...]
    seed: int
    params: Mapping[str, Any] | None = None
    fixed: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CellResult:
    """What came out of a cell; plain values, fractions in [0, 1].

    Attributes
    ----------
    params : dict
        Chosen or given parameters.
    vectors : str
        Chosen source of label vectors.
    held_out : float or None
        MiAP of the choice on held-out seen labels; None without a search.
    n_settings : int
        Settings that the search compared.
    zero_shot, generalized : Summary
        The four figures on the test images.
    labels : dict
        Of the zero-shot view: name, positive images, average precision and F1 at the top 3 of each unseen label.
    identity_error : float
        Largest violation of ``Hamming * L = (k + a)(1 - F1)`` over both protocols; NaN if some annotations are
        unknown, for then it need not hold.
    objective, lower_bound : float or None
        Of the final fit, if it has them.
    """

    params: dict[str, Any]
    vectors: str
    held_out: float | None
    n_settings: int
    zero_shot: metrics.Summary
    generalized: metrics.Summary
    labels: dict[str, list[Any]]
    identity_error: float
    objective: float | None = None
    lower_bound: float | None = None

    def to_content(self) -> dict[str, Any]:
        """Plain values for a file."""
        return asdict(self) | {"zero_shot": list(self.zero_shot), "generalized": list(self.generalized)}

    @classmethod
    def from_content(cls, content: dict[str, Any]) -> Self:
        """The reverse; raises TypeError if the content is not of this kind."""
        summaries = {name: metrics.Summary(*content[name]) for name in ("zero_shot", "generalized")}
        return cls(**(content | summaries))


def run_cell(cell: Cell, data: ExperimentData, plan: SearchPlan) -> CellResult:
    """Choose on the seen labels alone, refit on all of them, test once on each protocol.

    One thread, so that the bits do not depend on how many cells run at a time.
    """
    # A worker of a cluster may have threads for more than one job.
    with parallel_config(backend="sequential", n_jobs=1), threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the gap of a fit is in its record
        X = data.columns(cell.method, cell.backbone)
        train = training_view(X[data.is_train], data.Y[data.is_train], cell.split)
        source, held_out, n_settings = cell.sources[0], None, 0
        params = dict(cell.params or {})
        if cell.params is None and cell.method.stages:
            source, params, held_out, n_settings = _choose(cell, data, train, plan)
        model = _make(cell, data, source).set_params(**cell.fixed, **params)
        return _test(_fit(model, cell, data, source, train), cell, data, X, source, params, held_out, n_settings)


def _choose(
    cell: Cell, data: ExperimentData, train: View, plan: SearchPlan
) -> tuple[str, dict[str, Any], float, int]:
    """Source, parameters, held-out score and number of settings. Nothing of an unseen label is passed on."""
    best: tuple[str, dict[str, Any], float] | None = None
    n_settings = 0
    relations = _relations(cell, data, cell.split.seen)
    for source in cell.sources:
        params: dict[str, Any] = {}
        score = -np.inf
        for grid in cell.method.stages:
            model = _make(cell, data, source).set_params(**cell.method.in_search, **params, **cell.fixed)
            found = class_holdout_search(
                model, _without(grid, cell.fixed), train.X, train.Y, data.vectors[source].select(train.names),
                relations, n_splits=plan.halvings, max_images=plan.most_images, random_state=cell.seed,
            )  # fmt: skip
            params |= found.best_params
            score = found.best_score
            n_settings += len(found.table)
        if best is None or score > best[2]:
            best = source, params, score
    assert best is not None
    return *best, n_settings


def _make(cell: Cell, data: ExperimentData, source: str) -> ZeroShotTagger:
    given = Given(data.n_features(cell.method, cell.backbone), data.classes.get(source))
    model = cell.method.make(given)
    seeds = [name for name in model.get_params() if name.rpartition("__")[-1] == "random_state"]
    model.set_params(**dict.fromkeys(seeds, cell.seed))
    return model


def _without(grid: Any, fixed: Mapping[str, Any]) -> Any:
    """The grid without the parameters that are fixed."""
    parts: Sequence[Mapping[str, Any]] = [grid] if isinstance(grid, Mapping) else grid
    return [{name: values for name, values in part.items() if name not in fixed} for part in parts]


def _relations(cell: Cell, data: ExperimentData, columns: Sequence[int]) -> NDArray[np.float64] | None:
    related = data.related(cell.method)
    return None if related is None else related[np.ix_(columns, columns)]


def _fit(model: ZeroShotTagger, cell: Cell, data: ExperimentData, source: str, train: View) -> ZeroShotTagger:
    split = cell.split
    space = data.vectors[source].select([data.labels[column] for column in sorted(split.seen + split.unseen)])
    relations = _relations(cell, data, split.seen + split.unseen)
    seen, unseen = space.select(split.seen_names), space.select(split.unseen_names)
    return model.fit(train.X, train.Y, seen, unseen, relations)


def _test(
    model: ZeroShotTagger,
    cell: Cell,
    data: ExperimentData,
    X: NDArray[Any],
    source: str,
    params: dict[str, Any],
    held_out: float | None,
    n_settings: int,
) -> CellResult:
    X_test, Y_test = X[~data.is_train], data.Y[~data.is_train]
    zero_shot = zero_shot_view(X_test, Y_test, cell.split)
    generalized = generalized_view(X_test, Y_test, cell.split)
    scores = [model.decision_function(view.X, list(view.names)) for view in (zero_shot, generalized)]
    summaries = [evaluate(part, view, TOP) for part, view in zip(scores, (zero_shot, generalized), strict=True)]
    errors = [identity_error(part, view.Y) for part, view in zip(summaries, (zero_shot, generalized), strict=True)]
    return CellResult(
        params=params,
        vectors=source,
        held_out=held_out,
        n_settings=n_settings,
        zero_shot=summaries[0],
        generalized=summaries[1],
        labels=_label_figures(scores[0], zero_shot),
        identity_error=float(np.max(errors)),
        objective=_number(model, "objective_"),
        lower_bound=_number(model, "lower_bound_"),
    )


def identity_error(row: metrics.Summary, Y: ArrayLike, k: int = TOP) -> float:
    """``|Hamming * L - (k + a)(1 - F1)|``, 0 but for rounding; NaN with unknown entries.

    Raises
    ------
    ValueError
        If it exceeds rounding: the row is then no top-k prediction of these images.
    """
    truth = np.asarray(Y, dtype=np.float64)
    if np.isnan(truth).any():
        return float("nan")
    n_labels = truth.shape[1]
    total = min(k, n_labels) + truth.sum(axis=1).mean()
    error = abs(row.hamming * n_labels - total * (1.0 - row.micro_f1))
    if error > 1e-9:
        raise ValueError(
            f"row: Hamming * L differs from (k + a)(1 - F1) by {error:.2g}: not a prediction of the top {k} "
            f"labels of these images. Predict with top_k on the same view."
        )
    return float(error)


def _label_figures(scores: NDArray[np.float64], view: View) -> dict[str, list[Any]]:
    precisions = metrics.label_average_precision(view.Y, scores)
    predicted = metrics.top_k(scores, TOP)
    positives = np.nansum(np.asarray(view.Y, dtype=np.float64), axis=0)
    f1 = [
        metrics.micro_f1(view.Y[:, [c]], predicted[:, [c]]) if positives[c] else float("nan")
        for c in range(len(view.names))
    ]
    return {
        "name": list(view.names),
        "positives": [int(count) for count in positives],
        "average_precision": [float(value) for value in precisions],
        "f1": f1,
    }


def _number(model: ZeroShotTagger, name: str) -> float | None:
    value = getattr(model, name, None)
    return None if value is None else float(value)
