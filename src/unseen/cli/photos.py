"""`unseen tag`, `explain`, `features`, `fit` and `evaluate`: photos in, tags out."""

from __future__ import annotations

import csv
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.cells import cell_len
from rich.text import Text
from typer import Argument, Option

from unseen.cli.labels import read_vocabulary, read_words
from unseen.cli.library import Library, Model, Words, tags_in
from unseen.cli.terminal import (
    check_output,
    json_line,
    one_line_errors,
    open_console,
    print_table,
    printable,
    say,
    show_progress,
    write_page,
)
from unseen.files import csv_cell
from unseen.templates import Table

if TYPE_CHECKING:
    from rich.console import Console

    from unseen.base import Tag
    from unseen.explanation import Explanation
    from unseen.labels.knowable import Doubt
    from unseen.photos.tagger import PhotoTagger, PhotoTags
    from unseen.photos.training import Trained

_Backbone = Annotated[
    str | None, Option("--backbone", help="Image-text model to tag with: siglip2, ...; or the file of a --model.")
]
_FEATURES = Argument(help="Folder of unseen features, or an .npz file with one row per image.")
_ANNOTATIONS = Option("--annotations", "-a", help="CSV, VOC devkit, COCO file or NUS-WIDE folder.")
_Split = Annotated[str | None, Option(help="Part of the annotations, or all; else train(val) or test, as needed.")]
_Page = Annotated[Path | None, Option("--output", "-o", help="HTML page to write.")]
_MOST_LISTED = 20
_TOP = 5  # tags per photo of a model without probabilities


def _scratch(text: str, *names: str, **options: Any) -> Any:
    return Option(*names, help=text, rich_help_panel="Only from scratch", **options)


def _own(text: str, name: str) -> Any:
    return Option(name, help=text, rich_help_panel="Only with a library (-L)")


def tag(
    photos: Annotated[
        list[str], Argument(help="Image files, folders, .txt or .csv lists; with -L folders of the library.")
    ] = [],
    words: Words = [],
    model: Model = None,
    backbone: _Backbone = None,
    library: Annotated[
        Path | None, Option("--library", "-L", help="Tag the photos of a library, without reading them.")
    ] = None,
    min_p: Annotated[float | None, Option(min=0, max=1, help="Least probability of a tag; else 0.3.")] = None,
    top: Annotated[int | None, Option(min=1, help="Tags per photo at most.")] = None,
    every: Annotated[bool, Option("--all", help="Show every word, sorted.")] = False,
    as_json: Annotated[bool, Option("--json", help="Print one JSON object per line, one per photo.")] = False,
    as_csv: Annotated[bool, Option("--csv", help="Print a CSV table, one row per tag.")] = False,
    xmp: Annotated[bool, Option("--xmp", help="With -L: write tags to sidecars; see unseen tags.")] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="With --xmp: show what would be written.")] = False,
    output: _Page = None,
) -> None:
    """Tag photos with any words, or everyday words: tags that are sure (80 % or more), then those that may be."""
    with one_line_errors("tag"):
        for one, other, chosen in (("--json", "--csv", as_json and as_csv), ("--all", "--min-p", every and min_p)):
            if chosen:
                raise ValueError(f"{one} and {other} were both given. Choose one.")
        if library is None and (xmp or not photos):
            raise ValueError("PHOTOS: pass some, or the photos of a library with -L, which --xmp needs.")
        check_output(output)
        from unseen.images.reading import UnreadableImage
        from unseen.photos.library import PhotoLibrary
        from unseen.photos.tagger import MAYBE, SURE, card_rows, thumbnail
        from unseen.templates import data_uri

        tagger = load_tagger(model, backbone)
        query = tagger.query(read_vocabulary(words))
        if xmp:
            from unseen.cli.tags import write_library

            least = SURE if min_p is None else min_p
            raise typer.Exit(write_library(PhotoLibrary.open(library), query, least, photos, dry_run=dry_run))
        if min_p is None:
            min_p = MAYBE if query.gives_p and not every else 0.0
        elif not query.gives_p:
            raise ValueError("--min-p: this model gives scores, not probabilities. Leave it out.")
        most = top or (None if every or query.gives_p else _TOP)
        picture: Callable[[str], str] = thumbnail
        if library is None:
            tagged = tagger.tag(photos, query, most, min_p=min_p)
        else:
            opened = PhotoLibrary.open(library)
            tagged = tags_in(opened, query, most, min_p, photos)
            if output is not None:
                known = {photo.path: photo for photo in opened.photos()}
                picture = lambda path: data_uri(opened.thumbnail(known[path]) or b"")  # noqa: E731
        for doubt in query.doubts.values():
            typer.echo(f"unseen tag: {printable(doubt.sentence)}", err=True)
        show = _print_json if as_json else _csv_printer() if as_csv else _text_printer()
        n_problems, cards = 0, []
        for photo in tagged:
            if photo.problem is None and output is not None:
                path = PurePath(printable(photo.path))
                rows = card_rows(photo.tags or filter(None, [photo.guess]), query.doubts)
                try:
                    cards.append((picture(photo.path), path.name, rows, str(path.parent)))
                except UnreadableImage as error:  # it vanished since
                    photo = photo._replace(problem=error.reason)
            if photo.problem is not None:
                n_problems += 1
                typer.echo(printable(f"unseen tag: {photo.path} cannot be read: {photo.problem}."), err=True)
            if photo.problem is None or as_json:
                show(photo, query.doubts)
        if not (as_json or as_csv):
            if not query.gives_p:
                say("* above the photo's own threshold, which is at 0. This model gives no probabilities.", "dim")
            if not tagger.tagger.n_seen_:
                say(f"By {tagger.backbone.name} alone: not calibrated on annotated photos.", style="dim")
        if output is not None:
            write_page(output, "tags.html.j2", photos=cards, sure=SURE if query.gives_p else None)
    if n_problems:
        raise typer.Exit(2)


def explain(
    photo: Annotated[str, Argument(help="An image file.")],
    words: Words,
    model: Model = None,
    backbone: _Backbone = None,
    by: Annotated[str, Option(help="Split what was learned over annotated labels, or images.")] = "labels",
    top: Annotated[int, Option(min=1, help="Parts to show.")] = 10,
    output: _Page = None,
) -> None:
    """Explain a photo's score for a word: exact parts from labels, classes of the backbone or images."""
    with one_line_errors("explain"):
        check_output(output)
        from unseen.base import Tag
        from unseen.photos.tagger import card_rows, thumbnail

        tagger = load_tagger(model, backbone)
        asked = tagger.label_vectors(read_words(words, "--words"))  # spellings of one word are merged
        found = [tagger.explain(photo, word, by) for word in asked]
        tables = [_parts_table(why, top) for why in found]
        for why, table in zip(found, tables, strict=True):
            say(why.sentence)
            print_table(table)
        if output is not None:
            from unseen.evaluation import plots

            figures = [plots.to_svg(plots.contributions(why, top), prefix=f"{i}-") for i, why in enumerate(found)]
            card = thumbnail(photo), Path(photo).name, card_rows(Tag(why.label, why.score, why.p) for why in found)
            parts = [(why.sentence, *part) for why, *part in zip(found, figures, tables, strict=True)]
            write_page(output, "explanation.html.j2", card=card, parts=parts)


def features(
    sources: Annotated[list[str], Argument(help="Image files, folders of them, .txt or .csv lists of paths.")],
    output: Annotated[Path, Option("--output", "-o", help="Folder for the features.")],
    backbone: Annotated[str, Option(help="See unseen backbones; or an .onnx file.")] = "efficientnet-lite0",
    batch: Annotated[int, Option(min=1, help="Images per call of the network.")] = 1,
    jobs: Annotated[int | None, Option(min=1, help="Threads; by default one per core.")] = None,
    strict: Annotated[bool, Option("--strict", help="Fail if a file cannot be read.")] = False,
    only: Annotated[bool, Option("--only", help="Drop images from the folder that are not given here.")] = False,
) -> None:
    """Compute the features of images; run it again to resume, or to add new images."""
    with one_line_errors("features", "finished work was kept, run it again to resume"):
        from unseen.images.features import extract_features
        from unseen.validation import counted

        started = time.monotonic()
        with show_progress() as reporter:
            step = reporter.stage(f"computing features with {backbone}")
            made = extract_features(
                sources, output, backbone, batch=batch, jobs=jobs, strict=strict, only=only, progress=step
            )
        what = f"{counted(made.X.shape[1], 'feature')} of {counted(len(made), 'image')}"
        say(f"{output}: {what}, {time.monotonic() - started:.1f} s.")
        if made.problems:
            say(f"{counted(len(made.problems), 'file')} could not be read:")
        for path, reason in made.problems[:_MOST_LISTED]:
            say(f"  {path}: {reason}")
        if len(made.problems) > _MOST_LISTED:
            say(f"  and {len(made.problems) - _MOST_LISTED:,} more")


def fit(
    output: Annotated[Path, Option("--output", "-o", help="Model file to write (.safetensors).")],
    features: Annotated[str | None, _FEATURES] = None,
    annotations: Annotated[str | None, _ANNOTATIONS] = None,
    library: Library = None,
    keywords: Annotated[bool, _own("Learn the keywords of photos and sidecars too.", "--keywords")] = False,
    complete: Annotated[bool, _own("What is not a keyword of a photo is not on it.", "--complete")] = False,
    split: _Split = None,
    backbone: Annotated[str | None, Option(help="Backbone of the features, if not in their file.")] = None,
    from_scratch: Annotated[bool, Option("--from-scratch", help="Do not start from the packaged model.")] = False,
    vectors: Annotated[
        str | None, _scratch('use, glove, "use:a photo of a {}", or a file of word vectors; else use.')
    ] = None,
    unseen: Annotated[list[str], _scratch("Labels to transfer to, if known; like --words.")] = [],
    source: Annotated[list[str], _scratch("Relations: wordnet, a CSV of hit counts, tag sets.")] = [],
    classes: Annotated[bool, _scratch("Add evidence from the backbone's own classes, if it has any.")] = True,
    search: Annotated[bool, _scratch("Choose beta (and gamma with --unseen): minutes.", "--search")] = False,
    rank: Annotated[int | None, _scratch("Rank of the projection; else the number of labels.", min=1)] = None,
    beta: Annotated[float | None, _scratch("Weight of the squared norm; else 0.5.")] = None,
    gamma: Annotated[float | None, _scratch("Weight of the transfer to --unseen; else 0.03.")] = None,
    lam: Annotated[float | None, _scratch("Weight of the relations of --source; else 0.03.")] = None,
) -> None:
    """Learn annotated labels, or answers of unseen review, on top of the packaged model; any words can be used."""
    with one_line_errors("fit"):
        check_output(output)
        from unseen.photos.training import annotated_photos, train

        chosen: Any = features, annotations
        if any(chosen) if library else not all(chosen):
            raise ValueError("FEATURES, --annotations, --library: pass features and annotations, or a library.")
        if (keywords or complete) and library is None:
            raise ValueError("--keywords, --complete: these are for a library. Pass one with -L.")
        given: dict[str, Any] = {"vectors": vectors, "rank": rank, "beta": beta, "gamma": gamma, "lam": lam}
        with show_progress() as reporter:
            if library is not None:
                from unseen.photos.library import PhotoLibrary

                step = reporter.stage("reading keywords" if keywords else "reading answers")
                opened = PhotoLibrary.open(library)
                chosen = annotated_photos(opened, keywords=keywords, complete=complete, progress=step)
            step = reporter.stage("choosing parameters on held-out labels, then fitting" if search else "fitting")
            trained = train(
                *chosen, base=None if from_scratch else "packaged",
                unseen=read_words(unseen, "--unseen") if unseen else (), relations=source, split=split,
                classes=classes, backbone=backbone, search=search, progress=step,
                **{name: value for name, value in given.items() if value is not None},
            )  # fmt: skip
        trained.model.save(output)
        _print_fit(trained, from_scratch)
        say(f"Model: {output}", style="bold")
        say(f"Next: unseen tag PHOTOS --model {output}")


def evaluate(
    features: Annotated[str, _FEATURES],
    annotations: Annotated[str, _ANNOTATIONS],
    model: Model = None,
    backbone: _Backbone = None,
    split: _Split = None,
    output: _Page = None,
) -> None:
    """Compare tags with annotations; labels that the model was fitted on are seen, all others unseen."""
    with one_line_errors("evaluate"):
        check_output(output)
        from unseen.photos.evaluation import FEW, evaluate_photos

        found = evaluate_photos(load_tagger(model, backbone), features, annotations, split)
        tables = found.tables()
        for table in tables:
            print_table(table)
        if not found.tags:
            say("This model gives no probabilities: no tag is sure.", "dim")
        if output is not None:
            diagram = ""
            if found.reliability:
                from unseen.evaluation import plots

                groups = {f"{name} labels": group for name, group in found.reliability.items()}
                diagram = plots.to_svg(plots.reliability_diagram(groups, FEW))
            write_page(output, "evaluation.html.j2", subtitle=str(features), tables=tables, diagram=diagram)


def load_tagger(model: str | None, backbone: str | None) -> PhotoTagger:
    """Tagger of ``--model`` or ``--backbone``, or the packaged one."""
    from unseen.images.backbones import DEFAULT
    from unseen.photos.tagger import PhotoTagger

    if model is not None or backbone in (None, DEFAULT):
        return PhotoTagger.load(model, backbone)
    return PhotoTagger.from_pair(str(backbone))


def _text_printer() -> Callable[[PhotoTags, Mapping[str, Doubt]], None]:
    """Return a function that prints a photo: its path, then its sure tags, those that may be, and the others."""
    from unseen.photos.tagger import MAYBE, SURE

    console = open_console()
    groups = (("sure", "green", SURE, 2.0), ("maybe", "", MAYBE, SURE), ("no", "dim", -1.0, MAYBE))

    def show(photo: PhotoTags, doubts: Mapping[str, Doubt]) -> None:
        say(photo.path, "bold", console)
        if photo.guess is not None:
            say(f"  no tag; the best guess is {_tag_text(photo.guess, doubts)}", "dim", console)
        for word, style, low, high in groups:
            found = [_tag_text(one, doubts) for one in photo.tags if one.p is not None and low <= one.p < high]
            if found:
                _print_list(word, found, style, console)
        for one in photo.tags if photo.tags and photo.tags[0].p is None else ():
            mark, style = ("*", "green") if one.score > 0 else (" ", "dim")
            width = max(len(printable(other.name)) for other in photo.tags)
            say(f"  {mark} {_tag_text(one, doubts, width + 1)}", style, console)

    return show


def _print_list(word: str, texts: Sequence[str], style: str, console: Console) -> None:
    """Print texts after a word, broken between texts where a terminal is too narrow."""
    lines, width = [""], console.width - 9 if console.is_terminal else sys.maxsize
    for i, text in enumerate(texts):
        text += "," if i + 1 < len(texts) else ""
        if lines[-1] and cell_len(lines[-1]) + 1 + cell_len(text) > width:
            lines.append("")
        lines[-1] += f" {text}" if lines[-1] else text
    for line in lines:
        console.print(Text.assemble((f"  {word:<7}", "dim"), (line, style)), soft_wrap=True)
        word = ""


def _tag_text(one: Tag, doubts: Mapping[str, Doubt], width: int = 0) -> str:
    """A tag as "name 45 % (colour)", with its score if there is no probability."""
    value = f"{one.score:+.2f}" if one.p is None else f"{100 * one.p:.0f} %"
    doubt = f" ({doubts[one.name].kind})" if one.name in doubts else ""
    return f"{printable(one.name):<{width}} {value}{doubt}"


def _print_json(photo: PhotoTags, doubts: Mapping[str, Doubt]) -> None:
    tags = []
    for one in photo.tags:
        p = None if one.p is None else round(one.p, 4)
        doubt = {"doubt": doubts[one.name].kind} if one.name in doubts else {}
        tags.append({"name": one.name, "p": p, "score": round(one.score, 6), **doubt})
    found = {"tags": tags} if photo.problem is None else {"problem": photo.problem}
    typer.echo(json_line({"path": photo.path, **found}))


def _csv_printer() -> Callable[[PhotoTags, Mapping[str, Doubt]], None]:
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(("path", "rank", "name", "p", "score"))

    def show(photo: PhotoTags, doubts: Mapping[str, Doubt]) -> None:
        for rank, one in enumerate(photo.tags, start=1):
            path, name = (csv_cell(printable(text)) for text in (photo.path, one.name))
            table.writerow((path, rank, name, "" if one.p is None else f"{one.p:.4f}", f"{one.score:.6f}"))
        sys.stdout.flush()

    return show


def _parts_table(why: Explanation, top: int) -> Table:
    rows: list[tuple[str, ...]] = [(part.name, part.kind, f"{part.value:+.3f}") for part in why.parts[:top]]
    if why.parts[top:]:
        rest = sum(part.value for part in why.parts[top:])
        rows.append((f"{len(why.parts) - top:,} others", "", f"{rest:+.3f}"))
    rows += [("offset", "", f"{why.offset:+.3f}"), ("score", "", f"{why.score:+.3f}")]
    note = "Parts are annotated labels, classes of the backbone or training images."
    title = f"{why.label}: {why.score:+.2f}" + ("" if why.p is None else f", {100 * why.p:.0f} % likely")
    return Table(title, ("part", "kind", "contribution"), rows, note)


def _print_fit(trained: Trained, from_scratch: bool) -> None:
    from unseen.ensembles.adapted import STRENGTHS, Adapted
    from unseen.photos.training import sure_tags, verdict
    from unseen.validation import counted

    tagger, data, found = trained.model.tagger, trained.data, trained.search
    learned: Any = getattr(tagger, "first_", tagger)
    photos = counted(len(data.rows), "image")
    if isinstance(tagger, Adapted):
        say(f"Learned {counted(tagger.n_own_, 'label')} from {photos}, on top of the packaged model.")
    else:
        gap = f"certified gap to the optimum: {100 * learned.relative_gap_:.2f} %"
        say(f"Learned {counted(tagger.n_seen_, 'label')} from {photos}; {gap}.")
        if not from_scratch:
            say(f"From scratch: there is no packaged model for {trained.model.backbone.name}.")
    n_other = len(data.features) - len(data.rows)
    if n_other or data.n_unmatched:
        unmatched = f"{counted(data.n_unmatched, 'annotated image')} without features"
        say(f"Not used: {counted(n_other, 'image')} without annotations in this part, {unmatched}.")
    if found is not None:
        chosen = ", ".join(f"{name.split('__')[-1]} = {value}" for name, value in found.chosen.params.items())
        miap = f"{100 * found.chosen.mean:.1f} ± {100 * found.chosen.std_error:.1f} %"
        say(f"Chosen on held-out labels: {chosen} (MiAP there: {miap}).")
    if isinstance(tagger, Adapted):
        say(f"Strength: {tagger.strength_:g} of {STRENGTHS[0]:g} to {STRENGTHS[-1]:g}, chosen on held-out photos.")
        print_table(sure_tags(tagger))
        say(verdict(tagger))
