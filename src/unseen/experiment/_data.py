"""A data set as experiments take it: annotations, features of one or more backbones, label vectors, relations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.preprocessing import normalize

from unseen.ensembles import BackboneKnowledge
from unseen.evaluation.protocol import check_rows
from unseen.experiment._cells import fingerprint
from unseen.experiment.methods import Method
from unseen.labels.space import LabelSpace
from unseen.validation import check_matrix, check_names, check_relations, check_targets

Matrices = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class SideBySide:
    """Label vectors of several sources side by side, each centred over the labels in use and of unit length.

    `select` says which labels are in use: the mean over all of them would tell a search on the seen labels
    something of the unseen ones.

    Attributes
    ----------
    parts : tuple of LabelSpace
        The sources, of the same labels.
    """

    parts: tuple[LabelSpace, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """All labels."""
        return self.parts[0].names

    @property
    def vectors(self) -> NDArray[Any]:
        """Vectors of all labels, in use together."""
        return self.select(self.names).vectors

    def select(self, names: Sequence[str]) -> LabelSpace:
        """Vectors of some labels, in use together."""
        first, *others = (part.select(names).centered().normalized() for part in self.parts)
        return first.beside(*others)


@dataclass(frozen=True, eq=False)
class ExperimentData:
    """All that an experiment looks at.

    Parameters
    ----------
    name : str
        Of the data set; "voc2007" and "voc2012" are compared with the paper.
    labels : tuple of str
        Names of the columns of ``Y``.
    Y : array of shape (n_images, n_labels)
        1 present, 0 absent, NaN unknown.
    is_train : array of shape (n_images,), bool
        Images to learn from; the others test.
    features : mapping of str to array of shape (n_images, n_features)
        By backbone; the first is the one of the tables.
    vectors : mapping of str to LabelSpace or SideBySide
        By source; vectors of the labels, the first for the tables.
    logits : mapping of str to array of shape (n_images, n_classes)
        Class scores of some of the backbones.
    classes : mapping of str to BackboneKnowledge
        By source; what the names of the backbone's classes mean, in a tagger that is not fitted.
    relations : mapping of str to array of shape (n_labels, n_labels)
        "hierarchy" and "hit counts", as far as there are any.
    """

    name: str
    labels: tuple[str, ...]
    Y: NDArray[Any]
    is_train: NDArray[np.bool_]
    features: Matrices
    vectors: Mapping[str, LabelSpace | SideBySide]
    logits: Matrices = field(default_factory=dict)
    classes: Mapping[str, BackboneKnowledge] = field(default_factory=dict)
    relations: Matrices = field(default_factory=dict)

    def __post_init__(self) -> None:
        labels = check_names(self.labels, "labels")
        Y = check_matrix(self.Y, "Y")
        check_targets(Y, "Y")
        if Y.shape[1] != len(labels):
            raise ValueError(f"Y: {Y.shape[1]} columns for {len(labels)} labels. Pass one column a label.")
        if self.is_train.dtype != np.bool_:
            raise ValueError(f"is_train: its type is {self.is_train.dtype}. Pass True or False for each image.")
        if self.is_train.shape != (len(Y),) or self.is_train.all() or not self.is_train.any():
            raise ValueError("is_train: pass one flag an image, with images on both sides.")
        if not self.features or not self.vectors:
            raise ValueError("features, vectors: pass at least one of each.")
        for name, matrix in (*self.features.items(), *self.logits.items()):
            if not np.isfinite(check_rows(matrix, len(Y)).sum(dtype=np.float64)):
                raise ValueError(f"features: those of {name!r} are not all finite. Extract them again.")
        for source, space in self.vectors.items():
            if space.names != labels:
                raise ValueError(f"vectors: those of {source!r} are not of the labels, in their order.")
        for matrix in self.relations.values():
            check_relations(matrix, labels)

    @property
    def main_features(self) -> str:
        """The backbone of the tables."""
        return next(iter(self.features))

    @property
    def main_vectors(self) -> str:
        """The label vectors of the tables."""
        return next(iter(self.vectors))

    def lacks(self, method: Method) -> str | None:
        """What the data set would need for a method, in words, or None if it has it all."""
        if method.needs_relations and method.relations is not None and self.related(method) is None:
            return f"there are no relations by {method.relations}"
        if method.columns != "features" and not self.backbone(method):
            return "no backbone with class logits is there"
        if method.columns != "features" and not self.sources(method):
            return "the names of the backbone's classes have no vectors"
        return None

    def backbone(self, method: Method) -> str | None:
        """Whose features or logits a method works on: that of the tables, or the first with logits for those."""
        if method.columns == "features":
            return self.main_features
        return next((name for name in self.features if name in self.logits), None)

    def used(self, method: Method, backbone: str) -> tuple[str, ...]:
        """Backbones that a method works on, one or all, given the one whose features or logits it takes."""
        return tuple(self.features) if method.columns == "all" else (backbone,)

    def inputs(self, method: Method, backbone: str) -> str:
        """The same in words."""
        return " + ".join(self.used(method, backbone))

    def sources(self, method: Method) -> tuple[str, ...]:
        """Sources of label vectors that a method chooses from."""
        known = self.vectors if method.columns == "features" else self.classes
        return tuple(source for source in method.vectors if source in known) or tuple(known)[:1]

    def related(self, method: Method) -> NDArray[Any] | None:
        """Relations that a method is given, if there are any."""
        return None if method.relations is None else self.relations.get(method.relations)

    def n_features(self, method: Method, backbone: str) -> int:
        """Columns of features; a method that takes logits alone has none of them in its X."""
        return sum(self.features[name].shape[1] for name in self.used(method, backbone))

    def columns(self, method: Method, backbone: str) -> NDArray[Any]:
        """The X of a method."""
        if method.columns == "features":
            return self.features[backbone]
        if method.columns == "logits":
            return self.logits[backbone]
        features = [self.features[name] for name in self.used(method, backbone)]
        if method.columns == "all":
            # Half precision cannot hold the squares of long rows.
            features = [normalize(block.astype(np.result_type(block, np.float32))) for block in features]
        return np.hstack([*features, self.logits[backbone]])

    def fingerprints(self) -> dict[str, str]:
        """Hash of each part, by name."""
        parts: dict[str, Any] = {"annotations": fingerprint(list(self.labels), self.Y, self.is_train)}
        for kind, matrices in (
            ("features", self.features),
            ("logits", self.logits),
            ("relations", self.relations),
        ):
            parts |= {f"{kind} {name}": fingerprint(matrix) for name, matrix in matrices.items()}
        parts |= {f"vectors {name}": fingerprint(list(x.names), x.vectors) for name, x in self.vectors.items()}
        for name, known in self.classes.items():
            spaces = [space for space in (known.class_vectors, known.kinds) if space is not None]
            kinds = [] if known.membership is None else [csr_array(known.membership).toarray()]
            parts[f"classes {name}"] = fingerprint(
                *(part for x in spaces for part in (list(x.names), x.vectors)), len(spaces), *kinds
            )
        return parts
