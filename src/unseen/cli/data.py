"""`unseen data`: annotated images, from the usual data sets or a table of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from unseen.cli.terminal import check_output, one_line_errors, open_console, print_table, show_progress
from unseen.validation import counted

if TYPE_CHECKING:
    from unseen.datasets.annotations import Annotations
    from unseen.files import Progress
    from unseen.templates.report import Table

data_app = typer.Typer(no_args_is_help=True, help="Get data sets, look at annotations, convert them to a table.")

# readable=False: that a path may be read is checked where it is read, and said in one line.
_Source = Annotated[
    Path,
    typer.Argument(
        help="A VOC devkit, a folder of NUS-WIDE, a COCO instances file, a CSV or TSV.", readable=False
    ),
]
_Split = Annotated[str | None, typer.Option(help="Part to read, such as trainval or test; else all images.")]
_Year = Annotated[int | None, typer.Option(help="VOC: 2007 or 2012, if the folder holds both.")]
_Difficult = Annotated[
    str | None,
    typer.Option(help="VOC: what a label seen only in difficult objects is: absent (default), unknown."),
]
_Crowd = Annotated[
    str | None,
    typer.Option(help="COCO: what a label seen only as a crowd is: present (default), absent, unknown."),
]
_Labels = Annotated[str | None, typer.Option(help="NUS-WIDE: concepts81 (default), tags1k or both.")]
_Tristate = Annotated[
    str | None, typer.Option(help="Table of 1, 0 and -1: what 0 means, absent or unknown (as in VOC).")
]
_Form = Annotated[
    str | None, typer.Option(help="Table: lists, pairs or columns, if its column names do not tell.")
]
_Separator = Annotated[str | None, typer.Option(help="Table of lists: what separates labels in a cell.")]
_Ignore = Annotated[list[str], typer.Option(help="Table: a column that is no label; may be repeated.")]
_NONE: list[str] = []


@data_app.command("list")
def data_list() -> None:
    """List the data sets that can be downloaded."""
    from unseen.datasets.download import DATA_SETS
    from unseen.templates.report import Table

    rows = tuple(
        (name, one.title, f"{sum(one.lists.values()):,}", f"{one.n_bytes / 1e6:,.0f}")
        for name, one in DATA_SETS.items()
    )
    note = "COCO and NUS-WIDE are read as they unpack, but not downloaded here. Next: unseen data get voc2007"
    table = Table("Data sets", ("name", "what", "images", "download, MB"), rows, note)
    print_table(open_console(), table)


@data_app.command("get")
def data_get(
    name: Annotated[str, typer.Argument(help="Data set: voc2007 or voc2012.")],
    into: Annotated[Path, typer.Option(help="Folder to put it in.", readable=False)] = Path(),
) -> None:
    """Download the official archives, check them and unpack them; an interrupted download is continued."""
    console = open_console()
    with one_line_errors("data get"):
        from unseen.datasets.download import get_data_set

        with show_progress(console) as reporter:

            def stage(title: str) -> Progress:
                reporter.stage(title)
                return lambda done, total: reporter.step(done, total) if total else None

            folder = get_data_set(name, into, report=stage)
        console.print(f"[bold]Data[/]   {escape(str(folder))}", soft_wrap=True)
        console.print(f"[bold]Next[/]   unseen data show {escape(str(folder))}", soft_wrap=True)


@data_app.command("show")
def data_show(
    source: _Source,
    split: _Split = None,
    year: _Year = None,
    difficult: _Difficult = None,
    crowd: _Crowd = None,
    labels: _Labels = None,
    tristate: _Tristate = None,
    form: _Form = None,
    separator: _Separator = None,
    ignore: _Ignore = _NONE,
    most: Annotated[int, typer.Option(min=0, help="Labels to show, the most frequent ones; 0 for all.")] = 100,
) -> None:
    """Show how many images there are, and how many of them show each label."""
    with one_line_errors("data show"):
        annotations = _read(
            source, split, year=year, difficult=difficult, crowd=crowd, labels=labels, tristate=tristate,
            form=form, separator=separator, ignore=ignore or None,
        )  # fmt: skip
        print_table(open_console(), _counts_table(annotations, str(source), most))


@data_app.command("convert")
def data_convert(
    source: _Source,
    output: Annotated[Path, typer.Option("--output", "-o", help="CSV file to write.", readable=False)],
    split: _Split = None,
    year: _Year = None,
    difficult: _Difficult = None,
    crowd: _Crowd = None,
    labels: _Labels = None,
    tristate: _Tristate = None,
    form: _Form = None,
    separator: _Separator = None,
    ignore: _Ignore = _NONE,
) -> None:
    """Write annotations as a plain table: a row an image, a column a label, 1, 0, or empty for unknown."""
    with one_line_errors("data convert"):
        check_output(output)
        annotations = _read(
            source, split, year=year, difficult=difficult, crowd=crowd, labels=labels, tristate=tristate,
            form=form, separator=separator, ignore=ignore or None,
        )  # fmt: skip
        annotations.to_csv(output)
        what = f"{counted(len(annotations.images), 'image')}, {counted(len(annotations.labels), 'label')}"
        open_console().print(f"[bold]Table[/]   {escape(str(output))}: {what}", soft_wrap=True)


def _read(source: Path, split: str | None, **options: Any) -> Annotations:
    """Read annotations; an option that is None was not given."""
    from unseen.datasets import read_annotations

    return read_annotations(source, split, **{name: value for name, value in options.items() if value is not None})


def _counts_table(annotations: Annotations, source: str, most: int) -> Table:
    from collections import Counter

    from unseen.templates.report import Table

    present, absent, unknown = annotations.counts()
    n_images, n_labels = len(annotations.images), len(annotations.labels)
    # The most frequent ones if there is a choice to make; otherwise all of them in their own order.
    order = range(n_labels)
    shown = list(order) if not most or n_labels <= most else sorted(order, key=lambda i: -present[i])[:most]
    columns = ("label", "images", "share, %", *(("unknown",) if unknown.any() else ()))
    rows = []
    for i in shown:
        known = present[i] + absent[i]
        share = f"{100 * present[i] / known:.1f}" if known else "-"
        row = (annotations.labels[i], f"{present[i]:,}", share)
        rows.append((*row, f"{unknown[i]:,}") if unknown.any() else row)
    parts = Counter(annotations.split or ())
    notes = [
        counted(n_images, "image") + "".join(f", {count:,} {part}" for part, count in parts.items()),
        f"{present.sum() / n_images:.3f} labels an image",
        *([f"{counted(n_labels - len(shown), 'rarer label')}: --most 0"] if len(shown) < n_labels else []),
    ]
    return Table(
        f"{source}: {counted(n_images, 'image')}, {counted(n_labels, 'label')}",
        columns,
        tuple(rows),
        "; ".join(notes) + ".",
    )
