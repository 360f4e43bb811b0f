"""`unseen demo`: the packaged photos with their tags, then a whole zero-shot experiment on simulated scenes."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from unseen.base import SURE, Tag
from unseen.datasets.scenes import make_tagged_scenes
from unseen.evaluation import plots
from unseen.evaluation.metrics import Summary
from unseen.evaluation.protocol import alternating_split, evaluate, generalized_view, training_view, zero_shot_view
from unseen.evaluation.search import SearchResult, class_holdout_search
from unseen.files import write_atomically
from unseen.taep import TAEP
from unseen.templates import Mark, Table, render
from unseen.validation import Matrix

PHOTOS = {
    "cat": "Chelsea the cat",
    "coffee": "A cup of coffee",
    "rocket": "A rocket at night",
    "astronaut": "Eileen Collins, astronaut",
}
METHODS = ("TAEP", "TAEP-H", "TAEP-C")  # without relations, from the hierarchy, from hit counts
ALTERNATION = {"solver": "alternating", "max_iter": 30}
GRID: Mapping[str, Sequence[float]] = {"beta": (1.0, 10.0), "rank": (0.5, 1.0), "gamma": (0.0, 0.1)}
QUICK_GRID: Mapping[str, Sequence[float]] = {"beta": (3.0, 10.0), "rank": (1.0,), "gamma": (0.1,)}
LAM = (0.1, 1.0)

Report = Callable[[str], Callable[[int, int], None]]


class Method(NamedTuple):
    """Test figures of a method; ``fair`` if it was fitted and tuned on annotations of seen labels only."""

    name: str
    zero_shot: Summary
    generalized: Summary
    fair: bool


class Certificate(NamedTuple):
    """How close a fit is to the optimum: no projection has an objective below ``lower_bound``."""

    name: str
    objective: float
    lower_bound: float
    n_iter: int


class DemoResult(NamedTuple):
    """Photos (data URI, title, sure tags) or why there are none; test figures; certificates; both as tables."""

    photos: list[tuple[str, str, tuple[Tag, ...]]]
    n_annotated: int  # labels of the packaged model
    problem: str
    methods: list[Method]
    certificates: list[Certificate]
    tables: list[Table]


def run_demo(
    output: str | Path, *, seed: int = 0, quick: bool = False, report: Report | None = None
) -> DemoResult:
    """Tag photos; simulate scenes, choose parameters on the seen labels, fit, test once; write an HTML page.

    ``quick`` takes fewer images and settings. ``report(title)`` begins a stage and returns ``step(done, total)``.
    """
    from unseen.photos.tagger import card_rows

    plots.require_matplotlib()
    report = report or (lambda title: lambda done, total: None)
    report("tagging the packaged photos")
    photos, n_annotated, problem = _tag_photos()
    report("simulating scenes")
    work = _Experiment(seed, quick)
    found = {name: work.search(name, report(f"choosing parameters of {name}")) for name in METHODS}
    best = max(found, key=lambda name: found[name].chosen.mean)
    params = {name: result.chosen.params for name, result in found.items()}
    params[alternation := f"{best}, paper's alternation"] = params[best] | ALTERNATION
    step, models = report("fitting and testing"), dict[str, TAEP]()
    for name, chosen in params.items():
        models[name] = work.fit(TAEP(**chosen, tol=2e-3, random_state=seed, n_jobs=1), name.partition(",")[0])
        step(len(models), len(params))
    bounds = {name: model.lower_bound_ for name, model in models.items()}
    # Two solvers of one problem share its bounds: the larger bound holds for both.
    bounds[best] = bounds[alternation] = max(bounds[best], bounds[alternation])
    certificates = [Certificate(name, fit.objective_, bounds[name], fit.n_iter_) for name, fit in models.items()]
    methods = [work.test(name, model) for name, model in models.items()]
    methods += [work.chance(), work.test("ceiling: all labels annotated", work.ceiling(params[best]["beta"]))]
    tables = [*_method_tables(methods), _certificate_table(certificates, params)]
    result = DemoResult(photos, n_annotated, problem, methods, certificates, tables)
    report("writing the page")
    traces = {"paper's alternation": models[alternation].objective_trace_, "convex": models[best].objective_trace_}
    page = render(
        "demo.html.j2", result=result, data=work.data, best=methods[METHODS.index(best)], sure=SURE,
        cards=[(photo, title, card_rows(tags)) for photo, title, tags in photos],
        traces=plots.to_svg(plots.objective_traces(traces, bounds[best]), prefix="traces-"),
        labels=plots.to_svg(_label_map(models[best]), prefix="labels-"),
        command=f"unseen demo --seed {seed}{' --quick' if quick else ''}",
    )  # fmt: skip
    write_atomically(Path(output), lambda part: part.write_text(page, encoding="utf-8", newline="\n"))
    return result


def _tag_photos() -> tuple[list[tuple[str, str, tuple[Tag, ...]]], int, str]:
    """Return the packaged photos with their sure tags, the best one at least; or why there are none."""
    from unseen.photos.tagger import PhotoTagger, thumbnail

    try:
        model, tagged = PhotoTagger.load(), []
        words = model.query()
        for name, title in PHOTOS.items():
            with as_file(files("unseen.images").joinpath(f"data/photos/{name}.jpg")) as path:
                (photo,) = model.tag(path, words, min_p=SURE)
                tagged.append((thumbnail(path), title, photo.tags or tuple(filter(None, [photo.guess]))))
    except ImportError as error:  # an optional dependency is missing
        return [], 0, str(error)
    return tagged, model.tagger.n_seen_, ""


class _Experiment:
    """The scenes under the paper's protocol: the training data, and the two test settings."""

    def __init__(self, seed: int, quick: bool) -> None:
        self.seed, self.quick = seed, quick
        self.data = data = make_tagged_scenes(*((700, 300) if quick else (2000, 1000)), random_state=seed)
        split = alternating_split(data.names)
        self.train = training_view(data.X_train, data.Y_train, split)
        self.tests = [view(data.X_test, data.Y_test, split) for view in (zero_shot_view, generalized_view)]
        hierarchy, counts = data.relations("hierarchy"), data.relations("hit counts")
        self.relations: dict[str, Matrix | None] = {"TAEP": None, "TAEP-H": hierarchy, "TAEP-C": counts}

    def search(self, name: str, step: Callable[[int, int], None]) -> SearchResult:
        """Choose parameters by hiding half of the seen labels in turn."""
        data, grid, R = self.data, dict(QUICK_GRID if self.quick else GRID), self.relations[name]
        if R is not None:
            grid["lam"], R = LAM, R[: len(data.seen), : len(data.seen)]
        return class_holdout_search(
            TAEP(rank=1.0, tol=2e-2, random_state=self.seed, n_jobs=1), grid, self.train.X, self.train.Y,
            data.seen_labels, R, n_splits=1 if self.quick else 2, random_state=self.seed, progress=step,
        )  # fmt: skip

    def fit(self, model: TAEP, name: str) -> TAEP:
        data, train = self.data, self.train
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the table of certificates shows the gap
            return model.fit(train.X, train.Y, data.seen_labels, data.unseen_labels, self.relations[name])

    def ceiling(self, beta: float) -> TAEP:
        """Fit TAEP on annotations of every label: not a zero-shot method."""
        data, order = self.data, np.concatenate([self.data.seen, self.data.unseen])
        model = TAEP(beta=beta, random_state=self.seed, n_jobs=1)
        return model.fit(data.X_train, data.Y_train[:, order], data.seen_labels + data.unseen_labels)

    def test(self, name: str, model: TAEP) -> Method:
        figures = [evaluate(model.decision_function(view.X, list(view.names)), view) for view in self.tests]
        return Method(name, figures[0], figures[1], name in METHODS)

    def chance(self, repeats: int = 20) -> Method:
        """Return the mean figures of random rankings."""
        rng = np.random.default_rng(self.seed)
        draws = [[evaluate(rng.random(view.Y.shape), view) for _ in range(repeats)] for view in self.tests]
        figures = [Summary(*np.mean(draw, axis=0).tolist()) for draw in draws]
        return Method("chance", figures[0], figures[1], fair=False)


def _method_tables(methods: Sequence[Method]) -> list[Table]:
    """Return the test figures in per cent, the best fair one of each column strong, the unfair rows muted."""
    columns, tables = ("method", "MiAP", "mAP", "micro-F1", "macro-F1", "Hamming loss"), []
    for title, setting in (("Zero-shot: unseen labels", "zero_shot"), ("Generalized: all labels", "generalized")):
        values = np.array([getattr(method, setting)[:5] for method in methods]) * (100, 100, 100, 100, -100)
        best = values[[method.fair for method in methods]].max(axis=0).round(1)
        rows = [
            (Mark(method.name, "text" if method.fair else "muted"), *(
                Mark(f"{abs(value):.1f}", "strong" if method.fair and round(value, 1) == top else "text")
                for value, top in zip(row, best, strict=True)
            ))
            for method, row in zip(methods, values.tolist(), strict=True)
        ]  # fmt: skip
        tables.append(Table(title, columns, rows))
    note = "In per cent; a low Hamming loss is good. F1 and Hamming loss use the 3 best tags per image."
    return [tables[0], tables[1]._replace(note=note)]


def _certificate_table(certificates: Sequence[Certificate], params: Mapping[str, Mapping[str, Any]]) -> Table:
    names, rows = ("rank", "beta", "gamma", "lam"), []
    for fit in certificates:
        gap = (fit.objective - fit.lower_bound) / fit.objective
        chosen = (f"{params[fit.name][key]:g}" if key in params[fit.name] else "-" for key in names)
        bounds = (f"{fit.objective:.1f}", f"{fit.lower_bound:.1f}", f"{100 * gap:.2f} %", str(fit.n_iter))
        rows.append((fit.name, *chosen, *bounds))
    columns = ("fit", *names, "objective", "lower bound", "certified gap", "iterations")
    note = (
        "Parameters were chosen on held-out seen labels; the rank is a share of these. No projection has an "
        "objective below the lower bound."
    )
    return Table("Fits and their certificates", columns, rows, note)


def _label_map(model: TAEP) -> Any:
    centred = model.label_vectors_ - model.label_center_
    unit = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    maps = {"before projection": unit, "after projection": unit @ model.projection_}
    return plots.label_map(maps, model.label_names_, np.arange(len(unit)) < model.n_seen_)
