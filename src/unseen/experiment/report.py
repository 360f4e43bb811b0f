"""`unseen reproduce`: every table and figure of the paper on real data, into one folder."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from unseen import __version__
from unseen.evaluation import plots
from unseen.evaluation.protocol import ClassSplit, alternating_split
from unseen.experiment import tables
from unseen.experiment.data import ExperimentData
from unseen.experiment.methods import METHODS, Method
from unseen.experiment.runner import (
    FACTORS,
    MAIN,
    PROTOCOLS,
    RANKS,
    SOLVERS,
    SearchPlan,
    class_splits,
    frame,
    run_cells,
    run_experiment,
    solver_cells,
    strength_cells,
)  # fmt: skip
from unseen.experiment.tables import Reproduction
from unseen.files import csv_cell, write_atomically
from unseen.templates import Table, render
from unseen.validation import counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Stage = Callable[[str], object]
Step = Callable[[int, int], None]


class Section(NamedTuple):
    """A section of the report, its figure (by name) and its tables; ``short`` says what the Markdown file has."""

    title: str
    text: str
    figure: str
    tables: Sequence[Table]
    short: Literal["", "figure", "tables"] = ""


def reproduce(
    data: ExperimentData,
    folder: str | Path,
    *,
    split: ClassSplit | None = None,
    methods: Sequence[Method] = METHODS,
    n_splits: int = 5,
    repeats: int | None = None,
    search: bool = True,
    plan: SearchPlan | None = None,
    seed: int = 0,
    n_jobs: int | None = None,
    command: str = "",
    stage: Stage | None = None,
    step: Step | None = None,
) -> Reproduction:
    """Run every method on every split, then the studies; write CSV files, figures, a page and a Markdown file.

    Finished cells are kept in ``folder/cells``: an interrupted run continues where it stopped.

    Parameters
    ----------
    data : ExperimentData
        As read by `read_data`.
    folder : str or Path
    split : ClassSplit, optional
        The main split; the default is the paper's. ``n_splits`` random ones are added.
    methods, repeats, search, plan, seed, n_jobs
        As in `run_experiment` and `run_cells`; the same seed gives the same CSV files. By default 5 repeats, or 1
        without search.
    command : str
        The command line, for the record.
    stage, step : callable, optional
        Progress callbacks: ``stage(title)`` and ``step(done, total)``.
    """
    plots.require_matplotlib()
    start, folder = time.perf_counter(), Path(folder)
    announce = stage or (lambda title: None)
    splits = class_splits(split or alternating_split(data.labels), n_splits, seed)
    options: dict[str, Any] = {"store": folder / "cells", "n_jobs": n_jobs, "progress": step}
    announce(f"methods on {counted(len(splits), 'split')} of the classes")
    repeats = repeats or (5 if search else 1)
    experiment = run_experiment(
        data, splits, methods, search=search, repeats=repeats, seed=seed, plan=plan, **options
    )
    frames = [frame(experiment.cells, experiment.results, data)]
    studies = {"Figure 2: weaker regularisers": strength_cells, "solver and rank": solver_cells}
    for title, cells_of in studies.items():
        announce(title)
        cells = cells_of(experiment)
        frames.append(frame(cells, run_cells(cells, data, experiment.plan, **options), data))
    announce("writing tables and figures")
    rows, strength, solvers = frames
    seconds = time.perf_counter() - start
    result = Reproduction(experiment, rows, strength, solvers, command, folder, seconds)
    _write(result, folder)
    return result


def notes(result: Reproduction) -> list[str]:
    """Differences from the paper's own experiment, and methods left out."""
    experiment = result.experiment
    data, lines = experiment.data, []
    if data.name in tables.TEST_IMAGES:
        n_test, papers = int((~data.is_train).sum()), tables.TEST_IMAGES[data.name]
        if n_test != papers:
            lines.append(
                f"There are {n_test:,} test images here, {papers:,} in the paper: do not compare figures."
            )
        if not result.has_papers_features:
            lines.append(f"The features are from {data.main_features}; the paper used VGG19 (4096 dimensions).")
    lines.append(f"Label vectors of the tables: {data.main_vectors}, unless a row says otherwise.")
    left_out = (f"{name} is left out: {why}." for name, why in experiment.left_out.items())
    return [*lines, *data.notes, *left_out]


def _sections(result: Reproduction) -> list[Section]:
    experiment, split = result.experiment, result.experiment.split
    protocol = (
        f"Seen classes: {', '.join(split.seen_names)}. Unseen: {', '.join(split.unseen_names)}. Training images "
        f"have at least one seen label. Zero-shot: test images with an unseen label, ranking the unseen labels. "
        f"Generalized: all test images, ranking all labels. The top 3 labels of an image are predicted; MiAP "
        f"ranks tied labels worst. "
    )
    protocol += (
        "Parameters: the seen classes are halved at random, a model is trained on one half and ranks the other on "
        "images that it was not trained on, then the other way round. The setting with the best mean MiAP is "
        "chosen if it beats the default by more than one standard error of their paired difference over the "
        "halvings, otherwise the default; the choice is refitted on all seen classes and tested once. Grids are "
        "searched in stages: the choice of one is the default of the next."
        if experiment.searched
        else "All methods have their default parameters."
    )
    papers = result.has_papers_features
    sections = [
        Section("Tables 1 and 2", "Main split of the classes.", "", tables.main_tables(result), "tables"),
        Section("Published figures", "", "", tables.published_tables(result), "tables"),
        Section("The paper's claims", "", "", [tables.claims_table(result)]),
        Section("Figure 2", "Its numbers are in rows.csv.", "figure2", [], "figure" if papers else ""),
        Section("Solver and rank", "The paper does not state its rank.", "solvers",
                [tables.solver_table(result)] if len(result.solvers) else [], "tables" if papers else ""),
        Section("Unseen labels", "Figures of each label are in labels.csv.", "labels", []),
        Section("Protocol", protocol, "", [tables.choice_table(result)]),
    ]  # fmt: skip
    has_data = {"labels": True, "figure2": len(result.strength) > 0}
    return [part for part in sections if any(one.rows for one in part.tables) or has_data.get(part.figure)]


def _draw_strength(result: Reproduction) -> tuple[Figure, str]:
    miap = 100 * tables.strengths(result)
    panels = []
    for symbol, names in (("gamma", ("TAEP",)), ("lambda", ("TAEP-H", "TAEP-C"))):
        curves = []
        for kind, name in enumerate(name for name in names if name in miap.index):
            here = miap.loc[name]
            curves.append(plots.Curve(name, tuple(here.loc[MAIN]), kind=kind))
            if result.n_random:
                others = here.drop(MAIN)
                halves = tuple(tables.interval(others[at] - others[FACTORS[0]]).half for at in FACTORS)
                means = tuple(others.mean())
                curves.append(plots.Curve(f"{name}, random splits", means, halves, kind, faint=True))
        if curves:
            ticks = tuple(f"{factor:g}" for factor in FACTORS)
            panels.append(plots.Panel("zero-shot MiAP, %", f"factor on {symbol}", ticks, tuple(curves)))
    caption = "Figure 2 of the paper: the regulariser is made weaker from left to right."
    if result.n_random:
        caption += " Dashed: mean over the random splits, with the 95 % interval of its change, paired by split."
    return plots.curves(panels), caption


def _draw_solvers(result: Reproduction) -> tuple[Figure, str]:
    found = tables.solver_figures(result)
    ticks, panels = tuple(f"{rank:g}" for rank in RANKS), []
    titles = ("objective (lower is better)", "ZSL MiAP, %", "GZSL MiAP, %")
    for name, title in zip(("objective", *PROTOCOLS), titles, strict=True):
        lines, unit = [], 1.0 if name == "objective" else 100.0
        for kind, solver in enumerate(SOLVERS):
            here = found.xs(solver, level="curve")
            halves = None if here["objective std"].isna().all() else tuple(unit * here[f"{name} std"])
            lines.append(plots.Curve(solver, tuple(unit * here[f"{name} mean"]), halves, kind))
        panels.append(plots.Panel(title, "rank, share of the seen labels", ticks, tuple(lines)))
    caption = "TAEP by solver and rank; bars: standard deviation over the iterates of the paper's alternation."
    return plots.curves(panels, 4.2), caption


def _draw_labels(result: Reproduction) -> tuple[Figure, str]:
    opened = result.methods("open")
    methods = [*result.methods("paper"), *opened]
    parts = [result.experiment.of(method)[0][1]["labels"] for method in methods]
    values = np.array([part["average_precision"] for part in parts], dtype=np.float64).T
    order = np.argsort(-np.nan_to_num(values).mean(axis=1), kind="stable")
    titles = [name.replace(" + ", " +\n") + ("\n(open)" if name in opened else "") for name in methods]
    names = [parts[0]["name"][i] for i in order]
    grid = plots.label_grid(values[order], names, titles, "average precision of each unseen label, %")
    return grid, "Average precision of each unseen label on the test images of the main split."


def _write(result: Reproduction, folder: Path) -> None:
    drawings = {"labels": _draw_labels(result)}
    drawings |= {"figure2": _draw_strength(result)} if len(result.strength) else {}
    drawings |= {"solvers": _draw_solvers(result)} if len(result.solvers) else {}
    for name, (figure, _) in drawings.items():
        plots.save(figure, folder / f"{name}.svg")
        plots.save(figure, folder / f"{name}.png")
    _write_csv_files(result, folder)
    data = result.experiment.data
    n_train, n_test = int(data.is_train.sum()), int((~data.is_train).sum())
    about = "The paper, reproduced" if data.name in tables.TEST_IMAGES else "The experiment"
    context: dict[str, Any] = {
        "title": f"{about} on {data.name}, {data.main_features}",
        "subtitle": f"{n_train:,} training and {n_test:,} test images, {len(data.labels)} labels, "
        f"{counted(result.rows.method.nunique(), 'method')}.",
        "notes": notes(result),
        "sections": _sections(result),
        "captions": {name: caption for name, (_, caption) in drawings.items()},
        "command": result.command,
        "machine": f"{os.cpu_count()} cores {platform.machine()}, {platform.system()}, Python "
        f"{platform.python_version()}, numpy {np.__version__}, unseen {__version__}",
    }
    pictures = {name: plots.to_svg(*drawing, name) for name, drawing in drawings.items()}
    _write_text(folder / "report.html", render("reproduce.html.j2", pictures=pictures, **context))
    _write_text(folder / "results.md", render("reproduce.md.j2", **context))


def _write_csv_files(result: Reproduction, folder: Path) -> None:
    """Every number as a fraction; no times, so that the same run gives the same bytes."""
    import pandas as pd

    studies = {"": result.rows, "figure2": result.strength, "solvers": result.solvers}
    files = {"rows": pd.concat([rows.assign(study=name) for name, rows in studies.items()])}
    chosen = result.rows[result.rows.split == MAIN].drop_duplicates("method").set_index("method")
    chosen = chosen[["track", "features", "vectors", "parameters", "settings", "held_out_miap", "held_out_error"]]
    for number, protocol in enumerate(PROTOCOLS, start=1):
        table = result.figures(protocol).droplevel("split").join(result.spread(protocol).add_suffix("_std"))
        for field in tables.FIELDS:
            papers = {name: result.printed(protocol, name) for name in table.index}
            table[f"paper_{field}"] = pd.Series({name: getattr(row, field) for name, row in papers.items() if row})
        files[f"table{number}"] = table.join(chosen).reset_index()
    pairs = list(zip(result.experiment.cells, result.experiment.results, strict=True))
    labels = [
        pd.DataFrame(found["labels"]).assign(method=cell.method.name, seed=cell.seed)
        for cell, found in pairs
        if cell.split_name == MAIN
    ]
    files["labels"] = pd.concat(labels)
    files["search"] = pd.DataFrame(
        {"method": cell.method.name, "split": cell.split_name, **row}
        for cell, found in pairs
        for row in found["searched"]
    )
    files["claims"] = pd.DataFrame(
        {**part._asdict(), **part.splits._asdict(), "verdict": part.verdict} for part in tables.differences(result)
    ).drop(columns="splits", errors="ignore")
    for name, content in files.items():
        for column in content.select_dtypes(exclude="number"):
            content[column] = [csv_cell(x) if isinstance(x, str) else x for x in content[column]]
        _write_text(folder / f"{name}.csv", content.to_csv(index=False, lineterminator="\n"))


def _write_text(path: Path, text: str) -> None:
    write_atomically(path, lambda part: part.write_text(text, encoding="utf-8", newline="\n"))
