"""What the photo commands show: tables for the terminal, and a page with the photos and their tags."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from unseen.base import Tag, ZeroShotTagger
from unseen.ensembles import Combination
from unseen.evaluation.metrics import Summary
from unseen.images.reading import read_image
from unseen.photos.evaluation import Evaluation
from unseen.photos.tagger import PhotoExplanation, PhotoTags
from unseen.taep import TAEP
from unseen.templates.report import Picture, Report, Table

TOP = 3  # tags of an image that F1 and Hamming loss judge
_SHOWN = 480  # pixels of the longer side of a photo on a page


def picture(photo: PhotoTags, title: str = "", text: str = "") -> Picture:
    """A photo with its tags, small enough for a page.

    Parameters
    ----------
    photo : PhotoTags
        A photo that could be read.
    title : str
        Printed below it; its folder and file name if empty.
    text : str
        A sentence below the tags.

    Returns
    -------
    Picture
    """
    image = read_image(photo.path)
    image.thumbnail((_SHOWN, _SHOWN))
    jpeg = io.BytesIO()
    image.save(jpeg, "JPEG", quality=80)
    tags = tuple((tag.name, f"{tag.score:+.2f}", tag.score > 0) for tag in photo.tags)
    return Picture(jpeg.getvalue(), title or printable("/".join(PurePath(photo.path).parts[-2:])), tags, text)


def tags_page(pictures: Sequence[Picture]) -> Report:
    """A page of photos and their tags.

    Parameters
    ----------
    pictures : sequence of Picture
        See `picture`.

    Returns
    -------
    Report
    """
    report = Report("Tags", f"{len(pictures):,} {'photo' if len(pictures) == 1 else 'photos'}")
    report.text("Bold: above the photo's own threshold, which is at 0.")
    return report.gallery(pictures)


def printable(path: str) -> str:
    """A path that any file and terminal takes, whatever bytes it is made of."""
    return path.encode("utf-8", "backslashreplace").decode()


def explanation_tables(why: PhotoExplanation, top: int) -> list[Table]:
    """Who speaks for a label, the most first.

    Parameters
    ----------
    why : PhotoExplanation
        What to show.
    top : int
        Rows of each table, at most.

    Returns
    -------
    list of Table
    """
    tables = []
    whole = "what the annotations say" if why.parts else "the score"
    unit = f"With a start of {why.start:+.3f} all of them sum to {whole}."
    if why.parts:
        tables.append(_contributions("The score is the sum of", "part", why.parts, len(why.parts)))
    if why.classes:
        note = "Share in the evidence of the classes that the backbone was trained on."
        rows = tuple((name, f"{100 * share:.1f} %") for name, share in why.classes[:top])
        tables.append(Table("Classes of the backbone", ("class", "share"), rows, note))
    if why.seen_labels:
        tables.append(_contributions("Annotated labels", "label", why.seen_labels, top, unit))
    if why.images:
        tables.append(_contributions("Training images", "image", why.images, top, unit))
    elif why.no_images:
        tables.append(Table(f"Training images: not shown, {why.no_images}", ("image", "contribution"), ()))
    return tables


def evaluation_tables(result: Evaluation) -> list[Table]:
    """Figures of an evaluation, in per cent.

    Parameters
    ----------
    result : Evaluation
        What to show.

    Returns
    -------
    list of Table
    """
    n_unseen = len(result.names) - result.n_seen
    settings = (
        (f"zero-shot: the {n_unseen} unseen labels", result.zero_shot),
        (f"generalized: all {len(result.names)} labels", result.generalized),
        (f"the {result.n_seen} seen labels", result.seen),
    )
    sizes = (n_unseen, len(result.names), result.n_seen)
    rows = tuple(
        (name, *_figures(summary, meaningful=size > TOP))
        for (name, summary), size in zip(settings, sizes, strict=True)
        if summary is not None
    )
    note = f"In per cent. F1 and Hamming loss judge the {TOP} best tags of an image; of the last, less is better."
    if result.n_trained_on is None:
        note += " The features have changed since the model was fitted on some of them: it may know these images."
    elif result.n_trained_on:
        note += (
            f" The model was fitted on {result.n_trained_on:,} of these images: the figures are too good. Pass "
            f"other images, or another --split."
        )
    metrics = Table(
        f"{result.n_images:,} images", ("labels", "MiAP", "micro-F1", "macro-F1", "Hamming loss"), rows, note
    )
    labels = tuple(
        (name, "seen" if i < result.n_seen else "unseen", "-" if math.isnan(value) else f"{100 * value:.1f}")
        for i, (name, value) in enumerate(zip(result.names, result.average_precision, strict=True))
    )
    note = "How well each label ranks the images, in per cent; a dash: no image shows it."
    return [metrics, Table("Each label", ("label", "at fit", "average precision"), labels, note)]


def certificate(tagger: ZeroShotTagger) -> str:
    """How near a fit is to its optimum, in a sentence; empty for a method that does not say."""
    learned: Any = tagger.first_ if isinstance(tagger, Combination) else tagger
    if not isinstance(learned, TAEP):
        return ""
    return f"Certified gap to the optimum: {100 * learned.relative_gap_:.2f} %."


def _contributions(caption: str, what: str, parts: Sequence[Tag], top: int, note: str = "") -> Table:
    rows = tuple((name, f"{value:+.3f}") for name, value in parts[:top])
    return Table(caption, (what, "contribution"), rows, note)


def _figures(summary: Summary, *, meaningful: bool) -> tuple[str, ...]:
    """MiAP, and what depends on the best tags, a dash if these are all the labels there are."""
    first, *others = (f"{100 * value:.2f}" for value in summary)
    return first, *(others if meaningful else ("-",) * len(others))
