"""What the demonstration shows: its tables, for the terminal and the page alike, and the page itself."""

from __future__ import annotations

import numpy as np

from unseen import __version__
from unseen._demo_result import CEILING, CHANCE, DemoResult, Example, Method
from unseen.demo_photos import TaggedPhotos
from unseen.evaluation import plots
from unseen.evaluation.metrics import Summary
from unseen.templates.report import Card, Mark, Report, Table

SIMULATED = (
    "These scenes are simulated: no photograph, word vector or search engine stands behind the numbers. They show "
    "how the method works and what it reports, not how well it does on real images."
)
_COLUMNS = ("method", "MiAP", "micro-F1", "macro-F1", "Hamming loss")
_LESS_IS_BETTER = (False, False, False, True)


def result_tables(result: DemoResult) -> tuple[Table, Table]:
    """Test metrics in the zero-shot setting and in the generalized one, in per cent."""
    _, n_zero_shot, n_generalized = result.n_images
    n_unseen, n_labels = len(result.data.unseen), len(result.data.names)
    note = (
        "In per cent. MiAP: average precision of the ranking of an image's labels, mean over the images. The "
        "others judge the 3 best tags of each image. Hamming loss: less is better."
    )
    return (
        _metrics_table(
            f"Zero-shot: {n_zero_shot} test images, ranking the {n_unseen} unseen labels",
            [(method, method.zero_shot) for method in result.methods],
            note="",
        ),
        _metrics_table(
            f"Generalized: {n_generalized} test images, ranking all {n_labels} labels",
            [(method, method.generalized) for method in result.methods],
            note=note,
        ),
    )


def certificate_table(result: DemoResult) -> Table:
    """How near each fit is to its optimum, and what it cost."""
    rows = tuple(
        (
            fit.name,
            f"{fit.objective:.1f}",
            f"{fit.lower_bound:.1f}",
            f"{100 * fit.gap:.2f}%",
            str(fit.iterations),
            str(fit.epochs),
            f"{fit.seconds:.2f}",
        )
        for fit in result.certificates
    )
    return Table(
        "Certificates: how far a fit can be from the best projection there is",
        ("fit", "objective", "lower bound", "certified gap", "iterations", "passes", "seconds"),
        rows,
        note=f"Passes: over the training images, in all iterations. {result.headline} and the paper's alternation "
        "solve the same problem, so its best lower bound holds for both.",
        muted=frozenset(i for i, fit in enumerate(result.certificates) if fit.name == result.alternation),
    )


def choice_table(result: DemoResult) -> Table:
    """The hyper-parameters that class-holdout chose."""
    names = ("rank", "beta", "gamma", "lam")
    return Table(
        "Chosen on the seen labels alone, by hiding half of them in turn",
        ("method", *names, "settings tried", "MiAP on hidden labels"),
        tuple(
            (
                choice.name,
                *(f"{choice.params[name]:g}" if name in choice.params else "-" for name in names),
                str(choice.n_settings),
                f"{100 * choice.score:.1f}",
            )
            for choice in result.choices
        ),
    )


def tag_table(example: Example, result: DemoResult) -> Table:
    """Best tags of an image, with those that are true and those that nobody ever annotated marked."""
    unseen = set(result.data.unseen_labels.names)
    return Table(
        "Best tags",
        ("tag", "score", ""),
        tuple((tag.name, f"{tag.score:+.2f}", _marks(tag.name, example, unseen)) for tag in example.tags),
    )


def describe(example: Example, result: DemoResult) -> str:
    """An image in words: its scene and its labels, the unseen ones marked."""
    unseen = set(result.data.unseen_labels.names)
    return ", ".join(f"{name} (unseen)" if name in unseen else name for name in example.labels)


def why(example: Example, most: int = 3) -> str:
    """The main reasons for the best unseen tag, in a sentence."""
    parts = example.explanation.parts
    sides = [("for it", [p for p in parts if p.value > 0]), ("against it", [p for p in parts if p.value < 0])]
    named = [
        f"{side} {', '.join(f'{part.name} {part.value:+.2f}' for part in group[:most])}"
        for side, group in sides
        if group
    ]
    together = f"all {len(parts)} seen labels together {sum(part.value for part in parts):+.2f}"
    return f"{'; '.join(named)}; {together}, above the threshold {example.explanation.score:+.2f}"


def speakers(example: Example) -> str:
    """The training images that speak most for the best unseen tag."""
    return "; ".join(
        f"image {s.image}, a {s.scene} annotated {' + '.join(s.labels)} ({s.contribution:+.2f})"
        for s in example.support
    )


def build_report(result: DemoResult) -> Report:
    """The page of a demonstration.

    Parameters
    ----------
    result : DemoResult
        All that is shown.

    Returns
    -------
    Report
    """
    data, find = result.data, {method.name: method for method in result.methods}
    report = Report(
        "Tagging with labels that nobody ever annotated",
        f"Photos with tags, and a complete zero-shot experiment on simulated scenes; unseen {__version__}, "
        f"in {result.seconds:.0f} seconds{', with few images and settings (--quick)' if result.quick else ''}.",
    )
    _add_photos(report, result.photos)
    report.section("The experiment", "How such a model is made and tested, on data that can be made anywhere.")
    report.note(SIMULATED).facts(_facts(result, find))
    report.section(
        "The task",
        f"{result.n_images[0]} training images are annotated with {len(data.seen)} seen labels. "
        f"The {len(data.unseen)} unseen labels have no annotation at all: all that is known of them is a vector "
        "that stands for their meaning. The model is to find them on new images.",
    )
    report.table(
        Table(
            "Labels",
            ("", "names"),
            (
                ("seen: annotated in training", ", ".join(data.seen_labels.names)),
                ("unseen: never annotated", ", ".join(data.unseen_labels.names)),
            ),
        )
    )
    _add_examples(report, result)
    _add_results(report, result)
    _add_certificate(report, result)
    _add_map(report, result)
    options = f"--seed {result.seed}{' --quick' if result.quick else ''}"
    report.section("Do it again", "The same seed gives the same numbers, times aside.")
    return report.code(f'pip install "unseen[all]"\nunseen demo {options}')


def _add_photos(report: Report, photos: TaggedPhotos) -> None:
    if photos.missing:
        report.section("Photos").note(f"No photos were tagged: {photos.missing}")
        return
    report.section(
        "Photos",
        f"The model that comes with the package has learned {len(photos.seen)} labels from annotated photos "
        f"({', '.join(photos.seen)}). Here it chooses among {photos.n_labels} words, most of them never "
        "annotated: the classes of the backbone and the meanings of words lead from one to the other. Bold: above "
        "the photo's own threshold.",
    )
    report.gallery(photos.pictures)
    report.text("The same for your photos, and any words:")
    report.code('unseen tag photo.jpg --labels "sofa, bicycle, birthday cake"')


def _add_examples(report: Report, result: DemoResult) -> None:
    report.section(
        "Tags, and why",
        "The first test images of three scenes that show both a seen and an unseen label, with their best tags "
        "of all labels. A score above 0 is above the image's own threshold. Each score is a sum, and the bars "
        "are its terms: the evidence that the image shows a seen label, times how close that label is to the tag.",
    )
    report.cards([_card(example, result) for example in result.examples])


def _card(example: Example, result: DemoResult) -> Card:
    label = example.explanation.label
    verdict = "It is there." if label in example.labels else "It is not there: a mistake."
    return Card(
        title=f"Test image {example.image}: a {example.scene}",
        text=f"In truth it shows: {describe(example, result)}.",
        table=tag_table(example, result),
        figure=plots.contributions(example.explanation),
        caption=f"Why {label!r}, its best unseen tag? {verdict} Training images that speak most for it: "
        f"{speakers(example) or 'none'}.",
        description=f"Bars: contributions of seen labels to the score of {label!r}; {why(example, most=4)}.",
    )


def _add_results(report: Report, result: DemoResult) -> None:
    report.section(
        "Results",
        "TAEP uses label vectors alone; TAEP-H adds relations from an is-a hierarchy and TAEP-C from how often "
        "labels occur together in a large collection of tags. Hyper-parameters were chosen without any "
        "knowledge of the unseen labels; then each method was fitted on all seen labels and tested once.",
    )
    for table in (*result_tables(result), choice_table(result)):
        report.table(table)
    report.text(
        "Chance is the mean of 20 random rankings. The ceiling is no zero-shot method: it was trained on "
        "annotations of every label, the unseen ones too."
    )


def _add_certificate(report: Report, result: DemoResult) -> None:
    fits = {fit.name: fit for fit in result.certificates}
    convex, alternating = fits[result.headline], fits[result.alternation]
    traces = {
        "paper's alternation": result.traces[result.alternation],
        "convex solver": result.traces[result.headline],
    }
    report.section(
        "A certificate for every fit",
        "The method as published alternates between two exact steps, which need not converge: below full rank it "
        "tends to cycle. The same problem, relaxed to be convex, is solved to its global optimum, with a "
        "lower bound that no projection can beat: what lies between the two is all that is left to gain.",
    )
    caption = (
        f"Objective of {result.headline} after each iteration. Of the convex solver's, at most "
        f"{100 * convex.gap:.2f} % could be saved by any projection; of the alternation's, up to "
        f"{100 * alternating.gap:.2f} %."
    )
    report.figure(plots.objective_traces(traces, convex.lower_bound), caption)
    report.table(certificate_table(result))


def _add_map(report: Report, result: DemoResult) -> None:
    data = result.data
    names = (*data.seen_labels.names, *data.unseen_labels.names)
    seen = np.arange(len(names)) < len(data.seen)
    report.section(
        "What the projection does to the labels",
        "The projection keeps those directions of the label vectors along which the seen labels can be told "
        "apart on images. An unseen label is recognised by the seen labels that it then lies close to.",
    )
    report.figure(
        plots.label_map(
            dict(zip(("before projection", "after projection"), result.label_vectors, strict=True)), names, seen
        ),
        "The first two principal components before and after. A line leads from each unseen label to its nearest "
        "seen one in all dimensions, of which the map shows two.",
        "Two maps of all labels, seen and unseen, before and after projection.",
    )


def _facts(result: DemoResult, find: dict[str, Method]) -> list[tuple[str, str]]:
    best = result.headline
    fits = {fit.name: fit for fit in result.certificates}
    n_unseen = len(result.data.unseen)
    return [
        (f"{100 * find[best].zero_shot.miap:.1f} %", f"MiAP of {best} on {n_unseen} labels never annotated"),
        (f"{100 * find[CHANCE].zero_shot.miap:.1f} %", "the same for tags by chance"),
        (f"{100 * find[CEILING].zero_shot.miap:.1f} %", "the same with every label annotated"),
        (f"{100 * fits[best].gap:.2f} %", f"certified gap of {best} to the best projection there is"),
    ]


def _metrics_table(caption: str, rows: list[tuple[Method, Summary]], note: str) -> Table:
    shown = [[f"{100 * value:.1f}" for value in summary] for _, summary in rows]
    fair = [i for i, (method, _) in enumerate(rows) if method.fair]
    strong = set()
    for column, less in enumerate(_LESS_IS_BETTER):
        values = {i: float(shown[i][column]) for i in fair}
        best = min(values.values()) if less else max(values.values())
        strong |= {(i, column + 1) for i, value in values.items() if value == best}
    return Table(
        caption,
        _COLUMNS,
        tuple((method.name, *cells) for (method, _), cells in zip(rows, shown, strict=True)),
        note=note,
        strong=frozenset(strong),
        muted=frozenset(range(len(rows))) - frozenset(fair),
        strong_means="best of the methods that saw no annotation of an unseen label" if note else "",
        muted_means="for orientation" if note else "",
    )


def _marks(name: str, example: Example, unseen: set[str]) -> tuple[Mark, ...]:
    marks = [Mark("true", "good")] if name in example.labels else []
    return (*marks, Mark("unseen", "accent")) if name in unseen else tuple(marks)
