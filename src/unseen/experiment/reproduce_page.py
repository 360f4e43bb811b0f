"""The page and the Markdown file of a reproduction."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from unseen.experiment import reproduce_tables as tables
from unseen.experiment.paper_tables import TEST_IMAGES
from unseen.experiment.reproduce_claims import claims, claims_table
from unseen.experiment.reproduce_figures import Drawn
from unseen.experiment.reproduce_result import Reproduction, machine
from unseen.templates.report import Report, Table
from unseen.validation import counted


def build_report(result: Reproduction, figures: Mapping[str, Drawn]) -> Report:
    """The HTML page."""
    report = Report(f"The paper, reproduced on {result.name}", _subtitle(result))
    for line in (*surrogates(result), *left_out(result)):
        report.note(line)
    report.facts(_facts(result))
    chosen = "chosen on the seen labels" if result.experiment.searched else "as the methods come"
    report.section("Tables 1 and 2", f"Main split of the classes; parameters {chosen}, one test.")
    _add(report, *tables.main_tables(result))
    report.text(tables.OPEN)
    if result.experiment.random_splits:
        report.section("Other splits of the classes", "One split is one draw: the same experiment on random ones.")
        _draw(report, figures, "splits")
        _add(report, *tables.split_tables(result))
    report.section("The paper's claims", "Worded from the measured differences.")
    for claim in claims(result):
        report.text(f"{claim.title}? {claim.text}")
    _add(report, claims_table(result))
    if result.strength:
        report.section("Figure 2")
        _draw(report, figures, "figure2")
        _add(report, tables.strength_table(result))
    if result.ranks:
        report.section(
            "Rank and solver",
            "The paper does not state its rank; its alternation cycles below full rank, and is slow at full rank. "
            f"Here it has {tables.rounds_of(result)} rounds.",
        )
        _draw(report, figures, "ranks")
        _add(report, tables.rank_table(result))
    if result.embeddings:
        report.section("Label vectors and backbones")
        _add(report, *tables.embedding_tables(result))
    report.section("Which unseen labels work")
    _draw(report, figures, "labels")
    _add(report, *tables.label_tables(result))
    report.section("How it was done", protocol_text(result))
    _add(report, tables.choice_table(result))
    arithmetic = tables.arithmetic_table(result)
    if arithmetic is not None:
        _add(report, arithmetic)
    for line in checks(result):
        report.text(line)
    return report.code(result.command).text(machine())


def build_markdown(result: Reproduction, figures: Mapping[str, Drawn]) -> str:
    """The same as Markdown, for documentation."""
    parts = [f"# The paper, reproduced on {result.name}", _subtitle(result), f"```sh\n{result.command}\n```"]
    parts += [f"- {line}" for line in (*surrogates(result), *left_out(result), f"Machine: {machine()}.")]
    parts += ["## Tables 1 and 2", *map(_markdown, tables.main_tables(result))]
    if result.experiment.random_splits:
        parts += ["## Other splits of the classes", *_picture(figures, "splits")]
        parts += map(_markdown, tables.split_tables(result))
    parts += ["## The paper's claims", *(f"**{claim.title}?** {claim.text}" for claim in claims(result))]
    parts.append(_markdown(claims_table(result)))
    if result.strength:
        parts += ["## Figure 2", *_picture(figures, "figure2"), _markdown(tables.strength_table(result))]
    if result.ranks:
        parts += ["## Rank and solver", *_picture(figures, "ranks"), _markdown(tables.rank_table(result))]
    if result.embeddings:
        parts += ["## Label vectors and backbones", *map(_markdown, tables.embedding_tables(result))]
    parts += ["## Which unseen labels work", *_picture(figures, "labels")]
    parts += map(_markdown, tables.label_tables(result))
    parts += ["## How it was done", protocol_text(result), _markdown(tables.choice_table(result))]
    arithmetic = tables.arithmetic_table(result)
    parts += [] if arithmetic is None else [_markdown(arithmetic)]
    parts += [f"- {line}" for line in checks(result)]
    return _joined(parts)


def surrogates(result: Reproduction) -> list[str]:
    """What stands in for what the paper used."""
    data, lines = result.loaded.data, []
    if result.name in TEST_IMAGES:
        n_test, papers = int((~data.is_train).sum()), TEST_IMAGES[result.name]
        if n_test != papers:
            lines.append(
                f"These are not the images of the paper: {n_test:,} to test on, and {papers:,} there. Do not "
                f"compare with its figures."
            )
        if "vgg19" not in data.main_features.lower():
            lines.append(f"Features are those of {data.main_features}; the paper used VGG19 (4096 dimensions).")
        counts = result.loaded.sources.hit_counts
        counted = [method.name for method in result.experiment.methods if method.relations == "hit counts"]
        if counts is not None and counted:
            lines.append(
                f"The hit counts of {', '.join(counted)} come from {counts.name}, a stand-in for the paper's "
                f"counts on Flickr."
            )
    lines += [
        f"Features and logits of {', '.join(names)}: {inputs}." for inputs, names in _other_inputs(result).items()
    ]
    lines.append(f"Label vectors of the tables: {data.main_vectors}, unless a row says otherwise.")
    return [*lines, *result.loaded.notes]


def _other_inputs(result: Reproduction) -> dict[str, list[str]]:
    """Methods that work on other features than those of the tables, by these."""
    data = result.loaded.data
    found: dict[str, list[str]] = {}
    for method in result.experiment.methods:
        inputs = data.inputs(method, result.experiment.of(method.name)[0].cell.backbone)
        if inputs != data.main_features:
            found.setdefault(inputs, []).append(method.name)
    return found


def left_out(result: Reproduction) -> list[str]:
    """Methods that could not run."""
    return [f"{name} is left out: {why}." for name, why in result.experiment.left_out.items()]


def protocol_text(result: Reproduction) -> str:
    """The protocol in a paragraph."""
    split = result.split
    searched = (
        "Parameters: the seen classes are halved at random, a model is trained on one half and ranks the other on "
        "images it has not met, then the other way round; the setting with the best mean MiAP is refitted on all "
        "seen classes and tested once. Grids are searched in stages, each from the choice of the one before."
        if result.experiment.searched
        else "Parameters are those that the methods come with: nothing was searched."
    )
    return (
        f"Seen classes: {', '.join(split.seen_names)}. Unseen: {', '.join(split.unseen_names)}. Training images "
        f"have a seen label. Zero-shot: test images with an unseen label, ranking the unseen ones. Generalized: "
        f"all test images, ranking all labels. The top 3 labels of an image are predicted; MiAP ranks tied "
        f"labels worst. "
        f"{searched} The same fit is tested on both protocols."
    )


def checks(result: Reproduction) -> list[str]:
    """What was checked in the run."""
    errors = np.array([outcome.result.identity_error for outcome in result.experiment.outcomes])
    identity = (
        "Identity Hamming x L = (k + a)(1 - F1): not checked, some annotations are unknown."
        if np.isnan(errors).all()
        else f"Identity Hamming x L = (k + a)(1 - F1): holds in all {2 * errors.size} rows, largest error "
        f"{np.nanmax(errors):.1e}."
    )
    blind = (
        f"Blindness: searches and fits are given the annotations of the seen labels alone; shuffling those of the "
        f"unseen ones changes no bit of what they are given, in every split ({len(result.blind)})."
    )
    return [identity, blind]


def _subtitle(result: Reproduction) -> str:
    data = result.loaded.data
    n_train, n_test = int(data.is_train.sum()), int((~data.is_train).sum())
    n = len(result.experiment.random_splits)
    return (
        f"{n_train:,} training and {n_test:,} test images, {len(data.labels)} labels, "
        f"{counted(len(result.experiment.methods), 'method')}, the main split of the classes"
        + (f" and {counted(n, 'random one')}." if n else ".")
    )


def _facts(result: Reproduction) -> list[tuple[str, str]]:
    facts = []
    for method in ("TAEP", "TAEP-C"):
        if result.experiment.of(method):
            miap = result.on_main_split(method, "zero-shot").miap
            paper = result.printed("zero-shot", method)
            beside = "" if paper is None else f"; the paper prints {100 * paper.miap:.2f}"
            facts.append((f"{100 * miap:.2f}", f"zero-shot MiAP of {method}, %{beside}"))
    for track, title in tables.TRACKS.items():
        methods = result.methods(track)
        if methods:
            best = max(methods, key=lambda name: result.on_main_split(name, "zero-shot").miap)
            miap = result.on_main_split(best, "zero-shot").miap
            facts.append((f"{100 * miap:.2f}", f"best of the {title}: {best}"))
    return facts


def _add(report: Report, *many: Table) -> None:
    for table in many:
        report.table(table)


def _draw(report: Report, figures: Mapping[str, Drawn], name: str) -> None:
    if name in figures:
        report.figure(*figures[name])


def _picture(figures: Mapping[str, Drawn], name: str) -> list[str]:
    return [f"![{figures[name].description}]({name}.svg)", figures[name].caption] if name in figures else []


def _markdown(table: Table) -> str:
    def line(cells: tuple[str, ...]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    rules = tuple("---:" if table.is_numeric(i) else "---" for i in range(len(table.columns)))
    rows = []
    for i, row in enumerate(table.rows):
        texts = (cell if isinstance(cell, str) else " ".join(mark.text for mark in cell) for cell in row)
        rows.append(line(tuple(f"**{t}**" if (i, j) in table.strong else t for j, t in enumerate(texts))))
    note = f"\n\n{table.note}" if table.note else ""
    strong = f" Bold: {table.strong_means}." if table.strong_means else ""
    return "\n".join([f"**{table.caption}**\n", line(table.columns), line(rules), *rows]) + note + strong


def _joined(parts: list[str]) -> str:
    """Blocks with a blank line between, but none within a list."""
    text = ""
    for before, part in zip(["", *parts], parts, strict=False):
        text += (
            "" if not before else "\n" if before.startswith("- ") and part.startswith("- ") else "\n\n"
        ) + part
    return text + "\n"
