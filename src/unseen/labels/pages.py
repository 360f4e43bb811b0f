"""What the `unseen labels` commands show: tables for the terminal and for a page, from the same numbers."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from unseen.evaluation.plots import label_map, relation_map
from unseen.labels.diagnosis import FEW, Diagnosis, comparable
from unseen.labels.relations import Relations
from unseen.labels.space import LabelSpace
from unseen.templates.report import Cell, Mark, Report, Table

SEEN, UNSEEN = (Mark("seen"),), (Mark("unseen", "accent"),)


def read_names(given: str, option: str) -> list[str]:
    """Names of labels: the lines of a file, or a list with commas.

    Parameters
    ----------
    given : str
        Path of a text file with a name a line (empty lines and lines that begin with ``#`` are passed over), or
        names separated by commas; one that has a comma itself in quotation marks.
    option : str
        What the user typed it after, for error messages.

    Returns
    -------
    list of str
    """
    if _is_file(given):
        try:
            lines = Path(given).read_text(encoding="utf-8-sig").splitlines()
        except UnicodeDecodeError as error:
            raise ValueError(f"{option}: {given!r} is no text in UTF-8 ({error}). Pass a name a line.") from None
        names = [line.strip() for line in lines if not line.lstrip().startswith("#")]
    elif "," not in given and (given.endswith((".txt", ".csv")) or "/" in given):
        raise ValueError(f"{option}: there is no file {given!r}. Pass a file of names, or names with commas.")
    else:
        names = [name.strip() for name in next(csv.reader([given.replace("\n", " ")], skipinitialspace=True), [])]
    names = [name for name in names if name]
    if not names:
        raise ValueError(f"{option}: {given!r} holds no name. Write for example {option} 'dog, dining table'.")
    return names


def _is_file(given: str) -> bool:
    try:
        return Path(given).is_file()
    except OSError:  # a long list of names is no file name
        return False


def vectors_table(labels: LabelSpace, n_seen: int) -> Table:
    """What stands for each label, and which other label is nearest.

    Parameters
    ----------
    labels : LabelSpace
        The seen labels followed by the unseen ones.
    n_seen : int
        How many are seen.

    Returns
    -------
    Table
    """
    unit = comparable(labels)
    cosines = unit @ unit.T - 3.0 * np.eye(len(unit))
    rows: list[tuple[Cell, ...]] = []
    for i, name in enumerate(labels.names):
        resolution = labels.resolved[i] if labels.resolved else None
        found = ("given", "") if resolution is None else (", ".join(resolution.words), resolution.rule)
        near = int(cosines[i].argmax())
        nearest = f"{labels.names[near]} {cosines[i, near]:.2f}" if len(unit) > 1 else ""
        rows.append((name, SEEN if i < n_seen else UNSEEN, *found, nearest))
    return Table(
        f"{len(labels)} labels with vectors of {labels.vectors.shape[1]} dimensions ({labels.source or 'given'})",
        ("label", "", "looked up as", "rule", "nearest label"),
        tuple(rows),
        note=f"Nearest: cosine of the {'centred ' if len(labels) >= FEW else ''}vectors.",
    )


def relations_table(relations: Relations, names: tuple[str, ...], n_seen: int, most: int = 3) -> Table:
    """Strongest relations of each label.

    Parameters
    ----------
    relations : Relations
        Over all labels.
    names : tuple of str
        The seen labels followed by the unseen ones.
    n_seen : int
        How many are seen.
    most : int, default=3
        Relations to list.

    Returns
    -------
    Table
    """
    R = relations.matrix.copy()
    np.fill_diagonal(R, -1.0)
    rows: list[tuple[Cell, ...]] = []
    for i, name in enumerate(names):
        strongest = [j for j in np.argsort(-R[i], kind="stable")[:most] if R[i, j] > 0.0]
        shown = ", ".join(f"{names[j]} {R[i, j]:.3f}" for j in strongest)
        rows.append((name, SEEN if i < n_seen else UNSEEN, shown or "none"))
    return Table(
        "Strongest relations",
        ("label", "", "related to"),
        tuple(rows),
        note=f"From {'; '.join(relations.sources)}.",
    )


def diagnosis_table(diagnosis: Diagnosis) -> Table:
    """Seen labels that each unseen one can learn from, and the verdict.

    Parameters
    ----------
    diagnosis : Diagnosis
        As made by `diagnose`.

    Returns
    -------
    Table
    """
    rows = tuple(
        (
            label.name,
            ", ".join(f"{name} {cosine:.2f}" for name, cosine in label.neighbours),
            (Mark("orphan", "accent") if label.orphan else Mark("supported", "good"),),
        )
        for label in diagnosis.labels
    )
    return Table(
        "What each unseen label can learn from",
        ("unseen label", "nearest seen labels", "verdict"),
        rows,
        note=f"Orphan: its nearest seen label is no nearer than chance ({diagnosis.chance:.2f}) would have it."
        + (f" With fewer than {FEW} labels the level of chance is a rough one." if diagnosis.is_rough else ""),
    )


def add_diagnosis(report: Report, diagnosis: Diagnosis) -> None:
    """Add a section on what the unseen labels can learn from.

    Parameters
    ----------
    report : Report
        The page.
    diagnosis : Diagnosis
        As made by `diagnose`.
    """
    orphans = ", ".join(diagnosis.orphans) or "none"
    report.section("Transfer diagnosis", f"Unseen labels without a seen label to learn from: {orphans}.")
    report.table(diagnosis_table(diagnosis))


def add_vectors(report: Report, labels: LabelSpace, n_seen: int) -> None:
    """Add a section with the label map and what stands for each label.

    Parameters
    ----------
    report : Report
        The page.
    labels : LabelSpace
        The seen labels followed by the unseen ones.
    n_seen : int
        How many are seen.
    """
    report.section("Label map", "Labels that lie close together teach each other.")
    report.figure(
        label_map({"label vectors": comparable(labels)}, labels.names, np.arange(len(labels)) < n_seen),
        "The first two principal components of the vectors, scaled to unit length.",
        "Map of all labels, seen and unseen.",
    )
    report.table(vectors_table(labels, n_seen))


def add_relations(report: Report, relations: Relations, names: tuple[str, ...], n_seen: int) -> None:
    """Add a section with the relation matrix.

    Parameters
    ----------
    report : Report
        The page.
    relations : Relations
        Over all labels.
    names : tuple of str
        The seen labels followed by the unseen ones.
    n_seen : int
        How many are seen.
    """
    report.section("Relations", f"From {'; '.join(relations.sources)}.")
    report.figure(
        relation_map(relations.matrix, names, n_seen),
        "Relations between labels, the seen ones first. The diagonal is left blank.",
        "Heat map of the relations between labels.",
    )
    report.table(relations_table(relations, names, n_seen))
