"""The tables of a reproduction, beside the figures that Ye & Guo (2018) print."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from scipy import stats

from unseen.datasets.voc import VOC_CLASSES
from unseen.evaluation.metrics import Summary
from unseen.evaluation.protocol import alternating_split, name_of_split
from unseen.experiment.runner import BURN_IN, FACTORS, ITERATES, MAIN, PROTOCOLS, STRENGTHS, Experiment
from unseen.templates import Mark, Table
from unseen.validation import counted

if TYPE_CHECKING:
    from pandas import DataFrame, Series

FIELDS: Final = list(Summary._fields)
# Columns of the data sets that the paper prints figures of, and of others.
PAPERS: Final = {
    "MiAP": "miap", "mAP": "map", "micro-F1": "micro_f1", "macro-F1": "macro_f1", "Hamming": "hamming"
}  # fmt: skip
OTHERS: Final = {"MiAP": "miap", "mAP": "map", "F1@3": "micro_f1", "F1@5": "f1_at_5"}
RIVALS: Final = ("ConSE", "LatEm-M", "DMP", "Fast0Tag")
# Metrics of published.csv as the fields of `Summary`.
PUBLISHED_METRICS: Final = {"mAP": "map", "F1@3": "micro_f1", "F1@5": "f1_at_5"}
TEST_IMAGES: Final = {"voc2007": 4952, "voc2012": 5823}  # VOC2012 is tested on its validation images


def _read_printed() -> dict[tuple[str, str, str], Summary]:
    """Tables 1 and 2 of the paper, by protocol, data set and method."""
    text = files("unseen.experiment").joinpath("printed.csv").read_text(encoding="utf-8")
    figures = {}
    for protocol, data_set, method, *row in list(csv.reader(text.splitlines()))[1:]:
        miap, micro, macro, hamming = (float(value) / 100 for value in row)
        figures[protocol, data_set, method] = Summary(miap, np.nan, micro, macro, hamming, np.nan)
    return figures


PRINTED: Final = _read_printed()


@dataclass(frozen=True, eq=False)
class Reproduction:
    """What a reproduction found: `runner.frame` of the experiment and of the studies, and the command."""

    experiment: Experiment
    rows: DataFrame
    strength: DataFrame
    solvers: DataFrame
    command: str
    folder: Path
    seconds: float = 0.0

    @property
    def metrics(self) -> dict[str, str]:
        """Columns of the tables, with the fields of `Summary` that they show."""
        return PAPERS if self.experiment.data.name in TEST_IMAGES else OTHERS

    @property
    def has_papers_features(self) -> bool:
        """Whether data set and backbone are those of the paper."""
        return self.experiment.data.name in TEST_IMAGES and "vgg19" in self.experiment.data.main_features.lower()

    def methods(self, track: str) -> list[str]:
        """Methods of a track that ran."""
        return list(self.rows.loc[self.rows.track == track, "method"].unique())

    def printed(self, protocol: str, method: str) -> Summary | None:
        """The paper's figures; None if it has none for this data set, these classes and this split."""
        data = self.experiment.data
        same = set(data.labels) == set(VOC_CLASSES) and self.experiment.split == alternating_split(data.labels)
        return PRINTED.get((protocol, data.name, method)) if same else None

    def figures(self, protocol: str, *, random: bool = False) -> DataFrame:
        """Mean figures over the repeats, by method and split: the main one, or the random ones."""
        chosen = self.rows[(self.rows.protocol == protocol) & ((self.rows.split != MAIN) == random)]
        return chosen.groupby(["method", "split"], sort=False)[FIELDS].mean()

    def spread(self, protocol: str) -> DataFrame:
        """Standard deviation over the runs on the main split, by method; NaN for a single run."""
        chosen = self.rows[(self.rows.protocol == protocol) & (self.rows.split == MAIN)]
        return chosen.groupby("method", sort=False)[FIELDS].std()

    @property
    def n_random(self) -> int:
        """Number of random splits."""
        return int(self.rows.split.nunique()) - 1


class Interval(NamedTuple):
    """Mean and half the width of its 95 % confidence interval (NaN for fewer than two values)."""

    mean: float
    half: float

    def percent(self, sign: str = "") -> str:
        """Both in per cent; a dash for no value."""
        return percent(self.mean, self.half, sign)


def interval(values: Any) -> Interval:
    """Mean of values with its 95 % interval, ``t s / sqrt(n)``, t with n - 1 degrees of freedom."""
    sample = np.asarray(values, dtype=np.float64).ravel()
    if sample.size < 2:
        return Interval(float(sample.mean()) if sample.size else np.nan, np.nan)
    half = stats.t.ppf(0.975, sample.size - 1) * sample.std(ddof=1) / np.sqrt(sample.size)
    return Interval(float(sample.mean()), float(half))


def main_tables(result: Reproduction) -> list[Table]:
    """Tables 1 and 2; a row of the paper's figures follows each method that it prints."""
    return [_main_table(result, protocol) for protocol in PROTOCOLS]


def _main_table(result: Reproduction, protocol: str) -> Table:
    fields, opened = list(result.metrics.values()), result.methods("open")
    values = result.figures(protocol).droplevel("split").loc[[*result.methods("paper"), *opened], fields]
    spread = result.spread(protocol).loc[values.index]
    shown = np.round(100 * values, 2) * [-1 if field == "hamming" else 1 for field in fields]
    best = shown == shown.groupby(shown.index.isin(opened)).transform("max")
    others = result.figures(protocol, random=True).miap
    rows: list[list[str | Mark]] = []
    for method, figures in values.iterrows():
        texts = [percent(figures[field], spread.at[method, field]) for field in fields]
        cells = [Mark(text, "strong") if top else text for text, top in zip(texts, best.loc[method], strict=True)]
        name = f"{method} (open)" if method in opened else str(method)
        rows.append([name, *cells, *([interval(others[method]).percent()] if result.n_random else [])])
        if (printed := result.printed(protocol, str(method))) is not None:
            papers = [_printed(getattr(printed, field), figures[field]) for field in fields]
            rows.append([Mark("(printed)", "muted"), *papers, *(["-"] if result.n_random else [])])
    more = (f"MiAP, {counted(result.n_random, 'random split')}",) if result.n_random else ()
    title = f"Table {1 + PROTOCOLS.index(protocol)}: {protocol}"
    return Table(title, ("method", *result.metrics, *more), rows, _main_note(result, protocol))


def _printed(papers: float, ours: float) -> str:
    difference = "" if np.isnan(papers) else f" ({percent(round(ours, 4) - papers, sign='+')})"
    return percent(papers) + difference


def _main_note(result: Reproduction, protocol: str) -> str:
    if protocol != PROTOCOLS[-1]:
        return ""
    note = "In per cent" + ("; Hamming loss: lower is better." if "Hamming" in result.metrics else ".")
    note += " Bold: best of its track."
    if any(result.printed(protocol, name) for name in result.methods("paper")):
        note += " (printed): the paper's figure, and in brackets what this run has more."
    if result.spread(protocol).notna().any(axis=None):
        note += " After ±: standard deviation over runs with other seeds and the same parameters."
    if result.n_random:
        note += " Last column: mean over the random splits and half of its 95 % interval."
    if result.methods("open"):
        note += (
            " (open), the open track: these methods use the backbone's ImageNet classes, some of which are unseen "
            "labels. Do not compare them with the others, the paper track."
        )
    return note


def choice_table(result: Reproduction) -> Table:
    """Parameters of the main split, and their score on held-out seen labels."""
    chosen = result.rows[result.rows.split == MAIN].drop_duplicates("method")
    rows = [
        (row.method, f"{row.features}, {row.vectors}", row.parameters or "defaults", str(row.settings),
         percent(row.held_out_miap, row.held_out_error))
        for row in chosen.itertuples()
    ]  # fmt: skip
    plan, note = result.experiment.plan, "Default parameters: nothing was searched."
    if result.experiment.searched:
        note = (
            f"Chosen on the seen labels alone. Held-out MiAP: mean over {plan.halvings} halvings of these labels "
            f"± its standard error, at most {plan.most_images} training images per fold."
        )
    columns = ("method", "features, label vectors", "parameters", "settings", "held-out MiAP")
    return Table("Parameters, main split", columns, rows, note)


def strengths(result: Reproduction, protocol: str = "zero-shot") -> DataFrame:
    """MiAP of Figure 2: one row per curve and split, one column per factor."""
    rows = result.strength[result.strength.protocol == protocol]
    return rows.groupby(["curve", "split", "at"], sort=False).miap.mean().unstack("at")[list(FACTORS)]


def solver_figures(result: Reproduction) -> DataFrame:
    """Means and standard deviations over the iterates tested, by rank and solver; best lower bound of the rank."""
    wide = result.solvers.pivot_table(
        index=["at", "curve", "iterate"], columns="protocol", values="miap", sort=False
    ).join(result.solvers.groupby(["at", "curve", "iterate"], sort=False).objective.first())
    found = wide.groupby(["at", "curve"], sort=False).agg(["mean", "std"])
    found.columns = [f"{name} {what}" for name, what in found.columns]
    bounds = result.solvers.groupby("at").lower_bound.max()
    return found.assign(bound=bounds.loc[found.index.get_level_values("at")].to_numpy()).sort_index(
        level="at", sort_remaining=False
    )


def solver_table(result: Reproduction) -> Table:
    """Objective and MiAP of each solver, by rank."""
    rows, last = [], None
    for (rank, solver), row in solver_figures(result).iterrows():
        spread = "" if np.isnan(row["objective std"]) else f" ± {row['objective std']:,.1f}"
        above = f"{row['objective mean'] - row['bound']:,.1f}"
        cells = [percent(row[f"{protocol} mean"], row[f"{protocol} std"]) for protocol in PROTOCOLS]
        rows.append(["" if rank == last else f"{rank:g}", solver, f"{row['objective mean']:,.1f}{spread}", above,
                     *cells])  # fmt: skip
        last = rank
    columns = ("rank", "solver", "objective", "above bound", "ZSL MiAP", "GZSL MiAP")
    note = (
        "TAEP; the rank is a share of the seen labels, all else as on the main split. 'Above bound': the excess "
        "of the objective over a value that no projection of this rank can be below. The paper's alternation "
        f"cycles below full rank: mean ± standard deviation over iterates {BURN_IN + 1} to {BURN_IN + ITERATES}."
    )
    return Table("Solver and rank", columns, rows, note)


class Difference(NamedTuple):
    """A difference in MiAP behind a claim of the paper: on the main split, and paired over the random ones."""

    claim: str
    what: str
    protocol: str
    main: float
    splits: Interval

    @property
    def verdict(self) -> str:
        """The sign according to the interval."""
        if np.isnan(self.splits.half):
            return "no interval"
        if abs(self.splits.mean) <= self.splits.half:
            return "inconclusive"
        return "above" if self.splits.mean > 0 else "below"


def differences(result: Reproduction) -> list[Difference]:
    """The differences behind the paper's three claims, for the methods that ran."""
    ran = result.methods("paper")
    pairs = [("TAEP is better than the baselines", "TAEP", name) for name in RIVALS]
    pairs += [
        ("TAEP is better than methods outside the paper", "TAEP", name)
        for name in ran
        if name not in RIVALS and not name.startswith("TAEP")
    ]
    pairs += [("Auxiliary information helps", name, "TAEP") for name in ("TAEP-H", "TAEP-C")]
    pairs += [("The mean loss helps", f"{name} (mean)", name) for name in ("TAEP", "TAEP-C", "TAEP-H")]
    found = []
    for protocol in PROTOCOLS:
        miap = result.rows[result.rows.protocol == protocol].groupby(["method", "split"], sort=False).miap.mean()
        for claim, first, second in pairs:
            if {first, second} <= set(ran):
                what = f"{first} - {second}"
                found.append(_difference(claim, what, protocol, miap[first] - miap[second]))
    for protocol in PROTOCOLS if len(result.strength) else ():
        miap = strengths(result, protocol)
        for name in (name for name in STRENGTHS if name in miap.index):
            symbol = "gamma" if name == "TAEP" else "lambda"
            what = f"{name}: {symbol} x 1 - {symbol} x {FACTORS[-1]:g}"
            change = miap.loc[name][FACTORS[0]] - miap.loc[name][FACTORS[-1]]
            found.append(_difference("gamma and lambda matter", what, protocol, change))
    return found


def _difference(claim: str, what: str, protocol: str, by_split: Series) -> Difference:
    return Difference(claim, what, protocol, float(by_split[MAIN]), interval(by_split.drop(MAIN)))


def claims_table(result: Reproduction) -> Table:
    """All differences with their intervals."""
    n = result.n_random
    rows, last = [], ""
    for part in differences(result):
        title, last = "" if part.claim == last else part.claim, part.claim
        over_splits = (part.splits.percent("+"), part.verdict) if n else ()
        rows.append((title, part.what, part.protocol, f"{100 * part.main:+.2f}", *over_splits))
    note = "Points of MiAP."
    if n:
        note += (
            " Paired by split; 'above' and 'below': the 95 % interval of the mean excludes 0, not corrected for "
            "the number of comparisons."
        )
    more = (counted(n, "random split"), "verdict") if n else ()
    columns = ("claim", "difference", "protocol", "main split", *more)
    return Table("The paper's claims: differences in MiAP", columns, rows, note)


def read_published() -> list[dict[str, str]]:
    """Rows of ``published.csv``: one figure each, in per cent, with its source."""
    text = files("unseen.experiment").joinpath("published.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def published_tables(result: Reproduction) -> list[Table]:
    """One table per set of labels scored, for the main split; none if it is not a published one."""
    name = name_of_split(result.experiment.split)
    rows = [row for row in read_published() if name in row["split"].split()]
    return [_published_table(result, labels, rows) for labels in dict.fromkeys(row["labels"] for row in rows)]


def _published_table(result: Reproduction, labels: str, published: list[dict[str, str]]) -> Table:
    rows = [row for row in published if row["labels"] == labels]
    metrics = list(dict.fromkeys(row["metric"] for row in rows))
    cells = []
    for method in dict.fromkeys(row["method"] for row in rows):
        own = {row["metric"]: row for row in rows if row["method"] == method}
        first = next(iter(own.values()))
        figures = [own[metric]["value"] if metric in own else "-" for metric in metrics]
        cells.append([method, *figures, first["backbone"], first["training"], first["source"]])
    data, split, protocol = result.experiment.data, result.experiment.split, rows[0]["protocol"]
    n_scored = len(split.unseen) if protocol == "zero-shot" else len(split.seen + split.unseen)
    ours, backbones = result.figures(protocol).droplevel("split"), result.rows.groupby("method").features.first()
    for track in ("paper", "open") if str(n_scored) in labels.split() else ():
        for method in ours.loc[result.methods(track), PUBLISHED_METRICS[metrics[0]]].nlargest(1).index:
            shown = [percent(ours.at[method, PUBLISHED_METRICS[metric]]) for metric in metrics]
            training = f"{len(split.seen)} seen labels, best of the {track} track"
            cells.append([method, *shown, backbones[method], training, "this run"])
    n_train, n_test = int(data.is_train.sum()), int((~data.is_train).sum())
    note = (
        "In per cent. Backbones, images and supervision differ: a difference between rows is not one between "
        f"methods alone. This run has {n_train:,} training and {n_test:,} test images; its zero-shot figures are "
        "on images with an unseen label."
    )
    return Table(
        f"Published figures: {labels} labels", ("method", *metrics, "backbone", "training", "source"), cells, note
    )


def percent(value: float | None, spread: float | None = None, sign: str = "") -> str:
    """A fraction in per cent, with its spread if there is one; a dash for no value."""
    text = "-" if value is None or np.isnan(value) else f"{100 * value:{sign}.2f}"
    return text if spread is None or np.isnan(spread) else f"{text} ± {100 * spread:.2f}"
