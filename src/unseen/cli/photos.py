"""`unseen fit`, `tag`, `explain` and `evaluate`: photos in, tags out."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.text import Text

from unseen.cli.terminal import check_output, one_line_errors, open_console, print_table, show_progress
from unseen.validation import counted

if TYPE_CHECKING:
    from rich.console import Console

    from unseen.photos.tagger import PhotoTagger, PhotoTags
    from unseen.photos.training import Trained
    from unseen.templates.report import Picture

_Model = Annotated[
    Path | None,
    typer.Option("--model", "-m", readable=False, help="A model of unseen fit; else the one in the box."),
]
_Features = Annotated[
    Path,
    typer.Argument(readable=False, help="Folder of unseen features, or an .npz or .npy file with a row an image."),
]
_Annotations = Annotated[
    Path,
    typer.Option(
        "--labels",
        "-l",
        readable=False,
        help="Annotations: a CSV, a VOC devkit, a COCO file, a folder of NUS-WIDE.",
    ),
]
_Sources = Annotated[
    list[str],
    typer.Option("--source", help="Relations of labels: wordnet, a CSV of hit counts, a file of tag sets."),
]
_NONE: list[str] = []


def fit(
    features: _Features,
    labels: _Annotations,
    output: Annotated[
        Path, typer.Option("--output", "-o", readable=False, help="Model file to write (.safetensors).")
    ],
    vectors: Annotated[
        str,
        typer.Option(help='Label vectors: use, minilm, glove or a file; with a prompt: "use:a photo of a {}".'),
    ] = "use",
    unseen: Annotated[
        str, typer.Option(help="Labels to transfer to, known now: names with commas, or a file.")
    ] = "",
    split: Annotated[
        str | None,
        typer.Option(help="Part of the annotations, or all; else trainval or train, if there are parts."),
    ] = None,
    source: _Sources = _NONE,
    lam: Annotated[float | None, typer.Option(help="Weight of the relations of --source; else 0.1.")] = None,
    classes: Annotated[bool, typer.Option(help="Let the backbone's own classes speak too, if it has any.")] = True,
    backbone: Annotated[
        str | None, typer.Option(help="What made the features, if their file does not say: see unseen features.")
    ] = None,
    search: Annotated[
        bool,
        typer.Option(
            "--search", help="Choose beta, with --unseen also gamma, on held-out annotated labels: minutes."
        ),
    ] = False,
    rank: Annotated[int | None, typer.Option(min=1, help="Rank of the projection; else one a seen label.")] = None,
    beta: Annotated[float, typer.Option(help="Weight of the squared norm.")] = 10.0,
    gamma: Annotated[float | None, typer.Option(help="Weight of the transfer to --unseen; else 0.1.")] = None,
) -> None:
    """Learn annotated labels from features: what unseen tag needs to propose them, and any others."""
    console = open_console()
    with one_line_errors("fit", interrupted="nothing was written"):
        check_output(output)
        from unseen.photos.training import train

        others = _names(unseen, "--unseen") if unseen else []
        if gamma is not None and not others:
            raise ValueError(
                "--gamma: it weighs the transfer to labels that are known now. Name them with --unseen."
            )
        if lam is not None and not source:
            raise ValueError("--lam: it weighs relations of labels. Say where they are from with --source.")
        with show_progress(console) as reporter:
            reporter.stage("choosing parameters on held-out labels, then fitting" if search else "fitting")
            trained = train(
                features, labels, vectors=vectors, unseen=others, split=split, classes=classes, backbone=backbone,
                sources=source, search=search, progress=reporter.step if search else None, rank=rank, beta=beta,
                gamma=0.1 if gamma is None else gamma, lam=0.1 if lam is None else lam,
            )  # fmt: skip
        trained.model.save(output)
        _print_fit(console, trained, output)


def tag(
    photos: Annotated[
        list[Path], typer.Argument(readable=False, help="Image files, folders of them, .txt or .csv lists.")
    ],
    labels: Annotated[
        str | None,
        typer.Option("--labels", "-l", help="Words to choose from: with commas, or a file; else everyday ones."),
    ] = None,
    model: _Model = None,
    top: Annotated[int, typer.Option(min=1, help="Tags a photo.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object a line and photo.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print a CSV table, a row a tag.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", readable=False, help="HTML page with the photos and tags.")
    ] = None,
) -> None:
    """Tag photos with any words, the best first; those above the photo's threshold are marked."""
    with one_line_errors("tag"):
        if as_json and as_csv:
            raise ValueError("--json and --csv were both given. Choose one.")
        if output is not None:
            check_output(output)
        names = None if labels is None else _names(labels, "--labels")
        tagged = _load(model).tag(photos, names, top)
        write = _write_json if as_json else _write_csv if as_csv else _write_text
        pictures: list[Picture] | None = None if output is None else []
        n_problems = write(_shown(tagged, pictures))
        if output is not None and pictures is not None:
            from unseen.photos.pages import tags_page

            page = tags_page(pictures).save(output)
            if not (as_json or as_csv):
                open_console().print(f"[bold]Page[/]   {escape(str(page))}", soft_wrap=True)
    if n_problems:
        raise typer.Exit(2)


def explain(
    photo: Annotated[Path, typer.Argument(readable=False, help="An image file.")],
    label: Annotated[str, typer.Option("--label", "-l", help="The word to explain.")],
    model: _Model = None,
    top: Annotated[int, typer.Option(min=1, help="Contributions of each kind.")] = 5,
) -> None:
    """Say why a photo got its score for a word: which annotated labels, classes and training images speak."""
    with one_line_errors("explain"):
        from unseen.photos.pages import explanation_tables

        tagger = _load(model)
        why = tagger.explain(photo, label)
        console = open_console()
        verdict = "above" if why.score > 0 else "below"
        console.print(f"{photo}: {why.label} {why.score:+.2f}, {verdict} the threshold.\n", markup=False)
        for table in explanation_tables(why, top):
            print_table(console, table)


def evaluate(
    features: _Features,
    labels: _Annotations,
    model: _Model = None,
    split: Annotated[
        str | None, typer.Option(help="Part of the annotations, or all; else test or val, if there are parts.")
    ] = None,
) -> None:
    """Compare tags with annotations: seen labels are those that the model was fitted on, all others are unseen."""
    console = open_console()
    with one_line_errors("evaluate"):
        from unseen.images.features import open_features
        from unseen.photos.evaluation import evaluate_photos
        from unseen.photos.pages import evaluation_tables
        from unseen.photos.training import check_features, match, read_part

        opened = open_features(features)
        data = match(opened, read_part(labels, split, ("test", "val")))
        tagger = _load(model)
        check_features(opened, tagger)
        for table in evaluation_tables(evaluate_photos(tagger, data, features)):
            print_table(console, table)


def _load(model: Path | None) -> PhotoTagger:
    from unseen.photos.tagger import PhotoTagger

    return PhotoTagger.load(model)


def _names(given: str, option: str) -> list[str]:
    from unseen.labels.pages import read_names

    return read_names(given, option)


def _shown(tagged: Iterable[PhotoTags], pictures: list[Picture] | None) -> Iterator[PhotoTags]:
    """Pass photos on with paths that can be printed; tell at once of those that cannot be read."""
    from unseen.photos.pages import picture, printable

    for photo in tagged:
        path = printable(photo.path)
        if photo.problem is not None:
            typer.echo(f"unseen tag: {path} cannot be read: {photo.problem}.", err=True)
        elif pictures is not None:
            pictures.append(picture(photo))
        yield photo._replace(path=path)


def _write_text(tagged: Iterable[PhotoTags]) -> int:
    """Print photos and their tags; return how many could not be read."""
    console, n_problems, n_tagged = open_console(), 0, 0
    for photo in tagged:
        if photo.problem is not None:
            n_problems += 1
            continue
        n_tagged += 1
        console.print(Text(photo.path, style="bold"), soft_wrap=True)
        width = max(len(one.name) for one in photo.tags)
        for one in photo.tags:
            mark, style = ("*", "green") if one.score > 0 else (" ", "dim")
            console.print(Text(f"  {mark} {one.name:<{width}}  {one.score:+.2f}", style=style))
        console.print()
    if n_tagged:
        console.print(Text("* above the photo's own threshold, which is at 0.", style="dim"))
    return n_problems


def _write_json(tagged: Iterable[PhotoTags]) -> int:
    """Print an object a photo, with its tags or its problem; return how many could not be read."""
    n_problems = 0
    for photo in tagged:
        tags = [{"label": t.name, "score": round(t.score, 6), "predicted": t.score > 0} for t in photo.tags]
        n_problems += photo.problem is not None
        said = {"tags": tags} if photo.problem is None else {"problem": photo.problem}
        typer.echo(json.dumps({"path": photo.path, **said}, ensure_ascii=False))
    return n_problems


def _write_csv(tagged: Iterable[PhotoTags]) -> int:
    """Print a row a tag; return how many photos could not be read."""
    n_problems = 0
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(("path", "rank", "label", "score", "predicted"))
    for photo in tagged:
        n_problems += photo.problem is not None
        for rank, one in enumerate(photo.tags, start=1):
            table.writerow((photo.path, rank, one.name, f"{one.score:.6f}", int(one.score > 0)))
        sys.stdout.flush()
    return n_problems


def _print_fit(console: Console, trained: Trained, output: Path) -> None:
    from unseen.photos.pages import certificate

    tagger, found = trained.model.tagger, trained.search
    n_images, n_other = len(trained.data.rows), len(trained.data.features) - len(trained.data.rows)
    what = f"{counted(tagger.n_seen_, 'label')} from {counted(n_images, 'image')}"
    console.print(f"Learned {what}. {certificate(tagger)}", markup=False)
    if n_other or trained.data.n_unmatched:
        left_out = f"{n_other:,} images with features have no annotations of this part"
        console.print(
            f"Not used: {left_out}; {trained.data.n_unmatched:,} annotated ones have no features.", style="dim"
        )
    if found is not None:
        chosen = ", ".join(f"{name.split('__')[-1]} = {value}" for name, value in found.best_params.items())
        score = f"{100 * found.best_score:.1f}"
        console.print(f"Chosen on held-out labels: {chosen} (MiAP there {score}).", markup=False)
    console.print(f"[bold]Model[/]   {escape(str(output))}", soft_wrap=True)
    console.print(f"[bold]Next[/]    unseen tag PHOTOS --model {escape(str(output))}", soft_wrap=True)
