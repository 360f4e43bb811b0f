"""What a backbone with named classes knows of any label, ready to use."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from unseen.cache import cache_dir
from unseen.images._backbone import Backbone
from unseen.images.imagenet import class_kinds, class_names
from unseen.labels.sources import open_source
from unseen.labels.space import LabelSpace
from unseen.persistence import write_atomically
from unseen.rivals.backbone import BackboneKnowledge

__all__ = ["backbone_knowledge", "imagenet_knowledge"]


def imagenet_knowledge(vectors: Any = "use", **parameters: Any) -> BackboneKnowledge:
    """`BackboneKnowledge` of the 1,000 ImageNet classes and of all that they are kinds of.

    Parameters
    ----------
    vectors : str, WordVectors or TextEncoder, default="use"
        Source of the text vectors, as in `LabelSpace`; take those of the labels from the same one.
    **parameters
        Of `BackboneKnowledge`: ``sharpness``, ``temperature``, ``smoothing``, ``center``.

    Returns
    -------
    BackboneKnowledge
        Not fitted yet.

    Examples
    --------
    >>> from unseen import LabelSpace
    >>> from unseen.images.knowledge import imagenet_knowledge
    >>> labels = LabelSpace(["cow", "television", "vehicle"], "use")  # doctest: +SKIP
    >>> tagger = imagenet_knowledge().without_training(labels)  # doctest: +SKIP
    >>> tagger.tag(logits)  # doctest: +SKIP
    """
    kinds = class_kinds()
    return BackboneKnowledge(
        _looked_up(class_names(), vectors),
        kinds=_looked_up(kinds.names, vectors),
        membership=kinds.membership,
        **parameters,
    )


def backbone_knowledge(backbone: Backbone, vectors: Any = "use", **parameters: Any) -> BackboneKnowledge:
    """`BackboneKnowledge` of the classes of a backbone.

    Parameters
    ----------
    backbone : Backbone
        With named classes. Of those of ImageNet, what they are kinds of is known as well.
    vectors : str, WordVectors or TextEncoder, default="use"
        Source of the text vectors, as in `LabelSpace`; take those of the labels from the same one.
    **parameters
        Of `BackboneKnowledge`.

    Returns
    -------
    BackboneKnowledge
        Not fitted yet.
    """
    if backbone.class_names is None:
        raise ValueError(f"backbone: {backbone.name!r} has no named classes. Use its features alone.")
    if backbone.class_names == class_names():
        return imagenet_knowledge(vectors, **parameters)
    return BackboneKnowledge(_looked_up(backbone.class_names, vectors), **parameters)


def _looked_up(names: Sequence[str], vectors: Any) -> LabelSpace:
    """Names with their vectors; those of the default text encoder take seconds and are kept in the cache."""
    if vectors != "use":
        return LabelSpace(names, vectors, missing="mean")
    open_source(vectors)  # an error if the encoder is missing, whatever the cache holds
    digest = hashlib.sha256("\n".join(names).encode()).hexdigest()
    kept = cache_dir() / "class-vectors" / f"{vectors}-{digest[:32]}.npy"
    try:
        return LabelSpace(names, np.load(kept, allow_pickle=False))
    except (OSError, ValueError):  # not there yet, or damaged
        space = LabelSpace(names, vectors)
        write_atomically(kept, lambda temporary: _write(temporary, space.vectors.astype(np.float32)))
        return LabelSpace(names, space.vectors.astype(np.float32))


def _write(path: Path, values: np.ndarray[Any, Any]) -> None:
    with path.open("wb") as file:
        np.save(file, values, allow_pickle=False)
