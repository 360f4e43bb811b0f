"""`unseen tag`, `explain`, `features`, `fit` and `evaluate`: photos in, tags out."""

from __future__ import annotations

import csv
import json
import sys
import time
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from unseen.cli.labels import read_words
from unseen.cli.terminal import (
    check_output,
    one_line_errors,
    open_console,
    print_table,
    printable,
    say,
    show_progress,
    write_page,
)
from unseen.templates import Table

if TYPE_CHECKING:
    from unseen.explanation import Explanation
    from unseen.photos.tagger import PhotoTagger, PhotoTags
    from unseen.photos.training import Trained

_Words = Annotated[list[str], Option("--words", "-w", help="Comma-separated words, or a file; repeatable.")]
_Model = Annotated[str | None, Option("--model", "-m", help="A model from unseen fit; else the packaged one.")]
_Backbone = Annotated[
    str | None, Option("--backbone", help="Tag by an image-text model alone: siglip2, ...; see unseen backbones.")
]
_Features = Annotated[str, Argument(help="Folder of unseen features, or an .npz file with one row per image.")]
_Annotations = Annotated[str, Option("--annotations", "-a", help="CSV, VOC devkit, COCO file or NUS-WIDE folder.")]
_Split = Annotated[str | None, Option(help="Part of the annotations, or all; else train(val) or test, as needed.")]
_Page = Annotated[Path | None, Option("--output", "-o", help="HTML page to write.")]
_NONE: list[str] = []
_MOST_LISTED = 20


def tag(
    photos: Annotated[list[str], Argument(help="Image files, folders of them, .txt or .csv lists.")],
    words: _Words = _NONE,
    model: _Model = None,
    backbone: _Backbone = None,
    top: Annotated[int, Option(min=1, help="Tags per photo.")] = 5,
    as_json: Annotated[bool, Option("--json", help="Print one JSON object per line, one per photo.")] = False,
    as_csv: Annotated[bool, Option("--csv", help="Print a CSV table, one row per tag.")] = False,
    output: _Page = None,
) -> None:
    """Tag photos with any words, or everyday words; tags above the photo's own threshold are marked."""
    with one_line_errors("tag"):
        if as_json and as_csv:
            raise ValueError("--json and --csv were both given. Choose one.")
        check_output(output)
        from unseen.photos.tagger import thumbnail

        asked = read_words(words, "--words") if words else "everyday"
        tagger = load_tagger(model, backbone)
        tagged = tagger.tag(photos, asked, top)
        show = _print_json if as_json else _print_csv if as_csv else _print_text
        if as_csv:
            typer.echo("path,rank,label,score,predicted")
        n_problems, cards = 0, []
        for photo in tagged:
            if photo.problem is not None:
                n_problems += 1
                typer.echo(f"unseen tag: {printable(photo.path)} cannot be read: {photo.problem}.", err=True)
            elif output is not None:
                path = PurePath(printable(photo.path))
                cards.append((thumbnail(photo.path), path.name, photo.tags, str(path.parent)))
            if photo.problem is None or as_json:
                show(photo)
        if not (as_json or as_csv):
            say("* above the photo's own threshold, which is at 0.", style="dim")
            if not tagger.tagger.n_seen_:
                say(f"By {tagger.backbone.name} alone: not calibrated on annotated photos.", style="dim")
        if output is not None:
            write_page(output, "tags.html.j2", photos=cards)
    if n_problems:
        raise typer.Exit(2)


def explain(
    photo: Annotated[str, Argument(help="An image file.")],
    words: _Words,
    model: _Model = None,
    backbone: _Backbone = None,
    by: Annotated[str, Option(help="Split what was learned over annotated labels, or images.")] = "labels",
    top: Annotated[int, Option(min=1, help="Parts to show.")] = 10,
    output: _Page = None,
) -> None:
    """Explain a photo's score for a word: exact parts from labels, classes of the backbone or images."""
    with one_line_errors("explain"):
        check_output(output)
        from unseen.photos.tagger import thumbnail

        tagger = load_tagger(model, backbone)
        asked = tagger.label_vectors(read_words(words, "--words"))  # spellings of one word are merged
        found = [tagger.explain(photo, word, by) for word in asked]
        tables = [_parts_table(why, top) for why in found]
        for table in tables:
            print_table(table)
        if output is not None:
            from unseen.evaluation import plots

            figures = [plots.to_svg(plots.contributions(why, top), prefix=f"{i}-") for i, why in enumerate(found)]
            card = (thumbnail(photo), Path(photo).name, [(why.label, why.score) for why in found])
            write_page(output, "explanation.html.j2", card=card, parts=list(zip(figures, tables, strict=True)))


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
    features: _Features,
    annotations: _Annotations,
    output: Annotated[Path, Option("--output", "-o", help="Model file to write (.safetensors).")],
    vectors: Annotated[str, Option(help='use, glove, "use:a photo of a {}", or a file of word vectors.')] = "use",
    unseen: Annotated[list[str], Option(help="Labels to transfer to, if known; like --words.")] = _NONE,
    split: _Split = None,
    source: Annotated[list[str], Option(help="Relations: wordnet, a CSV of hit counts, tag sets.")] = _NONE,
    classes: Annotated[bool, Option(help="Add evidence from the backbone's own classes, if it has any.")] = True,
    backbone: Annotated[str | None, Option(help="Backbone of the features, if not in their file.")] = None,
    search: Annotated[bool, Option("--search", help="Choose beta (and gamma with --unseen): minutes.")] = False,
    rank: Annotated[int | None, Option(min=1, help="Rank of the projection; else the number of labels.")] = None,
    beta: Annotated[float, Option(help="Weight of the squared norm.")] = 10.0,
    gamma: Annotated[float | None, Option(help="Weight of the transfer to --unseen; else 0.1.")] = None,
    lam: Annotated[float | None, Option(help="Weight of the relations of --source; else 0.1.")] = None,
) -> None:
    """Learn annotated labels from features; the model tags photos with these labels and with any others."""
    with one_line_errors("fit"):
        check_output(output)
        from unseen.photos.training import train

        with show_progress() as reporter:
            step = reporter.stage("choosing parameters on held-out labels, then fitting" if search else "fitting")
            trained = train(
                features, annotations, vectors=vectors, unseen=read_words(unseen, "--unseen") if unseen else (),
                relations=source, split=split, classes=classes, backbone=backbone, search=search, progress=step,
                rank=rank, beta=beta, gamma=gamma, lam=lam,
            )  # fmt: skip
        trained.model.save(output)
        _print_fit(trained)
        say(f"Model: {output}", style="bold")
        say(f"Next: unseen tag PHOTOS --model {output}")


def evaluate(
    features: _Features,
    annotations: _Annotations,
    model: _Model = None,
    backbone: _Backbone = None,
    split: _Split = None,
    output: _Page = None,
) -> None:
    """Compare tags with annotations; labels that the model was fitted on are seen, all others unseen."""
    with one_line_errors("evaluate"):
        check_output(output)
        from unseen.photos.evaluation import evaluate_photos

        tables = evaluate_photos(load_tagger(model, backbone), features, annotations, split).tables()
        for table in tables:
            print_table(table)
        if output is not None:
            write_page(output, "evaluation.html.j2", subtitle=str(features), tables=tables)


def load_tagger(model: str | None, backbone: str | None) -> PhotoTagger:
    """Tagger of ``--model`` or ``--backbone``, or the packaged one."""
    from unseen.images.backbones import DEFAULT
    from unseen.photos.tagger import PhotoTagger

    if model is not None and backbone is not None:
        raise ValueError("--model and --backbone were both given. A model knows its backbone: pass one of them.")
    return PhotoTagger.load(model) if backbone in (None, DEFAULT) else PhotoTagger.from_pair(str(backbone))


def _print_text(photo: PhotoTags) -> None:
    width = max((len(printable(one.name)) for one in photo.tags), default=0)
    console = open_console()
    say(photo.path, "bold", console)
    for one in photo.tags:
        mark, style = ("*", "green") if one.score > 0 else (" ", "dim")
        say(f"  {mark} {printable(one.name):<{width}}  {one.score:+.2f}", style, console)


def _print_json(photo: PhotoTags) -> None:
    tags = [{"label": one.name, "score": round(one.score, 6), "predicted": one.score > 0} for one in photo.tags]
    content = {"tags": tags} if photo.problem is None else {"problem": photo.problem}
    typer.echo(json.dumps({"path": photo.path, **content}, ensure_ascii=False))


def _print_csv(photo: PhotoTags) -> None:
    table = csv.writer(sys.stdout, lineterminator="\n")
    for rank, one in enumerate(photo.tags, start=1):
        table.writerow((printable(photo.path), rank, one.name, f"{one.score:.6f}", int(one.score > 0)))
    sys.stdout.flush()


def _parts_table(why: Explanation, top: int) -> Table:
    rows: list[tuple[str, ...]] = [(part.name, part.kind, f"{part.value:+.3f}") for part in why.parts[:top]]
    if why.parts[top:]:
        rest = sum(part.value for part in why.parts[top:])
        rows.append((f"{len(why.parts) - top:,} others", "", f"{rest:+.3f}"))
    rows += [("offset", "", f"{why.offset:+.3f}"), ("score", "", f"{why.score:+.3f}")]
    note = "Parts are annotated labels, classes of the backbone or training images."
    return Table(f"{why.label}: {why.score:+.2f}", ("part", "kind", "contribution"), rows, note)


def _print_fit(trained: Trained) -> None:
    from unseen.validation import counted

    tagger, data, found = trained.model.tagger, trained.data, trained.search
    learned: Any = getattr(tagger, "first_", tagger)
    what = f"{counted(tagger.n_seen_, 'label')} from {counted(len(data.rows), 'image')}"
    say(f"Learned {what}; certified gap to the optimum: {100 * learned.relative_gap_:.2f} %.")
    n_other = len(data.features) - len(data.rows)
    if n_other or data.n_unmatched:
        unmatched = f"{counted(data.n_unmatched, 'annotated image')} without features"
        say(f"Not used: {counted(n_other, 'image')} without annotations in this part, {unmatched}.")
    if found is not None:
        chosen = ", ".join(f"{name.split('__')[-1]} = {value}" for name, value in found.chosen.params.items())
        miap = f"{100 * found.chosen.mean:.1f} ± {100 * found.chosen.std_error:.1f} %"
        say(f"Chosen on held-out labels: {chosen} (MiAP there: {miap}).")
