"""The demonstration: real photos with tags, then a whole zero-shot experiment, from annotations to a report."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from unseen._demo_page import build_report
from unseen._demo_result import (
    CEILING,
    CHANCE,
    Certificate,
    Choice,
    DemoResult,
    Example,
    Method,
    Support,
)
from unseen.datasets.scenes import TaggedScenes, make_tagged_scenes
from unseen.demo_photos import tag_photos
from unseen.evaluation import plots
from unseen.evaluation.metrics import Summary
from unseen.evaluation.protocol import (
    View,
    alternating_split,
    evaluate,
    generalized_view,
    training_view,
    zero_shot_view,
)
from unseen.evaluation.search import class_holdout_search
from unseen.labels.relations import PRESETS
from unseen.taep import TAEP

__all__ = ["DemoResult", "Reporter", "run_demo"]

Relations = NDArray[np.float64] | None

_SOURCES: Final[dict[str, Any]] = {name: source for name, source in PRESETS.items() if source is not None}
_GRID: Final[dict[str, Sequence[float]]] = {"beta": (1.0, 10.0), "rank": (4, 8), "gamma": (0.0, 0.1)}
_QUICK_GRID: Final[dict[str, Sequence[float]]] = {"beta": (3.0,), "rank": (4, 7), "gamma": (0.1,)}
_LAM: Final = (0.3, 1.0)


class Reporter(Protocol):
    """Who is told how far the demonstration is."""

    def stage(self, title: str) -> None:
        """A new stage begins."""

    def step(self, done: int, total: int) -> None:
        """So much of the stage is done."""


@dataclass(frozen=True, eq=False)
class _Experiment:
    """The data as the protocol shows them: what is learned from, and the two ways to test."""

    seed: int
    quick: bool
    data: TaggedScenes
    train: View
    zero_shot: View
    generalized: View

    @classmethod
    def prepare(cls, seed: int, quick: bool) -> _Experiment:
        sizes = (700, 300) if quick else (2000, 1000)
        data = make_tagged_scenes(*sizes, random_state=seed)
        split = alternating_split(data.names)
        return cls(
            seed,
            quick,
            data,
            training_view(data.X_train, data.Y_train, split),
            zero_shot_view(data.X_test, data.Y_test, split),
            generalized_view(data.X_test, data.Y_test, split),
        )

    def fit(self, model: TAEP, relations: Relations = None) -> TAEP:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the certificates' table tells the gap
            return model.fit(self.train.X, self.train.Y, self.data.seen_labels, self.data.unseen_labels, relations)

    def test(self, name: str, model: TAEP, *, fair: bool = True) -> Method:
        scores = [model.decision_function(view.X, list(view.names)) for view in (self.zero_shot, self.generalized)]
        return Method(name, evaluate(scores[0], self.zero_shot), evaluate(scores[1], self.generalized), fair)


class _Silence:
    def stage(self, title: str) -> None: ...

    def step(self, done: int, total: int) -> None: ...


def run_demo(
    output: str | Path, *, seed: int = 0, quick: bool = False, reporter: Reporter | None = None
) -> DemoResult:
    """Tag photos; simulate scenes, choose parameters on the seen labels, fit, test once, explain; report.

    Parameters
    ----------
    output : str or Path
        The HTML file to write, at the end of the work, whole or not at all.
    seed : int, default=0
        Of the scenes and of everything else that is drawn.
    quick : bool, default=False
        Fewer images and settings: seconds instead of half a minute, and numbers that mean less.
    reporter : Reporter, optional
        Told of the progress.

    Returns
    -------
    DemoResult

    Raises
    ------
    OSError
        If the report cannot be written there.
    ImportError
        If matplotlib is missing.
    """
    start, reporter = time.perf_counter(), reporter or _Silence()
    output = Path(output)
    plots.require_matplotlib()
    reporter.stage("tagging photos")
    photos = tag_photos()
    reporter.stage("simulating scenes")
    work = _Experiment.prepare(seed, quick)
    related = {name: work.data.relations(source) for name, source in _SOURCES.items()}
    choices = []
    for name in ("TAEP", *_SOURCES):
        reporter.stage(f"tuning {name} on the seen labels")
        choices.append(_choose(name, work, related.get(name), reporter))
    reporter.stage("fitting and testing")
    headline = max(choices, key=lambda choice: choice.score)
    alternation = f"{headline.name}, paper's alternation"
    models, certificates = _fit_all(work, choices, headline, alternation, related, reporter)
    methods = [work.test(name, model, fair=name != alternation) for name, model in models.items()]
    methods += [_chance(work), work.test(CEILING, _ceiling(work, headline), fair=False)]
    reporter.stage("explaining tags")
    result = DemoResult(
        report=output,
        seed=seed,
        quick=quick,
        data=work.data,
        n_images=(len(work.train.images), len(work.zero_shot.images), len(work.generalized.images)),
        choices=tuple(choices),
        headline=headline.name,
        alternation=alternation,
        methods=tuple(methods),
        certificates=certificates,
        traces={name: models[name].objective_trace_ for name in (headline.name, alternation)},
        label_vectors=_label_vectors(models[headline.name]),
        examples=_examples(work, models[headline.name]),
        photos=photos,
        seconds=time.perf_counter() - start,
    )
    reporter.stage("writing the report")
    build_report(result).save(output)
    return result


def _choose(name: str, work: _Experiment, relations: Relations, reporter: Reporter) -> Choice:
    n_seen = len(work.data.seen)
    grid = _QUICK_GRID if work.quick else _GRID
    found = class_holdout_search(
        TAEP(tol=2e-2, random_state=work.seed, n_jobs=1),
        grid if relations is None else {**grid, "lam": _LAM},
        work.train.X,
        work.train.Y,
        work.data.seen_labels,
        None if relations is None else relations[:n_seen, :n_seen],
        n_splits=1 if work.quick else 2,
        random_state=work.seed,
        progress=reporter.step,
    )
    return Choice(name, found.best_params, found.best_score, len(found.table))


def _fit_all(
    work: _Experiment,
    choices: Sequence[Choice],
    headline: Choice,
    alternation: str,
    related: Mapping[str, Relations],
    reporter: Reporter,
) -> tuple[dict[str, TAEP], tuple[Certificate, ...]]:
    """Every method on all seen labels; the paper's alternation solves the problem of the headline."""
    settings = {choice.name: choice.params for choice in choices}
    settings[alternation] = {**headline.params, "solver": "alternating", "max_iter": 30}
    related = {**related, alternation: related.get(headline.name)}
    models = {
        name: TAEP(**params, tol=2e-3, random_state=work.seed, n_jobs=1) for name, params in settings.items()
    }
    seconds = {}
    for done, (name, model) in enumerate(models.items(), start=1):
        start = time.perf_counter()
        work.fit(model, related.get(name))
        seconds[name] = time.perf_counter() - start
        reporter.step(done, len(models))
    bounds = {name: model.lower_bound_ for name, model in models.items()}
    # Two solvers of one problem share its bounds: the larger one holds for both.
    bounds[headline.name] = bounds[alternation] = max(bounds[headline.name], bounds[alternation])
    certificates = tuple(
        Certificate(name, model.objective_, bounds[name], model.n_iter_, model.n_epochs_, seconds[name])
        for name, model in models.items()
    )
    return models, certificates


def _chance(work: _Experiment, repeats: int = 20) -> Method:
    rng = np.random.default_rng(work.seed)
    draws = [
        [evaluate(rng.random(view.Y.shape), view) for _ in range(repeats)]
        for view in (work.zero_shot, work.generalized)
    ]
    zero_shot, generalized = (Summary(*np.mean(draw, axis=0).tolist()) for draw in draws)
    return Method(CHANCE, zero_shot, generalized, fair=False)


def _ceiling(work: _Experiment, choice: Choice) -> TAEP:
    """TAEP on annotations of every label, the unseen ones too: no zero-shot method."""
    data = work.data
    order = np.concatenate([data.seen, data.unseen])
    model = TAEP(beta=choice.params["beta"], random_state=work.seed, n_jobs=1)
    return model.fit(data.X_train, data.Y_train[:, order], data.seen_labels + data.unseen_labels)


def _label_vectors(model: TAEP) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Label vectors as the model takes them, and after its projection."""
    centred = model.label_vectors_ - model.label_center_
    unit = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    return unit, unit @ model.projection_


def _examples(work: _Experiment, model: TAEP, most: int = 3) -> tuple[Example, ...]:
    """The first test images of different scenes that show both a seen and an unseen label."""
    data, chosen = work.data, dict[int, int]()
    mixed = data.Y_test[:, data.seen].any(axis=1) & data.Y_test[:, data.unseen].any(axis=1)
    for image in np.flatnonzero(mixed):
        chosen.setdefault(int(data.scenes_test[image]), int(image))
    return tuple(_example(work, model, image) for image in list(chosen.values())[:most])


def _example(work: _Experiment, model: TAEP, image: int) -> Example:
    data, train, x = work.data, work.train, work.data.X_test[image]
    best = model.tag(x[None], "unseen", top=1)[0][0]
    by_images = model.explain(x, best.name, train.X).parts
    speakers = [(int(part.name), part.value) for part in by_images if part.value > 0][:3]
    return Example(
        image=image,
        scene=data.scene_names[data.scenes_test[image]],
        labels=tuple(name for name, shown in zip(data.names, data.Y_test[image], strict=True) if shown),
        tags=tuple(model.tag(x[None], "all", top=6)[0]),
        explanation=model.explain(x, best.name),
        support=tuple(
            Support(
                image=int(train.images[row]),
                scene=data.scene_names[data.scenes_train[train.images[row]]],
                labels=tuple(name for name, shown in zip(train.names, train.Y[row], strict=True) if shown),
                contribution=value,
            )
            for row, value in speakers
        ),
    )
