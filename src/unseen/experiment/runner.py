"""Run methods on splits of the classes: parameters by class-holdout, a refit on all seen labels, one test.

Cells run through joblib, so ``joblib.parallel_config(backend="dask")`` spreads them over machines. A finished cell
is written to the store at once: an interrupted run continues where it stopped.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from itertools import count
from math import comb
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from joblib import Parallel, delayed, parallel_config
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from unseen.base import ZeroShotTagger
from unseen.evaluation import metrics, protocol
from unseen.evaluation.protocol import ClassSplit, View
from unseen.evaluation.search import FEWEST_LABELS, Setting, choose, class_holdout_search
from unseen.experiment.data import ExperimentData
from unseen.experiment.methods import METHODS, Method, seeds_of
from unseen.files import write_atomically
from unseen.taep import TAEP
from unseen.validation import check_count, counted

if TYPE_CHECKING:
    from pandas import DataFrame

MAIN = "main split"
TOP = 3  # labels predicted per image; the paper's figures follow from it
PROTOCOLS = ("zero-shot", "generalized")
Progress = Callable[[int, int], None]
FACTORS: Final = (1.0, 0.1, 0.01, 0.001)
STRENGTHS: Final = {"TAEP": "gamma", "TAEP-H": "lam", "TAEP-C": "lam"}
RANKS: Final = (0.1, 0.3, 0.5, 1.0)  # shares of the seen labels
# Below full rank the paper's alternation cycles with a period of two: iterates 21 to 30 are tested, not one.
BURN_IN: Final = 20
ITERATES: Final = 10
# The paper's text leaves open whether Psi is solved to the end before each update of U, or swept once.
SOLVERS: Final[dict[str, dict[str, Any]]] = {
    "convex": {"solver": "convex"},
    "rounded": {"solver": "rounded"},
    "alternation": {"solver": "alternating", "max_iter": BURN_IN + ITERATES},
    "alternation, one sweep": {"solver": "alternating-sweep", "max_iter": BURN_IN + ITERATES},
}


@dataclass(frozen=True)
class SearchPlan:
    """How parameters are chosen: halvings of the seen labels, and at most how many training images per fold."""

    halvings: int = 6
    most_images: int = 800


@dataclass(frozen=True)
class Cell:
    """A method on a split of the classes."""

    method: Method
    split_name: str
    split: ClassSplit
    backbone: str
    sources: tuple[str, ...]  # label vectors to choose from
    seed: int
    params: Mapping[str, Any] | None = None  # on top of the method's own; None searches them
    repeat: int = 0  # counts the runs with other seeds
    n_iterates: int = 1  # last iterations of the fit that are tested
    curve: str = ""  # place in the figure of a study
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
        """Cells of a method with their results, without repeats."""
        pairs = zip(self.cells, self.results, strict=True)
        return [(cell, result) for cell, result in pairs if cell.method.name == method and not cell.repeat]


def class_splits(main: ClassSplit, n_random: int, seed: int) -> dict[str, ClassSplit]:
    """The main split and up to ``n_random`` distinct random ones with as many seen labels, by name."""
    used = sorted(main.seen + main.unseen)
    names = [main.names[column] for column in used]
    wanted = min(check_count(n_random, "n_random", low=0), comb(len(used), len(main.seen)) - 1)
    splits = {MAIN: main}
    known = {frozenset(main.seen)}
    draws = count()
    while len(splits) <= wanted:
        drawn = protocol.random_split(names, len(main.seen), np.random.RandomState([seed, next(draws)]))
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
    """Run every method on every split, with parameters chosen once, by MiAP on held-out seen labels.

    Parameters
    ----------
    data : ExperimentData
        Methods whose requirements it lacks are left out, and listed in the result.
    splits : mapping of str to ClassSplit
        As made by `class_splits`.
    search : bool, default=True
        False fits every method with its own parameters.
    repeats : int, default=1
        Runs on the main split of methods that have a ``random_state``: the parameters stay, the seeds differ.
    seed : int, default=0
        The same seed gives the same figures, whatever the number of jobs.
    plan : SearchPlan, optional
    **options
        ``store``, ``n_jobs`` and ``progress`` of `run_cells`.
    """
    plan = plan or SearchPlan()
    for name, split in splits.items():
        if split.names != data.labels:
            raise ValueError(f"splits: the labels of {name!r} are not those of the data, in order.")
        if search and len(split.seen) < FEWEST_LABELS:
            seen = counted(len(split.seen), "seen label")
            raise ValueError(f"splits: {name!r} has {seen}, a search needs {FEWEST_LABELS}. Pass --no-search.")
    left_out = {method.name: why for method in methods if (why := data.lacks(method)) is not None}
    runnable = [method for method in methods if method.name not in left_out]
    if not runnable:
        raise ValueError(f"methods: none can run: {left_out}. Pass what they need.")
    params: dict[str, Any] | None = None if search else {}
    cells = [
        Cell(method, name, split, str(data.backbone(method)), data.sources(method), seed, params)
        for method in runnable
        for name, split in splits.items()
    ]
    results = run_cells(cells, data, plan, **options)
    again = [
        replace(cell, sources=(result["vectors"],), params=result["params"], seed=seed + r, repeat=r)
        for cell, result in zip(cells, results, strict=True)
        if cell.split_name == MAIN and seeds_of(_make(cell, data, cell.sources[0]))
        for r in range(1, check_count(repeats, "repeats"))
    ]
    results += run_cells(again, data, plan, **options) if again else []
    return Experiment(data, (*cells, *again), tuple(results), left_out, search, plan)


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
            # Keys in their order, so that a run that is resumed writes the same tables.
            text = json.dumps({"digest": digest(result), "result": result}, indent=1)
            path, write = store / f"{key}.json", partial(Path.write_text, data=text, encoding="utf-8")
            write_atomically(path, write, alone=True)
        results[key] = result
        report(done, len(cells))
    return [result for key in keys if (result := results[key]) is not None]


def strength_cells(experiment: Experiment) -> list[Cell]:
    """Figure 2 of the paper: gamma of TAEP, and lambda of TAEP-H and TAEP-C, times 1, 0.1, 0.01 and 0.001.

    All else stays as chosen, on every split. ``at`` is the factor, ``curve`` the method.
    """
    cells = []
    for name, parameter in STRENGTHS.items():
        for cell, result in experiment.of(name):
            start = result["params"].get(parameter, TAEP().get_params()[parameter])
            for factor in FACTORS:
                params = {**result["params"], parameter: start * factor}
                cells.append(replace(cell, sources=(result["vectors"],), params=params, curve=name, at=factor))
    return cells


def solver_cells(experiment: Experiment) -> list[Cell]:
    """TAEP by each solver at each rank; all else stays as for TAEP on the main split.

    ``at`` is the rank as a share of the seen labels, ``curve`` the solver.
    """
    cells = []
    for cell, result in experiment.of("TAEP")[:1]:
        for solver, options in SOLVERS.items():
            n_iterates = ITERATES if "max_iter" in options else 1
            for rank in RANKS:
                params = {**result["params"], "rank": rank, **options}
                start = replace(cell, sources=(result["vectors"],), params=params)
                cells.append(replace(start, n_iterates=n_iterates, curve=solver, at=rank))
    return cells


def frame(cells: Sequence[Cell], results: Sequence[Mapping[str, Any]], data: ExperimentData) -> DataFrame:
    """One row per cell, iterate and protocol: what was run, the test figures, the parameters, the certificate."""
    from pandas import DataFrame

    return DataFrame(
        {
            "curve": cell.curve, "at": cell.at, "method": cell.method.name, "track": cell.method.track,
            "split": cell.split_name, "seed": cell.seed, "vectors": result["vectors"],
            "features": cell.backbone, "protocol": protocol,
            **dict(zip(metrics.Summary._fields, iterate[protocol], strict=True)),
            "parameters": ", ".join(f"{name} {value}" for name, value in sorted(result["params"].items())),
            "settings": len(result["searched"]), "held_out_miap": result["held_out"],
            "held_out_error": result["held_out_error"], "iterate": number,
            "objective": iterate["objective"], "lower_bound": iterate["lower_bound"],
        }
        for cell, result in zip(cells, results, strict=True)
        for number, iterate in enumerate([*result["earlier"], result], start=1 - len(result["earlier"]))
        for protocol in PROTOCOLS
    )  # fmt: skip


def run_cell(cell: Cell, data: ExperimentData, plan: SearchPlan) -> dict[str, Any]:
    """Choose on the seen labels alone, refit on all of them, test once on each protocol.

    On one thread, so that the bits do not depend on how many cells run at a time. The result has plain values: the
    choice, its MiAP ``held_out``, all settings ``searched``, and the figures of the fit and ``earlier`` iterates.
    """
    with parallel_config(backend="sequential", n_jobs=1), threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the result records the gap of the fit
        X = data.columns(cell.method, cell.backbone)
        train = protocol.training_view(X[data.is_train], data.Y[data.is_train], cell.split)
        choice: dict[str, Any] = {"held_out": None, "held_out_error": None, "searched": []}
        choice |= {"vectors": cell.sources[0], "params": dict(cell.params or {})}
        if cell.params is None and cell.method.stages:
            choice = _choose(cell, data, train, plan)
        model = _make(cell, data, choice["vectors"]).set_params(**choice["params"])
        split = cell.split
        used = [data.labels[column] for column in sorted(split.seen + split.unseen)]
        space = data.vectors[choice["vectors"]].select(used)
        seen, unseen = space.select(split.seen_names), space.select(split.unseen_names)
        given = train.X, train.Y, seen, unseen, _relations(cell, data, split.seen + split.unseen)
        test = X[~data.is_train], data.Y[~data.is_train], split
        views = protocol.zero_shot_view(*test), protocol.generalized_view(*test)
        *earlier, last = figures_of(iterates(model, cell.n_iterates, *given), views)
        result = choice | last | {"earlier": earlier}
        plain: dict[str, Any] = json.loads(json.dumps(result, default=lambda value: value.item()))
        return plain


def iterates(model: Any, n: int, *given: Any) -> Iterator[ZeroShotTagger]:
    """The model fitted to what is given; for n > 1 after each of the last n iterations that it may take."""
    if n > 1:
        model.set_params(max_iter=model.max_iter - n + 1)
    yield model.fit(*given)
    for i in range(1, n):  # the alternations continue where the last fit stopped, in another order of the images
        yield model.set_params(warm_start=True, max_iter=1, random_state=model.random_state + i).fit(*given)


def figures_of(models: Iterable[ZeroShotTagger], views: Sequence[View]) -> list[dict[str, Any]]:
    """For each model the `metrics.Summary` of each protocol, figures of unseen labels, objective and bound."""
    found = []
    for model in models:
        scores = [model.decision_function(view.X, list(view.names)) for view in views]
        summaries = [list(protocol.evaluate(part, view, TOP)) for part, view in zip(scores, views, strict=True)]
        certificate = {name: getattr(model, f"{name}_", None) for name in ("objective", "lower_bound")}
        labels = _label_figures(scores[0], views[0])
        found.append({**dict(zip(PROTOCOLS, summaries, strict=True)), "labels": labels, **certificate})
    return found


def _choose(cell: Cell, data: ExperimentData, train: View, plan: SearchPlan) -> dict[str, Any]:
    """Choose source and parameters on the seen labels: the first source, unless another is clearly better."""
    finals: list[Setting] = []
    searched: list[dict[str, Any]] = []
    for source in cell.sources:
        params: dict[str, Any] = {}
        for number, grid in enumerate(cell.method.stages, start=1):
            # The default of a stage is the choice of the stage before it.
            model = _make(cell, data, source).set_params(**cell.method.in_search, **params)
            found = class_holdout_search(
                model, grid, train.X, train.Y, data.vectors[source].select(train.names),
                _relations(cell, data, cell.split.seen), n_splits=plan.halvings, max_images=plan.most_images,
                random_state=cell.seed,
            )  # fmt: skip
            params |= found.chosen.params
            roles = {"default": found.default, "best": found.best, "chosen": found.chosen}
            searched += [
                {"vectors": source, "stage": number, "params": row.params, "held_out": row.mean,
                 "held_out_error": row.std_error, **{role: row is other for role, other in roles.items()}}
                for row in found.table
            ]  # fmt: skip
        finals.append(found.chosen._replace(params={"vectors": source, "params": params}))
    chosen = choose(finals, finals[0]).chosen
    return {**chosen.params, "held_out": chosen.mean, "held_out_error": chosen.std_error, "searched": searched}


def _make(cell: Cell, data: ExperimentData, source: str) -> ZeroShotTagger:
    n_features = data.features[cell.backbone].shape[1]
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
    columns = list(view.names), positives.tolist(), precisions.tolist(), f1
    return dict(zip(("name", "positives", "average_precision", "f1"), columns, strict=True))


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
    parts = {"annotations": digest(list(data.labels), data.Y, data.is_train)}
    for kind in ("features", "logits", "relations"):
        parts |= {f"{kind} {name}": digest(matrix) for name, matrix in getattr(data, kind).items()}
    parts |= {f"vectors {name}": digest(space.vectors) for name, space in data.vectors.items()}
    parts |= {f"classes {name}": digest(known.class_vectors.vectors) for name, known in data.classes.items()}
    return parts


def _key(cell: Cell, data: ExperimentData, plan: SearchPlan, digests: Mapping[str, str]) -> str:
    method = cell.method
    used = ["annotations", f"features {cell.backbone}"]
    used += [f"vectors {source}" for source in cell.sources]
    if method.columns != "features":
        used += [f"logits {cell.backbone}", *(f"classes {source}" for source in cell.sources)]
    if data.related(method) is not None:
        used.append(f"relations {method.relations}")
    model = _make(cell, data, cell.sources[0])
    plain = {k: repr(v) for k, v in model.get_params().items() if isinstance(v, bool | int | float | str | None)}
    search = None if cell.params is not None else [list(method.stages), dict(method.in_search), asdict(plan)]
    return digest(
        _code_digest(), [digests[name] for name in used], method.name, method.code, method.columns,
        type(model).__name__, plain, list(cell.split.seen), list(cell.split.unseen), list(cell.sources), cell.seed,
        cell.n_iterates,
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
