"""train: from features and annotations to a photo tagger."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import starmap
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unseen.base import SURE, ZeroShotTagger
from unseen.datasets import read_annotations
from unseen.datasets.annotations import Annotations
from unseen.ensembles import Adapted, Combination
from unseen.evaluation.search import SearchResult, class_holdout_search
from unseen.images.backbones import Backbone, open_backbone
from unseen.images.features import FeatureSet, open_features
from unseen.images.imagenet import backbone_knowledge
from unseen.labels.names import label_key, merge_names
from unseen.labels.relations import relate
from unseen.labels.space import LabelSpace
from unseen.photos.keywords import read_keywords
from unseen.photos.library import PhotoLibrary
from unseen.photos.tagger import PhotoTagger
from unseen.photos.tags import written_words
from unseen.taep import TAEP
from unseen.templates import Table
from unseen.validation import check_choice, listed

__all__ = ["GRID", "AnnotatedImages", "Trained", "adapt", "annotated_photos", "read_annotated", "sure_tags",
           "train", "verdict"]  # fmt: skip

# Searched on held-out labels: few values, since each costs several fits.
GRID: Mapping[str, Sequence[Any]] = {"beta": (0.2, 0.5, 2.0), "gamma": (0.01, 0.03, 0.3)}
MOST_ROWS = 20  # labels in a table of sure tags
LEAST_PHOTOS = 2  # that carry a keyword, for it to be learned


class AnnotatedImages(NamedTuple):
    """All features, their rows that have annotations, these in the same order, and the number without features."""

    features: FeatureSet
    rows: NDArray[np.intp]
    annotations: Annotations
    n_unmatched: int


class Trained(NamedTuple):
    """A fitted model, the images it has learned from, and the result of the search, if there was one."""

    model: PhotoTagger
    data: AnnotatedImages
    search: SearchResult | None


def train(
    features: str | Path | FeatureSet,
    annotations: str | Path | Annotations,
    *,
    base: PhotoTagger | str | None = "packaged",
    unseen: Sequence[str] = (),
    vectors: str | None = None,
    relations: Sequence[str] = (),
    split: str | None = None,
    classes: bool = True,
    backbone: str | None = None,
    gamma: float | None = None,
    lam: float | None = None,
    search: bool = False,
    progress: Callable[[int, int], None] | None = None,
    **parameters: Any,
) -> Trained:
    """Fit a photo tagger: labels on top of the packaged model, or from scratch.

    On top: see `unseen.ensembles.Adapted`. From scratch, with ``base=None`` or features of a backbone that has no
    packaged model: TAEP, combined with the evidence of the backbone's own classes. Only this takes ``unseen``,
    ``vectors``, ``relations``, ``classes``, ``gamma``, ``lam``, ``search`` and further parameters.

    Parameters
    ----------
    features : str, Path or FeatureSet
        A folder made by `unseen.images.features.extract_features`, or a file with one row per image; for the
        photos of a library see `annotated_photos`.
    annotations : str, Path or Annotations
        A CSV, a VOC devkit, a COCO file or a folder of NUS-WIDE; see `unseen.datasets.read_annotations`.
        Different spellings of one label are merged, with a warning.
    base : PhotoTagger, "packaged" or None, default="packaged"
        The model to start from, which keeps its labels and probabilities; None to fit from scratch.
    unseen : sequence of str
        Labels to transfer to, if already known. Their annotations are not used.
    vectors : str, optional
        Source of word vectors, "use" by default; see `unseen.LabelSpace`.
    relations : sequence of str
        Sources of relations between labels; see `unseen.relate`.
    split : str, optional
        Part of the annotations, or "all"; by default "trainval" or "train", if they have parts.
    classes : bool, default=True
        Add the evidence of the backbone's classes, if the features come with logits.
    backbone : str, optional
        Backbone of the features, if not recorded in their file.
    gamma, lam : float, optional
        Weights of the transfer to ``unseen`` and of the ``relations``, 0.03 by default.
    search : bool, default=False
        Choose beta on held-out labels, and gamma if there are unseen labels: see `GRID`.
    progress : callable(done, total), optional
        Progress of the search.
    **parameters
        Parameters of `TAEP`; those of the `Combination` and its parts with their prefix, ``second__sharpness``.
    """
    for name, value, needed, given in (("gamma", gamma, "unseen", unseen), ("lam", lam, "relations", relations)):
        if value is not None and not given:
            raise ValueError(f"{name}: {value!r} was given without {needed}. Pass {needed} as well.")
        if value is not None:
            parameters[name] = value
    unseen, _ = merge_names(unseen)
    opened = features if isinstance(features, FeatureSet) else open_features(features)
    source = None if isinstance(features, FeatureSet) else features
    made_by = backbone or opened.backbone.get("name")
    if made_by is None:
        raise ValueError("backbone: not recorded in these features. Pass its name, such as efficientnet-lite0.")
    network = open_backbone(str(made_by), n_threads=1)
    check_features(opened, network)
    tagger: ZeroShotTagger
    start = _find_base(base, network)
    if start is not None:
        flags: dict[str, Any] = {"unseen": unseen, "vectors": vectors not in (None, start.vectors)}
        flags |= {"relations": relations, "classes": not classes, "search": search}
        flags |= {name: value is not None for name, value in parameters.items()}
        for name in (name for name, is_given in flags.items() if is_given):
            raise ValueError(
                f"{name}: for a fit from scratch alone. Leave it out, or add base=None (--from-scratch)."
            )
    data = _learnable(read_annotated(opened, annotations, split, ("trainval", "train")), unseen, start is None)
    rows = None if source is None or len(data.rows) == len(opened) else data.rows
    if start is not None:
        logits = None if opened.logits is None else opened.logits[data.rows]
        tagger = adapt(start, opened.X[data.rows], logits, data.annotations).tagger
        model = PhotoTagger(tagger, network, start.vectors, training=source, training_rows=rows)
        return Trained(model, data, None)
    vectors = vectors or "use"
    labels = LabelSpace([*data.annotations.labels, *unseen], vectors)
    seen, others = labels.select(data.annotations.labels), labels.select(unseen) if unseen else None
    R = relate(labels.names, relations).matrix if relations else None
    # A single vector minus its mean would be zero.
    tagger = TAEP(center=len(labels) > 1)
    prefix, X = "", opened.X[data.rows]
    if classes and opened.logits is not None and network.class_names is not None:
        tagger = Combination(tagger, backbone_knowledge(network, vectors), network.n_features)
        prefix, X = "first__", np.hstack([X, opened.logits[data.rows]])
    own = tagger.get_params()
    tagger.set_params(**{name if name in own else prefix + name: value for name, value in parameters.items()})
    found = None
    if search:
        grid = {prefix + name: values for name, values in GRID.items() if unseen or name != "gamma"}
        among_seen = None if R is None else R[: len(seen), : len(seen)]
        found = class_holdout_search(tagger, grid, X, data.annotations.Y, seen, among_seen, progress=progress)
        tagger.set_params(**found.chosen.params)
    tagger.fit(X, data.annotations.Y, seen, others, R)
    return Trained(PhotoTagger(tagger, network, vectors, training=source, training_rows=rows), data, found)


def adapt(
    base: PhotoTagger, features: NDArray[Any], logits: NDArray[Any] | None, annotations: Annotations
) -> PhotoTagger:
    """Add annotated labels to a photo tagger; all other words keep their scores. See `unseen.ensembles.Adapted`.

    Parameters
    ----------
    base : PhotoTagger
        A fitted model, such as ``PhotoTagger.load()``.
    features, logits : ndarray of shape (n_images, n_features) and (n_images, n_classes)
        Of the backbone of ``base``; logits may be None if ``base`` does not use them.
    annotations : Annotations
        Of the same images, in the same order; different spellings of one label are merged, with a warning.

    Returns
    -------
    PhotoTagger
        Its ``tagger`` is an `Adapted`, which knows how good its tags were on held-out images: `sure_tags`.
    """
    annotations = _merged(annotations)
    spelled = {label_key(name): name for name in base.tagger.label_names_}
    labels = base.label_vectors([spelled.get(label_key(name), name) for name in annotations.labels])
    tagger = Adapted(base.tagger, base.backbone.n_features)
    tagger.fit(base.columns(features, logits), annotations.Y, labels)
    return PhotoTagger(tagger, base.backbone, base.vectors)


def annotated_photos(
    library: PhotoLibrary,
    *,
    keywords: bool = False,
    complete: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[FeatureSet, Annotations]:
    """Return the photos of a library on which tags were accepted or rejected, and these annotations, for `train`.

    Parameters
    ----------
    library : PhotoLibrary
        With answers kept by `PhotoLibrary.correct`.
    keywords : bool, default=False
        Add the keywords of photos and their sidecars that at least two photos carry, but not those that unseen has
        written. Answers come first.
    complete : bool, default=False
        A photo with keywords shows none of the others. By default these are unknown: few people write down all
        that a photo shows.
    progress : callable(done, total), optional
        Progress of reading keywords.
    """
    paths = {photo.digest: photo.path for photo in library.photos()}
    carried = dict(_carried_keywords(library, paths.values(), progress)) if keywords else {}
    spelled = {label_key(word): word for words in carried.values() for word in words}
    counts = Counter(label_key(word) for words in carried.values() for word in words)
    often = {key for key, count in counts.items() if count >= LEAST_PHOTOS}
    known: dict[str, dict[str, float]] = {}
    for path, words in carried.items():
        shown = dict.fromkeys(often.intersection(map(label_key, words)), 1.0)
        known[path] = dict.fromkeys(often, 0.0) | shown if complete else shown
    for digest, word, verdict, _ in library.corrections():
        if digest in paths:
            spelled.setdefault(label_key(word), word)
            known.setdefault(paths[digest], {})[label_key(word)] = float(verdict)
    features = library.features({path for path, entries in known.items() if entries})
    labels = sorted({key for path in features.paths for key in known[path]})
    if not labels:
        raise ValueError("library: nothing to learn. Accept and reject tags (unseen review), or pass --keywords.")
    Y = [[known[path].get(key, np.nan) for key in labels] for path in features.paths]
    return features, Annotations(features.paths, [spelled[key] for key in labels], np.array(Y))


def _carried_keywords(
    library: PhotoLibrary, paths: Collection[str], progress: Callable[[int, int], None] | None
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Photos with keywords that were not written by unseen."""
    with library.journal(write=False) as journal:
        written = written_words(journal)
    for done, path in enumerate(paths, start=1):
        try:
            if words := read_keywords(path, without=written.get(path, ())):
                yield path, words
        except (OSError, ValueError) as error:
            warnings.warn(f"library: the keywords of a photo are left out. {error}", stacklevel=2)
        if progress is not None:
            progress(done, len(paths))


def sure_tags(tagger: Adapted) -> Table:
    """Precision and recall of sure tags on held-out images, before and after."""
    counts, names = tagger.sure_, tagger.label_names_[: tagger.n_own_]
    parts = {"all labels": counts.sum(axis=2)}
    if len(names) <= MOST_ROWS:
        parts |= {name: counts[:, :, c] for c, name in enumerate(names)}
    rows = []
    for name, part in parts.items():
        precision, recall = (" → ".join(starmap(_percent, part[:, [0, of]])) for of in (1, 2))
        rows.append((name, f"{part[0, 2]:,.0f}", precision, recall))
    note = "Before → after: of the packaged model alone, and with your labels."
    if not hasattr(tagger, "predict_proba"):
        note += " It is not calibrated: p is taken from the score."
    columns = ("label", "photos", "precision", "recall")
    return Table(f"Sure tags (p >= {SURE}) on held-out photos", columns, rows, note)


def verdict(tagger: Adapted) -> str:
    """Whether annotations have made the sure tags on held-out images better, in a sentence."""
    if not tagger.strength_:
        return "Nothing learned: on held-out photos the packaged model alone is as good. The new one equals it."
    right, marked, shown = tagger.sure_.sum(axis=2).T
    before, after = 1.25 * right / np.maximum(marked + 0.25 * shown, 1.0)  # F-measure; precision counts twice
    if after > before:
        return "On held-out photos your labels have made the sure tags better."
    if after == before:
        return "On held-out photos the sure tags are as good as those of the packaged model alone."
    return "On held-out photos the sure tags of the packaged model alone are better. Annotate more photos."


def read_annotated(
    features: FeatureSet, annotations: str | Path | Annotations, split: str | None, usual: Sequence[str]
) -> AnnotatedImages:
    """Match features and annotations by the names of the images; spellings of one label are merged.

    ``split`` is a part of the annotations or "all"; None takes the first of the ``usual`` parts that exists.
    """
    if not features.has_names:
        raise ValueError("features: no image names. Pass an .npz file with 'image_id' beside 'features'.")
    given = annotations if isinstance(annotations, Annotations) else read_annotations(annotations)
    parts = list(dict.fromkeys(given.split or ()))
    if split is None and parts:
        split = next((part for part in usual if part in parts), None)
        if split is None:
            raise ValueError(f"split: None was given, but there are {listed(parts)}. Choose one of them, or all.")
    given = _merged(given if split in (None, "all") else given.select(split=split))
    rows = np.flatnonzero(given.rows_for(features.paths, missing="mark") >= 0)
    if not len(rows):
        raise ValueError(
            f"annotations: none of their {len(given):,} images has features. Annotations name images like "
            f"{given.images[0]!r}, features like {features.paths[0]!r}."
        )
    matched = given.select([features.paths[row] for row in rows])
    return AnnotatedImages(features, rows, matched, len(given) - len(rows))


def check_features(features: FeatureSet, backbone: Backbone) -> None:
    """Raise a ValueError unless a backbone can have made these features."""
    fingerprint = features.backbone.get("fingerprint", backbone.fingerprint)
    if fingerprint != backbone.fingerprint or features.X.shape[1] != backbone.n_features:
        raise ValueError(
            f"features: {features.X.shape[1]} columns of {features.backbone.get('name')!r}, but {backbone.name!r} "
            f"has {backbone.n_features}, or other weights or preprocessing. Make them again with unseen features."
        )


def _find_base(base: PhotoTagger | str | None, backbone: Backbone) -> PhotoTagger | None:
    """The model to start from, or None: only some backbones have a packaged one."""
    if isinstance(base, str):
        check_choice(base, "base", ["packaged"])
        packaged = PhotoTagger.load()
        return packaged if packaged.backbone.fingerprint == backbone.fingerprint else None
    if base is not None and base.backbone.fingerprint != backbone.fingerprint:
        raise ValueError(f"base: a model for {base.backbone.name!r}, but these are features of {backbone.name!r}.")
    return base


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "-"


def _merged(annotations: Annotations) -> Annotations:
    """Merge the columns of one label: present if any is, else unknown if any is."""
    names, notes = merge_names(annotations.labels)
    for note in notes:
        warnings.warn(f"annotations: {note}", stacklevel=4)
    if not notes:
        return annotations
    columns = []
    for name in names:
        Y = annotations.Y[:, [label_key(other) == label_key(name) for other in annotations.labels]]
        columns.append(np.where((Y == 1).any(axis=1), 1.0, np.where(np.isnan(Y).any(axis=1), np.nan, 0.0)))
    return Annotations(annotations.images, names, np.column_stack(columns), annotations.split)


def _learnable(data: AnnotatedImages, unseen: Sequence[str], from_scratch: bool) -> AnnotatedImages:
    """Leave out unseen labels, and images without any known entry; from scratch, all labels must be shown."""
    held_out = set(map(label_key, unseen))
    known = [name for name in data.annotations.labels if label_key(name) not in held_out]
    if not known:
        raise ValueError("unseen: all annotated labels are unseen. Leave some to learn from.")
    annotations = data.annotations.select(labels=known)
    empty = [name for name, column in zip(known, annotations.Y.T, strict=True) if not (column == 1).any()]
    if empty and from_scratch:
        raise ValueError(f"annotations: no image shows {listed(empty)}. Annotate some, or leave these labels out.")
    rows = np.flatnonzero(~np.isnan(annotations.Y).all(axis=1))
    images = [annotations.images[row] for row in rows]
    return data._replace(rows=data.rows[rows], annotations=annotations.select(images))
