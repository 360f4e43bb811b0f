"""The paper, reproduced: every table and figure of it on real data, into one folder."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from unseen.evaluation import plots
from unseen.evaluation.protocol import ClassSplit, alternating_split, named_split
from unseen.experiment.reproduce_csv import write_csv_files
from unseen.experiment.reproduce_data import Loaded, read_data
from unseen.experiment.reproduce_figures import FIGURES, draw
from unseen.experiment.reproduce_page import build_markdown, build_report
from unseen.experiment.reproduce_result import Reproduction
from unseen.experiment.reproduce_sources import Sources, find_sources
from unseen.experiment.runner import (
    METHODS,
    Method,
    Reporter,
    SearchPlan,
    class_splits,
    is_blind,
    run_cells,
    run_experiment,
)
from unseen.experiment.studies import embedding_study, rank_study, strength_study
from unseen.files import write_atomically
from unseen.validation import counted

__all__ = ["Loaded", "Reproduction", "Sources", "find_sources", "main_split", "read_data", "reproduce"]


class _Silence:
    def stage(self, title: str) -> None: ...

    def step(self, done: int, total: int) -> None: ...


def reproduce(
    loaded: Loaded,
    folder: str | Path,
    *,
    split: ClassSplit | None = None,
    methods: Sequence[Method] = METHODS,
    n_splits: int = 5,
    repeats: int = 1,
    search: bool = True,
    plan: SearchPlan | None = None,
    seed: int = 0,
    n_jobs: int | None = None,
    command: str = "",
    reporter: Reporter | None = None,
) -> Reproduction:
    """Run every method on every split, then the studies; write CSV files, figures, a page and a Markdown file.

    Finished parts are kept in ``folder/parts``: a run that was stopped goes on where it was.

    Parameters
    ----------
    loaded : Loaded
        As read by `read_data`.
    folder : str or Path
        Where to write; made if it is not there.
    split : ClassSplit, optional
        The main split; None for the paper's: in alphabetical order, every other class is seen.
    methods : sequence of Method
        What to run.
    n_splits : int, default=5
        Random splits beside the main one.
    repeats : int, default=1
        Runs of each with other seeds.
    search : bool, default=True
        Choose parameters by class-holdout; False takes those the methods come with.
    plan : SearchPlan, optional
        Halvings and images of the search.
    seed : int, default=0
        The same seed gives the same CSV files, bit by bit.
    n_jobs : int, optional
        Parts to run at once, through joblib.
    command : str
        What was typed, for the record.
    reporter : Reporter, optional
        Told of the progress.

    Returns
    -------
    Reproduction

    Raises
    ------
    ValueError
        If a check fails: a row is no top-3 prediction, or unseen annotations reach what is learned on.
    """
    plots.require_matplotlib()
    start, report = time.perf_counter(), reporter or _Silence()
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    data = loaded.data
    splits = class_splits(split or alternating_split(data.labels), n_splits, seed)
    if len(splits) <= n_splits:
        few = f"With as many seen labels there are no more than {counted(len(splits) - 1, 'other split')}."
        loaded = replace(loaded, notes=(*loaded.notes, few))
    blind = {name: is_blind(data, part, seed) for name, part in splits.items()}
    if not all(blind.values()):
        raise ValueError(f"splits: annotations of unseen labels reach the training of {blind}.")
    options: dict[str, Any] = {"plan": plan, "store": folder / "parts", "n_jobs": n_jobs, "reporter": report}
    report.stage(f"methods on {counted(len(splits), 'split')} of the classes")
    experiment = run_experiment(data, splits, methods, search=search, repeats=repeats, seed=seed, **options)
    run = partial(run_cells, data=data, **options)
    report.stage("Figure 2: weaker regularisers")
    strength = tuple(strength_study(experiment, run))
    report.stage("rank and solver")
    ranks = tuple(rank_study(experiment, run))
    report.stage("label vectors and backbones")
    embeddings = tuple(embedding_study(experiment, run))
    report.stage("writing tables and figures")
    seconds = time.perf_counter() - start
    result = Reproduction(loaded, experiment, strength, ranks, embeddings, blind, command, folder, seconds)
    _write(result, folder)
    return result


def main_split(
    labels: Sequence[str], seen: Sequence[str] | None = None, unseen: Sequence[str] | None = None
) -> ClassSplit:
    """The paper's split, or one by names; with either side named, the other is the rest.

    Parameters
    ----------
    labels : sequence of str
        All labels.
    seen, unseen : sequence of str, optional
        Names.

    Returns
    -------
    ClassSplit
    """
    if seen or unseen:
        return named_split(labels, seen or None, unseen or None)
    return alternating_split(labels)


def _write(result: Reproduction, folder: Path) -> None:
    write_csv_files(result, folder)
    drawn = draw(result)
    for name in set(FIGURES) - set(drawn):  # of an earlier run with more to draw
        for suffix in ("png", "svg"):
            (folder / f"{name}.{suffix}").unlink(missing_ok=True)
    for name, part in drawn.items():
        for suffix in ("png", "svg"):
            plots.save(part.figure, folder / f"{name}.{suffix}")
    text = build_markdown(result, drawn)
    write_atomically(folder / "results.md", lambda part: part.write_text(text, encoding="utf-8", newline="\n"))
    build_report(result, drawn).save(folder / "report.html")
