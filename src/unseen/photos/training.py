"""From features and annotations to a tagger of photos."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unseen.base import ZeroShotTagger
from unseen.datasets import read_annotations
from unseen.datasets.annotations import Annotations
from unseen.ensembles import Combination
from unseen.evaluation.search import SearchResult, class_holdout_search
from unseen.images.backbones import Backbone, open_backbone
from unseen.images.features import FeatureSet, open_features
from unseen.images.imagenet import backbone_knowledge
from unseen.labels.names import label_key, merge_names
from unseen.labels.relations import relate
from unseen.labels.space import LabelSpace
from unseen.photos.tagger import PhotoTagger, stack_inputs
from unseen.taep import TAEP
from unseen.validation import listed

__all__ = [
    "GRID",
    "Trained",
    "TrainingSet",
    "backbone_of",
    "check_features",
    "fit_photos",
    "make_tagger",
    "match",
    "read_part",
    "train",
]


# Searched on held-out labels: few values, since each costs several fits. The rank is that of the estimator.
GRID: Mapping[str, Sequence[Any]] = {"beta": (1.0, 3.0, 10.0), "gamma": (0.01, 0.1, 1.0)}


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """Images that have both features and annotations.

    Attributes
    ----------
    features : FeatureSet
        All features.
    rows : ndarray of int
        Rows of the features that have annotations.
    annotations : Annotations
        Their annotations, in the same order.
    n_unmatched : int
        Annotated images that have no features.
    """

    features: FeatureSet
    rows: NDArray[np.intp]
    annotations: Annotations
    n_unmatched: int = 0

    def columns(self, inputs: Sequence[str]) -> NDArray[Any]:
        """Outputs of the backbone, by name, of the images that have annotations."""
        features, rows = self.features, self.rows
        every = len(rows) == len(features)
        taken = [None if part is None else part if every else part[rows] for part in (features.X, features.logits)]
        return stack_inputs(inputs, np.asarray(taken[0]), taken[1])


class Trained(NamedTuple):
    """A fitted model, what it has learned from, and what a search found, if there was one."""

    model: PhotoTagger
    data: TrainingSet
    search: SearchResult | None


def train(
    features: str | PathLike[str],
    labels: str | PathLike[str],
    *,
    vectors: str = "use",
    unseen: Sequence[str] = (),
    split: str | None = None,
    classes: bool = True,
    backbone: str | None = None,
    sources: Sequence[str] = (),
    search: bool = False,
    progress: Callable[[int, int], None] | None = None,
    **parameters: Any,
) -> Trained:
    """Fit a tagger of photos on features and annotations in files: what ``unseen fit`` does.

    Parameters
    ----------
    features : str or Path
        A folder of `unseen.images.features.extract_features`, or a file with a row an image.
    labels : str or Path
        Annotations: a CSV, a VOC devkit, a COCO file, a folder of NUS-WIDE.
    vectors : str, default="use"
        Source of label vectors: see `unseen.labels.vectors.look_up`.
    unseen : sequence of str
        Labels to transfer to, as far as they are known now. Annotations of them are not used.
    split : str, optional
        Part of the annotations, or "all"; by default trainval or train, if they are divided into parts.
    classes : bool, default=True
        Add what the backbone's own classes say, if the features come with logits.
    backbone : str, optional
        What made the features, if their file does not say.
    sources : sequence of str
        Of relations between labels: see `unseen.labels.relations.relate`.
    search : bool, default=False
        Choose beta on held-out annotated labels, and gamma if there are unseen labels (`GRID`).
    progress : callable(done, total), optional
        Of the search.
    **parameters
        Of `TAEP`.

    Returns
    -------
    Trained
        The model, the images it has learned from, and what the search found.
    """
    grid = dict(GRID)
    if not unseen:  # gamma weighs the unseen labels
        parameters["gamma"] = 0.0
        del grid["gamma"]
    opened = open_features(fspath(features))
    network = backbone_of(opened, backbone)
    data = match(opened, read_part(labels, split, ("trainval", "train")))
    tagger, inputs = make_tagger(network, vectors, classes=classes and opened.logits is not None, **parameters)
    model, found = fit_photos(
        data,
        tagger,
        network,
        vectors=vectors,
        inputs=inputs,
        unseen=unseen,
        relations=(lambda names: relate(names, sources).matrix) if sources else None,
        grid=grid if search else None,
        folder=features,
        progress=progress,
    )
    return Trained(model, data, found)


def read_part(labels: str | PathLike[str], split: str | None, usual: Sequence[str]) -> Annotations:
    """Annotations of the part asked for; else of the first of the usual ones that is there.

    Parameters
    ----------
    labels : str or Path
        See `unseen.datasets.read_annotations`.
    split : str or None
        A part, or "all".
    usual : sequence of str
        What to take if none is asked for; one of them must be there if the annotations are divided into parts.

    Returns
    -------
    Annotations
    """
    annotations = read_annotations(labels)
    parts = dict.fromkeys(annotations.split or ())
    if split is None and parts:
        split = next((part for part in usual if part in parts), None)
        if split is None:
            raise ValueError(
                f"split: the annotations have {listed(list(parts))}, and neither {' nor '.join(usual)}. Choose "
                f"one, or all."
            )
    return annotations if split in (None, "all") else annotations.select(split=split)


def match(features: FeatureSet, annotations: Annotations) -> TrainingSet:
    """Bring features and annotations together by the names of the images.

    Parameters
    ----------
    features : FeatureSet
        Of images.
    annotations : Annotations
        Of some of them, and perhaps of others.

    Returns
    -------
    TrainingSet

    Raises
    ------
    ValueError
        If no image has both, or the features do not say whose they are.
    """
    if not features.has_names:
        raise ValueError(
            "features: they do not say of which images they are. Pass an .npz file with 'image_id' beside "
            "'features', or open them with their names: open_features(path, ids=...)."
        )
    places = annotations.rows_for(features.paths, missing="mark")
    rows = np.flatnonzero(places >= 0)
    if not len(rows):
        raise ValueError(
            f"labels: none of the {len(annotations):,} annotated images has features. Annotations name images "
            f"like {annotations.images[0]!r}, features like {features.paths[0]!r}."
        )
    matched = annotations.select([features.paths[row] for row in rows])
    return TrainingSet(features, rows, matched, len(annotations) - len(rows))


def backbone_of(features: FeatureSet, name: str | None = None) -> Backbone:
    """Open the backbone that made features.

    Parameters
    ----------
    features : FeatureSet
        Of a folder, which says what made them, or of a file made elsewhere, which does not.
    name : str, optional
        What made them, if they do not say; see `unseen.images.backbones.open_backbone`.

    Returns
    -------
    Backbone

    Raises
    ------
    ValueError
        If nobody says what made them, or what is installed is another one.
    """
    made_by = features.backbone.get("name")
    if made_by is None and name is None:
        raise ValueError(
            "backbone: these features do not say what made them. Pass its name, such as efficientnet-lite0."
        )
    backbone = open_backbone(name or str(made_by), n_threads=1)
    if made_by is not None:
        _check_fingerprint(features, backbone)
    elif features.X.shape[1] != backbone.n_features:
        raise ValueError(
            f"backbone: {backbone.name} has {backbone.n_features} features, these are {features.X.shape[1]}. "
            f"Pass the one that made them."
        )
    return backbone


def check_features(features: FeatureSet, model: PhotoTagger) -> None:
    """Raise a ValueError unless features come from the backbone that a model was fitted with.

    Parameters
    ----------
    features : FeatureSet
        To be scored. Of a file made elsewhere only the number of columns is known.
    model : PhotoTagger
        To score them.
    """
    if features.backbone:
        _check_fingerprint(features, model.backbone)
    n_features = model.backbone.n_features
    if features.X.shape[1] != n_features:
        raise ValueError(
            f"features: {features.X.shape[1]} columns, but {model.backbone.name}, which the model was fitted "
            f"with, has {n_features}. Make them with that backbone."
        )
    if "logits" in model.inputs and features.logits is None:
        raise ValueError("features: they have no logits, but the model uses them. Make them with unseen features.")


def _check_fingerprint(features: FeatureSet, backbone: Backbone) -> None:
    if features.backbone.get("fingerprint") != backbone.fingerprint:
        raise ValueError(
            f"features: they were made by {features.backbone.get('name')!r} with other weights or another "
            f"preparation of photos than {backbone.name!r} here. Make them again with unseen features."
        )


def make_tagger(
    backbone: Backbone, vectors: str, *, classes: bool = True, **parameters: Any
) -> tuple[ZeroShotTagger, tuple[str, ...]]:
    """TAEP on the features of a backbone; with its classes, if they are to speak too.

    Parameters
    ----------
    backbone : Backbone
        That makes the features.
    vectors : str
        Source of label vectors.
    classes : bool, default=True
        Add what the backbone's own classes say. Without named classes there is nothing to add.
    **parameters
        Of `TAEP`.

    Returns
    -------
    ZeroShotTagger
        To be fitted.
    tuple of str
        Outputs of the backbone that are its columns, in this order.
    """
    learned = TAEP(**parameters)
    if not classes or backbone.class_names is None:
        return learned, ("features",)
    known = backbone_knowledge(backbone, vectors)
    return Combination(learned, known, backbone.n_features), ("features", "logits")


def fit_photos(
    data: TrainingSet,
    tagger: ZeroShotTagger,
    backbone: Backbone,
    *,
    vectors: str,
    inputs: Sequence[str] = ("features",),
    unseen: Sequence[str] = (),
    relations: Callable[[Sequence[str]], ArrayLike] | None = None,
    grid: Mapping[str, Sequence[Any]] | None = None,
    folder: str | PathLike[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[PhotoTagger, SearchResult | None]:
    """Fit a tagger on features with annotations, and make it a tagger of photos.

    Parameters
    ----------
    data : TrainingSet
        What to learn from: see `match`.
    tagger : ZeroShotTagger
        What to fit, in place.
    backbone : Backbone
        That made the features.
    vectors : str
        Source of label vectors: see `unseen.labels.vectors.look_up`.
    inputs : sequence of {"features", "logits"}, default=("features",)
        What the tagger's columns are.
    unseen : sequence of str
        Labels to transfer to, as far as they are known now. Annotations of them are not used.
    relations : callable(names) -> array-like, optional
        Gives the relations between labels, the seen ones first.
    grid : mapping of str to sequence, optional
        Values of parameters to choose from, by class-holdout on the annotated labels.
    folder : str or Path, optional
        Where the features are, for explanations by training images.
    progress : callable(done, total), optional
        Of the search.

    Returns
    -------
    PhotoTagger
        The fitted one.
    SearchResult or None
        What the search found, if there was one.
    """
    held_out = set(map(label_key, unseen))
    known = [name for name in data.annotations.labels if label_key(name) not in held_out]
    if not known:
        raise ValueError("unseen: all annotated labels are unseen ones. Leave some to learn from.")
    if notes := merge_names([*known, *unseen])[1]:
        raise ValueError(f"labels: {notes[0]} Pass one of them.")
    data = _with_known_labels(data, known)
    Y = data.annotations.select(labels=known).Y
    empty = [name for name, column in zip(known, Y.T, strict=True) if not (column == 1).any()]
    if empty:
        raise ValueError(
            f"labels: no image shows {listed(empty)}. Annotate some, or leave these labels out of the annotations."
        )
    seen_labels = LabelSpace(known, vectors)
    unseen_labels = LabelSpace(unseen, vectors) if len(unseen) else None
    related = None if relations is None else np.asarray(relations([*known, *unseen]))
    if len(known) + len(unseen) == 1:  # minus its mean, nothing would be left of the only vector
        tagger.set_params(**{"first__center" if isinstance(tagger, Combination) else "center": False})
    X, found = data.columns(inputs), None
    if grid is not None:
        if isinstance(tagger, Combination):
            grid = {f"first__{name}": values for name, values in grid.items()}
        among_seen = None if related is None else related[: len(known), : len(known)]
        found = class_holdout_search(tagger, grid, X, Y, seen_labels, among_seen, progress=progress)
        tagger.set_params(**found.best_params)
    tagger.fit(X, Y, seen_labels, unseen_labels, related)
    rows = None if len(data.rows) == len(data.features) else data.rows
    return PhotoTagger(tagger, backbone, vectors, inputs=inputs, training=folder, training_rows=rows), found


def _with_known_labels(data: TrainingSet, labels: Sequence[str]) -> TrainingSet:
    """Leave out images of which nothing is known: no method learns from them."""
    Y = data.annotations.select(labels=labels).Y
    known = ~np.isnan(Y).all(axis=1)
    if known.all():
        return data
    if not known.any():
        raise ValueError("labels: every annotation is unknown. Annotate some images.")
    kept = data.annotations.select(
        [name for name, is_known in zip(data.annotations.images, known, strict=True) if is_known]
    )
    return TrainingSet(data.features, data.rows[known], kept, data.n_unmatched)
