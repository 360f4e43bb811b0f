"""PhotoTagger: photos in, tags out. A backbone, a tagger on what it sees, and a source of label vectors."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import as_file, files
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from unseen import persistence
from unseen.images._extraction import describe_each
from unseen.images.backbones import Backbone, open_backbone
from unseen.images.features import open_features
from unseen.images.knowledge import backbone_knowledge
from unseen.labels.space import LabelSpace
from unseen.rivals import Combination
from unseen.taep import TAEP
from unseen.tagger import Tag, ZeroShotTagger
from unseen.validation import check_count, check_names

__all__ = ["PhotoExplanation", "PhotoTagger", "PhotoTags", "everyday_labels"]

_BOX = "data/model.safetensors"


class PhotoTags(NamedTuple):
    """The best labels of a photo; ``problem`` says why there are none."""

    path: str
    tags: tuple[Tag, ...]
    problem: str | None = None


@dataclass(frozen=True)
class PhotoExplanation:
    """Why a photo got its score for a label.

    Attributes
    ----------
    label : str
        What was explained.
    score : float
        Margin score: above 0 the label is predicted.
    parts : tuple of Tag
        What the score is the sum of, when several sources speak: "annotations", "backbone classes", "threshold".
        Empty for a tagger without parts.
    seen_labels : tuple of Tag
        Contribution of each annotated label to what the annotations say, the largest first.
    classes : tuple of Tag
        Share of each class of the backbone in what the classes say, the largest first.
    images : tuple of Tag, or None
        Training images and their contributions to what the annotations say, the largest first; None if the
        training features are not at hand.
    """

    label: str
    score: float
    parts: tuple[Tag, ...]
    seen_labels: tuple[Tag, ...]
    classes: tuple[Tag, ...]
    images: tuple[Tag, ...] | None


class PhotoTagger:
    """Tags for photos: ``scores = tagger(backbone(photo), vectors(labels))``.

    Parameters
    ----------
    tagger : ZeroShotTagger
        Fitted on outputs of the backbone and on label vectors of the source.
    backbone : Backbone or str
        What looks at photos: see `unseen.images.backbones.open_backbone`.
    vectors : str
        Source of label vectors, by name or file: see `unseen.labels.sources.open_source`.
    inputs : tuple of {"features", "logits"}, default=("features",)
        Outputs of the backbone that the tagger's columns are, in this order.
    training : str or Path, optional
        Where the training features are, to explain by training images.
    training_rows : sequence of int, optional
        Rows of these features that the tagger was fitted on; None for all.

    Examples
    --------
    The model in the box, and any words: ``PhotoTagger.load().tag(["photo.jpg"], ["sofa", "birthday cake"])``.
    """

    def __init__(
        self,
        tagger: ZeroShotTagger,
        backbone: Backbone | str,
        vectors: str,
        *,
        inputs: Sequence[str] = ("features",),
        training: str | PathLike[str] | None = None,
        training_rows: Sequence[int] | NDArray[np.intp] | None = None,
    ) -> None:
        self.tagger = tagger
        self.backbone = open_backbone(backbone) if isinstance(backbone, str) else backbone
        self.vectors = vectors
        self.inputs = tuple(inputs)
        self.training = None if training is None else Path(training)
        self.training_rows = None if training_rows is None else np.asarray(training_rows, dtype=np.intp)
        n_columns = sum(
            {"features": self.backbone.n_features, "logits": _n_classes(self.backbone)}[i] for i in inputs
        )
        if n_columns != tagger.n_features_in_:
            raise ValueError(
                f"tagger: it was fitted on {tagger.n_features_in_} columns, but the {' and '.join(self.inputs)} "
                f"of {self.backbone.name} have {n_columns}. Pass the backbone that made its features."
            )

    @classmethod
    def load(cls, path: str | PathLike[str] | None = None) -> PhotoTagger:
        """Read a model that `save` or ``unseen fit`` wrote.

        Parameters
        ----------
        path : str or Path, optional
            A model file; None takes the model that comes with the package.

        Returns
        -------
        PhotoTagger
        """
        if path is None:
            with as_file(files("unseen.images").joinpath(_BOX)) as packaged:
                return cls.load(packaged)
        path = Path(fspath(path))
        notes = persistence.read_notes(path).get("photos")
        tagger: ZeroShotTagger = ZeroShotTagger.load(path)
        if not isinstance(notes, dict):
            raise ValueError(
                f"model: {str(path)!r} holds a tagger of features that says nothing about photos. Write it with "
                f"unseen fit, or PhotoTagger.save."
            )
        try:
            backbone = open_backbone(str(notes["backbone"]))
            fingerprint, vectors, inputs = notes["fingerprint"], str(notes["vectors"]), tuple(notes["inputs"])
            training, rows, missing = notes["training"], notes["training_rows"], notes["made_again"]
        except KeyError as error:
            raise ValueError(f"model: {str(path)!r} is damaged ({error} is missing). Fit it again.") from None
        if backbone.fingerprint != fingerprint:
            raise ValueError(
                f"model: {str(path)!r} was fitted on features of another {backbone.name!r} (other weights or "
                f"another preparation of photos). Fit it again on features of this one."
            )
        made = _class_attributes(backbone, vectors) if missing else {}
        for name, kind in missing.items():
            setattr(tagger, str(name), made[kind])
        return cls(tagger, backbone, vectors, inputs=inputs, training=training, training_rows=rows)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the tagger with what it needs to know of photos, whole or not at all.

        Parameters
        ----------
        path : str or Path
            Where to; an existing file is replaced. ``ZeroShotTagger.load`` reads the tagger alone, unless the
            vectors of the backbone's classes are left out, as they are where they can be made again.
        """
        twin, missing = copy.copy(self.tagger), {}
        made = _class_attributes(self.backbone, self.vectors) if "logits" in self.inputs else {}
        for name, value in vars(self.tagger).items():
            kind = name.rpartition("__")[-1]
            if kind in made and _equal(value, made[kind]):
                delattr(twin, name)
                missing[name] = kind
        notes = {
            "backbone": self.backbone.name,
            "fingerprint": self.backbone.fingerprint,
            "vectors": self.vectors,
            "inputs": list(self.inputs),
            "training": None if self.training is None else str(self.training.absolute()),
            "training_rows": None if self.training_rows is None else self.training_rows.tolist(),
            "made_again": missing,
        }

        def write(temporary: Path) -> None:
            twin.save(temporary)
            persistence.add_notes(temporary, {"photos": notes})

        persistence.write_atomically(Path(fspath(path)), write)

    def tag(
        self,
        photos: Iterable[str | PathLike[str]],
        labels: Sequence[str] | Mapping[str, Any] | None = None,
        top: int = 5,
    ) -> Iterator[PhotoTags]:
        """Best labels of photos, one photo after the other, in the order given.

        Parameters
        ----------
        photos : iterable of str or Path
            Image files.
        labels : sequence of str, or mapping of names to vectors, optional
            What to choose from: any words that the source of vectors knows. None: `everyday_labels` and the
            annotated labels of the model.
        top : int, default=5
            How many labels a photo, the best first.

        Yields
        ------
        PhotoTags
            A file that cannot be read has no tags, and the reason as its ``problem``.
        """
        top = check_count(top, "top")
        asked = self.label_vectors(labels)
        return self._tag([fspath(photo) for photo in photos], asked, top)

    def explain(self, photo: str | PathLike[str], label: str) -> PhotoExplanation:
        """Say which annotated labels, backbone classes and training images speak for a label.

        Parameters
        ----------
        photo : str or Path
            An image file.
        label : str
            Any word that the source of vectors knows.

        Returns
        -------
        PhotoExplanation
        """
        ((path, described, problem),) = describe_each([fspath(photo)], self.backbone)
        if described is None:
            raise ValueError(f"photo: {path!r} cannot be read: {problem}. Pass an image file.")
        return self._explain(self.columns(*described), self.label_vectors([label]))

    def label_vectors(self, labels: Sequence[str] | Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Vectors of labels: those of `fit` for labels known from there, else those of the source.

        Parameters
        ----------
        labels : sequence of str, or mapping of names to vectors, optional
            As in `tag`.

        Returns
        -------
        dict of str to ndarray
        """
        if isinstance(labels, Mapping):
            return dict(labels)
        known = dict(zip(self.tagger.label_names_, self.tagger.label_vectors_, strict=True))
        if labels is None:
            labels = [*known, *(name for name in everyday_labels() if name not in known)]
        names = check_names(labels, "labels")
        others = [name for name in names if name not in known]
        if others:
            space = LabelSpace(others, self.vectors)
            known |= dict(zip(space.names, space.vectors, strict=True))
        return {name: known[name] for name in names}

    def columns(self, features: NDArray[Any], logits: NDArray[Any] | None) -> NDArray[Any]:
        """What the tagger is given of a backbone's outputs.

        Parameters
        ----------
        features : ndarray of shape (n_images, n_features)
            Of the backbone.
        logits : ndarray of shape (n_images, n_classes), or None
            Of the backbone, if it has classes.

        Returns
        -------
        ndarray of shape (n_images, n_columns)
        """
        return stack_inputs(self.inputs, features, logits)

    def _tag(self, photos: list[str], asked: dict[str, Any], top: int) -> Iterator[PhotoTags]:
        for path, described, problem in describe_each(photos, self.backbone):
            if described is None:
                yield PhotoTags(path, (), problem)
            else:
                yield PhotoTags(path, tuple(self.tagger.tag(self.columns(*described), asked, top)[0]))

    def _explain(self, x: NDArray[Any], label: dict[str, Any]) -> PhotoExplanation:
        explain = getattr(self.tagger, "explain", None)
        if explain is None:
            raise ValueError(f"model: a {type(self.tagger).__name__} does not explain its scores.")
        why = explain(x, label)
        annotated, classes = getattr(why, "why_first", why), getattr(why, "why_second", why)
        parts: tuple[Tag, ...] = ()
        if annotated is not why:
            parts = (
                Tag("annotations", why.first),
                Tag("backbone classes", why.second),
                Tag("threshold", why.offset),
            )
        return PhotoExplanation(
            label=why.label,
            score=why.score,
            parts=parts,
            seen_labels=getattr(annotated, "seen_labels", ()),
            classes=getattr(classes, "shares", ()),
            images=self._speakers(x, label),
        )

    def _speakers(self, x: NDArray[Any], label: dict[str, Any]) -> tuple[Tag, ...] | None:
        """Training images and their contributions, if this is a TAEP and its training features are at hand."""
        learned = self.tagger.first_ if isinstance(self.tagger, Combination) else self.tagger
        if not isinstance(learned, TAEP) or self.training is None or not self.training.exists():
            return None
        features = open_features(self.training)
        rows = np.arange(len(features)) if self.training_rows is None else self.training_rows
        if len(rows) != learned.duals_.shape[0] or rows.max() >= len(features):
            return None  # the folder has changed since
        ((name, vector),) = label.items()
        own = {name: vector[: len(learned.label_center_)]}
        why = learned.explain(x[:, : learned.n_features_in_], own, features.X[rows])
        return tuple(Tag(features.paths[rows[row]], part) for row, part in why.images or ())


def stack_inputs(inputs: Sequence[str], features: NDArray[Any], logits: NDArray[Any] | None) -> NDArray[Any]:
    """Columns that a tagger is given: the named outputs of a backbone beside each other."""
    chosen = [features if name == "features" else logits for name in inputs]
    parts = [part for part in chosen if part is not None]
    if len(parts) < len(chosen):
        raise ValueError(
            "logits: the backbone has no classes, but this model needs them. Use the one it was fitted with."
        )
    return np.asarray(parts[0]) if len(parts) == 1 else np.hstack(parts)


def _class_attributes(backbone: Backbone, vectors: str) -> dict[str, Any]:
    """What a tagger keeps of the names of a backbone's classes: the same for every model, and large."""
    if backbone.class_names is None:
        return {}
    known = backbone_knowledge(backbone, vectors)
    ready = vars(known.without_training({"any": known.class_vectors.vectors[0]}))
    return {name: ready[name] for name in ("class_vectors_", "kind_vectors_", "membership_")}


def _equal(a: Any, b: Any) -> bool:
    if sp.issparse(a) or sp.issparse(b):
        return sp.issparse(a) and sp.issparse(b) and a.shape == b.shape and not (a != b).nnz
    return np.shape(a) == np.shape(b) and np.allclose(a, b, atol=1e-6)


def everyday_labels() -> tuple[str, ...]:
    """Names of things, animals, people, food and places that are often seen on photos.

    Returns
    -------
    tuple of str
    """
    text = files("unseen.labels").joinpath("data/everyday.txt").read_text(encoding="utf-8")
    return tuple(line for line in text.splitlines() if line and not line.startswith("#"))


def _n_classes(backbone: Backbone) -> int:
    return len(backbone.class_names or ())
