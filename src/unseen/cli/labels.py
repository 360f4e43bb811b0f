"""`unseen labels`: labels, before any training."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from unseen.cli.terminal import check_output, one_line_errors, open_console, print_table, show_if_slow

if TYPE_CHECKING:
    from unseen.labels.space import LabelSpace
    from unseen.templates.report import Report

labels_app = typer.Typer(no_args_is_help=True, help="Look at labels before any training.")

_Seen = Annotated[str, typer.Option("--seen", help="Annotated labels: names with commas, or a file of names.")]
_Unseen = Annotated[str, typer.Option("--unseen", help="Labels nobody annotated: names, or a file of names.")]
_Vectors = Annotated[
    str,
    typer.Option("--vectors", help='Source: use, glove, minilm, "use:a photo of a {}", glove-6b-300d, a file.'),
]
_Missing = Annotated[
    str,
    typer.Option("--missing", help="Names that the vectors do not know: error, mean (of common words) or skip."),
]
_Senses = Annotated[list[str], typer.Option("--sense", help="WordNet sense of a label: plant=plant.n.02.")]
_Sources = Annotated[
    list[str],
    typer.Option("--source", help="wordnet, a CSV of hit counts or a file of tag sets; weighted: wordnet=2."),
]
_WORDNET: list[str] = ["wordnet"]
_NONE: list[str] = []
_Output = Annotated[
    Path | None, typer.Option("--output", readable=False, help="HTML file for a page with figures.")
]


@labels_app.command("show")
def labels_show(
    seen: _Seen,
    unseen: _Unseen = "",
    vectors: _Vectors = "use",
    missing: _Missing = "error",
    output: _Output = None,
) -> None:
    """Show what stands for each label and which labels are near each other; --output draws the label map."""
    with one_line_errors("labels show"):
        known, others = _names(seen, unseen, output)
        from unseen.labels import pages as pages

        labels = _look_up([*known, *others], vectors, missing)
        known, others = _kept(known, labels), _kept(others, labels)
        print_table(open_console(), pages.vectors_table(labels, len(known)))
        if output is not None:
            report = _labels_report(known, others)
            pages.add_vectors(report, labels, len(known))
            _save(report, output)


@labels_app.command("relations")
def labels_relations(
    seen: _Seen,
    unseen: _Unseen = "",
    source: _Sources = _WORDNET,
    sense: _Senses = _NONE,
    output: _Output = None,
) -> None:
    """Show how labels are related by WordNet or by hit counts; --output draws the matrix."""
    with one_line_errors("labels relations"):
        known, others = _names(seen, unseen, output)
        from unseen.labels import pages as pages
        from unseen.labels.relations import relate

        names = (*known, *others)
        relations = relate(names, source, senses=_senses(sense))
        print_table(open_console(), pages.relations_table(relations, names, len(known)))
        if output is not None:
            report = _labels_report(known, others)
            pages.add_relations(report, relations, names, len(known))
            _save(report, output)


@labels_app.command("diagnose")
def labels_diagnose(
    seen: _Seen,
    unseen: _Unseen,
    vectors: _Vectors = "use",
    missing: _Missing = "error",
    source: _Sources = _NONE,
    sense: _Senses = _NONE,
    output: _Output = None,
) -> None:
    """Tell which unseen labels have seen ones to learn from, and which are orphans; --output writes it all."""
    with one_line_errors("labels diagnose"):
        known, others = _names(seen, unseen, output)
        from unseen.labels import pages as pages
        from unseen.labels.diagnosis import diagnose
        from unseen.labels.relations import relate

        labels = _look_up([*known, *others], vectors, missing)
        known, others = _kept(known, labels), _kept(others, labels)
        diagnosis = diagnose(labels.select(known), labels.select(others))
        relations = relate(labels.names, source, senses=_senses(sense)) if source else None
        print_table(open_console(), pages.diagnosis_table(diagnosis))
        if output is not None:
            report = _labels_report(known, others)
            pages.add_diagnosis(report, diagnosis)
            pages.add_vectors(report, labels, len(known))
            if relations is not None:
                pages.add_relations(report, relations, labels.names, len(known))
            _save(report, output)


def _names(seen: str, unseen: str, output: Path | None) -> tuple[list[str], list[str]]:
    """Read both lists of names; an output that cannot be written is refused before the work."""
    if output is not None:
        check_output(output)
        from unseen.evaluation.plots import require_matplotlib

        require_matplotlib()
    from unseen.labels.pages import read_names

    return read_names(seen, "--seen"), read_names(unseen, "--unseen") if unseen else []


def _kept(names: list[str], labels: LabelSpace) -> list[str]:
    """Names that have a vector: all of them, unless unknown ones are skipped."""
    kept = [name for name in names if name in labels]
    if names and not kept:
        raise ValueError(f"--missing: skipping leaves none of {', '.join(names)}. Choose other vectors.")
    return kept


def _senses(given: list[str]) -> dict[str, str]:
    """Read options of the form label=sense."""
    pairs = [text.rpartition("=") for text in given]
    if any(not name.strip() or not sense.strip() for name, _, sense in pairs):
        raise ValueError(f"--sense: {', '.join(given)} was given. Write a label and its sense: plant=plant.n.02.")
    return {name.strip(): sense.strip() for name, _, sense in pairs}


def _look_up(names: list[str], source: str, missing: str) -> LabelSpace:
    from unseen.labels.space import LabelSpace

    with show_if_slow(open_console(), f"getting the vectors {source!r}, once"):
        return LabelSpace(names, source, missing)


def _labels_report(seen: list[str], unseen: list[str]) -> Report:
    from unseen.templates.report import Report

    return Report("Labels, before any training", f"{len(seen)} seen and {len(unseen)} unseen labels")


def _save(report: Report, output: Path) -> None:
    open_console().print(f"[bold]Page[/]   {escape(str(report.save(output)))}", soft_wrap=True)
