"""`unseen data`: annotated images, from standard data sets or your own table; `unseen cache`: files of ours."""

from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.filesize import decimal
from typer import Argument, Option, Typer

from unseen.cli.terminal import check_output, one_line_errors, print_table, printable, say, show_progress
from unseen.files import cache_dir, locked
from unseen.templates import Table

if TYPE_CHECKING:
    from unseen.datasets.annotations import Annotations

data_app = Typer(no_args_is_help=True, help="Download data sets; look at annotations and convert them.")
cache_app = Typer(no_args_is_help=True, help="Look at the cache, and clear it.")
# Folders of the cache: what they hold, and how the files are called. The cache may be any folder of the user's, so
# nothing else in it is counted or removed.
KINDS = {
    "downloads": ("archives of word vectors", "glove.*.zip"),
    "word-vectors": ("vectors of words from such tables", "*.npz"),
    "label-vectors": ("vectors of texts from encoders", "*.npz"),
    "flickr": ("hit counts that Flickr answered", "answers.json"),
    "hub": ("which revision of a model of the hub is used; the models are in the hub's own cache", "*--*.txt"),
}


@data_app.command("list")
def list_data_sets() -> None:
    """List the data sets that can be downloaded."""
    from unseen.datasets.download import DATA_SETS

    rows = [
        (name, one.title, f"{sum(one.lists.values()):,}", f"{one.n_bytes / 1e6:,.0f}")
        for name, one in DATA_SETS.items()
    ]
    note = "COCO and NUS-WIDE can be read but not downloaded. Next: unseen data get voc2007"
    print_table(Table("Data sets", ("name", "content", "images", "download, MB"), rows, note))


@data_app.command("get")
def get(
    name: Annotated[str, Argument(help="Data set: voc2007 or voc2012.")],
    output: Annotated[Path, Option("--output", "-o", help="Folder to put it in; default: current.")] = Path(),
) -> None:
    """Download the official archives, verify and unpack them; run it again to resume."""
    with one_line_errors("data get", "run it again to resume"):
        from unseen.datasets.download import get_data_set

        with show_progress() as reporter:
            folder = get_data_set(name, output, report=reporter.stage)
        say(f"Data: {folder}", style="bold")
        say(f"Next: unseen data show {folder}")


@data_app.command("show")
def show(
    source: Annotated[str, Argument(help="VOC devkit, NUS-WIDE folder, COCO instances file, CSV or TSV.")],
    output: Annotated[Path | None, Option("--output", "-o", help="CSV to write, one column per label.")] = None,
    split: Annotated[str | None, Option(help="Part to read, such as trainval or test; all by default.")] = None,
    year: Annotated[int | None, Option(help="VOC: 2007 or 2012, if the folder holds both.")] = None,
    difficult: Annotated[str | None, Option(help="VOC: read difficult objects as absent or unknown.")] = None,
    crowd: Annotated[str | None, Option(help="COCO: crowd-only labels: present, absent or unknown.")] = None,
    labels: Annotated[str | None, Option(help="NUS-WIDE: concepts81 (default), tags1k or both.")] = None,
    tristate: Annotated[str | None, Option(help="Table of 1, 0, -1: 0 is absent, or unknown (as in VOC).")] = None,
    form: Annotated[str | None, Option(help="Table: lists, pairs or columns, if unclear.")] = None,
    separator: Annotated[str | None, Option(help="Table of lists: what separates the labels.")] = None,
    ignore: Annotated[list[str], Option(help="Table: a column that is not a label; repeatable.")] = [],
    most: Annotated[int, Option(min=0, help="Number of labels to show, the most frequent; 0 for all.")] = 100,
) -> None:
    """Count the images of each label; --output converts the annotations to a plain table."""
    with one_line_errors("data show"):
        from unseen.datasets import read_annotations

        check_output(output)
        options = {
            "year": year, "difficult": difficult, "crowd": crowd, "labels": labels, "tristate": tristate,
            "form": form, "separator": separator, "ignore": ignore or None,
        }  # fmt: skip
        given = {name: value for name, value in options.items() if value is not None}
        annotations = read_annotations(source, split, **given)
        print_table(_counts(annotations, source, most))
        if output is not None:
            annotations.to_csv(output)
            say(f"Table: {output}", style="bold")


def _counts(annotations: "Annotations", source: str, most: int) -> Table:
    from unseen.validation import counted

    present, absent, unknown = annotations.counts()
    n_images, n_labels = len(annotations.images), len(annotations.labels)
    # The most frequent labels if not all fit, otherwise all of them in their original order.
    order = range(n_labels) if not most or n_labels <= most else sorted(range(n_labels), key=lambda i: -present[i])
    rows = []
    for i in list(order)[: most or None]:
        known = present[i] + absent[i]
        share = f"{100 * present[i] / known:.1f}" if known else "-"
        rows.append((annotations.labels[i], f"{present[i]:,}", share, f"{unknown[i]:,}"))
    note = counted(n_images, "image") + "".join(
        f", {count:,} {part}" for part, count in Counter(annotations.split or ()).items()
    )
    note += f"; {present.sum() / n_images:.3f} labels per image."
    if len(rows) < n_labels:
        note += f" {counted(n_labels - len(rows), 'rarer label')} not shown: --most 0."
    title = f"{source}: {counted(n_images, 'image')}, {counted(n_labels, 'label')}"
    return Table(title, ("label", "images", "share, %", "unknown"), rows, note)


def _files(kind: str) -> list[Path]:
    folder = cache_dir(kind)
    if folder.is_symlink():  # its files are elsewhere
        return []
    found = [path for pattern in (KINDS[kind][1], ".*.part") for path in folder.glob(pattern)]
    return sorted(path for path in found if path.is_file() and not path.is_symlink())


@cache_app.command("show")
def show_cache() -> None:
    """List what is in the cache, by kind, and where it is."""
    with one_line_errors("cache show"):
        found = {kind: _files(kind) for kind in KINDS}
        sizes = {kind: sum(path.stat().st_size for path in files) for kind, files in found.items()}
        rows = [(kind, KINDS[kind][0], f"{len(files):,}", decimal(sizes[kind])) for kind, files in found.items()]
        note = (
            f"{decimal(sum(sizes.values()))} in all. UNSEEN_CACHE names another folder. Next: unseen cache clear"
        )
        print_table(Table(str(cache_dir()), ("kind", "content", "files", "size"), rows, note))


@cache_app.command("clear")
def clear(
    kinds: Annotated[list[str], Argument(help="Kinds to clear, as in unseen cache show; all by default.")] = [],
    yes: Annotated[bool, Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Remove files from the cache; what is needed is computed or downloaded again."""
    with one_line_errors("cache clear", "the rest is still there"):
        from unseen.validation import check_choice, counted

        chosen = [check_choice(kind, "kinds", tuple(KINDS)) for kind in kinds or KINDS]
        files = [path for kind in chosen for path in _files(kind)]
        what = f"{counted(len(files), 'file')} ({decimal(sum(path.stat().st_size for path in files))})"
        if files and not yes and not typer.confirm(printable(f"Remove {what} from {cache_dir()}?")):
            return say("Nothing was removed.")
        for path in files:
            path.unlink(missing_ok=True)
        for kind in chosen:
            for lock in cache_dir(kind).glob(".*.lock"):  # left by a kill, unless another process holds it
                with suppress(OSError), locked(lock, wait=False):
                    pass
            with suppress(OSError):  # it holds other files, or is not there
                cache_dir(kind).rmdir()
        return say(f"Removed {what} from {cache_dir()}.")
