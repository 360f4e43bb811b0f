"""`unseen labels`: inspect labels before training."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from unseen.cli.terminal import check_output, one_line_errors, print_table, write_page
from unseen.templates import Mark, Table

if TYPE_CHECKING:
    from unseen.labels.diagnosis import Diagnosis
    from unseen.labels.relations import Relations
    from unseen.labels.space import LabelSpace


def labels(
    seen: Annotated[list[str], Option(help="Annotated labels: comma-separated words, or a file; repeatable.")],
    unseen: Annotated[list[str], Option(help="Labels without annotations, given in the same way.")] = [],
    vectors: Annotated[str, Option(help='use, glove, "use:a photo of a {}", a file of vectors, or none.')] = "use",
    missing: Annotated[str, Option(help="Names without a vector: error, mean (of all) or skip.")] = "error",
    source: Annotated[
        list[str], Option(help="Relations: wordnet, a CSV of hit counts or a file of tag sets; repeatable.")
    ] = [],
    sense: Annotated[list[str], Option(help="WordNet sense of a label: plant=plant.n.02.")] = [],
    output: Annotated[Path | None, Option("--output", "-o", help="HTML page with tables and figures.")] = None,
) -> None:
    """Inspect labels before training: vectors, relations, and which unseen labels can learn from seen ones."""
    with one_line_errors("labels"):
        check_output(output)
        from unseen.labels.diagnosis import comparable, diagnose
        from unseen.labels.names import merge_names
        from unseen.labels.relations import relate
        from unseen.labels.space import LabelSpace

        n_seen = len(merge_names(words := read_words(seen, "--seen"))[0])
        names, notes = merge_names([*words, *(read_words(unseen, "--unseen") if unseen else [])])
        for note in notes:
            warnings.warn(note, stacklevel=1)
        tables, space, related = [], None, None
        if vectors != "none":
            space = LabelSpace(names, vectors, missing=missing)
            n_seen, names = sum(name in space for name in names[:n_seen]), space.names
            if not n_seen or (unseen and n_seen == len(names)):
                raise ValueError("--missing: skipping leaves no seen or no unseen label. Choose other vectors.")
            if n_seen < len(names):
                tables.append(_transfer(diagnose(space.select(names[:n_seen]), space.select(names[n_seen:]))))
            tables.append(_vectors(space, n_seen))
        if source:
            related = relate(names, source, senses=_senses(sense))
            tables.append(_relations(related, n_seen))
        for table in tables:
            print_table(table)
        if output is not None:
            from unseen.evaluation import plots

            figures = []
            if space is not None:
                is_seen, caption = [i < n_seen for i in range(len(names))], "The first two principal components."
                drawn = plots.label_map({"label vectors": comparable(space)}, names, is_seen)
                figures.append((plots.to_svg(drawn, prefix="map-"), caption))
            if related is not None:
                drawn = plots.relation_map(related.matrix, names, n_seen)
                figures.append((plots.to_svg(drawn, prefix="matrix-"), "Relations, seen labels first."))
            subtitle = f"{n_seen} seen and {len(names) - n_seen} unseen labels"
            write_page(output, "labels.html.j2", subtitle=subtitle, tables=tables, figures=figures)


def read_words(given: Iterable[str], option: str) -> list[str]:
    """Return the words of an option: each value is a file with one word per line, or comma-separated words.

    Semicolons separate words too; words containing a separator need double quotes; ``#`` begins a comment in
    a file.
    """
    words: list[str] = []
    for text in given:
        if _is_file(text):
            try:
                lines = Path(text).read_text(encoding="utf-8-sig").splitlines()
            except UnicodeDecodeError as error:
                raise ValueError(f"{option}: {text!r} is not UTF-8 text ({error}).") from None
            words += [line for line in lines if not line.lstrip().startswith("#")]
        elif not re.search("[,;]", text) and (text.endswith((".txt", ".csv")) or "/" in text):
            raise ValueError(f"{option}: there is no file {text!r}. Pass a file, or comma-separated words.")
        else:
            words += [word.strip().strip('"') for word in re.findall(r'\s*"[^"]*"\s*|[^,;]+', text)]
    words = [" ".join(word.split()) for word in words if word.strip()]
    if not words:
        raise ValueError(f"{option}: no word was given. Write for example {option} 'dog, dining table'.")
    return words


def read_vocabulary(given: Sequence[str]) -> Any:
    """Return the words of ``--words`` for a query: a file is a vocabulary; "everyday" without any."""
    from unseen.labels.names import Vocabulary

    if len(given) == 1 and _is_file(given[0]):
        return Vocabulary.read(given[0])
    return read_words(given, "--words") if given else "everyday"


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # a long list of words is not a file name
        return False


def _senses(given: list[str]) -> dict[str, str]:
    pairs = [text.rpartition("=") for text in given]
    if any(not name.strip() or not sense.strip() for name, _, sense in pairs):
        raise ValueError(f"--sense: {', '.join(given)} was given. Write a label and its sense: plant=plant.n.02.")
    return {name.strip(): sense.strip() for name, _, sense in pairs}


def _transfer(diagnosis: Diagnosis) -> Table:
    """Return the seen labels that each unseen one can learn from, and the verdict."""
    rows = []
    for label in diagnosis.labels:
        verdict = Mark("orphan", "accent") if label.orphan else Mark("supported", "good")
        rows.append((label.name, ", ".join(f"{name} {cosine:.2f}" for name, cosine in label.neighbours), verdict))
    note = f"Orphan: its nearest seen label is no nearer than chance ({diagnosis.chance:.2f})."
    if diagnosis.is_rough:
        note += " With this few labels the chance level is only a rough estimate."
    columns = ("unseen label", "nearest seen labels, cosine", "verdict")
    return Table("What each unseen label can learn from", columns, rows, note)


def _vectors(labels: LabelSpace, n_seen: int) -> Table:
    """Return how each label was looked up, and its nearest other label."""
    from unseen.labels.diagnosis import comparable

    rows, unit = [], comparable(labels)
    for i, (name, found) in enumerate(zip(labels.names, labels.resolved, strict=True)):
        cosines = (unit @ unit[i]).tolist()
        near = sorted((j for j in range(len(unit)) if j != i), key=lambda j: -cosines[j])[:1]
        nearest = "".join(f"{labels.names[j]} {cosines[j]:.2f}" for j in near)
        rows.append((name, _kind(i < n_seen), ", ".join(found.words), found.rule, nearest))
    title = f"Vectors of {labels.vectors.shape[1]} dimensions from {labels.source}"
    return Table(title, ("label", "", "looked up as", "rule", "nearest label, cosine"), rows)


def _relations(related: Relations, n_seen: int, most: int = 3) -> Table:
    rows = []
    for i, (name, row) in enumerate(zip(related.names, related.matrix.tolist(), strict=True)):
        order = sorted((j for j in range(len(row)) if j != i and row[j] > 0), key=lambda j: -row[j])
        shown = ", ".join(f"{related.names[j]} {row[j]:.3f}" for j in order[:most])
        rows.append((name, _kind(i < n_seen), shown or "none"))
    return Table("Strongest relations", ("label", "", "related to"), rows, f"From {'; '.join(related.sources)}.")


def _kind(is_seen: bool) -> Mark:
    return Mark("seen", "pill") if is_seen else Mark("unseen", "accent")
