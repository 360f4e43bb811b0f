"""Experiments: methods by splits of the classes, every part searched, fitted, tested once, and kept on disk.

1. Describe the data (`ExperimentData`) and choose methods (`METHODS`, or entries of your own).
2. `run_experiment` gives an `Experiment`: a row a method, split and repeat, for both protocols.
3. `strength_study`, `rank_study` and `embedding_study` go on from it.

Parts run through joblib, so ``joblib.parallel_config(backend="dask")`` or ``"ray"`` spreads them over machines.
A part that is finished is written to the store at once: a run that was stopped goes on where it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice
from math import comb
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import get_active_backend
from numpy.typing import ArrayLike
from scipy import stats

from unseen.evaluation.protocol import ClassSplit, random_split, training_view
from unseen.evaluation.search import FEWEST_LABELS
from unseen.experiment._cell import TOP, Cell, CellResult, SearchPlan, identity_error, run_cell
from unseen.experiment._cells import CellStore, code_fingerprint, fingerprint
from unseen.experiment._data import ExperimentData
from unseen.experiment.methods import METHODS, Given, Method
from unseen.validation import check_count, counted

__all__ = [
    "METHODS",
    "TOP",
    "Cell",
    "CellResult",
    "Experiment",
    "ExperimentData",
    "Given",
    "Interval",
    "Method",
    "Outcome",
    "SearchPlan",
    "class_splits",
    "identity_error",
    "interval",
    "is_blind",
    "run_cells",
    "run_experiment",
]

MAIN = "main split"


class Reporter(Protocol):
    """Who is told how far an experiment is."""

    def stage(self, title: str) -> None:
        """A new stage begins."""

    def step(self, done: int, total: int) -> None:
        """So much of the stage is done."""


class Outcome(NamedTuple):
    """A cell and what came out of it."""

    cell: Cell
    result: CellResult


class Interval(NamedTuple):
    """Mean and half the width of its 95 % confidence interval; the latter is NaN for fewer than two values."""

    mean: float
    half: float
    n: int

    @property
    def low(self) -> float:
        """Lower end."""
        return self.mean - self.half

    @property
    def high(self) -> float:
        """Upper end."""
        return self.mean + self.half


@dataclass(frozen=True, eq=False)
class Experiment:
    """What `run_experiment` found.

    Attributes
    ----------
    data : ExperimentData
        What it was run on.
    outcomes : tuple of Outcome
        A row a method, split and repeat, in the order of the methods.
    left_out : dict of str to str
        Methods that could not run, and why.
    seed : int
        As given.
    searched : bool
        Whether parameters were chosen by class-holdout.
    plan : SearchPlan
        How they were chosen.
    """

    data: ExperimentData
    outcomes: tuple[Outcome, ...]
    left_out: dict[str, str]
    seed: int
    searched: bool
    plan: SearchPlan

    @property
    def methods(self) -> tuple[Method, ...]:
        """The methods that ran, in their order."""
        return tuple({outcome.cell.method.name: outcome.cell.method for outcome in self.outcomes}.values())

    @property
    def random_splits(self) -> tuple[str, ...]:
        """Names of the random splits."""
        return tuple(dict.fromkeys(o.cell.split_name for o in self.outcomes if o.cell.split_name != MAIN))

    def of(self, method: str, *, random: bool = False) -> tuple[Outcome, ...]:
        """Rows of a method, on the main split or on the random ones."""
        return tuple(
            outcome
            for outcome in self.outcomes
            if outcome.cell.method.name == method and (outcome.cell.split_name != MAIN) == random
        )


def class_splits(main: ClassSplit, n_random: int, seed: int) -> dict[str, ClassSplit]:
    """The main split and up to ``n_random`` random ones of the same labels, all different, by name.

    Parameters
    ----------
    main : ClassSplit
        Such as the paper's, `unseen.evaluation.protocol.alternating_split`. Random ones have as many seen labels.
    n_random : int
        How many; of few labels there may not be as many.
    seed : int
        The same seed gives the same splits, and more of them begin with the fewer.

    Returns
    -------
    dict of str to ClassSplit
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
    splits: dict[str, ClassSplit],
    methods: Sequence[Method] = METHODS,
    *,
    search: bool = True,
    repeats: int = 1,
    seed: int = 0,
    plan: SearchPlan | None = None,
    store: Path | None = None,
    n_jobs: int | None = None,
    reporter: Reporter | None = None,
) -> Experiment:
    """Every method on every split: parameters by class-holdout, a refit on all seen labels, one test.

    The parameters are chosen once, by MiAP on held-out seen labels, and the same fit is tested on both protocols.

    Parameters
    ----------
    data : ExperimentData
        Methods that need what it lacks are left out, and named in the result.
    splits : dict of str to ClassSplit
        As made by `class_splits`.
    methods : sequence of Method
        What to run.
    search : bool, default=True
        False fits every method with the parameters that its entry makes it with.
    repeats : int, default=1
        Runs with other seeds, of the halvings and of the estimator.
    seed : int, default=0
        The same seed gives the same bits, whatever the number of jobs.
    plan : SearchPlan, optional
        Halvings and images of the search.
    store : Path, optional
        Folder for finished parts. A part is found again if data, method, grid, split, seed and code are the same.
    n_jobs : int, optional
        Parts to run at once.
    reporter : Reporter, optional
        Told of the progress.

    Returns
    -------
    Experiment
    """
    plan = plan or SearchPlan()
    for name, split in splits.items():
        if split.names != data.labels:
            raise ValueError(f"splits: {name!r} splits other labels than those of the data, or in another order.")
        if search and len(split.seen) < FEWEST_LABELS:
            raise ValueError(
                f"splits: {name!r} has {counted(len(split.seen), 'seen label')}, and a search, which hides half, "
                f"needs {FEWEST_LABELS}. Pass more, or do without: search=False, or --no-search."
            )
    left_out = {method.name: why for method in methods if (why := data.lacks(method)) is not None}
    runnable = [method for method in methods if method.name not in left_out]
    if not runnable:
        raise ValueError(f"methods: none of them can run: {left_out}. Pass what they need.")
    cells = []
    for name, split in splits.items():
        for method in runnable:
            backbone = data.backbone(method)
            assert backbone is not None  # what data.lacks is for
            cells += [
                Cell(method, name, split, backbone, data.sources(method), seed + r, None if search else {})
                for r in range(check_count(repeats, "repeats"))
            ]
    outcomes = run_cells(cells, data, plan=plan, store=store, n_jobs=n_jobs, reporter=reporter)
    order = {method.name: i for i, method in enumerate(runnable)}
    outcomes.sort(key=lambda outcome: order[outcome.cell.method.name])  # stable: splits stay in their order
    return Experiment(data, tuple(outcomes), left_out, seed, search, plan)


def run_cells(
    cells: Iterable[Cell],
    data: ExperimentData,
    *,
    plan: SearchPlan | None = None,
    store: Path | None = None,
    n_jobs: int | None = None,
    reporter: Reporter | None = None,
) -> list[Outcome]:
    """Results of cells, in their order: from the store where it has them, else computed and stored.

    Parameters
    ----------
    cells : iterable of Cell
        What to compute.
    data, plan, store, n_jobs, reporter
        As in `run_experiment`.

    Returns
    -------
    list of Outcome
    """
    cells, plan, kept = list(cells), plan or SearchPlan(), CellStore(store)
    parts = data.fingerprints()
    keys = [_key(cell, data, plan, parts) for cell in cells]
    results = {key: kept.load(key, CellResult.from_content) for key in keys}
    missing = {key: cell for key, cell in zip(keys, cells, strict=True) if results[key] is None}
    if reporter is not None:
        reporter.step(len(cells) - len(missing), len(cells))
    jobs = (delayed(_run)(key, cell, data, plan) for key, cell in missing.items())
    done = len(cells) - len(missing)
    for key, result in _as_they_come(jobs, n_jobs):
        kept.save(key, result.to_content())
        results[key] = result
        done += 1
        if reporter is not None:
            reporter.step(done, len(cells))
    return [Outcome(cell, results[key]) for key, cell in zip(keys, cells, strict=True)]


def interval(values: ArrayLike) -> Interval:
    """Mean of values with its 95 % interval, ``t s / sqrt(n)``, t of n - 1 degrees of freedom.

    Parameters
    ----------
    values : array-like
        At least one. Splits of the same classes share data, so the interval speaks of other splits of this data
        set, not of other data sets.

    Returns
    -------
    Interval
    """
    sample = np.asarray(values, dtype=np.float64).ravel()
    if sample.size < 2:
        return Interval(float(sample.mean()), float("nan"), sample.size)
    half = stats.t.ppf(0.975, sample.size - 1) * sample.std(ddof=1) / np.sqrt(sample.size)
    return Interval(float(sample.mean()), float(half), sample.size)


def is_blind(data: ExperimentData, split: ClassSplit, seed: int = 0) -> bool:
    """Whether what is learned and searched on stays the same when the unseen annotations are shuffled.

    The unseen columns of all images, training and test, are permuted over the images; the features and annotations
    that fits and searches are given must not change by a bit.

    Parameters
    ----------
    data : ExperimentData
        The data set.
    split : ClassSplit
        Which labels are unseen.
    seed : int, default=0
        Of the permutation.

    Returns
    -------
    bool
    """
    shuffled = np.array(data.Y)
    order = np.random.default_rng(seed).permutation(len(shuffled))
    columns = np.array(split.unseen)
    shuffled[:, columns] = shuffled[np.ix_(order, columns)]
    rows = np.arange(len(shuffled))[:, None]  # stands for the features: which images are taken
    views = [training_view(rows[data.is_train], Y[data.is_train], split) for Y in (data.Y, shuffled)]
    return all(fingerprint(a) == fingerprint(b) for a, b in zip(*((v.X, v.Y) for v in views), strict=True))


def _as_they_come(jobs: Iterator[Any], n_jobs: int | None) -> Iterator[tuple[str, CellResult]]:
    """Results, each as soon as joblib gives it."""
    backend, _ = get_active_backend()
    if backend.supports_return_generator:
        yield from Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size=1)(jobs)
        return
    # Ray's returns all results in the end: it is given a few jobs at a time, or a stop would lose everything.
    parallel, few = Parallel(n_jobs=n_jobs, batch_size=1), 2 * effective_n_jobs(n_jobs)
    while part := list(islice(jobs, few)):
        yield from parallel(part)


def _run(key: str, cell: Cell, data: ExperimentData, plan: SearchPlan) -> tuple[str, CellResult]:
    return key, run_cell(cell, data, plan)


def _key(cell: Cell, data: ExperimentData, plan: SearchPlan, parts: dict[str, str]) -> str:
    """A name for all that the result depends on."""
    method, used = cell.method, ["annotations"]
    used += [f"features {name}" for name in data.used(method, cell.backbone)]
    used += [f"vectors {source}" for source in cell.sources]
    if method.columns != "features":
        used += [f"logits {cell.backbone}", *(f"classes {source}" for source in cell.sources)]
    if data.related(method) is not None:
        used.append(f"relations {method.relations}")
    given = Given(data.n_features(method, cell.backbone), data.classes.get(cell.sources[0]))
    model = method.make(given)
    search: Any = None
    if cell.params is None:
        search = [list(method.stages), dict(method.in_search), plan.halvings, plan.most_images]
    return fingerprint(
        code_fingerprint(),
        [parts[name] for name in used],
        [method.name, method.columns, type(model).__name__, _plain_params(model)],
        [list(cell.split.seen), list(cell.split.unseen), list(cell.sources), cell.seed],
        [None if cell.params is None else dict(cell.params), dict(cell.fixed), search],
    )


def _plain_params(model: Any) -> dict[str, str]:
    plain = (bool, int, float, str, type(None))
    return {name: repr(value) for name, value in model.get_params().items() if isinstance(value, plain)}
