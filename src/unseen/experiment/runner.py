"""Run methods on splits of the classes: parameters by class-holdout, a refit on all seen labels, one test.

Cells run through joblib, so ``joblib.parallel_config(backend="dask")`` spreads them over machines. A finished cell
is written to the store at once: an interrupted run continues where it stopped.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from itertools import count
from math import comb
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import Parallel, delayed, parallel_config
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from unseen.base import ZeroShotTagger
from unseen.evaluation import metrics
from unseen.evaluation.protocol import (
    ClassSplit,
    View,
    evaluate,
    generalized_view,
    random_split,
    training_view,
    zero_shot_view,
)
from unseen.evaluation.search import FEWEST_LABELS, class_holdout_search
from unseen.experiment.data import ExperimentData
from unseen.experiment.methods import METHODS, Method
from unseen.files import write_atomically
from unseen.validation import check_count, counted

if TYPE_CHECKING:
    from pandas import DataFrame

MAIN = "main split"
TOP = 3  # labels predicted per image; the paper's figures follow from it
PROTOCOLS = ("zero-shot", "generalized")
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class SearchPlan:
    """How parameters are chosen: halvings of the seen labels, and the maximum number of training images per fold.

    More halvings of fewer images separate settings better than the reverse at the same cost: most of the
    variance comes from which labels are hidden.
    """

    halvings: int = 3
    most_images: int = 800


@dataclass(frozen=True)
class Cell:
    """A method on a split of the classes.

    ``sources`` are the label vectors to choose from. ``params`` are set on top of the method's own; None searches
    them. ``curve`` and ``at`` place the cell in the figure of a study.
    """

    method: Method
    split_name: str
    split: ClassSplit
    backbone: str
    sources: tuple[str, ...]
    seed: int
    params: Mapping[str, Any] | None = None
    curve: str = ""
    at: float = 1.0


@dataclass(frozen=True, eq=False)
class Experiment:
    """Cells and their results, methods that were left out (with the reason), and how parameters were chosen."""

    data: ExperimentData
    cells: tuple[Cell, ...]
    results: tuple[dict[str, Any], ...]
    left_out: dict[str, str]
    searched: bool
    plan: SearchPlan

    @property
    def split(self) -> ClassSplit:
        """The main split."""
        return next(cell.split for cell in self.cells if cell.split_name == MAIN)

    def of(self, method: str) -> list[tuple[Cell, dict[str, Any]]]:
        """Cells of a method with their results."""
        pairs = zip(self.cells, self.results, strict=True)
        return [(cell, result) for cell, result in pairs if cell.method.name == method]


def class_splits(main: ClassSplit, n_random: int, seed: int) -> dict[str, ClassSplit]:
    """The main split and up to ``n_random`` distinct random ones with as many seen labels, by name.

    The same seed gives the same splits, and a longer list begins with the shorter one.
    """
    used = sorted(main.seen + main.unseen)
    names = [main.names[column] for column in used]
    wanted = min(check_count(n_random, "n_random", low=0), comb(len(used), len(main.seen)) - 1)
    splits = {MAIN: main}
    known = {frozenset(main.seen)}
    draws = count()
    while len(splits) <= wanted:
        drawn = random_split(names, len(main.seen), np.random.RandomState([seed, next(draws)]))
        seen, unseen = (tuple(used[j] for j in side) for side in (drawn.seen, drawn.unseen))
        if frozenset(seen) not in known:
            known.add(frozenset(seen))
            splits[f"random {len(splits)}"] = replace(main, seen=seen, unseen=unseen)
    return splits


def run_experiment(
    data: ExperimentData,
    splits: Mapping[str, ClassSplit],
    methods: Sequence[Method] = METHODS,
    *,
    search: bool = True,
    repeats: int = 1,
    seed: int = 0,
    plan: SearchPlan | None = None,
    **options: Any,
) -> Experiment:
    """Run every method on every split.

    The parameters are chosen once, by MiAP on held-out seen labels, and the same fit is tested on both protocols.

    Parameters
    ----------
    data : ExperimentData
        Methods whose requirements it lacks are left out, and listed in the result.
    splits : mapping of str to ClassSplit
        As made by `class_splits`.
    search : bool, default=True
        False fits every method with its own parameters.
    repeats : int, default=1
        Runs with different seeds, of the halvings and of the estimator.
    seed : int, default=0
        The same seed gives the same figures, whatever the number of jobs.
    plan : SearchPlan, optional
        Halvings and images of the search.
    **options
        ``store``, ``n_jobs`` and ``progress`` of `run_cells`.

    Returns
    -------
    Experiment
    """
    plan = plan or SearchPlan()
    for name, split in splits.items():
        if split.names != data.labels:
            raise ValueError(f"splits: the labels of {name!r} are not those of the data, in order.")
        if search and len(split.seen) < FEWEST_LABELS:
            raise ValueError(
                f"splits: {name!r} has {counted(len(split.seen), 'seen label')}, and a search, which hides half, "
                f"needs {FEWEST_LABELS}. Pass more, or do without: search=False, or --no-search."
            )
    left_out = {method.name: why for method in methods if (why := data.lacks(method)) is not None}
    runnable = [method for method in methods if method.name not in left_out]
    if not runnable:
        raise ValueError(f"methods: none can run: {left_out}. Pass what they need.")
    params: dict[str, Any] | None = None if search else {}
    cells = tuple(
        Cell(method, name, split, str(data.backbone(method)), data.sources(method), seed + r, params)
        for method in runnable
        for name, split in splits.items()
        for r in range(check_count(repeats, "repeats"))
    )
    return Experiment(data, cells, tuple(run_cells(cells, data, plan, **options)), left_out, search, plan)


def run_cells(
    cells: Iterable[Cell],
    data: ExperimentData,
    plan: SearchPlan,
    *,
    store: Path | None = None,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> list[dict[str, Any]]:
    """Results of cells, in their order, each read from the store (a folder) if present, otherwise computed.

    A stored result is reused if data, method, split, seed and code are unchanged. ``n_jobs`` cells run at once;
    ``progress(done, total)`` is called after each.
    """
    cells = list(cells)
    digests = _digests(data)
    keys = [_key(cell, data, plan, digests) for cell in cells]
    results = {key: _load(store, key) for key in keys}
    missing = {key: cell for key, cell in zip(keys, cells, strict=True) if results[key] is None}
    report = progress or (lambda done, total: None)
    report(len(cells) - len(missing), len(cells))
    jobs = (delayed(_run_keyed)(key, cell, data, plan) for key, cell in missing.items())
    finished = Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size=1)(jobs)
    for done, (key, result) in enumerate(finished, start=1 + len(cells) - len(missing)):
        if store is not None:
            text = json.dumps({"digest": digest(result), "result": result}, sort_keys=True, indent=1)
            write_atomically(store / f"{key}.json", partial(Path.write_text, data=text, encoding="utf-8"))
        results[key] = result
        report(done, len(cells))
    return [result for key in keys if (result := results[key]) is not None]


def frame(cells: Sequence[Cell], results: Sequence[Mapping[str, Any]], data: ExperimentData) -> DataFrame:
    """One row per cell and protocol: what was run, the test figures, the parameters, the certificate."""
    from pandas import DataFrame

    return DataFrame(
        {
            "curve": cell.curve, "at": cell.at, "method": cell.method.name, "track": cell.method.track,
            "split": cell.split_name, "seed": cell.seed, "vectors": result["vectors"],
            "features": " + ".join(data.used(cell.method, cell.backbone)), "protocol": protocol,
            **dict(zip(metrics.Summary._fields, result[protocol], strict=True)),
            "parameters": ", ".join(f"{name} {value}" for name, value in sorted(result["params"].items())),
            "settings": result["n_settings"], "held_out_miap": result["held_out"],
            "objective": result["objective"], "lower_bound": result["lower_bound"],
        }
        for cell, result in zip(cells, results, strict=True)
        for protocol in PROTOCOLS
    )  # fmt: skip


def run_cell(cell: Cell, data: ExperimentData, plan: SearchPlan) -> dict[str, Any]:
    """Choose on the seen labels alone, refit on all of them, test once on each protocol.

    On one thread, so that the bits do not depend on how many cells run at a time. The result has plain values:
    ``params``, ``vectors``, the MiAP ``held_out`` of the chosen one of ``n_settings`` on held-out seen labels, the
    `metrics.Summary` of each protocol, figures of each unseen label, ``objective`` and ``lower_bound``.
    """
    with parallel_config(backend="sequential", n_jobs=1), threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the result records the gap of the fit
        X = data.columns(cell.method, cell.backbone)
        train = training_view(X[data.is_train], data.Y[data.is_train], cell.split)
        source, params, held_out, n_settings = cell.sources[0], dict(cell.params or {}), None, 0
        if cell.params is None and cell.method.stages:
            source, params, held_out, n_settings = _choose(cell, data, train, plan)
        model = _make(cell, data, source).set_params(**params)
        split = cell.split
        space = data.vectors[source].select([data.labels[column] for column in sorted(split.seen + split.unseen)])
        seen, unseen = space.select(split.seen_names), space.select(split.unseen_names)
        model.fit(train.X, train.Y, seen, unseen, _relations(cell, data, split.seen + split.unseen))
        test = X[~data.is_train], data.Y[~data.is_train], split
        views = zero_shot_view(*test), generalized_view(*test)
        scores = [model.decision_function(view.X, list(view.names)) for view in views]
        summaries = [list(evaluate(part, view, TOP)) for part, view in zip(scores, views, strict=True)]
        result = {
            "params": params, "vectors": source, "held_out": held_out, "n_settings": n_settings,
            **dict(zip(PROTOCOLS, summaries, strict=True)), "labels": _label_figures(scores[0], views[0]),
            "objective": getattr(model, "objective_", None), "lower_bound": getattr(model, "lower_bound_", None),
        }  # fmt: skip
        plain: dict[str, Any] = json.loads(json.dumps(result, default=lambda value: value.item()))
        return plain


def _choose(
    cell: Cell, data: ExperimentData, train: View, plan: SearchPlan
) -> tuple[str, dict[str, Any], float, int]:
    """Choose source and parameters on the seen labels; also returns held-out score and number of settings."""
    candidates: list[tuple[float, str, dict[str, Any]]] = []
    n_settings = 0
    for source in cell.sources:
        params: dict[str, Any] = {}
        score = -np.inf
        for grid in cell.method.stages:
            model = _make(cell, data, source).set_params(**cell.method.in_search, **params)
            found = class_holdout_search(
                model, grid, train.X, train.Y, data.vectors[source].select(train.names),
                _relations(cell, data, cell.split.seen), n_splits=plan.halvings, max_images=plan.most_images,
                random_state=cell.seed,
            )  # fmt: skip
            params |= found.chosen.params
            score = found.chosen.mean
            n_settings += len(found.table)
        candidates.append((score, source, params))
    score, source, params = max(candidates, key=lambda candidate: candidate[0])
    return source, params, score, n_settings


def _make(cell: Cell, data: ExperimentData, source: str) -> ZeroShotTagger:
    n_features = data.n_features(cell.method, cell.backbone)
    return cell.method.make(n_features, data.classes.get(source), cell.seed)


def _relations(cell: Cell, data: ExperimentData, columns: Sequence[int]) -> NDArray[np.float64] | None:
    related = data.related(cell.method)
    return None if related is None else related[np.ix_(columns, columns)]


def _label_figures(scores: NDArray[np.float64], view: View) -> dict[str, list[Any]]:
    """Name, positive test images, average precision and F1 of the top labels, one value per label."""
    predicted, Y = metrics.top_k(scores, TOP), np.asarray(view.Y, dtype=np.float64)
    positives = np.nansum(Y, axis=0).astype(int)
    f1 = [metrics.micro_f1(Y[:, [c]], predicted[:, [c]]) if n else np.nan for c, n in enumerate(positives)]
    precisions = metrics.label_average_precision(Y, scores)
    return {
        "name": list(view.names),
        "positives": positives.tolist(),
        "average_precision": precisions.tolist(),
        "f1": f1,
    }


def _run_keyed(key: str, cell: Cell, data: ExperimentData, plan: SearchPlan) -> tuple[str, dict[str, Any]]:
    return key, run_cell(cell, data, plan)


def digest(*parts: Any) -> str:
    """Hash of arrays (shape, type and content) and of plain values."""
    total = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            array = np.ascontiguousarray(part)
            total.update(f"{array.dtype.str}{array.shape}".encode())
            total.update(array.data)
        else:
            total.update(json.dumps(part, sort_keys=True, default=str).encode())
        total.update(b"\0")
    return total.hexdigest()


@cache
def _code_digest() -> str:
    """Hash of the package's source: any change invalidates stored results."""
    root = Path(__file__).resolve().parents[1]
    return digest([(str(path.relative_to(root)), digest(path.read_text())) for path in sorted(root.rglob("*.py"))])


def _digests(data: ExperimentData) -> dict[str, str]:
    """Hash of each part of the data, by kind and name."""
    parts = {"annotations": digest(list(data.labels), data.Y, data.is_train)}
    for kind in ("features", "logits", "relations"):
        parts |= {f"{kind} {name}": digest(matrix) for name, matrix in getattr(data, kind).items()}
    parts |= {f"vectors {name}": digest(space.vectors) for name, space in data.vectors.items()}
    parts |= {f"classes {name}": digest(known.class_vectors.vectors) for name, known in data.classes.items()}
    return parts


def _key(cell: Cell, data: ExperimentData, plan: SearchPlan, digests: Mapping[str, str]) -> str:
    """Key of everything that the result depends on."""
    method = cell.method
    used = ["annotations", *(f"features {name}" for name in data.used(method, cell.backbone))]
    used += [f"vectors {source}" for source in cell.sources]
    if method.columns != "features":
        used += [f"logits {cell.backbone}", *(f"classes {source}" for source in cell.sources)]
    if data.related(method) is not None:
        used.append(f"relations {method.relations}")
    model = _make(cell, data, cell.sources[0])
    plain = {k: repr(v) for k, v in model.get_params().items() if isinstance(v, bool | int | float | str | None)}
    search = None if cell.params is not None else [list(method.stages), dict(method.in_search), asdict(plan)]
    return digest(
        _code_digest(), [digests[name] for name in used], method.name, method.columns, type(model).__name__, plain,
        list(cell.split.seen), list(cell.split.unseen), list(cell.sources), cell.seed,
        None if cell.params is None else dict(cell.params), search,
    )  # fmt: skip


def _load(store: Path | None, key: str) -> dict[str, Any] | None:
    """The stored result of that key; None if missing or damaged."""
    try:
        entry = json.loads((store / f"{key}.json").read_text("utf-8")) if store is not None else {}
        result: dict[str, Any] = entry["result"]
        return result if entry["digest"] == digest(result) else None
    except (OSError, ValueError, LookupError, TypeError):
        return None
