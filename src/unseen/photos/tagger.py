"""PhotoTagger: photos in, tags out. A backbone, a tagger on what it sees, and a source of label vectors."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import as_file, files
from itertools import islice
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unseen import model_file as persistence
from unseen.base import Tag, ZeroShotTagger
from unseen.ensembles import Combination
from unseen.explanation import Explanation
from unseen.images.backbones import Backbone, open_backbone
from unseen.images.features import FeatureSet, describe_each, open_features
from unseen.images.reading import find_images
from unseen.labels.encoders import with_absolute_path
from unseen.labels.names import everyday_labels, label_key, merge_names
from unseen.labels.space import LabelSpace
from unseen.photos._files import check_notes, damaged, digest
from unseen.taep import TAEP
from unseen.validation import check_count, check_names

__all__ = ["PhotoExplanation", "PhotoTagger", "PhotoTags", "stack_inputs"]

_BOX = "data/model.safetensors"
_PROBED = 20  # labels whose vectors are looked up again when a model is loaded
_AT_ONCE = 32  # photos scored together: what is known of the labels is worked out once for all of them


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
    start : float
        What the contributions start from: with them it sums to what the annotations say.
    seen_labels : tuple of Tag
        Contribution of each annotated label to what the annotations say, the largest first.
    classes : tuple of Tag
        Share of each class of the backbone in what the classes say, the largest first.
    images : tuple of Tag, or None
        Training images and their contributions to what the annotations say, the largest first.
    no_images : str
        Why ``images`` is None.
    """

    label: str
    score: float
    parts: tuple[Tag, ...]
    start: float
    seen_labels: tuple[Tag, ...]
    classes: tuple[Tag, ...]
    images: tuple[Tag, ...] | None
    no_images: str = ""


class PhotoTagger:
    """Tags for photos: ``scores = tagger(backbone(photo), vectors(labels))``.

    Parameters
    ----------
    tagger : ZeroShotTagger
        Fitted on outputs of the backbone and on label vectors of the source.
    backbone : Backbone or str
        What looks at photos: see `unseen.images.backbones.open_backbone`.
    vectors : str
        Source of label vectors, by name or file: see `unseen.labels.vectors.look_up`.
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
        self.backbone = open_backbone(backbone, n_threads=1) if isinstance(backbone, str) else backbone
        self.vectors = with_absolute_path(vectors)
        self.inputs = tuple(inputs)
        self.training = None if training is None else Path(training).absolute()
        self.training_rows = None if training_rows is None else np.asarray(training_rows, dtype=np.intp)
        self._training_images: str | None = None
        sizes = {"features": self.backbone.n_features, "logits": len(self.backbone.class_names or ())}
        n_columns = sum(sizes.get(name, 0) for name in self.inputs)
        if n_columns != tagger.n_features_in_:
            raise ValueError(
                f"tagger: it was fitted on {tagger.n_features_in_} columns, but the {' and '.join(self.inputs)} "
                f"of {self.backbone.name} have {n_columns}. Pass the backbone that made its features."
            )

    def __repr__(self) -> str:
        n_seen = self.tagger.n_seen_
        return f"<PhotoTagger: {n_seen} annotated labels, {self.backbone.name}, vectors of {self.vectors!r}>"

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
        tagger: ZeroShotTagger = ZeroShotTagger.load(path)
        notes = persistence.read_notes(path).get("photos")
        if not isinstance(notes, dict):
            raise ValueError(
                f"model: {str(path)!r} holds a tagger of features that says nothing about photos. Write it with "
                f"unseen fit, or PhotoTagger.save."
            )
        check_notes(notes, path)
        backbone = open_backbone(notes["backbone"], n_threads=1)
        if backbone.fingerprint != notes["fingerprint"]:
            raise ValueError(
                f"model: {str(path)!r} was fitted on features of another {backbone.name!r} (other weights or "
                f"another preparation of photos). Fit it again on features of this one."
            )
        try:
            model = cls(
                tagger, backbone, notes["vectors"], inputs=notes["inputs"], training=notes["training"],
                training_rows=notes["training_rows"],
            )  # fmt: skip
            model._training_images = notes["training_images"]
            # One score shows whether all that the tagger needs is there.
            tagger.decision_function(np.zeros((1, tagger.n_features_in_)), [tagger.label_names_[0]])
        except (AttributeError, LookupError, TypeError) as error:
            raise ValueError(damaged(path, error)) from error
        model._check_vectors(path)
        return model

    def save(self, path: str | PathLike[str]) -> None:
        """Write the tagger with what it needs to know of photos, whole or not at all.

        Parameters
        ----------
        path : str or Path
            Where to; an existing file is replaced. ``ZeroShotTagger.load`` reads the tagger alone, unless the
            vectors of the backbone's classes are left out, as they are where they can be made again.
        """
        if self._training_images is None and self.training is not None:
            self._training_images = digest(self._training_paths(open_features(self.training)))
        notes = {
            "backbone": self.backbone.name,
            "fingerprint": self.backbone.fingerprint,
            "vectors": self.vectors,
            "inputs": list(self.inputs),
            "training": None if self.training is None else str(self.training),
            "training_rows": None if self.training_rows is None else self.training_rows.tolist(),
            "training_images": self._training_images,
            "made_again": {},
        }
        persistence.save(self.tagger, Path(fspath(path)), {"photos": notes})

    def tag(
        self,
        photos: str | PathLike[str] | Iterable[str | PathLike[str]],
        labels: Sequence[str] | Mapping[str, Any] | None = None,
        top: int = 5,
    ) -> Iterator[PhotoTags]:
        """Best labels of photos, one photo after the other, in the order given; folders that cannot be read first.

        Parameters
        ----------
        photos : path or iterable of paths
            Image files, folders of them, or lists: see `unseen.images.reading.find_images`.
        labels : sequence of str, or mapping of names to vectors, optional
            What to choose from: any words that the source of vectors knows (a text encoder knows all, and scores
            even what is no word). None: the labels that the model knows by name, and `everyday_labels`.
        top : int, default=5
            How many labels a photo, the best first.

        Yields
        ------
        PhotoTags
            A file that cannot be read has no tags, and the reason as its ``problem``.
        """
        top = check_count(top, "top")
        asked = self.label_vectors(labels)
        given = [photos] if isinstance(photos, str | PathLike) else photos
        found = find_images([Path(fspath(photo)) for photo in given])
        return self._tag(found.paths, found.problems, asked, top)

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
            As in `tag`. A name is known however its letters are written ("Car"), and the glued names of data sets
            are taken apart: see `label_key`.

        Returns
        -------
        dict of str to ndarray
        """
        if isinstance(labels, Mapping):
            return dict(labels)
        names, vectors = self.tagger.label_names_, self.tagger.label_vectors_
        known = {label_key(name): vector for name, vector in zip(names, vectors, strict=True)}
        if labels is None:
            return dict(zip(names, vectors, strict=True)) | self._everyday(known)
        asked, _ = merge_names(check_names(labels, "labels"))
        others = [name for name in asked if label_key(name) not in known]
        found = dict(zip(others, LabelSpace(others, self.vectors).vectors, strict=True)) if others else {}
        return {name: found[name] if name in found else known[label_key(name)] for name in asked}

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

    def _everyday(self, known: Mapping[str, Any]) -> dict[str, Any]:
        """Everyday words that are not known yet, as far as the source has vectors for them."""
        others = [name for name in everyday_labels() if label_key(name) not in known]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that a small table lacks many of them is no surprise
            try:
                space = LabelSpace(others, self.vectors, missing="skip")
            except ValueError:  # it has none of them
                return {}
        return dict(zip(space.names, space.vectors, strict=True))

    def _tag(
        self, photos: Sequence[str], problems: Sequence[tuple[str, str]], asked: dict[str, Any], top: int
    ) -> Iterator[PhotoTags]:
        for path, reason in problems:
            yield PhotoTags(path, (), reason)
        described = describe_each(photos, self.backbone)
        while block := list(islice(described, _AT_ONCE)):
            rows = [self.columns(*outputs) for _, outputs, _ in block if outputs is not None]
            tags = iter(self.tagger.tag(np.vstack(rows), asked, top) if rows else ())
            for path, outputs, problem in block:
                yield PhotoTags(path, () if outputs is None else tuple(next(tags)), problem)

    def _explain(self, x: NDArray[Any], label: dict[str, Any]) -> PhotoExplanation:
        why = self.tagger.explain(x, label)
        images, no_images = self._speakers(x, label)
        labels, classes = _of_kind(why, "label"), _of_kind(why, "class")
        return PhotoExplanation(why.label, why.score, (), why.offset, labels, classes, images, no_images)

    def _speakers(self, x: NDArray[Any], label: dict[str, Any]) -> tuple[tuple[Tag, ...] | None, str]:
        """Training images and their contributions, in the learned tagger's units; or why they are not known."""
        learned = self.tagger.first_ if isinstance(self.tagger, Combination) else self.tagger
        if not isinstance(learned, TAEP):
            return None, f"a {type(learned).__name__} keeps no training images"
        if self.training is None:
            return None, "the training images are not part of this model"
        if not self.training.exists():
            return None, f"the training features {str(self.training)!r} are gone"
        features = open_features(self.training)
        paths = self._training_paths(features)
        if not self.knows_training_images(features):
            return None, f"the training features {str(self.training)!r} have changed since"
        X = features.X if self.training_rows is None else features.X[self.training_rows]
        try:
            tagger: Any = self.tagger
            why = tagger.explain(x, label, X)
        except ValueError:  # contributions that do not sum to the score
            return None, f"the training features {str(self.training)!r} have changed since"
        return tuple(Tag(paths[int(part.name)], part.score) for part in _of_kind(why, "image")), ""

    def knows_training_images(self, features: FeatureSet) -> bool:
        """Whether features are still those that the model was fitted on: the same images in the same rows.

        Parameters
        ----------
        features : FeatureSet
            What is in the folder of the training features now.

        Returns
        -------
        bool
        """
        return self._training_images is None or digest(self._training_paths(features)) == self._training_images

    def _training_paths(self, features: FeatureSet) -> list[str]:
        """Names of the training images; fewer if the features have changed."""
        rows = range(len(features)) if self.training_rows is None else self.training_rows
        return [features.paths[row] for row in rows if row < len(features)]

    def _check_vectors(self, path: Path) -> None:
        """Refuse a source that gives labels other vectors than it did at `fit`; a sample of them will show it."""
        names, fitted = self.tagger.label_names_[:_PROBED], self.tagger.label_vectors_[:_PROBED]
        now = LabelSpace(names, self.vectors).vectors
        if now.shape != fitted.shape or np.linalg.norm(now - fitted) > 1e-3 * np.linalg.norm(fitted):
            raise ValueError(
                f"model: {str(path)!r} was fitted with other label vectors than {self.vectors!r} gives now. Fit "
                f"it again."
            )


def stack_inputs(inputs: Sequence[str], features: NDArray[Any], logits: NDArray[Any] | None) -> NDArray[Any]:
    """Columns that a tagger is given: the named outputs of a backbone beside each other.

    Parameters
    ----------
    inputs : sequence of {"features", "logits"}
        Which.
    features : ndarray of shape (n_images, n_features)
        Of the backbone.
    logits : ndarray of shape (n_images, n_classes), or None
        Of the backbone, if it has classes.

    Returns
    -------
    ndarray of shape (n_images, n_columns)
    """
    chosen = [features if name == "features" else logits for name in inputs]
    parts = [part for part in chosen if part is not None]
    if len(parts) < len(chosen):
        raise ValueError(
            "logits: the backbone has no classes, but this model needs them. Use the one it was fitted with."
        )
    return np.asarray(parts[0]) if len(parts) == 1 else np.hstack(parts)


def _of_kind(why: Explanation, kind: str) -> tuple[Tag, ...]:
    return tuple(Tag(part.name, part.value) for part in why.parts if part.kind == kind)
