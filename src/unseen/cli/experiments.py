"""`unseen demo` and `reproduce`: whole experiments, on simulated scenes and on real data."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from unseen.cli.labels import read_words
from unseen.cli.terminal import check_output, one_line_errors, print_table, say, show_progress


def demo(
    output: Annotated[Path, Option("--output", "-o", help="HTML page to write.")] = Path("unseen-demo.html"),
    seed: Annotated[int, Option(min=0, help="Seed of the simulated scenes.")] = 0,
    quick: Annotated[bool, Option("--quick", help="Fewer images and settings; takes a few seconds.")] = False,
) -> None:
    """Tag photos, then run a zero-shot experiment on simulated scenes: a minute, no downloads."""
    with one_line_errors("demo"):
        check_output(output)
        from unseen.demo import run_demo  # the numerical libraries are loaded only when needed

        with show_progress() as reporter:
            result = run_demo(output, seed=seed, quick=quick, report=reporter.stage)
        if result.problem:
            say(f"No photos were tagged: {result.problem}")
        for _, title, tags in result.photos:
            say(f"{title}: " + ", ".join(f"{tag.name} {100 * tag.p:.0f} %" for tag in tags if tag.p is not None))
        say("")
        say("The experiment: learn 12 annotated labels of simulated scenes, tag with 12 others.")
        say("")
        for table in result.tables:
            print_table(table)
        say(f"Page: {output}", style="bold")
        say("Next: unseen tag photo.jpg --words 'sofa, birthday cake'")


def reproduce(
    name: Annotated[str | None, Argument(help="Data set: voc2007, coco or the name of your files.")] = None,
    data: Annotated[Path, Option(help="Folder with NAME_labels.csv or NAME.csv, and NAME_BACKBONE.npz.")] = Path(),
    features: Annotated[list[Path], Option(help="NPZ, NPY, CSV or a folder of unseen features.")] = [],
    annotations: Annotated[Path | None, Option("--annotations", "-a", help="A CSV, or a VOC devkit.")] = None,
    vectors: Annotated[list[str], Option(help='glove, use, "use:a photo of a {}" or a file; repeatable.')] = [],
    hit_counts: Annotated[Path | None, Option(help="CSV matrix of hit counts, for TAEP-C.")] = None,
    relations: Annotated[Path | None, Option(help="CSV matrix of WordNet path lengths, for TAEP-H.")] = None,
    seen: Annotated[list[str], Option(help="Seen labels, comma-separated or a file; else every other.")] = [],
    unseen: Annotated[list[str], Option(help="Unseen labels, given in the same way; else the rest.")] = [],
    classes: Annotated[str | None, Option(help="Published split of the labels, such as coco48/17.")] = None,
    methods: Annotated[list[str], Option(help="Methods by name, or yours as module:Name; else all.")] = [],
    splits: Annotated[int | None, Option(min=0, help="Random splits; else 5, or 3 without a search.")] = None,
    repeats: Annotated[int | None, Option(min=1, help="Runs of random methods; else 5, or 1.")] = None,
    no_search: Annotated[
        bool, Option("--no-search", "--quick", help="Default parameters; takes a few minutes.")
    ] = False,
    seed: Annotated[int, Option(min=0, help="The same seed gives the same numbers.")] = 0,
    jobs: Annotated[int, Option(help="Cells to run at once; -1 for all cores.")] = -1,
    output: Annotated[Path | None, Option("--output", "-o", help="Folder; by default reproduced-NAME.")] = None,
) -> None:
    """Make every table and figure of the paper on real data; run it again to resume."""
    with one_line_errors("reproduce", "finished cells are kept, run the same command to resume"):
        if jobs == 0:
            raise ValueError("--jobs: 0 was given. Pass 1 or more, or -1 for all cores.")
        if classes is not None and (seen or unseen):
            raise ValueError("--classes: given together with --seen or --unseen. Pass one or the other.")
        from unseen.evaluation.protocol import alternating_split, class_split, named_split
        from unseen.experiment import report, tables
        from unseen.experiment.data import read_data
        from unseen.experiment.methods import METHODS, choose_methods

        chosen = choose_methods(read_words(methods, "--methods")) if methods else METHODS
        with show_progress() as reporter:
            reporter.stage("reading the data")
            loaded = read_data(
                name, data, annotations=annotations, features=features, vectors=vectors, hit_counts=hit_counts,
                path_lengths=relations, seed=seed,
            )  # fmt: skip
            folder = output or Path(f"reproduced-{loaded.name}")
            check_output(folder / "report.html")
            sides = [
                read_words(seen, "--seen") if seen else None,
                read_words(unseen, "--unseen") if unseen else None,
            ]
            split = named_split(loaded.labels, *sides) if any(sides) else alternating_split(loaded.labels)
            split = split if classes is None else class_split(classes, loaded.labels)
            result = report.reproduce(
                loaded, folder, split=split, n_splits=(3 if no_search else 5) if splits is None else splits,
                repeats=repeats, search=not no_search, seed=seed, n_jobs=jobs,
                command=shlex.join(["unseen", *sys.argv[1:]]), stage=reporter.stage, step=reporter.step,
                methods=chosen,
            )  # fmt: skip
        say("")
        for table in (*tables.main_tables(result), *tables.published_tables(result), tables.claims_table(result)):
            if table.rows:
                print_table(table)
        for line in report.notes(result):
            say(line)
        say(f"Page: {result.folder / 'report.html'}", style="bold")
        say(f"Numbers: {result.folder}: CSV files, figures, results.md; {result.seconds / 60:.1f} minutes")
